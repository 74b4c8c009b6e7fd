/* harena fork: live copies of a running sandbox. Its state is taken once; a thread per copy makes a sandbox of it and sees it to its
 * end. With -d a child does all that, and this command returns when the child has printed the names. */
#define _GNU_SOURCE
#include "cli/options.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct copy {
    pthread_t thread;
    bool started;
    char name[64];
    struct harena_sandbox *sandbox;
    int status;
};

static void name_copy(const struct run_options *o, const char *name, u32 i, char out[64])
{
    static u16 random;
    if (!random)
        getrandom(&random, sizeof(random), 0);
    if (o->config.name && o->count == 1)
        snprintf(out, 64, "%.60s", o->config.name);
    else if (o->config.name)
        snprintf(out, 64, "%.50s-%u", o->config.name, i + 1);
    else
        snprintf(out, 64, "%.40s-%04x-%u", name, random, i + 1);
}

static int wait_status(u32 value) { return WIFSIGNALED(value) ? 128 + WTERMSIG(value) : WEXITSTATUS(value); }

static void *see_to_its_end(void *arg)
{
    struct copy *c = arg;
    struct harena_error err = { 0 };
    int value;
    if (harena_wait(c->sandbox, &value, &err) == 0)
        c->status = wait_status((u32)value);
    else
        c->status = fail(err.status ?: 125, "%s: %s", c->name, err.text);
    harena_close(c->sandbox);
    c->sandbox = NULL;
    return NULL;
}

static int open_output(const char *dir, const char *name, const char *ending)
{
    char path[PATH_MAX];
    if (!dir)
        return -1;
    snprintf(path, sizeof(path), "%s/%s.%s", dir, name, ending);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(125, "--output %s: %s", path, strerror(errno));
    return fd;
}

static int start_copy(struct run_options *o, struct copy *c, bool attached)
{
    struct harena_error err = { 0 };
    struct harena_command command = { .tty = o->config.parts->tty, .fds = { -1, -1, -1 } };
    if (attached)
        for (int i = 0; i < 3; i++)
            command.fds[i] = i;
    if (command.tty)
        session_winsize(&command);
    if (o->output) {
        command.fds[1] = open_output(o->output, c->name, "out");
        command.fds[2] = open_output(o->output, c->name, "err");
        if (command.fds[1] < 0 || command.fds[2] < 0)
            return 125;
    }
    o->config.name = c->name;
    int r = harena_create(&o->config, &c->sandbox, &err);
    if (r == 0)
        r = harena_attach(c->sandbox, &command, &err);
    if (o->output) {
        close(command.fds[1]);
        close(command.fds[2]);
    }
    return r < 0 ? fail_error(&err) : 0;
}

/* One copy on this command's streams. */
static int run_attached(struct run_options *o, struct copy *c)
{
    bool terminal = o->config.parts->tty && isatty(0);
    session_prepare(terminal);
    int status = start_copy(o, c, true);
    if (!status) {
        struct session_options so = { .tty = terminal, .program = "the copy's program", .cwd = "/" };
        fprintf(stderr, "%s%s\n", c->name, terminal ? "\r" : "");
        status = session_run(c->sandbox, &so);
    }
    session_restore();
    harena_close(c->sandbox);
    return status;
}

static int run_copies(struct run_options *o, struct copy *copies, int ready)
{
    int status = 0;
    struct harena_factory *factory = NULL; /* for several it pays */
    pthread_attr_t small;
    if (o->count > 1 && harena_factory_open(o->config.libexec, &factory, NULL) == 0)
        o->config.factory = factory;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (u32 i = 0; i < o->count && !status; i++) {
        status = start_copy(o, &copies[i], false);
        if (!status)
            printf("%s\n", copies[i].name);
    }
    if (factory)
        harena_factory_close(factory);
    if (fflush(stdout) && !status)
        status = fail(125, "cannot write: %m");
    for (u32 i = 0; i < o->count && !status; i++) {
        copies[i].started = !pthread_create(&copies[i].thread, &small, see_to_its_end, &copies[i]);
        if (!copies[i].started)
            status = fail(125, "cannot make a thread");
    }
    if (ready >= 0) {
        write(ready, &status, sizeof(status));
        close(ready);
        int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
            dup2(null, i);
    }
    for (u32 i = 0; i < o->count; i++) {
        if (status && !copies[i].started)
            harena_close(copies[i].sandbox);
        if (copies[i].started)
            pthread_join(copies[i].thread, NULL);
        if (!status)
            status = copies[i].status;
    }
    return status;
}

/* In the parent: what the child says when the copies run. In the child: -1, and *ready. */
static int detach(int *ready)
{
    int p[2], status = 125;
    if (pipe2(p, O_CLOEXEC) < 0)
        return fail(125, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        return fail(125, "cannot make a process: %s", strerror(errno));
    if (!pid) {
        close(p[0]);
        setsid();
        *ready = p[1];
        return -1;
    }
    close(p[1]);
    if (read(p[0], &status, sizeof(status)) != sizeof(status))
        status = 125; /* it has said why, or was killed */
    close(p[0]);
    return status;
}

/* What is not given is as for the original: a copy must not be a way around its limits. */
static void inherit_limits(struct harena_limits *l, const struct harena_limits *old)
{
    u64 cpus = 0;
    l->memory = l->memory ?: old->memory;
    l->files_memory = l->files_memory ?: old->files_memory;
    l->output = l->output ?: old->output;
    l->cpu_time_ms = l->cpu_time_ms ?: old->cpu_time_ms;
    l->timeout_ms = l->timeout_ms ?: old->timeout_ms;
    l->pids = l->pids ?: old->pids;
    l->cpus_milli = l->cpus_milli ?: old->cpus_milli;
    l->files = l->files ?: old->files;
    for (u32 i = 0; i < ARRAY_COUNT(l->cpuset); i++)
        cpus |= l->cpuset[i];
    if (!cpus)
        memcpy(l->cpuset, old->cpuset, sizeof(l->cpuset));
}

static int fork_sandbox(struct run_options *o, const char *name)
{
    struct harena_error err = { 0 };
    struct harena_origin origin;
    struct harena_parts *parts;
    struct stat st;
    int ready = -1;
    if (o->output && (stat(o->output, &st) < 0 || !S_ISDIR(st.st_mode)))
        return fail(125, "--output %s: not a directory", o->output);
    if (harena_origin(name, &origin, &err) < 0 || harena_snapshot(name, false, &parts, &err) < 0)
        return fail_error(&err);
    struct copy *copies = calloc(o->count, sizeof(*copies));
    if (!copies)
        abort();
    for (u32 i = 0; i < o->count; i++)
        name_copy(o, name, i, copies[i].name);
    run_options_parts(o, parts);
    inherit_limits(&o->config.limits, &origin.limits);
    o->config.snapshot = origin.snapshot;
    o->config.snapshot_id = origin.snapshot_id;
    int status = o->detach ? detach(&ready) : -1;
    if (status < 0)
        status = o->count == 1 && !o->detach && !o->output ? run_attached(o, copies) : run_copies(o, copies, ready);
    free(copies);
    harena_parts_free(parts);
    return status;
}

int cmd_fork(int argc, char **argv)
{
    struct run_options o = { 0 };
    const char *name;
    int status = run_options_around(&o, "fork", FOR_FORK, argc, argv, &name);
    if (status)
        return status;
    if (optind < argc)
        return usage("fork");
    o.count = o.count ?: 1;
    return fork_sandbox(&o, name);
}
