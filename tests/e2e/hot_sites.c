/* A static program whose system-call sites the guest kernel patches while it runs (kernel/mm/hot.c). Prints one line a check; the
 * first argument says whether patching is expected. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern unsigned char site5[], site7[], site_prefixed[], site_end[];
__asm__(".globl site5, site7, site_prefixed, site_end\n"
        "call5: site5: mov $110,%eax; syscall; ret\n"
        ".byte 0x90\n"
        "call7: site7: .byte 0x48,0xc7,0xc0,110,0,0,0; syscall; ret\n"
        "call_prefixed: mov $110,%eax; site_prefixed: .byte 0x41,0xb8,110,0,0,0; syscall; ret\n" /* mov $110,%r8d */
        "site_end:\n");
long call5(void), call7(void);
static long call_prefixed(void)
{
    long r;
    __asm__ volatile("call call_prefixed" : "=a"(r)::"rcx", "r8", "r11", "memory");
    return r;
}

static int failed;
static void check(const char *what, int ok)
{
    printf("%s - %s\n", ok ? "ok" : "not ok", what);
    failed |= !ok;
}

static volatile int handled, strange;
static void handler(int sig, siginfo_t *si, void *context)
{
    uintptr_t ip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    extern char __executable_start[], etext[];
    (void)sig, (void)si;
    handled++;
    if ((ip < (uintptr_t)__executable_start || ip >= (uintptr_t)etext) && ip < 0x700000000000) /* above: the vDSO */
        strange++;
}

static void *thread(void *parent)
{
    long wrong = 0;
    for (int i = 0; i < 1000; i++)
        wrong += call5() != (long)parent || call7() != (long)parent;
    return (void *)wrong;
}

static int same(int n, long parent)
{
    while (n-- > 0)
        if (call5() != parent || call7() != parent || call_prefixed() != parent)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int expected = argc > 1 && !strcmp(argv[1], "patched");
    long parent = getppid();
    check("right results", same(100, parent));
    check("mov to eax", (site5[0] == 0xe9) == expected);
    check("mov to rax", (site7[0] == 0xe9) == expected);
    check("an instruction with a prefix stays", site_prefixed[0] == 0x41 && site_prefixed[1] == 0xb8);

    int status, pid = fork();
    if (pid == 0)
        _exit(same(100, getppid()) ? 0 : 1);
    check("in a child", waitpid(pid, &status, 0) == pid && status == 0);

    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 500 && same(100, parent))
        ;
    setitimer(ITIMER_REAL, &never, NULL);
    check("right results under signals", handled >= 500);
    check("handlers see addresses of the program", !strange);

    pthread_t t[4];
    void *wrong, *sum = NULL;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, thread, (void *)parent);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &wrong);
        sum = (void *)((long)sum + (long)wrong);
    }
    check("in threads", !sum);

    /* where the trampolines may be: over all of the first 2 GB that is free */
    char line[512];
    uintptr_t from = 0x10000, start, end;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "%lx-%lx", &start, &end) == 2) {
        uintptr_t to = start < 0x80000000 ? start : 0x80000000;
        if (to > from)
            mmap((void *)from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        from = end;
    }
    check("right results after memory was mapped over all gaps", same(100, parent));
    return failed;
}
