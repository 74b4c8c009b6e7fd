/* Inodes, directories and open files of procfs and sysfs: the engine under the tables of pid.c, root.c and sysfs.c.
 *
 * Names are believed for one nanosecond (name_ttl), that is, revalidated at each use. The text of an open file is made
 * when it is read at offset 0 or for the first time, and shared by reference count, so that a concurrent pread keeps the
 * text it copies from; inode->lock guards file->priv only for the exchange. Directory cookies: 0, 1 the dots, 2 + index
 * the table, DYNAMIC + id the rest. */
#include "procfs/internal.h"

#include "proc/pidfd.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "procfs/procfs.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char proc_name[] = "proc";
static const char sysfs_name[] = "sysfs";
static const char cgroup2_name[] = "cgroup2";

#define DYNAMIC 4096u

struct ptext {
    u32 refs;
    struct strbuf sb;
};

struct psuper {
    u64 magic;
};

static const struct inode_ops dir_ops, file_iops, self_ops, magic_ops;
static const struct file_ops dir_fops, text_fops;

struct task *pnode_task_locked(const struct pnode *n)
{
    struct task *t = task_find_locked(n->tid);
    if (!t || t->tg->tgid != n->pid || t->tg->start_time != n->start)
        return NULL;
    return t;
}

bool pnode_may_look_locked(const struct task *t) { return may_inspect_locked(t->tg); }

struct files *pnode_files(const struct pnode *n)
{
    struct files *fs = NULL;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t && !t->exited && t->files && pnode_may_look_locked(t)) {
        fs = t->files;
        files_get(fs);
    }
    mutex_unlock(&tasklist_lock);
    return fs;
}

static u64 ino_of(const struct pentry *e, u32 tid, int fd)
{
    u64 h = ((u64)e / 8 * 0x9e3779b97f4a7c15ull) ^ ((u64)tid << 32 | (u32)fd) * 0xc2b2ae3d27d4eb4full;
    return (h >> 16) + 2;
}

static u32 type_of(const struct pentry *e)
{
    switch (e->kind) {
    case PK_MEM:
    case PK_FILE: return S_IFREG;
    case PK_LINK:
    case PK_SELF:
    case PK_MAGIC: return S_IFLNK;
    default: return S_IFDIR;
    }
}

/* Files of a process belong to it, as its credentials are now. */
static bool take_owner(struct pnode *n)
{
    if (!n->tid)
        return true;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t && t->cred) { /* of one that must not be looked into, to root: but the directory itself */
        bool hidden = t->tg->no_dump && !S_ISDIR(n->i.mode);
        n->i.uid = hidden ? 0 : t->cred->euid;
        n->i.gid = hidden ? 0 : t->cred->egid;
    }
    mutex_unlock(&tasklist_lock);
    return t != NULL;
}

static struct inode *node_new(struct super_block *sb, const struct pentry *e, const struct pnode *like, int fd)
{
    struct pnode *n = knew(struct pnode);
    if (!n)
        return ERR_PTR(-ENOMEM);
    inode_init(&n->i, sb, type_of(e) | e->perm);
    n->e = e;
    n->fd = fd;
    if (like) {
        n->pid = like->pid;
        n->tid = like->tid;
        n->start = like->start;
    }
    n->i.ino = ino_of(e, n->tid, fd);
    n->i.flags |= INODE_NO_ATIME;
    if (S_ISDIR(n->i.mode)) {
        n->i.ops = &dir_ops;
        n->i.fops = &dir_fops;
    } else if (e->kind == PK_MEM) {
        n->i.ops = &file_iops;
        n->i.fops = &proc_mem_fops;
    } else if (e->kind == PK_FILE) {
        n->i.ops = &file_iops;
        n->i.fops = &text_fops;
    } else {
        n->i.ops = e->kind == PK_MAGIC ? &magic_ops : &self_ops;
        n->i.fops = &text_fops;
        if (e->kind == PK_LINK) {
            n->i.link = e->text;
            n->i.link_len = (u32)strlen(e->text);
        } else if (e->kind == PK_MAGIC) {
            n->i.flags |= INODE_MAGIC_LINK;
        }
    }
    take_owner(n);
    return &n->i;
}

/* ---- directories ---- */

/* A plain decimal number below 2^31, or -1. */
static s64 number_of(const char *s, u32 len)
{
    s64 v = 0;
    if (!len || len > 9 || (len > 1 && s[0] == '0'))
        return -1;
    for (u32 n = 0; n < len; n++) {
        if (s[n] < '0' || s[n] > '9')
            return -1;
        v = v * 10 + (s[n] - '0');
    }
    return v;
}

/* The process or (group != 0) thread with this id. */
static bool find_task(u32 group, u64 start, u32 tid, struct pnode *out)
{
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(tid);
    bool found = t && (!group || (t->tg->tgid == group && t->tg->start_time == start));
    if (found)
        *out = (struct pnode){.pid = t->tg->tgid, .tid = tid, .start = t->tg->start_time};
    mutex_unlock(&tasklist_lock);
    return found;
}

static bool fd_is_open(const struct pnode *dir, int fd)
{
    struct files *fs = pnode_files(dir);
    if (!fs)
        return false;
    struct file *f = files_lookup(fs, fd);
    if (f)
        file_put(f);
    files_put(fs);
    return f != NULL;
}

static struct inode *find_entry(struct inode *dir, const struct qstr *q)
{
    struct pnode *d = PNODE(dir), who;
    for (const struct pentry *e = pentry_next(d->e->sub); e; e = pentry_next(e + 1))
        if (strlen(e->name) == q->len && !memcmp(e->name, q->name, q->len))
            return !d->tid || take_owner(d) ? node_new(dir->sb, e, d, -1) : NULL;
    if (d->e->kind == PK_CPUS) {
        s64 v = q->len > 3 && !memcmp(q->name, "cpu", 3) ? number_of(q->name + 3, q->len - 3) : -1;
        return v >= 0 && v < cpu_total() ? node_new(dir->sb, &sys_cpu_dir, NULL, (int)v) : NULL;
    }
    s64 v = number_of(q->name, q->len);
    if (v < 0)
        return NULL;
    switch (d->e->kind) {
    case PK_ROOT: return find_task(0, 0, (u32)v, &who) ? node_new(dir->sb, &proc_pid_dir, &who, -1) : NULL;
    case PK_TASKS:
        return find_task(d->pid, d->start, (u32)v, &who) ? node_new(dir->sb, &proc_tid_dir, &who, -1) : NULL;
    case PK_FDS: return fd_is_open(d, (int)v) ? node_new(dir->sb, &proc_fd_link, d, (int)v) : NULL;
    case PK_FDINFOS: return fd_is_open(d, (int)v) ? node_new(dir->sb, &proc_fdinfo_file, d, (int)v) : NULL;
    default: return NULL;
    }
}

/* A name that is not there cannot be made either: ENOENT for mkdir and the like. */
static struct inode *dir_lookup(struct inode *dir, const struct qstr *q)
{
    struct inode *i = find_entry(dir, q);
    return i ? i : ERR_PTR(-ENOENT);
}

static bool dir_revalidate(struct inode *dir, const struct qstr *q, struct inode *i)
{
    (void)q;
    if (!i)
        return false;
    struct pnode *d = PNODE(dir), *n = PNODE(i);
    if (!take_owner(n))
        return false;
    return (d->e->kind != PK_FDS && d->e->kind != PK_FDINFOS) || fd_is_open(d, n->fd);
}

/* The next id of a dynamic directory >= from, or -1. */
static s64 dir_next(struct pnode *d, struct files *fs, u32 from)
{
    s64 r = -1;
    if (d->e->kind == PK_CPUS)
        return from < cpu_total() ? (s64)from : -1;
    if (d->e->kind == PK_FDS || d->e->kind == PK_FDINFOS)
        return fs ? files_next(fs, (int)from) : -1;
    mutex_lock(&tasklist_lock);
    if (d->e->kind == PK_ROOT) {
        struct tgroup *tg = tgroup_next_locked(from);
        if (tg)
            r = tg->tgid;
    } else {
        struct tgroup *tg = tgroup_find_locked(d->pid);
        struct task *t;
        if (tg && tg->start_time == d->start) {
            list_for_each(t, &tg->tasks, tg_link)
            {
                if (t->tid >= from && (r < 0 || t->tid < (u64)r))
                    r = t->tid;
            }
        }
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long dir_iterate(struct file *f, struct dir_ctx *c)
{
    struct pnode *d = PNODE(f->inode);
    u32 kind = d->e->kind;
    if (!take_owner(d))
        return -ENOENT;
    for (; c->pos < 2; c->pos++)
        if (!c->emit(c, "..", (u32)c->pos + 1, c->pos + 1, d->i.ino, S_IFDIR >> 12))
            return 0;
    u64 n = 0;
    for (const struct pentry *e = pentry_next(d->e->sub); e; e = pentry_next(e + 1), n++) {
        if (c->pos > n + 2)
            continue;
        if (!c->emit(c, e->name, (u32)strlen(e->name), n + 3, ino_of(e, d->tid, -1), type_of(e) >> 12))
            return 0;
        c->pos = n + 3;
    }
    if (kind == PK_DIR)
        return 0;
    const struct pentry *e = kind == PK_ROOT    ? &proc_pid_dir
                             : kind == PK_TASKS ? &proc_tid_dir
                             : kind == PK_FDS   ? &proc_fd_link
                             : kind == PK_CPUS  ? &sys_cpu_dir
                                                : &proc_fdinfo_file;
    bool by_fd = kind == PK_FDS || kind == PK_FDINFOS;
    struct files *fs = by_fd ? pnode_files(d) : NULL;
    if (by_fd && !fs)
        return -EACCES;
    for (;;) {
        s64 id = dir_next(d, fs, c->pos < DYNAMIC ? 0 : (u32)(c->pos - DYNAMIC));
        if (id < 0)
            break;
        char name[24];
        u32 len = (u32)fmt_print(name, sizeof(name), kind == PK_CPUS ? "cpu%ld" : "%ld", (long)id);
        u64 ino = by_fd ? ino_of(e, d->tid, (int)id) : kind == PK_CPUS ? ino_of(e, 0, (int)id) : ino_of(e, (u32)id, -1);
        if (!c->emit(c, name, len, DYNAMIC + (u64)id + 1, ino, type_of(e) >> 12))
            break;
        c->pos = DYNAMIC + (u64)id + 1;
    }
    if (fs)
        files_put(fs);
    return 0;
}

/* ---- links ---- */

static long self_readlink(struct inode *i, char *buf, size_t size)
{
    char text[64];
    bool thread = PNODE(i)->e->text != NULL;
    int n = thread ? fmt_print(text, sizeof(text), "%u/task/%u", current_tgid(), current_tid())
                   : fmt_print(text, sizeof(text), "%u", current_tgid());
    size_t len = MIN((size_t)n, size);
    memcpy(buf, text, len);
    return (long)len;
}

static long magic_follow(struct inode *i, struct path *out)
{
    return PNODE(i)->e->follow(PNODE(i), out);
}

/* ---- text ---- */

static void text_put(struct ptext *t)
{
    if (!t || atomic_sub(&t->refs, 1))
        return;
    sb_free(&t->sb);
    kfree(t);
}

static struct ptext *text_make(struct pnode *n)
{
    struct ptext *t = knew(struct ptext);
    if (!t)
        return ERR_PTR(-ENOMEM);
    t->refs = 1;
    long r = 0;
    if (n->e->show)
        r = n->e->show(n, &t->sb);
    else if (n->e->text)
        sb_write(&t->sb, n->e->text, strlen(n->e->text));
    if (!r && t->sb.failed)
        r = -ENOMEM;
    if (!r)
        return t;
    text_put(t);
    return ERR_PTR(r);
}

static long text_read(struct file *f, struct uio *u, u64 *pos)
{
    struct inode *i = f->inode;
    u64 at = pos ? *pos : 0;
    struct ptext *t = NULL;
    if (at) {
        mutex_lock(&i->lock);
        t = f->priv;
        if (t)
            atomic_add(&t->refs, 1);
        mutex_unlock(&i->lock);
    }
    if (!t) {
        t = text_make(PNODE(i));
        if (IS_ERR(t))
            return PTR_ERR(t);
        atomic_add(&t->refs, 1);
        mutex_lock(&i->lock);
        struct ptext *old = f->priv;
        f->priv = t;
        mutex_unlock(&i->lock);
        text_put(old);
    }
    long r = at < t->sb.len ? uio_write_to(u, t->sb.buf + at, MIN(u->resid, t->sb.len - at)) : 0;
    text_put(t);
    if (r > 0 && pos)
        *pos = at + (u64)r;
    return r;
}

static long text_write(struct file *f, struct uio *u, u64 *pos)
{
    struct pnode *n = PNODE(f->inode);
    if (!n->e->write)
        return -EINVAL;
    long r = n->e->write(n, u);
    if (r > 0 && pos)
        *pos += (u64)r;
    return r;
}

static void text_release(struct file *f)
{
    text_put(f->priv);
    f->priv = NULL;
}

/* Opening with O_TRUNC is allowed and does nothing; the rest of the attributes is fixed. */
static long node_setattr(struct inode *i, const struct iattr *a)
{
    if (a->valid & (ATTR_MODE | ATTR_UID | ATTR_GID))
        return -EPERM;
    return (a->valid & ATTR_SIZE) && !PNODE(i)->e->write ? -EINVAL : 0;
}

static const struct inode_ops dir_ops = {.lookup = dir_lookup, .revalidate = dir_revalidate, .setattr = node_setattr};
static const struct inode_ops file_iops = {.setattr = node_setattr};
static const struct inode_ops self_ops = {.readlink = self_readlink, .setattr = node_setattr};
static const struct inode_ops magic_ops = {.follow = magic_follow, .setattr = node_setattr};
static const struct file_ops dir_fops = {.iterate = dir_iterate};
static const struct file_ops text_fops = {.read = text_read, .write = text_write, .release = text_release};

/* ---- super blocks ---- */

static void free_inode(struct inode *i)
{
    kfree(PNODE(i));
}

static long super_statfs(struct super_block *sb, struct kstatfs *st)
{
    *st = (struct kstatfs){.type = ((struct psuper *)sb->priv)->magic, .bsize = PAGE_SIZE, .namelen = NAME_LEN_MAX};
    return 0;
}

static const struct super_ops super_ops = {.statfs = super_statfs, .free_inode = free_inode, .put_super = super_free};

long pnode_mount(const char *fstype, u64 magic, const struct pentry *root, struct super_block **out)
{
    struct super_block *sb = sb_alloc(&super_ops, fstype, 0);
    struct psuper *s = knew(struct psuper);
    struct inode *i = sb && s ? node_new(sb, root, NULL, -1) : NULL;
    if (!i || IS_ERR(i))
        goto fail;
    s->magic = magic;
    sb->priv = s;
    sb->name_ttl = 1;
    i->ino = 1;
    sb->root = d_make_root(sb, i);
    if (!sb->root) /* d_make_root has put the inode */
        goto fail;
    *out = sb;
    return 0;
fail:
    kfree(s);
    kfree(sb);
    return -ENOMEM;
}

static const struct pentry proc_root_dir = {"", 0555, PK_ROOT, proc_root_entries, NULL, NULL, NULL, NULL};

static long proc_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    (void)source;
    (void)flags;
    (void)options;
    return pnode_mount(proc_name, 0x9fa0, &proc_root_dir, out);
}

static u32 process_directory(const struct file *f)
{
    if (!f->inode || f->inode->ops != &dir_ops || PNODE(f->inode)->e != &proc_pid_dir)
        return 0;
    return pnode_task_locked(PNODE(f->inode)) ? PNODE(f->inode)->pid : ~0u; /* nobody has that number */
}

long procfs_init(void)
{
    pidfd_know_directories(process_directory);
    long r = register_filesystem(proc_name, proc_mount);
    r = r ? r : register_filesystem(sysfs_name, sysfs_mount);
    return r ? r : register_filesystem(cgroup2_name, cgroupfs_mount);
}
