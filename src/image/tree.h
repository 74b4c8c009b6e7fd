/* The file tree of an image under construction: inodes and directory entries in memory, file contents already in
 * the output (blocks) or in the spool (small files, which become inline tails).
 *
 * Ownership: everything belongs to the tree and goes with tree_free(). Errors: functions that can fail return 0
 * or -1 with a line in the tree's error. Not thread-safe. */
#ifndef HARENA_IMAGE_TREE_H
#define HARENA_IMAGE_TREE_H

#include <sys/types.h>
#include "image/image.h"

#define TREE_INODES_MAX (8u << 20)
#define TREE_DEPTH_MAX 512
#define TREE_XATTR_MAX 65536   /* bytes of xattrs of one inode, on disk */

struct inode;

struct dent {
    char *name;                /* not "." or ".."; no slash; 1..255 bytes */
    u32 name_len;
    struct inode *inode;
};

struct inode {
    struct inode *next;        /* all inodes, in order of creation */
    struct inode *parent;      /* directories */
    u32 mode, uid, gid, nlink;
    u32 rdev;                  /* Linux "new" encoding */
    u64 size;
    s64 mtime;
    u32 mtime_nsec;
    u32 ino;
    char *link;                /* symlinks */
    struct dent *dents;        /* directories; sorted by tree_sort() */
    u32 dent_count, dent_cap;
    u8 *xattrs;                /* the on-disk entries, padded */
    u32 xattr_size;
    bool spooled, elf;         /* content in the spool; x86-64 ELF */
    u64 spool_off;
    u32 block;                 /* first data block, if not inline */
    bool inlined;
    u64 nid;
};

struct tree {
    struct inode *root, *first, **last;
    u32 count;
    struct image_error *err;
    struct dent_slot *slots;   /* hash of (directory, name) */
    u32 slot_cap, slot_used;
};

struct sink;

int tree_init(struct tree *t, struct image_error *err);
void tree_free(struct tree *t);

struct inode *tree_inode(struct tree *t, u32 mode); /* NULL with an error */
struct inode *tree_lookup(struct tree *t, struct inode *dir, const char *name, u32 len); /* NULL: none */

/* Enters an inode; a former entry of that name is replaced. Counts links, except for directories. */
int tree_enter(struct tree *t, struct inode *dir, const char *name, u32 len, struct inode *i);

/* One xattr ("user.x"); others than user.* are ignored. */
int tree_xattr(struct tree *t, struct inode *i, const char *name, const void *value, size_t size);

/* Sorts the entries, drops inodes that are no longer reachable, numbers the rest. */
int tree_sort(struct tree *t);

int image_fail(struct image_error *err, const char *f, ...) printf_like(2, 3); /* returns -1 */

/* Scanners: fill the tree, stream contents into the sink. */
int scan_dir(struct tree *t, struct sink *s, const char *dir, bool one_fs);
int scan_tar(struct tree *t, struct sink *s, int fd);

#endif
