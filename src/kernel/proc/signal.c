/* Sending signals and choosing what to deliver. Frames are built by arch/x86_64/sigframe.c.
 *
 * All queues are under tasklist_lock. A sender queues, sets WORK_SIGNAL on a thread that does not block the signal and
 * kicks it; the exit path (exit_work) then dequeues. Standard signals queue once, real-time ones up to RLIMIT_SIGPENDING. */
#include "proc/signal.h"
#include "mm/mm.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/freeze.h"
#include "proc/posix_timer.h"
#include "proc/ptrace.h"
#include "proc/task.h"
#include "proc/visit.h"
#include "sys/trace.h"
#include "tty/session.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/resource.h>

#define UNBLOCKABLE (SIGSET(SIGKILL) | SIGSET(SIGSTOP))
#define STOP_SIGNALS (SIGSET(SIGSTOP) | SIGSET(SIGTSTP) | SIGSET(SIGTTIN) | SIGSET(SIGTTOU))
#define FAULTS (SIGSET(SIGSEGV) | SIGSET(SIGBUS) | SIGSET(SIGILL) | SIGSET(SIGTRAP) | SIGSET(SIGFPE))
#define IGNORED_BY_DEFAULT (SIGSET(SIGCHLD) | SIGSET(SIGURG) | SIGSET(SIGWINCH) | SIGSET(SIGCONT))

static KSTATE struct waitq signal_queue; /* signalfd and sigtimedwait sleepers */

KSTATE u32 stopped_groups;

struct waitq *signal_waitq(void) { return &signal_queue; }

void siginfo_user(void *info, int sig, int code, u32 pid, u32 uid)
{
    memset(info, 0, 128);
    int *p = info;
    p[0] = sig;
    p[2] = code;
    p[4] = (int)pid;
    p[5] = (int)uid;
}

static bool ignored(struct tgroup *tg, int sig)
{
    u64 h = tg->actions[sig - 1].handler;
    return h == 1 || (h == 0 && (IGNORED_BY_DEFAULT & SIGSET(sig)));
}

static void sigqueue_free(struct tgroup *tg, struct sigqueue *q)
{
    tg->queued--;
    kfree(q);
}

static void drop_pending(struct tgroup *tg, struct sigpending *p, u64 set)
{
    struct sigqueue *q;
    p->set &= ~set;
    list_for_each(q, &p->queue, link)
        if (SIGSET(*(int *)q->info) & set) {
            list_del(&q->link);
            sigqueue_free(tg, q);
        }
}

/* sigaction(2): an action that ignores the signal drops what is pending, blocked or not. */
void signal_drop_ignored_locked(struct tgroup *tg, int sig)
{
    struct task *t;
    if (!ignored(tg, sig))
        return;
    drop_pending(tg, &tg->shared, SIGSET(sig));
    list_for_each(t, &tg->tasks, tg_link)
        drop_pending(tg, &t->pending, SIGSET(sig));
}

void signal_recalc(struct task *t)
{
    u64 set = (t->pending.set | t->tg->shared.set) & ~t->blocked;
    if (set || (t->tg->stop_sig && !(ptraced(t) && t->pt->stops_seen == t->tg->stops)))
        atomic_or(&t->core.work, WORK_SIGNAL);
    else
        atomic_and(&t->core.work, ~WORK_SIGNAL);
}

/* told: the parent hears of it (a group that is killed does not go on). */
static void resume_group(struct tgroup *tg, bool told)
{
    struct task *t;
    drop_pending(tg, &tg->shared, STOP_SIGNALS);
    list_for_each(t, &tg->tasks, tg_link)
        drop_pending(tg, &t->pending, STOP_SIGNALS);
    if (tg->stop_sig) {
        atomic_sub(&stopped_groups, 1);
        tg->stop_sig = 0;
        tg->cont_notify = told;
        tg->stop_notify = false;
        if (tg->parent && told) {
            u8 info[128];
            siginfo_user(info, SIGCHLD, CLD_CONTINUED, tg->tgid, tg->leader->cred ? tg->leader->cred->uid : 0);
            ((int *)info)[6] = SIGCONT;
            if (!(tg->parent->actions[SIGCHLD - 1].flags & SA_NOCLDSTOP))
                signal_send_locked(tg->parent, NULL, SIGCHLD, info);
            wake_up_all(&tg->parent->child_wait, 1);
        }
    }
    wake_up_all(&tg->stop_wait, 1);
    if (told)
        ptrace_cont_locked(tg);
}

long signal_send_locked(struct tgroup *tg, struct task *t, int sig, const void *info)
{
    if (tg->zombie || (tg->virtual_init && sig != SIGCHLD))
        return 0;
    struct task *it;
    tg->conts += sig == SIGCONT;
    if (sig == SIGCONT || sig == SIGKILL)
        resume_group(tg, sig == SIGCONT);
    else if (STOP_SIGNALS & SIGSET(sig)) {
        drop_pending(tg, &tg->shared, SIGSET(SIGCONT));
        list_for_each(it, &tg->tasks, tg_link)
            drop_pending(tg, &it->pending, SIGSET(SIGCONT));
    }
    if (sig == SIGKILL) {
        tg->group_exit = true;
        tg->exit_code = SIGKILL;
        list_for_each(it, &tg->tasks, tg_link) {
            atomic_or(&it->core.work, WORK_EXIT);
            task_kick(it);
        }
        return 0;
    }
    struct task *target = t;
    if (!t)
        list_for_each(it, &tg->tasks, tg_link)
            if (!it->leaves && !it->exited && (!target || ((target->blocked & SIGSET(sig)) && !(it->blocked & SIGSET(sig)))))
                target = it;
    if (!target || (ignored(tg, sig) && !(target->blocked & SIGSET(sig)) && !ptraced(target)))
        return 0;
    struct sigpending *p = t ? &t->pending : &tg->shared;
    if (sig < 32 && (p->set & SIGSET(sig)))
        return 0;
    bool full = sig >= 32 && tg->queued >= tg->rlimits[RLIMIT_SIGPENDING][0];
    struct sigqueue *q = full ? NULL : kmalloc(sizeof(*q));
    if (!q && sig >= 32 && ((const int *)info)[2] != SI_USER)
        return -EAGAIN;
    if (q) {
        tg->queued++;
        memcpy(q->info, info, 128);
        list_add_tail(&p->queue, &q->link);
    }
    p->set |= SIGSET(sig);
    if (!(target->blocked & SIGSET(sig))) {
        atomic_or(&target->core.work, WORK_SIGNAL);
        task_kick(target);
    }
    wake_up_all(&signal_queue, 1);
    return 0;
}

bool signal_timer_pending_locked(struct tgroup *tg, struct task *t, u32 timer)
{
    struct sigqueue *q;
    list_for_each(q, t ? &t->pending.queue : &tg->shared.queue, link) {
        const int *i = (const int *)q->info;
        if (i[2] == SI_TIMER && (u32)i[4] == timer)
            return true;
    }
    return false;
}

/* A fault of the calling task: cannot be blocked or ignored. */
void signal_force(int sig, int code, u64 addr)
{
    struct task *t = current_task();
    u8 info[128];
    siginfo_user(info, sig, code, 0, 0);
    memcpy(info + 16, &addr, 8);
    mutex_lock(&tasklist_lock);
    struct ksigaction *a = &t->tg->actions[sig - 1];
    if ((t->blocked & SIGSET(sig)) || a->handler == 1)
        a->handler = 0;
    t->blocked &= ~SIGSET(sig);
    signal_send_locked(t->tg, t, sig, info);
    mutex_unlock(&tasklist_lock);
}

/* t will not take these, which somebody has perhaps told it alone of. */
void signal_retarget_locked(struct task *t, u64 set)
{
    struct task *it;
    set &= t->tg->shared.set;
    list_for_each(it, &t->tg->tasks, tg_link)
        if (it != t && !it->leaves && set & ~it->blocked) {
            set &= it->blocked;
            atomic_or(&it->core.work, WORK_SIGNAL);
            task_kick(it);
        }
}

void signal_set_mask(struct task *t, u64 mask)
{
    mutex_lock(&tasklist_lock);
    u64 more = mask & ~UNBLOCKABLE & ~t->blocked;
    t->blocked = mask & ~UNBLOCKABLE;
    if (unlikely(more & t->tg->shared.set) && t->tg->live > 1)
        signal_retarget_locked(t, more);
    signal_recalc(t);
    mutex_unlock(&tasklist_lock);
}

void signal_set_temp_mask(u64 mask)
{
    struct task *t = current_task();
    t->saved_blocked = t->blocked;
    atomic_or(&t->core.work, WORK_MASK);
    signal_set_mask(t, mask);
}

u64 signal_pending_set(void)
{
    struct task *t = current_task();
    return t->pending.set | t->tg->shared.set;
}

static int take(struct tgroup *tg, struct sigpending *p, u64 mask, void *info)
{
    u64 set = p->set & mask;
    if (!set)
        return 0;
    u64 sync = set & (FAULTS | SIGSET(SIGSYS));
    int sig = __builtin_ctzll(sync ? sync : set) + 1;
    struct sigqueue *q, *found = NULL;
    bool more = false;
    list_for_each(q, &p->queue, link)
        if (*(int *)q->info == sig) {
            if (found) {
                more = true;
                break;
            }
            found = q;
        }
    if (found) {
        memcpy(info, found->info, 128);
        list_del(&found->link);
        sigqueue_free(tg, found);
    } else {
        siginfo_user(info, sig, 0, 0, 0);
    }
    if (!more)
        p->set &= ~SIGSET(sig);
    return sig;
}

/* *conts: how often the group had been told to go on. */
static long dequeue(u64 mask, void *info, u32 *conts)
{
    struct task *t = current_task();
    mutex_lock(&tasklist_lock);
    int sig = take(t->tg, &t->pending, mask, info);
    if (!sig)
        sig = take(t->tg, &t->tg->shared, mask, info);
    if (sig && ((int *)info)[2] == SI_TIMER)
        posix_timer_dequeued_locked(t->tg, info);
    signal_recalc(t);
    *conts = t->tg->conts;
    mutex_unlock(&tasklist_lock);
    return sig;
}

long signal_dequeue(u64 mask, void *info)
{
    u32 conts;
    return dequeue(mask, info, &conts);
}

void signal_clear_handlers(struct tgroup *tg)
{
    for (int i = 0; i < 64; i++)
        if (tg->actions[i].handler > 1)
            tg->actions[i] = (struct ksigaction){0};
}

void signal_flush_on_exec(struct task *t)
{
    for (int i = 0; i < 64; i++) {
        struct ksigaction *a = &t->tg->actions[i];
        if (a->handler != 1)
            a->handler = 0;
        a->flags = a->mask = a->restorer = 0;
    }
    t->alt_sp = t->alt_size = 0;
    t->alt_flags = 2; /* SS_DISABLE */
}

/* Stops the calling task while its group is stopped. */
static void stop_wait(struct task *t)
{
    while (t->tg->stop_sig && !(t->core.work & WORK_EXIT) && !ptraced(t)) {
        wait_prepare(&t->tg->stop_wait);
        if (t->tg->stop_sig && !ptraced(t) && wait_sleep_freezable(NO_DEADLINE))
            break; /* to park or to end: the exit path comes here again */
    }
    wait_finish();
    mutex_lock(&tasklist_lock);
    signal_recalc(t);
    mutex_unlock(&tasklist_lock);
}

/* conts: as when the signal was taken. A SIGCONT that came since then found nothing to take back, so it is done here. */
static void stop_group(struct task *t, int sig, u32 conts)
{
    struct task *it;
    mutex_lock(&tasklist_lock);
    if (t->tg->conts != conts) {
        mutex_unlock(&tasklist_lock);
        return;
    }
    if (!t->tg->stop_sig)
        atomic_add(&stopped_groups, 1);
    t->tg->stops++;
    t->tg->stop_sig = (u32)sig;
    t->tg->stop_notify = true;
    t->tg->cont_notify = false;
    list_for_each(it, &t->tg->tasks, tg_link) {
        atomic_or(&it->core.work, WORK_SIGNAL);
        if (it != t)
            task_kick(it);
    }
    if (t->tg->parent) {
        u8 info[128];
        siginfo_user(info, SIGCHLD, 5 /* CLD_STOPPED */, t->tg->tgid, t->cred->uid);
        ((int *)info)[6] = sig;
        if (!(t->tg->parent->actions[SIGCHLD - 1].flags & SA_NOCLDSTOP))
            signal_send_locked(t->tg->parent, NULL, SIGCHLD, info);
        wake_up_all(&t->tg->parent->child_wait, 1);
    }
    mutex_unlock(&tasklist_lock);
}

long sigframe_setup(struct regs *r, int sig, const void *info, const struct ksigaction *a, u64 mask);
bool is_restart(long v) { return v == -ERESTARTSYS || v == -ERESTARTNOINTR || v == -ERESTARTNOHAND || v == -ERESTART_RESTARTBLOCK; }

/* false: nothing came of it, the call goes on as if there had been none. */
bool signal_deliver(struct task *t, struct regs *r, int sig, void *info, u32 conts)
{
    mutex_lock(&tasklist_lock); /* another thread may be changing it */
    struct ksigaction a = t->tg->actions[sig - 1];
    if ((a.flags & SA_RESETHAND) && a.handler > 1)
        t->tg->actions[sig - 1].handler = 0;
    mutex_unlock(&tasklist_lock);
    if (a.handler == 1)
        return false;
    if (unlikely(trace_active))
        trace_event('s', sig);
    if (a.handler == 0) {
        if (IGNORED_BY_DEFAULT & SIGSET(sig))
            return false;
        if (STOP_SIGNALS & SIGSET(sig)) {
            if (sig == SIGSTOP || !pgrp_orphaned(t->tg->pgid))
                stop_group(t, sig, conts);
            return false;
        }
        if ((SIGSET(sig) & FAULTS) && this_carrier()->trap.sig == sig)
            klog("%s (%u) ends: signal %d at ip %p, address %p", t->comm, t->tid, sig, (void *)r->rip, *(void **)((char *)info + 16));
        if (t->pt && ptrace_dies(sig, false))
            return true;
        group_exit(sig);
    }
    freeze_call_interrupted(t, r);
    if (r->nr != ~0ull && is_restart((long)r->rax)) {
        bool restart = (long)r->rax == -ERESTARTNOINTR || ((long)r->rax == -ERESTARTSYS && (a.flags & SA_RESTART));
        if (restart) { /* the frame shows the call not yet made */
            extern char syscall_entry[];
            u64 call = mm_view_at_call(t->mm, mm_view_original(t->mm, r->rip));
            r->rax = r->nr;
            if (!call) { /* from a place that is no system call: the kernel is entered again, rcx is where it returns to */
                r->rcx = r->rip;
                call = (u64)syscall_entry;
            }
            r->rip = call;
        } else {
            r->rax = (u64)-EINTR;
        }
    }
    r->nr = ~0ull;
    u64 mask = t->core.work & WORK_MASK ? t->saved_blocked : t->blocked;
    if (t->pt)
        ptrace_handler_begins(t, r, false);
    if (sigframe_setup(r, sig, info, &a, mask)) { /* a handler of SIGSEGV, perhaps on another stack, may mend that */
        if (sig != SIGSEGV) {
            signal_force(SIGSEGV, 0x80, 0);
            return true;
        }
        t->tg->actions[SIGSEGV - 1].handler = 0;
        group_exit(SIGSEGV);
    }
    if (t->pt)
        ptrace_handler_begins(t, r, true);
    atomic_and(&t->core.work, ~WORK_MASK);
    signal_set_mask(t, t->blocked | a.mask | (a.flags & SA_NODEFER ? 0 : SIGSET(sig)));
    return true;
}

/* Called by entry.S while task->work is not zero, registers saved in *r. */
void exit_work(struct regs *r);
void exit_work(struct regs *r)
{
    struct task *t = current_task();
    u8 info[128];
    if (t->core.work & WORK_EXIT)
        task_exit(t->tg->exit_code);
    if (t->core.work & WORK_FREEZE)
        freeze_park(r);
    if (t->core.work & WORK_VISIT)
        visits_serve();
    if (t->core.work & WORK_PTRACE && ptrace_work(t, r))
        return;
    if (vfork_parent_waits(t, r)) { /* no signal interrupts that */
        freeze_call_goes_on(t, r);
        return;
    }
    if (t->core.work & WORK_BARRIER)
        atomic_and(&t->core.work, ~WORK_BARRIER);
    if (t->core.work & WORK_CUT) {
        atomic_and(&t->core.work, ~WORK_CUT);
        mm_files_cut(t->mm);
    }
    if (t->core.work & WORK_CPU)
        cpu_watch_check(t);
    if (t->tg->stop_sig && ptraced(t)) {
        if (ptrace_group_stop(t))
            return;
    } else if (t->tg->stop_sig) {
        stop_wait(t);
    }
    if (t->core.work & WORK_FREEZE)
        return;
    u32 conts;
    long sig = dequeue(~t->blocked, info, &conts);
    if (sig && ptraced(t)) {
        *(int *)info = (int)sig;
        ptrace_signal(t, r, info);
        return;
    }
    if (sig && signal_deliver(t, r, (int)sig, info, conts))
        return;
    if (t->core.work & (WORK_EXIT | WORK_SIGNAL | WORK_PTRACE))
        return;
    if (t->core.work & WORK_MASK) {
        atomic_and(&t->core.work, ~WORK_MASK);
        signal_set_mask(t, t->saved_blocked);
    }
    if (freeze_cut_short(t, r)) {
        if (!(t->pt && ptrace_call_cut(t, r)))
            freeze_call_goes_on(t, r);
        return;
    }
    t->core.froze = t->core.wants_rest = false;
    if (r->nr != ~0ull && is_restart((long)r->rax) && !(t->pt && ptrace_call_again(t, r)))
        syscall_again(r);
}
