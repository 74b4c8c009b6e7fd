/* Options of the levels IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP and IPPROTO_UDP. Most are only kept: there are no packets they
 * could change. */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/tcp.h>

#include "base/string.h"
#include "net/inet.h"

#define UDP_LEVEL 17

static long give(void *val, u32 *size, const void *src, u32 n)
{
    *size = MIN(*size, n);
    memcpy(val, src, *size);
    return 0;
}

/* IP options may be given as one byte. */
static long int_arg(const void *val, u32 size, s32 *v)
{
    if (size >= sizeof(*v))
        memcpy(v, val, sizeof(*v));
    else if (size >= 1)
        *v = *(const u8 *)val;
    else
        return -EINVAL;
    return 0;
}

static long set_range(u32 *field, s32 v, s32 min, s32 max)
{
    if (v < min || v > max)
        return -EINVAL;
    *field = (u32)v;
    return 0;
}

static long set_tcp(struct sock *s, int opt, const void *val, u32 size)
{
    s32 v;

    if (s->type != SOCK_STREAM)
        return -ENOPROTOOPT;
    if (opt == TCP_CONGESTION)
        return size >= 5 && !memcmp(val, "cubic", 5) ? 0 : size >= 4 && !memcmp(val, "reno", 4) ? 0 : -ENOENT;
    if (opt == TCP_ULP || opt == TCP_MD5SIG)
        return -ENOENT;
    if (size < sizeof(v))
        return -EINVAL;
    memcpy(&v, val, sizeof(v));
    switch (opt) {
    case TCP_NODELAY: s->in.tcp_nodelay = v != 0; return 0;
    case TCP_CORK: s->in.tcp_cork = v != 0; return 0;
    case TCP_KEEPIDLE: return set_range(&s->in.keepidle, v, 1, 32767);
    case TCP_KEEPINTVL: return set_range(&s->in.keepintvl, v, 1, 32767);
    case TCP_KEEPCNT: return set_range(&s->in.keepcnt, v, 1, 127);
    case TCP_SYNCNT: return set_range(&s->in.syncnt, v, 1, 127);
    case TCP_MAXSEG: return set_range(&s->in.maxseg, v, 0, 32767);
    case TCP_DEFER_ACCEPT: s->in.defer_accept = (u32)v; return 0;
    case TCP_USER_TIMEOUT: return set_range(&s->in.user_timeout, v, 0, 0x7fffffff);
    case TCP_QUICKACK: s->in.quickack = v != 0; return 0;
    case TCP_LINGER2: s->in.linger2 = (u32)v; return 0;
    case TCP_NOTSENT_LOWAT: s->in.notsent_lowat = (u32)v; return 0;
    case TCP_WINDOW_CLAMP: case TCP_FASTOPEN: case TCP_FASTOPEN_CONNECT: case TCP_THIN_LINEAR_TIMEOUTS: case TCP_THIN_DUPACK:
        return 0;
    }
    return -ENOPROTOOPT;
}

static u8 tcp_state(const struct sock *s)
{
    switch (s->state) {
    case SOCK_LISTEN: return 10; /* TCP_LISTEN */
    case SOCK_CONNECTED:
    case SOCK_CONNECTING:
        if (s->tx_shut)
            return s->peer_fin ? 7 : 5; /* CLOSE, FIN_WAIT2 */
        return s->peer_fin ? 8 : 1; /* CLOSE_WAIT, ESTABLISHED */
    }
    return 7;
}

static long get_tcp(struct sock *s, int opt, void *val, u32 *size)
{
    s32 v;

    switch (opt) {
    case TCP_NODELAY: v = (s32)s->in.tcp_nodelay; break;
    case TCP_CORK: v = (s32)s->in.tcp_cork; break;
    case TCP_KEEPIDLE: v = s->in.keepidle ? (s32)s->in.keepidle : 7200; break;
    case TCP_KEEPINTVL: v = s->in.keepintvl ? (s32)s->in.keepintvl : 75; break;
    case TCP_KEEPCNT: v = s->in.keepcnt ? (s32)s->in.keepcnt : 9; break;
    case TCP_SYNCNT: v = s->in.syncnt ? (s32)s->in.syncnt : 6; break;
    case TCP_MAXSEG: v = s->peer ? 32768 : s->in.maxseg ? (s32)s->in.maxseg : 536; break;
    case TCP_DEFER_ACCEPT: v = (s32)s->in.defer_accept; break;
    case TCP_USER_TIMEOUT: v = (s32)s->in.user_timeout; break;
    case TCP_QUICKACK: v = (s32)s->in.quickack; break;
    case TCP_LINGER2: v = s->in.linger2 ? (s32)s->in.linger2 : 60; break;
    case TCP_NOTSENT_LOWAT: v = (s32)s->in.notsent_lowat; break;
    case TCP_WINDOW_CLAMP: case TCP_FASTOPEN: case TCP_FASTOPEN_CONNECT:
        v = 0;
        break;
    case TCP_CONGESTION:
        return give(val, size, "cubic\0\0\0\0\0\0\0\0\0\0", 16);
    case TCP_INFO: {
        struct tcp_info ti;
        memset(&ti, 0, sizeof(ti));
        ti.tcpi_state = tcp_state(s);
        ti.tcpi_snd_mss = ti.tcpi_rcv_mss = 32768;
        ti.tcpi_pmtu = LO_MTU;
        ti.tcpi_rtt = 20;
        ti.tcpi_snd_cwnd = 10;
        ti.tcpi_unacked = s->state == SOCK_LISTEN ? s->accept_count : 0;
        ti.tcpi_sacked = s->state == SOCK_LISTEN ? s->backlog : 0;
        return give(val, size, &ti, sizeof(ti));
    }
    default:
        return -ENOPROTOOPT;
    }
    return give(val, size, &v, sizeof(v));
}

static long set_ip(struct sock *s, int opt, const void *val, u32 size)
{
    s32 v;

    switch (opt) {
    case IP_ADD_MEMBERSHIP: case IP_DROP_MEMBERSHIP: case IP_MULTICAST_IF: case MCAST_JOIN_GROUP:
        return -ENODEV; /* lo has no multicast */
    }
    long r = int_arg(val, size, &v);
    if (r)
        return r;
    switch (opt) {
    case IP_TOS: s->in.tos = (u32)v & 0xff; return 0;
    case IP_TTL: return v == -1 ? (s->in.ttl = 0, 0) : set_range(&s->in.ttl, v, 1, 255);
    case IP_PKTINFO: s->in.hdr_pktinfo = v != 0; return 0;
    case IP_RECVTOS: s->in.recv_tos = v != 0; return 0;
    case IP_RECVTTL: s->in.recv_ttl = v != 0; return 0;
    case IP_RECVERR: s->in.recverr = v != 0; return 0;
    case IP_MTU_DISCOVER: return set_range(&s->in.mtu_discover, v, 0, 5);
    case IP_MULTICAST_TTL: return v == -1 ? 0 : set_range(&s->in.mc_ttl, v, 0, 255);
    case IP_MULTICAST_LOOP: s->in.mc_loop = v != 0; return 0;
    case IP_FREEBIND: s->in.freebind = v != 0; return 0;
    case IP_TRANSPARENT: return -EPERM;
    case IP_BIND_ADDRESS_NO_PORT: case IP_RECVORIGDSTADDR: case IP_MULTICAST_ALL: case IP_RECVOPTS: case IP_NODEFRAG:
        return 0;
    }
    return -ENOPROTOOPT;
}

static long get_ip(struct sock *s, int opt, void *val, u32 *size)
{
    s32 v;

    switch (opt) {
    case IP_TOS: v = (s32)s->in.tos; break;
    case IP_TTL: v = s->in.ttl ? (s32)s->in.ttl : 64; break;
    case IP_PKTINFO: v = s->in.hdr_pktinfo; break;
    case IP_RECVTOS: v = s->in.recv_tos; break;
    case IP_RECVTTL: v = s->in.recv_ttl; break;
    case IP_RECVERR: v = s->in.recverr; break;
    case IP_MTU_DISCOVER: v = s->in.mtu_discover ? (s32)s->in.mtu_discover : 1; break;
    case IP_MTU:
        if (s->state != SOCK_CONNECTED)
            return -ENOTCONN;
        v = LO_MTU;
        break;
    case IP_MULTICAST_TTL: v = (s32)s->in.mc_ttl; break;
    case IP_MULTICAST_LOOP: v = (s32)s->in.mc_loop; break;
    case IP_FREEBIND: v = (s32)s->in.freebind; break;
    case IP_OPTIONS: *size = 0; return 0;
    case IP_TRANSPARENT: case IP_BIND_ADDRESS_NO_PORT: case IP_RECVORIGDSTADDR: case IP_RECVOPTS:
        v = 0;
        break;
    default:
        return -ENOPROTOOPT;
    }
    return give(val, size, &v, sizeof(v));
}

static long set_ip6(struct sock *s, int opt, const void *val, u32 size)
{
    s32 v;

    switch (opt) {
    case IPV6_ADD_MEMBERSHIP: case IPV6_DROP_MEMBERSHIP: case MCAST_JOIN_GROUP:
        return -ENODEV;
    }
    if (size < sizeof(v))
        return -EINVAL;
    memcpy(&v, val, sizeof(v));
    switch (opt) {
    case IPV6_V6ONLY:
        if (s->in.bound)
            return -EINVAL;
        s->in.v6only = v != 0;
        return 0;
    case IPV6_RECVPKTINFO: s->in.hdr_pktinfo6 = v != 0; return 0;
    case IPV6_UNICAST_HOPS: return v == -1 ? (s->in.hops = 0, 0) : set_range(&s->in.hops, v, 0, 255);
    case IPV6_TCLASS: return v == -1 ? (s->in.tclass = 0, 0) : set_range(&s->in.tclass, v, 0, 255);
    case IPV6_RECVERR: s->in.ipv6_recverr = v != 0; return 0;
    case IPV6_RECVTCLASS: s->in.recv_tclass6 = v != 0; return 0;
    case IPV6_RECVHOPLIMIT: s->in.recv_hops6 = v != 0; return 0;
    case IPV6_MULTICAST_HOPS: case IPV6_MULTICAST_LOOP: case IPV6_MTU_DISCOVER:
    case IPV6_DONTFRAG: case IPV6_MULTICAST_IF: case IPV6_AUTOFLOWLABEL: case IPV6_ADDR_PREFERENCES:
    case IPV6_FREEBIND: case IPV6_MTU:
        return 0;
    }
    return -ENOPROTOOPT;
}

static long get_ip6(struct sock *s, int opt, void *val, u32 *size)
{
    s32 v;

    switch (opt) {
    case IPV6_V6ONLY: v = s->in.v6only; break;
    case IPV6_RECVPKTINFO: v = s->in.hdr_pktinfo6; break;
    case IPV6_UNICAST_HOPS: v = s->in.hops ? (s32)s->in.hops : 64; break;
    case IPV6_TCLASS: v = (s32)s->in.tclass; break;
    case IPV6_RECVERR: v = s->in.ipv6_recverr; break;
    case IPV6_MTU: v = LO_MTU; break;
    case IPV6_MULTICAST_HOPS: case IPV6_MULTICAST_LOOP: v = 1; break;
    case IPV6_RECVTCLASS: v = s->in.recv_tclass6; break;
    case IPV6_RECVHOPLIMIT: v = s->in.recv_hops6; break;
    case IPV6_MTU_DISCOVER: case IPV6_DONTFRAG:
        v = 0;
        break;
    default:
        return -ENOPROTOOPT;
    }
    return give(val, size, &v, sizeof(v));
}

long inet_setopt(struct sock *s, int level, int opt, const void *val, u32 size)
{
    switch (level) {
    case IPPROTO_TCP:
        return set_tcp(s, opt, val, size);
    case IPPROTO_IP:
        return set_ip(s, opt, val, size);
    case IPPROTO_IPV6:
        return s->family == AF_INET6 ? set_ip6(s, opt, val, size) : -ENOPROTOOPT;
    case UDP_LEVEL:
        return -ENOPROTOOPT; /* no segmentation offload: callers fall back */
    }
    return -ENOPROTOOPT;
}

/* Of a level that is not the socket's own: ip_getsockopt() and ipv6_getsockopt() of Linux have the last word. */
static long no_level(const struct sock *s) { return s->family == AF_INET6 ? -ENOPROTOOPT : -EOPNOTSUPP; }

long inet_getopt(struct sock *s, int level, int opt, void *val, u32 *size)
{
    switch (level) {
    case IPPROTO_TCP:
        return s->type == SOCK_STREAM ? get_tcp(s, opt, val, size) : no_level(s);
    case UDP_LEVEL:
        return s->type == SOCK_DGRAM ? -ENOPROTOOPT : no_level(s);
    case IPPROTO_IP:
        return get_ip(s, opt, val, size);
    case IPPROTO_IPV6:
        if (s->family == AF_INET6)
            return get_ip6(s, opt, val, size);
    }
    return no_level(s);
}
