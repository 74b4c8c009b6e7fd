/* What lower modules may know of the caller (core/current.h, tty/session.h). */
#include "core/current.h"
#include "mm/mm.h"
#include "proc/task.h"
#include "tty/session.h"
#include "tty/tty.h"
#include <asm/signal.h>

struct task *current_task(void) { return this_carrier()->task; }
const struct cred *current_cred(void) { return current_task()->cred; }
struct fs_info *current_fs(void) { return current_task()->fs; }
struct files *current_files(void) { return current_task()->files; }

long current_unshare_files(void)
{
    struct task *t = current_task();
    struct files *old = t->files, *f = files_unshare(old);
    if (!f)
        return -ENOMEM;
    if (f == old)
        return 0;
    mutex_lock(&tasklist_lock); /* /proc and pidfd_getfd find it by the task */
    t->files = f;
    mutex_unlock(&tasklist_lock);
    files_put(old);
    return 0;
}

/* Others do it on their way out of the kernel, where running ones are sent. */
void current_file_cut(void)
{
    struct task *me = current_task(), *t;
    mm_files_cut(me->mm);
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1)) {
        if (g->zombie)
            continue;
        list_for_each(t, &g->tasks, tg_link)
            if (!t->exited && t->mm != me->mm) {
                atomic_or(&t->core.work, WORK_CUT);
                if (atomic_load(&t->core.wake) != WAKE_SLEEPING)
                    task_kick(t);
            }
    }
    mutex_unlock(&tasklist_lock);
}

struct mm *current_mm(void) { return current_task()->mm; }
u32 current_tid(void) { return current_task()->tid; }
u32 current_tgid(void) { return current_task()->tg->tgid; }
u64 current_rlimit(int r) { return current_task()->tg->rlimits[r][0]; }
bool signal_pending(void) { return current_task()->core.work & (WORK_SIGNAL | WORK_EXIT | WORK_PTRACE); }

bool cred_in_group(const struct cred *c, u32 gid)
{
    if (c->fsgid == gid)
        return true;
    for (u32 i = 0; i < c->group_count; i++)
        if (c->groups[i] == gid)
            return true;
    return false;
}

bool capable(int cap) { return (current_cred()->cap_effective >> cap) & 1; }

void send_signal_current(int sig)
{
    u8 info[128];
    if (sig == SIGPIPE && current_task()->partial.done)
        return; /* the write had done a part before it was frozen: that is its result */
    siginfo_user(info, sig, 0x80, 0, 0); /* SI_KERNEL */
    mutex_lock(&tasklist_lock);
    signal_send_locked(current_task()->tg, current_task(), sig, info);
    mutex_unlock(&tasklist_lock);
}

long signal_pgrp(u32 pgid, int sig)
{
    u8 info[128];
    long r = -ESRCH;
    siginfo_user(info, sig, 0x80, 0, 0);
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(1); g; g = tgroup_next_locked(g->tgid + 1))
        if (g->pgid == pgid && !g->zombie)
            r = sig ? signal_send_locked(g, NULL, sig, info) : 0;
    mutex_unlock(&tasklist_lock);
    return r;
}

long signal_pid(u32 pid, int sig)
{
    u8 info[128];
    siginfo_user(info, sig, 0x80, 0, 0);
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(pid);
    long r = !t ? -ESRCH : sig ? signal_send_locked(t->tg, NULL, sig, info) : 0;
    mutex_unlock(&tasklist_lock);
    return r;
}

static struct tgroup *session_leader(void)
{
    return tgroup_find_locked(current_task()->tg->sid);
}

struct tty *session_tty(void)
{
    mutex_lock(&tasklist_lock);
    struct tgroup *l = session_leader();
    struct tty *t = l ? l->tty : NULL;
    if (t)
        tty_get(t);
    mutex_unlock(&tasklist_lock);
    return t;
}

long session_set_tty(struct tty *t)
{
    mutex_lock(&tasklist_lock);
    struct tgroup *l = session_leader();
    if (l)
        l->tty = t;
    mutex_unlock(&tasklist_lock);
    return l ? 0 : -EPERM;
}

u32 current_pgrp(void) { return current_task()->tg->pgid; }
u32 current_sid(void) { return current_task()->tg->sid; }

bool pgrp_in_session(u32 pgid, u32 sid)
{
    bool found = false;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(1); g && !found; g = tgroup_next_locked(g->tgid + 1))
        found = g->pgid == pgid && g->sid == sid;
    mutex_unlock(&tasklist_lock);
    return found;
}

bool pgrp_orphaned(u32 pgid)
{
    bool orphaned = true;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(1); g && orphaned; g = tgroup_next_locked(g->tgid + 1))
        if (g->pgid == pgid && !g->zombie && g->parent && g->parent->pgid != pgid && g->parent->sid == g->sid)
            orphaned = false;
    mutex_unlock(&tasklist_lock);
    return orphaned;
}

bool signal_ignored(int sig)
{
    struct task *t = current_task();
    return (t->blocked & SIGSET(sig)) || t->tg->actions[sig - 1].handler == 1;
}
