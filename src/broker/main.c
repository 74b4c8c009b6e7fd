/* harena-broker [factory] KERNEL: one process per sandbox, started by the runtime library with the path of the guest kernel, the link at
 * descriptor LINK_FD, an empty directory at EMPTY_FD, and standard error at 2 (used for nothing but a crash of the broker itself).
 *
 * How it works: start the zygote (spawn.c), take the configuration, open everything outside (setup.c), drop all rights,
 * install our own filter, then serve: doorbells (request.c, hostfs*.c), streams and sessions (session.c), clients (control.c).
 * It ends when the main session's output is drained, when the guest kernel dies, when the link closes, or at the
 * time-out; no signal that can be ignored ends it. It exits with the status the user's command should have. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINK_FD 3
#define EMPTY_FD 4
#define GROUP_END_MS 2000
#define NOTIF_SET_FLAGS SECCOMP_IOW(4, u64)
#define NOTIF_SYNC_WAKE_UP 1ul

static struct broker broker;

/* The zygote ended and we had not killed it: say why. */
static void explain_death(struct broker *b, const siginfo_t *si)
{
    if (si->si_code == CLD_EXITED)
        link_error(b, 125, "the guest kernel exited with status %d; this is a bug in harena", si->si_status);
    else if (si->si_status == SIGKILL)
        link_error(b, 137, "the sandbox was killed from outside (out of memory?)");
    else if (si->si_status == SIGSYS)
        link_error(b, 125, "the guest made a host call its filter forbids; the sandbox was killed");
    else
        link_error(b, 125, "the guest kernel died of signal %d (%s)", si->si_status, strsignal(si->si_status));
    b->status = si->si_code != CLD_EXITED && si->si_status == SIGKILL ? 137 : 125;
    b->main_done = true;
}

static void zygote_event(struct broker *b)
{
    siginfo_t si = { 0 };
    if (waitid(P_PIDFD, b->zygote.fd, &si, WEXITED | WNOHANG) < 0 || !si.si_pid)
        return;
    b->zygote_gone = true;
    epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, b->zygote.fd, NULL);
    if (!b->ending)
        explain_death(b, &si);
}

static void time_out(struct broker *b)
{
    b->deadline_ns = 0;
    end_sandbox(b, 124, "timed out after %u.%03u s; the sandbox was killed", b->config->timeout_ms / 1000,
                    b->config->timeout_ms % 1000);
}

static void dispatch(struct broker *b, struct source *s, u32 events)
{
    switch (s->kind) {
    case SOURCE_LISTENER:
        if (events & EPOLLIN) {
            doorbell_serve(b);
        } else { /* HUP: no task has the filter any more; the pidfd tells the rest */
            epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
            guest_refresh(b);
        }
        if (!b->booted && atomic_load_relaxed(&b->guest.ready)) {
            b->booted = true;
            if (b->link)
                client_send(b->link, CTL_READY, (u32[2]){ b->zygote_pid, b->pid_namespace }, 8);
        }
        break;
    case SOURCE_ZYGOTE:
        zygote_event(b);
        break;
    case SOURCE_CONTROL:
        control_accept(b);
        break;
    case SOURCE_CLIENT:
        control_event(b, (struct client *)s);
        break;
    case SOURCE_STREAM:
        ((struct stream *)s)->armed = false;
        guest_refresh(b);
        break;
    case SOURCE_NONE:
        break;
    }
}

static void serve(struct broker *b)
{
    bool again = false;
    while (!b->main_done) {
        struct epoll_event e[8];
        int wait_ms = -1;
        if (b->deadline_ns) {
            u64 now = monotonic_ns();
            if (now >= b->deadline_ns) {
                time_out(b);
                break;
            }
            wait_ms = (b->deadline_ns - now + 999999) / 1000000;
        }
        int freeze_ms = freeze_wait_ms(b);
        if (freeze_ms >= 0 && (wait_ms < 0 || wait_ms > freeze_ms))
            wait_ms = freeze_ms;
        wait_ms = limits_check(b, wait_ms);
        if (b->main_done)
            break;
        int n = epoll_wait(b->epoll_fd, e, ARRAY_COUNT(e), again ? 0 : wait_ms);
        if (n < 0 && errno != EINTR)
            break;
        for (int i = 0; i < n; i++)
            dispatch(b, e[i].data.ptr, e[i].events);
        freeze_check(b);
        requests_go_on(b);
        mail_pump(b);
        again = rings_pump(b) || b->requests_left;
        sessions_settle(b);
        event_flush(b);
    }
}

/* Everything of the sandbox is gone when this returns. */
static void finish(struct broker *b)
{
    spawn_kill(b);
    if (!b->zygote_gone) {
        siginfo_t si;
        while (waitid(P_PIDFD, b->zygote.fd, &si, WEXITED) < 0 && errno == EINTR)
            ;
    }
    /* dead ones that nobody reaps (a container's first process may not) count as there: not for ever */
    if (!b->pid_namespace)
        for (int i = 0; i < GROUP_END_MS && kill(-b->zygote_pid, SIGKILL) == 0; i++)
            poll(NULL, 0, 1);
    /* As another uid we may not: then the runtime does it. info.json stays: it tells whoever cleans up after a killed runtime which
     * cgroups there are. */
    if (b->lock_fd >= 0)
        unlinkat(b->lock_fd, "control", 0);
}

static int open_kernel(struct broker *b, const char *path)
{
    b->kernel_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (b->kernel_fd < 0) {
        link_error(b, 125, "cannot open the guest kernel %s: %s; reinstall harena", path, strerror(errno));
        return -errno;
    }
    int r = enter_read_image(b->kernel_fd, &b->kernel);
    if (r < 0) {
        link_error(b, 125, "%s is not a guest kernel of this harena; reinstall harena", path);
        return r;
    }
    if (!b->launch.vdso && (r = enter_find_vdso(&b->launch)) < 0)
        link_error(b, 125, "cannot find the host's vDSO in /proc/self/maps: %s", strerror(-r));
    return r;
}

/* All that can be done before it is known what for: a program that makes many sandboxes keeps a few brokers that have come this
 * far (runtime/factory.c). */
static int prepare(struct broker *b, const char *kernel)
{
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    /* INT and QUIT are sent to the whole process group, by a terminal or timeout(1): the launcher passes them on. XFSZ: a guest may write
     * far, in its segments and files. */
    static const int ignored[] = { SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGXFSZ };
    for (u32 i = 0; i < ARRAY_COUNT(ignored); i++)
        signal(ignored[i], SIG_IGN);
    umask(0);
    setup_rlimits();
    spawn_choose_uid(b);
    int r = setup_segments(b);
    if (r < 0) {
        link_error(b, 125, "cannot make the sandbox's memory objects: %s%s", strerror(-r),
                   r == -EFBIG ? "; raise the limit of file sizes (ulimit -f unlimited)" : "");
        return r;
    }
    r = open_kernel(b, kernel);
    if (r >= 0)
        r = spawn_zygote(b);
    close(b->kernel_fd);
    return r;
}

/* The sandbox is known: opens everything outside that it is given. */
static int configure(struct broker *b)
{
    struct sysinfo info;
    int r = spawn_as_user(b);
    if (r < 0)
        return r;
    if (b->config->timeout_ms && !b->config->levels) /* else from when somebody attaches */
        b->deadline_ns = monotonic_ns() + b->config->timeout_ms * 1000000ul;
    b->swap = sysinfo(&info) < 0 || info.totalswap;
    hostfs_init(&b->fs);
    b->fs.userns = has_own_uid(b) ? -2 : -1;
    b->fs.own_uid = b->fs.outer_uid = b->outer_uid;
    b->fs.stranger = has_own_uid(b);
    if (b->was_root)
        b->fs.own_gid = b->outer_uid;
    r = limits_begin(b);
    if (r >= 0)
        r = spawn_limits(b);
    if (r < 0)
        return r;
    r = setup_memory(b);
    if (r < 0) {
        link_error(b, 125, "cannot load the sandbox's memory objects: %s", strerror(-r));
        return r;
    }
    return setup_boot_mail(b);
}

/* Says which layers are missing, if any. */
static int check_layers(struct broker *b)
{
    char layers[1024];
    spawn_layers(b, layers, sizeof(layers));
    if (!confine_available() && !has_own_uid(b)) /* else it has an empty root directory */
        strncat(layers, "no Landlock: a broker that was taken over could open this user's files\n", sizeof(layers) - strlen(layers) - 1);
    if (!layers[0])
        return 0;
    if (b->config->flags & CTL_CONFIG_REQUIRE_LAYERS) {
        link_error(b, 125, "a protection layer is missing and --require-layers was given: %s", layers);
        return -EPERM;
    }
    link_note(b, "%s", layers);
    return 0;
}

static int start(struct broker *b)
{
    int r = check_layers(b);
    if (r < 0)
        return r;
    r = spawn_hand_over(b);
    if (r < 0) {
        zygote_event(b);
        if (!b->main_done)
            link_error(b, 125, "the guest kernel did not start");
        return r;
    }
    r = setup_drop(b);
    if (r >= 0)
        r = confine(b);
    if (r >= 0)
        r = setup_filter(b);
    if (r < 0) {
        link_error(b, 125, "cannot drop rights: %s", strerror(-r));
        return r;
    }
    if (b->fs.userns >= 0)
        close(b->fs.userns);
    u64 flags = NOTIF_SYNC_WAKE_UP;
    ioctl(b->listener.fd, NOTIF_SET_FLAGS, flags); /* older hosts: only slower */
    control_watch(b, &b->listener, EPOLLIN);
    control_watch(b, &b->zygote, EPOLLIN);
    control_watch(b, &b->link->source, EPOLLIN);
    if (b->control.fd >= 0) {
        b->control.kind = SOURCE_CONTROL;
        control_watch(b, &b->control, EPOLLIN);
    }
    return 0;
}

/* Returns 0 when there is something to serve. */
static int begin(struct broker *b, const char *kernel)
{
    struct ctl_number go;
    if (recv(LINK_FD, &go, sizeof(go), 0) != sizeof(go) || go.h.type != CTL_PREPARE || go.number != CTL_VERSION) {
        fprintf(stderr, "harena-broker: started without a configuration; use `harena run`\n");
        return -EPROTO;
    }
    int r = prepare(b, kernel);
    if (r >= 0)
        r = control_recv_config(b); /* -EPIPE: not needed after all */
    if (r >= 0)
        r = configure(b);
    return r < 0 ? r : start(b);
}

int main(int argc, char **argv)
{
    struct broker *b = &broker;
    syscall(SYS_close_range, EMPTY_FD + 1, ~0u, 0);
    if (argc > 1 && !strcmp(argv[1], "factory")) {
        enter_find_vdso(&b->launch); /* the same in all its children; a failure is told by them */
        if (factory_serve(LINK_FD) < 0)
            return 0;
    }
    prctl(PR_SET_NAME, "harena-broker");
    b->link = &b->clients[0];
    *b->link = (struct client){ .source = { .kind = SOURCE_CLIENT, .fd = LINK_FD }, .is_link = true };
    b->empty_fd = EMPTY_FD;
    b->zygote.fd = b->boot_socket = -1;
    b->freeze.fd[0] = b->freeze.fd[1] = b->freeze.fd[2] = -1;
    b->listener.fd = b->control.fd = b->lock_fd = -1;
    b->status = 125;
    if (begin(b, argv[argc - 1]) >= 0)
        serve(b);
    if (b->zygote_pid > 0)
        finish(b);
    /* _exit: nothing of stdio is in use, and the filter allows little */
    _exit(b->status);
}
