/* /dev: a tmpfs whose nodes are made here and by dev_create() of others (tty, pty); and the memory devices null,
 * zero, full, random, urandom.
 *
 * The super block is made on first use and shared by all its mounts, so dev_create() works before and after it is mounted. */
#include "fs/dev/dev.h"

#include <linux/capability.h>
#include <linux/random.h>

#include "base/string.h"
#include "core/kstate.h"
#include "core/random.h"
#include "core/uaccess.h"
#include "fs/tmpfs/tmpfs.h"
#include "vfs/hooks.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char devtmpfs_name[] = "devtmpfs";
static const char mem_name[] = "mem";


#define MEM_MAJOR 1u
#define POOL_BITS 256 /* what a seeded generator says it has: random(4) */
enum { MEM_NULL = 3, MEM_ZERO = 5, MEM_FULL = 7, MEM_RANDOM = 8, MEM_URANDOM = 9 };

static KSTATE struct super_block *dev_sb;
static KSTATE struct mutex dev_lock; /* making dev_sb */

static u32 minor_of(const struct file *f)
{
    return (u32)(f->inode->rdev & 0xff);
}

static long mem_open(struct file *f)
{
    u32 minor = minor_of(f);
    if (minor != MEM_NULL && minor != MEM_ZERO && minor != MEM_FULL && minor != MEM_RANDOM && minor != MEM_URANDOM)
        return -ENXIO;
    f->mode |= FMODE_PREAD | FMODE_SEEK;
    return 0;
}

static long random_read(struct uio *u)
{
    u8 buf[512];
    long done = 0;
    while (u->resid) {
        u64 size = MIN(u->resid, (u64)sizeof(buf));
        random_bytes(buf, size);
        long r = uio_write_to(u, buf, size);
        if (r > 0)
            done += r;
        if (r < (long)size)
            return done ? done : r;
        if (signal_pending())
            break;
    }
    return done;
}

static long mem_read(struct file *f, struct uio *u, u64 *pos)
{
    (void)pos;
    switch (minor_of(f)) {
    case MEM_NULL: return 0;
    case MEM_ZERO:
    case MEM_FULL: return uio_zero(u, u->resid);
    default: return random_read(u);
    }
}

static long mem_write(struct file *f, struct uio *u, u64 *pos)
{
    (void)pos;
    if (minor_of(f) == MEM_FULL)
        return u->resid ? -ENOSPC : 0;
    long r = (long)u->resid;
    u->resid = 0;
    return r;
}

static long mem_llseek(struct file *f, s64 off, int whence)
{
    (void)off;
    (void)whence;
    return (long)(f->pos = 0);
}

static long mem_ioctl(struct file *f, u32 cmd, u64 arg)
{
    u32 minor = minor_of(f);
    if (minor != MEM_RANDOM && minor != MEM_URANDOM)
        return -ENOTTY;
    switch (cmd) {
    case RNDGETENTCNT:
        return put_user((int)POOL_BITS, arg);
    case RNDADDTOENTCNT: case RNDADDENTROPY: case RNDZAPENTCNT: case RNDCLEARPOOL: case RNDRESEEDCRNG: /* nothing comes of them */
        return capable(CAP_SYS_ADMIN) ? 0 : -EPERM;
    }
    return -EINVAL;
}

/* /dev/zero: MAP_SHARED gives shared zero pages, MAP_PRIVATE anonymous ones; fd -1 says: anonymous. */
static long mem_map(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out)
{
    (void)shared;
    (void)write_shared;
    if (minor_of(f) != MEM_ZERO)
        return -ENODEV;
    *out = (struct map_extent){.fd = -1, .off = off, .size = PAGE_UP(max)};
    return 0;
}

static const struct file_ops mem_fops = {
    .open = mem_open,
    .read = mem_read,
    .write = mem_write,
    .llseek = mem_llseek,
    .ioctl = mem_ioctl,
    .map = mem_map,
};

/* ---- the tree ---- */

static long add_node(struct dentry *dir, const char *name, u32 mode, u64 rdev, const char *target)
{
    struct qstr q = qstr_of(name);
    struct inode *i = dir->inode;
    mutex_lock(&i->lock);
    struct dentry *d = lookup_one_locked(dir, &q);
    long r = 0;
    if (IS_ERR(d)) {
        r = PTR_ERR(d);
    } else if (d->inode) {
        r = -EEXIST;
        dput(d);
    } else {
        struct inode *n = i->ops->create(i, &q, mode, rdev, target);
        if (IS_ERR(n)) {
            r = PTR_ERR(n);
        } else {
            n->uid = n->gid = 0;
            d_instantiate(d, n);
        }
        dput(d);
    }
    mutex_unlock(&i->lock);
    return r;
}

static const struct {
    const char *name;
    u32 mode;
    u32 minor;
    const char *target;
} nodes[] = {
    {"null", S_IFCHR | 0666, MEM_NULL, NULL},
    {"zero", S_IFCHR | 0666, MEM_ZERO, NULL},
    {"full", S_IFCHR | 0666, MEM_FULL, NULL},
    {"random", S_IFCHR | 0666, MEM_RANDOM, NULL},
    {"urandom", S_IFCHR | 0666, MEM_URANDOM, NULL},
    {"fd", S_IFLNK | 0777, 0, "/proc/self/fd"},
    {"stdin", S_IFLNK | 0777, 0, "/proc/self/fd/0"},
    {"stdout", S_IFLNK | 0777, 0, "/proc/self/fd/1"},
    {"stderr", S_IFLNK | 0777, 0, "/proc/self/fd/2"},
    {"ptmx", S_IFLNK | 0777, 0, "pts/ptmx"},
    {"shm", S_IFDIR | 01777, 0, NULL},
    {"mqueue", S_IFDIR | 01777, 0, NULL},
    {"pts", S_IFDIR | 0755, 0, NULL},
};

static long dev_tree(void)
{
    long r = 0;
    mutex_lock(&dev_lock);
    if (!dev_sb) {
        struct super_block *sb;
        r = tmpfs_mount("dev", 0, "mode=755", &sb);
        if (!r) {
            sb->fstype = devtmpfs_name;
            sb->mounts = 1; /* stays when it is unmounted */
            for (u32 n = 0; n < ARRAY_COUNT(nodes) && !r; n++)
                r = add_node(sb->root, nodes[n].name, nodes[n].mode,
                             S_ISCHR(nodes[n].mode) ? makedev(MEM_MAJOR, nodes[n].minor) : 0, nodes[n].target);
            if (!r)
                atomic_store(&dev_sb, sb);
        }
    }
    mutex_unlock(&dev_lock);
    return r;
}

long devtmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    (void)source;
    (void)flags;
    (void)options;
    long r = dev_tree();
    *out = dev_sb;
    return r;
}

long dev_create(const char *path, u32 mode, u64 rdev)
{
    long r = dev_tree();
    struct dentry *dir = r ? NULL : dget(dev_sb->root);
    const char *slash;
    while (!r && (slash = strchr(path, '/'))) {
        char name[NAME_LEN_MAX + 1];
        u32 len = (u32)(slash - path);
        if (len > NAME_LEN_MAX) {
            r = -ENAMETOOLONG;
            break;
        }
        memcpy(name, path, len);
        name[len] = 0;
        struct qstr q = qstr_of(name);
        mutex_lock(&dir->inode->lock);
        struct dentry *d = lookup_one_locked(dir, &q);
        mutex_unlock(&dir->inode->lock);
        if (IS_ERR(d)) {
            r = PTR_ERR(d);
            break;
        }
        if (!d->inode) {
            dput(d);
            r = add_node(dir, name, S_IFDIR | 0755, 0, NULL);
            if (r == -EEXIST)
                r = 0;
            continue;
        }
        dput(dir);
        dir = d;
        path = slash + 1;
    }
    if (!r)
        r = add_node(dir, path, mode, rdev, NULL);
    if (dir)
        dput(dir);
    return r;
}

/* Takes a node of dev_create() away (a closed pty). */
long dev_remove(const char *path)
{
    struct path root = {.dentry = NULL}, p;
    struct super_block *sb = atomic_load(&dev_sb);
    const char *base = strrchr(path, '/');
    char dir_name[64];
    if (!sb)
        return -ENOENT;
    struct mount *m = mount_kernel(sb);
    if (!m)
        return -ENOMEM;
    root = (struct path){m, dget(sb->root)};
    str_copy(dir_name, base ? path : ".", sizeof(dir_name));
    if (base && (size_t)(base - path) < sizeof(dir_name))
        dir_name[base - path] = 0;
    long r = path_lookup_from(&root, &root, dir_name, LOOKUP_KERNEL, &p);
    if (!r) {
        struct qstr q = qstr_of(base ? base + 1 : path);
        struct inode *dir = p.dentry->inode;
        mutex_lock(&dir->lock);
        struct dentry *d = lookup_one_locked(p.dentry, &q);
        r = IS_ERR(d) ? PTR_ERR(d) : d->inode ? 0 : -ENOENT;
        if (!r)
            r = dir->ops->unlink(dir, &q, d->inode);
        if (!r)
            d_drop(d);
        if (!IS_ERR(d))
            dput(d);
        mutex_unlock(&dir->lock);
        path_put(&p);
    }
    path_put(&root);
    return r;
}

long dev_init(void)
{
    long r = register_chrdev(MEM_MAJOR, 0, 16, &mem_fops, mem_name);
    return r ? r : register_filesystem(devtmpfs_name, devtmpfs_mount);
}
