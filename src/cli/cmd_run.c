/* harena run: options to a configuration. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "broker/control.h"
#include "broker/secrets.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    struct harena_config config;
    struct harena_command command;
    struct harena_mounts mounts, volumes;
    struct environment env; /* -e, in order */
    const char *image, *root, *workdir;
    bool show_secrets, force_cwd;
};

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

static int parse_volume(struct options *o, const char *text)
{
    char *copy = strdupa(text), *target = strchr(copy, ':'), *mode, source[PATH_MAX];
    u32 flags = MOUNT_READONLY;
    if (!target)
        return fail(125, "-v %s: write it as SRC:DST[:ro|rw|overlay]", text);
    *target++ = 0;
    mode = strchr(target, ':');
    if (mode) {
        *mode++ = 0;
        if (!strcmp(mode, "rw"))
            flags = 0;
        else if (!strcmp(mode, "overlay"))
            flags = MOUNT_OVERLAY;
        else if (strcmp(mode, "ro"))
            return fail(125, "-v %s: '%s' is none of ro, rw, overlay", text, mode);
    }
    if (target[0] != '/' || strstr(target, "/../") || (strlen(target) >= 3 && !strcmp(target + strlen(target) - 3, "/..")))
        return fail(125, "-v %s: the path inside must be absolute and without '..'", text);
    if (!realpath(copy, source))
        return fail(125, "-v %s: %s: %m", text, copy);
    harena_mounts_add(&o->volumes, MOUNT_HOSTFS, flags, target, source);
    return 0;
}

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

/* ---- the current directory ---- */

static bool is_or_contains(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    return !strcmp(dir, "/") || (!strncmp(dir, path, n) && (!path[n] || path[n] == '/'));
}

/* Is cwd the home directory of a person (or of root), or does it hold one? HOME may be another's, or not set. */
static bool holds_a_home(const char *cwd)
{
    char line[1024], *field[7], *rest;
    FILE *f = fopen("/etc/passwd", "re");
    bool holds = false;
    while (f && !holds && fgets(line, sizeof(line), f)) {
        u32 n = 0;
        rest = line;
        while (n < ARRAY_COUNT(field) && rest)
            field[n++] = strsep(&rest, ":\n");
        u32 uid = n >= 6 ? strtoul(field[2], NULL, 10) : 0;
        if (n >= 6 && field[5][0] == '/' && field[5][1] && (!uid || (uid >= 1000 && uid != 65534)))
            holds = is_or_contains(cwd, field[5]);
    }
    if (f)
        fclose(f);
    return holds;
}

/* Why the current directory should not be shown, or NULL. */
static const char *cwd_refusal(const char *cwd)
{
    static const char *const system_places[] = { "/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run" };
    const char *home = getenv("HOME");
    char real[PATH_MAX];
    if (!strcmp(cwd, "/"))
        return "it is the whole host";
    if (home && realpath(home, real) && is_or_contains(cwd, real))
        return "it is or holds your home directory";
    if (holds_a_home(cwd))
        return "it is or holds a home directory";
    if (!strncmp(cwd, "/home/", 6) && !strchr(cwd + 6, '/'))
        return "it is or holds a home directory";
    if (!strcmp(cwd, "/tmp") || !strcmp(cwd, "/var/tmp") || !strcmp(cwd, "/root") || !strcmp(cwd, "/home"))
        return "it is shared with other programs";
    for (size_t i = 0; i < ARRAY_COUNT(system_places); i++)
        if (is_or_contains(system_places[i], cwd) || is_or_contains(cwd, system_places[i]))
            return "it belongs to the system";
    if (secret_path(cwd) || secret_holder(cwd))
        return "its name is one of a secret";
    return NULL;
}

/* Default root: shows the current directory at its own place with throw-away writes. */
static int mount_cwd(struct options *o)
{
    static char cwd[PATH_MAX];
    static const char *const shown[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };
    if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
        return fail(125, "the current directory cannot be determined; cd somewhere else");
    for (size_t i = 0; i < ARRAY_COUNT(shown); i++)
        if (is_or_contains(shown[i], cwd)) { /* there already, read-only */
            o->command.cwd = o->workdir ?: cwd;
            return 0;
        }
    const char *why = o->force_cwd ? NULL : cwd_refusal(cwd);
    if (why) {
        if (o->workdir && is_or_contains(cwd, o->workdir) && strcmp(cwd, "/") && !o->volumes.count)
            return fail(125, "-w %s: the current directory is not shown because %s; use --force-cwd, or -v to show a part of it",
                        o->workdir, why);
        bool own_place = o->workdir || o->volumes.count; /* who chose one need not be told */
        if (o->config.verbose || (isatty(2) && !own_place))
            fprintf(stderr, "harena: the current directory is not shown because %s; starting in an empty /tmp (see --force-cwd)\n", why);
        o->command.cwd = o->workdir ?: "/tmp";
        return 0;
    }
    if (!strcmp(cwd, "/")) { /* forced: not over the sandbox's own root */
        harena_mounts_add(&o->mounts, MOUNT_HOSTFS, MOUNT_OVERLAY, "/host", "/")->hide_secrets = !o->show_secrets;
        o->command.cwd = o->workdir ?: "/host";
        return 0;
    }
    harena_mounts_add(&o->mounts, MOUNT_HOSTFS, MOUNT_OVERLAY, cwd, cwd)->hide_secrets = !o->show_secrets;
    o->command.cwd = o->workdir ?: cwd;
    return 0;
}

/* Files in the current directory may be further names of secrets, here or in the home directory. */
static void find_hidden(struct options *o)
{
    static struct secret_inode list[256];
    char cwd[PATH_MAX];
    const char *home = getenv("HOME");
    bool hides = false;
    for (u32 i = 0; i < o->mounts.count; i++)
        hides |= o->mounts.list[i].hide_secrets;
    if (!hides || !getcwd(cwd, sizeof(cwd)))
        return;
    secret_inodes(cwd, list, &o->config.hidden_count, ARRAY_COUNT(list));
    if (home)
        secret_inodes(home, list, &o->config.hidden_count, ARRAY_COUNT(list));
    if (!strncmp(cwd, "/home/", 6) && strchr(cwd + 6, '/')) { /* sudo: the home of whoever works here */
        *strchr(cwd + 6, '/') = 0;
        secret_inodes(cwd, list, &o->config.hidden_count, ARRAY_COUNT(list));
    }
    o->config.hidden = &list[0].dev;
}

static int build_mounts(struct options *o)
{
    static char source[PATH_MAX];
    const char *root = o->image ?: o->root;
    if (root) {
        struct stat st;
        const char *option = o->image ? "--image" : "--root";
        if (!realpath(root, source) || stat(source, &st) < 0)
            return fail(125, "%s %s: %m", option, root);
        if (o->image ? !S_ISREG(st.st_mode) : !S_ISDIR(st.st_mode))
            return fail(125, "%s %s: not a %s", option, root, o->image ? "file" : "directory");
        if (access(source, o->image ? R_OK : R_OK | X_OK) < 0)
            return fail(125, "%s %s: %m", option, root);
        harena_mounts_add(&o->mounts, o->image ? MOUNT_IMAGE : MOUNT_HOSTFS, MOUNT_OVERLAY, "/", source);
        harena_mounts_system(&o->mounts);
        o->command.cwd = o->workdir ?: "/";
    } else {
        harena_mounts_default_root(&o->mounts);
        harena_mounts_system(&o->mounts);
        if (mount_cwd(o))
            return 125;
        find_hidden(o);
    }
    for (u32 i = 0; i < o->volumes.count; i++) {
        struct harena_mount *v = &o->volumes.list[i];
        harena_mounts_add(&o->mounts, v->kind, v->flags, v->target, v->source);
    }
    o->config.mounts = o->mounts.list;
    o->config.mount_count = o->mounts.count;
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
