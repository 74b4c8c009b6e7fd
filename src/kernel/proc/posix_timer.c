/* timer_create(2) and the rest. A timer belongs to its group and lives in tg->posix_timers; all is under tasklist_lock.
 *
 * Clocks of real time use a kernel timer, those of cpu time the group's watch (cputime.c). As on Linux a periodic timer is not set
 * again while its signal is pending: taking the signal counts the periods that passed meanwhile (the overrun) and sets it. So a
 * timer makes at most one pending signal, and a period of nanoseconds makes no storm. Deadlines: CLOCK_MONOTONIC for clocks of
 * real time, the group's or thread's cpu time otherwise; ns. */
#include "proc/posix_timer.h"
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
#define TIMERS_MAX 4096u
#define IGNORED_PERIOD 1000000ull /* at least, while nobody takes the signal */

struct posix_timer {
    struct list link;
    struct tgroup *tg;
    u32 id;
    int clock, notify, signo;
    u32 tid; /* SIGEV_THREAD_ID, or the thread of a thread clock */
    u64 value; /* sigval */
    struct ktimer k;
    u64 deadline, interval; /* deadline 0: disarmed */
    u32 overrun; /* of the last signal taken */
    bool waiting; /* the signal is pending, the period goes on when it is taken */
};

static bool on_cpu(int clock) { return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID; }

static struct posix_timer *find(struct tgroup *tg, u32 id)
{
    struct posix_timer *t;
    list_for_each(t, &tg->posix_timers, link)
        if (t->id == id)
            return t;
    return NULL;
}

static u64 now_of(const struct posix_timer *t)
{
    return t->clock == CLOCK_PROCESS_CPUTIME_ID ? cputime_group()
           : t->clock == CLOCK_THREAD_CPUTIME_ID ? cputime_thread()
                                                 : host_clock(CLOCK_MONOTONIC);
}

static void set_locked(struct posix_timer *t)
{
    if (!t->deadline)
        return;
    if (on_cpu(t->clock)) {
        u64 now = now_of(t);
        cpu_watch_locked(t->tg, t->deadline > now ? t->deadline - now : 0);
    } else {
        ktimer_set(&t->k, t->deadline);
    }
}

static void expire_locked(struct posix_timer *t, u64 now)
{
    int info[32] = {0};
    struct task *target = t->notify == SIGEV_THREAD_ID ? task_find_locked(t->tid) : NULL;
    info[0] = t->signo, info[2] = SI_TIMER, info[4] = (int)t->id;
    *(u64 *)&info[6] = t->value;
    bool queued = false;
    if (t->notify != SIGEV_NONE && !(t->notify == SIGEV_THREAD_ID && (!target || target->tg != t->tg)))
        signal_send_locked(t->tg, target, t->signo, info), queued = signal_timer_pending_locked(t->tg, target, t->id);
    if (!t->interval) {
        t->deadline = 0;
    } else if (queued) {
        t->waiting = true;
    } else {
        u64 missed = (now - t->deadline) / t->interval;
        t->deadline += (missed + 1) * t->interval;
        t->deadline = MAX(t->deadline, now + IGNORED_PERIOD);
        set_locked(t);
    }
}

static void fires(struct ktimer *k)
{
    struct posix_timer *t = container_of(k, struct posix_timer, k);
    u64 now = host_clock(CLOCK_MONOTONIC);
    if (t->deadline && !t->waiting && t->deadline <= now)
        expire_locked(t, now);
}

void posix_timers_cpu_locked(struct tgroup *tg, u64 now, u64 *next)
{
    struct posix_timer *t;
    list_for_each(t, &tg->posix_timers, link) {
        if (!on_cpu(t->clock) || !t->deadline || t->waiting)
            continue;
        u64 n = now;
        if (t->clock == CLOCK_THREAD_CPUTIME_ID) {
            if (t->tid != current_tid()) { /* that thread must look itself */
                *next = MIN(*next, NS / 1000);
                continue;
            }
            n = cputime_thread();
        }
        if (t->deadline <= n)
            expire_locked(t, n);
        if (t->deadline && !t->waiting)
            *next = MIN(*next, t->deadline > n ? t->deadline - n : 0);
    }
}

void posix_timer_dequeued_locked(struct tgroup *tg, int *info)
{
    struct posix_timer *t = find(tg, (u32)info[4]);
    if (!t)
        return;
    t->overrun = 0;
    if (t->waiting) {
        u64 now = now_of(t), missed = now > t->deadline ? (now - t->deadline) / t->interval : 0;
        t->overrun = (u32)MIN(missed, 0x7ffffffful);
        t->deadline += (missed + 1) * t->interval;
        t->waiting = false;
        set_locked(t);
    }
    info[5] = (int)t->overrun;
}

static void drop_locked(struct posix_timer *t)
{
    ktimer_cancel(&t->k);
    list_del(&t->link);
    kfree(t);
}

void posix_timers_drop_locked(struct tgroup *tg)
{
    struct posix_timer *t;
    list_for_each(t, &tg->posix_timers, link)
        drop_locked(t);
}

/* sigevent as the kernel lays it out */
struct event {
    u64 value;
    int signo, notify, tid;
};

static long check_event(const struct event *e)
{
    int kind = e->notify & ~SIGEV_THREAD_ID;
    if (e->notify & SIGEV_THREAD_ID) {
        mutex_lock(&tasklist_lock);
        struct task *t = e->tid > 0 ? task_find_locked((u32)e->tid) : NULL;
        bool mine = t && t->tg == current_task()->tg;
        mutex_unlock(&tasklist_lock);
        if (!mine || kind != SIGEV_SIGNAL)
            return -EINVAL;
    }
    if (kind == SIGEV_NONE)
        return 0;
    return (kind == SIGEV_SIGNAL || kind == SIGEV_THREAD) && e->signo > 0 && e->signo <= 64 ? 0 : -EINVAL;
}

SYSCALL3(timer_create, int, clock, uptr, uevent, uptr, uid)
{
    struct event e = {0, SIGALRM, SIGEV_SIGNAL, 0};
    struct tgroup *tg = current_task()->tg;
    if (clock < 0) { /* clocks of a process or thread by number: our own only */
        u32 pid = (u32)~(clock >> 3), own = clock & 4 ? current_tid() : tg->tgid;
        if ((clock & 3) == 3 || (pid && pid != own))
            return -EINVAL;
        clock = clock & 4 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
    }
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_BOOTTIME:
    case 11: /* CLOCK_TAI */
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
        break;
    default:
        return clock >= 0 && clock <= 9 ? -EOPNOTSUPP : -EINVAL;
    }
    if (uevent && copy_from_user(&e, uevent, 20))
        return -EFAULT;
    long r = uevent ? check_event(&e) : 0;
    if (r)
        return r;
    struct posix_timer *t = knew(struct posix_timer), *other;
    if (!t)
        return -EAGAIN;
    *t = (struct posix_timer){.tg = tg, .clock = clock, .notify = e.notify & ~SIGEV_THREAD, .signo = e.signo, .value = e.value};
    t->tid = e.notify & SIGEV_THREAD_ID ? (u32)e.tid : current_tid();
    t->k.fn = fires;
    t->k.lock = &tasklist_lock;
    u32 count = 0;
    mutex_lock(&tasklist_lock);
    list_for_each(other, &tg->posix_timers, link)
        count++;
    while (find(tg, tg->posix_timer_next))
        tg->posix_timer_next = (tg->posix_timer_next + 1) & 0x7fffffff;
    t->id = tg->posix_timer_next;
    if (!uevent)
        t->value = t->id;
    u32 id = t->id;
    if (count < TIMERS_MAX) {
        tg->posix_timer_next = (t->id + 1) & 0x7fffffff;
        list_add_tail(&tg->posix_timers, &t->link);
    }
    mutex_unlock(&tasklist_lock);
    if (count >= TIMERS_MAX) {
        kfree(t);
        return -EAGAIN;
    }
    if (put_user(id, uid)) {
        mutex_lock(&tasklist_lock);
        if ((t = find(tg, id)))
            drop_locked(t);
        mutex_unlock(&tasklist_lock);
        return -EFAULT;
    }
    return 0;
}

/* interval and value */
static void tell_locked(const struct posix_timer *t, struct __kernel_timespec v[2])
{
    u64 left = 0, now = now_of(t);
    if (t->deadline) {
        u64 at = t->deadline;
        if (at <= now && t->interval)
            at += ((now - at) / t->interval + 1) * t->interval;
        left = at > now ? at - now : t->notify == SIGEV_NONE ? 0 : 1;
    }
    v[0] = (struct __kernel_timespec){(s64)(t->interval / NS), (s64)(t->interval % NS)};
    v[1] = (struct __kernel_timespec){(s64)(left / NS), (s64)(left % NS)};
}

static bool valid(const struct __kernel_timespec *t) { return t->tv_sec >= 0 && (u64)t->tv_nsec < NS; }
static u64 ns_of(const struct __kernel_timespec *t) { return t->tv_sec > 4000000000ll ? 4000000000ull * NS : (u64)t->tv_sec * NS + (u64)t->tv_nsec; }

static void settime_locked(struct posix_timer *t, bool absolute, const struct __kernel_timespec v[2])
{
    u64 value = ns_of(&v[1]), now = now_of(t);
    ktimer_cancel(&t->k);
    t->waiting = false;
    t->interval = ns_of(&v[0]);
    t->deadline = 0;
    if (!value)
        return;
    if (!absolute)
        t->deadline = now + value;
    else if (t->clock == CLOCK_REALTIME || t->clock == 11) {
        u64 real = host_clock(CLOCK_REALTIME);
        t->deadline = value > real ? now + (value - real) : now;
    } else {
        t->deadline = value;
    }
    set_locked(t);
}

SYSCALL4(timer_settime, u32, id, int, flags, uptr, unew, uptr, uold)
{
    struct __kernel_timespec v[2], o[2];
    if (!unew)
        return -EINVAL;
    if (copy_from_user(v, unew, sizeof(v)))
        return -EFAULT;
    if (!valid(&v[0]) || !valid(&v[1]))
        return -EINVAL;
    mutex_lock(&tasklist_lock);
    struct posix_timer *t = find(current_task()->tg, id);
    if (t) {
        tell_locked(t, o);
        settime_locked(t, flags & 1 /* TIMER_ABSTIME */, v);
    }
    mutex_unlock(&tasklist_lock);
    if (!t)
        return -EINVAL;
    return uold && copy_to_user(uold, o, sizeof(o)) ? -EFAULT : 0;
}

SYSCALL2(timer_gettime, u32, id, uptr, uval)
{
    struct __kernel_timespec v[2];
    mutex_lock(&tasklist_lock);
    struct posix_timer *t = find(current_task()->tg, id);
    if (t)
        tell_locked(t, v);
    mutex_unlock(&tasklist_lock);
    return t ? copy_to_user(uval, v, sizeof(v)) : -EINVAL;
}

SYSCALL1(timer_getoverrun, u32, id)
{
    mutex_lock(&tasklist_lock);
    struct posix_timer *t = find(current_task()->tg, id);
    long r = t ? (long)t->overrun : -EINVAL;
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL1(timer_delete, u32, id)
{
    mutex_lock(&tasklist_lock);
    struct posix_timer *t = find(current_task()->tg, id);
    if (t)
        drop_locked(t);
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -EINVAL;
}
