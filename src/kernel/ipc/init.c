#include "ipc/init.h"

#include "ipc/inotify.h"
#include "ipc/pipe.h"
#include "vfs/hooks.h"

static void inode_gone(struct inode *i)
{
    pipe_inode_free(i);
    inotify_inode_gone(i);
    /* i->sock is cleared by its owner, which holds a reference of the inode until then. */
}

void ipc_init(void)
{
    hooks.fifo_ops = &pipe_fops;
    hooks.inode_gone = inode_gone;
    hooks.pipe_size = pipe_fcntl;
}
