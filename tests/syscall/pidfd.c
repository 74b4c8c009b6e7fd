/* pidfd_open, pidfd_send_signal, pidfd_getfd, CLONE_PIDFD, waitid(P_PIDFD). */
#include "tap.h"
#include <linux/sched.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static int pidfd_open(pid_t p, unsigned flags) { return (int)syscall(SYS_pidfd_open, p, flags); }
static int send_sig(int fd, int sig, siginfo_t *i, unsigned flags) { return (int)syscall(SYS_pidfd_send_signal, fd, sig, i, flags); }
static int getfd(int fd, int target, unsigned flags) { return (int)syscall(SYS_pidfd_getfd, fd, target, flags); }
static short poll_of(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, ms);
    return p.revents;
}
static pid_t sleeper(void)
{
    pid_t p = fork();
    if (!p)
        for (;;)
            pause();
    return p;
}

TAP_MAIN
{
    err(pidfd_open(0, 0), EINVAL, "pidfd_open: pid 0");
    err(pidfd_open(-1, 0), EINVAL, "pidfd_open: pid -1");
    err(pidfd_open(getpid(), 1), EINVAL, "pidfd_open: bad flags");
    err(pidfd_open(4000000, 0), ESRCH, "pidfd_open: nobody");
    int self = pidfd_open(getpid(), 0);
    ok(self >= 0, "pidfd_open: oneself");
    is(fcntl(self, F_GETFD), FD_CLOEXEC, "close-on-exec is set");
    is(poll_of(self, 0), 0, "poll: running");
    is(send_sig(self, 0, NULL, 0), 0, "pidfd_send_signal: signal 0");
    err(send_sig(self, 99, NULL, 0), EINVAL, "pidfd_send_signal: bad signal");
    err(send_sig(self, 0, NULL, 0x100), EINVAL, "pidfd_send_signal: bad flags");
    err(send_sig(999, 0, NULL, 0), EBADF, "pidfd_send_signal: bad descriptor");
    err(send_sig(0, 0, NULL, 0), EBADF, "pidfd_send_signal: not a pidfd");
    char buf[64], link[128] = {0};
    err(read(self, buf, 1), EINVAL, "read");
    err(write(self, buf, 1), EINVAL, "write");
    snprintf(buf, sizeof(buf), "/proc/self/fdinfo/%d", self);
    FILE *f = fopen(buf, "r");
    int pid = 0;
    while (f && fgets(link, sizeof(link), f))
        sscanf(link, "Pid:\t%d", &pid);
    if (f)
        fclose(f);
    is(pid, getpid(), "fdinfo: Pid");
    pid_t c = sleeper();
    int fd = pidfd_open(c, 0);
    siginfo_t i = {0};
    is(waitid(P_PIDFD, (id_t)fd, &i, WEXITED | WNOHANG), 0, "waitid(P_PIDFD): nothing yet");
    is(i.si_pid, 0, "waitid(P_PIDFD): pid 0");
    i = (siginfo_t){.si_signo = SIGTERM, .si_code = SI_USER};
    err(send_sig(fd, SIGTERM, &i, 0), EPERM, "pidfd_send_signal: forged SI_USER");
    i.si_signo = SIGHUP;
    err(send_sig(fd, SIGTERM, &i, 0), EINVAL, "pidfd_send_signal: signal numbers differ");
    is(send_sig(fd, SIGTERM, NULL, 0), 0, "pidfd_send_signal: SIGTERM");
    is(poll_of(fd, 5000), POLLIN, "poll: a zombie is readable");
    is(send_sig(fd, 0, NULL, 0), 0, "a zombie can be signalled");
    is(waitid(P_PIDFD, (id_t)fd, &i, WEXITED | WNOWAIT), 0, "waitid(P_PIDFD)");
    ok(i.si_pid == c && i.si_code == CLD_KILLED && i.si_status == SIGTERM, "waitid(P_PIDFD): siginfo");
    is(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), 0, "waitid(P_PIDFD): reap");
    err(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), ECHILD, "waitid(P_PIDFD): gone");
    err(send_sig(fd, 0, NULL, 0), ESRCH, "pidfd_send_signal: gone");
    ok(poll_of(fd, 0) & POLLIN, "poll: gone");
    close(fd);
    err(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), EBADF, "waitid(P_PIDFD): closed");
    err(waitid(P_PIDFD, 0, &i, WEXITED), EBADF, "waitid(P_PIDFD): not a pidfd");
    err(waitid(P_PIDFD, (id_t)self, &i, WEXITED), ECHILD, "waitid(P_PIDFD): not a child");
    c = sleeper();
    fd = pidfd_open(c, O_NONBLOCK);
    ok(fcntl(fd, F_GETFL) & O_NONBLOCK, "PIDFD_NONBLOCK");
    err(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), EAGAIN, "PIDFD_NONBLOCK: waitid does not wait");
    int e = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN};
    is(epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev), 0, "epoll takes a pidfd");
    is(epoll_wait(e, &ev, 1, 0), 0, "epoll: running");
    kill(c, SIGKILL);
    is(epoll_wait(e, &ev, 1, 5000), 1, "epoll: ended");
    waitpid(c, NULL, 0);
    close(fd);
    snprintf(buf, sizeof(buf), "/proc/%d", getpid());
    int dir = open(buf, O_RDONLY | O_DIRECTORY);
    is(send_sig(dir, 0, NULL, 0), 0, "a directory of /proc is good for signals, too");
    err(send_sig(dir, 99, NULL, 0), EINVAL, "a directory of /proc: bad signal");
    close(dir);
    dir = open(".", O_RDONLY | O_DIRECTORY);
    err(send_sig(dir, 0, NULL, 0), EBADF, "another directory is not");
    close(dir);
    int own = -1;
    struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&own, .exit_signal = SIGCHLD};
    c = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
    if (!c)
        _exit(fcntl(own, F_GETFD) == -1 ? 12 : 13);
    ok(c > 0 && own >= 0, "clone3: CLONE_PIDFD");
    is(fcntl(own, F_GETFD), FD_CLOEXEC, "clone3: close-on-exec");
    is(waitid(P_PIDFD, (id_t)own, &i, WEXITED), 0, "clone3: it is the child's");
    ok(i.si_pid == c, "clone3: pid");
    close(own);
    own = -1;
    c = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &own, 0, 0);
    if (!c)
        _exit(3);
    ok(own >= 0, "clone: CLONE_PIDFD");
    is(waitid(P_PIDFD, (id_t)own, &i, WEXITED), 0, "clone: wait");
    is(i.si_status, 3, "clone: status");
    c = (pid_t)syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &own, 0, 0);
    if (!c)
        _exit(0);
    ok(c == -1 && errno == EINVAL, "clone: PIDFD and PARENT_SETTID");
    close(own);
    int sp[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
    c = fork();
    if (!c) {
        int p[2];
        must(pipe(p));
        must(dup2(p[0], 200));
        must(write(p[1], "hello", 5));
        must(write(sp[1], "x", 1));
        for (;;)
            pause();
    }
    must(read(sp[0], buf, 1));
    fd = pidfd_open(c, 0);
    err(getfd(fd, 200, 1), EINVAL, "pidfd_getfd: flags");
    err(getfd(fd, 999, 0), EBADF, "pidfd_getfd: no such descriptor");
    err(getfd(0, 0, 0), EBADF, "pidfd_getfd: not a pidfd");
    int got = getfd(fd, 200, 0);
    ok(got >= 0, "pidfd_getfd");
    is(fcntl(got, F_GETFD), FD_CLOEXEC, "pidfd_getfd: close-on-exec");
    is(read(got, buf, sizeof(buf)), 5, "pidfd_getfd: it is the same file");
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(setuid(65534); _exit(getfd(fd, 200, 0) == -1 ? errno : 0))), EPERM, "pidfd_getfd: not another user");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    err(getfd(fd, 200, 0), ESRCH, "pidfd_getfd: gone");
    return done();
}
