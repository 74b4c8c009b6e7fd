/* File systems at boot. Order: fs_init(), other modules' register_filesystem and register_chrdev, boot_mount() for
 * each mount of the mail in its order ("/" first), then fs_info_new() for init. */
#ifndef HARENA_FS_MOUNTS_H
#define HARENA_FS_MOUNTS_H

#include "vfs/internal.h"
#include "wire/broker.h"

/* The records of the mail, one after the other; they have been checked. */
static inline const struct mail_mount *mail_mount_first(const struct mail_boot *m) { return (const void *)((const char *)m + m->mounts_off); }
static inline const struct mail_mount *mail_mount_next(const struct mail_mount *m) { return (const void *)((const char *)m + m->record_size); }

long fs_init(void);
/* -ENODEV: a file system that nobody registered; -EUCLEAN: a bad image; others as mount(2). The record is trusted to lie in
 * a private copy and to be terminated. `all`: the mail it is in; where the root is read-only, the places of the others are in it. */
long boot_mount(const struct mail_mount *m, const struct mail_boot *all);

#endif
