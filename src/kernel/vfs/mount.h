/* Mounts and file system types.
 *
 * A mount shows the tree below `root` (of one super block) at (parent, mountpoint). Bind mounts share the super block. Mounts are
 * type-stable like dentries (dentry.h); the tree changes under mount_lock (outermost) and dcache_write_begin(). A mount holds
 * references on its root, its mountpoint and its parent; a path holds one on its mount (EBUSY on umount). */
#ifndef HARENA_VFS_MOUNT_H
#define HARENA_VFS_MOUNT_H

#include "vfs/dentry.h"

struct mount {
    u32 refs;
    u32 flags; /* MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC ... */
    u32 id;
    u32 child_count;
    struct super_block *sb;
    struct dentry *root;
    struct mount *parent; /* itself: the root of the namespace */
    struct dentry *mountpoint;
    struct mount *hash_next; /* or free list */
    struct list link; /* all attached mounts, in mount order; mount_lock */
    char *source; /* as shown in /proc/mounts */
};

typedef long (*mount_fn)(const char *source, u32 flags, const char *options, struct super_block **out);
long register_filesystem(const char *name, mount_fn mount);
mount_fn find_filesystem(const char *name);
const char *filesystem_name(u32 index); /* for /proc/filesystems; NULL behind the last */

extern struct mutex mount_lock;
struct list *mount_list(void); /* mount_lock held: for /proc/mounts */

long vfs_init(void); /* an empty tmpfs as the first root */
/* Attaches sb at target (consumes nothing); `root`: subtree for binds or NULL. */
long vfs_mount(struct super_block *sb, struct dentry *root, const char *source, const struct path *target, u32 flags);
long vfs_umount(struct mount *m, int flags);
void vfs_root(struct path *out); /* the top of the namespace, referenced */
struct super_block *sb_alloc(const struct super_ops *ops, const char *fstype, u32 flags);
void super_free(struct super_block *sb); /* put_super where all there is beside it is one kmalloc'd priv */
struct mount *mount_kernel(struct super_block *sb); /* a mount that is in no namespace (pipes, memfd) */
struct mount *mount_at_fast(const struct mount *m, const struct dentry *d); /* lock-free; NULL if none */
struct mount *mount_at(const struct mount *m, const struct dentry *d); /* referenced */
static inline struct mount *mntget(struct mount *m)
{
    atomic_add(&m->refs, 1);
    return m;
}
void mntput(struct mount *m);
static inline bool mount_readonly(const struct mount *m) { return (m->flags | m->sb->flags) & 1; }

#endif
