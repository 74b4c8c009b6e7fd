/* Mounts: see mount.h. */
#include "vfs/internal.h"

#include <linux/mount.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"

#define MOUNT_BUCKETS 64u
#define MOUNTS_MAX 4096u
#define FS_TYPES 16

struct fs_type {
    const char *name;
    mount_fn mount;
};

KSTATE struct mutex mount_lock;
static KSTATE struct list mounts;
static KSTATE struct mount *buckets[MOUNT_BUCKETS];
static KSTATE struct mount *free_mounts;
static KSTATE struct mount *root_mount;
static KSTATE u32 next_id, mount_count;
static KSTATE u64 next_dev;
static KSTATE struct fs_type types[FS_TYPES];
static KSTATE u32 type_count;

long register_filesystem(const char *name, mount_fn mount)
{
    if (type_count == FS_TYPES)
        return -ENOSPC;
    types[type_count++] = (struct fs_type){name, mount};
    return 0;
}

mount_fn find_filesystem(const char *name)
{
    for (u32 n = 0; n < type_count; n++)
        if (!strcmp(types[n].name, name))
            return types[n].mount;
    return NULL;
}

const char *filesystem_name(u32 index)
{
    return index < type_count ? types[index].name : NULL;
}

struct list *mount_list(void)
{
    return &mounts;
}

struct super_block *sb_alloc(const struct super_ops *ops, const char *fstype, u32 flags)
{
    struct super_block *sb = knew(struct super_block);
    if (!sb)
        return NULL;
    sb->ops = ops;
    sb->fstype = fstype;
    sb->flags = flags;
    sb->dev = makedev(0, (u32)atomic_add(&next_dev, 1) + 20);
    sb->next_ino = 1;
    return sb;
}

static u32 bucket_of(const struct mount *m, const struct dentry *d)
{
    return (u32)(((u64)m / 16 * 31 + (u64)d / 32 * 17) % MOUNT_BUCKETS);
}

struct mount *mount_at_fast(const struct mount *m, const struct dentry *d)
{
    u32 guard = 0;
    for (struct mount *x = atomic_load(&buckets[bucket_of(m, d)]); x && guard++ < MOUNTS_MAX; x = atomic_load(&x->hash_next))
        if (x->parent == m && x->mountpoint == d)
            return x;
    return NULL;
}

/* dcache_lock is taken as a plain lock here: the count need not change for readers. */
struct mount *mount_at(const struct mount *m, const struct dentry *d)
{
    mutex_lock(&mount_lock);
    struct mount *x = mount_at_fast(m, d);
    if (x)
        mntget(x);
    mutex_unlock(&mount_lock);
    return x;
}

/* mount_lock held. */
static struct mount *mount_alloc(struct super_block *sb, struct dentry *root, const char *source, u32 flags)
{
    struct mount *m = free_mounts;
    char *text = kstrdup(source);
    if (!text)
        return NULL;
    if (m) {
        free_mounts = m->hash_next;
    } else {
        m = knew(struct mount);
        if (!m) {
            kfree(text);
            return NULL;
        }
    }
    atomic_add(&m->refs, 1);
    m->flags = flags;
    m->id = ++next_id + 20;
    m->child_count = 0;
    m->sb = sb;
    m->root = dget(root);
    m->parent = m;
    m->mountpoint = m->root;
    m->hash_next = NULL;
    m->source = text;
    sb->mounts++;
    return m;
}

void super_free(struct super_block *sb)
{
    kfree(sb->priv);
    kfree(sb);
}

static void sb_release(struct super_block *sb)
{
    dcache_shrink_sb(sb);
    struct dentry *root = sb->root;
    sb->root = NULL;
    d_drop(root);
    dput(root);
    dcache_shrink_sb(sb);
    if (sb->ops->put_super)
        sb->ops->put_super(sb);
}

void mntput(struct mount *m)
{
    if (atomic_sub(&m->refs, 1) || m->parent != m || list_linked(&m->link))
        return;
    /* Detached and unused: the memory stays, what it held goes. */
    mutex_lock(&mount_lock);
    if (atomic_load(&m->refs) || !m->root) {
        mutex_unlock(&mount_lock);
        return;
    }
    struct dentry *root = m->root;
    struct super_block *sb = m->sb;
    char *source = m->source;
    dcache_write_begin();
    m->root = NULL;
    m->source = NULL;
    m->hash_next = free_mounts;
    free_mounts = m;
    dcache_write_end();
    bool last = --sb->mounts == 0;
    mutex_unlock(&mount_lock);
    kfree(source);
    dput(root);
    if (last)
        sb_release(sb);
}

long vfs_mount(struct super_block *sb, struct dentry *root, const char *source, const struct path *target, u32 flags)
{
    if (!root)
        root = sb->root;
    mutex_lock(&mount_lock);
    if (mount_count >= MOUNTS_MAX) {
        mutex_unlock(&mount_lock);
        return -ENOSPC;
    }
    struct mount *m = mount_alloc(sb, root, source ? source : "none", flags);
    if (!m) {
        mutex_unlock(&mount_lock);
        return -ENOMEM;
    }
    dcache_write_begin();
    if (target) {
        m->parent = mntget(target->mnt);
        m->mountpoint = dget(target->dentry);
        u32 b = bucket_of(m->parent, m->mountpoint);
        m->hash_next = buckets[b];
        atomic_store(&buckets[b], m);
        atomic_or(&m->mountpoint->flags, D_MOUNTED);
        m->parent->child_count++;
    } else {
        root_mount = m; /* the first, or one that takes the place of "/" at boot */
    }
    dcache_write_end();
    list_add_tail(&mounts, &m->link);
    mount_count++;
    mutex_unlock(&mount_lock);
    return 0;
}

struct mount *mount_kernel(struct super_block *sb)
{
    mutex_lock(&mount_lock);
    struct mount *m = mount_alloc(sb, sb->root, "none", 0);
    if (m)
        list_init(&m->link);
    mutex_unlock(&mount_lock);
    return m;
}

static bool mountpoint_used(const struct dentry *d)
{
    for (u32 b = 0; b < MOUNT_BUCKETS; b++)
        for (struct mount *x = buckets[b]; x; x = x->hash_next)
            if (x->mountpoint == d)
                return true;
    return false;
}

long vfs_umount(struct mount *m, int flags)
{
    mutex_lock(&mount_lock);
    if (m->parent == m || !list_linked(&m->link)) {
        mutex_unlock(&mount_lock);
        return -EINVAL;
    }
    /* The mount's own reference and the caller's. */
    if (m->child_count || (!(flags & MNT_DETACH) && atomic_load(&m->refs) > 2)) {
        mutex_unlock(&mount_lock);
        return -EBUSY;
    }
    struct mount *parent = m->parent;
    struct dentry *point = m->mountpoint;
    dcache_write_begin();
    for (struct mount **p = &buckets[bucket_of(parent, point)]; *p; p = &(*p)->hash_next) {
        if (*p == m) {
            *p = m->hash_next;
            break;
        }
    }
    m->hash_next = NULL;
    m->parent = m;
    m->mountpoint = m->root;
    parent->child_count--;
    if (!mountpoint_used(point))
        atomic_and(&point->flags, ~D_MOUNTED);
    dcache_write_end();
    list_del(&m->link);
    mount_count--;
    mutex_unlock(&mount_lock);
    dput(point);
    mntput(parent);
    mntput(m); /* the attachment's; the caller still holds one */
    return 0;
}

void vfs_root(struct path *out)
{
    mutex_lock(&mount_lock);
    struct mount *m = root_mount, *up;
    while ((up = mount_at_fast(m, m->root)))
        m = up;
    out->mnt = mntget(m);
    out->dentry = dget(m->root);
    mutex_unlock(&mount_lock);
}

long vfs_init(void)
{
    long r = anon_init();
    if (r)
        return r;
    mount_fn tmpfs = find_filesystem("tmpfs");
    if (!tmpfs)
        return -ENODEV;
    struct super_block *sb;
    r = tmpfs("rootfs", 0, "mode=755", &sb);
    if (r)
        return r;
    return vfs_mount(sb, NULL, "rootfs", NULL, 0);
}
