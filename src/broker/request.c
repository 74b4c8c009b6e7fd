/* The doorbell (seccomp user notification) and the request slots in R.
 *
 * One doorbell costs: RECV, one pread of the guest's control page, per new request one or two preads and two pwrites, then
 * SEND. The reply is written before done_seq, done_seq before the doorbell is answered. A request is read once into our
 * own memory and checked there; whatever the guest changes afterwards has no effect.
 *
 * Nothing of the notification is trusted: not the pid, not the registers. Its first argument is a hint which slot it is
 * about; a guest that lies only confuses itself (a descriptor lands in another process of the same sandbox). */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURN_NS 10000000ull
#define FIRST_READ (sizeof(struct wire_request) + 464) /* head and what most requests carry, one pread */

/* Copies the guest's control page. */
int guest_refresh(struct broker *b)
{
    __sync_synchronize();
    ssize_t n = pread(b->r_fd, &b->guest, sizeof(b->guest), R_CONTROL_GUEST);
    return n == sizeof(b->guest) ? 0 : n < 0 ? -errno : -EIO;
}

void event_flush(struct broker *b)
{
    if (!b->event_due)
        return;
    b->event_due = false;
    b->event_seq++;
    pwrite(b->r_fd, &b->event_seq, 4, R_CONTROL_BROKER + offsetof(struct r_control_broker, event_seq));
    syscall(SYS_futex, b->event_page, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- requests about the sandbox's life ---- */

#define TEXT_PART 16384u

static void send_text(struct client *c, const char *text, size_t size)
{
    for (size_t n; size; text += n, size -= n) {
        n = MIN(size, (size_t)TEXT_PART);
        client_send(c, CTL_TEXT, text, n);
    }
}

static s32 serve_procs(struct broker *b, struct request *r, const char *text, size_t size)
{
    u32 token = r->head.arg[0];
    for (u32 i = 0; token && i < BROKER_CLIENT_MAX; i++) {
        struct client *c = &b->clients[i];
        if (c->source.kind != SOURCE_CLIENT || c->procs_token != token)
            continue;
        if (!client_has_room(c, size))
            return -EAGAIN;
        send_text(c, text, size);
        if (!r->head.arg[1]) {
            c->procs_token = 0;
            if (!c->is_link)
                client_drop(b, c);
        }
        return 0;
    }
    return -ESRCH;
}

/* Text of the guest, for people: escaped here, whatever the guest has done. */
static void serve_text(struct broker *b, struct request *r)
{
    static char text[REQ_DATA_SIZE * 4 + 1];
    size_t n = escape_text(text, sizeof(text), (char *)r->data, r->head.size);
    switch (r->head.op) {
    case WIRE_PANIC: {
        b->status = r->head.arg[0] == 137 ? 137 : 125;
        spawn_kill(b);
        link_error(b, b->status, "%s%s", r->head.arg[0] ? "" : "the guest kernel gave up, the sandbox ends; its report:\n", text);
        b->main_done = true;
        break;
    }
    case WIRE_STATS:
        if (b->config->flags & CTL_CONFIG_VERBOSE && b->link && client_has_room(b->link, n) && limits_output_room(b) >= n) {
            link_note(b, "%s", text);
            b->limits.output += n; /* it comes out at the same place */
        }
        break;
    case WIRE_PROCS:
        r->head.result = serve_procs(b, r, text, n);
        break;
    case WIRE_TRACE:
        if (!b->tracer)
            r->head.result = -EPIPE;
        else if (!client_has_room(b->tracer, n))
            r->head.result = -EAGAIN;
        else
            send_text(b->tracer, text, n);
        break;
    default:
        r->head.result = -EINVAL;
    }
}

static void serve_life(struct broker *b, struct request *r)
{
    struct session *s;
    r->head.result = 0;
    switch (r->head.op) {
    case WIRE_NOP:
        break;
    case WIRE_EXIT:
        s = session_find(b, r->head.arg[0]);
        if (s && s->state >= SESSION_MAILED) {
            s->rings_live = true; /* it may even end before */
            session_exit(b, s, r->head.arg[1]);
        } else {
            r->head.result = -ESRCH;
        }
        break;
    case WIRE_SPAWNED:
        s = session_find(b, r->head.arg[0]);
        if (!s || s->state != SESSION_MAILED) {
            r->head.result = -ESRCH;
        } else if ((s64)r->head.arg[2] < 0) {
            /* as shells: 127 not found, 126 found but not to be run */
            u32 error = MIN(-r->head.arg[2], (u64)4095), step = MIN(r->head.arg[3], (u64)SPAWN_STEP_COUNT - 1);
            u32 status = step != SPAWN_STEP_PROGRAM ? 125 : error == ENOENT ? 127 : 126;
            if (s->client)
                client_number(s->client, CTL_STARTED, error | step << 16);
            session_exit(b, s, status << 8);
        } else {
            s->state = SESSION_RUNNING;
            s->rings_live = true; /* a program that is fast writes before the mail is acknowledged */
            if (s->client)
                client_number(s->client, CTL_STARTED, 0);
        }
        break;
    case WIRE_FROZEN:
        r->head.result = freeze_frozen(b, r);
        break;
    case WIRE_DUMP_OPEN:
        r->head.result = freeze_dump_open(b, r);
        break;
    case WIRE_DUMPED:
        r->head.result = freeze_dumped(b, r);
        break;
    case WIRE_USAGE:
        limits_usage(b, (struct wire_usage *)r->reply);
        r->head.reply_size = sizeof(struct wire_usage);
        break;
    default:
        serve_text(b, r);
    }
}

/* ---- slots ---- */

static void serve_slot(struct broker *b, u32 slot, u32 seq, u64 notify_id)
{
    static struct request r;
    u64 base = R_REQUESTS + (u64)slot * R_REQUEST_STRIDE;
    ssize_t n = pread(b->r_fd, &r, FIRST_READ, base);
    if (n != FIRST_READ)
        return;
    r.head.result = 0;
    r.head.reply_size = 0;
    r.head.value = 0;
    r.notify_id = notify_id;
    if (r.head.size > REQ_DATA_SIZE) {
        r.head.result = -EINVAL;
    } else {
        u32 have = FIRST_READ - sizeof(struct wire_request);
        if (r.head.size > have && pread(b->r_fd, r.data + have, r.head.size - have, base + FIRST_READ) !=
                                      (ssize_t)(r.head.size - have))
            return;
        r.data[r.head.size] = 0;
        if (r.head.op <= WIRE_USAGE)
            serve_life(b, &r);
        else
            hostfs_serve(b, &r);
    }
    if (r.head.result < 0)
        r.head.reply_size = 0;
    /* result, reply_size, value and data lie together */
    const u64 reply_at = offsetof(struct wire_request, result), fixed = sizeof(struct wire_request) - reply_at;
    memcpy(r.data, r.reply, r.head.reply_size);
    pwrite(b->r_fd, (u8 *)&r + reply_at, fixed + r.head.reply_size, base + reply_at);
    __sync_synchronize();
    b->done_seq[slot] = seq;
    pwrite(b->r_fd, &seq, 4, R_CONTROL_BROKER + offsetof(struct r_control_broker, done_seq) + slot * 4);
}

static bool is_grant(struct broker *b, u32 slot)
{
    u32 op = 0;
    pread(b->r_fd, &op, 4, R_REQUESTS + (u64)slot * R_REQUEST_STRIDE);
    return op == WIRE_GRANT || op == WIRE_DUMP_OPEN;
}

/* Serves the requests of the copied control page that have no answer yet. hint: slot + 1, or 0 or nonsense. After TURN_NS
 * the rest is left for the loop's next turn (requests_left), so that clients and the time-out are not kept waiting however slow
 * the requests are; late answers come with an event. Returns how many it served. */
u32 requests_serve(struct broker *b, u64 hint, u64 notify_id)
{
    u32 count = 0;
    u64 start = 0;
    u32 hinted = hint >= 1 && hint <= REQ_SLOTS ? hint - 1 : REQ_SLOTS;
    b->requests_left = false;
    if (hinted < REQ_SLOTS && b->guest.req_seq[hinted] != b->done_seq[hinted]) {
        serve_slot(b, hinted, b->guest.req_seq[hinted], notify_id);
        count++;
    }
    for (u32 n = 0; n < REQ_SLOTS; n++) {
        u32 i = (b->slot_next + n) % REQ_SLOTS;
        if (b->guest.req_seq[i] == b->done_seq[i])
            continue;
        /* a descriptor has to go into the process that asked: leave it to that process's own doorbell */
        if (is_grant(b, i))
            continue;
        u64 now = monotonic_ns();
        if (!start) {
            start = now;
        } else if (now - start > TURN_NS) {
            b->slot_next = i;
            b->requests_left = true;
            break;
        }
        serve_slot(b, i, b->guest.req_seq[i], notify_id);
        count++;
    }
    return count;
}

/* What was left over. */
void requests_go_on(struct broker *b)
{
    if (!b->requests_left || b->ending)
        return;
    requests_serve(b, 0, 0);
    b->event_due = true;
}

/* Where the host does not keep the guest's one signal inside the sandbox, it has to come through us: to a process that is in the guest's
 * session, which nobody can leave. */
static int kick(const struct broker *b, const struct seccomp_data *call)
{
    pid_t pid = call->args[0], tid = call->args[1];
    if (call->args[2] != SIGURG || getsid(pid) != b->zygote_pid)
        return -ESRCH;
    return syscall(SYS_tgkill, pid, tid, SIGURG) < 0 ? -errno : 0;
}

/* Takes one notification. Returns 0, or -EAGAIN when there is none, or another error when the listener is of no use. */
int doorbell_serve(struct broker *b)
{
    union {
        struct seccomp_notif n;
        u8 room[512]; /* the kernel wants zeroes and may know a longer structure */
    } in;
    memset(&in, 0, sizeof(in.n));
    if (ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
        return errno == ENOENT || errno == EINTR ? -EAGAIN : -errno;
    struct seccomp_notif_resp answer = { .id = in.n.id };
    int error = guest_refresh(b);
    if (error < 0)
        return error;
    if (in.n.data.nr == SYS_tgkill)
        answer.error = kick(b, &in.n.data);
    /* a bell without a request is about a stream: a reader finds its bytes there when it is answered */
    else if (!b->ending && !requests_serve(b, in.n.data.args[0], in.n.id))
        rings_pump(b);
    ioctl(b->listener.fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* ENOENT: the task is gone */
    return 0;
}
