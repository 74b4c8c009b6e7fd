/* See visit.h. Lock order: tasklist_lock, then mm->visit_lock (a leaf). */
#include "proc/visit.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/task.h"
#include <linux/time.h>

#define ASK_AGAIN_NS 20000000ull

enum { QUEUED, SERVED, DONE };

struct visit {
    struct list link;
    struct task *who;
    u64 addr, size, done;
    u32 how, state;
    char data[];
};

void visits_serve(void)
{
    struct task *t = current_task();
    struct mm *mm = t->mm;
    u32 in_kernel = t->core.in_kernel;
    t->core.in_kernel = 1; /* somebody waits for it: dead.c */
    atomic_and(&t->core.work, ~WORK_VISIT);
    for (;;) {
        mutex_lock(&mm->visit_lock);
        struct visit *v = list_first(&mm->visits, struct visit, link);
        if (v) {
            list_del(&v->link);
            v->state = SERVED;
        }
        mutex_unlock(&mm->visit_lock);
        if (!v)
            break;
        v->done = mm_access(mm, v->addr, v->data, v->size, v->how);
        mutex_lock(&mm->visit_lock);
        atomic_store(&v->state, DONE);
        task_wake(v->who);
        mutex_unlock(&mm->visit_lock);
    }
    t->core.in_kernel = in_kernel;
}

/* The n-th choice; a sleeping task is not disturbed by it, so such are asked first. */
static bool ask_one(struct mm *mm, u32 tid, u32 n)
{
    struct task *it, *best = NULL;
    u32 count = 0;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(tid);
    if (t)
        list_for_each(it, &t->tg->tasks, tg_link) {
            if (it->exited || it->mm != mm)
                continue;
            bool sleeps = atomic_load(&it->core.wake) == WAKE_SLEEPING;
            if (n ? count == 0 || count <= n % 64 : !best || sleeps)
                best = it;
            count++;
            if (!n && sleeps)
                break;
        }
    if (best) {
        atomic_or(&best->core.work, WORK_VISIT);
        task_kick(best);
    }
    mutex_unlock(&tasklist_lock);
    return best != NULL;
}

/* False: it is being served already, or was. */
static bool take_back(struct mm *mm, struct visit *v)
{
    mutex_lock(&mm->visit_lock);
    bool queued = v->state == QUEUED;
    if (queued)
        list_del(&v->link);
    mutex_unlock(&mm->visit_lock);
    return queued;
}

static long wait_for(struct mm *mm, u32 tid, struct visit *v)
{
    struct task *me = current_task();
    bool froze = me->core.froze;
    long r = 0;
    for (u32 n = 0; atomic_load(&v->state) != DONE; n++) {
        if (!ask_one(mm, tid, n) && take_back(mm, v)) {
            r = -ESRCH;
            break;
        }
        u64 deadline = host_clock(CLOCK_MONOTONIC) + ASK_AGAIN_NS;
        long e = 0;
        while (!e && atomic_load(&v->state) != DONE) {
            wait_begin();
            if (atomic_load(&v->state) == DONE)
                break;
            e = wait_sleep_freezable(deadline);
        }
        if (e != -EINTR)
            continue;
        if (take_back(mm, v))
            return -ERESTARTNOINTR;
        while (atomic_load(&v->state) != DONE)
            host_yield();
    }
    me->core.froze = froze;
    return r;
}

long visit(struct mm *mm, u32 tid, u64 addr, void *buf, u64 size, u32 how)
{
    size = MIN(size, (u64)VISIT_MAX);
    if (mm == current_mm())
        return (long)mm_access(mm, addr, buf, size, how);
    struct visit *v = kmalloc(sizeof(*v) + size);
    if (!v)
        return -ENOMEM;
    *v = (struct visit){.who = current_task(), .addr = addr, .size = size, .how = how};
    if (how & MM_WRITE)
        memcpy(v->data, buf, size);
    mutex_lock(&mm->visit_lock);
    list_add_tail(&mm->visits, &v->link);
    mutex_unlock(&mm->visit_lock);
    long r = wait_for(mm, tid, v);
    if (!r) {
        r = (long)v->done;
        if (!(how & MM_WRITE))
            memcpy(buf, v->data, v->done);
    }
    mutex_lock(&mm->visit_lock); /* whoever served it has woken us: it looks at v until then */
    mutex_unlock(&mm->visit_lock);
    kfree(v);
    return r;
}
