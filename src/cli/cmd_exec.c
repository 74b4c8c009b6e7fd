/* harena exec: a further program in a running sandbox. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(int argc, char **argv, struct harena_command *command, struct environment *given)
{
    static const struct option long_options[] = { { "env", 1, 0, 'e' }, { "workdir", 1, 0, 'w' }, { "user", 1, 0, 'u' },
                                                  { "tty", 0, 0, 't' }, { 0 } };
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:e:w:u:t", long_options, NULL)) >= 0) {
        switch (c) {
        case 'e':
            if (!environment_set(given, optarg))
                return fail(125, "-e %s: write it as NAME=VALUE, or NAME to take it from here", optarg);
            break;
        case 'w':
            if (optarg[0] != '/')
                return fail(125, "-w %s: the directory inside must be absolute", optarg);
            command->cwd = optarg;
            break;
        case 't':
            command->tty = true;
            break;
        case 'u':
            if (!user_valid(optarg))
                return fail(125, "-u %s: write it as USER or USER:GROUP, names or numbers", optarg);
            command->user = optarg;
            break;
        default:
            return bad_option("exec", argv, c);
        }
    }
    return 0;
}

int cmd_exec(int argc, char **argv)
{
    struct harena_command command = { .cwd = "/", .fds = { 0, 1, 2 } };
    struct environment env = { 0 }, given = { 0 };
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    int status = parse(argc, argv, &command, &given);
    if (status)
        return status;
    const char *name = argv[optind];
    if (!name)
        return usage("exec");
    optind++;
    if (optind < argc && !strcmp(argv[optind], "--"))
        optind++;
    if (optind >= argc)
        return fail(125, "no command given; write harena exec [OPTIONS] %s -- COMMAND [ARG...]", name);
    command.argv = (const char *const *)argv + optind;
    environment_defaults(&env, command.tty);
    for (u32 i = 0; i < given.count; i++)
        environment_set(&env, given.list[i]);
    command.env = env.list;
    if (command.tty && !isatty(0))
        return fail(125, "-t needs a terminal at standard input; leave it out");
    if (command.tty)
        session_winsize(&command);
    if (harena_connect(name, &s, &err) < 0)
        return fail_error(&err);
    session_prepare(command.tty);
    if (harena_start(s, &command, &err) < 0) {
        session_restore();
        harena_close(s);
        return fail_error(&err);
    }
    if (harena_paused(name)) /* asked while the program starts */
        fprintf(stderr, "harena: '%s' is paused: the program starts when it goes on (harena resume %s)\n", name, name);
    struct session_options so = { .tty = command.tty, .program = command.argv[0], .cwd = command.cwd, .user = command.user };
    status = session_run(s, &so);
    harena_close(s);
    return status;
}
