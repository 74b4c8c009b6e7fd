/* overlay: inodes, attributes, open files, mounting.
 *
 * An overlay inode stands over an inode of the upper tmpfs, or of a lower tree until its first change (copy-up), or - directories -
 * over both. Whiteouts in the upper tree are character devices 0:0; a directory that hides lower ones has INODE_OPAQUE.
 * File systems below are used by their inode operations only; they have no dentries here.
 *
 * Open files work directly on the inode that has the contents (file_swap_inode), so reading and writing costs nothing more
 * than on the file system itself, and a file opened for reading before a copy-up keeps showing the old contents, as on Linux.
 *
 * Numbers: st_dev is the overlay's; st_ino that of the lower inode (plus layer << 48), which a copy-up gives to the upper
 * inode too; new upper inodes count from 1 << 40. Names of several links to one lower file are separate files once
 * changed, as on Linux without index. Overlay inodes are cached by the address of the upper or else the topmost lower inode.
 *
 * Locks: overlay inode->lock (vfs), ovl_sb.lock, upper and lower inode->lock. */
#include "fs/overlay/overlay.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "fs/tmpfs/tmpfs.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char overlay_name[] = "overlay";

bool ovl_is_whiteout(const struct inode *i)
{
    return S_ISCHR(i->mode) && i->rdev == 0;
}

static u64 ino_of(struct ovl_inode *o)
{
    struct inode *u = ovl_upper(o);
    return u ? u->ino : o->lower[0]->ino | (u64)o->layer[0] << 48;
}

void ovl_sync_attr(struct ovl_inode *o)
{
    struct inode *r = ovl_real(o), *i = &o->i;
    i->mode = r->mode;
    i->uid = r->uid;
    i->gid = r->gid;
    i->nlink = r->nlink;
    i->rdev = r->rdev;
    atomic_store(&i->size, r->size);
    i->blocks = r->blocks;
    i->atime = r->atime;
    i->mtime = r->mtime;
    i->ctime = r->ctime;
    i->btime = r->btime;
    i->ino = ino_of(o);
}

long ovl_getattr(struct inode *i, struct kstat *st)
{
    struct ovl_inode *o = ovl_of(i);
    struct inode *r = ovl_real(o);
    long err = 0;
    if (r->ops->getattr)
        err = r->ops->getattr(r, st);
    else
        generic_getattr(r, st);
    st->dev = i->sb->dev;
    st->ino = ino_of(o);
    if (o->gone)
        st->nlink = i->nlink;
    return err;
}

long ovl_setattr(struct inode *i, const struct iattr *a)
{
    struct ovl_inode *o = ovl_of(i);
    struct ovl_sb *s = ovl_sb_of(i);
    if (a->valid & ATTR_SIZE && atomic_load(&ovl_real(o)->write_count) < 0)
        return -ETXTBSY; /* running; executing counts on the layer's inode */
    mutex_lock(&s->lock);
    long r = ovl_copy_up(o, a->valid & ATTR_SIZE ? a->size : ~0ull);
    mutex_unlock(&s->lock);
    if (r)
        return r;
    mutex_lock(&o->upper->lock);
    r = o->upper->ops->setattr(o->upper, a);
    mutex_unlock(&o->upper->lock);
    ovl_sync_attr(o);
    return r;
}

long ovl_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
    struct inode *r = ovl_real(ovl_of(i));
    if (!strncmp(name, "trusted.overlay.", 16))
        return -ENODATA;
    return r->ops->getxattr ? r->ops->getxattr(r, name, buf, size) : -ENODATA;
}

long ovl_setxattr(struct inode *i, const char *name, const void *buf, size_t size, int flags)
{
    struct ovl_inode *o = ovl_of(i);
    struct ovl_sb *s = ovl_sb_of(i);
    if (!strncmp(name, "trusted.overlay.", 16))
        return -EPERM;
    mutex_lock(&s->lock);
    long r = ovl_copy_up(o, ~0ull);
    mutex_unlock(&s->lock);
    if (r)
        return r;
    mutex_lock(&o->upper->lock);
    r = o->upper->ops->setxattr(o->upper, name, buf, size, flags);
    mutex_unlock(&o->upper->lock);
    ovl_sync_attr(o);
    return r;
}

long ovl_listxattr(struct inode *i, char *buf, size_t size)
{
    struct inode *r = ovl_real(ovl_of(i));
    return r->ops->listxattr ? r->ops->listxattr(r, buf, size) : 0;
}

static long ovl_readlink(struct inode *i, char *buf, size_t size)
{
    struct inode *r = ovl_real(ovl_of(i));
    return r->ops->readlink ? r->ops->readlink(r, buf, size) : -EINVAL;
}

static const struct inode_ops ovl_inode_ops = {
    .readlink = ovl_readlink,
    .getattr = ovl_getattr,
    .setattr = ovl_setattr,
    .getxattr = ovl_getxattr,
    .setxattr = ovl_setxattr,
    .listxattr = ovl_listxattr,
};

static long ovl_open(struct file *f)
{
    struct ovl_inode *o = ovl_of(f->inode);
    struct ovl_sb *s = ovl_sb_of(f->inode);
    if (f->mode & FMODE_WRITE) {
        mutex_lock(&s->lock);
        long r = ovl_copy_up(o, ~0ull);
        mutex_unlock(&s->lock);
        if (r)
            return r;
    }
    return file_swap_inode(f, ovl_real(o));
}

static const struct file_ops ovl_file_fops = {.open = ovl_open};
static const struct file_ops no_fops = {.read = NULL};

struct inode *ovl_get(struct super_block *sb, struct ovl_inode *parent, const struct qstr *name, struct inode *upper,
                      struct inode **lower, const u8 *layer, u32 count)
{
    struct inode *real = upper ? upper : lower[0];
    bool cache = upper || S_ISDIR(real->mode) || real->nlink <= 1;
    struct inode *i = cache ? inode_cache_get(sb, (u64)real) : NULL;
    struct ovl_inode *o = NULL;
    if (!i) {
        o = knew(struct ovl_inode);
        char *text = name ? kmemdup_str(name->name, name->len) : NULL;
        if (!o || (name && !text)) {
            kfree(o);
            kfree(text);
            i = ERR_PTR(-ENOMEM);
        } else {
            o->name = text;
        }
    }
    if (i) { /* found or failed: the references are not needed */
        if (upper)
            iput(upper);
        for (u32 n = 0; n < count; n++)
            iput(lower[n]);
        return i;
    }
    o->upper = upper;
    o->lower_count = count;
    for (u32 n = 0; n < count; n++) {
        o->lower[n] = lower[n];
        o->layer[n] = layer[n];
    }
    o->parent = parent;
    if (parent)
        iget(&parent->i);
    o->i.sb = sb;
    o->i.refs = 1;
    ovl_sync_attr(o);
    o->i.ops = S_ISDIR(real->mode) ? &ovl_dir_ops : &ovl_inode_ops;
    o->i.fops = S_ISDIR(real->mode) ? &ovl_dir_fops : S_ISREG(real->mode) ? &ovl_file_fops : &no_fops;
    o->i.link = real->link;
    o->i.link_len = real->link_len;
    return cache ? inode_cache_add(&o->i, (u64)real) : &o->i;
}

static void ovl_free_inode(struct inode *i)
{
    struct ovl_inode *o = ovl_of(i);
    if (o->upper)
        iput(o->upper);
    for (u32 n = 0; n < o->lower_count; n++)
        iput(o->lower[n]);
    if (o->parent)
        iput(&o->parent->i);
    kfree(o->name);
    kfree(o);
}

static long ovl_statfs(struct super_block *sb, struct kstatfs *st)
{
    struct ovl_sb *s = sb->priv;
    long r = s->upper->ops->statfs(s->upper, st);
    st->type = 0x794c7630;
    return r;
}

static const struct super_ops ovl_super_ops = {.statfs = ovl_statfs, .free_inode = ovl_free_inode};

long overlay_mount(struct super_block **lower, u32 count, struct super_block **out)
{
    struct super_block *sb = sb_alloc(&ovl_super_ops, overlay_name, 0);
    struct ovl_sb *s = knew(struct ovl_sb);
    struct inode *lowers[OVL_LAYERS_MAX];
    u8 layer[OVL_LAYERS_MAX];
    long r = -ENOMEM;
    if (!sb || !s || count > OVL_LAYERS_MAX || !count)
        goto fail;
    r = tmpfs_mount("overlay", 0, "mode=755", &s->upper);
    if (r)
        goto fail;
    s->upper->next_ino = 1ull << 40;
    s->lower_count = count;
    sb->priv = s;
    struct inode *u = s->upper->root->inode;
    for (u32 n = 0; n < count; n++) {
        s->lower[n] = lower[n];
        lowers[n] = lower[n]->root->inode;
        layer[n] = (u8)n;
        iget(lowers[n]);
        if (lower[n]->name_ttl)
            sb->name_ttl = lower[n]->name_ttl;
    }
    r = -ENOTDIR;
    if (!S_ISDIR(lowers[0]->mode))
        goto fail;
    u->mode = lowers[0]->mode;
    u->uid = lowers[0]->uid;
    u->gid = lowers[0]->gid;
    u->mtime = lowers[0]->mtime;
    u->ino = lowers[0]->ino;
    iget(u);
    struct inode *root = ovl_get(sb, NULL, NULL, u, lowers, layer, count);
    if (IS_ERR(root)) {
        r = PTR_ERR(root);
        goto fail;
    }
    sb->root = d_make_root(sb, root);
    if (sb->root) {
        *out = sb;
        return 0;
    }
    r = -ENOMEM;
fail:
    kfree(s);
    kfree(sb);
    return r;
}
