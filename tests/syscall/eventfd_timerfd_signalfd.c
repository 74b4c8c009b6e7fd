/* eventfd, timerfd, signalfd. */
#include "tap.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static short ev(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    poll(&p, 1, 0);
    return p.revents;
}

static void events(void)
{
    uint64_t v = 0;
    err(eventfd(0, 0x1234567), EINVAL, "eventfd: flags");
    int e = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    ok(fcntl(e, F_GETFD) == FD_CLOEXEC && (fcntl(e, F_GETFL) & O_NONBLOCK), "eventfd: flags are set");
    is(ev(e), POLLIN | POLLOUT, "poll");
    is(read(e, &v, 8), 8, "read");
    is(v, 3, "value");
    err(read(e, &v, 8), EAGAIN, "read: zero");
    err(read(e, &v, 4), EINVAL, "read: small buffer");
    is(ev(e), POLLOUT, "poll: zero");
    v = 5;
    is(write(e, &v, 8), 8, "write");
    is(write(e, &v, 8), 8, "write again");
    err(write(e, &v, 4), EINVAL, "write: small");
    v = UINT64_MAX;
    err(write(e, &v, 8), EINVAL, "write: the maximum");
    read(e, &v, 8);
    is(v, 10, "sum");
    v = UINT64_MAX - 1;
    is(write(e, &v, 8), 8, "write: one less");
    is(ev(e), POLLIN, "poll: full");
    v = 1;
    err(write(e, &v, 8), EAGAIN, "write: full");
    close(e);
    e = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    is(read(e, &v, 8), 8, "semaphore");
    is(v, 1, "semaphore: one at a time");
    is(read(e, &v, 8), 8, "semaphore: two");
    err(read(e, &v, 8), EAGAIN, "semaphore: empty");
    close(e);
    e = eventfd(0, 0);
    pid_t c = fork();
    if (!c) {
        sleep_ms(30);
        v = 7;
        write(e, &v, 8);
        _exit(0);
    }
    is(read(e, &v, 8), 8, "read waits");
    is(v, 7, "read waits: value");
    waitpid(c, NULL, 0);
}

static void timers(void)
{
    uint64_t n = 0;
    err(timerfd_create(99, 0), EINVAL, "timerfd_create: clock");
    err(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0), EINVAL, "timerfd_create: cpu clock");
    err(timerfd_create(CLOCK_MONOTONIC, 0x1234567), EINVAL, "timerfd_create: flags");
    int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    ok(t >= 0, "timerfd_create");
    struct itimerspec v = {{0, 0}, {0, 20000000}}, o;
    err(read(t, &n, 8), EAGAIN, "read: not armed");
    is(timerfd_settime(t, 0, &v, NULL), 0, "timerfd_settime");
    is(timerfd_gettime(t, &o), 0, "timerfd_gettime");
    ok(o.it_value.tv_sec == 0 && o.it_value.tv_nsec > 0 && o.it_value.tv_nsec <= 20000000, "timerfd_gettime: left");
    is(ev(t), 0, "poll: not yet");
    struct pollfd p = {t, POLLIN, 0};
    is(poll(&p, 1, 2000), 1, "poll waits");
    err(read(t, &n, 4), EINVAL, "read: small buffer");
    is(read(t, &n, 8), 8, "read");
    is(n, 1, "one expiration");
    timerfd_gettime(t, &o);
    ok(!o.it_value.tv_sec && !o.it_value.tv_nsec, "disarmed");
    v = (struct itimerspec){{0, 10000000}, {0, 10000000}};
    timerfd_settime(t, 0, &v, NULL);
    sleep_ms(65);
    is(read(t, &n, 8), 8, "periodic");
    ok(n >= 5 && n <= 30, "counts what was missed");
    timerfd_gettime(t, &o);
    is(o.it_interval.tv_nsec, 10000000, "interval");
    v = (struct itimerspec){{0, 0}, {0, 0}};
    is(timerfd_settime(t, 0, &v, &o), 0, "disarm");
    is(o.it_interval.tv_nsec, 10000000, "old value");
    v.it_value.tv_nsec = 1000000000;
    err(timerfd_settime(t, 0, &v, NULL), EINVAL, "bad nanoseconds");
    v.it_value.tv_nsec = 1;
    err(timerfd_settime(t, 0x100, &v, NULL), EINVAL, "bad flags");
    err(timerfd_settime(0, 0, &v, NULL), EINVAL, "not a timerfd");
    err(timerfd_gettime(999, &o), EBADF, "bad descriptor");
    clock_gettime(CLOCK_MONOTONIC, &v.it_value);
    v.it_value.tv_sec--;
    timerfd_settime(t, TFD_TIMER_ABSTIME, &v, NULL);
    poll(&p, 1, 1000);
    is(read(t, &n, 8), 8, "absolute, in the past");
    close(t);
    t = timerfd_create(CLOCK_REALTIME, 0);
    clock_gettime(CLOCK_REALTIME, &v.it_value);
    v.it_value.tv_nsec += 20000000;
    if (v.it_value.tv_nsec >= 1000000000)
        v.it_value.tv_nsec -= 1000000000, v.it_value.tv_sec++;
    is(timerfd_settime(t, TFD_TIMER_ABSTIME, &v, NULL), 0, "absolute real time");
    double m = now_s(CLOCK_MONOTONIC);
    is(read(t, &n, 8), 8, "read waits");
    double d = now_s(CLOCK_MONOTONIC) - m;
    ok(d > 0.01 && d < 1, "read waits: time");
    close(t);
}

static void signals(void)
{
    sigset_t s;
    struct signalfd_siginfo i[4];
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigaddset(&s, SIGRTMIN);
    err(signalfd(-1, &s, 0x1234567), EINVAL, "signalfd: flags");
    err(signalfd(0, &s, 0), EINVAL, "signalfd: not a signalfd");
    err(signalfd(999, &s, 0), EBADF, "signalfd: bad descriptor");
    err(syscall(SYS_signalfd4, -1, &s, 4, 0), EINVAL, "signalfd: size");
    int f = signalfd(-1, &s, SFD_NONBLOCK | SFD_CLOEXEC);
    ok(f >= 0, "signalfd");
    sigprocmask(SIG_BLOCK, &s, NULL);
    err(read(f, i, sizeof(i)), EAGAIN, "read: nothing");
    err(read(f, i, 10), EINVAL, "read: small buffer");
    is(ev(f), 0, "poll: nothing");
    kill(getpid(), SIGUSR1);
    is(ev(f), POLLIN, "poll");
    is(read(f, i, sizeof(i)), sizeof(i[0]), "read");
    ok(i[0].ssi_signo == SIGUSR1 && i[0].ssi_code == SI_USER && (pid_t)i[0].ssi_pid == getpid() && i[0].ssi_uid == getuid(), "siginfo");
    sigset_t p;
    sigpending(&p);
    ok(!sigismember(&p, SIGUSR1), "it is taken");
    for (int k = 0; k < 3; k++)
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = k});
    raise(SIGUSR1);
    is(read(f, i, sizeof(i)), 4 * sizeof(i[0]), "several at once");
    ok(i[0].ssi_signo == SIGUSR1 && i[1].ssi_int == 0 && i[3].ssi_int == 2 && i[3].ssi_code == SI_QUEUE, "in order");
    sigaddset(&s, SIGUSR2);
    sigprocmask(SIG_BLOCK, &s, NULL);
    is(signalfd(f, &s, 0), f, "a new mask");
    raise(SIGUSR2);
    is(read(f, i, sizeof(i)), sizeof(i[0]), "counts");
    int e = epoll_create1(0);
    struct epoll_event x = {.events = EPOLLIN};
    epoll_ctl(e, EPOLL_CTL_ADD, f, &x);
    is(epoll_wait(e, &x, 1, 0), 0, "epoll: nothing");
    pid_t me = getpid(), c = fork();
    if (!c) {
        sleep_ms(30);
        kill(me, SIGUSR1);
        _exit(0);
    }
    is(epoll_wait(e, &x, 1, 5000), 1, "epoll waits");
    is(read(f, i, sizeof(i)), sizeof(i[0]), "epoll waits: read");
    is((pid_t)i[0].ssi_pid, c, "from the child");
    waitpid(c, NULL, 0);
    fcntl(f, F_SETFL, 0);
    c = fork();
    if (!c) {
        sleep_ms(30);
        kill(me, SIGUSR2);
        _exit(0);
    }
    is(read(f, i, sizeof(i)), sizeof(i[0]), "read waits");
    waitpid(c, NULL, 0);
    sigset_t ch;
    sigemptyset(&ch);
    sigaddset(&ch, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ch, NULL);
    int cf = signalfd(-1, &ch, 0);
    c = fork();
    if (!c)
        _exit(7);
    is(read(cf, i, sizeof(i)), sizeof(i[0]), "SIGCHLD");
    ok((pid_t)i[0].ssi_pid == c && i[0].ssi_status == 7 && i[0].ssi_code == CLD_EXITED, "SIGCHLD: info");
    waitpid(c, NULL, 0);
}

TAP_MAIN
{
    events();
    timers();
    signals();
    return done();
}
