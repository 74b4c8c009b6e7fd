/* Sessions (a program started in the sandbox with its own standard streams), the rings behind the streams, and mail.
 *
 * Rings: see wire/broker.h for the protocol. A stream's position is ours alone; the guest's positions are taken from the last
 * copy of its control page and clamped: a distance beyond RING_SIZE means the guest is broken, the stream is closed. Bytes go
 * straight between ring and descriptor, nothing is kept here, so back-pressure is the ring's.
 *
 * Descriptors: the runtime opens fresh O_NONBLOCK descriptions of pipes and terminals where it can. Where it cannot,
 * a descriptor is polled and at most PIPE_BUF bytes are written, which does not block. Regular files and the like are not
 * for epoll: always ready.
 *
 * Order at the end: WIRE_EXIT marks the session; when its out rings are empty, its client is told. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- mail ---- */

/* session: of a MAIL_SPAWN, else NULL. Returns false when the guest has left too many lying. */
bool mail_post(struct broker *b, struct session *s, const void *data, u32 size)
{
    u32 room = BROKER_MAIL_MAX - b->unattached; /* that mail is still to come */
    struct mail_item *m = b->mail_count < room ? malloc(sizeof(*m) + size) : NULL;
    if (!m)
        return false;
    b->mail_count++;
    m->next = NULL;
    m->session = s;
    m->size = size;
    memcpy(m->data, data, size);
    if (!b->mail_first)
        b->mail_last = &b->mail_first;
    *b->mail_last = m;
    b->mail_last = &m->next;
    return true;
}

/* Puts the next mail into the box when the guest has taken the last one. */
void mail_pump(struct broker *b)
{
    while (b->mail_first && !b->unattached && b->guest.mail_done == b->mail_seq) {
        struct mail_item *m = b->mail_first;
        b->mail_first = m->next;
        b->mail_count--;
        u32 head[2] = { b->mail_seq + 1, m->size };
        pwrite(b->r_fd, m->data, m->size, R_MAIL);
        pwrite(b->r_fd, &head[1], 4, R_CONTROL_BROKER + offsetof(struct r_control_broker, mail_size));
        __sync_synchronize();
        pwrite(b->r_fd, &head[0], 4, R_CONTROL_BROKER + offsetof(struct r_control_broker, mail_seq));
        b->mail_seq++;
        if (m->session && m->session->state == SESSION_QUEUED) {
            m->session->state = SESSION_MAILED;
            m->session->mail_seq = b->mail_seq;
        }
        b->event_due = true;
        free(m);
    }
}

/* Before all that is in the queue. */
static bool mail_post_first(struct broker *b, struct session *s, const void *data, u32 size)
{
    struct mail_item *rest = b->mail_first, **last = b->mail_last;
    b->mail_first = NULL;
    bool posted = mail_post(b, s, data, size);
    if (posted && rest)
        b->mail_first->next = rest;
    if (!posted)
        b->mail_first = rest;
    if (rest)
        b->mail_last = last;
    return posted;
}

/* ---- streams ---- */

void stream_init(struct stream *s, int fd, bool in)
{
    s->source = (struct source){ .kind = SOURCE_STREAM, .fd = fd };
    s->in = in;
    s->pos = s->written = s->flags = 0;
    s->error = 0;
    s->added = s->armed = s->closed = false;
    s->pollable = true;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        s->closed = true;
        return;
    }
    s->socket = S_ISSOCK(st.st_mode);
    s->regular = S_ISREG(st.st_mode);
    s->nonblock = s->socket || (fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void stream_arm(struct broker *b, struct stream *s)
{
    struct epoll_event e = { .events = (s->in ? EPOLLIN : EPOLLOUT) | EPOLLONESHOT, .data.ptr = &s->source };
    if (s->armed || !s->pollable)
        return;
    if (epoll_ctl(b->epoll_fd, s->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->source.fd, &e) < 0) {
        s->pollable = false; /* EPERM: a regular file */
        return;
    }
    s->added = s->armed = true;
}

void stream_close(struct broker *b, struct stream *s)
{
    s->closed = true;
    if (s->added) /* whoever gave it to us has it, too: closing alone would leave it in the set */
        epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, s->source.fd, NULL);
    if (s->source.fd >= 0)
        close(s->source.fd);
    s->added = s->armed = false;
    s->source.fd = -1;
    s->flags |= RING_CLOSED;
}

/* Is a blocking descriptor ready for one small transfer? */
static bool stream_ready(struct stream *s)
{
    if (s->nonblock || !s->pollable || s->regular)
        return true;
    struct pollfd p = { .fd = s->source.fd, .events = s->in ? POLLIN : POLLOUT };
    return poll(&p, 1, 0) > 0;
}

static ssize_t stream_write(struct stream *s, const u8 *data, u32 size)
{
    if (s->socket)
        return send(s->source.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!s->nonblock && !s->regular)
        size = MIN(size, (u32)PIPE_BUF);
    return write(s->source.fd, data, size);
}

/* Guest -> outside. Returns whether the position moved. */
static bool pump_out(struct broker *b, struct stream *s)
{
    static u8 buffer[RING_SIZE];
    u32 head = b->guest.ring[s->ring].pos, start = s->pos;
    if (head - s->pos > RING_SIZE) { /* nonsense */
        bool first = !s->closed;
        if (first)
            stream_close(b, s);
        return first;
    }
    while (s->pos != head && !s->armed) {
        u32 at = s->pos % RING_SIZE, n = MIN(head - s->pos, RING_SIZE - at);
        if (s->closed) {
            s->pos = head; /* nobody reads any more */
            break;
        }
        if (!stream_ready(s)) {
            stream_arm(b, s);
            if (s->armed)
                break;
        }
        u64 room = limits_output_room(b);
        if (!room) {
            end_sandbox(b, 153, "wrote more than %llu bytes of output; the sandbox was killed",
                            (unsigned long long)b->limits.output_max);
            break;
        }
        n = MIN(n, room);
        if (pread(b->r_fd, buffer, n, R_RINGS + (u64)s->ring * RING_SIZE + at) != (ssize_t)n)
            break;
        ssize_t w = stream_write(s, buffer, n);
        if (w > 0) {
            s->pos += w;
            b->limits.output += w;
        } else if (w < 0 && errno == EAGAIN) {
            stream_arm(b, s);
            if (!s->pollable)
                break;
        } else if (w < 0 && errno != EINTR) {
            s->error = errno == EPIPE || errno == EIO ? 0 : errno; /* a reader that left is its own business */
            stream_close(b, s);
        }
    }
    if (!s->closed && s->pos == head && (b->guest.ring[s->ring].flags & RING_CLOSED))
        stream_close(b, s);
    if (s->pos != start && (head - start == RING_SIZE || (b->guest.ring[s->ring].flags & RING_WAITING)))
        b->event_due = true;
    return s->pos != start;
}

/* Outside -> guest, as far as the guest wants. */
static bool pump_in(struct broker *b, struct stream *s)
{
    static u8 buffer[RING_SIZE];
    u32 tail = b->guest.ring[s->ring].pos, want = b->guest.ring[s->ring].want, start = s->pos;
    if (s->pos - tail > RING_SIZE || (b->guest.ring[s->ring].flags & RING_CLOSED)) {
        stream_close(b, s); /* nonsense, or nobody inside reads */
        return true;
    }
    while (!s->closed && !s->armed && (s32)(want - s->pos) > 0) {
        u32 room = RING_SIZE - (s->pos - tail), at = s->pos % RING_SIZE;
        u32 n = MIN(MIN(room, want - s->pos), RING_SIZE - at);
        if (!n)
            break;
        if (!stream_ready(s)) {
            stream_arm(b, s);
            if (s->armed)
                break;
        }
        ssize_t got = s->socket ? recv(s->source.fd, buffer, n, MSG_DONTWAIT) : read(s->source.fd, buffer, n);
        if (got > 0) {
            pwrite(b->r_fd, buffer, got, R_RINGS + (u64)s->ring * RING_SIZE + at);
            s->pos += got;
            b->event_due = true;
            if (!s->regular)
                break; /* hand over what there is */
        } else if (got < 0 && errno == EAGAIN) {
            stream_arm(b, s);
            break;
        } else if (got == 0 || errno != EINTR) {
            stream_close(b, s); /* end of input, or EIO of a terminal that hung up */
        }
    }
    return s->pos != start;
}

static void stream_publish(struct broker *b, struct stream *s, u32 old_flags)
{
    if (s->written == s->pos && s->flags == old_flags)
        return;
    u32 both[2] = { s->pos, s->flags };
    pwrite(b->r_fd, both, 8, R_CONTROL_BROKER + offsetof(struct r_control_broker, ring) + s->ring * 8);
    s->written = s->pos;
    if (s->flags != old_flags && !(b->guest.ring[s->ring].flags & RING_CLOSED)) /* else it was the guest who closed */
        b->event_due = true;
}

/* Moves what can be moved. Called with a fresh copy of the guest's page; copies it again as long as there is progress.
 * Returns whether to come back soon: a guest rings only when all had been consumed, so what is left must not be forgotten. */
bool rings_pump(struct broker *b)
{
    bool progress;
    int rounds = 16; /* others want to be served too; the loop comes back */
    do {
        progress = false;
        for (u32 i = 0; i < BROKER_SESSION_MAX; i++) {
            struct session *s = &b->sessions[i];
            if (s->state < SESSION_MAILED)
                continue;
            if (!s->rings_live) {
                if (s->state == SESSION_EXITED || (s32)(b->guest.mail_done - s->mail_seq) < 0)
                    continue;
                s->rings_live = true;
            }
            for (u32 k = 0; k < 3; k++) {
                struct stream *st = &s->stream[k];
                if (st->ring == ~0u || (st->closed && st->in))
                    continue;
                u32 flags = st->flags;
                progress |= st->in ? pump_in(b, st) : pump_out(b, st);
                stream_publish(b, st, flags);
            }
        }
        if (progress && guest_refresh(b) < 0)
            break;
    } while (progress && --rounds);
    return progress;
}

/* ---- sessions ---- */

struct session *session_find(struct broker *b, u32 id)
{
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++)
        if (b->sessions[i].state != SESSION_FREE && b->sessions[i].id == id)
            return &b->sessions[i];
    return NULL;
}

/* The session the sandbox was made for, NULL before it starts and after it ended. */
struct session *session_main(struct broker *b)
{
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++)
        if (b->sessions[i].main && b->sessions[i].state != SESSION_FREE && b->sessions[i].state != SESSION_EXITED)
            return &b->sessions[i];
    return NULL;
}

/* Strings of a ctl_run: cwd, then argc + envc strings; all inside `size`. */
static int check_run(const struct ctl_run *run, u32 size)
{
    const char *base = (const char *)run;
    if (size < sizeof(*run) || run->cwd_off < sizeof(*run) || run->cwd_off >= size || run->strings_off < sizeof(*run) ||
        run->strings_off > size || run->argc == 0 || run->argc > 65536 || run->envc > 65536)
        return -EINVAL;
    if (!memchr(base + run->cwd_off, 0, size - run->cwd_off) || run->user_off < sizeof(*run) || run->user_off >= size ||
        !memchr(base + run->user_off, 0, size - run->user_off))
        return -EINVAL;
    u32 at = run->strings_off;
    for (u32 i = 0; i < run->argc + run->envc; i++) {
        const char *end = at < size ? memchr(base + at, 0, size - at) : NULL;
        if (!end)
            return -EINVAL;
        at = end + 1 - base;
    }
    return 0;
}

/* Its i-th stream, which has a ring if it has a descriptor; a terminal's second output is its first. Takes the descriptor. */
static void session_stream(struct broker *b, struct session *s, u32 i, int fd, u32 ring)
{
    struct stream *st = &s->stream[i];
    bool used = fd >= 0 && !(s->tty && i == 2);
    if (!used && fd >= 0)
        close(fd);
    stream_init(st, used ? fd : -1, i == 0);
    st->session = s;
    st->ring = used ? ring : ~0u;
    if (used)
        pwrite(b->r_fd, (u32[2]){ 0 }, 8, R_CONTROL_BROKER + offsetof(struct r_control_broker, ring) + ring * 8);
}

/* Takes the descriptors over (also on failure); fds may be -1. */
int session_start(struct broker *b, struct client *c, const struct ctl_run *run, u32 size, int fds[3])
{
    struct session *s = NULL;
    u32 index = 0;
    int result = check_run(run, size);
    u32 strings = size - run->strings_off, cwd = result ? 0 : strlen((char *)run + run->cwd_off) + 1;
    u32 user = result ? 0 : strlen((char *)run + run->user_off) + 1;
    u32 total = sizeof(struct mail_spawn) + cwd + user + strings;
    if (!result && total > MAIL_SIZE)
        result = -E2BIG;
    for (u32 i = b->unattached; !result && !s && i < BROKER_SESSION_MAX; i++) /* the first one belongs to what comes back */
        if (b->sessions[i].state == SESSION_FREE)
            s = &b->sessions[index = i];
    struct mail_spawn *mail = !result && s ? calloc(1, total) : NULL;
    if (!mail) {
        for (u32 i = 0; i < 3; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        return result ? result : -EAGAIN;
    }
    *s = (struct session){ .state = SESSION_QUEUED, .id = ++b->session_next, .client = c, .main = run->flags & CTL_RUN_MAIN,
                            .tty = run->flags & CTL_RUN_TTY };
    c->session = s;
    for (u32 i = 0; i < 3; i++)
        session_stream(b, s, i, fds[i], index * 3 + i);
    *mail = (struct mail_spawn){
        .h = { .type = MAIL_SPAWN, .size = total }, .session = s->id,
        .flags = (s->tty ? SPAWN_TTY : 0) | (s->main ? SPAWN_MAIN : 0), .user_off = sizeof(*mail) + cwd,
        .ring_in = s->stream[0].ring, .ring_out = s->stream[1].ring, .ring_err = s->stream[2].ring,
        .rows = run->rows, .cols = run->cols, .xpixel = run->xpixel, .ypixel = run->ypixel,
        .argc = run->argc, .envc = run->envc, .cwd_off = sizeof(*mail), .strings_off = sizeof(*mail) + cwd + user,
    };
    memcpy((char *)mail + mail->cwd_off, (char *)run + run->cwd_off, cwd);
    memcpy((char *)mail + mail->user_off, (char *)run + run->user_off, user);
    memcpy((char *)mail + mail->strings_off, (char *)run + run->strings_off, strings);
    bool posted = mail_post(b, s, mail, total);
    free(mail);
    if (!posted) {
        for (u32 i = 0; i < 3; i++)
            stream_close(b, &s->stream[i]);
        s->state = SESSION_FREE;
        c->session = NULL;
    }
    return posted ? 0 : -EAGAIN;
}

/* The main session of a sandbox that comes back: it has the first rings, as in the one the snapshot was made of. Takes the descriptors. */
int session_attach(struct broker *b, struct client *c, const struct ctl_attach *a, u32 size, int fds[3])
{
    struct session *s = &b->sessions[0];
    u32 env = size - sizeof(*a), total = sizeof(struct mail_attach) + env;
    struct mail_attach *m = total <= MAIL_SIZE ? calloc(1, total) : NULL;
    *s = (struct session){ .state = SESSION_QUEUED, .id = ++b->session_next, .client = c, .main = true, .tty = a->flags & CTL_RUN_TTY };
    c->session = s;
    for (u32 i = 0; i < 3; i++)
        session_stream(b, s, i, fds[i], i);
    b->unattached = false;
    if (b->config->timeout_ms)
        b->deadline_ns = monotonic_ns() + b->config->timeout_ms * 1000000ul;
    if (!m)
        return -ENOMEM;
    *m = (struct mail_attach){ .h = { .type = MAIL_ATTACH, .size = total }, .session = s->id, .flags = s->tty ? SPAWN_TTY : 0,
                               .ring_in = s->stream[0].ring, .ring_out = s->stream[1].ring, .ring_err = s->stream[2].ring, .rows = a->rows,
                               .cols = a->cols, .xpixel = a->xpixel, .ypixel = a->ypixel };
    memcpy(m + 1, a + 1, env);
    bool posted = mail_post_first(b, s, m, total);
    free(m);
    return posted ? 0 : -ENOMEM;
}

void session_signal(struct broker *b, struct session *s, u32 signal)
{
    if (s && s->state == SESSION_EXITED)
        return;
    struct mail_signal mail = { .h = { .type = MAIL_SIGNAL, .size = sizeof(mail) }, .session = s ? s->id : ~0u,
                                .signal = signal };
    mail_post(b, NULL, &mail, sizeof(mail));
}

void session_exit(struct broker *b, struct session *s, u32 status)
{
    if (s->state == SESSION_EXITED)
        return;
    s->state = SESSION_EXITED;
    s->status = status;
    if (s->stream[0].source.fd >= 0)
        stream_close(b, &s->stream[0]);
    if (s->main)
        spawn_kill(b);
}

/* What the program believed to be written was not: it must not look like success. */
static bool report_lost_output(struct broker *b, struct session *s)
{
    u32 sig = s->status & 0x7f, status = sig ? 128 + sig : s->status >> 8 & 0xff;
    struct stream *lost = s->stream[1].error ? &s->stream[1] : s->stream[2].error ? &s->stream[2] : NULL;
    if (!lost)
        return false;
    status = status ? status : 125;
    client_say(s->client, CTL_ERROR, status, "output was lost: standard %s: %s", lost == &s->stream[1] ? "output" : "error",
               strerror(lost->error));
    if (s->main)
        b->status = status;
    return true;
}

/* Out rings of an exited session are empty: its client learns the status. */
void sessions_settle(struct broker *b)
{
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++) {
        struct session *s = &b->sessions[i];
        if (s->state != SESSION_EXITED)
            continue;
        bool drained = true;
        for (u32 k = 1; k < 3; k++) {
            struct stream *st = &s->stream[k];
            if (st->ring != ~0u && !st->closed && s->rings_live && b->guest.ring[st->ring].pos != st->pos)
                drained = false;
        }
        if (!drained)
            continue;
        for (u32 k = 0; k < 3; k++) { /* whoever still writes there inside is told */
            u32 flags = s->stream[k].flags;
            if (s->stream[k].ring == ~0u)
                continue;
            stream_close(b, &s->stream[k]);
            stream_publish(b, &s->stream[k], flags);
        }
        if (s->main) {
            u32 sig = s->status & 0x7f;
            b->status = sig ? 128 + (int)sig : (int)(s->status >> 8 & 0xff);
            b->main_done = true;
        }
        if (s->client) {
            if (!report_lost_output(b, s))
                client_number(s->client, CTL_EXITED, s->status);
            s->client->session = NULL;
        }
        s->state = SESSION_FREE;
    }
}
