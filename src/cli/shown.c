/* What of the host a sandbox is shown: its root, the current directory, volumes. The default root: runtime/mounts.c. */
#define _GNU_SOURCE
#include "cli/options.h"
#include "broker/secrets.h"
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int run_options_volume(struct run_options *o, const char *text)
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

/* ---- the current directory ---- */

static bool is_or_contains(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    return !strcmp(dir, "/") || (!strncmp(dir, path, n) && (!path[n] || path[n] == '/'));
}

static bool same_directory(const char *a, const char *b)
{
    struct stat x, y;
    return !strcmp(a, b) || (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* is_or_contains() by whatever name: where it is mounted a second time a directory has another. */
static bool reaches(const char *dir, const char *path)
{
    char at[PATH_MAX];
    if (is_or_contains(dir, path))
        return true;
    for (snprintf(at, sizeof(at), "%s", path); *at; *strrchr(at, '/') = 0)
        if (same_directory(dir, at))
            return true;
    return same_directory(dir, "/");
}

/* Is cwd the home directory of a person (or of root), or does it hold one? HOME may be another's, or not set. */
static bool holds_a_home(const char *cwd)
{
    FILE *f = fopen("/etc/passwd", "re");
    bool holds = false;
    struct passwd *p;
    while (f && !holds && (p = fgetpwent(f)))
        if (p->pw_dir[0] == '/' && p->pw_dir[1] && (!p->pw_uid || (p->pw_uid >= 1000 && p->pw_uid != 65534)))
            holds = reaches(cwd, p->pw_dir);
    if (f)
        fclose(f);
    return holds;
}

/* Why the current directory should not be shown, or NULL. */
static const char *cwd_refusal(const char *cwd)
{
    static const char *const system_places[] = { "/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run" };
    static const char *const shared_places[] = { "/tmp", "/var/tmp", "/root", "/home" };
    const char *home = getenv("HOME");
    char real[PATH_MAX + 3];
    if (same_directory(cwd, "/"))
        return "it is the whole host";
    if (home && realpath(home, real) && reaches(cwd, real))
        return "it is or holds your home directory";
    snprintf(real, sizeof(real), "%s/..", cwd);
    if (holds_a_home(cwd) || same_directory(real, "/home"))
        return "it is or holds a home directory";
    for (size_t i = 0; i < ARRAY_COUNT(shared_places); i++)
        if (same_directory(cwd, shared_places[i]))
            return "it is shared with other programs";
    for (size_t i = 0; i < ARRAY_COUNT(system_places); i++)
        if (reaches(system_places[i], cwd) || reaches(cwd, system_places[i]))
            return "it belongs to the system";
    if (secret_path(cwd) || secret_holder(cwd))
        return "its name is one of a secret";
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

/* Files in the directories whose secrets are hidden may be further names of secrets, there or in the home directory. */
void run_options_hidden(struct run_options *o, const struct harena_mount *mounts, u32 count)
{
    static struct secret_inode list[256];
    char dir[PATH_MAX];
    const char *home = getenv("HOME");
    bool hides = false;
    o->config.hidden_count = 0;
    for (u32 i = 0; i < count; i++) {
        if (!mounts[i].hide_secrets || !mounts[i].source)
            continue;
        hides = true;
        snprintf(dir, sizeof(dir), "%s", mounts[i].source);
        secret_inodes(dir, list, &o->config.hidden_count, ARRAY_COUNT(list));
        if (!strncmp(dir, "/home/", 6) && strchr(dir + 6, '/')) { /* sudo: the home of whoever works here */
            *strchr(dir + 6, '/') = 0;
            secret_inodes(dir, list, &o->config.hidden_count, ARRAY_COUNT(list));
        }
    }
    if (hides && home)
        secret_inodes(home, list, &o->config.hidden_count, ARRAY_COUNT(list));
    o->config.hidden = &list[0].dev;
}

/* --read-only: no layer takes writes, but for /tmp. (What the host must not see was never written there.) */
static void make_read_only(struct harena_mounts *m)
{
    for (u32 i = 0; i < m->count; i++) {
        struct harena_mount *e = &m->list[i];
        if (e->kind == MOUNT_IMAGE || e->kind == MOUNT_HOSTFS || (e->kind == MOUNT_TMPFS && strcmp(e->target, "/tmp")))
            e->flags = (e->flags & ~MOUNT_OVERLAY) | MOUNT_READONLY;
    }
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
    if (o->read_only)
        make_read_only(&o->mounts);
    o->first_volume = o->mounts.count;
    for (u32 i = 0; i < o->volumes.count; i++) {
        struct harena_mount *v = &o->volumes.list[i];
        harena_mounts_add(&o->mounts, v->kind, v->flags, v->target, v->source);
    }
    run_options_hidden(o, o->mounts.list, o->mounts.count);
    o->config.mounts = o->mounts.list;
    o->config.mount_count = o->mounts.count;
    return 0;
}
