/* EROFS reader: see erofs.c and erofs_dir.c. */
#ifndef HARENA_FS_EROFS_H
#define HARENA_FS_EROFS_H

#include "vfs/internal.h"
#include "wire/erofs_format.h"
#include "wire/view.h"

#define EROFS_INODE_CHUNK 4

struct erofs_sb {
    const u8 *base; /* the image, mapped read-only */
    u64 size; /* bytes of it that may be read */
    u32 index; /* image number */
    u64 meta_off;
    u64 xattr_off;
    u32 build_nsec;
    u64 build_time;
    u32 prefix_count;
    u64 prefix_off;
    u64 inodes, blocks;
    struct view_source views;
    struct view_header view_header;
    bool has_views;
};

struct erofs_inode {
    struct inode i;
    u64 nid;
    u32 layout;
    u64 data_off; /* of block 0 (plain, inline) or of the chunk table */
    u64 tail_off; /* inline: of the last partial block, 0 = none */
    u32 chunk_bits;
    bool chunk_index; /* 8-byte entries */
    u64 xattr_off;
    u32 xattr_size;
    u64 tail_window, tail_got; /* D copy of the inline tail for mappings; i.lock */
};

static inline struct erofs_inode *erofs_of(struct inode *i) { return container_of(i, struct erofs_inode, i); }
static inline struct erofs_sb *erofs_sb_of(const struct inode *i) { return i->sb->priv; }

/* size bytes at off of the image, or NULL if they are not all inside. */
static inline const void *erofs_at(const struct erofs_sb *s, u64 off, u64 size)
{
    return off <= s->size && size <= s->size - off ? s->base + off : NULL;
}

/* Where file bytes at `off` lie: *run bytes contiguous (>0), NULL with *run > 0: a hole; error pointer. off < size. */
const u8 *erofs_data(struct erofs_inode *e, u64 off, u64 *run);
struct inode *erofs_iget(struct super_block *sb, u64 nid);

extern const struct inode_ops erofs_dir_ops, erofs_inode_ops;
extern const struct file_ops erofs_dir_fops, erofs_file_fops;
long erofs_getxattr(struct inode *i, const char *name, void *buf, size_t size);
long erofs_listxattr(struct inode *i, char *buf, size_t size);

/* Opens an image in memory as a super block (also for tests and fuzzing). */
long erofs_open(const void *base, u64 size, u32 index, struct super_block **out);
/* The image at FD_IMAGE0 + index. */
long erofs_mount_image(u32 index, u64 size, struct super_block **out);
/* Once in the zygote, before forks: maps every image and the view pack whole. */
void erofs_map_images(void);

#endif
