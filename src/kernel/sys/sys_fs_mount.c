/* mount, umount2 and their relatives, for what a sandbox needs: tmpfs and other registered file systems, bind mounts,
 * remounting with other flags. Propagation flags are accepted: there is one namespace. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "sys/syscall.h"
#include "vfs/internal.h"

#define FLAGS_KEPT (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME)

static long bind(const char *source, struct path *target, u32 flags)
{
    struct path from;
    long r = path_lookup(AT_FDCWD, source, LOOKUP_FOLLOW, &from);
    if (r)
        return r;
    if (S_ISDIR(from.dentry->inode->mode) != S_ISDIR(target->dentry->inode->mode))
        r = -ENOTDIR;
    else
        r = vfs_mount(from.mnt->sb, from.dentry, from.mnt->source, target, from.mnt->flags | (flags & FLAGS_KEPT));
    path_put(&from);
    return r;
}

static long fresh(const char *type, const char *source, struct path *target, u32 flags, const char *options)
{
    struct super_block *sb;
    mount_fn mount = find_filesystem(type);
    if (!mount)
        return -ENODEV;
    if (!S_ISDIR(target->dentry->inode->mode))
        return -ENOTDIR;
    long r = mount(source, flags, options, &sb);
    return r ? r : vfs_mount(sb, NULL, source, target, flags & FLAGS_KEPT);
}

SYSCALL5(mount, uptr, source, uptr, target, uptr, type, u64, flags, uptr, data)
{
    struct path p;
    struct name_buf src = {.p = src.small}, typ = {.p = typ.small};
    char options[256] = "";
    src.small[0] = typ.small[0] = 0;
    if (!has_cap(CAP_SYS_ADMIN))
        return -EPERM;
    if ((flags & 0xffff0000u) == 0xc0ed0000u)
        flags &= 0xffff;
    long r = user_path(AT_FDCWD, target, LOOKUP_FOLLOW, &p);
    if (r)
        return r;
    if (source)
        r = name_from_user(&src, source);
    if (r >= 0 && type)
        r = name_from_user(&typ, type);
    if (r >= 0 && data && !(flags & (MS_BIND | MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE)))
        r = strncpy_from_user(options, data, sizeof(options));
    if (r >= 0) {
        if (flags & MS_REMOUNT) {
            r = p.dentry != p.mnt->root ? -EINVAL : !(flags & (MS_RDONLY | MS_BIND)) && p.mnt->sb->flags & MS_RDONLY ? -EROFS : 0;
            if (!r)
                p.mnt->flags = (p.mnt->flags & ~(u32)FLAGS_KEPT) | ((u32)flags & FLAGS_KEPT);
        } else if (flags & MS_BIND) {
            r = bind(src.p, &p, (u32)flags);
        } else if (flags & (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE)) {
            r = p.dentry == p.mnt->root ? 0 : -EINVAL;
        } else if (flags & MS_MOVE) {
            r = -EINVAL;
        } else {
            r = fresh(typ.p, src.p[0] ? src.p : "none", &p, (u32)flags, options);
        }
    }
    name_free(&src);
    name_free(&typ);
    path_put(&p);
    return r;
}

SYSCALL2(umount2, uptr, name, int, flags)
{
    struct path p;
    if (flags & ~(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW))
        return -EINVAL;
    if (!has_cap(CAP_SYS_ADMIN))
        return -EPERM;
    long r = user_path(AT_FDCWD, name, flags & UMOUNT_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
    if (r)
        return r;
    struct mount *m = mntget(p.mnt);
    bool is_root = p.dentry == m->root;
    path_put(&p);
    r = is_root ? vfs_umount(m, flags) : -EINVAL;
    mntput(m);
    return r;
}

SYSCALL2(pivot_root, uptr, new_root, uptr, put_old)
{
    (void)new_root;
    (void)put_old;
    return has_cap(CAP_SYS_ADMIN) ? -EINVAL : -EPERM;
}

SYSCALL5(name_to_handle_at, int, dirfd, uptr, name, uptr, handle, uptr, mount_id, int, flags)
{
    (void)dirfd;
    (void)name;
    (void)handle;
    (void)mount_id;
    (void)flags;
    return -EOPNOTSUPP;
}

SYSCALL4(quotactl, u32, cmd, uptr, special, u32, id, uptr, addr)
{
    (void)cmd;
    (void)special;
    (void)id;
    (void)addr;
    return -ENOSYS;
}
