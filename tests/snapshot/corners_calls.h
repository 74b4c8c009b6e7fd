/* Part of corners.c: calls that block, halfway where there is a half. What ends them is done by a helper process that waits for the
 * end of `go`. */

#define AFTER_GO(...)                                                                                                                      \
    ({                                                                                                                                     \
        pid_t helper = fork();                                                                                                             \
        if (!helper) {                                                                                                                     \
            wait_go();                                                                                                                     \
            sleep_ms(50);                                                                                                                  \
            __VA_ARGS__;                                                                                                                   \
            _exit(0);                                                                                                                      \
        }                                                                                                                                  \
        helper;                                                                                                                            \
    })

static double elapsed(const struct timespec *from)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

#define MARK_TIME struct timespec t0; clock_gettime(CLOCK_MONOTONIC, &t0)
#define TIMED_OUT(e) (errno == (e) && elapsed(&t0) >= 1.0)

static bool case_waitall(void)
{
    int p[2];
    char text[10] = "";
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    put(p[1], "half ");
    AFTER_GO(put(p[1], "full"));
    return recv(p[0], text, 9, MSG_WAITALL) == 9 && !strcmp(text, "half full");
}

static bool case_waitall_tcp(void)
{
    struct sockaddr_in a;
    char text[10] = "";
    int l = inet(SOCK_STREAM, &a), c = socket(AF_INET, SOCK_STREAM, 0);
    listen(l, 1);
    must(connect(c, (void *)&a, sizeof(a)));
    int d = accept(l, NULL, NULL);
    put(c, "half ");
    AFTER_GO(put(c, "full"));
    return recv(d, text, 9, MSG_WAITALL) == 9 && !strcmp(text, "half full");
}

/* More than fits: the rest is sent after; every byte arrives once. */
static bool sends_all(int from, int to, pid_t *reader)
{
    enum { TOTAL = 6000000 };
    char *big = malloc(TOTAL);
    for (int i = 0; i < TOTAL; i++)
        big[i] = (char)(i * 7 + i / 251);
    *reader = fork();
    if (!*reader) {
        wait_go();
        close(from);
        char part[5000];
        long n = 0, k;
        bool good = true;
        while ((k = read(to, part, sizeof(part))) > 0)
            for (long i = 0; i < k; i++, n++)
                good &= n < TOTAL && part[i] == big[n];
        _exit(!(good && n == TOTAL));
    }
    close(to);
    bool good = send(from, big, TOTAL, 0) == TOTAL;
    shutdown(from, SHUT_RDWR);
    close(from);
    int st;
    return good && waitpid(*reader, &st, 0) == *reader && st == 0;
}

static bool case_send_unix(void)
{
    int p[2];
    pid_t r;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    return sends_all(p[0], p[1], &r);
}

static bool case_send_tcp(void)
{
    struct sockaddr_in a;
    pid_t r;
    int l = inet(SOCK_STREAM, &a), c = socket(AF_INET, SOCK_STREAM, 0);
    listen(l, 1);
    must(connect(c, (void *)&a, sizeof(a)));
    int d = accept(l, NULL, NULL);
    close(l);
    return sends_all(c, d, &r);
}

static bool case_sendfile(void)
{
    int p[2], st;
    must(pipe(p));
    int fd = memfd_create("big", 0);
    char *big = malloc(1000000);
    for (int i = 0; i < 1000000; i++)
        big[i] = (char)(i * 3 + i / 256);
    must(write(fd, big, 1000000));
    pid_t r = fork();
    if (!r) {
        close(p[1]);
        wait_go();
        long n = 0, k;
        bool good = true;
        char part[3000];
        while ((k = read(p[0], part, sizeof(part))) > 0)
            for (long i = 0; i < k; i++, n++)
                good &= n < 1000000 && part[i] == big[n];
        _exit(!(good && n == 1000000));
    }
    close(p[0]);
    off_t off = 0;
    while (off < 1000000)
        if (sendfile(p[1], fd, &off, (size_t)(1000000 - off)) <= 0)
            return false;
    close(p[1]);
    return waitpid(r, &st, 0) == r && st == 0;
}

static bool case_splice(void)
{
    int p[2], q[2];
    char text[20];
    must(pipe(p));
    must(pipe(q));
    AFTER_GO(put(p[1], "spliced"));
    return splice(p[0], NULL, q[1], NULL, 100, 0) == 7 && read(q[0], text, 20) == 7 && !memcmp(text, "spliced", 7);
}

static bool case_tee(void)
{
    int p[2], q[2];
    char text[20];
    must(pipe(p));
    must(pipe(q));
    AFTER_GO(put(p[1], "teed"));
    return tee(p[0], q[1], 100, 0) == 4 && read(q[0], text, 20) == 4 && read(p[0], text, 20) == 4;
}

static bool case_packets(void)
{
    int p[2];
    char text[20];
    must(pipe2(p, O_DIRECT));
    put(p[1], "one");
    put(p[1], "three");
    wait_go();
    return read(p[0], text, 20) == 3 && read(p[0], text, 2) == 2 && (put(p[1], "x"), read(p[0], text, 20) == 1);
}

static bool case_connect_unix(void)
{
    struct sockaddr_un u = {AF_UNIX, "\0corners-full-backlog"};
    socklen_t len = 24;
    int l = (int)must(socket(AF_UNIX, SOCK_STREAM, 0)), st;
    must(bind(l, (void *)&u, len));
    must(listen(l, 0));
    pid_t p = fork();
    if (!p) {
        int c[4];
        for (int i = 0; i < 4; i++) {
            c[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            if (connect(c[i], (void *)&u, len))
                _exit(10 + i);
            put(c[i], "connected");
        }
        _exit(0);
    }
    wait_go();
    for (int i = 0; i < 4; i++)
        if (strcmp(get(accept(l, NULL, NULL)), "connected"))
            return false;
    return waitpid(p, &st, 0) == p && st == 0;
}

static bool case_dgram_full(void)
{
    int p[2], st, n = 0;
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    pid_t w = fork();
    if (!w) {
        for (int i = 0; i < 2000; i++)
            if (write(p[1], &i, sizeof(i)) != sizeof(i))
                _exit(1);
        _exit(0);
    }
    wait_go();
    for (int k; n < 2000; n++)
        if (read(p[0], &k, sizeof(k)) != sizeof(k) || k != n)
            return false;
    return waitpid(w, &st, 0) == w && st == 0;
}

static bool case_fifo_writer(void)
{
    must(mkfifo("fifo-w", 0600));
    AFTER_GO(get(open("fifo-w", O_RDONLY)));
    return open("fifo-w", O_WRONLY) >= 0;
}

static bool case_eventfd(bool write_side)
{
    uint64_t v = write_side ? ~1ull : 0, one = 5;
    int e = eventfd(0, 0);
    if (write_side)
        must(write(e, &v, 8));
    if (write_side) {
        AFTER_GO(read(e, &v, 8));
        return write(e, &one, 8) == 8 && read(e, &v, 8) == 8 && v == 5;
    }
    AFTER_GO(write(e, &one, 8));
    return read(e, &v, 8) == 8 && v == 5;
}

static bool case_timerfd_read(void)
{
    MARK_TIME;
    uint64_t v = 0;
    int t = timerfd_create(CLOCK_BOOTTIME, 0);
    must(timerfd_settime(t, 0, &(struct itimerspec){.it_value = {1, 0}}, NULL));
    return read(t, &v, 8) == 8 && v == 1 && elapsed(&t0) >= 1;
}

static bool case_timerfd_absolute(void)
{
    struct timespec now;
    uint64_t v = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec++;
    int t = timerfd_create(CLOCK_REALTIME, 0);
    must(timerfd_settime(t, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &(struct itimerspec){.it_value = now}, NULL));
    long r = read(t, &v, 8);
    return (r == 8 && v == 1) || (r < 0 && errno == ECANCELED);
}

static bool case_signalfd_read(void)
{
    sigset_t set;
    struct signalfd_siginfo si;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int f = signalfd(-1, &set, 0);
    pid_t me = getpid();
    AFTER_GO(sigqueue(me, SIGUSR2, (union sigval){.sival_int = 91}));
    return read(f, &si, sizeof(si)) == sizeof(si) && si.ssi_int == 91;
}

static bool case_inotify_read(void)
{
    char room[1000];
    must(mkdir("notify", 0755));
    int i = inotify_init();
    must(inotify_add_watch(i, "notify", IN_MOVE | IN_CREATE));
    AFTER_GO(close(open("notify/a", O_CREAT | O_WRONLY, 0600)); rename("notify/a", "notify/b"));
    return read(i, room, sizeof(room)) > 16 && !strcmp(room + 16, "a");
}

static bool case_mq_full(void)
{
    char name[40], text[8];
    snprintf(name, sizeof(name), "/corners-%d", getpid());
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
    mqd_t q = (mqd_t)must(mq_open(name, O_RDWR | O_CREAT, 0600, &a));
    mq_unlink(name);
    must(mq_send(q, "1", 2, 0));
    AFTER_GO(mq_receive(q, text, 8, NULL));
    return mq_send(q, "2", 2, 0) == 0;
}

static bool case_mq_notify(void)
{
    char name[40];
    snprintf(name, sizeof(name), "/notify-%d", getpid());
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
    mqd_t q = (mqd_t)must(mq_open(name, O_RDWR | O_CREAT, 0600, &a));
    mq_unlink(name);
    catch(SIGUSR1, on_signal, 0);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    must(mq_notify(q, &e));
    AFTER_GO(mq_send(q, "1", 2, 0));
    return sigsuspend(&old) == -1 && errno == EINTR && usr1_count == 1;
}

static bool case_msg_full(void)
{
    struct { long type; char text[1000]; } t = {7, "x"};
    int q = (int)must(msgget(IPC_PRIVATE, 0600)), st;
    pid_t w = fork();
    if (!w) {
        for (int i = 0; i < 100; i++)
            if (msgsnd(q, &t, 1000, 0))
                _exit(1);
        _exit(0);
    }
    wait_go();
    for (int i = 0; i < 100; i++)
        if (msgrcv(q, &t, 1000, 0, 0) != 1000)
            return false;
    msgctl(q, IPC_RMID, NULL);
    return waitpid(w, &st, 0) == w && st == 0;
}

static bool case_ofd_wait(void)
{
    int a = open("ofd-wait", O_RDWR | O_CREAT, 0600), b = open("ofd-wait", O_RDWR);
    must(fcntl(a, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK}));
    AFTER_GO(fcntl(a, F_OFD_SETLK, &(struct flock){.l_type = F_UNLCK}));
    return fcntl(b, F_OFD_SETLKW, &(struct flock){.l_type = F_WRLCK}) == 0;
}

/* ---- calls with a time-out: they end when it is over, and not before ---- */

static bool case_timed(int which)
{
    MARK_TIME;
    struct timespec one = {1, 0}, abs_real;
    clock_gettime(CLOCK_REALTIME, &abs_real);
    abs_real.tv_sec++;
    sigset_t set;
    int p[2], word = 0;
    must(pipe(p));
    struct pollfd pf = {p[0], POLLIN, 0};
    fd_set fds;
    FD_ZERO(&fds);
    FD_SET(p[0], &fds);
    errno = 0;
    switch (which) {
    case 0:
        return poll(&pf, 1, 1000) == 0 && elapsed(&t0) >= 1;
    case 1: {
        struct timeval tv = {1, 0};
        return select(p[0] + 1, &fds, NULL, NULL, &tv) == 0 && elapsed(&t0) >= 1 && tv.tv_sec == 0 && tv.tv_usec == 0;
    }
    case 2: {
        struct epoll_event e;
        int ep = epoll_create1(0);
        watch(ep, p[0], EPOLLIN, 1);
        return epoll_wait(ep, &e, 1, 1000) == 0 && elapsed(&t0) >= 1;
    }
    case 3:
        return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &one, NULL, 0) == -1 && TIMED_OUT(ETIMEDOUT);
    case 4:
        return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &abs_real, NULL, ~0u) == -1 && errno == ETIMEDOUT;
    case 5:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        return sigtimedwait(&set, NULL, &one) == -1 && TIMED_OUT(EAGAIN);
    case 6: {
        int q = semget(IPC_PRIVATE, 1, 0600);
        bool good = semtimedop(q, &(struct sembuf){0, -1, 0}, 1, &one) == -1 && TIMED_OUT(EAGAIN);
        semctl(q, 0, IPC_RMID);
        return good;
    }
    case 7: {
        int u[2];
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
        setsockopt(u[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){1, 0}, sizeof(struct timeval));
        return recv(u[0], &word, 1, 0) == -1 && TIMED_OUT(EAGAIN);
    }
    case 8: {
        struct sockaddr_in a;
        int l = inet(SOCK_STREAM, &a);
        listen(l, 1);
        setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){1, 0}, sizeof(struct timeval));
        return accept(l, NULL, NULL) == -1 && TIMED_OUT(EAGAIN);
    }
    case 9: {
        int d[2];
        struct mmsghdr h[2] = {0};
        char text[2][10];
        struct iovec v[2] = {{text[0], 10}, {text[1], 10}};
        h[0].msg_hdr.msg_iov = &v[0], h[0].msg_hdr.msg_iovlen = 1;
        h[1].msg_hdr.msg_iov = &v[1], h[1].msg_hdr.msg_iovlen = 1;
        must(socketpair(AF_UNIX, SOCK_DGRAM, 0, d));
        put(d[1], "first");
        AFTER_GO(put(d[1], "second"));
        return recvmmsg(d[0], h, 2, 0, NULL) == 2 && h[0].msg_len == 5 && h[1].msg_len == 6 && !memcmp(text[0], "first", 5);
    }
    case 10: {
        sigset_t empty;
        sigemptyset(&set);
        sigemptyset(&empty);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        catch(SIGUSR1, on_signal, 0);
        pid_t me = getpid();
        AFTER_GO(kill(me, SIGUSR1));
        bool good = ppoll(&pf, 1, NULL, &empty) == -1 && errno == EINTR && usr1_count == 1;
        sigprocmask(SIG_BLOCK, NULL, &empty);
        return good && sigismember(&empty, SIGUSR1);
    }
    case 11: { /* what is left of a sleep that a signal ends */
        struct timespec left = {0, 0};
        catch(SIGUSR1, on_signal, 0);
        pid_t me = getpid();
        AFTER_GO(kill(me, SIGUSR1));
        int r = nanosleep(&(struct timespec){100, 0}, &left);
        double sum = elapsed(&t0) + (double)left.tv_sec + (double)left.tv_nsec / 1e9;
        return r == -1 && errno == EINTR && sum > 99.5 && sum < 101;
    }
    case 12: {
        catch(SIGALRM, on_signal, 0);
        alarm(1);
        return read(p[0], &word, 1) == -1 && TIMED_OUT(EINTR);
    }
    }
    return false;
}

/* ---- terminals ---- */

static int terminal(int *slave, bool raw, int min, int tenths)
{
    int t = (int)must(posix_openpt(O_RDWR | O_NOCTTY));
    struct termios tio;
    grantpt(t);
    unlockpt(t);
    *slave = (int)must(open(ptsname(t), O_RDWR | O_NOCTTY));
    must(tcgetattr(*slave, &tio));
    tio.c_lflag &= ~(tcflag_t)ECHO;
    if (raw)
        cfmakeraw(&tio);
    tio.c_cc[VMIN] = raw ? (cc_t)min : tio.c_cc[VMIN];
    tio.c_cc[VTIME] = raw ? (cc_t)tenths : tio.c_cc[VTIME];
    must(tcsetattr(*slave, TCSANOW, &tio));
    return t;
}

static bool case_tty_line(void)
{
    int sl, t = terminal(&sl, false, 0, 0);
    char text[40] = "";
    put(t, "first line\nhalf a ");
    put(sl, "for the master\n");
    wait_go();
    bool good = read(sl, text, 40) == 11 && !memcmp(text, "first line\n", 11);
    put(t, "lime\177\177ne\n");
    good &= read(sl, text, 40) == 12 && !memcmp(text, "half a line\n", 12);
    return good && read(t, text, 40) == 16 && !memcmp(text, "for the master\r\n", 16);
}

static bool case_tty_min(void)
{
    int sl, t = terminal(&sl, true, 5, 0);
    char text[40] = "";
    put(t, "abc");
    AFTER_GO(put(t, "de"));
    return read(sl, text, 40) == 5 && !memcmp(text, "abcde", 5);
}

static bool case_tty_full(void)
{
    int sl, t = terminal(&sl, true, 1, 0), st;
    pid_t w = fork();
    if (!w) {
        char *big = malloc(100000);
        memset(big, 'z', 100000);
        long n = 0, k;
        while (n < 100000 && (k = write(sl, big + n, (size_t)(100000 - n))) > 0)
            n += k;
        _exit(n != 100000);
    }
    wait_go();
    char part[999];
    for (long n = 0, k; n < 100000; n += k)
        if ((k = read(t, part, sizeof(part))) <= 0)
            return false;
    return waitpid(w, &st, 0) == w && st == 0;
}

static bool case_tty_stopped(void)
{
    int sl, t = terminal(&sl, false, 0, 0), st;
    char text[40];
    must(tcflow(sl, TCOOFF));
    pid_t w = fork();
    if (!w)
        _exit(write(sl, "held", 4) != 4);
    wait_go();
    struct pollfd p = {t, POLLIN, 0};
    bool good = poll(&p, 1, 50) == 0;
    must(tcflow(sl, TCOON));
    return good && read(t, text, 40) == 4 && waitpid(w, &st, 0) == w && st == 0;
}

static bool case_tty_background(void)
{
    int sl, t = terminal(&sl, false, 0, 0), st;
    pid_t leader = fork();
    if (!leader) {
        setsid();
        must(ioctl(sl, TIOCSCTTY, 0));
        pid_t bg = fork();
        if (!bg) {
            char text[10];
            setpgid(0, 0);
            _exit(read(sl, text, 10) != 3);
        }
        setpgid(bg, bg);
        if (waitpid(bg, &st, WUNTRACED) != bg || !WIFSTOPPED(st) || WSTOPSIG(st) != SIGTTIN)
            _exit(1);
        wait_go();
        signal(SIGTTOU, SIG_IGN);
        if (tcgetpgrp(sl) != getpid() || tcsetpgrp(sl, bg) || kill(bg, SIGCONT))
            _exit(2);
        put(t, "go\n");
        _exit(waitpid(bg, &st, 0) != bg || st);
    }
    return waitpid(leader, &st, 0) == leader && st == 0;
}

static bool case_tty_packet(void)
{
    int sl, t = terminal(&sl, false, 0, 0), on = 1;
    char text[10];
    must(ioctl(t, TIOCPKT, &on));
    put(sl, "p");
    wait_go();
    return read(t, text, 10) == 2 && text[0] == 0 && text[1] == 'p' && !tcflush(sl, TCIFLUSH) && read(t, text, 10) == 1 && text[0] & TIOCPKT_FLUSHREAD;
}

static void calls_setup(void)
{
    KID("recv with MSG_WAITALL has half", case_waitall());
    KID("  TCP", case_waitall_tcp());
    KID("send of more than fits", case_send_unix());
    KID("  TCP", case_send_tcp());
    KID("sendfile to a full pipe", case_sendfile());
    KID("splice waits", case_splice());
    KID("tee waits", case_tee());
    KID("a pipe of packets", case_packets());
    KID("connect waits for the backlog", case_connect_unix());
    KID("a queue of datagrams is full", case_dgram_full());
    KID("open of a fifo to write", case_fifo_writer());
    KID("read of an eventfd", case_eventfd(false));
    KID("write of a full eventfd", case_eventfd(true));
    KID("read of a timerfd", case_timerfd_read());
    KID("  of an absolute one", case_timerfd_absolute());
    KID("read of a signalfd", case_signalfd_read());
    KID("read of an inotify", case_inotify_read());
    KID("mq_send to a full queue", case_mq_full());
    KID("mq_notify, sigsuspend", case_mq_notify());
    KID("msgsnd to a full queue", case_msg_full());
    KID("F_OFD_SETLKW", case_ofd_wait());
    static const char *const timed[] = {"poll, timed", "select, timed", "epoll_wait, timed", "futex, timed", "futex, absolute", "sigtimedwait",
        "semtimedop", "SO_RCVTIMEO", "accept with SO_RCVTIMEO", "recvmmsg has half", "ppoll with a mask", "nanosleep: what is left", "alarm"};
    for (int i = 0; i < 13; i++)
        KID(timed[i], case_timed(i));
    KID("half a line of a terminal", case_tty_line());
    KID("VMIN of a terminal", case_tty_min());
    KID("output of a terminal is full", case_tty_full());
    KID("output of a terminal is held", case_tty_stopped());
    KID("SIGTTIN of a background job", case_tty_background());
    KID("packet mode of a terminal", case_tty_packet());
}
