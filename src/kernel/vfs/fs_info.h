/* A process's root, working directory and umask; shared with CLONE_FS. Readers of other tasks take the lock. */
#ifndef HARENA_VFS_FS_INFO_H
#define HARENA_VFS_FS_INFO_H

#include "vfs/vfs.h"

struct fs_info {
    u32 refs;
    u32 umask;
    u32 seq; /* odd while root or pwd change */
    u32 pad;
    struct mutex lock;
    struct path root, pwd;
};

struct fs_info *fs_info_new(void); /* root and pwd = top of the namespace, umask 022 */
struct fs_info *fs_info_clone(struct fs_info *old);
void fs_info_get(struct fs_info *fs);
void fs_info_put(struct fs_info *fs);
void fs_info_root(struct fs_info *fs, struct path *out); /* referenced */
void fs_info_pwd(struct fs_info *fs, struct path *out);
void fs_info_set_pwd(struct fs_info *fs, const struct path *p); /* takes its own references */
void fs_info_set_root(struct fs_info *fs, const struct path *p);

#endif
