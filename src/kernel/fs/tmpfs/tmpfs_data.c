/* Contents of tmpfs files.
 *
 * A file's bytes lie in windows of D (core/dframe.h), each covering a run of file pages. Small files have one window that is replaced by
 * one of four times the size when they grow; from MOVE_MAX on, or when the file is mapped, a further window is added behind, so
 * that pages are copied a bounded number of times and mapped ones never move. A bit per page says which pages were
 * written: they are charged (ENOSPC) and shown in st_blocks; others read as zeroes without touching D. Pages stored through a
 * shared mapping are not seen here: such windows are `raw`, always read from D, and shown as data by SEEK_DATA.
 *
 * i.lock guards all of it, including copies to and from guest memory. Windows go when the inode is freed (mappings hold
 * the file, hence the inode) or truncated away while nothing is mapped. */
#include "fs/tmpfs/tmpfs.h"

#include <linux/falloc.h>

#include "base/string.h"
#include "core/dframe.h"
#include "core/kmalloc.h"

#define MOVE_MAX (1ull << 20)
#define FILE_MAX_SIZE (1ull << 46)
#define ZERO_MAX (32ull << 10)
#define GAP_NEW (8ull << 20) /* a write this far behind the last window starts a window of its own */

static u64 words(u64 size)
{
    return (size / PAGE_SIZE + 63) / 64;
}

static bool bit_get(const struct tmp_extent *e, u64 page)
{
    return e->bitmap[page / 64] >> page % 64 & 1;
}

/* The extent that holds off, or the first one behind it; index ext_count if none. */
static u32 find(const struct tmp_inode *t, u64 off)
{
    u32 n = 0;
    while (n < t->ext_count && t->ext[n].off + t->ext[n].size <= off)
        n++;
    return n;
}

static struct tmp_extent *extent_at(const struct tmp_inode *t, u64 off)
{
    u32 n = find(t, off);
    return n < t->ext_count && t->ext[n].off <= off ? &t->ext[n] : NULL;
}

static long charge(struct tmp_inode *t, u64 pages)
{
    struct tmp_super *s = t->i.sb->priv;
    if (s->max_pages && atomic_load(&s->pages) + pages > s->max_pages)
        return -ENOSPC;
    long r = dpages_charge(pages);
    if (r)
        return r;
    atomic_add(&s->pages, pages);
    t->pages += pages;
    t->i.blocks = t->pages * 8;
    return 0;
}

static void uncharge(struct tmp_inode *t, u64 pages)
{
    struct tmp_super *s = t->i.sb->priv;
    dpages_uncharge(pages);
    atomic_sub(&s->pages, pages);
    t->pages -= pages;
    t->i.blocks = t->pages * 8;
}

static void extent_free(struct tmp_extent *e)
{
    if (!e->raw && e->size <= 65536) {
        for (u64 p = 0; p < e->size / PAGE_SIZE; p++)
            if (bit_get(e, p))
                memset((char *)dwin_ptr(e->d_off) + p * PAGE_SIZE, 0, PAGE_SIZE);
        dwin_free_clean(e->d_off, e->size);
    } else {
        dwin_free(e->d_off, e->size);
    }
    kfree(e->bitmap);
}

static long extent_insert(struct tmp_inode *t, u64 off, u64 want, u64 limit)
{
    u64 got;
    if (t->ext_count == t->ext_cap) {
        u32 cap = t->ext_cap ? t->ext_cap * 2 : 1;
        struct tmp_extent *n = krealloc(t->ext, t->ext_cap * sizeof(*n), cap * sizeof(*n));
        if (!n)
            return -ENOMEM;
        t->ext = n;
        t->ext_cap = cap;
    }
    u64 d_off = dwin_alloc(want, &got);
    if (!d_off)
        return -ENOSPC;
    /* Never beyond the next extent: the rest of the window stays unused. */
    u64 *bitmap = kzalloc(words(got) * 8);
    if (!bitmap) {
        dwin_free(d_off, got);
        return -ENOMEM;
    }
    u32 n = find(t, off);
    if (got > limit) { /* cannot give a part back: windows are whole; refuse the surplus by using a smaller window */
        dwin_free(d_off, got);
        kfree(bitmap);
        return -EFBIG;
    }
    memmove(&t->ext[n + 1], &t->ext[n], (t->ext_count - n) * sizeof(t->ext[0]));
    t->ext[n] = (struct tmp_extent){.off = off, .size = got, .d_off = d_off, .bitmap = bitmap};
    t->ext_count++;
    return 0;
}

/* Replaces the only window by a larger one. */
static long extent_grow(struct tmp_inode *t, u64 size)
{
    struct tmp_extent *e = &t->ext[0];
    u64 got, d_off = dwin_alloc(size, &got);
    if (!d_off)
        return -ENOSPC;
    u64 *bitmap = kzalloc(words(got) * 8);
    if (!bitmap) {
        dwin_free(d_off, got);
        return -ENOMEM;
    }
    memcpy(bitmap, e->bitmap, words(e->size) * 8);
    for (u64 page = 0; page < e->size / PAGE_SIZE; page++)
        if (bit_get(e, page))
            memcpy((char *)dwin_ptr(d_off) + page * PAGE_SIZE, (char *)dwin_ptr(e->d_off) + page * PAGE_SIZE, PAGE_SIZE);
    extent_free(e);
    *e = (struct tmp_extent){.off = e->off, .size = got, .d_off = d_off, .bitmap = bitmap};
    return 0;
}

/* Makes a window cover the page of off; `end`: how far the caller wants to go. */
static long cover(struct tmp_inode *t, u64 off, u64 end, struct tmp_extent **out)
{
    for (;;) {
        u32 n = find(t, off);
        if (n < t->ext_count && t->ext[n].off <= off) {
            *out = &t->ext[n];
            return 0;
        }
        u64 next = n < t->ext_count ? t->ext[n].off : ~0ull;
        u64 prev_end = n ? t->ext[n - 1].off + t->ext[n - 1].size : 0;
        long r;
        if (t->ext_count == 1 && n == 1 && t->ext[0].off == 0 && !t->map_count && !t->ext[0].raw &&
            end <= MOVE_MAX) {
            r = extent_grow(t, PAGE_UP(end));
        } else {
            u64 start = off - prev_end < GAP_NEW ? prev_end : ALIGN_DOWN(off, 2 << 20);
            u64 want = PAGE_UP(end) - start;
            if (n == t->ext_count && start == prev_end && want < prev_end) /* appending: windows grow with the file */
                want = MIN(prev_end, 1ull << 30);
            if (next == ~0ull) {
                r = extent_insert(t, start, want, ~0ull);
            } else { /* a gap: exact pieces, at most what fits */
                u64 room = next - start;
                u64 size = PAGE_SIZE;
                start = MAX(start, PAGE_DOWN(off));
                room = next - start;
                while (size * 4 <= room && size < want)
                    size *= 4;
                r = extent_insert(t, start, size, room);
            }
        }
        if (r)
            return r;
    }
}

/* ---- reading ---- */

static long tmp_read(struct file *f, struct uio *u, u64 *pos)
{
    struct tmp_inode *t = tmp_of(f->inode);
    long done = 0, r = 0;
    mutex_lock(&t->i.lock);
    u64 size = t->i.size, off = *pos;
    while (u->resid && off < size) {
        u64 left = MIN(size - off, u->resid);
        u32 n = find(t, off);
        struct tmp_extent *e = n < t->ext_count ? &t->ext[n] : NULL;
        if (!e || e->off > off) {
            if (e)
                left = MIN(left, e->off - off);
            r = uio_zero(u, left);
        } else {
            u64 in = off - e->off, page = in / PAGE_SIZE;
            bool data = e->raw || bit_get(e, page);
            u64 run = PAGE_SIZE - in % PAGE_SIZE, max = MIN(left, e->size - in);
            while (run < max && (e->raw || bit_get(e, ++page) == data))
                run += PAGE_SIZE;
            run = MIN(run, max);
            r = data ? uio_write_to(u, (char *)dwin_ptr(e->d_off) + in, run) : uio_zero(u, run);
            left = run;
        }
        if (r > 0) {
            done += r;
            off += (u64)r;
        }
        if (r < (long)left)
            break;
    }
    mutex_unlock(&t->i.lock);
    *pos = off;
    if (done)
        touch_atime(f);
    return done ? done : r < 0 ? r : 0;
}

/* ---- writing ---- */

/* Charges and marks the pages of [in, in + size) of an extent. Returns the bytes (from `in`) that may be written. */
static long mark(struct tmp_inode *t, struct tmp_extent *e, u64 in, u64 size)
{
    u64 first = in / PAGE_SIZE, last = (in + size - 1) / PAGE_SIZE;
    for (u64 p = first; p <= last; p++) {
        if (bit_get(e, p))
            continue;
        long r = charge(t, 1);
        if (r) {
            if (p == first)
                return r;
            return (long)(p * PAGE_SIZE - in);
        }
        e->bitmap[p / 64] |= 1ull << p % 64;
    }
    return (long)size;
}

static long write_locked(struct tmp_inode *t, struct uio *u, u64 *pos)
{
    u64 off = *pos;
    long done = 0, r = 0;
    while (u->resid) {
        struct tmp_extent *e;
        if (off >= FILE_MAX_SIZE) {
            r = -EFBIG;
            break;
        }
        u64 want = MIN(u->resid, FILE_MAX_SIZE - off);
        r = cover(t, off, off + want, &e);
        if (r)
            break;
        u64 in = off - e->off;
        r = mark(t, e, in, MIN(want, e->size - in));
        if (r < 0)
            break;
        u64 size = (u64)r;
        r = uio_read_from(u, (char *)dwin_ptr(e->d_off) + in, size);
        if (r < 0)
            break;
        done += r;
        off += (u64)r;
        if (off > t->i.size)
            atomic_store(&t->i.size, off);
        if ((u64)r < size)
            break;
    }
    *pos = off;
    return done ? done : r;
}

static long tmp_write(struct file *f, struct uio *u, u64 *pos)
{
    struct tmp_inode *t = tmp_of(f->inode);
    mutex_lock(&t->i.lock);
    if (f->flags & O_APPEND)
        *pos = t->i.size;
    long r = 0;
    if (unlikely(t->i.seals & (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_FUTURE_WRITE))) {
        if (t->i.seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
            r = -EPERM;
        else if (*pos + u->resid > t->i.size)
            r = *pos >= t->i.size ? -EPERM : (u->resid = t->i.size - *pos, 0);
    }
    if (!r && u->resid) {
        if (t->i.mode & (S_ISUID | S_ISGID))
            remove_privs(&t->i);
        r = write_locked(t, u, pos);
        if (r > 0)
            touch_mtime(&t->i);
    }
    mutex_unlock(&t->i.lock);
    return r;
}

long tmp_write_kernel(struct inode *i, const void *buf, u64 size, u64 off)
{
    struct uio u;
    uio_kernel(&u, (void *)buf, size);
    mutex_lock(&i->lock);
    long r = write_locked(tmp_of(i), &u, &off);
    mutex_unlock(&i->lock);
    return r < 0 ? r : (u64)r < size ? -ENOSPC : 0;
}

/* ---- holes ---- */

/* Whole pages [from, to) of the file become holes. */
static void punch_pages(struct tmp_inode *t, u64 from, u64 to)
{
    for (u32 n = 0; n < t->ext_count; n++) {
        struct tmp_extent *e = &t->ext[n];
        u64 a = MAX(from, e->off), b = MIN(to, e->off + e->size);
        if (a >= b)
            continue;
        u64 freed = 0, run_start = 0, run = 0;
        for (u64 p = (a - e->off) / PAGE_SIZE; p < (b - e->off) / PAGE_SIZE; p++) {
            bool data = bit_get(e, p);
            if (data) {
                e->bitmap[p / 64] &= ~(1ull << p % 64);
                freed++;
                if (!run)
                    run_start = p;
                run = p - run_start + 1;
            }
        }
        if (freed)
            uncharge(t, freed);
        if (e->raw)
            dwin_punch(e->d_off + (a - e->off), b - a);
        else if (run * PAGE_SIZE > ZERO_MAX)
            dwin_punch(e->d_off + run_start * PAGE_SIZE, run * PAGE_SIZE);
        else /* cheaper than a host call; the memory stays with the window */
            memset((char *)dwin_ptr(e->d_off) + run_start * PAGE_SIZE, 0, run * PAGE_SIZE);
    }
}

static void zero_part(struct tmp_inode *t, u64 off, u64 size)
{
    struct tmp_extent *e = extent_at(t, off);
    if (e && size && (e->raw || bit_get(e, (off - e->off) / PAGE_SIZE)))
        memset((char *)dwin_ptr(e->d_off) + (off - e->off), 0, size);
}

static void punch(struct tmp_inode *t, u64 from, u64 to)
{
    u64 a = PAGE_UP(from), b = PAGE_DOWN(to);
    if (a > b) { /* inside one page */
        zero_part(t, from, to - from);
        return;
    }
    zero_part(t, from, a - from);
    if (b < to)
        zero_part(t, b, to - b);
    if (a < b)
        punch_pages(t, a, b);
}

long tmp_truncate(struct tmp_inode *t, u64 size)
{
    u64 old = t->i.size;
    if (size > FILE_MAX_SIZE)
        return -EFBIG;
    if ((size < old && (t->i.seals & F_SEAL_SHRINK)) || (size > old && (t->i.seals & F_SEAL_GROW)))
        return -EPERM;
    atomic_store(&t->i.size, size);
    if (size < old) {
        u64 end = t->ext_count ? t->ext[t->ext_count - 1].off + t->ext[t->ext_count - 1].size : 0;
        if (end > size)
            punch(t, size, end);
        if (!t->map_count) {
            while (t->ext_count && t->ext[t->ext_count - 1].off >= size)
                extent_free(&t->ext[--t->ext_count]);
        }
    }
    return 0;
}

void tmp_data_free(struct tmp_inode *t)
{
    if (t->pages)
        uncharge(t, t->pages);
    for (u32 n = 0; n < t->ext_count; n++)
        extent_free(&t->ext[n]);
    kfree(t->ext);
}

static long allocate(struct tmp_inode *t, u64 off, u64 end)
{
    while (off < end) {
        struct tmp_extent *e;
        long r = cover(t, off, end, &e);
        if (r)
            return r;
        u64 in = off - e->off, size = MIN(end - off, e->size - in);
        r = mark(t, e, in, size);
        if (r < 0)
            return r;
        if ((u64)r < size)
            return -ENOSPC;
        off += size;
    }
    return 0;
}

static long tmp_fallocate(struct file *f, int mode, u64 off, u64 size)
{
    struct tmp_inode *t = tmp_of(f->inode);
    u64 end = off + size;
    long r = 0;
    if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        return -EOPNOTSUPP;
    if (end > FILE_MAX_SIZE)
        return -EFBIG;
    mutex_lock(&t->i.lock);
    if (mode & FALLOC_FL_PUNCH_HOLE) {
        if (t->i.seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
            r = -EPERM;
        else
            punch(t, off, end);
    } else if ((t->i.seals & F_SEAL_GROW) && end > t->i.size && !(mode & FALLOC_FL_KEEP_SIZE)) {
        r = -EPERM;
    } else {
        if (mode & FALLOC_FL_ZERO_RANGE)
            punch(t, off, end);
        r = allocate(t, PAGE_DOWN(off), end);
        if (!r && !(mode & FALLOC_FL_KEEP_SIZE) && end > t->i.size)
            atomic_store(&t->i.size, end);
    }
    if (!r)
        touch_mtime(&t->i);
    mutex_unlock(&t->i.lock);
    return r;
}

/* The first offset >= off that is (data) or is not (hole) written; at most size. */
static u64 seek_state(struct tmp_inode *t, u64 off, u64 size, bool data)
{
    while (off < size) {
        u32 n = find(t, off);
        struct tmp_extent *e = n < t->ext_count ? &t->ext[n] : NULL;
        bool is = e && e->off <= off && (e->raw || bit_get(e, (off - e->off) / PAGE_SIZE));
        if (is == data)
            return off;
        if (!e)
            return size;
        off = e->off > off ? e->off : PAGE_DOWN(off) + PAGE_SIZE;
    }
    return size;
}

static long tmp_llseek(struct file *f, s64 off, int whence)
{
    struct tmp_inode *t = tmp_of(f->inode);
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return generic_llseek(f, off, whence, atomic_load(&t->i.size));
    long r = -ENXIO;
    mutex_lock(&t->i.lock);
    if (off >= 0 && (u64)off < t->i.size) {
        u64 to = seek_state(t, (u64)off, t->i.size, whence == SEEK_DATA);
        if (whence == SEEK_HOLE || to < t->i.size) {
            f->pos = to;
            r = (long)to;
        }
    }
    mutex_unlock(&t->i.lock);
    return r;
}

/* ---- mapping ---- */

static long tmp_map(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out)
{
    struct tmp_inode *t = tmp_of(f->inode);
    struct tmp_extent *e;
    (void)shared;
    mutex_lock(&t->i.lock);
    if (write_shared && t->i.seals & F_SEAL_WRITE) { /* F_SEAL_FUTURE_WRITE leaves the mappings that are there: mmap looks at it */
        mutex_unlock(&t->i.lock);
        return -EPERM;
    }
    long r = max ? cover(t, off, MIN(off + max, MAX(PAGE_UP(t->i.size), off + PAGE_SIZE)), &e) : -EINVAL;
    if (!r) {
        out->fd = FD_D;
        out->off = e->d_off + (off - e->off);
        out->size = MIN(PAGE_UP(max), e->size - (off - e->off));
        t->map_count++;
        t->write_maps += write_shared;
        if (write_shared)
            e->raw = true;
    }
    mutex_unlock(&t->i.lock);
    return r;
}

static void tmp_unmap(struct file *f, bool write_shared)
{
    struct tmp_inode *t = tmp_of(f->inode);
    mutex_lock(&t->i.lock);
    t->map_count--;
    t->write_maps -= write_shared;
    mutex_unlock(&t->i.lock);
}

static long tmp_fsync(struct file *f, bool data_only)
{
    (void)f;
    (void)data_only;
    return 0;
}

const struct file_ops tmp_file_ops = {
    .read = tmp_read,
    .write = tmp_write,
    .llseek = tmp_llseek,
    .fsync = tmp_fsync,
    .fallocate = tmp_fallocate,
    .map = tmp_map,
    .unmap = tmp_unmap,
};
