/* Exec views of host files: which pack (image/pack.h) a sandbox gets, and who fills it.
 *
 * A sandbox can read every file in its pack, so what is in a pack decides who may have it:
 * - CACHE/views, shared by all sandboxes of the user: files of root that everybody may read, from the system's directories
 *   (mounts with `system`: /usr, /lib ...), which every sandbox on the default root sees anyway;
 * - CACHE/views-DEV-INO for sandboxes with the host directory DEV:INO as their root: whoever has that root can read it all.
 * Other directories (the current one, volumes) have no views: their programs run by traps.
 * Mounts the guest may write to have none either.
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
#include <unistd.h>
#include "image/pack.h"

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

static bool is_root_mount(const struct harena_mount *m)
{
    return m->kind == MOUNT_HOSTFS && !m->system && (m->flags & (MOUNT_READONLY | MOUNT_OVERLAY)) && !strcmp(m->target, "/");
}

bool views_mount(const struct harena_mount *m)
{
    return (m->kind == MOUNT_HOSTFS && m->system && (m->flags & (MOUNT_READONLY | MOUNT_OVERLAY))) || is_root_mount(m);
}

/* Chooses the pack, makes it if need be and gives the path of its file. */
bool views_choose(struct harena_sandbox *s, const struct harena_config *c, char path[PATH_MAX])
{
    char dir[PATH_MAX];
    const struct harena_mount *root = NULL;
    bool any = false;
    struct stat st;
    if (c->no_patch || !s->views_program)
        return false;
    for (u32 i = 0; i < c->mount_count; i++) {
        any |= views_mount(&c->mounts[i]);
        if (is_root_mount(&c->mounts[i]))
            root = &c->mounts[i];
    }
    if (!any || !cache_dir(dir) || (root && stat(root->source, &st) < 0))
        return false;
    s->views_private = root != NULL;
    size_t n = strlen(dir);
    if (root)
        snprintf(dir + n, sizeof(dir) - n, "/views-%lx-%lx", (unsigned long)st.st_dev, (unsigned long)st.st_ino);
    else
        snprintf(dir + n, sizeof(dir) - n, "/views");
    struct pack_options o = { .private = s->views_private };
    if (pack_current(dir, &o, path, PATH_MAX) < 0)
        return false;
    s->views_dir = strdup(dir);
    return s->views_dir != NULL;
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
    char *const argv[] = { "harena-views", s->views_dir, s->views_private ? "private" : "shared", NULL };
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

/* Has the view of a file built; never blocks for long. */
void views_build(struct harena_sandbox *s, int fd)
{
    if (!s->views_dir)
        return;
    if (s->views < 0) {
        start(s);
        if (s->views < 0) { /* not tried again */
            free(s->views_dir);
            s->views_dir = NULL;
            return;
        }
    }
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    struct iovec v = { "v", 1 };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
    memcpy(CMSG_DATA(&control.h), &fd, sizeof(int));
    sendmsg(s->views, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* a queue that is full: without a view, then */
}

void views_close(struct harena_sandbox *s)
{
    if (s->views >= 0)
        close(s->views);
    free(s->views_dir);
    free(s->views_program);
}
