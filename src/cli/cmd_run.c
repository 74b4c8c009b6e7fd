/* harena run: options to a configuration. */
#define _GNU_SOURCE
#include "cli/run_options.h"
#include "broker/control.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPT_IMAGE = 256, OPT_ROOT, OPT_HOSTNAME, OPT_NAME, OPT_MEMORY, OPT_PIDS, OPT_TIMEOUT, OPT_VERBOSE, OPT_LAYERS, OPT_SECRETS,
       OPT_CWD, OPT_NO_PATCH, OPT_CPUS, OPT_CPUSET, OPT_CPU_TIME, OPT_TMPFS, OPT_OUTPUT, OPT_FILES };

static const struct option long_options[] = {
    { "image", 1, 0, OPT_IMAGE }, { "root", 1, 0, OPT_ROOT }, { "volume", 1, 0, 'v' }, { "env", 1, 0, 'e' },
    { "workdir", 1, 0, 'w' }, { "user", 1, 0, 'u' }, { "tty", 0, 0, 't' }, { "hostname", 1, 0, OPT_HOSTNAME },
    { "name", 1, 0, OPT_NAME }, { "memory", 1, 0, OPT_MEMORY }, { "pids", 1, 0, OPT_PIDS }, { "timeout", 1, 0, OPT_TIMEOUT },
    { "verbose", 0, 0, OPT_VERBOSE }, { "require-layers", 0, 0, OPT_LAYERS }, { "show-secrets", 0, 0, OPT_SECRETS },
    { "force-cwd", 0, 0, OPT_CWD }, { "no-patch", 0, 0, OPT_NO_PATCH }, { "cpus", 1, 0, OPT_CPUS },
    { "cpuset", 1, 0, OPT_CPUSET }, { "cpu-time", 1, 0, OPT_CPU_TIME }, { "tmpfs", 1, 0, OPT_TMPFS },
    { "output-limit", 1, 0, OPT_OUTPUT }, { "files", 1, 0, OPT_FILES }, { 0 },
};


/* An option that limits something. 0, a status after a message, or -1 for another option. */
static int parse_limit(struct harena_limits *l, int c)
{
    u64 number;
    u32 ms;
    switch (c) {
    case OPT_MEMORY:
        if (!parse_size(optarg, &l->memory) || l->memory < 4 << 20)
            return fail(125, "--memory %s: give a size of at least 4M, such as 512M", optarg);
        return 0;
    case OPT_TMPFS:
        if (!parse_size(optarg, &l->files_memory) || l->files_memory < 1 << 20)
            return fail(125, "--tmpfs %s: give a size of at least 1M, such as 64M", optarg);
        return 0;
    case OPT_OUTPUT:
        if (!parse_size(optarg, &l->output))
            return fail(125, "--output-limit %s: give a size, such as 10M", optarg);
        return 0;
    case OPT_PIDS:
        if (!parse_count(optarg, 30000, &number))
            return fail(125, "--pids %s: give a number from 1 to 30000", optarg);
        l->pids = number;
        return 0;
    case OPT_FILES:
        if (!parse_count(optarg, 65536, &number) || number < 16)
            return fail(125, "--files %s: give a number from 16 to 65536", optarg);
        l->files = number;
        return 0;
    case OPT_TIMEOUT:
        if (!parse_duration_ms(optarg, &l->timeout_ms))
            return fail(125, "--timeout %s: give a time, such as 30s or 5m", optarg);
        return 0;
    case OPT_CPU_TIME:
        if (!parse_duration_ms(optarg, &ms))
            return fail(125, "--cpu-time %s: give a time, such as 30s or 5m", optarg);
        l->cpu_time_ms = ms;
        return 0;
    case OPT_CPUS:
        if (!parse_thousandths(optarg, &l->cpus_milli))
            return fail(125, "--cpus %s: give a number from 0.01 to 1024, such as 0.5 or 2", optarg);
        return 0;
    case OPT_CPUSET:
        if (!parse_cpu_list(optarg, l->cpuset))
            return fail(125, "--cpuset %s: give numbers and ranges, such as 0,2-3", optarg);
        return 0;
    }
    return -1;
}

static int parse_options(struct options *o, int argc, char **argv)
{
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:v:e:w:u:t", long_options, NULL)) >= 0) {
        switch (c) {
        case OPT_IMAGE: o->image = optarg; break;
        case OPT_ROOT: o->root = optarg; break;
        case OPT_HOSTNAME:
            if (!*optarg || strlen(optarg) > 64)
                return fail(125, "--hostname %s: give a name of 1 to 64 bytes", optarg);
            o->config.hostname = optarg;
            break;
        case OPT_NAME: o->config.name = optarg; break;
        case OPT_VERBOSE: o->config.verbose = true; break;
        case OPT_LAYERS: o->config.require_layers = true; break;
        case OPT_SECRETS: o->show_secrets = true; break;
        case OPT_CWD: o->force_cwd = true; break;
        case OPT_NO_PATCH: o->config.no_patch = true; break;
        case 'e':
            if (!environment_set(&o->env, optarg))
                return fail(125, "-e %s: write it as NAME=VALUE, or NAME to take it from here", optarg);
            break;
        case 'w': o->workdir = optarg; break;
        case 't': o->command.tty = true; break;
        case 'v':
            if (parse_volume(o, optarg))
                return 125;
            break;
        case 'u':
            if (!user_valid(optarg))
                return fail(125, "-u %s: write it as USER or USER:GROUP, names or numbers", optarg);
            o->command.user = optarg;
            break;
        default: {
            int r = parse_limit(&o->config.limits, c);
            if (r)
                return r < 0 ? bad_option("run", argv, c) : r;
        }
        }
    }
    if (optind >= argc)
        return fail(125, "no command given; write harena run [OPTIONS] -- COMMAND [ARG...]");
    if (o->image && o->root)
        return fail(125, "--image and --root exclude each other");
    if (o->workdir && o->workdir[0] != '/')
        return fail(125, "-w %s: the directory inside must be absolute", o->workdir);
    o->command.argv = (const char *const *)argv + optind;
    return 0;
}

int run_with(int argc, char **argv, struct trace_out *trace, const u64 calls[8])
{
    struct options o = { 0 };
    struct environment env = { 0 };
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    int status = parse_options(&o, argc, argv);
    if (status)
        return status;
    status = build_mounts(&o);
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
