/* EROFS metadata writer.
 *
 * Layout of the file system: block 0 (superblock), contents of regular files in the order they were read,
 * metadata area (inodes with xattrs and inline tails), then blocks of directories and of small contents that did not
 * fit inline. The metadata comes last because contents are streamed; only block 0 is written out of order.
 *
 * Inodes are all extended: compact ones have no mtime of their own. An inline tail must not cross a block, and
 * its inode is kept in the same block. The root comes first because root_nid has 16 bits.
 *
 * Two passes over the inodes: place() gives each its nid and blocks (sizes depend only on names), then
 * they are written in the same order. Format: wire/erofs_format.h. */
#include "image/erofs_write.h"
#include "wire/erofs_format.h"
#include "wire/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct entry {                 /* of a directory, with "." and ".." */
    const char *name;
    u32 len;
    u64 nid;
    u8 type;
};

static u8 file_type(u32 mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return EROFS_FT_REG_FILE;
    case S_IFDIR: return EROFS_FT_DIR;
    case S_IFCHR: return EROFS_FT_CHRDEV;
    case S_IFBLK: return EROFS_FT_BLKDEV;
    case S_IFIFO: return EROFS_FT_FIFO;
    case S_IFSOCK: return EROFS_FT_SOCK;
    case S_IFLNK: return EROFS_FT_SYMLINK;
    default: return EROFS_FT_UNKNOWN;
    }
}

static int cmp_entry(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = memcmp(x->name, y->name, MIN(x->len, y->len));

    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* All entries in their order on disk; n = dent_count + 2. NULL: out of memory. */
static struct entry *dir_entries(const struct inode *d)
{
    struct entry *e = calloc(d->dent_count + 2, sizeof(*e));

    if (!e)
        return NULL;
    e[0] = (struct entry){".", 1, d->nid, EROFS_FT_DIR};
    e[1] = (struct entry){"..", 2, d->parent->nid, EROFS_FT_DIR};
    for (u32 k = 0; k < d->dent_count; k++)
        e[k + 2] = (struct entry){d->dents[k].name, d->dents[k].name_len, d->dents[k].inode->nid,
                                  file_type(d->dents[k].inode->mode)};
    qsort(e, d->dent_count + 2, sizeof(*e), cmp_entry);
    return e;
}

/* Entries from `k` on that fit into one block; *used receives their bytes. */
static u32 dir_block(const struct entry *e, u32 k, u32 n, u32 *used)
{
    u32 count = 0;

    for (*used = 0; k + count < n; count++) {
        u32 size = sizeof(struct erofs_dirent) + e[k + count].len;

        if (*used + size > EROFS_BLKSZ)
            break;
        *used += size;
    }
    return count;
}

static int dir_size(struct tree *t, struct inode *d)
{
    struct entry *e = dir_entries(d);
    u32 used = 0;

    if (!e)
        return image_fail(t->err, "out of memory");
    d->size = 0;
    for (u32 k = 0; k < d->dent_count + 2;) {
        k += dir_block(e, k, d->dent_count + 2, &used);
        d->size = k < d->dent_count + 2 ? d->size + EROFS_BLKSZ : d->size + used;
    }
    free(e);
    return 0;
}

static int dir_write(struct tree *t, struct sink *s, const struct inode *d)
{
    struct entry *e = dir_entries(d);
    u32 n = d->dent_count + 2, used, count;
    int r = e ? 0 : image_fail(t->err, "out of memory");

    for (u32 k = 0; !r && k < n; k += count) {
        u8 block[EROFS_BLKSZ] = {0};
        u32 off;

        count = dir_block(e, k, n, &used);
        off = count * sizeof(struct erofs_dirent);
        for (u32 j = 0; j < count; j++) {
            struct erofs_dirent de = {.nid = e[k + j].nid, .nameoff = (u16)off, .file_type = e[k + j].type};

            memcpy(block + j * sizeof(de), &de, sizeof(de));
            memcpy(block + off, e[k + j].name, e[k + j].len);
            off += e[k + j].len;
        }
        r = sink_write(s, block, k + count < n ? EROFS_BLKSZ : used);
    }
    free(e);
    return r;
}

static u32 xattr_area(const struct inode *i)
{
    return i->xattr_size ? sizeof(struct erofs_xattr_ibody_header) + i->xattr_size : 0;
}

/* Contents that this file writes: directories, symlinks, spooled files. */
static bool has_late_content(const struct inode *i)
{
    return i->size && (S_ISDIR(i->mode) || S_ISLNK(i->mode) || i->spooled);
}

static int place(struct tree *t, struct sink *s)
{
    u64 meta = s->pos, off = 0, block;

    for (struct inode *i = t->first; i; i = i->next) {
        u64 head = sizeof(struct erofs_inode_extended) + xattr_area(i);

        if (S_ISDIR(i->mode) && dir_size(t, i))
            return -1;
        i->inlined = has_late_content(i) && head + i->size <= EROFS_BLKSZ;
        if (i->inlined && off % EROFS_BLKSZ + head + i->size > EROFS_BLKSZ)
            off = ALIGN_UP(off, EROFS_BLKSZ);
        i->nid = off / EROFS_SLOT_SIZE;
        off = ALIGN_UP(off + head + (i->inlined ? i->size : 0), EROFS_SLOT_SIZE);
    }
    block = (meta + ALIGN_UP(off, EROFS_BLKSZ)) / EROFS_BLKSZ;
    for (struct inode *i = t->first; i; i = i->next)
        if (has_late_content(i) && !i->inlined) {
            i->block = (u32)block;
            block += ALIGN_UP(i->size, EROFS_BLKSZ) / EROFS_BLKSZ;
        }
    return block > UINT32_MAX ? image_fail(t->err, "the image is too large for EROFS") : 0;
}

static int content_write(struct tree *t, struct sink *s, const struct inode *i)
{
    u8 buf[EROFS_BLKSZ];

    if (S_ISDIR(i->mode))
        return dir_write(t, s, i);
    if (S_ISLNK(i->mode))
        return sink_write(s, i->link, i->size);
    return sink_spool_read(s, i, buf) ? -1 : sink_write(s, buf, i->size);
}

static int inode_write(struct tree *t, struct sink *s, u64 meta, const struct inode *i)
{
    static const u8 zero[EROFS_BLKSZ];
    u64 at = meta + i->nid * EROFS_SLOT_SIZE;
    bool device = S_ISCHR(i->mode) || S_ISBLK(i->mode);
    struct erofs_inode_extended d = {
        .i_format = EROFS_I_FORMAT(EROFS_INODE_EXTENDED, i->inlined ? EROFS_INODE_FLAT_INLINE : EROFS_INODE_FLAT_PLAIN),
        .i_xattr_icount = i->xattr_size ? (u16)(i->xattr_size / 4 + 1) : 0, .i_mode = (u16)i->mode, .i_size = i->size,
        .i_u = device ? i->rdev : i->inlined ? 0xffffffffu : i->block, .i_ino = i->ino, .i_uid = i->uid,
        .i_gid = i->gid, .i_mtime = (u64)i->mtime, .i_mtime_nsec = i->mtime_nsec, .i_nlink = i->nlink,
    };
    struct erofs_xattr_ibody_header xh = {0};

    if (sink_write(s, zero, at - s->pos) || sink_write(s, &d, sizeof(d)))
        return -1;
    if (i->xattr_size && (sink_write(s, &xh, sizeof(xh)) || sink_write(s, i->xattrs, i->xattr_size)))
        return -1;
    return i->inlined ? content_write(t, s, i) : 0;
}

static int super_write(struct tree *t, struct sink *s, u64 meta, const u8 uuid[16])
{
    u8 block[EROFS_BLKSZ] = {0};
    struct erofs_super_block sb = {
        .magic = EROFS_SUPER_MAGIC_V1, .feature_compat = EROFS_FEATURE_COMPAT_SB_CHKSUM | EROFS_FEATURE_COMPAT_MTIME,
        .blkszbits = EROFS_BLKSZ_BITS, .root_nid = (u16)t->root->nid, .inos = t->count,
        .build_time = (u64)t->root->mtime, .build_time_nsec = t->root->mtime_nsec,
        .blocks = (u32)(s->pos / EROFS_BLKSZ), .meta_blkaddr = (u32)(meta / EROFS_BLKSZ),
    };

    memcpy(sb.uuid, uuid, 16);
    memcpy(block + EROFS_SUPER_OFFSET, &sb, sizeof(sb));
    sb.checksum = view_crc32c(~0u, block + EROFS_SUPER_OFFSET, EROFS_BLKSZ - EROFS_SUPER_OFFSET);
    memcpy(block + EROFS_SUPER_OFFSET, &sb, sizeof(sb));
    if (pwrite(s->fd, block, sizeof(block), 0) != sizeof(block))
        return image_fail(t->err, "cannot write the superblock: %s", strerror(errno));
    return 0;
}

int erofs_write(struct tree *t, struct sink *s, const u8 uuid[16])
{
    u64 meta;

    if (sink_pad(s, EROFS_BLKSZ) || place(t, s))
        return -1;
    meta = s->pos;
    for (struct inode *i = t->first; i; i = i->next)
        if (inode_write(t, s, meta, i))
            return -1;
    if (sink_pad(s, EROFS_BLKSZ))
        return -1;
    for (struct inode *i = t->first; i; i = i->next)
        if (has_late_content(i) && !i->inlined && (content_write(t, s, i) || sink_pad(s, EROFS_BLKSZ)))
            return -1;
    return sink_flush(s) ? -1 : super_write(t, s, meta, uuid);
}
