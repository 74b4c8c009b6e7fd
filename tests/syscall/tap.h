/* Checks for tests/syscall: each file is a program that prints TAP. The runner (tests/syscall.sh) runs it natively and in a
 * sandbox; both must print the same lines, all of them `ok`. So a check's name says what is expected, never a value that
 * differs between the two (pids, addresses, times).
 *
 * A line is one write(2) to a duplicate of standard output, so that forked children may check too: their lines come in the order in
 * which the test makes them run. The plan is printed at the end; a count is shared by fork through a shared mapping. Details
 * of a failure go to the same stream as `# ` lines.
 *
 *     TAP_MAIN { ok(getpid() > 0, "getpid"); err(close(-1), EBADF, "close(-1)"); return done(); }
 *
 * The program starts in a new, empty directory (below $TAP_DIR or /tmp), removed by done(). */
#ifndef TESTS_SYSCALL_TAP_H
#define TESTS_SYSCALL_TAP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TAP_TIMEOUT
#define TAP_TIMEOUT 40 /* seconds */
#endif

static struct tap {
    int count, failed;
    pid_t main;
} *tap;
static int tap_fd = 1;
static char tap_scratch[256];

__attribute__((format(printf, 1, 2), unused)) static void note(const char *f, ...)
{
    char line[1024] = "# ";
    va_list ap;
    va_start(ap, f);
    int n = 2 + vsnprintf(line + 2, sizeof(line) - 3, f, ap);
    va_end(ap);
    n = n > (int)sizeof(line) - 2 ? (int)sizeof(line) - 2 : n;
    line[n++] = '\n';
    if (write(tap_fd, line, (size_t)n) < 0)
        _exit(99);
}

__attribute__((format(printf, 4, 5))) static bool tap_check(bool good, const char *file, int at, const char *f, ...)
{
    char name[512], line[600];
    va_list ap;
    va_start(ap, f);
    vsnprintf(name, sizeof(name), f, ap);
    va_end(ap);
    int nr = __atomic_add_fetch(&tap->count, 1, __ATOMIC_SEQ_CST);
    int n = snprintf(line, sizeof(line), "%s %d - %s\n", good ? "ok" : "not ok", nr, name);
    if (write(tap_fd, line, (size_t)n) < 0)
        _exit(99);
    if (!good) {
        __atomic_add_fetch(&tap->failed, 1, __ATOMIC_SEQ_CST);
        note("   at %s:%d", file, at);
    }
    return good;
}

/* ok(condition, "name", ...) */
#define ok(cond, ...) tap_check((cond), __FILE__, __LINE__, __VA_ARGS__)

/* is(what we got, what is expected, "name", ...): integers */
#define is(got, want, ...)                                                                                             \
    ({                                                                                                                 \
        errno = 0;                                                                                                     \
        long long tap_got = (long long)(got);                                                                          \
        int tap_errno = errno;                                                                                         \
        long long tap_want = (long long)(want);                                                                        \
        bool tap_good = tap_check(tap_got == tap_want, __FILE__, __LINE__, __VA_ARGS__);                               \
        if (!tap_good)                                                                                                 \
            note("   got %lld (0x%llx), expected %lld (0x%llx); errno %d", tap_got, tap_got, tap_want, tap_want,       \
                 tap_errno);                                                                                           \
        tap_good;                                                                                                      \
    })

/* err(call, EXXX, "name", ...): the call gives -1 and this errno */
#define err(call, want, ...)                                                                                           \
    ({                                                                                                                 \
        errno = 0;                                                                                                     \
        long long tap_got = (long long)(call);                                                                         \
        int tap_errno = errno;                                                                                         \
        bool tap_good = tap_check(tap_got == -1 && tap_errno == (want), __FILE__, __LINE__, __VA_ARGS__);              \
        if (!tap_good)                                                                                                 \
            note("   got %lld, errno %d (%s); expected errno %d", tap_got, tap_errno, strerror(tap_errno), (want));    \
        tap_good;                                                                                                      \
    })

/* does(call, "name", ...): the call gives no error (anything but -1) */
#define does(call, ...)                                                                                                \
    ({                                                                                                                 \
        errno = 0;                                                                                                     \
        long long tap_got = (long long)(call);                                                                         \
        int tap_errno = errno;                                                                                         \
        if (!tap_check(tap_got != -1, __FILE__, __LINE__, __VA_ARGS__))                                                \
            note("   errno %d (%s)", tap_errno, strerror(tap_errno));                                                  \
        tap_got;                                                                                                       \
    })

#define is_str(got, want, ...)                                                                                         \
    ({                                                                                                                 \
        const char *tap_s = (got), *tap_w = (want);                                                                    \
        if (!tap_check(!strcmp(tap_s, tap_w), __FILE__, __LINE__, __VA_ARGS__))                                        \
            note("   got \"%s\", expected \"%s\"", tap_s, tap_w);                                                      \
    })

/* Preparations that are no check of their own: their failure ends the program. */
#define must(call)                                                                                                     \
    ({                                                                                                                 \
        long long tap_r = (long long)(call);                                                                           \
        if (tap_r == -1) {                                                                                             \
            note("%s:%d: %s: %s", __FILE__, __LINE__, #call, strerror(errno));                                         \
            _exit(98);                                                                                                 \
        }                                                                                                              \
        tap_r;                                                                                                         \
    })

/* Runs the statements in a child process and gives its wait status. */
#define in_child(...)                                                                                                  \
    ({                                                                                                                 \
        pid_t tap_pid = fork();                                                                                        \
        if (!tap_pid) {                                                                                                \
            __VA_ARGS__;                                                                                               \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        int tap_status = -1;                                                                                           \
        while (waitpid(tap_pid, &tap_status, 0) < 0 && errno == EINTR)                                                 \
            ;                                                                                                          \
        tap_status;                                                                                                    \
    })

__attribute__((unused)) static int tap_remove(const char *p, const struct stat *st, int type, struct FTW *w)
{
    (void)st, (void)type, (void)w;
    return remove(p);
}

/* The watchdog is a child of its own, so that tests are free to use alarms and SIGALRM. */
static pid_t tap_watchdog(pid_t victim)
{
    int p[2];
    if (pipe(p))
        _exit(98);
    pid_t pid = fork();
    if (!pid) { /* a grandchild: not ours to wait for */
        if (fork())
            _exit(0);
        close(p[1]);
        for (int fd = 3; fd < 20; fd++)
            if (fd != p[0])
                close(fd);
        struct timeval tv = {TAP_TIMEOUT, 0};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(p[0], &set);
        setsid();
        if (select(p[0] + 1, &set, NULL, NULL, &tv) == 0) {
            static const char text[] = "# timeout\n";
            if (write(1, text, sizeof(text) - 1) < 0)
                _exit(1);
            kill(victim, SIGKILL);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    close(p[0]);
    fcntl(p[1], F_SETFD, FD_CLOEXEC);
    int high = fcntl(p[1], F_DUPFD_CLOEXEC, 250); /* out of the way of tests of descriptor numbers */
    if (high >= 0)
        close(p[1]);
    return pid;
}

static void tap_begin(void)
{
    tap = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tap == MAP_FAILED)
        _exit(98);
    tap->main = getpid();
    umask(022);
    signal(SIGPIPE, SIG_DFL);
    tap_watchdog(getpid());
    int high = fcntl(1, F_DUPFD_CLOEXEC, 251);
    if (high >= 0)
        tap_fd = high;
    const char *dir = getenv("TAP_DIR");
    snprintf(tap_scratch, sizeof(tap_scratch), "%s/tapXXXXXX", dir ? dir : "/tmp");
    if (!mkdtemp(tap_scratch) || chmod(tap_scratch, 0755) || chdir(tap_scratch)) {
        note("no scratch directory %s: %s", tap_scratch, strerror(errno));
        _exit(98);
    }
}

__attribute__((unused)) static int done(void)
{
    if (chdir("/") || nftw(tap_scratch, tap_remove, 16, FTW_DEPTH | FTW_PHYS))
        note("scratch directory is not removed: %s", strerror(errno));
    char line[64];
    int n = snprintf(line, sizeof(line), "1..%d\n", tap->count);
    if (write(tap_fd, line, (size_t)n) < 0)
        _exit(99);
    return tap->failed ? 1 : 0;
}

__attribute__((unused)) static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

__attribute__((unused)) static double now_s(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Programs that run themselves again by exec have a main() of their own, which calls tap_begin() when it is the test. */
#define TAP_MAIN                                                                                                       \
    static int tap_main(int argc, char **argv);                                                                        \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        tap_begin();                                                                                                   \
        return tap_main(argc, argv);                                                                                   \
    }                                                                                                                  \
    static int tap_main(int argc __attribute__((unused)), char **argv __attribute__((unused)))

#endif
