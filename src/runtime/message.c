/* Messages to and from the broker (broker/control.h): cut into packets, joined again; and the descriptors a session gets.
 *
 * Standard streams: a pipe or terminal shared with other programs must not become O_NONBLOCK for them, so the broker is
 * given a fresh description of it (opened through /proc/self/fd). Regular files keep their description: their position is
 * shared with whoever opened them. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

void *grow(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (!p)
        abort();
    return p;
}

/* message: starts with a ctl_header whose type is set; size bytes in all. */
int message_send(int fd, void *message, u32 size, const int *fds, u32 fd_count, struct harena_error *err)
{
    struct ctl_header *h = message;
    u8 *payload = (u8 *)message + sizeof(*h);
    u32 left = size - sizeof(*h);
    bool first = true;
    if (size > CTL_MESSAGE_MAX) {
        errno = E2BIG;
        harena_error_set(err, 125, "arguments and environment are too long (at most %u bytes)", CTL_MESSAGE_MAX);
        return -1;
    }
    h->total = size;
    do {
        u32 n = MIN(left, CTL_PACKET_MAX - (u32)sizeof(*h));
        struct ctl_header p = { .type = h->type, .size = sizeof(p) + n, .flags = n < left ? CTL_MORE : 0,
                                .total = first ? size : 0 };
        if (first)
            *h = p;
        struct iovec v[2] = { { &p, sizeof(p) }, { payload, n } };
        if (fds_send(fd, v, 2, fds, first ? fd_count : 0, 0) < 0) {
            int error = errno;
            harena_error_set(err, 125, "the sandbox's broker does not answer: %s", strerror(error));
            errno = error;
            return -1;
        }
        payload += n;
        left -= n;
        first = false;
    } while (left);
    return 0;
}

/* Returns 1 with a whole message in *out (malloc'ed, NUL behind it), 0 at the end, -1 on error. */
int message_receive_fds(int fd, u8 **out, int *fds, u32 max, u32 *fd_count, struct harena_error *err)
{
    u8 *message = NULL;
    u32 have = 0;
    *fd_count = 0;
    for (;;) {
        union {
            struct ctl_header h;
            u8 bytes[CTL_PACKET_MAX];
        } p;
        u32 count;
        ssize_t n = fds_recv(fd, &p, sizeof(p), fds + *fd_count, max - *fd_count, &count, NULL, 0);
        *fd_count += count;
        /* a broker that ended with unread messages of ours resets the socket once; what it said is still to be read */
        if (n < 0 && errno == ECONNRESET)
            continue;
        if (n <= 0) {
            free(message);
            return 0;
        }
        u32 skip = message ? sizeof(p.h) : 0;
        bool bad = n < (ssize_t)sizeof(p.h) || p.h.size != n ||
                   (message ? n - skip > ((struct ctl_header *)message)->total - have
                            : p.h.total < n || p.h.total > CTL_MESSAGE_MAX);
        if (!bad && !message)
            message = malloc(p.h.total + 1);
        if (bad || !message) {
            free(message);
            harena_error_set(err, 125, "the broker sent a broken message");
            return -1;
        }
        memcpy(message + have, p.bytes + skip, n - skip);
        have += n - skip;
        if (p.h.flags & CTL_MORE)
            continue;
        ((struct ctl_header *)message)->size = have;
        message[have] = 0;
        *out = message;
        return 1;
    }
}

int message_error(const u8 *message, struct harena_error *err)
{
    const struct ctl_error *e = (const void *)message;
    if (e->h.type != CTL_ERROR || e->h.size < sizeof(*e))
        return 0;
    harena_error_set(err, e->status, "%s", e->text);
    return -1;
}

int message_receive(int fd, u8 **out, int *passed, struct harena_error *err)
{
    int one = -1;
    u32 count;
    int r = message_receive_fds(fd, out, &one, passed != NULL, &count, err);
    if (passed)
        *passed = one;
    return r;
}

/* A descriptor for the broker; -1 only when there is none at all. */
int stdio_fresh(int fd, bool write)
{
    struct stat st;
    unsigned int number;
    if (fd < 0 || fstat(fd, &st) < 0)
        return open("/dev/null", (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    bool terminal = S_ISCHR(st.st_mode) && isatty(fd) && ioctl(fd, TIOCGPTN, &number) < 0; /* a master would open another */
    if (S_ISFIFO(st.st_mode) || terminal) {
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        int fresh = open(path, (write ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fresh >= 0)
            return fresh;
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}
