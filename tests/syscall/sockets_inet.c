/* TCP and UDP over the loopback of IPv4 and IPv6. */
#include "tap.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static char buf[1 << 17];
union addr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};
static socklen_t loop(int family, union addr *a, int port)
{
    memset(a, 0, sizeof(*a));
    if (family == AF_INET) {
        a->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        return sizeof(a->in);
    }
    a->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return sizeof(a->in6);
}
static int port_of(int s)
{
    union addr a;
    socklen_t n = sizeof(a);
    must(getsockname(s, &a.sa, &n));
    return ntohs(a.in.sin_port);
}
static int opt(int s, int level, int o)
{
    int v = -1;
    socklen_t n = sizeof(v);
    return getsockopt(s, level, o, &v, &n) ? -1 : v;
}
static short ev(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&p, 1, ms);
    return p.revents;
}
static int set(int s, int level, int o, int v) { return setsockopt(s, level, o, &v, sizeof(v)); }

static void tcp(int family)
{
    const char *f = family == AF_INET ? "v4" : "v6";
    union addr a, b;
    socklen_t n;
    int l = socket(family, SOCK_STREAM, 0);
    ok(l >= 0, "%s: socket", f);
    is(opt(l, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP, "%s: SO_PROTOCOL", f);
    is(bind(l, &a.sa, loop(family, &a, 0)), 0, "%s: bind to port 0", f);
    int port = port_of(l);
    ok(port >= 1024, "%s: an ephemeral port", f);
    err(bind(l, &a.sa, loop(family, &a, 0)), EINVAL, "%s: bind twice", f);
    int c = socket(family, SOCK_STREAM, 0);
    err(connect(c, &a.sa, loop(family, &a, port)), ECONNREFUSED, "%s: not listening", f);
    is(listen(l, 5), 0, "%s: listen", f);
    int o = socket(family, SOCK_STREAM, 0);
    err(bind(o, &a.sa, loop(family, &a, port)), EADDRINUSE, "%s: the port is in use", f);
    close(c);
    c = socket(family, SOCK_STREAM, 0);
    is(connect(c, &a.sa, loop(family, &a, port)), 0, "%s: connect", f);
    n = sizeof(b);
    int s = accept4(l, &b.sa, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ok(s >= 0 && fcntl(s, F_GETFD) == FD_CLOEXEC && (fcntl(s, F_GETFL) & O_NONBLOCK), "%s: accept4", f);
    is(ntohs(b.in.sin_port), port_of(c), "%s: accept: the peer's port", f);
    n = sizeof(b);
    getpeername(c, &b.sa, &n);
    ok(ntohs(b.in.sin_port) == port && b.sa.sa_family == family, "%s: getpeername", f);
    err(connect(c, &a.sa, loop(family, &a, port)), EISCONN, "%s: connect twice", f);
    err(recv(s, buf, 1, 0), EAGAIN, "%s: nothing", f);
    is(send(c, "hello", 5, 0), 5, "%s: send", f);
    is(ev(s, 1000) & POLLIN, POLLIN, "%s: readable", f);
    int q = -1;
    ioctl(s, FIONREAD, &q);
    is(q, 5, "%s: FIONREAD", f);
    is(recv(s, buf, 2, MSG_PEEK), 2, "%s: MSG_PEEK", f);
    is(recv(s, buf, 100, 0), 5, "%s: recv", f);
    is(recv(s, buf, 100, MSG_DONTWAIT), -1, "%s: MSG_DONTWAIT", f);
    is(set(c, IPPROTO_TCP, TCP_NODELAY, 1), 0, "%s: TCP_NODELAY", f);
    is(opt(c, IPPROTO_TCP, TCP_NODELAY), 1, "%s: TCP_NODELAY reads back", f);
    is(set(c, SOL_SOCKET, SO_KEEPALIVE, 1), 0, "%s: SO_KEEPALIVE", f);
    is(opt(c, SOL_SOCKET, SO_KEEPALIVE), 1, "%s: SO_KEEPALIVE reads back", f);
    is(set(c, IPPROTO_TCP, TCP_KEEPIDLE, 30), 0, "%s: TCP_KEEPIDLE", f);
    is(opt(c, IPPROTO_TCP, TCP_KEEPIDLE), 30, "%s: TCP_KEEPIDLE reads back", f);
    ok(opt(c, IPPROTO_TCP, TCP_MAXSEG) > 0, "%s: TCP_MAXSEG", f);
    struct tcp_info ti;
    n = sizeof(ti);
    is(getsockopt(c, IPPROTO_TCP, TCP_INFO, &ti, &n), 0, "%s: TCP_INFO", f);
    is(ti.tcpi_state, TCP_ESTABLISHED, "%s: TCP_INFO: established", f);
    err(set(c, IPPROTO_TCP, 9999, 1), ENOPROTOOPT, "%s: unknown option", f);
    pid_t p = fork();
    if (!p) {
        long total = 0, r;
        fcntl(s, F_SETFL, 0);
        while ((r = read(s, buf, sizeof(buf))) > 0)
            total += r;
        write(s, &total, sizeof(total));
        _exit(0);
    }
    close(s);
    memset(buf, 'x', sizeof(buf));
    long sent = 0, got = 0, r;
    while (sent < 3000000 && (r = write(c, buf, sizeof(buf))) > 0)
        sent += r;
    is(shutdown(c, SHUT_WR), 0, "%s: SHUT_WR", f);
    is(recv(c, &got, sizeof(got), MSG_WAITALL), sizeof(got), "%s: an answer after SHUT_WR", f);
    is(got, sent, "%s: megabytes arrive", f);
    is(read(c, buf, 1), 0, "%s: end", f);
    waitpid(p, NULL, 0);
    signal(SIGPIPE, SIG_IGN);
    err(write(c, "x", 1), EPIPE, "%s: EPIPE", f);
    signal(SIGPIPE, SIG_DFL);
    close(c);
    /* not waiting */
    c = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    r = connect(c, &a.sa, loop(family, &a, port));
    ok(r == 0 || errno == EINPROGRESS, "%s: connect without waiting", f);
    ok(ev(c, 1000) & POLLOUT, "%s: writable when connected", f);
    is(opt(c, SOL_SOCKET, SO_ERROR), 0, "%s: SO_ERROR 0", f);
    s = accept(l, NULL, NULL);
    ok(s >= 0, "%s: accept", f);
    struct linger li = {1, 0};
    setsockopt(c, SOL_SOCKET, SO_LINGER, &li, sizeof(li));
    close(c);
    err(read(s, buf, 1), ECONNRESET, "%s: SO_LINGER 0 resets", f);
    close(s);
    c = socket(family, SOCK_STREAM, 0);
    connect(c, &a.sa, loop(family, &a, port));
    s = accept(l, NULL, NULL);
    write(c, "unread", 6);
    sleep_ms(10);
    close(s);
    sleep_ms(10);
    err(read(c, buf, 1), ECONNRESET, "%s: unread data at close resets", f);
    close(c);
    int ref = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    close(l);
    r = connect(ref, &a.sa, loop(family, &a, port));
    if (r < 0 && errno == EINPROGRESS) {
        ev(ref, 1000);
        is(opt(ref, SOL_SOCKET, SO_ERROR), ECONNREFUSED, "%s: refused", f);
    } else {
        ok(r < 0 && errno == ECONNREFUSED, "%s: refused", f);
    }
    close(ref);
    l = socket(family, SOCK_STREAM, 0);
    is(set(l, SOL_SOCKET, SO_REUSEADDR, 1), 0, "%s: SO_REUSEADDR", f);
    is(bind(l, &a.sa, loop(family, &a, port)), 0, "%s: SO_REUSEADDR: the port can be used at once", f);
    err(accept(l, NULL, NULL), EINVAL, "%s: accept: not listening", f);
    err(send(l, "x", 1, MSG_NOSIGNAL), EPIPE, "%s: send: not connected", f);
    err(recv(l, buf, 1, 0), ENOTCONN, "%s: recv: not connected", f);
    err(shutdown(l, SHUT_RDWR), ENOTCONN, "%s: shutdown: not connected", f);
    listen(l, 1);
    close(o);
    close(l);
}

static void udp(int family)
{
    const char *f = family == AF_INET ? "v4" : "v6";
    union addr a, b;
    socklen_t n;
    int s = socket(family, SOCK_DGRAM, 0), c = socket(family, SOCK_DGRAM, 0);
    is(opt(s, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP, "udp %s: SO_PROTOCOL", f);
    is(bind(s, &a.sa, loop(family, &a, 0)), 0, "udp %s: bind", f);
    int port = port_of(s);
    err(bind(c, &a.sa, loop(family, &a, port)), EADDRINUSE, "udp %s: in use", f);
    is(sendto(c, "abc", 3, 0, &a.sa, loop(family, &a, port)), 3, "udp %s: sendto", f);
    ok(port_of(c) != 0, "udp %s: bound by sending", f);
    n = sizeof(b);
    is(recvfrom(s, buf, 100, 0, &b.sa, &n), 3, "udp %s: recvfrom", f);
    is(ntohs(b.in.sin_port), port_of(c), "udp %s: the sender", f);
    is(sendto(s, "answer", 6, 0, &b.sa, n), 6, "udp %s: answer", f);
    is(recv(c, buf, 3, MSG_TRUNC), 6, "udp %s: MSG_TRUNC", f);
    err(send(c, "x", 1, 0), EDESTADDRREQ, "udp %s: no address", f);
    is(connect(c, &a.sa, loop(family, &a, port)), 0, "udp %s: connect", f);
    is(send(c, "", 0, 0), 0, "udp %s: empty", f);
    is(recv(s, buf, 10, 0), 0, "udp %s: empty arrives", f);
    err(recv(s, buf, 10, MSG_DONTWAIT), EAGAIN, "udp %s: nothing", f);
    err(send(c, buf, 70000, 0), EMSGSIZE, "udp %s: too long", f);
    is(send(c, buf, 60000, 0), 60000, "udp %s: 60000 bytes", f);
    is(recv(s, buf, sizeof(buf), 0), 60000, "udp %s: arrive", f);
    int other = socket(family, SOCK_DGRAM, 0);
    sendto(other, "x", 1, 0, &b.sa, loop(family, &b, port_of(c)));
    err(recv(c, buf, 10, MSG_DONTWAIT), EAGAIN, "udp %s: a connected one hears its peer only", f);
    struct sockaddr un = {.sa_family = AF_UNSPEC};
    is(connect(c, &un, sizeof(un)), 0, "udp %s: dissolve", f);
    err(getpeername(c, &b.sa, &n), ENOTCONN, "udp %s: dissolved", f);
    connect(c, &a.sa, loop(family, &a, port));
    close(s);
    err(send(c, (void *)-1, 1, 0), EFAULT, "udp %s: bad buffer, nobody there", f);
    send(c, "x", 1, 0);
    sleep_ms(10);
    err(recv(c, buf, 10, MSG_DONTWAIT), ECONNREFUSED, "udp %s: nobody there", f);
    err(listen(c, 1), EOPNOTSUPP, "udp %s: listen", f);
    close(c);
    close(other);
}

static void others(void)
{
    union addr a;
    int s = socket(AF_INET, SOCK_STREAM, 0), v6 = socket(AF_INET6, SOCK_STREAM, 0);
    err(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT, "a wrong protocol");
    err(socket(AF_INET, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT, "a wrong type");
    a.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x01020304)};
    err(bind(s, &a.sa, sizeof(a.in)), EADDRNOTAVAIL, "bind: not our address");
    err(bind(s, &a.sa, 3), EINVAL, "bind: short");
    err(connect(s, &a.sa, 3), EINVAL, "connect: short");
    is(set(v6, IPPROTO_IPV6, IPV6_V6ONLY, 0), 0, "IPV6_V6ONLY");
    a.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
    is(bind(v6, &a.sa, sizeof(a.in6)), 0, "bind: any v6");
    listen(v6, 5);
    int port = port_of(v6);
    is(connect(s, &a.sa, loop(AF_INET, &a, port)), 0, "v4 to a v6 listener");
    socklen_t n = sizeof(a);
    int c = accept(v6, &a.sa, &n);
    ok(c >= 0 && IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr), "a mapped address");
    close(s);
    close(c);
    close(v6);
    s = socket(AF_INET, SOCK_STREAM, 0);
    a.in = (struct sockaddr_in){.sin_family = AF_INET};
    is(bind(s, &a.sa, sizeof(a.in)), 0, "bind: any v4");
    is(listen(s, 5), 0, "listen on it");
    int x = socket(AF_INET, SOCK_STREAM, 0);
    a.in.sin_port = htons((uint16_t)port_of(s));
    is(connect(x, &a.sa, sizeof(a.in)), 0, "connect to any is the loopback");
    c = accept(s, NULL, NULL);
    n = sizeof(a);
    getpeername(x, &a.sa, &n);
    is(ntohl(a.in.sin_addr.s_addr), INADDR_LOOPBACK, "as getpeername says");
    close(x);
    close(c);
    close(s);
    int l1 = socket(AF_INET, SOCK_STREAM, 0), l2 = socket(AF_INET, SOCK_STREAM, 0);
    is(set(l1, SOL_SOCKET, SO_REUSEPORT, 1), 0, "SO_REUSEPORT");
    set(l2, SOL_SOCKET, SO_REUSEPORT, 1);
    bind(l1, &a.sa, loop(AF_INET, &a, 0));
    is(bind(l2, &a.sa, loop(AF_INET, &a, port_of(l1))), 0, "SO_REUSEPORT: two on one port");
    close(l1);
    close(l2);
    s = socket(AF_INET, SOCK_STREAM, 0);
    is(listen(s, 5), 0, "listen without bind");
    ok(port_of(s) != 0, "gets a port");
    struct timeval tv = {0, 30000};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    err(accept(s, NULL, NULL), EAGAIN, "accept: SO_RCVTIMEO");
    close(s);
    s = socket(AF_INET, SOCK_DGRAM, 0);
    is(opt(s, IPPROTO_IP, IP_TTL), 64, "IP_TTL");
    is(set(s, IPPROTO_IP, IP_TTL, 10), 0, "IP_TTL: set");
    is(opt(s, IPPROTO_IP, IP_TTL), 10, "IP_TTL: reads back");
    err(set(s, IPPROTO_IP, IP_TTL, 300), EINVAL, "IP_TTL: too big");
    is(set(s, IPPROTO_IP, IP_TOS, 16), 0, "IP_TOS");
    int bc = 1;
    is(setsockopt(s, SOL_SOCKET, SO_BROADCAST, &bc, sizeof(bc)), 0, "SO_BROADCAST");
    close(s);
}

/* A datagram from s to port, with one control message if data is not negative. */
static long send_with(int s, int family, int port, int level, int type, int data)
{
    union addr a;
    char c[CMSG_SPACE(sizeof(int))] = "";
    struct iovec iov = {"x", 1};
    struct msghdr m = {.msg_name = &a, .msg_namelen = loop(family, &a, port), .msg_iov = &iov, .msg_iovlen = 1};
    if (data >= 0) {
        m.msg_control = c;
        m.msg_controllen = sizeof(c);
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = level, .cmsg_type = type};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &data, sizeof(data));
    }
    return sendmsg(s, &m, 0);
}
static void received(int s, const char *what)
{
    char c[256], b[4];
    struct iovec iov = {b, sizeof(b)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof(c)};
    is(recvmsg(s, &m, 0), 1, "%s: a datagram", what);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
        int v = 0;
        memcpy(&v, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0) < sizeof(v) ? h->cmsg_len - CMSG_LEN(0) : sizeof(v));
        ok(1, "%s: level %d type %d size %d value %d", what, h->cmsg_level, h->cmsg_type, (int)(h->cmsg_len - CMSG_LEN(0)),
           h->cmsg_type == IP_PKTINFO || h->cmsg_type == IPV6_PKTINFO ? 0 : v);
    }
}
static void headers(int family)
{
    bool v4 = family == AF_INET;
    int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, hops = v4 ? IP_TTL : IPV6_HOPLIMIT, tos = v4 ? IP_TOS : IPV6_TCLASS;
    int recv_hops = v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, recv_tos = v4 ? IP_RECVTOS : IPV6_RECVTCLASS;
    union addr a;
    int r = socket(family, SOCK_DGRAM, 0), s = socket(family, SOCK_DGRAM, 0);
    must(bind(r, &a.sa, loop(family, &a, 0)));
    int port = port_of(r);
    is(opt(r, level, recv_hops), 0, "receive the hop limit: off");
    set(r, level, recv_hops, 1);
    is(opt(r, level, recv_hops), 1, "receive the hop limit: on");
    send_with(s, family, port, 0, 0, -1);
    received(r, "hop limit");
    set(r, level, recv_tos, 1);
    set(r, level, v4 ? IP_PKTINFO : IPV6_RECVPKTINFO, 1);
    set(s, level, v4 ? IP_TTL : IPV6_UNICAST_HOPS, 9);
    set(s, level, tos, 0x20);
    send_with(s, family, port, 0, 0, -1);
    received(r, "the socket's");
    is(send_with(s, family, port, SOL_SOCKET, SCM_RIGHTS, 1), 1, "SCM_RIGHTS: not looked at");
    received(r, "SCM_RIGHTS");
    is(send_with(s, family, port, level, hops, 2), 1, "hop limit of one message");
    received(r, "its own hop limit");
    is(send_with(s, family, port, level, tos, 0x40), 1, "traffic class of one message");
    received(r, "its own traffic class");
    err(send_with(s, family, port, level, hops, 256), EINVAL, "hop limit: too big");
    err(send_with(s, family, port, level, tos, 256), EINVAL, "traffic class: too big");
    close(r);
    close(s);
}

/* Levels and protocols that are not the socket's own. */
static void strangers(void)
{
    int v, pair[2], t = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0), t6 = socket(AF_INET6, SOCK_STREAM, 0);
    socklen_t n = sizeof(v);
    err(getsockopt(t, 500, 1, &v, &n), EOPNOTSUPP, "getsockopt: no such level");
    err(getsockopt(t, IPPROTO_UDP, 1, &v, &n), EOPNOTSUPP, "getsockopt: UDP of TCP");
    err(getsockopt(u, IPPROTO_TCP, TCP_NODELAY, &v, &n), EOPNOTSUPP, "getsockopt: TCP of UDP");
    err(getsockopt(u, IPPROTO_UDP, 999, &v, &n), ENOPROTOOPT, "getsockopt: no such option of UDP");
    err(getsockopt(t6, 500, 1, &v, &n), ENOPROTOOPT, "getsockopt: no such level, IPv6");
    err(setsockopt(t, 500, 1, &v, n), ENOPROTOOPT, "setsockopt: no such level");
    err(getsockopt(t, IPPROTO_IPV6, IPV6_V6ONLY, &v, &n), EOPNOTSUPP, "getsockopt: IPv6 of IPv4");
    err(ioctl(u, SIOCATMARK, &v), ENOTTY, "SIOCATMARK of UDP");
    err(socket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT, "SOCK_RAW without a protocol");
    err(socketpair(AF_INET, 75, 0, pair), EINVAL, "socketpair: type");
    err(socketpair(AF_INET, SOCK_DGRAM, 6, pair), EPROTONOSUPPORT, "socketpair: TCP datagrams");
    err(socketpair(AF_INET, SOCK_STREAM, 0, pair), EOPNOTSUPP, "socketpair of TCP");
    close(t);
    close(u);
    close(t6);
}

TAP_MAIN
{
    strangers();
    headers(AF_INET);
    headers(AF_INET6);
    tcp(AF_INET);
    tcp(AF_INET6);
    udp(AF_INET);
    udp(AF_INET6);
    others();
    return done();
}
