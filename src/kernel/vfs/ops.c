/* Changes of the name space: mknod, mkdir, symlink, link, unlink, rmdir, rename.
 *
 * Locks: rename_lock (renames between directories only), then directories (ancestor first, else by address), then
 * the inodes named (by address). Notifications are sent after all locks are dropped. */
#include "vfs/internal.h"

#include "core/kstate.h"
#include "vfs/hooks.h"

static KSTATE struct mutex rename_lock;
static KSTATE u32 rename_cookie;

u32 apply_umask(u32 mode)
{
    struct fs_info *fs = current_fs();
    return fs ? mode & ~fs->umask : mode;
}

long may_create(struct inode *dir)
{
    if (dir->flags & INODE_DEAD_DIR)
        return -ENOENT;
    return inode_permission(dir, MAY_WRITE | MAY_EXEC);
}

long may_delete(struct inode *dir, struct inode *victim, bool is_dir)
{
    long r = inode_permission(dir, MAY_WRITE | MAY_EXEC);
    if (r)
        return r;
    const struct cred *c = current_cred();
    if ((dir->mode & S_ISVTX) && c && c->fsuid != victim->uid && c->fsuid != dir->uid && !has_cap(CAP_FOWNER))
        return -EPERM;
    if (is_dir && !S_ISDIR(victim->mode))
        return -ENOTDIR;
    if (!is_dir && S_ISDIR(victim->mode))
        return -EISDIR;
    if (dir->flags & INODE_DEAD_DIR)
        return -ENOENT;
    return 0;
}

void notify_dir(struct inode *dir, const struct qstr *name, struct inode *i, u32 mask, u32 cookie)
{
    if (hooks.fsnotify)
        hooks.fsnotify(dir, name, i, mask | (i && S_ISDIR(i->mode) ? FSN_ISDIR : 0), cookie);
}

/* Locks the directory of a name and looks the name up. An error: not locked. */
static struct dentry *lock_last(const struct parent_ref *pr)
{
    struct inode *dir = pr->dir.dentry->inode;
    if (!S_ISDIR(dir->mode))
        return ERR_PTR(-ENOTDIR);
    long r = inode_permission_cred(dir, MAY_EXEC, current_cred());
    if (r)
        return ERR_PTR(r);
    mutex_lock(&dir->lock);
    struct dentry *d = lookup_one_locked(pr->dir.dentry, &pr->last);
    if (IS_ERR(d))
        mutex_unlock(&dir->lock);
    return d;
}

long vfs_make(int dirfd, const char *name, u32 mode, u64 rdev, const char *target, struct path *made)
{
    struct parent_ref pr;
    long r = path_parent(dirfd, name, LOOKUP_FOLLOW, &pr);
    if (r)
        return r;
    struct inode *dir = pr.dir.dentry->inode, *i = NULL;
    struct dentry *d = pr.type == 'n' ? lock_last(&pr) : ERR_PTR(-EEXIST);
    if (IS_ERR(d)) {
        r = PTR_ERR(d);
        goto out;
    }
    if (d->inode)
        r = -EEXIST;
    else if (pr.trailing && !S_ISDIR(mode))
        r = -ENOENT;
    else if (mount_readonly(pr.dir.mnt))
        r = -EROFS;
    else if (!(r = may_create(dir)))
        r = dir->ops->create ? 0 : -EPERM;
    if (!r && (S_ISCHR(mode) || S_ISBLK(mode)) && !has_cap(CAP_MKNOD) && !(S_ISCHR(mode) && rdev == 0))
        r = -EPERM;
    if (!r) {
        i = dir->ops->create(dir, &pr.last, mode, rdev, target);
        if (IS_ERR(i))
            r = PTR_ERR(i);
        else
            d_instantiate(d, i);
    }
    mutex_unlock(&dir->lock);
    if (!r)
        notify_dir(dir, &pr.last, i, FSN_CREATE, 0);
    if (!r && made) {
        made->mnt = mntget(pr.dir.mnt);
        made->dentry = dget(d);
    }
    dput(d);
out:
    parent_put(&pr);
    return r;
}

long vfs_mknod(int dirfd, const char *name, u32 mode, u64 rdev, struct inode **out)
{
    struct path p;
    long r = vfs_make(dirfd, name, (mode & S_IFMT) | apply_umask(mode & PERM_MASK), rdev, NULL, &p);
    if (r)
        return r;
    if (out) {
        *out = p.dentry->inode;
        iget(*out);
    }
    path_put(&p);
    return 0;
}

static void drop_name(struct dentry *d, struct inode *i)
{
    if (S_ISDIR(i->mode)) {
        i->flags |= INODE_DEAD_DIR;
        d_prune(d);
    }
    d_drop(d);
}

long vfs_remove(int dirfd, const char *name, bool is_dir)
{
    struct parent_ref pr;
    long r = path_parent(dirfd, name, LOOKUP_FOLLOW, &pr);
    if (r)
        return r;
    struct inode *dir = pr.dir.dentry->inode, *i = NULL;
    if (pr.type != 'n') {
        r = !is_dir ? -EISDIR : pr.type == '.' ? -EINVAL : pr.type == ':' ? -ENOTEMPTY : -EBUSY;
        goto out;
    }
    struct dentry *d = lock_last(&pr);
    if (IS_ERR(d)) {
        r = PTR_ERR(d);
        goto out;
    }
    if (!d->inode) {
        r = -ENOENT;
    } else {
        i = d->inode;
        if (!is_dir && pr.trailing)
            r = S_ISDIR(i->mode) ? -EISDIR : -ENOTDIR;
        else if (mount_readonly(pr.dir.mnt))
            r = -EROFS;
        else if (!(r = may_delete(dir, i, is_dir)))
            r = atomic_load(&d->flags) & D_MOUNTED ? -EBUSY : 0;
        long (*op)(struct inode *, const struct qstr *, struct inode *) = is_dir ? dir->ops->rmdir : dir->ops->unlink;
        if (!r && !op)
            r = -EPERM;
        if (!r) {
            mutex_lock(&i->lock);
            r = op(dir, &pr.last, i);
            if (!r)
                drop_name(d, i);
            mutex_unlock(&i->lock);
        }
    }
    mutex_unlock(&dir->lock);
    if (!r) {
        if (hooks.fsnotify && !is_dir)
            hooks.fsnotify(NULL, NULL, i, FSN_ATTRIB, 0);
        if (hooks.fsnotify && (is_dir || !i->nlink))
            hooks.fsnotify(NULL, NULL, i, FSN_DELETE_SELF, 0);
        notify_dir(dir, &pr.last, i, FSN_DELETE, 0);
    }
    dput(d);
out:
    parent_put(&pr);
    return r;
}

long vfs_link(int old_dirfd, const char *old_name, int new_dirfd, const char *new_name, int at_flags)
{
    struct path old;
    struct parent_ref pr;
    u32 lookup = at_flags & AT_SYMLINK_FOLLOW ? LOOKUP_FOLLOW : 0;
    if (at_flags & AT_EMPTY_PATH) {
        if (!*old_name && !has_cap(CAP_DAC_READ_SEARCH))
            return -ENOENT;
        lookup |= LOOKUP_EMPTY;
    }
    long r = path_lookup(old_dirfd, old_name, lookup, &old);
    if (r)
        return r;
    r = path_parent(new_dirfd, new_name, LOOKUP_FOLLOW, &pr);
    if (r) {
        path_put(&old);
        return r;
    }
    struct inode *dir = pr.dir.dentry->inode, *i = old.dentry->inode;
    struct dentry *d = pr.type == 'n' ? lock_last(&pr) : ERR_PTR(-EEXIST);
    if (IS_ERR(d)) {
        r = PTR_ERR(d);
        goto out;
    }
    if (d->inode)
        r = -EEXIST;
    else if (pr.trailing)
        r = -ENOENT;
    else if (mount_readonly(pr.dir.mnt))
        r = -EROFS;
    else if (old.mnt != pr.dir.mnt && (old.mnt->sb != pr.dir.mnt->sb || (i->flags & INODE_PSEUDO) || old.mnt != anon_mount))
        r = -EXDEV;
    else if (!(r = may_create(dir)))
        r = S_ISDIR(i->mode) || !dir->ops->link ? -EPERM : 0;
    if (!r && i->sb != dir->sb)
        r = -EXDEV;
    if (!r) {
        mutex_lock(&i->lock);
        r = dir->ops->link(dir, &pr.last, i);
        mutex_unlock(&i->lock);
        if (!r) {
            iget(i);
            d_instantiate(d, i);
        }
    }
    mutex_unlock(&dir->lock);
    if (!r) {
        if (hooks.fsnotify)
            hooks.fsnotify(NULL, NULL, i, FSN_ATTRIB, 0);
        notify_dir(dir, &pr.last, i, FSN_CREATE, 0);
    }
    dput(d);
out:
    parent_put(&pr);
    path_put(&old);
    return r;
}

/* ---- rename ---- */

struct rename {
    struct parent_ref from, to;
    struct dentry *old, *new;
    struct inode *first, *second; /* directories in lock order; second NULL if the same */
    bool cross;
};

static void lock_two(struct inode *a, struct inode *b)
{
    if (a > b) {
        struct inode *t = a;
        a = b;
        b = t;
    }
    if (a)
        mutex_lock(&a->lock);
    if (b && b != a)
        mutex_lock(&b->lock);
}

static void unlock_two(struct inode *a, struct inode *b)
{
    if (a)
        mutex_unlock(&a->lock);
    if (b && b != a)
        mutex_unlock(&b->lock);
}

static void lock_dirs(struct rename *n)
{
    struct dentry *a = n->from.dir.dentry, *b = n->to.dir.dentry;
    n->cross = a->inode != b->inode;
    n->second = NULL;
    if (!n->cross) {
        n->first = a->inode;
        mutex_lock(&n->first->lock);
        return;
    }
    mutex_lock(&rename_lock); /* no directory moves meanwhile: ancestry is stable */
    bool b_first = d_is_below(a, b) || (!d_is_below(b, a) && b->inode < a->inode);
    n->first = b_first ? b->inode : a->inode;
    n->second = b_first ? a->inode : b->inode;
    mutex_lock(&n->first->lock);
    mutex_lock(&n->second->lock);
}

static void unlock_dirs(struct rename *n)
{
    if (n->second)
        mutex_unlock(&n->second->lock);
    mutex_unlock(&n->first->lock);
    if (n->cross)
        mutex_unlock(&rename_lock);
}

static long check_rename(struct rename *n, u32 flags)
{
    struct inode *old_dir = n->from.dir.dentry->inode, *new_dir = n->to.dir.dentry->inode;
    if (!n->old->inode)
        return -ENOENT;
    struct inode *i = n->old->inode, *target = n->new->inode;
    if ((flags & RENAME_NOREPLACE) && target)
        return -EEXIST;
    if ((flags & RENAME_EXCHANGE) && !target)
        return -ENOENT;
    if (!S_ISDIR(i->mode) && (n->from.trailing || (!(flags & RENAME_EXCHANGE) && n->to.trailing)))
        return -ENOTDIR;
    if ((flags & RENAME_EXCHANGE) && n->to.trailing && !S_ISDIR(target->mode))
        return -ENOTDIR;
    if (d_is_below(n->to.dir.dentry, n->old))
        return -EINVAL;
    if (target && d_is_below(n->from.dir.dentry, n->new))
        return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
    if (mount_readonly(n->from.dir.mnt))
        return -EROFS;
    if (i == target)
        return 1; /* two names of one file: nothing to do */
    bool is_dir = S_ISDIR(i->mode);
    long r = may_delete(old_dir, i, is_dir);
    if (!r && !target)
        r = may_create(new_dir);
    else if (!r)
        r = may_delete(new_dir, target, flags & RENAME_EXCHANGE ? S_ISDIR(target->mode) : is_dir);
    if (!r && n->cross && is_dir)
        r = inode_permission(i, MAY_WRITE);
    if (!r && n->cross && (flags & RENAME_EXCHANGE) && S_ISDIR(target->mode))
        r = inode_permission(target, MAY_WRITE);
    if (!r && !old_dir->ops->rename)
        r = -EPERM;
    if (!r && ((atomic_load(&n->old->flags) | atomic_load(&n->new->flags)) & D_MOUNTED))
        r = -EBUSY;
    return r;
}

static void notify_rename(struct rename *n, struct inode *i, struct inode *target, u32 flags)
{
    if (!hooks.fsnotify)
        return;
    struct inode *old_dir = n->from.dir.dentry->inode, *new_dir = n->to.dir.dentry->inode;
    u32 cookie = atomic_add(&rename_cookie, 1);
    notify_dir(old_dir, &n->from.last, i, FSN_MOVED_FROM, cookie);
    notify_dir(new_dir, &n->to.last, i, FSN_MOVED_TO, cookie);
    hooks.fsnotify(NULL, NULL, i, FSN_MOVE_SELF | (S_ISDIR(i->mode) ? FSN_ISDIR : 0), 0);
    if (flags & RENAME_EXCHANGE) {
        cookie = atomic_add(&rename_cookie, 1);
        notify_dir(new_dir, &n->to.last, target, FSN_MOVED_FROM, cookie);
        notify_dir(old_dir, &n->from.last, target, FSN_MOVED_TO, cookie);
    } else if (target && (!target->nlink || S_ISDIR(target->mode))) {
        hooks.fsnotify(NULL, NULL, target, FSN_DELETE_SELF, 0);
    }
}

static long rename_locked(struct rename *n, u32 flags, struct inode **moved, struct inode **replaced)
{
    n->old = lookup_one_locked(n->from.dir.dentry, &n->from.last);
    if (IS_ERR(n->old))
        return PTR_ERR(n->old);
    n->new = lookup_one_locked(n->to.dir.dentry, &n->to.last);
    if (IS_ERR(n->new))
        return PTR_ERR(n->new);
    long r = check_rename(n, flags);
    if (r)
        return r;
    struct inode *i = n->old->inode, *target = n->new->inode;
    struct inode *old_dir = n->from.dir.dentry->inode, *new_dir = n->to.dir.dentry->inode;
    lock_two(i, target);
    r = old_dir->ops->rename(old_dir, &n->from.last, i, new_dir, &n->to.last, target, flags);
    if (!r) {
        iget(i);
        *moved = i;
        if (target)
            iget(target);
        *replaced = target;
        if (flags & RENAME_EXCHANGE) {
            d_exchange(n->old, n->new);
        } else {
            if (target)
                drop_name(n->new, target);
            else
                d_drop(n->new);
            r = d_move(n->old, n->to.dir.dentry, &n->to.last);
            if (r) { /* no memory for the name: the cache forgets both, the file system has done it */
                d_drop(n->old);
                r = 0;
            }
        }
    }
    unlock_two(i, target);
    return r;
}

long vfs_rename(int old_dirfd, const char *old_name, int new_dirfd, const char *new_name, u32 flags)
{
    struct rename n = {.old = NULL};
    struct inode *moved = NULL, *replaced = NULL;
    if (flags & ~(u32)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
        return -EINVAL;
    if ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
        return -EINVAL;
    long r = path_parent(old_dirfd, old_name, LOOKUP_FOLLOW, &n.from);
    if (r)
        return r;
    r = path_parent(new_dirfd, new_name, LOOKUP_FOLLOW, &n.to);
    if (r) {
        parent_put(&n.from);
        return r;
    }
    const struct cred *c = current_cred();
    if (n.from.dir.mnt != n.to.dir.mnt)
        r = -EXDEV;
    else if (n.from.type != 'n')
        r = -EBUSY;
    else if (n.to.type != 'n')
        r = flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
    else if (!S_ISDIR(n.from.dir.dentry->inode->mode) || !S_ISDIR(n.to.dir.dentry->inode->mode))
        r = -ENOTDIR;
    else if (!(r = inode_permission_cred(n.from.dir.dentry->inode, MAY_EXEC, c)))
        r = inode_permission_cred(n.to.dir.dentry->inode, MAY_EXEC, c);
    if (!r) {
        lock_dirs(&n);
        r = rename_locked(&n, flags, &moved, &replaced);
        unlock_dirs(&n);
        if (!r)
            notify_rename(&n, moved, replaced, flags);
        if (n.old && !IS_ERR(n.old))
            dput(n.old);
        if (n.new && !IS_ERR(n.new))
            dput(n.new);
        if (moved)
            iput(moved);
        if (replaced)
            iput(replaced);
    }
    parent_put(&n.from);
    parent_put(&n.to);
    return r > 0 ? 0 : r;
}
