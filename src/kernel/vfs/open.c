/* Open file descriptions: allocation, open, read and write entry points, anonymous files.
 *
 * struct file is type-stable (files.c looks descriptors up without a lock); free ones wait on a list under file_lock. */
#include "vfs/internal.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "vfs/hooks.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char anon_name[] = "anon_inodefs";

#define FILES_CHUNK 16

static KSTATE struct mutex file_lock;
static KSTATE struct file *free_files; /* linked through priv */
KSTATE struct mount *anon_mount;

#define FILES_DEFAULT (1u << 20)

static KSTATE u32 open_files, most_files;

void files_set_max(u32 max) { most_files = max; }
u32 files_max(void) { return most_files ? most_files : FILES_DEFAULT; }
u32 files_count(void) { return atomic_load_relaxed(&open_files); }

static bool count_file(void)
{
    bool fits = open_files < files_max();
    open_files += fits;
    return fits;
}

struct file *file_alloc(void)
{
    mutex_lock(&file_lock);
    if (!count_file()) {
        mutex_unlock(&file_lock);
        return ERR_PTR(-ENFILE);
    }
    struct file *f = free_files;
    if (f)
        free_files = f->priv;
    mutex_unlock(&file_lock);
    if (!f) {
        struct file *chunk = kzalloc(sizeof(struct file) * FILES_CHUNK);
        if (!chunk) {
            atomic_sub(&open_files, 1);
            return ERR_PTR(-ENOMEM);
        }
        mutex_lock(&file_lock);
        for (u32 n = 1; n < FILES_CHUNK; n++) {
            chunk[n].priv = free_files;
            free_files = &chunk[n];
        }
        mutex_unlock(&file_lock);
        f = chunk;
    }
    f->ops = NULL;
    f->flags = f->mode = 0;
    f->path = (struct path){0};
    f->inode = NULL;
    f->pos = 0;
    f->priv = NULL;
    f->epitems = (struct list){0};
    f->owner_pid = 0;
    f->owner_type = 0;
    f->owner_sig = 0;
    f->async = NULL;
    atomic_store(&f->refs, 1);
    return f;
}

static void file_free(struct file *f)
{
    mutex_lock(&file_lock);
    f->priv = free_files;
    free_files = f;
    open_files--;
    mutex_unlock(&file_lock);
}

static void file_release(struct file *f)
{
    if (f->inode) {
        if (!list_empty(&f->inode->flocks))
            file_locks_drop(f);
        if (!(f->mode & FMODE_PATH) && !(f->inode->flags & INODE_PSEUDO))
            notify_file(f, f->mode & FMODE_WRITE ? FSN_CLOSE_WRITE : FSN_CLOSE_NOWRITE);
    }
    if (f->ops && f->ops->release)
        f->ops->release(f);
    if (f->inode && f->mode & FMODE_WRITER)
        atomic_sub(&f->inode->write_count, 1);
    if (f->inode && (!f->path.dentry || f->inode != f->path.dentry->inode))
        iput(f->inode); /* file_swap_inode, file_open_inode */
    if (f->path.dentry)
        path_put(&f->path);
    file_free(f);
}

void file_put(struct file *f)
{
    if (!atomic_sub(&f->refs, 1))
        file_release(f);
}

void notify_path(const struct path *p, u32 mask)
{
    if (!hooks.fsnotify || !p->dentry)
        return;
    char text[NAME_MAX + 1];
    struct dentry *d = p->dentry;
    struct inode *i = d->inode;
    struct qstr name;
    if (!i || (i->flags & INODE_PSEUDO))
        return;
    if (S_ISDIR(i->mode))
        mask |= FSN_ISDIR;
    struct dentry *parent = d_place(d, text, &name);
    if (!(atomic_load_relaxed(&d->flags) & (D_HASHED | D_ANON)) && parent)
        mask |= FSN_UNLINKED;
    hooks.fsnotify(parent ? parent->inode : NULL, &name, i, mask, 0);
    if (parent)
        dput(parent);
}

void notify_file(struct file *f, u32 mask)
{
    if (hooks.fsnotify)
        notify_path(&f->path, mask);
}

/* ---- open ---- */

static u32 mode_of_flags(u32 flags)
{
    u32 acc = flags & O_ACCMODE;
    return (acc == O_RDONLY || acc == O_RDWR ? FMODE_READ : 0) | (acc == O_WRONLY || acc == O_RDWR ? FMODE_WRITE : 0);
}

static long check_open(const struct path *p, u32 flags, bool created)
{
    struct inode *i = p->dentry->inode;
    u32 mode = mode_of_flags(flags), may = 0;
    if (S_ISLNK(i->mode))
        return -ELOOP;
    if ((flags & O_DIRECTORY) && !S_ISDIR(i->mode))
        return -ENOTDIR;
    if (S_ISDIR(i->mode) && ((mode & FMODE_WRITE) || (flags & (O_CREAT | O_TRUNC))))
        return -EISDIR;
    if ((S_ISCHR(i->mode) || S_ISBLK(i->mode)) && (p->mnt->flags & MS_NODEV))
        return -EACCES;
    if ((mode & FMODE_WRITE || (flags & O_TRUNC)) && (S_ISREG(i->mode) || S_ISDIR(i->mode)) && mount_readonly(p->mnt))
        return -EROFS;
    if (!created) {
        may = (mode & FMODE_READ ? MAY_READ : 0) | (mode & FMODE_WRITE || (flags & O_TRUNC) ? MAY_WRITE : 0);
        if ((flags & O_ACCMODE) == 3)
            may = MAY_READ | MAY_WRITE;
        long r = may ? inode_permission(i, may) : 0;
        if (r)
            return r;
    }
    if ((flags & O_NOATIME) && !inode_owner_or_capable(i))
        return -EPERM;
    return 0;
}

static bool get_write(struct inode *i)
{
    s32 n = atomic_load(&i->write_count);
    do {
        if (n < 0)
            return false;
    } while (!__atomic_compare_exchange_n(&i->write_count, &n, n + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

static struct file *open_checked(struct path *p, u32 flags, bool created)
{
    struct inode *i = p->dentry->inode;
    long r = 0;
    struct file *f = file_alloc();
    if (IS_ERR(f))
        return f;
    f->flags = flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC);
    f->mode = mode_of_flags(flags);
    f->path = *p;
    path_get(&f->path);
    f->inode = i;
    if (S_ISREG(i->mode) && (f->mode & FMODE_WRITE)) {
        if (!get_write(i)) {
            f->mode = 0;
            r = -ETXTBSY;
            goto fail;
        }
        f->mode |= FMODE_WRITER;
    }
    if (S_ISREG(i->mode) && (flags & O_TRUNC) && !created) {
        r = vfs_truncate(p, 0);
        if (r)
            goto fail;
    }
    if (S_ISREG(i->mode) || S_ISDIR(i->mode))
        f->mode |= FMODE_SEEK | FMODE_PREAD;
    f->ops = i->fops;
    if (S_ISCHR(i->mode)) {
        f->ops = chrdev_ops(i->rdev);
        f->flags |= flags & O_NOCTTY; /* the tty's open looks at it */
    } else if (S_ISFIFO(i->mode)) {
        f->ops = i->flags & INODE_PSEUDO ? i->fops : hooks.fifo_ops; /* a stream by its name in /proc/pid/fd */
    } else if (S_ISSOCK(i->mode) || S_ISBLK(i->mode)) {
        f->ops = NULL;
    }
    if (!f->ops) {
        r = -ENXIO;
        goto fail;
    }
    if (f->ops->open) {
        r = f->ops->open(f);
        if (r) {
            f->ops = NULL;
            goto fail;
        }
    }
    f->flags &= ~O_NOCTTY;
    if (created)
        notify_file(f, FSN_CREATE);
    notify_file(f, FSN_OPEN);
    return f;
fail:
    if (!(f->mode & FMODE_WRITE) || !S_ISREG(i->mode))
        f->mode = 0;
    f->ops = NULL;
    f->mode |= FMODE_PATH; /* no close event */
    file_put(f);
    return ERR_PTR(r);
}

struct file *file_open_path(struct path *p, u32 flags)
{
    if (flags & O_PATH) {
        if ((flags & O_DIRECTORY) && !S_ISDIR(p->dentry->inode->mode))
            return ERR_PTR(-ENOTDIR);
        struct file *f = file_alloc();
        if (IS_ERR(f))
            return f;
        f->flags = flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW);
        f->mode = FMODE_PATH;
        f->path = *p;
        path_get(&f->path);
        f->inode = p->dentry->inode;
        return f;
    }
    long r = check_open(p, flags, false);
    if (r)
        return ERR_PTR(r);
    return open_checked(p, flags, false);
}

struct file *file_open_exec(struct path *p)
{
    long r = p->mnt->flags & MS_NOEXEC ? -EACCES : inode_permission(p->dentry->inode, MAY_EXEC);
    return r ? ERR_PTR(r) : open_checked(p, O_RDONLY, false);
}

/* O_CREAT: the last component is looked up or made under the directory's lock; a dangling link is followed. */
static struct file *open_create(int dirfd, const char *name, u32 flags, u32 mode, u32 lookup)
{
    struct parent_ref pr;
    long r = path_parent(dirfd, name, lookup | LOOKUP_FOLLOW, &pr);
    for (u32 links = 0; !r; links++) {
        struct path p;
        bool made = false;
        if (pr.type != 'n' || pr.trailing) {
            parent_put(&pr);
            return ERR_PTR(-EISDIR);
        }
        struct inode *dir = pr.dir.dentry->inode;
        struct dentry *d = d_lookup(pr.dir.dentry, &pr.last);
        if (d && (!d->inode || d->expire)) {
            dput(d);
            d = NULL;
        }
        if (!d) {
            if (!S_ISDIR(dir->mode))
                r = -ENOTDIR;
            if (!r)
                r = inode_permission_cred(dir, MAY_EXEC, current_cred());
            if (r) {
                parent_put(&pr);
                return ERR_PTR(r);
            }
            mutex_lock(&dir->lock);
            d = lookup_one_locked(pr.dir.dentry, &pr.last);
            if (IS_ERR(d)) {
                r = PTR_ERR(d);
            } else if (!d->inode) {
                r = mount_readonly(pr.dir.mnt) ? -EROFS : may_create(dir);
                if (!r && !dir->ops->create)
                    r = -EACCES;
                struct inode *i = NULL;
                if (!r) {
                    i = dir->ops->create(dir, &pr.last, S_IFREG | apply_umask(mode & PERM_MASK), 0, NULL);
                    r = IS_ERR(i) ? PTR_ERR(i) : 0;
                }
                if (!r) {
                    d_instantiate(d, i);
                    made = true;
                }
            }
            mutex_unlock(&dir->lock);
            if (r) {
                if (!IS_ERR(d))
                    dput(d);
                parent_put(&pr);
                return ERR_PTR(r);
            }
        } else {
            r = inode_permission_cred(dir, MAY_EXEC, current_cred());
        }
        struct file *f = NULL;
        p.mnt = mntget(pr.dir.mnt);
        p.dentry = d;
        while (!made && (p.dentry->flags & D_MOUNTED)) {
            struct mount *m = mount_at(p.mnt, p.dentry);
            if (!m)
                break;
            path_put(&p);
            p.mnt = m;
            p.dentry = dget(m->root);
        }
        struct inode *i = p.dentry->inode;
        if (r) {
            f = ERR_PTR(r);
        } else if (made) {
            r = check_open(&p, flags, true);
            f = r ? ERR_PTR(r) : open_checked(&p, flags, true);
        } else if (flags & O_EXCL) {
            f = ERR_PTR(-EEXIST);
        } else if (!S_ISLNK(i->mode)) {
            f = file_open_path(&p, flags);
        } else if ((flags & O_NOFOLLOW) || links >= 40 || (lookup & LOOKUP_NO_SYMLINKS)) {
            f = ERR_PTR(-ELOOP);
        } else if (lookup & (LOOKUP_BENEATH | LOOKUP_IN_ROOT)) { /* nothing is made through a link then */
            struct path to;
            r = path_lookup(dirfd, name, lookup | LOOKUP_FOLLOW, &to);
            f = r ? ERR_PTR(r) : file_open_path(&to, flags);
            if (!r)
                path_put(&to);
        } else if (i->ops->follow) {
            struct path to;
            r = lookup & LOOKUP_NO_MAGICLINKS ? -ELOOP : i->ops->follow(i, &to);
            if (!r && (lookup & LOOKUP_NO_XDEV) && to.mnt != p.mnt) {
                path_put(&to);
                r = -EXDEV;
            }
            f = r ? ERR_PTR(r) : file_open_path(&to, flags);
            if (!r)
                path_put(&to);
        } else {
            char *text = kmalloc(PATH_LEN_MAX);
            r = text ? 0 : -ENOMEM;
            if (!r && i->link) {
                memcpy(text, i->link, i->link_len);
                text[i->link_len] = 0;
            } else if (!r) {
                r = i->ops->readlink ? i->ops->readlink(i, text, PATH_LEN_MAX - 1) : -EINVAL;
                if (r >= 0) {
                    text[r] = 0;
                    r = 0;
                }
            }
            struct parent_ref next = {0};
            if (!r) {
                struct path root;
                fs_info_root(current_fs(), &root);
                r = path_parent_from(&root, &pr.dir, text, LOOKUP_FOLLOW | (lookup & (LOOKUP_NO_XDEV | LOOKUP_NO_MAGICLINKS)),
                                     &next);
                path_put(&root);
            }
            path_put(&p);
            parent_put(&pr);
            if (!r && !next.keep) {
                next.keep = text; /* next.last points into it */
            } else {
                kfree(text);
            }
            pr = next;
            continue;
        }
        path_put(&p);
        parent_put(&pr);
        return f;
    }
    return ERR_PTR(r);
}

static struct file *open_tmpfile(int dirfd, const char *name, u32 flags, u32 mode, u32 lookup)
{
    struct path dir;
    struct inode *i = NULL;
    if (!(mode_of_flags(flags) & FMODE_WRITE))
        return ERR_PTR(-EINVAL);
    long r = path_lookup(dirfd, name, lookup | LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &dir);
    if (r)
        return ERR_PTR(r);
    struct inode *d = dir.dentry->inode;
    r = mount_readonly(dir.mnt) ? -EROFS : inode_permission(d, MAY_WRITE | MAY_EXEC);
    if (!r)
        r = d->ops->tmpfile ? d->ops->tmpfile(d, S_IFREG | apply_umask(mode & PERM_MASK), &i) : -EOPNOTSUPP;
    if (r) {
        path_put(&dir);
        return ERR_PTR(r);
    }
    if (flags & O_EXCL) /* never to be linked */
        i->flags |= INODE_UNLINKED;
    char text[32];
    fmt_print(text, sizeof(text), "#%lu", (unsigned long)i->ino);
    struct qstr q = qstr_of(text);
    struct path p = {dir.mnt, d_alloc(dir.dentry, &q, i, dir.dentry->sb)};
    if (!p.dentry) {
        iput(i);
        path_put(&dir);
        return ERR_PTR(-ENOMEM);
    }
    struct file *f = open_checked(&p, flags & ~(u32)O_TMPFILE, true);
    dput(p.dentry);
    path_put(&dir);
    return f;
}

struct file *file_open_how(int dirfd, const char *name, u32 flags, u32 mode, u32 lookup)
{
    if (flags & O_PATH)
        flags &= O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return open_tmpfile(dirfd, name, flags, mode, lookup);
    if (flags & O_CREAT) {
        if (flags & O_DIRECTORY)
            return ERR_PTR(-EINVAL);
        if (!*name)
            return ERR_PTR(-ENOENT);
        if (flags & O_EXCL)
            flags |= O_NOFOLLOW;
        return open_create(dirfd, name, flags, mode, lookup);
    }
    struct path p;
    long r = path_lookup(dirfd, name, lookup | (flags & O_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
                         (flags & O_DIRECTORY ? LOOKUP_DIRECTORY : 0), &p);
    if (r)
        return ERR_PTR(r);
    struct file *f = file_open_path(&p, flags);
    path_put(&p);
    return f;
}

struct file *file_open(int dirfd, const char *name, u32 flags, u32 mode)
{
    return file_open_how(dirfd, name, flags, mode, 0);
}

/* ---- reading and writing ---- */

long file_read(struct file *f, struct uio *u, u64 *pos)
{
    if (!(f->mode & FMODE_READ))
        return -EBADF;
    if (!f->ops->read)
        return S_ISDIR(f->inode->mode) ? -EISDIR : -EINVAL;
    long r = f->ops->read(f, u, f->mode & (FMODE_SEEK | FMODE_PREAD) ? pos : NULL);
    if (r > 0 && hooks.fsnotify)
        notify_file(f, FSN_ACCESS);
    return r;
}

long file_write(struct file *f, struct uio *u, u64 *pos)
{
    if (!(f->mode & FMODE_WRITE))
        return -EBADF;
    if (!f->ops->write)
        return -EINVAL;
    if (S_ISREG(f->inode->mode)) {
        u64 limit = current_rlimit(1 /* RLIMIT_FSIZE */);
        u64 at = f->flags & O_APPEND ? atomic_load(&f->inode->size) : *pos;
        if (unlikely(limit != ~0ull) && u->resid && u->resid + at > limit) {
            if (at >= limit) {
                send_signal_current(25 /* SIGXFSZ */);
                return -EFBIG;
            }
            u->resid = limit - at;
        }
    }
    long r = f->ops->write(f, u, f->mode & (FMODE_SEEK | FMODE_PREAD) ? pos : NULL);
    if (r > 0) {
        if (hooks.fsnotify)
            notify_file(f, FSN_MODIFY);
        if ((f->flags & (O_DSYNC)) && f->ops->fsync) {
            long s = f->ops->fsync(f, true);
            if (s)
                return s;
        }
    }
    return r;
}

bool file_pos_begin(struct file *f)
{
    if (!(f->mode & FMODE_SEEK) || (atomic_load_relaxed(&f->refs) == 2 && files_single()))
        return false; /* the table's reference and ours: nobody else can get at it */
    mutex_lock(&f->pos_lock);
    return true;
}

void file_pos_end(struct file *f, bool locked)
{
    if (locked)
        mutex_unlock(&f->pos_lock);
}

long generic_llseek(struct file *f, s64 off, int whence, u64 size)
{
    s64 base;
    switch (whence) {
    case SEEK_SET: base = 0; break;
    case SEEK_CUR: base = (s64)f->pos; break;
    case SEEK_END: base = (s64)size; break;
    case SEEK_DATA:
    case SEEK_HOLE:
        if (off < 0 || (u64)off >= size)
            return -ENXIO;
        f->pos = whence == SEEK_DATA ? (u64)off : size;
        return (long)f->pos;
    default: return -EINVAL;
    }
    s64 to;
    if (__builtin_add_overflow(base, off, &to))
        return -EOVERFLOW;
    if (to < 0)
        return -EINVAL;
    f->pos = (u64)to;
    return to;
}

/* pos_lock held. */
long file_seek(struct file *f, s64 off, int whence)
{
    if (!(f->mode & FMODE_SEEK))
        return f->mode & FMODE_PATH ? -EBADF : -ESPIPE;
    if (f->ops->llseek)
        return f->ops->llseek(f, off, whence);
    u64 size = f->inode->size;
    if (whence == SEEK_END && f->inode->ops->getattr) {
        struct kstat st;
        long r = f->inode->ops->getattr(f->inode, &st);
        if (r)
            return r;
        size = st.size;
    }
    return generic_llseek(f, off, whence, size);
}

long file_read_kernel(struct file *f, void *buf, size_t size, u64 off)
{
    size_t done = 0;
    while (done < size) {
        struct uio u;
        uio_kernel(&u, (char *)buf + done, size - done);
        u64 pos = off + done;
        long r = file_read(f, &u, &pos);
        if (r < 0)
            return r;
        if (!r)
            break;
        done += (size_t)r;
    }
    return (long)done;
}

/* ---- executing ---- */

long deny_write(struct file *f)
{
    struct inode *i = f->inode;
    if (!S_ISREG(i->mode))
        return -EACCES;
    s32 n = atomic_load(&i->write_count);
    do {
        if (n > 0)
            return -ETXTBSY;
    } while (!__atomic_compare_exchange_n(&i->write_count, &n, n - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return 0;
}

void allow_write(struct file *f)
{
    atomic_add(&f->inode->write_count, 1);
}

/* ---- anonymous files ---- */

static void anon_free_inode(struct inode *i)
{
    kfree(i);
}

static const struct super_ops anon_super_ops = {.free_inode = anon_free_inode};
static const struct inode_ops anon_inode_ops = {.setattr = NULL};

long anon_init(void)
{
    struct super_block *sb = sb_alloc(&anon_super_ops, anon_name, 0);
    struct inode *root = knew(struct inode);
    if (!sb || !root)
        return -ENOMEM;
    inode_init(root, sb, S_IFDIR | 0700);
    root->ops = &anon_inode_ops;
    sb->root = d_make_root(sb, root);
    if (!sb->root)
        return -ENOMEM;
    anon_mount = mount_kernel(sb);
    return anon_mount ? 0 : -ENOMEM;
}

struct file *file_anon(const struct file_ops *ops, void *priv, const char *name, u32 mode, u32 flags)
{
    struct inode *i = knew(struct inode);
    struct file *f = file_alloc();
    if (!i || IS_ERR(f))
        goto fail;
    inode_init(i, anon_mount->sb, mode);
    inode_init_owner(i, NULL, mode);
    i->ops = &anon_inode_ops;
    i->fops = ops;
    i->flags = INODE_PSEUDO | INODE_NO_ATIME;
    i->nlink = 1;
    /* The number in "pipe:[N]" is the inode's: the caller does not know it, so a trailing ":" asks for it. */
    char text[64];
    size_t len = strlen(name);
    if (len && name[len - 1] == ':' && len < 32)
        fmt_print(text, sizeof(text), "%s[%lu]", name, (unsigned long)i->ino);
    else
        str_copy(text, name, sizeof(text));
    struct qstr q = qstr_of(text);
    struct dentry *d = d_alloc(NULL, &q, i, i->sb);
    if (!d)
        goto fail;
    atomic_or(&d->flags, D_ANON);
    f->path.mnt = mntget(anon_mount);
    f->path.dentry = d;
    f->inode = i;
    f->ops = ops;
    f->priv = priv;
    f->flags = flags & ~(u32)O_CLOEXEC;
    f->mode = mode_of_flags(flags);
    return f;
fail:
    kfree(i);
    if (IS_ERR(f))
        return f;
    f->refs = 0;
    file_free(f);
    return ERR_PTR(-ENOMEM);
}

struct file *file_open_inode(struct inode *i, u32 flags)
{
    struct file *f = file_alloc();
    if (IS_ERR(f))
        return f;
    iget(i);
    f->inode = i;
    f->ops = i->fops;
    f->flags = flags;
    f->mode = mode_of_flags(flags) | FMODE_SEEK | FMODE_PREAD | FMODE_PATH; /* no events */
    f->mode &= ~FMODE_WRITE;
    if (f->ops->open) {
        long r = f->ops->open(f);
        if (r) {
            f->ops = NULL;
            file_put(f);
            return ERR_PTR(r);
        }
    }
    return f;
}

long file_swap_inode(struct file *f, struct inode *real)
{
    if (f->mode & FMODE_WRITER && !get_write(real))
        return -ETXTBSY;
    struct inode *own = f->inode;
    iget(real);
    f->inode = real;
    f->ops = real->fops;
    long r = f->ops->open ? f->ops->open(f) : 0;
    if (r) {
        if (f->mode & FMODE_WRITER)
            atomic_sub(&real->write_count, 1);
        f->inode = own;
        iput(real);
        return r;
    }
    if (f->mode & FMODE_WRITER)
        atomic_sub(&own->write_count, 1);
    return 0;
}

struct file *file_from_inode(struct inode *i, const char *name, u32 flags)
{
    struct file *f = file_alloc();
    struct qstr q = qstr_of(name);
    struct dentry *d = !IS_ERR(f) ? d_alloc(NULL, &q, i, i->sb) : NULL;
    if (!d) {
        iput(i);
        if (IS_ERR(f))
            return f;
        f->refs = 0;
        file_free(f);
        return ERR_PTR(-ENOMEM);
    }
    atomic_or(&d->flags, D_ANON);
    f->path.mnt = mntget(anon_mount);
    f->path.dentry = d;
    f->inode = i;
    f->ops = i->fops;
    f->flags = flags & ~(u32)O_CLOEXEC;
    f->mode = mode_of_flags(flags) | FMODE_SEEK | FMODE_PREAD; /* no writer: a memfd may be executed while it is open, as on Linux */
    return f;
}
