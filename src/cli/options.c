/* Options that run, restore and fork share, and the mounts that follow from them. One table says which command has which. */
#define _GNU_SOURCE
#include "cli/options.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPT_IMAGE = 256, OPT_ROOT, OPT_HOSTNAME, OPT_NAME, OPT_MEMORY, OPT_PIDS, OPT_TIMEOUT, OPT_VERBOSE, OPT_LAYERS, OPT_SECRETS,
       OPT_CWD, OPT_NO_PATCH, OPT_VERIFY, OPT_OUTPUT };

static const struct {
    struct option o;
    u32 who; /* FOR_* */
} table[] = {
    { { "image", 1, 0, OPT_IMAGE }, FOR_RUN | FOR_RESTORE },
    { { "root", 1, 0, OPT_ROOT }, FOR_RUN | FOR_RESTORE },
    { { "volume", 1, 0, 'v' }, FOR_RUN | FOR_RESTORE },
    { { "show-secrets", 0, 0, OPT_SECRETS }, FOR_RUN | FOR_RESTORE },
    { { "force-cwd", 0, 0, OPT_CWD }, FOR_RUN | FOR_RESTORE },
    { { "env", 1, 0, 'e' }, FOR_RUN },
    { { "workdir", 1, 0, 'w' }, FOR_RUN },
    { { "user", 1, 0, 'u' }, FOR_RUN },
    { { "tty", 0, 0, 't' }, FOR_RUN | FOR_RESTORE },
    { { "hostname", 1, 0, OPT_HOSTNAME }, FOR_RUN | FOR_RESTORE },
    { { "name", 1, 0, OPT_NAME }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "memory", 1, 0, OPT_MEMORY }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "pids", 1, 0, OPT_PIDS }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "timeout", 1, 0, OPT_TIMEOUT }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "verbose", 0, 0, OPT_VERBOSE }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "require-layers", 0, 0, OPT_LAYERS }, FOR_RUN | FOR_RESTORE | FOR_FORK },
    { { "no-patch", 0, 0, OPT_NO_PATCH }, FOR_RUN },
    { { "verify", 0, 0, OPT_VERIFY }, FOR_RESTORE },
    { { "count", 1, 0, 'n' }, FOR_FORK },
    { { "output", 1, 0, OPT_OUTPUT }, FOR_FORK },
    { { "detach", 0, 0, 'd' }, FOR_FORK },
};

static int parse_volume(struct run_options *o, const char *text)
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

static int take_limit(struct run_options *o, int c)
{
    u64 number;
    switch (c) {
    case OPT_MEMORY:
        if (!parse_size(optarg, &o->config.memory_max) || o->config.memory_max < 4 << 20)
            return fail(125, "--memory %s: give a size of at least 4M, such as 512M", optarg);
        break;
    case OPT_PIDS:
        if (!parse_count(optarg, 30000, &number))
            return fail(125, "--pids %s: give a number from 1 to 30000", optarg);
        o->config.pids_max = number;
        break;
    case OPT_TIMEOUT:
        if (!parse_duration_ms(optarg, &o->config.timeout_ms))
            return fail(125, "--timeout %s: give a time, such as 30s or 5m", optarg);
        break;
    case 'n':
        if (!parse_count(optarg, 10000, &number))
            return fail(125, "-n %s: give a number from 1 to 10000", optarg);
        o->count = number;
        break;
    default:
        break;
    }
    return 0;
}

static int take_option(struct run_options *o, int c)
{
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
    case OPT_VERIFY: o->verify = true; break;
    case OPT_OUTPUT: o->output = optarg; break;
    case 'd': o->detach = true; break;
    case 'e':
        if (!environment_set(&o->env, optarg))
            return fail(125, "-e %s: write it as NAME=VALUE, or NAME to take it from here", optarg);
        break;
    case 'w': o->workdir = optarg; break;
    case 't': o->command.tty = true; break;
    case 'v': return parse_volume(o, optarg);
    case 'u':
        if (!user_valid(optarg))
            return fail(125, "-u %s: write it as USER or USER:GROUP, names or numbers", optarg);
        o->command.user = optarg;
        break;
    default:
        return take_limit(o, c);
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

/* ---- the current directory ---- */

static bool is_or_contains(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    return !strcmp(dir, "/") || (!strncmp(dir, path, n) && (!path[n] || path[n] == '/'));
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
    if (!strcmp(cwd, "/tmp") || !strcmp(cwd, "/var/tmp") || !strcmp(cwd, "/root") || !strcmp(cwd, "/home"))
        return "it is shared with other programs";
    for (size_t i = 0; i < ARRAY_COUNT(system_places); i++)
        if (is_or_contains(system_places[i], cwd) || is_or_contains(cwd, system_places[i]))
            return "it belongs to the system";
    return NULL;
}

/* Default root: shows the current directory at its own place with throw-away writes. */
static int mount_cwd(struct run_options *o)
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
        if (!o->quiet && (o->config.verbose || (isatty(2) && !own_place)))
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

int run_options_mounts(struct run_options *o, bool default_root)
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
    } else if (default_root) {
        harena_mounts_default_root(&o->mounts);
        harena_mounts_system(&o->mounts);
        if (mount_cwd(o))
            return 125;
    }
    o->first_volume = o->mounts.count;
    for (u32 i = 0; i < o->volumes.count; i++) {
        struct harena_mount *v = &o->volumes.list[i];
        harena_mounts_add(&o->mounts, v->kind, v->flags, v->target, v->source);
    }
    o->config.mounts = o->mounts.list;
    o->config.mount_count = o->mounts.count;
    return 0;
}
