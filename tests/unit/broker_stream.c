/* Sessions, mail, byte streams and the request slots, against a guest acted out by this process: it writes its half of R
 * with pwrite as the broker reads it, honest or not. The doorbell itself (a seccomp listener) is tested in broker_run.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
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
static struct client client;
static struct r_control_guest g; /* the guest's own half */
static struct r_control_broker theirs;
static int client_end, in_end, out_end;

static void guest_publish(void)
{
    assert_int_equal(pwrite(b.r_fd, &g, sizeof(g), R_CONTROL_GUEST), sizeof(g));
    assert_int_equal(guest_refresh(&b), 0);
}

static void guest_look(void) { assert_int_equal(pread(b.r_fd, &theirs, sizeof(theirs), R_CONTROL_BROKER), sizeof(theirs)); }

static void turn(void)
{
    guest_publish();
    mail_pump(&b);
    rings_pump(&b);
    sessions_settle(&b);
    event_flush(&b);
    guest_look();
}

static int start_session(u32 flags)
{
    struct {
        struct ctl_run run;
        char cwd[2], user[8], strings[16];
    } m = { .run = { .h.type = CTL_RUN, .flags = flags, .argc = 2, .envc = 1 }, .cwd = "/", .user = "u:g", .strings = "cmd\0arg\0K=V" };
    m.run.cwd_off = offsetof(typeof(m), cwd);
    m.run.user_off = offsetof(typeof(m), user);
    m.run.strings_off = offsetof(typeof(m), strings);
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    in_end = in[1];
    out_end = out[0];
    int fds[3] = { in[0], out[1], -1 };
    return session_start(&b, &client, &m.run, offsetof(typeof(m), strings) + 12, fds);
}

static int set_up(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    memset(&b, 0, sizeof(b));
    memset(&g, 0, sizeof(g));
    hostfs_init(&b.fs);
    assert_int_equal(setup_segments(&b), 0);
    assert_int_equal(setup_memory(&b), 0);
    b.epoll_fd = epoll_create1(0);
    b.zygote.fd = -1;
    b.zygote_gone = true;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    client = (struct client){ .source = { SOURCE_CLIENT, pair[0] } };
    client_end = pair[1];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++)
        for (u32 k = 0; k < 3; k++)
            if (b.sessions[i].state && b.sessions[i].stream[k].source.fd >= 0)
                stream_close(&b, &b.sessions[i].stream[k]);
    while (b.mail_first) {
        struct mail_item *m = b.mail_first;
        b.mail_first = m->next;
        free(m);
    }
    munmap(b.event_page, PAGE_SIZE);
    int fds[] = { b.k_fd, b.d_fd, b.r_fd, b.epoll_fd, client.source.fd, client_end, in_end, out_end, b.fs.proc_fd };
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
    return 0;
}

/* Starts a session and takes its mail as the guest does. */
static struct mail_spawn *started(void)
{
    static u8 mail[MAIL_SIZE];
    assert_int_equal(start_session(CTL_RUN_MAIN), 0);
    turn();
    assert_int_equal(theirs.mail_seq, 1);
    assert_int_equal(pread(b.r_fd, mail, theirs.mail_size, R_MAIL), theirs.mail_size);
    g.mail_done = 1;
    return (void *)mail;
}

static void ring_put(u32 ring, u32 at, const void *data, u32 size)
{
    for (u32 i = 0; i < size; i++)
        pwrite(b.r_fd, (u8 *)data + i, 1, R_RINGS + ring * RING_SIZE + (at + i) % RING_SIZE);
}

static void post(u32 slot, struct wire_request *q, const void *data)
{
    pwrite(b.r_fd, q, sizeof(*q), R_REQUESTS + slot * R_REQUEST_STRIDE);
    if (data)
        pwrite(b.r_fd, data, q->size, R_REQUESTS + slot * R_REQUEST_STRIDE + sizeof(*q));
    g.req_seq[slot]++;
}

static void test_spawn_mail(void **state)
{
    (void)state;
    struct mail_spawn *m = started();
    assert_int_equal(m->h.type, MAIL_SPAWN);
    assert_int_equal(m->argc, 2);
    assert_int_equal(m->ring_err, ~0u);
    assert_string_equal((char *)m + m->cwd_off, "/");
    assert_string_equal((char *)m + m->user_off, "u:g");
    assert_string_equal((char *)m + m->strings_off, "cmd");
    /* nothing more goes into the box before it is taken */
    session_signal(&b, &b.sessions[0], 15);
    g.mail_done = 0;
    turn();
    assert_int_equal(theirs.mail_seq, 1);
    g.mail_done = 1;
    turn();
    assert_int_equal(theirs.mail_seq, 2);
}

static void test_rings_wait_for_the_guest(void **state)
{
    (void)state;
    assert_int_equal(start_session(0), 0);
    g.ring[1].pos = 77; /* left over from an earlier session */
    turn();
    assert_int_equal(b.sessions[0].stream[1].pos, 0);
    g.ring[1].pos = 0;
    g.mail_done = 1;
    turn();
    assert_true(b.sessions[0].rings_live);
}

static void test_output(void **state)
{
    (void)state;
    char text[64] = "";
    started();
    ring_put(1, 0, "hello", 5);
    g.ring[1].pos = 5;
    turn();
    assert_int_equal(theirs.ring[1].pos, 5);
    assert_int_equal(read(out_end, text, sizeof(text)), 5);
    assert_string_equal(text, "hello");
    /* end of stream */
    g.ring[1].flags = RING_CLOSED;
    turn();
    assert_int_equal(read(out_end, text, sizeof(text)), 0);
}

static void test_output_wraps_and_blocks(void **state)
{
    (void)state;
    static u8 pattern[RING_SIZE], got[1 << 20];
    u32 sent = 0, received = 0;
    started();
    for (u32 i = 0; i < RING_SIZE; i++)
        pattern[i] = i * 31 >> 4;
    /* a pipe holds 64 KiB: the ring fills up behind it, and nothing is lost */
    for (u32 round = 0; round < 200; round++) {
        guest_look();
        u32 room = RING_SIZE - (sent - theirs.ring[1].pos), n = MIN(room, 10007u);
        for (u32 i = 0; i < n; i++) {
            u8 c = pattern[(sent + i) % RING_SIZE];
            pwrite(b.r_fd, &c, 1, R_RINGS + RING_SIZE + (sent + i) % RING_SIZE);
        }
        sent += n;
        g.ring[1].pos = sent;
        turn();
        if (round % 3 == 2) {
            ssize_t r = read(out_end, got + received, 16384);
            if (r > 0)
                received += r;
            b.sessions[0].stream[1].armed = false; /* as the epoll event does */
        }
        if (sent > 600000)
            break;
    }
    assert_true(sent - theirs.ring[1].pos <= RING_SIZE);
    for (u32 i = 0; i < 100 && received < sent; i++) {
        ssize_t r = read(out_end, got + received, 65536);
        if (r > 0)
            received += r;
        b.sessions[0].stream[1].armed = false;
        turn();
    }
    assert_int_equal(received, sent);
    for (u32 i = 0; i < received; i++)
        if (got[i] != pattern[i % RING_SIZE])
            fail_msg("byte %u differs", i);
}

static void test_output_nobody_reads(void **state)
{
    (void)state;
    started();
    turn();
    close(out_end);
    ring_put(1, 0, "x", 1);
    g.ring[1].pos = 1;
    turn();
    assert_true(theirs.ring[1].flags & RING_CLOSED);
    assert_int_equal(theirs.ring[1].pos, 1);
    /* what is still written is swallowed, not waited for */
    g.ring[1].pos = RING_SIZE + 1;
    turn();
    assert_int_equal(theirs.ring[1].pos, RING_SIZE + 1);
    out_end = open("/dev/null", O_RDONLY);
}

static void test_hostile_positions(void **state)
{
    (void)state;
    char c;
    started();
    g.ring[1].pos = 0x80000000;
    turn();
    assert_true(theirs.ring[1].flags & RING_CLOSED);
    assert_true(read(out_end, &c, 1) <= 0);
    for (u32 i = 0; i < 3; i++) { /* nonsense that stays, or changes, is no work: the loop would turn for ever */
        g.ring[1].pos = 0x80000000 + i * 0x10000;
        guest_publish();
        assert_false(rings_pump(&b));
    }
    g.ring[0].pos = 12345; /* ate more than it got */
    g.ring[0].want = ~0u;
    turn();
    assert_true(theirs.ring[0].flags & RING_CLOSED);
}

static void test_input(void **state)
{
    (void)state;
    char text[16] = "";
    started();
    assert_int_equal(write(in_end, "abcdef", 6), 6);
    turn();
    assert_int_equal(theirs.ring[0].pos, 0); /* nobody asked: stays in the pipe */
    u32 event = theirs.event_seq;
    g.ring[0].want = 4;
    turn();
    assert_int_equal(theirs.ring[0].pos, 4);
    assert_int_not_equal(theirs.event_seq, event);
    assert_int_equal(pread(b.r_fd, text, 4, R_RINGS), 4);
    assert_string_equal(text, "abcd");
    g.ring[0].pos = 4;
    g.ring[0].want = 100;
    turn();
    assert_int_equal(theirs.ring[0].pos, 6);
    close(in_end);
    b.sessions[0].stream[0].armed = false;
    turn();
    assert_true(theirs.ring[0].flags & RING_CLOSED);
    in_end = open("/dev/null", O_RDONLY);
}

/* Whoever gave us a descriptor still has it: the host would go on telling us of a stream that we closed. */
static void test_closed_is_forgotten(void **state)
{
    (void)state;
    struct epoll_event e;
    started();
    int shared = fcntl(b.sessions[0].stream[0].source.fd, F_DUPFD, 0);
    g.ring[0].want = 4;
    turn();
    assert_true(b.sessions[0].stream[0].armed);
    stream_close(&b, &b.sessions[0].stream[0]);
    assert_int_equal(write(in_end, "x", 1), 1);
    assert_int_equal(epoll_wait(b.epoll_fd, &e, 1, 0), 0);
    close(shared);
}

/* A guest that takes no mail does not make the broker grow. */
static void test_mail_is_bounded(void **state)
{
    (void)state;
    struct mail_signal m = { .h = { .type = MAIL_SIGNAL, .size = sizeof(m) } };
    u32 posted = 0;
    started();
    b.guest.mail_done = b.mail_seq - 1;
    while (posted < 100000 && mail_post(&b, NULL, &m, sizeof(m)))
        posted++;
    assert_in_range(posted, 1, BROKER_MAIL_MAX);
    b.guest.mail_done = b.mail_seq;
    mail_pump(&b);
    assert_true(mail_post(&b, NULL, &m, sizeof(m)));
    u32 count = 0;
    while (count < 20 && start_session(0) == 0)
        count++;
    assert_true(count < 20);
}

static void test_exit_drains(void **state)
{
    (void)state;
    static u8 block[RING_SIZE];
    u8 packet[256];
    started();
    int fill = fcntl(b.sessions[0].stream[1].source.fd, F_DUPFD, 0);
    while (write(fill, block, sizeof(block)) > 0)
        ;
    while (write(fill, block, 1) > 0)
        ;
    close(fill);
    ring_put(1, 0, "last", 4);
    g.ring[1].pos = 4;
    /* the program was faster than the guest's init: the mail is not even acknowledged */
    g.mail_done = 0;
    struct wire_request q = { .op = WIRE_EXIT, .arg = { b.sessions[0].id, 3 << 8 } };
    post(9, &q, NULL);
    guest_publish();
    assert_int_equal(requests_serve(&b, 10, 0), 1);
    turn();
    assert_false(b.main_done); /* the pipe is full: the output is not out yet */
    while (read(out_end, block, sizeof(block)) > 0)
        ;
    b.sessions[0].stream[1].armed = false;
    turn();
    assert_true(b.main_done);
    assert_int_equal(b.status, 3);
    assert_int_equal(read(out_end, block, sizeof(block)), 4);
    assert_true(recv(client_end, packet, sizeof(packet), MSG_DONTWAIT) > 0);
    assert_int_equal(((struct ctl_number *)packet)->h.type, CTL_EXITED);
    assert_int_equal(((struct ctl_number *)packet)->number, 3 << 8);
}

static void test_session_limit(void **state)
{
    (void)state;
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++) {
        assert_int_equal(start_session(0), 0);
        close(in_end);
        close(out_end);
        client.session = NULL;
    }
    assert_int_equal(start_session(0), -EAGAIN);
}

static void test_broken_run_messages(void **state)
{
    (void)state;
    struct ctl_run m = { .argc = 1, .cwd_off = sizeof(m), .strings_off = sizeof(m) };
    int none[3] = { -1, -1, -1 };
    assert_int_equal(session_start(&b, &client, &m, sizeof(m), none), -EINVAL);
    struct {
        struct ctl_run run;
        char text[8];
    } whole = { .run = { .argc = 1, .cwd_off = sizeof(m), .user_off = ~0u, .strings_off = sizeof(m) + 2 }, .text = "/\0c" };
    assert_int_equal(session_start(&b, &client, &whole.run, sizeof(m) + 4, none), -EINVAL);
    whole.run.user_off = 0;
    assert_int_equal(session_start(&b, &client, &whole.run, sizeof(m) + 4, none), -EINVAL);
    m.cwd_off = 0;
    assert_int_equal(session_start(&b, &client, &m, sizeof(m), none), -EINVAL);
    m.strings_off = ~0u;
    assert_int_equal(session_start(&b, &client, &m, sizeof(m), none), -EINVAL);
    m.argc = ~0u;
    assert_int_equal(session_start(&b, &client, &m, sizeof(m), none), -EINVAL);
}

/* ---- slots ---- */

static s32 answer(u32 slot, struct wire_request *q)
{
    guest_look();
    assert_int_equal(theirs.done_seq[slot], g.req_seq[slot]);
    pread(b.r_fd, q, sizeof(*q), R_REQUESTS + slot * R_REQUEST_STRIDE);
    return q->result;
}

static void test_slots(void **state)
{
    (void)state;
    struct wire_request q = { .op = WIRE_NOP }, big = { .op = WIRE_LOOKUP, .size = REQ_DATA_SIZE + 1 };
    struct wire_request odd = { .op = 4711 }, path = { .op = WIRE_LOOKUP, .size = 3 };
    post(0, &q, NULL);
    post(17, &big, NULL);
    post(63, &odd, NULL);
    post(5, &path, "..");
    guest_publish();
    requests_serve(&b, 0, 0);
    assert_int_equal(answer(0, &q), 0);
    assert_int_equal(answer(17, &q), -EINVAL);
    assert_true(answer(63, &q) < 0);
    assert_true(answer(5, &q) < 0);
    assert_int_equal(theirs.done_seq[1], 0);
}

static void test_foreign_grant_waits(void **state)
{
    (void)state;
    struct wire_request grant = { .op = WIRE_GRANT }, nop = { .op = WIRE_NOP };
    post(2, &grant, NULL);
    post(3, &nop, NULL);
    guest_publish();
    requests_serve(&b, 4, 99); /* the doorbell of slot 3's process */
    guest_look();
    assert_int_equal(theirs.done_seq[3], 1);
    assert_int_equal(theirs.done_seq[2], 0);
    requests_serve(&b, 3, 100);
    guest_look();
    assert_int_equal(theirs.done_seq[2], 1);
}

static void test_escape(void **state)
{
    (void)state;
    char out[64];
    escape_text(out, sizeof(out), "a\033[2J\n\x80z", 8);
    assert_string_equal(out, "a\\x1b[2J\n\\x80z");
    escape_text(out, 8, "\1\1\1\1\1\1\1\1", 8);
    assert_true(strlen(out) < 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_spawn_mail), T(test_rings_wait_for_the_guest), T(test_output), T(test_output_wraps_and_blocks),
        T(test_output_nobody_reads), T(test_hostile_positions), T(test_input), T(test_closed_is_forgotten), T(test_mail_is_bounded), T(test_exit_drains), T(test_session_limit),
        T(test_broken_run_messages), T(test_slots), T(test_foreign_grant_waits), T(test_escape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
