/* Entry and end of each call of a tracee are told in turn, whatever interrupts it: signals with and without a handler, restarts, vfork,
 * and freezing (tests/e2e/snapshot_instants.sh). */
#include "tap.h"
#include <linux/ptrace.h>
#include <poll.h>
#include <sys/prctl.h>

#define CHILDREN 150

static volatile int handled;
static void handler(int sig) { (void)sig, handled++; }

static void tracee(bool restart, bool blocks)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGCHLD, &a, NULL);
    signal(SIGUSR2, SIG_DFL);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t p = i % 3 ? fork() : vfork();
        if (!p && i % 3)
            usleep(i % 7 * 300);
        if (!p)
            _exit(3);
        int s;
        if (blocks) /* its end is what wakes us */
            poll(NULL, 0, 2);
        while (waitpid(p, &s, 0) < 0 && errno == EINTR)
            ;
        if (s != 3 << 8)
            _exit(2);
    }
    _exit(handled ? 0 : 1);
}

/* The last stops, to be told when something is wrong. */
static struct stop {
    int status, op;
    long nr, result;
} last[16];
static int stops;

static void tell(void)
{
    for (int i = stops > 16 ? stops - 16 : 0; i < stops; i++)
        note("stop %x, %s, call %ld, result %ld", last[i % 16].status, last[i % 16].op == PTRACE_SYSCALL_INFO_ENTRY ? "entry" : "end or none",
             last[i % 16].nr, last[i % 16].result);
}

/* Returns the number of calls, or -1 - which one came out of turn. */
static long follow(pid_t p, int *status)
{
    struct ptrace_syscall_info info;
    long calls = 0;
    int op = PTRACE_SYSCALL_INFO_EXIT; /* the last */
    *status = -1;
    stops = 0;
    if (ptrace(PTRACE_SEIZE, p, 0, PTRACE_O_TRACESYSGOOD) || ptrace(PTRACE_INTERRUPT, p, 0, 0))
        return -1;
    for (;;) {
        int s, sig = 0;
        if (waitpid(p, &s, __WALL) != p)
            return -1;
        if (!WIFSTOPPED(s)) {
            *status = s;
            return calls;
        }
        memset(&info, 0, sizeof(info));
        bool told = ptrace(PTRACE_GET_SYSCALL_INFO, p, sizeof(info), &info) > 0;
        bool entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
        last[stops++ % 16] = (struct stop){s, info.op, entry ? (long)info.entry.nr : -1, entry ? 0 : (long)info.exit.rval};
        if (WSTOPSIG(s) == (SIGTRAP | 0x80)) {
            if (!told || info.op == op ||
                (info.op != PTRACE_SYSCALL_INFO_ENTRY && info.op != PTRACE_SYSCALL_INFO_EXIT))
                return -1 - calls;
            op = info.op;
            calls += op == PTRACE_SYSCALL_INFO_ENTRY;
        } else if (s >> 16 == 0) {
            sig = WSTOPSIG(s);
        }
        ptrace(PTRACE_SYSCALL, p, 0, sig);
    }
}

TAP_MAIN
{
    for (int kind = 0; kind < 4; kind++) {
        int status, go[2];
        char c;
        if (pipe(go))
            return 1;
        pid_t p = fork();
        if (!p) {
            if (read(go[0], &c, 1) == 1)
                tracee(kind & 1, kind & 2);
            _exit(9);
        }
        c = 0;
        pid_t writer = fork(); /* when the tracee is traced: soon */
        if (!writer) {
            usleep(20000);
            _exit(write(go[1], &c, 1) != 1);
        }
        long calls = follow(p, &status);
        if (!ok(calls > 3 * CHILDREN && status == 0, "entry and end in turn, %s, %s", kind & 1 ? "SA_RESTART" : "EINTR",
                kind & 2 ? "polling" : "waiting"))
            note("%ld calls, status %x", calls, status), tell();
        kill(p, SIGKILL);
        waitpid(p, NULL, 0);
        waitpid(writer, NULL, 0);
        close(go[0]);
        close(go[1]);
    }
    return done();
}
