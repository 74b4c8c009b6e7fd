/* factory WHAT: sandboxes whose brokers a factory keeps ready. Prints TAP-like lines.
 *
 *     many    of one after the other and of several at once; limits that are set after the first process was made
 *     killed  spares, then the factory, are killed while they wait
 *     stopped spares and the factory are stopped: closing it does not wait for them
 *     hang    keeps one until it is killed itself
 *
 * Image: the default root. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../lib/booted.h"

static struct harena_factory *factory;

static void check(bool good, const char *name) { printf("%s - %s\n", good ? "ok" : "not ok", name); }

static struct harena_sandbox *start(const struct harena_limits *l, const char *script, struct harena_error *e)
{
    struct harena_mounts m = { 0 };
    harena_mounts_default_root(&m);
    harena_mounts_system(&m);
    struct harena_config config = { .anonymous = true, .factory = factory, .libexec = getenv("HARENA_LIBEXEC"), .mounts = m.list,
                                    .mount_count = m.count };
    if (l)
        config.limits = *l;
    const char *argv[] = { "/bin/sh", "-c", script, NULL }, *env[] = { "PATH=/usr/bin:/bin", NULL };
    struct harena_command c = { .argv = argv, .env = env, .cwd = "/", .fds = { -1, -1, -1 } };
    struct harena_sandbox *s = NULL;
    if (harena_create(&config, &s, e) < 0)
        s = NULL;
    else if (harena_start(s, &c, e) < 0)
        harena_close(s), s = NULL;
    harena_mounts_free(&m);
    return s;
}

static int run(const struct harena_limits *l, const char *script)
{
    struct harena_error e = { 0 };
    int status = -1;
    struct harena_sandbox *s = start(l, script, &e);
    if (!s || harena_wait(s, &status, &e) < 0)
        printf("# %s\n", e.text);
    harena_close(s);
    return status;
}

static void *some(void *wrong)
{
    for (int i = 1; i <= 8; i++) {
        char script[32];
        snprintf(script, sizeof(script), "exit %d", i);
        if (run(NULL, script) != i << 8)
            __atomic_fetch_add((int *)wrong, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Of the sandbox's first process, as the host sees it. */
static bool host_shows(int pid, const char *file, const char *line)
{
    char path[64], text[8192];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    return strstr(text, line);
}

static void many(void)
{
    pthread_t t[4];
    int wrong = 0;
    some(&wrong);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, some, &wrong);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    check(!wrong, "each ends with its own status");
    usleep(100000); /* spares are there */
    struct harena_error e = { 0 };
    struct harena_limits l = { .files = 100, .cpuset = { 1 } };
    struct harena_sandbox *s = start(&l, "sleep 100", &e);
    int pid = s ? booted(s) : -1;
    check(pid > 0 && host_shows(pid, "status", "Cpus_allowed_list:\t0\n"), "a spare is pinned to its processors");
    check(pid > 0 && host_shows(pid, "limits", "Max processes             4112                 4112 "), "... and limited in its processes");
    harena_close(s);
    l = (struct harena_limits){ .memory = 64 << 20, .pids = 20 };
    check(run(&l, "ulimit -a >/dev/null; exit 7") == 7 << 8, "with limits of a cgroup");
    check(run(&l, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 1 & done 2>/dev/null || exit 3; wait") == 2 << 8,
          "... which hold");
}

static int parent_of(int pid)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    if (f)
        fclose(f);
    return parent;
}

/* The factory is our child, the spares are its. Returns how many were signalled. */
static int signal_spares(int sig)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int n = 0;
    while ((e = readdir(d))) {
        int pid = atoi(e->d_name), parent = pid ? parent_of(pid) : 0;
        if (parent && parent_of(parent) == getpid())
            n += kill(pid, sig) == 0;
    }
    closedir(d);
    return n;
}

static void signal_factory(int sig)
{
    char path[64], pids[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *f = fopen(path, "r");
    if (f && fgets(pids, sizeof(pids), f))
        kill(atoi(pids), sig);
    if (f)
        fclose(f);
}

static void stopped(void)
{
    run(NULL, "exit 0");
    usleep(200000);
    check(signal_spares(SIGSTOP) > 0, "there are spares");
    signal_factory(SIGSTOP);
    time_t start = time(NULL);
    harena_factory_close(factory);
    factory = NULL;
    check(time(NULL) - start < 10, "closed in time");
}

static void killed(void)
{
    struct harena_error e = { 0 };
    run(NULL, "exit 0");
    for (int i = 0; i < 2; i++) {
        usleep(200000);
        check(signal_spares(SIGKILL) > 0, "there are spares");
        usleep(50000);
        check(run(NULL, "exit 5") == 5 << 8, "those that were killed are passed over");
    }
    signal_factory(SIGKILL);
    usleep(50000);
    for (int i = 0; i < 10 && !e.text[0]; i++) /* spares are used up first */
        harena_close(start(NULL, "exit 1", &e));
    check(strstr(e.text, "factory has ended"), "without the factory: an error");
}

int main(int argc, char **argv)
{
    struct harena_error e = { 0 };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || harena_factory_open(getenv("HARENA_LIBEXEC"), &factory, &e) < 0) {
        printf("not ok - %s\n", e.text);
        return 1;
    }
    if (!strcmp(argv[1], "many"))
        many();
    else if (!strcmp(argv[1], "killed"))
        killed();
    else if (!strcmp(argv[1], "stopped"))
        stopped();
    else if (!strcmp(argv[1], "hang"))
        run(NULL, "exit 0"), printf("up\n"), pause();
    harena_factory_close(factory);
    return 0;
}
