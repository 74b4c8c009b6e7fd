/* The guard: a child that cleans up when its parent, the program that made a sandbox, is killed before it can.
 *
 * The broker and the guest end by themselves then, but the broker may have no rights to the state directory and the cgroups. The
 * guard waits for the death of both and removes them; that the broker is dead it sees by the lock of the state directory, which is
 * free then. It is there as long as the sandbox is, from its first steps on, so it must be cheap: it shares its parent's memory
 * (clone(2), CLONE_VM), reads there after the parent's death what there is to remove, and has a stack and a table of descriptors of
 * its own. Until then it writes nowhere but on its stack - errno is the parent's - and makes bare system calls.
 * harena_close() kills it. What even the guard leaves - it is killed, too - the next command that looks at the state directory
 * removes. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE (256u << 10)

struct guard {
    struct harena_sandbox *s;
    int parent; /* pidfd */
    u8 *stack;
};

static long bare(long nr, long a, long b, long c)
{
    __asm__ volatile("syscall" : "+a"(nr) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return nr;
}

/* All descriptors but two, so that no pipe or terminal of the parent's stays open through us. */
static void keep_only(int parent, int base)
{
    int low = MIN(parent, base), high = MAX(parent, base);
    if (low > 0)
        bare(SYS_close_range, 0, low - 1, 0);
    if (high > low + 1)
        bare(SYS_close_range, low + 1, high - 1, 0);
    bare(SYS_close_range, high + 1, ~0u, 0);
}

/* Until the broker is dead, too: that it gets no time for it must not keep the guest alive. */
static void wait_for_broker(const struct harena_sandbox *s)
{
    int fd = openat(s->base_fd, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool dead = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    for (u32 ms = 0; !dead && ms < GRACE_MS; ms += 10) {
        poll(NULL, 0, 10);
        dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
    }
    int broker = dead || s->broker <= 0 ? -1 : (int)bare(SYS_pidfd_open, s->broker, 0, 0);
    if (!dead && flock(fd, LOCK_EX | LOCK_NB) < 0) { /* it holds that, so it is still that pid's */
        cgroup_kill(s->cgroups, s->cgroup_count);
        if (broker >= 0)
            syscall(SYS_pidfd_send_signal, broker, SIGKILL, NULL, 0);
        flock(fd, LOCK_EX);
    }
    close(fd);
}

static int guard_main(void *arg)
{
    const struct guard *g = arg;
    const struct harena_sandbox *s = g->s;
    struct pollfd p = { .fd = g->parent, .events = POLLIN };
    bare(SYS_prctl, PR_SET_NAME, (long)"harena-guard", 0);
    bare(SYS_setsid, 0, 0, 0);
    keep_only(g->parent, s->base_fd);
    bare(SYS_chdir, (long)"/", 0, 0);
    while (bare(SYS_poll, (long)&p, 1, -1) < 0)
        ;
    wait_for_broker(s);
    if (s->group > 1)
        kill(-s->group, SIGKILL);
    cgroup_kill(s->cgroups, s->cgroup_count);
    cgroup_remove(s->cgroups, s->cgroup_count);
    state_remove_unlocked(s->base_fd, s->name);
    _exit(0);
}

/* Failure leaves things as they are without a guard. */
void guard_start(struct harena_sandbox *s)
{
    sigset_t all, old;
    struct guard *g = calloc(1, sizeof(*g));
    if (!g)
        return;
    g->s = s;
    g->parent = syscall(SYS_pidfd_open, getpid(), 0);
    g->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    s->guard = g;
    if (g->parent < 0 || g->stack == MAP_FAILED)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->guard_pid = clone(guard_main, g->stack + STACK_SIZE, CLONE_VM | SIGCHLD, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(g->parent);
}

void guard_end(struct harena_sandbox *s)
{
    if (!s->guard)
        return;
    if (s->guard_pid > 0) {
        kill(s->guard_pid, SIGKILL);
        while (waitpid(s->guard_pid, NULL, 0) < 0)
            if (kill(s->guard_pid, 0) < 0)
                break;
    }
    if (s->guard->stack != MAP_FAILED)
        munmap(s->guard->stack, STACK_SIZE);
    free(s->guard);
    s->guard = NULL;
}
