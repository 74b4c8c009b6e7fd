/* wait4, waitid, SIGCHLD, orphans and subreapers. */
#include "tap.h"
#include <sys/prctl.h>
#include <sys/resource.h>

static pid_t child_exits(int code)
{
    pid_t p = fork();
    if (!p)
        _exit(code);
    return p;
}

static pid_t child_sleeps(void) /* in a group of its own: not orphaned, so that SIGTSTP stops it */
{
    pid_t p = fork();
    if (!p) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(p, p);
    return p;
}

static siginfo_t got;
static volatile int got_count;
static void on_chld(int sig, siginfo_t *i, void *c)
{
    (void)sig, (void)c;
    got = *i;
    got_count++;
}

static void chld_handler(int flags)
{
    struct sigaction a = {.sa_sigaction = on_chld, .sa_flags = SA_SIGINFO | flags};
    sigaction(SIGCHLD, &a, NULL);
    got_count = 0;
    memset(&got, 0, sizeof(got));
}

static void until_count(int n)
{
    for (int i = 0; i < 500 && got_count < n; i++)
        sleep_ms(5);
}

static void statuses(void)
{
    int st;
    pid_t p;
    for (int code = 0; code < 256; code += 85) {
        p = child_exits(code);
        waitpid(p, &st, 0);
        ok(WIFEXITED(st) && WEXITSTATUS(st) == code, "exit %d", code);
    }
    p = child_exits(0x1234);
    waitpid(p, &st, 0);
    is(st, 0x3400, "only the low byte of an exit code");
    static const int sigs[] = {SIGTERM, SIGKILL, SIGHUP, SIGUSR1, SIGALRM, SIGPIPE, SIGINT, SIGPROF, SIGIO, SIGPWR};
    for (unsigned i = 0; i < COUNT(sigs); i++) {
        p = child_sleeps();
        kill(p, sigs[i]);
        waitpid(p, &st, 0);
        is(st, sigs[i], "killed by %d", sigs[i]);
    }
    static const int cores[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGTRAP, SIGXCPU, SIGXFSZ, SIGSYS};
    for (unsigned i = 0; i < COUNT(cores); i++) {
        p = child_sleeps();
        kill(p, cores[i]);
        waitpid(p, &st, 0);
        is(WTERMSIG(st), cores[i], "killed by %d", cores[i]);
    }
    p = child_sleeps();
    kill(p, SIGRTMIN + 3);
    waitpid(p, &st, 0);
    is(st, SIGRTMIN + 3, "killed by a real-time signal");
}

static void selection(void)
{
    int st;
    err(waitpid(-1, &st, 0), ECHILD, "no children");
    err(waitpid(1, &st, WNOHANG), ECHILD, "not a child");
    err(waitpid(getpid(), &st, 0), ECHILD, "oneself");
    err(waitpid(-1, &st, 0x10000), EINVAL, "unknown option");
    err(waitpid(-1, &st, WNOWAIT), EINVAL, "WNOWAIT is not for wait4");
    err(waitpid(INT32_MIN, &st, 0), ESRCH, "pid INT_MIN");
    pid_t a = child_exits(1), b = child_sleeps();
    is(waitpid(b, &st, WNOHANG), 0, "WNOHANG: nothing yet");
    is(waitpid(a, &st, 0), a, "a certain child");
    err(waitpid(a, &st, 0), ECHILD, "once only");
    kill(b, SIGKILL);
    is(waitpid(-1, &st, 0), b, "any child");
    a = fork();
    if (!a) {
        setpgid(0, 0);
        _exit(3);
    }
    b = child_exits(4);
    setpgid(a, a);
    is(waitpid(-a, &st, 0), a, "by process group");
    is(waitpid(0, &st, 0), b, "own process group");
    a = child_exits(1);
    is(waitpid(a, NULL, 0), a, "status NULL");
    a = child_exits(1);
    sleep_ms(50);
    err(wait4(a, (int *)8, 0, NULL), EFAULT, "bad status pointer");
    waitpid(a, NULL, 0);
    struct rusage ru;
    memset(&ru, 0xff, sizeof(ru));
    a = fork();
    if (!a) {
        for (volatile long i = 0; i < 30000000; i++)
            ;
        _exit(0);
    }
    is(wait4(a, &st, 0, &ru), a, "rusage");
    ok(ru.ru_utime.tv_sec >= 0 && ru.ru_utime.tv_sec * 1000000 + ru.ru_utime.tv_usec >= 5000, "rusage: user time of the child");
    ok(ru.ru_maxrss > 0, "rusage: maxrss");
}

static void waitids(void)
{
    siginfo_t i;
    err(waitid(P_ALL, 0, &i, 0), EINVAL, "waitid: no state asked for");
    err(waitid(77, 0, &i, WEXITED), EINVAL, "waitid: bad id type");
    err(waitid(P_ALL, 0, &i, WEXITED), ECHILD, "waitid: no children");
    err(waitid(P_PID, 0, &i, WEXITED), EINVAL, "waitid: pid 0");
    err(waitid(P_PGID, -1, &i, WEXITED), EINVAL, "waitid: negative group");
    pid_t p = child_exits(7);
    memset(&i, 0xff, sizeof(i));
    is(waitid(P_PID, (id_t)p, &i, WEXITED | WNOWAIT), 0, "waitid: WNOWAIT");
    ok(i.si_signo == SIGCHLD && i.si_code == CLD_EXITED && i.si_pid == p && i.si_status == 7 && i.si_uid == getuid() && !i.si_errno,
       "waitid: siginfo");
    is(waitid(P_ALL, 0, &i, WEXITED), 0, "waitid: it is still there");
    err(waitid(P_PID, (id_t)p, &i, WEXITED), ECHILD, "waitid: now it is gone");
    p = child_sleeps();
    memset(&i, 0xff, sizeof(i));
    is(waitid(P_PID, (id_t)p, &i, WEXITED | WNOHANG), 0, "waitid: WNOHANG");
    ok(i.si_pid == 0 && i.si_signo == 0, "waitid: nothing: pid and signo 0");
    kill(p, SIGSTOP);
    is(waitid(P_PID, (id_t)p, &i, WSTOPPED | WNOWAIT), 0, "waitid: WSTOPPED");
    ok(i.si_code == CLD_STOPPED && i.si_status == SIGSTOP && i.si_pid == p, "waitid: stopped");
    is(waitid(P_PID, (id_t)p, &i, WSTOPPED), 0, "waitid: WNOWAIT left it");
    memset(&i, 0, sizeof(i));
    is(waitid(P_PID, (id_t)p, &i, WSTOPPED | WNOHANG), 0, "waitid: a stop is reported once");
    is(i.si_pid, 0, "waitid: a stop is reported once: no pid");
    kill(p, SIGCONT);
    is(waitid(P_PID, (id_t)p, &i, WCONTINUED | WNOWAIT), 0, "waitid: WCONTINUED");
    ok(i.si_code == CLD_CONTINUED && i.si_status == SIGCONT, "waitid: continued");
    int st;
    is(waitpid(p, &st, WCONTINUED), p, "waitpid: WCONTINUED");
    ok(WIFCONTINUED(st), "WIFCONTINUED");
    kill(p, SIGTSTP);
    is(waitpid(p, &st, WUNTRACED), p, "waitpid: WUNTRACED");
    ok(WIFSTOPPED(st) && WSTOPSIG(st) == SIGTSTP, "WIFSTOPPED");
    kill(p, SIGTERM);
    is(waitpid(p, &st, WNOHANG), 0, "a stopped process does not take SIGTERM");
    kill(p, SIGCONT);
    is(waitpid(p, &st, 0), p, "until it continues");
    is(st, SIGTERM, "and ends");
    p = fork();
    if (!p) {
        setsid();
        raise(SIGTSTP);
        _exit(6);
    }
    is(waitpid(p, &st, WUNTRACED), p, "SIGTSTP in an orphaned group");
    is(st, 6 << 8, "does not stop");
    p = child_sleeps();
    kill(p, SIGSTOP);
    waitpid(p, &st, WUNTRACED);
    kill(p, SIGKILL);
    waitpid(p, &st, 0);
    is(st, SIGKILL, "SIGKILL ends a stopped process");
    p = child_sleeps();
    kill(p, SIGABRT);
    is(waitid(P_PID, (id_t)p, &i, WEXITED), 0, "waitid: killed");
    ok((i.si_code == CLD_KILLED || i.si_code == CLD_DUMPED) && i.si_status == SIGABRT, "waitid: killed: code and signal");
    p = child_exits(0);
    is(waitid(P_PGID, 0, NULL, WEXITED), 0, "waitid: own group, no info");
    p = child_exits(0);
    struct rusage ru;
    memset(&ru, 0xff, sizeof(ru));
    is(syscall(SYS_waitid, P_PID, p, &i, WEXITED, &ru), 0, "waitid: rusage");
    ok(ru.ru_utime.tv_sec == 0 && ru.ru_maxrss > 0, "waitid: rusage is filled");
}

static void sigchld(void)
{
    int st;
    pid_t p;
    chld_handler(0);
    p = child_exits(5);
    until_count(1);
    ok(got.si_signo == SIGCHLD && got.si_code == CLD_EXITED && got.si_pid == p && got.si_status == 5 && got.si_uid == getuid(),
       "SIGCHLD: exited");
    while (waitpid(p, &st, 0) < 0)
        ;
    chld_handler(0);
    p = child_sleeps();
    kill(p, SIGTERM);
    until_count(1);
    ok(got.si_code == CLD_KILLED && got.si_status == SIGTERM && got.si_pid == p, "SIGCHLD: killed");
    while (waitpid(p, &st, 0) < 0)
        ;
    chld_handler(0);
    p = child_sleeps();
    kill(p, SIGSTOP);
    until_count(1);
    ok(got.si_code == CLD_STOPPED && got.si_status == SIGSTOP && got.si_pid == p, "SIGCHLD: stopped");
    kill(p, SIGCONT);
    until_count(2);
    ok(got_count == 2 && got.si_code == CLD_CONTINUED && got.si_status == SIGCONT, "SIGCHLD: continued");
    kill(p, SIGKILL);
    until_count(3);
    while (waitpid(p, &st, 0) < 0)
        ;
    chld_handler(SA_NOCLDSTOP);
    p = child_sleeps();
    kill(p, SIGSTOP);
    while (waitpid(p, &st, WUNTRACED) < 0)
        ;
    kill(p, SIGCONT);
    sleep_ms(30);
    is(got_count, 0, "SA_NOCLDSTOP: neither stop nor continue");
    kill(p, SIGKILL);
    while (waitpid(p, &st, 0) < 0)
        ;
    chld_handler(SA_NOCLDWAIT);
    p = child_exits(0);
    until_count(1);
    is(got_count, 1, "SA_NOCLDWAIT: the signal comes");
    err(waitpid(p, &st, 0), ECHILD, "SA_NOCLDWAIT: no zombie");
    signal(SIGCHLD, SIG_IGN);
    p = child_exits(0);
    err(waitpid(-1, &st, 0), ECHILD, "SIGCHLD ignored: wait sleeps until all have ended");
    signal(SIGCHLD, SIG_DFL);
    /* EINTR and restart */
    struct sigaction a = {.sa_sigaction = on_chld, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &a, NULL);
    pid_t parent = getpid();
    p = fork();
    if (!p) {
        sleep_ms(50);
        kill(parent, SIGUSR1);
        sleep_ms(50);
        _exit(8);
    }
    err(waitpid(p, &st, 0), EINTR, "wait is interrupted");
    waitpid(p, &st, 0);
    a.sa_flags |= SA_RESTART;
    sigaction(SIGUSR1, &a, NULL);
    p = fork();
    if (!p) {
        sleep_ms(50);
        kill(parent, SIGUSR1);
        sleep_ms(50);
        _exit(8);
    }
    is(waitpid(p, &st, 0), p, "wait is restarted");
    is(st, 8 << 8, "wait is restarted: status");
}

static void orphans(void)
{
    int p[2], st;
    pid_t pid[2] = {0};
    must(pipe(p));
    must(prctl(PR_SET_CHILD_SUBREAPER, 1));
    int v = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &v);
    is(v, 1, "PR_GET_CHILD_SUBREAPER");
    is(WEXITSTATUS(in_child(int x = 7; prctl(PR_GET_CHILD_SUBREAPER, &x); _exit(x))), 0, "subreaper is not inherited");
    pid_t c = fork();
    if (!c) {
        if (!fork()) {
            while (getppid() == pid[0])
                ;
            pid_t mid = getppid();
            pid[0] = getpid();
            must(write(p[1], pid, sizeof(pid[0])));
            while (getppid() == mid)
                sleep_ms(5);
            _exit(9);
        }
        sleep_ms(30);
        _exit(0);
    }
    must(read(p[0], pid, sizeof(pid[0])));
    is(waitpid(c, &st, 0), c, "the middle one ends");
    is(waitpid(pid[0], &st, 0), pid[0], "the subreaper gets the orphan");
    is(st, 9 << 8, "and its status");
    /* an orphan that is a zombie already */
    c = fork();
    if (!c) {
        pid_t g = fork();
        if (!g)
            _exit(4);
        sleep_ms(30);
        must(write(p[1], &g, sizeof(g)));
        _exit(0);
    }
    must(read(p[0], pid, sizeof(pid[0])));
    waitpid(c, &st, 0);
    is(waitpid(pid[0], &st, 0), pid[0], "a zombie is inherited");
    is(st, 4 << 8, "with its status");
    must(prctl(PR_SET_CHILD_SUBREAPER, 0));
    /* PR_SET_PDEATHSIG */
    int q[2];
    must(pipe(q));
    c = fork();
    if (!c) {
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGUSR1);
            sigset_t s;
            sigemptyset(&s);
            sigaddset(&s, SIGUSR1);
            sigprocmask(SIG_BLOCK, &s, NULL);
            must(write(p[1], "x", 1));
            siginfo_t i;
            struct timespec t = {5, 0};
            char ok = sigtimedwait(&s, &i, &t) == SIGUSR1 ? 'y' : 'n';
            must(write(q[1], &ok, 1));
            _exit(0);
        }
        char x;
        must(read(p[0], &x, 1));
        _exit(0);
    }
    waitpid(c, &st, 0);
    char x = 0;
    close(q[1]);
    must(read(q[0], &x, 1));
    is(x, 'y', "PR_SET_PDEATHSIG");
    is(WEXITSTATUS(in_child(int d = 5; prctl(PR_SET_PDEATHSIG, SIGTERM); prctl(PR_GET_PDEATHSIG, &d); _exit(d))), SIGTERM, "PR_GET_PDEATHSIG");
    is(WEXITSTATUS(in_child(prctl(PR_SET_PDEATHSIG, SIGTERM); if (!fork()) { int d = 5; prctl(PR_GET_PDEATHSIG, &d); _exit(d); } int s;
                            wait(&s); _exit(WEXITSTATUS(s)))), 0, "PDEATHSIG is not inherited");
    err(prctl(PR_SET_PDEATHSIG, 65), EINVAL, "PDEATHSIG: bad signal");
}

static void times_of_children(void)
{
    struct rusage a, b;
    getrusage(RUSAGE_CHILDREN, &a);
    in_child(double end = now_s(CLOCK_PROCESS_CPUTIME_ID) + 0.05; while (now_s(CLOCK_PROCESS_CPUTIME_ID) < end));
    getrusage(RUSAGE_CHILDREN, &b);
    double d = (double)(b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec - a.ru_stime.tv_sec) +
               (double)(b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec - a.ru_stime.tv_usec) / 1e6;
    ok(d > 0.03 && d < 1, "RUSAGE_CHILDREN: time of a child that was waited for");
    if (d <= 0.03 || d >= 1)
        note("%f", d);
}

TAP_MAIN
{
    statuses();
    selection();
    waitids();
    sigchld();
    orphans();
    times_of_children();
    return done();
}
