/* Records: datagrams, sequenced packets, and the ancillary data of streams. */
#include <linux/eventpoll.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "net/sock.h"

#define REC_OVERHEAD 256u /* what a small datagram counts against the receive buffer, as Linux's skb does */

struct rec *rec_new(const void *addr, u32 addr_size, struct scm *scm)
{
    struct rec *r = kmalloc(sizeof(*r) + addr_size);
    if (!r)
        return NULL;
    *r = (struct rec){.scm = scm, .addr_size = addr_size};
    memcpy(r->addr, addr, addr_size);
    return r;
}

void rec_free(struct rec *r)
{
    if (r->scm) {
        scm_received(r->scm);
        scm_free(r->scm);
    }
    kfree(r);
}

long dgram_queue(struct sock *to, struct rec *r, struct uio *u, u32 size)
{
    u64 used = ring_len(&to->rx) + (u64)to->rec_count * REC_OVERHEAD;

    if (to->rec_count && used + size > to->rcvbuf)
        return -EAGAIN;
    long e = size ? ring_reserve(&to->rx, size) : 0;
    if (e)
        return e;
    r->start = to->rx.head;
    r->size = size;
    if (size) {
        e = ring_put(&to->rx, u, size);
        if (e < (long)size) {
            to->rx.head = r->start;
            return -EFAULT;
        }
    }
    if (r->scm)
        scm_sent(r->scm);
    list_add_tail(&to->recs, &r->link);
    to->rec_count++;
    return size;
}

void recs_free(struct sock *s)
{
    struct rec *r;
    while ((r = first_rec(s))) {
        list_del(&r->link);
        rec_free(r);
    }
    s->rec_count = 0;
    ring_free(&s->rx);
}

static long dgram_wait(struct sock *s, u64 deadline)
{
    for (;;) {
        if (s->err) { /* before what is queued, as on Linux */
            long e = -s->err;
            s->err = 0;
            return e;
        }
        if (s->rec_count)
            return 0;
        if (s->rx_shut || s->peer_fin)
            return 1;
        if (!deadline)
            return -EAGAIN;
        long r = sock_sleep(s, deadline);
        if (r)
            return r;
    }
}

long dgram_recv(struct sock *s, struct msg *m)
{
    bool peek = m->flags & MSG_PEEK;

    if (m->flags & MSG_OOB)
        return -EOPNOTSUPP;
    if (s->type == SOCK_SEQPACKET && s->state != SOCK_CONNECTED && s->state != SOCK_CLOSED)
        return -ENOTCONN;
    mutex_lock(&s->lock);
    long e = dgram_wait(s, sock_deadline(s->rcvtimeo, m->flags));
    if (e) {
        mutex_unlock(&s->lock);
        return e == 1 ? 0 : e;
    }
    struct rec *r = first_rec(s);
    u32 size = r->size, n = (u32)MIN((u64)size, m->u->resid);
    long got = n ? ring_peek(&s->rx, m->u, 0, n) : 0;
    if (got < 0) {
        mutex_unlock(&s->lock);
        return got;
    }
    m->addr_size = MIN(r->addr_size, ADDR_MAX);
    memcpy(m->addr, r->addr, m->addr_size);
    if (s->family == AF_INET || s->family == AF_INET6) { /* behind the source, see udp_send */
        memcpy(m->pktinfo_addr, r->addr + r->addr_size, sizeof(m->pktinfo_addr));
        m->hops = r->addr[r->addr_size + 16];
        m->tclass = r->addr[r->addr_size + 17];
    }
    if (peek) {
        m->scm = m->want_meta && r->scm ? scm_dup(r->scm) : NULL;
    } else {
        ring_skip(&s->rx, size);
        list_del(&r->link);
        s->rec_count--;
        m->scm = r->scm;
        r->scm = NULL;
        kfree(r);
        if (m->scm)
            scm_received(m->scm);
        if (!s->rec_count && s->rx.cap > 4096)
            ring_trim(&s->rx);
    }
    struct sock *p = s->family == AF_UNIX ? s->peer : NULL;
    if (p)
        sock_get(p);
    mutex_unlock(&s->lock);
    if (n < size)
        m->out_flags |= MSG_TRUNC;
    if (s->type == SOCK_SEQPACKET)
        m->out_flags |= MSG_EOR;
    if (s->family == AF_UNIX && !peek) { /* senders wait on their own sock (a pair) or on ours */
        sock_wake(s, EPOLLOUT | EPOLLWRNORM);
        if (p)
            sock_wake(p, EPOLLOUT | EPOLLWRNORM);
    }
    if (p)
        sock_put(p);
    return m->flags & MSG_TRUNC ? (long)size : (long)n;
}
