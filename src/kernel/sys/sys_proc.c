/* Ids, groups and sessions, limits, prctl, and what else asks about the process or the machine. */
#include "base/string.h"
#include "core/config.h"
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
SYSCALL0(getuid) { return current_cred()->uid; }
SYSCALL0(geteuid) { return current_cred()->euid; }
SYSCALL0(getgid) { return current_cred()->gid; }
SYSCALL0(getegid) { return current_cred()->egid; }
SYSCALL0(getpgrp) { return current_task()->tg->pgid; }

SYSCALL1(set_tid_address, uptr, p)
{
    current_task()->clear_child_tid = p;
    return current_tid();
}

static void publish(struct cred *c)
{
    struct task *t = current_task();
    mutex_lock(&tasklist_lock);
    struct cred *old = t->cred;
    t->cred = c;
    mutex_unlock(&tasklist_lock);
    cred_put(old);
}

static void drop_caps(struct cred *c, u32 old_uid)
{
    c->fsuid = c->euid;
    c->fsgid = c->egid;
    if (c->uid && c->euid && c->suid)
        c->cap_permitted = c->cap_effective = 0;
    else if (c->euid)
        c->cap_effective = 0;
    else if (old_uid)
        c->cap_effective = c->cap_permitted;
}

static bool uid_allowed(const struct cred *c, u32 id) { return id == ~0u || capable(7) || id == c->uid || id == c->euid || id == c->suid; }
static bool gid_allowed(const struct cred *c, u32 id) { return id == ~0u || capable(6) || id == c->gid || id == c->egid || id == c->sgid; }

static long set_ids(u32 r, u32 e, u32 s, bool group)
{
    const struct cred *o = current_cred();
    if (group ? !gid_allowed(o, r) || !gid_allowed(o, e) || !gid_allowed(o, s)
              : !uid_allowed(o, r) || !uid_allowed(o, e) || !uid_allowed(o, s))
        return -EPERM;
    struct cred *c = cred_copy(o);
    if (!c)
        return -ENOMEM;
    u32 *id[3] = {group ? &c->gid : &c->uid, group ? &c->egid : &c->euid, group ? &c->sgid : &c->suid};
    u32 v[3] = {r, e, s};
    for (int i = 0; i < 3; i++)
        if (v[i] != ~0u)
            *id[i] = v[i];
    drop_caps(c, o->euid);
    publish(c);
    return 0;
}

SYSCALL1(setuid, u32, id) { return id == ~0u ? -EINVAL : capable(7) ? set_ids(id, id, id, false) : set_ids(~0u, id, ~0u, false); }
SYSCALL1(setgid, u32, id) { return id == ~0u ? -EINVAL : capable(6) ? set_ids(id, id, id, true) : set_ids(~0u, id, ~0u, true); }
SYSCALL2(setreuid, u32, r, u32, e) { return set_ids(r, e, r != ~0u || e != ~0u ? e : ~0u, false); }
SYSCALL2(setregid, u32, r, u32, e) { return set_ids(r, e, r != ~0u || e != ~0u ? e : ~0u, true); }
SYSCALL3(setresuid, u32, r, u32, e, u32, s) { return set_ids(r, e, s, false); }
SYSCALL3(setresgid, u32, r, u32, e, u32, s) { return set_ids(r, e, s, true); }
SYSCALL1(setfsuid, u32, id) { return current_cred()->fsuid + (id & 0); }
SYSCALL1(setfsgid, u32, id) { return current_cred()->fsgid + (id & 0); }
SYSCALL3(getresuid, uptr, r, uptr, e, uptr, s)
{
    const struct cred *c = current_cred();
    return put_user(c->uid, r) || put_user(c->euid, e) || put_user(c->suid, s) ? -EFAULT : 0;
}
SYSCALL3(getresgid, uptr, r, uptr, e, uptr, s)
{
    const struct cred *c = current_cred();
    return put_user(c->gid, r) || put_user(c->egid, e) || put_user(c->sgid, s) ? -EFAULT : 0;
}

SYSCALL2(getgroups, int, n, uptr, list)
{
    const struct cred *c = current_cred();
    if (n < 0 || (n && (u32)n < c->group_count))
        return -EINVAL;
    if (n && copy_to_user(list, c->groups, c->group_count * 4))
        return -EFAULT;
    return c->group_count;
}

SYSCALL2(setgroups, int, n, uptr, list)
{
    if (!capable(6))
        return -EPERM;
    if (n < 0 || n > 65536)
        return -EINVAL;
    struct cred *c = kmalloc(sizeof(*c) + (size_t)n * 4);
    if (!c)
        return -ENOMEM;
    memcpy(c, current_cred(), sizeof(*c));
    c->refs = 1;
    c->group_count = (u32)n;
    if (copy_from_user(c->groups, list, (size_t)n * 4)) {
        kfree(c);
        return -EFAULT;
    }
    publish(c);
    return 0;
}

SYSCALL2(capget, uptr, head, uptr, data)
{
    u32 h[2], d[6] = {0}, version = 0x20080522;
    if (copy_from_user(h, head, 8))
        return -EFAULT;
    bool v1 = h[0] == 0x19980330, ok = v1 || h[0] == version || h[0] == 0x20071026;
    if (!ok)
        return put_user(version, head) ? -EFAULT : data ? -EINVAL : 0;
    const struct cred *c = current_cred();
    for (int i = 0; i < 2; i++) {
        d[i * 3] = (u32)(c->cap_effective >> (32 * i));
        d[i * 3 + 1] = (u32)(c->cap_permitted >> (32 * i));
        d[i * 3 + 2] = (u32)(c->cap_inheritable >> (32 * i));
    }
    return data ? copy_to_user(data, d, v1 ? 12 : 24) : 0;
}

SYSCALL2(capset, uptr, head, uptr, data)
{
    u32 h[2], d[6] = {0};
    if (copy_from_user(h, head, 8) || copy_from_user(d, data, h[0] == 0x19980330 ? 12 : 24))
        return -EFAULT;
    struct cred *c = cred_copy(current_cred());
    if (!c)
        return -ENOMEM;
    u64 e = d[0] | (u64)d[3] << 32, p = d[1] | (u64)d[4] << 32, i = d[2] | (u64)d[5] << 32;
    if ((p & ~c->cap_permitted) || (e & ~p)) {
        cred_put(c);
        return -EPERM;
    }
    c->cap_effective = e, c->cap_permitted = p, c->cap_inheritable = i;
    publish(c);
    return 0;
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
    case 0x1001: /* ARCH_SET_GS: the kernel's own; see docs/COMPAT.md */
        return -EPERM;
    }
    return -EINVAL;
}

SYSCALL5(prctl, int, op, u64, a, u64, b, u64, c, u64, d)
{
    struct task *t = current_task();
    switch (op) {
    case PR_SET_NAME: {
        char name[16] = {0};
        long r = strncpy_from_user(name, a, 15);
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
        return 1;
    case PR_SET_DUMPABLE:
        return a > 1 ? -EINVAL : 0;
    case PR_SET_CHILD_SUBREAPER:
        t->tg->subreaper = a != 0;
        return 0;
    case PR_GET_CHILD_SUBREAPER: {
        int v = t->tg->subreaper;
        return put_user(v, a);
    }
    case PR_SET_NO_NEW_PRIVS:
        return a == 1 && !b && !c && !d ? 0 : -EINVAL;
    case PR_GET_NO_NEW_PRIVS:
        return 0;
    case PR_CAPBSET_READ:
        return a > 40 ? -EINVAL : (long)((t->cred->cap_bounding >> a) & 1);
    case PR_GET_KEEPCAPS:
    case PR_SET_KEEPCAPS:
    case PR_GET_SECUREBITS:
    case PR_SET_TIMERSLACK:
    case PR_SET_THP_DISABLE:
        return 0;
    case PR_GET_TIMERSLACK:
        return 50000;
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
    u64 max = boot_config()->memory_max ? boot_config()->memory_max : 8ull << 30;
    s.uptime = (long)(host_clock(CLOCK_MONOTONIC) / 1000000000);
    s.totalram = max;
    s.freeram = max - MIN(max, kmalloc_used() + dpages_used() * PAGE_SIZE);
    s.mem_unit = 1;
    s.procs = 1;
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

SYSCALL3(sched_getaffinity, u32, pid, u64, size, uptr, mask)
{
    u64 m = 0;
    u32 n = boot_config()->cpu_count ? boot_config()->cpu_count : 1;
    if (size < 8 || (size & 7) || (pid && pid > PID_MAX))
        return -EINVAL;
    for (u32 i = 0; i < n && i < 64; i++)
        m |= 1ull << i;
    return put_user(m, mask) ? -EFAULT : 8;
}
SYSCALL3(sched_setaffinity, u32, pid, u64, size, uptr, mask)
{
    u64 m = 0;
    if (copy_from_user(&m, mask, MIN(size, 8ul)))
        return -EFAULT;
    return m ? 0 + (long)(pid & 0) : -EINVAL;
}
SYSCALL1(sched_getscheduler, int, pid) { return pid < 0 ? -EINVAL : 0; }
SYSCALL3(sched_setscheduler, int, pid, int, policy, uptr, param) { return pid < 0 || !param ? -EINVAL : policy == 0 || policy == 3 || policy == 5 ? 0 : -EPERM; }
SYSCALL2(sched_getparam, int, pid, uptr, param)
{
    int v = 0;
    return pid < 0 || !param ? -EINVAL : put_user(v, param);
}
SYSCALL2(sched_setparam, int, pid, uptr, param) { return pid < 0 || !param ? -EINVAL : 0; }
SYSCALL1(sched_get_priority_max, int, p) { return p == 1 || p == 2 ? 99 : p == 0 || p == 3 || p == 5 ? 0 : -EINVAL; }
SYSCALL1(sched_get_priority_min, int, p) { return p == 1 || p == 2 ? 1 : p == 0 || p == 3 || p == 5 ? 0 : -EINVAL; }
SYSCALL2(getpriority, int, which, int, who) { return which < 0 || which > 2 || who < 0 ? -EINVAL : 20; }
SYSCALL3(setpriority, int, which, int, who, int, prio) { return which < 0 || which > 2 || who < 0 ? -EINVAL : prio < 0 && !capable(23) ? -EACCES : 0; }
SYSCALL3(getcpu, uptr, cpu, uptr, node, uptr, unused)
{
    u32 zero = 0;
    (void)unused;
    return (cpu && put_user(zero, cpu)) || (node && put_user(zero, node)) ? -EFAULT : 0;
}
SYSCALL1(personality, u32, p) { return p == ~0u || p == 0 ? 0 : -EINVAL; }
SYSCALL2(sethostname, uptr, name, int, len) { return name && len >= 0 && len <= 64 ? -EPERM : -EINVAL; }
