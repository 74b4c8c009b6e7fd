/* AF_INET and AF_INET6 over the loopback: addresses, ports, TCP connections, UDP datagrams.
 *
 * How it works: no packets. A TCP connect looks the listener up and queues a paired sock there (net/stream.c moves the
 * bytes); a UDP send looks the receiver up and queues a record. IPv4 addresses are kept as ::ffff:a.b.c.d. Local are
 * 127.0.0.0/8 and ::1; the wildcard stands for them as a destination; all else is unreachable at once.
 *
 * A bound sock is in the port hash. inet_lock guards the hash, local and remote addresses; it is outside sock locks. */
#include "net/inet.h"

#include <linux/eventpoll.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/tcp.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "net/show.h"

#define PORT_HASH 256u
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_LAST 60999u
#define UDP_MAX 65507u
#define LISTEN_QUEUE_MAX 65536u

static KSTATE struct mutex inet_lock;
static KSTATE_LARGE struct list tcp_ports[PORT_HASH], udp_ports[PORT_HASH];
static KSTATE u32 ephemeral_next;

static const u8 v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const u8 any6[16];
static const u8 loop6[16] = {[15] = 1};

/* ---- addresses ---- */

bool addr_is_v4(const u8 a[16]) { return !memcmp(a, v4_prefix, 12); }

static bool addr_is_any(const u8 a[16])
{
    return !memcmp(a, any6, 16) || (addr_is_v4(a) && !memcmp(a + 12, any6, 4));
}

static bool addr_is_local(const u8 a[16]) { return addr_is_v4(a) ? a[12] == 127 : !memcmp(a, loop6, 16); }

static void addr_loopback(u8 a[16], bool v4)
{
    static const u8 lo4[4] = {127, 0, 0, 1};
    if (v4) {
        memcpy(a, v4_prefix, 12);
        memcpy(a + 12, lo4, 4);
    } else {
        memcpy(a, loop6, 16);
    }
}

static void addr_any(u8 a[16], bool v4)
{
    memcpy(a, any6, 16);
    if (v4)
        memcpy(a, v4_prefix, 12);
}

/* Reads a sockaddr of s's family. */
static long addr_in(const struct sock *s, const void *p, u32 size, struct inet_end *e)
{
    u16 family;

    if (size < 2)
        return -EINVAL;
    memcpy(&family, p, 2);
    if (s->family == AF_INET6 && family == AF_INET6) {
        struct sockaddr_in6 in;
        if (size < 24) /* SIN6_LEN_RFC2133 */
            return -EINVAL;
        memset(&in, 0, sizeof(in));
        memcpy(&in, p, MIN(size, (u32)sizeof(in)));
        memcpy(e->addr, &in.sin6_addr, 16);
        e->port = swap16(in.sin6_port);
        return s->in.v6only && addr_is_v4(e->addr) ? -ENETUNREACH : 0;
    }
    if (family != AF_INET && !(family == AF_UNSPEC && s->family == AF_INET))
        return -EAFNOSUPPORT;
    struct sockaddr_in in;
    if (size < sizeof(in))
        return -EINVAL;
    memcpy(&in, p, sizeof(in));
    if (family == AF_UNSPEC && in.sin_addr.s_addr)
        return -EAFNOSUPPORT;
    if (s->family == AF_INET6)
        return -EAFNOSUPPORT;
    memcpy(e->addr, v4_prefix, 12);
    memcpy(e->addr + 12, &in.sin_addr, 4);
    e->port = swap16(in.sin_port);
    return 0;
}

u32 inet_addr_out(u16 family, const struct inet_end *e, void *out)
{
    if (family == AF_INET6) {
        struct sockaddr_in6 in;
        memset(&in, 0, sizeof(in));
        in.sin6_family = AF_INET6;
        in.sin6_port = swap16(e->port);
        memcpy(&in.sin6_addr, e->addr, 16);
        memcpy(out, &in, sizeof(in));
        return sizeof(in);
    }
    struct sockaddr_in in;
    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_port = swap16(e->port);
    if (addr_is_v4(e->addr))
        memcpy(&in.sin_addr, e->addr + 12, 4);
    memcpy(out, &in, sizeof(in));
    return sizeof(in);
}

/* A destination: the wildcard means this host. 0, -ENETUNREACH. */
static long resolve_dest(struct inet_end *e)
{
    if (addr_is_any(e->addr))
        addr_loopback(e->addr, addr_is_v4(e->addr));
    return addr_is_local(e->addr) ? 0 : -ENETUNREACH;
}

/* ---- ports ---- */

static struct list *port_bucket(const struct sock *s, u16 port)
{
    return s->type == SOCK_STREAM ? &tcp_ports[port % PORT_HASH] : &udp_ports[port % PORT_HASH];
}

/* Could both receive the same traffic? */
static bool overlap(const struct sock *s, const u8 addr[16], const struct sock *o)
{
    const u8 *b = o->in.local.addr;
    bool a6 = s->family == AF_INET6 && !addr_is_v4(addr), b6 = o->family == AF_INET6 && !addr_is_v4(b);

    if (a6 != b6) { /* only a dual-stack wildcard meets IPv4 */
        const struct sock *six = a6 ? s : o;
        const u8 *sa = a6 ? addr : b;
        return !six->in.v6only && addr_is_any(sa);
    }
    return addr_is_any(addr) || addr_is_any(b) || !memcmp(addr, b, 16);
}

static bool may_share(const struct sock *s, const struct sock *o)
{
    if (s->reuseport && o->reuseport && s->cred.uid == o->cred.uid)
        return true;
    if (!s->reuseaddr || !o->reuseaddr)
        return false;
    return s->type != SOCK_STREAM || o->state != SOCK_LISTEN;
}

static bool port_taken(const struct sock *s, const u8 addr[16], u16 port, bool strict)
{
    struct sock *o;

    list_for_each(o, port_bucket(s, port), in.ports)
        if (o != s && o->in.local.port == port && overlap(s, addr, o) && (strict || !may_share(s, o)))
            return true;
    return false;
}

static void port_enter(struct sock *s, const struct inet_end *e)
{
    s->in.local = *e;
    s->in.bound = true;
    list_add(port_bucket(s, e->port), &s->in.ports);
}

/* inet_lock held. */
static long bind_ephemeral(struct sock *s, struct inet_end *e)
{
    u32 span = EPHEMERAL_LAST - EPHEMERAL_FIRST + 1;

    if (!ephemeral_next)
        ephemeral_next = (u32)(host_clock(1) >> 10);
    for (u32 i = 0; i < span; i++) {
        u16 port = (u16)(EPHEMERAL_FIRST + ephemeral_next++ % span);
        if (port_taken(s, e->addr, port, true))
            continue;
        e->port = port;
        port_enter(s, e);
        return 0;
    }
    return -EADDRINUSE;
}

static long inet_bind(struct sock *s, const void *addr, u32 size)
{
    struct inet_end e;
    long r = addr_in(s, addr, size, &e);

    if (r)
        return r == -ENETUNREACH ? -EINVAL : r;
    if (!addr_is_any(e.addr) && !addr_is_local(e.addr) && !s->in.freebind)
        return -EADDRNOTAVAIL;
    if (e.port && e.port < 1024 && !capable(10)) /* CAP_NET_BIND_SERVICE */
        return -EACCES;
    cred_now(&s->cred);
    mutex_lock(&inet_lock);
    if (s->in.bound || s->state != SOCK_NEW)
        r = -EINVAL;
    else if (!e.port)
        r = bind_ephemeral(s, &e);
    else if (port_taken(s, e.addr, e.port, false))
        r = -EADDRINUSE;
    else
        port_enter(s, &e);
    mutex_unlock(&inet_lock);
    return r;
}

/* inet_lock held: a port for a sock that has none. */
static long autobind_locked(struct sock *s)
{
    struct inet_end e;

    if (s->in.bound)
        return 0;
    addr_any(e.addr, s->family == AF_INET);
    cred_now(&s->cred);
    return bind_ephemeral(s, &e);
}

static long inet_listen(struct sock *s)
{
    mutex_lock(&inet_lock);
    long r = autobind_locked(s);
    struct sock *o;
    if (!r && !(s->reuseport)) /* two binds with SO_REUSEADDR: only one may listen */
        list_for_each(o, port_bucket(s, s->in.local.port), in.ports)
            if (o != s && o->in.local.port == s->in.local.port && o->state == SOCK_LISTEN && !o->reuseport &&
                overlap(s, s->in.local.addr, o))
                r = -EADDRINUSE;
    mutex_unlock(&inet_lock);
    return r;
}

static u32 inet_name(struct sock *s, bool peer, void *addr)
{
    if (peer && s->state != SOCK_CONNECTED && s->state != SOCK_CONNECTING)
        return 0;
    mutex_lock(&inet_lock);
    struct inet_end e = peer ? s->in.remote : s->in.local;
    mutex_unlock(&inet_lock);
    if (peer && !e.port)
        return 0;
    return inet_addr_out(s->family, &e, addr);
}

/* How well o fits as receiver for (dst, src): 0 not at all. */
static u32 match(const struct sock *o, const struct inet_end *dst, const struct inet_end *src)
{
    bool v4 = addr_is_v4(dst->addr);
    u32 score = 1;

    if (o->in.local.port != dst->port || o->dead)
        return 0;
    if (v4 ? o->family == AF_INET6 && o->in.v6only : o->family == AF_INET)
        return 0;
    if (!addr_is_any(o->in.local.addr)) {
        if (memcmp(o->in.local.addr, dst->addr, 16))
            return 0;
        score += 2;
    } else if (!v4 && addr_is_v4(o->in.local.addr)) {
        return 0;
    }
    if (o->type == SOCK_DGRAM && o->in.remote.port) {
        if (o->in.remote.port != src->port || memcmp(o->in.remote.addr, src->addr, 16))
            return 0;
        score += 4;
    }
    return score + (o->family == AF_INET ? 1 : 0);
}

/* The best receiver, referenced; among equals (SO_REUSEPORT) by the source port. inet_lock held. */
static struct sock *find_receiver(const struct sock *s, const struct inet_end *dst, const struct inet_end *src)
{
    struct sock *o, *best = NULL;
    u32 best_score = 0, equals = 0;

    list_for_each(o, port_bucket(s, dst->port), in.ports) {
        if (s->type == SOCK_STREAM && o->state != SOCK_LISTEN)
            continue;
        u32 score = match(o, dst, src);
        if (!score || score < best_score)
            continue;
        equals = score == best_score ? equals + 1 : 1;
        best_score = score;
        if (equals == 1 || src->port % equals == 0)
            best = o;
    }
    return best && sock_get_live(best) ? best : NULL;
}

/* ---- TCP ---- */

static struct sock *tcp_child(const struct sock *l, const struct inet_end *local, const struct inet_end *remote)
{
    struct sock *c = sock_alloc(l->family, SOCK_STREAM, IPPROTO_TCP, l->proto);
    if (!c)
        return NULL;
    c->in.local = *local;
    c->in.remote = *remote;
    c->in.v6only = l->in.v6only;
    c->in.tcp_nodelay = l->in.tcp_nodelay;
    c->in.keepidle = l->in.keepidle;
    c->in.keepintvl = l->in.keepintvl;
    c->in.keepcnt = l->in.keepcnt;
    c->in.mc_loop = c->in.mc_ttl = 1;
    c->reuseaddr = l->reuseaddr;
    c->reuseport = l->reuseport;
    c->keepalive = l->keepalive;
    c->linger_on = l->linger_on;
    c->linger_sec = l->linger_sec;
    c->rcvbuf = l->rcvbuf;
    c->sndbuf = l->sndbuf;
    c->cred = l->cred;
    return c;
}

/* Queues a paired child at the listener. inet_lock held. */
static long tcp_establish(struct sock *s, struct sock *l, const struct inet_end *dst)
{
    struct inet_end src = s->in.local;

    if (addr_is_any(src.addr))
        memcpy(src.addr, dst->addr, 16);
    if (addr_is_v4(dst->addr) && s->family == AF_INET6)
        memcpy(src.addr, v4_prefix, 12);
    struct sock *c = tcp_child(l, dst, &src);
    if (!c)
        return -ENOMEM;
    long r = 0;
    mutex_lock(&l->lock);
    if (l->state != SOCK_LISTEN || l->dead) {
        r = -ECONNREFUSED;
    } else if (l->accept_count >= LISTEN_QUEUE_MAX) {
        r = -ENOBUFS;
    } else {
        mutex_lock(&s->lock); /* listener > connecting sock */
        s->in.local.port = src.port;
        memcpy(s->in.local.addr, src.addr, 16);
        s->in.remote = *dst;
        stream_pair(s, c);
        mutex_unlock(&s->lock);
        list_add_tail(&l->accept_queue, &c->accept_link);
        l->accept_count++;
        sock_get(c);
        list_add(port_bucket(c, c->in.local.port), &c->in.ports);
        c->in.bound = true;
    }
    mutex_unlock(&l->lock);
    sock_put(c);
    return r;
}

/* A second connect on the same sock. */
static long connect_again(struct sock *s)
{
    mutex_lock(&s->lock);
    long r = -EISCONN;
    if (s->state == SOCK_CONNECTING) {
        r = s->err ? -s->err : 0;
        s->err = 0;
        s->state = r ? SOCK_NEW : SOCK_CONNECTED;
    } else if (s->state == SOCK_LISTEN) {
        r = -EISCONN;
    }
    mutex_unlock(&s->lock);
    return r;
}

static long tcp_connect(struct sock *s, const void *addr, u32 size, bool nonblock)
{
    struct inet_end dst;
    long r = addr_in(s, addr, size, &dst);

    if (r)
        return r;
    if (s->state != SOCK_NEW && s->state != SOCK_CLOSED)
        return connect_again(s);
    if (s->peer)
        return -EISCONN; /* a sock whose connection has ended is not used again */
    r = resolve_dest(&dst);
    if (r)
        return r;
    mutex_lock(&inet_lock);
    r = autobind_locked(s);
    struct sock *l = r ? NULL : find_receiver(s, &dst, &s->in.local);
    if (!r)
        r = l ? tcp_establish(s, l, &dst) : -ECONNREFUSED;
    mutex_unlock(&inet_lock);
    if (l) {
        if (!r)
            sock_wake(l, EPOLLIN | EPOLLRDNORM);
        sock_put(l);
    }
    /* The answer comes at once, but a non-blocking caller learns it by poll, as with a real handshake. */
    if (nonblock && (!r || r == -ECONNREFUSED)) {
        mutex_lock(&s->lock);
        s->err = (int)-r;
        s->state = r ? SOCK_CLOSED : SOCK_CONNECTING;
        mutex_unlock(&s->lock);
        sock_wake(s, EPOLLOUT | EPOLLIN | EPOLLERR | EPOLLHUP);
        return -EINPROGRESS;
    }
    return r;
}

static void port_leave(struct sock *s)
{
    mutex_lock(&inet_lock);
    if (list_linked(&s->in.ports))
        list_del(&s->in.ports);
    s->in.bound = false;
    mutex_unlock(&inet_lock);
}

static void tcp_release(struct sock *s)
{
    port_leave(s);
    stream_release(s);
}

static long tcp_disconnect(struct sock *s)
{
    if (s->peer)
        return -EOPNOTSUPP;
    mutex_lock(&s->lock);
    s->state = SOCK_NEW;
    s->err = 0;
    mutex_unlock(&s->lock);
    return 0;
}

/* ---- UDP ---- */

static long udp_connect(struct sock *s, const void *addr, u32 size, bool nonblock)
{
    struct inet_end dst;
    long r = addr_in(s, addr, size, &dst);

    (void)nonblock;
    if (!r)
        r = resolve_dest(&dst);
    if (r)
        return r;
    mutex_lock(&inet_lock);
    r = autobind_locked(s);
    if (!r) {
        if (addr_is_any(s->in.local.addr))
            memcpy(s->in.local.addr, dst.addr, 16);
        s->in.remote = dst;
        s->state = SOCK_CONNECTED;
    }
    mutex_unlock(&inet_lock);
    return r;
}

static long udp_disconnect(struct sock *s)
{
    mutex_lock(&inet_lock);
    memset(&s->in.remote, 0, sizeof(s->in.remote));
    s->state = SOCK_NEW;
    mutex_unlock(&inet_lock);
    return 0;
}

/* Reads the destination; src becomes what the receiver sees. Referenced receiver, NULL: nobody listens. */
static struct sock *udp_target(struct sock *s, struct msg *m, struct inet_end *dst, struct inet_end *src)
{
    long r = 0;

    if (m->addr_size) {
        r = addr_in(s, m->addr, m->addr_size, dst);
        if (!r && !dst->port)
            r = -EINVAL;
        if (!r)
            r = resolve_dest(dst);
        if (r)
            return ERR_PTR(r);
    }
    mutex_lock(&inet_lock);
    if (!m->addr_size) {
        *dst = s->in.remote;
        if (!dst->port)
            r = s->family == AF_INET6 ? -EDESTADDRREQ : -EDESTADDRREQ;
    }
    if (!r)
        r = autobind_locked(s);
    struct sock *t = NULL;
    if (!r) {
        *src = s->in.local;
        if (addr_is_any(src->addr))
            memcpy(src->addr, dst->addr, 16);
        t = find_receiver(s, dst, src);
    }
    mutex_unlock(&inet_lock);
    return r ? ERR_PTR(r) : t;
}

/* Nobody there: a connected sender is told by the next call. */
static void udp_unreachable(struct sock *s)
{
    if (s->state != SOCK_CONNECTED)
        return;
    atomic_store(&s->err, ECONNREFUSED);
    sock_wake(s, EPOLLERR | EPOLLIN | EPOLLOUT);
}

/* Hop limit and traffic class of a datagram to dst. */
static void udp_header(const struct sock *s, const struct msg *m, const struct inet_end *dst, u8 out[2])
{
    bool v4 = addr_is_v4(dst->addr);
    u32 hops = v4 ? s->in.ttl : s->in.hops;

    out[0] = m->has_hops ? m->hops : (u8)(hops ? hops : 64);
    out[1] = m->has_tclass ? m->tclass : (u8)(v4 ? s->in.tos : s->in.tclass);
}

static long udp_send(struct sock *s, struct msg *m)
{
    struct inet_end dst, src;
    u8 from[sizeof(struct sockaddr_in6) + 18];
    long r;

    if (m->flags & MSG_OOB)
        return -EOPNOTSUPP;
    if (s->tx_shut)
        return -EPIPE;
    if (m->u->resid > UDP_MAX)
        return -EMSGSIZE;
    r = s->err ? sock_take_err(s) : 0;
    if (r)
        return r;
    struct sock *t = udp_target(s, m, &dst, &src);
    if (IS_ERR(t))
        return PTR_ERR(t);
    u32 size = (u32)m->u->resid;
    if (!t) {
        u8 first;
        if (size && uio_read_from(m->u, &first, 1) < 0)
            return -EFAULT;
        udp_unreachable(s);
        return size;
    }
    /* Behind the source address: what IP_PKTINFO, IP_TTL, IP_TOS and their like of IPv6 tell. */
    u32 n = inet_addr_out(t->family, &src, from);
    memcpy(from + n, dst.addr, 16);
    udp_header(s, m, &dst, from + n + 16);
    struct rec *rec = rec_new(from, n + 18, NULL);
    r = -ENOMEM;
    if (rec) {
        rec->addr_size = n;
        mutex_lock(&t->lock);
        r = t->rx_shut ? -EAGAIN : dgram_queue(t, rec, m->u, size);
        mutex_unlock(&t->lock);
        if (r < 0)
            rec_free(rec);
        if (r == -EAGAIN)
            r = size; /* dropped: the receiver's buffer is full */
        else if (r >= 0)
            sock_wake(t, EPOLLIN | EPOLLRDNORM);
    }
    sock_put(t);
    return r;
}

static void udp_release(struct sock *s) { port_leave(s); }

/* ---- tables ---- */

const struct proto tcp_proto = {
    .bind = inet_bind,
    .connect = tcp_connect,
    .listen = inet_listen,
    .name = inet_name,
    .send = stream_send,
    .recv = stream_recv,
    .setopt = inet_setopt,
    .getopt = inet_getopt,
    .disconnect = tcp_disconnect,
    .release = tcp_release,
};

const struct proto udp_proto = {
    .bind = inet_bind,
    .connect = udp_connect,
    .name = inet_name,
    .send = udp_send,
    .recv = dgram_recv,
    .setopt = inet_setopt,
    .getopt = inet_getopt,
    .disconnect = udp_disconnect,
    .release = udp_release,
};

long inet_create(int family, int type, int protocol, struct sock **out)
{
    const struct proto *p;
    int proto;

    switch (type) {
    case SOCK_STREAM:
        p = &tcp_proto;
        proto = IPPROTO_TCP;
        break;
    case SOCK_DGRAM:
        if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
            return -EACCES; /* as with an empty ping_group_range */
        p = &udp_proto;
        proto = IPPROTO_UDP;
        break;
    case SOCK_RAW:
        return protocol ? -EPERM : -EPROTONOSUPPORT;
    default:
        return -ESOCKTNOSUPPORT;
    }
    if (protocol && protocol != proto)
        return protocol < 0 || protocol > 255 ? -EINVAL : -EPROTONOSUPPORT;
    struct sock *s = sock_alloc((u16)family, (u8)type, proto, p);
    if (!s)
        return -ENOMEM;
    addr_any(s->in.local.addr, family == AF_INET);
    addr_any(s->in.remote.addr, family == AF_INET);
    s->in.mc_loop = s->in.mc_ttl = 1;
    *out = s;
    return 0;
}

void inet_show(struct strbuf *sb, bool tcp, u16 family)
{
    struct sock *s;
    u32 n = 0;

    mutex_lock(&inet_lock);
    for (u32 i = 0; i < PORT_HASH; i++)
        list_for_each(s, tcp ? &tcp_ports[i] : &udp_ports[i], in.ports)
            if (s->family == family)
                inet_show_line(sb, s, &n);
    mutex_unlock(&inet_lock);
}
