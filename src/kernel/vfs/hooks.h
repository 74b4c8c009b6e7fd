/* What later modules register with the VFS. */
#ifndef HARENA_VFS_HOOKS_H
#define HARENA_VFS_HOOKS_H

#include "vfs/vfs.h"

struct vfs_hooks {
    const struct file_ops *fifo_ops; /* ipc/pipe: files opened on FIFOs */
    /* ipc/inotify; NULL as long as nobody watches anything. */
    void (*fsnotify)(struct inode *dir, const struct qstr *name, struct inode *node, u32 mask, u32 cookie);
    void (*inode_gone)(struct inode *i); /* before an inode with watches, a pipe or a socket is freed */
    long (*pipe_size)(struct file *f, u32 cmd, u64 arg); /* F_GETPIPE_SZ, F_SETPIPE_SZ; -EBADF if no pipe */
    long (*set_async)(struct file *f, int fd); /* O_ASYNC was changed */
    void (*async_gone)(struct file *f); /* before a file with f->async is released */
};
extern struct vfs_hooks hooks; /* KSTATE */

const struct file_ops *chrdev_ops(u64 rdev); /* NULL: no such device */

#endif
