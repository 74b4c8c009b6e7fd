/* Advisory locks: POSIX records (owner: the descriptor table), open file description records (owner: the file) and flock
 * (owner: the file, whole file). All of an inode's locks are on inode->flocks under flocks_lock (global; taken with no other lock
 * held but the allocator's inside). Waiters sleep on inode->flock_wait; POSIX ones are listed so that a cycle of owners gives EDEADLK. */
#include "vfs/internal.h"

#include "core/kmalloc.h"
#include "core/kstate.h"

enum kind { POSIX, OFD, FLOCK };

struct lock {
    struct list link;
    enum kind kind;
    s16 type; /* F_RDLCK, F_WRLCK */
    u32 pid;
    const void *owner;
    u64 start, end; /* inclusive */
};

struct blocked {
    struct list link;
    const void *owner, *by;
};

static KSTATE struct mutex flocks_lock;
static KSTATE struct list blocked_list;

#define END_MAX 0x7fffffffffffffffull

/* The first of them in the file, which is what F_GETLK tells. */
static struct lock *conflict(struct inode *i, enum kind kind, const void *owner, s16 type, u64 start, u64 end)
{
    struct lock *l, *first = NULL;
    list_for_each(l, &i->flocks, link)
    {
        if ((l->kind == FLOCK) != (kind == FLOCK) || (l->owner == owner && l->kind == kind))
            continue;
        if (l->start <= end && start <= l->end && (l->type == F_WRLCK || type == F_WRLCK) &&
            (!first || l->start < first->start))
            first = l;
    }
    return first;
}

static bool deadlock(const void *owner, const void *by)
{
    for (u32 depth = 0; depth < 64; depth++) {
        const void *next = NULL;
        struct blocked *b;
        if (by == owner)
            return true;
        list_for_each(b, &blocked_list, link)
        {
            if (b->owner == by)
                next = b->by;
        }
        if (!next)
            return false;
        by = next;
    }
    return false;
}

/* Replaces what `owner` holds in [start, end] by `type` (F_UNLCK: nothing). spare: two allocated records; used ones are
 * set to NULL. flocks_lock held. */
static void apply(struct inode *i, enum kind kind, const void *owner, s16 type, u64 start, u64 end, struct lock *spare[2])
{
    struct lock *l;
    u64 s = start, e = end;
    list_for_each(l, &i->flocks, link)
    {
        if (l->kind != kind || l->owner != owner)
            continue;
        if (l->type == type) { /* merge neighbours and overlaps */
            if (l->start <= (e == END_MAX ? e : e + 1) && s <= (l->end == END_MAX ? l->end : l->end + 1)) {
                s = MIN(s, l->start);
                e = MAX(e, l->end);
                list_del(&l->link);
                kfree(l);
            }
            continue;
        }
        if (l->start > end || l->end < start)
            continue;
        if (l->start < start && l->end > end) { /* split */
            struct lock *tail = spare[1];
            spare[1] = NULL;
            *tail = *l;
            tail->start = end + 1;
            l->end = start - 1;
            list_add_tail(&i->flocks, &tail->link);
        } else if (l->start < start) {
            l->end = start - 1;
        } else if (l->end > end) {
            l->start = end + 1;
        } else {
            list_del(&l->link);
            kfree(l);
        }
    }
    if (type == F_UNLCK)
        return;
    l = spare[0];
    spare[0] = NULL;
    *l = (struct lock){.kind = kind, .type = type, .pid = kind == OFD ? (u32)-1 : current_tgid(), .owner = owner,
                       .start = s, .end = e};
    list_add_tail(&i->flocks, &l->link);
}

/* 0, -EAGAIN with *by, -EDEADLK or -ENOMEM. */
static long try_set(struct inode *i, enum kind kind, const void *owner, s16 type, u64 start, u64 end, const void **by)
{
    struct lock *spare[2] = {kmalloc(sizeof(struct lock)), kmalloc(sizeof(struct lock))};
    long r = 0;
    if (!spare[0] || !spare[1]) {
        r = -ENOMEM;
        goto out;
    }
    mutex_lock(&flocks_lock);
    struct lock *c = type == F_UNLCK ? NULL : conflict(i, kind, owner, type, start, end);
    if (c) {
        *by = c->owner;
        r = -EAGAIN;
    } else {
        apply(i, kind, owner, type, start, end, spare);
    }
    mutex_unlock(&flocks_lock);
    if (!r)
        wake_up_all(&i->flock_wait, 0);
out:
    kfree(spare[0]);
    kfree(spare[1]);
    return r;
}

static long set_wait(struct inode *i, enum kind kind, const void *owner, s16 type, u64 start, u64 end, bool wait)
{
    const void *by = NULL;
    long r = try_set(i, kind, owner, type, start, end, &by);
    if (r != -EAGAIN || !wait)
        return r;
    struct blocked *b = knew(struct blocked);
    if (!b)
        return -ENOMEM;
    for (;;) {
        wait_prepare(&i->flock_wait);
        mutex_lock(&flocks_lock);
        if (list_linked(&b->link))
            list_del(&b->link);
        mutex_unlock(&flocks_lock);
        r = try_set(i, kind, owner, type, start, end, &by);
        if (r != -EAGAIN)
            break;
        mutex_lock(&flocks_lock);
        bool dead = kind == POSIX && deadlock(owner, by);
        if (!dead && kind == POSIX) {
            b->owner = owner;
            b->by = by;
            list_add(&blocked_list, &b->link);
        }
        mutex_unlock(&flocks_lock);
        if (dead) {
            r = -EDEADLK;
            break;
        }
        r = wait_sleep(NO_DEADLINE);
        if (r) {
            r = -ERESTARTSYS;
            break;
        }
    }
    wait_finish();
    mutex_lock(&flocks_lock);
    if (list_linked(&b->link))
        list_del(&b->link);
    mutex_unlock(&flocks_lock);
    kfree(b);
    return r;
}

static long range_of(struct file *f, const struct flock *fl, u64 *start, u64 *end)
{
    s64 base, s;
    switch (fl->l_whence) {
    case SEEK_SET: base = 0; break;
    case SEEK_CUR: base = (s64)f->pos; break;
    case SEEK_END: base = (s64)f->inode->size; break;
    default: return -EINVAL;
    }
    if (__builtin_add_overflow(base, (s64)fl->l_start, &s))
        return -EOVERFLOW;
    if (s < 0)
        return -EINVAL;
    if (fl->l_len > 0) {
        s64 e;
        if (__builtin_add_overflow(s, (s64)fl->l_len - 1, &e))
            return -EOVERFLOW;
        *start = (u64)s;
        *end = (u64)e;
    } else if (fl->l_len < 0) {
        if (s + fl->l_len < 0)
            return -EINVAL;
        *start = (u64)(s + fl->l_len);
        *end = (u64)s - 1;
    } else {
        *start = (u64)s;
        *end = END_MAX;
    }
    return 0;
}

long posix_lock_set(struct file *f, u32 cmd, struct flock *fl)
{
    bool ofd = cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
    u64 start, end;
    long r = range_of(f, fl, &start, &end);
    if (r)
        return r;
    if (ofd && fl->l_pid)
        return -EINVAL;
    if (fl->l_type != F_RDLCK && fl->l_type != F_WRLCK && fl->l_type != F_UNLCK)
        return -EINVAL;
    if ((fl->l_type == F_RDLCK && !(f->mode & FMODE_READ)) || (fl->l_type == F_WRLCK && !(f->mode & FMODE_WRITE)))
        return -EBADF;
    const void *owner = ofd ? (const void *)f : (const void *)current_files();
    return set_wait(f->inode, ofd ? OFD : POSIX, owner, fl->l_type, start, end, cmd == F_SETLKW || cmd == F_OFD_SETLKW);
}

long posix_lock_get(struct file *f, u32 cmd, struct flock *fl)
{
    bool ofd = cmd == F_OFD_GETLK;
    u64 start, end;
    if (fl->l_type != F_RDLCK && fl->l_type != F_WRLCK)
        return -EINVAL;
    if (ofd && fl->l_pid)
        return -EINVAL;
    long r = range_of(f, fl, &start, &end);
    if (r)
        return r;
    mutex_lock(&flocks_lock);
    struct lock *c = conflict(f->inode, ofd ? OFD : POSIX, ofd ? (const void *)f : (const void *)current_files(),
                              fl->l_type, start, end);
    if (c) {
        fl->l_type = c->type;
        fl->l_whence = SEEK_SET;
        fl->l_start = (s64)c->start;
        fl->l_len = c->end == END_MAX ? 0 : (s64)(c->end - c->start + 1);
        fl->l_pid = (s32)c->pid;
    } else {
        fl->l_type = F_UNLCK;
    }
    mutex_unlock(&flocks_lock);
    return 0;
}

static void drop(struct inode *i, const void *owner, bool posix)
{
    bool any = false;
    struct lock *l;
    mutex_lock(&flocks_lock);
    list_for_each(l, &i->flocks, link)
    {
        if (l->owner == owner && (l->kind == POSIX) == posix) {
            list_del(&l->link);
            kfree(l);
            any = true;
        }
    }
    mutex_unlock(&flocks_lock);
    if (any)
        wake_up_all(&i->flock_wait, 0);
}

void posix_locks_drop(struct file *f, const void *owner)
{
    drop(f->inode, owner, true);
}

void file_locks_drop(struct file *f)
{
    drop(f->inode, f, false);
}

long flock_set(struct file *f, int op)
{
    s16 type;
    switch (op & ~LOCK_NB) {
    case LOCK_SH: type = F_RDLCK; break;
    case LOCK_EX: type = F_WRLCK; break;
    case LOCK_UN: type = F_UNLCK; break;
    default: return -EINVAL;
    }
    const void *by;
    if (type != F_UNLCK && !(op & LOCK_NB)) { /* a conversion that must wait gives up the old lock first, as Linux does */
        long r = try_set(f->inode, FLOCK, f, type, 0, END_MAX, &by);
        if (r != -EAGAIN)
            return r;
        try_set(f->inode, FLOCK, f, F_UNLCK, 0, END_MAX, &by);
    }
    return set_wait(f->inode, FLOCK, f, type, 0, END_MAX, !(op & LOCK_NB));
}
