/* Directories: where snapshots lie, and how writers, readers and removers keep out of each other's way.
 *
 * STORE/NAME/          a snapshot
 * STORE/.tmp-XXXX/     one that is being written or removed; whoever does it holds an exclusive flock
 * STORE/.key, .digests see seal.c, digest.c
 *
 * A writer makes .tmp-XXXX, locks it, looks that it is still there (a sweeper may have taken it for a dead one's), fills it,
 * renames it. A reader locks NAME shared, then looks that NAME still is what it has locked. A remover renames NAME to .tmp-XXXX, then
 * locks it exclusively, which waits for readers, then unlinks. Nobody takes two locks. Paths outside of the store work
 * alike, with the temporary directory beside the place. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define TEMPORARY ".harena-tmp-"

/* ---- the store ---- */

static bool default_path(char out[PATH_MAX])
{
    const char *own = getenv("HARENA_SNAPSHOTS"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = -1;
    if (own && *own)
        n = snprintf(out, PATH_MAX, "%s", own);
    else if (geteuid() == 0)
        n = snprintf(out, PATH_MAX, "/var/lib/harena/snapshots");
    else if (data && data[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/harena/snapshots", data);
    else if (home && home[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/.local/share/harena/snapshots", home);
    return n > 0 && n < PATH_MAX;
}

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0755);
        *p = '/';
    }
}

int store_open_at(const char *path, struct store **out, struct harena_error *err)
{
    struct stat st;
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    snprintf(s->path, sizeof(s->path), "%s", path);
    make_parents(s->path);
    if (mkdir(s->path, 0700) < 0 && errno != EEXIST) {
        harena_error_set(err, 125, "cannot make the snapshot directory %s: %s; set HARENA_SNAPSHOTS", path, strerror(errno));
        goto fail;
    }
    s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st) < 0) {
        harena_error_set(err, 125, "cannot open the snapshot directory %s: %s; set HARENA_SNAPSHOTS", path, strerror(errno));
        goto fail;
    }
    if (st.st_uid != geteuid() || st.st_mode & 022) {
        harena_error_set(err, 125, "the snapshot directory %s belongs to somebody else or may be written by others; set "
                                   "HARENA_SNAPSHOTS to one of yours", path);
        close(s->fd);
        goto fail;
    }
    if (key_load(s, err) < 0) {
        close(s->fd);
        goto fail;
    }
    temporary_sweep(s->fd);
    *out = s;
    return 0;
fail:
    free(s);
    return -1;
}

int store_open(struct store **out, struct harena_error *err)
{
    char path[PATH_MAX];
    if (default_path(path))
        return store_open_at(path, out, err);
    harena_error_set(err, 125, "there is no place for snapshots: set HARENA_SNAPSHOTS to a directory");
    return -1;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    close(s->fd);
    explicit_bzero(s->key, sizeof(s->key));
    free(s);
}

bool store_is_path(const char *where) { return strchr(where, '/') || !strcmp(where, ".") || !strcmp(where, ".."); }

bool same_inode(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int place_find(struct store *s, const char *where, struct place *p, struct harena_error *err)
{
    *p = (struct place){ .dir = s->fd, .in_store = true };
    if (!store_is_path(where)) {
        if (!manifest_name_valid(where)) {
            harena_error_set(err, 125, "invalid snapshot name '%.64s': use at most 60 letters, digits, '.', '_' and '-', or a path with "
                                       "a '/'", where);
            return -1;
        }
        snprintf(p->name, sizeof(p->name), "%s", where);
        return 0;
    }
    char parent[PATH_MAX];
    size_t n = strlen(where);
    while (n > 1 && where[n - 1] == '/')
        n--;
    size_t slash = n;
    while (slash && where[slash - 1] != '/')
        slash--;
    if (n >= PATH_MAX || n - slash > NAME_MAX || n == slash || where[slash] == '.') {
        harena_error_set(err, 125, "%.200s: the last part of the path must be the snapshot's own name, not beginning with '.'", where);
        return -1;
    }
    snprintf(p->name, sizeof(p->name), "%.*s", (int)(n - slash), where + slash);
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)slash : 1, slash ? where : ".");
    p->dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0) {
        harena_error_set(err, 125, "%s: %s", parent, strerror(errno));
        return -1;
    }
    p->in_store = same_inode(p->dir, s->fd);
    return 0;
}

void place_close(struct store *s, struct place *p)
{
    if (p->dir >= 0 && p->dir != s->fd)
        close(p->dir);
    p->dir = -1;
}

/* ---- temporary directories ---- */

bool same_file(int fd, int dir, const char *name)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void temporary_name(char name[NAME_MAX + 1])
{
    u32 r[3];
    getrandom(r, sizeof(r), 0);
    snprintf(name, NAME_MAX + 1, TEMPORARY "%08x%08x%08x", r[0], r[1], r[2]);
}

int temporary_make(int dir, char name[NAME_MAX + 1], struct harena_error *err)
{
    temporary_sweep(dir);
    for (int tries = 0; tries < 100; tries++) {
        temporary_name(name);
        if (mkdirat(dir, name, 0700) < 0)
            break;
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX) == 0 && same_file(fd, dir, name))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    harena_error_set(err, 125, "cannot make a directory for the snapshot: %s", strerror(errno));
    return -1;
}

static const char *const fixed_names[] = { "manifest.json", "index", "symbols", "seal", "kernel" };

int directory_remove(int dir, int fd, const char *name)
{
    char level[16];
    for (size_t i = 0; i < ARRAY_COUNT(fixed_names); i++)
        unlinkat(fd, fixed_names[i], 0);
    for (u32 i = 0; i < MANIFEST_LEVELS; i++) {
        snprintf(level, sizeof(level), "data.%u", i);
        unlinkat(fd, level, 0);
        snprintf(level, sizeof(level), "pages.%u", i);
        unlinkat(fd, level, 0);
    }
    return unlinkat(dir, name, AT_REMOVEDIR);
}

void temporary_remove(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX) == 0)
        directory_remove(dir, fd, name);
    close(fd);
}

void temporary_sweep(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;
    struct stat st;
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, TEMPORARY, strlen(TEMPORARY)))
            continue;
        int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && same_file(fd, dir, e->d_name))
            directory_remove(dir, fd, e->d_name);
        close(fd);
    }
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
}

/* ---- reading ---- */

/* A writer that has renamed its directory holds the lock for a moment more. */
static int lock_shared(int fd)
{
    for (int tries = 0; flock(fd, LOCK_SH | LOCK_NB) < 0; tries++)
        if (errno != EWOULDBLOCK || tries == 100 || usleep(20000) < 0)
            return -1;
    return 0;
}

int snapshot_open(struct store *s, const char *where, struct place *p, struct harena_error *err)
{
    if (place_find(s, where, p, err) < 0)
        return -1;
    int fd = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        int e = errno;
        if (e == ENOENT)
            harena_error_set(err, 125, p->in_store ? "no snapshot is named '%.200s'; `harena snapshots` lists them"
                                                   : "there is no snapshot at %.200s", where);
        else
            harena_error_set(err, 125, "%.200s is no snapshot: %s", where, strerror(e == ELOOP ? ENOTDIR : e));
    } else if (lock_shared(fd) < 0) {
        harena_error_set(err, 125, "snapshot %.200s is being written or removed", where);
        close(fd);
        fd = -1;
    } else if (!same_file(fd, p->dir, p->name)) {
        harena_error_set(err, 125, "snapshot %.200s was just removed or replaced", where);
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        place_close(s, p);
    return fd;
}

int file_open(int dir, const char *name, u64 max, struct stat *st, struct harena_error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        harena_error_set(err, 125, errno == ENOENT ? "it has no file %s" : "its file %s cannot be opened: %s", name,
                         strerror(errno == ELOOP ? EINVAL : errno));
        return -1;
    }
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && (u64)st->st_size <= max)
        return fd;
    harena_error_set(err, 125, "its file %s is no regular file or too large", name);
    close(fd);
    return -1;
}

u8 *file_read(int dir, const char *name, u64 max, size_t *size, struct harena_error *err)
{
    struct stat st;
    int fd = file_open(dir, name, max, &st, err);
    if (fd < 0)
        return NULL;
    u8 *data = malloc((size_t)st.st_size + 1);
    if (!data)
        abort();
    *size = 0;
    while (*size < (size_t)st.st_size) {
        ssize_t n = read(fd, data + *size, (size_t)st.st_size - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        *size += (size_t)n;
    }
    data[*size] = 0;
    close(fd);
    return data;
}

/* ---- writing ---- */

int file_write(int dir, const char *name, const void *data, size_t size, struct harena_error *err)
{
    const u8 *p = data;
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int e = fd < 0 ? errno : 0;
    while (!e && size) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            e = n ? errno : ENOSPC;
        p += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    if (!e)
        return 0;
    harena_error_set(err, 125, "cannot write the snapshot's %s: %s", name, strerror(e));
    return -1;
}

int file_unlinked(struct store *s, struct harena_error *err)
{
    char name[NAME_MAX + 1];
    int fd = openat(s->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) { /* a file system without O_TMPFILE */
        temporary_name(name);
        fd = openat(s->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            unlinkat(s->fd, name, 0);
    }
    if (fd < 0)
        harena_error_set(err, 125, "cannot make a file in %s: %s", s->path, strerror(errno));
    return fd;
}

int file_reopen(int fd, struct harena_error *err)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    if (again < 0)
        harena_error_set(err, 125, "cannot open a file again: %s", strerror(errno));
    close(fd);
    return again;
}
