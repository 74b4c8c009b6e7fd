/* libFuzzer: a broker that was taken over, against the command line. The input is cut into packets (two bytes of length each, the top bit:
 * the header's size is made right), which arrive on the link; they are joined and turned into events as by harena run. What is shown of an
 * event must lie in its message. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/internal.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    struct harena_sandbox *s = calloc(1, sizeof(*s));
    struct harena_error err;
    struct harena_event e;
    int pair[2];
    static u8 p[65536];
    if (!s || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
        abort();
    s->link = pair[0];
    s->state_fd = s->base_fd = s->views = s->broker_pidfd = -1;
    while (size >= 2) {
        size_t how = data[0] | data[1] << 8, n = MIN(how & 0x7fff, size - 2);
        memcpy(p, data + 2, n);
        if (how & 0x8000 && n >= sizeof(struct ctl_header)) {
            struct ctl_header *h = (void *)p;
            h->type %= 16;
            h->size = n;
            h->flags &= CTL_MORE;
            if (!(h->flags & CTL_MORE))
                h->total = n;
        }
        int fd = n % 5 ? -1 : open("/dev/null", O_RDONLY);
        struct iovec v = { p, n };
        fds_send(pair[1], &v, 1, &fd, fd >= 0, MSG_DONTWAIT);
        if (fd >= 0)
            close(fd);
        data += 2 + n;
        size -= 2 + n;
    }
    close(pair[1]);
    for (int i = 0; i < 100000; i++) {
        if (harena_next(s, NULL, &e, &err) < 0 || e.type == HARENA_EVENT_CLOSED)
            break;
        size_t sum = 0;
        for (size_t k = 0; k < e.text_size; k++)
            sum += (u8)e.text[k];
        if (strlen(e.text) > CTL_MESSAGE_MAX || sum == 1)
            p[0] = 0;
    }
    harena_close(s);
    return 0;
}
