/* AF_NETLINK, NETLINK_ROUTE: dumps of links, addresses and routes of a host that has only `lo`. A request is answered
 * within the send: replies are records in the socket's own queue. Other requests get an error message. Format:
 * netlink(7), rtnetlink(7). */
#include <linux/eventpoll.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "net/sock.h"

/* <linux/if.h> needs a C library. */
#define IFF_UP 1
#define IFF_LOOPBACK 8
#define IFF_RUNNING 64
#define IFF_LOWER_UP 0x10000
#define ARPHRD_LOOPBACK 772

#define REQUEST_MAX 1024u
#define REPLY_MAX 1024u
#define SEND_MAX 65536u

/* Only the identity that sent a message knows its number: the kernel is 0. */
static KSTATE u32 next_pid;

struct reply {
    u32 used;
    u32 seq, pid;
    u8 buf[REPLY_MAX];
};

static void *put_msg(struct reply *r, u16 type, u16 flags, const void *body, u32 size)
{
    struct nlmsghdr *h = (void *)(r->buf + r->used);

    memset(h, 0, NLMSG_SPACE(size));
    h->nlmsg_len = NLMSG_LENGTH(size);
    h->nlmsg_type = type;
    h->nlmsg_flags = flags;
    h->nlmsg_seq = r->seq;
    h->nlmsg_pid = r->pid;
    memcpy(NLMSG_DATA(h), body, size);
    r->used += NLMSG_SPACE(size);
    return h;
}

static void put_attr(struct reply *r, struct nlmsghdr *h, u16 type, const void *val, u32 size)
{
    struct rtattr *a = (void *)(r->buf + r->used);

    memset(a, 0, RTA_SPACE(size));
    a->rta_type = type;
    a->rta_len = (u16)RTA_LENGTH(size);
    memcpy(RTA_DATA(a), val, size);
    r->used += RTA_SPACE(size);
    h->nlmsg_len = (u32)(r->buf + r->used - (u8 *)h);
}

static void put_u32(struct reply *r, struct nlmsghdr *h, u16 type, u32 v) { put_attr(r, h, type, &v, sizeof(v)); }

static void reply_link(struct reply *r, u16 flags)
{
    struct ifinfomsg i = {.ifi_type = ARPHRD_LOOPBACK,
                          .ifi_index = LO_INDEX,
                          .ifi_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING | IFF_LOWER_UP};
    static const u8 mac[6];
    u8 up = 0, mode = 0; /* IF_OPER_UNKNOWN, as lo says */

    struct nlmsghdr *h = put_msg(r, RTM_NEWLINK, flags, &i, sizeof(i));
    put_attr(r, h, IFLA_IFNAME, "lo", 3);
    put_u32(r, h, IFLA_TXQLEN, 1000);
    put_attr(r, h, IFLA_OPERSTATE, &up, 1);
    put_attr(r, h, IFLA_LINKMODE, &mode, 1);
    put_u32(r, h, IFLA_MTU, LO_MTU);
    put_u32(r, h, IFLA_GROUP, 0);
    put_attr(r, h, IFLA_QDISC, "noqueue", 8);
    put_attr(r, h, IFLA_ADDRESS, mac, 6);
    put_attr(r, h, IFLA_BROADCAST, mac, 6);
    struct rtnl_link_stats st;
    memset(&st, 0, sizeof(st));
    put_attr(r, h, IFLA_STATS, &st, sizeof(st));
}

static void reply_addr(struct reply *r, u8 family, u16 flags)
{
    static const u8 a4[4] = {127, 0, 0, 1}, a6[16] = {[15] = 1};
    struct ifaddrmsg i = {.ifa_family = family,
                          .ifa_prefixlen = family == AF_INET ? 8 : 128,
                          .ifa_flags = IFA_F_PERMANENT,
                          .ifa_scope = RT_SCOPE_HOST,
                          .ifa_index = LO_INDEX};
    const void *a = family == AF_INET ? a4 : a6;
    u32 n = family == AF_INET ? 4 : 16;
    struct ifa_cacheinfo ci = {.ifa_prefered = ~0u, .ifa_valid = ~0u};

    struct nlmsghdr *h = put_msg(r, RTM_NEWADDR, flags, &i, sizeof(i));
    put_attr(r, h, IFA_ADDRESS, a, n);
    if (family == AF_INET) {
        put_attr(r, h, IFA_LOCAL, a, n);
        put_attr(r, h, IFA_LABEL, "lo", 3);
    }
    put_u32(r, h, IFA_FLAGS, IFA_F_PERMANENT);
    put_attr(r, h, IFA_CACHEINFO, &ci, sizeof(ci));
}

static void reply_route(struct reply *r, u8 family, u16 flags)
{
    static const u8 n4[4] = {127, 0, 0, 0}, n6[16] = {[15] = 1};
    struct rtmsg m = {.rtm_family = family,
                      .rtm_dst_len = family == AF_INET ? 8 : 128,
                      .rtm_table = RT_TABLE_LOCAL,
                      .rtm_protocol = RTPROT_KERNEL,
                      .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                      .rtm_type = family == AF_INET ? RTN_LOCAL : RTN_UNICAST};

    struct nlmsghdr *h = put_msg(r, RTM_NEWROUTE, flags, &m, sizeof(m));
    put_u32(r, h, RTA_TABLE, RT_TABLE_LOCAL);
    put_attr(r, h, RTA_DST, family == AF_INET ? (const void *)n4 : n6, family == AF_INET ? 4 : 16);
    put_u32(r, h, RTA_OIF, LO_INDEX);
}

static void reply_error(struct reply *r, const struct nlmsghdr *req, int err)
{
    struct nlmsgerr e = {.error = err, .msg = *req};
    put_msg(r, NLMSG_ERROR, 0, &e, sizeof(e));
}

/* As one datagram from the kernel. */
static long deliver(struct sock *s, void *data, u32 size)
{
    struct sockaddr_nl from = {.nl_family = AF_NETLINK};
    struct uio u;
    struct rec *rec = rec_new(&from, sizeof(from), NULL);

    if (!rec)
        return -ENOBUFS;
    uio_kernel(&u, data, size);
    mutex_lock(&s->lock);
    long e = dgram_queue(s, rec, &u, size);
    mutex_unlock(&s->lock);
    if (e < 0) {
        rec_free(rec);
        return -ENOBUFS;
    }
    sock_wake(s, EPOLLIN | EPOLLRDNORM);
    return 0;
}

static long flush_reply(struct sock *s, struct reply *r)
{
    long e = r->used ? deliver(s, r->buf, r->used) : 0;
    r->used = 0;
    return e;
}

bool file_is_netlink(struct file *f)
{
    struct sock *s = file_sock(f);
    return s && s->family == AF_NETLINK;
}

long netlink_tell(struct file *f, void *data, u32 size) { return deliver(file_sock(f), data, size); }

static u8 request_family(const struct nlmsghdr *h)
{
    return h->nlmsg_len > NLMSG_HDRLEN ? *(const u8 *)NLMSG_DATA(h) : AF_UNSPEC;
}

/* Is a GETLINK without dump about lo? */
static bool asks_for_lo(const struct nlmsghdr *h)
{
    const struct ifinfomsg *i = NLMSG_DATA(h);

    if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*i)))
        return false;
    if (i->ifi_index)
        return i->ifi_index == LO_INDEX;
    int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*i)));
    for (const struct rtattr *a = (const void *)((const u8 *)i + NLMSG_ALIGN(sizeof(*i))); RTA_OK(a, left);
         a = RTA_NEXT(a, left))
        if (a->rta_type == IFLA_IFNAME && RTA_PAYLOAD(a) >= 3)
            return !memcmp(RTA_DATA(a), "lo", 3);
    return false;
}

static void dump(struct reply *r, u16 type, u8 family)
{
    bool v4 = family == AF_UNSPEC || family == AF_INET, v6 = family == AF_UNSPEC || family == AF_INET6;

    if (type == RTM_GETLINK) {
        reply_link(r, NLM_F_MULTI);
    } else if (type == RTM_GETADDR) {
        if (v4)
            reply_addr(r, AF_INET, NLM_F_MULTI);
        if (v6)
            reply_addr(r, AF_INET6, NLM_F_MULTI);
    } else if (type == RTM_GETROUTE) {
        if (v4)
            reply_route(r, AF_INET, NLM_F_MULTI);
        if (v6)
            reply_route(r, AF_INET6, NLM_F_MULTI);
    }
}

static long handle(struct sock *s, struct reply *r, const struct nlmsghdr *h)
{
    bool wants_ack = h->nlmsg_flags & NLM_F_ACK;
    u16 type = h->nlmsg_type;

    if (!(h->nlmsg_flags & NLM_F_REQUEST) || type < NLMSG_MIN_TYPE) {
        if (wants_ack)
            reply_error(r, h, 0);
        return flush_reply(s, r);
    }
    bool get = (type & 3) == 2; /* NEW, DEL, GET, SET */
    if (get && (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
        s32 zero = 0;
        dump(r, type, request_family(h));
        long e = flush_reply(s, r);
        if (e)
            return e;
        put_msg(r, NLMSG_DONE, NLM_F_MULTI, &zero, sizeof(zero));
        return flush_reply(s, r);
    }
    if (type == RTM_GETLINK && asks_for_lo(h)) {
        reply_link(r, 0);
        wants_ack = false;
    } else {
        reply_error(r, h, !get ? -EPERM : type == RTM_GETLINK ? -ENODEV : type == RTM_GETROUTE ? -ENETUNREACH : -EOPNOTSUPP);
        wants_ack = false;
    }
    if (wants_ack)
        reply_error(r, h, 0);
    return flush_reply(s, r);
}

static long nl_autobind(struct sock *s)
{
    if (!s->nl.pid)
        s->nl.pid = atomic_add(&next_pid, 1) == 1 ? current_tgid() : 0x80000000u | atomic_add(&next_pid, 1);
    return 0;
}

static long nl_bind(struct sock *s, const void *addr, u32 size)
{
    struct sockaddr_nl a;

    if (size < sizeof(a))
        return -EINVAL;
    memcpy(&a, addr, sizeof(a));
    if (a.nl_family != AF_NETLINK)
        return -EINVAL;
    if (s->nl.pid && a.nl_pid && a.nl_pid != s->nl.pid)
        return -EINVAL;
    if (a.nl_pid)
        s->nl.pid = a.nl_pid;
    s->nl.groups = a.nl_groups;
    return nl_autobind(s);
}

static long nl_connect(struct sock *s, const void *addr, u32 size, bool nonblock)
{
    struct sockaddr_nl a;

    (void)nonblock;
    if (size < sizeof(a))
        return -EINVAL;
    memcpy(&a, addr, sizeof(a));
    if (a.nl_family != AF_NETLINK)
        return -EINVAL;
    if (a.nl_pid || a.nl_groups)
        return -EPERM;
    s->state = SOCK_CONNECTED;
    return nl_autobind(s);
}

static u32 nl_name(struct sock *s, bool peer, void *addr)
{
    struct sockaddr_nl a = {.nl_family = AF_NETLINK};
    if (!peer) {
        a.nl_pid = s->nl.pid;
        a.nl_groups = s->nl.groups;
    }
    memcpy(addr, &a, sizeof(a));
    return sizeof(a);
}

static long nl_send(struct sock *s, struct msg *m)
{
    struct sockaddr_nl to = {0};

    if (m->addr_size) {
        if (m->addr_size < sizeof(to))
            return -EINVAL;
        memcpy(&to, m->addr, sizeof(to));
        if (to.nl_family != AF_NETLINK)
            return -EINVAL;
        if (to.nl_pid)
            return -ECONNREFUSED;
        if (to.nl_groups)
            return -EPERM;
    }
    nl_autobind(s);
    u32 size = (u32)m->u->resid;
    if (m->u->resid > SEND_MAX)
        return -EMSGSIZE;
    u32 room = MIN(size, REQUEST_MAX);
    struct reply *r = knew(struct reply);
    u8 *req = kmalloc(room + 1);
    long e = r && req ? 0 : -ENOBUFS;
    if (!e && room && uio_read_from(m->u, req, room) < (long)room)
        e = -EFAULT;
    for (u32 at = 0; !e && s->protocol == NETLINK_ROUTE && at + sizeof(struct nlmsghdr) <= room;) {
        const struct nlmsghdr *h = (const void *)(req + at);
        if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > room - at)
            break;
        r->seq = h->nlmsg_seq;
        r->pid = s->nl.pid;
        e = handle(s, r, h);
        at += NLMSG_ALIGN(h->nlmsg_len);
    }
    kfree(req);
    kfree(r);
    return e ? e : (long)size;
}

static long nl_setopt(struct sock *s, int level, int opt, const void *val, u32 size)
{
    (void)s, (void)val, (void)size;
    if (level != 270 /* SOL_NETLINK */)
        return -ENOPROTOOPT;
    switch (opt) {
    case NETLINK_ADD_MEMBERSHIP: case NETLINK_DROP_MEMBERSHIP: case NETLINK_PKTINFO: case NETLINK_NO_ENOBUFS:
    case NETLINK_EXT_ACK: case NETLINK_CAP_ACK: case NETLINK_GET_STRICT_CHK:
        return 0;
    }
    return -ENOPROTOOPT;
}

const struct proto netlink_proto = {
    .bind = nl_bind,
    .connect = nl_connect,
    .name = nl_name,
    .send = nl_send,
    .recv = dgram_recv,
    .setopt = nl_setopt,
};

long netlink_create(int type, int protocol, struct sock **out)
{
    if (type != SOCK_RAW && type != SOCK_DGRAM)
        return -ESOCKTNOSUPPORT;
    if (protocol < 0 || protocol >= MAX_LINKS)
        return -EPROTONOSUPPORT;
    if (protocol != NETLINK_ROUTE && protocol != NETLINK_KOBJECT_UEVENT)
        return -EPROTONOSUPPORT;
    struct sock *s = sock_alloc(AF_NETLINK, (u8)type, protocol, &netlink_proto);
    if (!s)
        return -ENOMEM;
    *out = s;
    return 0;
}
