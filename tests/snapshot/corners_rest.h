/* Part of corners.c: what a process is, has in flight, mapped or armed while it waits for the end of `go`. */

static bool proc_says(const char *path, const char *what)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    close(fd);
    return n >= 0 && !strncmp(text, what, strlen(what));
}

static void proc_put(const char *path, const char *what)
{
    int fd = (int)must(open(path, O_WRONLY));
    put(fd, what);
    close(fd);
}

static bool case_limits(void)
{
    struct rlimit l = {1000000, 2000000}, now;
    cpu_set_t one, got;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    must(setrlimit(RLIMIT_FSIZE, &l));
    must(setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 2 << 20}));
    must(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}));
    must(setrlimit(RLIMIT_CPU, &(struct rlimit){500, 600}));
    must(sched_setaffinity(0, sizeof(one), &one));
    must(prctl(PR_SET_DUMPABLE, 0));
    must(prctl(PR_SET_TIMERSLACK, 12345));
    must(prctl(PR_SET_CHILD_SUBREAPER, 1));
    must(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}));
    wait_go();
    bool good = !getrlimit(RLIMIT_FSIZE, &now) && now.rlim_cur == 1000000 && now.rlim_max == 2000000;
    good &= !getrlimit(RLIMIT_STACK, &now) && now.rlim_cur == 1 << 20 && !getrlimit(RLIMIT_CPU, &now) && now.rlim_cur == 500;
    good &= sched_getaffinity(0, sizeof(got), &got) == 0 && CPU_EQUAL(&one, &got) && prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_GET_TIMERSLACK) == 12345;
    int sub = 0;
    good &= !prctl(PR_GET_CHILD_SUBREAPER, &sub) && sub == 1 && sched_getscheduler(0) == SCHED_BATCH;
    signal(SIGXFSZ, SIG_IGN);
    int fd = open("limited", O_RDWR | O_CREAT, 0600);
    return good && ftruncate(fd, 1000001) == -1 && errno == EFBIG;
}

static bool case_oom(void)
{
    proc_put("/proc/self/oom_score_adj", "321");
    wait_go();
    return proc_says("/proc/self/oom_score_adj", "321");
}

/* An orphan of a subreaper's child, which ends after the snapshot. */
static bool case_reaper(void)
{
    int st, p[2];
    must(pipe(p));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!fork()) {
        pid_t o = fork();
        if (!o)
            _exit(wait_go() ? 9 : 8);
        must(write(p[1], &o, sizeof(o)));
        _exit(0);
    }
    pid_t orphan, got;
    must(read(p[0], &orphan, sizeof(orphan)));
    sleep_ms(50);
    must(wait(&st));
    return (got = waitpid(-1, &st, 0)) == orphan && WEXITSTATUS(st) == 9;
}

static bool case_session(void)
{
    pid_t sid = setsid(), g = getpgrp();
    pid_t k = fork();
    if (!k) {
        setpgid(0, 0);
        wait_go();
        _exit(!(getsid(0) == sid && getpgrp() == getpid() && g == sid));
    }
    wait_go();
    int st;
    return getsid(k) == sid && waitpid(-k, &st, 0) == k && st == 0;
}

static bool case_capabilities(void)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2], e[2] = {0};
    must(syscall(SYS_capget, &h, d));
    d[0].effective &= ~(1u << CAP_KILL | 1u << CAP_CHOWN);
    d[0].inheritable = d[0].permitted & 0x21;
    must(syscall(SYS_capset, &h, d));
    wait_go();
    return !syscall(SYS_capget, &h, e) && !memcmp(d, e, sizeof(d));
}

static bool case_environment(void)
{
    char text[64], before[400] = "", after[400] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY);
    must(read(fd, before, 399));
    close(fd);
    snprintf(text, sizeof(text), "value %d", getpid());
    setenv("CORNER", text, 1);
    wait_go();
    fd = open("/proc/self/cmdline", O_RDONLY);
    must(read(fd, after, 399));
    return !memcmp(before, after, 400) && !strcmp(getenv("CORNER"), text);
}

/* ---- in flight ---- */

static bool case_flight(void)
{
    int u[2], p[2], sl, mark_fd;
    char mark, text[40];
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, u));
    int e = epoll_create1(0), t = terminal(&sl, false, 0, 0), m = memfd_create("flies", 0), d = open(".", O_RDONLY | O_DIRECTORY);
    must(pipe(p));
    watch(e, p[0], EPOLLIN, 42);
    put(m, "memory");
    int files[] = {e, sl, m, d, inotify_init(), eventfd(7, 0), u[0]};
    for (int i = 0; i < 7; i++) {
        send_fd(u[1], files[i], (char)('0' + i));
        if (i < 6)
            close(files[i]);
    }
    wait_go();
    put(p[1], "x");
    bool good = ready(receive_fd(u[0], &mark)) == 42;
    mark_fd = receive_fd(u[0], &mark);
    put(t, "typed\n");
    good &= isatty(mark_fd) && read(mark_fd, text, 40) == 6;
    mark_fd = receive_fd(u[0], &mark);
    good &= pread(mark_fd, text, 40, 0) == 6 && !memcmp(text, "memory", 6);
    mark_fd = receive_fd(u[0], &mark);
    good &= openat(mark_fd, "flown", O_CREAT | O_WRONLY, 0600) >= 0 && access("flown", F_OK) == 0;
    good &= inotify_add_watch(receive_fd(u[0], &mark), ".", IN_CREATE) == 1;
    uint64_t v = 0;
    good &= read(receive_fd(u[0], &mark), &v, 8) == 8 && v == 7;
    int self = receive_fd(u[0], &mark); /* the socket in its own queue */
    put(u[1], "self");
    return good && read(self, text, 40) == 4;
}

static bool case_credentials(void)
{
    int u[2], on = 1;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
    must(setsockopt(u[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
    pid_t w = fork();
    if (!w) {
        put(u[1], "c");
        _exit(0);
    }
    waitpid(w, NULL, 0);
    wait_go();
    char c, room[100];
    struct iovec v = {&c, 1};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    if (recvmsg(u[0], &h, 0) != 1 || !CMSG_FIRSTHDR(&h) || CMSG_FIRSTHDR(&h)->cmsg_type != SCM_CREDENTIALS)
        return false;
    return ((struct ucred *)CMSG_DATA(CMSG_FIRSTHDR(&h)))->pid == w;
}

static bool case_pidfd(void)
{
    pid_t k = fork();
    if (!k)
        _exit(wait_go() ? 3 : 4);
    int fd = (int)must(syscall(SYS_pidfd_open, k, 0));
    pid_t k2 = fork();
    if (!k2) {
        pause();
        _exit(0);
    }
    int fd2 = (int)must(syscall(SYS_pidfd_open, k2, 0));
    struct pollfd p = {fd, POLLIN, 0};
    siginfo_t si = {0};
    bool good = poll(&p, 1, -1) == 1;
    good &= waitid(P_PIDFD, (id_t)fd, &si, WEXITED) == 0 && si.si_pid == k && si.si_status == 3;
    good &= syscall(SYS_pidfd_send_signal, fd2, SIGTERM, NULL, 0) == 0;
    return good && waitid(P_PIDFD, (id_t)fd2, &si, WEXITED) == 0 && si.si_status == SIGTERM;
}

static bool case_sigio(void)
{
    int p[2];
    must(pipe(p));
    catch(SIGRTMIN, on_signal, 0);
    must(fcntl(p[0], F_SETOWN, getpid()));
    must(fcntl(p[0], F_SETSIG, SIGRTMIN));
    must(fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    wait_go();
    put(p[1], "x");
    for (int i = 0; i < 100 && !rt_count; i++)
        sleep_ms(10);
    return rt_count == 1 && fcntl(p[0], F_GETOWN) == getpid();
}

static bool case_udp_error(void)
{
    struct sockaddr_in a, b;
    char text[20];
    int x = inet(SOCK_DGRAM, &a), y = inet(SOCK_DGRAM, &b);
    must(connect(x, (void *)&b, sizeof(b)));
    must(connect(y, (void *)&a, sizeof(a)));
    put(y, "kept");
    close(y);
    must(write(x, "z", 1));
    wait_go();
    bool good = read(x, text, 20) == -1 && errno == ECONNREFUSED;
    return good && read(x, text, 20) == 4;
}

static bool case_tcp_ends(void)
{
    struct sockaddr_in a;
    char text[20];
    int l = inet(SOCK_STREAM, &a), c[4], d[4], on = 1;
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    listen(l, 4);
    for (int i = 0; i < 4; i++) {
        c[i] = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(c[i], (void *)&a, sizeof(a)));
        d[i] = accept(l, NULL, NULL);
    }
    put(d[0], "last words");
    close(d[0]); /* data, then the end */
    setsockopt(d[1], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(d[1]); /* reset */
    put(d[2], "unread");
    shutdown(d[2], SHUT_WR);
    shutdown(c[2], SHUT_RD);
    close(l);
    wait_go();
    bool good = read(c[0], text, 20) == 10 && read(c[0], text, 20) == 0;
    good &= read(c[1], text, 20) == -1 && errno == ECONNRESET;
    good &= write(c[2], "up", 2) == 2 && read(d[2], text, 20) == 2;
    put(c[3], "on");
    good &= read(d[3], text, 20) == 2;
    int again = socket(AF_INET, SOCK_STREAM, 0);
    good &= !setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) && !bind(again, (void *)&a, sizeof(a)) && !listen(again, 1);
    return good;
}

static bool case_tcp6(void)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t n = sizeof(a);
    int l = socket(AF_INET6, SOCK_STREAM, 0), c = socket(AF_INET6, SOCK_STREAM, 0);
    if (bind(l, (void *)&a, n))
        return errno == EADDRNOTAVAIL && wait_go(); /* a host without IPv6 */
    getsockname(l, (void *)&a, &n);
    listen(l, 1);
    must(connect(c, (void *)&a, n));
    put(c, "six");
    wait_go();
    return !strcmp(get(accept(l, NULL, NULL)), "six");
}

/* ---- memory ---- */

static bool case_memory(void)
{
    char *reserve = map(1ul << 24, PROT_NONE, PRIVATE | MAP_NORESERVE, -1); /* 64 GB */
    mprotect(reserve + (3ul << 30), 8 * PAGE, RW);
    memset(reserve + (3ul << 30), 61, 8 * PAGE);
    mprotect(reserve + (3ul << 30), PAGE, PROT_NONE);
    int fd = open("short", O_RDWR | O_CREAT, 0600), mem = memfd_create("twice", MFD_ALLOW_SEALING);
    put(fd, "short file");
    char *tail = map(3, RW, MAP_SHARED, fd);
    strcpy(tail + 2000, "in the tail");
    must(ftruncate(mem, 4 * PAGE));
    char *one = map(4, RW, MAP_SHARED, mem), *two = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, mem, 2 * PAGE);
    char *priv = map(4, RW, MAP_PRIVATE, mem);
    must(fcntl(mem, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_GROW));
    priv[PAGE] = 5;
    unlink("short");
    char *gone = map(6, RW, MAP_SHARED | MAP_ANONYMOUS, -1);
    memset(gone, 62, 6 * PAGE);
    gone = mremap(gone, 6 * PAGE, 2 * PAGE, 0);
    char *part = mremap(gone + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, reserve + (9ul << 30));
    char *x = map(2, RW, PRIVATE, -1);
    memcpy(x, "\xb8\x2a\0\0\0\xc3", 6);
    mprotect(x, PAGE, PROT_EXEC);
    mprotect(x + PAGE, PAGE, PROT_NONE);
    pid_t k = fork(); /* shares it all, and writes */
    if (!k) {
        priv[0] = 9;
        reserve[(3ul << 30) + PAGE] = 63;
        wait_go();
        one[3 * PAGE] = 77;
        gone[5] = 78;
        _exit(!(priv[0] == 9 && reserve[(3ul << 30) + PAGE] == 63 && reserve[(3ul << 30) + 2 * PAGE] == 61));
    }
    wait_go();
    int st;
    bool good = waitpid(k, &st, 0) == k && st == 0;
    good &= faults(reserve + (3ul << 30), false) && faults(reserve + (3ul << 30) + 8 * PAGE, false) && alike(reserve + (3ul << 30) + PAGE, 7, 61);
    good &= !strcmp(tail + 2000, "in the tail");
    struct sigaction sa = {.sa_handler = on_fault};
    sigaction(SIGBUS, &sa, NULL);
    if (!sigsetjmp(fault_at, 1)) {
        tail[PAGE] = 1;
        good = false;
    }
    good &= one[3 * PAGE] == 77 && two[PAGE] == 77 && priv[0] == 0 && priv[PAGE] == 5 && priv[3 * PAGE] == 77;
    good &= write(mem, "x", 1) == -1 && errno == EPERM && ftruncate(mem, 5 * PAGE) == -1;
    two[0] = 3;
    good &= one[2 * PAGE] == 3 && gone[5] == 78 && part[5] == 62;
    return good && ((int (*)(void))(uintptr_t)x)() == 42 && faults(x + PAGE, false);
}

/* A program whose file is a memfd, one whose file is gone, and one that has no mapping of the start any more. */
static bool case_nameless(bool memfd)
{
    int from = open("/proc/self/exe", O_RDONLY), to = memfd ? memfd_create("program", 0) : open("copy", O_RDWR | O_CREAT, 0700), st;
    char part[65536], target[200] = "";
    ssize_t n;
    while ((n = read(from, part, sizeof(part))) > 0)
        must(write(to, part, (size_t)n));
    if (!memfd) {
        close(to);
        to = open("copy", O_RDONLY);
    }
    int stay[2]; /* until its name has been looked at */
    must(pipe(stay));
    pid_t k = fork();
    if (!k) {
        char number[12];
        close(stay[1]);
        snprintf(number, sizeof(number), "%d", stay[0]);
        fexecve(to, (char *[]){"corners", number, NULL}, environ);
        _exit(99);
    }
    close(to);
    sleep_ms(300);
    unlink("copy");
    wait_go();
    snprintf(part, sizeof(part), "/proc/%d/exe", k);
    must(readlink(part, target, 199));
    close(stay[1]);
    return strstr(target, "deleted") && waitpid(k, &st, 0) == k && st == 0;
}

/* ---- files ---- */

static bool case_files(void)
{
    char text[64];
    int t = open(".", O_TMPFILE | O_RDWR, 0640), h = open("holes", O_RDWR | O_CREAT, 0600), r = open("holes", O_RDONLY | O_NOATIME);
    if (t >= 0)
        put(t, "a name later");
    char *page = malloc(65536);
    memset(page, 'h', 65536);
    must(write(h, page, 65536));
    must(fallocate(h, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096));
    must(fallocate(h, FALLOC_FL_KEEP_SIZE, 65536, 8192));
    bool attrs = !fsetxattr(h, "user.corner", "value", 5, 0);
    must(mkdir("many", 0700));
    for (int i = 0; i < 50; i++) {
        char name[20];
        snprintf(name, sizeof(name), "many/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    int many = open("many", O_RDONLY | O_DIRECTORY);
    pread(r, text, 1, 0);
    wait_go();
    bool good = true;
    if (t >= 0) {
        snprintf(text, sizeof(text), "/proc/self/fd/%d", t);
        good &= linkat(AT_FDCWD, text, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0;
        struct stat st;
        good &= !stat("named", &st) && st.st_size == 12 && (st.st_mode & 0777) == 0640;
    }
    pread(h, page, 65536, 0);
    good &= all(page, 8192, 'h') && all(page + 8192, 4096, 0) && all(page + 12288, 65536 - 12288, 'h');
    good &= lseek(h, 0, SEEK_HOLE) == 8192;
    good &= !attrs || (fgetxattr(r, "user.corner", text, 64) == 5 && !memcmp(text, "value", 5));
    for (int i = 0; i < 50; i += 2) {
        char name[20];
        snprintf(name, sizeof(name), "many/%d", i);
        unlink(name);
    }
    char room[8192];
    long names = 0;
    for (long n; (n = syscall(SYS_getdents64, many, room, sizeof(room))) > 0;)
        for (long at = 0; at < n; names++)
            at += *(unsigned short *)(room + at + 16);
    return good && names == 27;
}

static bool case_mounts(void)
{
    char text[200];
    must(mkdir("mnt", 0755));
    must(mkdir("bound", 0755));
    if (mount("none", "mnt", "tmpfs", 0, "size=1m"))
        return errno == EPERM && wait_go(); /* natively not root */
    close(open("mnt/inside", O_CREAT | O_WRONLY, 0600));
    must(mount("mnt", "bound", NULL, MS_BIND, NULL));
    int keep = open("mnt/inside", O_RDWR);
    must(chdir("bound"));
    must(umount2("../mnt", MNT_DETACH));
    wait_go();
    put(keep, "still");
    int fd = open("inside", O_RDONLY);
    bool good = read(fd, text, 20) == 5 && access("../mnt/inside", F_OK) == -1;
    close(fd);
    close(keep);
    good &= chdir("..") == 0 && umount("bound") == 0 && access("bound/inside", F_OK) == -1;
    return good;
}

static bool case_root(void)
{
    must(mkdir("jail", 0755));
    must(mkdir("jail/in", 0755));
    if (chroot("jail") || chdir("/in"))
        return errno == EPERM && wait_go();
    wait_go();
    char text[100];
    return getcwd(text, 100) && !strcmp(text, "/in") && access("/etc", F_OK) == -1 && access("/../in", F_OK) == 0;
}

/* ---- timers, signals, threads ---- */

static timer_t thread_timer;
static volatile int timer_tid, got_tid;
static void to_thread(int sig) { got_tid = (int)syscall(SYS_gettid); }
static void *timer_thread(void *arg)
{
    timer_tid = (int)syscall(SYS_gettid);
    read(((int *)arg)[0], &(char){0}, 1);
    sleep_ms(5);
    for (int i = 0; i < 400 && !got_tid; i++)
        sleep_ms(10);
    return NULL;
}

static bool case_thread_timer(void)
{
    pthread_t th;
    struct sigaction sa = {.sa_handler = to_thread, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 3, &sa, NULL);
    pthread_create(&th, NULL, timer_thread, go);
    while (!timer_tid)
        sleep_ms(1);
    struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};
    e._sigev_un._tid = timer_tid;
    must(timer_create(CLOCK_MONOTONIC, &e, &thread_timer));
    must(timer_settime(thread_timer, 0, &(struct itimerspec){.it_value = {1, 0}}, NULL));
    pthread_join(th, NULL);
    return got_tid == timer_tid;
}

static volatile int prof_count;
static void on_prof(int sig) { prof_count++; }
static bool case_cpu_timers(void)
{
    timer_t t;
    struct itimerspec left;
    struct itimerval il;
    struct timespec before, after;
    signal(SIGPROF, on_prof);
    catch(SIGRTMIN, on_signal, 0);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    must(timer_create(CLOCK_PROCESS_CPUTIME_ID, &e, &t));
    must(timer_settime(t, 0, &(struct itimerspec){.it_value = {0, 200000000}}, NULL));
    must(setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0, 100000}}, NULL));
    for (volatile int i = 0; i < 10000000; i++)
        ;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    wait_go();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    bool good = after.tv_sec > before.tv_sec || (after.tv_sec == before.tv_sec && after.tv_nsec >= before.tv_nsec);
    good &= after.tv_sec - before.tv_sec < 2;
    good &= rt_count || (!timer_gettime(t, &left) && left.it_value.tv_nsec <= 200000000);
    getitimer(ITIMER_PROF, &il);
    for (long i = 0; i < 3000000000l && (!rt_count || !prof_count); i++)
        __asm__ volatile("");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return good && rt_count == 1 && prof_count == 1 && after.tv_sec * 1000000000l + after.tv_nsec >= 200000000;
}

static bool case_pending(void)
{
    sigset_t set, now;
    struct timespec zero = {0, 0};
    siginfo_t si;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1); /* the thread's */
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 5}); /* the process's */
    pid_t k = fork();
    if (!k)
        _exit(3);
    sleep_ms(50);
    signal(SIGHUP, SIG_IGN);
    struct sigaction reset = {.sa_handler = to_thread, .sa_flags = SA_RESETHAND | SA_NODEFER}, old;
    sigaction(SIGTERM, &reset, NULL);
    wait_go();
    sigpending(&now);
    bool good = sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2) && sigismember(&now, SIGCHLD);
    good &= sigtimedwait(&set, &si, &zero) == SIGUSR1 && si.si_pid == getpid();
    good &= sigtimedwait(&set, &si, &zero) == SIGUSR2 && si.si_int == 5;
    good &= sigtimedwait(&set, &si, &zero) == SIGCHLD && si.si_pid == k && si.si_status == 3;
    raise(SIGHUP);
    raise(SIGTERM);
    sigaction(SIGTERM, NULL, &old);
    return good && old.sa_handler == SIG_DFL && waitpid(k, NULL, 0) == k;
}

static bool case_nowait(void)
{
    struct sigaction sa = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &sa, NULL);
    pid_t k = fork();
    if (!k)
        _exit(!wait_go());
    return waitpid(k, NULL, 0) == -1 && errno == ECHILD;
}

static void *vfork_thread(void *arg)
{
    int st;
    pid_t k = vfork();
    if (!k) {
        read(go[0], arg, 1);
        _exit(6);
    }
    return waitpid(k, &st, 0) == k && WEXITSTATUS(st) == 6 ? arg : NULL;
}

static bool case_vfork_threads(void)
{
    pthread_t t[3];
    char room[3];
    void *r;
    bool good = true;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, vfork_thread, &room[i]);
    for (int i = 0; i < 3; i++)
        good &= !pthread_join(t[i], &r) && r == &room[i];
    return good;
}

/* The leader has ended, its threads have not. */
static void *last_thread(void *arg)
{
    wait_go();
    _exit(0);
}

static bool case_leader_gone(void)
{
    pthread_t t;
    pthread_create(&t, NULL, last_thread, NULL);
    syscall(SYS_exit, 5);
    return false;
}

/* Upper halves of vector registers and flags of a thread that never enters the kernel. */
static bool case_vectors(void)
{
    volatile int *stop = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!__builtin_cpu_supports("avx2"))
        return wait_go();
    AFTER_GO(*stop = 1);
    unsigned char in[64], out[64];
    unsigned long flags;
    for (int i = 0; i < 64; i++)
        in[i] = (unsigned char)(i * 5 + 1);
    __asm__ volatile("vmovdqu (%2), %%ymm5; vmovdqu 32(%2), %%ymm14; std\n"
                     "1: cmpl $0, (%1); je 1b\n"
                     "pushf; pop %0; cld; vmovdqu %%ymm5, (%3); vmovdqu %%ymm14, 32(%3); vzeroupper"
                     : "=&r"(flags) : "r"(stop), "r"(in), "r"(out) : "xmm5", "xmm14", "memory", "cc");
    return !memcmp(in, out, 64) && flags & 0x400;
}

/* Clocks never go back, however they are read, in a loop over the snapshot. */
static bool case_clocks(void)
{
    static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, CLOCK_TAI};
    struct timespec last[6] = {0}, now;
    struct pollfd p = {go[0], POLLIN, 0};
    bool good = true;
    while (poll(&p, 1, 2) == 0)
        for (int i = 0; i < 6; i++) {
            clock_gettime(clocks[i], &now);
            if (now.tv_sec < last[i].tv_sec || (now.tv_sec == last[i].tv_sec && now.tv_nsec < last[i].tv_nsec)) {
                note("clock %d: %ld.%09ld after %ld.%09ld", clocks[i], (long)now.tv_sec, now.tv_nsec, (long)last[i].tv_sec, last[i].tv_nsec);
                good = false;
            }
            last[i] = now;
        }
    return good;
}

static bool case_barrier(void)
{
    pthread_barrier_t *b = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlock_t *l = (void *)((char *)b + 512);
    pthread_barrierattr_t a;
    pthread_rwlockattr_t la;
    pthread_barrierattr_init(&a);
    pthread_barrierattr_setpshared(&a, 1);
    pthread_barrier_init(b, &a, 3);
    pthread_rwlockattr_init(&la);
    pthread_rwlockattr_setpshared(&la, 1);
    pthread_rwlock_init(l, &la);
    pthread_rwlock_rdlock(l);
    int st;
    pid_t one = fork();
    if (!one) {
        pthread_barrier_wait(b);
        _exit(7);
    }
    pid_t two = fork();
    if (!two) {
        pthread_rwlock_wrlock(l);
        pthread_rwlock_unlock(l);
        pthread_barrier_wait(b);
        _exit(8);
    }
    wait_go();
    pthread_rwlock_unlock(l);
    pthread_barrier_wait(b);
    return waitpid(one, &st, 0) == one && WEXITSTATUS(st) == 7 && waitpid(two, &st, 0) == two && WEXITSTATUS(st) == 8;
}

static void rest_setup(void)
{
    KID("limits, affinity, dumpable, subreaper", case_limits());
    KID("oom_score_adj", case_oom());
    KID("an orphan of a subreaper", case_reaper());
    KID("sessions and groups", case_session());
    KID("capabilities", case_capabilities());
    KID("environment and cmdline", case_environment());
    KID("descriptors of all kinds in flight", case_flight());
    KID("credentials in flight", case_credentials());
    KID("pidfds", case_pidfd());
    KID("O_ASYNC", case_sigio());
    KID("an error of UDP before a datagram", case_udp_error());
    KID("ends of TCP connections", case_tcp_ends());
    KID("TCP over IPv6", case_tcp6());
    KID("guard pages, tails of files, mappings of parts", case_memory());
    KID("a program in a memfd", case_nameless(true));
    KID("a program that was removed", case_nameless(false));
    KID("files without a name, with holes and attributes", case_files());
    KID("mounts", case_mounts());
    KID("a root of its own", case_root());
    KID("a timer for one thread", case_thread_timer());
    KID("timers of processor time", case_cpu_timers());
    KID("pending signals", case_pending());
    KID("children nobody waits for", case_nowait());
    KID("threads in vfork", case_vfork_threads());
    KID("the first thread has ended", case_leader_gone());
    KID("vector registers and flags", case_vectors());
    KID("clocks do not go back", case_clocks());
    KID("a barrier and a lock for readers", case_barrier());
}
