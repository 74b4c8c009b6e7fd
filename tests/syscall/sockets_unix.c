/* AF_UNIX: stream, datagram, seqpacket; names, socketpair, shutdown, flags, passing descriptors and credentials. */
#include "tap.h"
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static char buf[1 << 18];
static socklen_t name(struct sockaddr_un *a, const char *path)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    strcpy(a->sun_path, path);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}
static socklen_t abstract(struct sockaddr_un *a, const char *n)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    strcpy(a->sun_path + 1, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(n));
}
static int bound(int type, const char *path)
{
    struct sockaddr_un a;
    int s = must(socket(AF_UNIX, type, 0));
    must(bind(s, (void *)&a, name(&a, path)));
    return s;
}
static short ev(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&p, 1, 0);
    return p.revents;
}
static int opt(int fd, int o)
{
    int v = -1;
    socklen_t n = sizeof(v);
    return getsockopt(fd, SOL_SOCKET, o, &v, &n) ? -1 : v;
}

static void making(void)
{
    struct sockaddr_un a;
    socklen_t n;
    err(socket(99, SOCK_STREAM, 0), EAFNOSUPPORT, "socket: family");
    err(socket(AF_UNIX, 99, 0), EINVAL, "socket: type");
    err(socket(AF_UNIX, SOCK_STREAM, 99), EPROTONOSUPPORT, "socket: protocol");
    err(socket(AF_UNIX, SOCK_STREAM | 0x100, 0), EINVAL, "socket: flags");
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ok(fcntl(s, F_GETFD) == FD_CLOEXEC && (fcntl(s, F_GETFL) & O_NONBLOCK), "SOCK_NONBLOCK, SOCK_CLOEXEC");
    is(fcntl(s, F_GETFL) & O_ACCMODE, O_RDWR, "open for both");
    is(opt(s, SO_TYPE), SOCK_STREAM, "SO_TYPE");
    is(opt(s, SO_DOMAIN), AF_UNIX, "SO_DOMAIN");
    is(opt(s, SO_PROTOCOL), 0, "SO_PROTOCOL");
    is(opt(s, SO_ACCEPTCONN), 0, "SO_ACCEPTCONN");
    is(opt(s, SO_ERROR), 0, "SO_ERROR");
    struct stat st;
    fstat(s, &st);
    ok(S_ISSOCK(st.st_mode), "S_ISSOCK");
    err(read(s, buf, 1), EINVAL, "read: not connected");
    err(write(s, buf, 1), ENOTCONN, "write: not connected");
    err(recv(s, buf, 1, 0), EINVAL, "recv: not connected");
    err(accept(s, NULL, NULL), EINVAL, "accept: not listening");
    err(listen(s, 1), EINVAL, "listen: not bound");
    err(getpeername(s, (void *)&a, &(socklen_t){sizeof(a)}), ENOTCONN, "getpeername: not connected");
    n = sizeof(a);
    is(getsockname(s, (void *)&a, &n), 0, "getsockname: not bound");
    is(n, 2, "getsockname: not bound: length");
    is(shutdown(socket(AF_UNIX, SOCK_STREAM, 0), SHUT_RDWR), 0, "shutdown: not connected");
    err(connect(s, (void *)&a, name(&a, "none")), ENOENT, "connect: no name");
    close(open("file", O_CREAT | O_RDWR, 0600));
    err(connect(s, (void *)&a, name(&a, "file")), ECONNREFUSED, "connect: a file");
    err(bind(s, (void *)&a, name(&a, "file")), EADDRINUSE, "bind: exists");
    err(bind(s, (void *)&a, name(&a, "nodir/x")), ENOENT, "bind: no directory");
    is(bind(s, (void *)&a, name(&a, "sock")), 0, "bind");
    lstat("sock", &st);
    ok(S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0755, "bind makes a node");
    err(bind(s, (void *)&a, name(&a, "sock2")), EINVAL, "bind: twice");
    n = sizeof(a);
    getsockname(s, (void *)&a, &n);
    ok(n == 2 + 5 && !strcmp(a.sun_path, "sock"), "getsockname");
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    err(connect(c, (void *)&a, name(&a, "sock")), ECONNREFUSED, "connect: not listening");
    is(listen(s, 2), 0, "listen");
    is(opt(s, SO_ACCEPTCONN), 1, "SO_ACCEPTCONN: listening");
    err(accept(s, NULL, NULL), EAGAIN, "accept: nobody");
    int dg = socket(AF_UNIX, SOCK_DGRAM, 0);
    err(connect(dg, (void *)&a, name(&a, "sock")), EPROTOTYPE, "connect: another type");
    is(connect(c, (void *)&a, name(&a, "sock")), 0, "connect");
    err(connect(c, (void *)&a, name(&a, "sock")), EISCONN, "connect: twice");
    is(ev(s), POLLIN, "the listener is readable");
    is(write(c, "early", 5), 5, "data before accept");
    n = sizeof(a);
    int d = accept4(s, (void *)&a, &n, SOCK_CLOEXEC);
    ok(d >= 0 && fcntl(d, F_GETFD) == FD_CLOEXEC, "accept4");
    is(n, 2, "accept: an unnamed peer");
    is(fcntl(d, F_GETFL) & O_NONBLOCK, 0, "accept does not inherit O_NONBLOCK");
    is(read(d, buf, 10), 5, "early data");
    n = sizeof(a);
    getpeername(c, (void *)&a, &n);
    ok(!strcmp(a.sun_path, "sock"), "getpeername");
    struct ucred uc;
    n = sizeof(uc);
    is(getsockopt(d, SOL_SOCKET, SO_PEERCRED, &uc, &n), 0, "SO_PEERCRED");
    ok(uc.pid == getpid() && uc.uid == getuid() && uc.gid == getgid(), "SO_PEERCRED: values");
    /* backlog */
    int q[8], k = 0;
    for (; k < 8; k++) {
        q[k] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(q[k], (void *)&a, name(&a, "sock")) < 0)
            break;
    }
    ok(k == 3 && errno == EAGAIN, "backlog 2: the fourth gets EAGAIN");
    close(s);
    err(read(q[0], buf, 1), ECONNRESET, "closing the listener resets what was not accepted");
    err(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, name(&a, "sock")), ECONNREFUSED, "nobody listens any more");
    unlink("sock");
    close(c);
    close(d);
    /* abstract names */
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    is(bind(s, (void *)&a, abstract(&a, "harena-tap-test")), 0, "abstract: bind");
    listen(s, 5);
    int s2 = socket(AF_UNIX, SOCK_STREAM, 0);
    err(bind(s2, (void *)&a, abstract(&a, "harena-tap-test")), EADDRINUSE, "abstract: in use");
    is(connect(s2, (void *)&a, abstract(&a, "harena-tap-test")), 0, "abstract: connect");
    n = sizeof(a);
    getpeername(s2, (void *)&a, &n);
    ok(a.sun_path[0] == 0 && n == 2 + 1 + 15, "abstract: length");
    close(s);
    err(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, abstract(&a, "harena-tap-test")), ECONNREFUSED, "abstract: gone with its socket");
    s = socket(AF_UNIX, SOCK_DGRAM, 0);
    a.sun_family = AF_UNIX;
    is(bind(s, (void *)&a, sizeof(sa_family_t)), 0, "autobind");
    n = sizeof(a);
    getsockname(s, (void *)&a, &n);
    ok(n == 2 + 6 && a.sun_path[0] == 0, "autobind: an abstract name of five digits");
    close(s);
}

static void streams(void)
{
    int s[2];
    struct iovec v[2] = {{"ab", 2}, {"cd", 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    err(socketpair(AF_INET, SOCK_STREAM, 0, s), EOPNOTSUPP, "socketpair: inet");
    err(socketpair(AF_UNIX, 99, 0, s), EINVAL, "socketpair: type");
    is(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0, "socketpair");
    is(send(s[0], "hello", 5, 0), 5, "send");
    is(recv(s[1], buf, 2, MSG_PEEK), 2, "MSG_PEEK");
    is(recv(s[1], buf, 10, 0), 5, "recv");
    err(recv(s[1], buf, 10, MSG_DONTWAIT), EAGAIN, "MSG_DONTWAIT");
    is(sendmsg(s[0], &m, 0), 4, "sendmsg");
    is(sendmsg(s[0], &m, 0), 4, "sendmsg again");
    int n;
    ioctl(s[1], FIONREAD, &n);
    is(n, 8, "FIONREAD");
    is(recv(s[1], buf, 100, 0), 8, "a stream has no boundaries");
    pid_t c = fork();
    if (!c) {
        write(s[0], "1234", 4);
        sleep_ms(40);
        write(s[0], "5678", 4);
        _exit(0);
    }
    is(recv(s[1], buf, 8, MSG_WAITALL), 8, "MSG_WAITALL");
    waitpid(c, NULL, 0);
    err(sendto(s[0], "x", 1, 0, (void *)&(struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "x"}, sizeof(struct sockaddr_un)), EISCONN, "sendto: connected stream");
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    long total = 0, r;
    while ((r = write(s[0], buf, 8192)) > 0)
        total += r;
    ok(errno == EAGAIN && total > 32768, "it fills up");
    is(ev(s[0]) & POLLOUT, 0, "not writable");
    long got = 0;
    fcntl(s[1], F_SETFL, O_NONBLOCK);
    while ((r = read(s[1], buf, sizeof(buf))) > 0)
        got += r;
    is(got, total, "all arrives");
    is(ev(s[0]), POLLOUT, "writable again");
    is(shutdown(s[0], SHUT_WR), 0, "SHUT_WR");
    is(read(s[1], buf, 1), 0, "end of file");
    signal(SIGPIPE, SIG_IGN);
    err(write(s[0], "x", 1), EPIPE, "write after SHUT_WR: EPIPE");
    is(write(s[1], "back", 4), 4, "the other direction works");
    is(read(s[0], buf, 10), 4, "and arrives");
    is(shutdown(s[1], SHUT_RD), 0, "SHUT_RD");
    err(shutdown(s[1], 99), EINVAL, "shutdown: how");
    close(s[0]);
    err(write(s[1], "x", 1), EPIPE, "the peer is gone: EPIPE");
    signal(SIGPIPE, SIG_DFL);
    err(send(s[1], "x", 1, MSG_NOSIGNAL), EPIPE, "MSG_NOSIGNAL");
    ok((ev(s[1]) & (POLLHUP | POLLIN)) == (POLLHUP | POLLIN), "POLLHUP");
    close(s[1]);
    is(in_child(socketpair(AF_UNIX, SOCK_STREAM, 0, s); close(s[1]); write(s[0], "x", 1)), SIGPIPE, "SIGPIPE");
    /* unread data gives ECONNRESET */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "x", 1);
    close(s[1]);
    err(read(s[0], buf, 1), ECONNRESET, "the peer closed without reading: ECONNRESET");
    is(read(s[0], buf, 1), 0, "then the end");
    close(s[0]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    struct timeval tv = {0, 30000};
    is(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0, "SO_RCVTIMEO");
    err(read(s[0], buf, 1), EAGAIN, "SO_RCVTIMEO: EAGAIN");
    close(s[0]);
    close(s[1]);
}

static void packets(void)
{
    int s[2], a, b;
    struct sockaddr_un un;
    is(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0, "SEQPACKET");
    send(s[0], "one", 3, 0);
    send(s[0], "three", 5, 0);
    is(recv(s[1], buf, 100, 0), 3, "boundaries");
    struct iovec v = {buf, 2};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    is(recvmsg(s[1], &m, 0), 2, "cut");
    ok(m.msg_flags & MSG_TRUNC, "MSG_TRUNC");
    err(recv(s[1], buf, 100, MSG_DONTWAIT), EAGAIN, "the rest is gone");
    send(s[0], "long message", 12, 0);
    is(recv(s[1], buf, 2, MSG_TRUNC), 12, "MSG_TRUNC asks for the real length");
    send(s[0], "x", 1, MSG_EOR);
    m.msg_flags = 0;
    recvmsg(s[1], &m, 0);
    close(s[0]);
    is(recv(s[1], buf, 100, 0), 0, "end");
    close(s[1]);
    a = bound(SOCK_DGRAM, "da"), b = bound(SOCK_DGRAM, "db");
    is(sendto(a, "hi", 2, 0, (void *)&un, name(&un, "db")), 2, "sendto");
    socklen_t n = sizeof(un);
    is(recvfrom(b, buf, 100, 0, (void *)&un, &n), 2, "recvfrom");
    ok(!strcmp(un.sun_path, "da") && n == 2 + 3, "recvfrom: the sender");
    err(sendto(a, "hi", 2, 0, (void *)&un, name(&un, "none")), ENOENT, "sendto: nobody");
    err(send(a, "hi", 2, 0), ENOTCONN, "send: not connected");
    is(connect(a, (void *)&un, name(&un, "db")), 0, "connect");
    is(send(a, "", 0, 0), 0, "an empty datagram");
    is(recv(b, buf, 100, 0), 0, "arrives");
    send(a, "1", 1, 0);
    send(a, "22", 2, 0);
    is(recv(b, buf, 100, 0), 1, "boundaries");
    is(recv(b, buf, 100, 0), 2, "order");
    is(connect(b, (void *)&un, name(&un, "db")), 0, "connect to itself");
    err(send(a, "x", 1, 0), EPERM, "a connected one takes nothing from others");
    struct sockaddr unspec = {.sa_family = AF_UNSPEC};
    is(connect(b, &unspec, sizeof(unspec)), 0, "AF_UNSPEC dissolves");
    is(send(a, "x", 1, 0), 1, "and it takes again");
    recv(b, buf, 1, 0);
    err(send(a, buf, 1 << 18, 0), EMSGSIZE, "EMSGSIZE");
    fcntl(a, F_SETFL, O_NONBLOCK);
    int sent = 0;
    while (send(a, "x", 1, 0) == 1 && sent < 10000)
        sent++;
    ok(errno == EAGAIN && sent > 5, "a queue is limited");
    close(b);
    err(send(a, "x", 1, 0), ECONNREFUSED, "the receiver is gone");
    err(listen(a, 1), EOPNOTSUPP, "listen: datagrams");
    err(accept(a, NULL, NULL), EOPNOTSUPP, "accept: datagrams");
    close(a);
    struct mmsghdr mm[3];
    struct iovec iv[3];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
    for (int i = 0; i < 3; i++) {
        iv[i] = (struct iovec){buf + i * 100, (size_t)i + 1};
        mm[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iv[i], .msg_iovlen = 1}};
    }
    is(sendmmsg(s[0], mm, 3, 0), 3, "sendmmsg");
    ok(mm[2].msg_len == 3, "sendmmsg: lengths");
    for (int i = 0; i < 3; i++)
        iv[i].iov_len = 50;
    is(recvmmsg(s[1], mm, 3, MSG_DONTWAIT, NULL), 3, "recvmmsg");
    ok(mm[0].msg_len == 1 && mm[2].msg_len == 3, "recvmmsg: lengths");
    err(recvmmsg(s[1], mm, 3, MSG_DONTWAIT, NULL), EAGAIN, "recvmmsg: nothing");
    close(s[0]);
    close(s[1]);
}

static int send_fds(int s, const int *fd, int n)
{
    char c[CMSG_SPACE(300 * sizeof(int))] = {0};
    struct iovec v = {"f", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(h), fd, (size_t)n * sizeof(int));
    return (int)sendmsg(s, &m, 0);
}
static int recv_fds(int s, int *fd, int max, int flags, int *mflags)
{
    char c[CMSG_SPACE(300 * sizeof(int))];
    struct iovec v = {buf, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = max ? CMSG_SPACE((size_t)max * sizeof(int)) : 0};
    if (recvmsg(s, &m, flags) < 0)
        return -1;
    *mflags = m.msg_flags;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (!h || h->cmsg_type != SCM_RIGHTS)
        return 0;
    int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fd, CMSG_DATA(h), (size_t)n * sizeof(int));
    return n;
}

static void passing(void)
{
    int s[2], p[2], got[300], fl;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    must(pipe(p));
    is(send_fds(s[0], p, 2), 1, "SCM_RIGHTS: send two");
    is(recv_fds(s[1], got, 4, MSG_CMSG_CLOEXEC, &fl), 2, "SCM_RIGHTS: received");
    ok(fcntl(got[0], F_GETFD) == FD_CLOEXEC && fl == MSG_CMSG_CLOEXEC, "MSG_CMSG_CLOEXEC");
    write(p[1], "through", 7);
    is(read(got[0], buf, 10), 7, "the same pipe");
    close(got[0]);
    close(got[1]);
    send_fds(s[0], p, 2);
    is(recv_fds(s[1], got, 1, 0, &fl), 2, "room for one: the padding of the control buffer holds two");
    close(got[0]), close(got[1]);
    send_fds(s[0], p, 2);
    is(recv_fds(s[1], got, 0, 0, &fl), 0, "no room");
    ok(fl & MSG_CTRUNC, "MSG_CTRUNC");
    err(send_fds(s[0], (int[]){999}, 1), EBADF, "SCM_RIGHTS: a bad descriptor");
    int many[254];
    for (int i = 0; i < 254; i++)
        many[i] = p[0];
    is(send_fds(s[0], many, 253), 1, "253 descriptors");
    is(recv_fds(s[1], got, 300, 0, &fl), 253, "253 descriptors arrive");
    for (int i = 0; i < 253; i++)
        close(got[i]);
    err(send_fds(s[0], many, 254), EINVAL, "254 are too many");
    /* boundaries: data of two messages with descriptors are not merged */
    send_fds(s[0], p, 1);
    write(s[0], "zzz", 3);
    is(recv_fds(s[1], got, 4, 0, &fl), 1, "a message with descriptors");
    close(got[0]);
    is(read(s[1], buf, 10), 3, "the plain data behind it");
    /* in flight over close and fork */
    send_fds(s[0], p, 1);
    close(p[0]);
    pid_t c = fork();
    if (!c) {
        int g;
        _exit(recv_fds(s[1], &g, 1, 0, &fl) == 1 && write(p[1], "late", 4) == 4 && read(g, buf, 9) == 4 ? 0 : 1);
    }
    int st;
    waitpid(c, &st, 0);
    is(st, 0, "a descriptor lives in flight");
    close(p[1]);
    /* credentials */
    int one = 1;
    is(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)), 0, "SO_PASSCRED");
    is(opt(s[1], SO_PASSCRED), 1, "SO_PASSCRED: reads back");
    write(s[0], "c", 1);
    char ctl[256];
    struct iovec v = {buf, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)};
    recvmsg(s[1], &m, 0);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    struct ucred uc = {0};
    if (h)
        memcpy(&uc, CMSG_DATA(h), sizeof(uc));
    ok(h && h->cmsg_type == SCM_CREDENTIALS && uc.pid == getpid() && uc.uid == getuid(), "SCM_CREDENTIALS without sending any");
    uc = (struct ucred){getpid(), getuid(), getgid()};
    memset(ctl, 0, sizeof(ctl));
    m = (struct msghdr){.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = CMSG_SPACE(sizeof(uc))};
    h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_CREDENTIALS, h->cmsg_len = CMSG_LEN(sizeof(uc));
    memcpy(CMSG_DATA(h), &uc, sizeof(uc));
    is(sendmsg(s[0], &m, 0), 1, "SCM_CREDENTIALS: one's own");
    if (getuid() == 0) {
        uc.uid = 12345;
        memcpy(CMSG_DATA(h), &uc, sizeof(uc));
        is(sendmsg(s[0], &m, 0), 1, "SCM_CREDENTIALS: root may say anything");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(sendmsg(s[0], &m, 0) < 0 ? errno : 0))), EPERM, "SCM_CREDENTIALS: others may not");
    }
    h->cmsg_type = 99;
    err(sendmsg(s[0], &m, 0), EINVAL, "an unknown control message");
    close(s[0]);
    close(s[1]);
}

static void options(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM, 0), v = 1;
    err(setsockopt(s, SOL_SOCKET, 9999, &v, sizeof(v)), ENOPROTOOPT, "setsockopt: unknown");
    socklen_t n = sizeof(v);
    err(getsockopt(s, SOL_SOCKET, 9999, &v, &n), ENOPROTOOPT, "getsockopt: unknown");
    err(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, 1), EINVAL, "setsockopt: short");
    err(setsockopt(s, SOL_SOCKET, SO_SNDBUF, (void *)8, 4), EFAULT, "setsockopt: bad pointer");
    v = 20000;
    is(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &v, sizeof(v)), 0, "SO_SNDBUF");
    is(opt(s, SO_SNDBUF), 40000, "SO_SNDBUF is doubled");
    struct linger l = {1, 5};
    is(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0, "SO_LINGER");
    struct timeval tv = {1, 5000}, t2 = {0};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    n = sizeof(t2);
    is(getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t2, &n), 0, "SO_SNDTIMEO");
    ok(t2.tv_sec == 1, "SO_SNDTIMEO: value");
    tv.tv_usec = 1000000;
    err(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), EDOM, "SO_SNDTIMEO: EDOM");
    err(getsockopt(0, SOL_SOCKET, SO_TYPE, &v, &n), ENOTSOCK, "ENOTSOCK");
    err(send(0, "x", 1, 0), ENOTSOCK, "send: ENOTSOCK");
    err(send(999, "x", 1, 0), EBADF, "send: EBADF");
    err(bind(s, (void *)&(struct sockaddr){.sa_family = AF_INET}, sizeof(struct sockaddr)), EINVAL, "bind: another family");
    err(lseek(s, 0, SEEK_SET), ESPIPE, "lseek");
    close(s);
}

static volatile int pipe_signals;
static void on_pipe(int sig) { (void)sig, pipe_signals++; }

/* -1 and this error, with or without SIGPIPE. */
static int fails(long r, int error, int signals)
{
    int good = r == -1 && errno == error && pipe_signals == signals;
    if (!good)
        note("%ld, errno %d, %d SIGPIPE", r, errno, pipe_signals);
    pipe_signals = 0;
    return good;
}

/* Many in flight, when some have been read: each arrives with its byte. A sender that finds it full has put nothing. */
static void many_in_flight(void)
{
    int s[2], p[2][2], fl, sent = 0, wrong = 0;
    struct stat st[2], got;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    for (int i = 0; i < 2; i++) {
        must(pipe(p[i]));
        fstat(p[i][0], &st[i]);
    }
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    for (int read = 0, fd; read < 1000; read++) { /* few in flight at first, so that the first bytes are read before there are many */
        while (sent < read + (read < 20 ? 10 : 270) && send_fds(s[0], &p[sent % 3 > 0][0], 1) == 1)
            sent++;
        if (recv_fds(s[1], &fd, 1, 0, &fl) != 1 || fstat(fd, &got) || got.st_ino != st[read % 3 > 0].st_ino || fl) {
            wrong = read + 1;
            break;
        }
        close(fd);
    }
    is(wrong, 0, "SCM_RIGHTS: a thousand, many in flight");
    close(s[0]);
    close(s[1]);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    int cut = 0;
    for (ssize_t n; (n = write(s[0], buf, 1000)) > 0;)
        cut += n != 1000;
    is(cut, 0, "small writes go whole or not at all");
    for (int i = 0; i < 2; i++) {
        close(s[i]);
        close(p[i][0]);
        close(p[i][1]);
    }
}

/* Fills the way from s[0]; then a child does `how` to the other end, which only it has, while the caller sends. */
static void blocked_by(int type, int s[2], void (*how)(int))
{
    must(socketpair(AF_UNIX, type, 0, s));
    while (send(s[0], buf, 4096, MSG_DONTWAIT) > 0)
        ;
    if (!fork()) {
        close(s[0]);
        sleep_ms(50);
        how(s[1]);
        _exit(0);
    }
    close(s[1]);
}

static void closes(int fd) { close(fd); }
static void stops_reading(int fd)
{
    shutdown(fd, SHUT_RD);
    sleep_ms(50);
}

/* The reader goes: EPIPE, and what it left unread is an error of its own. SIGPIPE is for streams, and for calls that had not to wait. */
static void reader_goes(void)
{
    int s[2], stream = 1;
    signal(SIGPIPE, on_pipe);
    for (int type = SOCK_STREAM; type; type = type == SOCK_STREAM ? SOCK_SEQPACKET : 0, stream = 0) {
        const char *t = stream ? "stream" : "packets";
        must(socketpair(AF_UNIX, type, 0, s));
        send(s[0], "x", 1, 0);
        close(s[1]);
        ok(fails(send(s[0], "y", 1, 0), stream ? EPIPE : ECONNRESET, stream), "%s: something was unread", t);
        ok(fails(send(s[0], "y", 1, 0), EPIPE, stream), "%s: and again", t);
        if (stream)
            ok(fails(recv(s[0], buf, 1, 0), ECONNRESET, 0), "%s: the error is there for the next read", t);
        is(recv(s[0], buf, 1, 0), 0, "%s: then the end", t);
        close(s[0]);
        must(socketpair(AF_UNIX, type, 0, s));
        close(s[1]);
        ok(fails(send(s[0], "y", 1, 0), EPIPE, stream), "%s: nothing was unread", t);
        is(recv(s[0], buf, 1, 0), 0, "%s: the end", t);
        close(s[0]);
        blocked_by(type, s, closes);
        ok(fails(send(s[0], buf, 4096, 0), ECONNRESET, 0), "%s: goes while one sends", t);
        ok(fails(send(s[0], buf, 1, 0), EPIPE, stream), "%s: and again", t);
        close(s[0]);
        blocked_by(type, s, stops_reading);
        ok(fails(send(s[0], buf, 4096, 0), EPIPE, 0), "%s: SHUT_RD while one sends", t);
        close(s[0]);
    }
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
    close(s[1]);
    ok(fails(send(s[0], "y", 1, 0), ECONNREFUSED, 0), "datagrams: ECONNREFUSED");
    ok(fails(send(s[0], "y", 1, 0), ENOTCONN, 0), "datagrams: not connected any more");
    close(s[0]);
    blocked_by(SOCK_DGRAM, s, closes);
    ok(fails(send(s[0], buf, 4096, 0), ECONNREFUSED, 0), "datagrams: goes while one sends");
    close(s[0]);
    while (wait(NULL) > 0)
        ;
    signal(SIGPIPE, SIG_DFL);
}

TAP_MAIN
{
    making();
    streams();
    packets();
    passing();
    many_in_flight();
    options();
    reader_goes();
    return done();
}
