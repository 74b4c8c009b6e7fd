/* inotify(7). */
#ifndef HARENA_IPC_INOTIFY_H
#define HARENA_IPC_INOTIFY_H

#include "vfs/vfs.h"

struct file *inotify_new(u32 flags); /* O_NONBLOCK */
bool file_is_inotify(const struct file *f);
long inotify_add(struct file *f, struct inode *i, u32 mask); /* watch descriptor */
long inotify_remove(struct file *f, int wd);
void inotify_inode_gone(struct inode *i);

#endif
