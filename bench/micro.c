/* Micro-benchmarks of system calls, run natively and in sandboxes by bench/run.
 *
 *     micro                    prints `name<TAB>nanoseconds` a row: the best of ROUNDS rounds, each a loop of `count`
 *     micro ROW...             only these
 *     micro -time N CMD...     median time of N runs of a program by posix_spawn, as row `time`
 *
 * MICRO_FILE names the file that stat, open and read use, MICRO_DIR a writable directory (a tmpfs in sandboxes),
 * MICRO_TRUE a dynamic program to spawn, MICRO_STATIC_TRUE a static one. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5

extern char **environ;
static const char *file = "/usr/lib/os-release", *dir = "/tmp", *dynamic_true = "/bin/true", *static_true;
static char buf[4096];
static int tmp_fd, pipe_fd[2], ping[2], pong[2], ponger;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void check(int ok, const char *what)
{
    if (!ok)
        err(1, "%s", what);
}

static void do_getppid(void) { syscall(SYS_getppid); }

static void do_stat(void)
{
    struct stat st;
    check(stat(file, &st) == 0, file);
}

static void do_open(void) { check(close(open(file, O_RDONLY)) == 0, file); }

static void do_open_read(void)
{
    int fd = open(file, O_RDONLY);
    check(read(fd, buf, sizeof(buf)) > 0, file);
    close(fd);
}

static void tmp_setup(void)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s/micro.XXXXXX", dir);
    check((tmp_fd = mkstemp(name)) >= 0, name);
    unlink(name);
    for (int i = 0; i < 16; i++)
        check(write(tmp_fd, buf, sizeof(buf)) == sizeof(buf), "write");
}

static void do_pread(void) { check(pread(tmp_fd, buf, sizeof(buf), 8192) == sizeof(buf), "pread"); }
static void do_pwrite(void) { check(pwrite(tmp_fd, buf, sizeof(buf), 8192) == sizeof(buf), "pwrite"); }

static void pipe_setup(void) { check(pipe(pipe_fd) == 0, "pipe"); }

static void do_pipe(void)
{
    check(write(pipe_fd[1], buf, 1) == 1, "write");
    check(read(pipe_fd[0], buf, 1) == 1, "read");
}

static void pingpong_setup(void)
{
    check(pipe(ping) == 0 && pipe(pong) == 0, "pipe");
    ponger = fork();
    check(ponger >= 0, "fork");
    while (ponger == 0) {
        if (read(ping[0], buf, 1) != 1)
            _exit(0);
        check(write(pong[1], buf, 1) == 1, "write");
    }
}

static void do_pingpong(void)
{
    check(write(ping[1], buf, 1) == 1, "write");
    check(read(pong[0], buf, 1) == 1, "read");
}

static void pingpong_end(void)
{
    kill(ponger, SIGKILL);
    waitpid(ponger, NULL, 0);
}

static int turn;

static void hand_to(int from, int to)
{
    while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != from)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, to, NULL, NULL, 0);
    __atomic_store_n(&turn, to, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *other_thread(void *unused)
{
    for (;;)
        hand_to(1, 0);
    return unused;
}

static void futex_setup(void)
{
    pthread_t t;
    check(pthread_create(&t, NULL, other_thread, NULL) == 0, "pthread_create");
}

static void do_futex(void) { hand_to(0, 1); }

static void do_mmap(void)
{
    char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "mmap");
    *p = 1;
    check(munmap(p, 65536) == 0, "munmap");
}

static void do_faults(void)
{
    static char *p;
    if (!p) {
        p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(p != MAP_FAILED, "mmap");
        madvise(p, 1 << 20, MADV_NOHUGEPAGE);
    }
    for (int i = 0; i < 256; i++)
        p[i * 4096] = 1;
    check(madvise(p, 1 << 20, MADV_DONTNEED) == 0, "madvise");
}

static void do_fork(void)
{
    int pid = fork();
    if (pid == 0)
        _exit(0);
    check(pid > 0 && waitpid(pid, NULL, 0) == pid, "fork");
}

static void spawn(char *const argv[])
{
    pid_t pid;
    int status;
    check(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid, argv[0]);
    if (status != 0)
        errx(1, "%s: wait status %d", argv[0], status);
}

static void do_spawn_static(void) { spawn((char *[]){(char *)static_true, NULL}); }
static void do_spawn_dynamic(void) { spawn((char *[]){(char *)dynamic_true, NULL}); }

static const struct row {
    const char *name;
    int count;
    void (*run)(void), (*setup)(void), (*end)(void);
} rows[] = {
    {"getppid", 100000, do_getppid, 0, 0},
    {"stat", 50000, do_stat, 0, 0},
    {"open+close", 30000, do_open, 0, 0},
    {"open+read+close", 30000, do_open_read, 0, 0},
    {"pread 4K tmpfs", 50000, do_pread, tmp_setup, 0},
    {"pwrite 4K tmpfs", 50000, do_pwrite, 0, 0},
    {"pipe write+read", 50000, do_pipe, pipe_setup, 0},
    {"pipe ping-pong", 5000, do_pingpong, pingpong_setup, pingpong_end},
    {"mmap+touch+munmap", 5000, do_mmap, 0, 0},
    {"1 MB of faults", 100, do_faults, 0, 0},
    {"fork+exit+wait", 200, do_fork, 0, 0},
    {"spawn static true", 100, do_spawn_static, 0, 0},
    {"spawn dynamic true", 60, do_spawn_dynamic, 0, 0},
    {"futex hand-off", 10000, do_futex, futex_setup, 0},
};

static void measure(const struct row *r)
{
    double best = 0;
    if (r->run == do_spawn_static && !static_true)
        return;
    if (r->setup)
        r->setup();
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < r->count; i++)
            r->run();
        double t = (now() - start) / r->count;
        if (round == 0 || t < best)
            best = t;
    }
    if (r->end)
        r->end();
    printf("%s\t%.0f\n", r->name, best);
    fflush(stdout);
}

static int by_value(const void *a, const void *b) { return *(double *)a < *(double *)b ? -1 : 1; }

static void time_command(int n, char **argv)
{
    double *t = calloc(n, sizeof(*t));
    for (int i = 0; i < n; i++) {
        double start = now();
        spawn(argv);
        t[i] = now() - start;
    }
    qsort(t, n, sizeof(*t), by_value);
    printf("time\t%.0f\n", t[n / 2]);
    free(t);
}

int main(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "-time")) {
        time_command(atoi(argv[2]), argv + 3);
        return 0;
    }
    if (getenv("MICRO_FILE"))
        file = getenv("MICRO_FILE");
    if (getenv("MICRO_DIR"))
        dir = getenv("MICRO_DIR");
    if (getenv("MICRO_TRUE"))
        dynamic_true = getenv("MICRO_TRUE");
    static_true = getenv("MICRO_STATIC_TRUE");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            wanted |= !strcmp(argv[k], rows[i].name);
        if (wanted || (rows[i].setup && rows[i].setup == tmp_setup))
            wanted ? measure(&rows[i]) : tmp_setup();
    }
    return 0;
}
