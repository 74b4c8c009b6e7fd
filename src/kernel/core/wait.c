/* See wait.h. */
#include "core/wait.h"
#include "core/current.h"
#include "core/errno.h"
#include "core/panic.h"
#include "core/task_core.h"
#include "core/config.h"

static struct task_core *core(struct task *t) { return (struct task_core *)t; }

void waitq_add(struct waitq *q, struct waiter *w)
{
    w->q = q;
    mutex_lock(&q->lock);
    if (w->exclusive)
        list_add_tail(&q->waiters, &w->link);
    else
        list_add(&q->waiters, &w->link);
    mutex_unlock(&q->lock);
}

void waitq_remove(struct waiter *w)
{
    struct waitq *q = w->q;
    mutex_lock(&q->lock);
    if (list_linked(&w->link))
        list_del(&w->link);
    mutex_unlock(&q->lock);
    w->q = NULL;
}

void wait_begin(void) { atomic_xchg(&core(current_task())->wake, WAKE_RUNNING); }

static void prepare(struct waitq *q, bool exclusive)
{
    struct task_core *t = core(current_task());
    wait_begin();
    for (u32 i = t->waiter_base; i < t->waiter_count; i++) {
        struct waiter *w = &t->waiters[i];
        if (w->q != q)
            continue;
        if (!list_linked(&w->link)) /* an exclusive wake took it off */
            waitq_add(q, w);
        return;
    }
    BUG_ON(t->waiter_count == TASK_WAITERS);
    struct waiter *w = &t->waiters[t->waiter_count++];
    *w = (struct waiter){.task = current_task(), .exclusive = exclusive};
    waitq_add(q, w);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void wait_prepare(struct waitq *q) { prepare(q, false); }
void wait_prepare_exclusive(struct waitq *q) { prepare(q, true); }

void wait_finish(void)
{
    struct task_core *t = core(current_task());
    for (u32 i = t->waiter_base; i < t->waiter_count; i++)
        waitq_remove(&t->waiters[i]);
    t->waiter_count = t->waiter_base;
}

/* A host sleep and its wake-up cost 5 to 40 us; the answer of a partner that runs on another CPU comes sooner. So a task first
 * watches its word for SPIN_CYCLES, as long as that pays: after SPIN_MISSES vain tries in a row only each SPIN_RETRYth time. */
#define SPIN_CYCLES 100000
#define SPIN_MISSES 2
#define SPIN_RETRY 32

static void spin(struct task_core *t, u32 interrupt)
{
    if (t->spin_misses >= SPIN_MISSES && ++t->spin_skipped < SPIN_RETRY)
        return;
    t->spin_skipped = 0;
    u64 start = __builtin_ia32_rdtsc();
    do {
        for (int i = 0; i < 8; i++) {
            if (atomic_load_relaxed(&t->wake) == WAKE_PENDING || (atomic_load_relaxed(&t->work) & interrupt)) {
                t->spin_misses = 0;
                return;
            }
            cpu_relax();
        }
    } while (__builtin_ia32_rdtsc() - start < SPIN_CYCLES);
    t->spin_misses++;
}

static long interrupted(struct task_core *t)
{
    t->froze = !(atomic_load(&t->work) & (WORK_SIGNAL | WORK_EXIT));
    return -EINTR;
}

void visits_serve(void) __attribute__((weak)); /* proc/visit.c */

static long sleep_until(u64 deadline, u32 interrupt)
{
    struct task_core *t = core(current_task());
    /* Visits are served in any sleep that freezing may end. They may sleep themselves: the sleeper looks at its condition again. */
    bool serves = interrupt & WORK_FREEZE && visits_serve && mutex_none_held();
    if (boot_config()->cpu_count > 1)
        spin(t, interrupt);
    for (;;) {
        if (atomic_load(&t->wake) == WAKE_PENDING) {
            atomic_xchg(&t->wake, WAKE_RUNNING); /* as wait_begin() */
            return 0;
        }
        if (atomic_load(&t->work) & interrupt)
            return interrupted(t);
        if (unlikely(atomic_load(&t->work) & WORK_VISIT) && serves) {
            u32 base = t->waiter_base;
            t->waiter_base = t->waiter_count;
            visits_serve();
            t->waiter_base = base;
            return 0;
        }
        if (!atomic_cas(&t->wake, WAKE_RUNNING, WAKE_SLEEPING))
            continue;
        if (atomic_load(&t->work) & interrupt) {
            atomic_cas(&t->wake, WAKE_SLEEPING, WAKE_RUNNING);
            return interrupted(t);
        }
        if (unlikely(atomic_load(&t->work) & WORK_VISIT) && serves) {
            atomic_cas(&t->wake, WAKE_SLEEPING, WAKE_RUNNING);
            continue;
        }
        long r = host_futex_wait(&t->wake, WAKE_SLEEPING, deadline);
        atomic_cas(&t->wake, WAKE_SLEEPING, WAKE_RUNNING);
        if (r == -ETIMEDOUT && atomic_load(&t->wake) != WAKE_PENDING)
            return -ETIMEDOUT;
    }
}

long wait_sleep(u64 deadline) { return sleep_until(deadline, WORK_SIGNAL | WORK_EXIT | WORK_FREEZE | WORK_PTRACE); }
long wait_sleep_freezable(u64 deadline) { return sleep_until(deadline, WORK_EXIT | WORK_FREEZE); }
long wait_sleep_killable(u64 deadline) { return sleep_until(deadline, WORK_EXIT); }

void task_wake(struct task *task)
{
    struct task_core *t = core(task);
    if (atomic_xchg(&t->wake, WAKE_PENDING) == WAKE_SLEEPING)
        wake_word(&t->wake);
}

static void wake(struct waitq *q, u32 events, bool all)
{
    if (!waitq_active(q))
        return;
    mutex_lock(&q->lock);
    struct waiter *w;
    list_for_each(w, &q->waiters, link) {
        bool taken = true;
        if (w->func)
            taken = w->func(w, events);
        else
            task_wake(w->task);
        if (w->exclusive && taken && !all) {
            if (!w->func)
                list_del(&w->link);
            break;
        }
    }
    mutex_unlock(&q->lock);
}

void wake_up(struct waitq *q, u32 events) { wake(q, events, false); }
void wake_up_all(struct waitq *q, u32 events) { wake(q, events, true); }
