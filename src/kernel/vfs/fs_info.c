/* cwd, root and umask: see fs_info.h. */
#include "vfs/internal.h"

#include "core/kmalloc.h"

struct fs_info *fs_info_new(void)
{
    struct fs_info *fs = knew(struct fs_info);
    if (!fs)
        return NULL;
    fs->refs = 1;
    fs->umask = 022;
    vfs_root(&fs->root);
    fs->pwd = fs->root;
    path_get(&fs->pwd);
    return fs;
}

struct fs_info *fs_info_clone(struct fs_info *old)
{
    struct fs_info *fs = knew(struct fs_info);
    if (!fs)
        return NULL;
    fs->refs = 1;
    mutex_lock(&old->lock);
    fs->umask = old->umask;
    fs->root = old->root;
    fs->pwd = old->pwd;
    path_get(&fs->root);
    path_get(&fs->pwd);
    mutex_unlock(&old->lock);
    return fs;
}

void fs_info_get(struct fs_info *fs)
{
    atomic_add(&fs->refs, 1);
}

void fs_info_put(struct fs_info *fs)
{
    if (atomic_sub(&fs->refs, 1))
        return;
    path_put(&fs->root);
    path_put(&fs->pwd);
    kfree(fs);
}

void fs_info_root(struct fs_info *fs, struct path *out)
{
    mutex_lock(&fs->lock);
    *out = fs->root;
    path_get(out);
    mutex_unlock(&fs->lock);
}

void fs_info_pwd(struct fs_info *fs, struct path *out)
{
    mutex_lock(&fs->lock);
    *out = fs->pwd;
    path_get(out);
    mutex_unlock(&fs->lock);
}

static void set(struct fs_info *fs, struct path *which, const struct path *p)
{
    struct path n = *p;
    path_get(&n);
    mutex_lock(&fs->lock);
    struct path old = *which;
    atomic_add(&fs->seq, 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    which->mnt = n.mnt;
    which->dentry = n.dentry;
    atomic_add(&fs->seq, 1);
    mutex_unlock(&fs->lock);
    path_put(&old);
}

void fs_info_set_pwd(struct fs_info *fs, const struct path *p)
{
    set(fs, &fs->pwd, p);
}

void fs_info_set_root(struct fs_info *fs, const struct path *p)
{
    set(fs, &fs->root, p);
}
