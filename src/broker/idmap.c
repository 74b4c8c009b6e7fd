/* Started by root, the broker serves as a uid of its own, which owns none of root's files. An id-mapped mount lends it root's
 * place in the directories the user asked for, and only there: on disk uid 0 is seen as the sandbox's uid, and what it
 * creates belongs to root again. Other ids up to 65535 stay what they are.
 *
 * The map comes from a user namespace, made for this by a child that only waits. Where host or file system cannot do it,
 * the plain mount is used and permissions are those of a stranger. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int noreturn_fn wait_here(void *arg)
{
    (void)arg;
    for (;;)
        syscall(SYS_pause);
}

static bool write_map(pid_t pid, const char *name, uid_t outer)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    int n = snprintf(text, sizeof(text), "0 %u 1\n1 1 9999\n", outer);
    if (outer > 65535)
        n = snprintf(text, sizeof(text), "0 %u 1\n1 1 65535\n", outer);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, n) == n;
    close(fd);
    return ok;
}

/* A user namespace that maps 0 to `outer`. Returns its descriptor or -errno. */
int idmap_namespace(uid_t outer)
{
    static char stack[4096] __attribute__((aligned(16)));
    char path[64];
    pid_t pid = clone(wait_here, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
    if (pid < 0)
        return -errno;
    int fd = -EPERM;
    if (write_map(pid, "uid_map", outer) && write_map(pid, "gid_map", outer)) {
        snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            fd = -errno;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return fd;
}

/* An id-mapped private copy of the mount at `path`, with what is mounted below it: otherwise what that hides would be seen. Returns
 * an O_PATH descriptor or -errno. */
int idmap_open(int userns, const char *path)
{
    int fd = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (fd < 0)
        return -errno;
    struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .userns_fd = userns };
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}
