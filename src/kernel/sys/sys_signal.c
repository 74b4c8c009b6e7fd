/* Signal calls. */
#include "base/string.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "proc/signal.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <asm/signal.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define UNBLOCKABLE (SIGSET(SIGKILL) | SIGSET(SIGSTOP))

SYSCALL4(rt_sigaction, int, sig, uptr, new, uptr, old, u64, size)
{
    struct ksigaction a, o;
    if (size != 8 || sig < 1 || sig > 64 || (new && (sig == SIGKILL || sig == SIGSTOP)))
        return -EINVAL;
    if (new && copy_from_user(&a, new, sizeof(a)))
        return -EFAULT;
    struct tgroup *tg = current_task()->tg;
    mutex_lock(&tasklist_lock);
    o = tg->actions[sig - 1];
    if (new) {
        a.mask &= ~UNBLOCKABLE;
        tg->actions[sig - 1] = a;
        signal_drop_ignored_locked(tg, sig);
    }
    mutex_unlock(&tasklist_lock);
    return old && copy_to_user(old, &o, sizeof(o)) ? -EFAULT : 0;
}

SYSCALL4(rt_sigprocmask, int, how, uptr, set, uptr, old, u64, size)
{
    struct task *t = current_task();
    u64 m, before = t->blocked;
    if (size != 8)
        return -EINVAL;
    if (set) {
        if (get_user(m, set))
            return -EFAULT;
        if (how < 0 || how > 2)
            return -EINVAL;
        m = how == SIG_BLOCK ? before | m : how == SIG_UNBLOCK ? before & ~m : m;
        if ((m & ~UNBLOCKABLE) != before)
            signal_set_mask(t, m);
    }
    return old ? put_user(before, old) : 0;
}

SYSCALL2(rt_sigpending, uptr, set, u64, size)
{
    if (size > 8)
        return -EINVAL;
    u64 p = signal_pending_set() & current_task()->blocked;
    return copy_to_user(set, &p, size);
}

SYSCALL2(rt_sigsuspend, uptr, set, u64, size)
{
    u64 m;
    if (size != 8)
        return -EINVAL;
    if (get_user(m, set))
        return -EFAULT;
    signal_set_temp_mask(m);
    while (!signal_pending()) {
        wait_begin();
        if (wait_sleep(NO_DEADLINE))
            break;
    }
    return -ERESTARTNOHAND;
}

SYSCALL0(pause)
{
    while (!signal_pending()) {
        wait_begin();
        if (wait_sleep(NO_DEADLINE))
            break;
    }
    return -ERESTARTNOHAND;
}

SYSCALL4(rt_sigtimedwait, uptr, set, uptr, uinfo, uptr, ts, u64, size)
{
    u64 m, deadline = NO_DEADLINE;
    u8 info[128];
    struct __kernel_timespec t;
    if (size != 8)
        return -EINVAL;
    if (get_user(m, set) || (ts && copy_from_user(&t, ts, sizeof(t))))
        return -EFAULT;
    if (ts) {
        if (t.tv_sec < 0 || (u64)t.tv_nsec >= 1000000000ull)
            return -EINVAL;
        deadline = call_deadline((u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec);
    }
    m &= ~UNBLOCKABLE;
    long sig, r = 0;
    for (;;) {
        wait_prepare(signal_waitq());
        sig = signal_dequeue(m, info);
        if (sig || r)
            break;
        r = wait_sleep(deadline);
    }
    wait_finish();
    if (!sig)
        return r == -ETIMEDOUT ? -EAGAIN : -EINTR;
    return uinfo && copy_to_user(uinfo, info, 128) ? -EFAULT : sig;
}

static bool may_signal(struct tgroup *tg)
{
    const struct cred *me = current_cred(), *c = tg->leader->cred;
    return !c || capable(5) || me->euid == c->uid || me->euid == c->suid || me->uid == c->uid || me->uid == c->suid;
}

long signal_send_checked_locked(struct tgroup *tg, struct task *t, int sig, const void *info)
{
    bool cont = sig == SIGCONT && tg->sid == current_task()->tg->sid;
    if (!cont && !may_signal(tg))
        return -EPERM;
    return sig ? signal_send_locked(tg, t, sig, info) : 0;
}

static long send(struct tgroup *tg, struct task *t, int sig, int code)
{
    u8 info[128];
    siginfo_user(info, sig, code, current_tgid(), current_cred()->uid);
    return signal_send_checked_locked(tg, t, sig, info);
}

long signal_send_pgrp_locked(u32 pgid, int sig, const void *info)
{
    long r = -ESRCH;
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        if (g->pgid == pgid) {
            long e = signal_send_checked_locked(g, NULL, sig, info);
            r = r == -ESRCH || e == 0 ? e : r;
        }
    return r;
}

/* ptrace(2), "ptrace access mode checking": by the fs ids (PTRACE_MODE_FSCREDS) or the real ones. */
static bool may_reach(struct tgroup *tg, u32 uid, u32 gid)
{
    const struct cred *me = current_cred(), *c = tg->leader->cred;
    if (tg == current_task()->tg || (me->cap_effective >> 19 & 1)) /* CAP_SYS_PTRACE */
        return true;
    return c && !tg->no_dump && uid == c->uid && uid == c->euid && uid == c->suid && gid == c->gid && gid == c->egid && gid == c->sgid &&
           (c->cap_permitted & ~me->cap_permitted) == 0;
}

bool may_inspect_locked(struct tgroup *tg) { return may_reach(tg, current_cred()->fsuid, current_cred()->fsgid); }
bool may_trace_locked(struct tgroup *tg) { return may_reach(tg, current_cred()->uid, current_cred()->gid); }

SYSCALL2(kill, int, pid, int, sig)
{
    if (sig < 0 || sig > 64)
        return -EINVAL;
    long r = -ESRCH, e;
    u32 me = current_tgid(), group = pid == 0 ? current_task()->tg->pgid : (u32)-pid;
    mutex_lock(&tasklist_lock);
    if (pid > 0) {
        struct task *t = task_find_locked((u32)pid);
        r = t ? send(t->tg, NULL, sig, 0) : -ESRCH;
    } else {
        for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1)) {
            if (pid == -1 ? g->tgid == me : g->pgid != group)
                continue;
            e = send(g, NULL, sig, 0);
            r = r == -ESRCH || e == 0 ? e : r;
        }
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long send_to_thread(u32 tgid, u32 tid, int sig)
{
    if (sig < 0 || sig > 64)
        return -EINVAL;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(tid);
    long r = t && (!tgid || t->tg->tgid == tgid) && !t->exited ? send(t->tg, t, sig, -6) : -ESRCH;
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL2(tkill, int, tid, int, sig) { return tid <= 0 ? -EINVAL : send_to_thread(0, (u32)tid, sig); }
SYSCALL3(tgkill, int, tgid, int, tid, int, sig) { return tid <= 0 || tgid <= 0 ? -EINVAL : send_to_thread((u32)tgid, (u32)tid, sig); }

static long sigqueue(u32 tgid, u32 tid, int sig, uptr uinfo)
{
    int info[32];
    if (copy_from_user(info, uinfo, 128))
        return -EFAULT;
    if (sig < 0 || sig > 64)
        return -EINVAL;
    if ((info[2] >= 0 || info[2] == -6 /* SI_TKILL */) && tgid != current_tgid())
        return -EPERM;
    info[0] = sig;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(tid ? tid : tgid);
    if (t && tid && t->tg->tgid != tgid)
        t = NULL;
    long r = !t ? -ESRCH : !may_signal(t->tg) ? -EPERM : sig ? signal_send_locked(t->tg, tid ? t : NULL, sig, info) : 0;
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL3(rt_sigqueueinfo, int, pid, int, sig, uptr, info) { return sigqueue((u32)pid, 0, sig, info); }
SYSCALL4(rt_tgsigqueueinfo, int, tgid, int, tid, int, sig, uptr, info) { return sigqueue((u32)tgid, (u32)tid, sig, info); }

struct regs *current_regs(void);
SYSCALL2(sigaltstack, uptr, new, uptr, old)
{
    struct task *t = current_task();
    struct {
        u64 sp;
        int flags, pad;
        u64 size;
    } s, o = {t->alt_sp, (int)t->alt_flags, 0, t->alt_size};
    u64 sp = current_regs()->rsp;
    bool on = !(t->alt_flags & 2) && sp > t->alt_sp && sp - t->alt_sp <= t->alt_size;
    if (on)
        o.flags |= 1;
    if (new) {
        if (copy_from_user(&s, new, sizeof(s)))
            return -EFAULT;
        if (on)
            return -EPERM;
        if (s.flags & ~(int)0x80000003)
            return -EINVAL;
        if (!(s.flags & 2) && s.size < 2048)
            return -ENOMEM;
        t->alt_sp = s.flags & 2 ? 0 : s.sp;
        t->alt_size = s.flags & 2 ? 0 : s.size;
        t->alt_flags = (u32)s.flags & 0x80000002u;
    }
    return old && copy_to_user(old, &o, sizeof(o)) ? -EFAULT : 0;
}
