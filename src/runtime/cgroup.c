/* Limits through cgroups, version 2, version 1, or both (hybrid), where this user may make them.
 *
 * The runtime makes a group per hierarchy that is needed, named harena-NAME, puts the broker in (its children follow) and removes it
 * when all are gone. Which limits are *held* by groups is told in struct harena_sandbox.held; for the others the broker does what it
 * can (broker/limits.c).
 *
 * Version 2 forbids processes in groups with children that have controllers, so there the nearest ancestor that distributes
 * the controllers is used: the one with most of those wanted. Version 1 has a hierarchy per controller (or some together, under linked
 * names); the group is made below our own. On hybrid hosts a further group in the unified hierarchy, which has no controllers
 * there, gives what version 1 lacks: to kill everything at once. Processor time is counted by every group of version 2.
 *
 * Files: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the Linux source. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERIOD_US 100000u

const char *cgroup_top = "/sys/fs/cgroup", *cgroup_own = "/proc/self/cgroup"; /* tests have their own */

static const char *in_group(char path[PATH_MAX + 64], const char *dir, const char *file)
{
    snprintf(path, PATH_MAX + 64, "%s/%s", dir, file);
    return path;
}

static bool write_text(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 64];
    int fd = open(in_group(path, dir, file), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text);
}

static bool write_number(const char *dir, const char *file, u64 number)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return write_text(dir, file, text);
}

static bool read_text(const char *dir, const char *file, char *out, size_t size)
{
    char path[PATH_MAX + 64];
    int fd = open(in_group(path, dir, file), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = 0;
    return n >= 0;
}

static bool read_number(const char *dir, const char *file, u64 *out)
{
    char text[64];
    if (!read_text(dir, file, text, sizeof(text)))
        return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

/* The number behind `key` at the start of a line. */
static bool read_keyed(const char *dir, const char *file, const char *key, u64 *out)
{
    char text[4096];
    size_t n = strlen(key);
    if (!read_text(dir, file, text, sizeof(text)))
        return false;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (!strncmp(line, key, n) && line[n] == ' ') {
            *out = strtoull(line + n + 1, NULL, 10);
            return true;
        }
    return false;
}

/* Our own path in the hierarchy that has the controller (version 1), or in the unified one (controller NULL). */
static bool own_path(const char *controller, char *out, size_t size)
{
    FILE *f = fopen(cgroup_own, "re");
    char line[PATH_MAX], list[PATH_MAX + 2], wanted[64];
    bool found = false;
    snprintf(wanted, sizeof(wanted), ",%s,", controller ?: "");
    while (f && !found && fgets(line, sizeof(line), f)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        names++;
        path[strcspn(path, "\n")] = 0;
        snprintf(list, sizeof(list), ",%s,", names);
        found = strstr(list, wanted) != NULL;
        if (found)
            snprintf(out, size, "%s", strcmp(path, "/") ? path : "");
    }
    if (f)
        fclose(f);
    return found;
}

/* The last one is of no use. */
static void drop_group(struct harena_sandbox *s)
{
    char *path = s->cgroups[--s->cgroup_count];
    rmdir(path);
    free(path);
}

/* mkdir, also when a dead sandbox has left it. The guard knows of it before it is there: we may be killed at any instant. */
static bool make_group(struct harena_sandbox *s, const char *path)
{
    char *copy = s->cgroup_count < CGROUP_MAX ? strdup(path) : NULL;
    if (!copy)
        return false;
    s->cgroups[s->cgroup_count++] = copy;
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return true;
    drop_group(s);
    return false;
}

/* ---- version 1 ---- */

/* DIR/harena-NAME in the hierarchy TOP/SUB. Inside a container our own path may be the host's, which is not to be seen there: its
 * top is ours then. */
static bool make_below(struct harena_sandbox *s, const char *sub, const char *own, char path[PATH_MAX])
{
    struct stat st;
    char dir[PATH_MAX - 128];
    snprintf(dir, sizeof(dir), "%s/%s%s", cgroup_top, sub, own);
    if (stat(dir, &st) < 0)
        snprintf(dir, sizeof(dir), "%s/%s", cgroup_top, sub);
    snprintf(path, PATH_MAX, "%s/harena-%s", dir, s->name);
    return make_group(s, path);
}

/* Returns whether all of it holds. */
static bool create_v1(struct harena_sandbox *s, u32 what, const struct cgroup_limits *l)
{
    static const char *const controllers[] = { "memory", "pids", "cpu", "cpuacct" };
    char own[PATH_MAX / 2], path[PATH_MAX];
    const char *controller = controllers[__builtin_ctz(what)];
    if (!own_path(controller, own, sizeof(own)) || !make_below(s, controller, own, path))
        return false;
    bool ok = true;
    switch (what) {
    case CGROUP_MEMORY:
        ok = write_number(path, "memory.limit_in_bytes", l->memory);
        write_number(path, "memory.memsw.limit_in_bytes", l->memory); /* no swap beyond it, where accounted */
        break;
    case CGROUP_PIDS:
        ok = write_number(path, "pids.max", l->pids);
        break;
    case CGROUP_CPU:
        ok = write_number(path, "cpu.cfs_period_us", PERIOD_US) &&
             write_number(path, "cpu.cfs_quota_us", (u64)l->cpus_milli * PERIOD_US / 1000);
        break;
    }
    if (!ok)
        drop_group(s);
    return ok;
}

/* ---- version 2 ---- */

static u32 distributed(const char *dir)
{
    static const struct {
        const char *name;
        u32 bit;
    } names[] = { { "memory", CGROUP_MEMORY }, { "pids", CGROUP_PIDS }, { "cpu", CGROUP_CPU } };
    char text[1024];
    u32 found = CGROUP_CPU_TIME;
    if (!read_text(dir, "cgroup.subtree_control", text, sizeof(text)))
        return 0;
    for (char *save, *n = strtok_r(text, " \n", &save); n; n = strtok_r(NULL, " \n", &save))
        for (size_t i = 0; i < ARRAY_COUNT(names); i++)
            if (!strcmp(n, names[i].name))
                found |= names[i].bit;
    return found;
}

/* The group below the nearest ancestor of ours that gives most of what is wanted. Returns what that is. */
static u32 make_v2(struct harena_sandbox *s, const char *sub, const char *own, u32 wanted, char path[PATH_MAX])
{
    char dir[PATH_MAX - 128], best[PATH_MAX - 128] = "";
    int most = -1;
    u32 gives = 0;
    snprintf(dir, sizeof(dir), "%s%s%s", cgroup_top, sub, own);
    size_t top = strlen(cgroup_top) + strlen(sub);
    for (;;) {
        u32 here = distributed(dir) & wanted;
        if (here && __builtin_popcount(here) > most && access(dir, W_OK) == 0) {
            most = __builtin_popcount(here);
            gives = here;
            snprintf(best, sizeof(best), "%s", dir);
        }
        char *slash = strrchr(dir + top, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    snprintf(path, PATH_MAX, "%s/harena-%s", best, s->name);
    return most > 0 && make_group(s, path) ? gives : 0;
}

static u32 create_v2(struct harena_sandbox *s, const char *sub, u32 wanted, const struct cgroup_limits *l)
{
    char own[PATH_MAX / 2], path[PATH_MAX], text[64];
    snprintf(path, sizeof(path), "%s%s/cgroup.controllers", cgroup_top, sub);
    if (access(path, R_OK) < 0 || !own_path(NULL, own, sizeof(own)))
        return 0;
    u32 held = make_v2(s, sub, own, wanted, path);
    if (!held)
        return 0;
    if (held & CGROUP_MEMORY) {
        if (!write_number(path, "memory.max", l->memory))
            held &= ~CGROUP_MEMORY;
        write_text(path, "memory.swap.max", "0");
        write_text(path, "memory.oom.group", "0");
    }
    if ((held & CGROUP_PIDS) && !write_number(path, "pids.max", l->pids))
        held &= ~CGROUP_PIDS;
    snprintf(text, sizeof(text), "%llu %u", (unsigned long long)l->cpus_milli * PERIOD_US / 1000, PERIOD_US);
    if ((held & CGROUP_CPU) && !write_text(path, "cpu.max", text))
        held &= ~CGROUP_CPU;
    if (!held)
        drop_group(s);
    return held;
}

/* ---- all of it ---- */

static u32 wanted(const struct cgroup_limits *l)
{
    return (l->memory ? CGROUP_MEMORY : 0) | (l->pids ? CGROUP_PIDS : 0) | (l->cpus_milli ? CGROUP_CPU : 0) |
           (l->cpu_time ? CGROUP_CPU_TIME : 0);
}

/* Makes the groups for the limits given; s->held tells which of them hold. */
void cgroup_create(struct harena_sandbox *s, const struct cgroup_limits *l)
{
    u32 want = wanted(l);
    if (!want)
        return;
    s->held = create_v2(s, "", want, l);
    for (u32 bit = 1; bit <= CGROUP_CPU_TIME; bit <<= 1)
        if ((want & ~s->held & bit) && create_v1(s, bit, l))
            s->held |= bit;
    if (s->held && create_v2(s, "/unified", CGROUP_CPU_TIME, l))
        s->held |= want & CGROUP_CPU_TIME;
}

/* False: the broker could not be put into all of them, and the limits do not hold. */
bool cgroup_add(struct harena_sandbox *s, pid_t pid)
{
    bool ok = true;
    for (u32 i = 0; i < s->cgroup_count; i++)
        ok &= write_number(s->cgroups[i], "cgroup.procs", pid);
    if (!ok)
        s->held = 0;
    return ok;
}

/* Thousands of them, more than one read gives. Without the library's buffers: the guard cannot have them. */
static void kill_listed(const char *dir)
{
    char path[PATH_MAX + 64], c;
    int fd = open(in_group(path, dir, "cgroup.procs"), O_RDONLY | O_CLOEXEC), pid = 0;
    while (fd >= 0 && read(fd, &c, 1) == 1) {
        if (c == '\n' && pid > 1)
            kill(pid, SIGKILL);
        pid = c == '\n' ? 0 : pid * 10 + c - '0';
    }
    close(fd);
}

static bool is_ours(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t top = strlen(cgroup_top);
    return name && !strncmp(name, "/harena-", 8) && !strncmp(path, cgroup_top, top) && path[top] == '/' && !strstr(path, "..");
}

/* Lets them run at full speed, so that they end. Under a quota even that can take minutes: what processes do inside the host kernel - at
 * the limit of memory that is a lot - is not stopped by it, only charged, and the whole group, with the broker, sleeps until it is paid. */
void cgroup_lift(char *const *paths, u32 count)
{
    for (u32 i = 0; i < count; i++)
        if (is_ours(paths[i]) && !write_text(paths[i], "cpu.max", "max"))
            write_text(paths[i], "cpu.cfs_quota_us", "-1");
}

/* Kills everything in the groups, the broker included. */
void cgroup_kill(char *const *paths, u32 count)
{
    bool killed = false;
    cgroup_lift(paths, count);
    for (u32 i = 0; i < count; i++)
        killed |= is_ours(paths[i]) && write_text(paths[i], "cgroup.kill", "1");
    for (u32 i = 0; i < count && !killed; i++)
        if (is_ours(paths[i]))
            kill_listed(paths[i]);
}

/* Only ever removes directories named harena-*; the kernel refuses when something is still inside. */
void cgroup_remove(char *const *paths, u32 count)
{
    for (u32 i = 0; i < count; i++) {
        if (!is_ours(paths[i]))
            continue;
        for (int tries = 0; rmdir(paths[i]) < 0 && errno == EBUSY && tries < 500; tries++) {
            if (tries % 50 == 49)
                cgroup_kill(&paths[i], 1);
            usleep(2000); /* the last process is just being taken down */
        }
    }
}

/* Adds what the group tells to u. */
void cgroup_usage(const char *path, struct harena_usage *u)
{
    u64 n;
    if (!is_ours(path))
        return;
    if (read_number(path, "memory.current", &n) || read_number(path, "memory.usage_in_bytes", &n))
        u->memory = n;
    if (read_number(path, "memory.peak", &n) || read_number(path, "memory.max_usage_in_bytes", &n))
        u->memory_peak = n;
    if (read_keyed(path, "memory.events", "oom_kill", &n) || read_keyed(path, "memory.oom_control", "oom_kill", &n))
        u->oom_kills = n;
    if (read_number(path, "pids.current", &n))
        u->host_processes = n;
    if (read_keyed(path, "cpu.stat", "usage_usec", &n))
        u->cpu_ns = n * 1000;
    else if (read_number(path, "cpuacct.usage", &n))
        u->cpu_ns = n;
}

/* The group that counts memory, or processor time; NULL = none. */
const char *cgroup_with(const struct harena_sandbox *s, u32 what)
{
    for (u32 i = 0; i < s->cgroup_count && (s->held & what); i++) {
        struct harena_usage u = { .memory = ~0ul, .cpu_ns = ~0ul };
        cgroup_usage(s->cgroups[i], &u);
        if ((what == CGROUP_MEMORY ? u.memory : u.cpu_ns) != ~0ul)
            return s->cgroups[i];
    }
    return NULL;
}
