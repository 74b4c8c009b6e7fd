/* POSIX message queues. */
#include "tap.h"
#include <mqueue.h>
#include <poll.h>

static volatile int sig, code, value;
static void on(int s, siginfo_t *i, void *c)
{
    (void)c;
    sig = s, code = i->si_code, value = i->si_value.sival_int;
}

static void in_thread(union sigval v) { __atomic_store_n(&value, v.sival_int, __ATOMIC_SEQ_CST); }

static void threads(mqd_t q, mqd_t w)
{
    char b[8192];
    struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 44};
    struct { union sigval value; int signo, notify; char rest[48]; } raw = {{.sival_ptr = b}, 1, SIGEV_THREAD, {0}};
    is(mq_notify(q, &e), 0, "SIGEV_THREAD");
    err(mq_notify(q, &e), EBUSY, "SIGEV_THREAD: twice");
    mq_send(w, "n", 1, 0);
    for (int i = 0; i < 2000 && value != 44; i++)
        sleep_ms(1);
    is(value, 44, "SIGEV_THREAD: the thread runs");
    mq_receive(q, b, sizeof(b), NULL);
    is(mq_notify(q, &e), 0, "SIGEV_THREAD: again");
    is(mq_notify(q, NULL), 0, "SIGEV_THREAD: withdrawn");
    err(syscall(SYS_mq_notify, q, &raw), ENOTSOCK, "SIGEV_THREAD: not a socket");
    raw.signo = 999;
    err(syscall(SYS_mq_notify, q, &raw), EBADF, "SIGEV_THREAD: no descriptor");
}

TAP_MAIN
{
    char name[64], b[8192];
    snprintf(name, sizeof(name), "/tap%d", getpid());
    struct mq_attr a = {.mq_maxmsg = 3, .mq_msgsize = 100}, o;
    err(mq_open(name, O_RDWR), ENOENT, "mq_open: none");
    err(mq_open("/a/b", O_RDWR | O_CREAT, 0600, NULL), EACCES, "mq_open: a slash");
    a.mq_maxmsg = 0;
    err(mq_open(name, O_RDWR | O_CREAT, 0600, &a), EINVAL, "mq_open: no messages");
    a.mq_maxmsg = 3;
    mqd_t q = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
    ok(q >= 0, "mq_open");
    is(fcntl(q, F_GETFD), FD_CLOEXEC, "close-on-exec");
    err(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a), EEXIST, "mq_open: exists");
    is(mq_getattr(q, &o), 0, "mq_getattr");
    ok(o.mq_maxmsg == 3 && o.mq_msgsize == 100 && o.mq_curmsgs == 0 && o.mq_flags == 0, "mq_getattr: values");
    is(mq_send(q, "low", 3, 1), 0, "mq_send");
    is(mq_send(q, "high", 4, 9), 0, "mq_send: higher");
    is(mq_send(q, "low2", 4, 1), 0, "mq_send: equal");
    mq_getattr(q, &o);
    is(o.mq_curmsgs, 3, "three");
    memset(b, 0, sizeof(b));
    ok(read(q, b, sizeof(b)) > 0 && !strncmp(b, "QSIZE:11         NOTIFY:0     SIGNO:0     NOTIFY_PID:0     ", 58), "read tells the state");
    unsigned prio = 0;
    err(mq_receive(q, b, 50, NULL), EMSGSIZE, "mq_receive: small buffer");
    is(mq_receive(q, b, sizeof(b), &prio), 4, "mq_receive");
    ok(!memcmp(b, "high", 4) && prio == 9, "the highest priority first");
    mq_receive(q, b, sizeof(b), &prio);
    ok(!memcmp(b, "low", 3) && prio == 1, "then the oldest");
    is(mq_receive(q, b, sizeof(b), &prio), 4, "then the next");
    err(mq_send(q, b, 101, 0), EMSGSIZE, "mq_send: too big");
    err(mq_send(q, b, 1, 40000), EINVAL, "mq_send: priority");
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    err(mq_timedreceive(q, b, sizeof(b), NULL, &t), ETIMEDOUT, "mq_timedreceive");
    t.tv_nsec = -1;
    err(mq_timedreceive(q, b, sizeof(b), NULL, &t), EINVAL, "mq_timedreceive: bad time");
    o.mq_flags = O_NONBLOCK;
    is(mq_setattr(q, &o, NULL), 0, "mq_setattr");
    err(mq_receive(q, b, sizeof(b), NULL), EAGAIN, "O_NONBLOCK: empty");
    for (int i = 0; i < 3; i++)
        mq_send(q, "x", 1, 0);
    err(mq_send(q, "x", 1, 0), EAGAIN, "O_NONBLOCK: full");
    struct pollfd p = {q, POLLIN | POLLOUT, 0};
    poll(&p, 1, 0);
    is(p.revents, POLLIN, "poll: full");
    for (int i = 0; i < 3; i++)
        mq_receive(q, b, sizeof(b), NULL);
    poll(&p, 1, 0);
    is(p.revents, POLLOUT, "poll: empty");
    mqd_t r = mq_open(name, O_RDONLY), w = mq_open(name, O_WRONLY);
    err(mq_send(r, "x", 1, 0), EBADF, "send: read-only");
    err(mq_receive(w, b, sizeof(b), NULL), EBADF, "receive: write-only");
    pid_t c = fork();
    if (!c) {
        sleep_ms(30);
        mq_send(w, "from a child", 12, 0);
        _exit(0);
    }
    is(mq_receive(r, b, sizeof(b), NULL), 12, "mq_receive waits");
    waitpid(c, NULL, 0);
    struct sigaction sa = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &sa, NULL);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 33};
    is(mq_notify(q, &e), 0, "mq_notify");
    err(mq_notify(q, &e), EBUSY, "mq_notify: twice");
    mq_send(w, "n", 1, 0);
    for (int i = 0; i < 500 && !sig; i++)
        sleep_ms(1);
    ok(sig == SIGUSR1 && code == SI_MESGQ && value == 33, "a signal for the first message");
    sig = 0;
    mq_receive(q, b, sizeof(b), NULL);
    mq_send(w, "n", 1, 0);
    sleep_ms(10);
    is(sig, 0, "once only");
    mq_receive(q, b, sizeof(b), NULL);
    mq_notify(q, &e);
    is(mq_notify(q, NULL), 0, "mq_notify: none");
    mq_send(w, "n", 1, 0);
    sleep_ms(10);
    is(sig, 0, "none comes");
    mq_receive(q, b, sizeof(b), NULL);
    threads(q, w);
    mq_send(w, "n", 1, 0);
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(setuid(65534); _exit(mq_open(name, O_RDONLY) < 0 ? errno : 0))), EACCES, "no permission");
    is(mq_unlink(name), 0, "mq_unlink");
    err(mq_unlink(name), ENOENT, "mq_unlink: none");
    err(mq_open(name, O_RDWR), ENOENT, "gone by name");
    is(mq_receive(q, b, sizeof(b), NULL), 1, "still there for those who have it open");
    is(mq_close(q), 0, "mq_close");
    err(mq_close(q), EBADF, "mq_close: twice");
    err(mq_getattr(0, &o), EBADF, "not a queue");
    return done();
}
