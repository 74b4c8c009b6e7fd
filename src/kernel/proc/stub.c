/* Stubs: host processes that init forked beforehand, waiting for a task to carry. A task is handed over with its program
 * (task->exec) and an empty mm; the stub loads it and becomes its carrier for good.
 *
 * A sandbox that spawns programs keeps spares; one that does not has none: they are made once a hand-over was asked for,
 * and leave when STUB_PATIENCE has passed without another. */
#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/exec.h"
#include "proc/slot.h"
#include "proc/task.h"

#define STUBS 8
#define STUBS_SPARE 2
#define STUB_PATIENCE 10000000000ull /* ns */

enum { STUB_FREE, STUB_MAKING, STUB_IDLE, STUB_GIVEN }; /* MAKING: nobody may give it away yet */

static KSTATE struct {
    struct mutex lock;
    struct waitq wait; /* for an idle one */
    u32 idle, wanted;
    u32 failures; /* of making one */
    struct {
        u32 state, host_tid;
        struct mutex alive; /* until the task's begins */
        struct task *task;
    } stub[STUBS];
} pool;

extern void enter_guest(struct regs *frame) __attribute__((noreturn)); /* entry.S */

/* Nobody needed it: it ends, unless it is given away this very moment. */
static void stub_retire(int i)
{
    bool idle;
    mutex_lock(&pool.lock);
    idle = pool.stub[i].state == STUB_IDLE;
    if (idle) {
        pool.stub[i].alive.word = 0;
        pool.stub[i].state = STUB_FREE;
        pool.idle--;
        pool.wanted = 0;
    }
    mutex_unlock(&pool.lock);
    if (idle)
        host_exit_process(0);
}

static noreturn_fn void stub_main(int i)
{
    struct carrier *c = this_carrier();
    c->tid = pool.stub[i].host_tid;
    robust_begin(c);
    alive_begin(&pool.stub[i].alive);
    u64 deadline = host_clock(CLOCK_MONOTONIC) + STUB_PATIENCE;
    while (atomic_load(&pool.stub[i].state) == STUB_MAKING)
        host_yield();
    while (atomic_load(&pool.stub[i].state) != STUB_GIVEN)
        if (host_futex_wait(&pool.stub[i].state, STUB_IDLE, deadline) == -ETIMEDOUT)
            stub_retire(i);
    struct task *t = pool.stub[i].task;
    c->task = t;
    t->slot = 0;
    t->mm->live_carriers = t->mm->users = 1;
    t->mm->carriers[0] = t->mm->carriers_mapped[0] = 1;
    t->core.host_pid = c->tid;
    atomic_store(&t->core.host_tid, c->tid);
    alive_begin(&t->core.alive);
    pool.stub[i].alive.word = 0;
    atomic_store(&pool.stub[i].state, STUB_FREE);
    service_wake();
    cputime_enter_stub(t);
    struct exec_args *a = t->exec;
    t->exec = NULL;
    exec_finish(t, a);
    enter_guest((struct regs *)(c->kstack_top - sizeof(struct regs)));
}

void stubs_reset(void) { memset(&pool, 0, sizeof(pool)); }
u32 stubs_wanted(void) { return atomic_load(&pool.wanted); }

long stubs_refill(u32 wanted)
{
    bool made = false;
    long r = 0;
    for (int i = 0; i < STUBS && atomic_load(&pool.idle) < wanted; i++) {
        if (atomic_load(&pool.stub[i].state) != STUB_FREE)
            continue;
        pool.stub[i].state = STUB_MAKING;
        r = host_clone_process(HOST_CLONE_PROCESS, &pool.stub[i].host_tid);
        if (r == 0)
            stub_main(i);
        if (r < 0) {
            pool.stub[i].state = STUB_FREE;
            klog("cannot make a spare stub: error %ld", -r);
            atomic_add(&pool.failures, 1);
            break;
        }
        mutex_lock(&pool.lock);
        atomic_store(&pool.stub[i].state, STUB_IDLE);
        atomic_add(&pool.idle, 1);
        mutex_unlock(&pool.lock);
        made = true;
    }
    if (made || r < 0)
        wake_up_all(&pool.wait, 1);
    return r < 0 && !atomic_load(&pool.idle) ? r : 0;
}

/* It may also have died before it could take its mark. */
static bool stub_died(int i)
{
    u32 tid = pool.stub[i].host_tid;
    if (mutex_died(&pool.stub[i].alive))
        return true;
    return atomic_load(&pool.stub[i].state) != STUB_FREE && !atomic_load(&pool.stub[i].alive.word) && !host_exists(tid, tid);
}

/* By init, which makes them; tasklist_lock is not held. A spare that was killed is forgotten; a task it was to carry counts as killed
 * with it. */
void stubs_reap_dead(void)
{
    mutex_lock(&pool.lock);
    for (int i = 0; i < STUBS; i++) {
        if (!stub_died(i))
            continue;
        if (pool.stub[i].state == STUB_IDLE)
            atomic_sub(&pool.idle, 1);
        else if (pool.stub[i].state == STUB_GIVEN)
            pool.stub[i].task->core.alive.word = MUTEX_DIED;
        pool.stub[i].alive.word = 0;
        atomic_store(&pool.stub[i].state, STUB_FREE);
    }
    mutex_unlock(&pool.lock);
}

static bool try_give(struct task *t)
{
    bool given = false;
    mutex_lock(&pool.lock);
    for (int i = 0; i < STUBS && !given && pool.idle; i++)
        if (pool.stub[i].state == STUB_IDLE) {
            pool.stub[i].task = t;
            t->core.host_tid = 0;
            atomic_sub(&pool.idle, 1);
            atomic_store(&pool.stub[i].state, STUB_GIVEN);
            host_futex_wake(&pool.stub[i].state, 1);
            given = true;
        }
    mutex_unlock(&pool.lock);
    return given;
}

long stub_hand_over(struct task *t)
{
    if (current_task()->tid == INIT_PID)
        return try_give(t) ? 0 : -EAGAIN;
    atomic_store(&pool.wanted, STUBS_SPARE);
    u32 failures = atomic_load(&pool.failures);
    while (!try_give(t)) {
        wait_prepare(&pool.wait);
        if (atomic_load(&pool.idle)) {
            wait_finish();
            continue;
        }
        if (atomic_load(&pool.failures) != failures) { /* a limit of the host; init tries again when asked the next time */
            wait_finish();
            return -EAGAIN;
        }
        service_wake();
        long r = wait_sleep_killable(NO_DEADLINE);
        wait_finish();
        if (r)
            return r;
    }
    return 0;
}
