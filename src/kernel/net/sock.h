/* Sockets: the common object and what the protocol files share.
 *
 * How it works: everything stays inside this kernel. A stream connection (AF_UNIX or TCP) is a pair of socks that refer
 * to each other; a send puts bytes into the peer's receive ring. A datagram is a record: bytes in the receiver's ring
 * plus a struct rec with its length, source and ancillary data. The same records mark the bytes of a unix stream that
 * carry descriptors or credentials.
 *
 * Life: a sock lives while its file, its peer, a listener's queue or a running call refers to it. `dead` is set when the
 * file is closed. A stream's peer pointer is set once, under lock, and stays until the sock is released; both ends drop
 * theirs then, so pairs do not keep each other alive.
 *
 * Locks: s->lock guards all fields of s that say nothing else. Never two sock locks at once, except listener > child
 * being queued. inet_lock and unix_lock (name tables) are outside sock locks. Sleeping: sock_sleep() with s->lock held
 * (it lets go of it); `seq` counts wakes so that none is lost. */
#ifndef HARENA_NET_SOCK_H
#define HARENA_NET_SOCK_H

#include <linux/socket.h>

#include "ipc/ring.h"
#include "vfs/vfs.h"

/* The UAPI headers leave these to the C library. Values: include/linux/socket.h of Linux. */
#define AF_UNSPEC 0
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define AF_PACKET 17
#define AF_MAX 46
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOCK_RDM 4
#define SOCK_SEQPACKET 5
#define SOCK_TYPE_MASK 0xf
#define SOCK_CLOEXEC 02000000
#define SOCK_NONBLOCK 04000
#define MSG_OOB 1
#define MSG_PEEK 2
#define MSG_DONTROUTE 4
#define MSG_CTRUNC 8
#define MSG_TRUNC 0x20
#define MSG_DONTWAIT 0x40
#define MSG_EOR 0x80
#define MSG_WAITALL 0x100
#define MSG_ERRQUEUE 0x2000
#define MSG_NOSIGNAL 0x4000
#define MSG_MORE 0x8000
#define MSG_WAITFORONE 0x10000
#define MSG_FASTOPEN 0x20000000
#define MSG_CMSG_CLOEXEC 0x40000000
#define SHUT_RD 0
#define SHUT_WR 1
#define SHUT_RDWR 2
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define SCM_CREDENTIALS 2
#define SCM_MAX_FD 253
#define SOMAXCONN 4096
#define SOCK_BUF_DEFAULT 212992u
#define ADDR_MAX 128u

struct sock;
struct msg;

struct ucred { /* struct ucred of unix(7) */
    u32 pid, uid, gid;
};

/* Ancillary data in flight. */
struct scm {
    bool has_cred;
    struct ucred cred;
    u32 file_count;
    struct file *files[]; /* references */
};

struct rec {
    struct list link;
    u32 start, size; /* in the receiver's ring */
    struct scm *scm; /* owned; may be NULL */
    u32 addr_size; /* source */
    u8 addr[]; /* sockaddr */
};

enum sock_state { SOCK_NEW, SOCK_LISTEN, SOCK_CONNECTING, SOCK_CONNECTED, SOCK_CLOSED };

/* The protocol's part. Addresses are kernel copies of `size` bytes. Called without locks. */
struct proto {
    long (*bind)(struct sock *s, const void *addr, u32 size);
    long (*connect)(struct sock *s, const void *addr, u32 size, bool nonblock);
    long (*listen)(struct sock *s); /* before the state changes: autobind */
    u32 (*name)(struct sock *s, bool peer, void *addr); /* size; 0: not connected */
    long (*send)(struct sock *s, struct msg *m);
    long (*recv)(struct sock *s, struct msg *m);
    long (*setopt)(struct sock *s, int level, int opt, const void *val, u32 size); /* -ENOPROTOOPT: not mine */
    long (*getopt)(struct sock *s, int level, int opt, void *val, u32 *size);
    long (*disconnect)(struct sock *s); /* connect to AF_UNSPEC */
    void (*release)(struct sock *s); /* the file is closed: leave name tables */
    void (*destroy)(struct sock *s); /* memory goes */
};

struct unix_name {
    u32 refs;
    u32 size; /* of the whole sockaddr_un */
    u8 addr[112];
};

struct inet_end {
    u8 addr[16]; /* IPv4 as ::ffff:a.b.c.d */
    u16 port; /* host order; 0: none */
};

struct sock {
    const struct proto *proto;
    struct mutex lock;
    u32 refs;
    u32 seq; /* wakes; atomic */
    struct waitq wait;
    u16 family;
    u8 type;
    u8 state; /* enum sock_state */
    int protocol;
    bool dead; /* no file any more */
    bool rx_shut, tx_shut; /* shutdown() by this side */
    bool abort; /* its end resets the peer: a connection nobody accepted */
    bool peer_fin; /* no more bytes will come */
    int err; /* SO_ERROR, positive */
    struct ring rx;
    struct list recs;
    u32 rec_count;
    struct sock *peer; /* referenced */
    /* listening */
    struct list accept_queue; /* of accept_link; each holds a reference */
    struct list accept_link;
    u32 accept_count, backlog;
    /* options */
    u32 rcvbuf, sndbuf, rcvlowat;
    u64 rcvtimeo, sndtimeo; /* ns, 0: for ever */
    bool linger_on;
    u32 linger_sec;
    bool reuseaddr, reuseport, passcred, broadcast, keepalive;
    u32 mark, priority;
    struct ucred cred, peercred; /* own at connect/listen; the peer's */
    struct file *file; /* not referenced; for garbage collection */
    union {
        struct {
            struct unix_name *name;
            struct inode *inode; /* referenced, when bound to a file */
            struct list hash; /* abstract names */
            struct list all;
            u32 inflight; /* references to the file from queued SCM_RIGHTS; unix_gc lock */
            bool gc_live;
            u32 level; /* sockets in sockets in ... its queue; bounds recursion when they are closed */
        } un;
        struct {
            struct inet_end local, remote;
            struct list ports; /* hash of bound ports */
            bool bound, v6only, hdr_pktinfo, hdr_pktinfo6, recv_tos, recv_ttl, recv_tclass6, recv_hops6;
            bool ipv6_recverr, recverr;
            u32 tcp_nodelay, tcp_cork, keepidle, keepintvl, keepcnt, syncnt, defer_accept, user_timeout, quickack,
                maxseg, linger2, tos, ttl, tclass, hops, mtu_discover, notsent_lowat, freebind, transparent;
            u32 mc_loop, mc_ttl;
        } in;
        struct {
            u32 pid, groups;
        } nl;
    };
};

/* A message being sent or received. */
struct msg {
    struct uio *u;
    u32 flags; /* MSG_* of the call; nonblocking files: MSG_DONTWAIT */
    u32 out_flags; /* MSG_TRUNC, MSG_CTRUNC, MSG_EOR */
    u8 addr[ADDR_MAX];
    u32 addr_size; /* 0: none */
    struct scm *scm; /* sending: consumed when queued; receiving: the caller's to free */
    bool want_meta; /* recvmsg: deliver scm and pktinfo */
    u8 pktinfo_addr[16]; /* destination of a received UDP datagram */
    bool has_hops, has_tclass; /* sending: not the socket's */
    u8 hops, tclass; /* UDP: IPv4's TTL and TOS, IPv6's hop limit and traffic class */
};

struct sock *sock_alloc(u16 family, u8 type, int protocol, const struct proto *p);
static inline void sock_get(struct sock *s) { atomic_add(&s->refs, 1); }
void sock_put(struct sock *s);
static inline bool sock_get_live(struct sock *s)
{
    u32 n = atomic_load(&s->refs);
    while (n && !atomic_cas(&s->refs, n, n + 1))
        n = atomic_load(&s->refs);
    return n != 0;
}
struct file *sock_file(struct sock *s, u32 flags); /* consumes a reference, also on failure */
struct sock *file_sock(struct file *f); /* NULL: not a socket */

void sock_wake(struct sock *s, u32 events);
long sock_sleep(struct sock *s, u64 deadline); /* locked; -EAGAIN (deadline), -ERESTARTSYS, -EINTR */
long sock_sleep_seq(struct sock *s, u64 deadline, u32 seq); /* seq: read before the condition was checked */
u64 sock_deadline(u64 timeo, u32 flags); /* 0: do not wait */
int sock_take_err(struct sock *s); /* SO_ERROR: negative errno or 0, and clears it; locked or not */
void cred_now(struct ucred *c);

/* stream.c */
long stream_send(struct sock *s, struct msg *m);
long stream_recv(struct sock *s, struct msg *m);
void stream_pair(struct sock *a, struct sock *b); /* connects two fresh socks */
void stream_release(struct sock *s); /* the file is closed: tell the peer */
long stream_shutdown(struct sock *s, int how);
u32 stream_limit(const struct sock *s, const struct sock *peer);
bool stream_writable(const struct sock *s);

/* dgram.c */
struct rec *rec_new(const void *addr, u32 addr_size, struct scm *scm);
void rec_free(struct rec *r);
/* Queues bytes as one record; to->lock held. -EAGAIN: full. Consumes r on success. */
long dgram_queue(struct sock *to, struct rec *r, struct uio *u, u32 size);
long dgram_recv(struct sock *s, struct msg *m);
void recs_free(struct sock *s);
static inline struct rec *first_rec(struct sock *s) { return list_first(&s->recs, struct rec, link); }

/* scm.c */
/* 0 if scm may be queued at `to` (locked), else -ETOOMANYREFS; updates to's level. */
long scm_nest(struct sock *to, const struct scm *scm);
void scm_free(struct scm *scm);
struct scm *scm_dup(const struct scm *scm);
void scm_sent(struct scm *scm), scm_received(struct scm *scm); /* in-flight accounting around queueing */
void unix_gc(void);
void unix_list_add(struct sock *s), unix_list_del(struct sock *s);
bool unix_has_inflight(void);

/* socket.c: calls on kernel copies of the arguments */
long socket_new(int family, int type, int protocol, struct file **out);
long socket_pair(int family, int type, int protocol, struct file *out[2]);
long socket_listen(struct sock *s, int backlog);
long socket_accept(struct sock *s, u32 flags, struct sock **out);
long socket_shutdown(struct sock *s, int how);
long socket_send(struct sock *s, struct msg *m);
long socket_setopt(struct sock *s, int level, int opt, const void *val, u32 size);
long socket_getopt(struct sock *s, int level, int opt, void *val, u32 *size); /* size: in room, out used */

extern const struct proto unix_stream_proto, unix_dgram_proto, tcp_proto, udp_proto, netlink_proto;
long unix_create(int type, int protocol, struct sock **out);
long inet_create(int family, int type, int protocol, struct sock **out);
long netlink_create(int type, int protocol, struct sock **out);
bool file_is_netlink(struct file *f);
long netlink_tell(struct file *f, void *data, u32 size); /* of a netlink socket: a datagram from the kernel */
long if_ioctl(struct sock *s, u32 cmd, uptr arg); /* SIOC* of interfaces; -ENOTTY: not one */

/* The only interface. */
#define LO_INDEX 1u
#define LO_MTU 65536u

static inline u16 swap16(u16 v) { return __builtin_bswap16(v); }

#endif
