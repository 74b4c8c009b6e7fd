/* System calls on names: mkdir, mknod, link, symlink, unlink, rename, readlink, chdir, chroot, getcwd. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "sys/syscall.h"
#include "vfs/internal.h"

static long with_name(uptr user, struct name_buf *n)
{
    long r = name_from_user(n, user);
    if (r < 0)
        return r;
    if (!n->p[0]) {
        name_free(n);
        return -ENOENT;
    }
    return 0;
}

static long make_dir(int dirfd, uptr name, u32 mode)
{
    struct name_buf n;
    long r = with_name(name, &n);
    if (r)
        return r;
    r = vfs_make(dirfd, n.p, S_IFDIR | apply_umask(mode & 01777), 0, NULL, NULL);
    name_free(&n);
    return r;
}

SYSCALL2(mkdir, uptr, name, u32, mode)
{
    return make_dir(AT_FDCWD, name, mode);
}

SYSCALL3(mkdirat, int, dirfd, uptr, name, u32, mode)
{
    return make_dir(dirfd, name, mode);
}

/* The user's 32-bit device number to ours (the same bits). */
static long make_node(int dirfd, uptr name, u32 mode, u32 dev)
{
    struct name_buf n;
    if ((mode & S_IFMT) == 0)
        mode |= S_IFREG;
    if (S_ISDIR(mode))
        return -EPERM;
    if (!S_ISREG(mode) && !S_ISCHR(mode) && !S_ISBLK(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
        return -EINVAL;
    long r = with_name(name, &n);
    if (r)
        return r;
    u64 rdev = S_ISCHR(mode) || S_ISBLK(mode) ? dev : 0;
    r = vfs_make(dirfd, n.p, (mode & S_IFMT) | apply_umask(mode & PERM_MASK), rdev, NULL, NULL);
    name_free(&n);
    return r;
}

SYSCALL3(mknod, uptr, name, u32, mode, u32, dev)
{
    return make_node(AT_FDCWD, name, mode, dev);
}

SYSCALL4(mknodat, int, dirfd, uptr, name, u32, mode, u32, dev)
{
    return make_node(dirfd, name, mode, dev);
}

static long remove_name(int dirfd, uptr name, bool dir)
{
    struct name_buf n;
    long r = with_name(name, &n);
    if (r)
        return r;
    r = vfs_remove(dirfd, n.p, dir);
    name_free(&n);
    return r;
}

SYSCALL1(rmdir, uptr, name)
{
    return remove_name(AT_FDCWD, name, true);
}

SYSCALL1(unlink, uptr, name)
{
    return remove_name(AT_FDCWD, name, false);
}

SYSCALL3(unlinkat, int, dirfd, uptr, name, u32, flags)
{
    if (flags & ~(u32)AT_REMOVEDIR)
        return -EINVAL;
    return remove_name(dirfd, name, flags & AT_REMOVEDIR);
}

static long two_names(uptr a, struct name_buf *x, bool a_may_be_empty, uptr b, struct name_buf *y)
{
    long r = name_from_user(x, a);
    if (r < 0)
        return r;
    r = x->p[0] || a_may_be_empty ? with_name(b, y) : -ENOENT;
    if (r)
        name_free(x);
    return r;
}

static long rename_names(int old_dirfd, uptr old_name, int new_dirfd, uptr new_name, u32 flags)
{
    struct name_buf a, b;
    long r = two_names(old_name, &a, false, new_name, &b);
    if (r)
        return r;
    r = vfs_rename(old_dirfd, a.p, new_dirfd, b.p, flags);
    name_free(&a);
    name_free(&b);
    return r;
}

SYSCALL2(rename, uptr, old_name, uptr, new_name)
{
    return rename_names(AT_FDCWD, old_name, AT_FDCWD, new_name, 0);
}

SYSCALL4(renameat, int, old_dirfd, uptr, old_name, int, new_dirfd, uptr, new_name)
{
    return rename_names(old_dirfd, old_name, new_dirfd, new_name, 0);
}

SYSCALL5(renameat2, int, old_dirfd, uptr, old_name, int, new_dirfd, uptr, new_name, u32, flags)
{
    return rename_names(old_dirfd, old_name, new_dirfd, new_name, flags);
}

static long link_names(int old_dirfd, uptr old_name, int new_dirfd, uptr new_name, int flags)
{
    struct name_buf a, b;
    if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    long r = two_names(old_name, &a, flags & AT_EMPTY_PATH, new_name, &b);
    if (r)
        return r;
    r = vfs_link(old_dirfd, a.p, new_dirfd, b.p, flags);
    name_free(&a);
    name_free(&b);
    return r;
}

SYSCALL2(link, uptr, old_name, uptr, new_name)
{
    return link_names(AT_FDCWD, old_name, AT_FDCWD, new_name, 0);
}

SYSCALL5(linkat, int, old_dirfd, uptr, old_name, int, new_dirfd, uptr, new_name, int, flags)
{
    return link_names(old_dirfd, old_name, new_dirfd, new_name, flags);
}

static long make_symlink(uptr target, int dirfd, uptr name)
{
    struct name_buf a, b;
    long r = two_names(target, &a, false, name, &b);
    if (r)
        return r;
    r = vfs_make(dirfd, b.p, S_IFLNK | 0777, 0, a.p, NULL);
    name_free(&a);
    name_free(&b);
    return r;
}

SYSCALL2(symlink, uptr, target, uptr, name)
{
    return make_symlink(target, AT_FDCWD, name);
}

SYSCALL3(symlinkat, uptr, target, int, dirfd, uptr, name)
{
    return make_symlink(target, dirfd, name);
}

long inode_readlink(struct inode *i, char *buf, size_t size)
{
    if (i->link) {
        size_t n = MIN((size_t)i->link_len, size);
        memcpy(buf, i->link, n);
        return (long)n;
    }
    if (i->ops->follow) {
        struct path p;
        long r = i->ops->follow(i, &p);
        if (r)
            return r;
        char *text = path_text(&p, buf, size);
        path_put(&p);
        if (IS_ERR(text))
            return PTR_ERR(text);
        size_t n = strlen(text);
        memmove(buf, text, n); /* NOLINT(bugprone-not-null-terminated-result): readlink gives no NUL */
        return (long)n;
    }
    return i->ops->readlink ? i->ops->readlink(i, buf, size) : -EINVAL;
}

static long read_link(int dirfd, uptr name, uptr buf, int size)
{
    struct path p;
    if (size <= 0)
        return -EINVAL;
    struct name_buf n;
    long r = name_from_user(&n, name);
    if (r < 0)
        return r;
    bool empty = !n.p[0];
    r = path_lookup(dirfd, n.p, LOOKUP_EMPTY | LOOKUP_NO_MOUNT, &p);
    name_free(&n);
    if (r)
        return r;
    struct inode *i = p.dentry->inode;
    char *text = NULL;
    if (!S_ISLNK(i->mode)) {
        r = empty ? -ENOENT : -EINVAL;
    } else if (i->link) {
        r = MIN((long)i->link_len, (long)size);
        if (copy_to_user(buf, i->link, (size_t)r))
            r = -EFAULT;
    } else if (!(text = kmalloc(PATH_LEN_MAX))) {
        r = -ENOMEM;
    } else {
        r = inode_readlink(i, text, PATH_LEN_MAX);
        if (r > size)
            r = size;
        if (r > 0 && copy_to_user(buf, text, (size_t)r))
            r = -EFAULT;
    }
    kfree(text);
    path_put(&p);
    return r;
}

SYSCALL3(readlink, uptr, name, uptr, buf, int, size)
{
    return read_link(AT_FDCWD, name, buf, size);
}

SYSCALL4(readlinkat, int, dirfd, uptr, name, uptr, buf, int, size)
{
    return read_link(dirfd, name, buf, size);
}

/* ---- directories of the process ---- */

SYSCALL2(getcwd, uptr, buf, u64, size)
{
    struct path p;
    char *text = kmalloc(PATH_LEN_MAX);
    if (!text)
        return -ENOMEM;
    fs_info_pwd(current_fs(), &p);
    long r;
    if (!(atomic_load(&p.dentry->flags) & D_HASHED) && p.dentry->parent != p.dentry && p.dentry != p.mnt->root) {
        r = -ENOENT;
    } else {
        char *at = path_text_cwd(&p, text, PATH_LEN_MAX);
        r = IS_ERR(at) ? PTR_ERR(at) : (long)strlen(at) + 1;
        if (r > 0 && (u64)r > size)
            r = -ERANGE;
        if (r > 0 && copy_to_user(buf, at, (size_t)r))
            r = -EFAULT;
    }
    path_put(&p);
    kfree(text);
    return r;
}

static long change_dir(struct path *p)
{
    struct inode *i = p->dentry->inode;
    long r = S_ISDIR(i->mode) ? inode_permission_cred(i, MAY_EXEC, current_cred()) : -ENOTDIR;
    if (!r)
        fs_info_set_pwd(current_fs(), p);
    path_put(p);
    return r;
}

SYSCALL1(chdir, uptr, name)
{
    struct path p;
    long r = user_path(AT_FDCWD, name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &p);
    return r ? r : change_dir(&p);
}

SYSCALL1(fchdir, int, fd)
{
    struct path p;
    if (fd < 0)
        return -EBADF;
    long r = fd_path(fd, &p);
    return r ? r : change_dir(&p);
}

SYSCALL1(chroot, uptr, name)
{
    struct path p;
    long r = user_path(AT_FDCWD, name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &p);
    if (r)
        return r;
    r = inode_permission_cred(p.dentry->inode, MAY_EXEC, current_cred());
    if (!r && !has_cap(CAP_SYS_CHROOT))
        r = -EPERM;
    if (!r)
        fs_info_set_root(current_fs(), &p);
    path_put(&p);
    return r;
}
