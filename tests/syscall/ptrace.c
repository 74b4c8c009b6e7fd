/* ptrace(2): attaching, stops of each kind, registers, memory, calls, steps, breakpoints, events, ends. */
#include "tap.h"
#include <elf.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/user.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

static volatile long data = 42;
static volatile int ready, handled;
static volatile int *shared;

static long pt(int request, pid_t p, long addr, long value) { return syscall(SYS_ptrace, request, (long)p, addr, value); }

/* The next stop or end, whatever it is: stops as signal | event << 8 | group of SYSGOOD, ends as -1 - status. */
static int next_of(pid_t p)
{
    int s = -1;
    if (waitpid(p, &s, __WALL) != p)
        return -9999;
    return WIFSTOPPED(s) ? s >> 8 : -1 - s;
}
#define EXITED(code) (-1 - ((code) << 8))
#define KILLED(sig) (-1 - (sig))
#define EVENT(e) (SIGTRAP | (e) << 8)

static struct user_regs_struct regs_of(pid_t p)
{
    struct user_regs_struct r = {0};
    must(pt(PTRACE_GETREGS, p, 0, (long)&r));
    return r;
}

static char state_of(pid_t p, int *tracer)
{
    char name[64], line[200], state = 0;
    snprintf(name, sizeof(name), "/proc/%d/status", p);
    FILE *f = fopen(name, "r");
    while (f && fgets(line, sizeof(line), f)) {
        sscanf(line, "State:\t%c", &state);
        sscanf(line, "TracerPid:\t%d", tracer);
    }
    if (f)
        fclose(f);
    return state;
}

#define TRACED(...)                                                                                                    \
    ({                                                                                                                 \
        pid_t traced = must(fork());                                                                                   \
        if (!traced) {                                                                                                 \
            must(pt(PTRACE_TRACEME, 0, 0, 0));                                                                         \
            raise(SIGSTOP);                                                                                            \
            __VA_ARGS__;                                                                                               \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        if (next_of(traced) != SIGSTOP)                                                                                \
            note("no first stop");                                                                                     \
        traced;                                                                                                        \
    })
#define FREE(...)                                                                                                      \
    ({                                                                                                                 \
        pid_t free_one = must(fork());                                                                                 \
        if (!free_one) {                                                                                               \
            prctl(PR_SET_PDEATHSIG, SIGKILL);                                                                          \
            __VA_ARGS__;                                                                                               \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        free_one;                                                                                                      \
    })

static void handler(int sig) { handled += sig; }

static void memory(void)
{
    static const char constant[16] __attribute__((aligned(16))) = "constant text";
    long word = 0;
    int tracer = 0;
    pid_t p = TRACED(_exit((int)data + (*(volatile const char *)constant == 'X')));
    ok(state_of(p, &tracer) == 't' && tracer == getpid(), "state t, TracerPid");
    is(pt(PTRACE_PEEKDATA, p, (long)&data, (long)&word), 0, "peek");
    is(word, 42, "the word");
    is(pt(PTRACE_POKEDATA, p, (long)&data, 6), 0, "poke");
    is(data, 42, "one's own is as it was");
    is(pt(PTRACE_PEEKTEXT, p, (long)constant, (long)&word), 0, "peek at constants");
    ok(!memcmp(&word, "constant", 8), "constants");
    memcpy(&word, "Xonstant", 8);
    is(pt(PTRACE_POKETEXT, p, (long)constant, word), 0, "poke at constants");
    err(pt(PTRACE_PEEKDATA, p, 8, (long)&word), EIO, "peek at nothing");
    err(pt(PTRACE_POKEDATA, p, 8, 1), EIO, "poke at nothing");
    err(pt(PTRACE_PEEKUSER, p, 3, (long)&word), EIO, "peek at half a register");
    is(pt(PTRACE_PEEKUSER, p, offsetof(struct user_regs_struct, orig_rax), (long)&word), 0, "peek at a register");
    ok(word == SYS_tgkill || word == SYS_tkill || word == SYS_kill, "the call it is in");
    is(pt(PTRACE_POKEUSER, p, offsetof(struct user, u_debugreg[7]), 0), 0, "no watchpoint");
    err(pt(PTRACE_SETOPTIONS, p, 0, 1 << 30), EINVAL, "options that are none");
    err(pt(PTRACE_CONT, p, 0, 99), EIO, "a signal that is none");
    err(pt(12345, p, 0, 0), EIO, "a request that is none");
    err(pt(PTRACE_CONT, getppid(), 0, 0), ESRCH, "not a tracee");
    err(pt(PTRACE_ATTACH, getpid(), 0, 0), EPERM, "oneself");
    err(pt(PTRACE_ATTACH, p, 0, 0), EPERM, "twice");
    err(pt(PTRACE_INTERRUPT, p, 0, 0), EIO, "interrupt of one that was not seized");
    is(pt(PTRACE_CONT, p, 0, 0), 0, "cont");
    is(next_of(p), EXITED(7), "it saw what was poked");
    err(pt(PTRACE_CONT, p, 0, 0), ESRCH, "it is gone");
}

static void registers(void)
{
    struct user_regs_struct r, again;
    struct user_fpregs_struct fp;
    static char x[8192], y[8192];
    pid_t p = TRACED({
        long v;
        __asm__ volatile("mov $0x1234,%%r12; movq %%r12,%%xmm3; int3; movq %%xmm3,%%r12; lea (%%r12,%%r13),%0"
                         : "=r"(v)::"r12", "r13", "xmm3");
        _exit(v == 0x100 + 0x20 ? 5 : 6);
    });
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGTRAP, "int3");
    siginfo_t si;
    is(pt(PTRACE_GETSIGINFO, p, 0, (long)&si), 0, "siginfo");
    ok(si.si_signo == SIGTRAP && si.si_code == SI_KERNEL, "siginfo of int3");
    r = regs_of(p);
    ok(r.r12 == 0x1234 && r.cs == 0x33 && r.ss == 0x2b && r.orig_rax == ~0ull, "registers");
    r.r13 = 0x20;
    is(pt(PTRACE_SETREGS, p, 0, (long)&r), 0, "setregs");
    again = regs_of(p);
    ok(!memcmp(&r, &again, sizeof(r)), "as set");
    is(pt(PTRACE_GETFPREGS, p, 0, (long)&fp), 0, "fpregs");
    is(fp.xmm_space[12], 0x1234, "xmm3");
    struct iovec v = {x, sizeof(x)}, w = {y, sizeof(y)};
    is(pt(PTRACE_GETREGSET, p, NT_X86_XSTATE, (long)&v), 0, "xstate");
    ok(v.iov_len >= 576 && !memcmp(x + 160 + 48, &fp.xmm_space[12], 16), "xstate: xmm3");
    ok((*(long *)(x + 464) & 3) == 3, "xstate: what there is");
    *(long *)(x + 160 + 48) = 0x100;
    is(pt(PTRACE_SETREGSET, p, NT_X86_XSTATE, (long)&v), 0, "xstate set");
    is(pt(PTRACE_GETREGSET, p, NT_X86_XSTATE, (long)&w), 0, "and got");
    is(*(long *)(y + 160 + 48), 0x100, "xmm3 as set");
    x[530] = 1;
    err(pt(PTRACE_SETREGSET, p, NT_X86_XSTATE, (long)&v), EINVAL, "a header that cannot be");
    v = (struct iovec){x, sizeof(x)};
    is(pt(PTRACE_GETREGSET, p, NT_PRSTATUS, (long)&v), 0, "prstatus");
    is(v.iov_len, sizeof(r), "prstatus: size");
    ok(((struct user_regs_struct *)x)->r13 == 0x20, "prstatus: r13");
    v = (struct iovec){x, 16};
    is(pt(PTRACE_GETREGSET, p, NT_PRSTATUS, (long)&v), 0, "part of prstatus");
    is(v.iov_len, 16, "part of prstatus: size");
    err(pt(PTRACE_GETREGSET, p, 0x999, (long)&v), EINVAL, "a set that is none");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(5), "the registers were loaded");
}

static void calls(void)
{
    pid_t p = TRACED({
        long a = syscall(SYS_getppid), b = syscall(SYS_dup, 1000), c = syscall(SYS_getpid);
        _exit(a == 77 && b == -1 && errno == EPIPE && c == getppid() ? 3 : 4);
    });
    struct user_regs_struct r;
    struct {
        uint8_t op, pad[3];
        uint32_t arch;
        uint64_t ip, sp, v[8];
    } info;
    siginfo_t si;
    is(pt(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACESYSGOOD), 0, "sysgood");
    int nr = 0, stops = 0, good = 0, kinds = 0;
    for (;;) {
        must(pt(PTRACE_SYSCALL, p, 0, 0));
        int s = next_of(p);
        if (s != (SIGTRAP | 0x80)) {
            is(s, EXITED(3), "calls were replaced, skipped and changed");
            break;
        }
        stops++;
        r = regs_of(p);
        bool entry = stops & 1;
        long n = pt(0x420e, p, sizeof(info), (long)&info);
        kinds += info.op == (entry ? 1 : 2) && info.arch == 0xc000003e && info.sp == r.rsp && info.ip == r.rip && n == (entry ? 80 : 33) &&
                 info.v[0] == (entry ? r.orig_rax : r.rax);
        nr = entry ? (int)r.orig_rax : nr;
        good += entry ? r.rax == (unsigned long)-ENOSYS : (int)r.orig_rax == nr || nr == SYS_getpid;
        if (entry && stops == 1)
            ok(!pt(PTRACE_GETSIGINFO, p, 0, (long)&si) && si.si_code == (SIGTRAP | 0x80), "siginfo of a call");
        if (nr == SYS_getppid && !entry && good < 1000) {
            r.rax = 77;
            pt(PTRACE_SETREGS, p, 0, (long)&r);
            good += 1000; /* only the first */
        } else if (nr == SYS_dup && entry) {
            pt(PTRACE_POKEUSER, p, offsetof(struct user_regs_struct, orig_rax), -1);
            r.rax = (unsigned long)-EPIPE;
            r.orig_rax = -1;
            pt(PTRACE_SETREGS, p, 0, (long)&r);
            nr = -1;
        } else if (nr == SYS_getpid && entry) {
            pt(PTRACE_POKEUSER, p, offsetof(struct user_regs_struct, orig_rax), SYS_getppid);
        }
    }
    is(stops, 9, "stops at entry and exit of each call");
    is(good % 1000, 9, "what they tell");
    is(kinds, 9, "GET_SYSCALL_INFO");
}

static void signals_to(void)
{
    siginfo_t si;
    pid_t p = TRACED({
        signal(SIGUSR1, handler);
        signal(SIGUSR2, handler);
        signal(SIGHUP, SIG_IGN);
        raise(SIGUSR1);
        raise(SIGHUP);
        raise(SIGTERM);
        raise(SIGUSR1);
        _exit(handled == SIGUSR1 + SIGUSR2 ? 3 : 4);
    });
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGUSR1, "a signal is told");
    is(pt(PTRACE_GETSIGINFO, p, 0, (long)&si), 0, "its siginfo");
    ok(si.si_signo == SIGUSR1 && si.si_pid == p && si.si_code == SI_TKILL, "its siginfo: sender");
    pt(PTRACE_CONT, p, 0, SIGUSR1);
    is(next_of(p), SIGHUP, "also one that is ignored");
    pt(PTRACE_CONT, p, 0, SIGHUP);
    is(next_of(p), SIGTERM, "and a deadly one");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGUSR1, "which was suppressed");
    pt(PTRACE_CONT, p, 0, SIGUSR2);
    is(next_of(p), EXITED(3), "and one that was replaced");

    uint64_t mask = 0;
    p = TRACED({
        sigset_t s;
        sigemptyset(&s);
        sigaddset(&s, SIGUSR1);
        sigprocmask(SIG_BLOCK, &s, NULL);
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
        raise(SIGUSR2);
        _exit(handled == SIGUSR1 ? 3 : 4);
    });
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGUSR2, "not one that is blocked");
    is(pt(PTRACE_GETSIGMASK, p, 8, (long)&mask), 0, "mask");
    is(mask, 1ul << (SIGUSR1 - 1), "mask as it is");
    struct __ptrace_peeksiginfo_args a = {.nr = 4};
    is(pt(PTRACE_PEEKSIGINFO, p, (long)&a, (long)&si), 1, "one is pending");
    is(si.si_signo, SIGUSR1, "that one");
    mask = 0;
    is(pt(PTRACE_SETSIGMASK, p, 8, (long)&mask), 0, "mask set");
    err(pt(PTRACE_SETSIGMASK, p, 4, (long)&mask), EINVAL, "a mask of four bytes");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGUSR1, "now it comes");
    pt(PTRACE_CONT, p, 0, SIGUSR1);
    is(next_of(p), EXITED(3), "and is handled");
}

__attribute__((noinline)) static void called(void) { __asm__ volatile("nop; nop"); }

static void steps(void)
{
    struct user_regs_struct r;
    siginfo_t si;
    pid_t p = TRACED({
        __asm__ volatile("int3; nop; mov $39,%%eax; syscall; nop; nop; int3" ::: "rax", "rcx", "r11");
        called();
        called();
    });
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGTRAP, "int3");
    unsigned long at = regs_of(p).rip, ends[] = {at + 1, at + 6, at + 8, at + 9};
    for (size_t i = 0; i < COUNT(ends); i++) {
        must(pt(PTRACE_SINGLESTEP, p, 0, 0));
        is(next_of(p), SIGTRAP, "step %zu", i);
        r = regs_of(p);
        is(r.rip, ends[i], "step %zu: where", i);
        is(r.eflags & 0x100, 0, "step %zu: no trap flag to be seen", i);
        if (i == 0)
            ok(!pt(PTRACE_GETSIGINFO, p, 0, (long)&si) && si.si_code == TRAP_TRACE, "siginfo of a step");
    }
    is(r.rax, p, "the call was made");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGTRAP, "to the next");
    long old, where = (long)called;
    must(pt(PTRACE_PEEKTEXT, p, where, (long)&old));
    is(pt(PTRACE_POKETEXT, p, where, (old & ~0xffl) | 0xcc), 0, "a breakpoint");
    for (int i = 0; i < 2; i++) {
        pt(PTRACE_CONT, p, 0, 0);
        is(next_of(p), SIGTRAP, "breakpoint");
        r = regs_of(p);
        is(r.rip, where + 1, "behind it");
        r.rip--;
        pt(PTRACE_SETREGS, p, 0, (long)&r);
        pt(PTRACE_POKETEXT, p, where, old);
        must(pt(PTRACE_SINGLESTEP, p, 0, 0));
        is(next_of(p), SIGTRAP, "over it");
        if (!i)
            pt(PTRACE_POKETEXT, p, where, (old & ~0xffl) | 0xcc);
    }
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(0), "end");

    /* a breakpoint in the C library, and steps through a function with calls */
    p = TRACED({
        getppid();
        getppid();
    });
    where = (long)getppid;
    must(pt(PTRACE_PEEKTEXT, p, where, (long)&old));
    pt(PTRACE_POKETEXT, p, where, (old & ~0xffl) | 0xcc);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGTRAP, "breakpoint in a library");
    r = regs_of(p);
    r.rip--;
    pt(PTRACE_SETREGS, p, 0, (long)&r);
    pt(PTRACE_POKETEXT, p, where, old);
    unsigned long sp = r.rsp;
    int n = 0, bad = 0;
    for (; n < 50 && r.rsp <= sp; n++) {
        must(pt(PTRACE_SINGLESTEP, p, 0, 0));
        bad += next_of(p) != SIGTRAP;
        r = regs_of(p);
    }
    ok(n < 50 && !bad && (pid_t)r.rax == getpid(), "steps through it");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(0), "end of that");

    p = TRACED({
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
    });
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGUSR1, "a signal");
    must(pt(PTRACE_SINGLESTEP, p, 0, SIGUSR1));
    is(next_of(p), SIGTRAP, "a step into its handler");
    is(regs_of(p).rip, (long)handler, "its first instruction");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(0), "end of the handler's");
}

static void attached(void)
{
    int tracer = -1;
    siginfo_t si;
    long v = 0;
    pid_t p = FREE(for (;;) pause());
    usleep(20000);
    is(pt(PTRACE_ATTACH, p, 0, 0), 0, "attach");
    is(next_of(p), SIGSTOP, "it stops");
    struct user_regs_struct r = regs_of(p);
    ok(r.orig_rax == SYS_pause, "in pause");
    pt(PTRACE_CONT, p, 0, 0);
    usleep(20000);
    err(pt(PTRACE_PEEKDATA, p, (long)&data, (long)&v), ESRCH, "one that runs is not peeked at");
    kill(p, SIGSTOP);
    is(next_of(p), SIGSTOP, "stopped by a signal");
    is(pt(PTRACE_GETSIGINFO, p, 0, (long)&si), 0, "that has siginfo");
    pt(PTRACE_CONT, p, 0, SIGSTOP);
    is(next_of(p), SIGSTOP, "stopped as a group");
    err(pt(PTRACE_GETSIGINFO, p, 0, (long)&si), EINVAL, "which has none");
    pt(PTRACE_CONT, p, 0, 0);
    is(pt(PTRACE_DETACH, p, 0, 0), -1, "no detaching while it runs");
    kill(p, SIGTERM);
    is(next_of(p), SIGTERM, "a signal");
    is(pt(PTRACE_DETACH, p, 0, 0), 0, "detached");
    kill(p, SIGCONT);
    usleep(20000);
    char state = state_of(p, &tracer);
    ok((state == 'S' || state == 'R') && tracer == 0, "it goes on, nobody traces it");
    kill(p, SIGKILL);
    is(next_of(p), KILLED(SIGKILL), "killed");

    p = FREE(for (ready = 1; ready;) ;); /* runs */
    usleep(20000);
    is(pt(PTRACE_SEIZE, p, 0, PTRACE_O_TRACEEXIT), 0, "seize");
    is(waitpid(p, NULL, WNOHANG | __WALL), 0, "it does not stop");
    is(pt(PTRACE_INTERRUPT, p, 0, 0), 0, "interrupt");
    is(next_of(p), EVENT(PTRACE_EVENT_STOP), "it stops");
    kill(p, SIGSTOP);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGSTOP, "a signal");
    pt(PTRACE_CONT, p, 0, SIGSTOP);
    is(next_of(p), SIGSTOP | PTRACE_EVENT_STOP << 8, "the group's stop");
    is(pt(PTRACE_LISTEN, p, 0, 0), 0, "listen");
    err(pt(PTRACE_CONT, p, 0, 0), ESRCH, "then it is not stopped for requests");
    kill(p, SIGCONT);
    is(next_of(p), EVENT(PTRACE_EVENT_STOP), "it is told to go on");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGCONT, "SIGCONT itself");
    v = 0;
    pt(PTRACE_POKEDATA, p, (long)&ready, 0);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EVENT(PTRACE_EVENT_EXIT), "about to end");
    is(pt(PTRACE_GETEVENTMSG, p, 0, (long)&v), 0, "message");
    is(v, 0, "its status");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(0), "its end");
}

static void *thread(void *p)
{
    syscall(SYS_getpid);
    return p;
}

static void *execs(void *p)
{
    execl("/bin/true", "true", NULL);
    return p;
}

static void events(void)
{
    unsigned long child = 0;
    pid_t p = TRACED({
        int s;
        pid_t c = fork();
        if (!c)
            _exit(4);
        waitpid(c, &s, 0);
        _exit(s >> 8);
    });
    is(pt(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC), 0, "options");
    pt(PTRACE_CONT, p, 0, 0);
    int e = next_of(p);
    is(e, EVENT(PTRACE_EVENT_FORK), "fork");
    pt(PTRACE_GETEVENTMSG, p, 0, (long)&child);
    is(next_of((pid_t)child), SIGSTOP, "the child is traced");
    pt(PTRACE_CONT, p, 0, 0);
    pt(PTRACE_CONT, (pid_t)child, 0, 0);
    is(next_of((pid_t)child), EXITED(4), "the child's end is told to the tracer");
    int last;
    while ((last = next_of(p)) > 0)
        pt(PTRACE_CONT, p, 0, last == SIGCHLD ? SIGCHLD : 0);
    is(last, EXITED(4), "and to its parent");

    p = TRACED({
        pid_t c = vfork();
        if (!c) {
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        int s;
        waitpid(c, &s, 0);
        _exit(s ? 8 : 5);
    });
    pt(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXEC);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EVENT(PTRACE_EVENT_VFORK), "vfork");
    pt(PTRACE_GETEVENTMSG, p, 0, (long)&child);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of((pid_t)child), SIGSTOP, "its child");
    is(waitpid(p, NULL, WNOHANG | __WALL), 0, "the parent waits for it");
    pt(PTRACE_CONT, (pid_t)child, 0, 0);
    is(next_of((pid_t)child), EVENT(PTRACE_EVENT_EXEC), "exec");
    is(next_of(p), EVENT(PTRACE_EVENT_VFORK_DONE), "vfork is done");
    pt(PTRACE_CONT, p, 0, 0);
    pt(PTRACE_CONT, (pid_t)child, 0, 0);
    is(next_of((pid_t)child), EXITED(0), "its end");
    while ((last = next_of(p)) > 0)
        pt(PTRACE_CONT, p, 0, last == SIGCHLD ? SIGCHLD : 0);
    is(last, EXITED(5), "the parent's");

    p = TRACED({
        pthread_t t;
        pthread_create(&t, NULL, thread, NULL);
        pthread_join(t, NULL);
        pthread_create(&t, NULL, execs, NULL);
        pthread_join(t, NULL);
    });
    pt(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC);
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EVENT(PTRACE_EVENT_CLONE), "clone");
    pt(PTRACE_GETEVENTMSG, p, 0, (long)&child);
    is(next_of((pid_t)child), SIGSTOP, "the thread is traced");
    pt(PTRACE_CONT, p, 0, 0);
    pt(PTRACE_CONT, (pid_t)child, 0, 0);
    is(next_of((pid_t)child), EXITED(0), "the thread's end");
    is(next_of(p), EVENT(PTRACE_EVENT_CLONE), "another");
    pt(PTRACE_GETEVENTMSG, p, 0, (long)&child);
    is(next_of((pid_t)child), SIGSTOP, "also traced");
    pt(PTRACE_CONT, p, 0, 0);
    pt(PTRACE_CONT, (pid_t)child, 0, 0);
    is(next_of(p), EVENT(PTRACE_EVENT_EXEC), "exec of a thread is told of the leader");
    unsigned long old = 0;
    pt(PTRACE_GETEVENTMSG, p, 0, (long)&old);
    is(old, child, "which it was");
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), EXITED(0), "end of that");

    p = TRACED(execl("/bin/true", "true", NULL));
    pt(PTRACE_CONT, p, 0, 0);
    is(next_of(p), SIGTRAP, "without the option exec is a SIGTRAP");
    pt(PTRACE_KILL, p, 0, 0);
    is(next_of(p), KILLED(SIGKILL), "PTRACE_KILL");
}

/* The tracer is not the parent; and it ends. */
static void others(void)
{
    for (int kills = 0; kills < 2; kills++) {
        *shared = 0;
        pid_t p = FREE({
            while (!*shared)
                usleep(1000);
            _exit(6);
        });
        int status = in_child({
            int s;
            must(pt(PTRACE_SEIZE, p, 0, kills ? PTRACE_O_EXITKILL : 0));
            must(pt(PTRACE_INTERRUPT, p, 0, 0));
            is(next_of(p), EVENT(PTRACE_EVENT_STOP), "a stranger's stop");
            is(waitpid(p, &s, __WALL | WNOHANG), 0, "told once");
        });
        is(status, 0, "the tracer ends");
        *shared = 1;
        is(next_of(p), kills ? KILLED(SIGKILL) : EXITED(6), kills ? "EXITKILL" : "the tracee goes on");
    }
    *shared = 0;
    pid_t p = FREE({
        while (!*shared)
            usleep(1000);
        _exit(6);
    });
    pid_t by = FREE({
        must(pt(PTRACE_SEIZE, p, 0, 0));
        *shared = 1;
        while (*shared != 2)
            usleep(1000);
        is(next_of(p), EXITED(6), "the tracer waits first");
    });
    while (*shared != 1)
        usleep(1000);
    usleep(50000);
    is(waitpid(p, NULL, WNOHANG), 0, "the parent is not told before");
    *shared = 2;
    is(next_of(by), EXITED(0), "the tracer ends after that");
    is(next_of(p), EXITED(6), "then the parent is told");

    p = TRACED(pause());
    kill(p, SIGKILL);
    is(next_of(p), KILLED(SIGKILL), "SIGKILL of a stopped one");
    siginfo_t si;
    p = TRACED(pause());
    pt(PTRACE_CONT, p, 0, 0);
    kill(p, SIGUSR1);
    is(waitid(P_PID, (id_t)p, &si, WEXITED | WNOWAIT), 0, "waitid");
    ok(si.si_code == CLD_TRAPPED && si.si_status == SIGUSR1 && si.si_pid == p, "waitid: trapped");
    is(next_of(p), SIGUSR1, "it was only looked at");
    kill(p, SIGKILL);
    is(next_of(p), KILLED(SIGKILL), "killed");
    err(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD, "nobody is left");
}

/* Blocking calls go on after a stop that was not theirs. */
static void restarts(void)
{
    int fd[2];
    must(pipe(fd));
    pid_t p = FREE({
        char c;
        struct timespec ts = {0, 200000000};
        int bad = read(fd[0], &c, 1) != 1;
        bad |= nanosleep(&ts, NULL) != 0;
        _exit(bad);
    });
    usleep(20000);
    is(pt(PTRACE_SEIZE, p, 0, 0), 0, "seize");
    for (int i = 0; i < 5; i++) {
        pt(PTRACE_INTERRUPT, p, 0, 0);
        int s = next_of(p);
        if (s != EVENT(PTRACE_EVENT_STOP) || (int)regs_of(p).orig_rax != SYS_read)
            note("stop %x", s);
        pt(PTRACE_CONT, p, 0, 0);
    }
    pt(PTRACE_INTERRUPT, p, 0, 0);
    next_of(p);
    pt(PTRACE_SYSCALL, p, 0, 0);
    is(next_of(p), SIGTRAP, "the call it is in is told");
    is((int)regs_of(p).orig_rax, SYS_read, "which it is");
    pt(PTRACE_SYSCALL, p, 0, 0);
    must(write(fd[1], "x", 1));
    is(next_of(p), SIGTRAP, "and its end");
    is(regs_of(p).rax, 1, "with its result");
    pt(PTRACE_CONT, p, 0, 0);
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        pt(PTRACE_INTERRUPT, p, 0, 0);
        next_of(p);
        pt(PTRACE_CONT, p, 0, 0);
    }
    is(next_of(p), EXITED(0), "the calls went on");
    close(fd[0]), close(fd[1]);
}

TAP_MAIN
{
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory();
    registers();
    calls();
    signals_to();
    steps();
    attached();
    events();
    others();
    restarts();
    return done();
}
