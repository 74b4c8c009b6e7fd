/* Tracers and tracees that are killed at any moment: nobody hangs, nobody is left, everybody's end is told. */
#include "tap.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define ROUNDS 40

static volatile long words[512];

static void *busy(void *p)
{
    for (;;) {
        words[0]++;
        syscall(SYS_getppid);
    }
    return p;
}

/* Calls, children, threads that come and go. */
static void tracee(int kind)
{
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, SIG_IGN);
    if (kind == 0)
        busy(NULL);
    for (;;) {
        if (kind == 1) {
            pid_t p = fork();
            if (!p)
                _exit(0);
            waitpid(p, NULL, 0);
        } else if (kind == 2) {
            pid_t p = vfork();
            if (!p) {
                execl("/bin/true", "true", NULL);
                _exit(1);
            }
            waitpid(p, NULL, 0);
        } else {
            pthread_create(&t, NULL, busy, NULL);
            usleep(2000);
            raise(SIGUSR1);
            pthread_detach(t);
            if (kind == 3)
                execl("/proc/self/exe", "ptrace_ends", "3", NULL);
        }
    }
}

static void tracer(pid_t p, int how)
{
    static char buf[4096];
    struct iovec l = {buf, sizeof(buf)}, r = {(void *)words, sizeof(words)};
    int s;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD |
                   (how & 1 ? PTRACE_O_EXITKILL : 0);
    if (ptrace(PTRACE_SEIZE, p, 0, options))
        _exit(2);
    ptrace(PTRACE_INTERRUPT, p, 0, 0);
    for (int n = 0;; n++) {
        pid_t who = waitpid(-1, &s, __WALL);
        if (who < 0)
            _exit(3); /* all have ended */
        if (!WIFSTOPPED(s))
            continue;
        process_vm_readv(who, &l, 1, &r, 1, 0);
        errno = 0;
        ptrace(PTRACE_PEEKDATA, who, words, 0);
        int sig = WSTOPSIG(s) & 0x7f;
        sig = s >> 16 || sig == SIGTRAP || sig == SIGSTOP ? 0 : sig;
        if (how & 2 && n % 50 == 49)
            ptrace(PTRACE_DETACH, who, 0, sig);
        else
            ptrace(how & 4 ? PTRACE_SYSCALL : n % 7 ? PTRACE_CONT : PTRACE_SINGLESTEP, who, 0, sig);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        tracee(atoi(argv[1]));
    tap_begin();
    int bad = 0;
    srand(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t p = must(fork());
        if (!p)
            tracee(i % 5);
        pid_t by = must(fork());
        if (!by)
            tracer(p, i / 5);
        usleep((useconds_t)(rand() % 12000));
        kill(i & 1 ? by : p, SIGKILL);
        if (rand() % 2)
            usleep((useconds_t)(rand() % 3000));
        kill(i & 1 ? p : by, SIGKILL);
        int s, seen = 0;
        for (pid_t w; seen < 2 && (w = waitpid(-1, &s, __WALL)) > 0;) {
            seen += w == p || w == by;
            /* a step that nobody waits for any more kills, too, as on Linux */
            bad += w == p && !(WIFSIGNALED(s) && (WTERMSIG(s) == SIGKILL || (i & 1 && WTERMSIG(s) == SIGTRAP)));
        }
        bad += seen != 2;
    }
    is(bad, 0, "each was told to be killed");
    for (int i = 0; i < 300 && waitpid(-1, NULL, __WALL | WNOHANG) >= 0; i++)
        usleep(20000);
    err(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD, "nobody is left");
    return done();
}
