/* clone, fork, vfork. Three shapes: a thread (new host thread, same group), a process sharing memory (vfork, posix_spawn: new host
 * thread in the same stub, own group), a process with its own memory (host clone of the stub: the host copies page tables). */
#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/errno.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/cputime.h"
#include "proc/pidfd.h"
#include "proc/ptrace.h"
#include "proc/slot.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include "vfs/fs_info.h"
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/sched.h>

struct regs *current_regs(void);

struct clone_request {
    u64 flags, stack, tls;
    uptr ptid, ctid, pidfd;
    int exit_signal;
};

long slot_prepare(u32 slot) /* maps the stacks of a slot in this stub */
{
    u64 base = carrier_slot_base(slot);
    long r = host_mmap(base + SLOT_ALTSTACK, SLOT_ALTSTACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (!is_err(r))
        r = host_mmap(base + SLOT_KSTACK, CARRIER_SIZE - SLOT_KSTACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return is_err(r) ? r : 0;
}

/* A slot whose last host thread has gone, with its carrier set up. */
struct carrier *slot_take(struct mm *mm)
{
    extern char syscall_entry[];
    struct carrier *c = NULL;
    mutex_lock(&mm->carrier_lock);
    for (u32 i = 1; i < CARRIER_MAX; i++) {
        u64 bit = 1ull << (i % 64);
        bool mapped = mm->carriers_mapped[i / 64] & bit;
        if (mm->carriers[i / 64] & bit)
            continue;
        if (mapped && atomic_load(&carrier_at(i)->alive))
            continue;
        if (!mapped && slot_prepare(i))
            break;
        mm->carriers_mapped[i / 64] |= bit;
        mm->carriers[i / 64] |= bit;
        c = carrier_at(i);
        memset(c, 0, sizeof(*c));
        c->self = c;
        c->slot = i;
        c->alive = 1;
        c->entry = (u64)syscall_entry;
        c->kstack_top = carrier_slot_base(i) + SLOT_CARRIER;
        break;
    }
    mutex_unlock(&mm->carrier_lock);
    return c;
}

void slot_give_back(struct mm *mm, u32 slot)
{
    mutex_lock(&mm->carrier_lock);
    mm->carriers[slot / 64] &= ~(1ull << (slot % 64));
    mutex_unlock(&mm->carrier_lock);
}

/* sibling: CLONE_PARENT. Our parent changes under the lock only, when it ends. */
static void link_child(struct tgroup *me, bool sibling, struct tgroup *tg)
{
    mutex_lock(&tasklist_lock);
    tg->parent = sibling && me->parent ? me->parent : me;
    list_add_tail(&tg->parent->children, &tg->sibling);
    mutex_unlock(&tasklist_lock);
}

static void share_resources(struct task *t, struct task *me, u64 flags)
{
    t->files = flags & CLONE_FILES ? me->files : files_clone(me->files);
    if (flags & CLONE_FILES)
        files_get(t->files);
    t->fs = flags & CLONE_FS ? me->fs : fs_info_clone(me->fs);
    if (flags & CLONE_FS)
        fs_info_get(t->fs);
    t->cred = me->cred;
    cred_get(t->cred);
    if (!(flags & CLONE_VM) || (flags & CLONE_VFORK)) {
        t->alt_sp = me->alt_sp, t->alt_size = me->alt_size, t->alt_flags = me->alt_flags;
    } else {
        t->alt_flags = 2;
    }
}

static void undo(struct task *t, bool new_group)
{
    if (t->files)
        files_put(t->files);
    if (t->fs)
        fs_info_put(t->fs);
    struct tgroup *tg = t->tg;
    mutex_lock(&tasklist_lock);
    list_del(&t->tg_link);
    tg->live--;
    if (new_group)
        tgroup_release_locked(tg);
    else
        task_free(t);
    mutex_unlock(&tasklist_lock);
}

static long clone_in_mm(struct task *t, struct clone_request *q)
{
    struct task *me = current_task();
    struct carrier *c = slot_take(me->mm);
    if (!c)
        return -EAGAIN;
    struct regs *frame = (struct regs *)(c->kstack_top - sizeof(*frame));
    *frame = *current_regs();
    frame->rax = 0;
    frame->nr = ~0ull;
    if (q->stack)
        frame->rsp = q->stack;
    c->task = t;
    t->slot = c->slot;
    t->core.host_pid = me->core.host_pid;
    t->mm = me->mm;
    mm_get(t->mm);
    atomic_add(&t->mm->live_carriers, 1);
    atomic_add(&t->mm->users, 1);
    u64 fs;
    __asm__ volatile("rdfsbase %0" : "=r"(fs));
    t->tls = q->flags & CLONE_SETTLS ? q->tls : fs;
    long r = host_clone_thread(HOST_CLONE_THREAD, frame, &t->core.host_tid, &c->alive, c);
    if (r < 0) {
        c->alive = 0;
        atomic_sub(&t->mm->live_carriers, 1);
        atomic_sub(&t->mm->users, 1);
        slot_give_back(me->mm, c->slot);
        mm_put(t->mm);
        return -EAGAIN;
    }
    return 0;
}

/* In the child's host process, on its copy of the kernel stack. */
static void child_begins(struct task *t, struct clone_request *q)
{
    struct carrier *c = this_carrier();
    extern char syscall_entry[];
    c->task = t;
    c->entry = (u64)syscall_entry; /* the parent may be traced */
    c->tid = t->core.host_pid = t->core.host_tid;
    robust_begin(c);
    alive_begin(&t->core.alive);
    mm_after_fork(t->mm);
    if (q->flags & CLONE_SETTLS)
        __asm__ volatile("wrfsbase %0" ::"r"(q->tls));
    if (q->flags & CLONE_CHILD_SETTID && put_user(t->tid, q->ctid))
        return;
}

/* Returns 0 in the parent, 1 in the child. */
static long clone_process(struct task *t, struct clone_request *q)
{
    struct task *me = current_task();
    u32 slot = this_carrier()->slot;
    mm_lock(me->mm);
    struct mm *mm = mm_copy(me->mm);
    long r = -ENOMEM;
    if (mm) {
        memset(mm->carriers, 0, sizeof(mm->carriers));
        memcpy(mm->carriers_mapped, me->mm->carriers_mapped, sizeof(mm->carriers_mapped));
        mm->carriers[slot / 64] |= 1ull << (slot % 64);
        mm->live_carriers = mm->users = 1;
        t->mm = mm;
        t->slot = slot;
        r = host_clone_process(HOST_CLONE_PROCESS, &t->core.host_tid);
        if (r == 0) {
            child_begins(t, q);
            return 1;
        }
    }
    mm_unlock(me->mm);
    if (r < 0) {
        if (mm)
            mm_put(mm);
        return -EAGAIN;
    }
    return 0;
}

static long vfork_goes_on(struct task *me);

/* Until the child t has its own memory or has ended. Only death interrupts it; freezing does for a while. */
static long vfork_wait(struct task *me, u32 tid)
{
    me->restart = vfork_goes_on;
    me->restart_arg = tid;
    if (me->core.work & WORK_PTRACE) { /* the tracer is told before: as if frozen */
        me->core.froze = true;
        return -ERESTART_RESTARTBLOCK;
    }
    return vfork_goes_on(me);
}

static long vfork_goes_on(struct task *me)
{
    u32 tid = (u32)me->restart_arg;
    while (atomic_load(&me->vfork_waiting)) {
        wait_begin();
        if (!atomic_load(&me->vfork_waiting))
            break;
        if (!wait_sleep_freezable(NO_DEADLINE))
            continue;
        if (atomic_load(&me->core.work) & WORK_EXIT)
            break; /* vfork_parent_ends_locked() does the rest */
        me->core.froze = true; /* signals that wait do not count */
        return -ERESTART_RESTARTBLOCK;
    }
    ptrace_event(me, EVENT_VFORK_DONE, tid);
    return tid;
}

/* One that waited, or had left its call to be frozen or for its tracer, ends: its child is not to wake it. */
void vfork_parent_ends_locked(struct task *me)
{
    struct task *t = me->vfork_waiting ? task_find_locked((u32)me->restart_arg) : NULL;
    if (t && t->vfork_parent == me)
        t->vfork_parent = NULL;
}

bool vfork_parent_waits(const struct task *t, const struct regs *r)
{
    return (long)r->rax == -ERESTART_RESTARTBLOCK && r->nr != ~0ull && t->restart == vfork_goes_on && t->core.froze;
}

/* What the tracer is told of, 0: nothing. */
static u32 event_of(const struct task *me, const struct clone_request *q)
{
    u32 event = q->flags & CLONE_VFORK ? EVENT_VFORK : q->exit_signal != SIGCHLD ? EVENT_CLONE : EVENT_FORK;
    return q->flags & CLONE_UNTRACED || !ptrace_wants(me, event) ? 0 : event;
}

static long clone_task(struct clone_request *q)
{
    struct task *me = current_task();
    bool thread = q->flags & CLONE_THREAD;
    if (thread && !(q->flags & CLONE_SIGHAND))
        return -EINVAL;
    if ((q->flags & CLONE_SIGHAND) && !(q->flags & CLONE_VM))
        return -EINVAL;
    if ((q->flags & CLONE_FS) && (q->flags & (CLONE_NEWNS | CLONE_NEWUSER)))
        return -EINVAL;
    if ((q->flags & CLONE_SIGHAND) && (q->flags & CLONE_CLEAR_SIGHAND))
        return -EINVAL;
    if ((q->flags & CLONE_PIDFD) && (thread || (q->flags & CLONE_DETACHED)))
        return -EINVAL;
    if (thread && (q->flags & (CLONE_NEWUSER | CLONE_NEWPID)))
        return -EINVAL;
    if (q->flags & (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP))
        return -EPERM;
    if (too_many_tasks())
        return -EAGAIN;
    struct tgroup *tg = thread ? me->tg : tgroup_alloc(me->tg);
    struct task *t = tg ? task_alloc(me, tg) : NULL;
    if (!t) {
        if (!thread)
            kfree(tg);
        return -EAGAIN;
    }
    u32 tid = t->tid;
    share_resources(t, me, q->flags);
    if (!t->files || !t->fs) {
        undo(t, !thread);
        return -ENOMEM;
    }
    if (!thread) {
        tg->exit_signal = q->exit_signal;
        tg->forked_by = me->tid;
        link_child(me->tg, q->flags & CLONE_PARENT, tg);
    }
    if (q->flags & CLONE_CLEAR_SIGHAND)
        signal_clear_handlers(tg);
    long pidfd = -1;
    if (q->flags & CLONE_PIDFD) {
        struct file *f = pidfd_new(tg, 0);
        pidfd = IS_ERR(f) ? PTR_ERR(f) : fd_new(f, O_CLOEXEC);
        if (pidfd >= 0 && put_user((int)pidfd, q->pidfd)) {
            fd_close((int)pidfd);
            pidfd = -EFAULT;
        }
        if (pidfd < 0) {
            undo(t, !thread);
            return pidfd;
        }
    }
    if (q->flags & CLONE_CHILD_CLEARTID)
        t->clear_child_tid = q->ctid;
    if (q->flags & CLONE_PARENT_SETTID && put_user(tid, q->ptid)) {
        undo(t, !thread);
        return -EFAULT;
    }
    if (q->flags & CLONE_VFORK) {
        t->vfork_parent = me;
        atomic_store(&me->vfork_waiting, true);
    }
    if (!thread && (q->flags & CLONE_VM))
        tg->proc_base = cputime_stub();
    u32 event = ptraced(me) ? event_of(me, q) : 0;
    if (event || (q->flags & CLONE_PTRACE && ptraced(me))) {
        struct ptrace *p = ptrace_new();
        if (!p) {
            undo(t, !thread);
            return -ENOMEM;
        }
        ptrace_child(me, t, p);
    }
    if ((q->flags & CLONE_CHILD_SETTID) && (q->flags & CLONE_VM) && put_user(tid, q->ctid)) {
        undo(t, !thread);
        return -EFAULT;
    }
    long r = q->flags & CLONE_VM ? clone_in_mm(t, q) : clone_process(t, q);
    if (r == 1) {
        struct regs *regs = current_regs();
        if (q->stack)
            regs->rsp = q->stack;
        return 0;
    }
    if (r < 0) {
        if (pidfd >= 0)
            fd_close((int)pidfd);
        undo(t, !thread);
        return r;
    }
    if (event)
        ptrace_event(me, event, tid);
    return q->flags & CLONE_VFORK ? vfork_wait(me, tid) : tid;
}

void vfork_release(struct task *t)
{
    mutex_lock(&tasklist_lock);
    struct task *p = t->vfork_parent;
    t->vfork_parent = NULL;
    if (p) {
        atomic_store(&p->vfork_waiting, false);
        task_wake(p);
    }
    mutex_unlock(&tasklist_lock);
}

SYSCALL5(clone, u64, flags, u64, stack, uptr, ptid, uptr, ctid, u64, tls)
{
    struct clone_request q = {flags & ~0xffull, stack, tls, ptid, ctid, ptid, (int)(flags & 0xff)};
    if ((q.flags & CLONE_PIDFD) && (q.flags & CLONE_PARENT_SETTID))
        return -EINVAL;
    return clone_task(&q);
}

SYSCALL0(fork)
{
    struct clone_request q = {.exit_signal = SIGCHLD};
    return clone_task(&q);
}

SYSCALL0(vfork)
{
    struct clone_request q = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    return clone_task(&q);
}

SYSCALL1(unshare, u64, flags)
{
    struct task *t = current_task();
    u64 spaces = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    u64 shared = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    if (flags & ~(spaces | shared | CLONE_NEWTIME))
        return -EINVAL;
    if (flags & (spaces | CLONE_NEWTIME))
        return -EPERM;
    if ((flags & (CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) && t->tg->live > 1)
        return -EINVAL;
    long r = flags & CLONE_FILES ? current_unshare_files() : 0;
    if (!r && (flags & CLONE_FS)) {
        struct fs_info *mine = fs_info_clone(t->fs), *old = t->fs;
        if (!mine)
            return -ENOMEM;
        mutex_lock(&tasklist_lock);
        t->fs = mine;
        mutex_unlock(&tasklist_lock);
        fs_info_put(old);
    }
    return r;
}

#define CLONE3_FLAGS (0xffffffffull | CLONE_CLEAR_SIGHAND)

SYSCALL2(clone3, uptr, uargs, u64, size)
{
    u64 a[11] = {0}, more; /* flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup */
    if (size > PAGE_SIZE)
        return -E2BIG;
    if (size < 64)
        return -EINVAL;
    if (copy_from_user(a, uargs, MIN(size, sizeof(a))))
        return -EFAULT;
    for (u64 at = sizeof(a); at < size; at += 8) {
        more = 0;
        if (copy_from_user(&more, uargs + at, MIN(size - at, sizeof(more))))
            return -EFAULT;
        if (more)
            return -E2BIG;
    }
    if (a[0] & ~CLONE3_FLAGS || a[0] & (CLONE_DETACHED | 0x7f) || a[4] > 64 || (a[5] == 0) != (a[6] == 0) || a[8] || a[9])
        return -EINVAL;
    if ((a[0] & (CLONE_THREAD | CLONE_PARENT)) && a[4])
        return -EINVAL;
    struct clone_request q = {a[0], a[5] ? a[5] + a[6] : 0, a[7], a[3], a[2], a[1], (int)a[4]};
    return clone_task(&q);
}
