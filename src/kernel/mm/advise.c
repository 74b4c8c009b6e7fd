/* madvise. See mm.h. Advice that would show other tenants' behaviour (PAGEOUT, MERGEABLE) never reaches the host. */
#include <linux/mman.h>

#include "core/errno.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "mm/track.h"
#include "vfs/vfs.h"

/* Makes snapshot's pages the process's own memory: what wants anonymous memory of the host needs that. */
static long unbase(struct vma *v)
{
    u64 size = v->end - v->start;
    if (size > DUMP_SIZE)
        return -ENOMEM;
    long r = host_mmap(DUMP_WINDOW, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (!is_err(r))
        r = host_mprotect(v->start, size, PROT_READ);
    if (!r)
        r = copy_from_user((void *)DUMP_WINDOW, v->start, size);
    if (!r)
        r = host_mprotect(DUMP_WINDOW, size, (int)v->prot);
    if (!r)
        r = host_mremap(DUMP_WINDOW, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, v->start);
    if (is_err(r)) {
        host_munmap(DUMP_WINDOW, size);
        host_mprotect(v->start, size, (int)v->prot);
        return r;
    }
    v->flags &= ~(VM_BASE | VM_MOVED);
    return 0;
}

static long advise_flag(struct mm *mm, u64 start, u64 end, u32 set, u32 clear, int host)
{
    if (vma_reserve(mm, 2))
        return -ENOMEM;
    vma_split(mm, start);
    vma_split(mm, end);
    track_open(mm, start, end);
    long r = 0;
    bool hole = false;
    u64 at = start;
    for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start < end; i++) {
        struct vma *v = &mm->vmas[i];
        hole |= v->start > at;
        at = v->end;
        if (v->flags & VM_HIDDEN)
            continue;
        if (host && (v->map || v->flags & VM_SHARED)) {
            r = -EINVAL;
            break;
        }
        if (host && v->flags & VM_BASE)
            r = unbase(v);
        if (host && !r)
            r = host_madvise(v->start, v->end - v->start, host);
        if (r)
            break;
        v->flags = (v->flags | set) & ~clear;
    }
    vma_merge(mm, start, end);
    return !r && (hole || at < end) ? -ENOMEM : r;
}

/* One piece [start, end) of a vma. With VM_BASE the host would show the snapshot's pages again. */
static long empty(struct vma *v, u64 start, u64 end)
{
    if (!(v->flags & VM_BASE))
        return host_madvise(start, end - start, MADV_DONTNEED);
    if (v->map) {
        if (vma_map_file_again(v, start, end)) /* a file outside that is another one now: what the snapshot has of it is all there is */
            return host_madvise(start, end - start, MADV_DONTNEED);
        v->flags &= ~VM_VIEW; /* advise_locked() has made the piece a vma */
        return 0;
    }
    long r = host_mmap(start, end - start, (int)v->prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return is_err(r) ? r : 0;
}

static long advise_piece(struct vma *v, u64 start, u64 end, int advice)
{
    if (v->flags & VM_HIDDEN)
        return 0;
    u64 host_end = MIN(end, vma_host_end(v));
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED:
        if (advice == MADV_DONTNEED && v->flags & VM_LOCKED)
            return -EINVAL;
        return host_end > start ? empty(v, start, host_end) : 0;
    case MADV_FREE:
        if (v->map || v->flags & VM_SHARED)
            return -EINVAL;
        return v->flags & VM_BASE ? empty(v, start, end) : host_madvise(start, end - start, MADV_FREE);
    case MADV_REMOVE: {
        if (!v->map || !(v->flags & VM_SHARED) || v->flags & VM_LOCKED)
            return -EINVAL;
        if (v->flags & VM_DENYWRITE)
            return -EACCES;
        struct file *f = v->map->file;
        if (!f->ops->fallocate)
            return -EOPNOTSUPP;
        return f->ops->fallocate(f, 3 /* KEEP_SIZE | PUNCH_HOLE */, v->pgoff + (start - v->start), end - start);
    }
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
        if (!(v->prot & (advice == MADV_POPULATE_WRITE ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC)))
            return -EINVAL;
        if (host_end < end)
            return -EFAULT;
        return host_madvise(start, end - start, advice);
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
        if (!v->map)
            host_madvise(start, end - start, advice); /* a hint: the host may not have huge pages */
        return 0;
    default:
        return 0;
    }
}

static bool known(int advice)
{
    switch (advice) {
    case MADV_NORMAL: case MADV_RANDOM: case MADV_SEQUENTIAL: case MADV_WILLNEED: case MADV_DONTNEED: case MADV_FREE:
    case MADV_REMOVE: case MADV_DONTFORK: case MADV_DOFORK: case MADV_WIPEONFORK: case MADV_KEEPONFORK:
    case MADV_HUGEPAGE: case MADV_NOHUGEPAGE: case MADV_COLD: case MADV_PAGEOUT: case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE: case MADV_DONTDUMP: case MADV_DODUMP: case MADV_DONTNEED_LOCKED:
        return true;
    default:
        return false;
    }
}

static long advise_locked(struct mm *mm, u64 start, u64 end, int advice)
{
    switch (advice) {
    case MADV_DONTFORK: return advise_flag(mm, start, end, VM_DONTFORK, 0, 0);
    case MADV_DOFORK: return advise_flag(mm, start, end, 0, VM_DONTFORK, 0);
    case MADV_WIPEONFORK: return advise_flag(mm, start, end, VM_WIPEONFORK, 0, MADV_WIPEONFORK);
    case MADV_KEEPONFORK: return advise_flag(mm, start, end, 0, VM_WIPEONFORK, MADV_KEEPONFORK);
    default: break;
    }
    if (advice != MADV_NORMAL && advice != MADV_WILLNEED && advice != MADV_HUGEPAGE)
        track_open(mm, start, end);
    bool hole = false, splits = false;
    for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start < end; i++)
        splits |= (mm->vmas[i].flags & (VM_BASE | VM_VIEW)) == (VM_BASE | VM_VIEW);
    splits &= advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED;
    if (splits) {
        if (vma_reserve(mm, 2))
            return -ENOMEM;
        vma_split(mm, start);
        vma_split(mm, end);
    }
    u64 at = start;
    long r = 0;
    for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start < end; i++) {
        struct vma *v = &mm->vmas[i];
        hole |= v->start > at;
        r = advise_piece(v, MAX(v->start, start), MIN(v->end, end), advice);
        if (r)
            break;
        at = v->end;
    }
    if (splits)
        vma_merge(mm, start, end);
    return r ? r : hole || at < end ? -ENOMEM : 0;
}

long mm_advise(struct mm *mm, u64 addr, u64 size, int advice)
{
    if (!known(advice) || addr & (PAGE_SIZE - 1) || size > ~0ull - PAGE_SIZE || addr + PAGE_UP(size) < addr)
        return -EINVAL;
    if (!size)
        return 0;
    u64 end = addr + PAGE_UP(size);
    if (end > GUEST_END || addr < GUEST_MIN)
        return -ENOMEM;
    mm_lock(mm);
    long r = advise_locked(mm, addr, end, advice);
    mm_unlock(mm);
    return r;
}
