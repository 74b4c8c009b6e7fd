/* Watching running sandboxes: what their kernels tell about processes and calls, what the host knows of their memory.
 *
 * Lines that come from a guest are taken apart in process_lines.c. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int harena_trace(struct harena_sandbox *s, const u64 calls[8], struct harena_error *err)
{
    struct ctl_trace m = { .h.type = CTL_TRACE };
    memcpy(m.calls, calls, sizeof(m.calls));
    return message_send(s->link, &m, sizeof(m), NULL, 0, err);
}

/* ---- processes ---- */

u64 now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000ul + t.tv_nsec / 1000000;
}

/* All text the broker sends until it closes the connection. Returns it malloc'ed and terminated, or NULL. */
static char *read_answer(int fd, u32 timeout_ms, bool *paused, struct harena_error *err)
{
    char *text = malloc(1);
    size_t size = 0;
    u64 end = now_ms() + timeout_ms;
    for (;;) {
        u8 *message;
        u64 now = now_ms();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (now >= end || poll(&p, 1, end - now) == 0) {
            harena_error_set(err, 125, "the sandbox's kernel does not answer");
            break;
        }
        int r = message_receive(fd, &message, NULL, err);
        if (r < 0)
            break;
        if (r == 0) {
            text[size] = 0;
            return text;
        }
        struct ctl_header *h = (void *)message;
        if (h->type == CTL_FROZEN && h->size >= sizeof(struct ctl_number))
            *paused = ((struct ctl_number *)h)->number;
        if (h->type == CTL_TEXT && size < (64u << 20)) {
            u32 n = h->size - sizeof(*h);
            text = grow(text, size + n + 1);
            memcpy(text + size, message + sizeof(*h), n);
            size += n;
        }
        free(message);
    }
    free(text);
    return NULL;
}

int harena_processes(const char *name, u32 timeout_ms, struct harena_process **out, struct harena_error *err)
{
    bool paused;
    return watch_processes(name, timeout_ms, out, &paused, err);
}

#define PAUSED_MS 100 /* a paused one's kernel does not answer, its broker does */

bool harena_paused(const char *name)
{
    struct harena_process *list = NULL;
    bool paused;
    harena_processes_free(list, MAX(0, watch_processes(name, PAUSED_MS, &list, &paused, NULL)));
    return paused;
}

/* *paused is set as soon as the broker answers, whatever the sandbox's kernel does. */
int watch_processes(const char *name, u32 timeout_ms, struct harena_process **out, bool *paused, struct harena_error *err)
{
    *paused = false;
    int fd = state_connect(name, err), count = -1;
    if (fd < 0)
        return -1;
    struct ctl_number m = { .h.type = CTL_PROCS };
    char *text = message_send(fd, &m, sizeof(m), NULL, 0, err) < 0 ? NULL : read_answer(fd, timeout_ms, paused, err);
    close(fd);
    if (text)
        count = process_lines(text, out);
    free(text);
    return count;
}

/* ---- what it uses, as the host sees it ---- */

struct host_process {
    int pid, ppid;
    u64 ticks; /* of processor time, with that of children it has waited for */
    u32 threads;
    bool ours;
};

static int read_host_processes(struct host_process **out)
{
    struct host_process *list = NULL;
    int count = 0, room = 0;
    DIR *d = opendir("/proc");
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char path[300], line[1024];
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        char *after = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        if (f)
            fclose(f);
        if (!after)
            continue;
        if (count == room) {
            room = room ? room * 2 : 256;
            list = reallocarray(list, room, sizeof(*list));
            if (!list)
                abort();
        }
        struct host_process *p = &list[count];
        unsigned long long t[4];
        *p = (struct host_process){ .pid = atoi(e->d_name) };
        count += sscanf(after, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %u", &p->ppid, &t[0], &t[1],
                        &t[2], &t[3], &p->threads) == 6;
        p->ticks = t[0] + t[1] + t[2] + t[3];
    }
    if (d)
        closedir(d);
    *out = list;
    return count;
}

/* Private memory of one process, and its shared memory (the same segments in all of a sandbox). */
static void process_memory(int pid, u64 *anon, u64 *shared)
{
    char path[64], line[256];
    unsigned long long kib;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "VmPTE: %llu", &kib) == 1)
            *anon += kib << 10;
        else if (sscanf(line, "RssShmem: %llu", &kib) == 1 && kib << 10 > *shared)
            *shared = kib << 10;
    }
    if (f)
        fclose(f);
}

static void mark_ours(struct host_process *list, int count, int broker)
{
    bool more = true;
    for (int i = 0; i < count; i++)
        list[i].ours = list[i].pid == broker;
    while (more) {
        more = false;
        for (int i = 0; i < count; i++)
            for (int k = 0; k < count && !list[i].ours; k++)
                if (list[k].ours && list[k].pid == list[i].ppid)
                    list[i].ours = more = true;
    }
}

/* Adds what no cgroup has counted: the processes below the broker; those that have ended are left out there. */
void watch_usage(int broker, struct harena_usage *u)
{
    struct host_process *list;
    u64 anon = 0, shared = 0, ticks = 0;
    u32 tasks = 0;
    if (u->memory && u->cpu_ns && u->host_processes)
        return;
    int count = read_host_processes(&list);
    mark_ours(list, count, broker);
    for (int i = 0; i < count; i++) {
        if (!list[i].ours)
            continue;
        ticks += list[i].ticks;
        tasks += list[i].threads;
        if (!u->memory)
            process_memory(list[i].pid, &anon, &shared);
    }
    free(list);
    u->memory = u->memory ?: anon + shared;
    u->cpu_ns = u->cpu_ns ?: ticks * (1000000000ul / sysconf(_SC_CLK_TCK));
    u->host_processes = u->host_processes ?: tasks;
}
