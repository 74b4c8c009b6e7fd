/* Connected byte streams: AF_UNIX SOCK_STREAM and TCP. */
#include <linux/eventpoll.h>

#include "core/kmalloc.h"
#include "net/sock.h"

#define SIGPIPE 13
#define SCM_OVERHEAD 768u /* what a byte with descriptors counts, as Linux's skb does: else hundreds of thousands would fit */

/* Bytes that may lie in the peer's ring. */
u32 stream_limit(const struct sock *s, const struct sock *peer)
{
    return s->family == AF_UNIX ? s->sndbuf : MIN(s->sndbuf / 2 + peer->rcvbuf / 2, RING_MAX_BYTES / 2);
}

static u64 stream_used(const struct sock *peer) { return ring_len(&peer->rx) + (u64)peer->rec_count * SCM_OVERHEAD; }

/* Is there enough room to call it writable? Races with the peer are harmless: it wakes us when it drains. */
bool stream_writable(const struct sock *s)
{
    const struct sock *p = atomic_load(&s->peer);
    if (!p)
        return true;
    u64 used = stream_used(p), limit = stream_limit(s, p);
    return s->family == AF_UNIX ? used * 4 <= limit : used * 3 <= limit * 2;
}

void stream_pair(struct sock *a, struct sock *b)
{
    sock_get(a);
    sock_get(b);
    a->state = b->state = SOCK_CONNECTED;
    atomic_store(&a->peer, b);
    atomic_store(&b->peer, a);
}

/* Nobody will read what s sends. */
static bool unix_gone(const struct sock *s)
{
    const struct sock *p = s->family == AF_UNIX ? s->peer : NULL;
    return p && (p->dead || p->rx_shut);
}

/* The error of sending on s in its present state, or 0. s->lock not needed: flags only ever get set. A call that finds an AF_UNIX peer gone
 * gets EPIPE, and the error that the peer left stays for others; one that had to wait gets that first. */
static long send_state(struct sock *s, bool waited)
{
    if (unix_gone(s) && !waited)
        return -EPIPE;
    if (s->err) {
        long e = sock_take_err(s);
        if (e)
            return e;
    }
    if (s->tx_shut || s->state == SOCK_CLOSED || unix_gone(s))
        return -EPIPE;
    if (!s->peer)
        return s->family == AF_UNIX ? -ENOTCONN : s->state == SOCK_CONNECTING ? -EAGAIN : -EPIPE;
    return 0;
}

/* The peer's file is closed. TCP notices with the first send (answered by a reset), AF_UNIX at once. */
static long send_to_dead(struct sock *s, struct msg *m)
{
    if (s->family == AF_UNIX)
        return -EPIPE;
    long n = (long)m->u->resid;
    mutex_lock(&s->lock);
    s->err = s->peer_fin ? EPIPE : ECONNRESET;
    s->state = SOCK_CLOSED;
    mutex_unlock(&s->lock);
    sock_wake(s, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
    return n;
}

/* Marks the next n bytes of p's ring as carrying m->scm. p locked. */
static long mark_scm(struct sock *p, struct msg *m, u32 start, u32 n)
{
    struct rec *r = rec_new(NULL, 0, m->scm);
    if (!r)
        return -ENOMEM;
    scm_sent(m->scm);
    m->scm = NULL;
    r->start = start;
    r->size = n;
    list_add_tail(&p->recs, &r->link);
    p->rec_count++;
    return 0;
}

/* As long as there is any room AF_UNIX takes a small piece whole, as Linux does: so a sender that finds it full has put nothing, and is told
 * when the peer goes. Linux takes half of the buffer; an eighth does not make the ring larger. */
static u32 room_for(const struct sock *s, const struct sock *p, u64 size)
{
    u64 used = stream_used(p), limit = stream_limit(s, p);
    if (used >= limit)
        return 0;
    return (u32)MIN(size, s->family == AF_UNIX ? MAX(limit - used, limit / 8) : limit - used);
}

/* One try: bytes put, 0: no room, or an error. */
static long send_some(struct sock *s, struct sock *p, struct msg *m)
{
    long r;

    mutex_lock(&p->lock);
    if (p->dead || unix_gone(s)) {
        mutex_unlock(&p->lock);
        return send_to_dead(s, m);
    }
    u32 n = room_for(s, p, m->u->resid);
    r = n && m->scm ? scm_nest(p, m->scm) : 0;
    if (!r && n)
        r = ring_reserve(&p->rx, n);
    if (!r && n) {
        u32 start = p->rx.head;
        r = ring_put(&p->rx, m->u, n);
        if (r > 0 && m->scm) {
            long e = mark_scm(p, m, start, (u32)r);
            if (e) {
                p->rx.head = start;
                r = e;
            }
        }
    }
    mutex_unlock(&p->lock);
    if (r > 0)
        sock_wake(p, EPOLLIN | EPOLLRDNORM);
    return r;
}

long stream_send(struct sock *s, struct msg *m)
{
    u64 deadline = sock_deadline(s->sndtimeo, m->flags);
    long done = 0, r = 0;
    bool waited = false;

    if (m->flags & MSG_OOB)
        return -EOPNOTSUPP;
    if (m->addr_size && s->family == AF_UNIX)
        return s->peer ? -EISCONN : -EOPNOTSUPP;
    do {
        r = send_state(s, waited);
        if (r)
            break;
        if (!m->u->resid)
            break;
        struct sock *p = s->peer;
        r = send_some(s, p, m);
        if (r > 0) {
            done += r;
            if (p->dead)
                break;
            r = 0;
            continue;
        }
        if (r < 0)
            break;
        if (!deadline) {
            r = -EAGAIN;
            break;
        }
        mutex_lock(&s->lock);
        u32 seq = atomic_load(&s->seq); /* the reader makes room under its own lock, then counts here */
        bool full = stream_used(p) >= stream_limit(s, p) && !p->dead && !unix_gone(s) && !s->err && !s->tx_shut;
        if (full)
            r = sock_sleep_seq(s, deadline, seq);
        waited = full;
        mutex_unlock(&s->lock);
        if (r)
            break;
    } while (m->u->resid);
    if (r == -EPIPE && !done && !(m->flags & MSG_NOSIGNAL) && !(waited && s->family == AF_UNIX))
        send_signal_current(SIGPIPE);
    return done ? done : r;
}

/* ---- receiving ---- */

/* The bytes one step may take, and whose ancillary data comes with them. s locked. */
static u32 recv_span(struct sock *s, struct rec **out)
{
    u32 n = ring_len(&s->rx);
    struct rec *r = first_rec(s);

    *out = NULL;
    if (!r)
        return n;
    if (r->start != s->rx.tail)
        return r->start - s->rx.tail;
    *out = r;
    return r->size;
}

/* Hands the record's ancillary data to the caller. s locked. */
static void take_scm(struct sock *s, struct rec *r, struct msg *m, bool peek)
{
    if (peek) {
        if (m->want_meta)
            m->scm = scm_dup(r->scm);
        return;
    }
    list_del(&r->link);
    s->rec_count--;
    struct scm *scm = r->scm;
    r->scm = NULL;
    rec_free(r);
    scm_received(scm);
    m->scm = scm; /* freed by the caller even when nobody wants it */
}

/* What an empty receive queue means: 0 wait, 1 end of file, or an error. s locked. */
static long recv_state(struct sock *s)
{
    if (s->err) {
        long e = -s->err;
        s->err = 0;
        return e;
    }
    if (s->peer_fin || s->rx_shut || s->state == SOCK_CLOSED)
        return 1;
    if (s->state == SOCK_CONNECTING || s->state == SOCK_CONNECTED)
        return 0;
    return s->family == AF_UNIX ? -EINVAL : -ENOTCONN;
}

long stream_recv(struct sock *s, struct msg *m)
{
    u64 deadline = sock_deadline(s->rcvtimeo, m->flags);
    bool peek = m->flags & MSG_PEEK, trunc = (m->flags & MSG_TRUNC) && s->family != AF_UNIX;
    u64 target = m->flags & MSG_WAITALL ? m->u->resid : MIN((u64)MAX(s->rcvlowat, 1u), m->u->resid);
    u32 off = 0; /* peeked so far */
    long done = 0, r = 0;
    bool stop = false;

    if (m->flags & MSG_OOB)
        return -EINVAL;
    mutex_lock(&s->lock);
    struct sock *p = s->peer;
    bool was_full = p && !stream_writable(p);
    while (m->u->resid && !stop) {
        struct rec *rec;
        u32 span = recv_span(s, &rec);
        if (span > off) {
            u32 n = (u32)MIN(m->u->resid, (u64)(span - off));
            if (rec && m->scm)
                break; /* the next sender's ancillary data is for the next call */
            if (trunc) {
                m->u->resid -= n;
                r = n;
            } else {
                r = ring_peek(&s->rx, m->u, off, n);
            }
            if (r < 0)
                break;
            if (rec) {
                take_scm(s, rec, m, peek);
                /* Descriptors end a read; the rest of the bytes are an ordinary stream. */
                stop = true;
            }
            if (peek)
                off += (u32)r;
            else
                ring_skip(&s->rx, (u32)r);
            done += r;
            r = 0;
            continue;
        }
        if (peek && off && ring_len(&s->rx) > off)
            break;
        if ((u64)done >= target)
            break;
        r = recv_state(s);
        if (r)
            break;
        if (!deadline) {
            r = -EAGAIN;
            break;
        }
        if (!peek && p && was_full && stream_writable(p)) { /* let the sender go on while we wait for more */
            was_full = false;
            sock_wake(p, EPOLLOUT | EPOLLWRNORM);
        }
        r = sock_sleep(s, deadline);
        p = s->peer;
        was_full |= p && !stream_writable(p);
        if (r) {
            if (m->flags & MSG_WAITALL && !peek)
                call_wants_rest();
            break;
        }
    }
    bool wake = done && !peek && p && was_full && stream_writable(p);
    mutex_unlock(&s->lock);
    /* A sender may sleep on a full ring below the writable mark too: it is woken whenever the ring is empty. */
    if (p && !peek && done && (wake || !ring_len(&s->rx)))
        sock_wake(p, EPOLLOUT | EPOLLWRNORM);
    if (done || r == 1)
        return done;
    return r;
}

/* ---- ending ---- */

/* Tells p that s sends no more; `reset`: data of s was lost. */
static void send_fin(struct sock *p, bool reset)
{
    mutex_lock(&p->lock);
    if (reset && !p->peer_fin)
        p->err = ECONNRESET;
    p->peer_fin = true;
    if (reset)
        p->state = SOCK_CLOSED;
    mutex_unlock(&p->lock);
    sock_wake(p, EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLOUT | EPOLLHUP);
}

void stream_release(struct sock *s)
{
    mutex_lock(&s->lock);
    struct sock *p = s->peer;
    bool reset = s->abort || ring_len(&s->rx) != 0 || (s->linger_on && !s->linger_sec && s->family != AF_UNIX);
    mutex_unlock(&s->lock);
    if (!p)
        return;
    send_fin(p, reset);
    sock_put(p); /* s->peer stays set for the reader's sake, but is not ours any more */
}

long stream_shutdown(struct sock *s, int how)
{
    mutex_lock(&s->lock);
    struct sock *p = s->peer;
    if (!p || s->state == SOCK_CLOSED) {
        mutex_unlock(&s->lock);
        return -ENOTCONN;
    }
    if (how != SHUT_WR)
        s->rx_shut = true;
    if (how != SHUT_RD)
        s->tx_shut = true;
    mutex_unlock(&s->lock);
    if (how != SHUT_RD)
        send_fin(p, false);
    else if (s->family == AF_UNIX) /* the peer's writes fail from now on */
        sock_wake(p, EPOLLOUT | EPOLLWRNORM);
    sock_wake(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
    return 0;
}
