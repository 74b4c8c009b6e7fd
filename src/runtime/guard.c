/* The guard: a child that cleans up when its parent, the program that made a sandbox, is killed before it can.
 *
 * The broker and the guest end by themselves then, but the broker may have no rights to the state directory and the cgroups. The
 * guard waits for the death of both and removes them. It is forked only once a sandbox has lived for GUARD_AFTER_MS, so that
 * short ones do not pay for it, and is killed by harena_close(). It makes nothing but system calls: its parent may have
 * threads. What even the guard leaves - it is killed, too - the next command that looks at the state directory removes. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void keep_only(const int *fds, int count)
{
    for (int i = 0; i < count; i++) /* out of the way, then down to 0, 1, ... */
        if (fcntl(fds[i], F_DUPFD, 64 + i) < 0)
            _exit(0);
    for (int i = 0; i < count; i++)
        dup2(64 + i, i);
    syscall(SYS_close_range, count, ~0u, 0);
}

static _Noreturn void guard_main(struct harena_sandbox *s, int parent, int broker)
{
    int fds[] = { parent, broker, s->base_fd };
    struct pollfd p[2] = { { .fd = 0, .events = POLLIN }, { .fd = 1, .events = POLLIN } };
    prctl(PR_SET_NAME, "harena-guard");
    setsid();
    keep_only(fds, 3);
    chdir("/");
    while (poll(&p[0], 1, -1) < 0)
        ;
    while (poll(&p[1], 1, -1) < 0)
        ;
    if (s->group > 1)
        kill(-s->group, SIGKILL);
    cgroup_kill(s->cgroups, s->cgroup_count);
    cgroup_remove(s->cgroups, s->cgroup_count);
    if (s->state_fd >= 0)
        state_remove_unlocked(2, s->name);
    _exit(0);
}

/* Failure leaves things as they are without a guard. */
void guard_start(struct harena_sandbox *s)
{
    sigset_t all, old;
    int parent = syscall(SYS_pidfd_open, getpid(), 0), broker = syscall(SYS_pidfd_open, s->broker, 0);
    if (parent >= 0 && broker >= 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        s->guard = fork();
        if (s->guard == 0)
            guard_main(s, parent, broker);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (s->guard <= 0)
        s->guard = -1; /* not again */
    if (parent >= 0)
        close(parent);
    if (broker >= 0)
        close(broker);
}

void guard_end(struct harena_sandbox *s)
{
    if (s->guard <= 0)
        return;
    kill(s->guard, SIGKILL);
    while (waitpid(s->guard, NULL, 0) < 0)
        if (s->guard < 0 || kill(s->guard, 0) < 0)
            break;
    s->guard = -1;
}
