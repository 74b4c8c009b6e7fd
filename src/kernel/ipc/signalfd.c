/* signalfd(2): reads take signals of the reading task; the wait queue is the one of all pending signals. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/signalfd.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/strbuf.h"
#include "ipc/poll.h"
#include "ipc/timerfd.h"
#include "proc/signal.h"

#define SIGKILL 9
#define SIGSTOP 19
#define SIGCHLD 17
#define SIGPOLL 29
#define BIT(s) (1ull << ((s) - 1))

struct signalfd {
    u64 mask; /* atomic */
};

/* Offsets in siginfo: si_signo 0, si_errno 4, si_code 8, the union 16 (include/uapi/asm-generic/siginfo.h). */
static void convert(const u8 *info, struct signalfd_siginfo *o)
{
    s32 code;

    memset(o, 0, sizeof(*o));
    memcpy(&o->ssi_signo, info, 4);
    memcpy(&o->ssi_errno, info + 4, 4);
    memcpy(&code, info + 8, 4);
    o->ssi_code = code;
    switch (o->ssi_signo) {
    case 4: case 5: case 7: case 8: case 11: /* faults carry an address, unless sent by kill */
        if (code > 0 && code < 0x80) {
            memcpy(&o->ssi_addr, info + 16, 8);
            return;
        }
        break;
    case SIGPOLL:
        if (code > 0 && code < 0x80) {
            memcpy(&o->ssi_band, info + 16, 4);
            memcpy(&o->ssi_fd, info + 24, 4);
            return;
        }
        break;
    }
    if (code == -2) { /* SI_TIMER */
        memcpy(&o->ssi_tid, info + 16, 4);
        memcpy(&o->ssi_overrun, info + 20, 4);
        memcpy(&o->ssi_ptr, info + 24, 8);
        memcpy(&o->ssi_int, info + 24, 4);
        return;
    }
    memcpy(&o->ssi_pid, info + 16, 4);
    memcpy(&o->ssi_uid, info + 20, 4);
    if (o->ssi_signo == SIGCHLD && code > 0 && code < 0x80) {
        memcpy(&o->ssi_status, info + 24, 4);
        memcpy(&o->ssi_utime, info + 32, 8);
        memcpy(&o->ssi_stime, info + 40, 8);
    } else {
        memcpy(&o->ssi_ptr, info + 24, 8);
        memcpy(&o->ssi_int, info + 24, 4);
    }
}

static bool take(struct signalfd *s, u8 info[128]) { return signal_dequeue(atomic_load(&s->mask), info) > 0; }

static long signalfd_read(struct file *f, struct uio *u, u64 *pos)
{
    struct signalfd *s = f->priv;
    struct signalfd_siginfo out;
    u8 info[128];
    long done = 0;

    (void)pos;
    if (u->resid < sizeof(out))
        return -EINVAL;
    while (u->resid >= sizeof(out)) {
        if (!take(s, info)) {
            if (done)
                break;
            if (f->flags & O_NONBLOCK)
                return -EAGAIN;
            long r = wait_event(signal_waitq(), take(s, info));
            if (r)
                return r == -EINTR ? -ERESTARTSYS : r;
        }
        convert(info, &out);
        long r = uio_write_to(u, &out, sizeof(out));
        if (r < 0)
            return done ? done : r;
        done += r;
    }
    return done;
}

static u32 signalfd_poll(struct file *f, struct poll_table *pt)
{
    struct signalfd *s = f->priv;

    poll_wait(f, signal_waitq(), pt);
    return signal_pending_set() & atomic_load(&s->mask) ? EPOLLIN | EPOLLRDNORM : 0;
}

static void signalfd_release(struct file *f)
{
    poll_file_gone(f);
    kfree(f->priv);
}

static void signalfd_fdinfo(struct file *f, struct strbuf *sb)
{
    struct signalfd *s = f->priv;
    sb_printf(sb, "sigmask:\t%016llx\n", (unsigned long long)atomic_load(&s->mask));
}

static const struct file_ops signalfd_fops = {
    .read = signalfd_read,
    .poll = signalfd_poll,
    .release = signalfd_release,
    .show_fdinfo = signalfd_fdinfo,
};

static u64 allowed(u64 mask) { return mask & ~(BIT(SIGKILL) | BIT(SIGSTOP)); }

long signalfd_set_mask(struct file *f, u64 mask)
{
    if (f->ops != &signalfd_fops)
        return -EINVAL;
    struct signalfd *s = f->priv;
    atomic_store(&s->mask, allowed(mask));
    wake_up_all(signal_waitq(), EPOLLIN); /* sleeping readers look again */
    return 0;
}

struct file *signalfd_new(u64 mask, u32 flags)
{
    struct signalfd *s = knew(struct signalfd);
    if (!s)
        return ERR_PTR(-ENOMEM);
    s->mask = allowed(mask);
    struct file *f = file_anon(&signalfd_fops, s, "anon_inode:[signalfd]", 0600, O_RDWR | (flags & O_NONBLOCK));
    if (IS_ERR(f))
        kfree(s);
    return f;
}
