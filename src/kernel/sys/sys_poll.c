/* poll, select and epoll system calls.
 *
 * Time-outs become absolute CLOCK_MONOTONIC deadlines at once. An interrupted ppoll, select or pselect6 writes the
 * remaining time back; poll and epoll_wait do not and are never restarted (EINTR), as on Linux (poll uses a restart
 * block there: it continues when no handler ran; ERESTARTNOHAND with the old time-out would sleep longer, so EINTR
 * is given only after a handler, through the same code, with the deadline started anew). */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/time.h>
#include <linux/time_types.h>
#include <asm/poll.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "proc/signal.h"
#include "sys/syscall.h"

#define POLL_STACK 16
#define SELECT_MAX 65536
#define CLOCK_MONO 1
#define SEC 1000000000ull
#define RLIMIT_NOFILE 7

/* Result is never 0 (= do not wait) unless the time-out is. */
static u64 deadline_after(u64 ns)
{
    if (!ns)
        return 0;
    return call_deadline(ns);
}

static u64 ns_from(s64 sec, u64 nsec)
{
    return (u64)sec >= (NO_DEADLINE >> 1) / SEC ? NO_DEADLINE : (u64)sec * SEC + nsec;
}

/* Reads an optional timespec: *deadline; 1 if there was one, 0 if NULL, or an error. */
static long deadline_user(uptr ts, u64 *deadline)
{
    struct __kernel_timespec t;

    *deadline = NO_DEADLINE;
    if (!ts)
        return 0;
    if (get_user(t, ts))
        return -EFAULT;
    if (t.tv_sec < 0 || (u64)t.tv_nsec >= SEC)
        return -EINVAL;
    *deadline = deadline_after(ns_from(t.tv_sec, (u64)t.tv_nsec));
    return 1;
}

static u64 remaining(u64 deadline)
{
    u64 now = host_clock(CLOCK_MONO);
    return deadline > now ? deadline - now : 0;
}

static long set_mask_user(uptr mask, u64 size)
{
    u64 m;

    if (!mask)
        return 0;
    if (size != sizeof(m))
        return -EINVAL;
    if (get_user(m, mask))
        return -EFAULT;
    signal_set_temp_mask(m);
    return 0;
}

/* ---- poll ---- */

struct user_pollfd { /* struct pollfd of poll(2) */
    s32 fd;
    s16 events, revents;
};

static long poll_run(struct user_pollfd *p, struct poll_entry *e, u32 count, u64 deadline)
{
    u32 bad = 0;

    for (u32 i = 0; i < count; i++) {
        e[i] = (struct poll_entry){0};
        p[i].revents = 0;
        if (p[i].fd < 0)
            continue;
        e[i].file = fd_get(p[i].fd);
        e[i].events = (u16)p[i].events | EPOLLERR | EPOLLHUP;
        if (!e[i].file || (e[i].file->mode & FMODE_PATH)) {
            p[i].revents = POLLNVAL;
            bad++;
            if (e[i].file)
                file_put(e[i].file);
            e[i].file = NULL;
        }
    }
    long r = poll_entries(e, count, bad ? 0 : deadline);
    for (u32 i = 0; i < count; i++) {
        if (!e[i].file)
            continue;
        if (r > 0)
            p[i].revents = (s16)e[i].revents;
        file_put(e[i].file);
    }
    return r < 0 ? r : r + bad;
}

static long do_poll_common(uptr fds, u32 count, u64 deadline)
{
    struct user_pollfd small[POLL_STACK], *p = small;
    struct poll_entry small_entries[POLL_STACK], *e = small_entries;
    long r;

    if (count > current_rlimit(RLIMIT_NOFILE))
        return -EINVAL;
    if (count > POLL_STACK) {
        p = kmalloc(count * (sizeof(*p) + sizeof(*e)));
        if (!p)
            return -ENOMEM;
        e = (struct poll_entry *)(p + count);
    }
    r = copy_from_user(p, fds, count * sizeof(*p));
    if (r)
        goto out;
    r = poll_run(p, e, count, deadline);
    if (r >= 0) {
        for (u32 i = 0; i < count; i++)
            if (put_user(p[i].revents, fds + i * sizeof(*p) + offsetof(struct user_pollfd, revents))) {
                r = -EFAULT;
                break;
            }
    }
out:
    if (p != small)
        kfree(p);
    return r;
}

SYSCALL3(poll, uptr, fds, u32, count, s32, msec)
{
    u64 deadline = msec < 0 ? NO_DEADLINE : deadline_after((u64)msec * 1000000);
    long r = do_poll_common(fds, count, deadline);
    return r == -EINTR ? -ERESTARTNOHAND : r;
}

SYSCALL5(ppoll, uptr, fds, u32, count, uptr, ts, uptr, mask, u64, mask_size)
{
    u64 deadline;
    long timed = deadline_user(ts, &deadline);
    if (timed < 0)
        return timed;
    long r = set_mask_user(mask, mask_size);
    if (r)
        return r;
    r = do_poll_common(fds, count, deadline);
    if (timed && deadline && deadline != NO_DEADLINE) {
        u64 left = remaining(deadline);
        struct __kernel_timespec t = {.tv_sec = (s64)(left / SEC), .tv_nsec = (long)(left % SEC)};
        if (put_user(t, ts) && r == -EINTR)
            return -EINTR; /* cannot be restarted with the right time */
    }
    return r == -EINTR ? -ERESTARTNOHAND : r;
}

/* ---- select ---- */

#define SET_IN (EPOLLRDNORM | EPOLLRDBAND | EPOLLIN | EPOLLHUP | EPOLLERR)
#define SET_OUT (EPOLLWRBAND | EPOLLWRNORM | EPOLLOUT | EPOLLERR)
#define SET_EX EPOLLPRI

/* The three bit sets, each `words` u64 long, one after the other. */
struct select_sets {
    u64 *in; /* 3 * words, then results 3 * words */
    u32 words;
};

static u32 select_wanted(const struct select_sets *s, u32 fd)
{
    u64 bit = 1ull << (fd & 63);
    u32 w = fd / 64, ev = 0;

    if (s->in[w] & bit)
        ev |= SET_IN;
    if (s->in[s->words + w] & bit)
        ev |= SET_OUT;
    if (s->in[2 * s->words + w] & bit)
        ev |= SET_EX;
    return ev;
}

static u32 select_result(struct select_sets *s, u32 fd, u32 ev)
{
    static const u32 masks[3] = {SET_IN, SET_OUT, SET_EX};
    u64 bit = 1ull << (fd & 63);
    u32 hits = 0;

    for (u32 k = 0; k < 3; k++) {
        u32 w = k * s->words + fd / 64;
        if ((s->in[w] & bit) && (ev & masks[k])) {
            s->in[3 * s->words + w] |= bit;
            hits++;
        }
    }
    return hits;
}

static u32 select_count(const struct select_sets *s, u32 n)
{
    u32 count = 0;
    for (u32 fd = 0; fd < n; fd++)
        count += select_wanted(s, fd) != 0;
    return count;
}

static long select_run(struct select_sets *s, u32 n, u64 deadline)
{
    struct poll_entry small[POLL_STACK], *e = small;
    u32 small_fds[POLL_STACK], *fds = small_fds;
    u32 count = select_count(s, n), used = 0;
    long r = 0;

    if (count > POLL_STACK) {
        e = kmalloc(count * (sizeof(*e) + sizeof(*fds)));
        if (!e)
            return -ENOMEM;
        fds = (u32 *)(e + count);
    }
    for (u32 fd = 0; fd < n && !r; fd++) {
        u32 ev = select_wanted(s, fd);
        if (!ev)
            continue;
        struct file *f = fd_get((int)fd);
        if (!f || (f->mode & FMODE_PATH)) {
            if (f)
                file_put(f);
            r = -EBADF;
            break;
        }
        fds[used] = fd;
        e[used++] = (struct poll_entry){.file = f, .events = ev};
    }
    if (!r)
        r = poll_entries(e, used, deadline);
    u32 hits = 0;
    for (u32 i = 0; i < used; i++) {
        if (r > 0)
            hits += select_result(s, fds[i], e[i].revents);
        file_put(e[i].file);
    }
    if (e != small)
        kfree(e);
    return r < 0 ? r : (long)hits;
}

static long do_select_common(s32 n, uptr sets[3], u64 deadline)
{
    u64 small[12];
    struct select_sets s = {.in = small};
    long r = 0;

    if (n < 0)
        return -EINVAL;
    if (n > SELECT_MAX)
        n = SELECT_MAX;
    s.words = MAX(((u32)n + 63) / 64, 1u);
    if (s.words * 6 > ARRAY_COUNT(small)) {
        s.in = kmalloc(s.words * 6 * sizeof(u64));
        if (!s.in)
            return -ENOMEM;
    }
    memset(s.in, 0, s.words * 6 * sizeof(u64));
    u64 bytes = s.words * sizeof(u64);
    for (u32 k = 0; k < 3 && !r; k++)
        if (sets[k] && n)
            r = copy_from_user(s.in + k * s.words, sets[k], bytes);
    if (!r)
        r = select_run(&s, (u32)n, deadline);
    if (r >= 0)
        for (u32 k = 0; k < 3; k++)
            if (sets[k] && n && copy_to_user(sets[k], s.in + (3 + k) * s.words, bytes))
                r = -EFAULT;
    if (s.in != small)
        kfree(s.in);
    return r;
}

SYSCALL5(select, s32, n, uptr, in, uptr, out, uptr, ex, uptr, tv)
{
    struct {
        s64 sec, usec;
    } t;
    u64 deadline = NO_DEADLINE;
    uptr sets[3] = {in, out, ex};

    if (tv) {
        if (get_user(t, tv))
            return -EFAULT;
        if (t.sec < 0 || t.usec < 0)
            return -EINVAL;
        deadline = deadline_after(ns_from(t.sec + t.usec / 1000000, (u64)(t.usec % 1000000) * 1000));
    }
    long r = do_select_common(n, sets, deadline);
    if (tv && deadline && deadline != NO_DEADLINE) {
        u64 left = remaining(deadline);
        t.sec = (s64)(left / SEC);
        t.usec = (s64)(left % SEC / 1000);
        if (put_user(t, tv) && r == -EINTR)
            return -EINTR;
    }
    return r == -EINTR ? -ERESTARTNOHAND : r;
}

SYSCALL6(pselect6, s32, n, uptr, in, uptr, out, uptr, ex, uptr, ts, uptr, sig)
{
    struct {
        u64 mask, size;
    } arg = {0};
    u64 deadline;
    uptr sets[3] = {in, out, ex};

    if (sig && get_user(arg, sig))
        return -EFAULT;
    long timed = deadline_user(ts, &deadline);
    if (timed < 0)
        return timed;
    long r = set_mask_user(arg.mask, arg.size);
    if (r)
        return r;
    r = do_select_common(n, sets, deadline);
    if (timed && deadline && deadline != NO_DEADLINE) {
        u64 left = remaining(deadline);
        struct __kernel_timespec t = {.tv_sec = (s64)(left / SEC), .tv_nsec = (long)(left % SEC)};
        if (put_user(t, ts) && r == -EINTR)
            return -EINTR;
    }
    return r == -EINTR ? -ERESTARTNOHAND : r;
}

/* ---- epoll ---- */

static long do_epoll_new(u32 flags)
{
    struct file *f = epoll_new();
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
}

SYSCALL1(epoll_create, s32, size) { return size <= 0 ? -EINVAL : do_epoll_new(0); }
SYSCALL1(epoll_create1, u32, flags) { return flags & ~EPOLL_CLOEXEC ? -EINVAL : do_epoll_new(flags); }

SYSCALL4(epoll_ctl, s32, epfd, s32, op, s32, fd, uptr, event)
{
    struct epoll_event ev;
    long r = -EBADF;

    if (op != EPOLL_CTL_DEL && get_user(ev, event))
        return -EFAULT;
    struct file *ep = fd_get(epfd);
    if (!ep)
        return -EBADF;
    struct file *f = fd_get(fd);
    if (f && !((f->mode | ep->mode) & FMODE_PATH))
        r = file_is_epoll(ep) ? epoll_control(ep, op, fd, f, op != EPOLL_CTL_DEL ? &ev : NULL) : -EINVAL;
    if (f)
        file_put(f);
    file_put(ep);
    return r;
}

static long do_epoll_wait_common(s32 epfd, uptr events, s32 max, u64 deadline)
{
    if (max <= 0 || (u32)max > 0x7fffffffu / sizeof(struct epoll_event))
        return -EINVAL;
    struct file *ep = fd_get(epfd);
    if (!ep)
        return -EBADF;
    long r = file_is_epoll(ep) ? epoll_collect(ep, events, (u32)max, deadline) : -EINVAL;
    file_put(ep);
    return r;
}

static u64 deadline_msec(s32 msec) { return msec < 0 ? NO_DEADLINE : deadline_after((u64)msec * 1000000); }

SYSCALL4(epoll_wait, s32, epfd, uptr, events, s32, max, s32, msec)
{
    return do_epoll_wait_common(epfd, events, max, deadline_msec(msec));
}

SYSCALL6(epoll_pwait, s32, epfd, uptr, events, s32, max, s32, msec, uptr, mask, u64, mask_size)
{
    long r = set_mask_user(mask, mask_size);
    return r ? r : do_epoll_wait_common(epfd, events, max, deadline_msec(msec));
}

SYSCALL6(epoll_pwait2, s32, epfd, uptr, events, s32, max, uptr, ts, uptr, mask, u64, mask_size)
{
    u64 deadline;
    long r = deadline_user(ts, &deadline);
    if (r < 0)
        return r;
    r = set_mask_user(mask, mask_size);
    return r ? r : do_epoll_wait_common(epfd, events, max, deadline);
}
