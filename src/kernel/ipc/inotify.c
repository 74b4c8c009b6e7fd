/* inotify(7).
 *
 * A watch joins an inode (inode->watches) and an inotify instance. It holds a reference of the inode, so that inodes do not
 * leave with watches; deletion (FSN_DELETE_SELF) removes it. The instance has a queue of events.
 *
 * Locks: watch_lock guards all watches and their lists (one for all: changes of watched objects are rare enough) > the
 * instance's lock (event queue). iput is called without either. */
#include "ipc/inotify.h"

#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/inotify.h>
#include <linux/stat.h>
#include <asm/ioctls.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/strbuf.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "vfs/hooks.h"

#define QUEUE_MAX 16384u /* fs.inotify.max_queued_events */
#define WATCHES_MAX 65536u
#define DIR_ONLY (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define SELF_ONLY (IN_DELETE_SELF | IN_MOVE_SELF)

struct event {
    struct list link;
    s32 wd;
    u32 mask, cookie;
    u32 name_size; /* with NUL and padding */
    char name[];
};

struct inotify {
    struct mutex lock;
    struct waitq wait;
    struct list events;
    u32 event_count, bytes;
    bool overflowed; /* the overflow event is queued */
    struct list watches; /* watch_lock */
    u32 watch_count;
    s32 last_wd;
};

struct watch {
    struct list inode_link, group_link;
    struct inotify *group;
    struct inode *inode; /* referenced */
    u32 mask;
    s32 wd;
};

static KSTATE struct mutex watch_lock;

/* ---- queueing ---- */

static bool same_as_last(struct inotify *g, s32 wd, u32 mask, u32 cookie, const char *name, u32 len)
{
    if (list_empty(&g->events))
        return false;
    struct event *e = list_entry(g->events.prev, struct event, link);
    return e->wd == wd && e->mask == mask && e->cookie == cookie && strlen(e->name_size ? e->name : "") == len &&
           !memcmp(e->name, name, len);
}

static void queue(struct inotify *g, s32 wd, u32 mask, u32 cookie, const char *name, u32 len)
{
    u32 size = len ? (u32)ALIGN_UP(len + 1, sizeof(struct inotify_event)) : 0;

    mutex_lock(&g->lock);
    if (same_as_last(g, wd, mask, cookie, name, len))
        goto out;
    if (g->event_count >= QUEUE_MAX) {
        if (g->overflowed)
            goto out;
        g->overflowed = true;
        wd = -1;
        mask = IN_Q_OVERFLOW;
        cookie = len = size = 0;
    }
    struct event *e = kzalloc(sizeof(*e) + size);
    if (!e)
        goto out;
    e->wd = wd;
    e->mask = mask;
    e->cookie = cookie;
    e->name_size = size;
    memcpy(e->name, name, len);
    list_add_tail(&g->events, &e->link);
    g->event_count++;
    g->bytes += (u32)sizeof(struct inotify_event) + size;
out:
    mutex_unlock(&g->lock);
    if (waitq_active(&g->wait))
        wake_up_all(&g->wait, EPOLLIN | EPOLLRDNORM);
}

/* Takes the watch out of all lists; the caller frees it (and puts its inode) without watch_lock. */
static void detach(struct watch *w)
{
    list_del(&w->inode_link);
    list_del(&w->group_link);
    w->group->watch_count--;
    queue(w->group, w->wd, IN_IGNORED, 0, "", 0);
}

static void free_watches(struct list *dead)
{
    struct watch *w;
    while ((w = list_first(dead, struct watch, group_link))) {
        list_del(&w->group_link);
        iput(w->inode);
        kfree(w);
    }
}

static void notify_inode(struct inode *i, u32 mask, u32 cookie, const struct qstr *name, struct list *dead)
{
    struct watch *w;

    list_for_each(w, &i->watches, inode_link) {
        if (mask & w->mask & IN_EXCL_UNLINK)
            continue;
        u32 hit = mask & w->mask & IN_ALL_EVENTS;
        if (hit)
            queue(w->group, w->wd, hit | (mask & IN_ISDIR), cookie, name ? name->name : "", name ? name->len : 0);
        if ((hit && (w->mask & IN_ONESHOT)) || (mask & IN_DELETE_SELF)) {
            detach(w);
            list_add(dead, &w->group_link);
        }
    }
}

static void inotify_event(struct inode *dir, const struct qstr *name, struct inode *node, u32 mask, u32 cookie)
{
    struct list dead = {0};
    bool dir_watched = dir && !list_empty(&dir->watches) && !(mask & SELF_ONLY);
    bool node_watched = node && !list_empty(&node->watches) && !(mask & DIR_ONLY);

    if (!dir_watched && !node_watched)
        return;
    mutex_lock(&watch_lock);
    if (dir_watched)
        notify_inode(dir, mask, cookie, name, &dead);
    if (node_watched)
        notify_inode(node, mask & SELF_ONLY ? mask & ~IN_ISDIR : mask, cookie, NULL, &dead);
    mutex_unlock(&watch_lock);
    free_watches(&dead);
}

void inotify_inode_gone(struct inode *i) { (void)i; } /* watches hold references: an inode never goes with one */

/* ---- watches ---- */

static struct watch *find_watch(struct inotify *g, struct inode *i)
{
    struct watch *w;
    list_for_each(w, &i->watches, inode_link)
        if (w->group == g)
            return w;
    return NULL;
}

long inotify_add(struct file *f, struct inode *i, u32 mask)
{
    struct inotify *g = f->priv;
    u32 flags = mask & (IN_ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK);
    struct watch *fresh = knew(struct watch);
    long r;

    if (!fresh)
        return -ENOMEM;
    hooks.fsnotify = inotify_event;
    mutex_lock(&watch_lock);
    struct watch *w = find_watch(g, i);
    if (w && (mask & IN_MASK_CREATE)) {
        r = -EEXIST;
    } else if (w) {
        w->mask = mask & IN_MASK_ADD ? w->mask | flags : flags;
        r = w->wd;
    } else if (g->watch_count >= WATCHES_MAX) {
        r = -ENOSPC;
    } else {
        w = fresh;
        fresh = NULL;
        iget(i);
        w->group = g;
        w->inode = i;
        w->mask = flags;
        w->wd = ++g->last_wd;
        list_add_tail(&i->watches, &w->inode_link);
        list_add_tail(&g->watches, &w->group_link);
        g->watch_count++;
        r = w->wd;
    }
    mutex_unlock(&watch_lock);
    kfree(fresh);
    return r;
}

long inotify_remove(struct file *f, int wd)
{
    struct inotify *g = f->priv;
    struct list dead = {0};
    struct watch *w;

    mutex_lock(&watch_lock);
    list_for_each(w, &g->watches, group_link)
        if (w->wd == wd) {
            detach(w);
            list_add(&dead, &w->group_link);
            break;
        }
    mutex_unlock(&watch_lock);
    if (list_empty(&dead))
        return -EINVAL;
    free_watches(&dead);
    return 0;
}

/* ---- the file ---- */

static struct event *first_event(struct inotify *g) { return list_first(&g->events, struct event, link); }

static void drop_event(struct inotify *g, struct event *e)
{
    list_del(&e->link);
    g->event_count--;
    g->bytes -= (u32)sizeof(struct inotify_event) + e->name_size;
    if (e->mask == IN_Q_OVERFLOW)
        g->overflowed = false;
    kfree(e);
}

/* Copies whole events. 0: none there. */
static long take_events(struct inotify *g, struct uio *u)
{
    struct event *e;
    long done = 0, r = 0;

    mutex_lock(&g->lock);
    while ((e = first_event(g))) {
        struct inotify_event h = {.wd = e->wd, .mask = e->mask, .cookie = e->cookie, .len = e->name_size};
        if (u->resid < sizeof(h) + e->name_size) {
            r = done ? 0 : -EINVAL;
            break;
        }
        r = uio_write_to(u, &h, sizeof(h));
        if (r > 0 && e->name_size)
            r = uio_write_to(u, e->name, e->name_size);
        if (r < 0)
            break;
        done += (long)(sizeof(h) + e->name_size);
        drop_event(g, e);
        r = 0;
    }
    mutex_unlock(&g->lock);
    return done ? done : r;
}

static long inotify_read(struct file *f, struct uio *u, u64 *pos)
{
    struct inotify *g = f->priv;
    long n = take_events(g, u);

    (void)pos;
    if (n)
        return n;
    if (f->flags & O_NONBLOCK)
        return -EAGAIN;
    long r = wait_event(&g->wait, (n = take_events(g, u)) != 0);
    return n ? n : r == -EINTR ? -ERESTARTSYS : r;
}

static u32 inotify_poll(struct file *f, struct poll_table *pt)
{
    struct inotify *g = f->priv;

    poll_wait(f, &g->wait, pt);
    return atomic_load(&g->event_count) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long inotify_ioctl(struct file *f, u32 cmd, u64 arg)
{
    struct inotify *g = f->priv;
    return cmd == FIONREAD ? put_user((s32)atomic_load(&g->bytes), arg) : -ENOTTY;
}

static void inotify_release(struct file *f)
{
    struct inotify *g = f->priv;
    struct list dead = {0};
    struct watch *w;
    struct event *e;

    poll_file_gone(f);
    mutex_lock(&watch_lock);
    while ((w = list_first(&g->watches, struct watch, group_link))) {
        detach(w);
        list_add(&dead, &w->group_link);
    }
    mutex_unlock(&watch_lock);
    free_watches(&dead);
    while ((e = first_event(g)))
        drop_event(g, e);
    kfree(g);
}

static void inotify_fdinfo(struct file *f, struct strbuf *sb)
{
    struct inotify *g = f->priv;
    struct watch *w;

    mutex_lock(&watch_lock);
    list_for_each(w, &g->watches, group_link)
        sb_printf(sb, "inotify wd:%x ino:%llx sdev:%llx mask:%x ignored_mask:0\n", w->wd, (unsigned long long)w->inode->ino,
                  (unsigned long long)(w->inode->sb ? w->inode->sb->dev : 0), w->mask);
    mutex_unlock(&watch_lock);
}

static const struct file_ops inotify_fops = {
    .read = inotify_read,
    .poll = inotify_poll,
    .ioctl = inotify_ioctl,
    .release = inotify_release,
    .show_fdinfo = inotify_fdinfo,
};

bool file_is_inotify(const struct file *f) { return f->ops == &inotify_fops; }

struct file *inotify_new(u32 flags)
{
    struct inotify *g = knew(struct inotify);
    if (!g)
        return ERR_PTR(-ENOMEM);
    struct file *f = file_anon(&inotify_fops, g, "anon_inode:inotify", 0600, O_RDONLY | (flags & O_NONBLOCK));
    if (IS_ERR(f))
        kfree(g);
    return f;
}
