/* Extended attributes: name spaces and permissions; the file systems store them. */
#include "vfs/internal.h"

#include "base/string.h"

static long xattr_permission(struct inode *i, const char *name, u32 mask)
{
    const char *dot = strchr(name, '.');
    if (dot && !dot[1])
        return -EINVAL;
    if (!strncmp(name, "security.", 9) || !strncmp(name, "system.", 7))
        return (mask & MAY_WRITE) && !has_cap(CAP_SYS_ADMIN) ? -EPERM : 0;
    if (!strncmp(name, "trusted.", 8)) {
        if (!has_cap(CAP_SYS_ADMIN))
            return mask & MAY_WRITE ? -EPERM : -ENODATA;
        return 0;
    }
    if (!strncmp(name, "user.", 5)) {
        if (!S_ISREG(i->mode) && !S_ISDIR(i->mode))
            return mask & MAY_WRITE ? -EPERM : -ENODATA;
        if (S_ISDIR(i->mode) && (i->mode & S_ISVTX) && (mask & MAY_WRITE) && !inode_owner_or_capable(i))
            return -EPERM;
        return inode_permission(i, mask);
    }
    return -EOPNOTSUPP;
}

long vfs_getxattr(struct inode *i, const char *name, void *buf, size_t size)
{
    long r = xattr_permission(i, name, MAY_READ);
    if (r)
        return r;
    if (!i->ops->getxattr)
        return -EOPNOTSUPP;
    return i->ops->getxattr(i, name, buf, size);
}

long vfs_setxattr(const struct path *p, const char *name, const void *buf, size_t size, int flags)
{
    struct inode *i = p->dentry->inode;
    if (mount_readonly(p->mnt))
        return -EROFS;
    long r = xattr_permission(i, name, MAY_WRITE);
    if (r)
        return r;
    if (!i->ops->setxattr)
        return -EOPNOTSUPP;
    if (!strncmp(name, "system.", 7))
        return -EOPNOTSUPP; /* no ACLs */
    mutex_lock(&i->lock);
    r = i->ops->setxattr(i, name, buf, size, flags);
    mutex_unlock(&i->lock);
    if (!r)
        notify_path(p, FSN_ATTRIB);
    return r;
}

long vfs_listxattr(struct inode *i, char *buf, size_t size)
{
    if (!i->ops->listxattr)
        return 0;
    return i->ops->listxattr(i, buf, size);
}
