/* Clocks, sleeps, interval timers. */
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <asm/signal.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define NS 1000000000ull

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

static bool clock_ok(int id) { return (id >= 0 && id <= 7) || id == 11; }

SYSCALL2(clock_gettime, int, id, uptr, ts)
{
    if (!clock_ok(id) && id >= 0)
        return -EINVAL;
    return put_ts(ts, host_clock(id < 0 ? CLOCK_PROCESS_CPUTIME_ID : id == 11 ? 0 : id));
}

SYSCALL2(clock_getres, int, id, uptr, ts)
{
    if (!clock_ok(id) && id >= 0)
        return -EINVAL;
    return ts ? put_ts(ts, id == 5 || id == 6 ? 4000000 : 1) : 0;
}

SYSCALL2(clock_settime, int, id, uptr, ts) { return clock_ok(id) && ts ? -EPERM : -EINVAL; }
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
    struct task *t = current_task();
    atomic_store(&t->core.wake, WAKE_RUNNING);
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

SYSCALL4(clock_nanosleep, int, id, int, flags, uptr, req, uptr, rem)
{
    u64 ns, now = host_clock(CLOCK_MONOTONIC);
    if (!clock_ok(id) || id == 3)
        return -EINVAL;
    long r = get_ts(req, &ns);
    if (r)
        return r;
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

/* ITIMER_REAL; the cpu-time ones count real time too (documented). */
static void alarm_fires(struct ktimer *k)
{
    struct tgroup *tg = container_of(k, struct tgroup, alarm);
    u8 info[128];
    siginfo_user(info, SIGALRM, 0x80, 0, 0);
    mutex_lock(&tasklist_lock);
    signal_send_locked(tg, NULL, SIGALRM, info);
    u64 next = tg->alarm_interval ? k->deadline + tg->alarm_interval : 0;
    mutex_unlock(&tasklist_lock);
    if (next)
        ktimer_set(k, next);
    else
        k->deadline = 0;
}

static void set_alarm(struct tgroup *tg, u64 value, u64 interval, u64 *old_value, u64 *old_interval)
{
    u64 now = host_clock(CLOCK_MONOTONIC);
    bool armed = ktimer_cancel(&tg->alarm);
    *old_value = armed && tg->alarm.deadline > now ? tg->alarm.deadline - now : 0;
    *old_interval = tg->alarm_interval;
    tg->alarm_interval = interval;
    tg->alarm.fn = alarm_fires;
    if (value)
        ktimer_set(&tg->alarm, now + value);
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
    if (which)
        return -ENOSYS;
    u64 ov, oi;
    set_alarm(current_task()->tg, (u64)v[2] * NS + (u64)v[3] * 1000, (u64)v[0] * NS + (u64)v[1] * 1000, &ov, &oi);
    s64 o[4] = {(s64)(oi / NS), (s64)(oi % NS / 1000), (s64)(ov / NS), (s64)(ov % NS / 1000)};
    return old && copy_to_user(old, o, sizeof(o)) ? -EFAULT : 0;
}

SYSCALL2(getitimer, int, which, uptr, val)
{
    struct tgroup *tg = current_task()->tg;
    if (which < 0 || which > 2)
        return -EINVAL;
    u64 now = host_clock(CLOCK_MONOTONIC), d = which ? 0 : tg->alarm.deadline, left = d > now ? d - now : 0;
    u64 oi = which ? 0 : tg->alarm_interval;
    s64 o[4] = {(s64)(oi / NS), (s64)(oi % NS / 1000), (s64)(left / NS), (s64)(left % NS / 1000)};
    return copy_to_user(val, o, sizeof(o));
}

SYSCALL1(times, uptr, buf)
{
    u64 cpu = host_clock(CLOCK_PROCESS_CPUTIME_ID) / 10000000;
    s64 t[4] = {(s64)cpu, 0, (s64)(current_task()->tg->cutime / 10000000), 0};
    if (buf && copy_to_user(buf, t, sizeof(t)))
        return -EFAULT;
    return (long)(host_clock(CLOCK_MONOTONIC) / 10000000);
}
