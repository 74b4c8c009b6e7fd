/* Signals that arrive anywhere, also inside the trampolines of an exec view: what a handler sees must be the program's own code,
 * a backtrace must reach main(), restarts and jumps out of handlers must work; threads blocked in system calls can be
 * cancelled. Run natively and in a sandbox (tests/e2e/views.sh); prints only what must be equal.
 * Built with glibc dynamically, or with musl (-DNO_BACKTRACE). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#ifndef NO_BACKTRACE
#include <execinfo.h>
#endif
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { printf("FAILED line %d: %s (errno %d)\n", __LINE__, #x, errno); exit(1); } } while (0)

static struct { unsigned long from, to; } code[256];
static int codes;

static void read_maps(void)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    codes = 0;
    CHECK(f);
    while (fgets(line, sizeof(line), f) && codes < 256) {
        char perms[8];
        if (sscanf(line, "%lx-%lx %7s", &code[codes].from, &code[codes].to, perms) == 3 && perms[2] == 'x')
            codes++;
    }
    fclose(f);
}

static volatile unsigned long hits, foreign, short_traces, worst;
static volatile int traces;
static char main_start[1] __attribute__((section(".data")));
int main(int argc, char **argv);
static unsigned long main_end;

static void look(const ucontext_t *u)
{
    unsigned long ip = u->uc_mcontext.gregs[REG_RIP];
    int i;
    for (i = 0; i < codes && (ip < code[i].from || ip >= code[i].to); i++)
        ;
    if (i == codes) {
        foreign++;
        worst = ip;
    }
    hits++;
}

static void on_alarm(int s, siginfo_t *si, void *u)
{
    (void)s, (void)si;
    look(u);
#ifndef NO_BACKTRACE
    if (traces && hits % 16 == 0) {
        void *frames[64];
        int n = backtrace(frames, 64), i;
        for (i = 0; i < n && ((unsigned long)frames[i] < (unsigned long)main || (unsigned long)frames[i] >= main_end); i++)
            ;
        short_traces += i == n;
    }
#endif
}

static void timer(int us)
{
    struct itimerval v = {{0, us}, {0, us}};
    CHECK(!setitimer(ITIMER_REAL, &v, NULL));
}

static void handle(int sig, void (*f)(int, siginfo_t *, void *), int flags)
{
    struct sigaction a = {.sa_sigaction = f, .sa_flags = SA_SIGINFO | flags};
    CHECK(!sigaction(sig, &a, NULL));
}

/* Calls with known results at a high rate of signals. */
static void __attribute__((noinline)) storm(unsigned long count)
{
    int p[2], parent = getppid();
    char c, buf[64];
    CHECK(!pipe(p));
    hits = foreign = short_traces = 0;
    traces = 1;
    timer(100);
    for (unsigned n = 0; hits < count; n++) {
        c = (char)n;
        CHECK(syscall(SYS_getppid) == parent);
        CHECK(write(p[1], &c, 1) == 1);
        CHECK(read(p[0], buf, sizeof(buf)) == 1 && buf[0] == c);
        CHECK(getppid() == parent);
        CHECK(lseek(p[0], 0, SEEK_CUR) == -1 && errno == ESPIPE);
    }
    timer(0);
    traces = 0;
    if (foreign) printf("foreign %lu of %lu, last %lx\n", foreign, hits, worst);
    CHECK(foreign == 0);
    CHECK(short_traces == 0);
    close(p[0]);
    close(p[1]);
}

static volatile int rang;

static void on_ring(int s, siginfo_t *si, void *u)
{
    (void)s, (void)si, (void)u;
    rang = 1;
}

/* A signal for a program that makes no system calls: none may be lost, wherever it arrives. */
static void clocks(int count)
{
    struct timespec t;
    handle(SIGALRM, on_ring, 0);
    for (int i = 0; i < count; i++) {
        struct itimerval v = {{0, 0}, {0, 50 + i % 100}};
        rang = 0;
        CHECK(!setitimer(ITIMER_REAL, &v, NULL));
        while (!rang)
            clock_gettime(CLOCK_MONOTONIC, &t);
    }
}

/* Something of the program's own comes to lie where the trampolines are, while a thread waits in a call. */
static void *read_one(void *p)
{
    char c;
    return (void *)(long)(syscall(SYS_read, *(int *)p, &c, 1) == 1 && c == 'q');
}

static void overmap(void)
{
    unsigned long from, to, after = 0, size = 32768;
    char line[512];
    int p[2];
    pthread_t t;
    void *r, *m;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f && !pipe(p));
    CHECK(!pthread_create(&t, NULL, read_one, &p[0]));
    usleep(20000);
    unsigned long code = (unsigned long)&syscall, last = 0; /* the last mapping of the object that holds syscall() */
    while (fgets(line, sizeof(line), f)) {
        CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
        if (last && from == last && !strstr(line, "[heap]"))
            last = to;
        else if (last && !after)
            after = from;
        if (from <= code && code < to)
            last = to;
    }
    fclose(f);
    if (after && after - last < size)
        size = after - last;
    size &= -4096ul;
    if (size) {
        m = mmap((void *)last, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(m == (void *)last);
        memset(m, 0xf4, size);
    }
    CHECK(syscall(SYS_getppid) == getppid());
    CHECK(write(p[1], "q", 1) == 1);
    CHECK(!pthread_join(t, &r) && r);
    if (size)
        CHECK(!munmap((void *)last, size));
    CHECK(syscall(SYS_getppid) == getppid());
    handle(SIGALRM, on_alarm, SA_RESTART);
    storm(300);
}

static sigjmp_buf back;
static volatile int jumps, armed;

static void on_jump(int s, siginfo_t *si, void *u)
{
    (void)s, (void)si;
    look(u);
    if (armed) {
        armed = 0;
        jumps++;
        siglongjmp(back, 1);
    }
}

static void jumping(int count)
{
    int parent = getppid(), p[2];
    char c = 'x', d;
    CHECK(!pipe(p));
    handle(SIGALRM, on_jump, 0);
    hits = foreign = 0;
    timer(100);
    while (jumps < count)
        if (!sigsetjmp(back, 1)) {
            armed = 1;
            for (;;)
                CHECK(getppid() == parent && syscall(SYS_getppid) == parent);
        }
    armed = 0;
    timer(0);
    if (foreign) printf("foreign %lu of %lu, last %lx\n", foreign, hits, worst);
    CHECK(foreign == 0);
    CHECK(write(p[1], &c, 1) == 1 && read(p[0], &d, 1) == 1 && d == 'x');
    close(p[0]);
    close(p[1]);
}

static int wake_fd;
static volatile unsigned long at_call, behind_call;

static void on_usr(int s, siginfo_t *si, void *u)
{
    (void)s, (void)si;
    look(u);
    if (((ucontext_t *)u)->uc_mcontext.gregs[REG_RAX] == -EINTR)
        behind_call++;
    else if (((ucontext_t *)u)->uc_mcontext.gregs[REG_RAX] == SYS_read)
        at_call++;
    if (wake_fd >= 0)
        CHECK(write(wake_fd, "w", 1) == 1);
}

/* A blocked read that is restarted, and one that is not. The handler sees the call before, or behind it. */
static void restarts(void)
{
    int p[2];
    char c;
    CHECK(!pipe(p));
    hits = foreign = 0;
    for (int i = 0; i < 20; i++) {
        pid_t me = getpid(), child;
        handle(SIGUSR1, on_usr, i % 2 ? SA_RESTART : 0);
        wake_fd = i % 2 ? p[1] : -1;
        child = fork();
        if (!child) {
            usleep(3000);
            kill(me, SIGUSR1);
            _exit(0);
        }
        ssize_t n = read(p[0], &c, 1);
        if (i % 2)
            CHECK(n == 1 && c == 'w');
        else
            CHECK(n == -1 && errno == EINTR);
        while (waitpid(child, NULL, 0) < 0)
            CHECK(errno == EINTR);
    }
    CHECK(foreign == 0 && hits == 20);
    CHECK(at_call == 10 && behind_call == 10);
    close(p[0]);
    close(p[1]);
}

struct waiter { int fd, how; volatile int cleaned; };

static void clean(void *p) { ((struct waiter *)p)->cleaned = 1; }

static void *wait_in(void *p)
{
    struct waiter *w = p;
    char c;
    pthread_cleanup_push(clean, w);
    for (;;)
        switch (w->how) {
        case 0: read(w->fd, &c, 1); break;
        case 1: pause(); break;
        case 2: nanosleep(&(struct timespec){1000, 0}, NULL); break;
        case 3: recv(w->fd, &c, 1, 0); break;
        case 4: pthread_testcancel(); getppid(); break;
        case 5: { ssize_t r = read(w->fd, &c, 0); (void)r; break; } /* never blocks */
        }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancels(int count)
{
    int p[2], s[2];
    CHECK(!pipe(p) && !socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    for (int i = 0; i < count; i++) {
        struct waiter w = {.how = i % 6, .fd = i % 6 == 3 ? s[0] : p[0]};
        pthread_t t;
        void *r;
        CHECK(!pthread_create(&t, NULL, wait_in, &w));
        if (i % 3)
            usleep(i % 7 * 100);
        CHECK(!pthread_cancel(t));
        CHECK(!pthread_join(t, &r));
        CHECK(r == PTHREAD_CANCELED && w.cleaned);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv, (void)main_start;
    setvbuf(stdout, NULL, _IONBF, 0);
    main_end = (unsigned long)main + 4096; /* main is the last function, and not larger */
#ifndef NO_BACKTRACE
    void *warm[4];
    backtrace(warm, 4); /* loads the unwinder before the list of mappings is made */
#endif
    read_maps();
    handle(SIGALRM, on_alarm, SA_RESTART);
    storm(3000);
    puts("storm");
    jumping(2000);
    puts("jumping");
    clocks(500);
    puts("clocks");
    overmap();
    puts("overmap");
    restarts();
    puts("restarts");
    cancels(240);
    puts("cancels");
    return 0;
}
