/* harena exec: a further program in a running sandbox. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

int cmd_exec(int argc, char **argv)
{
    static const struct option long_options[] = { { "env", 1, 0, 'e' }, { "workdir", 1, 0, 'w' }, { "user", 1, 0, 'u' },
                                                  { "tty", 0, 0, 't' }, { 0 } };
    struct harena_command command = { .cwd = "/", .fds = { 0, 1, 2 } };
    struct environment env = { 0 }, given = { 0 };
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    char *end;
    int c;
    while ((c = getopt_long(argc, argv, "+e:w:u:t", long_options, NULL)) >= 0) {
        switch (c) {
        case 'e': environment_set(&given, optarg); break;
        case 'w': command.cwd = optarg; break;
        case 't': command.tty = true; break;
        case 'u':
            command.uid = command.gid = strtoul(optarg, &end, 10);
            if (*end == ':')
                command.gid = strtoul(end + 1, &end, 10);
            if (*end || end == optarg)
                return fail(125, "-u %s: give numbers, UID or UID:GID", optarg);
            break;
        default: return usage("exec");
        }
    }
    if (optind >= argc)
        return usage("exec");
    const char *name = argv[optind++];
    if (optind < argc && argv[optind][0] == '-' && argv[optind][1] == '-' && !argv[optind][2])
        optind++;
    if (optind >= argc)
        return usage("exec");
    command.argv = (const char *const *)argv + optind;
    environment_defaults(&env, command.tty, command.uid);
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
    struct session_options so = { .tty = command.tty, .program = command.argv[0] };
    int status = session_run(s, &so);
    harena_close(s);
    return status;
}
