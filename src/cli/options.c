/* Options that run, restore and fork share. One table says which command has which. */
#define _GNU_SOURCE
#include "cli/options.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_IMAGE = 256, OPT_ROOT, OPT_HOSTNAME, OPT_NAME, OPT_MEMORY, OPT_PIDS, OPT_TIMEOUT, OPT_VERBOSE, OPT_LAYERS, OPT_SECRETS,
       OPT_CWD, OPT_NO_PATCH, OPT_CPUS, OPT_CPUSET, OPT_CPU_TIME, OPT_TMPFS, OPT_OUTPUT, OPT_FILES, OPT_VERIFY, OPT_OUTPUT_DIR, OPT_READ_ONLY,
       OPT_ENV_FILE };

#define FOR_ALL (FOR_RUN | FOR_RESTORE | FOR_FORK)

static const struct {
    struct option o;
    u32 who; /* FOR_* */
} table[] = {
    { { "image", 1, 0, OPT_IMAGE }, FOR_RUN | FOR_RESTORE },
    { { "root", 1, 0, OPT_ROOT }, FOR_RUN | FOR_RESTORE },
    { { "volume", 1, 0, 'v' }, FOR_RUN | FOR_RESTORE },
    { { "read-only", 0, 0, OPT_READ_ONLY }, FOR_RUN },
    { { "show-secrets", 0, 0, OPT_SECRETS }, FOR_RUN | FOR_RESTORE },
    { { "force-cwd", 0, 0, OPT_CWD }, FOR_RUN | FOR_RESTORE },
    { { "env", 1, 0, 'e' }, FOR_RUN | FOR_RESTORE },
    { { "env-file", 1, 0, OPT_ENV_FILE }, FOR_RUN | FOR_RESTORE },
    { { "workdir", 1, 0, 'w' }, FOR_RUN },
    { { "user", 1, 0, 'u' }, FOR_RUN },
    { { "tty", 0, 0, 't' }, FOR_RUN | FOR_RESTORE },
    { { "hostname", 1, 0, OPT_HOSTNAME }, FOR_RUN | FOR_RESTORE },
    { { "name", 1, 0, OPT_NAME }, FOR_ALL },
    { { "memory", 1, 0, OPT_MEMORY }, FOR_ALL },
    { { "pids", 1, 0, OPT_PIDS }, FOR_ALL },
    { { "timeout", 1, 0, OPT_TIMEOUT }, FOR_ALL },
    { { "cpus", 1, 0, OPT_CPUS }, FOR_ALL },
    { { "cpuset", 1, 0, OPT_CPUSET }, FOR_ALL },
    { { "cpu-time", 1, 0, OPT_CPU_TIME }, FOR_ALL },
    { { "tmpfs", 1, 0, OPT_TMPFS }, FOR_ALL },
    { { "output-limit", 1, 0, OPT_OUTPUT }, FOR_ALL },
    { { "files", 1, 0, OPT_FILES }, FOR_ALL },
    { { "verbose", 0, 0, OPT_VERBOSE }, FOR_ALL },
    { { "require-layers", 0, 0, OPT_LAYERS }, FOR_ALL },
    { { "no-patch", 0, 0, OPT_NO_PATCH }, FOR_RUN },
    { { "verify", 0, 0, OPT_VERIFY }, FOR_RESTORE },
    { { "count", 1, 0, 'n' }, FOR_FORK },
    { { "output", 1, 0, OPT_OUTPUT_DIR }, FOR_FORK },
    { { "detach", 0, 0, 'd' }, FOR_FORK },
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

static int take_option(struct run_options *o, int c)
{
    u64 number;
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
    case OPT_READ_ONLY: o->read_only = true; break;
    case OPT_CWD: o->force_cwd = true; break;
    case OPT_NO_PATCH: o->config.no_patch = true; break;
    case OPT_VERIFY: o->verify = true; break;
    case OPT_OUTPUT_DIR: o->output = optarg; break;
    case 'd': o->detach = true; break;
    case 'e':
        if (!environment_set(&o->env, optarg))
            return fail(125, "-e %s: write it as NAME=VALUE, or NAME to take it from here", optarg);
        break;
    case OPT_ENV_FILE:
        if (!environment_file(&o->env, optarg))
            return fail(125, "--env-file %s: %s", optarg, errno ? strerror(errno) : "write a line NAME=VALUE, NAME or # COMMENT each");
        break;
    case 'w': o->workdir = optarg; break;
    case 't': o->command.tty = true; break;
    case 'v': return run_options_volume(o, optarg);
    case 'u':
        if (!user_valid(optarg))
            return fail(125, "-u %s: write it as USER or USER:GROUP, names or numbers", optarg);
        o->command.user = optarg;
        break;
    case 'n':
        if (!parse_count(optarg, 10000, &number))
            return fail(125, "-n %s: give a number from 1 to 10000", optarg);
        o->count = number;
        break;
    default:
        return parse_limit(&o->config.limits, c);
    }
    return 0;
}

int run_options_parse(struct run_options *o, const char *command, u32 who, int argc, char **argv)
{
    struct option options[ARRAY_COUNT(table) + 1] = { { 0 } };
    char letters[3 * ARRAY_COUNT(table)] = "+:";
    size_t n = strlen(letters), count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        if (!(table[i].who & who))
            continue;
        options[count++] = table[i].o;
        if (table[i].o.val < 256)
            n += (size_t)snprintf(letters + n, sizeof(letters) - n, "%c%s", table[i].o.val, table[i].o.has_arg ? ":" : "");
    }
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
        if (c == '?' || c == ':')
            return bad_option(command, argv, c);
        int status = take_option(o, c);
        if (status)
            return status;
    }
    if (o->image && o->root)
        return fail(125, "--image and --root exclude each other");
    if (o->workdir && o->workdir[0] != '/')
        return fail(125, "-w %s: the directory inside must be absolute", o->workdir);
    return 0;
}

int run_options_around(struct run_options *o, const char *command, u32 who, int argc, char **argv, const char **name)
{
    int status = run_options_parse(o, command, who, argc, argv);
    if (status)
        return status;
    int at = optind;
    *name = argv[at];
    if (!*name)
        return usage(command);
    argv[at] = argv[0]; /* what follows the name is parsed as a command line of its own */
    status = run_options_parse(o, command, who, argc - at, argv + at);
    optind += at;
    return status;
}

void run_options_parts(struct run_options *o, const struct harena_parts *parts)
{
    o->config.parts = parts;
    o->config.mounts = parts->mounts;
    o->config.mount_count = parts->mount_count;
    run_options_hidden(o, parts->mounts, parts->mount_count);
    o->config.guard = true;
    o->config.libexec = getenv("HARENA_LIBEXEC");
}
