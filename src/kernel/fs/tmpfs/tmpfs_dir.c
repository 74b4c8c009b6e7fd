/* tmpfs directories: a hash table of names for lookup and a vector in order of creation for reading. Cookies only
 * grow, so a reader's position stays valid whatever is added or removed; entries removed leave gaps that are squeezed out when
 * half of the vector is empty. Each entry holds a reference on its inode. All under the directory's i.lock. */
#include "fs/tmpfs/tmpfs.h"

#include "base/string.h"
#include "core/kmalloc.h"

#define FIRST_COOKIE 3 /* 0 ".", 1 "..", 2 the first entry's predecessor */

static struct tmp_entry **slot(struct tmp_inode *d, const struct qstr *q)
{
    if (!d->bucket_count)
        return NULL;
    struct tmp_entry **p = &d->buckets[q->hash & (d->bucket_count - 1)];
    while (*p && ((*p)->hash != q->hash || (*p)->len != q->len || memcmp((*p)->name, q->name, q->len)))
        p = &(*p)->next;
    return p;
}

static struct tmp_entry *find(struct tmp_inode *d, const struct qstr *q)
{
    struct tmp_entry **p = slot(d, q);
    return p ? *p : NULL;
}

static long grow(struct tmp_inode *d)
{
    if (d->count >= d->bucket_count) {
        u32 n = d->bucket_count ? d->bucket_count * 4 : 8;
        struct tmp_entry **b = kzalloc(n * sizeof(*b));
        if (!b)
            return -ENOMEM;
        for (u32 x = 0; x < d->bucket_count; x++) {
            for (struct tmp_entry *e = d->buckets[x], *next; e; e = next) {
                next = e->next;
                e->next = b[e->hash & (n - 1)];
                b[e->hash & (n - 1)] = e;
            }
        }
        kfree(d->buckets);
        d->buckets = b;
        d->bucket_count = n;
    }
    if (d->order_used == d->order_cap) {
        if (d->order_cap && d->count < d->order_cap / 2) { /* squeeze */
            u32 to = 0;
            for (u32 x = 0; x < d->order_used; x++)
                if (d->order[x])
                    d->order[to++] = d->order[x];
            d->order_used = to;
        } else {
            u32 cap = d->order_cap ? d->order_cap * 2 : 8;
            struct tmp_entry **o = krealloc(d->order, d->order_cap * sizeof(*o), cap * sizeof(*o));
            if (!o)
                return -ENOMEM;
            d->order = o;
            d->order_cap = cap;
        }
    }
    return 0;
}

/* Enters an entry made beforehand; room was made by grow(). */
static void enter(struct tmp_inode *d, struct tmp_entry *e)
{
    struct tmp_entry **b = &d->buckets[e->hash & (d->bucket_count - 1)];
    if (d->next_cookie < FIRST_COOKIE)
        d->next_cookie = FIRST_COOKIE;
    e->cookie = d->next_cookie++;
    e->next = *b;
    *b = e;
    d->order[d->order_used++] = e;
    d->count++;
    d->i.size = d->count * 20 + 40;
}

static u32 order_index(const struct tmp_inode *d, u64 cookie)
{
    /* Gaps hold no cookie: step over them while bisecting. First index with cookie >= the one asked for. */
    u32 lo = 0, hi = d->order_used;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2, m = mid;
        while (m < hi && !d->order[m])
            m++;
        if (m == hi)
            hi = mid;
        else if (d->order[m]->cookie < cookie)
            lo = m + 1;
        else
            hi = mid;
    }
    while (lo < d->order_used && (!d->order[lo] || d->order[lo]->cookie < cookie))
        lo++;
    return lo;
}

static void leave(struct tmp_inode *d, struct tmp_entry *e)
{
    struct qstr q = {e->name, e->len, e->hash};
    struct tmp_entry **p = slot(d, &q);
    *p = e->next;
    d->order[order_index(d, e->cookie)] = NULL;
    d->count--;
    d->i.size = d->count * 20 + 40;
    if (!d->count)
        d->order_used = 0;
}

static struct tmp_entry *entry_new(const struct qstr *q, struct inode *i)
{
    struct tmp_entry *e = kmalloc(sizeof(*e) + q->len + 1);
    if (!e)
        return NULL;
    e->inode = i;
    e->hash = q->hash;
    e->len = q->len;
    memcpy(e->name, q->name, q->len);
    e->name[q->len] = 0;
    return e;
}

static struct inode *dir_lookup(struct inode *dir, const struct qstr *name)
{
    struct tmp_entry *e = find(tmp_of(dir), name);
    if (!e)
        return NULL;
    iget(e->inode);
    return e->inode;
}

/* Takes over the reference on i. */
static long add(struct tmp_inode *d, const struct qstr *name, struct inode *i)
{
    struct tmp_entry *e = entry_new(name, i);
    long r = e ? grow(d) : -ENOMEM;
    if (r) {
        kfree(e);
        return r;
    }
    enter(d, e);
    if (S_ISDIR(i->mode)) {
        d->i.nlink++;
        tmp_of(i)->parent = d;
    }
    touch_mtime(&d->i);
    return 0;
}

static struct inode *dir_create(struct inode *dir, const struct qstr *name, u32 mode, u64 rdev, const char *target)
{
    struct inode *i = tmp_new(dir->sb, dir, mode, rdev, target);
    if (IS_ERR(i))
        return i;
    long r = add(tmp_of(dir), name, i);
    if (r) {
        i->nlink = 0;
        iput(i);
        return ERR_PTR(r);
    }
    iget(i);
    return i;
}

static long dir_link(struct inode *dir, const struct qstr *name, struct inode *target)
{
    if (target->flags & INODE_UNLINKED)
        return -ENOENT;
    long r = add(tmp_of(dir), name, target);
    if (r)
        return r;
    iget(target);
    target->nlink++;
    target->ctime = now_ktime();
    return 0;
}

static void remove(struct tmp_inode *d, const struct qstr *name)
{
    struct tmp_entry *e = find(d, name);
    leave(d, e);
    iput(e->inode); /* the caller holds another reference */
    kfree(e);
    touch_mtime(&d->i);
}

static long dir_unlink(struct inode *dir, const struct qstr *name, struct inode *target)
{
    if (!find(tmp_of(dir), name))
        return -ENOENT;
    target->ctime = now_ktime();
    if (--target->nlink == 0)
        target->flags |= INODE_UNLINKED;
    remove(tmp_of(dir), name);
    return 0;
}

static long dir_rmdir(struct inode *dir, const struct qstr *name, struct inode *target)
{
    if (tmp_of(target)->count)
        return -ENOTEMPTY;
    target->nlink = 0;
    target->ctime = now_ktime();
    dir->nlink--;
    remove(tmp_of(dir), name);
    return 0;
}

static void reparent(struct inode *i, struct inode *from, struct inode *to)
{
    i->ctime = now_ktime();
    if (!S_ISDIR(i->mode) || from == to)
        return;
    from->nlink--;
    to->nlink++;
    tmp_of(i)->parent = tmp_of(to);
}

/* The old name goes, or shows the whiteout. */
static void give_up(struct tmp_inode *from, struct tmp_entry *e, struct inode *whiteout)
{
    if (whiteout) {
        e->inode = whiteout;
        return;
    }
    leave(from, e);
    kfree(e);
}

static void drop_whiteout(struct inode *w)
{
    if (w) {
        w->nlink = 0;
        iput(w);
    }
}

static long dir_rename(struct inode *old_dir, const struct qstr *old_name, struct inode *node, struct inode *new_dir,
                       const struct qstr *new_name, struct inode *replaced, u32 flags)
{
    struct tmp_inode *from = tmp_of(old_dir), *to = tmp_of(new_dir);
    struct tmp_entry *e = find(from, old_name), *x = replaced ? find(to, new_name) : NULL;
    struct inode *whiteout = NULL; /* takes the old name's place */
    if (!e || (replaced && !x))
        return -ENOENT;
    if (flags & RENAME_WHITEOUT) {
        whiteout = tmp_new(old_dir->sb, old_dir, S_IFCHR, 0, NULL);
        if (IS_ERR(whiteout))
            return PTR_ERR(whiteout);
    }
    if (flags & RENAME_EXCHANGE) {
        e->inode = replaced;
        x->inode = node;
        reparent(node, old_dir, new_dir);
        reparent(replaced, new_dir, old_dir);
    } else if (replaced) {
        if (S_ISDIR(replaced->mode)) {
            if (tmp_of(replaced)->count) {
                drop_whiteout(whiteout);
                return -ENOTEMPTY;
            }
            replaced->nlink = 0;
            new_dir->nlink--;
        } else if (--replaced->nlink == 0) {
            replaced->flags |= INODE_UNLINKED;
        }
        replaced->ctime = now_ktime();
        give_up(from, e, whiteout);
        x->inode = node;
        reparent(node, old_dir, new_dir);
        iput(replaced); /* the entry's; the caller holds one */
    } else {
        struct tmp_entry *n = entry_new(new_name, node);
        long r = n ? grow(to) : -ENOMEM;
        if (r) {
            drop_whiteout(whiteout);
            kfree(n);
            return r;
        }
        give_up(from, e, whiteout);
        enter(to, n);
        reparent(node, old_dir, new_dir);
    }
    touch_mtime(old_dir);
    if (new_dir != old_dir)
        touch_mtime(new_dir);
    return 0;
}

static long dir_iterate(struct file *f, struct dir_ctx *c)
{
    struct tmp_inode *d = tmp_of(f->inode);
    if (c->pos == 0) {
        if (!c->emit(c, ".", 1, 1, d->i.ino, S_IFDIR >> 12))
            return 0;
        c->pos = 1;
    }
    if (c->pos == 1) {
        if (!c->emit(c, "..", 2, 2, d->parent ? d->parent->i.ino : d->i.ino, S_IFDIR >> 12))
            return 0;
        c->pos = 2;
    }
    for (u32 n = order_index(d, c->pos); n < d->order_used; n++) {
        struct tmp_entry *e = d->order[n];
        if (!e)
            continue;
        if (!c->emit(c, e->name, e->len, e->cookie + 1, e->inode->ino, (e->inode->mode & S_IFMT) >> 12))
            return 0;
        c->pos = e->cookie + 1;
    }
    touch_atime(f);
    return 0;
}

void tmp_dir_free(struct tmp_inode *d)
{
    for (u32 n = 0; n < d->order_used; n++) {
        if (d->order[n]) {
            if (S_ISDIR(d->order[n]->inode->mode))
                tmp_of(d->order[n]->inode)->parent = NULL;
            iput(d->order[n]->inode);
            kfree(d->order[n]);
        }
    }
    kfree(d->order);
    kfree(d->buckets);
}

static long dir_tmpfile(struct inode *dir, u32 mode, struct inode **out)
{
    struct inode *i = tmp_new(dir->sb, dir, mode, 0, NULL);
    if (IS_ERR(i))
        return PTR_ERR(i);
    i->nlink = 0;
    *out = i;
    return 0;
}

extern long tmp_setattr(struct inode *i, const struct iattr *a);
extern long tmp_getxattr(struct inode *i, const char *name, void *buf, size_t size);
extern long tmp_setxattr(struct inode *i, const char *name, const void *buf, size_t size, int flags);
extern long tmp_listxattr(struct inode *i, char *buf, size_t size);
extern long tmp_getattr(struct inode *i, struct kstat *st);

const struct inode_ops tmp_dir_ops = {
    .lookup = dir_lookup,
    .create = dir_create,
    .link = dir_link,
    .unlink = dir_unlink,
    .rmdir = dir_rmdir,
    .rename = dir_rename,
    .setattr = tmp_setattr,
    .getxattr = tmp_getxattr,
    .setxattr = tmp_setxattr,
    .listxattr = tmp_listxattr,
    .tmpfile = dir_tmpfile,
};

const struct file_ops tmp_dir_fops = {.iterate = dir_iterate};
