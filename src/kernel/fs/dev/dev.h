/* /dev: see dev.c. */
#ifndef HARENA_FS_DEV_H
#define HARENA_FS_DEV_H

#include "vfs/internal.h"

long dev_init(void); /* registers the memory devices; before boot mounts */
/* The file system of /dev (one for all mounts). */
long devtmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);

#endif
