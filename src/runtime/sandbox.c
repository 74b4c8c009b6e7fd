/* Creating and driving a sandbox: spawns the broker (posix_spawn, which does not copy page tables), gives it the configuration
 * on its link, and turns its messages into events. The handle owns the link, the broker process, the state directory and
 * the cgroups; harena_close() ends and removes them in that order. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void harena_error_set(struct harena_error *err, int status, const char *f, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, f);
    vsnprintf(err->text, sizeof(err->text), f, ap);
    va_end(ap);
    err->status = status;
}

/* Names the limits that no cgroup holds, and what holds instead. False: that is an error. */
static bool limits_held(struct harena_sandbox *s, const struct harena_config *c, struct harena_error *err)
{
    char text[sizeof(s->note)] = "";
    int n = 0;
    if (c->limits.memory && !(s->held & CGROUP_MEMORY))
        n += snprintf(text + n, sizeof(text) - n, "no limit for the sum of memory: this user may not make a cgroup; each process and "
                                                  "the files in memory are held to it, and all together looked at now and then\n");
    if (c->limits.cpus_milli && !(s->held & CGROUP_CPU))
        n += snprintf(text + n, sizeof(text) - n, "no limit for parts of a processor: this user may not make a cgroup; the sandbox is "
                                                  "held to %u of the processors\n", (c->limits.cpus_milli + 999) / 1000);
    if (c->limits.cpu_time_ms && !(s->held & CGROUP_CPU_TIME))
        n += snprintf(text + n, sizeof(text) - n, "no exact count of processor time: this user may not make a cgroup; it is added up "
                                                  "four times a second, without processes that lived only in between\n");
    if (!n)
        return true;
    text[n - 1] = 0;
    if (c->require_layers)
        harena_error_set(err, 125, "a protection layer is missing and --require-layers was given: %s", text);
    else
        memcpy(s->note, text, sizeof(s->note));
    return !c->require_layers;
}

static int send_both(struct harena_sandbox *s, const struct harena_config *c, int listener, struct harena_error *err)
{
    return broker_may_begin(s->link, err) < 0 ? -1 : send_config(s, c, listener, err);
}

static int broker_of_factory(struct harena_sandbox *s, const struct harena_config *c, bool early, int listener, struct harena_error *err)
{
    struct made_broker made;
    if (factory_take(c->factory, early, &made, err) < 0)
        return -1;
    s->link = made.link;
    s->broker = made.pid;
    s->broker_pidfd = made.pidfd;
    int r = early ? send_config(s, c, listener, err) : 0;
    factory_refill(c->factory);
    return r;
}

/* The link and the process at its other end; `early`: which has been sent its configuration. */
static int make_broker(struct harena_sandbox *s, const struct harena_config *c, bool early, int listener, struct harena_error *err)
{
    int pair[2];
    if (c->factory)
        return broker_of_factory(s, c, early, listener, err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        harena_error_set(err, 125, "cannot make a socket: %s", strerror(errno));
        return -1;
    }
    s->link = pair[0];
    int r = early ? send_both(s, c, listener, err) : 0;
    if (r == 0)
        r = spawn_broker(c->libexec, s->kernel, false, s->base_fd, pair[1], &s->broker, err);
    close(pair[1]);
    return r;
}

int harena_create(const struct harena_config *c, struct harena_sandbox **out, struct harena_error *err)
{
    char kernel[PATH_MAX];
    int listener = -1;
    struct harena_sandbox *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->link = s->state_fd = s->owner_fd = s->views = s->broker_pidfd = s->init_pidfd = -1;
    s->limits = c->limits;
    snprintf(s->root, sizeof(s->root), "default");
    for (u32 i = 0; i < c->mount_count; i++)
        if (!strcmp(c->mounts[i].target, "/") && c->mounts[i].source)
            snprintf(s->root, sizeof(s->root), "%s", c->mounts[i].source);
    s->base_fd = state_base(err);
    if (s->base_fd < 0 || find_program(c->libexec, "harena-kernel", "../launch", kernel, err) < 0)
        goto fail;
    s->files = c->anonymous ? NULL : origin_files(kernel, c->mounts, c->mount_count);
    snprintf(s->origin.snapshot, sizeof(s->origin.snapshot), "%s", c->snapshot ?: "");
    snprintf(s->origin.snapshot_id, sizeof(s->origin.snapshot_id), "%s", c->snapshot_id ?: "");
    s->kernel = strdup(kernel);
    if (c->anonymous)
        snprintf(s->name, sizeof(s->name), "%s", c->name ?: "harena");
    else if (state_create(s, c->name, &listener, err) < 0)
        goto fail;
    if (c->guard && !c->anonymous)
        guard_start(s); /* before there is more than the state directory, which any other command removes */
    cgroup_create(s, &(struct cgroup_limits){ .memory = c->limits.memory, .pids = c->limits.pids ? c->limits.pids + 16 : 0,
                                              .cpus_milli = c->limits.cpus_milli, .cpu_time = c->limits.cpu_time_ms != 0 });
    char program[PATH_MAX];
    if (!c->no_patch && find_program(c->libexec, "harena-views", "../image", program, NULL) == 0)
        s->views_program = strdup(program);
    /* Without limits the configuration waits in the socket when the broker starts; with them, the broker must be in its cgroups
     * before it starts anything. */
    bool early = !s->cgroup_count && c->mount_count < 64;
    if (make_broker(s, c, early, listener, err) < 0)
        goto fail;
    cgroup_add(s, s->broker);
    if (!limits_held(s, c, err))
        goto fail;
    if (!early && send_both(s, c, listener, err) < 0)
        goto fail;
    if (c->limits.timeout_ms && !c->parts) /* else from when somebody attaches */
        s->deadline_ms = now_ms() + c->limits.timeout_ms + GRACE_MS;
    if (listener >= 0)
        close(listener);
    *out = s;
    return 0;
fail:
    if (listener >= 0)
        close(listener);
    harena_close(s);
    return -1;
}

int harena_connect(const char *name, struct harena_sandbox **out, struct harena_error *err)
{
    int fd = state_connect(name, err);
    if (fd < 0)
        return -1;
    struct harena_sandbox *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->link = fd;
    s->state_fd = s->owner_fd = s->base_fd = s->views = s->broker_pidfd = s->init_pidfd = -1;
    snprintf(s->name, sizeof(s->name), "%s", name);
    *out = s;
    return 0;
}

const char *harena_name(const struct harena_sandbox *s) { return s->name; }

int harena_start(struct harena_sandbox *s, const struct harena_command *c, struct harena_error *err)
{
    struct block b = { 0 };
    struct ctl_run head = { .h.type = CTL_RUN, .flags = (c->tty ? CTL_RUN_TTY : 0) | (s->broker ? CTL_RUN_MAIN : 0),
                            .rows = c->rows, .cols = c->cols, .xpixel = c->xpixel,
                            .ypixel = c->ypixel };
    block_add(&b, &head, sizeof(head));
    u32 cwd = block_string(&b, c->cwd ?: "/"), user = block_string(&b, c->user ?: "0"), strings = b.size, argc = 0, envc = 0;
    for (; c->argv[argc]; argc++)
        block_string(&b, c->argv[argc]);
    for (; c->env && c->env[envc]; envc++)
        block_string(&b, c->env[envc]);
    struct ctl_run *run = (void *)b.data;
    run->cwd_off = cwd;
    run->user_off = user;
    run->strings_off = strings;
    run->argc = argc;
    run->envc = envc;
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = stdio_fresh(c->fds[i], i > 0);
    int r = message_send(s->link, b.data, b.size, fds, 3, err);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(b.data);
    if (r == 0 && s->broker && s->state_fd >= 0) {
        state_write_info(s, c->argv);
        state_sweep(s->base_fd); /* while the guest boots */
    }
    return r;
}

/* ---- events ---- */

static void decode(struct harena_sandbox *s, struct harena_event *e)
{
    struct ctl_header *h = (void *)s->message;
    u32 payload = h->size - sizeof(*h);
    struct ctl_number *n = (void *)h;
    e->value = payload >= 4 ? n->number : 0;
    e->text = (char *)s->message + sizeof(*h);
    e->text_size = payload;
    switch (h->type) {
    case CTL_READY:
        s->init = e->value;
        s->group = payload >= 8 && n->pad ? 0 : s->init;
        s->init_pidfd = s->broker > 0 ? syscall(SYS_pidfd_open, s->init, 0) : -1;
        e->type = HARENA_EVENT_READY;
        break;
    case CTL_STARTED:
        e->type = HARENA_EVENT_STARTED;
        break;
    case CTL_EXITED:
        s->deadline_ms = 0;
        e->type = HARENA_EVENT_EXITED;
        break;
    case CTL_TEXT:
        e->type = HARENA_EVENT_TEXT;
        break;
    case CTL_NOTE:
        e->type = HARENA_EVENT_NOTE;
        break;
    case CTL_ERROR:
        s->deadline_ms = 0;
        e->type = HARENA_EVENT_ERROR;
        if (payload < 8)
            break;
        e->text += 8;
        e->text_size -= 8;
        free(s->report);
        s->report = strstr(e->text, "guest kernel panic: ") ? symbols_add(s->kernel, e->text) : NULL;
        if (s->report) {
            e->text = s->report;
            e->text_size = strlen(s->report);
        }
        break;
    }
}

/* Ends the sandbox without the broker's help: it may get no time among thousands of processes, or wait for a disk. */
static void end_by_force(struct harena_sandbox *s)
{
    cgroup_kill(s->cgroups, s->cgroup_count);
    if (s->init_pidfd >= 0)
        syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0);
    if (s->broker_pidfd >= 0)
        syscall(SYS_pidfd_send_signal, s->broker_pidfd, SIGKILL, NULL, 0);
    else if (s->broker > 0)
        kill(s->broker, SIGKILL); /* our child, not waited for yet */
}

static void time_out(struct harena_sandbox *s, struct harena_event *e)
{
    char text[96];
    end_by_force(s);
    s->closed = true;
    snprintf(text, sizeof(text), "timed out after %u.%03u s; the sandbox was killed", s->limits.timeout_ms / 1000, s->limits.timeout_ms % 1000);
    s->message = (u8 *)strdup(text);
    *e = (struct harena_event){ .type = HARENA_EVENT_ERROR, .value = 124, .text = (char *)s->message, .text_size = strlen(text) };
}

/* Until the broker sends something: 1; a signal came: -1; it is late: 0. */
static int await_broker(struct harena_sandbox *s, const sigset_t *mask)
{
    u64 now = s->deadline_ms ? now_ms() : 0, left = s->deadline_ms > now ? s->deadline_ms - now : 0;
    struct timespec t = { left / 1000, left % 1000 * 1000000 };
    if (!mask && !s->deadline_ms)
        return 1;
    return ppoll(&(struct pollfd){ .fd = s->link, .events = POLLIN }, 1, s->deadline_ms ? &t : NULL, mask);
}

int harena_next(struct harena_sandbox *s, const sigset_t *mask, struct harena_event *e, struct harena_error *err)
{
    free(s->message);
    s->message = NULL;
    *e = (struct harena_event){ .type = HARENA_EVENT_NONE, .text = "" };
    if (s->note[0]) {
        s->message = (u8 *)strdup(s->note);
        s->note[0] = 0;
        e->type = HARENA_EVENT_NOTE;
        e->text = (char *)s->message;
        e->text_size = strlen(e->text);
        return 0;
    }
    if (s->closed) {
        e->type = HARENA_EVENT_CLOSED;
        return 0;
    }
    for (;;) {
        int ready = await_broker(s, mask);
        if (ready < 0 && errno == EINTR)
            return 0;
        if (ready < 0) {
            harena_error_set(err, 125, "cannot wait for the sandbox: %s", strerror(errno));
            return -1;
        }
        if (!ready) {
            time_out(s, e);
            return 0;
        }
        int passed, r = message_receive(s->link, &s->message, &passed, err);
        u32 type = r > 0 ? ((struct ctl_header *)s->message)->type : 0;
        bool view = type == CTL_VIEW || type == CTL_VIEW_OWN;
        if (view && passed >= 0)
            views_build(s, type == CTL_VIEW_OWN, passed);
        if (passed >= 0)
            close(passed);
        if (r < 0)
            return -1;
        if (r == 0) {
            s->closed = true;
            e->type = HARENA_EVENT_CLOSED;
            return 0;
        }
        if (!view)
            break;
        free(s->message);
        s->message = NULL;
    }
    decode(s, e);
    return 0;
}

/* The broker was killed: waits until the host has ended what it held. The first process is the last of a pid namespace to go. */
#define ORPHANS_MS 3000

static void end_orphans(struct harena_sandbox *s)
{
    struct pollfd p = { .fd = s->init_pidfd, .events = POLLIN };
    cgroup_kill(s->cgroups, s->cgroup_count);
    if (s->init_pidfd < 0)
        return;
    syscall(SYS_pidfd_send_signal, s->init_pidfd, SIGKILL, NULL, 0); /* it is to be killed by the host; to be sure */
    while (poll(&p, 1, ORPHANS_MS) < 0 && errno == EINTR)
        ;
}

/* Returns whether the broker had to be killed. */
static bool end_broker(struct harena_sandbox *s)
{
    struct pollfd p = { .fd = s->broker_pidfd >= 0 ? s->broker_pidfd : (int)syscall(SYS_pidfd_open, s->broker, 0), .events = POLLIN };
    bool late = p.fd >= 0 && poll(&p, 1, GRACE_MS) == 0;
    if (late)
        end_by_force(s);
    if (p.fd >= 0 && p.fd != s->broker_pidfd)
        close(p.fd);
    return late;
}

/* Reaps the broker. Was it killed, and is there no pid namespace, then its processes are still there. */
static void reap(struct harena_sandbox *s)
{
    int status = 0;
    bool killed;
    if (s->broker <= 0 || s->exited)
        return;
    bool forced = end_broker(s);
    if (s->broker_pidfd >= 0) { /* the factory's child: its host reaps it */
        struct pollfd p = { .fd = s->broker_pidfd, .events = POLLIN };
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
            ;
        close(s->broker_pidfd);
        s->broker_pidfd = -1;
        killed = s->closed || forced; /* it closed the link, not we */
    } else {
        while (waitpid(s->broker, &status, 0) < 0 && errno == EINTR)
            ;
        killed = WIFSIGNALED(status);
    }
    s->exited = true;
    if (killed && s->group > 1)
        kill(-s->group, SIGKILL);
    if (killed)
        end_orphans(s);
}

int harena_wait(struct harena_sandbox *s, int *wait_status, struct harena_error *err)
{
    struct harena_event e;
    bool failed = false;
    for (;;) {
        if (harena_next(s, NULL, &e, err) < 0)
            return -1;
        if (e.type == HARENA_EVENT_ERROR) {
            harena_error_set(err, e.value, "%s", e.text);
            failed = true;
        } else if (e.type == HARENA_EVENT_EXITED && !failed) {
            *wait_status = e.value;
            return 0;
        } else if (e.type == HARENA_EVENT_CLOSED) {
            reap(s);
            struct harena_usage u;
            harena_usage(s, &u);
            if (u.oom_kills)
                harena_error_set(err, 137, "out of memory: the sandbox reached its limit and was killed; raise --memory");
            else if (!failed)
                harena_error_set(err, 125, s->broker ? "the broker ended unexpectedly" : "the sandbox has ended");
            return -1;
        }
    }
}

void harena_usage(const struct harena_sandbox *s, struct harena_usage *u)
{
    memset(u, 0, sizeof(*u));
    for (u32 i = 0; i < s->cgroup_count; i++)
        cgroup_usage(s->cgroups[i], u);
}

int harena_request(struct harena_sandbox *s, u32 ctl_type, u32 number, struct harena_error *err)
{
    struct ctl_number m = { .h.type = ctl_type, .number = number };
    return message_send(s->link, &m, sizeof(m), NULL, 0, err);
}

int harena_signal(struct harena_sandbox *s, int signal, struct harena_error *err)
{
    return harena_request(s, CTL_SIGNAL, signal, err);
}

int harena_winsize(struct harena_sandbox *s, u16 rows, u16 cols, u16 xpixel, u16 ypixel, struct harena_error *err)
{
    struct ctl_winsize m = { .h.type = CTL_WINSIZE, .rows = rows, .cols = cols, .xpixel = xpixel, .ypixel = ypixel };
    return message_send(s->link, &m, sizeof(m), NULL, 0, err);
}

int harena_kill(const char *name, int signal, struct harena_error *err)
{
    int fd = state_connect(name, err);
    if (fd < 0)
        return errno == EAGAIN && !signal ? state_end(name, -1) : -1;
    struct ctl_number m = { .h.type = CTL_KILL, .number = signal };
    int r = message_send(fd, &m, sizeof(m), NULL, 0, err);
    u8 *answer = NULL;
    if (!r && !signal)
        state_end(name, fd);
    if (!r && message_receive(fd, &answer, NULL, err) > 0) /* the connection closes when everything is done */
        r = message_error(answer, err);
    free(answer);
    close(fd);
    return r;
}

/* ---- the end ---- */

void harena_close(struct harena_sandbox *s)
{
    if (!s)
        return;
    if (s->link >= 0)
        close(s->link); /* the broker ends the sandbox if it still runs */
    reap(s);
    guard_end(s);
    cgroup_remove(s->cgroups, s->cgroup_count);
    for (u32 i = 0; i < s->cgroup_count; i++)
        free(s->cgroups[i]);
    if (s->state_fd >= 0) {
        state_remove(s->base_fd, s->state_fd, s->name);
        close(s->state_fd);
    }
    if (s->owner_fd >= 0)
        close(s->owner_fd);
    if (s->base_fd >= 0)
        close(s->base_fd);
    if (s->init_pidfd >= 0)
        close(s->init_pidfd);
    views_close(s);
    free(s->files);
    free(s->kernel);
    free(s->report);
    free(s->message);
    free(s);
}

void harena_cleanup(struct harena_sandbox **s)
{
    harena_close(*s);
    *s = NULL;
}
