/* Inodes: reference counts, the inode cache, permissions, attributes.
 *
 * The cache finds the inode of a file that has several names or comes back (erofs node ids, hostfs dev/ino): keyed by
 * (super block, 64-bit key), a table that grows with the count of inodes, icache_lock (leaf but for kmalloc). An inode whose count reached zero is never taken out of the cache
 * again (increment only if not zero): the thread that dropped the last reference removes and frees it. */
#include "vfs/internal.h"

#include "core/kmalloc.h"
#include "core/kstate.h"
#include "vfs/hooks.h"

#define ICACHE_FIRST 8u /* bits of the table's first size */

static KSTATE struct mutex icache_lock;
static KSTATE_LARGE struct inode *icache_first[1u << ICACHE_FIRST];
static KSTATE struct {
    struct inode **table; /* NULL: icache_first */
    u32 bits, count;
} icache;

static struct inode **bucket_in(struct inode **table, u32 bits, const struct super_block *sb, u64 key)
{
    u64 h = (key ^ (u64)sb / 16) * 0x9e3779b97f4a7c15ull;
    return &table[h >> (64 - bits)];
}

static struct inode **icache_bucket(const struct super_block *sb, u64 key)
{
    return icache.table ? bucket_in(icache.table, icache.bits, sb, key) : bucket_in(icache_first, ICACHE_FIRST, sb, key);
}

/* icache_lock held. Four times the buckets; without memory the chains stay long. */
static void icache_grow(void)
{
    u32 bits = icache.table ? icache.bits : ICACHE_FIRST;
    struct inode **old = icache.table ? icache.table : icache_first, **table = kzalloc(sizeof(*table) << (bits + 2));
    if (!table)
        return;
    for (u32 k = 0; k < 1u << bits; k++) {
        for (struct inode *i = old[k], *next; i; i = next) {
            struct inode **b = bucket_in(table, bits + 2, i->sb, i->cache_key);
            next = i->cache_next;
            i->cache_next = *b;
            *b = i;
        }
    }
    kfree(icache.table);
    icache.table = table;
    icache.bits = bits + 2;
}

static bool get_unless_zero(u32 *refs)
{
    u32 n = atomic_load(refs);
    while (n)
        if (__atomic_compare_exchange_n(refs, &n, n + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

/* icache_lock held. */
static struct inode *icache_find(struct super_block *sb, u64 key)
{
    for (struct inode *i = *icache_bucket(sb, key); i; i = i->cache_next)
        if (i->sb == sb && i->cache_key == key && get_unless_zero(&i->refs))
            return i;
    return NULL;
}

/* icache_lock held. */
static void icache_link(struct inode *i, u64 key)
{
    if (++icache.count > 2u << (icache.table ? icache.bits : ICACHE_FIRST))
        icache_grow();
    struct inode **b = icache_bucket(i->sb, key);
    i->cache_key = key;
    i->cache_next = *b;
    *b = i;
    i->flags |= INODE_CACHED;
}

struct inode *inode_cache_get(struct super_block *sb, u64 key)
{
    mutex_lock(&icache_lock);
    struct inode *i = icache_find(sb, key);
    mutex_unlock(&icache_lock);
    return i;
}

struct inode *inode_cache_add(struct inode *i, u64 key)
{
    mutex_lock(&icache_lock);
    struct inode *first = icache_find(i->sb, key);
    if (!first)
        icache_link(i, key);
    mutex_unlock(&icache_lock);
    if (!first)
        return i;
    iput(i);
    return first;
}

void inode_cache_each(void (*fn)(struct inode *i))
{
    struct inode **table = icache.table ? icache.table : icache_first;
    u32 bits = icache.table ? icache.bits : ICACHE_FIRST;
    for (u32 k = 0; k < 1u << bits; k++)
        for (struct inode *i = table[k]; i; i = i->cache_next)
            fn(i);
}

/* icache_lock held. */
static void icache_unlink(struct inode *i)
{
    for (struct inode **p = icache_bucket(i->sb, i->cache_key); *p; p = &(*p)->cache_next) {
        if (*p == i) {
            *p = i->cache_next;
            icache.count--;
            break;
        }
    }
}

void inode_cache_rekey(struct inode *i, u64 key)
{
    mutex_lock(&icache_lock);
    if (i->flags & INODE_CACHED)
        icache_unlink(i);
    icache_link(i, key);
    mutex_unlock(&icache_lock);
}

void iput(struct inode *i)
{
    if (atomic_sub(&i->refs, 1))
        return;
    if (i->flags & INODE_CACHED) {
        mutex_lock(&icache_lock);
        icache_unlink(i);
        mutex_unlock(&icache_lock);
    }
    if (hooks.inode_gone && (i->pipe || i->sock || !list_empty(&i->watches)))
        hooks.inode_gone(i);
    i->sb->ops->free_inode(i);
}

void inode_init(struct inode *i, struct super_block *sb, u32 mode)
{
    i->sb = sb;
    i->refs = 1;
    i->mode = mode;
    i->nlink = S_ISDIR(mode) ? 2 : 1;
    i->ino = atomic_add(&sb->next_ino, 1);
    i->atime = i->mtime = i->ctime = i->btime = now_ktime();
}

void inode_init_owner(struct inode *i, const struct inode *dir, u32 mode)
{
    const struct cred *c = current_cred();
    i->uid = c ? c->fsuid : 0;
    i->gid = c ? c->fsgid : 0;
    if (dir && (dir->mode & S_ISGID)) {
        i->gid = dir->gid;
        if (S_ISDIR(mode))
            mode |= S_ISGID;
        else if ((mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && c && !cred_in_group(c, i->gid) &&
                 !has_cap(CAP_FSETID))
            mode &= ~S_ISGID;
    }
    i->mode = mode;
}

bool has_cap(int cap)
{
    const struct cred *c = current_cred();
    return !c || (c->cap_effective >> cap & 1);
}

long inode_permission_cred(const struct inode *i, u32 mask, const struct cred *c)
{
    u32 mode = atomic_load_relaxed(&i->mode), bits;
    if (!c)
        return 0;
    if (c->fsuid == i->uid)
        bits = mode >> 6;
    else if (((mode >> 3) & 7) != (mode & 7) && cred_in_group(c, i->gid)) /* asked only if it matters */
        bits = mode >> 3;
    else
        bits = mode;
    if ((mask & ~bits & 7) == 0)
        return 0;
    bool override = c->cap_effective >> CAP_DAC_OVERRIDE & 1, search = c->cap_effective >> CAP_DAC_READ_SEARCH & 1;
    if (S_ISDIR(mode)) {
        if (override || (search && !(mask & MAY_WRITE)))
            return 0;
    } else {
        if (override && (!(mask & MAY_EXEC) || (mode & 0111)))
            return 0;
        if (search && (mask & 7) == MAY_READ)
            return 0;
    }
    return -EACCES;
}

long inode_permission(struct inode *i, u32 mask)
{
    if ((mask & MAY_WRITE) && (i->sb->flags & MS_RDONLY) && (S_ISREG(i->mode) || S_ISDIR(i->mode) || S_ISLNK(i->mode)))
        return -EROFS;
    return inode_permission_cred(i, mask, current_cred());
}

bool inode_owner_or_capable(const struct inode *i)
{
    const struct cred *c = current_cred();
    return !c || c->fsuid == i->uid || has_cap(CAP_FOWNER);
}

void generic_getattr(struct inode *i, struct kstat *st)
{
    st->dev = i->sb->dev;
    st->ino = i->ino;
    st->size = atomic_load_relaxed(&i->size);
    st->blocks = i->blocks;
    st->mode = i->mode;
    st->nlink = i->nlink;
    st->uid = i->uid;
    st->gid = i->gid;
    st->rdev = i->rdev;
    st->blksize = PAGE_SIZE;
    st->atime = i->atime;
    st->mtime = i->mtime;
    st->ctime = i->ctime;
    st->btime = i->btime;
}

long vfs_getattr(const struct path *p, struct kstat *st)
{
    struct inode *i = p->dentry->inode;
    if (i->ops->getattr)
        return i->ops->getattr(i, st);
    generic_getattr(i, st);
    return 0;
}

void generic_setattr(struct inode *i, const struct iattr *a)
{
    if (a->valid & ATTR_UID)
        i->uid = a->uid;
    if (a->valid & ATTR_GID)
        i->gid = a->gid;
    if (a->valid & ATTR_MODE)
        i->mode = (i->mode & S_IFMT) | (a->mode & PERM_MASK);
    if (a->valid & ATTR_ATIME)
        i->atime = a->atime;
    if (a->valid & ATTR_MTIME)
        i->mtime = a->mtime;
    if (a->valid & ATTR_CTIME)
        i->ctime = a->ctime;
}

void touch_mtime(struct inode *i)
{
    i->mtime = i->ctime = now_ktime();
}

static bool time_before_eq(const struct ktime *a, const struct ktime *b)
{
    return a->sec < b->sec || (a->sec == b->sec && a->nsec <= b->nsec);
}

void touch_atime(struct file *f)
{
    struct inode *i = f->inode;
    if (!f->path.mnt || (f->flags & O_NOATIME) || (i->flags & INODE_NO_ATIME) || (f->path.mnt->flags & (MS_NOATIME | MS_RDONLY)))
        return;
    if (!time_before_eq(&i->atime, &i->mtime) && !time_before_eq(&i->atime, &i->ctime))
        return; /* the 24 hour rule is applied at open */
    i->atime = now_ktime();
}

void remove_privs(struct inode *i)
{
    if (!(i->mode & (S_ISUID | S_ISGID)) || has_cap(CAP_FSETID))
        return;
    i->mode &= ~S_ISUID;
    if ((i->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
        i->mode &= ~S_ISGID;
}

/* a->valid as asked for; ATTR_CTIME is always added. inode lock held. */
static long check_setattr(struct inode *i, struct iattr *a)
{
    const struct cred *c = current_cred();
    if ((a->valid & ATTR_UID) && c && !(c->fsuid == i->uid && a->uid == i->uid) && !has_cap(CAP_CHOWN))
        return -EPERM;
    if ((a->valid & ATTR_GID) && c && !has_cap(CAP_CHOWN) &&
        !(c->fsuid == i->uid && (a->gid == i->gid || cred_in_group(c, a->gid))))
        return -EPERM;
    if (a->valid & (ATTR_UID | ATTR_GID)) {
        if (!S_ISDIR(i->mode) && !(a->valid & ATTR_MODE)) {
            u32 mode = i->mode & ~S_ISUID;
            if ((mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
                mode &= ~S_ISGID;
            if (mode != i->mode) {
                a->mode = mode;
                a->valid |= ATTR_MODE;
            }
        }
    } else if (a->valid & ATTR_MODE) {
        if (!inode_owner_or_capable(i))
            return -EPERM;
        if (c && !cred_in_group(c, i->gid) && !has_cap(CAP_FSETID))
            a->mode &= ~S_ISGID;
    }
    return 0;
}

long vfs_setattr(const struct path *p, struct iattr *a)
{
    struct inode *i = p->dentry->inode;
    if (mount_readonly(p->mnt))
        return -EROFS;
    if (!i->ops->setattr)
        return -EPERM;
    mutex_lock(&i->lock);
    long r = check_setattr(i, a);
    if (!r) {
        if (!(a->valid & ATTR_CTIME)) {
            a->valid |= ATTR_CTIME;
            a->ctime = now_ktime();
        }
        r = i->ops->setattr(i, a);
    }
    mutex_unlock(&i->lock);
    if (!r)
        notify_path(p, FSN_ATTRIB);
    return r;
}

long vfs_truncate(const struct path *p, u64 size)
{
    struct inode *i = p->dentry->inode;
    if (S_ISDIR(i->mode))
        return -EISDIR;
    if (!S_ISREG(i->mode))
        return -EINVAL;
    if (mount_readonly(p->mnt))
        return -EROFS;
    if (!i->ops->setattr)
        return -EPERM;
    u64 limit = current_cred() ? current_rlimit(1 /* RLIMIT_FSIZE */) : ~0ull;
    if (size > i->size && size > limit) {
        send_signal_current(25 /* SIGXFSZ */);
        return -EFBIG;
    }
    struct iattr a = {.valid = ATTR_SIZE | ATTR_MTIME | ATTR_CTIME, .size = size};
    a.mtime = a.ctime = now_ktime();
    mutex_lock(&i->lock);
    u32 mode = i->mode;
    bool cut = size < i->size;
    remove_privs(i);
    if (i->mode != mode) {
        a.mode = i->mode;
        i->mode = mode;
        a.valid |= ATTR_MODE;
    }
    long r = i->ops->setattr(i, &a);
    mutex_unlock(&i->lock);
    if (!r && cut && atomic_load(&i->mapped)) /* not before: who maps it now sees the new size or is seen */
        current_file_cut();
    if (!r)
        notify_path(p, FSN_MODIFY);
    return r;
}

struct ktime now_ktime(void)
{
    u64 t = host_clock(0 /* CLOCK_REALTIME */);
    return (struct ktime){(s64)(t / 1000000000u), (u32)(t % 1000000000u)};
}
