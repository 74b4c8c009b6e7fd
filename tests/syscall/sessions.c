/* Process groups, sessions, controlling terminals, job control signals. */
#include "tap.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

static int master, slave;
static char slave_name[64];
static volatile int sig;
static void on(int s) { sig = s; }
static void open_pty(void)
{
    must(openpty(&master, &slave, slave_name, NULL, NULL));
}
/* In a new session with the pty as its terminal. */
#define SESSION(...) in_child(setsid(); int t = open(slave_name, O_RDWR); (void)t; if (ioctl(t, TIOCSCTTY, 0)) _exit(90); __VA_ARGS__)

static void groups(void)
{
    pid_t me = getpid();
    err(getpgid(4000000), ESRCH, "getpgid: nobody");
    err(getsid(4000000), ESRCH, "getsid: nobody");
    is(getpgid(0), getpgrp(), "getpgid(0)");
    is(getsid(0), getsid(me), "getsid");
    is(WEXITSTATUS(in_child(_exit(setpgid(0, 0) || getpgrp() != getpid()))), 0, "setpgid: a new group");
    is(WEXITSTATUS(in_child(_exit(setsid() != getpid() || getsid(0) != getpid() || getpgrp() != getpid()))), 0, "setsid");
    is(WEXITSTATUS(in_child(setsid(); _exit(setsid() == -1 ? errno : 0))), EPERM, "setsid: a group leader");
    is(WEXITSTATUS(in_child(setpgid(0, 0); _exit(setsid() == -1 ? errno : 0))), EPERM, "setsid: a leader without session");
    is(WEXITSTATUS(in_child(setsid(); _exit(setpgid(0, 0) == -1 ? errno : 0))), EPERM, "setpgid: a session leader");
    err(setpgid(0, -1), EINVAL, "setpgid: negative");
    err(setpgid(4000000, 0), ESRCH, "setpgid: nobody");
    err(setpgid(getppid(), 0), ESRCH, "setpgid: not a child");
    is(WEXITSTATUS(in_child(_exit(setpgid(0, 4000000) == -1 ? errno : 0))), EPERM, "setpgid: no such group");
    pid_t c = fork();
    if (!c) {
        pause();
        _exit(0);
    }
    is(setpgid(c, c), 0, "setpgid: of a child");
    is(getpgid(c), c, "getpgid: of a child");
    is(WEXITSTATUS(in_child(_exit(setpgid(0, c) || getpgrp() != c))), 0, "setpgid: join");
    is(setpgid(c, getpgrp()), 0, "setpgid: back");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    int p[2];
    must(pipe2(p, O_CLOEXEC));
    c = fork();
    if (!c) {
        execl("/bin/sleep", "sleep", "5", NULL);
        _exit(1);
    }
    close(p[1]);
    char x;
    read(p[0], &x, 1); /* closed by exec */
    err(setpgid(c, c), EACCES, "setpgid: a child that has executed");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    is(WEXITSTATUS(in_child(pid_t q = fork(); if (!q) { setsid(); sleep_ms(100); _exit(0); } sleep_ms(40); _exit(setpgid(q, q) == -1 ? errno : 0))), EPERM, "setpgid: a child in another session");
}

static void terminals(void)
{
    open_pty();
    is(WEXITSTATUS(in_child(setsid(); int t = open("/dev/tty", O_RDWR); _exit(t < 0 ? errno : 0))), ENXIO, "/dev/tty: no terminal");
    is(WEXITSTATUS(in_child(setsid(); int t = open(slave_name, O_RDWR); (void)t; _exit(open("/dev/tty", O_RDWR) < 0 ? errno : 0))), 0, "opening a terminal makes it the controlling one");
    is(WEXITSTATUS(in_child(setsid(); int t = open(slave_name, O_RDWR | O_NOCTTY); (void)t; _exit(open("/dev/tty", O_RDWR) < 0 ? errno : 0))), ENXIO, "O_NOCTTY");
    is(WEXITSTATUS(SESSION(_exit(tcgetpgrp(t) != getpid() || tcgetsid(t) != getpid()))), 0, "TIOCSCTTY: group and session");
    is(WEXITSTATUS(in_child(int t = slave; _exit(tcgetpgrp(t) == -1 ? errno : 0))), ENOTTY, "tcgetpgrp: another terminal");
    is(WEXITSTATUS(in_child(_exit(ioctl(slave, TIOCSCTTY, 0) == -1 ? errno : 0))), EPERM, "TIOCSCTTY: not a session leader");
    is(WEXITSTATUS(SESSION(_exit(WEXITSTATUS(in_child(setsid(); int u = open(slave_name, O_RDWR | O_NOCTTY); _exit(ioctl(u, TIOCSCTTY, 0) == -1 ? errno : 0)))))), EPERM, "TIOCSCTTY: another session's");
    is(WEXITSTATUS(SESSION(_exit(ioctl(t, TIOCNOTTY) || open("/dev/tty", O_RDWR) >= 0))), 0, "TIOCNOTTY");
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); pause(); _exit(0); } setpgid(c, c); int r = tcsetpgrp(t, c) || tcgetpgrp(t) != c; kill(c, SIGKILL); _exit(r))), 0, "tcsetpgrp");
    is(WEXITSTATUS(SESSION(_exit(tcsetpgrp(t, 1) == -1 ? errno : 0))), EPERM, "tcsetpgrp: not of this session");
    is(WEXITSTATUS(SESSION(_exit(tcsetpgrp(t, -5) == -1 ? errno : 0))), EINVAL, "tcsetpgrp: negative");
    /* background */
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); char b; read(t, &b, 1); _exit(0); } int st; waitpid(c, &st, WUNTRACED); kill(c, SIGKILL); _exit(WIFSTOPPED(st) ? WSTOPSIG(st) : 0))), SIGTTIN, "a background read: SIGTTIN");
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); signal(SIGTTIN, SIG_IGN); char b; _exit(read(t, &b, 1) == -1 ? errno : 0); } int st; waitpid(c, &st, WUNTRACED); _exit(WEXITSTATUS(st)))), EIO, "a background read with SIGTTIN ignored: EIO");
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); _exit(write(t, "x", 1) != 1); } int st; waitpid(c, &st, WUNTRACED); _exit(WIFEXITED(st) ? WEXITSTATUS(st) : 99))), 0, "a background write is allowed");
    is(WEXITSTATUS(SESSION(struct termios a; tcgetattr(t, &a); a.c_lflag |= TOSTOP; tcsetattr(t, TCSANOW, &a); pid_t c = fork(); if (!c) { setpgid(0, 0); _exit(write(t, "x", 1) != 1); } int st; waitpid(c, &st, WUNTRACED); kill(c, SIGKILL); _exit(WIFSTOPPED(st) ? WSTOPSIG(st) : 0))), SIGTTOU, "with TOSTOP: SIGTTOU");
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); tcsetpgrp(t, getpid()); _exit(0); } int st; waitpid(c, &st, WUNTRACED); kill(c, SIGKILL); _exit(WIFSTOPPED(st) ? WSTOPSIG(st) : 0))), SIGTTOU, "tcsetpgrp from the background: SIGTTOU");
    is(WEXITSTATUS(SESSION(pid_t c = fork(); if (!c) { setpgid(0, 0); signal(SIGTTOU, SIG_IGN); _exit(tcsetpgrp(t, getpid()) || tcgetpgrp(t) != getpid()); } int st; waitpid(c, &st, WUNTRACED); _exit(WEXITSTATUS(st)))), 0, "with SIGTTOU ignored it works");
    /* keys */
    static const struct { char c; int sig; const char *n; } keys[] = {{3, SIGINT, "^C"}, {28, SIGQUIT, "^\\"}};
    for (unsigned i = 0; i < COUNT(keys); i++) {
        pid_t c = fork();
        if (!c) {
            setsid();
            int t = open(slave_name, O_RDWR);
            ioctl(t, TIOCSCTTY, 0);
            tcflush(t, TCIOFLUSH);
            write(t, "r", 1);
            for (;;)
                pause();
        }
        char b[64];
        while (read(master, b, 1) == 1 && b[0] != 'r')
            ;
        write(master, &keys[i].c, 1);
        int st;
        waitpid(c, &st, 0);
        is(WTERMSIG(st), keys[i].sig, "%s", keys[i].n);
    }
    /* hangup */
    pid_t c = fork();
    if (!c) {
        setsid();
        signal(SIGHUP, on);
        int t = open(slave_name, O_RDWR);
        ioctl(t, TIOCSCTTY, 0);
        close(slave);
        close(master);
        write(t, "R", 1);
        while (!sig)
            sleep_ms(5);
        char b;
        long r = read(t, &b, 1), w = write(t, "x", 1);
        _exit(sig == SIGHUP && r == 0 && w == -1 && errno == EIO ? 3 : 4);
    }
    char b[64];
    while (read(master, b, 1) == 1 && b[0] != 'R')
        ;
    close(slave);
    close(master);
    int st;
    waitpid(c, &st, 0);
    is(st, 3 << 8, "closing the master: SIGHUP, reads end, writes EIO");
    open_pty();
    c = fork();
    if (!c) {
        setsid();
        int t = open(slave_name, O_RDWR);
        ioctl(t, TIOCSCTTY, 0);
        pid_t d = fork();
        if (!d) {
            signal(SIGHUP, on);
            write(t, "R", 1);
            for (int i = 0; i < 400 && !sig; i++)
                sleep_ms(5);
            write(t, sig == SIGHUP ? "Y" : "N", 1);
            char x;
            write(open("result", O_CREAT | O_WRONLY, 0600), sig == SIGHUP ? "Y" : "N", 1);
            (void)x;
            _exit(0);
        }
        while (access("go", F_OK))
            sleep_ms(5);
        _exit(0);
    }
    while (read(master, b, 1) == 1 && b[0] != 'R')
        ;
    close(open("go", O_CREAT, 0600));
    waitpid(c, &st, 0);
    for (int i = 0; i < 400 && access("result", F_OK); i++)
        sleep_ms(5);
    sleep_ms(20);
    int r = open("result", O_RDONLY);
    b[0] = 0;
    read(r, b, 1);
    is(b[0], 'Y', "the session leader ends: SIGHUP to the foreground group");
    /* orphaned and stopped */
    int p[2];
    must(pipe(p));
    c = fork();
    if (!c) {
        setsid();
        pid_t m = fork();
        if (!m) {
            setpgid(0, 0);
            pid_t d = fork();
            if (!d) {
                signal(SIGHUP, on);
                raise(SIGSTOP);
                for (int i = 0; i < 200 && !sig; i++)
                    sleep_ms(5);
                write(p[1], sig == SIGHUP ? "Y" : "N", 1);
                _exit(0);
            }
            waitpid(d, &st, WUNTRACED);
            _exit(0); /* its group is orphaned now, and a member is stopped */
        }
        waitpid(m, &st, 0);
        sleep_ms(100);
        _exit(0);
    }
    close(p[1]);
    b[0] = 0;
    read(p[0], b, 1);
    is(b[0], 'Y', "a newly orphaned group with a stopped member: SIGHUP and SIGCONT");
    waitpid(c, NULL, 0);
}

TAP_MAIN
{
    groups();
    terminals();
    return done();
}
