/* The mounts of a sandbox at boot (struct mail_mount of wire/broker.h), and the list of this kernel's own file systems. */
#include "fs/mounts.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "fs/dev/dev.h"
#include "fs/erofs/erofs.h"
#include "fs/hostfs/hostfs.h"
#include "fs/overlay/overlay.h"
#include "fs/tmpfs/tmpfs.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char tmpfs_name[] = "tmpfs";
static const char ramfs_name[] = "ramfs";

long fs_init(void)
{
    long r = register_filesystem(tmpfs_name, tmpfs_mount);
    if (!r)
        r = register_filesystem(ramfs_name, tmpfs_mount);
    if (!r)
        r = vfs_init();
    if (!r)
        r = dev_init();
    return r;
}

/* Makes the last component of `name` if it is missing; `link`: text of a symlink. */
static long make_missing(const struct path *root, const char *name, u32 mode, const char *link)
{
    struct parent_ref pr;
    long r = path_parent_from(root, root, name, LOOKUP_FOLLOW | LOOKUP_KERNEL, &pr);
    if (r)
        return r;
    struct inode *dir = pr.dir.dentry->inode;
    if (pr.type == 'n' && S_ISDIR(dir->mode)) {
        mutex_lock(&dir->lock);
        struct dentry *d = lookup_one_locked(pr.dir.dentry, &pr.last);
        if (IS_ERR(d)) {
            r = PTR_ERR(d);
        } else {
            if (!d->inode) {
                struct inode *i = dir->ops->create ? dir->ops->create(dir, &pr.last, mode, 0, link) : ERR_PTR(-EROFS);
                if (IS_ERR(i))
                    r = PTR_ERR(i);
                else
                    d_instantiate(d, i);
            }
            dput(d);
        }
        mutex_unlock(&dir->lock);
    }
    parent_put(&pr);
    return r;
}

static long make_path(const struct path *root, const char *target, u32 mode, const char *link)
{
    char *name = kstrdup(target);
    if (!name)
        return -ENOMEM;
    long r = 0;
    for (char *p = name + 1; !r && *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        r = make_missing(root, name, S_IFDIR | 0755, NULL);
        *p = '/';
    }
    if (!r)
        r = make_missing(root, name, mode, link);
    kfree(name);
    return r;
}

static long find_target(const struct path *root, const char *target, bool is_file, struct path *out)
{
    long r = path_lookup_from(root, root, target, LOOKUP_FOLLOW | LOOKUP_KERNEL, out);
    if (r == -ENOENT)
        r = make_path(root, target, is_file ? S_IFREG | 0644 : S_IFDIR | 0755, NULL);
    else
        return r;
    return r ? r : path_lookup_from(root, root, target, LOOKUP_FOLLOW | LOOKUP_KERNEL, out);
}

/* "/" was mounted: the task that boots lives there from now on. */
static void enter_root(void)
{
    struct path root;
    struct fs_info *fs = current_fs();
    if (!fs)
        return;
    vfs_root(&root);
    fs_info_set_root(fs, &root);
    fs_info_set_pwd(fs, &root);
    path_put(&root);
}

/* Directories that everybody writes to; the others belong to root. */
static u32 tmpfs_mode(const char *target)
{
    const char *base = strrchr(target, '/') + 1;
    if (!strcmp(base, "tmp") || !strcmp(base, "shm") || !strcmp(base, "mqueue"))
        return 01777;
    return !strcmp(base, "root") ? 0700 : 0755;
}

static long make_super(const struct mail_mount *m, struct super_block **out, const char **source)
{
    char options[48];
    u32 ro = m->flags & MOUNT_READONLY ? MS_RDONLY : 0;
    mount_fn fn;
    switch (m->kind) {
    case MOUNT_IMAGE:
        *source = "image";
        return erofs_mount_image(m->index, m->size, out);
    case MOUNT_HOSTFS:
        *source = "host";
        return hostfs_mount(m->index, ro || (m->flags & MOUNT_OVERLAY), out);
    case MOUNT_TMPFS:
        *source = "tmpfs";
        fmt_print(options, sizeof(options), "size=%lu,mode=%o", (unsigned long)m->size, tmpfs_mode(m->target));
        return tmpfs_mount("tmpfs", ro, options, out);
    case MOUNT_DEV:
        *source = "dev";
        return devtmpfs_mount("dev", 0, "", out);
    case MOUNT_PROC:
    case MOUNT_SYS:
        *source = m->kind == MOUNT_PROC ? "proc" : "sysfs";
        fn = find_filesystem(*source);
        return fn ? fn(*source, ro, "", out) : -ENODEV;
    default: return -EINVAL;
    }
}

static bool starts_with(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

/* A file system that belongs to the one at `parent`, at a directory it has. */
static long mount_inside(const char *parent, const char *dir, const char *type, u32 flags)
{
    struct super_block *sb;
    struct path root, target;
    char name[64];
    mount_fn fn = find_filesystem(type);
    if (!fn)
        return 0;
    fmt_print(name, sizeof(name), "%s/%s", parent, dir);
    vfs_root(&root);
    long r = path_lookup_from(&root, &root, name, LOOKUP_FOLLOW | LOOKUP_KERNEL, &target);
    path_put(&root);
    if (r)
        return r;
    r = fn(type, 0, "", &sb);
    if (!r)
        r = vfs_mount(sb, NULL, type, &target, flags);
    path_put(&target);
    return r;
}

/* Is there something at `target` in the tree of sb? false also when a link is on the way. */
static bool has_place(struct super_block *sb, const char *target)
{
    struct inode *at = sb->root->inode, *next;
    iget(at);
    for (const char *end; at && *target; target = end) {
        target += *target == '/';
        end = strchr(target, '/') ?: target + strlen(target);
        if (end == target)
            continue;
        struct qstr name = qstr_make(target, (u32)(end - target));
        next = NULL;
        if (S_ISDIR(at->mode)) {
            mutex_lock(&at->lock);
            next = at->ops->lookup(at, &name);
            mutex_unlock(&at->lock);
        }
        iput(at);
        at = IS_ERR(next) ? NULL : next;
    }
    bool found = at && !S_ISLNK(at->mode);
    if (at)
        iput(at);
    return found;
}

/* Would a place for another mount have to be made in the root file system? */
static bool lacks_places(struct super_block *sb, const struct mail_boot *all)
{
    const struct mail_mount *m = mail_mount_first(all), *other;
    for (u32 i = 0; i < all->mount_count; i++, m = mail_mount_next(m)) {
        bool inside = false; /* of another mount */
        other = mail_mount_first(all);
        for (u32 k = 0; k < i; k++, other = mail_mount_next(other)) {
            size_t len = strlen(other->target);
            inside |= len > 1 && !strncmp(m->target, other->target, len) && m->target[len] == '/';
        }
        if (m->target[1] && !inside && !has_place(sb, m->target))
            return true;
    }
    return false;
}

/* A layer over *sb. readonly: it holds what is made at boot, and nothing more. */
static long add_layer(struct super_block **sb, const char **source, bool readonly)
{
    struct super_block *lower = *sb;
    long r = overlay_mount(&lower, 1, sb);
    *source = "overlay";
    if (!r && readonly)
        (*sb)->flags |= MS_RDONLY;
    return r;
}

long boot_mount(const struct mail_mount *m, const struct mail_boot *all)
{
    struct super_block *sb;
    const char *source;
    struct path root, target;
    long r;
    if (m->target[0] != '/')
        return -EINVAL;
    if (m->kind == MOUNT_SYMLINK) {
        vfs_root(&root);
        r = make_path(&root, m->target, S_IFLNK | 0777, m->target + strlen(m->target) + 1);
        path_put(&root);
        return r;
    }
    r = make_super(m, &sb, &source);
    if (r)
        return r;
    bool readonly = m->flags & MOUNT_READONLY, writes = m->flags & MOUNT_OVERLAY;
    if (S_ISDIR(sb->root->inode->mode) &&
        (writes || (readonly && !m->target[1] && m->kind != MOUNT_TMPFS && lacks_places(sb, all))))
        r = add_layer(&sb, &source, !writes);
    if (r)
        return r;
    u32 flags = (readonly ? MS_RDONLY : 0) |
                (m->kind == MOUNT_PROC || m->kind == MOUNT_SYS ? MS_NOSUID | MS_NODEV | MS_NOEXEC : 0) |
                (m->kind == MOUNT_HOSTFS || starts_with(m->target, "/tmp") ? MS_NOSUID | MS_NODEV : 0) | MS_RELATIME;
    if (!m->target[1]) {
        r = vfs_mount(sb, NULL, source, NULL, flags);
        enter_root();
        return r;
    }
    vfs_root(&root);
    r = find_target(&root, m->target, !S_ISDIR(sb->root->inode->mode), &target);
    if (!r) {
        if (S_ISDIR(target.dentry->inode->mode) != S_ISDIR(sb->root->inode->mode))
            r = -ENOTDIR;
        else
            r = vfs_mount(sb, NULL, source, &target, flags);
        path_put(&target);
    }
    path_put(&root);
    if (!r && m->kind == MOUNT_DEV)
        r = mount_inside(m->target, "pts", "devpts", MS_NOSUID | MS_NOEXEC | MS_RELATIME);
    if (!r && m->kind == MOUNT_SYS)
        r = mount_inside(m->target, "fs/cgroup", "cgroup2", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME);
    return r;
}
