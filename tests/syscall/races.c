/* Two at once: what one thread or process begins while another ends, closes, executes or collects it. Some need luck to go wrong; each
 * has been seen to. */
#include "tap.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void spin(int n)
{
    for (volatile int i = 0; i < n; i++)
        ;
}

/* The status of p, or -1 when it has not ended after two seconds. */
static int ends(pid_t p)
{
    int s;
    for (double end = now() + 2; waitpid(p, &s, WNOHANG) != p; usleep(300))
        if (now() > end) {
            kill(p, SIGKILL);
            waitpid(p, &s, 0);
            return -1;
        }
    return s;
}

/* ---- a record lock that is got when its descriptor has been closed ---- */

static int lock_fd, lock_error;

static void *waits_for_lock(void *arg)
{
    struct flock l = {.l_type = F_WRLCK};
    lock_error = fcntl(lock_fd, F_SETLKW, &l) < 0 ? errno : 0;
    return arg;
}

static void locks(void)
{
    struct flock l = {.l_type = F_WRLCK};
    int fd = open("lock", O_RDWR | O_CREAT, 0600), status;
    fcntl(fd, F_SETLK, &l);
    pid_t p = fork();
    if (!p) {
        pthread_t t;
        close(fd);
        lock_fd = open("lock", O_RDWR);
        pthread_create(&t, NULL, waits_for_lock, NULL);
        usleep(100000);
        close(lock_fd);
        pthread_join(t, NULL);
        usleep(300000); /* the parent looks whether we have it */
        _exit(lock_error == EBADF ? 0 : 1);
    }
    usleep(250000);
    l.l_type = F_UNLCK;
    fcntl(fd, F_SETLK, &l);
    usleep(100000);
    l.l_type = F_WRLCK;
    is(fcntl(fd, F_SETLK, &l), 0, "a lock of a descriptor that was closed while it was waited for does not stay");
    waitpid(p, &status, 0);
    is(status, 0, "the waiter gets EBADF");
    close(fd);
}

/* ---- futexes ---- */

static int word, other;
static void *waits(void *arg) { return (void *)syscall(SYS_futex, arg, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }

static void requeue(void)
{
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, waits, &word);
    usleep(100000);
    is(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 100000000L, &word, 0), 2, "requeued to the same word: each counts once");
    is(syscall(SYS_futex, &word, FUTEX_REQUEUE_PRIVATE, 0, 1L, &other, 0), 1, "FUTEX_REQUEUE tells how many it has moved");
    is(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0), 1, "one is left");
    is(syscall(SYS_futex, &other, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0), 1, "one was moved");
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

/* ---- exec and exit against other threads ---- */

static volatile int go;
static char *const again[] = {"races", "seven", NULL};

static void *execs(void *arg)
{
    while (!go)
        ;
    execv("/proc/self/exe", again);
    return arg;
}

static void two_execs(void)
{
    int bad = 0;
    for (int i = 0; i < 60; i++) {
        pid_t p = fork();
        if (!p) {
            pthread_t t;
            pthread_create(&t, NULL, execs, NULL);
            usleep(200);
            go = 1;
            execs(NULL);
            _exit(9);
        }
        bad += ends(p) != 7 << 8;
    }
    is(bad, 0, "two threads execute a program: one of them is run");
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void *makes_threads(void *arg)
{
    pthread_t t;
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 65536);
    for (int i = 0; i < 200 && !pthread_create(&t, &a, idle, NULL); i++)
        ;
    return idle(arg);
}

static void ends_among_births(void)
{
    for (int how = 0; how < 3; how++) {
        int bad = 0;
        for (int i = 0; i < 60 && !bad; i++) {
            pid_t p = fork();
            if (!p) {
                pthread_t t;
                srand((unsigned)i);
                pthread_create(&t, NULL, makes_threads, NULL);
                usleep((useconds_t)(rand() % 3000));
                if (how == 0)
                    _exit(7);
                if (how == 1)
                    execv("/proc/self/exe", again);
                idle(NULL);
            }
            usleep(how == 2 ? 500 + i * 30 : 0);
            if (how == 2)
                kill(p, SIGKILL);
            bad += ends(p) != (how == 2 ? SIGKILL : 7 << 8);
        }
        is(bad, 0, "a process ends while a thread of it makes others: by %s", how == 0 ? "exit" : how == 1 ? "exec" : "SIGKILL");
    }
}

/* ---- signals for a process whose thread does not take them ---- */

static volatile struct {
    int sent, taken;
} *signals;
static void takes(int sig) { (void)sig, __sync_fetch_and_add(&signals->taken, 1); }

static void blocking(void)
{
    signals = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t p = fork();
    if (!p) {
        pthread_t t;
        sigset_t set;
        signal(SIGUSR1, takes);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_create(&t, NULL, idle, NULL);
        for (;;) {
            sigprocmask(SIG_UNBLOCK, &set, NULL);
            sigprocmask(SIG_BLOCK, &set, NULL);
            for (double end = now() + 0.5; signals->sent > signals->taken && now() < end;)
                ;
        }
    }
    usleep(20000);
    int late = 0;
    for (int i = 1; i <= 2000 && !late; i++) {
        kill(p, SIGUSR1);
        signals->sent = i;
        for (double end = now() + 0.4; signals->taken < i && !late;)
            late = now() > end;
        spin(rand() % 3000);
    }
    is(late, 0, "a signal that one thread is just blocking goes to another");
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
}

/* ---- a socket that is received while descriptors in flight are collected ---- */

static int send_fd(int s, int fd)
{
    char c[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof(c)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &fd, sizeof(int));
    return (int)sendmsg(s, &m, 0);
}

static int recv_fd(int s)
{
    char c[CMSG_SPACE(sizeof(int))], byte;
    int fd = -1;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof(c)};
    if (recvmsg(s, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    return fd;
}

static volatile int stop;
static void *closes_sockets(void *arg)
{
    while (!stop)
        close(socket(AF_UNIX, SOCK_STREAM, 0));
    return arg;
}

static void collecting(void)
{
    pthread_t t;
    int y[2], x[2], lost = 0;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, y));
    pthread_create(&t, NULL, closes_sockets, NULL);
    for (int i = 0; i < 5000; i++) {
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, x));
        send_fd(x[0], 1);
        send_fd(y[0], x[1]);
        close(x[1]);
        int r = recv_fd(y[1]), fd = recv_fd(r);
        lost += fd < 0;
        close(fd);
        close(r);
        close(x[0]);
    }
    stop = 1;
    pthread_join(t, NULL);
    is(lost, 0, "descriptors in a socket that is received while others are collected");
    close(y[0]);
    close(y[1]);
}

/* ---- ptys ---- */

static int master(char name[64])
{
    int m = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(m);
    unlockpt(m);
    ptsname_r(m, name, 64);
    return m;
}

static void flushed(void)
{
    char name[64], b[4096];
    int m = master(name), rounds = 0;
    pid_t p = fork();
    if (!p) {
        setsid();
        int s = open(name, O_RDWR);
        struct termios t;
        signal(SIGINT, SIG_IGN);
        tcgetattr(s, &t);
        t.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(s, TCSANOW, &t);
        memset(b, 'x', sizeof(b));
        while (write(s, b, 1000) > 0)
            ;
        _exit(0);
    }
    usleep(300000);
    is(write(m, "\3", 1), 1, "^C while a writer waits for room");
    usleep(200000);
    struct pollfd f = {m, POLLIN, 0};
    while (rounds < 50 && poll(&f, 1, 2000) == 1 && read(m, b, sizeof(b)) > 0)
        rounds++;
    is(rounds, 50, "it goes on");
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    close(m);
}

static void packets(void)
{
    char name[64], b[16];
    int m = master(name), one = 1, s = open(name, O_RDWR | O_NOCTTY);
    struct pollfd f = {m, POLLIN, 0};
    ioctl(m, TIOCPKT, &one);
    while (poll(&f, 1, 50) == 1)
        if (read(m, b, sizeof(b)) < 0)
            break;
    for (int how = 0; how < 2; how++) {
        pid_t p = fork();
        if (!p) {
            usleep(150000);
            tcflow(s, how ? TCOON : TCOOFF);
            usleep(3000000);
            _exit(0);
        }
        is(poll(&f, 1, 2000), 1, "packet mode: %s wakes the master", how ? "TCOON" : "TCOOFF");
        is(read(m, b, sizeof(b)) == 1 && b[0] & (how ? TIOCPKT_START : TIOCPKT_STOP), 1, "and tells it");
        kill(p, SIGKILL);
        waitpid(p, NULL, 0);
    }
    close(s);
    close(m);
}

static volatile int turn, closed, held;
static void *closes_slave(void *arg)
{
    for (int last = 0; last < 3000;) {
        while (turn == last)
            ;
        last = turn;
        spin(rand() % 2000);
        close(held);
        closed = last;
    }
    return arg;
}

static void reopened(void)
{
    char name[64];
    int m = master(name), bad = 0;
    pthread_t t;
    pthread_create(&t, NULL, closes_slave, NULL);
    for (int i = 1; i <= 3000; i++) {
        held = open(name, O_RDWR | O_NOCTTY);
        turn = i;
        spin(rand() % 2000);
        int s = open(name, O_RDWR | O_NOCTTY);
        while (closed != i)
            ;
        struct pollfd f = {m, POLLIN, 0};
        poll(&f, 1, 0);
        bad += (f.revents & POLLHUP) != 0;
        close(s);
    }
    pthread_join(t, NULL);
    is(bad, 0, "a slave is opened while another file of it is closed: no hangup");
    close(m);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) /* run by exec */
        _exit(7);
    tap_begin();
    locks();
    requeue();
    two_execs();
    ends_among_births();
    blocking();
    collecting();
    flushed();
    packets();
    reopened();
    return done();
}
