/* A client of the broker factory (broker/factory.c): one per program, shared by its threads.
 *
 * It keeps SPARES brokers ready: they have made their memory objects and started a zygote, which waits behind its filter for its
 * sandbox. A sandbox takes the oldest; then another is asked for, whose making goes on beside. Requests are answered in order, so the
 * answers are only taken when they are needed. A spare that is not needed ends when its link closes. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPARES 4u

struct harena_factory {
    pthread_mutex_t lock; /* all below, and the order on the link */
    int link;
    pid_t pid;
    struct made_broker spare[SPARES]; /* in the order they were asked for */
    u32 count;
};

/* Asks for a broker, whose link is in *b, its pid not yet. */
static bool ask(struct harena_factory *f, struct made_broker *b)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    *b = (struct made_broker){ .link = pair[0], .pidfd = -1 };
    bool ok = fds_send(f->link, &(struct iovec){ "N", 1 }, 1, &pair[1], 1, 0) == 1;
    close(pair[1]);
    if (!ok)
        close(b->link);
    return ok;
}

static bool take_answer(struct harena_factory *f, struct made_broker *b, int flags)
{
    u32 count;
    return fds_recv(f->link, &b->pid, sizeof(b->pid), &b->pidfd, 1, &count, NULL, flags) == sizeof(b->pid);
}

/* It is there, or is made now: the factory takes its time otherwise. */
static bool is_made(struct harena_factory *f, struct made_broker *b)
{
    if (b->pid || take_answer(f, b, MSG_DONTWAIT))
        return true;
    kill(f->pid, SIGURG); /* ignored by one that is only starting */
    return take_answer(f, b, 0);
}

static bool all_made(struct harena_factory *f)
{
    for (u32 i = 0; i < f->count; i++)
        if (!is_made(f, &f->spare[i]))
            return false;
    return true;
}

/* lock held */
static void refill(struct harena_factory *f)
{
    while (f->count < SPARES && ask(f, &f->spare[f->count])) {
        struct harena_error ignored;
        broker_may_begin(f->spare[f->count].link, &ignored);
        f->count++;
    }
}

static bool has_ended(const struct made_broker *b)
{
    struct pollfd p = { .fd = b->pidfd, .events = POLLIN };
    return b->pidfd >= 0 && poll(&p, 1, 0) > 0;
}

/* The oldest. Those that were killed while they waited are passed over, but not for ever: the last one's link tells why it ended. */
static bool take_spare(struct harena_factory *f, struct made_broker *b)
{
    for (u32 tries = 0; tries <= SPARES; tries++) {
        if (!f->count)
            refill(f);
        if (!f->count || !is_made(f, &f->spare[0]))
            return false;
        *b = f->spare[0];
        memmove(f->spare, f->spare + 1, --f->count * sizeof(*b));
        if (tries == SPARES || !has_ended(b))
            break;
        close(b->link);
        close(b->pidfd);
    }
    return true;
}

int harena_factory_open(const char *libexec, struct harena_factory **out, struct harena_error *err)
{
    char kernel[PATH_MAX];
    int pair[2];
    struct harena_factory *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    pthread_mutex_init(&f->lock, NULL);
    f->link = -1;
    if (find_program(libexec, "harena-kernel", "../launch", kernel, err) < 0)
        goto fail;
    int base = state_base(err);
    if (base < 0)
        goto fail;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        harena_error_set(err, 125, "cannot make a socket: %s", strerror(errno));
        close(base);
        goto fail;
    }
    f->link = pair[0];
    int r = spawn_broker(libexec, kernel, true, base, pair[1], &f->pid, err);
    close(pair[1]);
    close(base);
    if (r < 0)
        goto fail;
    refill(f);
    *out = f;
    return 0;
fail:
    harena_factory_close(f);
    return -1;
}

/* A broker; `prepared`: one that has been given CTL_PREPARE. */
int factory_take(struct harena_factory *f, bool prepared, struct made_broker *b, struct harena_error *err)
{
    *b = (struct made_broker){ .link = -1, .pidfd = -1 };
    pthread_mutex_lock(&f->lock);
    bool ok = prepared ? take_spare(f, b) : all_made(f) && ask(f, b) && is_made(f, b);
    pthread_mutex_unlock(&f->lock);
    if (ok && b->pid > 0 && b->pidfd >= 0)
        return 0;
    harena_error_set(err, 125, "cannot start a broker: %s", ok ? strerror(-b->pid) : "the broker factory has ended");
    if (b->link >= 0)
        close(b->link);
    return -1;
}

/* After a sandbox has been begun, which is in more of a hurry. */
void factory_refill(struct harena_factory *f)
{
    pthread_mutex_lock(&f->lock);
    refill(f);
    pthread_mutex_unlock(&f->lock);
}

/* One that is to end by itself: if it does not, as when it is stopped, it is killed. Takes the descriptor. */
static void await_end(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    for (int r, ms = GRACE_MS; (r = poll(&p, 1, ms)) == 0 || (r < 0 && errno == EINTR); ms = r ? ms : -1)
        if (!r)
            syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    close(pidfd);
}

/* Spares are waited for: nothing is left when this returns. */
void harena_factory_close(struct harena_factory *f)
{
    if (!f)
        return;
    if (f->link >= 0)
        shutdown(f->link, SHUT_WR);
    int factory = f->pid > 0 ? (int)syscall(SYS_pidfd_open, f->pid, 0) : -1;
    if (factory >= 0)
        await_end(factory);
    while (f->pid > 0 && waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    for (u32 i = 0; i < f->count; i++) {
        close(f->spare[i].link);
        if (!f->spare[i].pid)
            take_answer(f, &f->spare[i], MSG_DONTWAIT); /* else it was not made */
    }
    for (u32 i = 0; i < f->count; i++)
        if (f->spare[i].pidfd >= 0)
            await_end(f->spare[i].pidfd);
    if (f->link >= 0)
        close(f->link);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
