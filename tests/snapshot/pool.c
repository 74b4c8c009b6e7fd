/* pool NAME: copies of the running sandbox NAME out of a pool of three, with a limit of one second: eight by two threads, longer after
 * the pool was opened; one after those that wait were killed; one that has to be ended by the limit. Prints what went wrong, and `ok`. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/runtime.h"

#define READY 3
#define LIMIT_MS 1000
#define STATUS 7 /* of NAME's program when its input ends */
#define HUGE_SIZE (2l << 20)

static struct harena_pool *pool;
static int null;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Takes one and runs it to its end, with this standard input. */
static int run(int in, struct harena_error *err)
{
    struct harena_sandbox *s;
    struct harena_command cmd = { .fds = { in, null, null } };
    int status = -1;
    if (harena_pool_take(pool, &s, err) < 0)
        return -1;
    int r = harena_attach(s, &cmd, err) < 0 ? -1 : harena_wait(s, &status, err);
    harena_close(s);
    return r < 0 ? -1 : WEXITSTATUS(status);
}

static void expect_end(const char *what)
{
    struct harena_error err = { 0 };
    int status = run(-1, &err);
    if (status != STATUS)
        printf("%s: status %d, %s\n", what, status, err.text);
}

static void *four(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++)
        expect_end("of eight");
    return NULL;
}

/* The brokers of those that wait are our children. */
static int kill_waiting(void)
{
    int killed = 0, parent;
    char path[64], name[64];
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "/proc/%d/stat", atoi(e->d_name));
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%*d (%63[^)]) %*c %d", name, &parent) == 2 && parent == getpid() && !strcmp(name, "harena-broker"))
            killed += kill(atoi(e->d_name), SIGKILL) == 0;
        if (f)
            fclose(f);
    }
    closedir(d);
    return killed;
}

static long huge_pages(void)
{
    char line[128];
    long kb = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "ShmemHugePages: %ld", &kb) != 1)
        ;
    fclose(f);
    return kb;
}

static bool host_collapses(void)
{
    int fd = memfd_create("try", MFD_CLOEXEC);
    char *at = mmap(NULL, 2 * HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at += -(long)at & (HUGE_SIZE - 1);
    bool can = ftruncate(fd, HUGE_SIZE) == 0 && pwrite(fd, "x", 1, 0) == 1 &&
        mmap(at, HUGE_SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == at && madvise(at, HUGE_SIZE, 25 /* MADV_COLLAPSE */) == 0;
    munmap(at, HUGE_SIZE);
    close(fd);
    return can;
}

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_parts *parts;
    if (argc < 2 || harena_snapshot(argv[1], 0, &parts, &err) < 0) {
        printf("pool: %s\n", err.text);
        return 1;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct harena_config c = { .anonymous = true, .parts = parts, .mounts = parts->mounts, .mount_count = parts->mount_count,
                               .libexec = getenv("HARENA_LIBEXEC"), .limits.timeout_ms = LIMIT_MS };
    long before = huge_pages();
    if (harena_pool_open(&c, READY, &pool, &err) < 0) {
        printf("open: %s\n", err.text);
        return 1;
    }
    if (!host_collapses())
        printf("# skip: this host makes no huge pages of files in memory\n");
    else if (huge_pages() <= before)
        printf("no huge pages: %ld, %ld KB\n", before, huge_pages());
    usleep(1500 * LIMIT_MS);
    pthread_t other;
    pthread_create(&other, NULL, four, NULL);
    four(NULL);
    pthread_join(other, NULL);
    usleep(1000000); /* full again */
    int killed = kill_waiting();
    if (killed != READY)
        printf("%d waited\n", killed);
    usleep(200000); /* they have ended */
    expect_end("after those that waited were killed");
    int hold[2];
    double t = now();
    int status = pipe2(hold, O_CLOEXEC) ? 0 : run(hold[0], &err);
    t = now() - t;
    if (status != -1 || err.status != 124 || t < 0.9 || t > 3)
        printf("the limit: status %d, %d, %s, after %.2f s\n", status, err.status, err.text, t);
    harena_pool_close(pool);
    harena_parts_free(parts);
    printf("ok\n");
    return 0;
}
