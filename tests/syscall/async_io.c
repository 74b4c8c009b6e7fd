/* O_ASYNC: SIGIO and F_SETSIG for pipes, sockets and terminals, to a process, a thread, a group; owners. */
#include "tap.h"
#include <netinet/in.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static sigset_t set;

/* Within a second: is there a signal? Takes all there are. */
static bool told(siginfo_t *info)
{
    siginfo_t last;
    struct timespec second = {1, 0}, now = {0, 0};
    bool any = sigtimedwait(&set, info ? info : &last, &second) > 0;
    while (sigtimedwait(&set, &last, &now) > 0)
        ;
    return any;
}

static bool silent(void)
{
    struct timespec t = {0, 50000000};
    return sigtimedwait(&set, NULL, &t) < 0;
}

static void arm(int fd)
{
    must(fcntl(fd, F_SETOWN, getpid()));
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC | O_NONBLOCK));
}

static void pipes(void)
{
    int p[2];
    char buf[65536] = {0};
    siginfo_t info;
    must(pipe(p));
    arm(p[0]);
    ok(silent(), "nothing yet");
    must(write(p[1], "x", 1));
    ok(told(&info) && info.si_signo == SIGIO && info.si_code == SI_KERNEL, "a pipe can be read");
    must(read(p[0], buf, 1));
    ok(silent(), "reading is no event for a reader");
    must(fcntl(p[0], F_SETFL, O_NONBLOCK));
    must(write(p[1], "x", 1));
    ok(silent(), "switched off");
    int on = 1;
    must(ioctl(p[0], FIOASYNC, &on));
    ok(fcntl(p[0], F_GETFL) & O_ASYNC, "FIOASYNC");
    must(fcntl(p[0], F_SETOWN, 0));
    must(write(p[1], "x", 1));
    ok(silent(), "without an owner");
    must(fcntl(p[0], F_SETOWN, -getpgrp()));
    is(fcntl(p[0], F_GETOWN), -getpgrp(), "the owner is a group");
    must(write(p[1], "x", 1));
    ok(told(NULL), "to the group");
    struct f_owner_ex ex = {F_OWNER_TID, getpid()};
    must(fcntl(p[0], F_SETOWN_EX, &ex));
    must(write(p[1], "x", 1));
    ok(told(NULL), "to a thread");
    must(fcntl(p[0], F_SETSIG, SIGRTMIN));
    must(write(p[1], "x", 1));
    ok(told(&info) && info.si_signo == SIGRTMIN && info.si_code == POLL_IN && info.si_fd == p[0] && info.si_band & 1, "F_SETSIG");
    must(fcntl(p[0], F_SETSIG, 0));
    pid_t pid = fork();
    if (!pid)
        _exit(write(p[1], "x", 1) != 1);
    waitpid(pid, NULL, 0);
    ok(told(NULL), "a child has written");
    int copy = dup(p[0]);
    close(p[0]);
    must(write(p[1], "x", 1));
    ok(told(NULL), "a copy of the descriptor is the same file");
    close(p[1]);
    ok(told(NULL), "the writer has gone");
    close(copy);
    must(pipe(p));
    arm(p[1]);
    while (write(p[1], buf, sizeof(buf)) > 0)
        ;
    while (!silent())
        ;
    must(read(p[0], buf, sizeof(buf)));
    ok(told(NULL), "a pipe can be written");
    close(p[0]), close(p[1]);
    ok(true, "closed");
}

static void sockets(void)
{
    int s[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    arm(s[0]);
    while (!silent()) /* Linux tells at once that it can be written */
        ;
    must(write(s[1], "x", 1));
    ok(told(NULL), "a socket can be read");
    close(s[1]);
    ok(told(NULL), "its peer has gone");
    close(s[0]);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(l, (void *)&a, n));
    must(listen(l, 1));
    must(getsockname(l, (void *)&a, &n));
    arm(l);
    must(connect(c, (void *)&a, n));
    ok(told(NULL), "a connection waits");
    int k = must(accept(l, NULL, NULL));
    arm(k);
    while (!silent())
        ;
    must(write(c, "x", 1));
    ok(told(NULL), "data of a TCP connection");
    close(k), close(c), close(l);
    int d = socket(AF_INET, SOCK_DGRAM, 0), e = socket(AF_INET, SOCK_DGRAM, 0);
    a.sin_port = 0;
    must(bind(d, (void *)&a, n));
    must(getsockname(d, (void *)&a, &n));
    arm(d);
    must(sendto(e, "x", 1, 0, (void *)&a, n));
    ok(told(NULL), "a datagram");
    close(d), close(e);
}

static void terminals(void)
{
    int m, t;
    must(openpty(&m, &t, NULL, NULL, NULL));
    arm(t);
    must(write(m, "line\n", 5));
    ok(told(NULL), "a line of a terminal");
    close(m), close(t);
}

TAP_MAIN
{
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    setpgid(0, 0);
    pipes();
    sockets();
    terminals();
    return done();
}
