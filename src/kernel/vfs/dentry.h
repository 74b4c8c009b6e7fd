/* The dentry cache.
 *
 * A dentry caches one name: (parent, name) -> inode, or negative (inode NULL). File systems do not need dentries to keep
 * their files: an unused one (refs 0) may be dropped at any time. A child holds a reference on its parent, a dentry one on
 * its inode.
 *
 * Lock-free readers (namei's fast walk): dentries and mounts are type-stable (their memory is never given back to
 * kmalloc) and all of K stays mapped, so a reader may look at stale objects as long as it follows only pointers
 * loaded before dcache_seq was checked. Everything that removes, moves or frees a name or a mount does so between
 * dcache_write_begin() and dcache_write_end(), which hold dcache_lock and make the count odd. A reader that wants to
 * keep a dentry increments refs and then checks the count again; an evictor makes the count odd and then checks refs.
 *
 * dcache_lock is a leaf but for allocator locks; iput is called outside it. */
#ifndef HARENA_VFS_DENTRY_H
#define HARENA_VFS_DENTRY_H

#include "vfs/vfs.h"
#include <linux/limits.h>

#define DNAME_INLINE 40

struct dentry {
    u32 refs;
    u32 flags; /* D_* */
    u32 hash, len;
    const char *name; /* terminated; small[] or kmalloc'd */
    struct dentry *parent; /* itself: a root */
    struct inode *inode;
    struct dentry *next; /* hash chain, or free list */
    struct super_block *sb;
    struct list children, sibling;
    u64 expire; /* monotonic ns after which ops->revalidate is asked; 0 = never */
    char small[DNAME_INLINE];
};
#define D_HASHED 1u
#define D_MOUNTED 2u /* something is mounted here */
#define D_REFERENCED 4u /* used since the evictor came by */
#define D_LIVE 8u /* not on the free list */
#define D_ANON 16u /* anonymous file: the name is the text shown */

extern u64 dcache_seq;

u32 name_hash(const char *name, u32 len);
static inline struct qstr qstr_make(const char *name, u32 len)
{
    return (struct qstr){name, len, name_hash(name, len)};
}
struct qstr qstr_of(const char *name);

void dcache_write_begin(void);
void dcache_write_end(void);

static inline struct dentry *dget(struct dentry *d)
{
    atomic_add(&d->refs, 1);
    return d;
}
void dput(struct dentry *d);
struct dentry *d_place(struct dentry *d, char text[NAME_MAX + 1], struct qstr *name);
/* A dentry that is not yet findable, refs 1; consumes the inode reference (NULL: negative). NULL: out of memory. */
struct dentry *d_alloc(struct dentry *parent, const struct qstr *name, struct inode *i, struct super_block *sb);
struct dentry *d_make_root(struct super_block *sb, struct inode *i);
void d_add(struct dentry *d); /* parent's inode lock held: no other dentry has this name */
void d_instantiate(struct dentry *d, struct inode *i); /* negative -> positive; consumes the reference */
void d_drop(struct dentry *d); /* no longer findable */
struct dentry *d_lookup(struct dentry *parent, const struct qstr *name); /* referenced or NULL */
struct dentry *d_lookup_fast(struct dentry *parent, const struct qstr *name); /* lock-free, not referenced */
long d_move(struct dentry *d, struct dentry *new_parent, const struct qstr *name);
long d_exchange(struct dentry *a, struct dentry *b);
void d_prune(struct dentry *d); /* drops unused names below d */
void dcache_shrink_sb(struct super_block *sb); /* drops all unused names of sb */
bool d_is_below(struct dentry *d, struct dentry *ancestor); /* or equal; rename_lock or dcache_lock held */

#endif
