/* Line discipline, ptys, outside streams and the console. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <asm/ioctls.h>

#include "base/layout.h"
#include "base/string.h"
#include "ipc_fake.h"
#include "tty/session.h"
#include "tty/stream.h"
#include "tty/tty.h"

static char buf[100000], out[100000];

static struct tty_pair {
    int m, s;
} open_pty(void)
{
    int zero = 0;
    struct tty_pair p;
    p.m = (int)fd_new(file_open(AT_FDCWD, "/dev/ptmx", O_RDWR, 0), 0);
    t_ioctl(p.m, TIOCSPTLCK, &zero);
    struct file *f = fd_get(p.m);
    p.s = (int)f->ops->ioctl(f, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    file_put(f);
    t_nonblock(p.m, true);
    t_nonblock(p.s, true);
    return p;
}

/* What the master sees now, as a string. */
static const char *seen(int m)
{
    long n = t_read(m, out, sizeof(out) - 1);
    out[n > 0 ? n : 0] = 0;
    return out;
}

static bool type_see(struct tty_pair p, const char *in, const char *want)
{
    t_write(p.m, in, strlen(in));
    const char *got = seen(p.m);
    if (!strcmp(got, want))
        return true;
    return false;
}

static void test_canonical(void)
{
    struct tty_pair p = open_pty();
    int n;

    tap_group("canonical mode");
    CHECK(p.m >= 0 && p.s >= 0);
    CHECK_EQ(t_read(p.s, buf, 10), -EAGAIN);
    CHECK(type_see(p, "ab", "ab"));
    CHECK_EQ(t_read(p.s, buf, 10), -EAGAIN); /* no line yet */
    CHECK(type_see(p, "\x7f", "\b \b"));
    CHECK(type_see(p, "c\r", "c\r\n"));
    CHECK_EQ(t_ioctl(p.s, FIONREAD, &n), 0);
    CHECK_EQ(n, 3);
    CHECK_EQ(t_read(p.s, buf, 2), 2);
    CHECK_EQ(t_read(p.s, buf + 2, 10), 1);
    CHECK(!memcmp(buf, "ac\n", 3));
    CHECK(type_see(p, "one two\x17", "one two\b \b\b \b\b \b")); /* word erase */
    CHECK(type_see(p, "\x15", "\b \b\b \b\b \b\b \b")); /* line kill */
    CHECK(type_see(p, "\x01\x7f", "^A\b \b\b \b"));
    CHECK(type_see(p, "x\x04", "x")); /* end of file pushes */
    CHECK_EQ(t_read(p.s, buf, 10), 1);
    CHECK(type_see(p, "\x04", ""));
    CHECK_EQ(t_poll(p.s, EPOLLIN), EPOLLIN);
    CHECK_EQ(t_read(p.s, buf, 10), 0);
    CHECK_EQ(t_read(p.s, buf, 10), -EAGAIN);
    CHECK(type_see(p, "l1\nl2\n", "l1\r\nl2\r\n"));
    CHECK_EQ(t_read(p.s, buf, 100), 3); /* a line a read */
    CHECK_EQ(t_read(p.s, buf, 100), 3);
    CHECK(type_see(p, "\x16\x03\n", "^\b^C\r\n")); /* literal next */
    CHECK_EQ(t_read(p.s, buf, 100), 2);
    CHECK_EQ(t_write(p.s, "a\tb\n", 4), 4);
    CHECK(!strcmp(seen(p.m), "a\tb\r\n"));
    for (int i = 0; i < 5000; i++)
        t_write(p.m, "y", 1), seen(p.m);
    CHECK_EQ(t_write(p.m, "\n", 1), 1); /* too long a line is cut, but ends */
    CHECK_EQ(t_read(p.s, buf, 10000), 4096);
    seen(p.m);
    t_close(p.s);
    CHECK_EQ(t_read(p.m, buf, 10), -EIO);
    CHECK_EQ(t_poll(p.m, EPOLLIN | EPOLLHUP), EPOLLHUP);
    t_close(p.m);
}

static void test_raw_and_signals(void)
{
    struct tty_pair p = open_pty();
    struct termios2 t, t0;
    struct winsize w = {24, 80, 0, 0}, g;
    s32 pg = 7;

    tap_group("raw mode, signals");
    CHECK_EQ(t_ioctl(p.s, TCGETS2, &t0), 0);
    t = t0;
    t.c_lflag &= ~(u32)(ICANON | ECHO | ISIG);
    t.c_iflag = 0;
    t.c_oflag = 0;
    t.c_cc[VMIN] = 3;
    t.c_cc[VTIME] = 0;
    CHECK_EQ(t_ioctl(p.s, TCSETS2, &t), 0);
    CHECK(type_see(p, "\x03\r", ""));
    CHECK_EQ(t_poll(p.s, EPOLLIN), 0);
    CHECK(type_see(p, "z", ""));
    CHECK_EQ(t_poll(p.s, EPOLLIN), EPOLLIN);
    CHECK_EQ(t_read(p.s, buf, 10), 3);
    CHECK(!memcmp(buf, "\x03\rz", 3));
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 1;
    t_ioctl(p.s, TCSETS2, &t);
    t_nonblock(p.s, false);
    CHECK_EQ(t_read(p.s, buf, 10), 0); /* after a tenth of a second */
    t_nonblock(p.s, true);
    CHECK_EQ(t_ioctl(p.s, TCSETSF2, &t0), 0);

    fake_session(1, 7, false);
    struct file *f = fd_get(p.s);
    CHECK_EQ(f->ops->ioctl(f, TIOCSCTTY, 0), 0);
    file_put(f);
    CHECK_EQ(t_ioctl(p.s, TIOCGPGRP, &pg), 0);
    CHECK_EQ(pg, 7);
    CHECK(type_see(p, "junk\x03", "^C") /* the signal flushes both queues */);
    CHECK_EQ(fake_signal_taken(), 2);
    CHECK_EQ(fake_signal_pgrp(), 7);
    CHECK(type_see(p, "k\n", "k\r\n"));
    CHECK_EQ(t_read(p.s, buf, 10), 2); /* the interrupt flushed the line */
    CHECK_EQ(t_ioctl(p.m, TIOCSWINSZ, &w), 0);
    CHECK_EQ(fake_signal_taken(), 28);
    CHECK_EQ(t_ioctl(p.m, TIOCSWINSZ, &w), 0);
    CHECK_EQ(fake_signal_taken(), 0);
    CHECK_EQ(t_ioctl(p.s, TIOCGWINSZ, &g), 0);
    CHECK(g.ws_row == 24 && g.ws_col == 80);
    /* background */
    fake_session(1, 8, false);
    CHECK_EQ(t_read(p.s, buf, 10), -ERESTARTSYS);
    CHECK_EQ(fake_signal_taken(), 21);
    CHECK_EQ(t_ioctl(p.s, TCSETS2, &t0), -ERESTARTSYS);
    CHECK_EQ(fake_signal_taken(), 22);
    fake_session(1, 8, true);
    CHECK_EQ(t_read(p.s, buf, 10), -EIO);
    fake_session(1, 7, false);
    /* flow control */
    CHECK(type_see(p, "\x13", ""));
    CHECK_EQ(t_write(p.s, "held", 4), -EAGAIN);
    CHECK(type_see(p, "\x11", ""));
    CHECK_EQ(t_write(p.s, "go", 2), 2);
    CHECK(!strcmp(seen(p.m), "go"));
    t_close(p.m);
    CHECK_EQ(t_read(p.s, buf, 10), 0);
    CHECK_EQ(t_write(p.s, "x", 1), -EIO);
    struct tty *own = session_tty();
    session_set_tty(NULL);
    tty_session_exit(own);
    tty_put(own);
    t_close(p.s);
    fake_signal_taken();
}

static void master_reader(void *p)
{
    u32 got = 0;
    while (got < 60000) {
        long n = t_read(*(int *)p, out + got, 5000);
        if (n <= 0)
            break;
        got += (u32)n;
    }
    CHECK_EQ(got, 60000);
}

static void test_bulk(void)
{
    struct tty_pair p = open_pty();

    tap_group("pty, two tasks");
    t_nonblock(p.m, false);
    t_nonblock(p.s, false);
    memset(buf, 'q', 60000);
    void *t = fake_spawn(master_reader, &p.m);
    CHECK_EQ(t_write(p.s, buf, 60000), 60000);
    fake_join(t);
    t_close(p.s);
    t_close(p.m);
}

/* ---- the broker's side of the rings ---- */

static struct r_control_guest *rg = (void *)(R_BASE + R_CONTROL_GUEST);
static struct r_control_broker *rb = (void *)(R_BASE + R_CONTROL_BROKER);
static const char *outside_in = ""; /* what the outside still has to say */
static char outside_out[100000];
static u32 outside_got;
static bool outside_eof, outside_stuck;

static void broker(void)
{
    u8 *in = (u8 *)(R_BASE + R_RINGS), *o = in + RING_SIZE;

    while (*outside_in && (s32)(rg->ring[0].want - rb->ring[0].pos) > 0)
        in[rb->ring[0].pos++ % RING_SIZE] = (u8)*outside_in++;
    if (!*outside_in && outside_eof)
        rb->ring[0].flags |= RING_CLOSED;
    while (!outside_stuck && rb->ring[1].pos != rg->ring[1].pos)
        outside_out[outside_got++] = (char)o[rb->ring[1].pos++ % RING_SIZE];
}

static void late_event(void *p)
{
    (void)p;
    fake_sleep_ms(20);
    outside_stuck = false;
    broker();
    streams_event();
}

static void test_streams(void)
{
    struct mail_spawn m = {.session = 3, .ring_in = 0, .ring_out = 1, .ring_err = 1};
    struct file *f[3];

    tap_group("streams");
    rg->ring[0].pos = rg->ring[1].pos = 12345; /* of a use before */
    fake_set_doorbell(broker);
    CHECK_EQ(stream_open_stdio(&m, f), 0);
    CHECK(rg->ring[0].pos == 0 && rg->ring[0].want == 0 && rg->ring[1].pos == 0);
    rg->ring[0].pos = rg->ring[0].want = rb->ring[0].pos = 0xfffffff8u; /* positions wrap */
    int in = (int)fd_new(f[0], 0), o = (int)fd_new(f[1], 0), err = (int)fd_new(f[2], 0);
    outside_in = "input for two";
    t_nonblock(in, true);
    CHECK_EQ(t_read(in, buf, 5), 5);
    CHECK(!memcmp(buf, "input", 5));
    CHECK(!strcmp(outside_in, " for two")); /* not more than asked for */
    CHECK_EQ(t_read(in, buf, 100), 8);
    CHECK_EQ(t_read(in, buf, 100), -EAGAIN);
    CHECK_EQ(t_poll(in, ~0u), 0);
    t_nonblock(in, false);
    outside_in = "late";
    void *t = fake_spawn(late_event, NULL);
    CHECK_EQ(t_read(in, buf, 100), 4);
    fake_join(t);
    outside_eof = true;
    CHECK_EQ(t_read(in, buf, 100), 0);
    CHECK_EQ(t_poll(in, ~0u), EPOLLHUP);

    CHECK_EQ(t_write(o, "out", 3), 3);
    CHECK_EQ(t_write(err, "err", 3), 3);
    CHECK(outside_got == 6 && !memcmp(outside_out, "outerr", 6));
    outside_stuck = true;
    t_nonblock(o, true);
    CHECK_EQ(t_write(o, buf, 50000), RING_SIZE);
    CHECK_EQ(t_write(o, buf, 1), -EAGAIN);
    CHECK_EQ(t_poll(o, ~0u), 0);
    t_nonblock(o, false);
    t = fake_spawn(late_event, NULL);
    CHECK_EQ(t_write(o, buf, 10000), 10000);
    fake_join(t);
    CHECK_EQ(outside_got, 6 + RING_SIZE + 10000);
    rb->ring[1].flags |= RING_CLOSED;
    CHECK_EQ(t_write(o, "x", 1), -EPIPE);
    CHECK_EQ(fake_signal_taken(), 13);
    t_close(in);
    t_close(o);
    CHECK(!(rg->ring[1].flags & RING_CLOSED));
    t_close(err);
    CHECK(rg->ring[1].flags & RING_CLOSED);
    CHECK(rg->ring[0].flags & RING_CLOSED);
}

/* The broker gives rings to the next session while somebody still has files of the last one. */
static void test_rings_used_again(void)
{
    struct mail_spawn m = {.session = 7, .ring_in = 0, .ring_out = 1, .ring_err = 1};
    struct file *f[3], *g[3];

    tap_group("rings used again");
    memset(rb->ring, 0, sizeof(rb->ring));
    outside_eof = outside_stuck = false;
    outside_got = 0;
    outside_in = "first";
    CHECK_EQ(stream_open_stdio(&m, f), 0);
    int in = (int)fd_new(f[0], 0), o = (int)fd_new(f[1], 0);
    file_put(f[2]);
    CHECK_EQ(t_write(o, "old output", 10), 10);
    CHECK_EQ(t_read(in, buf, 2), 2);
    memset(rb->ring, 0, sizeof(rb->ring));
    outside_got = 0;
    m.session = 8;
    CHECK_EQ(stream_open_stdio(&m, g), 0);
    broker();
    CHECK_EQ(outside_got, 0); /* nothing of the last use is seen again */
    int in2 = (int)fd_new(g[0], 0), o2 = (int)fd_new(g[1], 0);
    file_put(g[2]);
    outside_in = "second";
    CHECK_EQ(t_read(in, buf, 10), 0);
    CHECK_EQ(t_write(o, "x", 1), -EPIPE);
    CHECK_EQ(fake_signal_taken(), 13);
    CHECK_EQ(t_poll(in, ~0u), EPOLLHUP);
    CHECK(t_poll(o, ~0u) & EPOLLERR);
    t_close(in);
    t_close(o);
    CHECK(!(rg->ring[0].flags & RING_CLOSED) && !(rg->ring[1].flags & RING_CLOSED));
    CHECK_EQ(t_read(in2, buf, 10), 6);
    CHECK_EQ(t_write(o2, "new", 3), 3);
    CHECK(outside_got == 3 && !memcmp(outside_out, "new", 3));
    t_close(in2);
    t_close(o2);
    CHECK((rg->ring[0].flags & RING_CLOSED) && (rg->ring[1].flags & RING_CLOSED));
}

static void test_console(void)
{
    struct mail_spawn m = {.session = 4, .flags = SPAWN_TTY, .ring_in = 0, .ring_out = 1, .rows = 25, .cols = 90};
    struct file *f[3];
    struct winsize w;

    tap_group("console");
    memset(rb->ring, 0, sizeof(rb->ring));
    outside_eof = false;
    outside_got = 0;
    outside_in = "";
    CHECK_EQ(stream_open_stdio(&m, f), 0);
    int fd = (int)fd_new(f[0], 0);
    file_put(f[1]);
    file_put(f[2]);
    t_nonblock(fd, true);
    CHECK_EQ(t_ioctl(fd, TIOCGWINSZ, &w), 0);
    CHECK(w.ws_row == 25 && w.ws_col == 90);
    CHECK_EQ(console_winsize(4, 30, 100, 0, 0), 0);
    CHECK_EQ(console_winsize(5, 30, 100, 0, 0), -ESRCH);
    t_ioctl(fd, TIOCGWINSZ, &w);
    CHECK_EQ(w.ws_row, 30);
    CHECK_EQ(t_write(fd, "$ ", 2), 2);
    outside_in = "ls\r";
    broker();
    streams_event();
    CHECK_EQ(t_read(fd, buf, 100), 3);
    CHECK(!memcmp(buf, "ls\n", 3));
    CHECK(outside_got == 6 && !memcmp(outside_out, "$ ls\r\n", 6));
    rb->ring[0].flags |= RING_CLOSED;
    streams_event();
    CHECK_EQ(t_read(fd, buf, 100), 0);
    CHECK_EQ(t_write(fd, "x", 1), -EIO);
    t_close(fd);
    CHECK(rg->ring[0].flags & RING_CLOSED);
}

int main(void)
{
    fake_init();
    CHECK_EQ(tty_init(), 0);
    u64 files = fake_live_files(), bytes = fake_live_bytes();
    test_canonical();
    test_raw_and_signals();
    test_bulk();
    test_streams();
    test_rings_used_again();
    test_console();
    tap_group("end");
    CHECK_EQ(fake_live_files(), files);
    CHECK_EQ(fake_live_bytes(), bytes);
    return tap_end();
}
