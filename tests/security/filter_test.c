/* The seccomp program of the host interface (src/host/hostabi.tbl), run by an interpreter of classic BPF.
 *
 * What each call may ask is stated here a second time, by hand and with plain numbers, so that a slip in the table or in
 * its generator shows. Every call number 0..600 is tried with a set of hostile argument values in every position, against
 * that statement; then numbers, entries and architectures that must die; then the edges by name. TAP output. */
#include <stdio.h>
#include <string.h>
#include "hostabi_filter.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define KILL SECCOMP_RET_KILL_PROCESS
#define ALLOW SECCOMP_RET_ALLOW
#define TRAP SECCOMP_RET_TRAP
#define INSIDE 0x7effd0001234ull
#define X86_64 0xc000003eu

static unsigned tests, failures;

static void check(int good, const char *what)
{
    tests++;
    if (!good)
        failures++;
    printf("%sok %u - %s\n", good ? "" : "not ", tests, what);
}

/* Runs the program; ~0 for an invalid one (the host would have refused it). */
static u32 run(const struct seccomp_data *d)
{
    u32 a = 0;
    for (size_t pc = 0; pc < COUNT(host_filter); pc++) {
        const struct sock_filter *i = &host_filter[pc];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k % 4 || i->k + 4 > sizeof(*d))
                return ~0u;
            memcpy(&a, (const char *)d + i->k, 4);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            return ~0u;
        }
    }
    return ~0u;
}

static u32 verdict(int nr, u64 ip, u32 arch, const u64 *args)
{
    struct seccomp_data d = {.nr = nr, .arch = arch, .instruction_pointer = ip};
    memcpy(d.args, args, sizeof(d.args));
    return run(&d);
}

static bool one_of(u64 v, const u64 *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (set[i] == v)
            return true;
    return false;
}

static bool mmap_allowed(const u64 *a)
{
    const u64 known = 0x1 | 0x2 | 0x10 | 0x20 | 0x4000;
    if (a[2] > 7 || (a[3] & ~known))
        return false;
    switch (a[3] & 3) {
    case 1:
        return !(a[3] & 0x20) && a[4] <= 2;
    case 2:
        return (a[3] & 0x20) || a[4] < 32;
    }
    return false;
}

/* The statement. */
static bool allowed(int nr, const u64 *a)
{
    static const u64 advices[] = {4, 8, 9, 14, 15, 18, 19, 22, 23};
    switch (nr) {
    case 9:
        return mmap_allowed(a);
    case 10: /* mprotect */
        return a[2] <= 7;
    case 25: /* mremap */
        return a[3] == 3;
    case 18: /* pwrite64: the page file */
        return a[0] == 31;
    case 28: /* madvise */
        return one_of(a[2], advices, COUNT(advices));
    case 56: /* clone: SIGCHLD | PARENT_SETTID; the words of a thread */
        return a[0] == 0x00100011 || a[0] == 0x00350f00;
    case 202: /* futex */
        return (a[1] == 9 || a[1] == 10) && ((a[0] >= 0x7effd8000000 && a[0] < 0x7f0000000000) ||
                                             (a[0] >= 0x7effd1000000 && a[0] < 0x7effd1400000));
    case 228: /* clock_gettime */
        return a[0] <= 4 || a[0] == 7;
    case 234: /* tgkill */
        return a[2] == 23;
    case 11: /* munmap */
    case 27: /* mincore */
    case 15: /* rt_sigreturn */
    case 24: /* sched_yield */
    case 60: /* exit */
    case 111: /* getpgrp */
    case 131: /* sigaltstack */
    case 219: /* restart_syscall */
    case 231: /* exit_group */
    case 273: /* set_robust_list */
        return true;
    }
    return false;
}

static const u64 values[] = {
    0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 17, 23, 31, 32, 0x20, 0x21, 0x22, 0x23, 0x32, 0x12, 0x11, 0x8002, 0x4021, 0x100002,
    0x102, 0x40022, 0x2022, 0x10022, 0x80, 0x89, 0x8a, 0x109, 0x00100011, 0x00350f00, 0x00358f00, 0x003d0f00, 0x10000011,
    0x80000000, 0xffffffff, 0x100000000, 0x100000001, 0x100000022, 0x100000009, 0x100100011, 0x7effd0000000,
    0x7effd0ffffff, 0x7effd1000000, 0x7effd13ffffc, 0x7effd1400000, 0x7effd7fffffc, 0x7effd8000000, 0x7efffffffffc,
    0x7f0000000000, 0x17effd8000000, 0xffffffffffffffff,
};

/* All argument words against the statement; two positions at a time take every pair of values, the rest three bases. */
static void check_number(int nr, unsigned *cases, unsigned *wrong)
{
    static const u64 bases[][6] = {
        {0}, {0x7effd8000000, 9, 3, 0x22, ~0ull, 0}, {0x7effd1000000, 10, 1, 1, 2, 0}, {0, 4096, 23, 2, 31, 0}};
    u64 none[6] = {0};
    bool listed = verdict(nr, INSIDE, X86_64, none) == ALLOW || one_of((u64)nr, (const u64[]){9, 28, 56, 202, 234}, 5);
    size_t step = listed ? 1 : 9; /* a number that is in no rule needs no thorough search */
    for (size_t b = 0; b < COUNT(bases); b++)
        for (int p = 0; p < 6; p++)
            for (int q = p + 1; q < 6; q++)
                for (size_t i = 0; i < COUNT(values); i++)
                    for (size_t j = 0; j < COUNT(values); j += step) {
                        u64 a[6];
                        memcpy(a, bases[b], sizeof(a));
                        a[p] = values[i];
                        a[q] = values[j];
                        (*cases)++;
                        if (verdict(nr, INSIDE, X86_64, a) == (allowed(nr, a) ? ALLOW : KILL))
                            continue;
                        if ((*wrong)++ < 10)
                            printf("# call %d(%#llx, %#llx, %#llx, %#llx, %#llx): %#x\n", nr, (long long)a[0],
                                   (long long)a[1], (long long)a[2], (long long)a[3], (long long)a[4],
                                   verdict(nr, INSIDE, X86_64, a));
                    }
}

static void check_all_numbers(void)
{
    unsigned cases = 0, wrong = 0;
    for (int nr = 0; nr <= 600; nr++)
        check_number(nr, &cases, &wrong);
    printf("# %u cases\n", cases);
    check(!wrong && cases > 1000000, "every number 0..600 has the verdict of the statement");
}

static void check_entries(void)
{
    static const u64 any[6] = {0};
    unsigned wrong = 0;
    for (int nr = 0; nr <= 600; nr++) {
        wrong += verdict(nr | 0x40000000, INSIDE, X86_64, any) != KILL; /* x32 */
        wrong += verdict(nr, INSIDE, 0x40000003, any) != KILL;          /* i386, int 0x80 */
        wrong += verdict(nr, 0, 0x40000003, any) != KILL;               /* i386, from anywhere */
        wrong += verdict(nr, INSIDE, 0xc00000b7, any) != KILL;          /* another architecture */
    }
    check(!wrong, "x32, 32-bit and foreign entries die for every number");
    wrong = 0;
    static const u64 outside[] = {0, 0x400000, 0x7effcfffffff, 0x7effd1000000, 0x7effffffffff, 0xd0000000,
                                  0x7f00d0000000, 0x7ffff7fc1000, 0xffffffffff600000};
    for (int nr = 0; nr <= 600; nr++)
        for (size_t i = 0; i < COUNT(outside); i++)
            wrong += verdict(nr, outside[i], X86_64, any) != TRAP;
    check(!wrong, "every number from outside the image traps");
    check(verdict(-1, INSIDE, X86_64, any) == KILL && verdict(1 << 30, INSIDE, X86_64, any) == KILL, "-1 and 2^30 die");
    check(verdict(24, 0x7effd0000000, X86_64, any) == ALLOW && verdict(24, 0x7effd0ffffff, X86_64, any) == ALLOW,
          "first and last byte of the image are inside");
}

struct named_case {
    const char *what;
    int nr;
    u64 args[6];
    u32 want;
};

static const struct named_case named[] = {
    {"anonymous private memory", 9, {0, 4096, 3, 0x22, ~0ull, 0}, ALLOW},
    {"fixed memory without reserve", 9, {0x10000, 4096, 3, 0x4032, ~0ull, 0}, ALLOW},
    {"memory populated at once", 9, {0x10000, 4096, 3, 0x8032, ~0ull, 0}, KILL},
    {"stack memory", 9, {0x10000, 4096, 3, 0x20032, ~0ull, 0}, KILL},
    {"a mapping that must replace nothing", 9, {0x10000, 4096, 3, 0x100022, ~0ull, 0}, KILL},
    {"mremap in place", 25, {0, 4096, 4096, 0}, KILL},
    {"mremap to anywhere", 25, {0, 4096, 4096, 1}, KILL},
    {"CLOCK_REALTIME", 228, {0}, ALLOW},
    {"CLOCK_REALTIME_COARSE", 228, {5}, KILL},
    {"CLOCK_BOOTTIME_ALARM", 228, {9}, KILL},
    {"our own cpu clock", 228, {2}, ALLOW},
    {"an image, private", 9, {0, 4096, 5, 0x2, 3, 0}, ALLOW},
    {"K shared", 9, {0, 4096, 3, 0x11, 0, 0}, ALLOW},
    {"an image shared", 9, {0, 4096, 3, 0x1, 3, 0}, KILL},
    {"a grant slot shared", 9, {0, 4096, 3, 0x1, 8, 0}, KILL},
    {"shared anonymous", 9, {0, 4096, 3, 0x21, 0, 0}, KILL},
    {"shared-validate", 9, {0, 4096, 3, 0x3, 0, 0}, KILL},
    {"huge pages of the host", 9, {0, 4096, 3, 0x40022, 0, 0}, KILL},
    {"locked memory", 9, {0, 4096, 3, 0x2022, 0, 0}, KILL},
    {"flags above 32 bits", 9, {0, 4096, 3, 0x100000022, 0, 0}, KILL},
    {"descriptor beyond the slots", 9, {0, 4096, 3, 0x2, 32, 0}, KILL},
    {"descriptor with a high half", 9, {0, 4096, 3, 0x1, 0x100000000, 0}, KILL},
    {"PROT_SEM", 10, {0, 4096, 8}, KILL},
    {"PROT_GROWSDOWN", 10, {0, 4096, 0x01000003}, KILL},
    {"MREMAP_DONTUNMAP", 25, {0, 4096, 4096, 5}, KILL},
    {"MADV_PAGEOUT", 28, {0, 4096, 21}, KILL},
    {"MADV_COLD", 28, {0, 4096, 20}, KILL},
    {"MADV_MERGEABLE", 28, {0, 4096, 12}, KILL},
    {"MADV_HWPOISON", 28, {0, 4096, 100}, KILL},
    {"a process", 56, {0x00100011}, ALLOW},
    {"a thread", 56, {0x00350f00}, ALLOW},
    {"a process with CLONE_PARENT", 56, {0x00108011}, KILL},
    {"a process with a user namespace", 56, {0x10100011}, KILL},
    {"plain fork flags", 56, {0x11}, KILL},
    {"clone3", 435, {0}, KILL},
    {"futex on guest memory", 202, {0x7effc0001000, 9, 0}, KILL},
    {"private futex form", 202, {0x7effd8001000, 0x89, 0}, KILL},
    {"PI futex", 202, {0x7effd8001000, 6, 0}, KILL},
    {"requeue", 202, {0x7effd8001000, 4, 0}, KILL},
    {"SIGKILL", 234, {1, 1, 9}, KILL},
    {"SIGURG", 234, {1, 1, 23}, ALLOW},
    {"kill", 62, {1, 23}, KILL},
    {"a cpu clock of another process", 228, {0xfffffffa}, KILL},
    {"sign-extended clock id", 228, {0xfffffffffffffffa}, KILL},
    {"open", 2, {0}, KILL},
    {"openat", 257, {0}, KILL},
    {"execve", 59, {0}, KILL},
    {"socket", 41, {0}, KILL},
    {"ptrace", 101, {0}, KILL},
    {"seccomp", 317, {0}, KILL},
    {"io_uring_setup", 425, {0}, KILL},
    {"read", 0, {0}, KILL},
    {"write", 1, {2}, KILL},
    {"rt_sigaction", 13, {0}, KILL},
    {"prctl", 157, {0}, KILL},
    {"uretprobe (the host handles it before any filter; ours kills)", 335, {0}, KILL},
};

int main(void)
{
    printf("1..%zu\n", 6 + COUNT(named));
    check(COUNT(host_filter) <= BPF_MAXINSNS, "the program has a length the host accepts");
    check_all_numbers();
    check_entries();
    for (size_t i = 0; i < COUNT(named); i++)
        check(verdict(named[i].nr, INSIDE, X86_64, named[i].args) == named[i].want, named[i].what);
    printf("# %u tests, %u failed\n", tests, failures);
    return failures != 0;
}
