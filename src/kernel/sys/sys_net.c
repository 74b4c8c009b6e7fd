/* Socket system calls: decoding, copying in and out, control messages. */
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/time_types.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "net/inet.h"
#include "sys/syscall.h"

#define OPT_MAX 1024u
#define MMSG_MAX 1024u
#define CONTROL_MAX 20480u /* as net.core.optmem_max */
#define CLOCK_MONO 1
#define SEC 1000000000ull

struct user_msghdr { /* struct msghdr of recvmsg(2), 64-bit */
    u64 name;
    u32 name_size, pad1;
    u64 iov, iov_count;
    u64 control, control_size;
    u32 flags, pad2;
};

struct user_cmsghdr {
    u64 size; /* with this header */
    s32 level, type;
};
#define CMSG_ALIGN8(n) ALIGN_UP(n, 8)

/* The sock of a descriptor with a reference on *f. */
static struct sock *sock_of_fd(int fd, struct file **f)
{
    *f = fd_get(fd);
    if (!*f || ((*f)->mode & FMODE_PATH)) {
        if (*f)
            file_put(*f);
        return ERR_PTR(-EBADF);
    }
    struct sock *s = file_sock(*f);
    if (!s) {
        file_put(*f);
        return ERR_PTR(-ENOTSOCK);
    }
    return s;
}

static long addr_from_user(u8 *buf, uptr addr, u64 size)
{
    if (size > ADDR_MAX)
        return -EINVAL;
    return size ? copy_from_user(buf, addr, size) : 0;
}

/* Writes an address and its true size; *size_addr holds the room. */
static long addr_to_user(const u8 *buf, u32 size, uptr addr, uptr size_addr)
{
    s32 room;

    if (get_user(room, size_addr))
        return -EFAULT;
    if (room < 0)
        return -EINVAL;
    u32 n = MIN((u32)room, size);
    if (n && copy_to_user(addr, buf, n))
        return -EFAULT;
    return put_user(size, size_addr);
}

static u32 call_flags(struct file *f, u32 flags) { return flags | (f->flags & O_NONBLOCK ? MSG_DONTWAIT : 0); }

/* ---- making sockets ---- */

SYSCALL3(socket, s32, family, s32, type, s32, protocol)
{
    struct file *f;
    long r = socket_new(family, type, protocol, &f);
    return r ? r : fd_new(f, type & SOCK_CLOEXEC ? O_CLOEXEC : 0);
}

SYSCALL4(socketpair, s32, family, s32, type, s32, protocol, uptr, fds)
{
    struct file *f[2];
    long r = socket_pair(family, type, protocol, f);

    return r ? r : fd_new_pair(f, type & SOCK_CLOEXEC ? O_CLOEXEC : 0, fds);
}

SYSCALL3(bind, s32, fd, uptr, addr, u32, size)
{
    struct file *f;
    u8 buf[ADDR_MAX + 4] = {0};
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = addr_from_user(buf, addr, size);
    if (!r)
        r = s->proto->bind ? s->proto->bind(s, buf, size) : -EOPNOTSUPP;
    file_put(f);
    return r;
}

SYSCALL3(connect, s32, fd, uptr, addr, u32, size)
{
    struct file *f;
    u8 buf[ADDR_MAX + 4] = {0};
    u16 family;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = addr_from_user(buf, addr, size);
    if (!r && size < 2)
        r = -EINVAL;
    if (!r) {
        memcpy(&family, buf, 2);
        if (family == AF_UNSPEC && s->proto->disconnect)
            r = s->proto->disconnect(s);
        else
            r = s->proto->connect(s, buf, size, f->flags & O_NONBLOCK);
    }
    file_put(f);
    return r;
}

SYSCALL2(listen, s32, fd, s32, backlog)
{
    struct file *f;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = socket_listen(s, backlog);
    file_put(f);
    return r;
}

static long accept_common(s32 fd, uptr addr, uptr size_addr, u32 flags)
{
    struct file *f;
    struct sock *child;
    u8 name[ADDR_MAX];

    if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
        return -EINVAL;
    struct sock *s = sock_of_fd(fd, &f);
    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = fd_alloc(0, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);
    if (r < 0)
        goto out;
    s32 new_fd = (s32)r;
    r = socket_accept(s, call_flags(f, 0), &child);
    if (r) {
        fd_release(new_fd);
        goto out;
    }
    u32 size = addr ? child->proto->name(child, true, name) : 0;
    struct file *nf = sock_file(child, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
    if (IS_ERR(nf)) {
        r = PTR_ERR(nf);
        fd_release(new_fd);
        goto out;
    }
    if (addr && (r = addr_to_user(name, size, addr, size_addr))) {
        file_put(nf);
        fd_release(new_fd);
        goto out;
    }
    fd_install(new_fd, nf);
    r = new_fd;
out:
    file_put(f);
    return r;
}

SYSCALL3(accept, s32, fd, uptr, addr, uptr, size_addr) { return accept_common(fd, addr, size_addr, 0); }
SYSCALL4(accept4, s32, fd, uptr, addr, uptr, size_addr, u32, flags) { return accept_common(fd, addr, size_addr, flags); }

static long name_common(s32 fd, uptr addr, uptr size_addr, bool peer)
{
    struct file *f;
    u8 name[ADDR_MAX];
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    u32 size = s->proto->name(s, peer, name);
    long r = size ? addr_to_user(name, size, addr, size_addr) : -ENOTCONN;
    file_put(f);
    return r;
}

SYSCALL3(getsockname, s32, fd, uptr, addr, uptr, size_addr) { return name_common(fd, addr, size_addr, false); }
SYSCALL3(getpeername, s32, fd, uptr, addr, uptr, size_addr) { return name_common(fd, addr, size_addr, true); }

SYSCALL2(shutdown, s32, fd, s32, how)
{
    struct file *f;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = how < SHUT_RD || how > SHUT_RDWR ? -EINVAL : socket_shutdown(s, how);
    file_put(f);
    return r;
}

/* ---- options ---- */

SYSCALL5(setsockopt, s32, fd, s32, level, s32, opt, uptr, val, s32, size)
{
    struct file *f;
    u8 buf[256] = {0};
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    u32 n = MIN((u32)size, (u32)sizeof(buf)); /* no option is longer */
    long r = size < 0 ? -EINVAL : n ? copy_from_user(buf, val, n) : 0;
    if (!r)
        r = socket_setopt(s, level, opt, buf, n);
    file_put(f);
    return r;
}

SYSCALL5(getsockopt, s32, fd, s32, level, s32, opt, uptr, val, uptr, size_addr)
{
    struct file *f;
    u8 buf[512] = {0};
    s32 room;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = get_user(room, size_addr);
    if (!r && room < 0)
        r = -EINVAL;
    if (!r) {
        u32 n = MIN((u32)room, (u32)sizeof(buf));
        r = socket_getopt(s, level, opt, buf, &n);
        if (!r)
            r = copy_to_user(val, buf, n);
        if (!r)
            r = put_user(n, size_addr);
    }
    file_put(f);
    return r;
}

/* ---- sending ---- */

static long add_rights(struct scm **scm, const u8 *data, u64 size)
{
    u32 n = (u32)(size / sizeof(s32)), had = *scm ? (*scm)->file_count : 0;

    if (had + n > SCM_MAX_FD)
        return -EINVAL;
    struct scm *s = kzalloc(sizeof(*s) + (had + n) * sizeof(s->files[0]));
    if (!s)
        return -ENOMEM;
    if (*scm) {
        memcpy(s, *scm, sizeof(*s) + had * sizeof(s->files[0]));
        kfree(*scm);
    }
    *scm = s;
    for (u32 i = 0; i < n; i++) {
        s32 fd;
        memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
        struct file *f = fd_get(fd);
        if (!f)
            return -EBADF;
        s->files[s->file_count++] = f;
    }
    return 0;
}

static struct scm *scm_need(struct scm **scm)
{
    if (!*scm)
        *scm = knew(struct scm);
    return *scm;
}

static long add_cred(struct scm **scm, const u8 *data, u64 size)
{
    struct ucred c;

    if (size != sizeof(c))
        return -EINVAL;
    memcpy(&c, data, sizeof(c));
    const struct cred *k = current_cred();
    if ((c.pid != current_tgid() && !capable(21 /* CAP_SYS_ADMIN */)) ||
        (c.uid != k->uid && c.uid != k->euid && c.uid != k->suid && !capable(7 /* CAP_SETUID */)) ||
        (c.gid != k->gid && c.gid != k->egid && c.gid != k->sgid && !capable(6 /* CAP_SETGID */)))
        return -EPERM;
    if (!scm_need(scm))
        return -ENOMEM;
    (*scm)->has_cred = true;
    (*scm)->cred = c;
    return 0;
}

/* IP_PKTINFO and the like are not looked at: the only source is the loopback. */
static long parse_ip(struct msg *m, const struct user_cmsghdr *h, const u8 *data, u64 size)
{
    bool v4 = h->level == IPPROTO_IP;
    s32 v = data[0];

    if (h->type != (v4 ? IP_TTL : IPV6_HOPLIMIT) && h->type != (v4 ? IP_TOS : IPV6_TCLASS))
        return 0;
    if (size == sizeof(v))
        memcpy(&v, data, sizeof(v));
    else if (size != 1 || h->type != IP_TOS)
        return -EINVAL;
    if (v > 255 || v < (v4 ? h->type == IP_TTL : -1))
        return -EINVAL;
    if (h->type == (v4 ? IP_TTL : IPV6_HOPLIMIT)) {
        m->has_hops = v >= 0;
        m->hops = (u8)v;
    } else {
        m->has_tclass = v >= 0;
        m->tclass = (u8)v;
    }
    return 0;
}

static long parse_control(struct sock *s, const u8 *buf, u64 size, struct msg *m)
{
    for (u64 at = 0; at + sizeof(struct user_cmsghdr) <= size;) {
        struct user_cmsghdr h;
        memcpy(&h, buf + at, sizeof(h));
        if (h.size < sizeof(h) || h.size > size - at)
            return -EINVAL;
        const u8 *data = buf + at + sizeof(h);
        u64 n = h.size - sizeof(h);
        at += CMSG_ALIGN8(h.size);
        long r = -EINVAL;
        if (h.level != SOL_SOCKET) {
            bool inet = h.level == IPPROTO_IP ? s->family == AF_INET || s->family == AF_INET6
                                              : h.level == IPPROTO_IPV6 && s->family == AF_INET6;
            r = n && inet && s->type == SOCK_DGRAM ? parse_ip(m, &h, data, n) : 0;
        } else if ((h.type == SCM_RIGHTS || h.type == SCM_CREDENTIALS) && (s->family == AF_INET || s->family == AF_INET6))
            r = 0; /* Linux does not look at them */
        else if (h.type == SCM_RIGHTS && s->family == AF_UNIX)
            r = add_rights(&m->scm, data, n);
        else if (h.type == SCM_CREDENTIALS && (s->family == AF_UNIX || s->family == AF_NETLINK))
            r = add_cred(&m->scm, data, n);
        if (r)
            return r;
    }
    return 0;
}

static long control_in(struct sock *s, uptr control, u64 size, struct msg *m)
{
    if (!size)
        return 0;
    if (size > CONTROL_MAX)
        return -ENOBUFS;
    u8 *buf = kmalloc(size);
    if (!buf)
        return -ENOBUFS;
    long r = copy_from_user(buf, control, size);
    if (!r)
        r = parse_control(s, buf, size, m);
    kfree(buf);
    return r;
}

static long send_one(struct sock *s, struct file *f, struct msg *m, uptr control, u64 control_size)
{
    long r = control_in(s, control, control_size, m);
    if (r) {
        scm_free(m->scm);
        return r;
    }
    m->flags = call_flags(f, m->flags);
    return socket_send(s, m);
}

SYSCALL6(sendto, s32, fd, uptr, buf, u64, size, u32, flags, uptr, addr, u32, addr_size)
{
    struct file *f;
    struct uio u;
    struct msg m = {.u = &u, .flags = flags};
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    uio_user(&u, buf, MIN(size, 0x7ffff000ul));
    long r = addr ? addr_from_user(m.addr, addr, addr_size) : 0;
    if (!r) {
        m.addr_size = addr ? addr_size : 0;
        r = send_one(s, f, &m, 0, 0);
    }
    file_put(f);
    return r;
}

/* done: bytes that the same call has sent before it was frozen, with all descriptors */
static long sendmsg_common(struct sock *s, struct file *f, uptr umsg, u32 flags, u64 done)
{
    struct user_msghdr h;
    struct uio u;
    struct msg m = {.u = &u, .flags = flags};

    if (get_user(h, umsg))
        return -EFAULT;
    if (h.iov_count > 1024)
        return -EMSGSIZE;
    if (h.name && h.name_size) {
        u32 n = (s32)h.name_size < 0 ? ~0u : MIN(h.name_size, ADDR_MAX);
        long r = n == ~0u ? -EINVAL : addr_from_user(m.addr, h.name, n);
        if (r)
            return r;
        m.addr_size = n;
    }
    long r = uio_import(&u, h.iov, h.iov_count);
    if (r)
        return r;
    uio_skip(&u, done);
    r = send_one(s, f, &m, h.control, h.control && !done ? h.control_size : 0);
    if (r > 0 && u.resid)
        call_wants_rest();
    uio_release(&u);
    return r;
}

SYSCALL3(sendmsg, s32, fd, uptr, msg, u32, flags)
{
    struct file *f;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = sendmsg_common(s, f, msg, flags, call_done_before());
    file_put(f);
    return r;
}

#define MMSGHDR_SIZE 64u /* struct mmsghdr: msghdr, then the length at 56 */
#define MMSGHDR_LEN 56u

SYSCALL4(sendmmsg, s32, fd, uptr, msgs, u32, count, u32, flags)
{
    struct file *f;
    struct sock *s = sock_of_fd(fd, &f);
    long r = 0;
    u32 done = 0;

    if (IS_ERR(s))
        return PTR_ERR(s);
    for (count = MIN(count, MMSG_MAX); done < count; done++) {
        uptr at = msgs + (u64)done * MMSGHDR_SIZE;
        r = sendmsg_common(s, f, at, flags, 0);
        if (r < 0) {
            call_wants_rest();
            break;
        }
        if (put_user((u32)r, at + MMSGHDR_LEN)) {
            r = -EFAULT;
            break;
        }
    }
    file_put(f);
    return done ? (long)done : r < 0 ? r : 0;
}

/* ---- receiving ---- */

/* Where control messages go. */
struct control_out {
    uptr at;
    u64 left, used;
    bool truncated;
};

static long put_cmsg(struct control_out *c, s32 level, s32 type, const void *data, u64 size)
{
    struct user_cmsghdr h = {.size = sizeof(h) + size, .level = level, .type = type};

    if (c->left < sizeof(h)) {
        c->truncated = true;
        return 0;
    }
    if (h.size > c->left) {
        c->truncated = true;
        h.size = c->left;
    }
    if (put_user(h, c->at) || copy_to_user(c->at + sizeof(h), data, h.size - sizeof(h)))
        return -EFAULT;
    u64 step = MIN((u64)CMSG_ALIGN8(h.size), c->left);
    c->at += step;
    c->left -= step;
    c->used += step;
    return 0;
}

/* Installs received files as descriptors; those that do not fit are closed and MSG_CTRUNC says so. */
static long put_rights(struct control_out *c, struct scm *scm, bool cloexec)
{
    struct user_cmsghdr h = {.level = SOL_SOCKET, .type = SCM_RIGHTS};
    u64 room = c->left > sizeof(h) ? (c->left - sizeof(h)) / sizeof(s32) : 0;
    u32 n = 0, fits = (u32)MIN(room, (u64)scm->file_count);

    for (; n < fits; n++) {
        long fd = fd_alloc(0, cloexec ? O_CLOEXEC : 0);
        if (fd < 0)
            break;
        if (put_user((s32)fd, c->at + sizeof(h) + n * sizeof(s32))) {
            fd_release((int)fd);
            break;
        }
        file_get(scm->files[n]);
        fd_install((int)fd, scm->files[n]);
    }
    if (n < scm->file_count)
        c->truncated = true;
    if (!n)
        return 0;
    h.size = sizeof(h) + n * sizeof(s32);
    if (put_user(h, c->at))
        return -EFAULT;
    u64 step = MIN((u64)CMSG_ALIGN8(h.size), c->left);
    c->at += step;
    c->left -= step;
    c->used += step;
    return 0;
}

static long put_pktinfo(struct sock *s, struct msg *m, struct control_out *c)
{
    s32 hops = m->hops, tclass = m->tclass;
    long r = 0;

    if (s->family == AF_INET6 && s->in.hdr_pktinfo6) {
        struct {
            u8 addr[16];
            u32 index;
        } p = {.index = LO_INDEX};
        memcpy(p.addr, m->pktinfo_addr, 16);
        r = put_cmsg(c, IPPROTO_IPV6, IPV6_PKTINFO, &p, sizeof(p));
    }
    if (addr_is_v4(m->pktinfo_addr)) {
        if (!r && s->in.hdr_pktinfo) {
            struct {
                u32 index;
                u8 spec_dst[4], addr[4];
            } p = {.index = LO_INDEX};
            memcpy(p.spec_dst, m->pktinfo_addr + 12, 4);
            memcpy(p.addr, m->pktinfo_addr + 12, 4);
            r = put_cmsg(c, IPPROTO_IP, IP_PKTINFO, &p, sizeof(p));
        }
        if (!r && s->in.recv_ttl)
            r = put_cmsg(c, IPPROTO_IP, IP_TTL, &hops, sizeof(hops));
        if (!r && s->in.recv_tos)
            r = put_cmsg(c, IPPROTO_IP, IP_TOS, &m->tclass, 1);
        return r;
    }
    if (!r && s->in.recv_hops6)
        r = put_cmsg(c, IPPROTO_IPV6, IPV6_HOPLIMIT, &hops, sizeof(hops));
    if (!r && s->in.recv_tclass6)
        r = put_cmsg(c, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass));
    return r;
}

static long control_put(struct sock *s, struct msg *m, struct control_out *c)
{
    long r = 0;

    if (s->family == AF_UNIX) {
        if (s->passcred) {
            struct ucred none = {0, 65534, 65534};
            r = put_cmsg(c, SOL_SOCKET, SCM_CREDENTIALS, m->scm && m->scm->has_cred ? &m->scm->cred : &none, sizeof(none));
        }
        if (!r && m->scm && m->scm->file_count)
            r = put_rights(c, m->scm, m->flags & MSG_CMSG_CLOEXEC);
    } else if (s->type == SOCK_DGRAM && s->family != AF_NETLINK) {
        r = put_pktinfo(s, m, c);
    }
    return r;
}

static long recv_call(struct sock *s, struct file *f, struct msg *m)
{
    m->flags = call_flags(f, m->flags);
    if (m->flags & MSG_ERRQUEUE)
        return -EAGAIN;
    return s->proto->recv(s, m);
}

SYSCALL6(recvfrom, s32, fd, uptr, buf, u64, size, u32, flags, uptr, addr, uptr, addr_size)
{
    struct file *f;
    struct uio u;
    struct msg m = {.u = &u, .flags = flags};
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    uio_user(&u, buf, MIN(size, 0x7ffff000ul));
    long r = recv_call(s, f, &m);
    scm_free(m.scm);
    if (r >= 0 && addr) {
        long e = addr_to_user(m.addr, m.addr_size, addr, addr_size);
        if (e)
            r = e;
    }
    file_put(f);
    return r;
}

static long recvmsg_common(struct sock *s, struct file *f, uptr umsg, u32 flags, u64 done)
{
    struct user_msghdr h;
    struct uio u;
    struct msg m = {.u = &u, .flags = flags, .want_meta = true};

    if (get_user(h, umsg))
        return -EFAULT;
    if (h.iov_count > 1024)
        return -EMSGSIZE;
    if (h.name && (s32)h.name_size < 0)
        return -EINVAL;
    long r = uio_import(&u, h.iov, h.iov_count);
    if (r)
        return r;
    uio_skip(&u, done);
    r = recv_call(s, f, &m);
    uio_release(&u);
    if (r > 0 && h.control)
        call_wants_no_rest(); /* what comes with it is told once */
    if (r < 0) {
        scm_free(m.scm);
        return r;
    }
    struct control_out c = {.at = h.control, .left = h.control ? h.control_size : 0};
    long e = control_put(s, &m, &c);
    scm_free(m.scm);
    if (!e && h.name) {
        u32 n = MIN(m.addr_size, h.name_size);
        e = n ? copy_to_user(h.name, m.addr, n) : 0;
        h.name_size = m.addr_size;
    }
    h.control_size = c.used;
    h.flags = m.out_flags | (c.truncated ? MSG_CTRUNC : 0) | (flags & MSG_CMSG_CLOEXEC);
    if (!e && h.name)
        e = put_user(h.name_size, umsg + offsetof(struct user_msghdr, name_size));
    if (!e)
        e = put_user(h.control_size, umsg + offsetof(struct user_msghdr, control_size));
    if (!e)
        e = put_user(h.flags, umsg + offsetof(struct user_msghdr, flags));
    return e ? e : r;
}

SYSCALL3(recvmsg, s32, fd, uptr, msg, u32, flags)
{
    struct file *f;
    struct sock *s = sock_of_fd(fd, &f);

    if (IS_ERR(s))
        return PTR_ERR(s);
    long r = recvmsg_common(s, f, msg, flags, call_done_before());
    file_put(f);
    return r;
}

SYSCALL5(recvmmsg, s32, fd, uptr, msgs, u32, count, u32, flags, uptr, timeout)
{
    struct file *f;
    struct __kernel_timespec t;
    u64 deadline = NO_DEADLINE;
    u32 done = 0;
    long r = 0;

    if (timeout) { /* checked after each datagram only, as on Linux */
        if (get_user(t, timeout))
            return -EFAULT;
        if (t.tv_sec < 0 || (u64)t.tv_nsec >= SEC)
            return -EINVAL;
        if ((u64)t.tv_sec < NO_DEADLINE / SEC / 4)
            deadline = host_clock(CLOCK_MONO) + (u64)t.tv_sec * SEC + (u64)t.tv_nsec;
    }
    struct sock *s = sock_of_fd(fd, &f);
    if (IS_ERR(s))
        return PTR_ERR(s);
    for (count = MIN(count, MMSG_MAX); done < count;) {
        uptr at = msgs + (u64)done * MMSGHDR_SIZE;
        r = recvmsg_common(s, f, at, flags & ~MSG_WAITFORONE, 0);
        if (r < 0) {
            call_wants_rest();
            break;
        }
        if (put_user((u32)r, at + MMSGHDR_LEN)) {
            r = -EFAULT;
            break;
        }
        done++;
        if (flags & MSG_WAITFORONE)
            flags |= MSG_DONTWAIT;
        if (deadline != NO_DEADLINE && host_clock(CLOCK_MONO) >= deadline)
            break;
    }
    file_put(f);
    return done ? (long)done : r < 0 ? r : 0;
}
