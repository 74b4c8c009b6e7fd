/* EROFS: read-only images (wire/erofs_format.h), uncompressed: plain, inline and chunk layouts.
 *
 * An image lies mapped read-only at IMAGE_BASE + index * IMAGE_STRIDE in every stub; the reader works on that memory. An image
 * may be corrupt or hostile: every structure is bounds-checked against the image's size and copied before use; wrong ones give
 * -EUCLEAN. Node ids in directories are not trusted: a node is checked when it is loaded. Inodes are cached by node id, so hard links
 * share one. Nothing is ever written; no locks but i.lock for the tail copy. */
#include "fs/erofs/erofs.h"

#include <linux/mman.h>

#include "base/layout.h"
#include "base/string.h"
#include "core/dframe.h"
#include "core/kmalloc.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char erofs_name[] = "erofs";

#define EUCLEAN_ (-EUCLEAN)

/* ---- data ---- */

const u8 *erofs_data(struct erofs_inode *e, u64 off, u64 *run)
{
    struct erofs_sb *s = erofs_sb_of(&e->i);
    u64 size = e->i.size;
    const u8 *p;
    if (e->layout == EROFS_INODE_CHUNK) {
        u64 chunk = off >> e->chunk_bits, in = off & ((1ull << e->chunk_bits) - 1);
        u32 entry = e->chunk_index ? 8 : 4;
        const u8 *t = erofs_at(s, e->data_off + chunk * entry, entry);
        if (!t)
            return ERR_PTR(EUCLEAN_);
        u32 block;
        u16 device = 0;
        memcpy(&block, t + (e->chunk_index ? 4 : 0), 4);
        if (e->chunk_index)
            memcpy(&device, t + 2, 2);
        *run = MIN((1ull << e->chunk_bits) - in, size - off);
        if (block == ~0u)
            return NULL;
        if (device)
            return ERR_PTR(EUCLEAN_);
        p = erofs_at(s, (u64)block * EROFS_BLKSZ + in, *run);
    } else {
        u64 tail_start = e->tail_off ? ALIGN_DOWN(size, EROFS_BLKSZ) : size;
        if (off >= tail_start) {
            *run = size - off;
            p = erofs_at(s, e->tail_off + (off - tail_start), *run);
        } else {
            *run = tail_start - off;
            p = erofs_at(s, e->data_off + off, *run);
        }
    }
    return p ? p : ERR_PTR(EUCLEAN_);
}

static long file_read_(struct file *f, struct uio *u, u64 *pos)
{
    struct erofs_inode *e = erofs_of(f->inode);
    long done = 0;
    while (u->resid && *pos < e->i.size) {
        u64 run;
        const u8 *p = erofs_data(e, *pos, &run);
        if (IS_ERR(p))
            return done ? done : PTR_ERR(p);
        u64 size = MIN(run, u->resid);
        long r = p ? uio_write_to(u, p, size) : uio_zero(u, size);
        if (r > 0) {
            *pos += (u64)r;
            done += r;
        }
        if (r < (long)size)
            return done ? done : r;
    }
    return done;
}

static long map_tail(struct erofs_inode *e, struct map_extent *out)
{
    long r = 0;
    mutex_lock(&e->i.lock);
    if (!e->tail_got) {
        u64 run, off = ALIGN_DOWN(e->i.size, EROFS_BLKSZ);
        const u8 *p = erofs_data(e, off, &run);
        if (IS_ERR(p)) {
            r = PTR_ERR(p);
        } else if (!(e->tail_window = dwin_alloc(PAGE_SIZE, &e->tail_got))) {
            e->tail_got = 0;
            r = -ENOMEM;
        } else if (p) {
            memcpy(dwin_ptr(e->tail_window), p, MIN(run, PAGE_SIZE));
        }
    }
    *out = (struct map_extent){.fd = FD_D, .off = e->tail_window, .size = PAGE_SIZE};
    mutex_unlock(&e->i.lock);
    return r;
}

static long file_map(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out)
{
    struct erofs_inode *e = erofs_of(f->inode);
    struct erofs_sb *s = erofs_sb_of(&e->i);
    u64 run;
    (void)shared;
    if (write_shared)
        return -EACCES;
    if (off >= e->i.size)
        return -EINVAL;
    const u8 *p = erofs_data(e, off, &run);
    if (IS_ERR(p))
        return PTR_ERR(p);
    u64 pos = p ? (u64)(p - s->base) : 0;
    if (!p) {
        *out = (struct map_extent){.fd = -1, .off = off, .size = MIN(PAGE_UP(run), PAGE_UP(max))};
        return 0;
    }
    if ((pos & ~PAGE_MASK) || (run < PAGE_SIZE && e->tail_off))
        return map_tail(e, out);
    /* The page behind the last byte must exist in the image. */
    u64 size = PAGE_UP(run);
    if (!erofs_at(s, pos, size))
        size = PAGE_DOWN(run);
    if (!size)
        return map_tail(e, out);
    *out = (struct map_extent){.fd = FD_IMAGE0 + (int)s->index, .off = pos, .size = MIN(size, PAGE_UP(max))};
    return 0;
}

static long file_view(struct file *f, bool make, struct view_entry *out, int *view_fd)
{
    (void)make;
    struct erofs_inode *e = erofs_of(f->inode);
    struct erofs_sb *s = erofs_sb_of(&e->i);
    u8 key[VIEW_KEY_SIZE];
    if (!s->has_views)
        return -ENOENT;
    view_key_nid(key, e->nid);
    long r = view_find(&s->views, &s->view_header, key, out);
    if (!r && (out->file_size != e->i.size || !out->seg_count))
        r = -ENOENT;
    *view_fd = FD_IMAGE0 + (int)s->index;
    return r;
}

const struct file_ops erofs_file_fops = {
    .read = file_read_,
    .map = file_map,
    .view = file_view,
};

/* ---- inodes ---- */

static long link_read(struct inode *i, char *buf, size_t size)
{
    struct erofs_inode *e = erofs_of(i);
    size_t done = 0;
    while (done < size && done < i->size) {
        u64 run;
        const u8 *p = erofs_data(e, done, &run);
        if (IS_ERR(p) || !p)
            return p ? PTR_ERR(p) : EUCLEAN_;
        size_t n = MIN((size_t)run, size - done);
        memcpy(buf + done, p, n);
        done += n;
    }
    return (long)done;
}

static const struct file_ops no_fops = {.read = NULL};

const struct inode_ops erofs_inode_ops = {
    .readlink = link_read,
    .getxattr = erofs_getxattr,
    .listxattr = erofs_listxattr,
};

/* What both inode forms say. */
struct raw {
    u16 format, xattr_count, mode;
    u64 size;
    u32 u, uid, gid, nlink;
    u64 mtime;
    u32 mtime_nsec, head;
};

static long load_raw(struct erofs_sb *s, u64 off, struct raw *r)
{
    struct erofs_inode_compact c;
    struct erofs_inode_extended x;
    const void *p = erofs_at(s, off, sizeof(c));
    if (!p)
        return EUCLEAN_;
    memcpy(&c, p, sizeof(c));
    if (!EROFS_I_EXTENDED(c.i_format)) {
        *r = (struct raw){.format = c.i_format, .xattr_count = c.i_xattr_icount, .mode = c.i_mode, .size = c.i_size,
                          .u = c.i_u, .uid = c.i_uid, .gid = c.i_gid, .nlink = c.i_nlink, .mtime = s->build_time,
                          .mtime_nsec = s->build_nsec, .head = sizeof(c)};
        return 0;
    }
    p = erofs_at(s, off, sizeof(x));
    if (!p)
        return EUCLEAN_;
    memcpy(&x, p, sizeof(x));
    *r = (struct raw){.format = x.i_format, .xattr_count = x.i_xattr_icount, .mode = x.i_mode, .size = x.i_size,
                      .u = x.i_u, .uid = x.i_uid, .gid = x.i_gid, .nlink = x.i_nlink, .mtime = x.i_mtime,
                      .mtime_nsec = x.i_mtime_nsec, .head = sizeof(x)};
    return 0;
}

static long set_layout(struct erofs_inode *e, const struct raw *r, u64 off)
{
    struct erofs_sb *s = erofs_sb_of(&e->i);
    u64 after = off + r->head + e->xattr_size;
    e->layout = EROFS_I_LAYOUT(r->format);
    e->data_off = (u64)r->u * EROFS_BLKSZ;
    if (r->size > 1ull << 46)
        return EUCLEAN_;
    switch (e->layout) {
    case EROFS_INODE_FLAT_PLAIN: break;
    case EROFS_INODE_FLAT_INLINE: {
        u64 tail = r->size % EROFS_BLKSZ;
        if (tail && !erofs_at(s, after, tail))
            return EUCLEAN_;
        e->tail_off = tail ? after : 0;
        break;
    }
    case EROFS_INODE_CHUNK:
        if (!S_ISREG(r->mode) || (r->u & ~0x3fu))
            return EUCLEAN_;
        e->chunk_bits = (r->u & 31) + EROFS_BLKSZ_BITS;
        e->chunk_index = r->u & 32;
        e->data_off = ALIGN_UP(after, e->chunk_index ? 8 : 4);
        return 0;
    default: return -EOPNOTSUPP; /* compressed */
    }
    u64 blocks = r->size - (e->tail_off ? r->size % EROFS_BLKSZ : 0);
    if (blocks && !erofs_at(s, e->data_off, blocks))
        return EUCLEAN_;
    return 0;
}

static long load(struct erofs_inode *e, u64 nid)
{
    struct inode *i = &e->i;
    struct erofs_sb *s = erofs_sb_of(i);
    struct raw r;
    if (nid > s->size / EROFS_SLOT_SIZE)
        return EUCLEAN_;
    u64 off = s->meta_off + nid * EROFS_SLOT_SIZE;
    long err = load_raw(s, off, &r);
    if (err)
        return err;
    if (r.xattr_count) {
        e->xattr_size = sizeof(struct erofs_xattr_ibody_header) + (u32)(r.xattr_count - 1) * 4;
        e->xattr_off = off + r.head;
        if (!erofs_at(s, e->xattr_off, e->xattr_size))
            return EUCLEAN_;
    }
    i->mode = r.mode;
    i->uid = r.uid;
    i->gid = r.gid;
    i->nlink = r.nlink;
    i->ino = nid;
    i->mtime = i->ctime = i->atime = i->btime = (struct ktime){(s64)r.mtime, r.mtime_nsec % 1000000000u};
    i->ops = &erofs_inode_ops;
    i->fops = &no_fops;
    i->flags = INODE_NO_ATIME;
    switch (r.mode & S_IFMT) {
    case S_IFCHR:
    case S_IFBLK: i->rdev = r.u; return 0;
    case S_IFIFO:
    case S_IFSOCK: return 0;
    case S_IFREG: i->fops = &erofs_file_fops; break;
    case S_IFDIR:
        i->ops = &erofs_dir_ops;
        i->fops = &erofs_dir_fops;
        break;
    case S_IFLNK:
        if (!r.size || r.size >= PATH_LEN_MAX)
            return EUCLEAN_;
        break;
    default: return EUCLEAN_;
    }
    i->size = r.size;
    i->blocks = PAGE_UP(r.size) / 512;
    err = set_layout(e, &r, off);
    if (!err && S_ISLNK(r.mode)) { /* the text in the image, if it lies in one piece */
        u64 run;
        const u8 *p = erofs_data(e, 0, &run);
        if (!IS_ERR(p) && p && run == r.size && !memchr(p, 0, run)) {
            i->link = (const char *)p;
            i->link_len = (u32)run;
        } else {
            return EUCLEAN_;
        }
    }
    return err;
}

struct inode *erofs_iget(struct super_block *sb, u64 nid)
{
    struct inode *i = inode_cache_get(sb, nid);
    if (i)
        return i;
    struct erofs_inode *e = knew(struct erofs_inode);
    if (!e)
        return ERR_PTR(-ENOMEM);
    e->i.sb = sb;
    e->i.refs = 1;
    e->nid = nid;
    long r = load(e, nid);
    if (r) {
        kfree(e);
        return ERR_PTR(r);
    }
    return inode_cache_add(&e->i, nid);
}

static void free_inode(struct inode *i)
{
    struct erofs_inode *e = erofs_of(i);
    if (e->tail_got)
        dwin_free(e->tail_window, e->tail_got);
    kfree(e);
}

static long erofs_statfs(struct super_block *sb, struct kstatfs *st)
{
    struct erofs_sb *s = sb->priv;
    st->type = EROFS_SUPER_MAGIC_V1;
    st->bsize = EROFS_BLKSZ;
    st->blocks = s->blocks;
    st->files = s->inodes;
    st->namelen = EROFS_NAME_LEN;
    return 0;
}

static const struct super_ops erofs_super_ops = {
    .statfs = erofs_statfs,
    .free_inode = free_inode,
    .put_super = super_free,
};

/* ---- super block ---- */

static long check_super(struct erofs_sb *s, const struct erofs_super_block *d, u64 size)
{
    if (d->magic != EROFS_SUPER_MAGIC_V1)
        return EUCLEAN_;
    if ((u64)d->blocks * EROFS_BLKSZ > size) /* cut off */
        return EUCLEAN_;
    if (d->blkszbits != EROFS_BLKSZ_BITS || d->dirblkbits)
        return -EOPNOTSUPP;
    if (d->feature_incompat & ~(0x1u | 0x4u | 0x8u | 0x10u | 0x20u | 0x40u)) /* ours: chunks (4), fragments never used, prefixes */
        return -EOPNOTSUPP;
    if (d->extra_devices)
        return -EOPNOTSUPP;
    s->meta_off = (u64)d->meta_blkaddr * EROFS_BLKSZ;
    s->xattr_off = (u64)d->xattr_blkaddr * EROFS_BLKSZ;
    s->build_time = d->build_time;
    s->build_nsec = d->build_time_nsec;
    s->blocks = d->blocks;
    s->inodes = d->inos;
    s->prefix_count = d->xattr_prefix_count;
    s->prefix_off = (u64)d->xattr_prefix_start * 4;
    return 0;
}

long erofs_open(const void *base, u64 size, u32 index, struct super_block **out)
{
    struct erofs_super_block d;
    struct super_block *sb = sb_alloc(&erofs_super_ops, erofs_name, MS_RDONLY);
    struct erofs_sb *s = knew(struct erofs_sb);
    long r = -ENOMEM;
    if (!sb || !s)
        goto fail;
    sb->priv = s;
    s->base = base;
    s->size = size;
    s->index = index;
    const void *p = erofs_at(s, EROFS_SUPER_OFFSET, sizeof(d));
    r = EUCLEAN_;
    if (!p)
        goto fail;
    memcpy(&d, p, sizeof(d));
    r = check_super(s, &d, size);
    if (r)
        goto fail;
    s->views = (struct view_source){.mem = base, .size = size};
    s->has_views = view_open_image(&s->views, &s->view_header) == 0;
    struct inode *root = erofs_iget(sb, d.root_nid);
    if (IS_ERR(root)) {
        r = PTR_ERR(root);
        goto fail;
    }
    if (!S_ISDIR(root->mode)) {
        iput(root);
        r = EUCLEAN_;
        goto fail;
    }
    sb->root = d_make_root(sb, root);
    if (!sb->root) {
        r = -ENOMEM;
        goto fail;
    }
    *out = sb;
    return 0;
fail:
    kfree(s);
    kfree(sb);
    return r;
}

long erofs_mount_image(u32 index, u64 size, struct super_block **out)
{
    if (index >= FD_IMAGE_MAX || size > IMAGE_STRIDE)
        return -EINVAL;
    return erofs_open((const void *)(IMAGE_BASE + index * IMAGE_STRIDE), size, index, out);
}

void erofs_map_images(void)
{
    for (int fd = FD_IMAGE0; fd <= FD_VIEWS; fd++) /* slots without a file fail and stay unmapped */
        host_mmap(CONTAINER_BASE(fd), IMAGE_STRIDE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
}
