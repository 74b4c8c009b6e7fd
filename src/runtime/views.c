/* Exec views of host files: which pack (image/pack.h) a sandbox gets, and who fills it.
 *
 * A sandbox can read every file in the packs it has, so what is in a pack decides who may have it:
 * - CACHE/views, the system's pack, for all sandboxes of the user that show the system's directories (mounts with `system`: /usr,
 *   /lib ...): files there that belong to root and everybody may read;
 * - CACHE/views-DEV-INO..., an own pack for the other directories of a sandbox (root, current directory, volumes): the name says
 *   which ones, so that only sandboxes that have exactly the same directories share it.
 * Mounts the guest may write to are left out: their programs run by traps. An own pack is made when there is something to
 * put in; only the one of a root directory (--root) is there from the start.
 *
 * CACHE is $HARENA_CACHE, for root /var/cache/harena, else $XDG_CACHE_HOME/harena or ~/.cache/harena. When it cannot be used
 * nothing is said: programs run, only slower.
 *
 * The broker finds out what is missing (CTL_VIEW with the file); views_build() starts harena-views for the first one. It
 * goes on when we end. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "image/pack.h"

#define OWN_MAX 6 /* directories in one own pack */
#define USED_STEP 10 /* seconds; how exact the time of the last use is */

static bool make_dirs(char *path)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool cache_dir(char path[PATH_MAX])
{
    const char *own = getenv("HARENA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (own)
        n = own[0] == '/' ? snprintf(path, PATH_MAX, "%s", own) : -1;
    else if (geteuid() == 0)
        n = snprintf(path, PATH_MAX, "/var/cache/harena");
    else if (xdg && xdg[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/harena", xdg);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.cache/harena", home);
    return n > 0 && n < PATH_MAX - 64 && make_dirs(path);
}

static bool readable_only(const struct harena_mount *m)
{
    return m->kind == MOUNT_HOSTFS && m->flags & (MOUNT_READONLY | MOUNT_OVERLAY);
}

u32 views_mount_flags(const struct harena_sandbox *s, const struct harena_mount *m)
{
    if (!readable_only(m) || !s->views_dir[!m->system])
        return 0;
    return m->system ? CTL_MOUNT_VIEWS : CTL_MOUNT_VIEWS_OWN;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* The name of the own pack: all directories that go into it; "" when there are none, or too many. */
static void own_name(const struct harena_config *c, char name[PATH_MAX])
{
    char part[OWN_MAX][48];
    u32 count = 0, n;
    struct stat st;
    for (u32 i = 0; i < c->mount_count; i++) {
        const struct harena_mount *m = &c->mounts[i];
        if (!readable_only(m) || m->system || stat(m->source, &st) < 0)
            continue;
        if (count == OWN_MAX)
            count = 0, i = c->mount_count;
        else
            snprintf(part[count++], sizeof(part[0]), "-%lx-%lx%s", (unsigned long)st.st_dev, (unsigned long)st.st_ino,
                     m->hide_secrets ? "" : "s");
    }
    qsort(part, count, sizeof(part[0]), by_text);
    n = count ? snprintf(name, PATH_MAX, "views") : 0;
    name[n] = 0;
    for (u32 i = 0; i < count; i++)
        n += snprintf(name + n, PATH_MAX - n, "%s", part[i]);
}

/* Is the pack of own directories there? Its directory's time says when it was used last: harena-views removes those longest not used. */
static bool use_own(const char *dir)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return false;
    if (st.st_mtime + USED_STEP < time(NULL))
        utimensat(AT_FDCWD, dir, NULL, 0);
    return true;
}

/* Chooses the packs and gives the paths of their files. */
void views_choose(struct harena_sandbox *s, const struct harena_config *c, struct views_choice *v)
{
    char dir[PATH_MAX], name[PATH_MAX], full[PATH_MAX];
    bool system = false, root = false;
    v->path[0][0] = v->path[1][0] = 0;
    if (c->no_patch || !s->views_program)
        return;
    for (u32 i = 0; i < c->mount_count; i++) {
        system |= readable_only(&c->mounts[i]) && c->mounts[i].system;
        root |= readable_only(&c->mounts[i]) && !c->mounts[i].system && !strcmp(c->mounts[i].target, "/");
    }
    own_name(c, name);
    if ((!system && !name[0]) || !cache_dir(dir))
        return;
    struct pack_options o = { .no_sync = true };
    if (system && snprintf(full, PATH_MAX, "%s/views", dir) < PATH_MAX && !pack_current(full, &o, v->path[0], PATH_MAX))
        s->views_dir[0] = strdup(full);
    if (!name[0] || snprintf(full, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return;
    o.private = true;
    if ((use_own(full) || root) && pack_current(full, &o, v->path[1], PATH_MAX))
        v->path[1][0] = 0; /* it cannot be used */
    else
        s->views_dir[1] = strdup(full);
}

static void start(struct harena_sandbox *s)
{
    int pair[2], status;
    pid_t pid;
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, pair[1], 0);
    posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&fa, 3);
    char *const argv[] = { "harena-views", s->views_dir[0] ?: "", s->views_dir[1] ?: "", NULL };
    char *const env[] = { NULL };
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &all);
    int error = posix_spawn(&pid, s->views_program, &fa, &at, argv, env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    close(pair[1]);
    if (error) {
        close(pair[0]);
        return;
    }
    s->views = pair[0];
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) /* it forks at once */
        ;
}

static void forget(struct harena_sandbox *s)
{
    for (int i = 0; i < 2; i++) {
        free(s->views_dir[i]);
        s->views_dir[i] = NULL;
    }
}

/* Has the view of a file built; never blocks for long. */
void views_build(struct harena_sandbox *s, bool own, int fd)
{
    if (!s->views_dir[own])
        return;
    if (s->views < 0) {
        start(s);
        if (s->views < 0) { /* not tried again */
            forget(s);
            return;
        }
    }
    /* a queue that is full: without a view, then */
    fds_send(s->views, &(struct iovec){ own ? "o" : "s", 1 }, 1, &fd, 1, MSG_DONTWAIT);
}

void views_close(struct harena_sandbox *s)
{
    if (s->views >= 0)
        close(s->views);
    forget(s);
    free(s->views_program);
}
