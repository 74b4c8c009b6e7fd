/* membarrier(2): when it returns, every other thread concerned has passed a full barrier. A thread that sleeps in the kernel passes
 * one when it goes on; all others are kicked through the exit path, which clears WORK_BARRIER with an atomic operation. */
#include "core/current.h"
#include "host/host.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <linux/membarrier.h>

#define SUPPORTED                                                                                                      \
    (MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED |              \
     MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |                                    \
     MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)

/* Asks (first time) or counts who has not passed yet. */
static u32 pass_locked(struct tgroup *tg, bool ask)
{
    struct task *t;
    u32 left = 0;
    list_for_each(t, &tg->tasks, tg_link) {
        if (t == current_task() || t->exited || atomic_load(&t->core.wake) == WAKE_SLEEPING)
            continue;
        if (ask) {
            atomic_or(&t->core.work, WORK_BARRIER);
            task_kick(t);
        }
        left += (atomic_load(&t->core.work) & WORK_BARRIER) != 0;
    }
    return left;
}

static long barrier(bool global)
{
    u32 left;
    bool ask = true;
    do {
        left = 0;
        mutex_lock(&tasklist_lock);
        struct tgroup *me = current_task()->tg;
        if (!global)
            left = pass_locked(me, ask);
        else
            for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
                left += g->zombie ? 0 : pass_locked(g, ask);
        mutex_unlock(&tasklist_lock);
        ask = false;
        atomic_and(&current_task()->core.work, ~WORK_BARRIER); /* another caller may be waiting for this one */
        if (left)
            host_yield();
        if (current_task()->core.work & WORK_EXIT)
            break;
    } while (left);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return 0;
}

SYSCALL3(membarrier, int, cmd, u32, flags, int, cpu)
{
    (void)cpu;
    if (flags)
        return -EINVAL;
    struct tgroup *tg = current_task()->tg;
    switch (cmd) {
    case MEMBARRIER_CMD_QUERY:
        return SUPPORTED;
    case MEMBARRIER_CMD_GLOBAL:
    case MEMBARRIER_CMD_GLOBAL_EXPEDITED:
        return barrier(true);
    case MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED:
        return 0;
    case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED:
    case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE:
        atomic_or(&tg->membarrier, (u32)cmd);
        return 0;
    case MEMBARRIER_CMD_PRIVATE_EXPEDITED:
    case MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE:
        return atomic_load(&tg->membarrier) & (u32)cmd << 1 ? barrier(false) : -EPERM;
    }
    return -EINVAL;
}
