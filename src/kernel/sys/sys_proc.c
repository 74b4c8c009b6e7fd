/* Process ids and groups, sessions, limits, prctl, and what else asks about the process or the machine. */
#include "base/string.h"
#include "core/config.h"
#include "core/usage.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/random.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/cred.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/time.h>
#include <linux/sysinfo.h>
#include <asm/signal.h>

SYSCALL0(getpid) { return current_tgid(); }
SYSCALL0(gettid) { return current_tid(); }
SYSCALL0(getppid)
{
    struct tgroup *p = current_task()->tg->parent;
    return p ? p->tgid : 0;
}
SYSCALL0(getpgrp) { return current_task()->tg->pgid; }

SYSCALL1(set_tid_address, uptr, p)
{
    current_task()->clear_child_tid = p;
    return current_tid();
}

SYSCALL1(getpgid, u32, pid)
{
    mutex_lock(&tasklist_lock);
    struct tgroup *g = pid ? tgroup_find_locked(pid) : current_task()->tg;
    long r = g ? (long)g->pgid : -ESRCH;
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL1(getsid, u32, pid)
{
    mutex_lock(&tasklist_lock);
    struct tgroup *g = pid ? tgroup_find_locked(pid) : current_task()->tg;
    long r = g ? (long)g->sid : -ESRCH;
    mutex_unlock(&tasklist_lock);
    return r;
}

static bool group_exists_locked(u32 pgid, u32 sid)
{
    for (struct tgroup *g = tgroup_next_locked(1); g; g = tgroup_next_locked(g->tgid + 1))
        if (g->pgid == pgid && g->sid == sid)
            return true;
    return false;
}

SYSCALL2(setpgid, int, pid, int, pgid)
{
    struct tgroup *me = current_task()->tg;
    if (pgid < 0)
        return -EINVAL;
    long r = 0;
    mutex_lock(&tasklist_lock);
    struct tgroup *g = pid && (u32)pid != me->tgid ? tgroup_find_locked((u32)pid) : me;
    u32 to = pgid ? (u32)pgid : g ? g->tgid : 0;
    if (!g || (g != me && g->parent != me))
        r = -ESRCH;
    else if (g != me && g->sid != me->sid)
        r = -EPERM;
    else if (g != me && g->execed)
        r = -EACCES;
    else if (g->session_leader || (to != g->tgid && !group_exists_locked(to, g->sid)))
        r = -EPERM;
    else
        g->pgid = to;
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL0(setsid)
{
    struct tgroup *g = current_task()->tg, *o;
    long r = 0;
    mutex_lock(&tasklist_lock);
    for (o = tgroup_next_locked(1); o && !r; o = tgroup_next_locked(o->tgid + 1))
        if (o->pgid == g->tgid)
            r = -EPERM;
    if (!r) {
        g->sid = g->pgid = g->tgid;
        g->session_leader = true;
        g->tty = NULL;
        r = g->tgid;
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL4(prlimit64, u32, pid, u32, res, uptr, new, uptr, old)
{
    u64 n[2], o[2];
    if (res >= 16)
        return -EINVAL;
    if (new && copy_from_user(n, new, 16))
        return -EFAULT;
    if (new && n[0] > n[1])
        return -EINVAL;
    if (new && res == RLIMIT_NOFILE && n[1] > NOFILE_MAX)
        return -EPERM; /* fs.nr_open */
    long r = 0;
    mutex_lock(&tasklist_lock);
    struct tgroup *g = pid ? tgroup_find_locked(pid) : current_task()->tg;
    if (!g)
        r = -ESRCH;
    else {
        memcpy(o, g->rlimits[res], 16);
        if (new && n[1] > o[1] && !capable(24))
            r = -EPERM;
        else if (new)
            memcpy(g->rlimits[res], n, 16);
        if (!r && new && res == RLIMIT_CPU)
            cpu_watch_locked(g, 0);
    }
    mutex_unlock(&tasklist_lock);
    return r ? r : old ? copy_to_user(old, o, 16) : 0;
}
SYSCALL2(getrlimit, u32, res, uptr, old) { return do_prlimit64(0, res, 0, old); }
SYSCALL2(setrlimit, u32, res, uptr, new) { return new ? do_prlimit64(0, res, new, 0) : -EFAULT; }

SYSCALL2(getrusage, int, who, uptr, ru)
{
    struct tgroup *g = current_task()->tg;
    if (who < -1 || who > 1)
        return -EINVAL;
    if (who == -1)
        return put_rusage(ru, g->cutime + g->cstime, g->cmaxrss);
    return put_rusage(ru, who == 1 ? cputime_thread() : cputime_group(), MAX(g->maxrss, mm_size(current_mm())));
}

SYSCALL2(arch_prctl, int, code, u64, addr)
{
    u64 fs;
    switch (code) {
    case 0x1002: /* ARCH_SET_FS */
        if (addr >= GUEST_END)
            return -EPERM;
        __asm__ volatile("wrfsbase %0" ::"r"(addr));
        return 0;
    case 0x1003: /* ARCH_GET_FS */
        __asm__ volatile("rdfsbase %0" : "=r"(fs));
        return put_user(fs, addr);
    case 0x1011: /* ARCH_GET_CPUID: it never faults */
        return 1;
    case 0x1012: /* ARCH_SET_CPUID */
        return -ENODEV;
    case 0x1001: /* ARCH_SET_GS: the kernel's own; see docs/COMPAT.md */
        return -EPERM;
    }
    return -EINVAL;
}

SYSCALL5(prctl, int, op, u64, a, u64, b, u64, c, u64, d)
{
    struct task *t = current_task();
    long r = cred_prctl(op, a, b, c, d);
    if (r != -ENOSYS)
        return r;
    switch (op) {
    case PR_SET_NAME: {
        char name[16] = {0};
        r = strncpy_from_user(name, a, 15);
        if (r == -EFAULT)
            return r;
        memcpy(t->comm, name, 16);
        return 0;
    }
    case PR_GET_NAME:
        return copy_to_user(a, t->comm, 16);
    case PR_SET_PDEATHSIG:
        if (a > 64)
            return -EINVAL;
        t->tg->pdeath_sig = (u32)a;
        return 0;
    case PR_GET_PDEATHSIG:
        return put_user(t->tg->pdeath_sig, a);
    case PR_GET_DUMPABLE:
        return !t->tg->no_dump;
    case PR_SET_DUMPABLE:
        if (a > 1)
            return -EINVAL;
        t->tg->no_dump = !a;
        return 0;
    case PR_SET_CHILD_SUBREAPER:
        t->tg->subreaper = a != 0;
        return 0;
    case PR_GET_CHILD_SUBREAPER: {
        int v = t->tg->subreaper;
        return put_user(v, a);
    }
    case PR_SET_TIMERSLACK:
        t->timerslack = a ? a : t->timerslack_default;
        return 0;
    case PR_GET_TIMERSLACK:
        return t->timerslack ? (long)t->timerslack : 50000;
    case PR_SET_THP_DISABLE:
        return 0;
    case PR_GET_TSC: {
        int v = PR_TSC_ENABLE;
        return put_user(v, a);
    }
    case PR_SET_TSC: /* it can be read always */
        return a == PR_TSC_ENABLE ? 0 : -EINVAL;
    }
    return -EINVAL;
}

static void put_field(char *f, const char *s) { str_copy(f, s, 65); }

SYSCALL1(uname, uptr, buf)
{
    char u[6][65] = {{0}};
    put_field(u[0], "Linux");
    put_field(u[1], boot_config()->hostname[0] ? boot_config()->hostname : "harena");
    put_field(u[2], "6.12.0-harena");
    put_field(u[3], "#1 SMP PREEMPT_DYNAMIC Harena");
    put_field(u[4], "x86_64");
    put_field(u[5], "(none)");
    return copy_to_user(buf, u, sizeof(u));
}

SYSCALL1(sysinfo, uptr, buf)
{
    struct sysinfo s;
    memset(&s, 0, sizeof(s));
    s.uptime = (long)(host_clock(CLOCK_MONOTONIC) / 1000000000);
    s.totalram = memory_total();
    s.freeram = s.totalram - MIN(s.totalram, usage_memory());
    s.mem_unit = 1;
    s.procs = (u16)MIN(task_total(), 65535u);
    return copy_to_user(buf, &s, sizeof(s));
}

SYSCALL3(getrandom, uptr, buf, u64, size, u32, flags)
{
    u8 tmp[256];
    if (flags & ~7u)
        return -EINVAL;
    u64 done = 0;
    size = MIN(size, 33554431ul);
    while (done < size) {
        u64 n = MIN(size - done, sizeof(tmp));
        random_bytes(tmp, n);
        if (copy_to_user(buf + done, tmp, n))
            return done ? (long)done : -EFAULT;
        done += n;
        if (signal_pending() && done >= 256)
            break;
    }
    return (long)done;
}

/* Kept for those who ask; addresses are laid out the same way each time as it is. */
SYSCALL1(personality, u32, p)
{
    struct task *t = current_task();
    u32 old = t->personality;
    if (p != ~0u)
        t->personality = p;
    return old;
}

SYSCALL2(sethostname, uptr, name, int, len) { return name && len >= 0 && len <= 64 ? -EPERM : -EINVAL; }
