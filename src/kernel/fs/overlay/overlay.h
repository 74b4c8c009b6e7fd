/* overlay: a writable tmpfs over read-only trees. See overlay.c. */
#ifndef HARENA_FS_OVERLAY_H
#define HARENA_FS_OVERLAY_H

#include "vfs/internal.h"

#define OVL_LAYERS_MAX 8
#define INODE_OPAQUE 128u /* on upper directories: lower ones of the same name are hidden */

struct ovl_sb {
    struct super_block *upper;
    struct super_block *lower[OVL_LAYERS_MAX];
    u32 lower_count;
    struct mutex lock; /* all changes of the upper tree's names, copy-ups; inside overlay inodes' locks, outside upper ones' */
};

struct ovl_inode {
    struct inode i;
    struct inode *upper; /* referenced; set once, under ovl_sb.lock, read atomically */
    struct inode *lower[OVL_LAYERS_MAX]; /* referenced; a non-directory has at most one; never changes */
    u8 layer[OVL_LAYERS_MAX];
    u32 lower_count;
    bool gone; /* removed: copy-up makes a nameless file; ovl_sb.lock */
    bool pinned; /* sockets: the inode stays as long as its name, since what is bound to it is found by it */
    struct ovl_inode *parent; /* referenced; where a copy-up goes; ovl_sb.lock */
    char *name;
};

static inline struct ovl_inode *ovl_of(struct inode *i) { return container_of(i, struct ovl_inode, i); }
static inline struct ovl_sb *ovl_sb_of(const struct inode *i) { return i->sb->priv; }
static inline struct inode *ovl_upper(struct ovl_inode *o) { return atomic_load(&o->upper); }
static inline struct inode *ovl_real(struct ovl_inode *o)
{
    struct inode *u = ovl_upper(o);
    return u ? u : o->lower[0];
}

/* lower[0] is the topmost. The super blocks' references are taken over. */
long overlay_mount(struct super_block **lower, u32 count, struct super_block **out);

bool ovl_is_whiteout(const struct inode *i);
void ovl_sync_attr(struct ovl_inode *o);

/* overlay_copy.c; ovl_sb.lock held */
long ovl_copy_up(struct ovl_inode *o, u64 size); /* at most `size` bytes of data */
/* overlay_dir.c */
extern const struct inode_ops ovl_dir_ops;
extern const struct file_ops ovl_dir_fops;
bool ovl_dir_empty(struct ovl_inode *o);
struct inode *ovl_get(struct super_block *sb, struct ovl_inode *parent, const struct qstr *name, struct inode *upper,
                      struct inode **lower, const u8 *layer, u32 count);
long ovl_getattr(struct inode *i, struct kstat *st);
long ovl_setattr(struct inode *i, const struct iattr *a);
long ovl_getxattr(struct inode *i, const char *name, void *buf, size_t size);
long ovl_setxattr(struct inode *i, const char *name, const void *buf, size_t size, int flags);
long ovl_listxattr(struct inode *i, char *buf, size_t size);

#endif
