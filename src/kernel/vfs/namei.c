/* Path walk.
 *
 * Two modes. The fast one holds nothing: it follows cached names under dcache_seq (dentry.h) and takes references only on
 * the result; whatever it cannot decide (a name not cached, an expired one, a link without text in memory, a magic link, a
 * change meanwhile) makes it start again in the slow mode, which holds a reference on the current place.
 *
 * A symbolic link replaces the remaining text by its target followed by what is left; at most 40 per walk. */
#include "vfs/internal.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"

#define LINKS_MAX 40u
#define RETRY_SLOW 4000 /* internal: leave the fast mode */

struct walk {
    struct path cur, root, base;
    const struct cred *cred;
    const char *p; /* rest of the path */
    char *buf; /* kmalloc'd text that p points into, or NULL */
    u64 seq, now;
    u32 flags, links;
    bool fast;
    bool at_root_limit; /* BENEATH or IN_ROOT: root is the start */
};

static u64 walk_now(struct walk *w)
{
    if (!w->now)
        w->now = host_clock(1 /* CLOCK_MONOTONIC */);
    return w->now;
}

static bool seq_changed(const struct walk *w)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return atomic_load(&dcache_seq) != w->seq;
}

/* Moves to `next`; slow: next is referenced already, the old place is let go. */
static void step(struct walk *w, struct mount *m, struct dentry *d)
{
    if (!w->fast) {
        dput(w->cur.dentry);
        if (m != w->cur.mnt) {
            mntget(m);
            mntput(w->cur.mnt);
        }
    }
    w->cur.mnt = m;
    w->cur.dentry = d;
}

static void jump_root(struct walk *w)
{
    if (!w->fast)
        dget(w->root.dentry);
    step(w, w->root.mnt, w->root.dentry);
}

/* Enters what is mounted on the current place. */
static long cross_mounts(struct walk *w)
{
    while (atomic_load_relaxed(&w->cur.dentry->flags) & D_MOUNTED) {
        struct mount *m = w->fast ? mount_at_fast(w->cur.mnt, w->cur.dentry) : mount_at(w->cur.mnt, w->cur.dentry);
        if (!m)
            return 0;
        struct dentry *root = m->root;
        if (!root)
            return w->fast ? -RETRY_SLOW : -ENOENT;
        if (w->flags & LOOKUP_NO_XDEV) {
            if (!w->fast)
                mntput(m);
            return -EXDEV;
        }
        if (!w->fast)
            dget(root);
        step(w, m, root);
        if (!w->fast)
            mntput(m);
    }
    return 0;
}

static long walk_up(struct walk *w)
{
    for (u32 guard = 0; guard < 4096; guard++) {
        struct mount *m = w->cur.mnt;
        struct dentry *d = w->cur.dentry;
        if (d == w->root.dentry && m == w->root.mnt)
            return w->flags & LOOKUP_BENEATH ? -EXDEV : 0;
        if (d != m->root) {
            struct dentry *up = d->parent;
            if (!w->fast) { /* the parent changes under the lock only */
                for (;;) {
                    u64 s = atomic_load(&dcache_seq);
                    up = dget(d->parent);
                    __atomic_thread_fence(__ATOMIC_SEQ_CST);
                    if (!(s & 1) && s == atomic_load(&dcache_seq))
                        break;
                    dput(up);
                    cpu_relax();
                }
            }
            step(w, m, up);
            return cross_mounts(w);
        }
        if (m->parent == m)
            return 0;
        if (w->flags & LOOKUP_NO_XDEV)
            return -EXDEV;
        struct mount *parent = m->parent;
        struct dentry *point = m->mountpoint;
        if (!w->fast)
            dget(point);
        step(w, parent, point);
    }
    return -RETRY_SLOW;
}

struct dentry *lookup_one_locked(struct dentry *dir, const struct qstr *name)
{
    struct inode *i = dir->inode;
    struct dentry *d = d_lookup(dir, name);
    if (d)
        return d;
    if (i->flags & INODE_DEAD_DIR)
        return ERR_PTR(-ENOENT);
    if (!i->ops->lookup)
        return ERR_PTR(-ENOTDIR);
    struct inode *child = i->ops->lookup(i, name);
    if (IS_ERR(child))
        return ERR_PTR(PTR_ERR(child));
    d = d_alloc(dir, name, child, dir->sb);
    if (!d) {
        if (child)
            iput(child);
        return ERR_PTR(-ENOMEM);
    }
    if (dir->sb->name_ttl)
        d->expire = host_clock(1) + dir->sb->name_ttl;
    d_add(d);
    return d;
}

/* Slow: a referenced dentry of the name below the current place. */
static struct dentry *child_slow(struct walk *w, const struct qstr *q)
{
    struct dentry *dir = w->cur.dentry;
    struct dentry *d = d_lookup(dir, q);
    if (d && d->expire && walk_now(w) > d->expire) {
        const struct inode_ops *ops = dir->inode->ops;
        if (ops->revalidate && !ops->revalidate(dir->inode, q, d->inode) && !(d->flags & D_MOUNTED)) {
            d_drop(d);
            dput(d);
            d = NULL;
        } else {
            atomic_store(&d->expire, host_clock(1) + dir->sb->name_ttl);
        }
    }
    if (d)
        return d;
    mutex_lock(&dir->inode->lock);
    d = lookup_one_locked(dir, q);
    mutex_unlock(&dir->inode->lock);
    return d;
}

/* The remaining text becomes `text` + "/" + rest. */
static long push_link(struct walk *w, const char *text, u32 len, const char *rest)
{
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    size_t rest_len = strlen(rest);
    if (!len)
        return -ENOENT;
    if (len >= PATH_LEN_MAX || rest_len >= PATH_LEN_MAX * 4)
        return -ENAMETOOLONG;
    char *buf = kmalloc(len + rest_len + 2);
    if (!buf)
        return -ENOMEM;
    memcpy(buf, text, len);
    memcpy(buf + len, rest, rest_len + 1);
    kfree(w->buf);
    w->buf = buf;
    w->p = buf;
    return 0;
}

/* `link` is the inode of a symlink found below cur; d is its dentry (slow: referenced, consumed). */
static long follow_link(struct walk *w, struct inode *i, struct dentry *d, const char *rest)
{
    long r;
    if (w->flags & LOOKUP_NO_SYMLINKS) {
        r = -ELOOP;
        goto out;
    }
    const char *text = atomic_load_relaxed(&i->link);
    u32 len = atomic_load_relaxed(&i->link_len);
    char *tmp = NULL;
    if (w->fast) {
        if (!text || seq_changed(w))
            return -RETRY_SLOW;
    } else if (!text) {
        if (i->ops->follow) {
            struct path to;
            if (w->flags & (LOOKUP_NO_MAGICLINKS | LOOKUP_BENEATH | LOOKUP_IN_ROOT)) {
                r = w->flags & LOOKUP_NO_MAGICLINKS ? -ELOOP : -EXDEV;
                goto out;
            }
            r = ++w->links > LINKS_MAX ? -ELOOP : i->ops->follow(i, &to);
            if (!r && (w->flags & LOOKUP_NO_XDEV) && to.mnt != w->cur.mnt) {
                path_put(&to);
                r = -EXDEV;
            }
            if (!r) {
                step(w, to.mnt, to.dentry);
                mntput(to.mnt);
                w->p = rest;
                r = 1; /* jumped */
            }
            goto out;
        }
        if (!i->ops->readlink) {
            r = -EINVAL;
            goto out;
        }
        tmp = kmalloc(PATH_LEN_MAX);
        if (!tmp) {
            r = -ENOMEM;
            goto out;
        }
        r = i->ops->readlink(i, tmp, PATH_LEN_MAX - 1);
        if (r < 0)
            goto out_tmp;
        text = tmp;
        len = (u32)r;
    }
    r = push_link(w, text, len, rest);
out_tmp:
    kfree(tmp);
    if (!r && *w->p == '/') {
        if (w->flags & LOOKUP_BENEATH)
            r = -EXDEV;
        else if ((w->flags & LOOKUP_NO_XDEV) && w->cur.mnt != w->root.mnt)
            r = -EXDEV;
        else
            jump_root(w);
    }
out:
    if (!w->fast)
        dput(d);
    return r;
}

/* Scans one component at w->p: its length and hash. Returns what follows it. */
static const char *scan(const char *p, struct qstr *q)
{
    u64 h = 0x9e3779b97f4a7c15ull;
    const char *s = p;
    for (; *s && *s != '/'; s++)
        h = (h ^ (u8)*s) * 0x100000001b3ull;
    q->name = p;
    q->len = (u32)(s - p);
    q->hash = (u32)(h ^ h >> 32);
    return s;
}

/* Walks w->p from w->cur. With `pr`: stops before the last component. 0 or an error; -RETRY_SLOW in fast mode only. */
static long walk_text(struct walk *w, struct parent_ref *pr)
{
    long r;
    if (*w->p == '/') {
        if (w->flags & LOOKUP_BENEATH)
            return -EXDEV;
        jump_root(w);
    }
    for (;;) {
        while (*w->p == '/')
            w->p++;
        if (!*w->p) { /* only slashes: the root, or the end of a magic jump */
            if (pr) {
                pr->type = '/';
                pr->last.len = 0;
            }
            break;
        }
        struct inode *dir = atomic_load(&w->cur.dentry->inode);
        if (!dir)
            return w->fast ? -RETRY_SLOW : -ENOENT;
        if (!S_ISDIR(dir->mode))
            return w->fast && seq_changed(w) ? -RETRY_SLOW : -ENOTDIR;
        r = inode_permission_cred(dir, MAY_EXEC, w->cred);
        if (r)
            return w->fast && seq_changed(w) ? -RETRY_SLOW : r;
        struct qstr q;
        const char *rest = scan(w->p, &q);
        const char *after = rest;
        while (*after == '/')
            after++;
        bool last = !*after, trailing = rest != after;
        if (last && pr) {
            pr->last = q;
            pr->trailing = trailing;
            pr->type = 'n';
            if (q.name[0] == '.' && (q.len == 1 || (q.len == 2 && q.name[1] == '.'))) {
                pr->type = q.len == 1 ? '.' : ':';
                pr->last.len = 0;
            } else if (q.len > NAME_LEN_MAX) {
                return -ENAMETOOLONG;
            }
            return 0;
        }
        if (q.name[0] == '.' && (q.len == 1 || (q.len == 2 && q.name[1] == '.'))) {
            if (q.len == 2 && (r = walk_up(w)))
                return r;
            w->p = after;
            if (last)
                break;
            continue;
        }
        if (q.len > NAME_LEN_MAX)
            return w->fast && seq_changed(w) ? -RETRY_SLOW : -ENAMETOOLONG;
        struct dentry *d = w->fast ? d_lookup_fast(w->cur.dentry, &q) : child_slow(w, &q);
        if (IS_ERR(d))
            return PTR_ERR(d);
        if (w->fast && (!d || (d->expire && walk_now(w) > d->expire)))
            return -RETRY_SLOW;
        if (w->fast && !(atomic_load_relaxed(&d->flags) & D_REFERENCED))
            atomic_or(&d->flags, D_REFERENCED);
        struct inode *i = atomic_load(&d->inode);
        if (!i) {
            if (!w->fast)
                dput(d);
            return w->fast && seq_changed(w) ? -RETRY_SLOW : -ENOENT;
        }
        if (S_ISLNK(i->mode) && (!last || trailing || (w->flags & LOOKUP_FOLLOW))) {
            r = follow_link(w, i, d, rest);
            if (r < 0)
                return r;
            if (r == 1 && !*w->p && !pr)
                break;
            continue;
        }
        step(w, w->cur.mnt, d);
        if (!(last && (w->flags & LOOKUP_NO_MOUNT)) && (r = cross_mounts(w)))
            return r;
        w->p = after;
        if (last) {
            if (trailing) {
                i = atomic_load(&w->cur.dentry->inode);
                if (i && !S_ISDIR(i->mode))
                    return w->fast && seq_changed(w) ? -RETRY_SLOW : -ENOTDIR;
            }
            break;
        }
    }
    if (w->flags & LOOKUP_DIRECTORY) {
        struct inode *i = atomic_load(&w->cur.dentry->inode);
        if (!i || !S_ISDIR(i->mode))
            return w->fast && seq_changed(w) ? -RETRY_SLOW : -ENOTDIR;
    }
    return 0;
}

/* Sets the start. base: explicit, else from dirfd. *f: the file that keeps the base alive. */
static long walk_start(struct walk *w, const struct path *root, const struct path *base, int dirfd, const char *name,
                       struct file **f)
{
    struct fs_info *fs = root ? NULL : current_fs();
    bool need_base = !base && (*name != '/' || (w->flags & (LOOKUP_BENEATH | LOOKUP_IN_ROOT)));
    if (need_base && dirfd != AT_FDCWD && !*f) {
        *f = fd_get(dirfd);
        if (!*f)
            return -EBADF;
    }
    if (w->fast) {
        w->seq = atomic_load(&dcache_seq);
        if (w->seq & 1)
            return -RETRY_SLOW;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    if (root) {
        w->root = *root;
        w->base = base ? *base : *root;
    } else if (w->fast) {
        u32 s = atomic_load(&fs->seq);
        w->root = fs->root;
        w->base = base ? *base : *f ? (*f)->path : fs->pwd;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if ((s & 1) || s != atomic_load(&fs->seq))
            return -RETRY_SLOW;
    } else {
        mutex_lock(&fs->lock);
        w->root = fs->root;
        w->base = base ? *base : *f ? (*f)->path : fs->pwd;
        path_get(&w->root);
        path_get(&w->base);
        mutex_unlock(&fs->lock);
    }
    if (root && !w->fast) {
        path_get(&w->root);
        path_get(&w->base);
    }
    if (w->flags & (LOOKUP_BENEATH | LOOKUP_IN_ROOT)) {
        struct path old = w->root;
        w->root = w->base;
        if (!w->fast) {
            path_get(&w->root);
            path_put(&old);
        }
    }
    w->cur = w->base;
    if (!w->fast)
        path_get(&w->cur);
    w->p = name;
    w->links = 0;
    return 0;
}

static void walk_end(struct walk *w)
{
    if (!w->fast) {
        path_put(&w->root);
        path_put(&w->base);
    }
}

static long run(const struct path *root, const struct path *base, int dirfd, const char *name, u32 flags,
                const struct cred *cred, struct path *out, struct parent_ref *pr)
{
    struct walk w;
    struct file *f = NULL;
    long r;
    if (!*name && !(flags & LOOKUP_EMPTY))
        return -ENOENT;
    w.flags = flags;
    w.cred = flags & LOOKUP_KERNEL ? NULL : cred;
    w.buf = NULL;
    w.now = 0;
    for (w.fast = true;; w.fast = false) {
        r = walk_start(&w, root, base, dirfd, name, &f);
        if (r == -RETRY_SLOW)
            continue;
        if (r)
            break;
        r = walk_text(&w, pr);
        if (w.fast) {
            if (r == -RETRY_SLOW) {
                kfree(w.buf);
                w.buf = NULL;
                continue;
            }
            if (r)
                break;
            mntget(w.cur.mnt);
            dget(w.cur.dentry);
            if (seq_changed(&w) || !(atomic_load(&w.cur.dentry->flags) & D_LIVE)) {
                path_put(&w.cur);
                kfree(w.buf);
                w.buf = NULL;
                continue;
            }
        } else if (r) {
            path_put(&w.cur);
        }
        walk_end(&w);
        break;
    }
    if (f)
        file_put(f);
    if (r) {
        kfree(w.buf);
        return r == -RETRY_SLOW ? -ELOOP : r;
    }
    if (pr) {
        pr->dir = w.cur;
        pr->keep = w.buf;
    } else {
        kfree(w.buf);
        *out = w.cur;
    }
    return 0;
}

long path_lookup(int dirfd, const char *name, u32 flags, struct path *out)
{
    return run(NULL, NULL, dirfd, name, flags, current_cred(), out, NULL);
}

long path_lookup_cred(int dirfd, const char *name, u32 flags, const struct cred *cred, struct path *out)
{
    return run(NULL, NULL, dirfd, name, flags, cred, out, NULL);
}

long path_lookup_from(const struct path *root, const struct path *base, const char *name, u32 flags, struct path *out)
{
    return run(root, base, AT_FDCWD, name, flags, current_cred(), out, NULL);
}

long path_parent(int dirfd, const char *name, u32 flags, struct parent_ref *out)
{
    return run(NULL, NULL, dirfd, name, flags, current_cred(), NULL, out);
}

long path_parent_from(const struct path *root, const struct path *base, const char *name, u32 flags,
                      struct parent_ref *out)
{
    return run(root, base, AT_FDCWD, name, flags, current_cred(), NULL, out);
}

void parent_put(struct parent_ref *r)
{
    path_put(&r->dir);
    kfree(r->keep);
}

long fd_path(int dirfd, struct path *out)
{
    if (dirfd == AT_FDCWD) {
        fs_info_pwd(current_fs(), out);
        return 0;
    }
    struct file *f = fd_get(dirfd);
    if (!f)
        return -EBADF;
    *out = f->path;
    path_get(out);
    file_put(f);
    return 0;
}

void path_get(struct path *p)
{
    mntget(p->mnt);
    dget(p->dentry);
}

void path_put(struct path *p)
{
    dput(p->dentry);
    mntput(p->mnt);
}

long name_from_user(struct name_buf *n, uptr user)
{
    n->p = n->small;
    long r = strncpy_from_user(n->small, user, sizeof(n->small));
    if (r != -ENAMETOOLONG)
        return r;
    n->p = kmalloc(PATH_LEN_MAX);
    if (!n->p)
        return -ENOMEM;
    r = strncpy_from_user(n->p, user, PATH_LEN_MAX);
    if (r < 0) {
        kfree(n->p);
        n->p = n->small;
    }
    return r;
}

void name_free(struct name_buf *n)
{
    if (n->p != n->small)
        kfree(n->p);
}

long user_path(int dirfd, uptr name, u32 flags, struct path *out)
{
    struct name_buf n;
    long r = name_from_user(&n, name);
    if (r < 0)
        return r;
    r = path_lookup(dirfd, n.p, flags, out);
    name_free(&n);
    return r;
}

/* ---- text of a path ---- */

static char *prepend(char *at, const char *buf, const char *s, size_t len)
{
    if (!at || (size_t)(at - buf) < len)
        return NULL;
    at -= len;
    memcpy(at, s, len);
    return at;
}

/* *reached: root was met on the way up. */
static char *text_once(const struct path *p, const struct path *root, char *buf, size_t size, bool *reached)
{
    struct dentry *d = p->dentry;
    struct mount *m = p->mnt;
    char *at = buf + size - 1;
    *at = 0;
    *reached = false;
    if (d->flags & D_ANON) {
        if (d->len && d->name[0] == '/') /* a memfd and the like: a file that has no place */
            at = prepend(at, buf, " (deleted)", 10);
        at = prepend(at, buf, d->name, d->len);
        return at ? at : ERR_PTR(-ENAMETOOLONG);
    }
    if (!(d->flags & D_HASHED) && d->parent != d && d != m->root)
        at = prepend(at, buf, " (deleted)", 10);
    char *end = at;
    for (u32 guard = 0; at && guard < 8192; guard++) {
        *reached = d == root->dentry && m == root->mnt;
        if (*reached)
            break;
        if (d == m->root) {
            if (m->parent == m)
                break;
            d = m->mountpoint;
            m = m->parent;
            continue;
        }
        if (d->parent == d)
            break;
        at = prepend(at, buf, d->name, d->len);
        at = prepend(at, buf, "/", 1);
        d = d->parent;
    }
    if (at == end)
        at = prepend(at, buf, "/", 1);
    return at ? at : ERR_PTR(-ENAMETOOLONG);
}

static char *text_until(const struct path *p, const struct path *root, char *buf, size_t size, bool *reached)
{
    for (;;) {
        u64 s = atomic_load(&dcache_seq);
        if (!(s & 1)) {
            char *at = text_once(p, root, buf, size, reached);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            if (s == atomic_load(&dcache_seq))
                return at;
        }
        cpu_relax();
    }
}

char *path_text_from(const struct path *p, const struct path *root, char *buf, size_t size)
{
    bool reached;
    return text_until(p, root, buf, size, &reached);
}

char *path_text_cwd(const struct path *p, char *buf, size_t size)
{
    static const char away[] = "(unreachable)";
    struct path root;
    bool reached;
    fs_info_root(current_fs(), &root);
    char *at = text_until(p, &root, buf, size, &reached);
    path_put(&root);
    if (!IS_ERR(at) && !reached)
        at = prepend(at, buf, away, sizeof(away) - 1) ?: ERR_PTR(-ENAMETOOLONG);
    return at;
}

char *path_text(const struct path *p, char *buf, size_t size)
{
    struct path root;
    fs_info_root(current_fs(), &root);
    char *at = path_text_from(p, &root, buf, size);
    path_put(&root);
    return at;
}
