/* Whole sandboxes by library call: sandboxes -rate IMAGE CMD N [THREADS] | -memory IMAGE CMD N.
 *
 *     -rate    creates a sandbox, runs CMD in it, waits, ends it, N times in each thread; prints microseconds (median of one
 *              sandbox) and sandboxes a second; before that the time of a native posix_spawn of argv[4] when NATIVE is set
 *     -memory  keeps N sandboxes idle (CMD must sleep) and prints the fall of MemAvailable for each, in KB */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/runtime.h"

extern char **environ;
static const char *image, *command;
static int count;
static struct harena_factory *factory;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) { return *(double *)a < *(double *)b ? -1 : 1; }

static double median(double *t, int n)
{
    qsort(t, n, sizeof(*t), by_value);
    return t[n / 2];
}

static struct harena_sandbox *start(void)
{
    struct harena_error e;
    struct harena_mount mounts[] = {{.kind = MOUNT_IMAGE, .flags = MOUNT_READONLY, .target = "/", .source = image}};
    struct harena_config config = {.anonymous = true, .factory = factory, .libexec = getenv("HARENA_LIBEXEC"), .mounts = mounts, .mount_count = 1};
    const char *argv[] = {command, NULL}, *env[] = {"PATH=/bin", NULL};
    struct harena_command c = {.argv = argv, .env = env, .cwd = "/", .fds = {-1, -1, -1}};
    struct harena_sandbox *s;
    if (harena_create(&config, &s, &e) || harena_start(s, &c, &e))
        errx(1, "%s", e.text);
    return s;
}

static void *worker(void *times)
{
    for (int i = 0; i < count; i++) {
        double a = now();
        struct harena_error e;
        struct harena_sandbox *s = start();
        int status;
        if (harena_wait(s, &status, &e))
            errx(1, "%s", e.text);
        if (status)
            errx(1, "wait status %d", status);
        harena_close(s);
        ((double *)times)[i] = now() - a;
    }
    return NULL;
}

static void rate(int threads)
{
    double *t = calloc(threads * count, sizeof(*t)), a = now();
    pthread_t id[16];
    for (int i = 0; i < threads; i++)
        pthread_create(&id[i], NULL, worker, t + i * count);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    double all = now() - a;
    printf("%.0f us a sandbox, %.0f sandboxes/s with %d threads\n", median(t, threads * count), threads * count / all * 1e6,
           threads);
}

static void native(const char *program)
{
    double *t = calloc(count, sizeof(*t));
    for (int i = 0; i < count; i++) {
        double a = now();
        pid_t pid;
        char *argv[] = {(char *)program, NULL};
        if (posix_spawn(&pid, program, NULL, NULL, argv, environ) || waitpid(pid, NULL, 0) != pid)
            errx(1, "%s", program);
        t[i] = now() - a;
    }
    printf("%.0f us a native posix_spawn\n", median(t, count));
}

static long available(void)
{
    long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "MemAvailable: %ld", &kb);
    if (f)
        fclose(f);
    return kb;
}

static void memory(void)
{
    struct harena_sandbox **s = calloc(count, sizeof(*s));
    s[0] = start();
    sleep(1);
    long before = available();
    for (int i = 1; i < count; i++)
        s[i] = start();
    sleep(2);
    printf("%ld KB an idle sandbox\n", (before - available()) / (count - 1));
    for (int i = 0; i < count; i++)
        harena_close(s[i]);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        errx(2, "usage: sandboxes -rate|-memory IMAGE CMD N [THREADS]");
    image = argv[2], command = argv[3], count = atoi(argv[4]);
    struct harena_error e;
    if (!getenv("NO_FACTORY") && harena_factory_open(getenv("HARENA_LIBEXEC"), &factory, &e))
        errx(1, "%s", e.text);
    if (!strcmp(argv[1], "-memory"))
        memory();
    else {
        if (getenv("NATIVE"))
            native(getenv("NATIVE"));
        rate(argc > 5 ? atoi(argv[5]) : 1);
    }
    harena_factory_close(factory);
    return 0;
}
