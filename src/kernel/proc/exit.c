/* Ending tasks and groups, and waiting for children. */
#include "arch/x86_64/regs.h"
#include "boot/boot.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "ipc/sysv.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/exec.h"
#include "proc/freeze.h"
#include "proc/futex.h"
#include "proc/pidfd.h"
#include "proc/posix_timer.h"
#include "proc/ptrace.h"
#include "proc/slot.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include "sys/trace.h"
#include "tty/tty.h"
#include "tty/stream.h"
#include "vfs/fs_info.h"
#include <linux/fcntl.h>
#include <linux/resource.h>
#include <linux/wait.h>
#include <asm/signal.h>

#define SI_CHLD(status) (((status) & 0x7f) == 0 ? 1 : (status) & 0x80 ? 3 : 2)

void notify_parent_locked(struct tgroup *tg)
{
    struct tgroup *p = tg->parent;
    if (!p || tg->held)
        return;
    if (p->virtual_init) {
        tgroup_release_locked(tg);
        return;
    }
    struct ksigaction *a = &p->actions[SIGCHLD - 1];
    bool reap = tg->exit_signal == SIGCHLD && (a->handler == 1 || (a->flags & SA_NOCLDWAIT));
    if (tg->exit_signal && !(reap && a->handler == 1)) {
        u8 info[128];
        siginfo_user(info, tg->exit_signal, SI_CHLD(tg->exit_code), tg->tgid, tg->leader->cred ? tg->leader->cred->uid : 0);
        ((int *)info)[6] = (tg->exit_code & 0x7f) ? tg->exit_code & 0x7f : (tg->exit_code >> 8) & 0xff;
        signal_send_locked(p, NULL, tg->exit_signal, info);
    }
    if (reap)
        tgroup_release_locked(tg);
    wake_up_all(&p->child_wait, 1);
}

/* A stopped group that nobody of its session is left to continue gets SIGHUP and SIGCONT (POSIX). leaving: does not count. */
static void orphan_check_locked(u32 pgid, u32 sid, struct tgroup *leaving)
{
    struct tgroup *g;
    bool stopped = false;
    if (!atomic_load(&stopped_groups))
        return;
    for (g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1)) {
        if (g->pgid != pgid || g->zombie || g == leaving)
            continue;
        stopped |= g->stop_sig != 0;
        if (g->parent && g->parent->pgid != pgid && g->parent->sid == sid)
            return;
    }
    for (g = tgroup_next_locked(2); stopped && g; g = tgroup_next_locked(g->tgid + 1))
        if (g->pgid == pgid && !g->zombie && g != leaving) {
            u8 info[128];
            siginfo_user(info, SIGHUP, 0x80, 0, 0);
            signal_send_locked(g, NULL, SIGHUP, info);
            siginfo_user(info, SIGCONT, 0x80, 0, 0);
            signal_send_locked(g, NULL, SIGCONT, info);
        }
}

static void reparent_children_locked(struct tgroup *tg)
{
    struct tgroup *heir = tgroup_find_locked(INIT_PID), *c;
    for (struct tgroup *p = tg->parent; p; p = p->parent)
        if (p->subreaper && !p->zombie) {
            heir = p;
            break;
        }
    list_for_each(c, &tg->children, sibling) {
        list_del(&c->sibling);
        if (c->pdeath_sig && !c->zombie) {
            u8 info[128];
            siginfo_user(info, (int)c->pdeath_sig, 0, tg->tgid, tg->leader->cred ? tg->leader->cred->uid : 0);
            signal_send_locked(c, NULL, (int)c->pdeath_sig, info);
        }
        c->parent = heir;
        list_add_tail(&heir->children, &c->sibling);
        if (c->zombie)
            notify_parent_locked(c);
        else if (c->pgid != tg->pgid && c->sid == tg->sid)
            orphan_check_locked(c->pgid, c->sid, tg);
    }
}

/* The last task of its group has ended. tasklist_lock held. */
static void group_ends_locked(struct tgroup *tg)
{
    reparent_children_locked(tg);
    ktimer_cancel(&tg->alarm);
    ktimer_cancel(&tg->cpu_watch);
    posix_timers_drop_locked(tg);
    tg->zombie = true;
    if (tg->parent && tg->parent->pgid != tg->pgid && tg->parent->sid == tg->sid)
        orphan_check_locked(tg->pgid, tg->sid, tg);
    pidfd_ended_locked(tg);
    ptrace_group_ends_locked(tg);
    notify_parent_locked(tg);
}

/* Leaves the stub: the last carrier ends the host process. Nothing of the task may be used any more. Before the task went from
 * it - ended, or carried by another - freeze_carrier_leaves() was called. */
void carrier_leave(struct mm *mm, u32 slot)
{
    slot_give_back(mm, slot);
    bool last = atomic_sub(&mm->live_carriers, 1) == 0;
    mm_put(mm);
    freeze_carrier_left();
    if (last)
        host_exit_process(0);
    host_exit_thread();
}

/* What a whole process leaves behind besides memory and files. Called by its last task, before it is a zombie. */
static void group_leaves(struct tgroup *tg)
{
    mutex_lock(&tasklist_lock);
    struct tty *tty = tg->tty; /* set on session leaders only */
    tg->tty = NULL;
    mutex_unlock(&tasklist_lock);
    if (tty)
        tty_session_exit(tty);
    sysv_exit(tg->tgid);
}

void task_exit(int status)
{
    struct task *t = current_task();
    struct tgroup *tg = t->tg;
    struct mm *mm = t->mm;
    u32 slot = t->slot;
    t->core.in_kernel = 1; /* also when a signal ends it */
    if (unlikely(trace_active))
        trace_event('x', t->tg->group_exit ? t->tg->exit_code : status);
    futex_forget(t);
    futex_exit(t);
    if (t->clear_child_tid && mm->live_carriers > 1) {
        if (!user_store32(t->clear_child_tid, 0))
            futex_wake_addr(t->clear_child_tid, 1);
    }
    vfork_release(t);
    /* All that may sleep or ask the broker comes while the task still exists: /proc sees files and fs under the lock. */
    mutex_lock(&tasklist_lock);
    struct files *files = t->files;
    struct fs_info *fs = t->fs;
    t->files = NULL;
    t->fs = NULL;
    if (!tg->group_exit)
        tg->exit_code = status;
    if (t->pt)
        t->pt->status = tg->group_exit ? tg->exit_code : status;
    cputime_task_ends_locked(t);
    t->leaves = true;
    signal_retarget_locked(t, ~t->blocked);
    bool last = ++tg->leaving == tg->live;
    mutex_unlock(&tasklist_lock);
    files_put(files);
    if (!last || tg->session_no == ~0u) /* the end of a session rings anyway */
        streams_ring();
    fs_info_put(fs);
    if (atomic_sub(&mm->users, 1) == 0)
        mm_drop(mm);
    freeze_carrier_leaves();
    task_ended(t, tg, last);
    carrier_leave(mm, slot);
}

void task_ended(struct task *t, struct tgroup *tg, bool last)
{
    if (last) {
        group_leaves(tg);
        if (tg->session_no != ~0u)
            boot_session_ended(tg->session_no, tg->exit_code);
    }
    alive_end(&t->core.alive); /* in dead.c by init, who has none */
    mutex_lock(&tasklist_lock);
    t->exited = true;
    vfork_parent_ends_locked(t);
    tg->leaving--;
    bool leader = tg->leader == t;
    last = --tg->live == 0;
    list_del(&t->tg_link);
    ptrace_task_ends_locked(t);
    signal_drop_pending_locked(t);
    if (last)
        group_ends_locked(tg); /* may free tg and its leader */
    if (!leader)
        task_free(t);
    else if (!last)
        t->core.host_tid = 0;
    mutex_unlock(&tasklist_lock);
    if (freeze_begun()) /* perhaps the last that was waited for */
        service_wake();
}

void group_exit(int status)
{
    struct task *t = current_task(), *it;
    mutex_lock(&tasklist_lock);
    if (!t->tg->group_exit) {
        t->tg->group_exit = true;
        t->tg->exit_code = status;
    }
    list_for_each(it, &t->tg->tasks, tg_link)
        if (it != t) {
            atomic_or(&it->core.work, WORK_EXIT);
            task_kick(it);
        }
    mutex_unlock(&tasklist_lock);
    task_exit(status);
}

SYSCALL1(exit, int, code)
{
    if (ptraced(current_task()) && ptrace_dies((code & 0xff) << 8, true))
        return 0;
    task_exit((code & 0xff) << 8);
}

SYSCALL1(exit_group, int, code)
{
    if (ptraced(current_task()) && ptrace_dies((code & 0xff) << 8, false))
        return 0;
    group_exit((code & 0xff) << 8);
}

/* ---- waiting ---- */

struct wait_request {
    int which; /* P_ALL, P_PID, P_PGID */
    u32 id;
    int options;
    bool waitid;
    int status, code;
    u32 pid, uid;
    u64 cpu, rss; /* of the child and those it waited for */
};

static bool matches(struct wait_request *w, struct tgroup *me, struct tgroup *c)
{
    if (w->which == P_PID && c->tgid != w->id)
        return false;
    if (w->which == P_PGID && c->pgid != w->id)
        return false;
    if (ptraced_by_locked(c->leader, me))
        return true;
    bool cloned = c->exit_signal != SIGCHLD;
    return (w->options & __WALL) || cloned == !!(w->options & __WCLONE);
}

static bool collect(struct wait_request *w, struct tgroup *me, struct tgroup *c)
{
    w->pid = c->tgid;
    w->cpu = c->zombie ? c->utime + c->cutime : cputime_seen(c);
    w->rss = MAX(c->maxrss, c->cmaxrss);
    w->uid = c->leader->cred ? c->leader->cred->uid : 0;
    if (c->zombie && !c->held && (w->options & WEXITED)) {
        w->status = c->exit_code;
        w->code = SI_CHLD(c->exit_code);
        if (!(w->options & WNOWAIT)) {
            cputime_children_locked(me, c);
            tgroup_release_locked(c);
        }
        return true;
    }
    if (c->stop_notify && c->stop_sig && (w->options & WSTOPPED) && !ptraced_by_locked(c->leader, me)) {
        w->status = (int)(c->stop_sig << 8) | 0x7f;
        w->code = 5;
        if (!(w->options & WNOWAIT))
            c->stop_notify = false;
        return true;
    }
    if (c->cont_notify && (w->options & WCONTINUED)) {
        w->status = 0xffff;
        w->code = 6;
        if (!(w->options & WNOWAIT))
            c->cont_notify = false;
        return true;
    }
    return false;
}

static bool collect_tracee(struct wait_request *w, struct ptrace *p)
{
    w->pid = p->tid;
    w->uid = p->uid;
    w->cpu = w->rss = 0;
    if (!p->task && (w->options & WEXITED)) {
        w->status = p->status;
        w->code = SI_CHLD(p->status);
        if (!(w->options & WNOWAIT)) {
            struct tgroup *held = p->held;
            ptrace_unlink_locked(p);
            ptrace_free(p);
            if (held) {
                held->held = false;
                notify_parent_locked(held);
            }
        }
        return true;
    }
    if (!p->task || !p->stopped || p->told)
        return false;
    w->status = p->code << 8 | 0x7f;
    w->code = 4; /* CLD_TRAPPED */
    p->told = !(w->options & WNOWAIT);
    return true;
}

static long scan_tracees(struct wait_request *w, struct tgroup *me)
{
    long r = -ECHILD;
    struct task *t;
    struct ptrace *p;
    list_for_each(t, &me->tasks, tg_link)
        list_for_each(p, &t->tracees, link) {
            if ((w->which == P_PID && p->tid != w->id) || (w->which == P_PGID && p->pgid != w->id) ||
                (w->options & __WNOTHREAD && t != current_task()))
                continue;
            if (collect_tracee(w, p))
                return 1;
            r = 0;
        }
    return r;
}

/* 1 found, 0 nothing yet, -ECHILD. */
static long scan(struct wait_request *w, struct tgroup *me)
{
    long r = -ECHILD;
    struct tgroup *c;
    mutex_lock(&tasklist_lock);
    list_for_each(c, &me->children, sibling) {
        if (!matches(w, me, c))
            continue;
        r = 0;
        if (collect(w, me, c)) {
            r = 1;
            break;
        }
    }
    if (r != 1) {
        long e = scan_tracees(w, me);
        r = e == -ECHILD ? r : e;
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long do_wait(struct wait_request *w)
{
    struct tgroup *me = current_task()->tg;
    long r;
    for (;;) {
        r = scan(w, me);
        if (r || (w->options & WNOHANG))
            break;
        wait_prepare(&me->child_wait);
        r = scan(w, me);
        if (r)
            break;
        if (wait_sleep(NO_DEADLINE)) {
            r = -ERESTARTSYS;
            break;
        }
    }
    wait_finish();
    return r;
}

long put_rusage(uptr ru, u64 cpu_ns, u64 rss)
{
    s64 v[18] = {(s64)(cpu_ns / 1000000000), (s64)(cpu_ns % 1000000000 / 1000)};
    v[4] = (s64)(rss >> 10);
    return copy_to_user(ru, v, sizeof(v));
}

SYSCALL4(wait4, int, pid, uptr, ustatus, int, options, uptr, ru)
{
    if (options & ~(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | (int)__WALL))
        return -EINVAL;
    if (pid == (int)0x80000000)
        return -ESRCH;
    struct wait_request w = {.options = options | WEXITED};
    w.which = pid == -1 ? P_ALL : pid > 0 ? P_PID : P_PGID;
    w.id = pid > 0 ? (u32)pid : pid == 0 ? current_task()->tg->pgid : (u32)-pid;
    long r = do_wait(&w);
    if (r <= 0)
        return r;
    if (ustatus && put_user(w.status, ustatus))
        return -EFAULT;
    if (ru && put_rusage(ru, w.cpu, w.rss))
        return -EFAULT;
    return w.pid;
}

SYSCALL5(waitid, int, which, u32, id, uptr, uinfo, int, options, uptr, ru)
{
    if ((options & ~(WNOHANG | WSTOPPED | WEXITED | WCONTINUED | WNOWAIT | __WNOTHREAD | __WCLONE | (int)__WALL)) ||
        !(options & (WEXITED | WSTOPPED | WCONTINUED)) || which < 0 || which > P_PIDFD || (which != P_ALL && (int)id < 0) ||
        (which == P_PID && !id))
        return -EINVAL;
    struct wait_request w = {.which = which, .id = id, .options = options, .waitid = true};
    if (which == P_PGID && !id)
        w.id = current_task()->tg->pgid;
    bool nonblock = false;
    if (which == P_PIDFD) {
        struct file *f = fd_get((int)id);
        if (!f)
            return -EBADF;
        bool fits = file_is_pidfd(f);
        w.which = P_PID;
        w.id = fits ? pidfd_pid(f) : 0;
        nonblock = f->flags & O_NONBLOCK;
        file_put(f);
        if (!fits)
            return -EBADF;
        if (!w.id)
            return -ECHILD;
        if (nonblock)
            w.options |= WNOHANG;
    }
    long r = do_wait(&w);
    if (!r && nonblock && !(options & WNOHANG))
        return -EAGAIN;
    if (r < 0)
        return r;
    int info[32] = {0};
    if (r > 0) {
        info[0] = SIGCHLD;
        info[2] = w.code;
        info[4] = (int)w.pid;
        info[5] = (int)w.uid;
        info[6] = w.code >= 4 ? (w.code != 6 ? w.status >> 8 : SIGCONT) : w.code == 1 ? (w.status >> 8) & 0xff : w.status & 0x7f;
    }
    if (uinfo && copy_to_user(uinfo, info, sizeof(info)))
        return -EFAULT;
    if (ru && r > 0 && put_rusage(ru, w.cpu, w.rss))
        return -EFAULT;
    return 0;
}
