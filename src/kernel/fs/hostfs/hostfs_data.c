/* hostfs: contents of files.
 *
 * A file's bytes are cached in one window of D, filled by the broker in chunks of CHUNK bytes on demand, as long as size, mtime
 * and ctime stay what they were. Opening a file asks the host for its attributes; a change drops the cache. Writes go to the
 * broker at once (through a bounce window) and update cached chunks. Caches are dropped oldest first when all together hold more
 * than CACHE_MAX pages.
 *
 * One broker handle per inode serves all its open files: read-write as soon as one of them writes. It is closed with
 * the last of them.
 *
 * Mappings: private and read-only ones get a descriptor of the host's file in a grant slot (zero copies, page cache shared
 * with everybody); a slot belongs to the calling host process and is used by the host mmap that follows directly. If
 * that is refused, and for short files, the window of D is mapped. Shared writable mappings are of the window, too, and written
 * back (hostfs_wmap.c); while there are any, all shared mappings are, so that they agree.
 *
 * A file that has an exec view (hostfs_view.c) is read and privately mapped from the copy in the pack instead: no request.
 *
 * Locks: i.lock over everything, broker requests included; cache_lock and bounce_lock inside. */
#include "fs/hostfs/hostfs.h"

#include "base/layout.h"
#include "base/string.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/kstate.h"

#define CHUNK HOST_CHUNK
#define WRITE_ROOM (64ull << 20) /* a window that is mapped for writing cannot move: room for the file to grow */
#define CACHE_MAX (65536ull) /* pages: 256 MiB */
#define GRANT_MIN (64u << 10) /* shorter files are mapped from the cache */

static KSTATE struct mutex cache_lock;
static KSTATE struct list cached; /* host_inode.cached */
static KSTATE u64 cached_pages;
static KSTATE struct mutex bounce_lock;
static KSTATE u64 bounce_win;
static KSTATE u32 grant_next;

/* ---- handle ---- */

static void handle_close(struct host_inode *h)
{
    if (!h->handle_open)
        return;
    struct broker_args a = {.op = WIRE_CLOSE, .handle = h->handle, .mount = host_sb_of(&h->i)->mount};
    broker_call(&a);
    h->handle_open = h->handle_write = false;
}

/* The file that an inode of a snapshot stands for now: the name tells, and the content is the one known. */
static bool same_elsewhere(struct host_inode *h, const struct wire_attr *w)
{
    if (!h->elsewhere || w->size != h->i.size || w->mtime != h->i.mtime.sec || w->mtime_nsec != h->i.mtime.nsec)
        return false;
    h->dev = w->dev;
    h->ino = w->ino;
    h->elsewhere = false;
    return true;
}

/* i.lock held. */
long host_handle_get(struct host_inode *h, bool write)
{
    struct wire_attr w;
    if (h->handle_open && (!write || h->handle_write))
        return 0;
    if (h->i.flags & INODE_UNLINKED)
        return -ENOENT;
    /* With write access the file is opened for both, so that one handle serves all. */
    struct broker_args a = {.op = WIRE_OPEN, .arg = {write ? O_RDWR : O_RDONLY}, .reply = &w, .reply_max = sizeof(w)};
    long r = host_path_call(h, NULL, &a);
    if (r == -EACCES && write) { /* writable only on the host: reading through it will fail there */
        a.arg[0] = O_WRONLY;
        r = host_path_call(h, NULL, &a);
    }
    if (r < 0)
        return r;
    if (a.reply_size >= sizeof(w) && (w.dev != h->dev || w.ino != h->ino) && !same_elsewhere(h, &w)) {
        struct broker_args c = {.op = WIRE_CLOSE, .handle = (u32)a.value, .mount = host_sb_of(&h->i)->mount};
        broker_call(&c);
        return -ESTALE;
    }
    handle_close(h);
    h->handle = (u32)a.value;
    h->handle_open = true;
    h->handle_write = write;
    if (a.reply_size >= sizeof(w))
        host_set_attr(h, &w);
    return 0;
}

void host_adopt_handle(struct host_inode *h, u32 handle)
{
    if (h->handle_open)
        handle_close(h);
    h->handle = handle;
    h->handle_open = h->handle_write = true;
}

/* ---- cache ---- */

void host_version(const struct host_inode *h, u64 v[4])
{
    v[0] = h->i.size;
    v[1] = (u64)h->i.mtime.sec * 1000000000ull + h->i.mtime.nsec;
    v[2] = (u64)h->i.ctime.sec * 1000000000ull + h->i.ctime.nsec;
    v[3] = 1;
}

static void uncharge(struct host_inode *h)
{
    if (h->charged) {
        dpages_uncharge(h->charged);
        atomic_sub(&cached_pages, h->charged);
        h->charged = 0;
    }
}

/* i.lock held, nothing mapped. */
static void drop_window(struct host_inode *h)
{
    if (!h->win_got)
        return;
    mutex_lock(&cache_lock);
    if (list_linked(&h->cached))
        list_del(&h->cached);
    mutex_unlock(&cache_lock);
    dwin_free(h->win, h->win_got);
    kfree(h->have);
    h->have = NULL;
    kfree(h->hash);
    h->hash = NULL;
    h->win = h->win_got = 0;
    uncharge(h);
}

/* Makes room when all caches hold too much. keep->i.lock is held. */
static void evict(struct host_inode *keep, u64 max)
{
    while (atomic_load(&cached_pages) > max) {
        struct host_inode *victim = NULL, *x;
        mutex_lock(&cache_lock);
        list_for_each(x, &cached, cached)
        {
            if (x != keep && !x->map_count && mutex_trylock(&x->i.lock)) {
                victim = x;
                list_del(&x->cached);
                break;
            }
        }
        mutex_unlock(&cache_lock);
        if (!victim)
            return;
        if (!victim->map_count)
            drop_window(victim);
        mutex_unlock(&victim->i.lock); /* it cannot have been freed: freeing takes it off the list first */
    }
}

void hostfs_forget(void) { evict(NULL, 0); }

void host_data_restored(struct host_inode *h)
{
    h->handle_open = h->handle_write = false;
    h->elsewhere = true;
    atomic_store(&h->attr_time, 0);
    host_view_free(h);
}

void host_data_free(struct host_inode *h)
{
    mutex_lock(&h->i.lock); /* an evictor may be at it */
    drop_window(h);
    mutex_unlock(&h->i.lock);
    for (struct host_stale *s = h->stale, *next; s; s = next) {
        next = s->next;
        dwin_free(s->win, s->got);
        kfree(s);
    }
    handle_close(h);
}

/* Keeps a mapped window alive that the cache no longer uses. */
static long retire_window(struct host_inode *h)
{
    struct host_stale *s = kmalloc(sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct host_stale){h->stale, h->win, h->win_got};
    h->stale = s;
    mutex_lock(&cache_lock);
    if (list_linked(&h->cached))
        list_del(&h->cached);
    mutex_unlock(&cache_lock);
    kfree(h->have);
    h->have = NULL;
    h->win = h->win_got = 0;
    uncharge(h);
    return 0;
}

static long chunk_get(struct host_inode *h, u64 off);

static u64 have_words(const struct host_inode *h)
{
    return (h->win_got / CHUNK + 64) / 64;
}

void host_data_check(struct host_inode *h)
{
    u64 v[4];
    if (!h->win_got)
        return;
    host_version(h, v);
    if (!memcmp(v, h->version, sizeof(v)))
        return;
    if (h->write_mapped)
        host_wmap_sync(h, 0, h->win_got); /* the sandbox's changes come last */
    host_version(h, v);
    if (!h->map_count)
        drop_window(h);
    else
        memset(h->have, 0, have_words(h) * 8); /* read again, in place */
    memcpy(h->version, v, sizeof(v));
    for (u64 at = 0; h->write_mapped && at < MIN(h->i.size, h->win_got); at += CHUNK)
        if (chunk_get(h, at))
            break;
}

/* What the window has below the new end is still right. */
void host_data_resized(struct host_inode *h)
{
    if (!h->write_mapped) {
        host_data_check(h);
        return;
    }
    u64 end = MIN(h->i.size, h->win_got), to = MIN(ALIGN_UP(end, CHUNK), h->win_got);
    if (to > end)
        memset((char *)dwin_ptr(h->win) + end, 0, to - end);
    if (to < h->win_got)
        dwin_punch(h->win + to, h->win_got - to);
    host_wmap_filled(h, PAGE_DOWN(end), h->win_got - PAGE_DOWN(end));
    host_version(h, h->version);
}

static long window_get(struct host_inode *h, u64 room)
{
    u64 need = MAX(PAGE_UP(h->i.size), room);
    host_data_check(h);
    if (h->win_got >= need && h->win_got)
        return 0;
    if (h->win_got && h->map_count) {
        long r = h->write_mapped ? -ENOMEM : retire_window(h);
        if (r)
            return r;
    } else {
        drop_window(h);
    }
    u64 got, win = dwin_alloc(need ? need : PAGE_SIZE, &got);
    if (!win)
        return -ENOMEM;
    u64 *have = kzalloc((got / CHUNK + 64) / 64 * 8);
    if (!have) {
        dwin_free(win, got);
        return -ENOMEM;
    }
    h->win = win;
    h->win_got = got;
    h->have = have;
    host_version(h, h->version);
    mutex_lock(&cache_lock);
    list_add_tail(&cached, &h->cached);
    mutex_unlock(&cache_lock);
    return 0;
}

/* A small file whole, in one request. Returns whether the first chunk is there now. */
static bool small_get(struct host_inode *h)
{
    struct wire_attr *w = h->handle_open || h->i.size > WIRE_SMALL_MAX || (h->i.flags & INODE_UNLINKED) ? NULL :
                          kmalloc(REQ_DATA_SIZE);
    if (!w)
        return false;
    struct broker_args a = {.op = WIRE_READ_PATH, .reply = w, .reply_max = REQ_DATA_SIZE};
    u64 size = h->i.size, room = PAGE_UP(size), v[4];
    bool r = host_path_call(h, NULL, &a) >= 0 && a.reply_size >= sizeof(*w) && w->dev == h->dev && w->ino == h->ino;
    if (r) {
        host_set_attr(h, w);
        host_version(h, v); /* what was opened may be another version than what was looked up */
        r = !memcmp(v, h->version, sizeof(v)) && a.reply_size == sizeof(*w) + size && room <= h->win_got &&
            !dpages_charge(room / PAGE_SIZE);
    }
    if (r) {
        memcpy(dwin_ptr(h->win), w + 1, size);
        memset((char *)dwin_ptr(h->win) + size, 0, room - size);
        h->charged += room / PAGE_SIZE;
        atomic_add(&cached_pages, room / PAGE_SIZE);
        h->have[0] |= 1;
    }
    kfree(w);
    return r;
}

/* i.lock held, window there: fills the chunk of off. */
static long chunk_get(struct host_inode *h, u64 off)
{
    u64 n = off / CHUNK, start = n * CHUNK;
    if (h->have[n / 64] >> n % 64 & 1)
        return 0;
    if (!n && small_get(h)) {
        host_wmap_filled(h, 0, CHUNK);
        evict(h, CACHE_MAX);
        return 0;
    }
    long r = host_handle_get(h, false);
    if (r)
        return r;
    u64 size = MIN((u64)CHUNK, h->win_got - start), done = 0;
    u64 end = MIN(size, h->i.size > start ? h->i.size - start : 0);
    u64 pages = PAGE_UP(end) / PAGE_SIZE;
    if (dpages_charge(pages)) { /* over the sandbox's limit: other files' caches go first; then it is read nevertheless */
        evict(h, 0);
        if (dpages_charge(pages))
            pages = 0;
    }
    while (done < end) {
        struct broker_args a = {.op = WIRE_READ, .handle = h->handle, .mount = host_sb_of(&h->i)->mount,
                                .arg = {start + done, end - done, h->win + start + done}};
        r = broker_call(&a);
        if (r < 0) {
            if (pages)
                dpages_uncharge(pages);
            return r;
        }
        if (!a.value || a.value > end - done)
            break; /* shorter than its attributes said */
        done += a.value;
    }
    u64 tail = PAGE_UP(end);
    if (done < tail)
        memset((char *)dwin_ptr(h->win) + start + done, 0, tail - done);
    h->charged += pages;
    atomic_add(&cached_pages, pages);
    h->have[n / 64] |= 1ull << n % 64;
    host_wmap_filled(h, start, size);
    evict(h, CACHE_MAX);
    return 0;
}

/* ---- file operations ---- */

static long host_open(struct file *f)
{
    struct host_inode *h = host_of(f->inode);
    long r = 0;
    mutex_lock(&h->i.lock);
    bool write = f->mode & FMODE_WRITE;
    bool fresh = h->handle_open && h->handle_write && !h->opens; /* just created */
    if (!fresh) {
        if (host_sb_of(&h->i) && !(h->i.sb->flags & MS_RDONLY))
            atomic_store(&h->attr_time, 0); /* close-to-open */
        r = host_refresh(h);
        if (!r && write)
            r = host_handle_get(h, true);
    }
    if (!r) {
        host_data_check(h);
        h->opens++;
        f->priv = h; /* release must count down */
    }
    mutex_unlock(&h->i.lock);
    return r;
}

static void host_release(struct file *f)
{
    struct host_inode *h = host_of(f->inode);
    if (!f->priv)
        return;
    mutex_lock(&h->i.lock);
    if (--h->opens == 0)
        handle_close(h);
    mutex_unlock(&h->i.lock);
}

static long host_read(struct file *f, struct uio *u, u64 *pos)
{
    struct host_inode *h = host_of(f->inode);
    long done = 0, r = 0;
    u32 pack;
    u64 copy;
    mutex_lock(&h->i.lock);
    if (host_view_copy(h, &pack, &copy)) {
        if (*pos < h->i.size && u->resid) {
            r = uio_write_to(u, (const char *)CONTAINER_BASE(pack) + copy + *pos, MIN(u->resid, h->i.size - *pos));
            *pos += r > 0 ? (u64)r : 0;
        }
        mutex_unlock(&h->i.lock);
        return r;
    }
    if (*pos < h->i.size && u->resid)
        r = window_get(h, 0);
    while (!r && u->resid && *pos < h->i.size) {
        r = chunk_get(h, *pos);
        if (r)
            break;
        u64 size = MIN(MIN(u->resid, h->i.size - *pos), CHUNK - *pos % CHUNK);
        long n = uio_write_to(u, (char *)dwin_ptr(h->win) + *pos, size);
        if (n > 0) {
            *pos += (u64)n;
            done += n;
        }
        if (n < (long)size) {
            r = n < 0 ? n : -EFAULT;
            break;
        }
    }
    mutex_unlock(&h->i.lock);
    return done ? done : r;
}

/* Copies what was just written into cached chunks. */
static void update_cache(struct host_inode *h, u64 off, const char *src, u64 size)
{
    if (!h->win_got)
        return;
    if (off + size > h->win_got) {
        if (!h->map_count)
            drop_window(h);
        else if (!h->write_mapped)
            retire_window(h);
        return;
    }
    u64 from = PAGE_DOWN(off), to = PAGE_UP(off + size);
    while (size) {
        u64 n = off / CHUNK, part = MIN(size, CHUNK - off % CHUNK);
        if (h->have[n / 64] >> n % 64 & 1)
            memcpy((char *)dwin_ptr(h->win) + off, src, part);
        off += part;
        src += part;
        size -= part;
    }
    host_wmap_filled(h, from, to - from);
    host_version(h, h->version);
}

static long write_some(struct host_inode *h, struct uio *u, u64 off)
{
    u64 got, size = MIN(u->resid, (u64)CHUNK);
    mutex_lock(&bounce_lock);
    if (!bounce_win)
        bounce_win = dwin_alloc(CHUNK, &got);
    long r = bounce_win ? 0 : -ENOMEM;
    if (!r && h->write_mapped)
        r = host_wmap_sync(h, PAGE_DOWN(off), PAGE_UP(off + size));
    if (!r)
        r = uio_read_from(u, dwin_ptr(bounce_win), size);
    if (r > 0) {
        struct wire_attr w;
        struct broker_args a = {.op = WIRE_WRITE, .handle = h->handle, .mount = host_sb_of(&h->i)->mount,
                                .arg = {off, (u64)r, bounce_win}, .reply = &w, .reply_max = sizeof(w)};
        long want = r;
        r = broker_call(&a);
        if (r >= 0) {
            r = (long)MIN(a.value, (u64)want);
            bool known = h->win_got && off <= h->i.size; /* a hole before it: let it be read anew */
            if (a.reply_size >= sizeof(w))
                host_set_attr(h, &w);
            if (known)
                update_cache(h, off, dwin_ptr(bounce_win), (u64)r);
            else
                host_data_check(h);
        }
    }
    mutex_unlock(&bounce_lock);
    return r;
}

static long host_write(struct file *f, struct uio *u, u64 *pos)
{
    struct host_inode *h = host_of(f->inode);
    long done = 0, r = 0;
    mutex_lock(&h->i.lock);
    r = host_handle_get(h, true);
    if (!r && (f->flags & O_APPEND)) {
        atomic_store(&h->attr_time, 0);
        host_refresh(h);
        *pos = h->i.size;
    }
    while (!r && u->resid) {
        u64 want = MIN(u->resid, (u64)CHUNK);
        long n = write_some(h, u, *pos);
        if (n <= 0) {
            r = n;
            break;
        }
        *pos += (u64)n;
        done += n;
        if ((u64)n < want)
            break;
    }
    mutex_unlock(&h->i.lock);
    return done ? done : r;
}

static long host_fsync(struct file *f, bool data_only)
{
    struct host_inode *h = host_of(f->inode);
    long r = 0;
    (void)data_only;
    mutex_lock(&h->i.lock);
    if (h->write_mapped)
        r = host_wmap_sync(h, 0, h->win_got);
    if (r >= 0 && h->handle_open && h->handle_write) {
        struct broker_args a = {.op = WIRE_FSYNC, .handle = h->handle, .mount = host_sb_of(&h->i)->mount};
        r = broker_call(&a);
    }
    mutex_unlock(&h->i.lock);
    return r < 0 ? r : 0;
}

static long map_grant(struct host_inode *h, u64 off, u64 max, struct map_extent *out)
{
    u32 slot = FD_GRANT0 + atomic_add(&grant_next, 1) % FD_GRANT_MAX;
    struct broker_args a = {.op = WIRE_GRANT, .handle = h->handle, .mount = host_sb_of(&h->i)->mount, .arg = {slot}};
    long r = broker_call(&a);
    if (r < 0)
        return r;
    *out = (struct map_extent){.fd = (int)slot, .off = off, .size = MIN(PAGE_UP(max), PAGE_UP(h->i.size) - off)};
    return 0;
}

static long map_window(struct host_inode *h, u64 off, u64 max, struct map_extent *out)
{
    long r = window_get(h, 0);
    u64 end = MIN(PAGE_UP(off + max), PAGE_UP(h->i.size));
    for (u64 at = ALIGN_DOWN(off, CHUNK); !r && at < end; at += CHUNK)
        r = chunk_get(h, at);
    if (!r)
        *out = (struct map_extent){.fd = FD_D, .off = h->win + off, .size = end - off};
    return r;
}

static long host_map(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out)
{
    struct host_inode *h = host_of(f->inode);
    u32 pack;
    u64 copy;
    mutex_lock(&h->i.lock);
    if (!shared && off < PAGE_UP(h->i.size) && host_view_copy(h, &pack, &copy)) {
        *out = (struct map_extent){.fd = (int)pack, .off = copy + off, .size = MIN(PAGE_UP(max), PAGE_UP(h->i.size) - off)};
        h->map_count++;
        mutex_unlock(&h->i.lock);
        return 0;
    }
    long r = off >= PAGE_UP(h->i.size) ? -EINVAL : host_handle_get(h, write_shared);
    if (!r && write_shared && !h->write_mapped) {
        r = window_get(h, MAX(WRITE_ROOM, 2 * PAGE_UP(h->i.size)));
        if (!r)
            r = host_wmap_begin(h);
    }
    if (!r) {
        r = h->i.size >= GRANT_MIN && !(shared && h->write_mapped) ? map_grant(h, off, max, out) : -ENODEV;
        if (r)
            r = map_window(h, off, max, out);
    }
    if (!r)
        h->map_count++;
    mutex_unlock(&h->i.lock);
    return r;
}

static void host_unmap(struct file *f, bool write_shared)
{
    (void)write_shared;
    struct host_inode *h = host_of(f->inode);
    mutex_lock(&h->i.lock);
    if (h->write_mapped)
        host_wmap_sync(h, 0, h->win_got);
    if (--h->map_count == 0)
        host_wmap_end(h);
    mutex_unlock(&h->i.lock);
}

const struct file_ops host_file_fops = {
    .open = host_open,
    .release = host_release,
    .read = host_read,
    .write = host_write,
    .fsync = host_fsync,
    .map = host_map,
    .unmap = host_unmap,
    .view = host_view,
};
