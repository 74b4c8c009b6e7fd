/* The tracee's side of ptrace, and who traces whom; see ptrace.h. The requests are in sys/sys_ptrace.c. */
#include "proc/ptrace.h"
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "mm/mm.h"
#include "proc/freeze.h"
#include "proc/futex.h"
#include <asm/signal.h>
#include <asm/unistd.h>

#define FLAGS_USER 0x40dd5ul /* what a tracer may set */
#define FLAG_TF 0x100ul
#define CLD_TRAPPED 4
#define TRAP_TRACE 2
#define MUST_DO (STOP_ENTRY | STOP_SIGNAL | STOP_DIES) /* also without a tracer */

void syscall_dispatch(struct regs *r);

/* ---- who traces whom ---- */

struct ptrace *ptrace_new(void)
{
    struct ptrace *p = knew(struct ptrace);
    if (p && !(p->saved = frozen_new())) {
        kfree(p);
        return NULL;
    }
    return p;
}

void ptrace_free(struct ptrace *p)
{
    if (p)
        kfree(p->saved);
    kfree(p);
}

void ptrace_link_locked(struct task *tracer, struct task *t, struct ptrace *p, bool seized, u32 options)
{
    if (t->pt) { /* was traced before */
        ptrace_free(p);
        p = t->pt;
        struct frozen *saved = p->saved;
        *p = (struct ptrace){.saved = saved};
    }
    p->tracer = tracer;
    p->task = t;
    p->tid = t->tid;
    p->pgid = t->tg->pgid;
    p->uid = t->cred ? t->cred->uid : 0;
    p->seized = seized;
    p->options = options;
    list_add_tail(&tracer->tracees, &p->link);
    atomic_store(&t->pt, p);
    if (t->tg->stop_sig) { /* it is to tell of that */
        atomic_or(&t->core.work, WORK_SIGNAL | WORK_PTRACE);
        wake_up_all(&t->tg->stop_wait, 1);
    }
}

void ptrace_unlink_locked(struct ptrace *p)
{
    if (p->tracer)
        list_del(&p->link);
    p->tracer = NULL;
    p->mode = RUN_ON;
    p->options = 0;
    atomic_and(&p->pending, MUST_DO);
    p->in_call = false;
}

static void tell_tracer_locked(struct ptrace *p, int code, int status)
{
    struct tgroup *tg = p->tracer->tg;
    struct ksigaction *a = &tg->actions[SIGCHLD - 1];
    p->told = false;
    if (a->handler != 1 && (code != CLD_TRAPPED || !(a->flags & SA_NOCLDSTOP))) {
        u8 info[128];
        siginfo_user(info, SIGCHLD, code, p->tid, p->uid);
        ((int *)info)[6] = status;
        signal_send_locked(tg, NULL, SIGCHLD, info);
    }
    wake_up_all(&tg->child_wait, 1);
}

void ptrace_resume_locked(struct ptrace *p, u32 mode, int sig)
{
    p->mode = mode;
    p->resume_sig = sig;
    p->listening = p->has_info = false;
    atomic_store(&p->stopped, false);
    task_wake(p->task);
}

static void pend(struct task *t, u32 stop)
{
    atomic_or(&t->pt->pending, stop);
    atomic_or(&t->core.work, WORK_PTRACE);
}

/* A notice stays with the tracer: of the end of a task that was not its child. */
static void leave_notice_locked(struct ptrace *p, int status)
{
    p->task->pt = NULL;
    p->task = NULL;
    p->stopped = false;
    p->status = status;
    tell_tracer_locked(p, status & 0x7f ? status & 0x80 ? 3 : 2 : 1, status & 0x7f ? status & 0x7f : status >> 8 & 0xff);
}

static void tracer_ends_locked(struct task *t)
{
    struct ptrace *p;
    list_for_each(p, &t->tracees, link) {
        bool kill = p->options & PTRACE_O_KILL;
        ptrace_unlink_locked(p);
        if (!p->task) {
            struct tgroup *held = p->held;
            ptrace_free(p);
            if (held) {
                held->held = false;
                notify_parent_locked(held);
            }
            continue;
        }
        if (p->task->exited)
            continue;
        if (p->stopped)
            ptrace_resume_locked(p, RUN_ON, p->kind == STOP_SIGNAL ? p->code & 0x7f : 0);
        signal_recalc(p->task);
        task_kick(p->task); /* a stop of its group that it had told of holds it again */
        if (kill) {
            u8 info[128];
            siginfo_user(info, SIGKILL, 0x80, 0, 0);
            signal_send_locked(p->task->tg, NULL, SIGKILL, info);
        }
    }
}

void ptrace_task_ends_locked(struct task *t)
{
    struct ptrace *p = t->pt;
    tracer_ends_locked(t);
    if (!p)
        return;
    p->stopped = false;
    if (ptraced(t) && t->tg->leader != t)
        leave_notice_locked(p, t->tg->group_exit ? t->tg->exit_code : p->status);
}

void ptrace_group_ends_locked(struct tgroup *tg)
{
    struct ptrace *p = tg->leader->pt;
    if (!ptraced(tg->leader) || p->tracer->tg == tg->parent)
        return;
    p->held = tg;
    tg->held = true;
    leave_notice_locked(p, tg->exit_code);
}

void ptrace_trap_locked(struct task *t)
{
    struct ptrace *p = t->pt;
    if (p->stopped && p->listening) {
        p->listening = false;
        p->code = (t->tg->stop_sig ? (int)t->tg->stop_sig : SIGTRAP) | EVENT_STOP << 8;
        p->kind = STOP_TRAP;
        tell_tracer_locked(p, CLD_TRAPPED, p->code & 0x7f);
        return;
    }
    pend(t, STOP_TRAP);
    if (!p->stopped)
        task_kick(t);
}

void ptrace_cont_locked(struct tgroup *tg)
{
    struct task *t;
    list_for_each(t, &tg->tasks, tg_link)
        if (ptraced(t) && t->pt->seized)
            ptrace_trap_locked(t);
}

/* ---- stops ---- */

void ptrace_set_entry(struct task *t)
{
    extern char syscall_entry[], syscall_entry_traced[];
    this_carrier()->entry = (u64)(t->pt->mode == RUN_ON ? syscall_entry : syscall_entry_traced);
}

static void set_info(struct ptrace *p, int sig, int code)
{
    siginfo_user(p->info, sig, code, p->tid, p->uid);
    p->has_info = true;
}

/* What wait() tells. False: there is nothing to tell any more. */
static bool describe_locked(struct task *t, struct ptrace *p, u32 stop)
{
    int sig = (int)t->tg->stop_sig;
    p->msg = 0;
    switch (stop) {
    case STOP_ENTRY:
    case STOP_LEAVE:
        p->code = SIGTRAP | (p->options & PTRACE_O_SYSGOOD ? 0x80 : 0);
        p->msg = stop == STOP_ENTRY ? 1 : 2;
        set_info(p, SIGTRAP, p->code);
        return true;
    case STOP_EVENT:
    case STOP_DIES:
        p->code = SIGTRAP | (int)(stop == STOP_DIES ? EVENT_EXIT : p->event) << 8;
        p->msg = stop == STOP_DIES ? (u64)p->dies_of : p->event_msg;
        set_info(p, SIGTRAP, p->code);
        return true;
    case STOP_STEP:
        p->code = SIGTRAP;
        set_info(p, SIGTRAP, TRAP_TRACE);
        return true;
    case STOP_SIGNAL:
        p->code = *(int *)p->info;
        p->has_info = true;
        return true;
    case STOP_GROUP:
        p->stops_seen = t->tg->stops;
        signal_recalc(t);
        p->code = sig | (p->seized ? EVENT_STOP << 8 : 0);
        p->has_info = false;
        if (p->seized)
            set_info(p, SIGTRAP, p->code);
        return sig != 0;
    default:
        p->code = (sig ? sig : SIGTRAP) | EVENT_STOP << 8;
        set_info(p, SIGTRAP, p->code);
        return true;
    }
}

/* What the tracer is to see: no trampolines, and a call that goes on by itself as one that will be restarted. */
static void show(struct task *t, struct ptrace *p, struct regs *r, u32 stop)
{
    if (p->mode == RUN_STEP)
        r->flags &= ~FLAG_TF;
    mm_show_plain(t->mm);
    frozen_fill(p->saved, r);
    struct regs *s = &p->saved->regs;
    s->rip = p->shown_rip = mm_view_original(t->mm, r->rip);
    if (stop & (STOP_ENTRY | STOP_LEAVE))
        s->nr = p->call_nr;
    else if (freeze_cut_short(t, r) && (long)r->rax == -EINTR)
        s->rax = (u64)-ERESTARTNOINTR;
    p->shown_nr = s->nr;
    p->shown_rax = s->rax;
    p->fpu_changed = false;
}

/* The next stop begins. False: there is none; p->kind: but what the tracer was to be asked about is still to be done, it has gone. */
static bool begin(struct task *t, struct ptrace *p, struct regs *r)
{
    for (;;) {
        u32 pending = atomic_load(&p->pending), stop = pending & -pending;
        if (stop)
            show(t, p, r, stop);
        mutex_lock(&tasklist_lock);
        bool traced = ptraced(t), told = false;
        if (!stop && !p->pending)
            atomic_and(&t->core.work, ~WORK_PTRACE);
        if (stop) {
            atomic_and(&p->pending, ~stop);
            p->kind = stop;
            if (stop == STOP_SIGNAL)
                memcpy(p->info, p->signal_info, sizeof(p->info));
            told = traced && describe_locked(t, p, stop);
        }
        if (told) {
            atomic_store(&p->stopped, true);
            tell_tracer_locked(p, CLD_TRAPPED, p->code & 0x7f);
        } else {
            p->kind = stop & MUST_DO;
            p->mode = traced ? p->mode : RUN_ON;
            p->resume_sig = stop == STOP_SIGNAL ? *(int *)p->info : 0;
        }
        bool again = !told && !p->kind && (stop || p->pending);
        mutex_unlock(&tasklist_lock);
        if (!again)
            return told;
    }
}

static void load(struct task *t, struct ptrace *p, struct regs *r)
{
    struct regs *s = &p->saved->regs, old = *r;
    u64 fs;
    if (s->rip != p->shown_rip || s->nr != p->shown_nr || s->rax != p->shown_rax) { /* no longer the call it was in */
        long result;
        if (t->core.froze && (long)r->rax == -ERESTART_RESTARTBLOCK)
            futex_interrupted(t, &result);
        t->core.froze = t->core.wants_rest = false;
        t->again_deadline = t->call_deadline = t->partial.done = 0;
    }
    *r = *s;
    r->kind = old.kind;
    r->rip = s->rip == p->shown_rip ? old.rip : s->rip;
    r->rax = s->rax == p->shown_rax && p->kind != STOP_ENTRY ? old.rax : s->rax;
    r->nr = s->nr == p->shown_nr ? old.nr : (int)s->nr < 0 ? ~0ull : (u32)s->nr;
    if (p->kind == STOP_ENTRY)
        p->call_nr = s->nr;
    r->flags = (s->flags & FLAGS_USER) | 0x202;
    if (p->mode == RUN_STEP)
        r->flags |= FLAG_TF;
    __asm__ volatile("rdfsbase %0" : "=r"(fs));
    if (fs != p->saved->fs_base)
        __asm__ volatile("wrfsbase %0" ::"r"(p->saved->fs_base));
    if (p->fpu_changed && user_xrstor(frozen_xsave(p->saved))) /* checked before: kept as it is */
        p->fpu_changed = false;
}

/* The call at whose entry it stopped. In a child of fork it returns as another task. */
static void make_call(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    bool cut = p->cut && r->nr == p->call_nr && t->core.froze;
    p->cut = false;
    if (cut) {
        r->rax = p->cut_rax;
        freeze_call_goes_on(t, r);
        return;
    }
    if (r->nr != ~0ull) {
        r->rax = r->nr;
        syscall_dispatch(r);
    }
    if (current_task() == t)
        ptrace_call_done(t, r);
}

void ptrace_call_done(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    if (!p->in_call || freeze_cut_short(t, r) || vfork_parent_waits(t, r))
        return;
    p->in_call = p->again = false;
    if (!ptraced(t) || p->pending & STOP_DIES)
        return;
    if (p->mode == RUN_CALLS)
        pend(t, STOP_LEAVE);
    else if (p->mode == RUN_STEP)
        pend(t, STOP_STEP);
}

static void send_self(struct task *t, int sig, const void *info)
{
    mutex_lock(&tasklist_lock);
    signal_send_locked(t->tg, t, sig, info);
    mutex_unlock(&tasklist_lock);
}

static void deliver(struct task *t, struct ptrace *p, struct regs *r)
{
    int sig = p->resume_sig;
    u8 info[128];
    if (!sig)
        return;
    memcpy(info, p->info, sizeof(info));
    if (*(int *)info != sig)
        siginfo_user(info, sig, 0, p->tracer ? p->tracer->tg->tgid : 0, p->uid);
    if (t->blocked & SIGSET(sig))
        send_self(t, sig, info);
    else
        signal_deliver(t, r, sig, info, t->tg->conts);
}

/* The stop is over. */
static void goes_on(struct task *t, struct ptrace *p, struct regs *r)
{
    u32 kind = p->kind;
    p->kind = 0;
    ptrace_set_entry(t);
    if (kind & (STOP_ENTRY | STOP_LEAVE) && p->resume_sig) {
        u8 info[128];
        siginfo_user(info, p->resume_sig, 0, p->tracer ? p->tracer->tg->tgid : 0, p->uid);
        send_self(t, p->resume_sig, info);
    }
    if (kind == STOP_ENTRY)
        make_call(t, r);
    else if (kind == STOP_SIGNAL)
        deliver(t, p, r);
    else if (kind == STOP_DIES && p->dies_alone)
        task_exit(p->dies_of);
    else if (kind == STOP_DIES)
        group_exit(p->dies_of);
}

bool ptrace_work(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    if (!p) {
        atomic_and(&t->core.work, ~WORK_PTRACE);
        return false;
    }
    if (!atomic_load(&p->stopped) && !p->kind && !begin(t, p, r)) {
        bool more = p->kind;
        if (more)
            goes_on(t, p, r);
        return more;
    }
    bool froze = t->core.froze;
    long e = 0;
    while (atomic_load(&p->stopped) && !e) {
        wait_begin();
        if (atomic_load(&p->stopped))
            e = wait_sleep_freezable(NO_DEADLINE);
    }
    t->core.froze = froze;
    if (atomic_load(&p->stopped)) { /* to park, and to come back here; or to end */
        mutex_lock(&tasklist_lock);
        if (t->core.work & WORK_EXIT)
            p->stopped = false;
        mutex_unlock(&tasklist_lock);
        return true;
    }
    if (t->core.work & WORK_EXIT)
        return true;
    load(t, p, r);
    goes_on(t, p, r);
    return true;
}

/* ---- what the rest of the kernel tells ---- */

bool ptrace_wants(const struct task *t, u32 event) { return ptraced(t) && t->pt->options >> event & 1; }

void ptrace_event(struct task *t, u32 event, u64 msg)
{
    if (!ptrace_wants(t, event))
        return;
    t->pt->event = event;
    t->pt->event_msg = msg;
    pend(t, STOP_EVENT);
}

/* A call that was frozen ends with it, and that is told before. */
void ptrace_signal(struct task *t, struct regs *r, const void *info)
{
    struct ptrace *p = t->pt;
    if (p->in_call && freeze_cut_short(t, r)) {
        freeze_call_interrupted(t, r);
        ptrace_call_done(t, r);
    }
    memcpy(p->signal_info, info, sizeof(p->signal_info));
    pend(t, STOP_SIGNAL);
}

bool ptrace_group_stop(struct task *t)
{
    if (t->pt->stops_seen == t->tg->stops)
        return false;
    pend(t, STOP_GROUP);
    return true;
}

bool ptrace_call_begins(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    if (!p || !ptraced(t) || p->mode == RUN_ON) {
        if (p) {
            p->mode = RUN_ON;
            ptrace_set_entry(t);
        }
        return false;
    }
    p->call_nr = r->nr;
    p->in_call = true;
    if (p->mode == RUN_STEP) {
        r->flags &= ~FLAG_TF;
        make_call(t, r);
        return true;
    }
    r->rax = (u64)-ENOSYS;
    pend(t, STOP_ENTRY);
    return true;
}

/* strace -p shows the call that it has found its tracee in. */
bool ptrace_call_cut(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    if (!ptraced(t) || p->mode != RUN_CALLS || p->in_call)
        return false;
    p->cut_rax = r->rax;
    p->cut = ptrace_call_begins(t, r);
    return p->cut;
}

bool ptrace_call_again(struct task *t, struct regs *r)
{
    struct ptrace *p = t->pt;
    if (!ptraced(t) || p->mode != RUN_CALLS)
        return false;
    p->again = (long)r->rax == -ERESTART_RESTARTBLOCK;
    if (p->again)
        r->nr = __NR_restart_syscall;
    ptrace_call_begins(t, r);
    return true;
}

bool ptrace_dies(int status, bool alone)
{
    struct task *t = current_task();
    if (!ptrace_wants(t, EVENT_EXIT) || t->core.work & WORK_EXIT || t->pt->kind == STOP_DIES)
        return false;
    t->pt->dies_of = status;
    t->pt->dies_alone = alone;
    pend(t, STOP_DIES);
    return true;
}

void ptrace_handler_begins(struct task *t, struct regs *r, bool done)
{
    t->pt->in_call = false; /* it has ended, told or not */
    if (t->pt->mode != RUN_STEP || !ptraced(t))
        return;
    r->flags &= ~FLAG_TF;
    if (done)
        pend(t, STOP_STEP);
}

void ptrace_execed(struct task *t)
{
    struct ptrace *p = t->pt;
    u8 info[128];
    if (!ptraced(t))
        return;
    if (ptrace_wants(t, EVENT_EXEC)) {
        ptrace_event(t, EVENT_EXEC, p->exec_tid);
    } else if (!p->seized) {
        siginfo_user(info, SIGTRAP, 0, t->tg->tgid, p->uid);
        send_self(t, SIGTRAP, info);
    }
    bool in_call = p->in_call;
    p->in_call = false;
    if (in_call && p->mode == RUN_CALLS)
        pend(t, STOP_LEAVE);
}

void ptrace_child(struct task *me, struct task *child, struct ptrace *p)
{
    u8 info[128];
    mutex_lock(&tasklist_lock);
    if (!ptraced(me)) {
        ptrace_free(p);
    } else {
        ptrace_link_locked(me->pt->tracer, child, p, me->pt->seized, me->pt->options);
        if (p->seized) {
            pend(child, STOP_TRAP);
        } else {
            siginfo_user(info, SIGSTOP, 0, 0, 0);
            signal_send_locked(child->tg, child, SIGSTOP, info);
        }
    }
    mutex_unlock(&tasklist_lock);
}
