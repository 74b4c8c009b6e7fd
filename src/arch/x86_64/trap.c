/* The host's signals: the only code that runs on a carrier's alternate stack.
 *
 * In guest code a SIGSYS (system call through the trap path), a fault or a kick (SIGURG) stores the guest's registers in the
 * frame at the top of the kernel stack and redirects to event_entry: the host's sigreturn then restores the vector state, and
 * the kernel goes on as if entered by an exception. In kernel code a kick between exit_lo and exit_hi restarts the exit path
 * (its frame is unchanged); elsewhere it only interrupts a host sleep. A fault in kernel code goes to its fixup or panics. */
#include "arch/x86_64/regs.h"
#include "arch/x86_64/uaccess.h"
#include "abi/syscalls.h"
#include "boot/boot.h"
#include "base/string.h"
#include "core/panic.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "host/vdso.h"
#include "mm/mm.h"
#include "proc/freeze.h"
#include "proc/ptrace.h"
#include "proc/task.h"
#include "sys/trace.h"
#include <asm/signal.h>
#include <asm/sigcontext.h>
#include <asm/siginfo.h>
#include <asm/ucontext.h>
#include <asm/unistd.h>

extern char exit_lo[], exit_jump[], exit_hi[], event_entry[], ret_to_user[];
extern char gvdso_start[], gvdso_end[];
extern const u64 kfixup_start[], kfixup_end[];

#define USER_CS 0x33 /* the host's selectors, asm/segment.h there */
#define USER_SS 0x2b
#define FLAG_TF 0x100ul

u64 user_fixup(u64 ip)
{
    for (const u64 *p = kfixup_start; p < kfixup_end; p += 2)
        if (p[0] == ip)
            return p[1];
    return 0;
}

/* Also when the kernel is in the host's vDSO: then only the stack tells. The guest's vDSO lies in the image, and is guest code. */
static bool in_kernel(const struct carrier *c, const struct sigcontext *s)
{
    return (s->rip - KIMAGE_BASE < KIMAGE_SIZE && s->rip - (u64)gvdso_start >= (u64)(gvdso_end - gvdso_start)) ||
           c->kstack_top - s->rsp <= SLOT_KSTACK_SIZE;
}

/* A fault of guest code that jumped into the image: the kernel's own code has the carrier's stack, or the alternate one. */
static bool stray(const struct carrier *c, const struct sigcontext *s, int sig)
{
    u64 slot = (u64)c - SLOT_CARRIER;
    return sig != SIGURG && c->kstack_top - s->rsp > SLOT_KSTACK_SIZE && s->rsp - slot >= CARRIER_SIZE;
}

static void save_regs(const struct sigcontext *s, struct regs *r)
{
    r->r15 = s->r15, r->r14 = s->r14, r->r13 = s->r13, r->r12 = s->r12, r->rbp = s->rbp, r->rbx = s->rbx, r->r11 = s->r11;
    r->r10 = s->r10, r->r9 = s->r9, r->r8 = s->r8, r->rax = s->rax, r->rcx = s->rcx, r->rdx = s->rdx, r->rsi = s->rsi;
    r->rdi = s->rdi, r->rip = s->rip, r->flags = s->eflags, r->rsp = s->rsp;
}

/* The host's vDSO makes a call for the clock: host/vdso.h. Only clock_gettime, the kernel uses no other function of it. */
static bool clock_trap(int sig, struct sigcontext *s)
{
    if (sig != SIGSYS || s->rax != __NR_clock_gettime || !clock_has_call((int)s->rdi))
        return false;
    VDSO_DATA->by_call = host_clock_call;
    s->rax = (u64)host_clock_call((int)s->rdi, (struct __kernel_timespec *)s->rsi);
    return true;
}

static void kernel_event(struct carrier *c, int sig, struct siginfo *si, struct sigcontext *s)
{
    if (sig == SIGURG) {
        if (s->rip >= (u64)exit_lo && s->rip < (u64)exit_hi) {
            s->eflags &= ~0x40500ul; /* the guest's AC, DF, TF */
            s->rsp = c->kstack_top - sizeof(struct regs);
            s->rip = (u64)ret_to_user;
        }
        return;
    }
    if (clock_trap(sig, s))
        return;
    u64 addr = (u64)si->si_addr, fix = user_fixup(s->rip);
    if (fix && (sig == SIGSEGV || sig == SIGBUS)) {
        struct mm *mm = c->task ? c->task->mm : NULL;
        if (addr < GUEST_END && mm && !mutex_held(&mm->lock) && mm_fault(mm, addr, s->err))
            return;
        s->rip = fix;
        return;
    }
    if (sig == SIGBUS)
        dump_fault(addr);
    struct regs r = {0};
    save_regs(s, &r);
    panic_exception(&r, sig, addr);
}

/* A traced task's step led into the kernel: by the exit path itself, which sets the trap flag one instruction too early, or by a
 * trampoline. Nobody is to see that. */
static bool step_in_kernel(const struct carrier *c, int sig, struct sigcontext *s)
{
    if (sig != SIGTRAP || !(s->eflags & FLAG_TF) || s->rip - KIMAGE_BASE >= KIMAGE_SIZE || !c->task || !c->task->pt ||
        s->rip - (u64)gvdso_start < (u64)(gvdso_end - gvdso_start))
        return false;
    if (s->rip == (u64)exit_jump)
        s->rip = c->exit_rip;
    else
        s->eflags &= ~FLAG_TF;
    return true;
}

void trap_handler(int sig, struct siginfo *si, struct ucontext *uc);
void trap_handler(int sig, struct siginfo *si, struct ucontext *uc)
{
    u64 here = (u64)__builtin_frame_address(0);
    struct carrier *c = (struct carrier *)(ALIGN_DOWN(here - CARRIER_BASE, CARRIER_SIZE) + CARRIER_BASE + SLOT_CARRIER);
    struct sigcontext *s = (struct sigcontext *)&uc->uc_mcontext;
    if (step_in_kernel(c, sig, s))
        return;
    if (s->rip == (u64)exit_jump && sig == SIGSEGV) /* a non-canonical address: all registers are the guest's already */
        s->rip = c->exit_rip;
    else if (in_kernel(c, s) && !stray(c, s, sig)) {
        kernel_event(c, sig, si, s);
        return;
    }
    __asm__ volatile("wrgsbase %0" ::"r"(c));
    struct regs *r = (struct regs *)(c->kstack_top - sizeof(struct regs));
    save_regs(s, r);
    c->trap = (struct trap_info){.sig = sig, .code = si->si_code, .addr = (u64)si->si_addr, .trapno = s->trapno, .error = s->err};
    r->kind = sig == SIGSYS ? ENTRY_TRAP : ENTRY_EVENT;
    r->nr = sig == SIGSYS ? r->rax : ~0ull;
    s->rsp = (u64)r;
    s->rip = (u64)event_entry;
    s->eflags &= ~0x40500ul; /* AC, DF, TF */
    s->cs = USER_CS; /* the guest may have come from 32-bit code, or from a frame it forged */
    s->ss = USER_SS;
}

void frames_redirect(struct mm *mm, const struct vview *w)
{
    u64 start = w->bias + w->e.tramp_vaddr;
    for (u32 i = 0; i < CARRIER_MAX; i++) {
        if (!(i % 64) && !mm->carriers[i / 64]) {
            i += 63;
            continue;
        }
        if (!(mm->carriers[i / 64] >> i % 64 & 1) || !carrier_at(i)->kstack_top)
            continue;
        struct regs *r = (struct regs *)(carrier_at(i)->kstack_top - sizeof(*r));
        u64 ip = atomic_load_relaxed(&r->rip);
        if (ip - start < w->e.tramp_len)
            atomic_store(&r->rip, view_original(w, ip));
    }
}

struct regs *current_regs(void);
struct regs *current_regs(void) { return (struct regs *)(this_carrier()->kstack_top - sizeof(struct regs)); }

void syscall_dispatch(struct regs *r);
void syscall_again(struct regs *r);
void syscall_traced(struct regs *r);

static long dispatch_slowly(struct regs *r, u32 nr, syscall_fn fn)
{
    if (!fn)
        boot_count_unknown(nr);
    if (trace_active)
        return trace_call(nr, fn, (u64[]){r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9});
    return -ENOSYS;
}

void syscall_dispatch(struct regs *r)
{
    u32 nr = (u32)r->nr;
    syscall_fn fn = nr < SYSCALL_COUNT ? syscall_table[nr] : NULL;
    struct carrier *c = this_carrier();
    long v;
    c->calls = c->calls << 16 | (nr & 0xffff);
    c->task->core.in_kernel = 1;
    if (unlikely(!fn || trace_active))
        v = dispatch_slowly(r, nr, fn);
    else
        v = fn(r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9);
    r->rax = (u64)v;
    current_task()->core.in_kernel = 0;
    if (unlikely(v <= -512 && v >= -516)) /* a restart code: the exit path decides */
        atomic_or(&current_task()->core.work, WORK_SIGNAL);
}

/* Of a task that is, or was, traced. */
void syscall_traced(struct regs *r)
{
    if (!ptrace_call_begins(current_task(), r))
        syscall_dispatch(r);
}

/* Runs an interrupted call again: the exit path found no handler to run. */
void syscall_again(struct regs *r)
{
    struct task *t = current_task();
    if ((long)r->rax == -ERESTART_RESTARTBLOCK) {
        r->rax = (u64)t->restart(t);
        return;
    }
    r->rax = r->nr;
    syscall_dispatch(r);
}

void event_dispatch(struct regs *r);
void event_dispatch(struct regs *r)
{
    struct carrier *c = this_carrier();
    struct trap_info ti = c->trap;
    struct task *t = c->task;
    switch (ti.sig) {
    case SIGSYS:
        r->rcx = r->rip;
        r->r11 = r->flags;
        mm_hot_trap(t->mm, r->rip, (u32)r->nr);
        if (unlikely(t->pt != NULL))
            syscall_traced(r);
        else
            syscall_dispatch(r);
        break;
    case SIGURG:
        break;
    case SIGSEGV:
    case SIGBUS:
        if (ti.code > 0 && ti.addr < GUEST_END && mm_fault(t->mm, ti.addr, ti.error))
            break;
        if (ti.addr < GUEST_END && ti.trapno == 14) {
            int sig = ti.sig, code = mm_fault_signal(t->mm, ti.addr, ti.error, ti.sig, &sig);
            signal_force(sig, code, ti.addr);
        } else {
            signal_force(ti.sig, ti.code, ti.addr);
        }
        break;
    default: /* the address of an instruction */
        signal_force(ti.sig, ti.code, mm_view_original(t->mm, ti.addr));
    }
}

/* First C code of a new host thread of a stub. */
void carrier_start(struct carrier *c);
void carrier_start(struct carrier *c)
{
    c->tid = c->task->core.host_tid;
    robust_begin(c);
    alive_begin(&c->task->core.alive);
    host_sigaltstack(carrier_slot_base(c->slot) + SLOT_ALTSTACK, SLOT_ALTSTACK_SIZE);
    if (c->task->tls != ~0ull)
        __asm__ volatile("wrfsbase %0" ::"r"(c->task->tls));
}
