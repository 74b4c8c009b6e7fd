/* Making and changing mappings: mmap, munmap, mprotect, mremap, brk. See mm.h. Exec views: wire/view_format.h. */
#include <linux/mman.h>

#include "base/string.h"
#include "core/current.h"
#include "core/dframe.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "host/host.h"
#include "mm/mm.h"
#include "mm/track.h"
#include "vfs/dentry.h"
#include "vfs/mount.h"
#include "vfs/vfs.h"

#define PROT_ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define HOST_ANON (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE)
#define MAP_ABOVE4G 0x80
#define MAP_UNINITIALIZED 0x4000000
/* Flags that MAP_SHARED_VALIDATE takes: all but MAP_SYNC, which needs persistent memory. */
#define MAP_KNOWN (MAP_TYPE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_LOCKED | \
                   MAP_NORESERVE | MAP_POPULATE | MAP_NONBLOCK | MAP_STACK | MAP_HUGETLB | MAP_32BIT | MAP_ABOVE4G | MAP_UNINITIALIZED | MAP_HUGE_MASK << MAP_HUGE_SHIFT)
#define SEAL_WRITE 8u
#define SEAL_FUTURE_WRITE 16u
#define RLIM_DATA 2
#define MNT_NOEXEC 8u /* MS_NOEXEC */
#define RLIM_AS 9
#define MODE_IFMT 0170000u
#define MODE_IFREG 0100000u

static u64 file_limit(struct file *f)
{
    if ((f->inode->mode & MODE_IFMT) != MODE_IFREG)
        return ~0ull & PAGE_MASK; /* devices have no end */
    u64 size = atomic_load(&f->inode->size);
    return size > ~0ull - PAGE_SIZE ? ~0ull & PAGE_MASK : PAGE_UP(size);
}

static void note_pack(struct vmap *m, u64 pack)
{
    u64 seen = 0;
    if (!__atomic_compare_exchange_n(&m->pack, &seen, pack, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) && seen != pack)
        atomic_store(&m->pack, VMAP_PACKS);
}

/* *at: where the file is shown up to, also after an error. */
static long map_extents(struct vma *v, u64 *at, u64 end, bool count)
{
    struct file *f = v->map->file;
    bool shared = v->flags & VM_SHARED;
    bool writable = shared && !(v->flags & VM_DENYWRITE);
    u64 limit = file_limit(f);
    if (*at == v->start)
        v->flags |= VM_STILL;
    while (*at < end) {
        u64 addr = *at;
        u64 off = v->pgoff + (addr - v->start);
        if (off >= limit)
            break;
        struct map_extent x;
        u64 max = MIN(end - addr, limit - off);
        long r = f->ops->map(f, off, max, shared, writable, &x);
        if (r)
            return r;
        v->map->writes = writable;
        if (count)
            atomic_add(&v->map->maps, 1);
        else if (f->ops->unmap)
            f->ops->unmap(f, writable);
        u64 n = MIN(max, x.size);
        if (!n || (n | x.off) & (PAGE_SIZE - 1))
            return -EIO;
        if (x.fd == FD_VIEWS || x.fd == FD_VIEWS_OWN)
            note_pack(v->map, (x.off - off) | (u32)x.fd);
        else
            v->flags &= ~VM_STILL;
        if (x.fd < 0) {
            r = host_mmap(addr, n, (int)v->prot, HOST_ANON, -1, 0);
        } else {
            /* Read-only containers cannot be mapped shared for writing; a private map shows the same. */
            bool host_shared = shared && (x.fd == FD_D || (x.fd >= FD_GRANT0 && writable));
            r = host_mmap(addr, n, (int)v->prot, MAP_FIXED | (host_shared ? MAP_SHARED : MAP_PRIVATE), x.fd, x.off);
        }
        if (is_err(r))
            return r;
        *at = addr + n;
    }
    return 0;
}

/* What lies before start is shown. With an error, what is behind *at is as it was. */
static long map_file(struct vma *v, u64 start, u64 end, bool count)
{
    u64 at = start;
    long r = map_extents(v, &at, end, count);
    u64 shown = v->pgoff + (at - v->start);
    v->eof = !r && (at < end || end == v->end) ? shown : MAX(v->eof, shown); /* a piece says nothing of what is behind it */
    if (!r && at < end)
        r = host_mmap(at, end - at, PROT_NONE, HOST_ANON, -1, 0);
    return is_err(r) ? r : 0;
}

long vma_map_file(struct vma *v, u64 start, u64 end) { return map_file(v, start, end, true); }

/* Up to where it was mapped: what is behind faults and is looked at then. So does all of a host's file that is gone or has become too
 * short: the program gets SIGBUS if it touches it, as when a file is cut. */
long vma_map_again(struct vma *v)
{
    struct super_block *sb = v->map->file->inode->sb;
    u64 end = vma_host_end(v);
    long r = end > v->start ? map_file(v, v->start, end, false) : 0;
    if (r && r != -ENOMEM && sb && sb->outside) {
        end = v->start;
        v->eof = v->pgoff;
        v->flags &= ~VM_STILL;
        r = 0;
    }
    if (!r && end < v->end)
        r = host_mmap(end, v->end - end, PROT_NONE, HOST_ANON, -1, 0);
    return is_err(r) ? r : 0;
}

/* A piece of a mapping as the file shows it. A file outside has lost its count when the sandbox came from a snapshot. */
long vma_map_file_again(struct vma *v, u64 start, u64 end)
{
    struct super_block *sb = v->map->file->inode->sb;
    return map_file(v, start, end, sb && sb->outside);
}

void mm_files_cut(struct mm *mm)
{
    mm_lock(mm);
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        if (!v->map || v->flags & (VM_VIEW | VM_HIDDEN) || !atomic_load(&v->map->file->inode->mapped))
            continue;
        u64 limit = file_limit(v->map->file), end = vma_host_end(v);
        if (v->eof <= limit || end == v->start)
            continue;
        u64 from = limit <= v->pgoff ? v->start : v->start + (limit - v->pgoff);
        track_open(mm, from, MAX(from, end));
        if (from < end && !is_err(host_mmap(from, end - from, PROT_NONE, HOST_ANON, -1, 0)))
            v->eof = limit;
    }
    vma_merge(mm, GUEST_MIN, GUEST_END);
    mm_unlock(mm);
}

/* The view of a private executable mapping, or NULL. */
static struct vview *view_get(struct mm *mm, struct file *f, int prot, int flags, bool make)
{
    if (mm->plain || !f->ops->view || (flags & MAP_TYPE) != MAP_PRIVATE || prot & PROT_WRITE)
        return NULL;
    struct vview *w = knew(struct vview);
    if (!w)
        return NULL;
    if (f->ops->view(f, make, &w->e, &w->fd) || !w->e.seg_count || w->e.seg_count > VIEW_SEG_MAX || !w->e.tramp_len ||
        w->e.tramp_len > VIEW_TRAMP_MAX || w->e.span > VIEW_SPAN_MAX || w->e.tramp_vaddr != w->e.span ||
        (w->e.span | w->e.tramp_len | w->e.tramp_off) & (PAGE_SIZE - 1)) {
        kfree(w);
        return NULL;
    }
    return w;
}

/* Maps text from the view and the trampolines behind it. false: nothing useful done, map the original pages. */
static bool view_map(struct mm *mm, struct vma *v)
{
    struct vview *w = v->map->view;
    u64 size = v->end - v->start;
    const struct view_seg *s = NULL;
    for (u32 i = 0; i < w->e.seg_count; i++) {
        const struct view_seg *c = &w->e.seg[i];
        if (v->pgoff >= c->file_off && v->pgoff - c->file_off < c->len && size <= c->len - (v->pgoff - c->file_off))
            s = c;
    }
    if (!s)
        return false;
    u64 delta = v->pgoff - s->file_off;
    if (v->start < s->vaddr + delta)
        return false;
    w->bias = v->start - (s->vaddr + delta);
    u64 tramp = w->bias + w->e.tramp_vaddr, tramp_end = tramp + w->e.tramp_len;
    if (tramp < v->end || tramp_end > GUEST_END || !vma_range_free(mm, tramp, tramp_end) || vma_reserve(mm, 2))
        return false;
    long r = host_mmap(tramp, w->e.tramp_len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, w->fd, w->e.tramp_off);
    if (is_err(r))
        return false;
    r = host_mmap(v->start, size, (int)v->prot, MAP_PRIVATE | MAP_FIXED, w->fd, s->view_off + delta);
    if (is_err(r)) {
        host_munmap(tramp, w->e.tramp_len);
        return false;
    }
    v->flags |= VM_VIEW;
    v->eof = v->pgoff + size;
    struct vma t = {.start = tramp, .end = tramp_end, .eof = w->e.tramp_len, .prot = PROT_READ | PROT_EXEC,
                    .flags = VM_HIDDEN, .map = v->map};
    atomic_add(&v->map->refs, 1);
    vma_insert(mm, &t);
    return true;
}

static long check_file(struct file *f, int prot, int flags, u64 off, u64 size, u32 *vm)
{
    if (!f->ops->map)
        return -ENODEV;
    if (off & (PAGE_SIZE - 1))
        return -EINVAL;
    if (off + size < off || (s64)(off + size) < 0)
        return -EOVERFLOW;
    if (!(f->mode & FMODE_READ))
        return -EACCES;
    if ((flags & MAP_TYPE) == MAP_PRIVATE)
        return 0;
    u32 seals = f->inode->seals & (SEAL_WRITE | SEAL_FUTURE_WRITE);
    if (prot & PROT_WRITE) {
        if (!(f->mode & FMODE_WRITE))
            return -EACCES;
        if (seals)
            return -EPERM;
    }
    if (!(f->mode & FMODE_WRITE) || seals)
        *vm |= VM_DENYWRITE;
    return 0;
}

/* Where a mapping goes: address or errno. `behind`: room wanted behind it. */
static long choose(struct mm *mm, u64 addr, u64 size, u64 behind, int flags)
{
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
        if (addr & (PAGE_SIZE - 1))
            return -EINVAL;
        if (addr > GUEST_END || size > GUEST_END - addr)
            return -ENOMEM;
        if (addr < GUEST_MIN)
            return -EPERM;
        if (flags & MAP_FIXED_NOREPLACE && !vma_range_free(mm, addr, addr + size))
            return -EEXIST;
        return (long)addr;
    }
    u64 top = flags & MAP_32BIT ? 0x80000000ul : GUEST_MMAP_TOP;
    addr = PAGE_DOWN(addr);
    if (addr >= GUEST_MIN && addr + size > addr && addr + size <= (flags & MAP_32BIT ? top : GUEST_END) &&
        vma_range_free(mm, addr, addr + size))
        return (long)addr;
    addr = vma_place(mm, size + behind, GUEST_MIN, top);
    if (!addr && behind)
        addr = vma_place(mm, size, GUEST_MIN, top);
    return addr ? (long)addr : -ENOMEM;
}

static long map_host(struct mm *mm, struct vma *v, int flags)
{
    u64 size = v->end - v->start;
    if (v->map) {
        if (v->map->view && view_map(mm, v))
            return 0;
        return vma_map_file(v, v->start, v->end);
    }
    long r = host_mmap(v->start, size, (int)v->prot, HOST_ANON, -1, 0);
    if (!is_err(r) && flags & (MAP_POPULATE | MAP_LOCKED) && v->prot & PROT_WRITE)
        host_madvise(v->start, size, MADV_POPULATE_WRITE); /* best effort, as Linux's */
    return is_err(r) ? r : 0;
}

/* What Linux calls an obvious overcommit: private memory to write that could never be there at once. */
static bool too_large(u64 size, u32 prot, u32 flags)
{
    return size > memory_limit() && prot & PROT_WRITE && !(flags & (VM_SHARED | VM_NORESERVE));
}

static long map_locked(struct mm *mm, u64 addr, u64 size, int flags, u64 behind, struct vma *v)
{
    if (mm->total_pages + (size >> PAGE_SHIFT) > current_rlimit(RLIM_AS) >> PAGE_SHIFT)
        return -ENOMEM;
    if (too_large(size, v->prot, v->flags))
        return -ENOMEM;
    long at = choose(mm, addr, size, behind, flags);
    if (is_err(at))
        return at;
    v->start = (u64)at;
    v->end = v->start + size;
    v->flags |= mm->def_flags | (v->prot & PROT_WRITE ? VM_WROTE : 0);
    long r = vma_reserve(mm, 4);
    if (!r)
        r = vma_unmap(mm, v->start, v->end, false);
    if (!r)
        r = vma_reserve(mm, 2);
    if (r)
        return r;
    r = map_host(mm, v, flags);
    if (r) {
        host_munmap(v->start, size); /* whatever was there is gone from the array */
        return r;
    }
    if (v->map)
        atomic_add(&v->map->refs, 1);
    vma_insert(mm, v);
    vma_merge(mm, v->start, v->end);
    return at;
}

long mm_map(struct mm *mm, u64 addr, u64 size, int prot, int flags, struct file *f, u64 off)
{
    int type = flags & MAP_TYPE;
    u32 vm = 0;
    prot &= PROT_ALL;
    if (!size || (type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE))
        return -EINVAL;
    if (type == MAP_SHARED_VALIDATE && flags & ~MAP_KNOWN)
        return -EOPNOTSUPP;
    if (flags & MAP_HUGETLB)
        return -ENOMEM;
    if (size > GUEST_END)
        return -ENOMEM;
    size = PAGE_UP(size);
    if (flags & MAP_GROWSDOWN) {
        if (f || type != MAP_PRIVATE)
            return -EINVAL;
        vm |= VM_GROWSDOWN;
    }
    if (flags & MAP_NORESERVE)
        vm |= VM_NORESERVE;
    if (flags & MAP_LOCKED)
        vm |= VM_LOCKED;
    if ((vm | mm->def_flags) & VM_LOCKED) {
        long r = mm_lock_room(mm, size);
        if (r)
            return r == -ENOMEM ? -EAGAIN : r;
    }
    if (type != MAP_PRIVATE)
        vm |= VM_SHARED;
    if (f) {
        long r = check_file(f, prot, flags, off, size, &vm);
        if (r)
            return r;
        file_get(f);
    } else if (type != MAP_PRIVATE) {
        f = shmem_file("/dev/zero", size, 0);
        if (IS_ERR(f))
            return PTR_ERR(f);
        off = 0;
    } else {
        off = 0;
    }
    struct vmap *m = NULL;
    u64 behind = 0;
    if (f) {
        m = knew(struct vmap);
        if (!m) {
            file_put(f);
            return -ENOMEM;
        }
        m->refs = 1;
        m->file = f;
        /* Whoever maps a library reserves its span first, often not executable: leave room for the trampolines. glibc's
         * loader gives itself away by MAP_DENYWRITE. */
        bool make = prot & PROT_EXEC || flags & MAP_DENYWRITE;
        struct vview *w = make || (!off && !(flags & MAP_FIXED)) ? view_get(mm, f, prot, flags, make) : NULL;
        if (w && !off)
            behind = w->e.tramp_len;
        if (prot & PROT_EXEC)
            m->view = w;
        else
            kfree(w);
    }
    struct vma v = {.pgoff = off, .prot = (u32)prot, .flags = vm, .map = m};
    if (f) {
        atomic_store(&f->inode->mapped, 1);
        if (f->path.dentry && f->path.dentry->inode)
            atomic_store(&f->path.dentry->inode->mapped, 1);
    }
    mm_lock(mm);
    long r = map_locked(mm, addr, size, flags, behind, &v);
    vmap_put(mm, m);
    mm_unlock(mm);
    return r;
}

static long check_range(u64 addr, u64 size)
{
    if (addr & (PAGE_SIZE - 1) || !size || addr > GUEST_END || size > ~0ull - PAGE_SIZE)
        return -EINVAL;
    return PAGE_UP(size) > GUEST_END - addr ? -ENOMEM : 0;
}

long mm_unmap(struct mm *mm, u64 addr, u64 size)
{
    if (addr & (PAGE_SIZE - 1) || !size || size > ~0ull - PAGE_SIZE || addr + PAGE_UP(size) < addr)
        return -EINVAL;
    u64 end = MIN(addr + PAGE_UP(size), GUEST_END);
    u64 start = MAX(addr, GUEST_MIN);
    if (start >= end)
        return 0;
    mm_lock(mm);
    long r = vma_unmap(mm, start, end, true);
    mm_unlock(mm);
    return r;
}

static bool covered(struct mm *mm, u64 start, u64 end)
{
    for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start <= start; i++) {
        if (mm->vmas[i].flags & VM_HIDDEN)
            return false;
        start = mm->vmas[i].end;
        if (start >= end)
            return true;
    }
    return false;
}

bool mm_covered(struct mm *mm, u64 addr, u64 size)
{
    mm_lock(mm);
    bool r = covered(mm, addr, addr + size);
    mm_unlock(mm);
    return r;
}

long mm_protect(struct mm *mm, u64 addr, u64 size, int prot)
{
    bool down = prot & PROT_GROWSDOWN;
    if (prot & ~(PROT_ALL | PROT_SEM | PROT_GROWSDOWN | PROT_GROWSUP))
        return -EINVAL;
    if (prot & PROT_GROWSUP || (!size && !(addr & (PAGE_SIZE - 1))))
        return prot & PROT_GROWSUP ? -EINVAL : 0;
    long r = check_range(addr, size);
    if (r)
        return r;
    u64 start = addr, end = addr + PAGE_UP(size);
    u32 p = (u32)prot & PROT_ALL;
    mm_lock(mm);
    r = vma_reserve(mm, 2);
    if (r)
        goto out;
    if (down) {
        struct vma *v = vma_find(mm, start);
        r = v && v->flags & (VM_GROWSDOWN | VM_STACK) ? 0 : -EINVAL;
        if (r)
            goto out;
        start = v->start;
    }
    vma_split(mm, start);
    vma_split(mm, end);
    track_open(mm, start, end);
    u64 at = start;
    for (u32 i = vma_lower(mm, start); at < end; i++) {
        struct vma *v = i < mm->count ? &mm->vmas[i] : NULL;
        r = -ENOMEM;
        if (!v || v->start != at || v->flags & VM_HIDDEN)
            break;
        r = -EACCES;
        if (p & PROT_WRITE && v->flags & VM_DENYWRITE)
            break;
        if (p & PROT_EXEC && v->map && v->map->file->path.mnt && v->map->file->path.mnt->flags & MNT_NOEXEC)
            break;
        r = -ENOMEM;
        if (too_large(v->end - v->start, p, v->flags))
            break;
        /* Behind the end of the file the host memory stays inaccessible. */
        u64 host_end = vma_host_end(v);
        r = host_end > v->start ? host_mprotect(v->start, host_end - v->start, (int)p) : 0;
        if (r)
            break;
        v->prot = p;
        v->flags |= p & PROT_WRITE ? VM_WROTE : 0;
        at = v->end;
    }
    vma_merge(mm, start, end);
out:
    mm_unlock(mm);
    return r;
}

long mm_brk(struct mm *mm, u64 brk)
{
    mm_lock(mm);
    u64 old = PAGE_UP(mm->brk), now = PAGE_UP(brk);
    u64 max = mm->brk_start >= GUEST_EXE_BASE ? GUEST_BRK_MAX : GUEST_END;
    if (brk < mm->brk_start || brk > max || brk - mm->brk_start > current_rlimit(RLIM_DATA))
        goto out;
    if (now < old) {
        if (vma_unmap(mm, now, old, true))
            goto out;
    } else if (now > old) {
        struct vma v = {.prot = PROT_READ | PROT_WRITE, .flags = VM_HEAP};
        if (!vma_range_free(mm, old, now) || is_err(map_locked(mm, old, now - old, MAP_FIXED, 0, &v)))
            goto out;
    }
    mm->brk = brk;
out:;
    long r = (long)mm->brk;
    mm_unlock(mm);
    return r;
}

u64 mm_size(struct mm *mm) { return atomic_load_relaxed(&mm->total_pages) << PAGE_SHIFT; }

/* Moves old (one whole vma) to [to, to + new_size). The target is free. */
/* One vma can be several mappings of the host, which do not merge as ours do and are not moved together (EFAULT): then each half. */
static long move_pages(u64 from, u64 size, u64 to)
{
    long r = host_mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (r != -EFAULT || size <= PAGE_SIZE)
        return is_err(r) ? r : 0;
    u64 half = PAGE_UP(size / 2);
    r = move_pages(from, half, to);
    if (r)
        return r;
    r = move_pages(from + half, size - half, to + half);
    if (r)
        move_pages(to, half, from);
    return r;
}

/* Maps what [from, end) of v has to show; what lies before from is mapped. */
static long map_behind(struct vma *v, u64 from)
{
    if (v->map && vma_host_end(v) >= from)
        return vma_map_file(v, from, v->end);
    /* behind the end of the file: as what is before, looked at when it is touched */
    long r = host_mmap(from, v->end - from, v->map ? PROT_NONE : (int)v->prot, HOST_ANON, -1, 0);
    return is_err(r) ? r : 0;
}

static long remap_move(struct mm *mm, struct vma old, u64 to, u64 new_size)
{
    struct vma v = old;
    u64 old_size = old.end - old.start;
    bool shared = old.map && old.flags & VM_SHARED;
    long r = vma_reserve(mm, 3);
    if (r)
        return r;
    v.start = to;
    v.end = to + new_size;
    if (old.flags & VM_BASE)
        v.flags |= VM_MOVED;
    if (shared) {
        r = vma_map_file(&v, v.start, v.end); /* the same pages again */
    } else {
        /* Private pages move with their contents, last of all: an error leaves them where they were. */
        if (new_size > old_size)
            r = map_behind(&v, to + old_size);
        if (!r)
            r = move_pages(old.start, old_size, to);
    }
    if (r) {
        host_munmap(to, new_size);
        return r;
    }
    if (v.map)
        atomic_add(&v.map->refs, 1);
    vma_insert(mm, &v);
    r = vma_unmap(mm, old.start, old.end, shared);
    vma_merge(mm, v.start, v.end);
    return r ? r : (long)to;
}

static long remap_grow(struct mm *mm, struct vma *v, u64 new_end)
{
    struct vma w = *v;
    u64 end = w.end;
    w.end = new_end;
    long r = map_behind(&w, end);
    if (r) {
        host_munmap(end, new_end - end);
        return r;
    }
    *v = w;
    mm->total_pages += (new_end - end) >> PAGE_SHIFT;
    vma_merge(mm, v->start, new_end);
    return 0;
}

static long remap_locked(struct mm *mm, u64 addr, u64 old_size, u64 new_size, u64 flags, u64 new_addr)
{
    struct vma *v = vma_find(mm, addr);
    if (!v || v->flags & VM_HIDDEN)
        return -EFAULT;
    bool dup = !old_size; /* a second map of a shared mapping */
    if (dup && !(v->flags & VM_SHARED))
        return -EINVAL;
    if (old_size > v->end - addr)
        return -EFAULT;
    if (new_size > old_size &&
        mm->total_pages + ((new_size - old_size) >> PAGE_SHIFT) > current_rlimit(RLIM_AS) >> PAGE_SHIFT)
        return -ENOMEM;
    bool keep = flags & MREMAP_DONTUNMAP;
    if ((new_size > old_size || keep) && too_large(new_size, v->prot, v->flags))
        return -ENOMEM;
    if (keep && (v->map || addr + old_size > v->end))
        return -EINVAL;
    if (!(flags & MREMAP_FIXED) && !dup && !keep) {
        if (new_size <= old_size) {
            long r = new_size < old_size ? vma_unmap(mm, addr + new_size, addr + old_size, true) : 0;
            return r ? r : (long)addr;
        }
        u64 grown = addr + new_size;
        if (addr + old_size == v->end && grown > addr && grown <= GUEST_END && vma_range_free(mm, v->end, grown)) {
            long r = vma_reserve(mm, 2) ? -ENOMEM : remap_grow(mm, vma_find(mm, addr), grown);
            return r ? r : (long)addr;
        }
    }
    if (!(flags & MREMAP_MAYMOVE))
        return -ENOMEM;
    track_open(mm, addr, addr + old_size);
    if (v->flags & VM_VIEW) { /* its jumps reach the trampolines only from where they are */
        vma_view_drop(mm, v->map);
        v = vma_find(mm, addr);
    }
    u64 to;
    if (flags & MREMAP_FIXED) {
        to = new_addr;
        long r = vma_unmap(mm, to, to + new_size, true);
        if (r)
            return r;
    } else {
        to = vma_place(mm, new_size, GUEST_MIN, GUEST_MMAP_TOP);
        if (!to)
            return -ENOMEM;
    }
    if (vma_reserve(mm, 3))
        return -ENOMEM;
    if (dup) {
        v = vma_find(mm, addr);
        if (!v) /* the target was the source */
            return -EFAULT;
        struct vma d = *v;
        d.pgoff += addr - d.start;
        d.start = to;
        d.end = to + new_size;
        long r = vma_map_file(&d, d.start, d.end);
        if (r) {
            host_munmap(to, new_size);
            return r;
        }
        atomic_add(&d.map->refs, 1);
        vma_insert(mm, &d);
        vma_merge(mm, d.start, d.end);
        return (long)to;
    }
    if (new_size < old_size) {
        long r = vma_unmap(mm, addr + new_size, addr + old_size, true);
        if (r)
            return r;
        old_size = new_size;
    }
    if (vma_reserve(mm, 3))
        return -ENOMEM;
    vma_split(mm, addr);
    vma_split(mm, addr + old_size);
    struct vma old = *vma_find(mm, addr);
    long r = remap_move(mm, old, to, new_size);
    if (is_err(r))
        vma_merge(mm, addr, addr + old_size);
    if (keep && !is_err(r) && !vma_reserve(mm, 1) &&
        !is_err(host_mmap(addr, old_size, (int)old.prot, HOST_ANON, -1, 0))) { /* empty memory where it was */
        vma_insert(mm, &old);
        vma_merge(mm, old.start, old.end);
    }
    return r;
}

long mm_remap(struct mm *mm, u64 addr, u64 old_size, u64 new_size, u64 flags, u64 new_addr)
{
    if (flags & ~(u64)(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) ||
        (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) && !(flags & MREMAP_MAYMOVE)) ||
        (flags & MREMAP_DONTUNMAP && PAGE_UP(old_size) != PAGE_UP(new_size)))
        return -EINVAL;
    if (addr & (PAGE_SIZE - 1) || !new_size || old_size > GUEST_END || addr > GUEST_END)
        return -EINVAL;
    if (new_size > GUEST_END)
        return -ENOMEM;
    old_size = PAGE_UP(old_size);
    new_size = PAGE_UP(new_size);
    if (flags & MREMAP_FIXED) {
        if (new_addr & (PAGE_SIZE - 1) || new_addr > GUEST_END || new_size > GUEST_END - new_addr)
            return -EINVAL;
        if (new_addr < GUEST_MIN)
            return -EPERM;
        if (new_addr < addr + old_size && addr < new_addr + new_size)
            return -EINVAL;
    }
    mm_lock(mm);
    long r = remap_locked(mm, addr, old_size, new_size, flags, new_addr);
    mm_unlock(mm);
    return r;
}
