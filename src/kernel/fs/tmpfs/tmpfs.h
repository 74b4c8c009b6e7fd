/* tmpfs: files in D, everything else in K. See tmpfs.c. */
#ifndef HARENA_FS_TMPFS_H
#define HARENA_FS_TMPFS_H

#include "vfs/internal.h"

struct tmp_xattr {
    struct tmp_xattr *next;
    u32 name_len, size;
    char name[]; /* terminated; the value follows */
};

/* A window of D that holds file bytes [off, off + size). Sorted by off, no overlap; gaps are holes. */
struct tmp_extent {
    u64 off, size; /* page multiples */
    u64 d_off; /* in D */
    u64 *bitmap; /* bit per page: written (charged) */
    bool raw; /* was mapped shared and writable: pages may hold data without a bit */
};

struct tmp_entry {
    struct tmp_entry *next; /* hash chain */
    struct inode *inode; /* referenced */
    u64 cookie;
    u32 hash, len;
    char name[];
};

struct tmp_inode {
    struct inode i;
    struct tmp_xattr *xattrs;
    union {
        struct { /* regular files; i.lock */
            struct tmp_extent *ext;
            u32 ext_count, ext_cap;
            u32 map_count; /* outstanding map() calls: windows do not move */
            u32 write_maps; /* of these, shared and writable */
            u64 pages; /* charged */
        };
        struct { /* directories; i.lock */
            struct tmp_entry **buckets;
            struct tmp_entry **order; /* by cookie, with NULL gaps */
            u32 bucket_count, count;
            u32 order_used, order_cap;
            u64 next_cookie;
            struct tmp_inode *parent; /* for ".."; not referenced, NULL: itself */
        };
        char *target; /* symlinks */
    };
};

static inline struct tmp_inode *tmp_of(struct inode *i) { return container_of(i, struct tmp_inode, i); }

struct tmp_super {
    u64 max_pages; /* 0: only the sandbox's limit */
    u64 pages;
    u64 inodes;
};

long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
struct inode *tmp_new(struct super_block *sb, struct inode *dir, u32 mode, u64 rdev, const char *target);

/* tmpfs_dir.c */
extern const struct inode_ops tmp_dir_ops;
extern const struct file_ops tmp_dir_fops;
void tmp_dir_free(struct tmp_inode *t);

/* tmpfs_data.c; all with i.lock held unless said otherwise */
extern const struct file_ops tmp_file_ops;
long tmp_truncate(struct tmp_inode *t, u64 size);
void tmp_data_free(struct tmp_inode *t);
/* Kernel access for overlay copy-up: writes whole ranges; takes the lock itself. */
long tmp_write_kernel(struct inode *i, const void *buf, u64 size, u64 off);

#endif
