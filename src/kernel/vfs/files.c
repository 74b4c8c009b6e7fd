/* Descriptor tables.
 *
 * Chunks of 64 descriptors: the first is part of the table, the others hang in an array allocated with descriptor 64. Neither
 * moves nor is freed while the table lives, so fd_get needs no lock: it takes a reference by increment-if-not-zero (struct
 * file is type-stable, open.c) and checks that the slot still holds the file. A table that only one thread uses
 * needs not even that. files->lock guards slots and bitmaps against writers. */
#include "vfs/internal.h"

#include <linux/close_range.h>

#include "base/string.h"
#include "core/kmalloc.h"

#define CHUNK_FDS 64u
#define CHUNKS (FILES_MAX / CHUNK_FDS)

struct fd_chunk {
    u64 used, cloexec; /* bit per descriptor; used: also reserved ones */
    struct file *file[CHUNK_FDS];
};

struct files {
    u32 refs;
    u32 next; /* no free descriptor below */
    struct mutex lock;
    struct fd_chunk **more; /* [0] unused */
    u32 top; /* chunks in use: 1 + highest index */
    struct fd_chunk first;
};

static struct fd_chunk *chunk_of(struct files *fs, u32 fd)
{
    if (fd < CHUNK_FDS)
        return &fs->first;
    struct fd_chunk **more = fd < FILES_MAX ? atomic_load(&fs->more) : NULL;
    return more ? atomic_load(&more[fd / CHUNK_FDS]) : NULL;
}

/* files->lock held. */
static struct fd_chunk *chunk_make(struct files *fs, u32 fd)
{
    struct fd_chunk *c = chunk_of(fs, fd);
    if (c || fd >= FILES_MAX)
        return c;
    if (!fs->more) {
        struct fd_chunk **more = kzalloc(CHUNKS * sizeof(*more));
        if (!more)
            return NULL;
        atomic_store(&fs->more, more);
    }
    c = knew(struct fd_chunk);
    if (c) {
        atomic_store(&fs->more[fd / CHUNK_FDS], c);
        if (fd / CHUNK_FDS >= fs->top)
            fs->top = fd / CHUNK_FDS + 1;
    }
    return c;
}

struct files *files_new(void)
{
    struct files *fs = knew(struct files);
    if (fs) {
        fs->refs = 1;
        fs->top = 1;
    }
    return fs;
}

void files_get(struct files *fs)
{
    atomic_add(&fs->refs, 1);
}

struct files *files_clone(struct files *old)
{
    struct files *fs = files_new();
    if (!fs)
        return NULL;
    mutex_lock(&old->lock);
    for (u32 n = 0; n < old->top; n++) {
        struct fd_chunk *from = chunk_of(old, n * CHUNK_FDS);
        if (!from || !from->used)
            continue;
        struct fd_chunk *to = chunk_make(fs, n * CHUNK_FDS);
        if (!to) {
            mutex_unlock(&old->lock);
            files_put(fs);
            return NULL;
        }
        for (u64 bits = from->used; bits; bits &= bits - 1) {
            u32 b = (u32)__builtin_ctzll(bits);
            struct file *f = from->file[b];
            if (!f)
                continue; /* reserved only */
            file_get(f);
            to->file[b] = f;
            to->used |= 1ull << b;
        }
        to->cloexec = from->cloexec & to->used;
    }
    fs->next = 0;
    mutex_unlock(&old->lock);
    return fs;
}

/* A descriptor of the current process is gone. */
static long close_file(struct files *fs, struct file *f)
{
    long r = 0;
    if (f->mode & FMODE_PATH) {
        file_put(f);
        return 0;
    }
    if (f->ops->flush)
        r = f->ops->flush(f);
    if (f->inode && !list_empty(&f->inode->flocks))
        posix_locks_drop(f, fs);
    file_put(f);
    return r;
}

void files_put(struct files *fs)
{
    if (atomic_sub(&fs->refs, 1))
        return;
    for (u32 n = 0; n < fs->top; n++) {
        struct fd_chunk *c = chunk_of(fs, n * CHUNK_FDS);
        if (!c)
            continue;
        for (u32 b = 0; b < CHUNK_FDS; b++)
            if (c->file[b])
                close_file(fs, c->file[b]);
        if (n)
            kfree(c);
    }
    kfree(fs->more);
    kfree(fs);
}

struct files *files_unshare(struct files *fs) { return atomic_load(&fs->refs) == 1 ? fs : files_clone(fs); }

static bool get_unless_zero(struct file *f)
{
    u32 n = atomic_load(&f->refs);
    while (n)
        if (__atomic_compare_exchange_n(&f->refs, &n, n + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

struct file *files_lookup(struct files *fs, int fd)
{
    struct fd_chunk *c = (u32)fd < FILES_MAX ? chunk_of(fs, (u32)fd) : NULL;
    if (!c)
        return NULL;
    struct file **slot = &c->file[(u32)fd % CHUNK_FDS];
    for (;;) {
        struct file *f = atomic_load(slot);
        if (!f)
            return NULL;
        if (!get_unless_zero(f))
            continue; /* being closed: the slot changes */
        if (likely(atomic_load(slot) == f))
            return f;
        file_put(f);
    }
}

struct file *fd_get(int fd)
{
    struct files *fs = current_files();
    if (unlikely((u32)fd >= CHUNK_FDS) || atomic_load_relaxed(&fs->refs) != 1)
        return files_lookup(fs, fd);
    struct file *f = fs->first.file[fd];
    if (f)
        file_get(f);
    return f;
}

bool files_single(void)
{
    return atomic_load_relaxed(&current_files()->refs) == 1;
}

int files_next(struct files *fs, int fd)
{
    for (u32 n = fd < 0 ? 0 : (u32)fd; n < FILES_MAX; n++) {
        struct fd_chunk *c = chunk_of(fs, n);
        if (!c) {
            if (n / CHUNK_FDS >= fs->top)
                return -1;
            n |= CHUNK_FDS - 1;
            continue;
        }
        if (atomic_load(&c->file[n % CHUNK_FDS]))
            return (int)n;
    }
    return -1;
}

/* files->lock held. */
static long alloc_locked(struct files *fs, u32 min, u32 flags)
{
    u64 limit = current_rlimit(7 /* RLIMIT_NOFILE */);
    if (limit > FILES_MAX)
        limit = FILES_MAX;
    for (u32 fd = MAX(min, fs->next); fd < limit;) {
        struct fd_chunk *c = chunk_make(fs, fd);
        if (!c)
            return -ENOMEM;
        u64 bits = ~c->used & (~0ull << fd % CHUNK_FDS);
        if (!bits) {
            fd = (fd | (CHUNK_FDS - 1)) + 1;
            continue;
        }
        u32 b = (u32)__builtin_ctzll(bits);
        fd = (fd & ~(CHUNK_FDS - 1)) + b;
        if (fd >= limit)
            break;
        c->used |= 1ull << b;
        if (flags & O_CLOEXEC)
            c->cloexec |= 1ull << b;
        else
            c->cloexec &= ~(1ull << b);
        if (min <= fs->next)
            fs->next = fd + 1;
        return fd;
    }
    return -EMFILE;
}

long fd_alloc(u32 min, u32 flags)
{
    struct files *fs = current_files();
    mutex_lock(&fs->lock);
    long fd = alloc_locked(fs, min, flags);
    mutex_unlock(&fs->lock);
    return fd;
}

void fd_install(int fd, struct file *f)
{
    atomic_store(&chunk_of(current_files(), (u32)fd)->file[(u32)fd % CHUNK_FDS], f);
}

static void free_locked(struct files *fs, u32 fd)
{
    struct fd_chunk *c = chunk_of(fs, fd);
    c->used &= ~(1ull << fd % CHUNK_FDS);
    c->cloexec &= ~(1ull << fd % CHUNK_FDS);
    if (fd < fs->next)
        fs->next = fd;
}

void fd_release(int fd)
{
    struct files *fs = current_files();
    mutex_lock(&fs->lock);
    free_locked(fs, (u32)fd);
    mutex_unlock(&fs->lock);
}

long fd_new(struct file *f, u32 flags)
{
    if (IS_ERR(f))
        return PTR_ERR(f);
    struct files *fs = current_files();
    mutex_lock(&fs->lock);
    long fd = alloc_locked(fs, 0, flags);
    if (fd >= 0)
        atomic_store(&chunk_of(fs, (u32)fd)->file[(u32)fd % CHUNK_FDS], f);
    mutex_unlock(&fs->lock);
    if (fd < 0)
        file_put(f);
    return fd;
}

/* files->lock held: takes the file out of its slot. */
static struct file *take_locked(struct files *fs, u32 fd)
{
    struct fd_chunk *c = chunk_of(fs, fd);
    struct file *f = c ? c->file[fd % CHUNK_FDS] : NULL;
    if (!f)
        return NULL;
    atomic_store(&c->file[fd % CHUNK_FDS], NULL);
    free_locked(fs, fd);
    return f;
}

long fd_close(int fd)
{
    struct files *fs = current_files();
    mutex_lock(&fs->lock);
    struct file *f = take_locked(fs, (u32)fd);
    mutex_unlock(&fs->lock);
    return f ? close_file(fs, f) : -EBADF;
}

void files_close_on_exec(struct files *fs)
{
    for (u32 n = 0; n < fs->top; n++) {
        struct fd_chunk *c = chunk_of(fs, n * CHUNK_FDS);
        while (c && (c->cloexec & c->used)) {
            mutex_lock(&fs->lock);
            u64 bits = c->cloexec & c->used;
            struct file *f = NULL;
            if (bits) {
                u32 b = (u32)__builtin_ctzll(bits);
                f = take_locked(fs, n * CHUNK_FDS + b);
                c->cloexec &= ~(1ull << b);
            }
            mutex_unlock(&fs->lock);
            if (f)
                close_file(fs, f);
        }
    }
}

long fd_close_range(u32 first, u32 last, u32 flags)
{
    struct files *fs = current_files();
    if (first > last)
        return -EINVAL;
    for (u32 n = first / CHUNK_FDS; n < fs->top && n <= last / CHUNK_FDS; n++) {
        struct fd_chunk *c = chunk_of(fs, n * CHUNK_FDS);
        for (u32 b = 0; c && b < CHUNK_FDS; b++) {
            u32 fd = n * CHUNK_FDS + b;
            if (fd < first || fd > last || !(c->used >> b & 1))
                continue;
            if (flags & CLOSE_RANGE_CLOEXEC)
                fd_set_cloexec((int)fd, true);
            else
                fd_close((int)fd);
        }
    }
    return 0;
}

long fd_get_cloexec(int fd)
{
    struct fd_chunk *c = chunk_of(current_files(), (u32)fd);
    if (!c || !c->file[(u32)fd % CHUNK_FDS])
        return -EBADF;
    return c->cloexec >> ((u32)fd % CHUNK_FDS) & 1;
}

long fd_set_cloexec(int fd, bool on)
{
    struct files *fs = current_files();
    struct fd_chunk *c = chunk_of(fs, (u32)fd);
    if (!c || !c->file[(u32)fd % CHUNK_FDS])
        return -EBADF;
    mutex_lock(&fs->lock);
    u64 bit = 1ull << (u32)fd % CHUNK_FDS;
    c->cloexec = on ? c->cloexec | bit : c->cloexec & ~bit;
    mutex_unlock(&fs->lock);
    return 0;
}

long fd_dup(int fd, u32 min, u32 flags)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    if (min >= current_rlimit(7)) {
        file_put(f);
        return -EINVAL;
    }
    long r = fd_alloc(min, flags);
    if (r < 0)
        file_put(f);
    else
        fd_install((int)r, f);
    return r;
}

long fd_dup_to(int fd, int new_fd, u32 flags)
{
    struct files *fs = current_files();
    if ((u32)new_fd >= current_rlimit(7) || (u32)new_fd >= FILES_MAX)
        return -EBADF;
    struct file *f = fd_get(fd), *old;
    if (!f)
        return -EBADF;
    mutex_lock(&fs->lock);
    struct fd_chunk *c = chunk_make(fs, (u32)new_fd);
    u32 b = (u32)new_fd % CHUNK_FDS;
    long r = new_fd;
    old = c ? c->file[b] : NULL;
    if (!c) {
        r = -ENOMEM;
    } else if (!old && (c->used >> b & 1)) {
        r = -EBUSY; /* another thread is opening it */
    } else {
        atomic_store(&c->file[b], f);
        c->used |= 1ull << b;
        c->cloexec = flags & O_CLOEXEC ? c->cloexec | 1ull << b : c->cloexec & ~(1ull << b);
    }
    mutex_unlock(&fs->lock);
    if (r < 0)
        file_put(f);
    else if (old)
        close_file(fs, old);
    return r;
}
