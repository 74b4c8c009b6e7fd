/* POSIX message queues, mq_overview(7). A queue has a name (without a slash) and any number of open descriptions; it lives while one of
 * these is left. Messages: highest priority first, then in the order of arrival.
 *
 * Locks: mq_lock guards the list of names and the counts of references, queue->lock the rest; mq_lock > queue->lock; tasklist_lock is
 * taken (to notify) without either. Not there: the mqueue file system.
 *
 * SIGEV_THREAD: a C library makes a netlink socket, in which a thread of its own waits for the cookie given to mq_notify; its last byte says
 * what has happened. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "ipc/poll.h"
#include "net/sock.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include "vfs/fs_info.h"
#include "vfs/vfs.h"
#include <asm/siginfo.h>
#include <linux/capability.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define NAME_MAX_ 255
#define QUEUES_MAX 256u
#define PRIO_MAX_ 32768u
#define DEFAULT_COUNT 10
#define DEFAULT_SIZE 8192
#define HARD_COUNT 65536
#define HARD_SIZE (16l << 20)
#define NS 1000000000ull
#define COOKIE_SIZE 32
enum { COOKIE_WOKEN = 1, COOKIE_REMOVED = 2 };

struct message {
    struct list link;
    u32 prio, size;
    u8 data[];
};

struct mqueue {
    struct list link; /* names; mq_lock */
    u32 refs; /* open descriptions, + 1 while it has a name; mq_lock */
    char name[NAME_MAX_ + 1];
    u32 mode, uid, gid;
    s64 max_count, max_size;
    struct mutex lock;
    u32 count, receivers;
    u64 bytes;
    struct list messages;
    struct waitq wait;
    struct tell {
        struct tgroup *tg; /* compared, and found again by its id before use; NULL: nobody is registered */
        u32 tgid;
        int notify, signo;
        u64 value;
        struct file *socket; /* SIGEV_THREAD; referenced */
        u8 cookie[COOKIE_SIZE];
    } tell;
};

struct attr { /* struct mq_attr of the ABI */
    s64 flags, maxmsg, msgsize, curmsgs, reserved[4];
};

static KSTATE struct mutex mq_lock;
static KSTATE struct list queues;
static KSTATE u32 queue_count;

static void queue_put_locked(struct mqueue *q)
{
    struct message *m;
    if (--q->refs)
        return;
    list_for_each(m, &q->messages, link)
        kfree(m);
    if (q->tell.socket) /* the process was killed from outside: nobody withdrew it */
        file_put(q->tell.socket);
    queue_count--;
    kfree(q);
}

static struct mqueue *find_locked(const char *name)
{
    struct mqueue *q;
    list_for_each(q, &queues, link)
        if (!strcmp(q->name, name))
            return q;
    return NULL;
}

/* The registration, which is none any more. q->lock held; the caller ends it without. */
static struct tell tell_take_locked(struct mqueue *q)
{
    struct tell t = q->tell;
    memset(&q->tell, 0, sizeof(q->tell));
    return t;
}

static void tell_end(struct tell *t, u8 why)
{
    if (!t->socket)
        return;
    t->cookie[COOKIE_SIZE - 1] = why;
    netlink_tell(t->socket, t->cookie, COOKIE_SIZE); /* a full socket loses it, as on Linux */
    file_put(t->socket);
}

/* The calling process is not told any more. */
static void tell_withdraw(struct mqueue *q)
{
    struct tell t = {0};
    mutex_lock(&q->lock);
    if (q->tell.tg == current_task()->tg)
        t = tell_take_locked(q);
    mutex_unlock(&q->lock);
    tell_end(&t, COOKIE_REMOVED);
}

/* ---- the file ---- */

static u32 mq_poll(struct file *f, struct poll_table *pt)
{
    struct mqueue *q = f->priv;
    poll_wait(f, &q->wait, pt);
    u32 n = atomic_load(&q->count);
    return (n ? EPOLLIN | EPOLLRDNORM : 0) | (n < q->max_count ? EPOLLOUT | EPOLLWRNORM : 0);
}

static long mq_read(struct file *f, struct uio *u, u64 *pos) /* its state as a line of text */
{
    struct mqueue *q = f->priv;
    char text[96];
    mutex_lock(&q->lock);
    int n = fmt_print(text, sizeof(text), "QSIZE:%-10lu NOTIFY:%-5d SIGNO:%-5d NOTIFY_PID:%-6u\n", q->bytes, q->tell.tg ? q->tell.notify : 0,
                      q->tell.tg && q->tell.notify == SIGEV_SIGNAL ? q->tell.signo : 0, q->tell.tg ? q->tell.tgid : 0);
    mutex_unlock(&q->lock);
    u64 at = pos ? *pos : 0;
    if (at >= (u64)n)
        return 0;
    long r = uio_write_to(u, text + at, MIN(u->resid, (u64)n - at));
    if (r > 0 && pos)
        *pos += (u64)r;
    return r;
}

static long mq_flush(struct file *f) /* closing any descriptor ends the process's registration */
{
    tell_withdraw(f->priv);
    return 0;
}

static void mq_release(struct file *f)
{
    poll_file_gone(f);
    mutex_lock(&mq_lock);
    queue_put_locked(f->priv);
    mutex_unlock(&mq_lock);
}

static const struct file_ops mq_fops = {.read = mq_read, .poll = mq_poll, .flush = mq_flush, .release = mq_release};

static struct file *mq_get(int fd)
{
    struct file *f = fd_get(fd);
    if (f && f->ops != &mq_fops) {
        file_put(f);
        f = NULL;
    }
    return f;
}

/* ---- names ---- */

static long copy_name(uptr uname, char *name)
{
    long n = strncpy_from_user(name, uname, NAME_MAX_ + 1);
    if (n < 0)
        return n;
    if (!n)
        return -ENOENT;
    return strchr(name, '/') ? -EACCES : 0;
}

static long may_open(const struct mqueue *q, u32 flags)
{
    static const u32 wants[] = {4, 2, 6, 6};
    const struct cred *c = current_cred();
    u32 want = wants[flags & 3], shift = c->fsuid == q->uid ? 6 : cred_in_group(c, q->gid) ? 3 : 0;
    return ((q->mode >> shift) & want) == want || capable(CAP_DAC_OVERRIDE) ? 0 : -EACCES;
}

static struct mqueue *make_locked(const char *name, u32 mode, const struct attr *a)
{
    bool free = capable(CAP_SYS_RESOURCE);
    s64 count = a ? a->maxmsg : DEFAULT_COUNT, size = a ? a->msgsize : DEFAULT_SIZE;
    if (count <= 0 || size <= 0 || count > (free ? HARD_COUNT : DEFAULT_COUNT) || size > (free ? HARD_SIZE : DEFAULT_SIZE))
        return ERR_PTR(-EINVAL);
    if (queue_count >= QUEUES_MAX)
        return ERR_PTR(-ENOSPC);
    if ((u64)count * (u64)size > current_rlimit(12 /* RLIMIT_MSGQUEUE */))
        return ERR_PTR(-EMFILE);
    struct mqueue *q = knew(struct mqueue);
    if (!q)
        return ERR_PTR(-ENOMEM);
    str_copy(q->name, name, sizeof(q->name));
    q->refs = 1;
    q->mode = mode & 0777 & ~current_fs()->umask;
    q->uid = current_cred()->fsuid;
    q->gid = current_cred()->fsgid;
    q->max_count = count;
    q->max_size = size;
    list_add_tail(&queues, &q->link);
    queue_count++;
    return q;
}

static struct mqueue *open_queue(const char *name, u32 flags, u32 mode, const struct attr *a)
{
    long r = 0;
    mutex_lock(&mq_lock);
    struct mqueue *q = find_locked(name);
    if (q && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        r = -EEXIST;
    else if (q)
        r = may_open(q, flags);
    else if (!(flags & O_CREAT))
        r = -ENOENT;
    else
        q = make_locked(name, mode, a);
    if (!r && !IS_ERR(q))
        q->refs++;
    mutex_unlock(&mq_lock);
    return r ? ERR_PTR(r) : q;
}

SYSCALL4(mq_open, uptr, uname, u32, flags, u32, mode, uptr, uattr)
{
    char *name = kmalloc(NAME_MAX_ + 1), shown[NAME_MAX_ + 2] = "/";
    struct attr a;
    if (!name)
        return -ENOMEM;
    long r = copy_name(uname, name);
    if (!r && uattr && copy_from_user(&a, uattr, sizeof(a)))
        r = -EFAULT;
    if (r) {
        kfree(name);
        return r;
    }
    struct mqueue *q = open_queue(name, flags, mode, uattr ? &a : NULL);
    str_copy(shown + 1, name, sizeof(shown) - 1);
    kfree(name);
    if (IS_ERR(q))
        return PTR_ERR(q);
    struct file *f = file_anon(&mq_fops, q, shown, 0100000 | q->mode, flags & (O_ACCMODE | O_NONBLOCK));
    if (IS_ERR(f)) {
        mutex_lock(&mq_lock);
        queue_put_locked(q);
        mutex_unlock(&mq_lock);
        return PTR_ERR(f);
    }
    return fd_new(f, O_CLOEXEC);
}

SYSCALL1(mq_unlink, uptr, uname)
{
    char *name = kmalloc(NAME_MAX_ + 1);
    long r = name ? copy_name(uname, name) : -ENOMEM;
    if (!r) {
        mutex_lock(&mq_lock);
        struct mqueue *q = find_locked(name);
        if (!q)
            r = -ENOENT;
        else if (q->uid != current_cred()->fsuid && !capable(CAP_FOWNER))
            r = -EACCES;
        else {
            list_del(&q->link);
            queue_put_locked(q);
        }
        mutex_unlock(&mq_lock);
    }
    kfree(name);
    return r;
}

/* ---- messages ---- */

static long deadline_of(uptr ts, u64 *out)
{
    struct __kernel_timespec t;
    *out = NO_DEADLINE;
    if (!ts)
        return 0;
    if (copy_from_user(&t, ts, sizeof(t)))
        return -EFAULT;
    if (t.tv_sec < 0 || (u64)t.tv_nsec >= NS)
        return -EINVAL;
    u64 at = t.tv_sec > 4000000000ll ? 4000000000ull * NS : (u64)t.tv_sec * NS + (u64)t.tv_nsec;
    u64 real = host_clock(CLOCK_REALTIME), now = host_clock(CLOCK_MONOTONIC);
    *out = at > real ? now + (at - real) : now;
    return 0;
}

/* Takes the message on success. *tell: somebody is to be notified. */
static bool put(struct mqueue *q, struct message *m, bool *tell)
{
    mutex_lock(&q->lock);
    bool room = q->count < q->max_count;
    if (room) {
        struct list *after = q->messages.prev;
        while (after && after != &q->messages && list_entry(after, struct message, link)->prio < m->prio)
            after = after->prev;
        if (!after || after == &q->messages)
            list_add(&q->messages, &m->link);
        else
            list_insert_between(&m->link, after, after->next);
        *tell = !q->count && !q->receivers && q->tell.tg;
        atomic_store(&q->count, q->count + 1);
        q->bytes += m->size;
    }
    mutex_unlock(&q->lock);
    return room;
}

static struct message *take(struct mqueue *q)
{
    mutex_lock(&q->lock);
    struct message *m = list_first(&q->messages, struct message, link);
    if (m) {
        list_del(&m->link);
        atomic_store(&q->count, q->count - 1);
        q->bytes -= m->size;
    }
    mutex_unlock(&q->lock);
    return m;
}

static void notify(struct mqueue *q)
{
    int info[32] = {0};
    mutex_lock(&q->lock);
    struct tell t = tell_take_locked(q);
    mutex_unlock(&q->lock);
    tell_end(&t, COOKIE_WOKEN);
    if (!t.tg || t.notify != SIGEV_SIGNAL || !t.signo)
        return;
    siginfo_user(info, t.signo, SI_MESGQ, current_tgid(), current_cred()->uid);
    memcpy(&info[6], &t.value, 8);
    mutex_lock(&tasklist_lock);
    if (tgroup_find_locked(t.tgid) == t.tg)
        signal_send_locked(t.tg, NULL, t.signo, info);
    mutex_unlock(&tasklist_lock);
}

static long send(struct file *f, uptr msg, u64 size, u32 prio, u64 deadline)
{
    struct mqueue *q = f->priv;
    bool tell = false;
    if (size > (u64)q->max_size)
        return -EMSGSIZE;
    struct message *m = kmalloc(sizeof(*m) + size);
    if (!m)
        return -ENOMEM;
    m->prio = prio;
    m->size = (u32)size;
    long r = copy_from_user(m->data, msg, size);
    if (!r && !put(q, m, &tell))
        r = f->flags & O_NONBLOCK ? -EAGAIN : wait_event_deadline(&q->wait, put(q, m, &tell), deadline);
    if (r) {
        kfree(m);
        return r == -EINTR ? -ERESTARTSYS : r;
    }
    wake_up_all(&q->wait, EPOLLIN | EPOLLRDNORM);
    if (tell)
        notify(q);
    return 0;
}

static long receive(struct file *f, uptr msg, u64 size, uptr uprio, u64 deadline)
{
    struct mqueue *q = f->priv;
    if (size < (u64)q->max_size)
        return -EMSGSIZE;
    struct message *m = take(q);
    long r = 0;
    if (!m && f->flags & O_NONBLOCK)
        return -EAGAIN;
    if (!m) {
        mutex_lock(&q->lock);
        q->receivers++;
        mutex_unlock(&q->lock);
        r = wait_event_deadline(&q->wait, (m = take(q)), deadline);
        mutex_lock(&q->lock);
        q->receivers--;
        mutex_unlock(&q->lock);
    }
    if (!m)
        return r == -EINTR ? -ERESTARTSYS : r;
    wake_up_all(&q->wait, EPOLLOUT | EPOLLWRNORM);
    r = copy_to_user(msg, m->data, m->size) || (uprio && put_user(m->prio, uprio)) ? -EFAULT : (long)m->size;
    kfree(m);
    return r;
}

SYSCALL5(mq_timedsend, int, fd, uptr, msg, u64, size, u32, prio, uptr, ts)
{
    u64 deadline;
    if (prio >= PRIO_MAX_)
        return -EINVAL;
    long r = deadline_of(ts, &deadline);
    struct file *f = r ? NULL : mq_get(fd);
    if (!f)
        return r ? r : -EBADF;
    r = f->mode & FMODE_WRITE ? send(f, msg, size, prio, deadline) : -EBADF;
    file_put(f);
    return r;
}

SYSCALL5(mq_timedreceive, int, fd, uptr, msg, u64, size, uptr, uprio, uptr, ts)
{
    u64 deadline;
    long r = deadline_of(ts, &deadline);
    struct file *f = r ? NULL : mq_get(fd);
    if (!f)
        return r ? r : -EBADF;
    r = f->mode & FMODE_READ ? receive(f, msg, size, uprio, deadline) : -EBADF;
    file_put(f);
    return r;
}

/* struct sigevent of the ABI, as far as it is used */
struct event {
    u64 value;
    int signo, notify;
};

/* What the caller wants: without tg. */
static long tell_import(uptr uevent, struct tell *t)
{
    struct event e;
    if (copy_from_user(&e, uevent, sizeof(e)))
        return -EFAULT;
    *t = (struct tell){.notify = e.notify, .signo = e.signo, .value = e.value};
    switch (e.notify) {
    case SIGEV_NONE:
        return 0;
    case SIGEV_SIGNAL:
        return e.signo < 0 || e.signo > 64 ? -EINVAL : 0;
    case SIGEV_THREAD:
        if (copy_from_user(t->cookie, e.value, COOKIE_SIZE))
            return -EFAULT;
        t->socket = fd_get(e.signo);
        if (!t->socket)
            return -EBADF;
        if (file_is_netlink(t->socket))
            return 0;
        long r = file_sock(t->socket) ? -EINVAL : -ENOTSOCK;
        file_put(t->socket);
        return r;
    }
    return -EINVAL;
}

SYSCALL2(mq_notify, int, fd, uptr, uevent)
{
    struct tell t = {0};
    long r = uevent ? tell_import(uevent, &t) : 0;
    if (r)
        return r;
    struct file *f = mq_get(fd);
    if (!f) {
        if (t.socket)
            file_put(t.socket);
        return -EBADF;
    }
    struct mqueue *q = f->priv;
    if (uevent) {
        t.tg = current_task()->tg;
        t.tgid = t.tg->tgid;
        mutex_lock(&q->lock);
        r = q->tell.tg ? -EBUSY : 0;
        if (!r)
            q->tell = t;
        mutex_unlock(&q->lock);
        if (r && t.socket)
            file_put(t.socket);
    } else {
        tell_withdraw(q);
    }
    file_put(f);
    return r;
}

SYSCALL3(mq_getsetattr, int, fd, uptr, unew, uptr, uold)
{
    struct attr n, o = {0};
    if (unew && copy_from_user(&n, unew, sizeof(n)))
        return -EFAULT;
    if (unew && n.flags & ~(s64)O_NONBLOCK)
        return -EINVAL;
    struct file *f = mq_get(fd);
    if (!f)
        return -EBADF;
    struct mqueue *q = f->priv;
    o.flags = f->flags & O_NONBLOCK;
    o.maxmsg = q->max_count;
    o.msgsize = q->max_size;
    o.curmsgs = atomic_load(&q->count);
    if (unew)
        f->flags = (f->flags & ~(u32)O_NONBLOCK) | (u32)n.flags;
    file_put(f);
    return uold ? copy_to_user(uold, &o, sizeof(o)) : 0;
}
