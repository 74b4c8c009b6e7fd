/* The state directory: what running sandboxes leave for `ps`, `exec` and `kill`.
 *
 * BASE/NAME/ (0700) holds `control`, the broker's socket, and `info.json`. An exclusive flock on the directory is held
 * through one open file description shared by the runtime and the broker: when nobody holds it any more, the
 * sandbox is dead, and whoever notices removes the rest (cgroups named in info.json, then the directory).
 * Whoever made the sandbox holds a second lock alone, of another kind (F_OFD_SETLK): when nobody holds that one any more but the first is
 * held, the sandbox is about to end, and if its broker does not get to it - a bomb of processes leaves it no time - whoever notices
 * ends it.
 * BASE/.empty is the empty directory sandboxes are chrooted into. BASE belongs to the user and is checked for that. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EMPTY_NAME ".empty"
#define INFO_MAX (4 << 20)
#define CONNECT_S 2

/* Where the base directory may be, in order; the first that is there or can be made is used. */
static int base_paths(char out[][PATH_MAX])
{
    const char *xdg = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
    uid_t uid = geteuid();
    int n = 0;
    if (uid == 0)
        snprintf(out[n++], PATH_MAX, "/run/harena");
    else if (xdg && xdg[0] == '/')
        snprintf(out[n++], PATH_MAX, "%s/harena", xdg);
    snprintf(out[n++], PATH_MAX, "/run/user/%u/harena", uid);
    snprintf(out[n++], PATH_MAX, "/tmp/harena-%u", uid);
    snprintf(out[n++], PATH_MAX, "/dev/shm/harena-%u", uid);
    if (home && home[0] == '/')
        snprintf(out[n++], PATH_MAX, "%s/.harena", home);
    return n;
}

static int open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkdir(path, 0700) == 0)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

/* Opens (and makes) the base directory. Returns a descriptor or -1. */
int state_base(struct harena_error *err)
{
    char path[5][PATH_MAX];
    int count = base_paths(path);
    struct stat st;
    for (int i = 0; i < count; i++) {
        int fd = open_dir(path[i]);
        if (fd < 0) {
            harena_error_set(err, 125, "cannot make a state directory such as %s: %s; set XDG_RUNTIME_DIR to a directory of yours",
                             path[i], strerror(errno));
            continue;
        }
        if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 022))
            return fd;
        close(fd);
        harena_error_set(err, 125, "the state directory %s belongs to somebody else or may be written by others; remove it or set "
                                   "XDG_RUNTIME_DIR", path[i]);
    }
    return -1;
}

int state_empty_dir(int base_fd, struct harena_error *err)
{
    int fd = openat(base_fd, EMPTY_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        mkdirat(base_fd, EMPTY_NAME, 0);
        fchmodat(base_fd, EMPTY_NAME, 0555, 0); /* whatever the umask */
        fd = openat(base_fd, EMPTY_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0)
        harena_error_set(err, 125, "cannot make an empty directory: %s", strerror(errno));
    return fd;
}

static bool name_valid(const char *name)
{
    size_t n = strlen(name);
    if (n < 1 || n > 60 || name[0] == '.' || name[0] == '-')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* info.json of a sandbox, NULL when there is none. In one piece: the library reads a descriptor byte by byte. */
json_t *state_read_info(int dir)
{
    int fd = openat(dir, "info.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    char *text = fd >= 0 && !fstat(fd, &st) && st.st_size < INFO_MAX ? malloc(st.st_size + 1) : NULL;
    ssize_t n = text ? read(fd, text, st.st_size) : -1;
    json_t *info = n > 0 ? json_loadb(text, n, 0, NULL) : NULL;
    free(text);
    if (fd >= 0)
        close(fd);
    return info;
}

/* Opens NAME and takes its lock. Returns a descriptor; -1 with errno EWOULDBLOCK when it lives, or another errno. */
static int take_directory(int base_fd, const char *name)
{
    struct stat a, b;
    int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int error = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        error = errno;
    else if (fstat(fd, &a) < 0 || fstatat(base_fd, name, &b, AT_SYMLINK_NOFOLLOW) < 0 || a.st_ino != b.st_ino)
        error = EAGAIN + 1000; /* removed under us: try again */
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* What a sandbox says about its cgroups. */
static void with_cgroups(int dir_fd, void (*act)(char *const *paths, u32 count))
{
    json_t *info = state_read_info(dir_fd);
    json_t *list = json_object_get(info, "cgroups"), *item;
    char *paths[CGROUP_MAX];
    u32 count = 0;
    size_t i;
    json_array_foreach(list, i, item)
        if (count < CGROUP_MAX && json_is_string(item))
            paths[count++] = (char *)json_string_value(item);
    act(paths, count);
    json_decref(info);
}

/* Removes everything of a dead sandbox. The lock is held through dir_fd. */
static void remove_dead(int base_fd, int dir_fd, const char *name)
{
    with_cgroups(dir_fd, cgroup_remove);
    state_remove(base_fd, dir_fd, name);
}

/* Both kinds of lock are the open file description's, as the link to the broker is. */
static bool owner_lock(int dir, int *fd)
{
    struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    *fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 && fcntl(*fd, F_OFD_SETLK, &l) == 0;
}

static bool is_owned(int dir)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(dir, F_OFD_GETLK, &l) < 0 || l.l_type != F_UNLCK;
}

/* The first process of a broker's sandbox leads the process group of all. */
static void kill_groups_below(int broker)
{
    char path[64];
    int child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", broker, broker);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1 && child > 1)
        kill(-child, SIGKILL);
    if (f)
        fclose(f);
}

/* Ends a sandbox without its broker's help. info: as it says. */
static void end_by_force(int dir, const json_t *info)
{
    int pid = json_integer_value(json_object_get(info, "pid")), broker = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (flock(dir, LOCK_SH | LOCK_NB) < 0) { /* the broker holds it, so it is still that pid's */
        with_cgroups(dir, cgroup_kill);
        kill_groups_below(pid); /* without a pid namespace they would stay */
        if (broker >= 0)
            syscall(SYS_pidfd_send_signal, broker, SIGKILL, NULL, 0);
    }
    if (broker >= 0)
        close(broker);
}

/* A sandbox that lives, but whose owner was killed, its guard, too. Only what said that it has an owner; older ones did not. */
static void end_ownerless(int dir)
{
    json_t *info = is_owned(dir) ? NULL : state_read_info(dir);
    if (json_is_true(json_object_get(info, "owned")))
        end_by_force(dir, info);
    json_decref(info);
}

static bool await_end(int dir, int link, u32 ms)
{
    struct pollfd p = { .fd = link, .events = POLLIN };
    bool gone = false;
    if (link >= 0)
        return poll(&p, 1, ms) != 0;
    for (u64 end = now_ms() + ms; !(gone = flock(dir, LOCK_SH | LOCK_NB) == 0) && now_ms() < end;)
        poll(NULL, 0, 10);
    return gone;
}

/* Its broker was told to end it, and closes the link when it has done so. If it does not get to it: with more time, then without it.
 * link -1: it could not even be told. */
int state_end(const char *name, int link)
{
    int dir = state_open(name, NULL);
    if (dir < 0)
        return -1;
    if (!await_end(dir, link, GRACE_MS))
        with_cgroups(dir, cgroup_lift);
    if (!await_end(dir, link, 4 * GRACE_MS)) {
        json_t *info = state_read_info(dir);
        end_by_force(dir, info);
        json_decref(info);
        await_end(dir, link, 4 * GRACE_MS);
    }
    close(dir);
    return 0;
}

/* For the guard, which holds no lock: of a sandbox that is dead. Only system calls. */
void state_remove_unlocked(int base_fd, const char *name)
{
    int fd = take_directory(base_fd, name);
    if (fd < 0)
        return;
    state_remove(base_fd, fd, name);
    close(fd);
}

void state_remove(int base_fd, int dir_fd, const char *name)
{
    unlinkat(dir_fd, "control", 0);
    unlinkat(dir_fd, "info.json", 0);
    unlinkat(dir_fd, "info.new", 0);
    unlinkat(base_fd, name, AT_REMOVEDIR);
}

/* Makes the directory (a random name when name is NULL), locked, and the listening control socket in it. */
int state_create(struct harena_sandbox *s, const char *name, int *listener, struct harena_error *err)
{
    if (name && !name_valid(name)) {
        harena_error_set(err, 125, "invalid name '%s': use at most 60 letters, digits, '.', '_' and '-'", name);
        return -1;
    }
    for (int tries = 0; s->state_fd < 0; tries++) {
        u32 r[2];
        getrandom(r, sizeof(r), 0);
        snprintf(s->id, sizeof(s->id), "h%08x%04x", r[0], r[1] & 0xffff);
        if (name) {
            snprintf(s->name, sizeof(s->name), "%s", name);
        } else {
            snprintf(s->name, sizeof(s->name), "%s", s->id);
        }
        bool made = mkdirat(s->base_fd, s->name, 0700) == 0;
        if (!made && errno != EEXIST)
            break;
        int fd = take_directory(s->base_fd, s->name);
        if (fd >= 0 && !made) {
            remove_dead(s->base_fd, fd, s->name);
            close(fd);
        } else if (fd >= 0) {
            s->state_fd = fd;
        } else if (errno == EWOULDBLOCK && name) {
            harena_error_set(err, 125, "a sandbox named '%s' is running; choose another --name or `harena kill %s`", name, name);
            return -1;
        }
        if (tries > 100)
            break;
    }
    if (s->state_fd < 0) {
        harena_error_set(err, 125, "cannot make a state directory for the sandbox: %s", strerror(errno));
        return -1;
    }
    if (!owner_lock(s->state_fd, &s->owner_fd) && s->owner_fd >= 0) {
        close(s->owner_fd); /* a file system without: as before */
        s->owner_fd = -1;
    }
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/control", s->state_fd);
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (void *)&a, sizeof(a)) < 0 || listen(*listener, 16) < 0) {
        harena_error_set(err, 125, "cannot make the control socket: %s", strerror(errno));
        return -1;
    }
    return 0;
}

static json_t *limits_to_json(const struct harena_limits *l)
{
    json_t *cpus = json_array();
    for (u32 i = 0; i < HARENA_CPUS_MAX; i++)
        if (l->cpuset[i / 64] >> i % 64 & 1)
            json_array_append_new(cpus, json_integer(i));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "memory", (json_int_t)l->memory, "files_memory",
                     (json_int_t)l->files_memory, "output", (json_int_t)l->output, "cpu_time_ms", (json_int_t)l->cpu_time_ms,
                     "timeout_ms", (json_int_t)l->timeout_ms, "pids", (json_int_t)l->pids, "cpus_milli", (json_int_t)l->cpus_milli,
                     "files", (json_int_t)l->files, "cpuset", cpus);
}

static u64 number_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

void limits_from_json(const struct json_t *o, struct harena_limits *l)
{
    *l = (struct harena_limits){ .memory = number_of(o, "memory"), .files_memory = number_of(o, "files_memory"),
                                 .output = number_of(o, "output"), .cpu_time_ms = number_of(o, "cpu_time_ms"),
                                 .timeout_ms = number_of(o, "timeout_ms"), .pids = number_of(o, "pids"),
                                 .cpus_milli = number_of(o, "cpus_milli"), .files = number_of(o, "files") };
    json_t *cpus = json_object_get(o, "cpuset");
    for (size_t i = 0; i < json_array_size(cpus); i++) {
        u64 cpu = json_integer_value(json_array_get(cpus, i));
        if (cpu < HARENA_CPUS_MAX)
            l->cpuset[cpu / 64] |= 1ul << cpu % 64;
    }
}

/* Takes info over. Whoever reads sees the old or the new. */
static int write_info(int dir, json_t *info)
{
    int fd = openat(dir, "info.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char *text = fd >= 0 && info ? json_dumps(info, JSON_COMPACT) : NULL;
    size_t size = text ? strlen(text) : 0;
    int result = text && write(fd, text, size) == (ssize_t)size ? 0 : -1;
    free(text);
    if (fd >= 0)
        close(fd);
    json_decref(info);
    return result < 0 ? result : renameat(dir, "info.new", dir, "info.json");
}

/* The snapshot whose files a running sandbox is based on now. */
int state_set_origin(const char *name, const char *snapshot, const char *snapshot_id, struct harena_error *err)
{
    int dir = state_open(name, err);
    if (dir < 0)
        return -1;
    json_t *info = state_read_info(dir);
    int r = -1;
    if (info && !json_object_set_new(info, "snapshot", json_string(snapshot)) &&
        !json_object_set_new(info, "snapshot_id", json_string(snapshot_id)))
        r = write_info(dir, json_incref(info));
    struct stat st;
    if (r < 0 && fstat(dir, &st) == 0 && !st.st_nlink)
        harena_error_set(err, 125, "sandbox '%.64s' has ended", name);
    else if (r < 0)
        harena_error_set(err, 125, "cannot write the state of sandbox '%.64s': %s", name, strerror(errno));
    json_decref(info);
    close(dir);
    return r;
}

int state_write_info(struct harena_sandbox *s, const char *const *argv)
{
    json_t *command = json_array(), *cgroups = json_array();
    for (; argv && *argv; argv++)
        json_array_append_new(command, json_string(*argv) ?: json_string("?"));
    for (u32 i = 0; i < s->cgroup_count; i++)
        json_array_append_new(cgroups, json_string(s->cgroups[i]));
    json_t *info = json_pack("{s:s, s:s, s:i, s:b, s:I, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "name", s->name, "id", s->id, "pid",
                             (int)s->broker, "owned", s->owner_fd >= 0, "created", (json_int_t)time(NULL), "command", command, "root",
                             json_string(s->root) ?: json_string("?"), "cgroups", cgroups, "limits", limits_to_json(&s->limits),
                             "snapshot", s->origin.snapshot, "snapshot_id", s->origin.snapshot_id, "files",
                             json_string(s->files ?: "") ?: json_string("?"));
    return write_info(s->state_fd, info);
}

/* Calls back for every sandbox that lives, removes the others. */
static void walk(int base_fd, void (*alive)(int dir_fd, const char *name, void *arg), void *arg)
{
    int fd = openat(base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        int dir = take_directory(base_fd, e->d_name);
        if (dir >= 0) {
            struct stat st;
            /* one that is just being made is not locked yet */
            if (!fstat(dir, &st) && time(NULL) - st.st_ctime > 2)
                remove_dead(base_fd, dir, e->d_name);
            close(dir);
        } else if (errno == EWOULDBLOCK) {
            dir = openat(base_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (dir >= 0) {
                end_ownerless(dir);
                if (alive)
                    alive(dir, e->d_name, arg);
                close(dir);
            }
        }
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

struct by_id {
    const char *id;
    char name[64];
};

static void match_id(int dir_fd, const char *name, void *arg)
{
    struct by_id *search = arg;
    json_t *info = state_read_info(dir_fd);
    const char *id = json_string_value(json_object_get(info, "id"));
    if (id && !strcmp(id, search->id))
        snprintf(search->name, sizeof(search->name), "%.63s", name);
    json_decref(info);
}

/* By name, or else by id. */
int state_connect(const char *name, struct harena_error *err)
{
    if (!name_valid(name)) {
        harena_error_set(err, 125, "invalid name '%s'", name);
        return -1;
    }
    int base = state_base(err);
    if (base < 0)
        return -1;
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%.60s/control", base, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        harena_error_set(err, 125, "cannot make a socket: %s", strerror(errno));
        close(base);
        return -1;
    }
    /* a broker that does not take its clients lets them wait once its queue is full */
    struct timeval wait = { .tv_sec = CONNECT_S }, none = { 0 };
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    bool ok = connect(fd, (void *)&a, sizeof(a)) == 0, busy = !ok && errno == EAGAIN;
    if (!ok && !busy) {
        struct by_id search = { .id = name };
        walk(base, match_id, &search);
        if (search.name[0]) {
            snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%.60s/control", base, search.name);
            ok = connect(fd, (void *)&a, sizeof(a)) == 0;
            busy = !ok && errno == EAGAIN;
        }
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
    if (!ok) {
        harena_error_set(err, 125, busy ? "the broker of sandbox '%s' does not answer" :
                                          "no running sandbox is named '%s'; `harena ps` lists them", name);
        close(fd);
        fd = -1;
    }
    close(base);
    errno = busy ? EAGAIN : ENOENT;
    return fd;
}

int state_open(const char *name, struct harena_error *err)
{
    struct by_id search = { .id = name };
    int base = name_valid(name) ? state_base(err) : -1, fd = -1;
    if (base >= 0) {
        fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            walk(base, match_id, &search);
        if (search.name[0])
            fd = openat(base, search.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(base);
    }
    if (fd < 0)
        harena_error_set(err, 125, "no running sandbox is named '%.64s'; `harena ps` lists them", name);
    return fd;
}

void state_sweep(int base_fd) { walk(base_fd, NULL, NULL); }

struct listing {
    struct harena_info *list;
    int count, room;
};

static void list_one(int dir_fd, const char *name, void *arg)
{
    struct listing *l = arg;
    json_t *info = state_read_info(dir_fd);
    if (!info)
        return;
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 16;
        l->list = grow(l->list, l->room * sizeof(*l->list));
    }
    struct harena_info *i = &l->list[l->count++];
    memset(i, 0, sizeof(*i));
    snprintf(i->name, sizeof(i->name), "%s", name);
    snprintf(i->id, sizeof(i->id), "%s", json_string_value(json_object_get(info, "id")) ?: "?");
    snprintf(i->root, sizeof(i->root), "%s", json_string_value(json_object_get(info, "root")) ?: "?");
    i->pid = json_integer_value(json_object_get(info, "pid"));
    i->created = json_integer_value(json_object_get(info, "created"));
    json_t *word;
    size_t n;
    json_array_foreach(json_object_get(info, "command"), n, word) {
        size_t at = strlen(i->command);
        snprintf(i->command + at, sizeof(i->command) - at, "%s%s", n ? " " : "", json_string_value(word) ?: "");
    }
    json_array_foreach(json_object_get(info, "cgroups"), n, word) {
        const char *path = json_string_value(word);
        if (path)
            cgroup_usage(path, &i->usage);
    }
    limits_from_json(json_object_get(info, "limits"), &i->limits);
    json_decref(info);
}

int harena_list(struct harena_info **out, struct harena_error *err)
{
    struct listing l = { 0 };
    int base = state_base(err);
    if (base < 0)
        return -1;
    walk(base, list_one, &l);
    close(base);
    for (int i = 0; i < l.count; i++) {
        struct harena_process *p;
        watch_usage(l.list[i].pid, &l.list[i].usage);
        l.list[i].processes = watch_processes(l.list[i].name, 500, &p, &l.list[i].paused, NULL);
        if (l.list[i].processes >= 0)
            harena_processes_free(p, l.list[i].processes);
    }
    *out = l.list;
    return l.count;
}
