/* tmpfs: the memory file system. Inodes, attributes, extended attributes, mounting, memory files without names.
 *
 * Directory entries hold references on inodes (tmpfs_dir.c), so a file lives until its last name and last user are gone. Limits: size=
 * of the mount counts written pages; the sandbox's own limit is in core/dframe.h. */
#include "fs/tmpfs/tmpfs.h"

#include "base/string.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/kstate.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char tmpfs_name[] = "tmpfs";

#define XATTR_SIZE_MAX_ 65536u

static void tmp_free_inode(struct inode *i)
{
    struct tmp_inode *t = tmp_of(i);
    struct tmp_super *s = i->sb->priv;
    for (struct tmp_xattr *x = t->xattrs, *next; x; x = next) {
        next = x->next;
        kfree(x);
    }
    if (S_ISREG(i->mode))
        tmp_data_free(t);
    else if (S_ISDIR(i->mode))
        tmp_dir_free(t);
    else if (S_ISLNK(i->mode))
        kfree(t->target);
    atomic_sub(&s->inodes, 1);
    kfree(t);
}

static long tmp_statfs(struct super_block *sb, struct kstatfs *st)
{
    struct tmp_super *s = sb->priv;
    u64 limit = dpages_limit(), used = dpages_used();
    u64 free = limit ? (limit > used ? limit - used : 0) : 1ull << 24;
    st->type = 0x01021994;
    st->bsize = PAGE_SIZE;
    st->blocks = s->max_pages ? s->max_pages : s->pages + free;
    if (s->max_pages)
        free = MIN(free, s->max_pages > s->pages ? s->max_pages - s->pages : 0);
    st->bfree = st->bavail = free;
    st->files = s->inodes + 1000000;
    st->ffree = 1000000;
    st->namelen = NAME_LEN_MAX;
    return 0;
}

static const struct super_ops tmp_super_ops = {
    .statfs = tmp_statfs,
    .free_inode = tmp_free_inode,
    .put_super = super_free,
};

long tmp_setattr(struct inode *i, const struct iattr *a)
{
    if (a->valid & ATTR_SIZE) {
        long r = tmp_truncate(tmp_of(i), a->size);
        if (r)
            return r;
    }
    generic_setattr(i, a);
    return 0;
}

/* ---- extended attributes (i.lock held by vfs for set; get and list take it) ---- */

static struct tmp_xattr **xattr_find(struct tmp_inode *t, const char *name)
{
    struct tmp_xattr **p = &t->xattrs;
    while (*p && strcmp((*p)->name, name))
        p = &(*p)->next;
    return p;
}

long tmp_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
    mutex_lock(&i->lock);
    struct tmp_xattr *x = *xattr_find(tmp_of(i), name);
    long r = -ENODATA;
    if (x) {
        r = (long)x->size;
        if (size && size < x->size)
            r = -ERANGE;
        else if (size)
            memcpy(buf, x->name + x->name_len + 1, x->size);
    }
    mutex_unlock(&i->lock);
    return r;
}

long tmp_setxattr(struct inode *i, const char *name, const void *buf, size_t size, int flags)
{
    struct tmp_xattr **p = xattr_find(tmp_of(i), name), *old = *p;
    if (!buf) {
        if (!old)
            return -ENODATA;
        *p = old->next;
        kfree(old);
        i->ctime = now_ktime();
        return 0;
    }
    if (old && (flags & 1 /* XATTR_CREATE */))
        return -EEXIST;
    if (!old && (flags & 2 /* XATTR_REPLACE */))
        return -ENODATA;
    u32 len = (u32)strlen(name);
    struct tmp_xattr *x = kmalloc(sizeof(*x) + len + 1 + size);
    if (!x)
        return -ENOSPC;
    x->name_len = len;
    x->size = (u32)size;
    memcpy(x->name, name, len + 1);
    memcpy(x->name + len + 1, buf, size);
    x->next = old ? old->next : NULL;
    *p = x;
    kfree(old);
    i->ctime = now_ktime();
    return 0;
}

long tmp_listxattr(struct inode *i, char *buf, size_t size)
{
    size_t used = 0;
    mutex_lock(&i->lock);
    for (struct tmp_xattr *x = tmp_of(i)->xattrs; x; x = x->next) {
        if (!strncmp(x->name, "trusted.", 8) && !has_cap(CAP_SYS_ADMIN))
            continue;
        if (size && used + x->name_len + 1 <= size)
            memcpy(buf + used, x->name, x->name_len + 1);
        used += x->name_len + 1;
    }
    mutex_unlock(&i->lock);
    return size && used > size ? -ERANGE : (long)used;
}

static const struct inode_ops tmp_inode_ops = {
    .setattr = tmp_setattr,
    .getxattr = tmp_getxattr,
    .setxattr = tmp_setxattr,
    .listxattr = tmp_listxattr,
};

static const struct file_ops no_fops = {.read = NULL};

struct inode *tmp_new(struct super_block *sb, struct inode *dir, u32 mode, u64 rdev, const char *target)
{
    struct tmp_inode *t = knew(struct tmp_inode);
    if (!t)
        return ERR_PTR(-ENOSPC);
    inode_init(&t->i, sb, mode);
    inode_init_owner(&t->i, dir, mode);
    t->i.ops = &tmp_inode_ops;
    t->i.fops = &no_fops;
    if (S_ISREG(mode)) {
        t->i.fops = &tmp_file_ops;
        t->i.seals = 0;
    } else if (S_ISDIR(mode)) {
        t->i.ops = &tmp_dir_ops;
        t->i.fops = &tmp_dir_fops;
        t->i.size = 40;
    } else if (S_ISLNK(mode)) {
        t->target = kstrdup(target);
        if (!t->target) {
            kfree(t);
            return ERR_PTR(-ENOSPC);
        }
        t->i.link = t->target;
        t->i.link_len = (u32)strlen(target);
        t->i.size = t->i.link_len;
        t->i.mode |= 0777;
    } else {
        t->i.rdev = rdev;
    }
    struct tmp_super *s = sb->priv;
    atomic_add(&s->inodes, 1);
    return &t->i;
}

/* ---- mounting ---- */

static bool option(const char *options, const char *name, u64 *val, int base)
{
    size_t len = strlen(name);
    for (const char *p = options; p && *p;) {
        if (!strncmp(p, name, len) && p[len] == '=') {
            const char *end;
            *val = str_to_u64(p + len + 1, &end, base);
            if (*end == 'k' || *end == 'K')
                *val <<= 10;
            else if (*end == 'm' || *end == 'M')
                *val <<= 20;
            else if (*end == 'g' || *end == 'G')
                *val <<= 30;
            return true;
        }
        p = strchr(p, ',');
        if (p)
            p++;
    }
    return false;
}

long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    u64 val;
    (void)source;
    struct super_block *sb = sb_alloc(&tmp_super_ops, tmpfs_name, flags & MS_RDONLY);
    struct tmp_super *s = knew(struct tmp_super);
    if (!sb || !s)
        goto nomem;
    sb->priv = s;
    if (option(options, "size", &val, 10))
        s->max_pages = val / PAGE_SIZE;
    u32 mode = option(options, "mode", &val, 8) ? (u32)val & PERM_MASK : 01777;
    struct inode *root = tmp_new(sb, NULL, S_IFDIR | mode, 0, NULL);
    if (IS_ERR(root))
        goto nomem;
    if (option(options, "uid", &val, 10))
        root->uid = (u32)val;
    if (option(options, "gid", &val, 10))
        root->gid = (u32)val;
    sb->root = d_make_root(sb, root);
    if (!sb->root)
        goto nomem;
    *out = sb;
    return 0;
nomem:
    kfree(s);
    kfree(sb);
    return -ENOMEM;
}

/* ---- memory files ---- */

static KSTATE struct super_block *shmem_sb;

struct file *shmem_file(const char *name, u64 size, u32 flags)
{
    struct super_block *sb = atomic_load(&shmem_sb);
    if (!sb) { /* two first users may both make one; the second is used by nobody else and stays */
        long r = tmpfs_mount("shmem", 0, "mode=700", &sb);
        if (r)
            return ERR_PTR(r);
        if (!atomic_cas(&shmem_sb, NULL, sb))
            sb = atomic_load(&shmem_sb);
    }
    struct inode *i = tmp_new(sb, NULL, S_IFREG | 0777, 0, NULL);
    if (IS_ERR(i))
        return ERR_PTR(PTR_ERR(i));
    i->nlink = 0;
    i->size = size;
    return file_from_inode(i, name, flags);
}

/* memfd_create and F_ADD_SEALS, F_GET_SEALS. */
long shmem_seals(struct file *f, bool add, u32 seals)
{
    struct inode *i = f->inode;
    if (i->fops != &tmp_file_ops || i != f->path.dentry->inode) /* the second: a layer of an overlay */
        return -EINVAL;
    if (!add)
        return i->flags & INODE_SEALABLE ? i->seals : F_SEAL_SEAL;
    if (!(f->mode & FMODE_WRITE))
        return -EPERM;
    if (seals & ~(u32)(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return -EINVAL;
    long r = 0;
    mutex_lock(&i->lock);
    struct tmp_inode *t = tmp_of(i);
    if (!(i->flags & INODE_SEALABLE) || (i->seals & F_SEAL_SEAL))
        r = -EPERM;
    else if ((seals & F_SEAL_WRITE) && !(i->seals & F_SEAL_WRITE) && t->write_maps)
        r = -EBUSY;
    else
        i->seals |= seals;
    mutex_unlock(&i->lock);
    return r;
}
