/* hostfs: names and attributes.
 *
 * The broker works on paths below a mount's root; an inode knows its parent inode and its name, from which the path is
 * built (host_sb.tree_lock). Inodes are found again by the host's (dev, ino). Names and attributes are believed for HOST_TTL; an open asks
 * anew (close-to-open). Changes made here update what is cached at once. Owners are virtual: chown is remembered while the inode
 * lives. Devices, FIFOs and sockets cannot be made.
 *
 * Everything the broker answers is checked for type and bounds (R can be written by a hostile guest process of the same
 * sandbox; what it gains is confusion of its own kernel). Requests sleep; i.lock of the file or directory may be held. */
#include "fs/hostfs/hostfs.h"

#include "base/string.h"
#include "core/kmalloc.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char hostfs_name[] = "hostfs";

#define DIR_BYTES_MAX (64u << 20)

static const struct inode_ops host_dir_ops, host_inode_ops;
static const struct file_ops host_dir_fops;
static const struct file_ops no_fops = {.read = NULL};

/* ---- paths ---- */

long host_path(struct host_inode *h, const struct qstr *name, char *buf, size_t size)
{
    struct host_sb *s = host_sb_of(&h->i);
    char *at = buf + size;
    long r = 0;
    *--at = 0;
    if (name) {
        if (name->len + 1u >= size)
            return -ENAMETOOLONG;
        at -= name->len;
        memcpy(at, name->name, name->len);
    }
    mutex_lock(&s->tree_lock);
    u32 guard = 0;
    for (struct host_inode *n = h; n->parent; n = n->parent) {
        size_t len = strlen(n->name);
        if ((size_t)(at - buf) < len + 1 || guard++ > 2048) {
            r = -ENAMETOOLONG;
            break;
        }
        if (*at)
            *--at = '/';
        at -= len;
        memcpy(at, n->name, len);
    }
    mutex_unlock(&s->tree_lock);
    if (r)
        return r;
    size_t len = (size_t)(buf + size - at);
    memmove(buf, at, len);
    return (long)len;
}

long host_path_call(struct host_inode *h, const struct qstr *name, struct broker_args *a)
{
    char *path = kmalloc(PATH_LEN_MAX);
    if (!path)
        return -ENOMEM;
    long r = host_path(h, name, path, PATH_LEN_MAX);
    if (r > 0) {
        a->mount = host_sb_of(&h->i)->mount;
        if (a->op == WIRE_SETATTR) { /* attributes, then the path */
            a->data2 = path;
            a->size2 = (u32)r;
        } else {
            a->data = path;
            a->size = (u32)r;
        }
        r = broker_call(a);
    }
    kfree(path);
    return r;
}

/* ---- attributes ---- */

static bool attr_ok(const struct broker_args *a)
{
    return a->reply_size >= sizeof(struct wire_attr);
}

void host_set_attr(struct host_inode *h, const struct wire_attr *a)
{
    struct inode *i = &h->i;
    i->mode = (i->mode & S_IFMT) | (a->mode & PERM_MASK & ~(u32)(S_ISUID | S_ISGID));
    i->nlink = a->nlink;
    atomic_store(&i->size, a->size);
    i->blocks = a->blocks;
    i->atime = (struct ktime){a->atime, a->atime_nsec % 1000000000u};
    i->mtime = (struct ktime){a->mtime, a->mtime_nsec % 1000000000u};
    i->ctime = (struct ktime){a->ctime, a->ctime_nsec % 1000000000u};
    atomic_store(&h->attr_time, host_clock(1));
}

/* Symlinks keep their text; a link that changes is another inode on the host. */
static long load_link(struct host_inode *h)
{
    char *text = kmalloc(PATH_LEN_MAX);
    if (!text)
        return -ENOMEM;
    struct broker_args a = {.op = WIRE_READLINK, .reply = text, .reply_max = PATH_LEN_MAX - 1};
    long r = host_path_call(h, NULL, &a);
    if (r >= 0 && (!a.reply_size || memchr(text, 0, a.reply_size)))
        r = -EIO;
    if (r >= 0) {
        h->i.link = kmemdup_str(text, a.reply_size);
        h->i.link_len = a.reply_size;
        r = h->i.link ? 0 : -ENOMEM;
    }
    kfree(text);
    return r;
}

static u64 inode_key(const struct wire_attr *a)
{
    return a->ino ^ a->dev * 0x9e3779b97f4a7c15ull;
}

/* The inode of attributes that name in parent has: an old one if it is the same file. */
static struct inode *host_iget(struct super_block *sb, struct host_inode *parent, const struct qstr *name,
                               const struct wire_attr *a)
{
    struct inode *old = inode_cache_get(sb, inode_key(a));
    struct host_inode *h;
    char *text = name ? kmemdup_str(name->name, name->len) : NULL;
    if (name && !text)
        goto nomem;
    if (old) {
        h = host_of(old);
        if (h->dev == a->dev && h->ino == a->ino && (old->mode & S_IFMT) == (a->mode & S_IFMT) &&
            !(old->flags & INODE_UNLINKED) && !S_ISLNK(a->mode)) {
            struct host_sb *s = sb->priv;
            struct host_inode *was = NULL;
            mutex_lock(&s->tree_lock);
            if (parent && h->parent && (h->parent != parent || strcmp(h->name, text))) {
                was = h->parent;
                iget(&parent->i);
                h->parent = parent;
                char *t = h->name;
                h->name = text;
                text = t;
            }
            mutex_unlock(&s->tree_lock);
            kfree(text);
            if (was)
                iput(&was->i);
            host_set_attr(h, a);
            return old;
        }
        iput(old);
    }
    h = knew(struct host_inode);
    if (!h)
        goto nomem;
    h->i.sb = sb;
    h->i.refs = 1;
    h->i.mode = a->mode & S_IFMT;
    h->i.ino = a->ino;
    h->i.uid = a->uid;
    h->i.gid = a->gid;
    h->i.rdev = makedev(a->rdev_major, a->rdev_minor);
    h->i.ops = &host_inode_ops;
    h->i.fops = &no_fops;
    h->i.flags = INODE_NO_ATIME;
    h->dev = a->dev;
    h->ino = a->ino;
    h->parent = parent;
    h->name = text;
    if (parent)
        iget(&parent->i);
    host_set_attr(h, a);
    long r = 0;
    switch (a->mode & S_IFMT) {
    case S_IFREG: h->i.fops = &host_file_fops; break;
    case S_IFDIR:
        h->i.ops = &host_dir_ops;
        h->i.fops = &host_dir_fops;
        break;
    case S_IFLNK: r = load_link(h); break;
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK: break;
    default: r = -EIO;
    }
    if (r) {
        iput(&h->i);
        return ERR_PTR(r);
    }
    return old ? &h->i : inode_cache_add(&h->i, inode_key(a));
nomem:
    kfree(text);
    if (old)
        iput(old);
    return ERR_PTR(-ENOMEM);
}

long host_refresh(struct host_inode *h)
{
    struct host_answer w;
    if ((h->i.flags & INODE_UNLINKED) || host_clock(1) - atomic_load(&h->attr_time) < HOST_TTL)
        return 0;
    struct broker_args a = {.op = WIRE_LOOKUP, .reply = &w, .reply_max = sizeof(w)};
    long r = host_path_call(h, NULL, &a);
    if (r == -ENOENT) { /* removed on the host: what is open stays usable */
        atomic_store(&h->attr_time, host_clock(1));
        return 0;
    }
    if (r < 0)
        return r;
    if (attr_ok(&a) && w.attr.dev == h->dev && w.attr.ino == h->ino && (w.attr.mode & S_IFMT) == (h->i.mode & S_IFMT)) {
        host_set_attr(h, &w.attr);
        host_view_answer(h, host_answer_view(&w, &a));
    } else {
        atomic_store(&h->attr_time, host_clock(1)); /* another file has the name now: the dentry finds out */
    }
    return 0;
}

static long host_getattr(struct inode *i, struct kstat *st)
{
    long r = host_refresh(host_of(i));
    generic_getattr(i, st);
    return r;
}

static long host_setattr(struct inode *i, const struct iattr *at)
{
    struct host_inode *h = host_of(i);
    struct wire_attr w = {.mode = at->mode & PERM_MASK, .size = at->size};
    u64 mask = (at->valid & ATTR_MODE ? WIRE_SET_MODE : 0) | (at->valid & ATTR_SIZE ? WIRE_SET_SIZE : 0);
    bool by_handle = h->handle_open && h->handle_write && S_ISREG(i->mode);
    if ((at->valid & (ATTR_ATIME | ATTR_MTIME)) && !(at->valid & ATTR_SIZE)) {
        mask |= (at->valid & ATTR_ATIME ? WIRE_SET_ATIME : 0) | (at->valid & ATTR_MTIME ? WIRE_SET_MTIME : 0);
        w.atime = at->atime.sec;
        w.atime_nsec = at->atime.nsec;
        w.mtime = at->mtime.sec;
        w.mtime_nsec = at->mtime.nsec;
    }
    if (mask && S_ISLNK(i->mode))
        mask = 0; /* times of links are virtual */
    if (mask) {
        struct wire_attr reply;
        struct broker_args a = {.op = by_handle ? WIRE_FSETATTR : WIRE_SETATTR, .arg = {mask}, .handle = h->handle,
                                .mount = host_sb_of(i)->mount, .data = &w, .size = sizeof(w),
                                .reply = &reply, .reply_max = sizeof(reply)};
        if (!by_handle && (i->flags & INODE_UNLINKED))
            return -EACCES;
        long r = by_handle ? broker_call(&a) : host_path_call(h, NULL, &a);
        if (r < 0)
            return r;
        if (attr_ok(&a))
            host_set_attr(h, &reply);
    }
    if (at->valid & ATTR_UID)
        i->uid = at->uid;
    if (at->valid & ATTR_GID)
        i->gid = at->gid;
    if (S_ISLNK(i->mode))
        generic_setattr(i, at);
    if (at->valid & ATTR_SIZE)
        host_data_resized(h);
    return 0;
}

static void restored(struct inode *i)
{
    if (i->sb->outside)
        host_data_restored(host_of(i));
}

void hostfs_restored(void)
{
    inode_cache_each(restored);
    host_ahead_reset();
}

/* ---- directories ---- */

static struct inode *answer(struct inode *dir, const struct qstr *name, long r, const struct broker_args *a)
{
    if (r < 0)
        return ERR_PTR(r);
    if (!attr_ok(a))
        return ERR_PTR(-EIO);
    return host_iget(dir->sb, host_of(dir), name, a->reply);
}

/* What was looked up ahead is as old as its answer. */
static void ahead_attr(struct inode *i, const struct host_ahead *a)
{
    struct host_inode *h = host_of(i);
    if (S_ISREG(i->mode))
        host_view_answer(h, a->w.view_state == WIRE_VIEW_READY ? &a->w.view : NULL);
    atomic_store(&h->attr_time, a->when);
}

static struct inode *host_lookup(struct inode *dir, const struct qstr *name)
{
    struct host_answer w;
    struct host_ahead ahead;
    if (host_ahead_find(host_of(dir), name, &ahead)) {
        struct inode *i = host_iget(dir->sb, host_of(dir), name, &ahead.w.attr);
        if (!IS_ERR(i))
            ahead_attr(i, &ahead);
        return i;
    }
    struct broker_args a = {.op = WIRE_LOOKUP, .reply = &w, .reply_max = sizeof(w)};
    long r = host_path_call(host_of(dir), name, &a);
    struct inode *i = r == -ENOENT ? NULL : answer(dir, name, r, &a);
    if (i && !IS_ERR(i) && S_ISREG(i->mode))
        host_view_answer(host_of(i), host_answer_view(&w, &a));
    return i;
}

static bool host_revalidate(struct inode *dir, const struct qstr *name, struct inode *i)
{
    struct host_answer w;
    struct host_ahead ahead;
    if (i && host_ahead_find(host_of(dir), name, &ahead) && host_of(i)->dev == ahead.w.attr.dev &&
        host_of(i)->ino == ahead.w.attr.ino && (i->mode & S_IFMT) == (ahead.w.attr.mode & S_IFMT)) {
        host_set_attr(host_of(i), &ahead.w.attr);
        ahead_attr(i, &ahead);
        return true;
    }
    struct broker_args a = {.op = WIRE_LOOKUP, .reply = &w, .reply_max = sizeof(w)};
    long r = host_path_call(host_of(dir), name, &a);
    if (r == -ENOENT)
        return !i;
    if (r < 0 || !attr_ok(&a) || !i)
        return false;
    struct host_inode *h = host_of(i);
    if (h->dev != w.attr.dev || h->ino != w.attr.ino || (i->mode & S_IFMT) != (w.attr.mode & S_IFMT))
        return false;
    host_set_attr(h, &w.attr);
    host_view_answer(h, host_answer_view(&w, &a));
    return true;
}

static void dir_changed(struct inode *dir)
{
    touch_mtime(dir);
    atomic_store(&host_of(dir)->attr_time, 0);
}

static struct inode *host_create(struct inode *dir, const struct qstr *name, u32 mode, u64 rdev, const char *target)
{
    struct wire_attr w;
    struct broker_args a = {.arg = {mode & PERM_MASK}, .reply = &w, .reply_max = sizeof(w)};
    (void)rdev;
    switch (mode & S_IFMT) {
    case S_IFREG: a.op = WIRE_CREATE; break;
    case S_IFDIR: a.op = WIRE_MKDIR; break;
    case S_IFLNK:
        a.op = WIRE_SYMLINK;
        a.data2 = target;
        a.size2 = (u32)strlen(target) + 1;
        break;
    default: return ERR_PTR(-EPERM);
    }
    long r = host_path_call(host_of(dir), name, &a);
    struct inode *i = answer(dir, name, r, &a);
    if (IS_ERR(i))
        return i;
    dir_changed(dir);
    const struct cred *c = current_cred();
    i->uid = c ? c->fsuid : 0;
    i->gid = c ? c->fsgid : 0;
    if (S_ISREG(mode))
        host_adopt_handle(host_of(i), (u32)a.value);
    return i;
}

/* Both names in one request. */
static long two_paths(u32 op, struct host_inode *d1, const struct qstr *n1, struct host_inode *d2, const struct qstr *n2,
                      u64 flags, struct wire_attr *w)
{
    char *buf = kmalloc(PATH_LEN_MAX * 2);
    if (!buf)
        return -ENOMEM;
    struct broker_args a = {.op = op, .reply = w, .reply_max = w ? sizeof(*w) : 0};
    long r = host_path(d1, n1, buf, PATH_LEN_MAX), len = r;
    if (r > 0)
        r = host_path(d2, n2, buf + len, PATH_LEN_MAX);
    if (r > 0) {
        a.mount = host_sb_of(&d1->i)->mount;
        a.arg[0] = (u64)len;
        a.arg[1] = flags;
        a.data = buf;
        a.size = (u32)(len + r);
        r = broker_call(&a);
        if (r >= 0 && w && !attr_ok(&a))
            r = -EIO;
    }
    kfree(buf);
    return r;
}

static long host_link(struct inode *dir, const struct qstr *name, struct inode *target)
{
    struct wire_attr w;
    if (target->flags & INODE_UNLINKED)
        return -ENOENT;
    long r = two_paths(WIRE_LINK, host_of(target), NULL, host_of(dir), name, 0, &w);
    if (r < 0)
        return r;
    host_set_attr(host_of(target), &w);
    dir_changed(dir);
    return 0;
}

static void lost_name(struct inode *i)
{
    if (i->nlink)
        i->nlink--;
    if (S_ISDIR(i->mode))
        i->nlink = 0;
    if (!i->nlink)
        i->flags |= INODE_UNLINKED;
    i->ctime = now_ktime();
    if (i->nlink) /* the remembered name may be the removed one: the next lookup sets another */
        atomic_store(&host_of(i)->attr_time, host_clock(1));
}

static long host_unlink(struct inode *dir, const struct qstr *name, struct inode *target)
{
    struct broker_args a = {.op = S_ISDIR(target->mode) ? WIRE_RMDIR : WIRE_UNLINK};
    long r = host_path_call(host_of(dir), name, &a);
    if (r < 0)
        return r;
    lost_name(target);
    dir_changed(dir);
    return 0;
}

static long rehang(struct host_inode *h, struct host_inode *parent, const struct qstr *name)
{
    struct host_sb *s = host_sb_of(&h->i);
    char *text = kmemdup_str(name->name, name->len);
    if (!text)
        return -ENOMEM;
    iget(&parent->i);
    mutex_lock(&s->tree_lock);
    struct host_inode *was = h->parent;
    char *old = h->name;
    h->parent = parent;
    h->name = text;
    mutex_unlock(&s->tree_lock);
    kfree(old);
    if (was)
        iput(&was->i);
    return 0;
}

static long host_rename(struct inode *old_dir, const struct qstr *old_name, struct inode *node, struct inode *new_dir,
                        const struct qstr *new_name, struct inode *replaced, u32 flags)
{
    long r = two_paths(WIRE_RENAME, host_of(old_dir), old_name, host_of(new_dir), new_name, flags, NULL);
    if (r < 0)
        return r;
    rehang(host_of(node), host_of(new_dir), new_name);
    if (flags & RENAME_WHITEOUT)
        return -EINVAL;
    if (flags & RENAME_EXCHANGE)
        rehang(host_of(replaced), host_of(old_dir), old_name);
    else if (replaced)
        lost_name(replaced);
    dir_changed(old_dir);
    dir_changed(new_dir);
    return 0;
}

/* ---- reading directories: the whole list is taken at the start; a cookie is 2 + its index ---- */

struct host_list {
    u8 *buf; /* wire_dirent records */
    u32 size, cap;
    u32 at, at_index; /* where the last reading stopped */
};

static bool record_ok(const struct host_list *l, u32 off)
{
    const struct wire_dirent *d = (const void *)(l->buf + off);
    return l->size - off >= sizeof(*d) && d->record_size >= sizeof(*d) && d->record_size <= l->size - off &&
           !(d->record_size & 7) && d->name_size && d->name_size <= d->record_size - sizeof(*d);
}

static long load_list(struct host_inode *h, struct host_list *l)
{
    u64 cookie = 0;
    l->size = l->at = l->at_index = 0;
    for (u32 round = 0; round < 65536; round++) {
        if (l->cap - l->size < REQ_DATA_SIZE) {
            u32 cap = l->cap ? l->cap * 2 : 4 * REQ_DATA_SIZE;
            u8 *b = cap > DIR_BYTES_MAX ? NULL : krealloc(l->buf, l->cap, cap);
            if (!b)
                return -ENOMEM;
            l->buf = b;
            l->cap = cap;
        }
        struct broker_args a = {.op = WIRE_READDIR, .arg = {cookie}, .reply = l->buf + l->size, .reply_max = REQ_DATA_SIZE};
        long r = host_path_call(h, NULL, &a);
        if (r < 0)
            return r;
        l->size += a.reply_size & ~7u;
        cookie = a.value;
        if (!cookie || !a.reply_size)
            return 0;
    }
    return -EIO;
}

static long host_iterate(struct file *f, struct dir_ctx *c)
{
    struct host_inode *h = host_of(f->inode);
    struct host_list *l = f->priv;
    if (!l || !c->pos) {
        if (!l && !(l = f->priv = knew(struct host_list)))
            return -ENOMEM;
        long r = load_list(h, l);
        u32 end = 0;
        while (!r && end < l->size && record_ok(l, end))
            end += ((struct wire_dirent *)(l->buf + end))->record_size;
        if (r)
            return r;
        host_ahead_list(h, l->buf, end);
    }
    if (c->pos == 0) {
        if (!c->emit(c, ".", 1, 1, h->i.ino, 4))
            return 0;
        c->pos = 1;
    }
    if (c->pos == 1) {
        if (!c->emit(c, "..", 2, 2, h->parent ? h->parent->i.ino : h->i.ino, 4))
            return 0;
        c->pos = 2;
    }
    u32 off = 0, index = 0;
    if (l->at_index <= c->pos - 2) {
        off = l->at;
        index = l->at_index;
    }
    for (; off < l->size; index++) {
        const struct wire_dirent *d = (const void *)(l->buf + off);
        if (!record_ok(l, off))
            return -EIO;
        if (index >= c->pos - 2) {
            l->at = off;
            l->at_index = index;
            if (!c->emit(c, d->name, d->name_size, index + 3ull, d->ino, d->type))
                return 0;
            c->pos = index + 3ull;
        }
        off += d->record_size;
    }
    return 0;
}

static void host_dir_release(struct file *f)
{
    struct host_list *l = f->priv;
    if (l)
        kfree(l->buf);
    kfree(l);
}

static const struct file_ops host_dir_fops = {.iterate = host_iterate, .release = host_dir_release};

static const struct inode_ops host_dir_ops = {
    .lookup = host_lookup,
    .create = host_create,
    .link = host_link,
    .unlink = host_unlink,
    .rmdir = host_unlink,
    .rename = host_rename,
    .getattr = host_getattr,
    .setattr = host_setattr,
    .revalidate = host_revalidate,
};

static const struct inode_ops host_inode_ops = {.getattr = host_getattr, .setattr = host_setattr};

/* ---- super block ---- */

static void host_free_inode(struct inode *i)
{
    struct host_inode *h = host_of(i);
    if (S_ISREG(i->mode))
        host_data_free(h);
    host_view_free(h);
    if (h->parent)
        iput(&h->parent->i);
    kfree(h->name);
    kfree((void *)i->link);
    kfree(h);
}

static long host_statfs(struct super_block *sb, struct kstatfs *st)
{
    struct host_sb *s = sb->priv;
    struct wire_statfs w;
    struct broker_args a = {.op = WIRE_STATFS, .mount = s->mount, .data = "", .size = 1, .reply = &w, .reply_max = sizeof(w)};
    long r = broker_call(&a);
    if (r < 0)
        return r;
    if (a.reply_size < sizeof(w))
        return -EIO;
    *st = (struct kstatfs){.type = 0x01021997 /* V9FS */, .bsize = w.bsize, .blocks = w.blocks, .bfree = w.bfree,
                           .bavail = w.bavail, .files = w.files, .ffree = w.ffree, .namelen = w.namelen};
    return 0;
}

static const struct super_ops host_super_ops = {
    .statfs = host_statfs,
    .free_inode = host_free_inode,
    .put_super = super_free,
};

long hostfs_mount(u32 index, bool readonly, struct super_block **out)
{
    struct wire_attr w;
    struct super_block *sb = sb_alloc(&host_super_ops, hostfs_name, readonly ? MS_RDONLY : 0);
    struct host_sb *s = knew(struct host_sb);
    long r = -ENOMEM;
    if (!sb || !s)
        goto fail;
    sb->priv = s;
    sb->outside = true;
    sb->name_ttl = HOST_TTL;
    s->mount = index;
    struct broker_args a = {.op = WIRE_LOOKUP, .mount = index, .data = "", .size = 1, .reply = &w, .reply_max = sizeof(w)};
    r = broker_call(&a);
    if (r >= 0 && !attr_ok(&a))
        r = -EIO;
    if (r < 0)
        goto fail;
    struct inode *root = host_iget(sb, NULL, NULL, &w);
    if (IS_ERR(root)) {
        r = PTR_ERR(root);
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
