/* The first code of a sandbox's first process. The broker's child has mapped the kernel image and jumps here (broker/enter.c),
 * on a stack and in an address space that are still the broker's.
 *
 * Order: a carrier's stack; everything that came from the broker unmapped; segments; host vDSO; handlers; the listener filter and
 * its hand-over to the broker; the main filter; a first doorbell, answered when the sandbox is known and its descriptors are in
 * place; only then shared memory is read. Descriptors: see base/layout.h FD_*, FD_GRANT0 =
 * the broker's socket. Every failure ends with an exit status that the broker reports (LAUNCH_*). */
#include <asm/mman.h>
#include <asm/prctl.h>
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/elf.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/uio.h>
#include "arch/x86_64/regs.h"
#include "base/launch_args.h"
#include "base/string.h"
#include "hostabi_filter.h"
#include "host/hostabi.h"
#include "host/syscall.h"
#include "host/vdso.h"

#define FD_SOCKET FD_GRANT0
#define TASK_TOP 0x7ffffffff000ul /* the end of a process's address space */
#define HWCAP2_FSGSBASE 2

enum { LAUNCH_NO_FSGSBASE = 101, LAUNCH_NO_VDSO, LAUNCH_MAP, LAUNCH_SIGNALS, LAUNCH_FILTER, LAUNCH_SEND, LAUNCH_CLOSE, LAUNCH_UNMAP };

static noreturn_fn void launch_fail(int code)
{
    for (;;)
        RAW1(__NR_exit_group, code);
}

static void *launch_vdso_symbol(u64 base, const char *name)
{
    Elf64_Ehdr *e = (void *)base;
    Elf64_Phdr *ph = (void *)(base + e->e_phoff);
    Elf64_Dyn *dyn = NULL;
    u64 bias = base;
    for (int i = 0; i < e->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD)
            bias = base + ph[i].p_offset - ph[i].p_vaddr;
        else if (ph[i].p_type == PT_DYNAMIC)
            dyn = (void *)(base + ph[i].p_offset);
    }
    Elf64_Sym *sym = NULL;
    const char *str = NULL;
    u64 count = 0;
    for (; dyn && dyn->d_tag; dyn++) {
        u64 p = dyn->d_un.d_ptr < base ? bias + dyn->d_un.d_ptr : dyn->d_un.d_ptr;
        if (dyn->d_tag == DT_SYMTAB)
            sym = (void *)p;
        else if (dyn->d_tag == DT_STRTAB)
            str = (void *)p;
        else if (dyn->d_tag == DT_HASH)
            count = ((u32 *)p)[1];
    }
    if (!sym || !str)
        return NULL;
    if (!count) /* only a GNU hash table: the string table follows the symbols */
        count = ((u64)str - (u64)sym) / sizeof(*sym);
    for (u64 i = 0; i < count; i++)
        if (sym[i].st_shndx && !strcmp(str + sym[i].st_name, name))
            return (void *)(bias + sym[i].st_value);
    return NULL;
}

static void launch_map(u64 addr, u64 size, int prot, int flags, int fd)
{
    if (RAW6(__NR_mmap, addr, size, prot, flags | MAP_FIXED_NOREPLACE, fd, 0) != (long)addr)
        launch_fail(LAUNCH_MAP);
}

/* The host's vDSO lies anywhere, also where our segments belong: all its mappings move by one distance. Returns its new place. */
static u64 launch_move_vdso(const struct launch_args *a)
{
    u64 first = a->pages[0].start, distance = HOST_VDSO_BASE - first;
    for (u32 i = 0; i < a->page_count; i++) {
        u64 start = a->pages[i].start, size = a->pages[i].end - start;
        if (start < first || start + size > first + HOST_VDSO_SIZE ||
            RAW5(__NR_mremap, start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start + distance) != (long)(start + distance))
            launch_fail(LAUNCH_NO_VDSO);
    }
    return a->vdso + distance;
}

/* What the broker had in memory goes, all of it, wherever it was: beside the kernel image, this carrier and the host's vDSO, each to its
 * last page only, nothing stays. */
static void launch_unmap(u64 vdso_end)
{
    extern char kimage_end[];
    const struct {
        u64 start, end;
    } keep[] = {
        {KIMAGE_BASE, ALIGN_UP((u64)kimage_end, PAGE_SIZE)},
        {CARRIER_BASE, CARRIER_BASE + CARRIER_SIZE},
        {HOST_VDSO_BASE, vdso_end},
        {TASK_TOP, TASK_TOP},
    };
    u64 from = 0;
    for (u32 i = 0; i < ARRAY_COUNT(keep); i++) {
        if (keep[i].start > from && RAW2(__NR_munmap, from, keep[i].start - from))
            launch_fail(LAUNCH_UNMAP);
        from = keep[i].end;
    }
}

static void launch_segments(u64 vdso)
{
    launch_map(K_BASE, K_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, FD_K);
    launch_map(D_BASE, D_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, FD_D);
    launch_map(R_BASE, R_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, FD_R);
    struct vdso_data *v = VDSO_DATA;
    v->clock_gettime = launch_vdso_symbol(vdso, "__vdso_clock_gettime");
    v->gettimeofday = launch_vdso_symbol(vdso, "__vdso_gettimeofday");
    v->time = launch_vdso_symbol(vdso, "__vdso_time");
    v->getcpu = launch_vdso_symbol(vdso, "__vdso_getcpu");
    v->clock_getres = launch_vdso_symbol(vdso, "__vdso_clock_getres");
    v->by_call = NULL;
    if (!v->clock_gettime || !v->gettimeofday || !v->time || !v->getcpu || !v->clock_getres)
        launch_fail(LAUNCH_NO_VDSO);
}

static struct carrier *launch_carrier(void)
{
    extern char syscall_entry[];
    u64 base = carrier_slot_base(0);
    if (RAW2(__NR_munmap, base, CARRIER_SIZE)) /* the broker may have something there */
        launch_fail(LAUNCH_UNMAP);
    launch_map(base + SLOT_ALTSTACK, SLOT_ALTSTACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    launch_map(base + SLOT_KSTACK, CARRIER_SIZE - SLOT_KSTACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct carrier *c = carrier_at(0);
    c->self = c;
    c->alive = 1;
    c->entry = (u64)syscall_entry;
    c->kstack_top = base + SLOT_CARRIER;
    __asm__ volatile("wrgsbase %0" ::"r"(c));
    return c;
}

/* A kick waits until the handler returns: each takes a frame of some 3 KB of the alternate stack, and any number may come. Faults do not
 * wait: one in the handler itself is to be reported. */
static void launch_signals(void)
{
    extern void trap_handler(int, struct siginfo *, void *);
    extern char host_sigreturn[];
    static const int sigs[] = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
    struct {
        void *handler;
        u64 flags;
        void *restorer;
        u64 mask;
    } sa = {(void *)trap_handler, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | 0x04000000, host_sigreturn, 1ul << (SIGURG - 1)};
    u64 none = 0;
    for (u32 i = 0; i < ARRAY_COUNT(sigs); i++)
        if (RAW4(__NR_rt_sigaction, sigs[i], &sa, NULL, 8))
            launch_fail(LAUNCH_SIGNALS);
    /* children are reaped by the host */
    sa.handler = (void *)1;
    if (RAW4(__NR_rt_sigaction, SIGCHLD, &sa, NULL, 8))
        launch_fail(LAUNCH_SIGNALS);
    RAW4(__NR_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
    RAW2(__NR_sigaltstack, (&(struct sigaltstack){.ss_sp = (void *)(carrier_slot_base(0) + SLOT_ALTSTACK), .ss_size = SLOT_ALTSTACK_SIZE}), NULL);
}

/* The first filter raises the notification on getpgrp - and on tgkill, where neither a pid namespace nor Landlock keeps the guest's one
 * signal inside - and allows all else; its listener goes to the broker. */
static void launch_listener(bool ask_kicks)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ask_kicks ? __NR_tgkill : __NR_getpgrp, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_getpgrp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {ARRAY_COUNT(f), f};
    if (RAW5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        launch_fail(LAUNCH_FILTER);
    long fd = RAW3(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
    if (fd < 0)
        launch_fail(LAUNCH_FILTER);
    struct {
        u64 len;
        int level, type;
        int fd, pad;
    } control = {20, 1 /* SOL_SOCKET */, 1 /* SCM_RIGHTS */, (int)fd, 0};
    struct iovec iov = {"LSTN", 4};
    struct {
        void *name;
        u64 namelen;
        struct iovec *iov;
        u64 iovlen;
        void *control;
        u64 controllen;
        u64 flags;
    } msg = {.iov = &iov, .iovlen = 1, .control = &control, .controllen = sizeof(control)};
    if (RAW3(__NR_sendmsg, FD_SOCKET, &msg, 0) != 4)
        launch_fail(LAUNCH_SEND);
    /* the listener lies in the lowest free slot, which may be one of an image that this sandbox does not have */
    if (RAW1(__NR_close, fd) || RAW3(__NR_close_range, FD_SOCKET, ~0u, 0))
        launch_fail(LAUNCH_CLOSE);
}

noreturn_fn void launch_main(const struct launch_args *args);
noreturn_fn void launch_on_kstack(void *args);

void launch_on_kstack(void *args)
{
    extern noreturn_fn void kernel_main(void);
    const struct launch_args *a = args;
    struct carrier *c = this_carrier();
    u64 vdso = launch_move_vdso(a), vdso_end = HOST_VDSO_BASE + a->pages[a->page_count - 1].end - a->pages[0].start;
    bool ask_kicks = a->ask_kicks;
    memset(args, 0, sizeof(*a)); /* the broker has its vDSO there, too */
    launch_unmap(vdso_end);
    launch_segments(vdso);
    launch_signals();
    c->tid = (u32)RAW0(__NR_gettid);
    RAW5(__NR_prctl, PR_SET_SPECULATION_CTRL, 0 /* PR_SPEC_STORE_BYPASS */, 1ul << 2 /* PR_SPEC_DISABLE */, 0, 0);
    RAW5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    launch_listener(ask_kicks);
    struct sock_fprog prog = {ARRAY_COUNT(host_filter), (struct sock_filter *)host_filter};
    if (RAW3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
        launch_fail(LAUNCH_FILTER);
    robust_begin(c);
    RAW0(__NR_getpgrp); /* until the broker has put the other descriptors in place: spawn_hand_over() */
    kernel_main();
}

void launch_main(const struct launch_args *args)
{
    extern noreturn_fn void switch_to_kstack(u64 rsp, void (*fn)(void *), void *arg);
    if (!(args->hwcap2 & HWCAP2_FSGSBASE))
        launch_fail(LAUNCH_NO_FSGSBASE);
    struct launch_args copy = *args; /* its memory may lie where the carrier goes */
    struct carrier *c = launch_carrier();
    __asm__ volatile("wrfsbase %0" ::"r"(0ul));
    struct launch_args *a = (void *)(c->kstack_top - 512);
    *a = copy;
    switch_to_kstack(c->kstack_top - 1024, launch_on_kstack, a);
}
