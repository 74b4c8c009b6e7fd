/* poll, ppoll, select, pselect, epoll: level and edge, one-shot, exclusive, nested, errors. */
#include "tap.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>

static volatile int count;
static void handler(int s) { (void)s, count++; }
static short poll1(int fd, short ev)
{
    struct pollfd p = {fd, ev, 0};
    poll(&p, 1, 0);
    return p.revents;
}

static void polls(void)
{
    int p[2], s[2];
    must(pipe(p));
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    struct pollfd f[3] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}, {-1, POLLIN, 7}};
    is(poll(f, 3, 0), 1, "poll counts");
    ok(f[0].revents == 0 && f[1].revents == POLLOUT && f[2].revents == 0, "revents");
    f[0].fd = 999;
    is(poll(f, 1, 0), 1, "a bad descriptor counts");
    is(f[0].revents, POLLNVAL, "POLLNVAL");
    double t = now_s(CLOCK_MONOTONIC);
    f[0].fd = p[0];
    is(poll(f, 1, 30), 0, "timeout");
    double d = now_s(CLOCK_MONOTONIC) - t;
    ok(d >= 0.03 && d < 0.5, "timeout: time");
    is(poll(NULL, 0, 10), 0, "no descriptors");
    err(poll((void *)8, 1, 0), EFAULT, "poll: bad pointer");
    write(p[1], "x", 1);
    is(poll1(p[0], POLLIN | POLLRDNORM | POLLPRI), POLLIN | POLLRDNORM, "POLLRDNORM");
    is(poll1(p[0], 0), 0, "no events asked for");
    is(poll1(s[0], POLLIN | POLLOUT), POLLOUT, "a socket");
    shutdown(s[1], SHUT_WR);
    is(poll1(s[0], POLLIN | POLLOUT | POLLRDHUP), POLLIN | POLLOUT | POLLRDHUP, "POLLRDHUP");
    is(poll1(s[0], POLLIN), POLLIN, "not asked for, not told");
    close(s[1]);
    is(poll1(s[0], 0), POLLHUP, "POLLHUP needs not be asked for");
    int file = open("f", O_CREAT | O_RDWR, 0600);
    is(poll1(file, POLLIN | POLLOUT | POLLPRI), POLLIN | POLLOUT, "a file");
    int dir = open(".", O_RDONLY);
    is(poll1(dir, POLLIN | POLLOUT), POLLIN | POLLOUT, "a directory");
    int n = open("/dev/null", O_RDWR);
    is(poll1(n, POLLIN | POLLOUT), POLLIN | POLLOUT, "/dev/null");
    close(n);
    int opath = open("f", O_PATH);
    is(poll1(opath, POLLIN), POLLNVAL, "O_PATH");
    close(opath);
    int dup_fd = dup(p[0]);
    pid_t c = fork();
    if (!c) {
        sleep_ms(30);
        write(p[1], "y", 1);
        _exit(0);
    }
    char b[10];
    read(p[0], b, 1);
    is(poll(f, 1, 5000), 1, "poll waits");
    read(p[0], b, 1);
    waitpid(c, NULL, 0);
    struct timespec ts = {0, 20000000}, bad = {0, -1};
    is(ppoll(f, 1, &ts, NULL), 0, "ppoll: timeout");
    err(ppoll(f, 1, &bad, NULL), EINVAL, "ppoll: bad timeout");
    signal(SIGUSR1, handler);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_BLOCK, &all, NULL);
    raise(SIGUSR1);
    err(ppoll(f, 1, NULL, &none), EINTR, "ppoll: the mask lets a pending signal in");
    is(count, 1, "ppoll: its handler ran");
    sigset_t now;
    sigprocmask(0, NULL, &now);
    ok(sigismember(&now, SIGUSR1), "ppoll: the mask is back");
    raise(SIGUSR1);
    err(pselect(0, NULL, NULL, NULL, NULL, &none), EINTR, "pselect: the same");
    is(count, 2, "pselect: its handler ran");
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    struct rlimit r, o;
    getrlimit(RLIMIT_NOFILE, &o);
    r = (struct rlimit){5, o.rlim_max};
    struct pollfd many[6];
    for (int i = 0; i < 6; i++)
        many[i] = (struct pollfd){-1, 0, 0};
    setrlimit(RLIMIT_NOFILE, &r);
    err(poll(many, 6, 0), EINVAL, "poll: more than RLIMIT_NOFILE");
    setrlimit(RLIMIT_NOFILE, &o);
    close(dup_fd);
    close(p[0]);
    close(p[1]);
}

static void selects(void)
{
    int p[2];
    must(pipe(p));
    fd_set r, w, e;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    FD_SET(p[0], &e);
    struct timeval tv = {0, 0};
    is(select(p[1] + 1, &r, &w, &e, &tv), 1, "select");
    ok(!FD_ISSET(p[0], &r) && FD_ISSET(p[1], &w) && !FD_ISSET(p[0], &e), "select: sets");
    write(p[1], "x", 1);
    FD_SET(p[0], &r);
    is(select(p[1] + 1, &r, &w, NULL, NULL), 2, "select: both");
    FD_ZERO(&r);
    FD_SET(60, &r);
    err(select(61, &r, NULL, NULL, &tv), EBADF, "select: bad descriptor");
    err(select(-1, NULL, NULL, NULL, &tv), EINVAL, "select: negative");
    tv = (struct timeval){0, -1};
    err(select(0, NULL, NULL, NULL, &tv), EINVAL, "select: bad timeout");
    tv = (struct timeval){0, 20000};
    is(select(0, NULL, NULL, NULL, &tv), 0, "select: sleeps");
    ok(!tv.tv_sec && !tv.tv_usec, "select: the timeout counts down");
    char c;
    read(p[0], &c, 1);
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    tv = (struct timeval){1, 0};
    pid_t pid = fork();
    if (!pid) {
        sleep_ms(50);
        write(p[1], "x", 1);
        _exit(0);
    }
    is(select(p[0] + 1, &r, NULL, NULL, &tv), 1, "select: waits");
    ok(tv.tv_sec == 0 && tv.tv_usec > 500000 && tv.tv_usec < 960000, "select: what is left");
    waitpid(pid, NULL, 0);
    close(p[1]);
    read(p[0], &c, 1);
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    is(select(p[0] + 1, &r, NULL, NULL, NULL), 1, "select: end of file is readable");
    close(p[0]);
}

static int ctl(int e, int op, int fd, uint32_t ev, uint64_t data)
{
    struct epoll_event x = {.events = ev, .data.u64 = data};
    return epoll_ctl(e, op, fd, &x);
}
static int ready(int e, uint32_t *events)
{
    struct epoll_event x[8];
    int n = epoll_wait(e, x, 8, 0);
    if (events)
        *events = n > 0 ? x[0].events : 0;
    return n;
}

static void epolls(void)
{
    int p[2], e, q[2];
    uint32_t ev;
    must(pipe(p));
    must(pipe(q));
    err(epoll_create(0), EINVAL, "epoll_create: size 0");
    err(epoll_create1(99), EINVAL, "epoll_create1: flags");
    e = epoll_create1(EPOLL_CLOEXEC);
    is(fcntl(e, F_GETFD), FD_CLOEXEC, "EPOLL_CLOEXEC");
    is(ctl(e, EPOLL_CTL_ADD, p[0], EPOLLIN, 42), 0, "EPOLL_CTL_ADD");
    err(ctl(e, EPOLL_CTL_ADD, p[0], EPOLLIN, 42), EEXIST, "ADD: exists");
    err(ctl(e, EPOLL_CTL_MOD, q[0], EPOLLIN, 42), ENOENT, "MOD: none");
    err(ctl(e, EPOLL_CTL_DEL, q[0], 0, 0), ENOENT, "DEL: none");
    err(ctl(e, EPOLL_CTL_ADD, 999, EPOLLIN, 0), EBADF, "ADD: bad descriptor");
    err(ctl(e, EPOLL_CTL_ADD, e, EPOLLIN, 0), EINVAL, "ADD: itself");
    err(ctl(p[0], EPOLL_CTL_ADD, q[0], EPOLLIN, 0), EINVAL, "ctl: not an epoll");
    err(ctl(999, EPOLL_CTL_ADD, q[0], EPOLLIN, 0), EBADF, "ctl: bad epoll");
    err(ctl(e, 99, q[0], EPOLLIN, 0), EINVAL, "ctl: bad operation");
    err(epoll_ctl(e, EPOLL_CTL_ADD, q[0], (void *)8), EFAULT, "ctl: bad pointer");
    int file = open("f", O_CREAT | O_RDWR, 0600);
    err(ctl(e, EPOLL_CTL_ADD, file, EPOLLIN, 0), EPERM, "ADD: a file");
    int dir = open(".", O_RDONLY);
    err(ctl(e, EPOLL_CTL_ADD, dir, EPOLLIN, 0), EPERM, "ADD: a directory");
    struct epoll_event x[4];
    err(epoll_wait(e, x, 0, 0), EINVAL, "epoll_wait: room for nothing");
    err(epoll_wait(p[0], x, 1, 0), EINVAL, "epoll_wait: not an epoll");
    err(epoll_wait(999, x, 1, 0), EBADF, "epoll_wait: bad descriptor");
    is(ready(e, NULL), 0, "nothing ready");
    double t = now_s(CLOCK_MONOTONIC);
    is(epoll_wait(e, x, 4, 30), 0, "timeout");
    ok(now_s(CLOCK_MONOTONIC) - t >= 0.029, "timeout: time");
    write(p[1], "xy", 2);
    is(epoll_wait(e, x, 4, 1000), 1, "ready");
    ok(x[0].events == EPOLLIN && x[0].data.u64 == 42, "event and data");
    is(ready(e, NULL), 1, "level triggered: again");
    is(ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 1), 0, "MOD: edge triggered");
    is(ready(e, NULL), 1, "edge: once");
    is(ready(e, NULL), 0, "edge: not again");
    write(p[1], "z", 1);
    is(ready(e, NULL), 1, "edge: with more data again");
    is(ready(e, NULL), 0, "edge: once more");
    read(p[0], &(char){0}, 1);
    is(ready(e, NULL), 0, "edge: reading a part is none");
    ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 1);
    is(ready(e, NULL), 1, "edge: MOD arms it");
    ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 1);
    is(ready(e, NULL), 1, "one-shot: once");
    is(ready(e, NULL), 0, "one-shot: then not");
    write(p[1], "z", 1);
    is(ready(e, NULL), 0, "one-shot: not with more data");
    ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 1);
    is(ready(e, NULL), 1, "one-shot: MOD arms it");
    ctl(e, EPOLL_CTL_MOD, p[0], 0, 1);
    is(ready(e, NULL), 0, "no events asked for");
    ctl(e, EPOLL_CTL_ADD, q[1], EPOLLOUT, 2);
    is(ready(e, &ev), 1, "writable");
    is(ev, EPOLLOUT, "writable: event");
    close(q[0]);
    ready(e, &ev);
    is(ev, EPOLLOUT | EPOLLERR, "EPOLLERR comes unasked");
    is(ctl(e, EPOLL_CTL_DEL, q[1], 0, 0), 0, "DEL");
    is(ready(e, NULL), 0, "DEL: gone");
    ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN, 1);
    int d = dup(p[0]);
    close(p[0]);
    is(ready(e, NULL), 1, "closing one of two descriptors does not remove it");
    close(d);
    is(ready(e, NULL), 0, "closing the last does");
    close(p[1]);
    close(q[1]);
    /* the same file under two numbers */
    must(pipe(p));
    d = dup(p[0]);
    is(ctl(e, EPOLL_CTL_ADD, p[0], EPOLLIN, 1), 0, "one number");
    is(ctl(e, EPOLL_CTL_ADD, d, EPOLLIN, 2), 0, "and another");
    write(p[1], "x", 1);
    is(ready(e, NULL), 2, "both are ready");
    ctl(e, EPOLL_CTL_DEL, d, 0, 0);
    /* nested */
    int outer = epoll_create1(0);
    is(ctl(outer, EPOLL_CTL_ADD, e, EPOLLIN, 9), 0, "an epoll in an epoll");
    is(ready(outer, &ev), 1, "nested: ready");
    is(ev, EPOLLIN, "nested: event");
    is(poll1(outer, POLLIN), POLLIN, "an epoll can be polled");
    err(ctl(e, EPOLL_CTL_ADD, outer, EPOLLIN, 0), ELOOP, "a loop of epolls");
    char b[4];
    read(p[0], b, 4);
    is(ready(outer, NULL), 0, "nested: not ready");
    is(poll1(outer, POLLIN), 0, "nor polled");
    pid_t c = fork();
    if (!c) {
        sleep_ms(30);
        write(p[1], "x", 1);
        _exit(0);
    }
    is(epoll_wait(outer, x, 4, 5000), 1, "nested: waits");
    waitpid(c, NULL, 0);
    read(p[0], b, 4);
    int chain[8];
    for (int i = 0; i < 8; i++)
        chain[i] = epoll_create1(0);
    int fails = 0;
    for (int i = 0; i < 7; i++)
        fails += ctl(chain[i], EPOLL_CTL_ADD, chain[i + 1], EPOLLIN, 0) != 0;
    ok(fails > 0, "nesting is limited");
    for (int i = 0; i < 8; i++)
        close(chain[i]);
    /* exclusive */
    is(ctl(outer, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLEXCLUSIVE, 3), 0, "EPOLLEXCLUSIVE");
    err(ctl(outer, EPOLL_CTL_MOD, p[0], EPOLLIN, 3), EINVAL, "EPOLLEXCLUSIVE: no MOD");
    err(ctl(outer, EPOLL_CTL_ADD, p[1], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 3), EINVAL, "EPOLLEXCLUSIVE with ONESHOT");
    /* order and max */
    int ef[5];
    int many = epoll_create1(0);
    for (int i = 0; i < 5; i++) {
        ef[i] = eventfd(1, 0);
        ctl(many, EPOLL_CTL_ADD, ef[i], EPOLLIN, (uint64_t)i);
    }
    int seen = 0;
    for (int i = 0; i < 5; i++) {
        is(epoll_wait(many, x, 2, 0), 2, "two at a time");
        seen |= 1 << x[0].data.u64 | 1 << x[1].data.u64;
    }
    is(seen, 31, "all have their turn");
    struct timespec ts = {0, 10000000};
    is(syscall(SYS_epoll_pwait2, e, x, 4, &ts, NULL, 0), 0, "epoll_pwait2");
    sigset_t none, usr;
    sigemptyset(&none);
    sigemptyset(&usr);
    sigaddset(&usr, SIGUSR1);
    signal(SIGUSR1, handler);
    sigprocmask(SIG_BLOCK, &usr, NULL);
    count = 0;
    raise(SIGUSR1);
    err(epoll_pwait(e, x, 4, 1000, &none), EINTR, "epoll_pwait: EINTR");
    is(count, 1, "epoll_pwait: the handler ran");
    sigprocmask(SIG_UNBLOCK, &usr, NULL);
    /* a socket's edge on both sides */
    int s[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    ctl(e, EPOLL_CTL_ADD, s[0], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 5);
    is(ready(e, &ev), 1, "socket: edge");
    is(ev, EPOLLOUT, "socket: writable at first");
    write(s[1], "x", 1);
    ready(e, &ev);
    is(ev, EPOLLIN | EPOLLOUT, "socket: data");
    shutdown(s[1], SHUT_WR);
    ready(e, &ev);
    is(ev, EPOLLIN | EPOLLOUT | EPOLLRDHUP, "socket: EPOLLRDHUP");
    close(s[1]);
    ready(e, &ev);
    is(ev, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP, "socket: EPOLLHUP");
}

TAP_MAIN
{
    polls();
    selects();
    epolls();
    return done();
}
