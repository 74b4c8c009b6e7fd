/* Clocks, sleeps, interval timers. */
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "proc/cputime.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define NS 1000000000ull
#define ALARM_MIN 100000ull /* ns between two expiries of ITIMER_REAL */

static long get_ts(uptr u, u64 *ns)
{
    struct __kernel_timespec t;
    if (copy_from_user(&t, u, sizeof(t)))
        return -EFAULT;
    if (t.tv_sec < 0 || (u64)t.tv_nsec >= NS)
        return -EINVAL;
    *ns = t.tv_sec > 4000000000ll ? 4000000000ull * NS : (u64)t.tv_sec * NS + (u64)t.tv_nsec;
    return 0;
}

static long put_ts(uptr u, u64 ns)
{
    struct __kernel_timespec t = {(s64)(ns / NS), (s64)(ns % NS)};
    return copy_to_user(u, &t, sizeof(t));
}

static bool clock_ok(int id) { return (id >= 0 && id <= 9) || id == 11; }

/* Clocks of a process or thread by number (clock_getcpuclockid): the complement of the pid, 3 bits: 4 thread, 0 PROF, 1 VIRT, 2
 * SCHED. -EINVAL: no such clock. */
static long cpu_clock(int id, u64 *ns)
{
    u32 pid = (u32)~(id >> 3);
    long r = -EINVAL;
    if ((id & 3) == 3)
        return r;
    mutex_lock(&tasklist_lock);
    struct task *t = pid ? task_find_locked(pid) : current_task();
    if (t && !t->exited && (id & 4 ? t->tg == current_task()->tg : t->tg->leader == t || !pid)) {
        *ns = !(id & 4) ? cputime_seen(t->tg) : t == current_task() ? cputime_thread() : 0;
        r = 0;
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long read_clock(int id, u64 *ns)
{
    if (id < 0)
        return cpu_clock(id, ns);
    if (!clock_ok(id))
        return -EINVAL;
    *ns = id == CLOCK_PROCESS_CPUTIME_ID  ? cputime_group()
          : id == CLOCK_THREAD_CPUTIME_ID ? cputime_thread()
                                          : host_clock(id == 8 || id == 11 ? CLOCK_REALTIME : id == 9 ? CLOCK_BOOTTIME : id);
    return 0;
}

SYSCALL2(clock_gettime, int, id, uptr, ts)
{
    u64 ns;
    long r = read_clock(id, &ns);
    return r ? r : put_ts(ts, ns);
}

SYSCALL2(clock_getres, int, id, uptr, ts)
{
    u64 ns;
    long r = read_clock(id, &ns);
    return r ? r : ts ? put_ts(ts, id == 5 || id == 6 ? 4000000 : 1) : 0;
}

SYSCALL2(clock_settime, int, id, uptr, ts)
{
    u64 ns;
    if (id != CLOCK_REALTIME)
        return -EINVAL;
    return get_ts(ts, &ns) ? get_ts(ts, &ns) : -EPERM;
}
SYSCALL2(settimeofday, uptr, tv, uptr, tz) { return tv || tz ? -EPERM : 0; }

SYSCALL2(gettimeofday, uptr, tv, uptr, tz)
{
    u64 ns = host_clock(CLOCK_REALTIME);
    s64 v[2] = {(s64)(ns / NS), (s64)(ns % NS / 1000)};
    int z[2] = {0, 0};
    if ((tv && copy_to_user(tv, v, sizeof(v))) || (tz && copy_to_user(tz, z, sizeof(z))))
        return -EFAULT;
    return 0;
}

SYSCALL1(time, uptr, p)
{
    s64 s = (s64)(host_clock(CLOCK_REALTIME) / NS);
    return p && put_user(s, p) ? -EFAULT : s;
}

static long sleep_to(u64 deadline)
{
    wait_begin();
    for (;;) {
        long r = wait_sleep(deadline);
        if (r)
            return r == -ETIMEDOUT ? 0 : r;
    }
}

static long nanosleep_restart(struct task *t)
{
    long r = sleep_to(t->restart_deadline);
    if (!r)
        return 0;
    u64 now = host_clock(CLOCK_MONOTONIC);
    if (t->restart_arg && put_ts(t->restart_arg, t->restart_deadline > now ? t->restart_deadline - now : 0))
        return -EFAULT;
    return -ERESTART_RESTARTBLOCK;
}

static long sleep_restartable(u64 deadline, uptr rem)
{
    struct task *t = current_task();
    t->restart = nanosleep_restart;
    t->restart_deadline = deadline;
    t->restart_arg = rem;
    return nanosleep_restart(t);
}

SYSCALL2(nanosleep, uptr, req, uptr, rem)
{
    u64 ns;
    long r = get_ts(req, &ns);
    return r ? r : sleep_restartable(host_clock(CLOCK_MONOTONIC) + ns, rem);
}

/* Until the group has used so much cpu time: looks again when it could have. A sleep that is relative keeps its end when it is made
 * again, so it is a restart block, as in Linux. */
static long cpu_sleep_goes_on(struct task *t)
{
    u64 now, until = t->restart_deadline;
    for (;;) {
        long r = read_clock(t->restart_clock, &now);
        if (r || now >= until)
            return r;
        r = sleep_to(host_clock(CLOCK_MONOTONIC) + MAX((until - now) / 64, 1000000ul));
        if (r && t->restart_arg && put_ts(t->restart_arg, until - now))
            return -EFAULT;
        if (r)
            return -ERESTART_RESTARTBLOCK;
    }
}

static long cpu_sleep(int id, bool absolute, u64 ns, uptr rem)
{
    struct task *t = current_task();
    u64 now;
    long r = read_clock(id, &now);
    if (r)
        return r;
    t->restart = cpu_sleep_goes_on;
    t->restart_clock = id;
    t->restart_deadline = absolute ? ns : now + ns;
    t->restart_arg = absolute ? 0 : rem;
    r = cpu_sleep_goes_on(t);
    return r == -ERESTART_RESTARTBLOCK && absolute ? -ERESTARTNOHAND : r;
}

SYSCALL4(clock_nanosleep, int, id, int, flags, uptr, req, uptr, rem)
{
    u64 ns, now = host_clock(CLOCK_MONOTONIC);
    if (!clock_ok(id) && id >= 0)
        return -EINVAL;
    if (id == CLOCK_THREAD_CPUTIME_ID || id == CLOCK_MONOTONIC_RAW || id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE)
        return -EOPNOTSUPP;
    long r = get_ts(req, &ns);
    if (r)
        return r;
    if (id == CLOCK_PROCESS_CPUTIME_ID || id < 0)
        return cpu_sleep(id, flags & 1, ns, rem);
    if (!(flags & 1))
        return sleep_restartable(now + ns, rem);
    if (id == CLOCK_REALTIME || id == 11) {
        u64 real = host_clock(CLOCK_REALTIME);
        ns = ns > real ? now + (ns - real) : now;
    }
    r = sleep_to(ns);
    return r ? -ERESTARTNOHAND : 0;
}

SYSCALL0(sched_yield)
{
    host_yield();
    return 0;
}

/* ITIMER_REAL. tasklist_lock held. */
static void alarm_fires(struct ktimer *k)
{
    struct tgroup *tg = container_of(k, struct tgroup, alarm);
    u8 info[128];
    siginfo_user(info, SIGALRM, SI_KERNEL, 0, 0);
    signal_send_locked(tg, NULL, SIGALRM, info);
    u64 now = host_clock(CLOCK_MONOTONIC), every = tg->alarm_interval;
    if (every)
        ktimer_set(k, MAX(k->deadline + ((now - k->deadline) / every + 1) * every, now + ALARM_MIN));
    else
        k->deadline = 0;
}

static void set_alarm(struct tgroup *tg, u64 value, u64 interval, u64 *old_value, u64 *old_interval)
{
    u64 now = host_clock(CLOCK_MONOTONIC);
    mutex_lock(&tasklist_lock);
    bool armed = ktimer_cancel(&tg->alarm);
    *old_value = armed && tg->alarm.deadline > now ? tg->alarm.deadline - now : 0;
    *old_interval = tg->alarm_interval;
    tg->alarm_interval = value ? interval : 0;
    tg->alarm.fn = alarm_fires;
    tg->alarm.lock = &tasklist_lock;
    tg->alarm.deadline = 0;
    if (value)
        ktimer_set(&tg->alarm, now + value);
    mutex_unlock(&tasklist_lock);
}

/* ITIMER_VIRTUAL and ITIMER_PROF: the same clock (user and system time are not told apart). */
static void cpu_itimer(struct tgroup *tg, int which, const u64 *set, u64 *old_value, u64 *old_interval)
{
    struct cpu_timer *c = &tg->cpu_timer[which - 1];
    mutex_lock(&tasklist_lock);
    u64 now = cputime_group();
    *old_value = !c->deadline ? 0 : c->deadline > now ? c->deadline - now : 1000;
    *old_interval = c->interval;
    if (set) {
        c->deadline = set[0] ? now + set[0] : 0;
        c->interval = set[0] ? set[1] : 0;
        if (set[0])
            cpu_watch_locked(tg, set[0]);
    }
    mutex_unlock(&tasklist_lock);
}

static void itimer_left(struct tgroup *tg, u64 *value, u64 *interval)
{
    mutex_lock(&tasklist_lock);
    u64 now = host_clock(CLOCK_MONOTONIC), at = list_linked(&tg->alarm.link) ? tg->alarm.deadline : 0;
    *value = at > now ? at - now : 0;
    *interval = tg->alarm_interval;
    mutex_unlock(&tasklist_lock);
}

SYSCALL1(alarm, u32, seconds)
{
    u64 old, interval;
    set_alarm(current_task()->tg, seconds * NS, 0, &old, &interval);
    return (long)((old + NS - 1) / NS);
}

SYSCALL3(setitimer, int, which, uptr, new, uptr, old)
{
    s64 v[4] = {0};
    if (which < 0 || which > 2)
        return -EINVAL;
    if (new && copy_from_user(v, new, sizeof(v)))
        return -EFAULT;
    if (v[0] < 0 || v[2] < 0 || (u64)v[1] >= 1000000 || (u64)v[3] >= 1000000)
        return -EINVAL;
    u64 ov, oi, set[2] = {(u64)v[2] * NS + (u64)v[3] * 1000, (u64)v[0] * NS + (u64)v[1] * 1000};
    if (which)
        cpu_itimer(current_task()->tg, which, set, &ov, &oi);
    else
        set_alarm(current_task()->tg, set[0], set[1], &ov, &oi);
    s64 o[4] = {(s64)(oi / NS), (s64)(oi % NS / 1000), (s64)(ov / NS), (s64)(ov % NS / 1000)};
    return old && copy_to_user(old, o, sizeof(o)) ? -EFAULT : 0;
}

SYSCALL2(getitimer, int, which, uptr, val)
{
    struct tgroup *tg = current_task()->tg;
    if (which < 0 || which > 2)
        return -EINVAL;
    u64 left, oi;
    if (which)
        cpu_itimer(tg, which, NULL, &left, &oi);
    else
        itimer_left(tg, &left, &oi);
    s64 o[4] = {(s64)(oi / NS), (s64)(oi % NS / 1000), (s64)(left / NS), (s64)(left % NS / 1000)};
    return copy_to_user(val, o, sizeof(o));
}

SYSCALL1(times, uptr, buf)
{
    u64 cpu = cputime_group() / 10000000;
    s64 t[4] = {(s64)cpu, 0, (s64)(current_task()->tg->cutime / 10000000), 0};
    if (buf && copy_to_user(buf, t, sizeof(t)))
        return -EFAULT;
    return (long)(host_clock(CLOCK_MONOTONIC) / 10000000);
}
