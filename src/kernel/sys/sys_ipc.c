/* System calls of pipes and eventfd. */
#include <linux/fcntl.h>

#include "core/uaccess.h"
#include "ipc/eventfd.h"
#include "ipc/pipe.h"
#include "sys/syscall.h"

static long make_pipe(uptr fds, u32 flags)
{
    struct file *rd, *wr;

    if (flags & ~(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
        return -EINVAL;
    long r = pipe_new(&rd, &wr, flags);
    if (r)
        return r;
    int fd[2];
    r = fd_alloc(0, flags & O_CLOEXEC);
    if (r < 0)
        goto put;
    fd[0] = (int)r;
    r = fd_alloc(0, flags & O_CLOEXEC);
    if (r < 0)
        goto release0;
    fd[1] = (int)r;
    r = copy_to_user(fds, fd, sizeof(fd));
    if (r)
        goto release1;
    fd_install(fd[0], rd);
    fd_install(fd[1], wr);
    return 0;
release1:
    fd_release(fd[1]);
release0:
    fd_release(fd[0]);
put:
    file_put(rd);
    file_put(wr);
    return r;
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
