/* EROFS directories and extended attributes.
 *
 * Directory data is a row of blocks, each with its own table of dirents; names are sorted over the whole directory, so a
 * lookup bisects first the blocks, then the entries. A cookie is block << 12 | entry index. */
#include "fs/erofs/erofs.h"

#include "base/string.h"

struct block {
    const u8 *p;
    u32 size, count;
};

struct entry {
    const char *name;
    u32 len;
    u64 nid;
    u8 type;
};

static long load_block(struct erofs_inode *e, u64 n, struct block *b)
{
    u64 run, off = n * EROFS_BLKSZ;
    b->p = erofs_data(e, off, &run);
    if (IS_ERR(b->p))
        return PTR_ERR(b->p);
    b->size = (u32)MIN(run, (u64)EROFS_BLKSZ);
    struct erofs_dirent d;
    if (!b->p || b->size < sizeof(d))
        return -EUCLEAN;
    memcpy(&d, b->p, sizeof(d));
    if (!d.nameoff || d.nameoff % sizeof(d) || d.nameoff > b->size)
        return -EUCLEAN;
    b->count = d.nameoff / sizeof(d);
    return 0;
}

static long load_entry(const struct block *b, u32 n, struct entry *e)
{
    struct erofs_dirent d, next;
    memcpy(&d, b->p + n * sizeof(d), sizeof(d));
    u32 end = b->size;
    if (n + 1 < b->count) {
        memcpy(&next, b->p + (n + 1) * sizeof(d), sizeof(d));
        end = next.nameoff;
    }
    if (d.nameoff < b->count * sizeof(d) || d.nameoff >= end || end > b->size)
        return -EUCLEAN;
    e->name = (const char *)b->p + d.nameoff;
    e->len = (u32)strnlen(e->name, end - d.nameoff);
    e->nid = d.nid;
    e->type = d.file_type;
    if (!e->len || e->len > EROFS_NAME_LEN || memchr(e->name, '/', e->len))
        return -EUCLEAN;
    return 0;
}

static int compare(const struct qstr *q, const struct entry *e)
{
    int c = memcmp(q->name, e->name, MIN(q->len, e->len));
    return c ? c : q->len < e->len ? -1 : q->len > e->len;
}

static struct inode *dir_lookup(struct inode *dir, const struct qstr *name)
{
    struct erofs_inode *e = erofs_of(dir);
    u64 lo = 0, hi = (dir->size + EROFS_BLKSZ - 1) / EROFS_BLKSZ;
    struct block b;
    struct entry x;
    long r;
    while (lo < hi) { /* the last block whose first name is not behind the one asked for */
        u64 mid = lo + (hi - lo) / 2;
        if ((r = load_block(e, mid, &b)) || (r = load_entry(&b, 0, &x)))
            return ERR_PTR(r);
        if (compare(name, &x) < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    if (!lo)
        return NULL;
    if ((r = load_block(e, lo - 1, &b)))
        return ERR_PTR(r);
    u32 first = 0, last = b.count;
    while (first < last) {
        u32 mid = first + (last - first) / 2;
        if ((r = load_entry(&b, mid, &x)))
            return ERR_PTR(r);
        int c = compare(name, &x);
        if (!c)
            return erofs_iget(dir->sb, x.nid);
        if (c < 0)
            last = mid;
        else
            first = mid + 1;
    }
    return NULL;
}

static u32 dt_type(u8 t)
{
    static const u8 map[] = {0, 8, 4, 2, 6, 1, 12, 10};
    return t < sizeof(map) ? map[t] : 0;
}

static long dir_iterate(struct file *f, struct dir_ctx *c)
{
    struct erofs_inode *e = erofs_of(f->inode);
    u64 blocks = (e->i.size + EROFS_BLKSZ - 1) / EROFS_BLKSZ;
    for (u64 n = c->pos >> 12; n < blocks; n++) {
        struct block b;
        long r = load_block(e, n, &b);
        if (r)
            return r;
        for (u32 k = (u32)(c->pos & 0xfff); k < b.count; k++) {
            struct entry x;
            r = load_entry(&b, k, &x);
            if (r)
                return r;
            u64 next = k + 1 < b.count ? n << 12 | (k + 1) : (n + 1) << 12;
            if (!c->emit(c, x.name, x.len, next, x.nid, dt_type(x.type)))
                return 0;
            c->pos = next;
        }
        c->pos = (n + 1) << 12;
    }
    return 0;
}

const struct inode_ops erofs_dir_ops = {
    .lookup = dir_lookup,
    .getxattr = erofs_getxattr,
    .listxattr = erofs_listxattr,
};

const struct file_ops erofs_dir_fops = {.iterate = dir_iterate};

/* ---- extended attributes ---- */

struct xattr {
    const char *prefix, *infix; /* standard prefix, then a long one from the image */
    u32 infix_len, name_len, value_size;
    const char *name;
    const u8 *value;
};

static const char *const prefixes[] = {
    [EROFS_XATTR_INDEX_USER] = "user.",
    [EROFS_XATTR_INDEX_POSIX_ACL_ACCESS] = "system.posix_acl_access",
    [EROFS_XATTR_INDEX_POSIX_ACL_DEFAULT] = "system.posix_acl_default",
    [EROFS_XATTR_INDEX_TRUSTED] = "trusted.",
    [EROFS_XATTR_INDEX_SECURITY] = "security.",
};

/* Decodes the entry at off; `room`: bytes it may use. Returns its padded size or an error. */
static long xattr_load(struct erofs_sb *s, u64 off, u64 room, struct xattr *x)
{
    struct erofs_xattr_entry h;
    const u8 *p = erofs_at(s, off, sizeof(h));
    if (!p || room < sizeof(h))
        return -EUCLEAN;
    memcpy(&h, p, sizeof(h));
    u64 size = sizeof(h) + h.e_name_len + h.e_value_size;
    if (size > room || !erofs_at(s, off, size))
        return -EUCLEAN;
    *x = (struct xattr){.prefix = "", .name = (const char *)p + sizeof(h), .name_len = h.e_name_len,
                        .value = p + sizeof(h) + h.e_name_len, .value_size = h.e_value_size};
    u8 index = h.e_name_index;
    if (index & 0x80) { /* long prefix n: a u16 size, the base index, the text */
        u64 at = s->prefix_off;
        index &= 0x7f;
        if (index >= s->prefix_count)
            return -EUCLEAN;
        for (u32 n = 0;; n++) {
            u16 len;
            const u8 *q = erofs_at(s, at, sizeof(len));
            if (!q)
                return -EUCLEAN;
            memcpy(&len, q, sizeof(len));
            if (!len || !(q = erofs_at(s, at + 2, len)))
                return -EUCLEAN;
            if (n == index) {
                index = q[0];
                x->infix = (const char *)q + 1;
                x->infix_len = len - 1u;
                break;
            }
            at = ALIGN_UP(at + 2 + len, 4);
        }
    }
    if (index < ARRAY_COUNT(prefixes) && prefixes[index])
        x->prefix = prefixes[index];
    else
        return -EUCLEAN;
    return (long)ALIGN_UP(size, 4);
}

static bool xattr_is(const struct xattr *x, const char *name)
{
    size_t len = strlen(name), n = strlen(x->prefix);
    if (len != n + x->infix_len + x->name_len || memcmp(name, x->prefix, n))
        return false;
    return (!x->infix_len || !memcmp(name + n, x->infix, x->infix_len)) &&
           !memcmp(name + n + x->infix_len, x->name, x->name_len);
}

/* Calls fn for each attribute until it returns non-zero. */
static long xattr_each(struct inode *i, long (*fn)(void *ctx, const struct xattr *x), void *ctx)
{
    struct erofs_inode *e = erofs_of(i);
    struct erofs_sb *s = erofs_sb_of(i);
    struct erofs_xattr_ibody_header h;
    struct xattr x;
    if (!e->xattr_size)
        return 0;
    const u8 *p = erofs_at(s, e->xattr_off, e->xattr_size);
    if (!p || e->xattr_size < sizeof(h))
        return -EUCLEAN;
    memcpy(&h, p, sizeof(h));
    u64 off = sizeof(h) + h.h_shared_count * 4u;
    if (off > e->xattr_size)
        return -EUCLEAN;
    for (u32 n = 0; n < h.h_shared_count; n++) {
        u32 id;
        memcpy(&id, p + sizeof(h) + n * 4, 4);
        long r = xattr_load(s, s->xattr_off + (u64)id * 4, s->size, &x);
        if (r < 0 || (r = fn(ctx, &x)))
            return r;
    }
    while (off + sizeof(struct erofs_xattr_entry) <= e->xattr_size) {
        long r = xattr_load(s, e->xattr_off + off, e->xattr_size - off, &x);
        if (r < 0)
            return r;
        off += (u64)r;
        if ((r = fn(ctx, &x)))
            return r;
    }
    return 0;
}

struct get_ctx {
    const char *name;
    void *buf;
    size_t size;
    long result;
};

static long get_one(void *p, const struct xattr *x)
{
    struct get_ctx *c = p;
    if (!xattr_is(x, c->name))
        return 0;
    c->result = x->value_size;
    if (c->size && c->size < x->value_size)
        c->result = -ERANGE;
    else if (c->size)
        memcpy(c->buf, x->value, x->value_size);
    return 1;
}

long erofs_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
    struct get_ctx c = {name, buf, size, -ENODATA};
    long r = xattr_each(i, get_one, &c);
    return r < 0 ? r : c.result;
}

struct list_ctx {
    char *buf;
    size_t size, used;
};

static long list_one(void *p, const struct xattr *x)
{
    struct list_ctx *c = p;
    size_t n = strlen(x->prefix), len = n + x->infix_len + x->name_len + 1;
    if (!strncmp(x->prefix, "trusted.", 8) && !has_cap(CAP_SYS_ADMIN))
        return 0;
    if (c->size && c->used + len <= c->size) {
        char *at = c->buf + c->used;
        memcpy(at, x->prefix, n);
        if (x->infix_len)
            memcpy(at + n, x->infix, x->infix_len);
        memcpy(at + n + x->infix_len, x->name, x->name_len);
        at[len - 1] = 0;
    }
    c->used += len;
    return 0;
}

long erofs_listxattr(struct inode *i, char *buf, size_t size)
{
    struct list_ctx c = {buf, size, 0};
    long r = xattr_each(i, list_one, &c);
    if (r < 0)
        return r;
    return size && c.used > size ? -ERANGE : (long)c.used;
}
