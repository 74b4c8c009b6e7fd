/* harena run. */
#define _GNU_SOURCE
#include "cli/options.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

int run_with(int argc, char **argv, struct trace_out *trace, const u64 calls[8])
{
    struct run_options o = { 0 };
    struct environment env = { 0 };
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    int status = run_options_parse(&o, "run", FOR_RUN, argc, argv);
    if (status)
        return status;
    if (optind >= argc)
        return fail(125, "no command given; write harena run [OPTIONS] -- COMMAND [ARG...]");
    o.command.argv = (const char *const *)argv + optind;
    status = run_options_mounts(&o, true);
    if (status)
        return status;
    environment_defaults(&env, o.command.tty);
    for (u32 i = 0; i < o.env.count; i++)
        environment_set(&env, o.env.list[i]);
    o.command.env = env.list;
    for (int i = 0; i < 3; i++)
        o.command.fds[i] = i;
    o.config.guard = true;
    o.config.libexec = getenv("HARENA_LIBEXEC");
    if (o.command.tty && !isatty(0))
        return fail(125, "-t needs a terminal at standard input; leave it out");
    if (o.command.tty)
        session_winsize(&o.command);
    session_prepare(o.command.tty);
    if (harena_create(&o.config, &s, &err) < 0) {
        session_restore();
        return fail_error(&err);
    }
    if (trace)
        harena_trace(s, calls, NULL);
    struct session_options so = { .tty = o.command.tty, .program = o.command.argv[0], .cwd = o.command.cwd,
                                  .user = o.command.user, .trace = trace };
    if (harena_start(s, &o.command, &err) < 0 && errno == E2BIG) { /* other failures: the broker has said why, or its end is an event */
        session_restore();
        harena_close(s);
        return fail_error(&err);
    }
    status = session_run(s, &so);
    harena_close(s);
    return status;
}

int cmd_run(int argc, char **argv) { return run_with(argc, argv, NULL, NULL); }
