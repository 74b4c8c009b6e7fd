/* The socket layer: creation, file operations, listening and accepting, SOL_SOCKET options. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <asm/ioctls.h>
#include <asm/socket.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "net/sock.h"

#define SEC 1000000000ull
#define CLOCK_MONO 1
#define BUF_MIN 2304u
#define BUF_MAX (4u << 20)

void cred_now(struct ucred *c)
{
    const struct cred *k = current_cred();
    c->pid = current_tgid();
    c->uid = k->euid;
    c->gid = k->egid;
}

/* ---- life ---- */

struct sock *sock_alloc(u16 family, u8 type, int protocol, const struct proto *p)
{
    struct sock *s = knew(struct sock);
    if (!s)
        return NULL;
    s->refs = 1;
    s->family = family;
    s->type = type;
    s->protocol = protocol;
    s->proto = p;
    s->rcvbuf = s->sndbuf = SOCK_BUF_DEFAULT;
    s->rcvlowat = 1;
    return s;
}

void sock_put(struct sock *s)
{
    if (atomic_sub(&s->refs, 1))
        return;
    if (s->proto->destroy) /* first: the collector of descriptors looks into the queues of all it finds */
        s->proto->destroy(s);
    recs_free(s);
    kfree(s);
}

/* ---- sleeping ---- */

void sock_wake(struct sock *s, u32 events)
{
    atomic_add(&s->seq, 1);
    if (waitq_active(&s->wait))
        wake_up_all(&s->wait, events);
}

u64 sock_deadline(u64 timeo, u32 flags)
{
    if (flags & MSG_DONTWAIT)
        return 0;
    return timeo ? call_deadline(timeo) : NO_DEADLINE;
}

long sock_sleep_seq(struct sock *s, u64 deadline, u32 seq)
{
    long r = 0;

    mutex_unlock(&s->lock);
    wait_prepare(&s->wait);
    if (atomic_load(&s->seq) == seq)
        r = wait_sleep(deadline);
    wait_finish();
    mutex_lock(&s->lock);
    if (r == -ETIMEDOUT)
        return -EAGAIN;
    if (r == -EINTR && deadline == NO_DEADLINE)
        return -ERESTARTSYS; /* with a time-out a restart would start it anew: EINTR, as on Linux */
    return r;
}

long sock_sleep(struct sock *s, u64 deadline) { return sock_sleep_seq(s, deadline, atomic_load(&s->seq)); }

int sock_take_err(struct sock *s) { return -atomic_xchg(&s->err, 0); }

/* ---- file operations ---- */

static long sock_read(struct file *f, struct uio *u, u64 *pos)
{
    struct msg m = {.u = u, .flags = f->flags & O_NONBLOCK ? MSG_DONTWAIT : 0};
    struct sock *s = f->priv;

    (void)pos;
    if (!s->proto->recv)
        return -EINVAL;
    long r = s->proto->recv(s, &m);
    scm_free(m.scm);
    return r;
}

static long sock_write(struct file *f, struct uio *u, u64 *pos)
{
    struct msg m = {.u = u, .flags = f->flags & O_NONBLOCK ? MSG_DONTWAIT : 0};

    (void)pos;
    return socket_send(f->priv, &m);
}

/* A unix receiver with SO_PASSCRED learns who sent. */
static long implicit_cred(struct sock *s, struct scm **scm)
{
    if (s->family != AF_UNIX || (*scm && (*scm)->has_cred))
        return 0;
    struct sock *p = atomic_load(&s->peer); /* a stream's is fixed; a datagram's may change: then decided by the old one */
    if (!s->passcred && !(s->type != SOCK_DGRAM && p && p->passcred) && s->type != SOCK_DGRAM)
        return 0;
    if (!*scm && !(*scm = knew(struct scm)))
        return -ENOMEM;
    (*scm)->has_cred = true;
    cred_now(&(*scm)->cred);
    return 0;
}

long socket_send(struct sock *s, struct msg *m)
{
    long r = implicit_cred(s, &m->scm);
    if (!r)
        r = s->proto->send(s, m);
    scm_free(m->scm); /* what was queued is no longer in m */
    m->scm = NULL;
    return r;
}

static u32 poll_listen(struct sock *s) { return s->accept_count ? EPOLLIN | EPOLLRDNORM : 0; }

static u32 poll_stream(struct sock *s)
{
    u32 ev = 0;
    bool closed = s->state == SOCK_CLOSED || s->state == SOCK_NEW;

    if (ring_len(&s->rx) || s->peer_fin || s->rx_shut)
        ev |= EPOLLIN | EPOLLRDNORM;
    if (s->peer_fin || s->rx_shut)
        ev |= EPOLLRDHUP;
    if (closed || (s->tx_shut && (s->peer_fin || s->rx_shut)) || (s->family == AF_UNIX && s->peer_fin && s->peer->dead))
        ev |= EPOLLHUP;
    if (closed || s->tx_shut || stream_writable(s))
        ev |= EPOLLOUT | EPOLLWRNORM;
    return ev;
}

static u32 poll_dgram(struct sock *s)
{
    u32 ev = 0;
    struct sock *p = s->family == AF_UNIX ? s->peer : NULL;
    bool pair = p && p->peer == s;

    if (s->rec_count || s->rx_shut || s->peer_fin)
        ev |= EPOLLIN | EPOLLRDNORM;
    if (s->rx_shut || s->peer_fin)
        ev |= EPOLLRDHUP;
    if ((s->rx_shut && s->tx_shut) || (s->type == SOCK_SEQPACKET && (s->state == SOCK_NEW || s->peer_fin)))
        ev |= EPOLLHUP;
    /* Only a pair is told when its peer drains; others must not wait for that. */
    if (!pair || ring_len(&p->rx) + p->rec_count * 256u < p->rcvbuf)
        ev |= EPOLLOUT | EPOLLWRNORM;
    return ev;
}

static u32 sock_poll(struct file *f, struct poll_table *pt)
{
    struct sock *s = f->priv;

    poll_wait(f, &s->wait, pt);
    mutex_lock(&s->lock);
    u32 ev = s->state == SOCK_LISTEN ? poll_listen(s) : s->type == SOCK_STREAM ? poll_stream(s) : poll_dgram(s);
    if (s->err)
        ev |= EPOLLERR | (s->type == SOCK_STREAM ? EPOLLIN | EPOLLRDNORM : 0);
    mutex_unlock(&s->lock);
    return ev;
}

static long sock_inq(struct sock *s)
{
    mutex_lock(&s->lock);
    long n;
    if (s->state == SOCK_LISTEN)
        n = -EINVAL;
    else if (s->type == SOCK_STREAM)
        n = ring_len(&s->rx);
    else
        n = s->rec_count ? first_rec(s)->size : 0;
    mutex_unlock(&s->lock);
    return n;
}

static long sock_ioctl(struct file *f, u32 cmd, u64 arg)
{
    struct sock *s = f->priv;
    long n;

    switch (cmd) {
    case FIONREAD:
        n = sock_inq(s);
        return n < 0 ? n : put_user((s32)n, arg);
    case TIOCOUTQ:
        n = s->type == SOCK_STREAM && s->peer ? (long)ring_len(&s->peer->rx) : 0;
        return put_user((s32)n, arg);
    case 0x8905: /* SIOCATMARK */
        if (s->type == SOCK_DGRAM && s->family != AF_UNIX)
            return -ENOTTY;
        return put_user((s32)0, arg);
    }
    return if_ioctl(s, cmd, arg);
}

static void sock_release(struct file *f)
{
    struct sock *s = f->priv, *child;

    if (!s)
        return;
    poll_file_gone(f);
    mutex_lock(&s->lock);
    s->dead = true;
    s->file = NULL;
    mutex_unlock(&s->lock);
    if (s->proto->release)
        s->proto->release(s);
    for (;;) { /* connections nobody accepted */
        mutex_lock(&s->lock);
        child = list_first(&s->accept_queue, struct sock, accept_link);
        if (child) {
            list_del(&child->accept_link);
            s->accept_count--;
        }
        mutex_unlock(&s->lock);
        if (!child)
            break;
        child->dead = true;
        child->abort = true;
        child->proto->release(child);
        sock_put(child);
    }
    sock_wake(s, EPOLLIN | EPOLLOUT | EPOLLHUP);
    bool gc = s->family == AF_UNIX;
    sock_put(s);
    if (gc)
        unix_gc();
}

static const struct file_ops sock_fops = {
    .read = sock_read,
    .write = sock_write,
    .poll = sock_poll,
    .ioctl = sock_ioctl,
    .release = sock_release,
};

struct sock *file_sock(struct file *f) { return f->ops == &sock_fops ? f->priv : NULL; }

struct file *sock_file(struct sock *s, u32 flags)
{
    struct file *f = file_anon(&sock_fops, s, "socket:", S_IFSOCK | 0777, O_RDWR | (flags & O_NONBLOCK));
    if (IS_ERR(f)) {
        if (s->proto->release)
            s->proto->release(s);
        sock_put(s);
    } else {
        s->file = f;
    }
    return f;
}

/* ---- creation ---- */

static long sock_new(int family, int type, int protocol, struct sock **s)
{
    switch (family) {
    case AF_UNIX:
        return unix_create(type, protocol, s);
    case AF_INET:
    case AF_INET6:
        return inet_create(family, type, protocol, s);
    case AF_NETLINK:
        return netlink_create(type, protocol, s);
    case AF_PACKET:
        return -EPERM;
    }
    return family < 0 || family >= AF_MAX ? -EAFNOSUPPORT : -EAFNOSUPPORT;
}

long socket_new(int family, int type, int protocol, struct file **out)
{
    struct sock *s;

    if (type & ~(SOCK_TYPE_MASK | SOCK_CLOEXEC | SOCK_NONBLOCK) || (type & SOCK_TYPE_MASK) > 10)
        return -EINVAL;
    long r = sock_new(family, type & SOCK_TYPE_MASK, protocol, &s);
    if (r)
        return r;
    struct file *f = sock_file(s, type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    if (IS_ERR(f))
        return PTR_ERR(f);
    *out = f;
    return 0;
}

long socket_pair(int family, int type, int protocol, struct file *out[2])
{
    long r = socket_new(family, type, protocol, &out[0]);
    if (r)
        return r;
    if (family != AF_UNIX) {
        file_put(out[0]);
        return -EOPNOTSUPP;
    }
    r = socket_new(family, type, protocol, &out[1]);
    if (r) {
        file_put(out[0]);
        return r;
    }
    struct sock *a = out[0]->priv, *b = out[1]->priv;
    cred_now(&a->cred);
    a->peercred = b->cred = b->peercred = a->cred;
    stream_pair(a, b);
    return 0;
}

/* ---- listening ---- */

long socket_listen(struct sock *s, int backlog)
{
    if (!s->proto->listen)
        return -EOPNOTSUPP;
    if (s->state != SOCK_NEW && s->state != SOCK_LISTEN && !(s->state == SOCK_CLOSED && s->family != AF_UNIX))
        return -EINVAL;
    if (s->state != SOCK_LISTEN) {
        long r = s->proto->listen(s);
        if (r)
            return r;
    }
    mutex_lock(&s->lock);
    s->backlog = MIN((u32)backlog, (u32)SOMAXCONN);
    cred_now(&s->cred);
    s->rx_shut = s->tx_shut = false;
    s->state = SOCK_LISTEN;
    mutex_unlock(&s->lock);
    sock_wake(s, EPOLLOUT); /* connects waiting for room in the queue */
    return 0;
}

long socket_accept(struct sock *s, u32 flags, struct sock **out)
{
    long r = 0;

    if (!s->proto->listen)
        return -EOPNOTSUPP;
    mutex_lock(&s->lock);
    u64 deadline = sock_deadline(s->rcvtimeo, flags);
    while (!s->accept_count) {
        if (s->state != SOCK_LISTEN || s->rx_shut)
            r = -EINVAL;
        else if (!deadline)
            r = -EAGAIN;
        else
            r = sock_sleep(s, deadline);
        if (r)
            break;
    }
    if (!r) {
        struct sock *child = list_first(&s->accept_queue, struct sock, accept_link);
        list_del(&child->accept_link);
        s->accept_count--;
        *out = child; /* with the queue's reference */
    }
    mutex_unlock(&s->lock);
    if (!r)
        sock_wake(s, EPOLLOUT); /* room in the queue */
    return r;
}

/* A listening TCP sock stops listening; others end directions. */
long socket_shutdown(struct sock *s, int how)
{
    if (s->state == SOCK_LISTEN) {
        if (how == SHUT_WR)
            return s->family == AF_UNIX ? 0 : -ENOTCONN;
        mutex_lock(&s->lock);
        s->rx_shut = true;
        if (s->family != AF_UNIX)
            s->state = SOCK_CLOSED; /* it can be made to listen again */
        mutex_unlock(&s->lock);
        sock_wake(s, EPOLLIN | EPOLLRDHUP | EPOLLHUP);
        return 0;
    }
    if (s->family == AF_NETLINK)
        return -EOPNOTSUPP;
    if (s->family == AF_UNIX && s->type != SOCK_DGRAM && s->state == SOCK_NEW)
        return 0;
    if (s->family == AF_UNIX ? s->type != SOCK_DGRAM : s->type == SOCK_STREAM)
        return stream_shutdown(s, how);
    if (s->family != AF_UNIX && s->state != SOCK_CONNECTED)
        return -ENOTCONN;
    mutex_lock(&s->lock);
    s->rx_shut |= how != SHUT_WR;
    s->tx_shut |= how != SHUT_RD;
    struct sock *p = how != SHUT_RD && s->peer && s->peer->peer == s ? s->peer : NULL;
    if (p)
        sock_get(p);
    mutex_unlock(&s->lock);
    sock_wake(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
    if (p) {
        mutex_lock(&p->lock);
        p->rx_shut = true; /* no one else can send to it: end of file behind what is queued */
        mutex_unlock(&p->lock);
        sock_wake(p, EPOLLIN | EPOLLRDHUP);
        sock_put(p);
    }
    return 0;
}

/* ---- SOL_SOCKET ---- */

static long opt_int(const void *val, u32 size, s32 *v)
{
    if (size < sizeof(*v))
        return -EINVAL;
    memcpy(v, val, sizeof(*v));
    return 0;
}

static u32 buf_size(s32 v) { return MAX(MIN((u32)(v < 0 ? 0 : v), BUF_MAX / 2) * 2, BUF_MIN); }

static long set_timeo(u64 *to, const void *val, u32 size)
{
    struct {
        s64 sec, usec;
    } t;

    if (size < sizeof(t))
        return -EINVAL;
    memcpy(&t, val, sizeof(t));
    if (t.usec < 0 || t.usec >= 1000000)
        return -EDOM;
    if (t.sec < 0)
        *to = 1; /* at once */
    else
        *to = (u64)t.sec > 1ull << 32 ? 0 : (u64)t.sec * SEC + (u64)t.usec * 1000;
    return 0;
}

static long set_linger(struct sock *s, const void *val, u32 size)
{
    s32 v[2];
    if (size < sizeof(v))
        return -EINVAL;
    memcpy(v, val, sizeof(v));
    s->linger_on = v[0] != 0;
    s->linger_sec = (u32)v[1];
    return 0;
}

static long set_sol_socket(struct sock *s, int opt, const void *val, u32 size)
{
    s32 v = 0;

    if (opt == SO_LINGER)
        return set_linger(s, val, size);
    if (opt == SO_RCVTIMEO_OLD || opt == SO_RCVTIMEO_NEW)
        return set_timeo(&s->rcvtimeo, val, size);
    if (opt == SO_SNDTIMEO_OLD || opt == SO_SNDTIMEO_NEW)
        return set_timeo(&s->sndtimeo, val, size);
    if (opt == SO_ATTACH_FILTER || opt == SO_ATTACH_BPF)
        return -EPERM;
    if (opt == SO_DETACH_FILTER)
        return -ENOENT;
    if (opt == SO_BINDTODEVICE)
        return size >= 2 && !memcmp(val, "lo", 2) ? 0 : size ? -ENODEV : 0;
    long r = opt_int(val, size, &v);
    if (r)
        return r;
    switch (opt) {
    case SO_REUSEADDR: s->reuseaddr = v != 0; return 0;
    case SO_REUSEPORT: s->reuseport = v != 0; return 0;
    case SO_KEEPALIVE: s->keepalive = v != 0; return 0;
    case SO_BROADCAST: s->broadcast = v != 0; return 0;
    case SO_SNDBUF: case SO_SNDBUFFORCE: s->sndbuf = MAX(buf_size(v), 4608u); return 0;
    case SO_RCVBUF: case SO_RCVBUFFORCE: s->rcvbuf = buf_size(v); return 0;
    case SO_RCVLOWAT: s->rcvlowat = v < 0 ? 0x7fffffff : v ? (u32)v : 1; return 0;
    case SO_PRIORITY: s->priority = (u32)v; return 0;
    case SO_MARK: return -EPERM;
    case SO_PASSCRED: s->passcred = v != 0; return s->family == AF_UNIX ? 0 : -EOPNOTSUPP;
    case SO_DONTROUTE: case SO_OOBINLINE: case SO_TIMESTAMP_OLD: case SO_TIMESTAMPNS_OLD: case SO_TIMESTAMPING_OLD:
    case SO_BUSY_POLL: case SO_NO_CHECK: case SO_RXQ_OVFL: case SO_INCOMING_CPU: case SO_ZEROCOPY:
        return 0;
    case SO_TYPE: case SO_PROTOCOL: case SO_DOMAIN: case SO_ERROR: case SO_ACCEPTCONN:
        return -ENOPROTOOPT;
    }
    return -ENOPROTOOPT;
}

long socket_setopt(struct sock *s, int level, int opt, const void *val, u32 size)
{
    if (level == SOL_SOCKET) {
        mutex_lock(&s->lock);
        long r = set_sol_socket(s, opt, val, size);
        mutex_unlock(&s->lock);
        return r;
    }
    return s->proto->setopt ? s->proto->setopt(s, level, opt, val, size) : -EOPNOTSUPP;
}

static long give(void *val, u32 *size, const void *src, u32 n)
{
    *size = MIN(*size, n);
    memcpy(val, src, *size);
    return 0;
}

static long get_timeo(u64 ns, void *val, u32 *size)
{
    s64 t[2] = {(s64)(ns / SEC), (s64)(ns % SEC / 1000)};
    return give(val, size, t, sizeof(t));
}

static long get_sol_socket(struct sock *s, int opt, void *val, u32 *size)
{
    s32 v, two[2];

    switch (opt) {
    case SO_TYPE: v = s->type; break;
    case SO_PROTOCOL: v = s->protocol; break;
    case SO_DOMAIN: v = s->family; break;
    case SO_ERROR: v = -sock_take_err(s); break;
    case SO_ACCEPTCONN: v = s->state == SOCK_LISTEN; break;
    case SO_REUSEADDR: v = s->reuseaddr; break;
    case SO_REUSEPORT: v = s->reuseport; break;
    case SO_KEEPALIVE: v = s->keepalive; break;
    case SO_BROADCAST: v = s->broadcast; break;
    case SO_SNDBUF: v = (s32)s->sndbuf; break;
    case SO_RCVBUF: v = (s32)s->rcvbuf; break;
    case SO_RCVLOWAT: v = (s32)s->rcvlowat; break;
    case SO_SNDLOWAT: v = 1; break;
    case SO_PRIORITY: v = (s32)s->priority; break;
    case SO_PASSCRED: v = s->passcred; break;
    case SO_DONTROUTE: case SO_OOBINLINE: case SO_TIMESTAMP_OLD: case SO_TIMESTAMPNS_OLD: case SO_MARK:
    case SO_BUSY_POLL: case SO_NO_CHECK: case SO_RXQ_OVFL: case SO_ZEROCOPY:
        v = 0;
        break;
    case SO_INCOMING_CPU: v = 0; break;
    case SO_LINGER:
        two[0] = s->linger_on;
        two[1] = (s32)s->linger_sec;
        return give(val, size, two, sizeof(two));
    case SO_RCVTIMEO_OLD: case SO_RCVTIMEO_NEW:
        return get_timeo(s->rcvtimeo, val, size);
    case SO_SNDTIMEO_OLD: case SO_SNDTIMEO_NEW:
        return get_timeo(s->sndtimeo, val, size);
    case SO_PEERCRED: {
        static const struct ucred none = {0, ~0u, ~0u};
        bool have = s->family == AF_UNIX && (s->state == SOCK_CONNECTED || s->state == SOCK_LISTEN || s->state == SOCK_CLOSED);
        return give(val, size, have ? &s->peercred : &none, sizeof(none));
    }
    default:
        return -ENOPROTOOPT;
    }
    return give(val, size, &v, sizeof(v));
}

long socket_getopt(struct sock *s, int level, int opt, void *val, u32 *size)
{
    if (level == SOL_SOCKET) {
        mutex_lock(&s->lock);
        long r = get_sol_socket(s, opt, val, size);
        mutex_unlock(&s->lock);
        return r;
    }
    return s->proto->getopt ? s->proto->getopt(s, level, opt, val, size) : -EOPNOTSUPP;
}
