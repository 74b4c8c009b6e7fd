/* Hostile guest programs, second part: every host call number and every way to enter the host; what a guest can do to its own kernel's
 * pages, stacks and lists; see attack.c for how results are told. */
#define _GNU_SOURCE
#include "attack.h"
#include <sys/ucontext.h>

#define LAST_NUMBER 480
#define X32 0x40000000l
#define AT_ONCE 128
#define KERNEL_ADDRESS 0xffff888000000000ul

/* ---- group numbers ---- */

#include <asm/unistd.h>
static const u16 reachable[] = { REACHABLE }; /* from src/host/hostabi.tbl */

static bool skipped(long nr)
{
    for (unsigned i = 0; i < ARRAY_COUNT(reachable); i++)
        if (reachable[i] == nr)
            return true;
    return nr == 335 || nr == 336; /* uprobes: hosts handle them before any filter, and do nothing */
}

static int one_number(void *arg)
{
    host(*(long *)arg, 1, 1, 1, 1, 1, 1);
    return 1;
}

/* Calls first .. last, each in a process of its own; says which was not killed. */
static void numbers(const char *name, long first, long last)
{
    long nr[AT_ONCE];
    pid_t pid[AT_ONCE];
    int bad = 0, tried = 0;
    for (long at = first; at <= last;) {
        int n = 0;
        for (; n < AT_ONCE && at <= last; at++) {
            if (skipped(at))
                continue;
            nr[n] = at;
            pid[n] = start_case(one_number, &nr[n]);
            n++;
        }
        for (int i = 0; i < n; i++) {
            int st = 0;
            if (waitpid(pid[i], &st, 0) != pid[i] || !WIFSIGNALED(st) || WTERMSIG(st) != SIGKILL)
                bad++, fprintf(stderr, "call %ld: status %x\n", nr[i], st);
            tried++;
        }
    }
    fprintf(stderr, "%s: %d calls tried\n", name, tried);
    printf("%s %s\n", name, bad ? "BROKEN" : "killed");
}

/* ---- group entries: other doors than the `syscall` of 64-bit code ---- */

/* A page of code in the low 4 GiB. */
static u8 *low_page(u32 at)
{
    u8 *p = mmap((void *)(u64)at, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int in_32_bit(const u8 *code, unsigned size)
{
    u8 *p = low_page(0x20000000);
    static struct {
        u32 ip;
        u16 cs;
    } __attribute__((packed)) to = { 0x20000000, 0x23 };
    if (!p)
        return 1;
    memset(p, 0xf4, 4096);
    memcpy(p, code, size);
    __asm__ volatile("mov $0x20000f00, %%esp; ljmp *%0" ::"m"(to));
    return 1;
}

static int sysenter64(void *arg)
{
    long r;
    (void)arg;
    __asm__ volatile("sysenter" : "=a"(r) : "a"(20l), "b"(0l) : "rcx", "rdx", "memory");
    return 1;
}
static int sysenter32(void *arg) { (void)arg; return in_32_bit((const u8[]){ 0xb8, 20, 0, 0, 0, 0x89, 0xe5, 0x0f, 0x34 }, 9); }
static int syscall32(void *arg) { (void)arg; return in_32_bit((const u8[]){ 0xb8, 20, 0, 0, 0, 0x0f, 0x05 }, 7); }
static int open32(void *arg) { (void)arg; return in_32_bit((const u8[]){ 0xb8, 5, 0, 0, 0, 0x31, 0xc9, 0xcd, 0x80 }, 9); }

/* int 0x80 with numbers of the 32-bit table that mean something else in ours. */
static int int80_numbers(void *arg)
{
    for (long nr = *(long *)arg;;) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(0l), "c"(0l), "d"(0l) : "memory");
        return 1;
    }
}

/* The host's vsyscall page: what is there traps, is answered by the guest's kernel, or is no memory. */
static int vsyscall(void *arg)
{
    long r, at = (long)arg;
    __asm__ volatile("call *%1" : "=a"(r) : "r"(at), "D"(0l), "S"(0l), "d"(0l) : "rcx", "r11", "memory");
    return 0;
}

/* Segment and debug registers, ports, machine state: instructions that user code may not use. */
static int instruction(void *arg)
{
    switch ((long)arg) {
    case 0: __asm__ volatile("cli"); break;
    case 1: __asm__ volatile("hlt"); break;
    case 2: __asm__ volatile("inb $0x60, %%al" ::: "rax"); break;
    case 3: __asm__ volatile("rdmsr" ::"c"(0xc0000080) : "rax", "rdx"); break;
    case 4: __asm__ volatile("mov %%cr3, %%rax" ::: "rax"); break;
    case 5: __asm__ volatile("mov %%rax, %%dr7" ::"a"(0x401l)); break;
    case 6: __asm__ volatile("swapgs"); break;
    case 7: __asm__ volatile("lidt (%0)" ::"r"(&(u64[2]){ 0 })); break;
    case 8: __asm__ volatile("wbinvd"); break;
    case 9: __asm__ volatile("sysretq" ::: "memory"); break;
    case 10: __asm__ volatile("iretq" ::: "memory"); break; /* to whatever lies on the stack */
    }
    return 1;
}

/* Which signal, and who sends it, depends on the machine or on the host's version. */
static void ends_by_signal(const char *name, int (*act)(void *), void *arg)
{
    int st = 0;
    waitpid(start_case(act, arg), &st, 0);
    printf("%s %s\n", name, WIFSIGNALED(st) && WTERMSIG(st) != SIGALRM ? "refused" : "BROKEN");
}

static void group_entries(void)
{
    static const struct {
        const char *name;
        long value;
    } plain[] = { { "cli", 0 }, { "hlt", 1 }, { "in", 2 }, { "rdmsr", 3 }, { "cr3", 4 }, { "dr7", 5 }, { "swapgs", 6 }, { "lidt", 7 },
                  { "wbinvd", 8 }, { "sysret", 9 } };
    static long table[] = { 1, 2, 5, 11, 37, 102, 120, 172, 384 };
    pid_t pid[ARRAY_COUNT(table)];
    ends_by_signal("sysenter", sysenter64, NULL); /* processors do not all have these */
    ends_by_signal("sysenter-32", sysenter32, NULL);
    ends_by_signal("syscall-32", syscall32, NULL);
    run_case("open-32", open32, NULL);
    for (unsigned i = 0; i < ARRAY_COUNT(table); i++)
        pid[i] = start_case(int80_numbers, &table[i]);
    for (unsigned i = 0; i < ARRAY_COUNT(table); i++) {
        char name[32];
        sprintf(name, "int-0x80-%ld", table[i]);
        end_case(name, pid[i]);
    }
    for (long i = 0; i < 3; i++) {
        int st = 0;
        waitpid(start_case(vsyscall, (void *)(0xffffffffff600000 + i * 1024)), &st, 0);
        printf("vsyscall-%ld %s\n", i, WIFEXITED(st) && WEXITSTATUS(st) ? "BROKEN" : "refused");
    }
    for (unsigned i = 0; i < ARRAY_COUNT(plain); i++)
        run_case(plain[i].name, instruction, (void *)plain[i].value);
}

/* ---- group own: a guest's own kernel, in its own process ---- */

static const u8 call_code[] = { 0x0f, 0x05, 0xc3 };

/* Puts own code over the page of the image that holds the gadget, by mremap. It may then make the allowed calls; no others. */
static bool take_image(void)
{
    u64 page = (u64)gadget & ~4095ul;
    u8 *own = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return false;
    memset(own, 0x90, 4096);
    memcpy(own + ((u64)gadget & 4095), call_code, 3);
    return host(25, (long)own, 4096, 4096, 3, page, 0) == (long)page;
}

static int image_replaced_allowed(void *arg)
{
    (void)arg;
    if (!take_image())
        return 1;
    /* an allowed call works from our page, which proves nothing against the host: it could have been made before, too */
    long p = host(9, 0x30000000, 4096, 3, 0x32, -1, 0);
    host(231, p == 0x30000000 ? 0 : 1, 0, 0, 0, 0, 0);
    return 1;
}
static int image_replaced_forbidden(void *arg)
{
    if (take_image())
        host(*(long *)arg, 1, 1, 1, 1, 1, 1);
    return 1;
}

/* The same by munmap and mmap of the rest of the image. */
static int image_unmapped(void *arg)
{
    u64 page = (u64)gadget & ~4095ul;
    (void)arg;
    host(11, KIMAGE_BASE, page - KIMAGE_BASE, 0, 0, 0, 0);
    host(11, page + 4096, KIMAGE_BASE + KIMAGE_SIZE - page - 4096, 0, 0, 0, 0);
    if (host(9, KIMAGE_BASE + KIMAGE_SIZE - 4096, 4096, 7, 0x32, -1, 0) != (long)(KIMAGE_BASE + KIMAGE_SIZE - 4096))
        return 1;
    u8 *last = (u8 *)KIMAGE_BASE + KIMAGE_SIZE - 3;
    memcpy(last, call_code, 3);
    gadget = last;
    host(257, -100, (long)"/etc/passwd", 0, 0, 0, 0);
    return 1;
}

/* A `syscall` whose following instruction lies behind the window: the host looks at the address behind it. */
static int window_edge(void *arg)
{
    u8 *at = (u8 *)KIMAGE_BASE + KIMAGE_SIZE - 4096;
    long own_pid = getpid();
    (void)arg;
    if (host(9, (long)at, 4096, 7, 0x32, -1, 0) != (long)at)
        return 1;
    host(11, R_BASE, 4096, 0, 0, 0, 0);
    if (host(9, R_BASE, 4096, 7, 0x32, -1, 0) != (long)R_BASE)
        return 1;
    memcpy(at + 4094, "\x0f\x05", 2);
    *(u8 *)R_BASE = 0xc3;
    gadget = at + 4094;
    /* a host with another view of the address would let an allowed call through, as always; this one is forbidden, and traps:
     * our own kernel answers, or the process ends */
    long pid = host(39, 0, 0, 0, 0, 0, 0);
    gadget = at;
    memcpy(at, call_code, 3);
    host(231, pid == own_pid ? 0 : 1, 0, 0, 0, 0, 0);
    return 1;
}

static int over_segment(void *arg)
{
    u64 base = *(u64 *)arg;
    if (host(9, base, 65536, 3, 0x32, -1, 0) != (long)base)
        return 1;
    memset((void *)base, 0xff, 65536);
    for (int i = 0; i < 3; i++)
        host(111, 64, 0, 0, 0, 0, 0); /* the broker does not look here */
    host(257, 0, 0, 0, 0, 0, 0);
    return 1;
}

/* Frames for rt_sigreturn with whatever can be forged. Returns in the wrong place or not at all. */
static volatile long forged_flags;
static void __attribute__((noreturn)) after_return(void)
{
    u64 flags;
    u16 cs, ss;
    __asm__ volatile("pushf; pop %0; mov %%cs, %1; mov %%ss, %2" : "=r"(flags), "=r"(cs), "=r"(ss));
    /* no input-output privilege, no virtual-8086, user selectors */
    host(231, (flags & 0x23000) || (cs & 3) != 3 || (ss && (ss & 3) != 3), 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

static int forged_frame(void *arg)
{
    static struct {
        ucontext_t uc;
        u8 room[4096];
    } f __attribute__((aligned(64)));
    static u8 stack[16384] __attribute__((aligned(64)));
    mcontext_t *m = &f.uc.uc_mcontext;
    m->gregs[REG_RIP] = (long)after_return;
    m->gregs[REG_RSP] = (long)(stack + sizeof(stack) - 64 - 8);
    m->gregs[REG_CSGSFS] = 0x002b000000000033;
    m->gregs[REG_EFL] = 0x202;
    switch ((long)arg) {
    case 0: m->gregs[REG_EFL] = 0x3ffffff & ~0x100; break; /* IOPL 3, VM, NT, VIF and all others but TF */
    case 1: m->gregs[REG_CSGSFS] = 0x0018000000000010; break; /* kernel selectors: the host makes them the user's, which are none */
    case 2: m->gregs[REG_RIP] = KERNEL_ADDRESS; break;
    case 3: m->gregs[REG_RIP] = 0x800000000000; break;
    case 4: m->gregs[REG_RSP] = KERNEL_ADDRESS; break;
    case 5: m->fpregs = (void *)KERNEL_ADDRESS; break;
    case 6: m->fpregs = (void *)0xdeadbeef001; break;
    case 7: memset(f.room, 0xff, sizeof(f.room)); m->fpregs = (void *)(((u64)f.room + 63) & ~63ul); break; /* reserved bits in the vector state */
    case 8: m->gregs[REG_CSGSFS] = 0x002b000000000023; m->gregs[REG_RIP] = (long)gadget; break; /* 32-bit code at a cut address */
    case 9: f.uc.uc_stack = (stack_t){ .ss_sp = (void *)KERNEL_ADDRESS, .ss_size = ~0ul, .ss_flags = 0x7fffffff }; break;
    case 10: memset(&f.uc.uc_sigmask, 0xff, sizeof(f.uc.uc_sigmask)); break; /* all masked, SIGSYS too */
    }
    __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; jmp *%1" ::"r"(&f), "r"(gadget) : "memory");
    return 1;
}

/* With SIGSYS masked a trap kills instead of trapping. */
static int masked_trap(void *arg)
{
    (void)arg;
    static struct {
        ucontext_t uc;
    } f __attribute__((aligned(64)));
    extern const char go_on[];
    f.uc.uc_mcontext.gregs[REG_RIP] = (long)go_on;
    f.uc.uc_mcontext.gregs[REG_RSP] = (long)__builtin_frame_address(0) - 4096;
    f.uc.uc_mcontext.gregs[REG_CSGSFS] = 0x002b000000000033;
    f.uc.uc_mcontext.gregs[REG_EFL] = 0x202;
    memset(&f.uc.uc_sigmask, 0xff, sizeof(f.uc.uc_sigmask));
    __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; jmp *%1\n go_on: mov $57, %%eax; syscall" ::"r"(&f), "r"(gadget) : "memory");
    host(231, 1, 0, 0, 0, 0, 0);
    return 1;
}

/* What the host reads when a thread ends. */
static int robust(void *arg)
{
    static struct {
        u64 next;
        s64 offset;
        u64 pending;
    } head;
    static u64 node[4];
    switch ((long)arg) {
    case 0: head.next = KERNEL_ADDRESS; break;
    case 1: head.next = 0x800000000000; break;
    case 2: head.next = (u64)&node[0]; node[0] = (u64)&node[1]; node[1] = (u64)&node[0]; break; /* without an end */
    case 3: head.next = (u64)&node[0]; node[0] = (u64)&head; head.offset = (s64)(KERNEL_ADDRESS - (u64)&node[0]); break;
    case 4: head.next = (u64)&node[0]; node[0] = (u64)&head; head.offset = 1; head.pending = (u64)&node[0] | 1; break;
    case 5: head.next = HOST_VDSO_BASE; head.pending = KIMAGE_BASE; break;
    }
    void *list = (long)arg == 6 ? (void *)KERNEL_ADDRESS : &head;
    if ((long)arg == 7) /* not the size the host knows */
        return host(273, (long)&head, 16, 0, 0, 0, 0) != -EINVAL;
    /* a host process that our kernel does not know of: it finds dead ones of its own by their lists */
    static volatile u32 *pid;
    pid = mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long r = host(56, 0x00100011, 0, (long)pid, 0, 0, 0);
    if (r == 0) {
        host(273, (long)list, 24, 0, 0, 0, 0);
        host(231, 0, 0, 0, 0, 0, 0);
    }
    for (int i = 0; i < 200; i++) { /* gone, and without a loop of the host's */
        if (host(234, r, r, 23, 0, 0, 0) == -ESRCH)
            return 0;
        usleep(5000);
    }
    return 1;
}

static int alt_stack(void *arg)
{
    const stack_t bad[] = { { .ss_sp = (void *)KERNEL_ADDRESS, .ss_size = 65536 }, { .ss_sp = (void *)0x800000000000, .ss_size = 65536 },
                            { .ss_sp = NULL, .ss_size = 1 }, { .ss_sp = (void *)K_BASE, .ss_size = ~0ul } };
    long i = (long)arg;
    host(131, i < 4 ? (long)&bad[i] : (long)KERNEL_ADDRESS, i == 4 ? (long)KERNEL_ADDRESS : 0, 0, 0, 0, 0);
    *(volatile char *)8 = 1; /* a signal that needs the stack: the host ends the process */
    return 1;
}

/* Threads and processes with stacks, ids and thread areas that are the host's. */
static int clone_pointers(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        long r = host(56, 0x00100011, 0, (long)KERNEL_ADDRESS + i * 4096, (long)KERNEL_ADDRESS, (long)KERNEL_ADDRESS, 0);
        if (r == 0)
            host(231, 0, 0, 0, 0, 0, 0);
    }
    host(231, 0, 0, 0, 0, 0, 0);
    return 1;
}

static int odd_addresses(void *arg)
{
    static const u64 at[] = { KERNEL_ADDRESS, 0x800000000000, 0xffffffffff600000, ~0ul - 4095, 0x7ffffffff000 };
    int bad = 0;
    (void)arg;
    for (unsigned i = 0; i < ARRAY_COUNT(at); i++) {
        bad += !failed(host(9, at[i], 8192, 3, 0x32, -1, 0)); /* the last page below the end: 8192 reaches behind it */
        bad += !failed(host(11, at[i], 8192, 0, 0, 0, 0));
        bad += !failed(host(10, at[i], 8192, 7, 0, 0, 0));
        bad += !failed(host(28, at[i], 8192, 23, 0, 0, 0));
        bad += !failed(host(25, 0x30000000, 4096, 4096, 3, at[i], 0));
        bad += !failed(host(25, at[i], 4096, 8192, 3, 0x30000000, 0));
        bad += host(228, 2, at[i], 0, 0, 0, 0) != -EFAULT && at[i] != 0x7ffffffff000;
    }
    return bad != 0;
}

/* What a granted descriptor has shown stays what it was when the slot gets another file; the slot itself never becomes writable. */
static int grant_replaced(void *arg)
{
    u32 m = mount_with(arg);
    if (ask_path(WIRE_OPEN, m, O_RDONLY, "marker") < 0)
        return 1;
    u32 first = slot->value;
    if (ask_path(WIRE_OPEN, m, O_RDONLY, "d/file") < 0)
        return 1;
    u32 second = slot->value;
    if (ask(WIRE_GRANT, m, first, 20, 0, 0, "", 0) < 0)
        return 1;
    volatile char *p = (char *)host(9, 0x30000000, 4096, 1, 0x12, 20, 0);
    char before = *p;
    for (int i = 0; i < 100; i++)
        if (ask(WIRE_GRANT, m, i & 1 ? first : second, 20, 0, 0, "", 0) < 0 || *p != before)
            return 1;
    ask(WIRE_CLOSE, m, first, 0, 0, 0, "", 0);
    ask(WIRE_CLOSE, m, second, 0, 0, 0, "", 0);
    return *p != before || ask(WIRE_GRANT, m, second, 20, 0, 0, "", 0) >= 0;
}

static void group_own(const char *marker)
{
    static long forbidden[] = { 2, 41, 59, 62, 257, 101, 425 };
    static u64 bases[] = { R_BASE, K_BASE, D_BASE, CARRIER_BASE };
    static const char *const names[] = { "over-r", "over-k", "over-d", "over-stacks" };
    pid_t pid[64];
    unsigned n = 0;
    run_case("image-replaced-allowed", image_replaced_allowed, NULL); /* ends by exit_group behind its kernel's back */
    for (; n < ARRAY_COUNT(forbidden); n++)
        pid[n] = start_case(image_replaced_forbidden, &forbidden[n]);
    for (unsigned i = 0; i < n; i++) {
        char name[48];
        sprintf(name, "image-replaced-call-%ld", forbidden[i]);
        end_case(name, pid[i]);
    }
    run_case("image-unmapped", image_unmapped, NULL);
    run_case("window-edge", window_edge, NULL);
    for (unsigned i = 0; i < ARRAY_COUNT(bases) - 1; i++)
        run_case(names[i], over_segment, &bases[i]);
    for (n = 0; n < 11; n++)
        pid[n] = start_case(forged_frame, (void *)(long)n);
    for (unsigned i = 0; i < n; i++) {
        int st = 0;
        waitpid(pid[i], &st, 0);
        printf("forged-frame-%u %s\n", i, WIFEXITED(st) && WEXITSTATUS(st) ? "BROKEN" : "refused");
    }
    run_case("masked-trap", masked_trap, NULL);
    for (n = 0; n < 8; n++)
        pid[n] = start_case(robust, (void *)(long)n);
    for (unsigned i = 0; i < n; i++) {
        char name[48];
        sprintf(name, "robust-list-%u", i);
        end_case(name, pid[i]);
    }
    for (n = 0; n < 5; n++)
        pid[n] = start_case(alt_stack, (void *)(long)n);
    for (unsigned i = 0; i < n; i++) {
        int st = 0;
        waitpid(pid[i], &st, 0);
        printf("alternate-stack-%u %s\n", i, WIFSIGNALED(st) ? "refused" : "BROKEN");
    }
    run_case("clone-pointers", clone_pointers, NULL);
    run_case("odd-addresses", odd_addresses, NULL);
    run_case("grant-replaced", grant_replaced, (void *)marker);
}

/* ---- single attacks that ruin their own sandbox ---- */

/* Signals to everybody: only the sandbox's own processes may be reached. Says how many of the given host pids were. */
static int signals(int argc, char **argv)
{
    int reached = 0;
    for (int i = 2; i < argc; i++) {
        long pid = atol(argv[i]);
        reached += pid > 400 && host(234, pid, pid, 23, 0, 0, 0) == 0;
    }
    static const long odd[] = { 0, -1, -2, 0x7fffffff, -0x80000000l };
    for (unsigned i = 0; i < ARRAY_COUNT(odd); i++)
        for (unsigned k = 0; k < ARRAY_COUNT(odd); k++)
            reached += host(234, odd[i], odd[k], 23, 0, 0, 0) == 0;
    printf("%d\n", reached);
    return 0;
}

static int punch(const char *what)
{
    u64 base = *what == 'K' ? K_BASE : *what == 'R' ? R_BASE : D_BASE, size = *what == 'K' ? K_SIZE : *what == 'R' ? R_SIZE : D_SIZE;
    printf("%s\n", what);
    fflush(stdout);
    for (int i = 0; i < 50; i++) {
        host(28, base, size, MADV_REMOVE, 0, 0, 0);
        bell(i);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    if (find_gadget() < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "numbers")) {
        numbers("all-numbers", 0, LAST_NUMBER);
        numbers("x32-numbers", X32, X32 + 547);
    } else if (!strcmp(what, "entries")) {
        group_entries();
    } else if (!strcmp(what, "own")) {
        group_own(arg);
    } else if (!strcmp(what, "signals")) {
        return signals(argc, argv);
    } else if (!strcmp(what, "punch")) {
        return punch(arg);
    } else {
        return 2;
    }
    return 0;
}
