/* Two descriptors at once, for pipe2 and socketpair: beside files.c, so that unit tests can have it over their own table. */
#include "core/uaccess.h"
#include "vfs/vfs.h"

/* Both or none; their numbers are stored at `out` of the guest. Takes the references. */
long fd_new_pair(struct file *const f[2], u32 flags, uptr out)
{
    s32 fd[2];
    long r = fd_alloc(0, flags);
    if (r < 0)
        goto put;
    fd[0] = (s32)r;
    r = fd_alloc(0, flags);
    if (r < 0)
        goto release0;
    fd[1] = (s32)r;
    r = copy_to_user(out, fd, sizeof(fd));
    if (r)
        goto release1;
    fd_install(fd[0], f[0]);
    fd_install(fd[1], f[1]);
    return 0;
release1:
    fd_release(fd[1]);
release0:
    fd_release(fd[0]);
put:
    file_put(f[0]);
    file_put(f[1]);
    return r;
}
