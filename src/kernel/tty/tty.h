/* Terminals: N_TTY over a driver (pty or the outside console). */
#ifndef HARENA_TTY_TTY_H
#define HARENA_TTY_TTY_H

#include <asm/termbits.h>
#include <asm/termios.h>

#include "vfs/vfs.h"

#define N_TTY_BUF 4096u /* input buffer, power of two */

struct tty;

/* The hardware side. room and put are called with tty->lock held, the others without. */
struct tty_driver {
    u32 (*room)(struct tty *t);
    void (*put)(struct tty *t, const u8 *p, u32 size); /* size <= room */
    void (*kick)(struct tty *t); /* output was put or input space freed */
    void (*set_stopped)(struct tty *t, bool stopped); /* may be NULL */
    void (*opened)(struct tty *t); /* t->lock held; may be NULL */
    void (*closed)(struct tty *t); /* last open file of it gone */
    u32 (*queued)(struct tty *t); /* output bytes not yet taken */
    void (*flush)(struct tty *t); /* drop them; lock held */
    void (*free)(struct tty *t); /* the last reference goes */
};

/* Locks: tty->lock guards everything; above wait queues and the driver's leaf locks. Signals are sent without it. */
struct tty {
    u32 refs;
    u32 opens; /* open files */
    struct mutex lock;
    const struct tty_driver *driver;
    void *driver_data;
    struct termios2 termios;
    struct termios2 locked; /* TIOCSLCKTRMIOS: bits and characters that stay as they are */
    struct winsize winsize;
    u32 index; /* /dev/pts/index */
    u32 session, pgrp; /* 0: none */
    bool stopped; /* XOFF or TCOOFF */
    bool hung_up; /* for good: reads give end of file, writes EIO */
    bool other_closed; /* the hardware side went away: EIO */
    bool lnext; /* the next character is literal */
    bool exclusive; /* TIOCEXCL: opened by nobody else */
    bool packet; /* TIOCPKT */
    u8 packet_status; /* TIOCPKT_* not yet read by the master */
    u32 column, canon_column;
    /* input: free-running positions in buf */
    u32 head, canon_head, tail;
    u8 buf[N_TTY_BUF];
    u64 delim[N_TTY_BUF / 64]; /* position ends a line (newline, EOL, EOF) */
    struct waitq read_wait, write_wait;
};

struct tty *tty_alloc(const struct tty_driver *d, void *data); /* referenced; NULL: no memory */
void tty_get(struct tty *t); /* a function: proc refers to it weakly */
void tty_put(struct tty *t);
/* For tables that do not own a reference (their entry is removed under their lock in driver->free): false if it is going. */
static inline bool tty_get_live(struct tty *t)
{
    u32 n = atomic_load(&t->refs);
    while (n && !atomic_cas(&t->refs, n, n + 1))
        n = atomic_load(&t->refs);
    return n != 0;
}

/* Bytes from the hardware into the line discipline; returns how many were taken (the rest when there is room). No lock. */
u32 tty_receive(struct tty *t, const u8 *p, u32 size);
u32 tty_receive_room(struct tty *t);
void tty_wake_writers(struct tty *t); /* the driver has room again */
void tty_hangup(struct tty *t); /* carrier lost: SIGHUP and SIGCONT to the session, EIO for its files */
void tty_set_winsize(struct tty *t, const struct winsize *w); /* SIGWINCH when it changes */
long tty_ioctl_common(struct tty *t, struct file *f, u32 cmd, u64 arg, bool master);
void tty_signal(struct tty *t, int sig); /* to the foreground group */

/* file_ops of an open terminal: f->priv = tty. tty_open_file() does the bookkeeping of open(2) (O_NOCTTY from f->flags). */
extern const struct file_ops tty_fops;
long tty_open_file(struct file *f, struct tty *t);

/* Makes the caller's session and group those of the terminal (the session takes a reference by itself). */
void tty_belongs_to_caller(struct tty *t);

/* proc: the session leader has exited or given up its terminal. Consumes the session's reference. */
void tty_session_exit(struct tty *t);

/* ldisc.c, internal */
void ldisc_reset(struct tty *t);
long ldisc_read(struct tty *t, struct file *f, struct uio *u);
long ldisc_write(struct tty *t, struct file *f, struct uio *u);
bool ldisc_readable(struct tty *t, bool polling);
void ldisc_termios_changed(struct tty *t, const struct termios2 *old);

/* ptmx, pts, /dev/tty (pty.c): makes the devices; called once by boot after /dev is there. */
long tty_init(void);
/* Gives a terminal an index and makes /dev/pts/index; -ENOSPC. */
long pts_register(struct tty *t);
void pts_unregister(struct tty *t);
struct tty *pts_find(u32 index); /* referenced or NULL */

#endif
