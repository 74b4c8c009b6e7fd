/* Starting and ending the zygote: the first process of the sandbox.
 *
 * The child is a fork of this process, made before anything is dropped. It takes its place (with user namespaces: inner uid
 * 1000 mapped to the sandbox's outer uid, first of a pid namespace, root directory an empty one), reports on the boot
 * socket, and becomes the guest kernel (enter.c), whose launcher unmaps all memory that came from here. A fork, not an exec: that
 * costs half a millisecond less. Under its filter, before it has looked at anything, it rings the doorbell, and waits there until
 * its sandbox is known and it gets the descriptors of that (spawn_hand_over): so it can be started beforehand.
 *
 * Started by root, the broker first takes the outer uid with its effective ids only, so that the child can map it; where
 * user namespaces are forbidden it goes back and the child changes its uid itself. The broker's own final drop is
 * setup_drop(). */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INNER_UID "1000"
#define HIGH_FD 100

struct child {
    struct broker *b;
    bool userns;
    bool become; /* change to outer_uid here: started by root without user namespaces */
    bool root;   /* may chroot */
    int boot_socket;
    gid_t outer_gid; /* ids look unmapped from inside the new namespace */
};

/* The child's report on its boot socket. */
struct report {
    char tag[4]; /* "GOES" or "FAIL" */
    int error;
    char step[24];
};

static bool put_file(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = write(fd, text, strlen(text));
    int error = n < 0 ? errno : EIO;
    close(fd);
    errno = error;
    return n == (ssize_t)strlen(text);
}

static void report(const struct child *c, const char tag[5], const char *step, int error)
{
    struct report r = { .error = error ? error : EINVAL };
    memcpy(r.tag, tag, 4);
    snprintf(r.step, sizeof(r.step), "%s", step);
    send(c->boot_socket, &r, sizeof(r), MSG_NOSIGNAL);
}

#define TRY(what, call)                                                                                                \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            report(c, "FAIL", what, errno);                                                                             \
            _exit(127);                                                                                                \
        }                                                                                                              \
    } while (0)

/* The descriptors that are known yet, in place; everything above them is closed by the launcher. */
static int place_descriptors(const struct child *c)
{
    int from[] = { c->b->k_fd, c->b->d_fd, c->b->r_fd, c->boot_socket };
    static const int to[] = { FD_K, FD_D, FD_R, FD_GRANT0 };
    for (u32 i = 0; i < ARRAY_COUNT(from); i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, HIGH_FD)) < 0)
            return -1;
    syscall(SYS_close_range, 0, FD_GRANT0, 0);
    for (u32 i = 0; i < ARRAY_COUNT(from); i++)
        if (dup2(from[i], to[i]) < 0)
            return -1;
    return 0;
}

#define SLACK_PIDS 16 /* init, spare stubs, a stub that is just leaving */
#define SLACK_DATA (16ul << 20) /* kernel stacks */

static int set_limit(const struct broker *b, int what, u64 value)
{
    struct rlimit l = { value, value };
    return prlimit(b->zygote_pid, what, &l, NULL) < 0 ? -errno : 0;
}

/* What holds when the guest's kernel lies; it has not begun yet. The count of processes is the sandbox's own: with a user namespace it
 * is kept for that, otherwise it goes by a uid nobody else has. Memory without a cgroup: of each process; limits.c sees the rest. */
int spawn_limits(struct broker *b)
{
    const struct ctl_config *cfg = b->config;
    int r = 0;
    if (b->user_namespace || has_own_uid(b))
        r = set_limit(b, RLIMIT_NPROC, (cfg->pids_max ? cfg->pids_max : DEFAULT_PIDS) + SLACK_PIDS);
    if (!r && cfg->memory_max && !(cfg->flags & CTL_CONFIG_CGROUP))
        r = set_limit(b, RLIMIT_DATA, cfg->memory_max + SLACK_DATA);
    if (!r && cfg->cpu_time_ms && b->limits.time_fd < 0) /* where nobody counts for all: each process at least */
        r = set_limit(b, RLIMIT_CPU, cfg->cpu_time_ms / 1000 + 2);
    if (r < 0)
        link_error(b, 125, "cannot set the limits of the sandbox: %s", strerror(-r));
    return r;
}

static int write_id_maps(const struct child *c)
{
    char map[64];
    int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0)
        return -1;
    snprintf(map, sizeof(map), INNER_UID " %u 1\n", c->b->outer_uid);
    bool ok = put_file(self, "uid_map", map);
    snprintf(map, sizeof(map), INNER_UID " %u 1\n", c->outer_gid);
    ok = ok && put_file(self, "setgroups", "deny") && put_file(self, "gid_map", map);
    close(self);
    return ok ? 0 : -1;
}

/* Without a pid namespace: the guest's one signal, SIGURG, reaches processes of this sandbox only. Returns whether the host can do that
 * (Linux 6.12); where it cannot, we send it (request.c). */
#define SCOPE_SIGNAL 2u /* LANDLOCK_SCOPE_SIGNAL */

static bool scope_signals(void)
{
    const u64 rules[3] = { 0, 0, SCOPE_SIGNAL }; /* struct landlock_ruleset_attr */
    int fd = syscall(SYS_landlock_create_ruleset, rules, sizeof(rules), 0);
    bool ok = fd >= 0 && syscall(SYS_landlock_restrict_self, fd, 0) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static void __attribute__((noreturn)) child_main(const struct child *c)
{
    struct broker *b = c->b;
    if (c->userns)
        TRY("id maps", write_id_maps(c));
    put_file(AT_FDCWD, "/proc/self/oom_score_adj", "1000\n");
    TRY("setsid", setsid());
    if (c->userns || c->root) {
        TRY("empty root", fchdir(b->empty_fd));
        TRY("chroot", chroot("."));
    }
    if (c->become) {
        TRY("groups", syscall(SYS_setgroups, 0, NULL));
        TRY("gid", syscall(SYS_setresgid, b->outer_uid, b->outer_uid, b->outer_uid));
        TRY("uid", syscall(SYS_setresuid, b->outer_uid, b->outer_uid, b->outer_uid));
    } else if (c->userns) {
        TRY("gid", syscall(SYS_setresgid, 1000, 1000, 1000));
        TRY("uid", syscall(SYS_setresuid, 1000, 1000, 1000));
    }
    /* no exec drops them: a new user namespace gives all of them, and they would outlive the change of uid */
    struct __user_cap_header_struct caps = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct no_caps[2] = { 0 };
    TRY("capabilities", syscall(SYS_capset, &caps, no_caps));
    struct rlimit none = { 0, 0 }, files = { FD_LIMIT, FD_LIMIT };
    TRY("PDEATHSIG", prctl(PR_SET_PDEATHSIG, SIGKILL));
    TRY("NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    b->launch.ask_kicks = getpid() != 1 && !scope_signals();
    TRY("limits", setrlimit(RLIMIT_CORE, &none));
    TRY("limits", setrlimit(RLIMIT_MEMLOCK, &none));
    prctl(PR_SET_NAME, "harena-kernel");
    report(c, "GOES", "", 0);
    TRY("mapping the guest kernel", enter_map_image(b->kernel_fd, &b->kernel));
    TRY("descriptors", place_descriptors(c));
    TRY("limits", setrlimit(RLIMIT_NOFILE, &files));
    enter_kernel(&b->kernel, &b->launch);
}

/* Until the zygote has something to say at fd, or is dead. Returns whether it has. */
static bool await_zygote(int fd, int pidfd)
{
    struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    return p[0].revents & POLLIN;
}

/* Returns the child's pid once it has taken its place, or -errno and in `step` what failed. */
static pid_t start_child(const struct child *c, int flags, int *pidfd, char step[24])
{
    pid_t pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD | flags, 0, pidfd, 0, 0);
    if (pid < 0) {
        strcpy(step, "clone");
        return -errno;
    }
    if (pid == 0)
        child_main(c);
    struct report r;
    await_zygote(c->b->boot_socket, *pidfd); /* our copy of the child's end is still open: its death shows at the pidfd */
    ssize_t n = recv(c->b->boot_socket, &r, sizeof(r), MSG_DONTWAIT);
    if (n == sizeof(r) && !memcmp(r.tag, "GOES", 4))
        return pid;
    waitpid(pid, NULL, 0);
    close(*pidfd);
    strcpy(step, "start");
    if (n != sizeof(r))
        return -EPIPE;
    memcpy(step, r.step, 24);
    step[23] = 0;
    return -r.error;
}

/* A uid nobody else has: the pid is unique among living brokers, the first range is used by no distribution; the others
 * are for containers that map few ids. Tried out with the effective ids, which are then taken back. Calls are made directly: the
 * library blocks signals around them for the sake of threads, three more calls each. */
void spawn_choose_uid(struct broker *b)
{
    b->was_root = geteuid() == 0;
    b->outer_uid = b->was_root ? 0 : geteuid();
    uid_t candidates[] = { 0x70000000u + getpid(), 100000u + getpid() % 65000u, 10000u + getpid() % 50000u };
    for (u32 i = 0; b->was_root && !b->outer_uid && i < ARRAY_COUNT(candidates); i++)
        if (syscall(SYS_setresgid, -1, candidates[i], -1) == 0 && syscall(SYS_setresgid, -1, 0, -1) == 0 && syscall(SYS_setresuid, -1, candidates[i], -1) == 0 &&
            syscall(SYS_setresuid, -1, 0, -1) == 0)
            b->outer_uid = candidates[i];
}

/* Effective ids of the sandbox; the saved uid stays root's until setup_drop(). */
static void take_outer_uid(struct broker *b)
{
    uid_t u = b->outer_uid;
    setgroups(0, NULL);
    if (u && (syscall(SYS_setresgid, u, u, u) < 0 || syscall(SYS_setresuid, u, u, 0) < 0))
        b->outer_uid = 0;
}

/* Starts the zygote. Returns 0 or -errno. */
int spawn_zygote(struct broker *b)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    b->boot_socket = pair[0];
    if (b->was_root) {
        take_outer_uid(b);
        /* we became undumpable with the change: /proc/self would not be ours, and the child could not write its maps */
        prctl(PR_SET_DUMPABLE, 1);
    }
    char step[24] = "";
    struct child c = { .b = b, .userns = true, .boot_socket = pair[1], .outer_gid = getegid() };
    pid_t pid = b->outer_uid ? start_child(&c, CLONE_NEWUSER | CLONE_NEWPID, &b->zygote.fd, step) : -EPERM;
    b->user_namespace = b->pid_namespace = pid > 0;
    if (pid < 0) {
        c.userns = false;
        if (b->was_root) {
            syscall(SYS_setresuid, -1, 0, -1);
            c.root = true;
            c.become = b->outer_uid != 0;
            pid = start_child(&c, CLONE_NEWPID, &b->zygote.fd, step);
            b->pid_namespace = pid > 0;
        }
        if (pid < 0)
            pid = start_child(&c, 0, &b->zygote.fd, step);
    }
    b->empty_root = c.userns || c.root;
    close(pair[1]);
    if (pid < 0) {
        link_error(b, 125, "cannot start the guest kernel (%s): %s", step, strerror(-pid));
        return pid;
    }
    b->zygote_pid = pid;
    b->zygote.kind = SOURCE_ZYGOTE;
    return 0;
}

/* Back to what started us, to open what the sandbox is given. */
int spawn_as_user(struct broker *b)
{
    if (has_own_uid(b) && (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0))
        return -errno;
    return 0;
}

/* A line for each layer that is missing, with the promise that falls with it. When the mounts are open. */
void spawn_layers(struct broker *b, char *text, size_t size)
{
    bool become = has_own_uid(b);
    text[0] = 0;
    if (b->user_namespace)
        return;
    /* without id maps only root reads root's directories: the broker stays what started it, as for any other user */
    b->stays_root = become && b->fs.userns < 0;
    if (b->stays_root)
        b->fs.own_uid = b->fs.own_gid = b->fs.stranger = 0;
    snprintf(text, size, "no user namespace: %s\n%s%s",
             become ? b->stays_root ? "the broker runs as root, with no capability but to kill the guest" : "a guest that broke out of its filter would be a user of the host"
                    : "a guest that broke out of its filter would have this user's rights",
             b->pid_namespace ? "" : "no pid namespace: clean-up after a kill is only best effort\n",
             b->empty_root ? "" : "no empty root directory: only the filter keeps the guest from files\n");
    if (!become && !(b->config->flags & CTL_CONFIG_CGROUP_PIDS))
        strncat(text, "no count of processes on the host's side: a guest that broke its kernel makes as many as this user may\n",
                size - strlen(text) - 1);
    if (b->was_root && !b->outer_uid)
        strncat(text, "no uid of its own: guest and broker run as root\n", size - strlen(text) - 1);
}

/* Waits for the seccomp listener the zygote sends first. */
static int wait_listener(struct broker *b)
{
    await_zygote(b->boot_socket, b->zygote.fd);
    char text[4] = "";
    int fd;
    u32 count;
    ssize_t n = fds_recv(b->boot_socket, text, sizeof(text), &fd, 1, &count, NULL, MSG_DONTWAIT);
    close(b->boot_socket);
    b->boot_socket = -1;
    if (n != 4 || memcmp(text, "LSTN", 4) || !count)
        return -EPROTO;
    b->listener.fd = fd;
    b->listener.kind = SOURCE_LISTENER;
    return 0;
}

/* Into the process whose bell id is; fd -1 = nothing. */
int spawn_add_fd(struct broker *b, u64 id, int fd, u32 slot)
{
    struct seccomp_notif_addfd add = { .id = id, .flags = SECCOMP_ADDFD_FLAG_SETFD, .srcfd = fd, .newfd = slot };
    return fd < 0 || ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0 ? 0 : -errno;
}

/* Gives the zygote, which waits in its first doorbell, the descriptors of the sandbox; then it goes on. */
int spawn_hand_over(struct broker *b)
{
    struct seccomp_notif n = { 0 };
    int r = wait_listener(b);
    if (r < 0)
        return r;
    if (!await_zygote(b->listener.fd, b->zygote.fd))
        return -EPROTO;
    if (ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
        return -errno;
    for (u32 i = 0; !r && i < b->image_count; i++)
        r = spawn_add_fd(b, n.id, b->image_fd[i], FD_IMAGE0 + i);
    for (u32 i = 0; !r && i < b->base_count; i++)
        r = spawn_add_fd(b, n.id, b->base_fd[i], FD_BASE0 + i);
    if (!r)
        r = spawn_add_fd(b, n.id, b->views[1].fd, FD_VIEWS_OWN);
    if (r < 0)
        return r;
    /* the last one answers the bell, too: each costs two switches */
    struct seccomp_notif_addfd last = { .id = n.id, .flags = SECCOMP_ADDFD_FLAG_SETFD | SECCOMP_ADDFD_FLAG_SEND, .srcfd = b->views[0].fd,
                                        .newfd = FD_VIEWS };
    struct seccomp_notif_resp done = { .id = n.id };
    return (b->views[0].fd >= 0 ? ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &last)
                                : ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_SEND, &done)) < 0 ? -errno : 0;
}

/* Ends every process of the sandbox; with a pid namespace the first one's death does that. */
void spawn_kill(struct broker *b)
{
    b->ending = true;
    if (b->zygote_gone)
        return;
    if (!b->pid_namespace)
        kill(-b->zygote_pid, SIGKILL);
    syscall(SYS_pidfd_send_signal, b->zygote.fd, SIGKILL, NULL, 0);
}
