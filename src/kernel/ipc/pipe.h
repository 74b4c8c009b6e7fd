/* Pipes and FIFOs: what vfs and the system calls use. */
#ifndef HARENA_IPC_PIPE_H
#define HARENA_IPC_PIPE_H

#include "vfs/vfs.h"

/* Two referenced files; flags: O_NONBLOCK, O_DIRECT. */
long pipe_new(struct file **rd, struct file **wr, u32 flags);

/* file_ops of every open pipe end and FIFO; ->open does what open(2) of a FIFO does (and reopening through /proc). */
extern const struct file_ops pipe_fops;
void pipe_inode_free(struct inode *i); /* the inode of a FIFO or pipe goes away: drops inode->pipe */

bool file_is_pipe(const struct file *f);
long pipe_fcntl(struct file *f, u32 cmd, u64 arg); /* F_SETPIPE_SZ, F_GETPIPE_SZ; -EBADF on other files */

/* For splice: moves bytes out of a pipe into a kernel buffer (blocking rules as read, `nonblock` forces O_NONBLOCK);
 * pipe_unread puts what the target did not take in front again. */
long pipe_take(struct file *f, void *buf, size_t size, bool nonblock);
long pipe_unread(struct file *f, const void *buf, size_t size);
long pipe_push(struct file *f, const void *buf, size_t size, bool nonblock);
/* Copies up to size bytes without consuming; waits for the first one unless nonblock. */
long pipe_wait_writable(struct file *f, bool nonblock); /* bytes of room, > 0, or an error */
long pipe_peek(struct file *f, void *buf, size_t size, bool nonblock);

#endif
