/* Terminals: life time, open and close, ioctl, job control. The line discipline is in ldisc.c.
 *
 * A tty lives while files, its hardware side (pty master, console session) or a session refer to it. A hangup is for good:
 * reads give end of file, writes EIO. Ioctls follow ioctl_tty(2). */
#include "tty/tty.h"

#include <linux/capability.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <asm/ioctls.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "tty/session.h"

#define SIGHUP 1
#define SIGCONT 18
#define SIGTTOU 22
#define SIGWINCH 28
#define N_TTY_LDISC 0
#define TIOCPKT_FLUSHREAD_ 1
#define TIOCPKT_FLUSHWRITE_ 2
#define TIOCPKT_STOP_ 4
#define TIOCPKT_START_ 8
#define TIOCPKT_NOSTOP_ 16
#define TIOCPKT_DOSTOP_ 32

struct termios1 { /* struct termios of TCGETS: termios2 without the speeds */
    tcflag_t c_iflag, c_oflag, c_cflag, c_lflag;
    cc_t c_line;
    cc_t c_cc[NCCS];
};

static void termios_default(struct termios2 *t)
{
    static const u8 cc[NCCS] = {
        [VINTR] = 3, [VQUIT] = 28, [VERASE] = 127, [VKILL] = 21, [VEOF] = 4, [VTIME] = 0, [VMIN] = 1,
        [VSTART] = 17, [VSTOP] = 19, [VSUSP] = 26, [VREPRINT] = 18, [VDISCARD] = 15, [VWERASE] = 23, [VLNEXT] = 22,
    };
    t->c_iflag = ICRNL | IXON;
    t->c_oflag = OPOST | ONLCR;
    t->c_cflag = B38400 | CS8 | CREAD | HUPCL;
    t->c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
    memcpy(t->c_cc, cc, sizeof(cc));
    t->c_ispeed = t->c_ospeed = 38400;
}

struct tty *tty_alloc(const struct tty_driver *d, void *data)
{
    struct tty *t = knew(struct tty);
    if (!t)
        return NULL;
    t->refs = 1;
    t->driver = d;
    t->driver_data = data;
    termios_default(&t->termios);
    return t;
}

void tty_get(struct tty *t) { atomic_add(&t->refs, 1); }

void tty_put(struct tty *t)
{
    if (atomic_sub(&t->refs, 1))
        return;
    t->driver->free(t);
    kfree(t);
}

/* ---- signals ---- */

void tty_signal(struct tty *t, int sig)
{
    u32 pg = atomic_load(&t->pgrp);
    if (pg)
        signal_pgrp(pg, sig);
}

static void wake_everybody(struct tty *t)
{
    wake_up_all(&t->read_wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
    wake_up_all(&t->write_wait, EPOLLOUT | EPOLLWRNORM | EPOLLHUP);
}

void tty_hangup(struct tty *t)
{
    mutex_lock(&t->lock);
    bool first = !t->hung_up;
    u32 sid = t->session, pg = t->pgrp;
    t->hung_up = true;
    t->stopped = false;
    mutex_unlock(&t->lock);
    if (!first)
        return;
    if (sid) { /* the leader and the foreground group */
        signal_pid(sid, SIGHUP);
        signal_pid(sid, SIGCONT);
    }
    if (pg) {
        signal_pgrp(pg, SIGHUP);
        signal_pgrp(pg, SIGCONT);
    }
    wake_everybody(t);
}

void tty_session_exit(struct tty *t)
{
    mutex_lock(&t->lock);
    u32 pg = t->pgrp;
    t->session = t->pgrp = 0;
    mutex_unlock(&t->lock);
    if (pg) {
        signal_pgrp(pg, SIGHUP);
        signal_pgrp(pg, SIGCONT);
    }
    tty_put(t);
}

void tty_wake_writers(struct tty *t)
{
    if (waitq_active(&t->write_wait))
        wake_up_all(&t->write_wait, EPOLLOUT | EPOLLWRNORM);
}

void tty_set_winsize(struct tty *t, const struct winsize *w)
{
    mutex_lock(&t->lock);
    bool changed = memcmp(&t->winsize, w, sizeof(*w)) != 0;
    t->winsize = *w;
    mutex_unlock(&t->lock);
    if (changed)
        tty_signal(t, SIGWINCH);
}

static bool is_own_tty(struct tty *t)
{
    struct tty *own = session_tty();
    if (own)
        tty_put(own);
    return own == t;
}

/* A background process changes the terminal (or writes with TOSTOP): 0 go on, or an error. */
static long check_change(struct tty *t)
{
    u32 pg = atomic_load(&t->pgrp);

    if (!is_own_tty(t) || !pg || current_pgrp() == pg || signal_ignored(SIGTTOU))
        return 0;
    if (pgrp_orphaned(current_pgrp()))
        return -EIO;
    signal_pgrp(current_pgrp(), SIGTTOU);
    return -ERESTARTSYS;
}

/* ---- termios ---- */

static long get_termios(struct tty *t, uptr arg, bool with_speed)
{
    mutex_lock(&t->lock);
    struct termios2 v = t->termios;
    mutex_unlock(&t->lock);
    return copy_to_user(arg, &v, with_speed ? sizeof(v) : sizeof(struct termios1));
}

/* Waits until the hardware has taken the output. */
static long drain(struct tty *t)
{
    long r = wait_event(&t->write_wait, t->hung_up || t->other_closed || !t->driver->queued(t));
    return r == -EINTR ? -ERESTARTSYS : r;
}

/* Packet-mode status of changed flow control. Lock held. */
static void packet_flow(struct tty *t, const struct termios2 *old)
{
    bool was = (old->c_iflag & IXON) && old->c_cc[VSTOP] == 19 && old->c_cc[VSTART] == 17;
    bool is = (t->termios.c_iflag & IXON) && t->termios.c_cc[VSTOP] == 19 && t->termios.c_cc[VSTART] == 17;

    if (t->packet && was != is)
        t->packet_status = (u8)((t->packet_status & ~(TIOCPKT_NOSTOP_ | TIOCPKT_DOSTOP_)) |
                                (is ? TIOCPKT_DOSTOP_ : TIOCPKT_NOSTOP_));
}

static void flush_input(struct tty *t)
{
    mutex_lock(&t->lock);
    ldisc_reset(t);
    if (t->packet)
        t->packet_status |= TIOCPKT_FLUSHREAD_;
    mutex_unlock(&t->lock);
    t->driver->kick(t);
}

static void flush_output(struct tty *t)
{
    mutex_lock(&t->lock);
    t->driver->flush(t);
    if (t->packet)
        t->packet_status |= TIOCPKT_FLUSHWRITE_;
    mutex_unlock(&t->lock);
    t->driver->kick(t);
    tty_wake_writers(t);
}

struct termio_v { /* struct termio of System V: 16-bit flags, the first 8 keys */
    u16 c_iflag, c_oflag, c_cflag, c_lflag;
    u8 c_line, c_cc[8];
};

static long get_termio(struct tty *t, uptr arg)
{
    struct termio_v o = {0};
    mutex_lock(&t->lock);
    const struct termios2 *v = &t->termios;
    o = (struct termio_v){(u16)v->c_iflag, (u16)v->c_oflag, (u16)v->c_cflag, (u16)v->c_lflag, v->c_line, {0}};
    memcpy(o.c_cc, v->c_cc, sizeof(o.c_cc));
    mutex_unlock(&t->lock);
    return copy_to_user(arg, &o, 18);
}

enum termios_form { TERMIOS_1, TERMIOS_2, TERMIO };

/* v: what is set now; changed to what the guest gives. */
static long read_termios(struct termios2 *v, uptr arg, enum termios_form form)
{
    struct termio_v o = {0};
    if (form != TERMIO)
        return copy_from_user(v, arg, form == TERMIOS_2 ? sizeof(*v) : sizeof(struct termios1));
    if (copy_from_user(&o, arg, 17))
        return -EFAULT;
    v->c_iflag = (v->c_iflag & 0xffff0000u) | o.c_iflag;
    v->c_oflag = (v->c_oflag & 0xffff0000u) | o.c_oflag;
    v->c_cflag = (v->c_cflag & 0xffff0000u) | o.c_cflag;
    v->c_lflag = (v->c_lflag & 0xffff0000u) | o.c_lflag;
    memcpy(v->c_cc, o.c_cc, sizeof(o.c_cc));
    return 0;
}

static u32 unless_locked(u32 old, u32 new, u32 locked) { return (old & locked) | (new & ~locked); }

/* What TIOCSLCKTRMIOS has locked stays. */
static void keep_locked(struct termios2 *v, const struct termios2 *old, const struct termios2 *locked)
{
    v->c_iflag = unless_locked(old->c_iflag, v->c_iflag, locked->c_iflag);
    v->c_oflag = unless_locked(old->c_oflag, v->c_oflag, locked->c_oflag);
    v->c_cflag = unless_locked(old->c_cflag, v->c_cflag, locked->c_cflag);
    v->c_lflag = unless_locked(old->c_lflag, v->c_lflag, locked->c_lflag);
    for (u32 i = 0; i < ARRAY_COUNT(v->c_cc); i++)
        if (locked->c_cc[i])
            v->c_cc[i] = old->c_cc[i];
}

static long set_locked(struct tty *t, uptr arg)
{
    struct termios2 v = {0};
    if (!capable(CAP_SYS_ADMIN))
        return -EPERM;
    if (copy_from_user(&v, arg, sizeof(struct termios1)))
        return -EFAULT;
    mutex_lock(&t->lock);
    t->locked = v;
    mutex_unlock(&t->lock);
    return 0;
}

/* how: 0 now, 1 after draining output, 2 and drop input. */
static long set_termios(struct tty *t, uptr arg, enum termios_form form, int how)
{
    struct termios2 v, old;
    long r = check_change(t);

    if (r)
        return r;
    mutex_lock(&t->lock);
    v = t->termios;
    mutex_unlock(&t->lock);
    if (read_termios(&v, arg, form))
        return -EFAULT;
    if (how && (r = drain(t)))
        return r;
    if (how == 2)
        flush_input(t);
    mutex_lock(&t->lock);
    old = t->termios;
    keep_locked(&v, &old, &t->locked);
    t->termios = v;
    t->termios.c_line = N_TTY_LDISC;
    t->termios.c_cflag = (v.c_cflag & ~(CSIZE | PARENB)) | CS8 | CREAD; /* a pty cannot have others */
    ldisc_termios_changed(t, &old);
    packet_flow(t, &old);
    bool resumed = t->stopped && (old.c_iflag & IXON) && !(v.c_iflag & IXON);
    if (resumed)
        t->stopped = false;
    mutex_unlock(&t->lock);
    if (resumed)
        tty_wake_writers(t);
    t->driver->kick(t);
    wake_up_all(&t->read_wait, EPOLLIN | EPOLLRDNORM);
    return 0;
}

/* ---- controlling terminal ---- */

static bool session_leader(void) { return current_sid() == current_tgid(); }

void tty_belongs_to_caller(struct tty *t)
{
    mutex_lock(&t->lock);
    t->session = current_sid();
    t->pgrp = current_pgrp();
    mutex_unlock(&t->lock);
}

static long take_session(struct tty *t)
{
    tty_get(t);
    long r = session_set_tty(t);
    if (r) {
        tty_put(t);
        return r;
    }
    tty_belongs_to_caller(t);
    return 0;
}

static long set_controlling(struct tty *t, u64 steal)
{
    if (session_leader() && atomic_load(&t->session) == current_sid())
        return 0;
    struct tty *own = session_tty();
    if (own)
        tty_put(own);
    if (!session_leader() || own)
        return -EPERM;
    if (atomic_load(&t->session) && !(steal == 1 && capable(CAP_SYS_ADMIN)))
        return -EPERM;
    return take_session(t);
}

static long give_up_controlling(struct tty *t)
{
    if (!is_own_tty(t))
        return -ENOTTY;
    if (!session_leader())
        return 0; /* sessions are shared here by all members: only the leader can give the terminal up */
    long r = session_set_tty(NULL);
    if (!r)
        tty_session_exit(t);
    return r;
}

static long set_pgrp(struct tty *t, uptr arg)
{
    s32 pg;
    long r = check_change(t);

    if (r)
        return r;
    if (!is_own_tty(t) || atomic_load(&t->session) != current_sid())
        return -ENOTTY;
    if (get_user(pg, arg))
        return -EFAULT;
    if (pg < 0)
        return -EINVAL;
    if (!pgrp_in_session((u32)pg, current_sid()))
        return -EPERM;
    atomic_store(&t->pgrp, (u32)pg);
    return 0;
}

/* ---- ioctl ---- */

static long flow(struct tty *t, u64 how)
{
    long r = check_change(t);
    if (r)
        return r;
    switch (how) {
    case TCOOFF:
    case TCOON:
        mutex_lock(&t->lock);
        t->stopped = how == TCOOFF;
        if (t->packet)
            t->packet_status = (u8)((t->packet_status & ~(TIOCPKT_STOP_ | TIOCPKT_START_)) |
                                    (t->stopped ? TIOCPKT_STOP_ : TIOCPKT_START_));
        mutex_unlock(&t->lock);
        if (how == TCOON)
            tty_wake_writers(t);
        t->driver->kick(t);
        return 0;
    case TCIOFF:
    case TCION:
        return 0;
    }
    return -EINVAL;
}

static long flush(struct tty *t, u64 which)
{
    long r = check_change(t);
    if (r)
        return r;
    if (which > TCIOFLUSH)
        return -EINVAL;
    if (which != TCOFLUSH)
        flush_input(t);
    if (which != TCIFLUSH)
        flush_output(t);
    return 0;
}

static long simulate_input(struct tty *t, uptr arg)
{
    u8 c;

    if (!is_own_tty(t) && !capable(CAP_SYS_ADMIN))
        return -EPERM;
    if (get_user(c, arg))
        return -EFAULT;
    tty_receive(t, &c, 1);
    return 0;
}

static long set_winsize_user(struct tty *t, uptr arg)
{
    struct winsize w;
    if (get_user(w, arg))
        return -EFAULT;
    tty_set_winsize(t, &w);
    return 0;
}

static long input_queued(struct tty *t)
{
    mutex_lock(&t->lock);
    u32 n = (t->termios.c_lflag & ICANON ? t->canon_head : t->head) - t->tail;
    mutex_unlock(&t->lock);
    return n;
}

long tty_ioctl_common(struct tty *t, struct file *f, u32 cmd, u64 arg, bool master)
{
    (void)f;
    switch (cmd) {
    case TCGETS:
    case TCGETS2:
        return get_termios(t, arg, cmd == TCGETS2);
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
        return set_termios(t, arg, TERMIOS_1, (int)(cmd - TCSETS));
    case TCGETA:
        return get_termio(t, arg);
    case TCSETA:
    case TCSETAW:
    case TCSETAF:
        return set_termios(t, arg, TERMIO, (int)(cmd - TCSETA));
    case TCSETS2:
    case TCSETSW2:
    case TCSETSF2:
        return set_termios(t, arg, TERMIOS_2, (int)(cmd - TCSETS2));
    case TIOCGWINSZ:
        return copy_to_user(arg, &t->winsize, sizeof(t->winsize));
    case TIOCSWINSZ:
        return set_winsize_user(t, arg);
    case TCFLSH:
        return flush(t, arg);
    case TCXONC:
        return flow(t, arg);
    case TCSBRK:
    case TCSBRKP: {
        long r = check_change(t);
        return r ? r : drain(t);
    }
    case TIOCSBRK:
    case TIOCCBRK:
        return 0;
    case TIOCGPGRP:
        if (!master && !is_own_tty(t))
            return -ENOTTY;
        return put_user((s32)t->pgrp, arg);
    case TIOCSPGRP:
        return set_pgrp(t, arg);
    case TIOCGSID:
        if (!master && !is_own_tty(t))
            return -ENOTTY;
        return t->session ? put_user((s32)t->session, arg) : -ENOTTY;
    case TIOCSCTTY:
        return set_controlling(t, arg);
    case TIOCNOTTY:
        return give_up_controlling(t);
    case TIOCINQ: /* = FIONREAD */
        return put_user((s32)input_queued(t), arg);
    case TIOCOUTQ:
        return put_user((s32)t->driver->queued(t), arg);
    case TIOCSTI:
        return simulate_input(t, arg);
    case TIOCGETD:
        return put_user((s32)N_TTY_LDISC, arg);
    case TIOCSETD: {
        s32 d;
        return get_user(d, arg) ? -EFAULT : d == N_TTY_LDISC ? 0 : -EINVAL;
    }
    case TIOCEXCL:
    case TIOCNXCL:
        t->exclusive = cmd == TIOCEXCL;
        return 0;
    case TIOCGEXCL:
        return put_user((s32)t->exclusive, arg);
    case TIOCGLCKTRMIOS:
        return copy_to_user(arg, &t->locked, sizeof(struct termios1));
    case TIOCSLCKTRMIOS:
        return set_locked(t, arg);
    }
    return -ENOTTY;
}

/* ---- files ---- */

static long tty_read(struct file *f, struct uio *u, u64 *pos)
{
    (void)pos;
    return ldisc_read(f->priv, f, u);
}

static long tty_write(struct file *f, struct uio *u, u64 *pos)
{
    struct tty *t = f->priv;

    (void)pos;
    if (t->termios.c_lflag & TOSTOP) {
        long r = check_change(t);
        if (r)
            return r;
    }
    return ldisc_write(t, f, u);
}

static u32 tty_poll(struct file *f, struct poll_table *pt)
{
    struct tty *t = f->priv;
    u32 ev = 0;

    poll_wait(f, &t->read_wait, pt);
    poll_wait(f, &t->write_wait, pt);
    mutex_lock(&t->lock);
    if (ldisc_readable(t, true))
        ev |= EPOLLIN | EPOLLRDNORM;
    if (t->hung_up || t->other_closed)
        ev |= EPOLLIN | EPOLLRDNORM | EPOLLHUP;
    if (t->hung_up)
        ev |= EPOLLOUT | EPOLLWRNORM | EPOLLERR;
    else if (!t->stopped && t->driver->room(t) >= 8)
        ev |= EPOLLOUT | EPOLLWRNORM;
    mutex_unlock(&t->lock);
    return ev;
}

static long tty_ioctl(struct file *f, u32 cmd, u64 arg)
{
    struct tty *t = f->priv;

    if (t->hung_up)
        return -EIO;
    return tty_ioctl_common(t, f, cmd, arg, false);
}

static void tty_release(struct file *f)
{
    struct tty *t = f->priv;

    if (!t)
        return;
    poll_file_gone(f);
    mutex_lock(&t->lock);
    bool last = --t->opens == 0;
    mutex_unlock(&t->lock);
    if (last)
        t->driver->closed(t);
    tty_put(t);
}

const struct file_ops tty_fops = {
    .read = tty_read,
    .write = tty_write,
    .poll = tty_poll,
    .ioctl = tty_ioctl,
    .release = tty_release,
};

long tty_open_file(struct file *f, struct tty *t)
{
    mutex_lock(&t->lock);
    long r = t->hung_up || t->other_closed ? -EIO : t->exclusive && !capable(CAP_SYS_ADMIN) ? -EBUSY : 0;
    if (!r) {
        t->opens++;
        if (t->driver->opened)
            t->driver->opened(t);
    }
    mutex_unlock(&t->lock);
    if (r)
        return r;
    tty_get(t);
    f->ops = &tty_fops;
    f->priv = t;
    f->mode &= ~FMODE_SEEK;
    if (!(f->flags & O_NOCTTY) && session_leader() && !atomic_load(&t->session)) {
        struct tty *own = session_tty();
        if (own)
            tty_put(own);
        else
            take_session(t);
    }
    return 0;
}
