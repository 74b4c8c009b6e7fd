/* Copy-up: the upper inode that takes a lower one's place, with its data, attributes and extended attributes; parents
 * first. It is filled before it gets its name, so nobody sees half of it. ovl_sb.lock is held throughout. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "fs/overlay/overlay.h"
#include "fs/tmpfs/tmpfs.h"

#define COPY_CHUNK 65536u

static bool all_zero(const char *p, u64 size)
{
    return !size || (!p[0] && !memcmp(p, p + 1, size - 1));
}

static long copy_data(struct inode *from, struct inode *to, u64 size)
{
    char *buf = kmalloc(COPY_CHUNK);
    struct file *f = buf ? file_open_inode(from, O_RDONLY) : ERR_PTR(-ENOMEM);
    long r = 0;
    if (IS_ERR(f)) {
        kfree(buf);
        return PTR_ERR(f);
    }
    u64 off = 0, end = MIN(size, from->size);
    while (off < end) {
        r = file_read_kernel(f, buf, MIN((u64)COPY_CHUNK, end - off), off);
        if (r <= 0)
            break;
        long w = all_zero(buf, (u64)r) ? 0 : tmp_write_kernel(to, buf, (u64)r, off);
        if (w) {
            r = w;
            break;
        }
        off += (u64)r;
    }
    file_put(f);
    kfree(buf);
    if (r < 0)
        return r;
    mutex_lock(&to->lock);
    r = tmp_truncate(tmp_of(to), off);
    mutex_unlock(&to->lock);
    return r;
}

static long copy_xattrs(struct inode *from, struct inode *to)
{
    if (!from->ops->listxattr)
        return 0;
    long len = from->ops->listxattr(from, NULL, 0), r = 0;
    if (len <= 0)
        return 0;
    char *names = kmalloc((size_t)len), *val = kmalloc(65536);
    if (!names || !val)
        r = -ENOMEM;
    else
        len = from->ops->listxattr(from, names, (size_t)len);
    for (char *n = names; !r && n < names + len; n += strlen(n) + 1) {
        if (!strncmp(n, "trusted.overlay.", 16))
            continue;
        long size = from->ops->getxattr(from, n, val, 65536);
        if (size >= 0)
            r = to->ops->setxattr(to, n, val, (size_t)size, 0);
    }
    kfree(names);
    kfree(val);
    return r;
}

static void copy_attr(struct ovl_inode *o, struct inode *from, struct inode *to)
{
    to->mode = from->mode;
    to->uid = from->uid;
    to->gid = from->gid;
    to->atime = from->atime;
    to->mtime = from->mtime;
    to->ctime = from->ctime;
    to->btime = from->btime;
    to->ino = from->ino | (u64)o->layer[0] << 48;
}

/* Gives a nameless upper inode its name. */
static long place(struct ovl_inode *o, struct inode *up)
{
    struct inode *dir = o->parent->upper;
    struct qstr q = qstr_of(o->name);
    mutex_lock(&dir->lock);
    struct ktime m = dir->mtime, c = dir->ctime;
    long r = dir->ops->link(dir, &q, up);
    dir->mtime = m; /* the overlay's directory did not change */
    dir->ctime = c;
    mutex_unlock(&dir->lock);
    return r;
}

static long copy_dir(struct ovl_inode *o)
{
    struct inode *dir = o->parent->upper, *from = o->lower[0];
    struct qstr q = qstr_of(o->name);
    mutex_lock(&dir->lock);
    struct ktime m = dir->mtime, c = dir->ctime;
    struct inode *up = dir->ops->create(dir, &q, from->mode, 0, NULL);
    dir->mtime = m;
    dir->ctime = c;
    mutex_unlock(&dir->lock);
    if (IS_ERR(up))
        return PTR_ERR(up);
    copy_attr(o, from, up);
    long r = copy_xattrs(from, up);
    inode_cache_rekey(&o->i, (u64)up);
    atomic_store(&o->upper, up);
    return r;
}

long ovl_copy_up(struct ovl_inode *o, u64 size)
{
    /* Parents from the top down, without recursion. */
    while (!o->upper) {
        struct ovl_inode *x = o;
        while (!x->gone && x->parent && !x->parent->upper)
            x = x->parent;
        struct inode *from = x->lower[0];
        long r;
        if (S_ISDIR(from->mode)) {
            r = x->gone ? -ENOENT : copy_dir(x);
            if (r)
                return r;
            continue;
        }
        struct inode *up = tmp_new(ovl_sb_of(&x->i)->upper, NULL, from->mode, from->rdev, "");
        if (IS_ERR(up))
            return PTR_ERR(up);
        up->nlink = 0;
        if (S_ISLNK(from->mode)) { /* the text: a fresh node made with it */
            char *text = kmemdup_str(x->i.link ? x->i.link : "", x->i.link_len);
            iput(up);
            up = text ? tmp_new(ovl_sb_of(&x->i)->upper, NULL, from->mode, 0, text) : ERR_PTR(-ENOMEM);
            kfree(text);
            if (IS_ERR(up))
                return PTR_ERR(up);
            up->nlink = 0;
        }
        r = S_ISREG(from->mode) ? copy_data(from, up, size) : 0;
        copy_attr(x, from, up);
        if (!r)
            r = copy_xattrs(from, up);
        up->ctime = from->ctime;
        if (!r && !x->gone)
            r = place(x, up);
        if (r) {
            iput(up);
            return r;
        }
        inode_cache_rekey(&x->i, (u64)up);
        atomic_store(&x->upper, up);
        ovl_sync_attr(x);
    }
    return 0;
}
