/* System calls of pipes and eventfd. */
#include <linux/fcntl.h>

#include "core/uaccess.h"
#include "ipc/eventfd.h"
#include "ipc/pipe.h"
#include "sys/syscall.h"

static long make_pipe(uptr fds, u32 flags)
{
    struct file *f[2];

    if (flags & ~(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
        return -EINVAL;
    long r = pipe_new(&f[0], &f[1], flags);
    return r ? r : fd_new_pair(f, flags & O_CLOEXEC, fds);
}

SYSCALL1(pipe, uptr, fds) { return make_pipe(fds, 0); }
SYSCALL2(pipe2, uptr, fds, u32, flags) { return make_pipe(fds, flags); }

static long make_eventfd(u32 count, u32 flags)
{
    if (flags & ~(EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK))
        return -EINVAL;
    struct file *f = eventfd_new(count, flags);
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
}

SYSCALL1(eventfd, u32, count) { return make_eventfd(count, 0); }
SYSCALL2(eventfd2, u32, count, u32, flags) { return make_eventfd(count, flags); }
