/* Tasks whose host process was killed from outside: by a memory limit's OOM killer, by the filter (SIGSYS), by an administrator.
 *
 * The host marks the lock `alive` that a carrier holds as long as it carries a task (core/mutex.h); init's service thread
 * looks for such marks once in a while and ends these tasks in their place, as SIGKILL would: their files are closed, the
 * parent is told. What the dead task was just doing is lost. Did it hold a lock of the kernel, the next contender
 * gives up. Was it inside a call, it may still hold references that nobody knows, to files above all: others would wait for ever
 * for the end of its pipes, so the sandbox ends with a report. Asleep it tells by its queues what it holds. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/futex.h"
#include "proc/task.h"
#include "vfs/fs_info.h"
#include <asm/signal.h>

/* The group behind g in the tree below init, depth first. */
static struct tgroup *next_group(struct tgroup *g)
{
    if (!list_empty(&g->children))
        return list_first(&g->children, struct tgroup, sibling);
    for (; !g->virtual_init; g = g->parent)
        if (g->sibling.next != &g->parent->children)
            return list_entry(g->sibling.next, struct tgroup, sibling);
    return NULL;
}

/* It may also have died before it could take the mark: between the host's clone and alive_begin(). */
bool carrier_died(const struct task_core *t)
{
    u32 tid = atomic_load(&t->host_tid);
    if (mutex_died(&t->alive))
        return true;
    return !atomic_load_relaxed(&t->alive.word) && tid && !host_exists(t->host_pid ? t->host_pid : tid, tid) &&
           atomic_load(&t->host_tid) == tid; /* not if it has just ended by itself */
}

static struct task *find_dead_locked(void)
{
    struct task *t;
    for (struct tgroup *g = next_group(tgroup_find_locked(INIT_PID)); g; g = next_group(g))
        list_for_each(t, &g->tasks, tg_link)
            if (carrier_died(&t->core))
                return t;
    return NULL;
}

static bool may_hold_files(const struct task *t)
{
    if (atomic_load(&t->parked) != TASK_RUNS && !t->obeys) /* at the boundary of its call */
        return false;
    if (t->core.in_kernel && atomic_load(&t->core.wake) != WAKE_SLEEPING)
        return true;
    for (u32 i = 0; i < t->core.waiter_count; i++)
        if (t->core.waiters[i].q != &t->tg->child_wait && t->core.waiters[i].q != &t->tg->stop_wait)
            return true;
    return false;
}

/* As task_exit() in the task's place; its memory and its host process are gone. */
static void reap(struct task *t)
{
    struct tgroup *tg = t->tg;
    struct files *files = t->files;
    struct fs_info *fs = t->fs;
    t->killed_outside = true;
    wait_finish(); /* its waiters: current_task() is t */
    futex_forget(t);
    vfork_release(t);
    kfree(t->frozen);
    t->frozen = NULL;
    mutex_lock(&tasklist_lock);
    t->files = NULL;
    t->fs = NULL;
    tg->group_exit = true;
    tg->exit_code = SIGKILL;
    bool last = ++tg->leaving == tg->live;
    mutex_unlock(&tasklist_lock);
    if (files)
        files_put(files);
    if (fs)
        fs_info_put(fs);
    if (t->mm && t->mm->users && atomic_sub(&t->mm->users, 1) == 0)
        mm_drop(t->mm);
    task_ended(t, tg, last);
}

void tasks_reap_dead(void)
{
    struct carrier *c = this_carrier();
    struct task *init = c->task;
    stubs_reap_dead();
    for (;;) {
        mutex_lock(&tasklist_lock);
        struct task *t = find_dead_locked();
        if (t)
            memset(&t->core.alive, 0, sizeof(t->core.alive)), t->core.host_tid = 0;
        mutex_unlock(&tasklist_lock);
        if (!t)
            return;
        if (may_hold_files(t))
            give_up(137, "process %u (%.16s) was killed from outside (out of memory?) inside a system call; the sandbox ends",
                    t->tg->tgid, t->comm);
        klog("process %u (%.16s) was killed from outside", t->tg->tgid, t->comm);
        struct mm *mm = t->mm;
        c->task = t;
        reap(t);
        c->task = init;
        if (mm) {
            atomic_sub(&mm->live_carriers, 1);
            mm_put(mm);
        }
    }
}
