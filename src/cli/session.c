/* A session seen from the terminal: raw mode, signals, the window size, and the events until it ends.
 *
 * Signals are blocked but while waiting for the broker, so none is lost: INT, TERM, HUP, QUIT and USR1/2 go to the guest's
 * program, WINCH tells it the new size. A third INT or TERM ends the sandbox: a guest may ignore the others. The
 * terminal is restored on every way out that runs any code; SIGKILL leaves it raw, as it does for ssh. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
static volatile sig_atomic_t pending[65];
static struct termios saved;
static bool is_raw;
static sigset_t wait_mask;

static void on_signal(int n) { pending[n]++; }

void session_restore(void)
{
    if (is_raw)
        tcsetattr(0, TCSADRAIN, &saved);
    is_raw = false;
}

void session_prepare(bool tty)
{
    sigset_t block;
    struct sigaction a = { .sa_handler = on_signal };
    sigemptyset(&block);
    for (size_t i = 0; i < ARRAY_COUNT(forwarded); i++) {
        struct sigaction old;
        sigaction(forwarded[i], NULL, &old);
        if (old.sa_handler == SIG_IGN)
            continue; /* nohup */
        sigaction(forwarded[i], &a, NULL);
        sigaddset(&block, forwarded[i]);
    }
    if (tty) {
        sigaction(SIGWINCH, &a, NULL);
        sigaddset(&block, SIGWINCH);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &block, &wait_mask);
    if (!tty || tcgetattr(0, &saved) < 0)
        return;
    struct termios raw = saved;
    cfmakeraw(&raw);
    is_raw = tcsetattr(0, TCSADRAIN, &raw) == 0;
    atexit(session_restore);
}

void session_winsize(struct harena_command *c)
{
    struct winsize w;
    if (ioctl(0, TIOCGWINSZ, &w) < 0 && ioctl(1, TIOCGWINSZ, &w) < 0)
        return;
    c->rows = w.ws_row;
    c->cols = w.ws_col;
    c->xpixel = w.ws_xpixel;
    c->ypixel = w.ws_ypixel;
}

static void forward_signals(struct harena_sandbox *s)
{
    static int insistence;
    for (size_t i = 0; i < ARRAY_COUNT(forwarded); i++) {
        int n = forwarded[i];
        for (; pending[n]; pending[n]--) {
            if ((n == SIGINT || n == SIGTERM) && ++insistence >= 3) {
                session_restore();
                harena_close(s);
                exit(128 + n);
            }
            harena_signal(s, n, NULL);
        }
    }
    if (pending[SIGWINCH]) {
        struct harena_command c = { 0 };
        pending[SIGWINCH] = 0;
        session_winsize(&c);
        harena_winsize(s, c.rows, c.cols, c.xpixel, c.ypixel, NULL);
    }
}

/* Text for the user while the terminal may be raw. */
static void say(const char *prefix, const char *text, size_t size)
{
    while (size) {
        size_t n = strcspn(text, "\n");
        n = n > size ? size : n;
        if (n)
            fprintf(stderr, "%s%.*s%s\n", prefix, (int)n, text, is_raw ? "\r" : "");
        n += n < size;
        text += n;
        size -= n;
    }
}

static int start_failed(const struct session_options *o, u32 value)
{
    u32 error = value & 0xffff, step = value >> 16;
    if (step == SPAWN_STEP_CWD)
        return fail(125, "-w %s: %s in the sandbox", o->cwd,
                    error == ENOENT ? "no such directory" : error == ENOTDIR ? "not a directory" : strerror(error));
    if (step == SPAWN_STEP_USER)
        return fail(125, "-u %s: %s", o->user ?: "0", error == ENOENT ? "no such user or group in the sandbox" : strerror(error));
    if (error == ENOENT && strchr(o->program, '/'))
        return fail(127, "%s: not found in the sandbox, or the interpreter it names is not", o->program);
    return error == ENOENT ? fail(127, "%s: not found in the sandbox", o->program)
                           : fail(126, "%s: cannot be run in the sandbox: %s", o->program, strerror(error));
}

/* Whoever was killed because memory ran out: no program can tell it. */
static void tell_memory(struct harena_sandbox *s, const char *program, bool killed)
{
    struct harena_usage u;
    harena_usage(s, &u);
    if (u.oom_kills && killed)
        fail(0, "out of memory: %s was killed: the sandbox reached its memory limit; raise --memory", program);
    else if (u.oom_kills)
        fail(0, "out of memory: %llu process%s of the sandbox %s killed: it reached its memory limit; raise --memory",
             (unsigned long long)u.oom_kills, u.oom_kills == 1 ? "" : "es", u.oom_kills == 1 ? "was" : "were");
}

/* The sandbox as a whole was killed: is that why? */
static bool ran_out_of_memory(struct harena_sandbox *s)
{
    struct harena_usage u;
    harena_usage(s, &u);
    if (u.oom_kills)
        fail(0, "out of memory: the sandbox reached its memory limit and was killed; raise --memory");
    return u.oom_kills != 0;
}

int session_run(struct harena_sandbox *s, const struct session_options *o)
{
    struct harena_error err = { 0 };
    struct harena_event e;
    int status = -1;
    for (;;) {
        forward_signals(s);
        if (harena_next(s, &wait_mask, &e, &err) < 0) {
            session_restore();
            return fail_error(&err);
        }
        switch (e.type) {
        case HARENA_EVENT_NOTE:
            say("harena: ", e.text, e.text_size);
            break;
        case HARENA_EVENT_TEXT:
            if (o->trace)
                trace_out_text(o->trace, e.text, e.text_size);
            else
                say("", e.text, e.text_size);
            break;
        case HARENA_EVENT_STARTED:
            if (e.value) {
                session_restore();
                status = start_failed(o, e.value);
            }
            break;
        case HARENA_EVENT_EXITED:
            session_restore();
            if (status >= 0)
                return status;
            tell_memory(s, o->program, WIFSIGNALED(e.value) && WTERMSIG(e.value) == SIGKILL);
            return WIFSIGNALED(e.value) ? 128 + WTERMSIG(e.value) : WEXITSTATUS(e.value);
        case HARENA_EVENT_ERROR:
            session_restore();
            if (e.value != 137 || !ran_out_of_memory(s))
                say("harena: ", e.text, e.text_size);
            return e.value;
        case HARENA_EVENT_CLOSED: {
            int ignored;
            session_restore();
            harena_wait(s, &ignored, &err);
            return fail_error(&err);
        }
        case HARENA_EVENT_NONE:
        case HARENA_EVENT_READY:
            break;
        }
    }
}
