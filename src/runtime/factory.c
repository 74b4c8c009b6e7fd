/* A client of the broker factory (broker/factory.c): one per program, shared by its threads. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct harena_factory {
    pthread_mutex_t lock; /* one request at a time on the link */
    int link;
    pid_t pid;
};

int harena_factory_open(const char *libexec, struct harena_factory **out, struct harena_error *err)
{
    int pair[2];
    struct harena_factory *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    pthread_mutex_init(&f->lock, NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        harena_error_set(err, 125, "cannot make a socket: %s", strerror(errno));
        free(f);
        return -1;
    }
    f->link = pair[0];
    int r = spawn_broker(libexec, true, pair[1], &f->pid, err);
    close(pair[1]);
    if (r < 0) {
        close(f->link);
        free(f);
        return -1;
    }
    *out = f;
    return 0;
}

static bool ask(struct harena_factory *f, int link)
{
    return fds_send(f->link, &(struct iovec){ "N", 1 }, 1, &link, 1, 0) == 1;
}

static bool take_answer(struct harena_factory *f, pid_t *pid, int *pidfd)
{
    u32 count;
    return fds_recv(f->link, pid, sizeof(*pid), pidfd, 1, &count, NULL, 0) == sizeof(*pid);
}

/* A broker at the other end of `link`. */
int factory_new(struct harena_factory *f, int link, pid_t *pid, int *pidfd, struct harena_error *err)
{
    *pidfd = -1;
    pthread_mutex_lock(&f->lock);
    bool ok = ask(f, link) && take_answer(f, pid, pidfd);
    pthread_mutex_unlock(&f->lock);
    if (ok && *pid > 0 && *pidfd >= 0)
        return 0;
    harena_error_set(err, 125, "cannot start a broker: %s", ok ? strerror(-*pid) : "the broker factory has ended");
    *pid = 0;
    return -1;
}

void harena_factory_close(struct harena_factory *f)
{
    if (!f)
        return;
    close(f->link);
    while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    pthread_mutex_destroy(&f->lock);
    free(f);
}
