/* Sockets: AF_UNIX, TCP and UDP over the loopback, netlink. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/stat.h>
#include <asm/ioctls.h>
#include <asm/socket.h>

#include "base/string.h"
#include "net/sock.h"
#include "ipc_fake.h"

SYS(socket); SYS(socketpair); SYS(bind); SYS(listen); SYS(connect); SYS(accept4); SYS(getsockname); SYS(getpeername);
SYS(shutdown); SYS(setsockopt); SYS(getsockopt); SYS(sendto); SYS(recvfrom); SYS(sendmsg); SYS(recvmsg); SYS(pipe2);

static char big[600000], back[600000];

struct sun {
    u16 family;
    char path[108];
};
struct mh { /* struct msghdr */
    void *name;
    u32 name_size, p1;
    struct uio_seg *iov;
    u64 iov_count;
    void *control;
    u64 control_size;
    u32 flags, p2;
};

#define send(fd, p, n, fl) call6(sendto, fd, p, n, fl, 0, 0)
#define recv(fd, p, n, fl) call6(recvfrom, fd, p, n, fl, 0, 0)

static void test_pair(void)
{
    int fd[2], n;
    s32 v;
    u32 size = 4;

    tap_group("unix stream pair");
    CHECK_EQ(call4(socketpair, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    CHECK_EQ(t_poll(fd[0], ~0u), EPOLLOUT | EPOLLWRNORM);
    CHECK_EQ(recv(fd[0], back, 10, 0), -EAGAIN);
    CHECK_EQ(send(fd[0], "hello world", 11, 0), 11);
    CHECK_EQ(recv(fd[1], back, 5, MSG_PEEK), 5);
    CHECK_EQ(recv(fd[1], back, 100, MSG_PEEK), 11);
    CHECK_EQ(t_ioctl(fd[1], FIONREAD, &n), 0);
    CHECK_EQ(n, 11);
    CHECK_EQ(recv(fd[1], back, 100, 0), 11);
    CHECK(!memcmp(back, "hello world", 11));
    long put = send(fd[0], big, sizeof(big), 0);
    CHECK(put > 100000 && put < (long)sizeof(big));
    CHECK_EQ(send(fd[0], big, 1, 0), -EAGAIN);
    CHECK_EQ(t_poll(fd[0], EPOLLOUT), 0);
    CHECK_EQ(recv(fd[1], back, sizeof(back), 0), put);
    CHECK(!memcmp(back, big, (u64)put));
    CHECK_EQ(t_poll(fd[0], EPOLLOUT), EPOLLOUT);
    CHECK_EQ(call5(getsockopt, fd[0], SOL_SOCKET, SO_TYPE, &v, &size), 0);
    CHECK_EQ(v, SOCK_STREAM);
    CHECK_EQ(send(fd[0], "tail", 4, 0), 4);
    CHECK_EQ(call2(shutdown, fd[0], SHUT_WR), 0);
    CHECK_EQ(send(fd[0], "x", 1, 0), -EPIPE);
    CHECK_EQ(fake_signal_taken(), 13);
    CHECK_EQ(send(fd[0], "x", 1, MSG_NOSIGNAL), -EPIPE);
    CHECK_EQ(fake_signal_taken(), 0);
    CHECK_EQ(t_poll(fd[1], ~0u), EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM | EPOLLRDHUP);
    CHECK_EQ(recv(fd[1], back, 100, 0), 4);
    CHECK_EQ(recv(fd[1], back, 100, 0), 0);
    CHECK_EQ(send(fd[1], "back", 4, 0), 4);
    t_close(fd[1]);
    CHECK_EQ(recv(fd[0], back, 100, 0), 4);
    CHECK_EQ(recv(fd[0], back, 100, 0), 0);
    CHECK(t_poll(fd[0], ~0u) & EPOLLHUP);
    t_close(fd[0]);

    CHECK_EQ(call4(socketpair, AF_UNIX, SOCK_STREAM, 0, fd), 0);
    send(fd[0], "unread", 6, 0);
    t_close(fd[1]);
    CHECK_EQ(recv(fd[0], back, 10, 0), -ECONNRESET);
    CHECK_EQ(recv(fd[0], back, 10, 0), 0);
    t_close(fd[0]);
}

static void big_sender(void *p)
{
    CHECK_EQ(send(*(int *)p, big, sizeof(big), 0), sizeof(big));
    call2(shutdown, *(int *)p, SHUT_WR);
}

static void test_pair_tasks(int a, int b)
{
    u32 got = 0;
    long r;

    memset(back, 0, sizeof(back));
    void *t = fake_spawn(big_sender, &a);
    while ((r = recv(b, back + got, MIN(got % 9000 + 1, (u32)sizeof(back) - got + 1), 0)) > 0)
        got += (u32)r;
    fake_join(t);
    CHECK_EQ(r, 0);
    CHECK_EQ(got, sizeof(big));
    CHECK(!memcmp(big, back, sizeof(big)));
}

static void test_unix_names(void)
{
    struct sun un = {AF_UNIX, "/sock"}, ab = {AF_UNIX, "\0abc"}, out;
    u32 size;
    struct ucred uc;

    tap_group("unix names");
    int l = (int)call3(socket, AF_UNIX, SOCK_STREAM, 0), c = (int)call3(socket, AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(call3(connect, c, &ab, 6), -ECONNREFUSED);
    CHECK_EQ(call2(listen, l, 5), -EINVAL);
    CHECK_EQ(call3(bind, l, &ab, 6), 0);
    CHECK_EQ(call3(bind, l, &ab, 6), -EINVAL);
    CHECK_EQ(call3(bind, c, &ab, 6), -EADDRINUSE);
    CHECK_EQ(call3(connect, c, &ab, 6), -ECONNREFUSED);
    CHECK_EQ(call2(listen, l, 1), 0);
    CHECK_EQ(call3(connect, c, &ab, 5), -ECONNREFUSED); /* another name */
    CHECK_EQ(call3(connect, c, &ab, 6), 0);
    CHECK_EQ(call3(connect, c, &ab, 6), -EISCONN);
    CHECK_EQ(t_poll(l, ~0u), EPOLLIN | EPOLLRDNORM);
    CHECK_EQ(send(c, "early", 5, 0), 5); /* before accept */
    int s = (int)call4(accept4, l, &out, (size = sizeof(out), &size), 0);
    CHECK(s > 0);
    CHECK_EQ(size, 2); /* the client has no name */
    CHECK_EQ(recv(s, back, 10, 0), 5);
    CHECK_EQ(call3(getpeername, c, &out, (size = sizeof(out), &size)), 0);
    CHECK_EQ(size, 6);
    CHECK(!memcmp(&out, &ab, 6));
    CHECK_EQ(call5(getsockopt, c, SOL_SOCKET, SO_PEERCRED, &uc, (size = sizeof(uc), &size)), 0);
    CHECK_EQ(uc.pid, 1);
    test_pair_tasks(c, s);
    t_close(c);
    t_close(s);
    /* backlog: two wait, the third is refused without blocking */
    int q[3];
    for (int i = 0; i < 3; i++) {
        q[i] = (int)call3(socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK_EQ(call3(connect, q[i], &ab, 6), i < 2 ? 0 : -EAGAIN);
    }
    t_close(l);
    CHECK_EQ(recv(q[0], back, 1, 0), -ECONNRESET);
    for (int i = 0; i < 3; i++)
        t_close(q[i]);
    l = (int)call3(socket, AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(call3(bind, l, &ab, 6), 0); /* free again */
    t_close(l);
    (void)un;

    tap_group("unix dgram");
    int a = (int)call3(socket, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    int b = (int)call3(socket, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(call3(bind, a, &ab, 6), 0);
    CHECK_EQ(call3(bind, b, &ab, 2), 0); /* autobind */
    CHECK_EQ(call6(sendto, b, "one", 3, 0, &ab, 6), 3);
    CHECK_EQ(call6(sendto, b, "", 0, 0, &ab, 6), 0);
    CHECK_EQ(call6(sendto, b, "three", 5, 0, &ab, 6), 5);
    CHECK_EQ(call6(recvfrom, a, back, 2, MSG_TRUNC, &out, (size = sizeof(out), &size)), 3);
    CHECK_EQ(size, 8);
    CHECK_EQ(recv(a, back, 10, 0), 0);
    CHECK_EQ(recv(a, back, 10, 0), 5);
    CHECK_EQ(recv(a, back, 10, 0), -EAGAIN);
    CHECK_EQ(call6(sendto, b, "x", 1, 0, 0, 0), -ENOTCONN);
    CHECK_EQ(call3(connect, b, &ab, 6), 0);
    int n = 0;
    while (send(b, "x", 1, 0) == 1)
        n++;
    CHECK_EQ(n, 11); /* net.unix.max_dgram_qlen */
    t_close(a);
    CHECK_EQ(send(b, "x", 1, 0), -ECONNREFUSED);
    CHECK_EQ(send(b, "x", 1, 0), -ENOTCONN);
    t_close(b);
}

static void test_rights(void)
{
    int fd[2], p[2];
    struct uio_seg seg = {U("data"), 4}, in = {U(back), 100};
    struct {
        u64 size;
        s32 level, type;
        s32 fd[4];
    } c = {24, SOL_SOCKET, SCM_RIGHTS, {0}}, r;
    struct mh m = {.iov = &seg, .iov_count = 1, .control = &c, .control_size = 24};
    struct mh g = {.iov = &in, .iov_count = 1, .control = &r, .control_size = sizeof(r)};

    tap_group("descriptors over sockets");
    u64 files = fake_live_files();
    call4(socketpair, AF_UNIX, SOCK_STREAM, 0, fd);
    call2(pipe2, p, 0);
    c.fd[0] = p[1];
    c.fd[1] = p[0];
    CHECK_EQ(send(fd[0], "before", 6, 0), 6);
    CHECK_EQ(call3(sendmsg, fd[0], &m, 0), 4);
    CHECK_EQ(send(fd[0], "after", 5, 0), 5);
    t_close(p[1]);
    CHECK_EQ(call3(recvmsg, fd[1], &g, 0), 10); /* glued to what lies before, not to what lies behind: as Linux */
    CHECK_EQ(g.control_size, 24);
    CHECK_EQ(r.size, 24);
    CHECK_EQ(t_write(r.fd[0], "through", 7), 7);
    CHECK_EQ(t_read(p[0], back, 100), 7);
    t_close(r.fd[0]);
    t_close(r.fd[1]);
    CHECK_EQ(recv(fd[1], back, 100, 0), 5);
    /* no room for control data: the descriptors are closed */
    c.size = 20;
    c.fd[0] = p[0];
    m.control_size = 20;
    CHECK_EQ(call3(sendmsg, fd[0], &m, 0), 4);
    c.size = m.control_size = 24;
    g.control_size = 0;
    g.control = NULL;
    CHECK_EQ(call3(recvmsg, fd[1], &g, 0), 4);
    CHECK_EQ(g.flags & MSG_CTRUNC, MSG_CTRUNC);
    c.fd[0] = 250;
    CHECK_EQ(call3(sendmsg, fd[0], &m, 0), -EBADF);
    t_close(p[0]);
    t_close(fd[0]);
    t_close(fd[1]);
    CHECK_EQ(fake_live_files(), files);

    /* a pair that carries itself, closed: nothing may stay */
    call4(socketpair, AF_UNIX, SOCK_STREAM, 0, fd);
    c.size = 24;
    c.fd[0] = fd[0];
    c.fd[1] = fd[1];
    CHECK_EQ(call3(sendmsg, fd[0], &m, 0), 4);
    CHECK_EQ(call3(sendmsg, fd[1], &m, 0), 4);
    t_close(fd[0]);
    t_close(fd[1]);
    int again[2]; /* the collector runs when a unix socket is closed */
    call4(socketpair, AF_UNIX, SOCK_STREAM, 0, again);
    t_close(again[0]);
    t_close(again[1]);
    CHECK_EQ(fake_live_files(), files);

    /* sockets in sockets: not without end, their closing is recursive */
    int depth = 0, in_hand[2], next[2];
    call4(socketpair, AF_UNIX, SOCK_STREAM, 0, in_hand);
    for (;; depth++) {
        call4(socketpair, AF_UNIX, SOCK_STREAM, 0, next);
        c.size = m.control_size = 20;
        c.fd[0] = in_hand[1];
        long e = call3(sendmsg, next[0], &m, 0);
        t_close(in_hand[0]);
        t_close(in_hand[1]);
        in_hand[0] = next[0];
        in_hand[1] = next[1];
        if (e < 0) {
            CHECK_EQ(e, -ETOOMANYREFS);
            break;
        }
    }
    CHECK_EQ(depth, 4);
    t_close(in_hand[0]);
    t_close(in_hand[1]);
    CHECK_EQ(fake_live_files(), files);
    c.size = m.control_size = 24;

    tap_group("seqpacket and credentials");
    s32 one = 1;
    call4(socketpair, AF_UNIX, SOCK_SEQPACKET, 0, fd);
    CHECK_EQ(call5(setsockopt, fd[1], SOL_SOCKET, SO_PASSCRED, &one, 4), 0);
    CHECK_EQ(send(fd[0], "packet", 6, 0), 6);
    g = (struct mh){.iov = &in, .iov_count = 1, .control = &r, .control_size = sizeof(r)};
    in.size = 3;
    CHECK_EQ(call3(recvmsg, fd[1], &g, 0), 3);
    CHECK_EQ(g.flags, MSG_TRUNC | MSG_EOR);
    CHECK(r.type == SCM_CREDENTIALS && r.fd[0] == 1);
    t_close(fd[0]);
    CHECK_EQ(recv(fd[1], back, 10, 0), 0);
    CHECK_EQ(send(fd[1], "x", 1, MSG_NOSIGNAL), -EPIPE);
    t_close(fd[1]);
}

static struct sockaddr_in inet(u32 addr, u16 port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = swap16(port)};
    a.sin_addr.s_addr = __builtin_bswap32(addr);
    return a;
}
#define LO 0x7f000001u

static int tcp_listener(struct sockaddr_in *a)
{
    u32 size = sizeof(*a);
    int l = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    *a = inet(LO, 0);
    CHECK_EQ(call3(bind, l, a, sizeof(*a)), 0);
    CHECK_EQ(call2(listen, l, 5), 0);
    CHECK_EQ(call3(getsockname, l, a, &size), 0);
    CHECK(a->sin_port != 0);
    return l;
}

static void test_tcp(void)
{
    struct sockaddr_in a, o, far = inet(0x08080808, 80);
    u32 size = sizeof(o);
    s32 v;

    tap_group("tcp");
    int l = tcp_listener(&a), c = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(t_poll(c, ~0u), EPOLLOUT | EPOLLWRNORM | EPOLLHUP);
    CHECK_EQ(call3(connect, c, &far, sizeof(far)), -ENETUNREACH);
    CHECK_EQ(call3(bind, c, &far, sizeof(far)), -EADDRNOTAVAIL);
    CHECK_EQ(call3(bind, c, &a, sizeof(a)), -EADDRINUSE);
    CHECK_EQ(recv(c, back, 1, 0), -ENOTCONN);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), 0);
    int s = (int)call4(accept4, l, &o, &size, 0);
    CHECK(s > 0);
    struct sockaddr_in mine;
    CHECK_EQ(call3(getsockname, c, &mine, (size = sizeof(mine), &size)), 0);
    CHECK(!memcmp(&mine, &o, sizeof(o)) && mine.sin_addr.s_addr == a.sin_addr.s_addr);
    CHECK_EQ(send(c, "GET", 3, 0), 3);
    CHECK_EQ(recv(s, back, 10, 0), 3);
    CHECK_EQ(recv(s, back, 10, MSG_DONTWAIT), -EAGAIN);
    test_pair_tasks(c, s); /* ends with a half close */
    CHECK_EQ(send(s, "still", 5, 0), 5);
    CHECK_EQ(recv(c, back, 10, 0), 5);
    t_close(s);
    CHECK_EQ(recv(c, back, 10, 0), 0);
    t_close(c);

    tap_group("tcp reset");
    c = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), 0);
    s = (int)call4(accept4, l, 0, 0, 0);
    send(c, "unread", 6, 0);
    t_close(s);
    CHECK(t_poll(c, ~0u) & EPOLLERR);
    CHECK_EQ(recv(c, back, 10, 0), -ECONNRESET);
    t_close(c);
    c = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    call3(connect, c, &a, sizeof(a));
    s = (int)call4(accept4, l, 0, 0, 0);
    t_close(s);
    CHECK_EQ(send(c, "x", 1, 0), 1); /* answered by a reset */
    CHECK_EQ(send(c, "x", 1, 0), -EPIPE);
    t_close(c);
    CHECK_EQ(fake_signal_taken(), 13);

    tap_group("tcp nonblocking");
    c = (int)call3(socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), -EINPROGRESS);
    CHECK_EQ(t_poll(c, ~0u), EPOLLOUT | EPOLLWRNORM);
    CHECK_EQ(call5(getsockopt, c, SOL_SOCKET, SO_ERROR, &v, (size = 4, &size)), 0);
    CHECK_EQ(v, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), -EISCONN);
    t_close(c);
    s = (int)call4(accept4, l, 0, 0, 0);
    CHECK_EQ(recv(s, back, 1, 0), 0);
    t_close(s);
    t_close(l);
    c = (int)call3(socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), -EINPROGRESS);
    CHECK(t_poll(c, ~0u) & EPOLLERR);
    CHECK_EQ(call5(getsockopt, c, SOL_SOCKET, SO_ERROR, &v, (size = 4, &size)), 0);
    CHECK_EQ(v, ECONNREFUSED);
    t_close(c);
    c = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), -ECONNREFUSED);
    t_close(c);
}

static void test_v6(void)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, o;
    struct sockaddr_in four;
    u32 size = sizeof(o);
    s32 v = 0;

    tap_group("tcp over IPv6");
    int l = (int)call3(socket, AF_INET6, SOCK_STREAM, 0);
    CHECK_EQ(call5(setsockopt, l, IPPROTO_IPV6, IPV6_V6ONLY, &v, 4), 0);
    CHECK_EQ(call3(bind, l, &a, sizeof(a)), 0);
    CHECK_EQ(call2(listen, l, 5), 0);
    call3(getsockname, l, &a, (size = sizeof(a), &size));
    four = inet(LO, swap16(a.sin6_port));
    int c = (int)call3(socket, AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(call3(connect, c, &four, sizeof(four)), 0); /* a dual-stack listener takes IPv4 */
    int s = (int)call4(accept4, l, &o, (size = sizeof(o), &size), 0);
    CHECK(s > 0 && o.sin6_addr.s6_addr[10] == 0xff && o.sin6_addr.s6_addr[12] == 127);
    t_close(c);
    t_close(s);
    a.sin6_addr.s6_addr[15] = 1;
    c = (int)call3(socket, AF_INET6, SOCK_STREAM, 0);
    CHECK_EQ(call3(connect, c, &a, sizeof(a)), 0);
    s = (int)call4(accept4, l, &o, (size = sizeof(o), &size), 0);
    CHECK_EQ(o.sin6_addr.s6_addr[15], 1);
    t_close(c);
    t_close(s);
    t_close(l);
}

static void test_udp(void)
{
    struct sockaddr_in a = inet(0, 0), b, o;
    u32 size = sizeof(a);

    tap_group("udp");
    int s = (int)call3(socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), c = (int)call3(socket, AF_INET, SOCK_DGRAM, 0);
    CHECK_EQ(send(c, "x", 1, 0), -EDESTADDRREQ);
    CHECK_EQ(call3(bind, s, &a, sizeof(a)), 0);
    call3(getsockname, s, &a, &size);
    a.sin_addr.s_addr = __builtin_bswap32(LO);
    CHECK_EQ(call6(sendto, c, "hello", 5, 0, &a, sizeof(a)), 5);
    CHECK_EQ(call6(recvfrom, s, back, 100, 0, &b, (size = sizeof(b), &size)), 5);
    CHECK(size == sizeof(b) && b.sin_addr.s_addr == a.sin_addr.s_addr && b.sin_port);
    CHECK_EQ(call6(sendto, s, "reply", 5, 0, &b, sizeof(b)), 5);
    CHECK_EQ(recv(c, back, 100, 0), 5);
    CHECK_EQ(call6(sendto, c, big, 65508, 0, &a, sizeof(a)), -EMSGSIZE);
    CHECK_EQ(call6(sendto, c, big, 65507, 0, &a, sizeof(a)), 65507);
    CHECK_EQ(recv(s, back, sizeof(back), 0), 65507);
    /* pktinfo */
    s32 one = 1;
    char ctl[64];
    struct uio_seg in = {U(back), 100};
    struct mh m = {.iov = &in, .iov_count = 1, .control = ctl, .control_size = sizeof(ctl), .name = &o, .name_size = sizeof(o)};
    CHECK_EQ(call5(setsockopt, s, IPPROTO_IP, IP_PKTINFO, &one, 4), 0);
    call6(sendto, c, "i", 1, 0, &a, sizeof(a));
    CHECK_EQ(call3(recvmsg, s, &m, 0), 1);
    CHECK(m.control_size >= 28 && ctl[16] == 1 && ctl[24] == 127 && ctl[27] == 1);
    /* connected: others are not heard, and a closed port is told */
    CHECK_EQ(call3(connect, s, &b, sizeof(b)), 0);
    int x = (int)call3(socket, AF_INET, SOCK_DGRAM, 0);
    CHECK_EQ(call6(sendto, x, "other", 5, 0, &a, sizeof(a)), 5);
    CHECK_EQ(recv(s, back, 10, 0), -EAGAIN);
    t_close(c);
    CHECK_EQ(send(s, "x", 1, 0), 1);
    CHECK_EQ(send(s, "x", 1, 0), -ECONNREFUSED);
    u16 unspec[8] = {0};
    CHECK_EQ(call3(connect, s, unspec, 16), 0);
    CHECK_EQ(call6(sendto, x, "other", 5, 0, &a, sizeof(a)), 5);
    CHECK_EQ(recv(s, back, 10, 0), 5);
    t_close(x);
    t_close(s);
    CHECK_EQ(call3(socket, AF_INET, SOCK_RAW, 1), -EPERM);
    CHECK_EQ(call3(socket, AF_INET, SOCK_STREAM, 17), -EPROTONOSUPPORT);
    CHECK_EQ(call3(socket, 33, SOCK_STREAM, 0), -EAFNOSUPPORT);
    CHECK_EQ(call3(socket, AF_INET, SOCK_SEQPACKET, 0), -ESOCKTNOSUPPORT);
    CHECK_EQ(call4(getsockname, 200, 0, 0, 0), -EBADF);
}

static void test_netlink(void)
{
    struct {
        struct nlmsghdr h;
        struct rtgenmsg g;
    } req = {{.nlmsg_len = sizeof(req), .nlmsg_type = RTM_GETADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 7}, {0}};
    int count = 0;

    tap_group("netlink");
    int fd = (int)call3(socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    CHECK(fd >= 0);
    CHECK_EQ(send(fd, &req, sizeof(req), 0), sizeof(req));
    long n = recv(fd, back, sizeof(back), 0);
    for (struct nlmsghdr *h = (void *)back; NLMSG_OK(h, (u32)n); h = NLMSG_NEXT(h, n))
        count += h->nlmsg_type == RTM_NEWADDR && h->nlmsg_seq == 7;
    CHECK_EQ(count, 2);
    recv(fd, back, sizeof(back), 0);
    CHECK_EQ(((struct nlmsghdr *)back)->nlmsg_type, NLMSG_DONE);
    CHECK_EQ(recv(fd, back, sizeof(back), MSG_DONTWAIT), -EAGAIN);
    t_close(fd);
}

int main(void)
{
    fake_init();
    for (u32 i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 13 + i / 253);
    u64 files = fake_live_files(), bytes = fake_live_bytes();
    test_pair();
    int fd[2];
    call4(socketpair, AF_UNIX, SOCK_STREAM, 0, fd);
    test_pair_tasks(fd[0], fd[1]);
    t_close(fd[0]);
    t_close(fd[1]);
    test_unix_names();
    test_rights();
    test_tcp();
    test_v6();
    test_udp();
    test_netlink();
    tap_group("end");
    CHECK_EQ(fake_live_files(), files);
    CHECK_EQ(fake_live_bytes(), bytes);
    return tap_end();
}
