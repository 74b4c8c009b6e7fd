/* dup, dup2, dup3, fcntl, close, close_range, limits of descriptors, ioctl FIOCLEX and FIONBIO. */
#include "tap.h"
#include <linux/close_range.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <pthread.h>

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
static int flags(int fd) { return fcntl(fd, F_GETFD); }
static int range(unsigned a, unsigned b, unsigned f) { return (int)syscall(SYS_close_range, a, b, f); }

TAP_MAIN
{
    int fd = must(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600)), d;
    d = dup(fd);
    ok(d > fd && flags(d) == 0, "dup: without close-on-exec");
    is(write(d, "abc", 3), 3, "dup: one file");
    is(lseek(fd, 0, SEEK_CUR), 3, "dup: one position");
    fcntl(d, F_SETFL, O_APPEND);
    ok(fcntl(fd, F_GETFL) & O_APPEND, "dup: status flags are shared");
    close(d);
    err(close(d), EBADF, "close: twice");
    err(dup(999), EBADF, "dup: bad descriptor");
    is(dup(fd), d, "dup: the lowest free one");
    is(dup2(fd, 100), 100, "dup2");
    is(flags(100), 0, "dup2: without close-on-exec");
    is(dup2(fd, fd), fd, "dup2: the same");
    is(flags(fd), FD_CLOEXEC, "dup2: the same leaves its flag");
    err(dup2(999, 5), EBADF, "dup2: bad old");
    err(dup2(fd, -1), EBADF, "dup2: bad new");
    err(dup2(fd, 1 << 30), EBADF, "dup2: too big");
    err(dup2(999, 999), EBADF, "dup2: bad and the same");
    is(dup3(fd, 101, O_CLOEXEC), 101, "dup3");
    is(flags(101), FD_CLOEXEC, "dup3: O_CLOEXEC");
    err(dup3(fd, fd, 0), EINVAL, "dup3: the same");
    err(dup3(fd, 102, O_NONBLOCK), EINVAL, "dup3: flags");
    is(fcntl(fd, F_DUPFD, 50), 50, "F_DUPFD");
    is(fcntl(fd, F_DUPFD, 50), 51, "F_DUPFD: the next");
    is(fcntl(fd, F_DUPFD_CLOEXEC, 50), 52, "F_DUPFD_CLOEXEC");
    ok(flags(51) == 0 && flags(52) == FD_CLOEXEC, "F_DUPFD: flags");
    err(fcntl(fd, F_DUPFD, -1), EINVAL, "F_DUPFD: negative");
    err(fcntl(fd, F_DUPFD, 1 << 30), EINVAL, "F_DUPFD: too big");
    err(fcntl(999, F_GETFD), EBADF, "fcntl: bad descriptor");
    err(fcntl(fd, 9999), EINVAL, "fcntl: bad command");
    is(fcntl(fd, F_SETFD, 0), 0, "F_SETFD");
    is(flags(fd), 0, "F_SETFD: off");
    is(ioctl(fd, FIOCLEX), 0, "FIOCLEX");
    is(flags(fd), FD_CLOEXEC, "FIOCLEX: on");
    is(ioctl(fd, FIONCLEX), 0, "FIONCLEX");
    is(flags(fd), 0, "FIONCLEX: off");
    int one = 1, zero = 0;
    is(ioctl(fd, FIONBIO, &one), 0, "FIONBIO");
    ok(fcntl(fd, F_GETFL) & O_NONBLOCK, "FIONBIO: on");
    ioctl(fd, FIONBIO, &zero);
    ok(!(fcntl(fd, F_GETFL) & O_NONBLOCK), "FIONBIO: off");
    err(ioctl(fd, TIOCGWINSZ, &one), ENOTTY, "ioctl: not a terminal");
    err(ioctl(999, FIONBIO, &one), EBADF, "ioctl: bad descriptor");
    err(ioctl(fd, 0x12345678, 0), ENOTTY, "ioctl: unknown");
    lseek(fd, 0, SEEK_SET);
    ioctl(fd, FIONREAD, &one);
    is(one, 3, "FIONREAD of a file");
    /* close_range */
    for (int i = 60; i < 70; i++)
        dup2(fd, i);
    is(range(62, 64, 0), 0, "close_range");
    ok(is_open(61) && !is_open(62) && !is_open(63) && !is_open(64) && is_open(65), "close_range: only these");
    is(range(66, 67, CLOSE_RANGE_CLOEXEC), 0, "CLOSE_RANGE_CLOEXEC");
    ok(flags(65) == 0 && flags(66) == FD_CLOEXEC && flags(67) == FD_CLOEXEC && flags(68) == 0, "CLOSE_RANGE_CLOEXEC: flags");
    err(range(5, 4, 0), EINVAL, "close_range: backwards");
    err(range(5, 6, 99), EINVAL, "close_range: flags");
    is(WEXITSTATUS(in_child(range(60, ~0u, 0); _exit(is_open(60) || is_open(69) || is_open(101) || !is_open(fd)))), 0, "close_range: to the end");
    int st = in_child(pid_t c = (pid_t)syscall(SYS_clone, 0x400 /* CLONE_FILES */ | SIGCHLD, 0, 0, 0, 0);
                      if (!c) _exit(range(60, 69, CLOSE_RANGE_UNSHARE) || is_open(60)); int s; waitpid(c, &s, 0);
                      _exit(s == 0 && is_open(60) ? 0 : 1));
    is(st, 0, "CLOSE_RANGE_UNSHARE");
    /* limits */
    struct rlimit r, old;
    getrlimit(RLIMIT_NOFILE, &old);
    st = in_child(r = (struct rlimit){110, 110}; setrlimit(RLIMIT_NOFILE, &r); int n = 0, e; while ((e = dup(fd)) >= 0) n = e;
                  _exit(errno == EMFILE && n == 109 ? 0 : 1));
    is(st, 0, "RLIMIT_NOFILE: EMFILE");
    is(WEXITSTATUS(in_child(r = (struct rlimit){110, 110}; setrlimit(RLIMIT_NOFILE, &r); _exit(dup2(fd, 110) < 0 ? errno : 0))), EBADF, "RLIMIT_NOFILE: dup2");
    is(WEXITSTATUS(in_child(r = (struct rlimit){110, 110}; setrlimit(RLIMIT_NOFILE, &r); _exit(fcntl(fd, F_DUPFD, 110) < 0 ? errno : 0))), EINVAL, "RLIMIT_NOFILE: F_DUPFD");
    is(WEXITSTATUS(in_child(r = (struct rlimit){10, 110}; setrlimit(RLIMIT_NOFILE, &r); _exit(is_open(60) && read(60, &st, 0) == 0 ? 0 : 1))), 0, "RLIMIT_NOFILE: open ones stay");
    is(WEXITSTATUS(in_child(r = (struct rlimit){3, 110}; setrlimit(RLIMIT_NOFILE, &r); int p[2]; _exit(pipe(p) < 0 ? errno : 0))), EMFILE, "RLIMIT_NOFILE: pipe");
    is(WEXITSTATUS(in_child(r = (struct rlimit){3, 110}; setrlimit(RLIMIT_NOFILE, &r); _exit(socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0))), EMFILE, "RLIMIT_NOFILE: socket");
    is(WEXITSTATUS(in_child(r = (struct rlimit){3, 110}; setrlimit(RLIMIT_NOFILE, &r); _exit(open("f", O_RDONLY) < 0 ? errno : 0))), EMFILE, "RLIMIT_NOFILE: open");
    is(WEXITSTATUS(in_child(r = (struct rlimit){500, 500}; setrlimit(RLIMIT_NOFILE, &r); int n = 0; while (dup(fd) >= 0) n++; _exit(n > 300 ? 0 : 1))), 0, "hundreds of descriptors");
    /* owner and signal */
    int p[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    is(fcntl(p[0], F_GETOWN), 0, "F_GETOWN: nobody");
    is(fcntl(p[0], F_SETOWN, getpid()), 0, "F_SETOWN");
    is(fcntl(p[0], F_GETOWN), getpid(), "F_GETOWN");
    is(fcntl(p[0], F_GETSIG), 0, "F_GETSIG");
    err(fcntl(p[0], F_SETOWN, 4000000), ESRCH, "F_SETOWN: nobody");
    err(fcntl(p[0], F_SETSIG, 99), EINVAL, "F_SETSIG: bad signal");
    return done();
}
