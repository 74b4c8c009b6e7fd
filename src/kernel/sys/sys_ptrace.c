/* ptrace(2): the tracer's requests. Layouts: sys/user.h (struct user, user_regs_struct), asm/ptrace-abi.h, linux/elf.h (notes), the
 * XSAVE area of the processor's manual. Debug registers can be set to zero only: of hardware breakpoints none is left (ENOSPC). */
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "mm/mm.h"
#include "proc/freeze.h"
#include "proc/ptrace.h"
#include "proc/visit.h"
#include "sys/syscall.h"
#include <asm/signal.h>

enum {
    TRACEME, PEEKTEXT, PEEKDATA, PEEKUSR, POKETEXT, POKEDATA, POKEUSR, CONT, KILL, SINGLESTEP, GETREGS = 12, SETREGS, GETFPREGS, SETFPREGS,
    ATTACH, DETACH, CALLS = 24, ARCH_PRCTL = 30, SETOPTIONS = 0x4200, GETEVENTMSG, GETSIGINFO, SETSIGINFO, GETREGSET, SETREGSET, SEIZE,
    INTERRUPT, LISTEN, PEEKSIGINFO, GETSIGMASK, SETSIGMASK, GET_SYSCALL_INFO = 0x420e,
};

#define USER_REGS 27u
#define USER_SIZE 912u
#define USER_DEBUG 848u
#define FX_SIZE 512u
#define NT_PRSTATUS 1u
#define NT_PRFPREG 2u
#define NT_X86_XSTATE 0x202u
#define AUDIT_ARCH_X86_64 0xc000003eu

/* ---- registers; the tracee is stopped, tasklist_lock held ---- */

enum { R_ORIG_RAX = 15, R_RIP, R_CS, R_FLAGS, R_RSP, R_SS, R_FS_BASE, R_GS_BASE };

static void regs_out(const struct ptrace *p, u64 v[USER_REGS])
{
    const struct regs *s = &p->saved->regs;
    memset(v, 0, USER_REGS * 8);
    memcpy(v, s, R_ORIG_RAX * 8); /* the same order, r15 first */
    v[R_ORIG_RAX] = s->nr;
    v[R_RIP] = s->rip;
    v[R_CS] = 0x33;
    v[R_FLAGS] = s->flags;
    v[R_RSP] = s->rsp;
    v[R_SS] = 0x2b;
    v[R_FS_BASE] = p->saved->fs_base;
}

static long regs_in(struct ptrace *p, const u64 v[USER_REGS])
{
    struct regs *s = &p->saved->regs;
    if (v[R_FS_BASE] >= GUEST_END)
        return -EIO;
    memcpy(s, v, R_ORIG_RAX * 8);
    s->nr = v[R_ORIG_RAX];
    s->rip = v[R_RIP];
    s->flags = v[R_FLAGS];
    s->rsp = v[R_RSP];
    p->saved->fs_base = v[R_FS_BASE];
    return 0;
}

static u32 regset_size(const struct ptrace *p, u32 type)
{
    return type == NT_PRSTATUS ? USER_REGS * 8 : type == NT_PRFPREG ? FX_SIZE : type == NT_X86_XSTATE ? p->saved->xsave_size : 0;
}

static void regset_out(struct ptrace *p, u32 type, void *buf)
{
    if (type == NT_PRSTATUS) {
        regs_out(p, buf);
        return;
    }
    memcpy(buf, frozen_xsave(p->saved), regset_size(p, type));
    if (type == NT_X86_XSTATE) { /* software's bytes: which components there are */
        u64 xcr0 = xsave_xcr0();
        memset((u8 *)buf + 464, 0, 48);
        memcpy((u8 *)buf + 464, &xcr0, 8);
    }
}

/* What XRSTOR would fault on is refused. */
static long regset_in(struct ptrace *p, u32 type, const void *buf, u32 size)
{
    u8 *x = frozen_xsave(p->saved);
    u64 head[8];
    u32 mxcsr, mask;
    if (type == NT_PRSTATUS) {
        u64 v[USER_REGS];
        regs_out(p, v);
        memcpy(v, buf, size);
        return regs_in(p, v);
    }
    memcpy(&mask, x + 28, 4);
    memcpy(&mxcsr, (const u8 *)buf + 24, 4);
    if (size != regset_size(p, type))
        return -EFAULT;
    if (mxcsr & ~(mask ? mask : 0xffbf))
        return -EINVAL;
    memcpy(head, type == NT_X86_XSTATE ? (const u8 *)buf + FX_SIZE : x + FX_SIZE, sizeof(head));
    if (type == NT_X86_XSTATE)
        for (int i = 0; i < 8; i++)
            if (i ? head[i] : head[0] & ~xsave_xcr0())
                return -EINVAL;
    if (type == NT_PRFPREG)
        head[0] |= 3; /* x87, SSE */
    memcpy(x, buf, size);
    memcpy(x + 28, &mask, 4);
    memcpy(x + FX_SIZE, head, sizeof(head));
    p->fpu_changed = true;
    return 0;
}

static long peek_user(struct ptrace *p, u64 at, u64 *value)
{
    u64 v[USER_REGS];
    if (at & 7 || at >= USER_SIZE)
        return -EIO;
    regs_out(p, v);
    *value = at < sizeof(v) ? v[at / 8] : 0;
    return 0;
}

static long poke_user(struct ptrace *p, u64 at, u64 value)
{
    u64 v[USER_REGS];
    if (at & 7 || at >= USER_SIZE)
        return -EIO;
    if (at < sizeof(v)) {
        regs_out(p, v);
        v[at / 8] = value;
        return regs_in(p, v);
    }
    u64 debug = (at - USER_DEBUG) / 8;
    if (at < USER_DEBUG || debug == 4 || debug == 5)
        return -EIO;
    return debug == 6 || !(debug == 7 ? value & 0xff : value) ? 0 : -ENOSPC;
}

/* ---- other states of a stopped tracee, the same ---- */

static u32 call_info(const struct ptrace *p, u64 v[11])
{
    const struct regs *s = &p->saved->regs;
    bool sys = p->kind == STOP_ENTRY || p->kind == STOP_LEAVE;
    memset(v, 0, 88);
    v[0] = (u64)AUDIT_ARCH_X86_64 << 32 | (sys ? p->kind == STOP_ENTRY ? 1 : 2 : 0);
    v[1] = s->rip;
    v[2] = s->rsp;
    if (p->kind == STOP_ENTRY) {
        u64 args[] = {s->nr, s->rdi, s->rsi, s->rdx, s->r10, s->r8, s->r9};
        memcpy(v + 3, args, sizeof(args));
        return 80;
    }
    if (p->kind != STOP_LEAVE)
        return 24;
    v[3] = s->rax;
    v[4] = s->rax > -4096ull;
    return 33;
}

static long peek_siginfo(struct task *t, u64 off, u32 flags, u8 *out, long most)
{
    struct sigqueue *q;
    long n = 0;
    list_for_each(q, flags & 1 ? &t->tg->shared.queue : &t->pending.queue, link) {
        if (off) {
            off--;
            continue;
        }
        if (n == most)
            break;
        memcpy(out + n++ * 128, q->info, 128);
    }
    return n;
}

/* ---- finding the tracee ---- */

/* The caller's, and stopped. tasklist_lock held. */
static struct ptrace *stopped_locked(u32 pid)
{
    struct task *t = task_find_locked(pid);
    struct ptrace *p = t ? t->pt : NULL;
    bool good = p && p->tracer == current_task() && p->stopped && !p->listening && !t->exited && !(t->core.work & WORK_EXIT);
    return good ? p : NULL;
}

/* ---- requests ---- */

static long trace_me(void)
{
    struct task *me = current_task();
    struct ptrace *p = ptrace_new();
    long r = 0;
    if (!p)
        return -ENOMEM;
    mutex_lock(&tasklist_lock);
    struct tgroup *parent = me->tg->parent;
    struct task *by = task_find_locked(me->tg->forked_by);
    if (parent && (!by || by->tg != parent || by->exited))
        by = parent->leader;
    if (ptraced(me) || !parent || parent->virtual_init || by->exited)
        r = -EPERM;
    else
        ptrace_link_locked(by, me, p, false, 0);
    mutex_unlock(&tasklist_lock);
    if (r)
        ptrace_free(p);
    return r;
}

static long attach(u32 pid, u64 addr, u64 data, bool seize)
{
    if (seize && (addr || data & ~(u64)PTRACE_O_MASK))
        return -EIO;
    struct task *me = current_task();
    struct ptrace *p = ptrace_new();
    long r = 0;
    if (!p)
        return -ENOMEM;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(pid);
    if (!t)
        r = -ESRCH;
    else if (t->tg == me->tg || t->tg->virtual_init || t->exited || !t->mm || !may_trace_locked(t->tg) || ptraced(t))
        r = -EPERM;
    else
        ptrace_link_locked(me, t, p, seize, seize ? (u32)data : 0);
    if (!r && !seize) {
        u8 info[128];
        siginfo_user(info, SIGSTOP, 0x80, 0, 0);
        signal_send_locked(t->tg, t, SIGSTOP, info);
    }
    mutex_unlock(&tasklist_lock);
    if (r)
        ptrace_free(p);
    return r;
}

static long peek_poke(u32 pid, u64 addr, u64 *word, bool poke)
{
    struct mm *mm = NULL;
    mutex_lock(&tasklist_lock);
    struct ptrace *p = stopped_locked(pid);
    if (p)
        mm_get(mm = p->task->mm);
    mutex_unlock(&tasklist_lock);
    if (!mm)
        return -ESRCH;
    long r = visit(mm, pid, addr, word, 8, MM_FORCE | (poke ? MM_WRITE : 0));
    mm_put(mm);
    return r == 8 ? 0 : r < 0 && r != -ESRCH ? r : -EIO;
}

static long resume(struct ptrace *p, int request, u64 sig)
{
    struct task *t = p->task;
    if (sig > 64)
        return -EIO;
    if (request == DETACH) {
        ptrace_unlink_locked(p);
        ptrace_resume_locked(p, RUN_ON, (int)sig);
        signal_recalc(t);
    } else {
        ptrace_resume_locked(p, request == CALLS ? RUN_CALLS : request == SINGLESTEP ? RUN_STEP : RUN_ON, (int)sig);
    }
    return 0;
}

/* Requests with a buffer: it is filled under the lock and copied outside, or the other way round. buf has room for *size bytes. */
static long with_buffer(struct ptrace *p, int request, u64 addr, u8 *buf, u32 *size)
{
    struct task *t = p->task;
    u64 mask;
    switch (request) {
    case GETREGS:
        regs_out(p, (u64 *)buf);
        *size = USER_REGS * 8;
        return 0;
    case SETREGS:
        return regs_in(p, (u64 *)buf);
    case GETFPREGS:
        regset_out(p, NT_PRFPREG, buf);
        *size = FX_SIZE;
        return 0;
    case SETFPREGS:
        return regset_in(p, NT_PRFPREG, buf, FX_SIZE);
    case GETSIGINFO:
        memcpy(buf, p->info, 128);
        *size = 128;
        return p->has_info ? 0 : -EINVAL;
    case SETSIGINFO:
        if (p->has_info)
            memcpy(p->info, buf, 128);
        return p->has_info ? 0 : -EINVAL;
    case GETSIGMASK:
    case SETSIGMASK:
        if (addr != 8)
            return -EINVAL;
        mask = t->core.work & WORK_MASK ? t->saved_blocked : t->blocked;
        if (request == GETSIGMASK) {
            memcpy(buf, &mask, *size = 8);
            return 0;
        }
        memcpy(&mask, buf, 8);
        atomic_and(&t->core.work, ~WORK_MASK);
        t->blocked = mask & ~(SIGSET(SIGKILL) | SIGSET(SIGSTOP));
        signal_recalc(t);
        return 0;
    case GET_SYSCALL_INFO:
        *size = call_info(p, (u64 *)buf);
        return *size;
    case PEEKUSR:
    case ARCH_PRCTL:
        *size = 8;
        return peek_user(p, addr, (u64 *)buf);
    case GETEVENTMSG:
        memcpy(buf, &p->msg, *size = 8);
        return 0;
    }
    return -EIO;
}

static u32 in_size(int request)
{
    return request == SETREGS ? USER_REGS * 8 : request == SETFPREGS ? FX_SIZE : request == SETSIGINFO ? 128 : request == SETSIGMASK ? 8 : 0;
}

static long buffer_request(u32 pid, int request, u64 addr, uptr data)
{
    u8 buf[FX_SIZE] __attribute__((aligned(8)));
    u32 in = in_size(request), size = 0;
    if (in && copy_from_user(buf, data, in))
        return -EFAULT;
    mutex_lock(&tasklist_lock);
    struct ptrace *p = stopped_locked(pid);
    long r = p ? with_buffer(p, request, addr, buf, &size) : -ESRCH;
    mutex_unlock(&tasklist_lock);
    if (r < 0 || in)
        return r;
    if (request == GET_SYSCALL_INFO)
        size = (u32)MIN((u64)size, addr);
    return copy_to_user(data, buf, size) ? -EFAULT : r;
}

static long regset(u32 pid, u32 type, uptr uiov, bool set)
{
    u64 iov[2];
    long r = -ESRCH;
    if (copy_from_user(iov, uiov, 16))
        return -EFAULT;
    u32 most = xsave_size() + 512, size = (u32)MIN(iov[1], (u64)most), whole = 0;
    u8 *buf = kzalloc(most);
    if (!buf)
        return -ENOMEM;
    if (set && copy_from_user(buf, iov[0], size)) {
        kfree(buf);
        return -EFAULT;
    }
    mutex_lock(&tasklist_lock);
    struct ptrace *p = stopped_locked(pid);
    if (p) {
        whole = regset_size(p, type);
        size = MIN(size, whole);
        r = !whole || iov[1] % (type == NT_PRFPREG ? 4 : 8) ? -EINVAL : set ? regset_in(p, type, buf, size) : 0;
        if (!r && !set)
            regset_out(p, type, buf);
    }
    mutex_unlock(&tasklist_lock);
    u64 done = size;
    if (!r && ((!set && copy_to_user(iov[0], buf, size)) || put_user(done, uiov + 8)))
        r = -EFAULT;
    kfree(buf);
    return r;
}

static long pending_signals(u32 pid, uptr uargs, uptr data)
{
    struct {
        u64 off;
        u32 flags;
        s32 nr;
    } a;
    if (copy_from_user(&a, uargs, sizeof(a)))
        return -EFAULT;
    if (a.flags & ~1u || a.nr < 0)
        return -EINVAL;
    long most = MIN(a.nr, 256), n = -ESRCH;
    u8 *buf = kmalloc((size_t)most * 128 + 1);
    if (!buf)
        return -ENOMEM;
    mutex_lock(&tasklist_lock);
    struct ptrace *p = stopped_locked(pid);
    if (p)
        n = peek_siginfo(p->task, a.off, a.flags, buf, most);
    mutex_unlock(&tasklist_lock);
    if (n > 0 && copy_to_user(data, buf, (size_t)n * 128))
        n = -EFAULT;
    kfree(buf);
    return n;
}

/* Of a tracee that need not be stopped. */
static long kill_or_interrupt(u32 pid, bool kill)
{
    u8 info[128];
    long r = 0;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(pid);
    if (!t || !ptraced(t) || t->pt->tracer != current_task() || t->exited) {
        r = -ESRCH;
    } else if (kill) {
        siginfo_user(info, SIGKILL, 0, current_tgid(), current_cred()->uid);
        signal_send_locked(t->tg, t, SIGKILL, info);
    } else if (!t->pt->seized) {
        r = -EIO;
    } else {
        ptrace_trap_locked(t);
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long to_stopped(u32 pid, int request, u64 addr, u64 data)
{
    mutex_lock(&tasklist_lock);
    struct ptrace *p = stopped_locked(pid);
    long r = -ESRCH;
    if (p && request == POKEUSR) {
        r = poke_user(p, addr, data);
    } else if (p && request == SETOPTIONS) {
        r = data & ~(u64)PTRACE_O_MASK ? -EINVAL : 0;
        if (!r)
            p->options = (u32)data;
    } else if (p && request == LISTEN) {
        r = p->seized && p->code >> 8 == EVENT_STOP ? 0 : -EIO;
        if (!r)
            p->listening = true;
        if (!r && p->pending & STOP_TRAP) { /* what has come meanwhile */
            atomic_and(&p->pending, ~STOP_TRAP);
            ptrace_trap_locked(p->task);
        }
    } else if (p) {
        r = resume(p, request, data);
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

SYSCALL4(ptrace, long, request, long, lpid, u64, addr, u64, data)
{
    u32 pid = (u32)lpid;
    u64 word = data;
    long r;
    switch (request) {
    case TRACEME:
        return trace_me();
    case ATTACH:
    case SEIZE:
        return attach(pid, addr, data, request == SEIZE);
    case PEEKTEXT:
    case PEEKDATA:
        r = peek_poke(pid, addr, &word, false);
        return r ? r : put_user(word, data);
    case POKETEXT:
    case POKEDATA:
        return peek_poke(pid, addr, &word, true);
    case KILL:
    case INTERRUPT:
        return kill_or_interrupt(pid, request == KILL);
    case GETREGSET:
    case SETREGSET:
        return regset(pid, (u32)addr, data, request == SETREGSET);
    case PEEKSIGINFO:
        return pending_signals(pid, addr, data);
    case POKEUSR:
    case SETOPTIONS:
    case LISTEN:
    case CONT:
    case CALLS:
    case SINGLESTEP:
    case DETACH:
        return to_stopped(pid, (int)request, addr, data);
    case ARCH_PRCTL: /* of what it can ask: the two bases */
        return data == 0x1003 || data == 0x1004 ? buffer_request(pid, ARCH_PRCTL, (data == 0x1003 ? R_FS_BASE : R_GS_BASE) * 8, addr) : -EINVAL;
    case GETREGS:
    case SETREGS:
    case GETFPREGS:
    case SETFPREGS:
    case PEEKUSR:
    case GETEVENTMSG:
    case GETSIGINFO:
    case SETSIGINFO:
    case GETSIGMASK:
    case SETSIGMASK:
    case GET_SYSCALL_INFO:
        return buffer_request(pid, (int)request, addr, data);
    }
    mutex_lock(&tasklist_lock);
    r = stopped_locked(pid) ? -EIO : -ESRCH;
    mutex_unlock(&tasklist_lock);
    return r;
}

/* Made by the exit path of a traced task only: everybody else has nothing to go on with. */
SYSCALL0(restart_syscall)
{
    struct task *t = current_task();
    if (!t->pt || !t->pt->again)
        return -EINTR;
    t->pt->again = false;
    return t->restart(t);
}
