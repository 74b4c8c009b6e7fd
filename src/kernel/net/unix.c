/* AF_UNIX: names, connecting, datagrams. Behaviour follows unix(7).
 *
 * Names: abstract ones in a hash under unix_lock, file names through inode->sock under inode->lock. Both tables do not own
 * references (sock_get_live). Lock order: inode->lock, unix_lock > s->lock. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "net/sock.h"
#include "vfs/dentry.h"

#define SIGPIPE 13
#define HASH 64u
#define UN_PATH 2u /* offset of sun_path */
#define UN_MAX 110u /* sizeof(struct sockaddr_un) */
#define DGRAM_BACKLOG 10u /* net.unix.max_dgram_qlen */

static KSTATE struct mutex unix_lock;
static KSTATE_LARGE struct list abstract_names[HASH];
static KSTATE u32 autobind_next;

static u32 unix_hash(const u8 *p, u32 n)
{
    u32 h = 2166136261u;
    while (n--)
        h = (h ^ *p++) * 16777619u;
    return h & (HASH - 1);
}

static void name_put(struct unix_name *n)
{
    if (n && !atomic_sub(&n->refs, 1))
        kfree(n);
}

static struct unix_name *name_new(const void *addr, u32 size)
{
    struct unix_name *n = knew(struct unix_name);
    if (n) {
        n->refs = 1;
        n->size = size;
        memcpy(n->addr, addr, size);
    }
    return n;
}

/* Checks a guest address; file names come back terminated in path. 1: unnamed, 0: named, or an error. */
static long check_addr(const u8 *addr, u32 size, bool *abstract, char path[UN_MAX])
{
    u16 family;

    if (size < UN_PATH || size > UN_MAX)
        return -EINVAL;
    memcpy(&family, addr, 2);
    if (family != AF_UNIX)
        return -EINVAL;
    if (size == UN_PATH)
        return 1;
    *abstract = addr[2] == 0;
    if (!*abstract) {
        u32 n = (u32)strnlen((const char *)addr + 2, size - 2);
        memcpy(path, addr + 2, n);
        path[n] = 0;
    }
    return 0;
}

/* ---- looking up ---- */

static struct sock *abstract_find(const u8 *addr, u32 size)
{
    struct sock *s;

    list_for_each(s, &abstract_names[unix_hash(addr, size)], un.hash)
        if (s->un.name->size == size && !memcmp(s->un.name->addr, addr, size))
            return s;
    return NULL;
}

static struct sock *find_path(const char *name)
{
    struct path p;
    long r = path_lookup(AT_FDCWD, name, LOOKUP_FOLLOW, &p);

    if (r)
        return ERR_PTR(r);
    struct inode *i = p.dentry->inode;
    struct sock *s = NULL;
    r = i ? inode_permission(i, 2) : -ENOENT;
    if (!r && (i->mode & S_IFMT) != S_IFSOCK)
        r = -ECONNREFUSED;
    if (!r) {
        mutex_lock(&i->lock);
        s = i->sock;
        if (!s || !sock_get_live(s))
            r = -ECONNREFUSED;
        mutex_unlock(&i->lock);
    }
    path_put(&p);
    return r ? ERR_PTR(r) : s;
}

/* The referenced sock bound to an address; its type must match. */
static struct sock *unix_find(const u8 *addr, u32 size, u8 type)
{
    char path[UN_MAX];
    bool abstract;
    struct sock *s;
    long r = check_addr(addr, size, &abstract, path);

    if (r < 0)
        return ERR_PTR(r);
    if (r)
        return ERR_PTR(-ECONNREFUSED);
    if (abstract) {
        mutex_lock(&unix_lock);
        s = abstract_find(addr, size);
        if (!s || !sock_get_live(s))
            s = ERR_PTR(-ECONNREFUSED);
        mutex_unlock(&unix_lock);
    } else {
        s = find_path(path);
    }
    if (!IS_ERR(s) && s->type != type) {
        sock_put(s);
        return ERR_PTR(-EPROTOTYPE);
    }
    return s;
}

/* ---- binding ---- */

static long bind_abstract(struct sock *s, const void *addr, u32 size)
{
    struct unix_name *n = name_new(addr, size);
    if (!n)
        return -ENOMEM;
    mutex_lock(&unix_lock);
    long r = s->un.name ? -EINVAL : abstract_find(addr, size) ? -EADDRINUSE : 0;
    if (!r) {
        s->un.name = n;
        list_add(&abstract_names[unix_hash(addr, size)], &s->un.hash);
    }
    mutex_unlock(&unix_lock);
    if (r)
        name_put(n);
    return r;
}

static long bind_path(struct sock *s, const u8 *addr, const char *path)
{
    struct inode *i;
    u32 size = UN_PATH + (u32)strlen(path) + 1;
    u8 full[UN_MAX + 2] = {AF_UNIX};

    if (s->un.name)
        return -EINVAL;
    (void)addr;
    memcpy(full + UN_PATH, path, size - UN_PATH);
    struct unix_name *n = name_new(full, MIN(size, (u32)sizeof(n->addr)));
    if (!n)
        return -ENOMEM;
    long r = vfs_mknod(AT_FDCWD, path, S_IFSOCK | 0777, 0, &i); /* cut by the umask */
    if (r) {
        name_put(n);
        return r == -EEXIST ? -EADDRINUSE : r;
    }
    mutex_lock(&i->lock);
    mutex_lock(&unix_lock);
    r = s->un.name ? -EINVAL : 0; /* bound meanwhile: the name that was made stays */
    if (!r) {
        i->sock = s;
        s->un.inode = i;
        atomic_store(&s->un.name, n);
    }
    mutex_unlock(&unix_lock);
    mutex_unlock(&i->lock);
    if (r) {
        name_put(n);
        iput(i);
    }
    return r;
}

static long autobind(struct sock *s)
{
    for (u32 tries = 0; tries < 1u << 20; tries++) {
        u8 addr[UN_PATH + 6] = {AF_UNIX, 0, 0};
        char hex[8];
        fmt_print(hex, sizeof(hex), "%05x", atomic_add(&autobind_next, 1) & 0xfffff);
        memcpy(addr + 3, hex, 5);
        long r = bind_abstract(s, addr, sizeof(addr));
        if (r != -EADDRINUSE)
            return r == -EINVAL ? 0 : r; /* bound meanwhile */
    }
    return -ENOSPC;
}

static long unix_bind(struct sock *s, const void *addr, u32 size)
{
    char path[UN_MAX];
    bool abstract;
    long r = check_addr(addr, size, &abstract, path);

    if (r < 0)
        return r;
    if (r)
        return s->un.name ? -EINVAL : autobind(s);
    return abstract ? bind_abstract(s, addr, size) : bind_path(s, addr, path);
}

static u32 unix_name_of(struct sock *s, bool peer, void *addr)
{
    static const u8 unnamed[UN_PATH] = {AF_UNIX};

    if (peer) {
        mutex_lock(&s->lock);
        struct sock *p = s->peer;
        if (p)
            sock_get(p);
        mutex_unlock(&s->lock);
        if (!p)
            return 0;
        u32 n = unix_name_of(p, false, addr);
        sock_put(p);
        return n;
    }
    struct unix_name *n = atomic_load(&s->un.name);
    if (!n) {
        memcpy(addr, unnamed, UN_PATH);
        return UN_PATH;
    }
    memcpy(addr, n->addr, n->size);
    return n->size;
}

/* ---- connecting streams and sequenced packets ---- */

static struct sock *child_of(struct sock *listener)
{
    struct sock *c = sock_alloc(AF_UNIX, listener->type, 0, listener->proto);
    if (!c)
        return NULL;
    struct unix_name *n = listener->un.name;
    if (n) {
        atomic_add(&n->refs, 1);
        c->un.name = n;
    }
    c->passcred = listener->passcred;
    c->cred = listener->cred;
    cred_now(&c->peercred);
    unix_list_add(c);
    return c;
}

/* One try to queue a connection. 1: the queue is full. */
static long try_connect(struct sock *s, struct sock *l, struct sock *c)
{
    long r = 0;

    mutex_lock(&s->lock);
    if (s->state == SOCK_CONNECTED)
        r = -EISCONN;
    else if (s->state != SOCK_NEW)
        r = -EINVAL;
    mutex_unlock(&s->lock);
    if (r)
        return r;
    mutex_lock(&l->lock);
    if (l->state != SOCK_LISTEN || l->dead || l->rx_shut) {
        r = -ECONNREFUSED;
    } else if (l->accept_count > l->backlog) {
        r = 1;
    } else {
        mutex_lock(&s->lock); /* listener > connecting sock */
        if (s->state != SOCK_NEW) {
            r = -EISCONN;
        } else {
            cred_now(&s->cred);
            s->peercred = l->cred;
            stream_pair(s, c);
            list_add_tail(&l->accept_queue, &c->accept_link);
            l->accept_count++;
            sock_get(c); /* the queue's; the caller drops its own */
        }
        mutex_unlock(&s->lock);
    }
    mutex_unlock(&l->lock);
    return r;
}

static long unix_connect(struct sock *s, const void *addr, u32 size, bool nonblock)
{
    u64 deadline = sock_deadline(s->sndtimeo, nonblock ? MSG_DONTWAIT : 0);
    long r;

    struct sock *l = unix_find(addr, size, s->type);
    if (IS_ERR(l))
        return PTR_ERR(l);
    if (s->passcred && !s->un.name && (r = autobind(s))) {
        sock_put(l);
        return r;
    }
    struct sock *c = child_of(l);
    if (!c) {
        sock_put(l);
        return -ENOMEM;
    }
    for (;;) {
        u32 seq = atomic_load(&l->seq);
        r = try_connect(s, l, c);
        if (r != 1)
            break;
        if (!deadline) {
            r = -EAGAIN;
            break;
        }
        mutex_lock(&l->lock);
        r = sock_sleep_seq(l, deadline, seq);
        mutex_unlock(&l->lock);
        if (r)
            break;
    }
    if (!r)
        sock_wake(l, EPOLLIN | EPOLLRDNORM);
    sock_put(c);
    sock_put(l);
    return r;
}

/* A datagram socket's other end is another one, or none (takes the reference). Whoever waits for room there, or here, decides anew. */
static void dgram_peer(struct sock *s, struct sock *next)
{
    mutex_lock(&s->lock);
    struct sock *old = s->peer;
    s->peer = next;
    s->state = next ? SOCK_CONNECTED : SOCK_NEW;
    mutex_unlock(&s->lock);
    if (!old)
        return;
    sock_wake(s, EPOLLOUT | EPOLLWRNORM);
    sock_wake(old, EPOLLOUT | EPOLLWRNORM);
    sock_put(old);
}

static long unix_listen(struct sock *s) { return s->un.name ? 0 : -EINVAL; }

static void unix_release(struct sock *s)
{
    struct inode *i = s->un.inode;

    if (list_linked(&s->un.hash)) {
        mutex_lock(&unix_lock);
        list_del(&s->un.hash);
        mutex_unlock(&unix_lock);
    }
    if (i) {
        mutex_lock(&i->lock);
        if (i->sock == s)
            i->sock = NULL;
        mutex_unlock(&i->lock);
        s->un.inode = NULL;
        iput(i);
    }
    if (s->type != SOCK_DGRAM) {
        stream_release(s);
        return;
    }
    dgram_peer(s, NULL);
}

static void unix_destroy(struct sock *s)
{
    unix_list_del(s);
    name_put(s->un.name);
}

/* ---- datagrams ---- */

static long dgram_disconnect(struct sock *s)
{
    dgram_peer(s, NULL);
    return 0;
}

static long dgram_connect(struct sock *s, const void *addr, u32 size, bool nonblock)
{
    (void)nonblock;
    struct sock *t = unix_find(addr, size, s->type);
    if (IS_ERR(t))
        return PTR_ERR(t);
    if (t->peer && t->peer != s) {
        sock_put(t);
        return -EPERM;
    }
    dgram_peer(s, t);
    return 0;
}

/* The referenced destination of a message. */
static struct sock *send_target(struct sock *s, struct msg *m)
{
    if (s->type == SOCK_DGRAM && m->addr_size)
        return unix_find(m->addr, m->addr_size, s->type);
    mutex_lock(&s->lock);
    struct sock *t = s->peer;
    if (t)
        sock_get(t);
    mutex_unlock(&s->lock);
    return t ? t : ERR_PTR(-ENOTCONN);
}

/* May s send to t now? t locked. */
static long target_state(struct sock *s, struct sock *t)
{
    if (s->err)
        return sock_take_err(s);
    if (s->tx_shut)
        return -EPIPE;
    if (t->dead)
        return s->type == SOCK_SEQPACKET ? -EPIPE : -ECONNREFUSED;
    if (t->rx_shut)
        return -EPIPE;
    if (s->type == SOCK_DGRAM && t->peer && t->peer != s)
        return -EPERM;
    if (s->type == SOCK_DGRAM && t->peer != s && t->rec_count > DGRAM_BACKLOG)
        return -EAGAIN;
    return 0;
}

static long send_record(struct sock *s, struct sock *t, struct msg *m)
{
    u8 from[ADDR_MAX];
    u32 size = (u32)m->u->resid;
    u32 from_size = s->un.name ? unix_name_of(s, false, from) : 0;
    struct rec *r = rec_new(from, from_size, m->scm);
    u64 deadline = sock_deadline(s->sndtimeo, m->flags);
    long e;

    if (!r)
        return -ENOMEM;
    for (;;) {
        struct sock *sleeper = atomic_load(&t->peer) == s ? s : t; /* who is woken when t is drained */
        u32 seq = atomic_load(&sleeper->seq);
        mutex_lock(&t->lock);
        e = target_state(s, t);
        if (!e && m->scm)
            e = scm_nest(t, m->scm);
        if (!e)
            e = dgram_queue(t, r, m->u, size);
        mutex_unlock(&t->lock);
        if (e != -EAGAIN || !deadline)
            break;
        mutex_lock(&sleeper->lock);
        e = sock_sleep_seq(sleeper, deadline, seq);
        mutex_unlock(&sleeper->lock);
        if (e)
            break;
    }
    if (e < 0) {
        r->scm = NULL; /* still the message's */
        rec_free(r);
        return e;
    }
    m->scm = NULL;
    sock_wake(t, EPOLLIN | EPOLLRDNORM);
    return e;
}

static long unix_dgram_send(struct sock *s, struct msg *m)
{
    if (m->flags & MSG_OOB)
        return -EOPNOTSUPP;
    if (s->type == SOCK_SEQPACKET && s->state != SOCK_CONNECTED)
        return s->err ? sock_take_err(s) : s->state == SOCK_CLOSED ? -EPIPE : -ENOTCONN;
    if (s->err)
        return sock_take_err(s);
    if (s->tx_shut)
        return -EPIPE; /* no SIGPIPE: that is for streams */
    if (m->u->resid > s->sndbuf - 32)
        return -EMSGSIZE;
    long r = s->passcred && !s->un.name ? autobind(s) : 0;
    if (r)
        return r;
    struct sock *t = send_target(s, m);
    if (IS_ERR(t))
        return PTR_ERR(t);
    r = send_record(s, t, m);
    bool gone = s->type == SOCK_DGRAM && t->dead && !m->addr_size;
    sock_put(t);
    if (gone) /* the connection dies with its other end */
        dgram_disconnect(s);
    return r;
}

/* ---- the tables ---- */

const struct proto unix_stream_proto = {
    .bind = unix_bind,
    .connect = unix_connect,
    .listen = unix_listen,
    .name = unix_name_of,
    .send = stream_send,
    .recv = stream_recv,
    .release = unix_release,
    .destroy = unix_destroy,
};

static const struct proto unix_seqpacket_proto = {
    .bind = unix_bind,
    .connect = unix_connect,
    .listen = unix_listen,
    .name = unix_name_of,
    .send = unix_dgram_send,
    .recv = dgram_recv,
    .release = unix_release,
    .destroy = unix_destroy,
};

const struct proto unix_dgram_proto = {
    .bind = unix_bind,
    .connect = dgram_connect,
    .name = unix_name_of,
    .send = unix_dgram_send,
    .recv = dgram_recv,
    .disconnect = dgram_disconnect,
    .release = unix_release,
    .destroy = unix_destroy,
};

long unix_create(int type, int protocol, struct sock **out)
{
    const struct proto *p;

    if (protocol && protocol != AF_UNIX)
        return -EPROTONOSUPPORT;
    switch (type) {
    case SOCK_STREAM:
        p = &unix_stream_proto;
        break;
    case SOCK_RAW:
        type = SOCK_DGRAM; /* as Linux does */
        p = &unix_dgram_proto;
        break;
    case SOCK_DGRAM:
        p = &unix_dgram_proto;
        break;
    case SOCK_SEQPACKET:
        p = &unix_seqpacket_proto;
        break;
    default:
        return -ESOCKTNOSUPPORT;
    }
    struct sock *s = sock_alloc(AF_UNIX, (u8)type, 0, p);
    if (!s)
        return -ENOMEM;
    unix_list_add(s);
    *out = s;
    return 0;
}
