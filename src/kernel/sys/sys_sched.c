/* Priorities, policies, affinity. They are kept and reported, and have no effect: the host schedules the sandbox's threads as it
 * likes. Real-time policies are refused. */
#include "base/string.h"
#include "core/config.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <linux/capability.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/time_types.h>

static u64 all_cpus(void)
{
    u32 n = MAX(boot_config()->cpu_count, 1u);
    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

static struct task *find(u32 pid) { return pid ? task_find_locked(pid) : current_task(); }

static bool may_change(struct task *t)
{
    const struct cred *me = current_cred(), *c = t->cred;
    return !c || capable(CAP_SYS_NICE) || me->euid == c->uid || me->euid == c->euid;
}

SYSCALL3(sched_getaffinity, u32, pid, u64, size, uptr, mask)
{
    if (size < 8 || (size & 7))
        return -EINVAL;
    mutex_lock(&tasklist_lock);
    struct task *t = find(pid);
    u64 m = t && t->affinity ? t->affinity : all_cpus();
    mutex_unlock(&tasklist_lock);
    if (!t)
        return -ESRCH;
    return put_user(m, mask) ? -EFAULT : 8;
}

SYSCALL3(sched_setaffinity, u32, pid, u64, size, uptr, mask)
{
    u64 m = 0;
    long r = 0;
    if (copy_from_user(&m, mask, MIN(size, 8ul)))
        return -EFAULT;
    m &= all_cpus();
    mutex_lock(&tasklist_lock);
    struct task *t = find(pid);
    if (!t)
        r = -ESRCH;
    else if (!may_change(t))
        r = -EPERM;
    else if (!m)
        r = -EINVAL;
    else
        t->affinity = m;
    mutex_unlock(&tasklist_lock);
    return r;
}

/* ---- policies ---- */

static bool policy_known(int p) { return p == SCHED_NORMAL || p == SCHED_FIFO || p == SCHED_RR || p == SCHED_BATCH || p == SCHED_IDLE; }
static bool realtime(int p) { return p == SCHED_FIFO || p == SCHED_RR; }

static long set_policy(u32 pid, int policy, int prio, int nice, bool set_nice)
{
    bool reset = policy != -1 && policy & SCHED_RESET_ON_FORK;
    long r = 0;
    if (policy != -1)
        policy &= ~SCHED_RESET_ON_FORK;
    mutex_lock(&tasklist_lock);
    struct task *t = find(pid);
    int p = policy == -1 && t ? t->policy : policy;
    if (!t)
        r = -ESRCH;
    else if (!policy_known(p) || (realtime(p) ? prio < 1 || prio > 99 : prio != 0))
        r = -EINVAL;
    else if (!may_change(t) || realtime(p))
        r = -EPERM;
    else {
        t->policy = p;
        t->reset_on_fork = reset;
        if (set_nice)
            t->nice = MAX(MIN(nice, 19), -20);
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long get_policy(u32 pid, struct task *copy)
{
    mutex_lock(&tasklist_lock);
    struct task *t = find(pid);
    if (t)
        copy->policy = t->policy, copy->nice = t->nice, copy->reset_on_fork = t->reset_on_fork;
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

SYSCALL1(sched_getscheduler, int, pid)
{
    struct task t;
    long r = pid < 0 ? -EINVAL : get_policy((u32)pid, &t);
    return r ? r : t.policy | (t.reset_on_fork ? SCHED_RESET_ON_FORK : 0);
}

SYSCALL3(sched_setscheduler, int, pid, int, policy, uptr, param)
{
    int prio;
    if (pid < 0 || policy < 0 || !param)
        return -EINVAL;
    return copy_from_user(&prio, param, 4) ? -EFAULT : set_policy((u32)pid, policy, prio, 0, false);
}

SYSCALL2(sched_setparam, int, pid, uptr, param)
{
    int prio;
    if (pid < 0 || !param)
        return -EINVAL;
    return copy_from_user(&prio, param, 4) ? -EFAULT : set_policy((u32)pid, -1, prio, 0, false);
}

SYSCALL2(sched_getparam, int, pid, uptr, param)
{
    struct task t;
    int v = 0;
    long r = pid < 0 || !param ? -EINVAL : get_policy((u32)pid, &t);
    return r ? r : put_user(v, param);
}

SYSCALL1(sched_get_priority_max, int, p) { return realtime(p) ? 99 : policy_known(p) || p == 6 ? 0 : -EINVAL; }
SYSCALL1(sched_get_priority_min, int, p) { return realtime(p) ? 1 : policy_known(p) || p == 6 ? 0 : -EINVAL; }

SYSCALL2(sched_rr_get_interval, int, pid, uptr, ts)
{
    struct task t;
    struct __kernel_timespec v = {0, 4000000};
    long r = pid < 0 ? -EINVAL : get_policy((u32)pid, &t);
    return r ? r : copy_to_user(ts, &v, sizeof(v));
}

struct sched_attr_abi {
    u32 size, policy;
    u64 flags;
    s32 nice;
    u32 priority;
    u64 runtime, deadline, period;
    u32 util_min, util_max;
};

SYSCALL3(sched_setattr, int, pid, uptr, uattr, u32, flags)
{
    struct sched_attr_abi a = {0};
    u32 size;
    if (pid < 0 || flags || !uattr)
        return -EINVAL;
    if (get_user(size, uattr))
        return -EFAULT;
    if (!size)
        size = 48;
    if (size < 48 || size > PAGE_SIZE)
        return -E2BIG;
    if (copy_from_user(&a, uattr, MIN(size, (u32)sizeof(a))))
        return -EFAULT;
    if ((int)a.policy < 0 || a.flags & ~0x7full)
        return -EINVAL;
    return set_policy((u32)pid, (int)a.policy | (a.flags & 1 ? SCHED_RESET_ON_FORK : 0), (int)a.priority, a.nice, true);
}

SYSCALL4(sched_getattr, int, pid, uptr, uattr, u32, size, u32, flags)
{
    struct task t;
    if (pid < 0 || flags || !uattr || size < 48 || size > PAGE_SIZE)
        return -EINVAL;
    long r = get_policy((u32)pid, &t);
    struct sched_attr_abi a = {.size = MIN(size, (u32)sizeof(a)), .policy = (u32)t.policy, .flags = t.reset_on_fork,
                               .nice = t.nice, .util_max = 1024};
    return r ? r : copy_to_user(uattr, &a, a.size);
}

/* ---- nice ---- */

static bool selected(struct task *t, int which, u32 who)
{
    if (which == PRIO_PROCESS)
        return t->tid == who;
    if (which == PRIO_PGRP)
        return t->tg->pgid == who;
    return t->cred && t->cred->uid == who;
}

static u32 default_who(int which, u32 who)
{
    struct task *t = current_task();
    return who ? who : which == PRIO_PROCESS ? t->tid : which == PRIO_PGRP ? t->tg->pgid : t->cred->uid;
}

/* Calls fn for each task that is meant, with what it made of those before, -ESRCH to begin with; returns the last. */
static long for_selected(int which, u32 who, long (*fn)(struct task *t, int value, long so_far), int value)
{
    if (which < 0 || which > PRIO_USER)
        return -EINVAL;
    who = default_who(which, who);
    long r = -ESRCH;
    struct task *t;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(1); g; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link)
            if (selected(t, which, who))
                r = fn(t, value, r);
    mutex_unlock(&tasklist_lock);
    return r;
}

/* fn has changed a task: an error of one before stays. */
static long changed(long so_far) { return so_far == -ESRCH ? 0 : so_far; }

static long renice(struct task *t, int nice, long so_far)
{
    if (!may_change(t))
        return -EPERM;
    s64 lowest = 20 - (s64)MIN(t->tg->rlimits[RLIMIT_NICE][0], 40ul);
    if (nice < t->nice && nice < lowest && !capable(CAP_SYS_NICE))
        return -EACCES;
    t->nice = nice;
    return changed(so_far);
}

static long best_nice(struct task *t, int unused, long so_far) { return (void)unused, MAX(so_far, 20l - t->nice); }

SYSCALL3(setpriority, int, which, u32, who, int, nice) { return for_selected(which, who, renice, MAX(MIN(nice, 19), -20)); }
SYSCALL2(getpriority, int, which, u32, who) { return for_selected(which, who, best_nice, 0); }

/* ---- I/O priorities: kept only (ioprio_set(2)) ---- */

enum { IOPRIO_NONE, IOPRIO_RT, IOPRIO_BE, IOPRIO_IDLE };
#define IOPRIO_LEVELS 8

static u32 ioprio_class(u32 prio) { return prio >> 13; }

/* The more urgent one: a lower class, or level; none counts as the middle of best effort. */
static u32 ioprio_best(u32 a, u32 b)
{
    u32 normal = IOPRIO_BE << 13 | IOPRIO_LEVELS / 2;
    a = ioprio_class(a) == IOPRIO_NONE ? normal : a;
    b = ioprio_class(b) == IOPRIO_NONE ? normal : b;
    return MIN(a, b);
}

static long best_ioprio(struct task *t, int unused, long so_far)
{
    (void)unused;
    return so_far < 0 ? (long)t->ioprio : (long)ioprio_best((u32)so_far, t->ioprio);
}

static long set_ioprio(struct task *t, int prio, long so_far)
{
    if (!may_change(t))
        return -EPERM;
    t->ioprio = (u32)prio;
    return changed(so_far);
}

/* which: as of getpriority(2), but from 1 on. */
SYSCALL2(ioprio_get, int, which, u32, who) { return for_selected(which - 1, who, best_ioprio, 0); }

SYSCALL3(ioprio_set, int, which, u32, who, u32, prio)
{
    u32 class = ioprio_class(prio), level = prio & (IOPRIO_LEVELS - 1); /* hints are in between */
    if (class > IOPRIO_IDLE || (class == IOPRIO_NONE && level))
        return -EINVAL;
    if (class == IOPRIO_RT && !capable(CAP_SYS_NICE) && !capable(CAP_SYS_ADMIN))
        return -EPERM;
    return for_selected(which - 1, who, set_ioprio, (int)prio);
}

SYSCALL3(getcpu, uptr, cpu, uptr, node, uptr, unused)
{
    u32 zero = 0, a, d, c;
    (void)unused;
    __asm__ volatile("rdtscp" : "=a"(a), "=d"(d), "=c"(c)); /* as the vDSO does */
    c &= 0xfff;
    return (cpu && put_user(c, cpu)) || (node && put_user(zero, node)) ? -EFAULT : 0;
}
