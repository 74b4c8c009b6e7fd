/* sigaction, masks, queues, alternate stacks, restart per call, waiting for signals, kill's errors, stop and continue. */
#include "tap.h"
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <linux/futex.h>

static volatile int count, last_sig, order[64], values[64];
static siginfo_t info;
static void handler(int sig)
{
    if (count < 64)
        order[count] = sig;
    count++;
    last_sig = sig;
}
static void info_handler(int sig, siginfo_t *i, void *c)
{
    (void)c;
    info = *i;
    if (count < 64)
        order[count] = sig, values[count] = i->si_value.sival_int;
    count++;
}
static void set(int sig, int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    if (flags & SA_SIGINFO)
        a.sa_sigaction = info_handler;
    must(sigaction(sig, &a, NULL));
    count = last_sig = 0;
    memset(&info, 0, sizeof(info));
}
static sigset_t one(int sig)
{
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, sig);
    return s;
}
static void block(int sig)
{
    sigset_t s = one(sig);
    sigprocmask(SIG_BLOCK, &s, NULL);
}
static void unblock(int sig)
{
    sigset_t s = one(sig);
    sigprocmask(SIG_UNBLOCK, &s, NULL);
}
static bool pending(int sig)
{
    sigset_t s;
    sigpending(&s);
    return sigismember(&s, sig);
}
static bool blocked(int sig)
{
    sigset_t s;
    sigprocmask(0, NULL, &s);
    return sigismember(&s, sig);
}

static void actions(void)
{
    struct sigaction a = {.sa_handler = handler}, o;
    err(sigaction(0, &a, NULL), EINVAL, "sigaction: signal 0");
    err(sigaction(65, &a, NULL), EINVAL, "sigaction: signal 65");
    err(sigaction(SIGKILL, &a, NULL), EINVAL, "sigaction: SIGKILL");
    err(sigaction(SIGSTOP, &a, NULL), EINVAL, "sigaction: SIGSTOP");
    does(sigaction(SIGKILL, NULL, &o), "sigaction: SIGKILL can be asked for");
    err(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4), EINVAL, "rt_sigaction: size");
    err(syscall(SYS_rt_sigaction, SIGUSR1, 8, NULL, 8), EFAULT, "rt_sigaction: bad pointer");
    a.sa_flags = SA_NODEFER | SA_RESTART;
    sigaddset(&a.sa_mask, SIGUSR2);
    sigaddset(&a.sa_mask, SIGKILL);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGUSR1, NULL, &o);
    ok(o.sa_handler == handler && (o.sa_flags & (SA_NODEFER | SA_RESTART)) == (SA_NODEFER | SA_RESTART), "sigaction: reads back");
    ok(sigismember(&o.sa_mask, SIGUSR2) && !sigismember(&o.sa_mask, SIGKILL), "sigaction: mask without SIGKILL");
    set(SIGUSR1, 0);
    raise(SIGUSR1);
    ok(count == 1 && last_sig == SIGUSR1, "a handler runs");
    set(SIGUSR1, SA_RESETHAND);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &o);
    ok(count == 1 && o.sa_handler == SIG_DFL, "SA_RESETHAND");
    set(SIGUSR1, SA_SIGINFO);
    kill(getpid(), SIGUSR1);
    ok(info.si_signo == SIGUSR1 && info.si_code == SI_USER && info.si_pid == getpid() && info.si_uid == getuid(), "siginfo of kill");
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
    ok(info.si_code == SI_TKILL && info.si_pid == getpid(), "siginfo of tgkill");
    union sigval v = {.sival_int = 4711};
    sigqueue(getpid(), SIGUSR1, v);
    ok(info.si_code == SI_QUEUE && info.si_value.sival_int == 4711 && info.si_pid == getpid(), "siginfo of sigqueue");
    signal(SIGUSR1, SIG_IGN);
    does(raise(SIGUSR1), "an ignored signal");
    block(SIGUSR1);
    raise(SIGUSR1);
    ok(pending(SIGUSR1), "blocked and ignored: pending");
    unblock(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    block(SIGUSR1);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    ok(!pending(SIGUSR1), "setting SIG_IGN drops what is pending");
    unblock(SIGUSR1);
    block(SIGCHLD);
    raise(SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    ok(!pending(SIGCHLD), "SIG_DFL of a signal ignored by default drops it too");
    unblock(SIGCHLD);
    signal(SIGUSR1, SIG_DFL);
}

static void nested(int sig)
{
    order[count++] = sig;
    if (sig == SIGUSR1) {
        raise(SIGUSR2);
        if (count < 4)
            raise(SIGUSR1);
        order[count++] = -SIGUSR1;
    } else {
        order[count++] = -SIGUSR2;
    }
}

static volatile int depth, max_depth;
static void again(int sig)
{
    depth++;
    if (depth > max_depth)
        max_depth = depth;
    if (depth < 3)
        raise(sig);
    depth--;
}

static volatile bool was_blocked1, was_blocked2;
static void look(int sig)
{
    (void)sig;
    was_blocked1 = blocked(SIGUSR1);
    was_blocked2 = blocked(SIGUSR2);
}

static void masks(void)
{
    err(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, 16), EINVAL, "sigprocmask: size");
    sigset_t s = one(SIGUSR1), o;
    err(sigprocmask(77, &s, NULL), EINVAL, "sigprocmask: how");
    does(sigprocmask(77, NULL, &o), "sigprocmask: how does not matter without a set");
    err(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8, NULL, 8), EFAULT, "sigprocmask: bad set");
    sigfillset(&s);
    sigprocmask(SIG_SETMASK, &s, &o);
    ok(!blocked(SIGKILL) && !blocked(SIGSTOP) && blocked(SIGTERM), "KILL and STOP cannot be blocked");
    sigprocmask(SIG_SETMASK, &o, NULL);
    set(SIGUSR1, 0);
    block(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGUSR1);
    ok(count == 0 && pending(SIGUSR1), "a blocked signal is pending");
    unblock(SIGUSR1);
    is(count, 1, "standard signals queue once");
    int rt = SIGRTMIN + 1;
    set(rt, SA_SIGINFO);
    set(rt + 1, SA_SIGINFO);
    set(SIGUSR1, SA_SIGINFO);
    block(rt);
    block(rt + 1);
    block(SIGUSR1);
    for (int i = 0; i < 3; i++) {
        sigqueue(getpid(), rt + 1, (union sigval){.sival_int = 10 + i});
        sigqueue(getpid(), rt, (union sigval){.sival_int = i});
    }
    raise(SIGUSR1);
    s = one(rt);
    sigaddset(&s, rt + 1);
    sigaddset(&s, SIGUSR1);
    struct sigaction a = {.sa_sigaction = info_handler, .sa_flags = SA_SIGINFO, .sa_mask = s};
    sigaction(rt, &a, NULL); /* one handler at a time */
    sigaction(rt + 1, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    sigprocmask(SIG_UNBLOCK, &s, NULL);
    is(count, 7, "real-time signals queue");
    ok(order[0] == SIGUSR1 && order[1] == rt && order[3] == rt && order[4] == rt + 1, "lower numbers come first");
    ok(values[1] == 0 && values[2] == 1 && values[3] == 2 && values[4] == 10 && values[6] == 12, "equal ones in the order of sending");
    a = (struct sigaction){.sa_handler = nested};
    count = 0;
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGUSR2, &a, NULL);
    raise(SIGUSR1);
    ok(count == 8 && order[0] == SIGUSR1 && order[1] == SIGUSR2 && order[2] == -SIGUSR2 && order[3] == -SIGUSR1 && order[4] == SIGUSR1,
       "another signal nests, the same one waits");
}

static void masks2(void)
{
    struct sigaction a = {.sa_handler = again, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    is(max_depth, 3, "SA_NODEFER nests");
    a = (struct sigaction){.sa_handler = look};
    sigaddset(&a.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    ok(was_blocked1 && was_blocked2, "in the handler: the signal and sa_mask are blocked");
    ok(!blocked(SIGUSR1) && !blocked(SIGUSR2), "afterwards not");
    signal(SIGUSR2, SIG_DFL);
}

static jmp_buf jump;
static sigjmp_buf sigjump;
static volatile uintptr_t handler_sp;
static char *alt;
static void on_alt(int sig)
{
    (void)sig;
    char c;
    handler_sp = (uintptr_t)&c;
    stack_t s;
    sigaltstack(NULL, &s);
    count = s.ss_flags;
    s.ss_flags = SS_DISABLE;
    last_sig = sigaltstack(&s, NULL) == -1 ? errno : 0;
}
static void jumps(int sig)
{
    (void)sig;
    siglongjmp(sigjump, 3);
}
static int overflow(int n)
{
    volatile char a[4096];
    a[0] = (char)n;
    return n < 0 ? 0 : overflow(n + 1) + a[0];
}
static void *fault_addr;
static int fault_code, fault_sig;
static void on_fault(int sig, siginfo_t *i, void *c)
{
    (void)c;
    fault_sig = sig;
    fault_code = i->si_code;
    fault_addr = i->si_addr;
    siglongjmp(sigjump, 1);
}

/* A frame that cannot be written is SIGSEGV, whose handler may run elsewhere. */
static void no_frame(void)
{
    size_t size = 64 * 1024;
    char *m = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t s = {.ss_sp = m, .ss_size = size}, off = {.ss_flags = SS_DISABLE};
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaltstack(&s, NULL);
    sigaction(SIGSEGV, &a, NULL);
    a.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &a, NULL);
    fault_sig = 0;
    if (!sigsetjmp(sigjump, 1))
        raise(SIGUSR1);
    is(fault_sig, SIGSEGV, "a stack that cannot be written: SIGSEGV");
    ok(!blocked(SIGUSR1), "the signal itself was not delivered");
    int st = in_child(signal(SIGSEGV, SIG_IGN); raise(SIGUSR1));
    ok(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV, "ignored: it ends the process");
    signal(SIGSEGV, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    sigaltstack(&off, NULL);
    munmap(m, size);
}

static uint64_t bad_ip;
static void to_bad_ip(int sig, siginfo_t *i, void *c)
{
    (void)sig;
    (void)i;
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP] = (greg_t)bad_ip;
}

/* An address that cannot be: SIGSEGV, and nothing worse. */
static void bad_ips(void)
{
    const uint64_t bad[] = {0x7fffffffffffffff, 0x8000000000000000, 0xffff800000000000, 0x800000000000};
    for (unsigned n = 0; n < 4; n++) {
        struct sigaction a = {.sa_flags = SA_SIGINFO};
        bad_ip = bad[n];
        a.sa_sigaction = to_bad_ip;
        int st = in_child(sigaction(SIGUSR1, &a, NULL); raise(SIGUSR1));
        ok(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV, "return from a signal to %lx", bad_ip);
        a.sa_sigaction = (void (*)(int, siginfo_t *, void *))bad_ip;
        st = in_child(sigaction(SIGUSR1, &a, NULL); raise(SIGUSR1));
        ok(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV, "a handler at %lx", bad_ip);
    }
}

static void stacks(void)
{
    no_frame();
    bad_ips();
    size_t size = 64 * 1024;
    alt = malloc(size);
    stack_t s = {.ss_sp = alt, .ss_size = size}, o;
    sigaltstack(NULL, &o);
    is(o.ss_flags, SS_DISABLE, "no alternate stack at first");
    stack_t bad = {.ss_sp = alt, .ss_size = 1024};
    err(sigaltstack(&bad, NULL), ENOMEM, "sigaltstack: too small");
    bad.ss_flags = 16;
    err(sigaltstack(&bad, NULL), EINVAL, "sigaltstack: bad flags");
    err(sigaltstack((void *)8, NULL), EFAULT, "sigaltstack: bad pointer");
    does(sigaltstack(&s, NULL), "sigaltstack");
    sigaltstack(NULL, &o);
    ok(o.ss_sp == alt && o.ss_size == size && o.ss_flags == 0, "sigaltstack reads back");
    struct sigaction a = {.sa_handler = on_alt, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    ok(handler_sp > (uintptr_t)alt && handler_sp < (uintptr_t)alt + size, "SA_ONSTACK: the handler runs there");
    is(count, SS_ONSTACK, "SS_ONSTACK in it");
    is(last_sig, EPERM, "sigaltstack on the alternate stack: EPERM");
    a.sa_flags = 0;
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    ok(handler_sp < (uintptr_t)alt || handler_sp > (uintptr_t)alt + size, "without SA_ONSTACK it does not");
    a = (struct sigaction){.sa_handler = jumps};
    sigaction(SIGUSR1, &a, NULL);
    if (!sigsetjmp(sigjump, 1)) {
        raise(SIGUSR1);
        ok(false, "siglongjmp leaves");
    } else {
        ok(!blocked(SIGUSR1), "siglongjmp restores the mask");
    }
    if (!sigsetjmp(sigjump, 0)) {
        raise(SIGUSR1);
    } else {
        ok(blocked(SIGUSR1), "without saving it does not");
        unblock(SIGUSR1);
    }
    a = (struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    if (!sigsetjmp(sigjump, 1))
        overflow(0);
    is(fault_sig, SIGSEGV, "stack overflow is seen on the alternate stack");
    sigaction(SIGFPE, &a, NULL);
    sigaction(SIGILL, &a, NULL);
    sigaction(SIGTRAP, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
    if (!sigsetjmp(sigjump, 1)) {
        volatile int zero = 0;
        count = 77 / zero;
    }
    ok(fault_sig == SIGFPE && fault_code == FPE_INTDIV, "SIGFPE: FPE_INTDIV");
    if (!sigsetjmp(sigjump, 1))
        __asm__ volatile("ud2");
    ok(fault_sig == SIGILL && fault_code == ILL_ILLOPN, "SIGILL: ILL_ILLOPN");
    if (!sigsetjmp(sigjump, 1))
        __asm__ volatile("int3");
    ok(fault_sig == SIGTRAP && fault_code == SI_KERNEL, "SIGTRAP by int3: SI_KERNEL");
    if (!sigsetjmp(sigjump, 1))
        *(volatile int *)0x1234 = 0;
    ok(fault_sig == SIGSEGV && fault_code == SEGV_MAPERR && fault_addr == (void *)0x1234, "SIGSEGV: SEGV_MAPERR and address");
    char *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!sigsetjmp(sigjump, 1))
        *(volatile char *)(ro + 5) = 0;
    ok(fault_sig == SIGSEGV && fault_code == SEGV_ACCERR && fault_addr == ro + 5, "SIGSEGV: SEGV_ACCERR and address");
    if (!sigsetjmp(sigjump, 1))
        *(volatile char *)0x8000000000000000 = 0;
    ok(fault_sig == SIGSEGV && fault_code == SI_KERNEL && fault_addr == NULL, "SIGSEGV: non-canonical address");
    if (!sigsetjmp(sigjump, 1))
        __asm__ volatile("hlt");
    ok(fault_sig == SIGSEGV && fault_code == SI_KERNEL, "SIGSEGV: privileged instruction");
    if (!sigsetjmp(sigjump, 1))
        __asm__ volatile("jmp *%0" ::"r"(0x5000ul));
    ok(fault_sig == SIGSEGV && fault_code == SEGV_MAPERR && fault_addr == (void *)0x5000, "SIGSEGV: jump to nothing");
    if (!sigsetjmp(sigjump, 1))
        __asm__ volatile("jmp *%0" ::"r"(ro));
    ok(fault_sig == SIGSEGV && fault_code == SEGV_ACCERR && fault_addr == ro, "SIGSEGV: jump to memory without PROT_EXEC");
    for (int s2 = 1; s2 < 32; s2++)
        if (s2 == SIGSEGV || s2 == SIGFPE || s2 == SIGILL || s2 == SIGTRAP || s2 == SIGBUS)
            signal(s2, SIG_DFL);
    is(WTERMSIG(in_child(*(volatile int *)8 = 1)), SIGSEGV, "default action of a fault");
    is(WTERMSIG(in_child(signal(SIGSEGV, SIG_IGN); *(volatile int *)8 = 1)), SIGSEGV, "a fault cannot be ignored");
    is(WTERMSIG(in_child(block(SIGSEGV); *(volatile int *)8 = 1)), SIGSEGV, "a fault cannot be blocked");
    is(WTERMSIG(in_child(signal(SIGILL, SIG_IGN); __asm__ volatile("ud2"))), SIGILL, "SIGILL cannot be ignored");
    s.ss_flags = SS_DISABLE;
    sigaltstack(&s, NULL);
    (void)jump;
}

static void context_handler(int sig, siginfo_t *i, void *c)
{
    (void)sig, (void)i;
    ucontext_t *u = c;
    u->uc_mcontext.gregs[REG_RAX] = 99;
    u->uc_mcontext.gregs[REG_RIP] += 2;
    sigaddset(&u->uc_sigmask, SIGUSR2);
}
static void contexts(void)
{
    struct sigaction a = {.sa_sigaction = context_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &a, NULL);
    long rax = 1;
    double d = 1.5, e;
    __asm__ volatile("movsd %2, %%xmm7\n ud2\n movsd %%xmm7, %1" : "+a"(rax), "=m"(e) : "m"(d) : "xmm7");
    is(rax, 99, "registers changed in the context are loaded");
    ok(e == 1.5, "vector registers are kept");
    ok(blocked(SIGUSR2), "uc_sigmask is loaded");
    unblock(SIGUSR2);
    signal(SIGILL, SIG_DFL);
    is(WTERMSIG(in_child(__asm__ volatile("xor %%rsp, %%rsp\n mov $15, %%eax\n syscall" ::: "memory"))), SIGSEGV, "sigreturn with a bad stack");
}

/* A call that sleeps, in a child that gets SIGUSR1 after a while and must then either fail with EINTR or go on. */
enum { READ_PIPE, WRITE_PIPE, READ_SOCK, ACCEPT, WAIT4, NANOSLEEP, POLL, SELECT, EPOLL, PAUSE, SIGSUSPEND, FLOCK, SETLKW, OPEN_FIFO,
       FUTEX, SEMOP, MSGRCV, SIGTIMEDWAIT, RECV_TIMEOUT, SEM_WAIT, CLOCK_ABS, CONNECT_UNIX, CALLS };
static const char *const call_names[CALLS] = {"read(pipe)", "write(pipe)", "read(socket)", "accept", "wait4", "nanosleep", "poll", "select",
    "epoll_wait", "pause", "sigsuspend", "flock", "fcntl(F_SETLKW)", "open(fifo)", "futex", "semop", "msgrcv", "sigtimedwait",
    "recv with SO_RCVTIMEO", "sem_wait", "clock_nanosleep(ABSTIME)", "connect(unix)"};
/* 1: restarted with SA_RESTART; 0: EINTR always. signal(7) */
static const bool restarts[CALLS] = {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1};

static int prepare_fd(int call, int p[2])
{
    char buf[4096] = {0};
    int fd;
    switch (call) {
    case READ_PIPE:
    case POLL:
    case SELECT:
    case EPOLL:
        must(pipe(p));
        return p[0];
    case WRITE_PIPE:
        must(pipe(p));
        fcntl(p[1], F_SETFL, O_NONBLOCK);
        while (write(p[1], buf, sizeof(buf)) > 0)
            ;
        fcntl(p[1], F_SETFL, 0);
        return p[1];
    case READ_SOCK:
    case RECV_TIMEOUT:
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
        struct timeval tv = {5, 0};
        if (call == RECV_TIMEOUT)
            setsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
        return p[0];
    case ACCEPT:
    case CONNECT_UNIX:
        fd = must(socket(AF_UNIX, SOCK_STREAM, 0));
        must(bind(fd, (struct sockaddr *)&(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)));
        must(listen(fd, 0));
        p[0] = fd;
        if (call == CONNECT_UNIX) {
            struct sockaddr_storage a;
            socklen_t n = sizeof(a);
            getsockname(fd, (void *)&a, &n);
            p[1] = socket(AF_UNIX, SOCK_STREAM, 0);
            must(connect(p[1], (void *)&a, n));
        }
        return fd;
    case FLOCK:
    case SETLKW:
        fd = must(open("lockfile", O_CREAT | O_RDWR, 0600));
        return fd;
    }
    return -1;
}

static long sleeping_call(int call, int fd, int id)
{
    char buf[4096] = {0};
    struct pollfd pf = {fd, POLLIN, 0};
    fd_set fs;
    struct timespec t = {5, 0};
    struct timeval tv = {5, 0};
    sigset_t s;
    static int word;
    struct epoll_event ev = {.events = EPOLLIN};
    struct sembuf sb = {0, -1, 0};
    struct flock fl = {.l_type = F_WRLCK};
    sem_t sem;
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    switch (call) {
    case READ_PIPE: return read(fd, buf, 1);
    case WRITE_PIPE: return write(fd, buf, sizeof(buf));
    case READ_SOCK: return read(fd, buf, 1);
    case RECV_TIMEOUT: return recv(fd, buf, 1, 0);
    case ACCEPT: return accept(fd, NULL, NULL);
    case WAIT4: {
        pid_t p = fork();
        if (!p) {
            sleep_ms(400);
            _exit(0);
        }
        return waitpid(p, NULL, 0);
    }
    case NANOSLEEP: return nanosleep(&t, NULL);
    case POLL: return poll(&pf, 1, 5000);
    case SELECT:
        FD_ZERO(&fs);
        FD_SET(fd, &fs);
        return select(fd + 1, &fs, NULL, NULL, &tv);
    case EPOLL: {
        int e = epoll_create1(0);
        epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
        return epoll_wait(e, &ev, 1, 5000);
    }
    case PAUSE: return pause();
    case SIGSUSPEND:
        sigemptyset(&s);
        return sigsuspend(&s);
    case FLOCK: {
        int other = open("lockfile", O_RDWR);
        return flock(other, LOCK_EX);
    }
    case SETLKW: return fcntl(fd, F_SETLKW, &fl);
    case OPEN_FIFO: return open("fifo", O_RDONLY);
    case FUTEX: return syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL);
    case SEMOP: return semop(id, &sb, 1);
    case MSGRCV: return msgrcv(id, buf, 8, 0, 0);
    case SIGTIMEDWAIT:
        s = one(SIGUSR2);
        return sigtimedwait(&s, NULL, &t);
    case SEM_WAIT:
        sem_init(&sem, 0, 0);
        return sem_wait(&sem);
    case CLOCK_ABS:
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += 5;
        errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        return errno ? -1 : 0;
    case CONNECT_UNIX:
        getsockname(fd, (void *)&a, &n);
        return connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, n);
    }
    return -1;
}

static void restart_table(void)
{
    for (int call = 0; call < CALLS; call++)
        for (int flag = 0; flag < 2; flag++) {
            int p[2] = {-1, -1}, id = -1, fd = prepare_fd(call, p), lock[2], ready[2];
            must(pipe(ready));
            if (call == SEMOP)
                id = must(semget(IPC_PRIVATE, 1, 0600));
            if (call == MSGRCV)
                id = must(msgget(IPC_PRIVATE, 0600));
            if (call == FLOCK)
                must(flock(fd, LOCK_EX));
            if (call == SETLKW)
                must(fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK}));
            if (call == OPEN_FIFO)
                must(mkfifo("fifo", 0600));
            (void)lock;
            pid_t c = fork();
            if (!c) {
                set(SIGUSR1, flag ? SA_RESTART : 0);
                set(SIGALRM, 0);
                must(write(ready[1], "x", 1));
                if (flag)
                    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 300000}}, NULL); /* ends a call that was restarted */
                long r = sleeping_call(call, fd, id);
                /* count: 1 = it ended at SIGUSR1, 2 = SIGALRM was needed */
                _exit(r == -1 && errno == EINTR ? count : r >= 0 ? 10 + count : 20);
            }
            char x;
            must(read(ready[0], &x, 1));
            sleep_ms(60);
            kill(c, SIGUSR1);
            int st;
            waitpid(c, &st, 0);
            int want = flag && restarts[call] ? 2 : 1;
            if (call == WAIT4 && flag)
                is(WEXITSTATUS(st), 2, "%s with SA_RESTART", call_names[call]);
            else
                is(WEXITSTATUS(st), want, "%s %s", call_names[call], flag ? "with SA_RESTART" : "without SA_RESTART: EINTR");
            close(p[0]);
            close(p[1]);
            close(ready[0]);
            close(ready[1]);
            if (fd >= 0)
                close(fd);
            if (call == SEMOP)
                semctl(id, 0, IPC_RMID);
            if (call == MSGRCV)
                msgctl(id, IPC_RMID, NULL);
            unlink("fifo");
            unlink("lockfile");
        }
}

static void waiting(void)
{
    block(SIGUSR1);
    block(SIGRTMIN);
    sigset_t s = one(SIGUSR1);
    struct timespec zero = {0, 0}, bad = {0, -1}, shortly = {0, 30000000};
    siginfo_t i;
    err(sigtimedwait(&s, &i, &zero), EAGAIN, "sigtimedwait: nothing there");
    err(sigtimedwait(&s, &i, &bad), EINVAL, "sigtimedwait: bad timeout");
    double t = now_s(CLOCK_MONOTONIC);
    err(sigtimedwait(&s, &i, &shortly), EAGAIN, "sigtimedwait: timeout");
    ok(now_s(CLOCK_MONOTONIC) - t >= 0.03, "sigtimedwait: it waits");
    kill(getpid(), SIGUSR1);
    is(sigtimedwait(&s, &i, &zero), SIGUSR1, "sigtimedwait: takes a pending one");
    ok(i.si_signo == SIGUSR1 && i.si_code == SI_USER && i.si_pid == getpid(), "sigtimedwait: siginfo");
    ok(!pending(SIGUSR1), "it is taken");
    sigaddset(&s, SIGRTMIN);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 2});
    is(sigwaitinfo(&s, &i), SIGRTMIN, "sigwaitinfo");
    is(i.si_value.sival_int, 1, "first value");
    is(sigwaitinfo(&s, &i), SIGRTMIN, "sigwaitinfo again");
    is(i.si_value.sival_int, 2, "second value");
    pid_t me = getpid(), c = fork();
    if (!c) {
        sleep_ms(40);
        kill(me, SIGUSR1);
        _exit(0);
    }
    is(sigwaitinfo(&s, &i), SIGUSR1, "sigwaitinfo waits");
    is(i.si_pid, c, "for the child's signal");
    waitpid(c, NULL, 0);
    set(SIGUSR2, 0);
    c = fork();
    if (!c) {
        sleep_ms(40);
        kill(me, SIGUSR2);
        _exit(0);
    }
    err(sigwaitinfo(&s, &i), EINTR, "another signal with a handler: EINTR");
    waitpid(c, NULL, 0);
    unblock(SIGUSR1);
    unblock(SIGRTMIN);
    set(SIGUSR1, 0);
    block(SIGUSR1);
    raise(SIGUSR1);
    sigset_t none;
    sigemptyset(&none);
    err(sigsuspend(&none), EINTR, "sigsuspend with one pending");
    is(count, 1, "the handler ran");
    ok(blocked(SIGUSR1), "and the mask is back");
    unblock(SIGUSR1);
    err(syscall(SYS_rt_sigsuspend, &none, 4), EINVAL, "sigsuspend: size");
}

static void kills(void)
{
    pid_t me = getpid();
    err(kill(me, 65), EINVAL, "kill: signal 65");
    err(kill(me, -1), EINVAL, "kill: signal -1");
    does(kill(me, 0), "kill: signal 0");
    pid_t c = fork();
    if (!c)
        _exit(0);
    siginfo_t i;
    waitid(P_PID, (id_t)c, &i, WEXITED | WNOWAIT);
    does(kill(c, SIGTERM), "kill: a zombie");
    waitpid(c, NULL, 0);
    err(kill(c, 0), ESRCH, "kill: gone");
    err(kill(-c, 0), ESRCH, "kill: no such group");
    err(syscall(SYS_tkill, 0, 1), EINVAL, "tkill: tid 0");
    err(syscall(SYS_tgkill, me, -1, 1), EINVAL, "tgkill: tid -1");
    err(syscall(SYS_tgkill, me + 1000, me, 0), ESRCH, "tgkill: wrong group");
    err(syscall(SYS_tgkill, me, me, 99), EINVAL, "tgkill: bad signal");
    does(syscall(SYS_tgkill, me, me, 0), "tgkill: signal 0");
    i = (siginfo_t){.si_code = SI_USER};
    c = fork();
    if (!c) {
        pause();
        _exit(0);
    }
    err(syscall(SYS_rt_sigqueueinfo, c, SIGUSR1, &i), EPERM, "rt_sigqueueinfo: SI_USER for another process");
    i.si_code = SI_TKILL;
    err(syscall(SYS_rt_sigqueueinfo, c, SIGUSR1, &i), EPERM, "rt_sigqueueinfo: SI_TKILL for another process");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    if (getuid() == 0) {
        c = fork();
        if (!c) {
            setpgid(0, 0);
            pause();
            _exit(0);
        }
        setpgid(c, c);
        int st = in_child(setuid(65534); _exit(kill(c, SIGTERM) == -1 ? errno : 0));
        is(WEXITSTATUS(st), EPERM, "kill: another user's process");
        st = in_child(setuid(65534); _exit(kill(c, 0) == -1 ? errno : 0));
        is(WEXITSTATUS(st), EPERM, "kill: signal 0 too");
        st = in_child(setuid(65534); _exit(kill(-c, SIGTERM) == -1 ? errno : 0));
        is(WEXITSTATUS(st), EPERM, "kill: another user's group");
        kill(-c, SIGTERM);
        waitpid(c, &st, 0);
        is(st, SIGTERM, "kill: a group");
    }
    /* SIGCONT to the same session is allowed, SIGSTOP etc. work on a group */
    c = fork();
    if (!c) {
        set(SIGCONT, 0);
        raise(SIGSTOP);
        _exit(count == 1 ? 5 : 6);
    }
    int st;
    waitpid(c, &st, WUNTRACED);
    ok(WIFSTOPPED(st), "raise(SIGSTOP)");
    kill(c, SIGCONT);
    waitpid(c, &st, 0);
    is(st, 5 << 8, "a SIGCONT handler runs on continuing");
    c = fork();
    if (!c) {
        block(SIGTSTP);
        raise(SIGTSTP);
        bool before = pending(SIGTSTP);
        raise(SIGCONT);
        _exit(before && !pending(SIGTSTP) ? 7 : 8);
    }
    waitpid(c, &st, 0);
    is(st, 7 << 8, "SIGCONT drops pending stop signals");
    c = fork();
    if (!c) {
        block(SIGCONT);
        raise(SIGCONT);
        bool before = pending(SIGCONT);
        block(SIGTSTP);
        raise(SIGTSTP);
        _exit(before && !pending(SIGCONT) ? 7 : 8);
    }
    waitpid(c, &st, 0);
    is(st, 7 << 8, "a stop signal drops a pending SIGCONT");
    /* sleeping calls go on after stop and continue */
    c = fork();
    if (!c) {
        struct timespec t = {0, 200000000};
        _exit(nanosleep(&t, NULL) == 0 ? 3 : 4);
    }
    sleep_ms(30);
    kill(c, SIGSTOP);
    waitpid(c, &st, WUNTRACED);
    kill(c, SIGCONT);
    waitpid(c, &st, 0);
    is(st, 3 << 8, "nanosleep goes on after SIGSTOP and SIGCONT");
    int p[2];
    must(pipe(p));
    c = fork();
    if (!c) {
        char x;
        _exit(read(p[0], &x, 1) == 1 ? 3 : 4);
    }
    sleep_ms(30);
    kill(c, SIGSTOP);
    waitpid(c, &st, WUNTRACED);
    kill(c, SIGCONT);
    sleep_ms(10);
    must(write(p[1], "x", 1));
    waitpid(c, &st, 0);
    is(st, 3 << 8, "read goes on after SIGSTOP and SIGCONT");
    struct pollfd pf = {p[0], POLLIN, 0};
    c = fork();
    if (!c)
        _exit(poll(&pf, 1, 5000) == 1 ? 3 : 4);
    sleep_ms(30);
    kill(c, SIGSTOP);
    waitpid(c, &st, WUNTRACED);
    kill(c, SIGCONT);
    sleep_ms(10);
    must(write(p[1], "x", 1));
    waitpid(c, &st, 0);
    is(st, 3 << 8, "poll goes on after SIGSTOP and SIGCONT");
    c = fork();
    if (!c) {
        signal(SIGTERM, SIG_IGN);
        struct timespec t = {0, 100000000};
        _exit(nanosleep(&t, NULL) == 0 ? 3 : 4);
    }
    sleep_ms(30);
    kill(c, SIGTERM);
    waitpid(c, &st, 0);
    is(st, 3 << 8, "an ignored signal does not interrupt");
}

static void told(int s) { (void)s; }

/* A process that computes is told of each: it must not matter how many come before it has looked at one. */
static int told_often(void)
{
    pid_t senders[3], c = fork();
    int st;
    if (!c) {
        signal(SIGUSR1, told);
        for (;;)
            __asm__ volatile("");
    }
    for (int k = 0; k < 3; k++)
        if (!(senders[k] = fork())) {
            for (int i = 0; i < 20000; i++) {
                kill(c, SIGSTOP);
                kill(c, SIGCONT);
                kill(c, SIGUSR1);
            }
            _exit(0);
        }
    for (int k = 0; k < 3; k++)
        waitpid(senders[k], &st, 0);
    int alive = waitpid(c, &st, WNOHANG) == 0;
    kill(c, SIGKILL);
    waitpid(c, &st, 0);
    return alive;
}

TAP_MAIN
{
    actions();
    masks();
    masks2();
    stacks();
    contexts();
    restart_table();
    waiting();
    kills();
    ok(told_often(), "a process that computes survives signals by the thousand");
    return done();
}
