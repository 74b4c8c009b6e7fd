/* libFuzzer: the broker's state machine from both sides. The input is a script of packets from its clients (the command line: link and
 * control socket; whole, cut, or with lengths that lie, with and without descriptors), of clients that come and go, and of what a
 * guest answers: mail taken, sessions that start and end, process lists, traces, ring positions. The first byte chooses between that and the
 * decoder of the configuration. Afterwards no descriptor and no memory may be left. Sources: see tests/fuzz/run. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "broker/broker.h"

static struct broker b;
static struct ctl_config config = { .flags = CTL_CONFIG_VERBOSE };
static int listener_fd, far_end[BROKER_CLIENT_MAX];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    signal(SIGPIPE, SIG_IGN);
    hostfs_init(&b.fs);
    if (setup_segments(&b) < 0 || setup_memory(&b) < 0)
        abort();
    b.epoll_fd = epoll_create1(0);
    b.zygote_gone = true;
    return 0;
}

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void add_client(u32 i, bool is_link)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair))
        abort();
    b.clients[i] = (struct client){ .source = { SOURCE_CLIENT, pair[0] }, .is_link = is_link };
    far_end[i] = pair[1];
}

/* Gives client i a packet with fd_count descriptors: devices and pipes, or files as those of snapshots. */
static void packet(u32 i, const void *data, u32 size, u32 fd_count, bool files)
{
    int fds[FDS_MAX], pipes[2], file = open("/proc/self/exe", O_RDONLY);
    if (pipe2(pipes, O_NONBLOCK))
        abort();
    const int odd[] = { open("/dev/null", O_RDWR), open("/dev/zero", O_RDONLY), pipes[1] };
    for (u32 k = 0; k < FDS_MAX; k++)
        fds[k] = files ? file : odd[k % ARRAY_COUNT(odd)];
    struct iovec v = { (void *)data, size };
    fds_send(far_end[i], &v, 1, fds, MIN(fd_count, (u32)FDS_MAX), MSG_DONTWAIT);
    close(file);
    close(odd[0]);
    close(odd[1]);
    close(pipes[1]);
    close(pipes[0]);
}

static const u8 *at;
static size_t left;

static u8 byte(void) { return left ? left--, *at++ : 0; }

/* A message of a type the broker knows, with a header that is right more often than not. */
static void client_speaks(u32 i)
{
    static u8 m[CTL_PACKET_MAX + 64];
    u8 how = byte();
    u32 n = MIN((size_t)byte() * (how & 1 ? 1 : 40), left);
    struct ctl_header *h = (void *)m;
    memset(m, 0, sizeof(*h));
    memcpy(m + sizeof(*h), at, n);
    at += n;
    left -= n;
    n += sizeof(*h);
    *h = (struct ctl_header){ .type = 1 + how / 16 % 12, .size = n, .total = n };
    if (h->type == CTL_RUN && how & 2 && n >= sizeof(struct ctl_run)) { /* one that starts */
        struct ctl_run *r = (void *)m;
        r->argc = 1 + r->argc % 3;
        r->envc %= 3;
        r->user_off = r->cwd_off = sizeof(*r);
        r->strings_off = sizeof(*r) + r->pad % 8;
    }
    if (how & 4)
        h->flags = CTL_MORE, h->total = n + byte() * 64;
    if (how & 8)
        ((u32 *)h)[byte() % 4] ^= 1u << byte() % 32;
    bool with = h->type == CTL_RUN || h->type == CTL_ATTACH || (h->type == CTL_FREEZE && how & 2), rebase = h->type == CTL_REBASE && how & 2;
    u8 flags = with || rebase ? byte() : 0;
    if (with && h->type == CTL_FREEZE)
        ((struct ctl_number *)h)->number = FREEZE_COPY | (flags & 1 ? CTL_FREEZE_STOP : 0) | (flags & 2 ? CTL_FREEZE_BASE : 0);
    if (rebase) /* one that the broker takes */
        ((struct ctl_number *)h)->number = flags & 6 ? b.freeze.written : flags;
    packet(i, m, MIN(n, CTL_PACKET_MAX), byte() % 4 == 0 ? byte() % (FDS_MAX + 1) : with ? 3 : rebase ? b.freeze.level + 1 : 0,
           rebase && flags & 24);
    control_event(&b, &b.clients[i]);
}

static void guest_speaks(u8 what)
{
    static u32 slot;
    struct {
        struct wire_request q;
        u8 room[300];
    } m = { .q = { .op = what % 12, .arg = { byte() % 2 ? b.freeze.number : byte() % 8, byte(), byte() & 1 ? -(u64)byte() : 0, byte() } } };
    m.q.size = MIN((size_t)byte(), left);
    memcpy(m.q.data, at, m.q.size);
    at += m.q.size;
    left -= m.q.size;
    slot = (slot + 1) % REQ_SLOTS;
    u32 seq = b.done_seq[slot] + 1;
    pwrite(b.r_fd, &m, sizeof(m), R_REQUESTS + slot * R_REQUEST_STRIDE);
    pwrite(b.r_fd, &seq, 4, offsetof(struct r_control_guest, req_seq) + slot * 4);
}

static void script(void)
{
    static char sink[CTL_PACKET_MAX];
    while (left >= 2) {
        u8 what = byte(), arg = byte();
        u32 i = arg % 4;
        if (what < 110) {
            if (b.clients[i].source.kind == SOURCE_CLIENT)
                client_speaks(i);
        } else if (what < 130) {
            if (b.clients[i].source.kind != SOURCE_CLIENT && i) {
                if (far_end[i])
                    close(far_end[i]);
                add_client(i, false);
            }
        } else if (what < 140) {
            if (b.clients[i].source.kind == SOURCE_CLIENT && (i || arg & 4))
                client_drop(&b, &b.clients[i]);
        } else if (what < 190) {
            guest_speaks(what);
        } else if (what < 215) {
            u32 p[4] = { byte() * 256, byte() * 256, byte() % 4, 0 };
            pwrite(b.r_fd, p, sizeof(p), offsetof(struct r_control_guest, ring) + (arg % 12) * 16);
        } else {
            u32 seq = arg & 1 ? b.mail_seq : arg;
            pwrite(b.r_fd, &seq, 4, offsetof(struct r_control_guest, mail_done));
        }
        guest_refresh(&b);
        requests_serve(&b, arg, 0);
        mail_pump(&b);
        rings_pump(&b);
        sessions_settle(&b);
        event_flush(&b);
        for (u32 k = 0; k < 4; k++)
            while (far_end[k] && recv(far_end[k], sink, sizeof(sink), MSG_DONTWAIT) > 0)
                ;
    }
}

static void run_script(void)
{
    b.zygote.fd = b.listener.fd = b.control.fd = -1;
    b.config = &config;
    b.link = &b.clients[0];
    b.booted = true;
    b.freeze = (struct freeze){ .fd = { -1, -1, -1 } };
    add_client(0, true);
    add_client(1, false);
    script();
    for (u32 i = 0; i < BROKER_CLIENT_MAX; i++) {
        if (b.clients[i].source.kind == SOURCE_CLIENT)
            client_drop(&b, &b.clients[i]);
        if (far_end[i])
            close(far_end[i]);
        far_end[i] = 0;
    }
    for (u32 i = 0; i < 3; i++)
        if (b.freeze.fd[i] >= 0)
            close(b.freeze.fd[i]);
    if (b.base_count > FD_BASE_MAX || b.freeze.level > b.base_count || b.freeze.level >= FD_BASE_MAX)
        abort(); /* the kernel's windows */
    for (u32 i = 0; i < b.base_count; i++)
        close(b.base_fd[i]);
    b.base_count = b.base_number = 0;
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++) {
        for (u32 k = 0; k < 3 && b.sessions[i].state; k++)
            stream_close(&b, &b.sessions[i].stream[k]);
        b.sessions[i] = (struct session){ 0 };
    }
    while (b.mail_first) {
        struct mail_item *m = b.mail_first;
        b.mail_first = m->next;
        free(m);
    }
    memset(&b.guest, 0, sizeof(b.guest));
    pwrite(b.r_fd, &b.guest, sizeof(b.guest), 0);
    memset(b.done_seq, 0, sizeof(b.done_seq));
    b.mail_seq = b.mail_count = b.session_next = 0;
    b.main_done = b.ending = false;
    b.tracer = NULL;
}

/* The configuration: what setup makes of it. Names are opened, but nothing below /dev. */
static void run_config(void)
{
    static u8 m[CTL_PACKET_MAX];
    u32 n = MIN(left + sizeof(struct ctl_header), sizeof(m));
    memset(m, 0, sizeof(m));
    memcpy(m + sizeof(struct ctl_header), at, n - sizeof(struct ctl_header));
    struct ctl_config *c = (void *)m;
    c->h = (struct ctl_header){ .type = CTL_CONFIG, .size = n, .total = n };
    c->mount_count %= 16;
    for (u8 *p = m; (p = memmem(p, m + n - p, "/dev", 4)); p += 4)
        memcpy(p, "/tmp", 4);
    add_client(0, true);
    b.link = &b.clients[0];
    b.freeze = (struct freeze){ .fd = { -1, -1, -1 } };
    c->levels %= FD_BASE_MAX + 2;
    u32 fd_count = (c->flags & CTL_CONFIG_NAMED ? 2 : 0) + (c->levels ? 2 + c->levels : 0);
    packet(0, m, n, n % 8 ? fd_count : n / 8 % (FDS_MAX + 1), false);
    b.views[0].fd = b.views[1].fd = -1; /* when the mounts are wrong, they are never opened */
    if (control_recv_config(&b) == 0) {
        struct ctl_config *got = b.config;
        for (u32 i = 0; i < 2 && b.base_count; i++)
            close(b.parts_fd[i]);
        for (u32 i = 0; i < b.base_count; i++)
            close(b.base_fd[i]);
        b.base_count = 0;
        b.lock_fd < 0 ?: close(b.lock_fd);
        b.control.fd < 0 ?: close(b.control.fd);
        setup_boot_mail(&b);
        for (u32 i = 0; i < b.fs.mount_count; i++)
            close(b.fs.mounts[i].root);
        for (u32 i = 0; i < b.image_count; i++)
            close(b.image_fd[i]);
        for (int i = 0; i < 2; i++) {
            b.views[i].fd < 0 ?: close(b.views[i].fd);
            free(b.views[i].rows);
            b.views[i] = (struct views){ 0 };
        }
        b.fs.mount_count = b.image_count = 0;
        b.config = NULL;
        free(got);
    }
    client_drop(&b, &b.clients[0]);
    close(far_end[0]);
    far_end[0] = 0;
    b.mail_seq = 0;
    b.main_done = b.ending = false;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    int free_before = lowest_free();
    at = data;
    left = size;
    if (byte() % 4)
        run_script();
    else
        run_config();
    if (lowest_free() != free_before)
        abort(); /* a descriptor is left */
    return 0;
}
