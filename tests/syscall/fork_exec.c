/* fork, vfork, clone, execve: what is inherited, what execve refuses, scripts, argument limits, auxv. */
#include "tap.h"
#include <elf.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

extern char **environ;
static char self[256];

static int exec_mode(int argc, char **argv) /* what the test's second life does; the result is the exit status */
{
    const char *m = argv[1];
    if (!strcmp(m, "argc"))
        return argc;
    if (!strcmp(m, "fd"))
        return fcntl(atoi(argv[2]), F_GETFD) >= 0 ? 1 : 0;
    if (!strcmp(m, "env"))
        return getenv(argv[2]) && !strcmp(getenv(argv[2]), argv[3]);
    if (!strcmp(m, "envcount")) {
        int n = 0;
        while (environ[n])
            n++;
        return n;
    }
    if (!strcmp(m, "handler")) { /* disposition of SIGUSR1 and whether SIGUSR2 is blocked */
        struct sigaction a;
        sigset_t s;
        sigaction(SIGUSR1, NULL, &a);
        sigprocmask(0, NULL, &s);
        return (a.sa_handler == SIG_IGN) | (a.sa_handler == SIG_DFL) << 1 | sigismember(&s, SIGUSR2) << 2;
    }
    if (!strcmp(m, "altstack")) {
        stack_t s;
        sigaltstack(NULL, &s);
        return s.ss_flags == SS_DISABLE;
    }
    if (!strcmp(m, "umask"))
        return (int)umask(0) & 0xff;
    if (!strcmp(m, "comm")) {
        char c[17] = {0};
        prctl(PR_GET_NAME, c);
        return !strcmp(c, argv[2]);
    }
    if (!strcmp(m, "pid"))
        return getpid() == atoi(argv[2]);
    if (!strcmp(m, "pending")) {
        sigset_t s;
        sigpending(&s);
        return sigismember(&s, SIGUSR2);
    }
    if (!strcmp(m, "script")) /* argv: self, script, [arg] path, args */
        return argc;
    if (!strcmp(m, "auxv")) {
        bool checks[] = {getauxval(AT_PAGESZ) == 4096, getauxval(AT_RANDOM) != 0, getauxval(AT_PHDR) && getauxval(AT_PHNUM) > 0,
            getauxval(AT_PHENT) == sizeof(Elf64_Phdr), getauxval(AT_ENTRY) != 0,
            getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid() && getauxval(AT_GID) == getgid(),
            getauxval(AT_SECURE) == 0, getauxval(AT_CLKTCK) == 100, getauxval(AT_SYSINFO_EHDR) != 0,
            getauxval(AT_MINSIGSTKSZ) >= 1024, getauxval(AT_BASE) != 0, !strcmp((char *)getauxval(AT_PLATFORM), "x86_64"),
            !strcmp((char *)getauxval(AT_EXECFN), argv[2])};
        for (unsigned i = 0; i < COUNT(checks); i++)
            if (!checks[i])
                return (int)i + 1;
        return 0;
    }
    if (!strcmp(m, "argv0"))
        return !strcmp(argv[0], argv[2]);
    if (!strcmp(m, "len"))
        return strlen(argv[2]) == (size_t)atol(argv[3]);
    return 111;
}

static int run(const char *path, char *const argv[], char *const envp[])
{
    return in_child(execve(path, argv, envp); _exit(200 + (errno & 31)));
}
#define RUN(...) WEXITSTATUS(run(self, (char *[]){self, __VA_ARGS__, NULL}, environ))

static void file(const char *name, const char *text, mode_t mode)
{
    int fd = must(open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600));
    must(write(fd, text, strlen(text)));
    must(fchmod(fd, mode));
    close(fd);
}

static long execve_errno(const char *path)
{
    int st = in_child(execve(path, (char *[]){"x", NULL}, environ); _exit(errno));
    return WEXITSTATUS(st);
}

static void forks(void)
{
    static volatile int shared_by_nobody = 1;
    pid_t me = getpid();
    int st = in_child(shared_by_nobody = 2; _exit(getppid() == me && getpid() != me ? 3 : 4));
    is(st, 3 << 8, "fork: the child has another pid, and this parent");
    is(shared_by_nobody, 1, "fork: memory is a copy");
    off_t before = 0;
    int fd = must(open("shared", O_CREAT | O_RDWR, 0600));
    must(write(fd, "0123456789", 10));
    in_child(lseek(fd, 4, SEEK_SET));
    is(lseek(fd, 0, SEEK_CUR), 4, "fork: file positions are shared");
    (void)before;
    is(WEXITSTATUS(in_child(_exit(fcntl(fd, F_GETFD) >= 0))), 1, "fork: descriptors are inherited");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    is(WEXITSTATUS(in_child(_exit(fcntl(fd, F_GETFD)))), FD_CLOEXEC, "fork: descriptor flags are inherited");
    close(fd);
    umask(027);
    is(WEXITSTATUS(in_child(_exit(umask(0)))), 027, "fork: umask is inherited");
    umask(022);
    is(in_child(kill(getpid(), SIGKILL)), SIGKILL, "wait status of a kill");
    sigset_t s, o;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, &o);
    kill(getpid(), SIGUSR1);
    is(WEXITSTATUS(in_child(sigset_t p; sigpending(&p); _exit(sigismember(&p, SIGUSR1)))), 0, "fork: pending signals are not");
    is(WEXITSTATUS(in_child(sigset_t p; sigprocmask(0, NULL, &p); _exit(sigismember(&p, SIGUSR1)))), 1, "fork: the mask is");
    signal(SIGUSR1, SIG_IGN);
    sigprocmask(SIG_SETMASK, &o, NULL);
    signal(SIGUSR1, SIG_DFL);
    alarm(100);
    is(WEXITSTATUS(in_child(_exit(alarm(0)))), 0, "fork: alarms are not");
    alarm(0);
    static volatile int v;
    pid_t p = vfork();
    if (!p) {
        v = 7;
        _exit(5);
    }
    is(v, 7, "vfork: memory is shared and the child comes first");
    waitpid(p, &st, 0);
    is(st, 5 << 8, "vfork: status");
    v = 0;
    p = vfork();
    if (!p) {
        execve("/nonexistent", NULL, NULL);
        v = errno;
        _exit(127);
    }
    waitpid(p, &st, 0);
    is(v, ENOENT, "vfork: the errno of a failed exec is seen");
}

static int clone_fn(void *arg)
{
    *(volatile int *)arg += 1;
    return 9;
}

static void catches(int sig) { (void)sig; }

static int exits_fast(void *arg)
{
    (void)arg;
    return 0;
}

static long clone3(void *a, size_t size) /* a child that should not be ends */
{
    long r = syscall(SYS_clone3, a, size);
    if (!r)
        _exit(0);
    return r;
}

static long raw_clone(unsigned long flags)
{
    long r = syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (!r)
        _exit(0);
    return r;
}

static void clones(void)
{
    char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int v = 0;
    int st;
    pid_t p = clone(clone_fn, stack + 65536, SIGCHLD, (void *)&v);
    waitpid(p, &st, 0);
    ok(st == 9 << 8 && v == 0, "clone without CLONE_VM");
    p = clone(clone_fn, stack + 65536, CLONE_VM | SIGCHLD, (void *)&v);
    waitpid(p, &st, 0);
    ok(st == 9 << 8 && v == 1, "clone with CLONE_VM");
    p = clone(clone_fn, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)&v);
    is(v, 2, "CLONE_VM|CLONE_VFORK waits");
    waitpid(p, &st, 0);
    p = clone(clone_fn, stack + 65536, CLONE_VM, (void *)&v);
    err(waitpid(p, &st, 0), ECHILD, "a clone without exit signal is not seen by a plain wait");
    is(waitpid(p, &st, __WCLONE), p, "but with __WCLONE");
    p = clone(clone_fn, stack + 65536, CLONE_VM, (void *)&v);
    is(waitpid(p, &st, __WALL), p, "and with __WALL");
    pid_t ptid = 0, ctid = 0;
    p = clone(exits_fast, stack + 65536, CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, &ptid, NULL,
              &ctid);
    ok(ptid == p && ctid == p, "CLONE_PARENT_SETTID and CHILD_SETTID");
    waitpid(p, &st, 0);
    ctid = 5;
    p = clone(exits_fast, stack + 65536, CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL, NULL, &ctid);
    waitpid(p, &st, 0);
    is(ctid, 0, "CLONE_CHILD_CLEARTID");
    err(raw_clone(CLONE_THREAD | SIGCHLD), EINVAL, "CLONE_THREAD without SIGHAND");
    err(raw_clone(CLONE_SIGHAND | SIGCHLD), EINVAL, "CLONE_SIGHAND without VM");
    err(raw_clone(CLONE_FS | CLONE_NEWNS | SIGCHLD), EINVAL, "CLONE_FS with NEWNS");
    int fd = open("/dev/null", O_RDONLY);
    p = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (!p) {
        close(fd);
        _exit(0);
    }
    waitpid(p, &st, 0);
    err(close(fd), EBADF, "CLONE_FILES: one descriptor table");
    must(mkdir("cl", 0700));
    p = syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
    if (!p)
        _exit(chdir("cl") != 0);
    waitpid(p, &st, 0);
    char cwd[512];
    ok(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd + strlen(cwd) - 3, "/cl"), "CLONE_FS: one current directory");
    chdir("..");
    struct clone_args a = {.exit_signal = SIGCHLD};
    p = syscall(SYS_clone3, &a, sizeof(a));
    if (!p)
        _exit(6);
    waitpid(p, &st, 0);
    is(st, 6 << 8, "clone3");
    err(clone3(&a, 8), EINVAL, "clone3: too small");
    err(clone3(&a, 8192), E2BIG, "clone3: too big");
    err(clone3((void *)8, sizeof(a)), EFAULT, "clone3: bad pointer");
    a.exit_signal = 99;
    err(clone3(&a, sizeof(a)), EINVAL, "clone3: bad signal");
    a.exit_signal = SIGCHLD;
    a.stack = 4096;
    err(clone3(&a, sizeof(a)), EINVAL, "clone3: stack without size");
    a.stack = 0;
    a.flags = 1ull << 60;
    err(clone3(&a, sizeof(a)), EINVAL, "clone3: unknown flag");
    a.flags = SIGCHLD;
    err(clone3(&a, sizeof(a)), EINVAL, "clone3: signal in flags");
    struct sigaction sa = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR1, &sa, NULL);
    signal(SIGUSR2, catches);
    a.flags = CLONE_CLEAR_SIGHAND;
    p = syscall(SYS_clone3, &a, sizeof(a));
    if (!p) {
        struct sigaction x, y;
        sigaction(SIGUSR1, NULL, &x);
        sigaction(SIGUSR2, NULL, &y);
        _exit((x.sa_handler == SIG_IGN) | (y.sa_handler == SIG_DFL) << 1);
    }
    waitpid(p, &st, 0);
    is(st, 3 << 8, "CLONE_CLEAR_SIGHAND: handlers are reset, ignored stay ignored");
    a.flags = CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM;
    err(clone3(&a, sizeof(a)), EINVAL, "CLONE_CLEAR_SIGHAND with SIGHAND");
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    munmap(stack, 65536);
}

static void exec_errors(void)
{
    is(execve_errno("nothing"), ENOENT, "execve: no file");
    is(execve_errno(""), ENOENT, "execve: empty name");
    is(execve_errno((char *)8), EFAULT, "execve: bad pointer");
    is(execve_errno("/"), EACCES, "execve: directory");
    file("noexec", "#!/bin/sh\n", 0644);
    is(execve_errno("noexec"), EACCES, "execve: no x bit, even for root");
    is(execve_errno("noexec/x"), ENOTDIR, "execve: below a file");
    file("text", "hello\n", 0755);
    is(execve_errno("text"), ENOEXEC, "execve: no format");
    file("empty", "", 0755);
    is(execve_errno("empty"), ENOEXEC, "execve: empty file");
    file("badinterp", "#!/nonexistent/x\n", 0755);
    is(execve_errno("badinterp"), ENOENT, "execve: script with no interpreter");
    file("nointerp", "#!   \n", 0755);
    is(execve_errno("nointerp"), ENOEXEC, "execve: script with an empty interpreter");
    file("dirinterp", "#!/tmp\n", 0755);
    is(execve_errno("dirinterp"), EACCES, "execve: script whose interpreter is a directory");
    must(symlink("loop", "loop"));
    is(execve_errno("loop"), ELOOP, "execve: symlink loop");
    char longname[300];
    memset(longname, 'a', 299);
    longname[299] = 0;
    is(execve_errno(longname), ENAMETOOLONG, "execve: long name");
    must(mkfifo("fifo", 0777));
    is(execve_errno("fifo"), EACCES, "execve: fifo");
    file("elf", "\177ELF\2\1\1", 0755);
    is(execve_errno("elf"), ENOEXEC, "execve: only the magic of an ELF");
    int in = must(open(self, O_RDONLY)), out = must(open("copy", O_CREAT | O_WRONLY, 0755));
    char buf[65536];
    ssize_t n;
    while ((n = read(in, buf, sizeof(buf))) > 0)
        must(write(out, buf, (size_t)n));
    is(execve_errno("copy"), ETXTBSY, "execve: open for writing");
    close(out);
    int st = run("copy", (char *[]){"copy", "argc", NULL}, environ);
    is(WEXITSTATUS(st), 2, "execve: a copy runs");
    must(truncate("copy", 2000));
    st = in_child(execve("copy", (char *[]){"copy", NULL}, environ); _exit(errno));
    is(WIFSIGNALED(st) ? WTERMSIG(st) : -1, SIGSEGV, "execve: a cut program does not run");
    close(in);
    /* running programs cannot be written */
    in = open(self, O_RDONLY), out = open("copy2", O_CREAT | O_WRONLY, 0755);
    while ((n = read(in, buf, sizeof(buf))) > 0)
        must(write(out, buf, (size_t)n));
    close(in);
    close(out);
    int p[2];
    must(pipe(p));
    pid_t c = fork();
    if (!c) {
        dup2(p[0], 0);
        close(p[1]);
        execl("copy2", "copy2", "sleep", NULL);
        _exit(9);
    }
    close(p[0]);
    int tries = 0;
    for (int w; (w = open("copy2", O_WRONLY)) >= 0 && ++tries < 200; sleep_ms(10))
        close(w);
    err(open("copy2", O_WRONLY), ETXTBSY, "open for writing: a running program");
    err(truncate("copy2", 0), ETXTBSY, "truncate: a running program");
    does(unlink("copy2"), "unlink: a running program");
    close(p[1]);
    waitpid(c, &st, 0);
    if (getuid() == 0) {
        file("xonly", "#!/bin/sh\nexit 3\n", 0711);
        st = in_child(setuid(65534); execl("xonly", "xonly", NULL); _exit(errno == EACCES ? 1 : 2));
        ok(WIFEXITED(st) && WEXITSTATUS(st) != 3 && WEXITSTATUS(st) != 1, "execve: a script one may not read starts, its interpreter fails");
        in = open(self, O_RDONLY), out = open("xbin", O_CREAT | O_WRONLY, 0711);
        while ((n = read(in, buf, sizeof(buf))) > 0)
            must(write(out, buf, (size_t)n));
        fchmod(out, 0711);
        close(in);
        close(out);
        st = in_child(setuid(65534); execl("./xbin", "./xbin", "argc", NULL); _exit(100));
        is(st, 2 << 8, "execve: a program that may be executed but not read");
        chmod("xbin", 0700);
        st = in_child(setuid(65534); execl("./xbin", "./xbin", "argc", NULL); _exit(errno));
        is(st, EACCES << 8, "execve: no permission for others");
    }
}

static void scripts(void)
{
    char text[512];
    snprintf(text, sizeof(text), "#!%s script\n", self);
    file("s1", text, 0755);
    is(WEXITSTATUS(run("./s1", (char *[]){"zero", "a", "b", NULL}, environ)), 5, "script: interpreter, argument, path, args");
    snprintf(text, sizeof(text), "#! \t %s   script  with blanks \t \n", self);
    file("s2", text, 0755);
    is(WEXITSTATUS(run("./s2", (char *[]){"zero", NULL}, environ)), 111, "script: the rest of the line is one argument");
    snprintf(text, sizeof(text), "#!%s script", self);
    file("s3", text, 0755);
    is(WEXITSTATUS(run("./s3", (char *[]){"zero", NULL}, environ)), 3, "script: no newline at the end");
    file("c1", "#!./s1\n", 0755);
    is(WEXITSTATUS(run("./c1", (char *[]){"zero", NULL}, environ)), 4, "script of a script");
    file("c2", "#!./c1\n", 0755);
    file("c3", "#!./c2\n", 0755);
    file("c4", "#!./c3\n", 0755);
    is(WEXITSTATUS(run("./c2", (char *[]){"zero", NULL}, environ)), 5, "script of a script of a script");
    is(WEXITSTATUS(run("./c3", (char *[]){"zero", NULL}, environ)), 6, "four levels");
    is(WEXITSTATUS(run("./c4", (char *[]){"zero", NULL}, environ)), 7, "five levels");
    file("c5", "#!./c4\n", 0755);
    is(execve_errno("./c5"), ELOOP, "script: six levels");
    file("env", "#!/usr/bin/env -S sh -e\nexit 42\n", 0755);
    is(WEXITSTATUS(run("./env", (char *[]){"zero", NULL}, environ)), 42, "script: env -S");
    file("sh", "#!/bin/sh\nexit $#\n", 0755);
    is(WEXITSTATUS(run("./sh", (char *[]){"zero", "1", "2", "3", NULL}, environ)), 3, "script: shell with arguments");
    char longline[400];
    memset(longline, 'x', sizeof(longline));
    memcpy(longline, "#!/bin/", 7);
    longline[399] = 0;
    file("long", longline, 0755);
    is(execve_errno("./long"), ENOEXEC, "script: an interpreter longer than the line buffer");
    int fd = must(open("./sh", O_RDONLY));
    is(WEXITSTATUS(in_child(syscall(SYS_execveat, fd, "", (char *[]){"z", "q", NULL}, environ, AT_EMPTY_PATH); _exit(99))), 1,
       "execveat: script by descriptor");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    is(WEXITSTATUS(in_child(syscall(SYS_execveat, fd, "", (char *[]){"z", NULL}, environ, AT_EMPTY_PATH); _exit(errno))), ENOENT,
       "execveat: script by a descriptor that exec closes");
    close(fd);
}

static void at_forms(void)
{
    int d = must(open("/", O_PATH)), st;
    is(WEXITSTATUS(in_child(syscall(SYS_execveat, d, self + 1, (char *[]){"z", "argc", NULL}, environ, 0); _exit(99))), 2,
       "execveat: relative to a descriptor");
    int fd = must(open(self, O_RDONLY | O_CLOEXEC));
    is(WEXITSTATUS(in_child(syscall(SYS_execveat, fd, "", (char *[]){"z", "argc", NULL}, environ, AT_EMPTY_PATH); _exit(99))), 2,
       "execveat: AT_EMPTY_PATH");
    is(WEXITSTATUS(in_child(fexecve(fd, (char *[]){"z", "argc", NULL}, environ); _exit(99))), 2, "fexecve");
    st = in_child(syscall(SYS_execveat, fd, "", (char *[]){"z", NULL}, environ, 0); _exit(errno));
    is(WEXITSTATUS(st), ENOENT, "execveat: empty path without the flag");
    st = in_child(syscall(SYS_execveat, fd, "x", (char *[]){"z", NULL}, environ, 0x10000000); _exit(errno));
    is(WEXITSTATUS(st), EINVAL, "execveat: unknown flag");
    st = in_child(syscall(SYS_execveat, 999, "x", (char *[]){"z", NULL}, environ, 0); _exit(errno));
    is(WEXITSTATUS(st), EBADF, "execveat: bad descriptor");
    must(symlink(self, "link"));
    is(WEXITSTATUS(run("link", (char *[]){"z", "argc", NULL}, environ)), 2, "execve: through a symlink");
    st = in_child(syscall(SYS_execveat, AT_FDCWD, "link", (char *[]){"z", NULL}, environ, AT_SYMLINK_NOFOLLOW); _exit(errno));
    is(WEXITSTATUS(st), ELOOP, "execveat: AT_SYMLINK_NOFOLLOW");
    close(fd);
    close(d);
}

static void inheritance(void)
{
    is(RUN("argc", "b", "c"), 4, "argc");
    is(RUN("argc", "", ""), 4, "empty arguments count");
    is(RUN("env", "TAP_X", "y z"), 0, "a variable that is not set");
    setenv("TAP_X", "y z", 1);
    is(RUN("env", "TAP_X", "y z"), 1, "a variable");
    is(WEXITSTATUS(run(self, (char *[]){self, "envcount", NULL}, (char *[]){NULL})), 0, "empty environment");
    is(WEXITSTATUS(run(self, (char *[]){self, "envcount", NULL}, NULL)), 0, "envp NULL");
    is(WEXITSTATUS(run(self, (char *[]){self, "envcount", NULL}, (char *[]){"a", "", "b=c", NULL})), 3, "any strings as environment");
    is(WEXITSTATUS(run("/bin/sh", (char *[]){"sh", "-c", "exit ${TAP_X:+4}", NULL}, environ)), 4, "shell sees it");
    int fd = must(open("/dev/null", O_RDONLY)), ce = must(open("/dev/null", O_RDONLY | O_CLOEXEC));
    char a[16], b[16];
    snprintf(a, sizeof(a), "%d", fd);
    snprintf(b, sizeof(b), "%d", ce);
    is(RUN("fd", a), 1, "an open descriptor stays open");
    is(RUN("fd", b), 0, "an O_CLOEXEC one does not");
    ok(fcntl(ce, F_GETFD) == FD_CLOEXEC, "and stays in the parent");
    is(WEXITSTATUS(in_child(dup2(ce, 77); execl(self, self, "fd", "77", NULL))), 1, "dup2 drops close-on-exec");
    is(WEXITSTATUS(in_child(execl("/nonexistent", "x", NULL); _exit(fcntl(ce, F_GETFD) >= 0))), 1, "a failed exec closes nothing");
    close(fd);
    close(ce);
    signal(SIGUSR1, SIG_IGN);
    sigset_t s, o;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR2);
    sigprocmask(SIG_BLOCK, &s, &o);
    is(RUN("handler"), 5, "ignored signals and the mask stay");
    is(WEXITSTATUS(in_child(kill(getpid(), SIGUSR2); execl(self, self, "pending", NULL))), 1, "pending signals stay over exec");
    sigprocmask(SIG_SETMASK, &o, NULL);
    signal(SIGUSR1, catches);
    is(RUN("handler"), 2, "handlers are reset");
    signal(SIGUSR1, SIG_DFL);
    stack_t ss = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&ss, NULL);
    is(RUN("altstack"), 1, "no alternate stack after exec");
    ss.ss_flags = SS_DISABLE;
    sigaltstack(&ss, NULL);
    umask(037);
    is(RUN("umask"), 037, "umask stays");
    umask(022);
    is(WEXITSTATUS(in_child(prctl(PR_SET_NAME, "other"); execl(self, "x", "comm", "fork_exec", NULL))), 1, "comm is the file's name");
    must(symlink(self, "a_long_name_of_a_link"));
    is(WEXITSTATUS(run("./a_long_name_of_a_link", (char *[]){"x", "comm", "a_long_name_of_", NULL}, environ)), 1, "comm is cut at 15");
    is(WEXITSTATUS(in_child(char pid[16]; snprintf(pid, 16, "%d", getpid()); execl(self, "x", "pid", pid, NULL))), 1, "exec keeps the pid");
    is(RUN("auxv", self), 0, "auxiliary vector");
    is(WEXITSTATUS(run(self, (char *[]){"a name", "argv0", "a name", NULL}, environ)), 1, "argv[0] is free");
    is(WEXITSTATUS(run("/bin/true", NULL, environ)), 0, "argv NULL");
    is(WEXITSTATUS(run("/bin/true", (char *[]){NULL}, environ)), 0, "argv empty");
    is(WEXITSTATUS(in_child(alarm(1); execl("/bin/sleep", "sleep", "5", NULL))), 0, "alarm: no exit status ...");
    is(WTERMSIG(in_child(alarm(1); execl("/bin/sleep", "sleep", "5", NULL))), SIGALRM, "... but the signal: alarms stay over exec");
}

static void limits(void)
{
    size_t page = 4096, max = 32 * page;
    char *big = malloc(max + 1);
    char len[16];
    memset(big, 'A', max);
    big[max - 1] = 0; /* MAX_ARG_STRLEN includes the NUL */
    snprintf(len, sizeof(len), "%zu", max - 1);
    is(WEXITSTATUS(run(self, (char *[]){self, "len", big, len, NULL}, environ)), 1, "an argument of MAX_ARG_STRLEN");
    big[max - 1] = 'A';
    big[max] = 0;
    is(WEXITSTATUS(in_child(execve(self, (char *[]){self, "len", big, NULL}, environ); _exit(errno))), E2BIG, "one byte more");
    is(WEXITSTATUS(in_child(execve(self, (char *[]){self, NULL}, (char *[]){big, NULL}); _exit(errno))), E2BIG, "in the environment too");
    big[max - 1] = 0;
    char **v = calloc(100, sizeof(*v));
    v[0] = self;
    v[1] = "argc";
    for (int i = 2; i < 14; i++)
        v[i] = big;
    is(WEXITSTATUS(run(self, v, (char *[]){NULL})), 14, "1.5 MiB of arguments");
    for (int i = 2; i < 19; i++)
        v[i] = big;
    is(WEXITSTATUS(in_child(execve(self, v, (char *[]){NULL}); _exit(errno))), E2BIG, "more than a quarter of the stack limit");
    free(v);
    v = calloc(120000, sizeof(*v));
    v[0] = self;
    v[1] = "argc";
    for (int i = 2; i < 100000; i++)
        v[i] = "a";
    is(WEXITSTATUS(run(self, v, (char *[]){NULL})), 100000 & 0xff, "a hundred thousand arguments");
    is(WEXITSTATUS(in_child(execve(self, (char *[]){self, (char *)8, NULL}, environ); _exit(errno))), EFAULT, "a bad argument pointer");
    is(WEXITSTATUS(in_child(execve(self, (char **)8, environ); _exit(errno))), EFAULT, "a bad argv");
    is(WEXITSTATUS(in_child(execve(self, (char *[]){self, NULL}, (char **)8); _exit(errno))), EFAULT, "a bad envp");
    free(v);
    free(big);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "sleep")) {
        char c;
        return read(0, &c, 1) > 0;
    }
    if (argc > 1)
        return exec_mode(argc, argv);
    must(readlink("/proc/self/exe", self, sizeof(self) - 1));
    tap_begin();
    forks();
    clones();
    exec_errors();
    scripts();
    at_forms();
    inheritance();
    limits();
    return done();
}
