/* Limits that hold against a hostile guest: what the broker itself counts, and what it makes of the cgroups' counts.
 *
 *   wall time      main.c, the epoll loop's deadline
 *   output         bytes written by all sessions (session.c asks for the room)
 *   processors     affinity, set here before the guest's first process has begun: its filter knows no call to change it
 *   processor time the cgroup's count; without one the sum over the host processes of the guest, from /proc
 *   memory         the cgroup; without one RLIMIT_DATA of each process (spawn.c), and here the sum over all processes and the
 *                  segments K and D, page tables included. Pages shared after a fork count for each process then, so there is room
 *                  of a quarter above
 *   files in memory  the size of D
 *
 * What is only looked at now and then (LOOK_MS) can be exceeded for that long. The guest's processes are found by their session: the
 * first one begins it, and no guest can leave it. A process that begins and ends between two looks is not counted.
 *
 * The descriptors are opened before rights are dropped. /proc is reached through hostfs.proc_fd, which is /proc/self/fd. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 250u
#define LOOK_MIN_MS 5u
#define TICKS_PER_S 100u /* USER_HZ: a constant of the ABI */
#define D_SLACK (16ul << 20)
#define SUM_SLACK (32ul << 20)
#define COPY_SLACK (4ul << 20)
#define UNKNOWN (~0ull)

void end_sandbox(struct broker *b, u32 status, const char *f, ...)
{
    char text[256];
    va_list ap;
    if (b->main_done)
        return;
    va_start(ap, f);
    vsnprintf(text, sizeof(text), f, ap);
    va_end(ap);
    spawn_kill(b); /* first: whatever else we do may wait for memory */
    link_error(b, status, "%s", text);
    b->status = status;
    b->main_done = true;
}

/* ---- processors ---- */

static bool in_set(const u64 *set, u32 cpu) { return cpu < 1024 && (set[cpu / 64] >> cpu % 64 & 1); }

static u32 count_set(const u64 set[16])
{
    u32 n = 0;
    for (u32 i = 0; i < 16; i++)
        n += __builtin_popcountll(set[i]);
    return n;
}

/* Returns whether there are any. */
static bool get_affinity(u64 set[16])
{
    memset(set, 0, 128);
    return syscall(SYS_sched_getaffinity, 0, 128, set) > 0 && count_set(set);
}

/* Without a cgroup for the share: as many whole processors, from a place by chance so that sandboxes spread. */
static void choose_some(u64 set[16], u32 wanted)
{
    u64 chosen[16] = { 0 };
    for (u32 n = 0, cpu = (u32)getpid() * 7; n < wanted; cpu++)
        if (in_set(set, cpu % 1024)) {
            chosen[cpu % 1024 / 64] |= 1ull << cpu % 64;
            n++;
        }
    memcpy(set, chosen, sizeof(chosen));
}

static int pin(struct broker *b)
{
    struct ctl_config *c = b->config;
    u64 set[16], may[16];
    u32 wanted = (c->cpus_milli + 999) / 1000;
    bool some = c->cpus_milli && !(c->flags & CTL_CONFIG_CGROUP_CPU), given = count_set(c->cpuset);
    if ((!some && !given) || !get_affinity(may))
        return 0;
    memcpy(set, given ? c->cpuset : may, sizeof(set));
    for (u32 cpu = 0; cpu < 1024; cpu++)
        if (in_set(set, cpu) && !in_set(may, cpu)) {
            link_error(b, 125, "--cpuset: there is no processor %u here, or it may not be used", cpu);
            return -EINVAL;
        }
    if (some && wanted < count_set(set))
        choose_some(set, wanted);
    if (syscall(SYS_sched_setaffinity, 0, sizeof(set), set) == 0 &&
        syscall(SYS_sched_setaffinity, b->zygote_pid, sizeof(set), set) == 0)
        return 0;
    link_error(b, 125, "cannot choose processors: %s", strerror(errno));
    return -errno;
}

/* How many processors the guest can use at a time. */
static u32 cpu_count(const struct broker *b)
{
    u64 set[16];
    u32 share = (b->config->cpus_milli + 999) / 1000, n = get_affinity(set) ? count_set(set) : 1;
    return share && share < n ? share : n;
}

/* ---- cgroups ---- */

static int open_count(const struct broker *b, u32 group_off, const char *file, const char *or_file)
{
    char path[4096];
    const struct ctl_config *c = b->config;
    if (!group_off || group_off >= c->h.total)
        return -1;
    const char *group = (const char *)c + group_off;
    snprintf(path, sizeof(path), "%s/%s", group, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof(path), "%s/%s", group, or_file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The number behind `key`, or the first one. */
static u64 read_count(int fd, const char *key)
{
    char text[4096];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0)
        return UNKNOWN;
    text[n] = 0;
    char *at = key ? strstr(text, key) : text;
    return at ? strtoull(at + (key ? strlen(key) : 0), NULL, 10) : UNKNOWN;
}

static u64 group_cpu_ns(const struct broker *b)
{
    u64 us = read_count(b->limits.time_fd, "usage_usec ");
    return us != UNKNOWN ? us * 1000 : read_count(b->limits.time_fd, NULL);
}

void limits_usage(struct broker *b, struct wire_usage *u)
{
    struct limits *l = &b->limits;
    *u = (struct wire_usage){ .memory = read_count(l->memory_fd, NULL), .memory_peak = read_count(l->peak_fd, NULL),
                              .oom_kills = read_count(l->oom_fd, "oom_kill "), .cpu_ns = group_cpu_ns(b) };
}

/* A snapshot stores memory of the sandbox once more, on its account: too much would have the host kill its processes. What the host
 * can take back at any time does not count. */
bool limits_room_for_copy(const struct broker *b)
{
    u64 anon = read_count(b->limits.stat_fd, "\nrss "), shared = read_count(b->limits.stat_fd, "\nshmem "); /* version 1 */
    if (anon == UNKNOWN)
        anon = read_count(b->limits.stat_fd, "anon "); /* version 2: its first line */
    return !b->config->memory_max || anon == UNKNOWN || shared == UNKNOWN || 2 * (anon + shared) + COPY_SLACK <= b->config->memory_max;
}

/* ---- host processes, where there is no cgroup ---- */

static ssize_t read_proc(int proc, u32 pid, const char *file, char *out, size_t size)
{
    char path[32];
    snprintf(path, sizeof(path), "%u/%s", pid, file);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    out[n > 0 ? n : 0] = 0;
    return n;
}

struct look {
    u64 ticks; /* of those alive */
    u64 kib;   /* not shared with files or segments, page tables included */
    struct host_process *list;
    u32 count, room;
};

/* Pages that are swapped out, and tables for pages that are not there or all the same, take memory, too. */
static u64 private_kib(const char *status)
{
    static const char *const names[] = { "\nRssAnon:", "\nVmPTE:", "\nVmSwap:" };
    u64 kib = 0;
    for (u32 i = 0; i < ARRAY_COUNT(names); i++) {
        const char *at = strstr(status, names[i]);
        kib += at ? strtoull(at + strlen(names[i]), NULL, 10) : 0;
    }
    return kib;
}

static void look_at(struct broker *b, int proc, u32 pid, struct look *l)
{
    char text[4096];
    unsigned session;
    unsigned long long user, system, start;
    if (read_proc(proc, pid, "stat", text, sizeof(text)) <= 0)
        return;
    char *after = strrchr(text, ')');
    if (!after || sscanf(after, ") %*c %*d %*d %u %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu", &session,
                         &user, &system, &start) != 4 || session != (u32)b->zygote_pid)
        return;
    if (read_proc(proc, pid, "status", text, sizeof(text)) > 0)
        l->kib += private_kib(text);
    l->ticks += user + system;
    if (l->count == l->room) {
        u32 room = l->room ? l->room * 2 : 64;
        void *more = realloc(l->list, room * sizeof(*l->list));
        if (!more)
            return;
        l->list = more;
        l->room = room;
    }
    l->list[l->count++] = (struct host_process){ .pid = pid, .start = start, .ticks = user + system };
}

/* Adds what ended processes had used. Both lists are in the order of /proc, by number. */
static void count_ended(struct limits *l, const struct look *now)
{
    for (u32 i = 0, k = 0; i < l->seen_count; i++) {
        while (k < now->count && now->list[k].pid < l->seen[i].pid)
            k++;
        if (k == now->count || now->list[k].pid != l->seen[i].pid || now->list[k].start != l->seen[i].start)
            l->gone_ticks += l->seen[i].ticks;
    }
}

/* One pass over /proc. */
static void look_at_processes(struct broker *b, struct look *l)
{
    char names[32768] __attribute__((aligned(8)));
    memset(l, 0, sizeof(*l));
    int proc = openat(b->fs.proc_fd, "../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return;
    for (ssize_t n; (n = syscall(SYS_getdents64, proc, names, sizeof(names))) > 0;)
        for (ssize_t at = 0; at < n;) {
            struct dirent *d = (void *)(names + at);
            if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
                look_at(b, proc, strtoul(d->d_name, NULL, 10), l);
            at += d->d_reclen;
        }
    close(proc);
    count_ended(&b->limits, l);
    free(b->limits.seen);
    b->limits.seen = l->list;
    b->limits.seen_count = l->count;
}

/* ---- looking ---- */

/* Memory is limited and nobody but us counts it. */
static bool memory_is_ours(const struct ctl_config *c) { return c->memory_max && !(c->flags & CTL_CONFIG_CGROUP); }

/* Is there something that only /proc tells? */
bool limits_need_proc(const struct broker *b)
{
    const struct ctl_config *c = b->config;
    return memory_is_ours(c) || (c->cpu_time_ms && b->limits.time_fd < 0);
}

static void check_cpu_time(struct broker *b, u64 used_ns)
{
    u64 ms = b->config->cpu_time_ms;
    if (used_ns != UNKNOWN && used_ns / 1000000 >= ms)
        end_sandbox(b, 124, "used up its processor time of %llu.%03llu s; the sandbox was killed", (unsigned long long)ms / 1000,
                        (unsigned long long)ms % 1000);
}

static void check_memory(struct broker *b, u64 private_bytes)
{
    struct stat k, d;
    const struct ctl_config *c = b->config;
    if (b->main_done || fstat(b->k_fd, &k) < 0 || fstat(b->d_fd, &d) < 0)
        return;
    u64 segments = (u64)(k.st_blocks + d.st_blocks) * 512, files = (u64)d.st_blocks * 512, max = c->memory_max;
    bool ours = memory_is_ours(c);
    if (ours)
        freeze_limit(b, max + max / 4 + SUM_SLACK);
    if (c->tmpfs_max && files > c->tmpfs_max + D_SLACK)
        end_sandbox(b, 137, "out of memory: the sandbox's files in memory reached their limit and it was killed; raise --tmpfs");
    else if (ours && (segments > max || segments + private_bytes > max + max / 4 + SUM_SLACK))
        end_sandbox(b, 137, "out of memory: the sandbox reached its memory limit and was killed; raise --memory");
}

static u64 own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

/* Called before each wait. Returns how long that may be, at most wait_ms (-1: for ever). */
int limits_check(struct broker *b, int wait_ms)
{
    const struct ctl_config *c = b->config;
    struct limits *l = &b->limits;
    if (!l->next_ns)
        return wait_ms;
    u64 now = monotonic_ns();
    if (now >= l->next_ns) {
        u64 used = group_cpu_ns(b), private_bytes = 0, next_ms = LOOK_MS;
        if (memory_is_ours(c) || (c->cpu_time_ms && used == UNKNOWN)) {
            struct look look;
            u64 begun = own_cpu_ns();
            look_at_processes(b, &look);
            private_bytes = look.kib * 1024;
            if (used == UNKNOWN)
                used = (look.ticks + l->gone_ticks) * (1000000000ull / TICKS_PER_S);
            /* at most a sixth of a processor; how long it took is the guest's choice, who may keep all processors busy */
            next_ms = MAX(next_ms, (own_cpu_ns() - begun) / 1000000 * 5);
        }
        if (c->cpu_time_ms) {
            check_cpu_time(b, used);
            u64 left_ms = c->cpu_time_ms - MIN(c->cpu_time_ms, used / 1000000);
            if (l->time_fd >= 0)
                next_ms = MIN(next_ms, MAX(left_ms / l->cpus, (u64)LOOK_MIN_MS));
        }
        check_memory(b, private_bytes);
        now = monotonic_ns();
        l->next_ns = now + next_ms * 1000000;
    }
    int left = (l->next_ns - now + 999999) / 1000000;
    return wait_ms < 0 || left < wait_ms ? left : wait_ms;
}

/* Bytes of output that may still be written. */
u64 limits_output_room(const struct broker *b)
{
    const struct limits *l = &b->limits;
    return l->output_max ? l->output_max - MIN(l->output, l->output_max) : UNKNOWN;
}

/* Before anything of the guest is made. Errors are reported on the link. */
int limits_begin(struct broker *b)
{
    struct limits *l = &b->limits;
    const struct ctl_config *c = b->config;
    l->output_max = c->output_max;
    l->memory_fd = open_count(b, c->memory_group_off, "memory.current", "memory.usage_in_bytes");
    l->peak_fd = open_count(b, c->memory_group_off, "memory.peak", "memory.max_usage_in_bytes");
    l->stat_fd = open_count(b, c->memory_group_off, "memory.stat", "memory.stat");
    l->oom_fd = open_count(b, c->memory_group_off, "memory.events", "memory.oom_control");
    l->time_fd = open_count(b, c->time_group_off, "cpuacct.usage", "cpu.stat");
    if (c->cpu_time_ms || c->tmpfs_max || memory_is_ours(c))
        l->next_ns = monotonic_ns() + LOOK_MIN_MS * 1000000ul;
    int r = pin(b);
    l->cpus = cpu_count(b);
    return r;
}
