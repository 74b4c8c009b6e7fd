#define _GNU_SOURCE
#include "ipc_fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/layout.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "core/strbuf.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "tty/session.h"
#include "tty/tty.h"
#include "proc/signal.h"
#include "time/timer.h"
#include "vfs/hooks.h"
#include "vfs/dentry.h"

#define INLINE_WAITERS 4

struct task {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken, interrupted;
    struct waiter waiters[INLINE_WAITERS];
    u32 waiter_count;
    u32 tid;
    void (*fn)(void *);
    void *arg;
};

static __thread struct task *me;
static u32 next_tid = 100;
static u64 live_files, live_bytes;
static int last_signal;
static u32 last_pgrp, doorbells;
static void (*doorbell_fn)(void);
static u32 the_sid = 1, the_pgrp = 1;
static bool the_orphan;
static struct tty *the_tty;

/* ---- TAP ---- */

static int tests, failed;
static const char *group = "";
static pthread_mutex_t tap_lock = PTHREAD_MUTEX_INITIALIZER;

void tap_group(const char *name) { group = name; }

void tap_check(bool ok, const char *what, const char *file, int line)
{
    pthread_mutex_lock(&tap_lock);
    tests++;
    failed += !ok;
    if (ok)
        printf("ok %d - %s: %s\n", tests, group, what);
    else
        printf("not ok %d - %s: %s (%s:%d)\n", tests, group, what, file, line);
    pthread_mutex_unlock(&tap_lock);
}

void tap_equal(long a, long b, const char *what, const char *file, int line)
{
    if (a != b)
        printf("# got %ld, want %ld\n", a, b);
    tap_check(a == b, what, file, line);
}

int tap_end(void)
{
    printf("1..%d\n", tests);
    return failed || !tests ? 1 : 0;
}

/* ---- memory ---- */

void *kmalloc(size_t size)
{
    u64 *p = malloc(size + 16);
    p[0] = size;
    __atomic_add_fetch(&live_bytes, size, __ATOMIC_RELAXED);
    memset(p + 2, 0xa5, size);
    return p + 2;
}
void *kzalloc(size_t size) { return memset(kmalloc(size), 0, size); }
void kfree(void *p)
{
    if (!p)
        return;
    u64 *h = (u64 *)p - 2;
    __atomic_sub_fetch(&live_bytes, h[0], __ATOMIC_RELAXED);
    memset(p, 0x5a, h[0]);
    free(h);
}
u64 fake_live_bytes(void) { return live_bytes; }

static u64 dwin_next = 1 << 20;
u64 dwin_alloc(u64 size, u64 *got)
{
    *got = size;
    return __atomic_fetch_add(&dwin_next, PAGE_UP(size), __ATOMIC_RELAXED);
}
void dwin_free(u64 off, u64 size) { madvise((void *)(D_BASE + off), size, MADV_DONTNEED); }

long copy_from_user(void *d, uptr s, size_t n)
{
    if (s < 4096)
        return n ? -EFAULT : 0;
    memcpy(d, (void *)s, n);
    return 0;
}
long copy_to_user(uptr d, const void *s, size_t n)
{
    if (d < 4096)
        return n ? -EFAULT : 0;
    memcpy((void *)d, s, n);
    return 0;
}
long clear_user(uptr d, size_t n) { return memset((void *)d, 0, n), 0; }
size_t copy_from_user_some(void *d, uptr s, size_t n) { return copy_from_user(d, s, n) ? 0 : n; }
size_t copy_to_user_some(uptr d, const void *s, size_t n) { return copy_to_user(d, s, n) ? 0 : n; }
long strncpy_from_user(char *d, uptr s, size_t n)
{
    strncpy(d, (char *)s, n);
    return (long)strnlen((char *)s, n);
}

void sb_printf(struct strbuf *sb, const char *f, ...) { (void)sb, (void)f; }
noreturn_fn void panic(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vprintf(f, ap);
    abort();
}
void klog(const char *f, ...) { (void)f; }

/* ---- locks ---- */

void mutex_lock(struct mutex *m)
{
    if (__atomic_load_n(&m->word, __ATOMIC_RELAXED) == me->tid)
        panic("Bail out! mutex taken twice by one task\n");
    while (!atomic_cas(&m->word, 0u, me->tid))
        sched_yield();
}
bool mutex_trylock(struct mutex *m) { return atomic_cas(&m->word, 0u, me->tid); }
void mutex_unlock(struct mutex *m)
{
    if (m->word != me->tid)
        panic("Bail out! unlocking a mutex that is not held\n");
    atomic_store(&m->word, 0u);
}
bool mutex_held(const struct mutex *m) { return m->word == me->tid; }

/* ---- sleeping ---- */

void waitq_add(struct waitq *q, struct waiter *w)
{
    mutex_lock(&q->lock);
    w->q = q;
    list_add_tail(&q->waiters, &w->link);
    mutex_unlock(&q->lock);
}
void waitq_remove(struct waiter *w)
{
    struct waitq *q = w->q;
    mutex_lock(&q->lock);
    if (list_linked(&w->link))
        list_del(&w->link);
    mutex_unlock(&q->lock);
}

static void prepare(struct waitq *q, bool exclusive)
{
    pthread_mutex_lock(&me->lock);
    me->woken = false;
    pthread_mutex_unlock(&me->lock);
    for (u32 i = 0; i < me->waiter_count; i++)
        if (me->waiters[i].q == q && list_linked(&me->waiters[i].link))
            return;
    if (me->waiter_count == INLINE_WAITERS)
        panic("Bail out! too many inline waiters\n");
    struct waiter *w = &me->waiters[me->waiter_count++];
    memset(w, 0, sizeof(*w));
    w->task = me;
    w->exclusive = exclusive;
    waitq_add(q, w);
}
void wait_prepare(struct waitq *q) { prepare(q, false); }
void wait_prepare_exclusive(struct waitq *q) { prepare(q, true); }
void wait_finish(void)
{
    while (me->waiter_count)
        waitq_remove(&me->waiters[--me->waiter_count]);
}

u64 host_clock(int id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

long wait_sleep(u64 deadline)
{
    long r = 0;
    u64 limit = host_clock(CLOCK_MONOTONIC) + 5000000000ull; /* a test that hangs is a failed test */
    u64 until = MIN(deadline, limit);
    struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

    pthread_mutex_lock(&me->lock);
    while (!me->woken && !me->interrupted && !r)
        r = pthread_cond_timedwait(&me->cond, &me->lock, &t) ? -ETIMEDOUT : 0;
    if (me->woken)
        r = 0;
    else if (me->interrupted)
        r = -EINTR;
    else if (until == limit)
        panic("Bail out! a sleep nobody ended\n");
    if (r == -EINTR)
        me->interrupted = false;
    me->woken = false;
    pthread_mutex_unlock(&me->lock);
    return r;
}

void task_wake(struct task *t)
{
    pthread_mutex_lock(&t->lock);
    t->woken = true;
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->lock);
}
void fake_interrupt(void *task)
{
    struct task *t = task ? task : me;
    pthread_mutex_lock(&t->lock);
    t->interrupted = true;
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->lock);
}

static void wake(struct waitq *q, u32 events, bool all)
{
    struct waiter *w;
    bool done = false;

    mutex_lock(&q->lock);
    list_for_each(w, &q->waiters, link) {
        if (w->exclusive && done && !all)
            continue;
        bool hit = true;
        if (w->func)
            hit = w->func(w, events);
        else
            task_wake(w->task);
        done |= w->exclusive && hit;
    }
    mutex_unlock(&q->lock);
}
void wake_up(struct waitq *q, u32 events) { wake(q, events, false); }
void wake_up_all(struct waitq *q, u32 events) { wake(q, events, true); }

/* ---- tasks ---- */

static struct task *task_new(void)
{
    struct task *t = calloc(1, sizeof(*t));
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->cond, &a);
    t->tid = __atomic_add_fetch(&next_tid, 1, __ATOMIC_RELAXED);
    return t;
}
static void *task_main(void *p)
{
    me = p;
    me->fn(me->arg);
    return NULL;
}
void *fake_spawn(void (*fn)(void *), void *arg)
{
    struct task *t = task_new();
    t->fn = fn;
    t->arg = arg;
    pthread_create(&t->thread, NULL, task_main, t);
    return t;
}
void fake_join(void *task)
{
    struct task *t = task;
    pthread_join(t->thread, NULL);
    free(t);
}
void fake_sleep_ms(u32 ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static struct cred root_cred = {.refs = 1};
struct task *current_task(void) { return me; }
const struct cred *current_cred(void) { return &root_cred; }
u32 current_tid(void) { return me->tid; }
u32 current_tgid(void) { return 1; }
void call_wants_rest(void) {}
void call_wants_no_rest(void) {}
u64 call_deadline_anew(u64 ns) { return host_clock(1) + ns; }
u64 call_done_before(void) { return 0; }
u64 call_deadline(u64 ns) { return ns >= NO_DEADLINE - host_clock(1) ? NO_DEADLINE : host_clock(1) + ns; }
u64 current_rlimit(int r) { return (void)r, 1024; }
bool signal_pending(void) { return me->interrupted; }
bool capable(int cap) { return (void)cap, true; }
void send_signal_current(int sig) { last_signal = sig; }
long signal_pgrp(u32 pg, int sig) { return last_signal = sig, last_pgrp = pg, 0; }
long signal_pid(u32 pid, int sig) { return (void)pid, last_signal = sig, 0; }
int fake_signal_taken(void)
{
    int s = last_signal;
    last_signal = 0;
    return s;
}
u32 fake_signal_pgrp(void) { return last_pgrp; }
void signal_set_temp_mask(u64 m) { (void)m; }

struct tty *session_tty(void)
{
    if (the_tty)
        tty_get(the_tty);
    return the_tty;
}
long session_set_tty(struct tty *t) { return the_tty = t, 0; }
u32 current_pgrp(void) { return the_pgrp; }
u32 current_sid(void) { return the_sid; }
bool pgrp_orphaned(u32 pg) { return (void)pg, the_orphan; }
bool pgrp_in_session(u32 pg, u32 sid) { return pg && sid == the_sid; }
bool signal_ignored(int sig) { return (void)sig, false; }
void fake_session(u32 sid, u32 pgrp, bool orphaned)
{
    the_sid = sid;
    the_pgrp = pgrp;
    the_orphan = orphaned;
}

void host_doorbell(u32 request)
{
    (void)request;
    doorbells++;
    if (doorbell_fn)
        doorbell_fn();
}
u32 fake_doorbells(void) { return doorbells; }
void fake_set_doorbell(void (*fn)(void)) { doorbell_fn = fn; }

/* ---- files ---- */

static struct {
    struct mutex lock;
    struct file *fd[256];
} table;

static struct file *file_make(const struct file_ops *ops, void *priv, struct inode *i, u32 flags)
{
    struct file *f = calloc(1, sizeof(*f));
    u32 acc = flags & O_ACCMODE;
    f->ops = ops;
    f->priv = priv;
    f->refs = 1;
    f->flags = flags;
    f->inode = i;
    f->path.dentry = calloc(1, sizeof(*f->path.dentry));
    f->path.dentry->inode = i;
    f->path.dentry->refs = 1;
    f->mode = acc == O_RDONLY ? FMODE_READ : acc == O_WRONLY ? FMODE_WRITE : FMODE_READ | FMODE_WRITE;
    __atomic_add_fetch(&live_files, 1, __ATOMIC_RELAXED);
    return f;
}
static struct inode *inode_make(u32 mode)
{
    struct inode *i = calloc(1, sizeof(*i));
    i->refs = 1;
    i->mode = mode;
    return i;
}
void pipe_inode_free(struct inode *i);
void iput(struct inode *i)
{
    if (atomic_sub(&i->refs, 1))
        return;
    pipe_inode_free(i);
    free(i);
}
void path_get(struct path *p) { atomic_add(&p->dentry->refs, 1); }
void path_put(struct path *p)
{
    if (atomic_sub(&p->dentry->refs, 1))
        return;
    iput(p->dentry->inode);
    free(p->dentry);
}
struct file *file_anon(const struct file_ops *ops, void *priv, const char *name, u32 mode, u32 flags)
{
    (void)name;
    return file_make(ops, priv, inode_make(mode), flags);
}
void file_put(struct file *f)
{
    if (atomic_sub(&f->refs, 1))
        return;
    if (f->ops->release)
        f->ops->release(f);
    path_put(&f->path);
    __atomic_sub_fetch(&live_files, 1, __ATOMIC_RELAXED);
    free(f);
}
u64 fake_live_files(void) { return live_files; }

struct file *fd_get(int fd)
{
    struct file *f = NULL;
    mutex_lock(&table.lock);
    if (fd >= 0 && fd < 256 && table.fd[fd] != (void *)1)
        f = table.fd[fd];
    if (f)
        file_get(f);
    mutex_unlock(&table.lock);
    return f;
}
long fd_alloc(u32 min, u32 flags)
{
    (void)flags;
    mutex_lock(&table.lock);
    u32 i = min;
    while (i < 256 && table.fd[i])
        i++;
    if (i < 256)
        table.fd[i] = (void *)1;
    mutex_unlock(&table.lock);
    return i < 256 ? (long)i : -EMFILE;
}
void fd_install(int fd, struct file *f) { table.fd[fd] = f; }
void fd_release(int fd) { table.fd[fd] = NULL; }
long fd_new(struct file *f, u32 flags)
{
    long fd = fd_alloc(0, flags);
    if (fd < 0)
        file_put(f);
    else
        fd_install((int)fd, f);
    return fd;
}

long t_close(int fd)
{
    mutex_lock(&table.lock);
    struct file *f = table.fd[fd];
    table.fd[fd] = NULL;
    mutex_unlock(&table.lock);
    if (!f)
        return -EBADF;
    file_put(f);
    return 0;
}
long t_read(int fd, void *p, u64 n)
{
    struct file *f = fd_get(fd);
    struct uio u;
    uio_user(&u, U(p), n);
    long r = f->ops->read(f, &u, NULL);
    file_put(f);
    return r;
}
long t_write(int fd, const void *p, u64 n)
{
    struct file *f = fd_get(fd);
    struct uio u;
    uio_user(&u, U(p), n);
    long r = f->ops->write(f, &u, NULL);
    file_put(f);
    return r;
}
long t_ioctl(int fd, u32 cmd, void *arg)
{
    struct file *f = fd_get(fd);
    long r = f->ops->ioctl ? f->ops->ioctl(f, cmd, U(arg)) : -ENOTTY;
    file_put(f);
    return r;
}
void t_nonblock(int fd, bool on)
{
    struct file *f = fd_get(fd);
    f->flags = on ? f->flags | O_NONBLOCK : f->flags & ~(u32)O_NONBLOCK;
    file_put(f);
}
u32 t_poll(int fd, u32 events)
{
    struct file *f = fd_get(fd);
    u32 r = file_poll(f, events, NULL);
    file_put(f);
    return r;
}

/* ---- names: a flat table of special files, and character devices ---- */

static struct {
    char name[64];
    struct inode *i;
} names[64];
static struct {
    u32 major;
    const struct file_ops *ops;
} chrdevs[8];
static u32 chrdev_count;

static struct inode *name_find(const char *n)
{
    for (u32 i = 0; i < 64; i++)
        if (names[i].i && !strcmp(names[i].name, n))
            return names[i].i;
    return NULL;
}
static long name_add(const char *n, u32 mode, u64 rdev)
{
    if (name_find(n))
        return -EEXIST;
    for (u32 i = 0; i < 64; i++)
        if (!names[i].i) {
            snprintf(names[i].name, sizeof(names[i].name), "%s", n);
            names[i].i = inode_make(mode);
            names[i].i->rdev = rdev;
            return 0;
        }
    return -ENOSPC;
}
long dev_create(const char *path, u32 mode, u64 rdev)
{
    char b[64];
    snprintf(b, sizeof(b), "/dev/%s", path);
    return name_add(b, mode, rdev);
}
long dev_remove(const char *path)
{
    char b[64];
    snprintf(b, sizeof(b), "/dev/%s", path);
    for (u32 i = 0; i < 64; i++)
        if (names[i].i && !strcmp(names[i].name, b)) {
            iput(names[i].i);
            names[i].i = NULL;
            return 0;
        }
    return -ENOENT;
}
long register_chrdev(u32 major, u32 first, u32 count, const struct file_ops *ops, const char *name)
{
    (void)first, (void)count, (void)name;
    chrdevs[chrdev_count].major = major;
    chrdevs[chrdev_count++].ops = ops;
    return 0;
}
long vfs_mknod(int dirfd, const char *name, u32 mode, u64 rdev, struct inode **out)
{
    (void)dirfd;
    long r = name_add(name, mode, rdev);
    if (!r) {
        *out = name_find(name);
        iget(*out);
    }
    return r;
}
long path_lookup(int dirfd, const char *name, u32 flags, struct path *out)
{
    (void)dirfd, (void)flags;
    struct inode *i = name_find(name);
    if (!i)
        return -ENOENT;
    struct dentry *d = calloc(1, sizeof(*d));
    iget(i);
    d->inode = i;
    d->refs = 1;
    out->mnt = NULL;
    out->dentry = d;
    return 0;
}
long inode_permission(struct inode *i, u32 mask) { return (void)i, (void)mask, 0; }
extern const struct file_ops pipe_fops;
struct file *file_open(int dirfd, const char *name, u32 flags, u32 mode)
{
    (void)dirfd, (void)mode;
    struct inode *i = name_find(name);
    const struct file_ops *ops = NULL;
    if (!i)
        return ERR_PTR(-ENOENT);
    if ((i->mode & S_IFMT) == S_IFIFO)
        ops = &pipe_fops;
    for (u32 n = 0; n < chrdev_count; n++)
        if (chrdevs[n].major == (i->rdev >> 8 & 0xfff))
            ops = chrdevs[n].ops;
    iget(i);
    struct file *f = file_make(ops, NULL, i, flags);
    long r = ops && ops->open ? ops->open(f) : -ENXIO;
    if (r) {
        static const struct file_ops none;
        f->ops = &none;
        file_put(f);
        return ERR_PTR(r);
    }
    return f;
}

/* ---- what the fd calls need ---- */

/* vfs/internal.h cannot be included beside the C library's headers. */
long file_read(struct file *f, struct uio *u, u64 *pos);
long file_write(struct file *f, struct uio *u, u64 *pos);
bool file_pos_begin(struct file *f);
void file_pos_end(struct file *f, bool locked);

struct mm;
struct vma;
struct mm *current_mm(void) { return NULL; }
void mm_lock(struct mm *mm) { (void)mm; }
void mm_unlock(struct mm *mm) { (void)mm; }
struct vma *vma_find(struct mm *mm, u64 addr) { return (void)mm, (void)addr, NULL; }
long mm_unmap(struct mm *mm, u64 addr, u64 size) { return (void)mm, (void)addr, (void)size, 0; }
long mm_map(struct mm *mm, u64 addr, u64 size, int prot, int flags, struct file *f, u64 off)
{
    (void)mm, (void)addr, (void)size, (void)prot, (void)flags, (void)f, (void)off;
    return -ENOMEM;
}
struct file *shmem_file(const char *name, u64 size, u32 flags)
{
    static const struct file_ops none;
    (void)size, (void)flags;
    return file_anon(&none, NULL, name, S_IFREG | 0600, O_RDWR);
}
struct ktime now_ktime(void)
{
    u64 ns = host_clock(CLOCK_REALTIME);
    return (struct ktime){(s64)(ns / 1000000000), (u32)(ns % 1000000000)};
}
bool cred_in_group(const struct cred *c, u32 gid) { return c->fsgid == gid; }

struct vfs_hooks hooks;
static struct ktimer *timers[8];

void ktimer_set(struct ktimer *t, u64 deadline)
{
    ktimer_cancel(t);
    t->deadline = deadline;
    for (u32 i = 0; i < 8; i++)
        if (!timers[i]) {
            timers[i] = t;
            return;
        }
    panic("Bail out! too many timers\n");
}
bool ktimer_cancel(struct ktimer *t)
{
    for (u32 i = 0; i < 8; i++)
        if (timers[i] == t) {
            timers[i] = NULL;
            return true;
        }
    return false;
}
u64 ktimers_run(void)
{
    for (u32 i = 0; i < 8; i++)
        if (timers[i] && timers[i]->deadline <= host_clock(CLOCK_MONOTONIC)) {
            struct ktimer *t = timers[i];
            timers[i] = NULL;
            t->fn(t);
        }
    return NO_DEADLINE;
}

static struct waitq signals;
static u64 pending;
struct waitq *signal_waitq(void) { return &signals; }
u64 signal_pending_set(void) { return pending; }
long signal_dequeue(u64 mask, void *info)
{
    u64 hit = pending & mask;
    if (!hit)
        return 0;
    int sig = __builtin_ctzll(hit) + 1;
    pending &= ~(1ull << (sig - 1));
    memset(info, 0, 128);
    memcpy(info, &sig, 4);
    return sig;
}
void fake_pend(int sig)
{
    pending |= 1ull << (sig - 1);
    wake_up_all(&signals, 1);
}

long user_path(int dirfd, uptr name, u32 flags, struct path *out) { return path_lookup(dirfd, (char *)name, flags, out); }
long file_read(struct file *f, struct uio *u, u64 *pos) { return f->ops->read(f, u, pos); }
long file_write(struct file *f, struct uio *u, u64 *pos) { return f->ops->write(f, u, pos); }
bool file_pos_begin(struct file *f) { return (void)f, false; }
void file_pos_end(struct file *f, bool locked) { (void)f, (void)locked; }

void fake_init(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    me = task_new();
    if (mmap((void *)D_BASE, 1ul << 30, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ||
        mmap((void *)R_BASE, R_SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) {
        perror("Bail out! mmap");
        exit(1);
    }
}

struct files *current_files(void) { return (struct files *)1; } /* never ending: each closed ring rings */
