/* Clocks, sleeps, interval timers, POSIX timers, processor time. */
#include "tap.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/times.h>

static volatile int count;
static siginfo_t info;
static void handler(int sig, siginfo_t *i, void *c)
{
    (void)sig, (void)c;
    info = *i;
    count++;
}
static void catch_sig(int sig)
{
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(sig, &a, NULL);
    count = 0;
}
static void burn(double s)
{
    double end = now_s(CLOCK_THREAD_CPUTIME_ID) + s;
    while (now_s(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}
static void burn_until(int n)
{
    double end = now_s(CLOCK_MONOTONIC) + 3;
    while (count < n && now_s(CLOCK_MONOTONIC) < end)
        ;
}
static void until(int n)
{
    double end = now_s(CLOCK_MONOTONIC) + 3;
    while (count < n && now_s(CLOCK_MONOTONIC) < end)
        sleep_ms(1);
}

static void clocks(void)
{
    struct timespec t;
    static const int good[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
                               CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI};
    for (unsigned i = 0; i < COUNT(good); i++) {
        is(syscall(SYS_clock_gettime, good[i], &t), 0, "clock_gettime %d", good[i]);
        is(clock_gettime(good[i], &t), 0, "clock_gettime %d in libc", good[i]);
        is(syscall(SYS_clock_getres, good[i], &t), 0, "clock_getres %d", good[i]);
        ok(t.tv_sec == 0 && t.tv_nsec > 0, "clock_getres %d: not zero", good[i]);
    }
    err(syscall(SYS_clock_gettime, 10, &t), EINVAL, "clock_gettime 10");
    err(syscall(SYS_clock_gettime, 99, &t), EINVAL, "clock_gettime 99");
    err(syscall(SYS_clock_gettime, CLOCK_REALTIME, 8), EFAULT, "clock_gettime: bad pointer");
    err(syscall(SYS_clock_getres, 99, &t), EINVAL, "clock_getres 99");
    is(syscall(SYS_clock_getres, CLOCK_MONOTONIC, NULL), 0, "clock_getres: NULL");
    err(syscall(SYS_clock_settime, CLOCK_MONOTONIC, &t), EINVAL, "clock_settime: monotonic");
    err(syscall(SYS_clock_settime, CLOCK_PROCESS_CPUTIME_ID, &t), EINVAL, "clock_settime: cpu time");
    clockid_t c;
    is(clock_getcpuclockid(0, &c), 0, "clock_getcpuclockid");
    is(clock_getcpuclockid(getpid(), &c), 0, "clock_getcpuclockid of oneself");
    double a = now_s(c), b = now_s(CLOCK_PROCESS_CPUTIME_ID);
    ok(b >= a && b - a < 0.05, "it is the same clock");
    is(clock_getcpuclockid(99999999, &c), ESRCH, "clock_getcpuclockid: nobody");
    is(pthread_getcpuclockid(pthread_self(), &c), 0, "pthread_getcpuclockid");
    a = now_s(c), b = now_s(CLOCK_THREAD_CPUTIME_ID);
    ok(b >= a && b - a < 0.05, "it is the thread's clock");
    double m = now_s(CLOCK_MONOTONIC), p = now_s(CLOCK_PROCESS_CPUTIME_ID);
    sleep_ms(60);
    ok(now_s(CLOCK_MONOTONIC) - m >= 0.06, "monotonic time passes asleep");
    ok(now_s(CLOCK_PROCESS_CPUTIME_ID) - p < 0.03, "cpu time does not");
    p = now_s(CLOCK_PROCESS_CPUTIME_ID);
    burn(0.05);
    ok(now_s(CLOCK_PROCESS_CPUTIME_ID) - p >= 0.049, "cpu time passes awake");
    struct timeval tv;
    time_t s = time(NULL);
    gettimeofday(&tv, NULL);
    ok(tv.tv_sec - s <= 1 && tv.tv_usec >= 0 && tv.tv_usec < 1000000, "gettimeofday");
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    ok((double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) + (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6 >= 0.04, "getrusage: time");
    ok(ru.ru_maxrss > 0, "getrusage: maxrss");
    is(getrusage(RUSAGE_THREAD, &ru), 0, "getrusage: thread");
    err(getrusage(7, &ru), EINVAL, "getrusage: bad who");
    struct tms tms;
    ok(times(&tms) > 0 && tms.tms_utime + tms.tms_stime >= 4, "times");
    ok(times(NULL) > 0, "times(NULL)");
}

static void sleeps(void)
{
    struct timespec t = {0, 20000000}, bad = {0, 1000000000}, neg = {-1, 0}, rem = {9, 9};
    double m = now_s(CLOCK_MONOTONIC);
    is(nanosleep(&t, &rem), 0, "nanosleep");
    ok(now_s(CLOCK_MONOTONIC) - m >= 0.02, "nanosleep: long enough");
    err(nanosleep(&bad, NULL), EINVAL, "nanosleep: bad nanoseconds");
    err(nanosleep(&neg, NULL), EINVAL, "nanosleep: negative");
    err(nanosleep((void *)8, NULL), EFAULT, "nanosleep: bad pointer");
    catch_sig(SIGALRM);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 30000}}, NULL);
    t = (struct timespec){1, 0};
    err(nanosleep(&t, &rem), EINTR, "nanosleep: EINTR");
    ok(rem.tv_sec == 0 && rem.tv_nsec > 800000000 && rem.tv_nsec < 980000000, "nanosleep: the rest");
    is(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL), EINVAL, "clock_nanosleep: thread cpu time");
    err(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL), EOPNOTSUPP, "clock_nanosleep: thread cpu time, the call");
    is(clock_nanosleep(99, 0, &t, NULL), EINVAL, "clock_nanosleep: bad clock");
    is(clock_nanosleep(CLOCK_MONOTONIC_RAW, 0, &t, NULL), ENOTSUP, "clock_nanosleep: raw clock");
    is(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL), EINVAL, "clock_nanosleep: bad time");
    static const int cl[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
    for (unsigned i = 0; i < COUNT(cl); i++) {
        clock_gettime(cl[i], &t);
        t.tv_nsec += 20000000;
        if (t.tv_nsec >= 1000000000)
            t.tv_nsec -= 1000000000, t.tv_sec++;
        m = now_s(CLOCK_MONOTONIC);
        is(clock_nanosleep(cl[i], TIMER_ABSTIME, &t, NULL), 0, "clock_nanosleep: absolute %d", cl[i]);
        double d = now_s(CLOCK_MONOTONIC) - m;
        ok(d > 0.015 && d < 1, "clock_nanosleep: absolute %d: time", cl[i]);
        t.tv_sec -= 100;
        is(clock_nanosleep(cl[i], TIMER_ABSTIME, &t, NULL), 0, "clock_nanosleep: in the past %d", cl[i]);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 30000}}, NULL);
    t = (struct timespec){1, 0};
    is(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &rem), EINTR, "clock_nanosleep: EINTR");
    ok(rem.tv_sec == 0 && rem.tv_nsec > 800000000, "clock_nanosleep: the rest");
}

static void itimers(void)
{
    struct itimerval v, o;
    err(setitimer(7, &v, NULL), EINVAL, "setitimer: which");
    err(getitimer(7, &o), EINVAL, "getitimer: which");
    v = (struct itimerval){{0, 0}, {0, 1000000}};
    err(setitimer(ITIMER_REAL, &v, NULL), EINVAL, "setitimer: microseconds");
    v = (struct itimerval){{0, 0}, {-1, 0}};
    err(setitimer(ITIMER_REAL, &v, NULL), EINVAL, "setitimer: negative");
    catch_sig(SIGALRM);
    v = (struct itimerval){{0, 20000}, {0, 20000}};
    is(setitimer(ITIMER_REAL, &v, NULL), 0, "ITIMER_REAL");
    until(3);
    ok(count >= 3, "it comes again and again");
    ok(info.si_signo == SIGALRM && info.si_code == SI_KERNEL, "siginfo of an alarm");
    is(getitimer(ITIMER_REAL, &o), 0, "getitimer");
    ok(o.it_interval.tv_usec == 20000 && o.it_value.tv_sec == 0 && o.it_value.tv_usec <= 20000, "getitimer: values");
    v = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &v, &o);
    is(o.it_interval.tv_usec, 20000, "setitimer: old value");
    getitimer(ITIMER_REAL, &o);
    ok(!o.it_value.tv_sec && !o.it_value.tv_usec && !o.it_interval.tv_usec, "disarmed");
    static const struct { int which, sig; const char *name; } cpu[] = {{ITIMER_PROF, SIGPROF, "ITIMER_PROF"}, {ITIMER_VIRTUAL, SIGVTALRM, "ITIMER_VIRTUAL"}};
    for (unsigned i = 0; i < COUNT(cpu); i++) {
        catch_sig(cpu[i].sig);
        v = (struct itimerval){{0, 20000}, {0, 20000}};
        is(setitimer(cpu[i].which, &v, NULL), 0, "%s", cpu[i].name);
        sleep_ms(80);
        is(count, 0, "%s: it does not run while asleep", cpu[i].name);
        getitimer(cpu[i].which, &o);
        ok(o.it_interval.tv_usec == 20000 && o.it_value.tv_usec > 0 && o.it_value.tv_usec <= 24000, "%s: getitimer", cpu[i].name);
        double c0 = now_s(CLOCK_PROCESS_CPUTIME_ID);
        burn_until(3);
        double used = now_s(CLOCK_PROCESS_CPUTIME_ID) - c0;
        ok(count >= 3 && used > 0.04 && used < 0.4, "%s: it runs while awake", cpu[i].name);
        ok(info.si_signo == cpu[i].sig && info.si_code == SI_KERNEL, "%s: siginfo", cpu[i].name);
        v = (struct itimerval){{0, 0}, {0, 0}};
        setitimer(cpu[i].which, &v, NULL);
        count = 0;
        burn(0.05);
        is(count, 0, "%s: stopped", cpu[i].name);
    }
    is(alarm(100), 0, "alarm");
    is(alarm(0), 100, "alarm: what was left");
    is(alarm(0), 0, "alarm: none");
    is(in_child(signal(SIGALRM, SIG_DFL); alarm(1); for (;;) pause()), SIGALRM, "an alarm kills");
    is(in_child(signal(SIGPROF, SIG_DFL); setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 10000}}, NULL); for (;;);), SIGPROF, "SIGPROF kills");
    is(WTERMSIG(in_child(setrlimit(RLIMIT_CPU, &(struct rlimit){1, 100}); for (;;);)), SIGXCPU, "RLIMIT_CPU: SIGXCPU");
    is(WTERMSIG(in_child(setrlimit(RLIMIT_CPU, &(struct rlimit){1, 2}); signal(SIGXCPU, SIG_IGN); for (;;);)), SIGKILL, "RLIMIT_CPU: SIGKILL at the hard limit");
}

static timer_t make(int clock, int notify, int sig)
{
    struct sigevent e = {.sigev_notify = notify, .sigev_signo = sig, .sigev_value.sival_int = 4242};
    timer_t t;
    return timer_create(clock, &e, &t) ? (timer_t)-1 : t;
}
static volatile int thread_runs;
static void thread_fn(union sigval v)
{
    if (v.sival_int == 77)
        thread_runs++;
}

static void posix(void)
{
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4242};
    timer_t t;
    struct itimerspec v, o;
    int id;
    err(timer_create(99, &e, &t), EINVAL, "timer_create: bad clock");
    err(syscall(SYS_timer_create, CLOCK_MONOTONIC_RAW, NULL, &id), EOPNOTSUPP, "timer_create: raw clock");
    err(syscall(SYS_timer_create, CLOCK_MONOTONIC_COARSE, NULL, &id), EOPNOTSUPP, "timer_create: coarse clock");
    e.sigev_signo = 99;
    err(timer_create(CLOCK_MONOTONIC, &e, &t), EINVAL, "timer_create: bad signal");
    e.sigev_signo = 0;
    err(timer_create(CLOCK_MONOTONIC, &e, &t), EINVAL, "timer_create: signal 0");
    e.sigev_signo = SIGUSR1;
    e.sigev_notify = 99;
    err(syscall(SYS_timer_create, CLOCK_MONOTONIC, &e, &id), EINVAL, "timer_create: bad notification");
    err(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, 8), EFAULT, "timer_create: bad pointer");
    err(syscall(SYS_timer_settime, 12345, 0, &v, NULL), EINVAL, "timer_settime: no timer");
    err(syscall(SYS_timer_gettime, 12345, &v), EINVAL, "timer_gettime: no timer");
    err(syscall(SYS_timer_getoverrun, 12345), EINVAL, "timer_getoverrun: no timer");
    err(syscall(SYS_timer_delete, 12345), EINVAL, "timer_delete: no timer");
    catch_sig(SIGALRM);
    is(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id), 0, "timer_create: no event");
    v = (struct itimerspec){{0, 0}, {0, 10000000}};
    is(syscall(SYS_timer_settime, id, 0, &v, NULL), 0, "timer_settime");
    until(1);
    ok(count == 1 && info.si_signo == SIGALRM && info.si_code == SI_TIMER && info.si_value.sival_int == id, "SIGALRM with the timer's id");
    is(syscall(SYS_timer_delete, id), 0, "timer_delete");
    static const int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};
    for (unsigned i = 0; i < COUNT(clocks); i++) {
        catch_sig(SIGUSR1);
        t = make(clocks[i], SIGEV_SIGNAL, SIGUSR1);
        v = (struct itimerspec){{0, 0}, {0, 15000000}};
        is(timer_settime(t, 0, &v, NULL), 0, "clock %d", clocks[i]);
        until(1);
        ok(count == 1 && info.si_code == SI_TIMER && info.si_value.sival_int == 4242 && info.si_overrun == 0, "clock %d: signal", clocks[i]);
        is(timer_gettime(t, &o), 0, "clock %d: gettime", clocks[i]);
        ok(!o.it_value.tv_sec && !o.it_value.tv_nsec, "clock %d: once only", clocks[i]);
        clock_gettime(clocks[i], &v.it_value);
        v.it_value.tv_sec -= 1;
        is(timer_settime(t, TIMER_ABSTIME, &v, NULL), 0, "clock %d: absolute, past", clocks[i]);
        until(2);
        is(count, 2, "clock %d: fires at once", clocks[i]);
        is(timer_delete(t), 0, "clock %d: delete", clocks[i]);
        err(timer_delete(t), EINVAL, "clock %d: once", clocks[i]);
    }
    t = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1);
    catch_sig(SIGUSR1);
    v = (struct itimerspec){{0, 10000000}, {0, 10000000}};
    timer_settime(t, 0, &v, NULL);
    until(3);
    ok(count >= 3, "periodic");
    timer_gettime(t, &o);
    ok(o.it_interval.tv_nsec == 10000000 && o.it_value.tv_nsec > 0 && o.it_value.tv_nsec <= 10000000, "timer_gettime: periodic");
    v = (struct itimerspec){{0, 0}, {0, 0}};
    is(timer_settime(t, 0, &v, &o), 0, "disarm");
    ok(o.it_interval.tv_nsec == 10000000, "old value");
    v.it_value.tv_nsec = 1000000000;
    err(timer_settime(t, 0, &v, NULL), EINVAL, "timer_settime: bad nanoseconds");
    err(syscall(SYS_timer_settime, t, 0, NULL, NULL), EINVAL, "timer_settime: NULL");
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, NULL);
    v = (struct itimerspec){{0, 1000000}, {0, 1000000}};
    timer_settime(t, 0, &v, NULL);
    sleep_ms(60);
    struct timespec zero = {0, 0};
    siginfo_t i;
    is(sigtimedwait(&s, &i, &zero), SIGUSR1, "a blocked periodic timer is pending");
    ok(i.si_code == SI_TIMER && i.si_overrun >= 40, "si_overrun counts");
    ok(timer_getoverrun(t) == i.si_overrun, "timer_getoverrun");
    v = (struct itimerspec){{0, 0}, {0, 0}};
    timer_settime(t, 0, &v, NULL);
    sigtimedwait(&s, &i, &zero);
    sigprocmask(SIG_UNBLOCK, &s, NULL);
    timer_delete(t);
    t = make(CLOCK_MONOTONIC, SIGEV_NONE, 0);
    v = (struct itimerspec){{0, 0}, {5, 0}};
    is(timer_settime(t, 0, &v, NULL), 0, "SIGEV_NONE");
    timer_gettime(t, &o);
    ok(o.it_value.tv_sec == 4, "SIGEV_NONE: counts down");
    is(WEXITSTATUS(in_child(_exit(timer_gettime(t, &o) == -1 ? errno : 0))), EINVAL, "timers are not inherited by fork");
    timer_delete(t);
    static const int cpu[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (unsigned k = 0; k < 2; k++) {
        catch_sig(SIGUSR1);
        t = make(cpu[k], SIGEV_SIGNAL, SIGUSR1);
        v = (struct itimerspec){{0, 0}, {0, 20000000}};
        is(timer_settime(t, 0, &v, NULL), 0, "cpu clock %d", cpu[k]);
        sleep_ms(60);
        is(count, 0, "cpu clock %d: not asleep", cpu[k]);
        burn_until(1);
        ok(count == 1 && info.si_code == SI_TIMER, "cpu clock %d: awake", cpu[k]);
        is(timer_delete(t), 0, "cpu clock %d: delete", cpu[k]);
    }
    e = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 77, .sigev_notify_function = thread_fn};
    is(timer_create(CLOCK_MONOTONIC, &e, &t), 0, "SIGEV_THREAD");
    v = (struct itimerspec){{0, 5000000}, {0, 5000000}};
    timer_settime(t, 0, &v, NULL);
    for (int n = 0; n < 1000 && thread_runs < 3; n++)
        sleep_ms(2);
    ok(thread_runs >= 3, "SIGEV_THREAD: the function runs");
    timer_delete(t);
    e = (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    e._sigev_un._tid = 1;
    err(syscall(SYS_timer_create, CLOCK_MONOTONIC, &e, &id), EINVAL, "SIGEV_THREAD_ID: another process's thread");
    e._sigev_un._tid = (int)syscall(SYS_gettid);
    is(syscall(SYS_timer_create, CLOCK_MONOTONIC, &e, &id), 0, "SIGEV_THREAD_ID");
    catch_sig(SIGUSR1);
    v = (struct itimerspec){{0, 0}, {0, 5000000}};
    syscall(SYS_timer_settime, id, 0, &v, NULL);
    until(1);
    is(count, 1, "SIGEV_THREAD_ID: signal");
    syscall(SYS_timer_delete, id);
    struct timespec ct;
    double m = now_s(CLOCK_MONOTONIC);
    ct = (struct timespec){0, 30000000};
    int r = -1;
    pthread_t th;
    static volatile int stop;
    void *spin(void *a) { while (!stop); return a; }
    pthread_create(&th, NULL, spin, NULL);
    r = clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &ct, NULL);
    ok(r == 0 && now_s(CLOCK_MONOTONIC) - m > 0.01, "clock_nanosleep: cpu time of the process");
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
        struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
        sigaction(SIGUSR2, &sa, NULL);
        pthread_t sender;
        pthread_t me = pthread_self();
        void *send(void *a) { sleep_ms(30); pthread_kill(me, SIGUSR2); return a; }
        struct timespec rem = {-1, -1};
        ct = (struct timespec){5, 0};
        pthread_create(&sender, NULL, send, NULL);
        is(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &ct, &rem), EINTR, "clock_nanosleep: cpu time, a handler%s", flags ? " with SA_RESTART" : "");
        ok(rem.tv_sec == 4 && rem.tv_nsec > 0, "clock_nanosleep: cpu time that was left");
        pthread_join(sender, NULL);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ct);
    ct.tv_nsec += 30000000;
    if (ct.tv_nsec >= 1000000000)
        ct.tv_sec++, ct.tv_nsec -= 1000000000;
    is(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &ct, NULL), 0, "clock_nanosleep: cpu time, absolute");
    stop = 1;
    pthread_join(th, NULL);
}

TAP_MAIN
{
    clocks();
    sleeps();
    itimers();
    posix();
    return done();
}
