/* System calls of timerfd, signalfd and inotify. */
#include <linux/fcntl.h>
#include <linux/inotify.h>
#include <linux/stat.h>
#include <linux/time.h>
#include <linux/time_types.h>

#include "core/uaccess.h"
#include "ipc/inotify.h"
#include "ipc/timerfd.h"
#include "sys/syscall.h"
#include "vfs/dentry.h"

#define SEC 1000000000ull
#define TFD_ABSTIME 1u
#define TFD_CANCEL_ON_SET 2u

/* ---- timerfd ---- */

SYSCALL2(timerfd_create, s32, clock, u32, flags)
{
    if (flags & ~(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME_ALARM &&
        clock != CLOCK_BOOTTIME_ALARM)
        return -EINVAL;
    struct file *f = timerfd_new(clock, flags);
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
}

static struct file *get_timerfd(s32 fd)
{
    struct file *f = fd_get(fd);
    if (!f)
        return ERR_PTR(-EBADF);
    if (!file_is_timerfd(f)) {
        file_put(f);
        return ERR_PTR(-EINVAL);
    }
    return f;
}

static long spec_in(uptr p, struct timerfd_spec *s)
{
    struct __kernel_itimerspec t;

    if (get_user(t, p))
        return -EFAULT;
    if (t.it_value.tv_sec < 0 || (u64)t.it_value.tv_nsec >= SEC || t.it_interval.tv_sec < 0 ||
        (u64)t.it_interval.tv_nsec >= SEC)
        return -EINVAL;
    u64 most = ~0ull / 4 / SEC;
    s->value = MIN((u64)t.it_value.tv_sec, most) * SEC + (u64)t.it_value.tv_nsec;
    s->interval = MIN((u64)t.it_interval.tv_sec, most) * SEC + (u64)t.it_interval.tv_nsec;
    return 0;
}

static long spec_out(uptr p, const struct timerfd_spec *s)
{
    struct __kernel_itimerspec t = {.it_value = {(s64)(s->value / SEC), (s64)(s->value % SEC)},
                                    .it_interval = {(s64)(s->interval / SEC), (s64)(s->interval % SEC)}};
    return put_user(t, p);
}

SYSCALL4(timerfd_settime, s32, fd, u32, flags, uptr, new_spec, uptr, old_spec)
{
    struct timerfd_spec s, old;

    if (flags & ~(TFD_ABSTIME | TFD_CANCEL_ON_SET))
        return -EINVAL;
    long r = spec_in(new_spec, &s);
    if (r)
        return r;
    struct file *f = get_timerfd(fd);
    if (IS_ERR(f))
        return PTR_ERR(f);
    r = timerfd_set(f, flags & TFD_ABSTIME, &s, &old);
    file_put(f);
    return r || !old_spec ? r : spec_out(old_spec, &old);
}

SYSCALL2(timerfd_gettime, s32, fd, uptr, cur)
{
    struct timerfd_spec s;
    struct file *f = get_timerfd(fd);

    if (IS_ERR(f))
        return PTR_ERR(f);
    timerfd_get(f, &s);
    file_put(f);
    return spec_out(cur, &s);
}

/* ---- signalfd ---- */

static long signalfd_common(s32 fd, uptr mask, u64 size, u32 flags)
{
    u64 m;

    if (flags & ~(O_CLOEXEC | O_NONBLOCK) || size != sizeof(m))
        return -EINVAL;
    if (get_user(m, mask))
        return -EFAULT;
    if (fd == -1) {
        struct file *f = signalfd_new(m, flags);
        return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
    }
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = signalfd_set_mask(f, m);
    file_put(f);
    return r ? r : fd;
}

SYSCALL3(signalfd, s32, fd, uptr, mask, u64, size) { return signalfd_common(fd, mask, size, 0); }
SYSCALL4(signalfd4, s32, fd, uptr, mask, u64, size, u32, flags) { return signalfd_common(fd, mask, size, flags); }

/* ---- inotify ---- */

static long make_inotify(u32 flags)
{
    if (flags & ~(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    struct file *f = inotify_new(flags);
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
}

SYSCALL0(inotify_init) { return make_inotify(0); }
SYSCALL1(inotify_init1, u32, flags) { return make_inotify(flags); }

static struct file *get_inotify(s32 fd)
{
    struct file *f = fd_get(fd);
    if (!f)
        return ERR_PTR(-EBADF);
    if (!file_is_inotify(f)) {
        file_put(f);
        return ERR_PTR(-EINVAL);
    }
    return f;
}

SYSCALL3(inotify_add_watch, s32, fd, uptr, name, u32, mask)
{
    struct path p;

    if (!(mask & IN_ALL_EVENTS) || ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE)))
        return -EINVAL;
    struct file *f = get_inotify(fd);
    if (IS_ERR(f))
        return PTR_ERR(f);
    u32 flags = (mask & IN_DONT_FOLLOW ? 0 : LOOKUP_FOLLOW) | (mask & IN_ONLYDIR ? LOOKUP_DIRECTORY : 0);
    long r = user_path(AT_FDCWD, name, flags, &p);
    if (!r) {
        r = inode_permission(p.dentry->inode, 4 /* MAY_READ */);
        if (!r)
            r = inotify_add(f, p.dentry->inode, mask);
        path_put(&p);
    }
    file_put(f);
    return r;
}

SYSCALL2(inotify_rm_watch, s32, fd, s32, wd)
{
    struct file *f = get_inotify(fd);
    if (IS_ERR(f))
        return PTR_ERR(f);
    long r = inotify_remove(f, wd);
    file_put(f);
    return r;
}
