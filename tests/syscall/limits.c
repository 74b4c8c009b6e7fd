/* Resource limits and what happens at them. */
#include "tap.h"
#include <sys/resource.h>

static volatile int sig;
static void on(int s) { sig = s; }
static int lim(int r, rlim_t soft, rlim_t hard) { return setrlimit(r, &(struct rlimit){soft, hard}); }

TAP_MAIN
{
    struct rlimit r;
    for (int i = 0; i < 16; i++)
        is(getrlimit(i, &r), 0, "getrlimit %d", i);
    err(getrlimit(99, &r), EINVAL, "getrlimit: unknown");
    err(setrlimit(99, &r), EINVAL, "setrlimit: unknown");
    err(getrlimit(RLIMIT_CPU, (void *)8), EFAULT, "getrlimit: bad pointer");
    err(lim(RLIMIT_CORE, 10, 5), EINVAL, "soft above hard");
    is(WEXITSTATUS(in_child(lim(RLIMIT_CORE, 5, 10); getrlimit(RLIMIT_CORE, &r); _exit(r.rlim_cur == 5 && r.rlim_max == 10 ? 0 : 1))), 0, "reads back");
    is(WEXITSTATUS(in_child(lim(RLIMIT_CORE, 5, 10); _exit(WEXITSTATUS(in_child(getrlimit(RLIMIT_CORE, &r); _exit(r.rlim_cur == 5 ? 0 : 1)))))), 0, "inherited by fork");
    is(WEXITSTATUS(in_child(lim(RLIMIT_NOFILE, 55, 60); execl("/bin/sh", "sh", "-c", "exit $(ulimit -n)", NULL))), 55, "inherited by exec");
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(lim(RLIMIT_CORE, 5, 10); setuid(65534); _exit(lim(RLIMIT_CORE, 5, 11) ? errno : 0))), EPERM, "raising the hard limit needs a right");
    is(WEXITSTATUS(in_child(lim(RLIMIT_CORE, 5, 10); _exit(lim(RLIMIT_CORE, 10, 10) ? errno : 0))), 0, "the soft one can be raised to the hard one");
    is(prlimit(0, RLIMIT_CORE, NULL, &r), 0, "prlimit: get");
    is(prlimit(getpid(), RLIMIT_CORE, &r, NULL), 0, "prlimit: set");
    err(prlimit(4000000, RLIMIT_CORE, NULL, &r), ESRCH, "prlimit: nobody");
    pid_t c = fork();
    if (!c) {
        pause();
        _exit(0);
    }
    struct rlimit n = {7, 7}, o = {0, 0};
    is(prlimit(c, RLIMIT_NOFILE, &n, NULL), 0, "prlimit: of a child");
    prlimit(c, RLIMIT_NOFILE, NULL, &o);
    is(o.rlim_cur, 7, "prlimit: of a child: reads back");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    /* file size */
    int fd = must(open("f", O_CREAT | O_RDWR, 0600));
    char b[200] = {0};
    is(in_child(lim(RLIMIT_FSIZE, 100, 100); write(fd, b, 100); write(fd, b, 1); _exit(0)) & 0x7f, SIGXFSZ, "RLIMIT_FSIZE: SIGXFSZ");
    ftruncate(fd, 0);
    signal(SIGXFSZ, on);
    int st = in_child(lim(RLIMIT_FSIZE, 100, 100); lseek(fd, 0, SEEK_SET); long w = write(fd, b, 200); if (w != 100) _exit(1);
                      if (write(fd, b, 1) != -1 || errno != EFBIG || sig != SIGXFSZ) _exit(2); sig = 0;
                      if (ftruncate(fd, 101) != -1 || errno != EFBIG || sig != SIGXFSZ) _exit(3);
                      if (pwrite(fd, b, 1, 100) != -1 || errno != EFBIG) _exit(4); if (pwrite(fd, b, 1, 99) != 1) _exit(5); _exit(0));
    is(st, 0, "RLIMIT_FSIZE: a write is cut, then EFBIG; ftruncate too");
    is(in_child(signal(SIGXFSZ, SIG_IGN); lim(RLIMIT_FSIZE, 100, 100); _exit(fallocate(fd, 0, 0, 1000) == -1 ? errno : 0)), EFBIG << 8, "RLIMIT_FSIZE: fallocate");
    int p[2];
    must(pipe(p));
    is(in_child(lim(RLIMIT_FSIZE, 0, 0); _exit(write(p[1], b, 50) != 50)), 0, "RLIMIT_FSIZE: not for pipes");
    /* processes */
    if (getuid() == 0) {
        st = in_child(lim(RLIMIT_NPROC, 3, 3); setgid(54321); setuid(54321); int k = 0; pid_t x; while (k < 10 && (x = fork()) > 0) k++; if (x == 0) { sleep_ms(300); _exit(0); }
                      int e = errno; while (wait(NULL) > 0); _exit(x < 0 && e == EAGAIN && k <= 3 ? 0 : 1));
        is(st, 0, "RLIMIT_NPROC: EAGAIN");
    }
    /* signals */
    st = in_child(lim(RLIMIT_SIGPENDING, 3, 3); sigset_t s; sigemptyset(&s); sigaddset(&s, SIGRTMIN); sigprocmask(SIG_BLOCK, &s, NULL);
                  int k = 0; while (k < 20 && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0) k++; _exit(errno == EAGAIN && k <= 3 ? 0 : 1));
    is(st, 0, "RLIMIT_SIGPENDING: EAGAIN");
    /* stack */
    st = in_child(lim(RLIMIT_STACK, 256 << 10, RLIM_INFINITY); execl("/bin/sh", "sh", "-c", "exit $(ulimit -s | sed 's/256/7/')", NULL));
    is(WEXITSTATUS(st), 7, "RLIMIT_STACK over exec");
    is(in_child(lim(RLIMIT_CORE, 0, 0); abort()), SIGABRT, "RLIMIT_CORE 0: no core flag");
    return done();
}
