/* overlay directories: merged lookup and listing, changes of names. See overlay.c; rename of a directory that has lower
 * parts gives EXDEV, as Linux does by default. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "fs/overlay/overlay.h"

/* ---- lookup ---- */

/* In one layer's directory: referenced, NULL or an error. */
static struct inode *layer_lookup(struct inode *dir, const struct qstr *name)
{
    mutex_lock(&dir->lock);
    struct inode *i = dir->ops->lookup(dir, name);
    mutex_unlock(&dir->lock);
    return i;
}

static bool is_opaque(struct inode *dir)
{
    char c = 0;
    if (dir->flags & INODE_OPAQUE)
        return true;
    return dir->ops->getxattr && dir->ops->getxattr(dir, "trusted.overlay.opaque", &c, 1) == 1 && c == 'y';
}

static struct inode *ovl_lookup(struct inode *dir, const struct qstr *name)
{
    struct ovl_inode *d = ovl_of(dir);
    struct inode *lower[OVL_LAYERS_MAX], *up = ovl_upper(d), *u = NULL;
    u8 layer[OVL_LAYERS_MAX];
    u32 count = 0;
    bool more = true;
    if (up) {
        u = layer_lookup(up, name);
        if (IS_ERR(u))
            return u;
        if (u && ovl_is_whiteout(u)) {
            iput(u);
            return NULL;
        }
        more = !u || (S_ISDIR(u->mode) && !is_opaque(u));
    }
    for (u32 n = 0; more && n < d->lower_count; n++) {
        struct inode *l = layer_lookup(d->lower[n], name);
        if (IS_ERR(l)) {
            if (u)
                iput(u);
            while (count)
                iput(lower[--count]);
            return l;
        }
        if (!l)
            continue;
        if (ovl_is_whiteout(l) || (!S_ISDIR(l->mode) && (u || count))) {
            iput(l);
            break;
        }
        more = S_ISDIR(l->mode) && (n + 1 == d->lower_count || !is_opaque(l));
        lower[count] = l;
        layer[count++] = d->layer[n];
    }
    if (!u && !count)
        return NULL;
    return ovl_get(dir->sb, d, name, u, lower, layer, count);
}

static bool ovl_revalidate(struct inode *dir, const struct qstr *name, struct inode *i)
{
    struct ovl_inode *d = ovl_of(dir), *o = i ? ovl_of(i) : NULL;
    if (o && (ovl_upper(o) && !o->lower_count))
        return true;
    for (u32 n = 0; n < d->lower_count; n++) {
        struct inode *l = d->lower[n], *child = NULL;
        if (!l->ops->revalidate)
            continue;
        if (o && o->lower_count && o->layer[0] == d->layer[n])
            child = o->lower[0];
        if (o && !child)
            continue;
        if (o && ovl_upper(o) && !S_ISDIR(i->mode))
            continue;
        if (!o && ovl_upper(d)) { /* negative because of a whiteout? then the lower tree does not matter */
            struct inode *u = layer_lookup(ovl_upper(d), name);
            if (u && !IS_ERR(u)) {
                iput(u);
                continue;
            }
        }
        if (!l->ops->revalidate(l, name, child))
            return false;
        if (child)
            ovl_sync_attr(o);
    }
    return true;
}

static bool lower_has(struct ovl_inode *d, const struct qstr *name)
{
    for (u32 n = 0; n < d->lower_count; n++) {
        struct inode *l = layer_lookup(d->lower[n], name);
        if (!l || IS_ERR(l))
            continue;
        bool white = ovl_is_whiteout(l);
        iput(l);
        return !white;
    }
    return false;
}

/* ---- changes; ovl_sb.lock held ---- */

static long unlink_upper(struct inode *up, const struct qstr *name, struct inode *x)
{
    mutex_lock(&up->lock);
    mutex_lock(&x->lock);
    long r = S_ISDIR(x->mode) ? up->ops->rmdir(up, name, x) : up->ops->unlink(up, name, x);
    mutex_unlock(&x->lock);
    mutex_unlock(&up->lock);
    return r;
}

/* Takes a whiteout away. 0 whether there was one or not. */
static long clear_whiteout(struct inode *up, const struct qstr *name)
{
    struct inode *x = layer_lookup(up, name);
    long r = 0;
    if (IS_ERR(x))
        return PTR_ERR(x);
    if (x) {
        if (ovl_is_whiteout(x))
            r = unlink_upper(up, name, x);
        iput(x);
    }
    return r;
}

static long make_whiteout(struct inode *up, const struct qstr *name)
{
    mutex_lock(&up->lock);
    struct inode *w = up->ops->create(up, name, S_IFCHR, 0, NULL);
    mutex_unlock(&up->lock);
    if (IS_ERR(w))
        return PTR_ERR(w);
    iput(w);
    return 0;
}

/* Whiteouts left in an upper directory that is about to be removed. */
struct clear_ctx {
    struct dir_ctx c;
    char name[NAME_LEN_MAX + 1];
    u32 len;
};

static bool clear_emit(struct dir_ctx *c, const char *name, u32 len, u64 next, u64 ino, u32 type)
{
    struct clear_ctx *x = container_of(c, struct clear_ctx, c);
    (void)next;
    (void)ino;
    if (type != S_IFCHR >> 12)
        return true;
    memcpy(x->name, name, len);
    x->len = len;
    return false;
}

static long clear_all_whiteouts(struct inode *up)
{
    struct file *f = file_open_inode(up, O_RDONLY);
    if (IS_ERR(f))
        return PTR_ERR(f);
    long r = 0;
    for (;;) {
        struct clear_ctx x = {.c = {.emit = clear_emit}};
        mutex_lock(&up->lock);
        up->fops->iterate(f, &x.c);
        mutex_unlock(&up->lock);
        if (!x.len)
            break;
        struct qstr q = qstr_make(x.name, x.len);
        r = clear_whiteout(up, &q);
        if (r)
            break;
    }
    file_put(f);
    return r;
}

static void dir_changed(struct ovl_inode *d)
{
    ovl_sync_attr(d);
}

static struct inode *ovl_create(struct inode *dir, const struct qstr *name, u32 mode, u64 rdev, const char *target)
{
    struct ovl_inode *d = ovl_of(dir);
    struct ovl_sb *s = ovl_sb_of(dir);
    struct inode *i = NULL;
    if (S_ISCHR(mode) && !rdev)
        return ERR_PTR(-EPERM); /* would be a whiteout */
    mutex_lock(&s->lock);
    long r = ovl_copy_up(d, 0);
    if (!r)
        r = clear_whiteout(d->upper, name);
    if (!r) {
        mutex_lock(&d->upper->lock);
        i = d->upper->ops->create(d->upper, name, mode, rdev, target);
        mutex_unlock(&d->upper->lock);
        if (IS_ERR(i)) {
            r = PTR_ERR(i);
            if (lower_has(d, name))
                make_whiteout(d->upper, name);
        } else if (S_ISDIR(mode)) {
            i->flags |= INODE_OPAQUE;
        }
    }
    if (!r) {
        i = ovl_get(dir->sb, d, name, i, NULL, NULL, 0);
        if (!IS_ERR(i) && S_ISSOCK(mode)) {
            ovl_of(i)->pinned = true;
            iget(i);
        }
        dir_changed(d);
    }
    mutex_unlock(&s->lock);
    return r ? ERR_PTR(r) : i;
}

static long ovl_link(struct inode *dir, const struct qstr *name, struct inode *target)
{
    struct ovl_inode *d = ovl_of(dir), *o = ovl_of(target);
    struct ovl_sb *s = ovl_sb_of(dir);
    mutex_lock(&s->lock);
    long r = o->gone || target->flags & INODE_UNLINKED ? -ENOENT : ovl_copy_up(d, 0);
    if (!r)
        r = ovl_copy_up(o, ~0ull);
    if (!r)
        r = clear_whiteout(d->upper, name);
    if (!r) {
        mutex_lock(&d->upper->lock);
        mutex_lock(&o->upper->lock);
        r = d->upper->ops->link(d->upper, name, o->upper);
        mutex_unlock(&o->upper->lock);
        mutex_unlock(&d->upper->lock);
    }
    if (!r) {
        ovl_sync_attr(o);
        dir_changed(d);
    }
    mutex_unlock(&s->lock);
    return r;
}

/* o lost its last or one of its names. */
static void forget(struct ovl_inode *o)
{
    if (o->upper) {
        o->i.nlink = o->upper->nlink;
    } else if (o->i.nlink) {
        o->i.nlink--;
    }
    if (S_ISDIR(o->i.mode))
        o->i.nlink = 0;
    o->i.ctime = now_ktime();
    if (!o->upper || !o->i.nlink)
        o->gone = true;
    if (o->i.nlink == 0) {
        o->i.flags |= INODE_UNLINKED;
        if (o->pinned) {
            o->pinned = false;
            iput(&o->i); /* the caller holds another */
        }
    }
}

static long ovl_remove(struct inode *dir, const struct qstr *name, struct inode *target)
{
    struct ovl_inode *d = ovl_of(dir), *o = ovl_of(target);
    struct ovl_sb *s = ovl_sb_of(dir);
    if (S_ISDIR(target->mode) && !ovl_dir_empty(o))
        return -ENOTEMPTY;
    mutex_lock(&s->lock);
    bool below = lower_has(d, name);
    long r = ovl_copy_up(d, 0);
    if (!r && o->upper) {
        if (S_ISDIR(target->mode))
            r = clear_all_whiteouts(o->upper);
        struct inode *x = r ? NULL : layer_lookup(d->upper, name);
        if (x && !IS_ERR(x)) {
            r = unlink_upper(d->upper, name, x);
            iput(x);
        }
    }
    if (!r && below)
        r = make_whiteout(d->upper, name);
    if (!r) {
        forget(o);
        dir_changed(d);
    }
    mutex_unlock(&s->lock);
    return r;
}

static void move_to(struct ovl_inode *o, struct ovl_inode *parent, const struct qstr *name)
{
    char *text = kmemdup_str(name->name, name->len);
    if (!text)
        return; /* it is in the upper tree already: place and name are not needed again */
    kfree(o->name);
    o->name = text;
    iget(&parent->i);
    struct ovl_inode *was = o->parent;
    o->parent = parent;
    if (was)
        iput(&was->i);
}

static long rename_upper(struct ovl_inode *from, const struct qstr *old_name, struct ovl_inode *o, struct ovl_inode *to,
                         const struct qstr *new_name, struct ovl_inode *replaced, u32 flags)
{
    struct inode *a = from->upper, *b = to->upper, *x = NULL;
    long r = 0;
    if (replaced && S_ISDIR(replaced->i.mode) && !(flags & RENAME_EXCHANGE) && replaced->upper)
        r = clear_all_whiteouts(replaced->upper);
    if (!r) {
        x = layer_lookup(b, new_name);
        if (IS_ERR(x))
            return PTR_ERR(x);
    }
    if (!r && x && ovl_is_whiteout(x)) {
        r = unlink_upper(b, new_name, x);
        iput(x);
        x = NULL;
    }
    if (!r) {
        struct inode *first = a < b ? a : b, *second = a < b ? b : a;
        mutex_lock(&first->lock);
        if (second != first)
            mutex_lock(&second->lock);
        r = a->ops->rename(a, old_name, o->upper, b, new_name, x, flags & RENAME_EXCHANGE);
        if (second != first)
            mutex_unlock(&second->lock);
        mutex_unlock(&first->lock);
    }
    if (x)
        iput(x);
    return r;
}

static long ovl_rename(struct inode *old_dir, const struct qstr *old_name, struct inode *node, struct inode *new_dir,
                       const struct qstr *new_name, struct inode *replaced, u32 flags)
{
    struct ovl_inode *from = ovl_of(old_dir), *to = ovl_of(new_dir), *o = ovl_of(node);
    struct ovl_inode *x = replaced ? ovl_of(replaced) : NULL;
    struct ovl_sb *s = ovl_sb_of(old_dir);
    bool exchange = flags & RENAME_EXCHANGE;
    if (flags & RENAME_WHITEOUT)
        return -EINVAL;
    if (S_ISDIR(node->mode) && o->lower_count)
        return -EXDEV;
    if (exchange && S_ISDIR(replaced->mode) && x->lower_count)
        return -EXDEV;
    if (replaced && !exchange && S_ISDIR(replaced->mode) && !ovl_dir_empty(x))
        return -ENOTEMPTY;
    mutex_lock(&s->lock);
    long r = ovl_copy_up(from, 0);
    if (!r)
        r = ovl_copy_up(to, 0);
    if (!r)
        r = ovl_copy_up(o, ~0ull);
    if (!r && exchange)
        r = ovl_copy_up(x, ~0ull);
    if (!r)
        r = rename_upper(from, old_name, o, to, new_name, x, flags);
    if (!r) {
        if (!exchange && lower_has(from, old_name))
            r = make_whiteout(from->upper, old_name);
        move_to(o, to, new_name);
        if (exchange)
            move_to(x, from, old_name);
        else if (x)
            forget(x);
        ovl_sync_attr(o);
        dir_changed(from);
        dir_changed(to);
    }
    mutex_unlock(&s->lock);
    return r;
}

static long ovl_tmpfile(struct inode *dir, u32 mode, struct inode **out)
{
    struct ovl_inode *d = ovl_of(dir);
    struct ovl_sb *s = ovl_sb_of(dir);
    struct qstr q = qstr_make("#", 1);
    struct inode *up = NULL;
    mutex_lock(&s->lock);
    long r = ovl_copy_up(d, 0);
    mutex_unlock(&s->lock);
    if (!r)
        r = d->upper->ops->tmpfile(d->upper, mode, &up);
    if (r)
        return r;
    *out = ovl_get(dir->sb, d, &q, up, NULL, NULL, 0);
    return IS_ERR(*out) ? PTR_ERR(*out) : 0;
}

/* ---- listing ---- */

struct ovl_entry {
    u64 ino;
    u32 name_off;
    u8 len, type;
    bool white;
};

struct ovl_list {
    struct dir_ctx c;
    struct file *pass; /* a directory of one layer: its own listing */
    struct ovl_entry *e;
    u32 count, cap;
    char *names;
    u32 names_used, names_cap;
    u32 *hash; /* index + 1; size a power of two */
    u32 hash_size;
    u8 layer;
    long error;
};

static long list_room(struct ovl_list *l, u32 len)
{
    if (l->count == l->cap) {
        u32 cap = l->cap ? l->cap * 2 : 32;
        struct ovl_entry *e = krealloc(l->e, l->cap * sizeof(*e), cap * sizeof(*e));
        if (!e)
            return -ENOMEM;
        l->e = e;
        l->cap = cap;
    }
    if (l->names_used + len > l->names_cap) {
        u32 cap = l->names_cap ? l->names_cap * 2 : 1024;
        char *n = krealloc(l->names, l->names_cap, cap);
        if (!n)
            return -ENOMEM;
        l->names = n;
        l->names_cap = cap;
    }
    if (l->count * 2 >= l->hash_size) {
        u32 size = l->hash_size ? l->hash_size * 4 : 128;
        u32 *h = kzalloc(size * sizeof(*h));
        if (!h)
            return -ENOMEM;
        for (u32 n = 0; n < l->count; n++) {
            u32 at = name_hash(l->names + l->e[n].name_off, l->e[n].len) & (size - 1);
            while (h[at])
                at = (at + 1) & (size - 1);
            h[at] = n + 1;
        }
        kfree(l->hash);
        l->hash = h;
        l->hash_size = size;
    }
    return 0;
}

static bool merge_emit(struct dir_ctx *c, const char *name, u32 len, u64 next, u64 ino, u32 type)
{
    struct ovl_list *l = container_of(c, struct ovl_list, c);
    (void)next;
    if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.') || len > NAME_LEN_MAX)
        return true;
    l->error = list_room(l, len);
    if (l->error)
        return false;
    u32 at = name_hash(name, len) & (l->hash_size - 1);
    for (; l->hash[at]; at = (at + 1) & (l->hash_size - 1)) {
        struct ovl_entry *e = &l->e[l->hash[at] - 1];
        if (e->len == len && !memcmp(l->names + e->name_off, name, len))
            return true; /* a layer above has it */
    }
    l->hash[at] = l->count + 1;
    l->e[l->count++] = (struct ovl_entry){ino | (u64)l->layer << 48, l->names_used, (u8)len, (u8)type, type == S_IFCHR >> 12};
    memcpy(l->names + l->names_used, name, len);
    l->names_used += len;
    return true;
}

static long merge_layer(struct ovl_list *l, struct inode *dir)
{
    struct file *f = file_open_inode(dir, O_RDONLY);
    if (IS_ERR(f))
        return PTR_ERR(f);
    l->c = (struct dir_ctx){.emit = merge_emit};
    mutex_lock(&dir->lock);
    long r = dir->fops->iterate(f, &l->c);
    mutex_unlock(&dir->lock);
    file_put(f);
    return r < 0 ? r : l->error;
}

static void list_free(struct ovl_list *l)
{
    if (l->pass)
        file_put(l->pass);
    kfree(l->e);
    kfree(l->names);
    kfree(l->hash);
    kfree(l);
}

/* Character devices of the merged list: whiteout or device? */
static void find_whiteouts(struct ovl_inode *d, struct ovl_list *l)
{
    for (u32 n = 0; n < l->count; n++) {
        if (!l->e[n].white)
            continue;
        struct qstr q = qstr_make(l->names + l->e[n].name_off, l->e[n].len);
        struct inode *i = ovl_lookup(&d->i, &q);
        l->e[n].white = !i;
        if (i && !IS_ERR(i))
            iput(i);
    }
}

static long list_build(struct ovl_inode *d, struct ovl_list **out)
{
    struct ovl_list *l = knew(struct ovl_list);
    struct inode *u = ovl_upper(d);
    if (!l)
        return -ENOMEM;
    if ((u ? 1 : 0) + d->lower_count == 1) {
        l->pass = file_open_inode(u ? u : d->lower[0], O_RDONLY);
        long r = IS_ERR(l->pass) ? PTR_ERR(l->pass) : 0;
        if (r) {
            l->pass = NULL;
            list_free(l);
            return r;
        }
        *out = l;
        return 0;
    }
    long r = u ? merge_layer(l, u) : 0;
    for (u32 n = 0; !r && n < d->lower_count; n++) {
        l->layer = d->layer[n];
        r = merge_layer(l, d->lower[n]);
    }
    if (r) {
        list_free(l);
        return r;
    }
    find_whiteouts(d, l);
    *out = l;
    return 0;
}

static long pass_through(struct ovl_list *l, struct dir_ctx *c)
{
    struct inode *real = l->pass->inode;
    mutex_lock(&real->lock);
    long r = real->fops->iterate(l->pass, c);
    mutex_unlock(&real->lock);
    return r;
}

static long ovl_iterate(struct file *f, struct dir_ctx *c)
{
    struct ovl_inode *d = ovl_of(f->inode);
    struct ovl_list *l = f->priv;
    if (!l || !c->pos) {
        long r = list_build(d, &l);
        if (r)
            return r;
        if (f->priv)
            list_free(f->priv);
        f->priv = l;
    }
    if (l->pass)
        return pass_through(l, c);
    if (c->pos == 0) {
        if (!c->emit(c, ".", 1, 1, d->i.ino, 4))
            return 0;
        c->pos = 1;
    }
    if (c->pos == 1) {
        if (!c->emit(c, "..", 2, 2, d->parent ? d->parent->i.ino : d->i.ino, 4))
            return 0;
        c->pos = 2;
    }
    for (u64 n = c->pos - 2; n < l->count; n++) {
        struct ovl_entry *e = &l->e[n];
        if (!e->white && !c->emit(c, l->names + e->name_off, e->len, n + 3, e->ino, e->type))
            return 0;
        c->pos = n + 3;
    }
    return 0;
}

static void ovl_dir_release(struct file *f)
{
    if (f->priv)
        list_free(f->priv);
}

/* d's lock is held by the caller. */
bool ovl_dir_empty(struct ovl_inode *d)
{
    struct ovl_list *l;
    bool empty = true;
    if (list_build(d, &l))
        return false;
    if (l->pass) {
        struct inode *real = l->pass->inode;
        struct file *f = l->pass;
        l->pass = NULL;
        merge_layer(l, real);
        file_put(f);
        find_whiteouts(d, l);
    }
    for (u32 n = 0; n < l->count; n++)
        empty &= l->e[n].white;
    list_free(l);
    return empty;
}

const struct file_ops ovl_dir_fops = {.iterate = ovl_iterate, .release = ovl_dir_release};

const struct inode_ops ovl_dir_ops = {
    .lookup = ovl_lookup,
    .create = ovl_create,
    .link = ovl_link,
    .unlink = ovl_remove,
    .rmdir = ovl_remove,
    .rename = ovl_rename,
    .getattr = ovl_getattr,
    .setattr = ovl_setattr,
    .getxattr = ovl_getxattr,
    .setxattr = ovl_setxattr,
    .listxattr = ovl_listxattr,
    .revalidate = ovl_revalidate,
    .tmpfile = ovl_tmpfile,
};
