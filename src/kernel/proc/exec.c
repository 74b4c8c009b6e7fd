/* execve. Everything is validated and copied before the point of no return. Then either this stub's guest memory is cleared and
 * refilled, or - when others still use it (a vfork child) - the task moves to a spare stub and this carrier ends. */
#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "loader/exec.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/cputime.h"
#include "proc/exec.h"
#include "proc/freeze.h"
#include "proc/futex.h"
#include "proc/posix_timer.h"
#include "proc/ptrace.h"
#include "proc/slot.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include "sys/trace.h"
#include "vfs/dentry.h"
#include "vfs/mount.h"
#include <linux/fcntl.h>

struct regs *current_regs(void);

/* Ends the other threads of the group; the caller becomes its leader. */
static long de_thread(struct task *me)
{
    struct tgroup *tg = me->tg;
    struct task *it;
    mutex_lock(&tasklist_lock);
    if (me->core.work & WORK_EXIT) { /* another thread was first */
        mutex_unlock(&tasklist_lock);
        return -EINTR;
    }
    list_for_each(it, &tg->tasks, tg_link)
        if (it != me) {
            atomic_or(&it->core.work, WORK_EXIT);
            task_kick(it);
        }
    mutex_unlock(&tasklist_lock);
    while (atomic_load(&tg->live) > 1) {
        if (me->core.work & WORK_EXIT)
            return -EINTR;
        host_yield();
    }
    mutex_lock(&tasklist_lock);
    if (tg->leader != me)
        task_replace_leader_locked(me);
    mutex_unlock(&tasklist_lock);
    return 0;
}

/* Who traces could make a set-user-id program do anything. */
static bool ptrace_limits_exec(struct task *t)
{
    if (!ptraced(t))
        return false;
    mutex_lock(&tasklist_lock);
    bool limits = ptraced(t) && t->pt->tracer->cred && !(t->pt->tracer->cred->cap_effective >> 19 & 1); /* CAP_SYS_PTRACE */
    mutex_unlock(&tasklist_lock);
    return limits;
}

static void apply_cred(struct task *t, struct file *f)
{
    const struct inode *i = f->path.dentry->inode;
    bool secure = false;
    bool plain = f->path.mnt->flags & 2 /* MS_NOSUID */ || ptrace_limits_exec(t);
    struct cred *c = cred_for_exec(t->cred, i->mode, i->uid, i->gid, plain, &secure);
    if (!c)
        return; /* no memory: goes on with what it has, which is not more */
    cred_publish(c);
    t->tg->no_dump = secure;
    if (secure)
        t->tg->pdeath_sig = 0;
}

static void apply_exec(struct task *t, struct exec_args *a)
{
    const char *base = strrchr(a->execfn, '/');
    memset(t->comm, 0, sizeof(t->comm));
    str_copy(t->comm, base ? base + 1 : a->execfn, sizeof(t->comm));
    t->tg->execed = true; /* before descriptors close: who waits for that may call setpgid next */
    if (current_unshare_files()) /* no memory, and no way back */
        group_exit(SIGKILL);
    files_close_on_exec(t->files);
    mutex_lock(&tasklist_lock);
    posix_timers_drop_locked(t->tg);
    signal_flush_on_exec(t);
    mutex_unlock(&tasklist_lock);
    apply_cred(t, a->exe);
    t->clear_child_tid = t->robust_list = 0;
    t->tls = ~0ull;
    t->tg->membarrier = 0;
    t->tg->exit_signal = 17;
}

/* On the carrier that will run the program. */
void exec_finish(struct task *t, struct exec_args *a)
{
    static const u32 mxcsr = 0x1f80;
    struct regs *r = current_regs();
    apply_exec(t, a);
    if (unlikely(trace_active))
        trace_exec(a->execfn, a->strings, a->strings_size, a->argc, a->envc);
    memset(r, 0, sizeof(*r));
    t->mm->plain = ptraced(t);
    long e = exec_load(a, t->mm, r);
    exec_free(a);
    vfork_release(t);
    cpu_watch_start(t);
    if (e)
        group_exit(SIGSEGV); /* as Linux, when there is no way back */
    r->nr = ~0ull;
    __asm__ volatile("wrfsbase %0; fninit; ldmxcsr %1" ::"r"(0ul), "m"(mxcsr));
    if (t->pt)
        ptrace_execed(t);
}

static long do_exec(int dirfd, uptr upath, uptr argv, uptr envp, int flags)
{
    struct task *t = current_task();
    struct exec_args *a;
    char *path = kmalloc(4096);
    if (!path)
        return -ENOMEM;
    long r = strncpy_from_user(path, upath, 4096);
    if (r >= 0)
        r = exec_prepare(dirfd, path, flags, argv, envp, &a);
    kfree(path);
    if (r < 0)
        return r;
    if (t->pt)
        t->pt->exec_tid = t->tid;
    if (t->tg->live > 1 && (r = de_thread(t))) {
        exec_free(a);
        return r;
    }
    futex_exit(t);
    if (t->mm->live_carriers == 1) {
        mm_clear(t->mm);
        exec_finish(t, a);
        return (long)current_regs()->rax;
    }
    struct mm *old = t->mm, *mm = mm_new();
    u32 slot = t->slot;
    if (!mm) {
        exec_free(a);
        return -ENOMEM;
    }
    if (atomic_sub(&old->users, 1) == 0)
        mm_drop(old);
    t->mm = mm;
    t->exec = a;
    alive_end(&t->core.alive); /* the stub's from now on */
    cputime_leave_stub(t);
    freeze_carrier_leaves();
    r = stub_hand_over(t);
    if (r) {
        freeze_carrier_stays();
        alive_begin(&t->core.alive);
        t->mm = old;
        atomic_add(&old->users, 1);
        t->exec = NULL;
        mm_put(mm);
        exec_free(a);
        return r;
    }
    carrier_leave(old, slot);
}

SYSCALL3(execve, uptr, path, uptr, argv, uptr, envp) { return do_exec(AT_FDCWD, path, argv, envp, 0); }
SYSCALL5(execveat, int, fd, uptr, path, uptr, argv, uptr, envp, int, flags)
{
    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    return do_exec(fd, path, argv, envp, flags);
}
