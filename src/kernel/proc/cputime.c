/* Processor time. The host tells a thread its own time and that of its process, never another's; a guest process is one host process
 * (a stub) unless vfork children share it or an exec moved it. So
 *
 *     time of a group = tg->cpu_before (in earlier stubs) + clock of the stub - tg->proc_base
 *
 * and for a group with one task, exactly: tg->utime (of ended tasks) + the task's own. User and system time cannot be told apart
 * (the guest kernel runs in the guest's process): all counts as user time.
 *
 * Timers on cpu time (ITIMER_PROF, ITIMER_VIRTUAL, RLIMIT_CPU, POSIX timers): a kernel timer on real time, set to when the
 * group could have used enough, asks a running task of it to look (WORK_CPU); that one sends what is due and sets it anew.
 * While all tasks sleep it looks again every WATCH_IDLE. All state is under tasklist_lock. */
#include "proc/cputime.h"
#include "arch/x86_64/regs.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/posix_timer.h"
#include "proc/task.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/resource.h>
#include <linux/time.h>

#define NS 1000000000ull
#define WATCH_IDLE 10000000ull
#define WATCH_MIN 500000ull

u64 cputime_stub(void) { return host_clock(CLOCK_PROCESS_CPUTIME_ID); }

static u64 since(u64 now, u64 base) { return now > base ? now - base : 0; }

/* Of the calling task, on its present carrier. */
static u64 here(void) { return since(host_clock(CLOCK_THREAD_CPUTIME_ID), current_task()->utime_base); }

u64 cputime_thread(void) { return current_task()->utime_before + here(); }

u64 cputime_group(void)
{
    struct tgroup *tg = current_task()->tg;
    u64 t = tg->utime + here();
    if (atomic_load(&tg->live) > 1)
        t = MAX(t, tg->cpu_before + since(cputime_stub(), tg->proc_base));
    u64 seen = atomic_load(&tg->cpu_seen);
    if (t > seen)
        atomic_store(&tg->cpu_seen, t);
    return MAX(t, seen);
}

u64 cputime_seen(struct tgroup *tg) { return tg == current_task()->tg ? cputime_group() : MAX(tg->utime, atomic_load(&tg->cpu_seen)); }

static void look_locked(struct tgroup *tg)
{
    struct task *t;
    list_for_each(t, &tg->tasks, tg_link)
        if (!t->exited && atomic_load(&t->core.wake) != WAKE_SLEEPING) {
            atomic_or(&t->core.work, WORK_CPU);
            task_kick(t);
        }
}

u64 cputime_ask_locked(struct tgroup *tg)
{
    if (tg != current_task()->tg && !tg->zombie && !tg->virtual_init)
        look_locked(tg);
    return cputime_seen(tg);
}

void cputime_leave_stub(struct task *t)
{
    u64 n = here();
    t->tg->cpu_before = t->tg->utime = t->tg->utime + n;
    t->utime_before += n;
    t->utime_base = ~0ull;
}

void cputime_enter_stub(struct task *t)
{
    t->utime_base = host_clock(CLOCK_THREAD_CPUTIME_ID);
    t->tg->proc_base = cputime_stub();
}

void cputime_parks(struct task *t)
{
    t->utime_parked = here();
    cputime_group();
}

void cputime_restored(struct task *t)
{
    t->utime_before += t->utime_parked;
    t->utime_base = 0;
}

void cputime_task_ends_locked(struct task *t)
{
    t->tg->utime += here();
    t->utime_base = ~0ull;
    t->tg->maxrss = MAX(t->tg->maxrss, mm_size(t->mm));
}

void cputime_children_locked(struct tgroup *p, struct tgroup *c)
{
    p->cutime += c->utime + c->cutime;
    p->cstime += c->stime + c->cstime;
    p->cmaxrss = MAX(p->cmaxrss, MAX(c->maxrss, c->cmaxrss));
}

/* ---- timers ---- */

static void watch_fires(struct ktimer *k) /* tasklist_lock held */
{
    look_locked(container_of(k, struct tgroup, cpu_watch));
    ktimer_set(k, k->deadline + WATCH_IDLE);
}

void cpu_watch_locked(struct tgroup *tg, u64 ns)
{
    u64 at = host_clock(CLOCK_MONOTONIC) + MAX(ns / MAX(tg->live, 1u), WATCH_MIN);
    bool armed = list_linked(&tg->cpu_watch.link);
    if (armed && tg->cpu_watch.deadline <= at)
        return;
    tg->cpu_watch.fn = watch_fires;
    tg->cpu_watch.lock = &tasklist_lock;
    ktimer_set(&tg->cpu_watch, at);
}

static void timer_due(struct tgroup *tg, struct cpu_timer *c, int sig, u64 now, u64 *next)
{
    u8 info[128];
    if (!c->deadline)
        return;
    if (c->deadline <= now) {
        siginfo_user(info, sig, SI_KERNEL, 0, 0);
        signal_send_locked(tg, NULL, sig, info);
        c->deadline = c->interval ? now + c->interval : 0;
    }
    if (c->deadline)
        *next = MIN(*next, c->deadline - now);
}

static void limit_due(struct tgroup *tg, u64 now, u64 *next)
{
    u64 *lim = tg->rlimits[RLIMIT_CPU], s = now / NS;
    u8 info[128];
    if (lim[0] == ~0ull)
        return;
    if (lim[1] != ~0ull && s >= lim[1]) {
        siginfo_user(info, SIGKILL, SI_KERNEL, 0, 0);
        signal_send_locked(tg, NULL, SIGKILL, info);
        return;
    }
    if (s >= MAX(lim[0], 1ul) && s > tg->cpu_limit_told) { /* once a second */
        tg->cpu_limit_told = s;
        siginfo_user(info, SIGXCPU, SI_KERNEL, 0, 0);
        signal_send_locked(tg, NULL, SIGXCPU, info);
    }
    *next = MIN(*next, MAX(lim[0], s + 1) * NS - now);
}

void cpu_watch_check(struct task *t)
{
    struct tgroup *tg = t->tg;
    u64 next = NO_DEADLINE;
    atomic_and(&t->core.work, ~WORK_CPU);
    mutex_lock(&tasklist_lock);
    u64 now = cputime_group();
    timer_due(tg, &tg->cpu_timer[0], SIGVTALRM, now, &next);
    timer_due(tg, &tg->cpu_timer[1], SIGPROF, now, &next);
    limit_due(tg, now, &next);
    posix_timers_cpu_locked(tg, now, &next);
    ktimer_cancel(&tg->cpu_watch);
    if (next != NO_DEADLINE)
        cpu_watch_locked(tg, next);
    mutex_unlock(&tasklist_lock);
}

void cpu_watch_start(struct task *t)
{
    if (t->tg->rlimits[RLIMIT_CPU][0] == ~0ull)
        return;
    mutex_lock(&tasklist_lock);
    cpu_watch_locked(t->tg, NS / 10);
    mutex_unlock(&tasklist_lock);
}
