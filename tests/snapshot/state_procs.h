/* Part of state.c: processes, threads, signals, a terminal. Each child waits in a call of its own and ends with 0 when that gave what
 * it should, after release() did what it waits for. */
static struct shared {
    volatile int counter, in_handler, after_handler, vforked, futex_word, fp_ran, alarms, absolute, deleted_ready;
    volatile bool stop;
    pthread_mutex_t robust, inherit;
    pthread_cond_t cond;
    pthread_mutex_t lock;
    volatile int flag;
} *s;

static struct kid {
    const char *name;
    pid_t pid;
} kids[96];
static int kid_count;
static int go[2]; /* children that only wait for this to be closed */

/* KID("name", statements; value): the child's status is !value */
#define KID(what, ...)                                                                                                                     \
    ({                                                                                                                                     \
        pid_t kid_pid = fork();                                                                                                            \
        if (!kid_pid) {                                                                                                                    \
            close(go[1]);                                                                                                                  \
            bool kid_good = ({ __VA_ARGS__; });                                                                                            \
            _exit(!kid_good);                                                                                                              \
        }                                                                                                                                  \
        kids[kid_count++] = (struct kid){what, kid_pid};                                                                                   \
        kid_pid;                                                                                                                           \
    })
static bool wait_go(void) { return read(go[0], &(char){0}, 1) == 0; }

static int blocked[2], master, words[2], lock_fd;
static pid_t stopped, zombie, spinner, sigwaiter, pauser, shell, suspended;
static pthread_t handler_thread, fp_thread, inherit_thread, cond_thread, spin_thread;
static int handler_pipe[2];
static __thread int tls_value;
static timer_t once, often;
static volatile int once_count, often_count, usr1_count, rt_count, rt_values[4];
static struct timespec began, began_boot;

static void on_signal(int sig, siginfo_t *si, void *ctx)
{
    (void)ctx;
    if (sig == SIGUSR1)
        usr1_count++;
    if (sig == SIGRTMIN && rt_count < 4)
        rt_values[rt_count++] = si->si_int;
    if (sig == SIGRTMIN + 1)
        once_count++;
    if (sig == SIGRTMIN + 2)
        often_count++;
    if (sig == SIGALRM)
        s->alarms++;
}

static void catch(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
    struct sigaction sa = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags};
    sigaction(sig, &sa, NULL);
}

/* Runs on the alternate stack, in the middle of arithmetic, while the snapshot is taken. */
static char *alt_stack;
static void slow_handler(int sig, siginfo_t *si, void *ctx)
{
    char c, *here = &c;
    (void)si, (void)ctx;
    sigset_t now;
    s->in_handler = 1;
    bool good = read(handler_pipe[0], &c, 1) == 1 && here > alt_stack && here < alt_stack + 65536;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    s->in_handler = good && sigismember(&now, sig) && sigismember(&now, SIGUSR2) ? 2 : 3;
}

static void *handler_main(void *arg)
{
    alt_stack = map(16, RW, PRIVATE, -1);
    stack_t st = {.ss_sp = alt_stack, .ss_size = 65536};
    sigaltstack(&st, NULL);
    struct sigaction sa = {.sa_sigaction = slow_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaddset(&sa.sa_mask, SIGUSR2);
    sigaction(SIGRTMIN + 5, &sa, NULL);
    tls_value = 4711;
    register double x __asm__("xmm9") = 2.5;
    register long y __asm__("r14") = 123456789;
    __asm__ volatile("" : "+x"(x), "+r"(y));
    sigset_t all_set, now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    long r = syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGRTMIN + 5);
    __asm__ volatile("" : "+x"(x), "+r"(y));
    bool good = r == 0 && x == 2.5 && y == 123456789 && tls_value == 4711;
    pthread_sigmask(SIG_BLOCK, NULL, &all_set);
    sigaltstack(NULL, &st);
    s->after_handler = good && !memcmp(&now, &all_set, 8) && st.ss_sp == alt_stack && !(st.ss_flags & SS_ONSTACK) ? 1 : 2;
    return arg;
}

/* Vector registers and the rounding modes of a thread that never enters the kernel. */
static void *fp_main(void *arg)
{
    unsigned csr = 0x1f80 | 0x6000, csr_now = 0;
    unsigned short cw = 0x0c7f, cw_now = 0;
    unsigned long v[4] = {1, 2, 3, 4}, out[4];
    __asm__ volatile("ldmxcsr %0; fldcw %1" ::"m"(csr), "m"(cw));
    s->fp_ran = 1;
    __asm__ volatile("movdqu (%2), %%xmm3; movdqu 16(%2), %%xmm15; fldpi\n"
                     "1: cmpb $0, %1; je 1b\n"
                     "movdqu %%xmm3, (%3); movdqu %%xmm15, 16(%3); fldpi; fcomip %%st(1), %%st; sete %0; fstp %%st"
                     : "=&r"(*(char *)&csr_now) : "m"(s->stop), "r"(v), "r"(out) : "xmm3", "xmm15", "memory", "cc");
    bool pi = *(char *)&csr_now == 1;
    csr_now = 0;
    __asm__ volatile("stmxcsr %0; fstcw %1" : "=m"(csr_now), "=m"(cw_now));
    s->fp_ran = pi && !memcmp(v, out, 32) && (csr_now & 0x6000) == 0x6000 && cw_now == cw ? 2 : 3;
    return arg;
}

static void *inherit_main(void *arg)
{
    long r = pthread_mutex_lock(&s->inherit);
    pthread_mutex_unlock(&s->inherit);
    return r ? NULL : arg;
}

static void *cond_main(void *arg)
{
    pthread_mutex_lock(&s->lock);
    while (!s->flag)
        pthread_cond_wait(&s->cond, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return arg;
}

static void *spin_main(void *arg)
{
    tls_value = 99;
    while (!s->stop)
        s->counter++;
    return tls_value == 99 ? arg : NULL;
}

static bool robust_kid(void)
{
    pthread_mutex_lock(&s->robust);
    return wait_go(); /* ends as its owner */
}

static bool vfork_kid(void)
{
    volatile int mark = 5;
    int fd = go[0];
    pid_t p = vfork();
    if (!p) {
        s->vforked = 1;
        mark = read(fd, &(char){0}, 1) == 0 ? 6 : 7;
        _exit(3);
    }
    int st;
    return mark == 6 && waitpid(p, &st, 0) == p && WEXITSTATUS(st) == 3;
}

static bool deleted_kid(void)
{
    char text[4096];
    mkdir("gone", 0700);
    if (chdir("gone") || rmdir("../gone"))
        return false;
    wait_go();
    ssize_t n = readlink("/proc/self/cwd", text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    return syscall(SYS_getcwd, text + 2000, 1000) < 0 && errno == ENOENT && strstr(text, "gone (deleted)") && open("x", O_CREAT | O_RDWR, 0600) < 0;
}

static bool user_kid(void)
{
    struct rlimit l = {777, 999}, now;
    uid_t u, e, v;
    mode_t mask = 0;
    bool root = !geteuid();
    setrlimit(RLIMIT_NOFILE, &l);
    umask(031);
    prctl(PR_SET_NAME, "named");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGUSR2);
    nice(3);
    if (root && (setgroups(2, (gid_t[]){7, 8}) || setresgid(31, 32, 31) || setresuid(21, 22, 21)))
        return false;
    wait_go();
    char name[16];
    int sig = 0;
    gid_t groups[8] = {0};
    prctl(PR_GET_NAME, name);
    prctl(PR_GET_PDEATHSIG, &sig);
    getrlimit(RLIMIT_NOFILE, &now);
    getresuid(&u, &e, &v);
    mask = umask(0);
    bool ids = !root || (u == 21 && e == 22 && v == 21 && getegid() == 32 && getgroups(8, groups) == 2 && groups[1] == 8 && setuid(0) == -1);
    return ids && now.rlim_cur == 777 && now.rlim_max == 999 && mask == 031 && !strcmp(name, "named") && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
           (root || sig == SIGUSR2) && getpriority(PRIO_PROCESS, 0) == 3;
}

static bool sleeper(bool absolute)
{
    struct timespec t = {0, 700000000}, now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct timespec until = {now.tv_sec + 1, now.tv_nsec};
    return absolute ? clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0 && now_s(CLOCK_MONOTONIC) >= (double)now.tv_sec + 1
                    : nanosleep(&t, NULL) == 0 && now_s(CLOCK_MONOTONIC) - (double)now.tv_sec - (double)now.tv_nsec / 1e9 >= 0.7;
}

static bool waits_for_child(void)
{
    int st;
    pid_t p = fork();
    if (!p)
        _exit(wait_go() ? 17 : 1);
    return waitpid(p, &st, 0) == p && WEXITSTATUS(st) == 17;
}

static bool gets_signal(int sig)
{
    sigset_t set;
    siginfo_t si;
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return sigwaitinfo(&set, &si) == sig && si.si_pid == getppid();
}

static bool pauses(void)
{
    catch(SIGUSR1, on_signal, 0);
    return pause() == -1 && errno == EINTR && usr1_count == 1;
}

static bool polls(int how)
{
    struct pollfd p = {words[0], POLLIN, 0};
    int e = epoll_create1(0);
    watch(e, words[0], EPOLLIN, 5);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(words[0], &set);
    struct epoll_event ev;
    return how == 0 ? poll(&p, 1, 600000) == 1 : how == 1 ? epoll_wait(e, &ev, 1, -1) == 1 : select(words[0] + 1, &set, NULL, NULL, NULL) == 1;
}

static bool waits_lock(bool posix)
{
    int fd = open("waited", O_RDWR);
    return posix ? !fcntl(fd, F_SETLKW, &(struct flock){.l_type = F_WRLCK, .l_len = 5}) : !flock(fd, LOCK_EX);
}

static bool receives_message(void)
{
    struct { long type; char text[8]; } t;
    return msgrcv(o.queue, &t, 8, 55, 0) == 8 && !strcmp(t.text, "late");
}

static bool accepts(int fd)
{
    struct sockaddr_in a;
    (void)fd;
    int l = inet(SOCK_STREAM, &a);
    listen(l, 3);
    s->futex_word = ntohs(a.sin_port);
    int c = accept(l, NULL, NULL);
    return !strcmp(get(c), "hello");
}

static void locks_setup(void)
{
    pthread_mutexattr_t a;
    pthread_condattr_t ca;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &a);
    pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&s->inherit, &a);
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->robust, &a);
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&s->cond, &ca);
}

static void block_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGALRM);
    for (int i = 0; i < 3; i++)
        sigaddset(&set, SIGRTMIN + i);
    pthread_sigmask(how, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 9); /* for signalfd */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void threads_setup(void)
{
    must(pipe(handler_pipe));
    pthread_mutex_lock(&s->inherit);
    pthread_create(&handler_thread, NULL, handler_main, &kids);
    pthread_create(&fp_thread, NULL, fp_main, &kids);
    pthread_create(&inherit_thread, NULL, inherit_main, &kids);
    pthread_create(&cond_thread, NULL, cond_main, &kids);
    pthread_create(&spin_thread, NULL, spin_main, &kids);
}

static void kids_setup(void)
{
    KID("a process with other ids, limits and names", user_kid());
    KID("the current directory is deleted", deleted_kid());
    KID("vfork", vfork_kid());
    KID("the owner of a robust mutex", robust_kid());
    KID("nanosleep", sleeper(false));
    KID("clock_nanosleep", sleeper(true));
    KID("wait", waits_for_child());
    sigwaiter = KID("sigwaitinfo", gets_signal(SIGUSR2));
    pauser = KID("pause", pauses());
    KID("poll", polls(0));
    KID("epoll_wait", polls(1));
    KID("select", polls(2));
    KID("F_SETLKW", waits_lock(true));
    KID("flock", waits_lock(false));
    KID("msgrcv", receives_message());
    KID("semop", semop(o.sem, &(struct sembuf){2, -1, 0}, 1) == 0);
    KID("mq_receive", mq_receive(o.mq_empty, (char[64]){0}, 64, NULL) == 7);
    KID("accept", accepts(0));
    KID("read of a pipe", !strcmp(get(blocked[0]), "at last"));
    KID("open of a fifo", !strcmp(get(open("fifo2", O_RDONLY)), "opened"));
    KID("SEM_UNDO", semop(o.sem, &(struct sembuf){0, -2, SEM_UNDO}, 1) == 0 && wait_go());
    KID("a write to a full pipe", ({ int p[2]; char *big = calloc(1, 100000); pipe(p);
        pid_t r = fork(); if (!r) { close(p[1]); wait_go(); long n = 0, k; while ((k = read(p[0], big, 999)) > 0) n += k; _exit(n == 100000 ? 5 : 6); }
        int st; close(p[0]); write(p[1], big, 100000) == 100000 && !close(p[1]) && waitpid(r, &st, 0) == r && WEXITSTATUS(st) == 5; }));
}

static void processes_setup(void)
{
    if (!(zombie = fork()))
        _exit(33);
    if (!(stopped = fork())) {
        close(go[1]);
        raise(SIGSTOP);
        _exit(wait_go() ? 44 : 45);
    }
    if (!(suspended = fork())) {
        close(go[1]);
        setpgid(0, 0);
        raise(SIGTSTP);
        _exit(46);
    }
    must(waitpid(suspended, NULL, WUNTRACED)); /* this one's stop has been told */
    if (!(spinner = fork())) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 0;; i++)
            if (i % 65536 == 0)
                sched_yield();
    }
    master = (int)must(posix_openpt(O_RDWR | O_NOCTTY));
    grantpt(master);
    unlockpt(master);
    struct winsize w = {33, 77, 0, 0};
    ioctl(master, TIOCSWINSZ, &w);
    const char *name = ptsname(master);
    if (!(shell = fork())) {
        setsid();
        int t = open(name, O_RDWR);
        for (int i = 0; i < 3; i++)
            dup2(t, i);
        for (int i = 3; i < 255; i++)
            close(i);
        setenv("PS1", "", 1);
        unsetenv("ENV");
        execl("/bin/sh", "sh", "-i", NULL);
        _exit(1);
    }
    put(master, "stty -echo; read x; echo up; read x; echo got $x; sleep 100\n\n");
}

static void signals_setup(void)
{
    catch(SIGUSR1, on_signal, SA_RESTART);
    catch(SIGALRM, on_signal, SA_RESTART);
    for (int i = 0; i < 3; i++)
        catch(SIGRTMIN + i, on_signal, SA_RESTART);
    kill(getpid(), SIGUSR1);
    for (int i = 1; i < 4; i++)
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i * 11});
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    must(timer_create(CLOCK_MONOTONIC, &e, &once));
    e.sigev_signo = SIGRTMIN + 2;
    must(timer_create(CLOCK_REALTIME, &e, &often));
    struct itimerspec soon = {.it_value = {0, 400000000}}, repeat = {.it_value = {0, 50000000}, .it_interval = {0, 50000000}};
    must(timer_settime(once, 0, &soon, NULL));
    must(timer_settime(often, 0, &repeat, NULL));
    alarm(1);
    clock_gettime(CLOCK_MONOTONIC, &began);
    clock_gettime(CLOCK_BOOTTIME, &began_boot);
}

static void processes_prepare(void)
{
    s = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    locks_setup();
    must(pipe(go));
    must(pipe(blocked));
    must(pipe(words));
    must(mkfifo("fifo2", 0600));
    lock_fd = (int)must(open("waited", O_RDWR | O_CREAT, 0600));
    must(flock(lock_fd, LOCK_EX));
    must(fcntl(lock_fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 5}));
}

/* ---- checks ---- */

static void check_signals(void)
{
    sigset_t set;
    sigpending(&set);
    ok(sigismember(&set, SIGUSR1) && sigismember(&set, SIGRTMIN), "signals pending");
    for (int i = 0; i < 100 && (sigpending(&set), !sigismember(&set, SIGALRM) || !sigismember(&set, SIGRTMIN + 1)); i++)
        sleep_ms(20);
    block_signals(SIG_UNBLOCK);
    sleep_ms(150);
    is(usr1_count, 1, "a signal that was blocked");
    ok(rt_count == 3 && rt_values[0] == 11 && rt_values[1] == 22 && rt_values[2] == 33, "signals in a queue");
    is(once_count, 1, "a POSIX timer fires once");
    ok(often_count >= 2 && often_count < 30, "a POSIX timer goes on");
    is(s->alarms, 1, "alarm");
    struct itimerspec t;
    ok(!timer_gettime(often, &t) && t.it_interval.tv_nsec == 50000000, "timer_gettime");
    timer_delete(often);
    struct timespec now, boot;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    double passed = (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
    ok(passed > 0 && passed < 1000, "CLOCK_MONOTONIC goes on");
    passed = (double)(boot.tv_sec - began_boot.tv_sec) + (double)(boot.tv_nsec - began_boot.tv_nsec) / 1e9;
    ok(passed > 0 && passed < 1000, "CLOCK_BOOTTIME goes on");
    ok(fabs(now_s(CLOCK_REALTIME) - (double)time(NULL)) < 2, "CLOCK_REALTIME");
}

static void check_threads(void)
{
    void *r = NULL;
    is(s->in_handler, 1, "a handler runs");
    put(handler_pipe[1], "x");
    pthread_join(handler_thread, &r);
    is(s->in_handler, 2, "  goes on, on its stack");
    is(s->after_handler, 1, "  and returns: registers, mask and stack");
    int before = s->counter;
    for (int i = 0; i < 50 && s->counter == before; i++)
        sleep_ms(20);
    ok(s->counter != before, "a thread that runs");
    s->stop = true;
    pthread_join(spin_thread, &r);
    ok(r, "  thread-local memory");
    pthread_join(fp_thread, &r);
    is(s->fp_ran, 2, "vector registers and rounding");
    is(tls_value, 123, "thread-local memory of the main thread");
    pthread_mutex_unlock(&s->inherit);
    pthread_join(inherit_thread, &r);
    ok(r, "a mutex with priority inheritance");
    pthread_mutex_lock(&s->lock);
    s->flag = 1;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
    pthread_join(cond_thread, &r);
    ok(r, "a condition");
    pthread_t t;
    s->stop = false;
    is(pthread_create(&t, NULL, spin_main, &kids), 0, "a new thread");
    sleep_ms(5);
    s->stop = true;
    pthread_join(t, &r);
    ok(r, "  runs");
    is(deep(2000), 0, "the stack grows");
}

static void release(void)
{
    put(blocked[1], "at last");
    put(words[1], "w");
    kill(sigwaiter, SIGUSR2);
    kill(pauser, SIGUSR1);
    msgsnd(o.queue, &(struct { long type; char text[8]; }){55, "late"}, 8, 0);
    semop(o.sem, &(struct sembuf){2, 1, 0}, 1);
    mq_send(o.mq_empty, "waited", 7, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->futex_word), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (!connect(c, (void *)&a, sizeof(a)))
        put(c, "hello");
    close(c);
    int fifo = open("fifo2", O_WRONLY);
    put(fifo, "opened");
    close(fifo);
    flock(lock_fd, LOCK_UN); /* children have it, too */
    close(lock_fd); /* with it the POSIX lock */
    kill(stopped, SIGCONT);
    close(go[1]);
}

/* The terminal's output up to a line. */
static bool says(const char *what)
{
    static char all_text[8192];
    static size_t n;
    for (int i = 0; i < 200; i++) {
        if (strstr(all_text, what))
            return true;
        struct pollfd p = {master, POLLIN, 0};
        if (poll(&p, 1, 50) == 1) {
            ssize_t k = read(master, all_text + n, sizeof(all_text) - 1 - n);
            if (k <= 0)
                break;
            n += (size_t)k;
            for (char *e; (e = memchr(all_text, '\r', n)); n--)
                memmove(e, e + 1, n - (size_t)(e - all_text));
            all_text[n] = 0;
        }
    }
    if (!strstr(all_text, what))
        note("terminal: %s", all_text);
    return strstr(all_text, what);
}

static void check_terminal(void)
{
    int st;
    is(tcgetsid(master), shell, "the terminal's session");
    is(tcgetpgrp(master), shell, "  its foreground");
    put(master, "typed\n");
    ok(says("got typed\n"), "a shell reads it");
    for (int i = 0; i < 100 && tcgetpgrp(master) == shell; i++)
        sleep_ms(20);
    is(tcgetpgrp(master) != shell, 1, "  a job is in the foreground");
    put(master, "\003");
    for (int i = 0; i < 100 && tcgetpgrp(master) != shell; i++)
        sleep_ms(20);
    put(master, "echo status $?; stty size\n");
    ok(says("status 130\n33 77\n"), "  ^C ends it");
    kill(shell, SIGHUP);
    kill(shell, SIGKILL);
    ok(waitpid(shell, &st, 0) == shell, "  it ends");
}

static void check_processes(void)
{
    int st = 0;
    is(waitpid(zombie, &st, 0) == zombie ? WEXITSTATUS(st) : -1, 33, "a zombie");
    is(waitpid(stopped, &st, WUNTRACED | WNOHANG) == stopped && WIFSTOPPED(st) ? WSTOPSIG(st) : -1, SIGSTOP, "a stopped process");
    is(waitpid(suspended, &st, WUNTRACED | WNOHANG), 0, "a stopped job that was told");
    kill(suspended, SIGCONT);
    is(waitpid(suspended, &st, WCONTINUED) == suspended && (WIFCONTINUED(st) || WEXITSTATUS(st) == 46), 1, "  goes on");
    is(waitpid(spinner, &st, WNOHANG), 0, "a process that runs");
    kill(spinner, SIGKILL);
    is(waitpid(spinner, &st, 0) == spinner && WIFSIGNALED(st), 1, "  is killed");
    release();
    is(waitpid(stopped, &st, 0) == stopped ? WEXITSTATUS(st) : -1, 44, "the stopped process goes on");
    for (int i = 0; i < kid_count; i++) {
        st = -1;
        for (int k = 0; k < 250 && waitpid(kids[i].pid, &st, WNOHANG) == 0; k++)
            sleep_ms(20);
        if (!is(st, 0, "child: %s", kids[i].name))
            kill(kids[i].pid, SIGKILL);
    }
    is(pthread_mutex_lock(&s->robust), EOWNERDEAD, "the mutex of a dead owner");
}
