/* Messages with descriptors between processes of the host's side (SCM_RIGHTS, unix(7)): the one place that lays out control data. */
#ifndef HARENA_WIRE_FDS_H
#define HARENA_WIRE_FDS_H

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/types.h"

#define FDS_MAX 8

union fds_control {
    struct cmsghdr h;
    char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
};

/* As sendmsg; begins again on EINTR. No SIGPIPE. */
static inline ssize_t fds_send(int sock, struct iovec *v, int parts, const int *fds, u32 count, int flags)
{
    union fds_control control;
    struct msghdr m = { .msg_iov = v, .msg_iovlen = parts };
    if (count) {
        memset(&control, 0, sizeof(control));
        control.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * count), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.h), fds, sizeof(int) * count);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    }
    ssize_t n;
    while ((n = sendmsg(sock, &m, flags | MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return n;
}

/* As recvmsg; begins again on EINTR. The descriptors that came are close-on-exec; those beyond `max` are closed. With `cut`
 * tells whether data or descriptors did not fit. */
static inline ssize_t fds_recv(int sock, void *data, size_t size, int *fds, u32 max, u32 *count, bool *cut, int flags)
{
    union fds_control control;
    struct iovec v = { data, size };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
    ssize_t n;
    while ((n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    *count = 0;
    if (cut)
        *cut = n >= 0 && m.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return n;
    for (u32 i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
        if (*count < max)
            fds[(*count)++] = fd;
        else
            close(fd);
    }
    return n;
}

#endif
