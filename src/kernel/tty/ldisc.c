/* The line discipline N_TTY: turns bytes of the hardware into input, edits lines, echoes, sends signals, processes
 * output. Behaviour follows termios(3) and Linux's drivers/tty/n_tty.c.
 *
 * Input lies in t->buf between tail and head (free-running); in canonical mode [tail, canon_head) are whole lines and
 * [canon_head, head) is the line being edited. An end-of-file character is stored as \0 with its delim bit set, and
 * reads leave it out. Everything here runs under t->lock; signals wanted by input are collected and sent after it. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>

#include "base/string.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "tty/session.h"
#include "tty/tty.h"

#define SIGINT 2
#define SIGQUIT 3
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define DISABLED 0 /* _POSIX_VDISABLE */
#define CLOCK_MONO 1
#define DECISECOND 100000000ull

#define I(t, f) ((t)->termios.c_iflag & (f))
#define O(t, f) ((t)->termios.c_oflag & (f))
#define L(t, f) ((t)->termios.c_lflag & (f))
#define CC(t, i) ((t)->termios.c_cc[i])

static inline bool is_cc(const struct tty *t, u8 c, int i) { return c != DISABLED && c == CC(t, i); }
static inline u32 mask(u32 pos) { return pos & (N_TTY_BUF - 1); }
static inline bool delim_at(const struct tty *t, u32 pos) { return t->delim[mask(pos) / 64] >> (mask(pos) & 63) & 1; }

static void delim_set(struct tty *t, u32 pos, bool on)
{
    u64 bit = 1ull << (mask(pos) & 63);
    if (on)
        t->delim[mask(pos) / 64] |= bit;
    else
        t->delim[mask(pos) / 64] &= ~bit;
}

void ldisc_reset(struct tty *t)
{
    t->head = t->canon_head = t->tail = 0;
    t->lnext = false;
    memset(t->delim, 0, sizeof(t->delim));
}

/* ---- output ---- */

/* Puts one character through output processing into out (at most 8 bytes); returns their number. */
static u32 output_char(struct tty *t, u8 c, u8 *out)
{
    if (!O(t, OPOST)) {
        out[0] = c;
        return 1;
    }
    switch (c) {
    case '\n':
        if (O(t, ONLRET))
            t->column = 0;
        if (O(t, ONLCR)) {
            t->column = t->canon_column = 0;
            out[0] = '\r';
            out[1] = '\n';
            return 2;
        }
        t->canon_column = t->column;
        break;
    case '\r':
        if (O(t, ONOCR) && t->column == 0)
            return 0;
        if (O(t, OCRNL)) {
            c = '\n';
            if (O(t, ONLRET))
                t->column = t->canon_column = 0;
            break;
        }
        t->column = t->canon_column = 0;
        break;
    case '\t': {
        u32 spaces = 8 - (t->column & 7);
        t->column += spaces;
        if (O(t, TABDLY) == XTABS) {
            memset(out, ' ', spaces);
            return spaces;
        }
        break;
    }
    case '\b':
        if (t->column)
            t->column--;
        break;
    default:
        if (c >= ' ' && c != 0x7f) {
            if (O(t, OLCUC) && c >= 'a' && c <= 'z')
                c -= 32;
            if ((c & 0xc0) != 0x80 || !I(t, IUTF8)) /* continuation bytes take no column */
                t->column++;
        }
    }
    out[0] = c;
    return 1;
}

/* Echo is dropped when the hardware has no room. */
static void echo_raw(struct tty *t, u8 c)
{
    u8 out[8];
    u32 n = output_char(t, c, out);

    if (n && t->driver->room(t) >= n)
        t->driver->put(t, out, n);
}

static void echo_char(struct tty *t, u8 c)
{
    if (L(t, ECHOCTL) && (c < ' ' || c == 0x7f) && c != '\t' && c != '\n') {
        echo_raw(t, '^');
        echo_raw(t, c ^ 0x40);
    } else {
        echo_raw(t, c);
    }
}

/* ---- line editing ---- */

static u32 char_width(struct tty *t, u8 c)
{
    if (c < ' ' || c == 0x7f)
        return L(t, ECHOCTL) ? 2 : 0;
    return I(t, IUTF8) && (c & 0xc0) == 0x80 ? 0 : 1;
}

static void erase_echo(struct tty *t, u32 width)
{
    while (width--) {
        echo_raw(t, '\b');
        echo_raw(t, ' ');
        echo_raw(t, '\b');
    }
}

/* Columns from the start of the edited line to position `end`. */
static u32 line_columns(struct tty *t, u32 end)
{
    u32 col = t->canon_column;
    for (u32 p = t->canon_head; p != end; p++) {
        u8 c = t->buf[mask(p)];
        col += c == '\t' ? 8 - (col & 7) : char_width(t, c);
    }
    return col;
}

static void erase_one(struct tty *t)
{
    u32 end = t->head;
    u8 c;

    do { /* a whole UTF-8 sequence */
        c = t->buf[mask(--t->head)];
        delim_set(t, t->head, false);
    } while (I(t, IUTF8) && (c & 0xc0) == 0x80 && t->head != t->canon_head);
    if (!L(t, ECHO))
        return;
    if (!L(t, ECHOE)) {
        echo_char(t, CC(t, VERASE));
    } else if (c == '\t') {
        u32 from = line_columns(t, end), to;
        (void)from;
        to = line_columns(t, t->head);
        while (t->column > to && t->column) { /* back over the tab */
            u32 before = t->column;
            echo_raw(t, '\b');
            if (t->column == before)
                break;
        }
    } else {
        erase_echo(t, I(t, IUTF8) && (c & 0x80) ? 1 : char_width(t, c));
    }
}

static bool is_word(u8 c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c >= 0x80; }

static void erase_word(struct tty *t)
{
    bool seen = false;

    while (t->head != t->canon_head) {
        bool w = is_word(t->buf[mask(t->head - 1)]);
        if (!w && seen)
            break;
        seen |= w;
        erase_one(t);
    }
}

static void erase_line(struct tty *t)
{
    if (L(t, ECHO) && !(L(t, ECHOK) && L(t, ECHOKE) && L(t, ECHOE))) {
        t->head = t->canon_head;
        echo_char(t, CC(t, VKILL));
        if (L(t, ECHOK))
            echo_raw(t, '\n');
        return;
    }
    while (t->head != t->canon_head)
        erase_one(t);
}

static void reprint(struct tty *t)
{
    echo_char(t, CC(t, VREPRINT));
    echo_raw(t, '\n');
    for (u32 p = t->canon_head; p != t->head; p++)
        echo_char(t, t->buf[mask(p)]);
}

/* ---- input ---- */

static void store(struct tty *t, u8 c, bool delim)
{
    if (t->head - t->tail >= N_TTY_BUF)
        return;
    t->buf[mask(t->head)] = c;
    delim_set(t, t->head, delim);
    t->head++;
}

static u32 used(const struct tty *t) { return t->head - t->tail; }

static void flush_input_locked(struct tty *t)
{
    t->head = t->canon_head = t->tail;
    memset(t->delim, 0, sizeof(t->delim));
}

static int signal_of(struct tty *t, u8 c)
{
    if (is_cc(t, c, VINTR))
        return SIGINT;
    if (is_cc(t, c, VQUIT))
        return SIGQUIT;
    return is_cc(t, c, VSUSP) ? SIGTSTP : 0;
}

static bool flow_control(struct tty *t, u8 c)
{
    if (!I(t, IXON))
        return false;
    if (is_cc(t, c, VSTART)) {
        t->stopped = false;
        return true;
    }
    if (is_cc(t, c, VSTOP)) {
        t->stopped = true;
        return true;
    }
    return false;
}

/* The editing characters of canonical mode. True if c was one. */
static bool edit_char(struct tty *t, u8 c)
{
    if (is_cc(t, c, VERASE) || is_cc(t, c, VKILL) || (is_cc(t, c, VWERASE) && L(t, IEXTEN))) {
        if (t->head == t->canon_head)
            return true;
        if (is_cc(t, c, VERASE))
            erase_one(t);
        else if (is_cc(t, c, VKILL))
            erase_line(t);
        else
            erase_word(t);
        return true;
    }
    if (is_cc(t, c, VLNEXT) && L(t, IEXTEN)) {
        t->lnext = true;
        if (L(t, ECHO) && L(t, ECHOCTL)) {
            echo_raw(t, '^');
            echo_raw(t, '\b');
        }
        return true;
    }
    if (is_cc(t, c, VREPRINT) && L(t, ECHO) && L(t, IEXTEN)) {
        reprint(t);
        return true;
    }
    return false;
}

static bool end_of_line(struct tty *t, u8 c)
{
    if (c == '\n') {
        if (L(t, ECHO) || L(t, ECHONL))
            echo_raw(t, '\n');
    } else if (is_cc(t, c, VEOF)) {
        c = DISABLED;
    } else if (is_cc(t, c, VEOL) || (is_cc(t, c, VEOL2) && L(t, IEXTEN))) {
        if (L(t, ECHO))
            echo_char(t, c);
    } else {
        return false;
    }
    store(t, c, true);
    t->canon_head = t->head;
    return true;
}

/* One character from the hardware. Returns a signal to send to the foreground group, or 0. */
static int input_char(struct tty *t, u8 c)
{
    bool literal = t->lnext;

    if (I(t, ISTRIP))
        c &= 0x7f;
    t->lnext = false;
    if (!literal) {
        if (flow_control(t, c))
            return 0;
        int sig = L(t, ISIG) ? signal_of(t, c) : 0;
        if (sig) {
            if (!L(t, NOFLSH)) {
                flush_input_locked(t);
                t->driver->flush(t);
            }
            if (I(t, IXON))
                t->stopped = false;
            if (L(t, ECHO))
                echo_char(t, c);
            return sig;
        }
        if (t->stopped && I(t, IXON) && I(t, IXANY))
            t->stopped = false;
        if (c == '\r') {
            if (I(t, IGNCR))
                return 0;
            if (I(t, ICRNL))
                c = '\n';
        } else if (c == '\n' && I(t, INLCR)) {
            c = '\r';
        }
        if (I(t, IUCLC) && L(t, IEXTEN) && c >= 'A' && c <= 'Z')
            c += 32;
        if (L(t, ICANON) && (edit_char(t, c) || end_of_line(t, c)))
            return 0;
    }
    if (L(t, ICANON) && used(t) >= N_TTY_BUF - 1)
        return 0; /* a line too long: only its end is still taken */
    if (L(t, ECHO)) {
        if (t->head == t->canon_head)
            t->canon_column = t->column;
        if (c == '\n')
            echo_raw(t, c);
        else
            echo_char(t, c);
    }
    store(t, c, false);
    return 0;
}

static u32 room_locked(struct tty *t)
{
    u32 n = used(t);

    if (L(t, ICANON) && t->canon_head == t->tail)
        return N_TTY_BUF; /* no line to wait for: what does not fit is dropped */
    return n < N_TTY_BUF - 1 ? N_TTY_BUF - 1 - n : 0;
}

u32 tty_receive_room(struct tty *t)
{
    mutex_lock(&t->lock);
    u32 n = room_locked(t);
    mutex_unlock(&t->lock);
    return n;
}

u32 tty_receive(struct tty *t, const u8 *p, u32 size)
{
    u32 done = 0;
    int sig = 0;

    mutex_lock(&t->lock);
    bool was_stopped = t->stopped;
    while (done < size && room_locked(t) && !sig)
        sig = input_char(t, p[done++]);
    bool ready = ldisc_readable(t, false), stopped = t->stopped; /* a read takes less than VMIN, and waits for the rest */
    mutex_unlock(&t->lock);
    if (sig) {
        tty_signal(t, sig);
        tty_wake_writers(t); /* it has thrown output away: there is room */
    }
    if (stopped != was_stopped) {
        if (t->driver->set_stopped)
            t->driver->set_stopped(t, stopped);
        if (!stopped)
            tty_wake_writers(t);
    }
    if ((ready || sig) && waitq_active(&t->read_wait))
        wake_up_all(&t->read_wait, EPOLLIN | EPOLLRDNORM);
    t->driver->kick(t);
    return done < size && sig ? done + tty_receive(t, p + done, size - done) : done;
}

void ldisc_termios_changed(struct tty *t, const struct termios2 *old)
{
    u32 was = old->c_lflag & ICANON;

    if (was == L(t, ICANON))
        return;
    if (L(t, ICANON)) { /* what is there counts as a line */
        t->canon_head = t->tail;
        if (used(t)) {
            t->canon_head = t->head;
            delim_set(t, t->head - 1, true);
        }
    } else {
        memset(t->delim, 0, sizeof(t->delim));
        t->canon_head = t->head;
    }
    t->lnext = false;
}

/* ---- reading ---- */

bool ldisc_readable(struct tty *t, bool polling)
{
    if (L(t, ICANON))
        return t->canon_head != t->tail;
    u32 need = polling && !CC(t, VTIME) && CC(t, VMIN) ? CC(t, VMIN) : 1;
    return used(t) >= need;
}

/* One line or a part of it. Sets *end when the line's end was taken. */
static long copy_line(struct tty *t, struct uio *u, bool *end)
{
    u32 n = 0, avail = t->canon_head - t->tail;

    while (n < avail && !delim_at(t, t->tail + n))
        n++;
    bool has_delim = n < avail;
    bool eof = has_delim && t->buf[mask(t->tail + n)] == DISABLED;
    u32 data = n + (has_delim && !eof);
    u32 take = (u32)MIN((u64)data, u->resid), done = 0;
    while (done < take) {
        u32 pos = mask(t->tail + done), piece = MIN(take - done, N_TTY_BUF - pos);
        long c = uio_write_to(u, t->buf + pos, piece);
        if (c <= 0)
            break;
        done += (u32)c;
    }
    if (done < take && !done)
        return -EFAULT;
    *end = has_delim && done == data;
    u32 skip = done + (*end && eof);
    for (u32 i = 0; i < skip; i++)
        delim_set(t, t->tail + i, false);
    t->tail += skip;
    return done;
}

static long copy_raw(struct tty *t, struct uio *u)
{
    u32 take = (u32)MIN((u64)used(t), u->resid), done = 0;

    while (done < take) {
        u32 pos = mask(t->tail), piece = MIN(take - done, N_TTY_BUF - pos);
        long c = uio_write_to(u, t->buf + pos, piece);
        if (c <= 0)
            return done ? (long)done : -EFAULT;
        done += (u32)c;
        t->tail += (u32)c;
    }
    t->canon_head = t->head;
    return done;
}

/* Background readers: 0 go on, or what read returns. */
static long job_control(struct tty *t)
{
    struct tty *own = session_tty();
    bool mine = own == t;

    if (own)
        tty_put(own);
    u32 pg = atomic_load(&t->pgrp);
    if (!mine || !pg || current_pgrp() == pg)
        return 0;
    if (signal_ignored(SIGTTIN) || pgrp_orphaned(current_pgrp()))
        return -EIO;
    signal_pgrp(current_pgrp(), SIGTTIN);
    return -ERESTARTSYS;
}

static long read_state(struct tty *t, struct file *f)
{
    if (t->hung_up)
        return 1; /* end of file */
    if (t->other_closed)
        return -EIO;
    return f->flags & O_NONBLOCK ? -EAGAIN : 0;
}

long ldisc_read(struct tty *t, struct file *f, struct uio *u)
{
    long done = 0, r = job_control(t);
    u64 deadline = NO_DEADLINE;

    if (r || !u->resid)
        return r;
    mutex_lock(&t->lock);
    bool canon = L(t, ICANON);
    u32 minimum = canon ? 1 : CC(t, VMIN);
    u64 timer = canon ? 0 : CC(t, VTIME) * DECISECOND;
    if (!canon && !minimum) {
        minimum = 1;
        deadline = call_deadline(timer); /* the time-out of the whole read */
        timer = 0;
    }
    if (call_done_before()) { /* goes on after freezing */
        minimum -= MIN(minimum - 1, (u32)call_done_before());
        deadline = timer ? call_deadline(timer) : deadline;
    }
    for (;;) {
        if (ldisc_readable(t, false)) {
            bool end = true;
            r = L(t, ICANON) ? copy_line(t, u, &end) : copy_raw(t, u);
            if (r < 0)
                break;
            done += r;
            r = 0;
            if (L(t, ICANON) ? end || !u->resid || done : (u64)done >= minimum || !u->resid)
                break;
            if (timer)
                deadline = call_deadline_anew(timer); /* between bytes */
            continue;
        }
        r = read_state(t, f);
        if (r)
            break;
        mutex_unlock(&t->lock);
        if (done)
            t->driver->kick(t);
        wait_prepare(&t->read_wait);
        mutex_lock(&t->lock);
        bool ready = ldisc_readable(t, false) || read_state(t, f);
        mutex_unlock(&t->lock);
        if (!ready)
            r = wait_sleep(deadline);
        wait_finish();
        mutex_lock(&t->lock);
        if (r && !ldisc_readable(t, false)) {
            if (done)
                call_wants_rest();
            break;
        }
        r = 0;
    }
    mutex_unlock(&t->lock);
    if (done)
        t->driver->kick(t); /* there is room for input again */
    if (done || r == 1 || r == -ETIMEDOUT)
        return done;
    return r == -EINTR ? -ERESTARTSYS : r;
}

/* ---- writing ---- */

static long write_state(struct tty *t)
{
    return t->hung_up || t->other_closed ? -EIO : 0;
}

/* Room for at least one character with its expansion. */
static bool writable(struct tty *t) { return !t->stopped && t->driver->room(t) >= 8; }

/* Processes a chunk; returns characters taken. Lock held. */
static u32 write_chunk(struct tty *t, const u8 *p, u32 size)
{
    u8 out[264];
    u32 taken = 0, n = 0, room = t->driver->room(t);

    while (taken < size && n + 8 <= MIN(room, 256u))
        n += output_char(t, p[taken++], out + n);
    if (n)
        t->driver->put(t, out, n);
    return taken;
}

long ldisc_write(struct tty *t, struct file *f, struct uio *u)
{
    u8 in[256];
    u32 have = 0, pos = 0;
    long done = 0, r = 0;
    bool kick = false;

    mutex_lock(&t->lock);
    while (!r) {
        r = write_state(t);
        if (r || (pos == have && !u->resid))
            break;
        if (pos == have) {
            r = uio_read_from(u, in, MIN(u->resid, sizeof(in)));
            if (r < 0)
                break;
            have = (u32)r;
            pos = 0;
            r = 0;
        }
        while (pos < have && writable(t)) {
            u32 n = write_chunk(t, in + pos, have - pos);
            pos += n;
            done += n;
            kick = true;
        }
        if (pos == have)
            continue;
        if (f && (f->flags & O_NONBLOCK)) {
            r = -EAGAIN;
            break;
        }
        mutex_unlock(&t->lock);
        if (kick)
            t->driver->kick(t);
        kick = false;
        wait_prepare(&t->write_wait);
        mutex_lock(&t->lock);
        bool ready = writable(t) || write_state(t);
        mutex_unlock(&t->lock);
        if (!ready)
            r = wait_sleep(NO_DEADLINE);
        wait_finish();
        mutex_lock(&t->lock);
    }
    mutex_unlock(&t->lock);
    if (kick)
        t->driver->kick(t);
    if (done)
        return done;
    return r == -EINTR ? -ERESTARTSYS : r;
}
