/* Task and process tables. */
#include "proc/task.h"
#include "core/config.h"
#include "core/usage.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "vfs/fs_info.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/exec.h"
#include "proc/freeze.h"
#include "proc/pidfd.h"
#include "proc/ptrace.h"
#include <linux/resource.h>
#include <linux/time.h>

KSTATE struct mutex tasklist_lock;
static KSTATE_LARGE struct task *pid_task[PID_MAX];
static KSTATE u32 last_pid, task_count;
static KSTATE u32 high_pid; /* the highest given so far: nothing is above it */

static u32 pid_alloc_locked(struct task *t)
{
    for (u32 i = 1; i < PID_MAX; i++) {
        u32 p = (last_pid + i) % PID_MAX;
        if (p < 2 || pid_task[p])
            continue;
        pid_task[p] = t;
        high_pid = MAX(high_pid, p);
        return last_pid = p;
    }
    return 0;
}

struct task *task_find_locked(u32 tid) { return tid < PID_MAX ? pid_task[tid] : NULL; }

struct tgroup *tgroup_find_locked(u32 pid)
{
    struct task *t = task_find_locked(pid);
    return t && t->tg->tgid == pid ? t->tg : NULL;
}

struct tgroup *tgroup_next_locked(u32 from)
{
    for (u32 p = from; p <= high_pid; p++)
        if (pid_task[p] && pid_task[p]->tg->tgid == p)
            return pid_task[p]->tg;
    return NULL;
}

u32 task_total(void) { return atomic_load_relaxed(&task_count); }

/* RLIMIT_NPROC: counted only when there are so many tasks at all. */
bool too_many_tasks(void)
{
    u64 limit = current_rlimit(RLIMIT_NPROC), n = 0;
    const struct cred *c = current_cred();
    if (!c->uid || limit == ~0ull || task_count <= limit || capable(21) || capable(24))
        return false;
    mutex_lock(&tasklist_lock);
    for (u32 p = 2; p <= high_pid; p++)
        n += pid_task[p] && pid_task[p]->cred && pid_task[p]->cred->uid == c->uid;
    mutex_unlock(&tasklist_lock);
    return n >= limit;
}

struct tgroup *tgroup_alloc(struct tgroup *like)
{
    struct tgroup *tg = knew(struct tgroup);
    if (!tg)
        return NULL;
    tg->session_no = ~0u;
    tg->exit_signal = 17;
    tg->start_time = host_clock(CLOCK_MONOTONIC);
    if (like) {
        memcpy(tg->actions, like->actions, sizeof(tg->actions));
        memcpy(tg->rlimits, like->rlimits, sizeof(tg->rlimits));
        tg->pgid = like->pgid;
        tg->sid = like->sid;
        tg->no_dump = like->no_dump;
        tg->oom_adj = like->oom_adj;
        tg->oom_adj_min = like->oom_adj_min;
        return tg;
    }
    for (int i = 0; i < 16; i++)
        tg->rlimits[i][0] = tg->rlimits[i][1] = ~0ull;
    tg->rlimits[RLIMIT_NOFILE][1] = NOFILE_MAX;
    tg->rlimits[RLIMIT_NOFILE][0] = MIN(tg->rlimits[RLIMIT_NOFILE][1], 1024ul);
    tg->rlimits[RLIMIT_STACK][0] = 8 << 20;
    tg->rlimits[RLIMIT_CORE][0] = 0;
    tg->rlimits[RLIMIT_MEMLOCK][0] = tg->rlimits[RLIMIT_MEMLOCK][1] = 8 << 20;
    memset(tg->rlimits[RLIMIT_NICE], 0, 16);
    memset(tg->rlimits[RLIMIT_RTPRIO], 0, 16);
    tg->rlimits[RLIMIT_MSGQUEUE][0] = tg->rlimits[RLIMIT_MSGQUEUE][1] = 819200;
    tg->rlimits[RLIMIT_NPROC][0] = tg->rlimits[RLIMIT_NPROC][1] = boot_config()->pids_max ? boot_config()->pids_max : 16384;
    tg->rlimits[RLIMIT_SIGPENDING][0] = tg->rlimits[RLIMIT_SIGPENDING][1] = 4096;
    return tg;
}

/* The new task is in the pid table and in tg, but nobody runs it yet. */
struct task *task_alloc(struct task *like, struct tgroup *tg)
{
    struct task *t = knew(struct task);
    if (!t)
        return NULL;
    t->tg = tg;
    t->tls = ~0ull;
    if (like) {
        t->blocked = like->blocked;
        t->affinity = like->affinity;
        t->personality = like->personality;
        t->ioprio = like->ioprio;
        t->timerslack = t->timerslack_default = like->timerslack;
        if (!like->reset_on_fork) {
            t->nice = like->nice;
            t->policy = like->policy;
        }
        memcpy(t->comm, like->comm, sizeof(t->comm));
    }
    mutex_lock(&tasklist_lock);
    u32 most = boot_config()->pids_max;
    t->tid = most && task_count >= most ? 0 : pid_alloc_locked(t);
    if (t->tid) {
        task_count++;
        if (!tg->leader) {
            tg->leader = t;
            tg->tgid = t->tid;
        }
        if (freeze_begun())
            t->core.work = WORK_FREEZE;
        if (like && like->tg == tg) /* who ends or stops the group has not seen it */
            t->core.work |= (atomic_load(&like->core.work) & WORK_EXIT) | (tg->stop_sig ? WORK_SIGNAL : 0);
        tg->live++;
        list_add_tail(&tg->tasks, &t->tg_link);
    }
    mutex_unlock(&tasklist_lock);
    if (!t->tid) {
        kfree(t);
        return NULL;
    }
    return t;
}

/* Its own, while its group is still there. */
void signal_drop_pending_locked(struct task *t)
{
    struct sigqueue *q;
    list_for_each(q, &t->pending.queue, link) {
        list_del(&q->link);
        t->tg->queued--;
        kfree(q);
    }
}

/* tasklist_lock held for the table; frees what it owns no more: files and the like are put by the exit path. */
void task_free(struct task *t)
{
    pid_task[t->tid] = NULL;
    task_count--;
    signal_drop_pending_locked(t);
    cred_put(t->cred);
    if (t->pt) {
        ptrace_unlink_locked(t->pt);
        ptrace_free(t->pt);
    }
    if (!t->killed_outside)
        kfree(t);
}

void tgroup_release_locked(struct tgroup *tg)
{
    pidfd_gone_locked(tg);
    struct sigqueue *q;
    list_for_each(q, &tg->shared.queue, link)
        kfree(q);
    if (list_linked(&tg->sibling))
        list_del(&tg->sibling);
    task_free(tg->leader);
    kfree(tg);
}

void task_kick(struct task *t)
{
    /* The word must change: between its last look at `work` and the host's futex wait the sleeper misses a bare wake. */
    if (atomic_cas(&t->core.wake, WAKE_SLEEPING, WAKE_RUNNING))
        wake_word(&t->core.wake);
    else if (t != current_task() && t->core.host_tid)
        host_kick(t->core.host_pid, t->core.host_tid);
    freeze_kick(t);
}

void task_replace_leader_locked(struct task *me)
{
    struct task *old = me->tg->leader;
    u32 tgid = me->tg->tgid;
    pid_task[me->tid] = NULL;
    task_free(old);
    me->tid = tgid;
    if (me->pt)
        me->pt->tid = tgid;
    pid_task[tgid] = me;
    me->tg->leader = me;
}

/* The kernel's own process 1: adopts and reaps orphans; its carrier is init's service thread. */
struct task *task_make_init(void)
{
    struct tgroup *tg = tgroup_alloc(NULL);
    struct task *t = knew(struct task);
    if (!tg || !t)
        return NULL;
    tg->virtual_init = true;
    tg->leader = t;
    tg->tgid = tg->pgid = tg->sid = t->tid = INIT_PID;
    tg->live = 1;
    t->tg = tg;
    t->tls = ~0ull;
    t->blocked = ~0ull;
    list_add_tail(&tg->tasks, &t->tg_link);
    str_copy(t->comm, "init", sizeof(t->comm));
    pid_task[INIT_PID] = t;
    last_pid = high_pid = INIT_PID;
    return t;
}
