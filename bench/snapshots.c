/* Snapshots, clones and live copies, by library call:
 *
 *     snapshots -clone N CMD...    CMD prints a line when it is ready and, when its input ends, another one and exits. Times from a call to
 *                                  the first instruction and to the second line of a clone, beside a cold start to the first line
 *     snapshots -rate N THREADS CMD...   whole clones a second: each prints its line and ends
 *     snapshots -many N THREADS CMD...   N clones alive at once: time to make them, memory of each
 *     snapshots -live N CMD...     N copies of a running sandbox: until its state is taken, until all of them run
 *     snapshots -gap N CMD...      the longest time in which a sandbox that is copied does not run, as its program sees it, in N rounds, in turn
 *                                  with such without a copy: CMD looks at the clock all the time from one line to the next and prints it
 *     snapshots -pause N CMD...    pause and resume
 *     snapshots -file N CMD...     snapshots to files in the current directory: the first, and N further ones; CMD changes a megabyte
 *                                  at each line it is given and prints one. Without fsync, and with
 *
 * CMD runs on the default root. HARENA_LIBEXEC as for the library. Times in ms, medians. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/runtime.h"
#include "store/kernel.h"
#include "store/store.h"

static struct harena_factory *factory;
static struct harena_parts *parts;
static char name[64];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) { return *(double *)a < *(double *)b ? -1 : 1; }

static double median(double *t, int n)
{
    qsort(t, n, sizeof(*t), by_value);
    return t[n / 2];
}

#define CALL(x)                                                                                                        \
    do {                                                                                                               \
        if ((x) < 0)                                                                                                   \
            errx(1, "%s", e.text);                                                                                     \
    } while (0)

/* A sandbox that runs argv; standard input and output are pipes whose other ends are in ends[]. */
static struct harena_sandbox *start(char **argv, const char *as, int ends[2])
{
    struct harena_error e = { 0 };
    struct harena_mounts m = { 0 };
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        err(1, "pipe");
    harena_mounts_default_root(&m);
    harena_mounts_system(&m);
    struct harena_config c = { .name = as, .anonymous = !as, .factory = factory, .libexec = getenv("HARENA_LIBEXEC"), .mounts = m.list,
                               .mount_count = m.count };
    const char *env[] = { "PATH=/usr/bin:/bin", "HOME=/", NULL };
    struct harena_command cmd = { .argv = (const char **)argv, .env = env, .cwd = "/", .fds = { in[0], out[1], 2 } };
    struct harena_sandbox *s;
    CALL(harena_create(&c, &s, &e));
    CALL(harena_start(s, &cmd, &e));
    close(in[0]);
    close(out[1]);
    ends[0] = in[1];
    ends[1] = out[0];
    harena_mounts_free(&m);
    return s;
}

static void read_line(int fd)
{
    char c;
    do
        if (read(fd, &c, 1) != 1)
            errx(1, "the program ended before its line");
    while (c != '\n');
}

static struct harena_config config(void)
{
    return (struct harena_config){ .parts = parts, .anonymous = true, .factory = factory, .libexec = getenv("HARENA_LIBEXEC"),
                                   .mounts = parts->mounts, .mount_count = parts->mount_count };
}

static struct harena_sandbox *create(void)
{
    struct harena_error e = { 0 };
    struct harena_config c = config();
    struct harena_sandbox *s;
    CALL(harena_create(&c, &s, &e));
    return s;
}

static struct harena_sandbox *attach(struct harena_sandbox *s, int in, int out)
{
    struct harena_error e = { 0 };
    struct harena_command cmd = { .fds = { in, out, 2 } };
    CALL(harena_attach(s, &cmd, &e));
    return s;
}

static struct harena_sandbox *clone_parts(int in, int out) { return attach(create(), in, out); }

static void until(struct harena_sandbox *s, enum harena_event_type type)
{
    struct harena_error e = { 0 };
    struct harena_event ev;
    do {
        CALL(harena_next(s, NULL, &ev, &e));
        if (ev.type == HARENA_EVENT_ERROR || ev.type == HARENA_EVENT_CLOSED)
            errx(1, "%.*s", (int)ev.text_size, ev.text);
    } while (ev.type != type);
}

static void snapshot(void)
{
    struct harena_error e = { 0 };
    CALL(harena_snapshot(name, false, &parts, &e));
}

/* ---- the modes ---- */

static struct harena_pool *pool_open(u32 size)
{
    struct harena_error e = { 0 };
    struct harena_config c = config();
    struct harena_pool *p;
    CALL(harena_pool_open(&c, size, &p, &e));
    return p;
}

static struct harena_sandbox *take(struct harena_pool *p)
{
    struct harena_error e = { 0 };
    struct harena_sandbox *s;
    CALL(harena_pool_take(p, &s, &e));
    return s;
}

/* From a call to the first instruction and to the line; p: of a pool. */
static void time_clone(struct harena_pool *p, double *first, double *line)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC))
        err(1, "pipe");
    usleep(20000);
    double t = now();
    struct harena_sandbox *s = attach(p ? take(p) : create(), -1, out[1]);
    until(s, HARENA_EVENT_STARTED);
    *first = now() - t;
    read_line(out[0]);
    *line = now() - t;
    close(out[0]);
    close(out[1]);
    harena_close(s);
}

static void clones(int n, char **argv)
{
    double *cold = calloc(n, sizeof(*cold)), *first = calloc(2 * n, sizeof(*first)), *line = calloc(2 * n, sizeof(*line));
    for (int i = 0; i < n; i++) {
        int ends[2];
        double t = now();
        struct harena_sandbox *s = start(argv, NULL, ends);
        read_line(ends[1]);
        cold[i] = now() - t;
        harena_close(s);
        close(ends[0]);
        close(ends[1]);
    }
    for (int i = 0; i < n; i++)
        time_clone(NULL, &first[i], &line[i]);
    struct harena_pool *p = pool_open(4);
    for (int i = 0; i < n; i++)
        time_clone(p, &first[n + i], &line[n + i]);
    harena_pool_close(p);
    printf("clone: first instruction %.2f ms, first line %.2f ms; of a pool: %.2f, %.2f ms; cold start to first line %.1f ms\n",
           median(first, n), median(line, n), median(first + n, n), median(line + n, n), median(cold, n));
}

static int rate_count;

static void *rate_worker(void *arg)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)arg;
    for (int i = 0; i < rate_count; i++) {
        struct harena_error e = { 0 };
        int status;
        struct harena_sandbox *s = clone_parts(-1, null);
        CALL(harena_wait(s, &status, &e));
        if (status)
            errx(1, "wait status %d", status);
        harena_close(s);
    }
    close(null);
    return NULL;
}

static void rate(int n, int threads)
{
    pthread_t id[64];
    double t = now();
    rate_count = n;
    for (int i = 0; i < threads; i++)
        pthread_create(&id[i], NULL, rate_worker, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    printf("clones: %.0f a second with %d threads\n", n * threads / (now() - t) * 1e3, threads);
}

static long available(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
            break;
    fclose(f);
    return kb;
}

/* The clones wait for input that does not come. */
struct maker {
    pthread_t id;
    struct harena_sandbox **s;
    int count, in;
};

static void *make_some(void *arg)
{
    struct maker *m = arg;
    for (int i = 0; i < m->count; i++)
        m->s[i] = clone_parts(m->in, 2);
    for (int i = 0; i < m->count; i++)
        until(m->s[i], HARENA_EVENT_STARTED);
    return NULL;
}

static void many(int n, int threads)
{
    struct harena_sandbox **s = calloc(n, sizeof(*s));
    struct maker m[64];
    int hold[2];
    if (pipe2(hold, O_CLOEXEC))
        err(1, "pipe");
    long before = available();
    double t = now();
    for (int i = 0; i < threads; i++) {
        int first = n * i / threads;
        m[i] = (struct maker){ .s = s + first, .count = n * (i + 1) / threads - first, .in = hold[0] };
        pthread_create(&m[i].id, NULL, make_some, &m[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(m[i].id, NULL);
    t = now() - t;
    printf("%d clones alive: made in %.0f ms, %ld KB each\n", n, t, (before - available()) / n);
    for (int i = 0; i < n; i++)
        harena_close(s[i]);
}

/* The copies wait for input that does not come: what a program does when its input has ended, such as python's end, is not ours. */
static void live(int copies)
{
    int hold[2];
    if (pipe2(hold, O_CLOEXEC))
        err(1, "pipe");
    double t = now();
    snapshot();
    double taken = now() - t;
    struct harena_sandbox *s[64];
    for (int i = 0; i < copies; i++)
        s[i] = clone_parts(hold[0], open("/dev/null", O_WRONLY | O_CLOEXEC));
    for (int i = 0; i < copies; i++)
        until(s[i], HARENA_EVENT_STARTED);
    printf("live copy: state taken in %.1f ms, %d copies run after %.1f ms\n", taken, copies, now() - t);
    for (int i = 0; i < copies; i++)
        harena_close(s[i]);
}

static double watched(const int ends[2], bool copied)
{
    char text[64] = "";
    if (write(ends[0], "\n", 1) != 1)
        err(1, "write");
    usleep(50000);
    if (copied) {
        snapshot();
        harena_parts_free(parts);
    } else {
        usleep(100000);
    }
    if (write(ends[0], "\n", 1) != 1 || read(ends[1], text, sizeof(text) - 1) < 1)
        errx(1, "the program ended before its line");
    return atof(text);
}

static void gaps(int n, const int ends[2])
{
    double *with = calloc(n, sizeof(*with)), *without = calloc(n, sizeof(*without));
    for (int i = 0; i < n; i++) {
        without[i] = watched(ends, false);
        with[i] = watched(ends, true);
    }
    printf("longest gap seen by a program that is copied: %.1f ms", median(with, n));
    printf(" (%.1f to %.1f); without a copy %.1f ms\n", with[0], with[n - 1], median(without, n));
}

static void pauses(int n)
{
    double *p = calloc(n, sizeof(*p));
    struct harena_error e = { 0 };
    for (int i = 0; i < n; i++) {
        double t = now();
        CALL(harena_pause(name, &e));
        CALL(harena_resume(name, &e));
        p[i] = now() - t;
        usleep(2000);
    }
    printf("pause and resume: %.2f ms\n", median(p, n));
}

/* Returns what it took, in parts: the state taken, written, made the base of the next. */
static void save_file(struct store *store, struct kernel_image *kernel, bool sync, struct store_info *info, double t[3])
{
    struct harena_error e = { 0 };
    struct harena_origin origin;
    struct harena_base base = { 0 };
    char where[64];
    static int count;
    double start = now();
    snprintf(where, sizeof(where), "s%d", count++);
    CALL(harena_origin(name, &origin, &e));
    CALL(harena_snapshot(name, HARENA_SNAPSHOT_BASE, &parts, &e));
    t[0] = now() - start;
    struct store_save o = { .where = where, .sandbox = name, .parts = parts, .kernel = kernel, .parent = origin.snapshot,
                            .parent_id = origin.snapshot_id, .base = &base, .no_sync = !sync };
    CALL(store_save(store, &o, info, &e));
    t[1] = now() - start - t[0];
    base.snapshot = info->name;
    base.snapshot_id = info->id;
    CALL(harena_rebase(name, &base, &e));
    t[2] = now() - start - t[0] - t[1];
    store_base_close(&base);
    harena_parts_free(parts);
}

static void files(int n, const int ends[2], bool sync)
{
    struct harena_error e = { 0 };
    struct store *store;
    struct kernel_image *kernel;
    struct store_info info;
    double first[3], *t[4];
    u64 disk = 0;
    char path[4096];
    for (int i = 0; i < 4; i++)
        t[i] = calloc(n, sizeof(double));
    CALL(harena_kernel_path(getenv("HARENA_LIBEXEC"), path, sizeof(path), &e));
    CALL(kernel_open(path, &kernel, &e));
    snprintf(path, sizeof(path), "./bench-store-%d-%d", getpid(), sync);
    CALL(store_open_at(path, &store, &e));
    save_file(store, kernel, sync, &info, first);
    for (int i = 0; i < n; i++) {
        double part[3];
        if (write(ends[0], "\n", 1) != 1)
            err(1, "write");
        read_line(ends[1]);
        usleep(200000); /* what the first run of a program costs (copies of pages) is not ours */
        save_file(store, kernel, sync, &info, part);
        for (int k = 0; k < 3; k++)
            t[k][i] = part[k];
        t[3][i] = part[0] + part[1] + part[2];
        disk = info.own > disk ? info.own : disk;
    }
    double all_parts = median(t[3], n), best = t[3][0];
    printf("%s: the first %.1f ms (taken %.1f, written %.1f), a further one after 1 MB of change %.1f ms (taken %.1f, written %.1f, base %.1f; "
           "at best %.1f), %.2f MB at most\n", sync ? "with fsync" : "to a file", first[0] + first[1] + first[2], first[0], first[1],
           all_parts, median(t[0], n), median(t[1], n), median(t[2], n), best, disk / 1e6);
    struct store_info *all;
    for (int i = store_list(store, &all, &e); i-- > 0;)
        store_remove(store, all[i].name, NULL);
    store_close(store);
    kernel_close(kernel);
    unlink(strcat(path, "/.key"));
    path[strlen(path) - 5] = 0;
    rmdir(path);
}

int main(int argc, char **argv)
{
    struct harena_error e = { 0 };
    int ends[2], used = 2;
    if (argc < 3)
        errx(2, "see bench/snapshots.c");
    const char *mode = argv[1];
    int n = atoi(argv[used++]), threads = !strcmp(mode, "-rate") || !strcmp(mode, "-many") ? atoi(argv[used++]) : 1;
    CALL(harena_factory_open(getenv("HARENA_LIBEXEC"), &factory, &e));
    snprintf(name, sizeof(name), "bench-%d", getpid());
    struct harena_sandbox *s = start(argv + used, name, ends);
    read_line(ends[1]);
    if (strcmp(mode, "-live") && strcmp(mode, "-gap") && strcmp(mode, "-pause") && strcmp(mode, "-file"))
        snapshot();
    if (parts)
        harena_parts_settle(parts);
    if (!strcmp(mode, "-clone"))
        clones(n, argv + used);
    else if (!strcmp(mode, "-rate"))
        rate(n, threads);
    else if (!strcmp(mode, "-many"))
        many(n, threads);
    else if (!strcmp(mode, "-live"))
        live(n);
    else if (!strcmp(mode, "-gap"))
        gaps(n, ends);
    else if (!strcmp(mode, "-pause"))
        pauses(n);
    else if (!strcmp(mode, "-file")) {
        files(n, ends, true); /* first: it would wait for what the other has left in the host's memory */
        harena_close(s);
        s = start(argv + used, name, ends);
        read_line(ends[1]);
        files(n, ends, false);
    }
    harena_close(s);
    harena_factory_close(factory);
    return 0;
}
