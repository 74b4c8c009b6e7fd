/* Signal frames as Linux lays them out on x86-64 (arch/x86/kernel/signal_64.c and Documentation/arch/x86/xstate.rst for the
 * formats): return address, ucontext, siginfo, and above them the XSAVE area. The guest's vector state is live in the
 * registers while the kernel runs, so XSAVE writes it straight into the frame and XRSTOR reads it back. */
#include "arch/x86_64/regs.h"
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "mm/mm.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <asm/signal.h>

#define FP_MAGIC1 0x46505853u
#define FP_MAGIC2 0x46505845u
#define SW_RESERVED 464
#define RED_ZONE 128
#define FLAGS_USER 0x40dd5ul /* what sigreturn may set: CF PF AF ZF SF TF DF OF AC */

struct sigcontext_abi {
    u64 r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags;
    u16 cs, gs, fs, ss;
    u64 err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct rt_frame {
    u64 restorer;
    u64 uc_flags, uc_link;
    u64 ss_sp;
    u32 ss_flags, ss_pad;
    u64 ss_size;
    struct sigcontext_abi sc;
    u64 mask;
    u8 info[128];
};

/* CPUID and XGETBV trap to the hypervisor in a virtual machine: asked once. */
static KSTATE u32 xsave_bytes;
static KSTATE u64 xsave_features;

static void ask_cpu(void)
{
    u32 a = 13, b, c = 0, d, lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    atomic_store(&xsave_features, ((u64)hi << 32) | lo);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    atomic_store(&xsave_bytes, b);
}

u32 xsave_size(void)
{
    if (!atomic_load(&xsave_bytes))
        ask_cpu();
    return xsave_bytes;
}

u64 xsave_xcr0(void) { return xsave_features; }

static bool on_altstack(struct task *t, u64 sp) { return !(t->alt_flags & 2) && sp > t->alt_sp && sp - t->alt_sp <= t->alt_size; }

static void regs_to_sc(const struct regs *r, struct sigcontext_abi *s)
{
    s->r8 = r->r8, s->r9 = r->r9, s->r10 = r->r10, s->r11 = r->r11, s->r12 = r->r12, s->r13 = r->r13, s->r14 = r->r14;
    s->r15 = r->r15, s->rdi = r->rdi, s->rsi = r->rsi, s->rbp = r->rbp, s->rbx = r->rbx, s->rdx = r->rdx, s->rax = r->rax;
    s->rcx = r->rcx, s->rsp = r->rsp, s->rip = r->rip, s->flags = r->flags;
    s->cs = 0x33, s->ss = 0x2b;
}

static void sc_to_regs(const struct sigcontext_abi *s, struct regs *r)
{
    r->r8 = s->r8, r->r9 = s->r9, r->r10 = s->r10, r->r11 = s->r11, r->r12 = s->r12, r->r13 = s->r13, r->r14 = s->r14;
    r->r15 = s->r15, r->rdi = s->rdi, r->rsi = s->rsi, r->rbp = s->rbp, r->rbx = s->rbx, r->rdx = s->rdx, r->rax = s->rax;
    r->rcx = s->rcx, r->rsp = s->rsp, r->rip = s->rip, r->flags = (s->flags & FLAGS_USER) | 0x202;
}

static long save_fpu(u64 area, u32 size)
{
    u8 zero[64] = {0};
    u32 sw[12] = {FP_MAGIC1, size + 4, (u32)xsave_xcr0(), (u32)(xsave_xcr0() >> 32), size};
    u32 magic2 = FP_MAGIC2;
    if (area + size + 4 > GUEST_END)
        return -EFAULT;
    long r = copy_to_user(area + 512, zero, 64);
    if (!r)
        r = user_xsave((void *)area);
    if (!r)
        r = copy_to_user(area + SW_RESERVED, sw, sizeof(sw));
    if (!r)
        r = copy_to_user(area + size, &magic2, 4);
    return r;
}

long sigframe_setup(struct regs *r, int sig, const void *info, const struct ksigaction *a, u64 mask);
long sigframe_setup(struct regs *r, int sig, const void *info, const struct ksigaction *a, u64 mask)
{
    struct task *t = current_task();
    u64 sp = r->rsp - RED_ZONE;
    if ((a->flags & SA_ONSTACK) && !(t->alt_flags & 2) && !on_altstack(t, r->rsp))
        sp = t->alt_sp + t->alt_size;
    u32 size = xsave_size();
    sp = (sp - size - 4) & ~63ull;
    u64 fp = sp;
    struct rt_frame f = {.restorer = a->restorer, .uc_flags = 7, .mask = mask};
    regs_to_sc(r, &f.sc);
    f.sc.rip = mm_view_original(t->mm, r->rip);
    struct trap_info *ti = &this_carrier()->trap;
    f.sc.err = ti->error, f.sc.trapno = ti->trapno, f.sc.cr2 = ti->addr, f.sc.oldmask = mask, f.sc.fpstate = fp;
    f.ss_sp = t->alt_sp, f.ss_size = t->alt_size;
    f.ss_flags = (t->alt_flags & 2) ? 2 : on_altstack(t, r->rsp) ? 1 : 0;
    memcpy(f.info, info, 128);
    sp = ((sp - sizeof(f)) & ~15ull) - 8;
    if (save_fpu(fp, size) || copy_to_user(sp, &f, sizeof(f)))
        return -EFAULT;
    r->rsp = sp;
    r->rip = a->handler;
    r->rdi = (u64)sig;
    r->rsi = sp + offsetof(struct rt_frame, info);
    r->rdx = sp + offsetof(struct rt_frame, uc_flags);
    r->rax = 0;
    r->flags &= ~0x500ul; /* DF, TF */
    if (a->flags & SA_ONSTACK && t->alt_flags & 0x80000000u) /* SS_AUTODISARM */
        t->alt_flags = 2;
    return 0;
}

struct regs *current_regs(void);
SYSCALL0(rt_sigreturn)
{
    struct regs *r = current_regs();
    struct task *t = current_task();
    struct rt_frame f;
    if (copy_from_user(&f, r->rsp - 8, sizeof(f)))
        goto bad;
    if (f.sc.fpstate && (f.sc.fpstate >= GUEST_END || (f.sc.fpstate & 63) || user_xrstor((void *)f.sc.fpstate)))
        goto bad;
    sc_to_regs(&f.sc, r);
    r->rip = mm_view_resume(t->mm, r->rip);
    r->nr = ~0ull;
    t->alt_flags = f.ss_flags & 2 ? 2 : f.ss_flags & 0x80000000u;
    if (!(f.ss_flags & 2)) {
        t->alt_sp = f.ss_sp;
        t->alt_size = f.ss_size;
    }
    signal_set_mask(t, f.mask);
    return (long)r->rax;
bad:
    signal_force(SIGSEGV, 0x80, 0);
    return 0;
}
