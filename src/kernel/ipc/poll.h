/* Poll tables: how poll, select and epoll collect what to wait on (ipc/poll.c). A file's poll operation calls
 * poll_wait(f, &queue, pt) for each queue that will be woken when its events change, then returns what is ready now. */
#ifndef HARENA_IPC_POLL_H
#define HARENA_IPC_POLL_H

#include "vfs/vfs.h"

struct poll_table {
    void (*add)(struct poll_table *pt, struct file *f, struct waitq *q);
    u32 events; /* wanted */
};

#endif
