/* Memory and process limits through cgroups, version 2 or 1, where this user may make them.
 *
 * The runtime makes one group per controller beside its own, puts the broker in (its children follow) and removes it when all
 * are gone. Version 2 forbids processes in groups with children that have controllers, so there the nearest ancestor
 * that distributes the controller is used. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_text(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text);
}

static bool read_text(const char *dir, const char *file, char *out, size_t size)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = 0;
    return n >= 0;
}

/* Our own path in the hierarchy that has the controller (version 1), or in the unified one (controller NULL). */
static bool own_path(const char *controller, char *out, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX];
    bool found = false;
    while (f && !found && fgets(line, sizeof(line), f)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        names++;
        path[strcspn(path, "\n")] = 0;
        if (!controller) {
            found = !*names;
        } else {
            for (char *save, *n = strtok_r(names, ",", &save); n && !found; n = strtok_r(NULL, ",", &save))
                found = !strcmp(n, controller);
        }
        if (found)
            snprintf(out, size, "%s", path);
    }
    if (f)
        fclose(f);
    return found;
}

static bool keep(struct harena_sandbox *s, const char *path)
{
    s->cgroups[s->cgroup_count] = strdup(path);
    return s->cgroups[s->cgroup_count++] != NULL;
}

static bool create_v1(struct harena_sandbox *s, const char *controller, const char *file, u64 limit)
{
    char own[PATH_MAX / 2], path[PATH_MAX], number[32];
    if (!own_path(controller, own, sizeof(own)))
        return false;
    snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/harena-%s", controller, strcmp(own, "/") ? own : "", s->name);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return false;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)limit);
    if (!write_text(path, file, number)) {
        rmdir(path);
        return false;
    }
    if (!strcmp(controller, "memory"))
        write_text(path, "memory.memsw.limit_in_bytes", number); /* no swap beyond it, where accounted */
    return keep(s, path);
}

static bool create_v2(struct harena_sandbox *s, u64 memory_max, u32 pids_max)
{
    char own[PATH_MAX / 2], dir[PATH_MAX - 128], path[PATH_MAX], text[1024], number[32];
    if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) < 0 || !own_path(NULL, own, sizeof(own)))
        return false;
    for (;;) {
        snprintf(dir, sizeof(dir), "/sys/fs/cgroup%s", strcmp(own, "/") ? own : "");
        bool fits = read_text(dir, "cgroup.subtree_control", text, sizeof(text)) && (!memory_max || strstr(text, "memory")) &&
                    (!pids_max || strstr(text, "pids"));
        snprintf(path, sizeof(path), "%s/harena-%s", dir, s->name);
        if (fits && (mkdir(path, 0755) == 0 || errno == EEXIST))
            break;
        char *slash = strrchr(own, '/');
        if (!slash || !own[1])
            return false;
        slash[slash == own] = 0;
    }
    bool ok = true;
    if (memory_max) {
        snprintf(number, sizeof(number), "%llu", (unsigned long long)memory_max);
        ok = write_text(path, "memory.max", number);
        write_text(path, "memory.swap.max", "0");
        write_text(path, "memory.oom.group", "0");
    }
    snprintf(number, sizeof(number), "%u", pids_max);
    if (pids_max && ok)
        ok = write_text(path, "pids.max", number);
    if (!ok) {
        rmdir(path);
        return false;
    }
    return keep(s, path);
}

/* pids_max counts host processes: the guest's, spare ones and the broker; 0 = no limit. Returns whether limits hold. */
int cgroup_create(struct harena_sandbox *s, u64 memory_max, u32 pids_max, struct harena_error *err)
{
    if (!memory_max && !pids_max)
        return 0;
    if (create_v2(s, memory_max, pids_max))
        return 0;
    bool memory = !memory_max || create_v1(s, "memory", "memory.limit_in_bytes", memory_max);
    bool pids = !pids_max || create_v1(s, "pids", "pids.max", pids_max);
    if (memory && pids)
        return 0;
    if (!memory)
        harena_error_set(err, 125, "no limit for the sum of memory: this user may not make a cgroup; each process and the files in "
                                   "memory are held to it");
    return memory ? 0 : -1; /* processes are counted in other ways, too */
}

void cgroup_add(struct harena_sandbox *s, pid_t pid)
{
    char number[32];
    snprintf(number, sizeof(number), "%d", pid);
    for (u32 i = 0; i < s->cgroup_count; i++)
        write_text(s->cgroups[i], "cgroup.procs", number);
}

/* Only ever removes directories named harena-*; the kernel refuses when something is still inside. */
void cgroup_remove(char *const *paths, u32 count)
{
    for (u32 i = 0; i < count; i++) {
        const char *name = strrchr(paths[i], '/');
        if (!name || strncmp(name, "/harena-", 8) || strncmp(paths[i], "/sys/fs/cgroup/", 15) || strstr(paths[i], ".."))
            continue;
        for (int tries = 0; rmdir(paths[i]) < 0 && errno == EBUSY && tries < 50; tries++)
            usleep(2000); /* the last process is just being taken down */
    }
}

bool cgroup_out_of_memory(const struct harena_sandbox *s)
{
    char text[1024];
    for (u32 i = 0; i < s->cgroup_count; i++) {
        char *at = NULL;
        if (read_text(s->cgroups[i], "memory.events", text, sizeof(text)) ||
            read_text(s->cgroups[i], "memory.oom_control", text, sizeof(text)))
            at = strstr(text, "oom_kill ");
        if (at && strtoul(at + 9, NULL, 10) > 0)
            return true;
    }
    return false;
}

/* Bytes charged to the group, 0 when it does not count memory. */
u64 cgroup_memory(const char *path)
{
    char text[64];
    if (read_text(path, "memory.current", text, sizeof(text)) || read_text(path, "memory.usage_in_bytes", text, sizeof(text)))
        return strtoull(text, NULL, 10);
    return 0;
}

bool cgroup_has_memory(const char *path) { return !strncmp(path, "/sys/fs/cgroup/", 15) && cgroup_memory(path) > 0; }
