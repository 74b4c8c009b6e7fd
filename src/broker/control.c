/* The broker's clients: the link it was started with and connections to the control socket. See control.h for the messages.
 *
 * A client that sends nonsense is dropped. Sending never blocks: a client that does not read its messages loses them
 * (traces, notes), and the runtime reads all the time. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int control_watch(struct broker *b, struct source *s, u32 events)
{
    struct epoll_event e = { .events = events, .data.ptr = s };
    return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, s->fd, &e) < 0 ? -errno : 0;
}

/* ---- sending ---- */

/* Guest text may hold anything: control characters come out as \xNN. Returns the length; `out` is terminated. */
size_t escape_text(char *out, size_t out_size, const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size && n + 5 < out_size; i++) {
        u8 c = text[i];
        if ((c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t')
            out[n++] = c;
        else if (c || i + 1 < size)
            n += snprintf(out + n, 5, "\\x%02x", c);
    }
    out[n] = 0;
    return n;
}

/* Room for much text and, behind it, for little, and behind that for all that must not be lost. */
bool client_has_room(struct client *c, u32 size)
{
    int queued = 0;
    return ioctl(c->source.fd, SIOCOUTQ, &queued) < 0 || queued < (size > 64 ? 98304 : 131072);
}

int client_send(struct client *c, u32 type, const void *payload, u32 size)
{
    const u8 *p = payload;
    bool first = true;
    u32 total = sizeof(struct ctl_header) + size;
    do {
        u32 n = MIN(size, CTL_PACKET_MAX - (u32)sizeof(struct ctl_header));
        struct ctl_header h = { .type = type, .size = sizeof(h) + n, .flags = n < size ? CTL_MORE : 0,
                                .total = first ? total : 0 };
        struct iovec v[2] = { { &h, sizeof(h) }, { (void *)p, n } };
        struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
        if (sendmsg(c->source.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return -errno;
        p += n;
        size -= n;
        first = false;
    } while (size);
    return 0;
}

/* One packet without payload and descriptors. */
int client_send_fds(struct client *c, u32 type, const int *fds, u32 count)
{
    struct ctl_header h = { .type = type, .size = sizeof(h), .total = sizeof(h) };
    return fds_send(c->source.fd, &(struct iovec){ &h, sizeof(h) }, 1, fds, count, MSG_DONTWAIT) < 0 ? -errno : 0;
}

void client_number(struct client *c, u32 type, u32 number)
{
    u32 body[2] = { number, 0 };
    client_send(c, type, body, sizeof(body));
}

/* CTL_NOTE, or CTL_ERROR with a status. c NULL: to nobody. */
void client_say(struct client *c, u32 type, u32 status, const char *f, ...)
{
    struct {
        u32 status, pad;
        char text[24576];
    } body = { .status = status };
    va_list ap;
    va_start(ap, f);
    int n = vsnprintf(body.text, sizeof(body.text), f, ap);
    va_end(ap);
    u32 head = type == CTL_ERROR ? 8 : 0;
    if (c)
        client_send(c, type, body.text - head, head + MIN((size_t)n, sizeof(body.text) - 1));
}

/* ---- receiving ---- */

/* Receives one packet and joins it to the message. Returns 1 when the message is complete, 0 when not, -EPIPE at the end. */
static int receive(struct client *c)
{
    static union {
        struct ctl_header h;
        u8 bytes[CTL_PACKET_MAX];
    } p;
    u32 count;
    bool cut;
    ssize_t n = fds_recv(c->source.fd, &p, sizeof(p), c->fds + c->fd_count, FDS_MAX - c->fd_count, &count, &cut, 0);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -EPIPE;
    c->fd_count += count;
    if ((size_t)n < sizeof(struct ctl_header) || p.h.size != n || cut)
        return -EPROTO;
    if (!c->message) {
        if (p.h.total < n || p.h.total > CTL_MESSAGE_MAX || (!(p.h.flags & CTL_MORE) && p.h.total != n))
            return -EPROTO;
        c->message = malloc(p.h.total + 1);
        if (!c->message)
            return -ENOMEM;
        memcpy(c->message, &p, n);
        c->message_size = n;
        c->message_total = p.h.total;
    } else {
        u32 payload = n - sizeof(struct ctl_header);
        if (p.h.type != ((struct ctl_header *)c->message)->type || payload > c->message_total - c->message_size)
            return -EPROTO;
        memcpy(c->message + c->message_size, p.bytes + sizeof(struct ctl_header), payload);
        c->message_size += payload;
    }
    if (p.h.flags & CTL_MORE)
        return 0;
    if (c->message_size != c->message_total)
        return -EPROTO;
    c->message[c->message_total] = 0;
    return 1;
}

static void message_done(struct client *c)
{
    free(c->message);
    c->message = NULL;
    for (u32 i = 0; i < c->fd_count; i++)
        if (c->fds[i] >= 0)
            close(c->fds[i]);
    c->fd_count = 0;
}

/* At start the link is all that is waited for. Returns 1 or -errno. */
static int receive_whole(struct client *c)
{
    int r;
    while (!(r = receive(c)))
        ;
    return r;
}

/* At start, on the link: the configuration. */
int control_recv_config(struct broker *b)
{
    struct client *c = b->link;
    int r = receive_whole(c);
    if (r < 0)
        return r;
    struct ctl_config *cfg = (void *)c->message;
    if (cfg->h.type != CTL_CONFIG || c->message_total < sizeof(*cfg) || cfg->levels > FD_BASE_MAX)
        return -EPROTO;
    u32 named = cfg->flags & CTL_CONFIG_NAMED ? 2 : 0, parts = cfg->levels ? 2 : 0;
    if (c->fd_count != named + parts + cfg->levels)
        return -EPROTO;
    b->config = cfg;
    b->control.fd = named ? c->fds[0] : -1;
    b->lock_fd = named ? c->fds[1] : -1;
    memcpy(b->parts_fd, c->fds + named, parts * sizeof(int));
    memcpy(b->base_fd, c->fds + named + parts, cfg->levels * sizeof(int));
    b->base_count = cfg->levels;
    c->message = NULL; /* stays ours */
    c->fd_count = 0;
    return 0;
}

void control_accept(struct broker *b)
{
    int fd = accept4(b->control.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (u32 i = 0; i < BROKER_CLIENT_MAX; i++) {
        struct client *c = &b->clients[i];
        if (c->source.kind != SOURCE_NONE)
            continue;
        *c = (struct client){ .source = { .kind = SOURCE_CLIENT, .fd = fd } };
        if (control_watch(b, &c->source, EPOLLIN) < 0)
            break;
        return;
    }
    close(fd);
}

static void set_trace(struct broker *b, struct client *c, const struct ctl_trace *t)
{
    struct mail_trace mail = { .h = { .type = MAIL_TRACE, .size = sizeof(mail) }, .on = c != NULL };
    if (t)
        memcpy(mail.calls, t->calls, sizeof(mail.calls));
    b->tracer = c;
    mail_post(b, NULL, &mail, sizeof(mail));
}

void client_drop(struct broker *b, struct client *c)
{
    freeze_client_gone(b, c);
    message_done(c);
    close(c->source.fd);
    c->source = (struct source){ .kind = SOURCE_NONE, .fd = -1 };
    if (c->session) {
        session_signal(b, c->session, SIGKILL);
        c->session->client = NULL;
        c->session = NULL;
    }
    if (c == b->tracer)
        set_trace(b, NULL, NULL);
    if (c == b->link) {
        b->link = NULL;
        spawn_kill(b);
        b->status = 125;
        b->main_done = true;
    }
}

static int handle_message(struct broker *b, struct client *c)
{
    struct ctl_header *h = (void *)c->message;
    u32 size = c->message_total, number = size >= sizeof(struct ctl_number) ? ((struct ctl_number *)h)->number : 0;
    switch (h->type) {
    case CTL_RUN: {
        if (c->session || c->fd_count != 3 || size < sizeof(struct ctl_run))
            return -EPROTO;
        if (!c->is_link)
            ((struct ctl_run *)h)->flags &= ~CTL_RUN_MAIN;
        c->fd_count = 0;
        return session_start(b, c, (struct ctl_run *)h, size, c->fds);
    }
    case CTL_ATTACH:
        if (c->session || c->fd_count != 3 || size < sizeof(struct ctl_attach) || !c->is_link || !b->unattached)
            return -EPROTO;
        c->fd_count = 0;
        return session_attach(b, c, (struct ctl_attach *)h, size, c->fds);
    case CTL_FREEZE:
        return freeze_order(b, c, number, c->fds, c->fd_count);
    case CTL_REBASE:
        return freeze_rebase(b, number, c->fds, c->fd_count);
    case CTL_SIGNAL:
        if (!c->session || number < 1 || number > 64)
            return -EPROTO;
        session_signal(b, c->session, number);
        return 0;
    case CTL_WINSIZE: {
        if (!c->session || size != sizeof(struct ctl_winsize))
            return -EPROTO;
        struct ctl_winsize *w = (void *)h;
        struct mail_winsize mail = { .h = { .type = MAIL_WINSIZE, .size = sizeof(mail) }, .session = c->session->id,
                                     .rows = w->rows, .cols = w->cols, .xpixel = w->xpixel, .ypixel = w->ypixel };
        mail_post(b, NULL, &mail, sizeof(mail));
        return 0;
    }
    case CTL_KILL:
        if (number) {
            struct session *s = number <= 64 ? session_main(b) : NULL;
            if (!s)
                return number <= 64 ? -ESRCH : -EINVAL;
            session_signal(b, s, number);
            return 1;
        }
        end_sandbox(b, 137, "killed by `harena kill`");
        return 0;
    case CTL_PROCS: {
        struct mail_procs mail = { .h = { .type = MAIL_PROCS, .size = sizeof(mail) }, .token = ++b->procs_next };
        c->procs_token = mail.token;
        client_number(c, CTL_FROZEN, b->freeze.paused);
        return mail_post(b, NULL, &mail, sizeof(mail)) ? 0 : -EAGAIN;
    }
    case CTL_TRACE: {
        if (size != sizeof(struct ctl_trace))
            return -EPROTO;
        if (b->tracer && b->tracer != c)
            return -EBUSY;
        set_trace(b, c, (struct ctl_trace *)h);
        return 0;
    }
    }
    return -EPROTO;
}

static void refuse(struct client *c, int r)
{
    bool trace = ((struct ctl_header *)c->message)->type == CTL_TRACE;
    const char *why = r == -EAGAIN ? "too many sessions, or its kernel takes no orders" :
                      r == -EBUSY  ? trace ? "somebody traces it already" : "a snapshot of it is being taken" :
                      r == -ENOMEM ? "a snapshot needs as much memory again as it uses, and its limit does not leave that; raise --memory" :
                                     strerror(-r);
    client_say(c, CTL_ERROR, 125, "the sandbox refused the request: %s", why);
}

void control_event(struct broker *b, struct client *c)
{
    int r = receive(c);
    if (!r)
        return;
    if (r > 0) {
        r = handle_message(b, c);
        if (r > 0) { /* answered by the end of the connection */
            client_drop(b, c);
            return;
        }
        if (r < 0)
            refuse(c, r);
        message_done(c);
    }
    if (r < 0)
        client_drop(b, c);
}
