/* System calls on memory: argument checks; the work is in mm/. */
#include <linux/mman.h>
#include <linux/mempolicy.h>

#include "base/err.h"
#include "base/string.h"
#include "core/current.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "sys/syscall.h"
#include "vfs/mount.h"
#include "vfs/vfs.h"

#define MNT_NOEXEC 8u /* MS_NOEXEC */

SYSCALL6(mmap, u64, addr, u64, size, int, prot, int, flags, int, fd, u64, off)
{
    if (off & (PAGE_SIZE - 1))
        return -EINVAL;
    struct file *f = NULL;
    if (!(flags & MAP_ANONYMOUS)) {
        f = fd_get(fd);
        if (!f)
            return -EBADF;
        if (f->mode & FMODE_PATH) {
            file_put(f);
            return -EBADF;
        }
        if (flags & MAP_HUGETLB) {
            file_put(f);
            return -EINVAL;
        }
        if (prot & PROT_EXEC && f->path.mnt && f->path.mnt->flags & MNT_NOEXEC) {
            file_put(f);
            return -EPERM;
        }
    }
    long r = mm_map(current_mm(), addr, size, prot, flags, f, off);
    if (f)
        file_put(f);
    return r;
}

SYSCALL2(munmap, u64, addr, u64, size) { return mm_unmap(current_mm(), addr, size); }
SYSCALL3(mprotect, u64, addr, u64, size, int, prot) { return mm_protect(current_mm(), addr, size, prot); }
SYSCALL1(brk, u64, brk) { return mm_brk(current_mm(), brk); }
SYSCALL3(madvise, u64, addr, u64, size, int, advice) { return mm_advise(current_mm(), addr, size, advice); }

SYSCALL5(mremap, u64, addr, u64, old_size, u64, new_size, u64, flags, u64, new_addr)
{
    return mm_remap(current_mm(), addr, old_size, new_size, flags, new_addr);
}

/* Page-rounds a range: 0 and *end, or -EINVAL/-ENOMEM. */
static long range(u64 addr, u64 size, u64 *end)
{
    if (size > ~0ull - PAGE_SIZE || addr + PAGE_UP(size) < addr)
        return -ENOMEM;
    *end = addr + PAGE_UP(size);
    return *end > GUEST_END ? -ENOMEM : 0;
}

SYSCALL3(msync, u64, addr, u64, size, int, flags)
{
    u64 end;
    if (flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC) || addr & (PAGE_SIZE - 1) ||
        (flags & (MS_ASYNC | MS_SYNC)) == (MS_ASYNC | MS_SYNC))
        return -EINVAL;
    long r = range(addr, size, &end);
    if (r || end == addr)
        return r;
    struct mm *mm = current_mm();
    if (flags & MS_INVALIDATE) {
        mm_lock(mm);
        for (u32 i = vma_lower(mm, addr); !r && i < mm->count && mm->vmas[i].start < end; i++)
            r = mm->vmas[i].flags & VM_LOCKED ? -EBUSY : 0;
        mm_unlock(mm);
        if (r)
            return r;
    }
    while (flags & MS_SYNC) { /* each shared file in turn, without the lock */
        struct file *f = NULL;
        u64 next = end;
        mm_lock(mm);
        for (u32 i = vma_lower(mm, addr); !f && i < mm->count && mm->vmas[i].start < end; i++) {
            struct vma *v = &mm->vmas[i];
            if (v->flags & VM_SHARED && v->map && v->map->file->ops->fsync) {
                f = v->map->file;
                file_get(f);
                next = v->end;
            }
        }
        mm_unlock(mm);
        if (!f)
            break;
        r = f->ops->fsync(f, true);
        file_put(f);
        if (r)
            return r;
        if (next >= end)
            break;
        addr = next;
    }
    return mm_covered(mm, addr, end - addr) ? 0 : -ENOMEM;
}

/* Of files the guest is told that all is there: what the host has of them in memory shows what others do. */
static void residency(struct mm *mm, u64 addr, u64 pages, u8 *there)
{
    memset(there, 1, pages);
    mm_lock(mm);
    for (u32 i = vma_lower(mm, addr); i < mm->count && mm->vmas[i].start < addr + pages * PAGE_SIZE; i++) {
        const struct vma *v = &mm->vmas[i];
        u64 from = MAX(v->start, addr), to = MIN(v->end, addr + pages * PAGE_SIZE);
        u8 *out = there + ((from - addr) >> PAGE_SHIFT);
        if (!v->map && !(v->flags & (VM_BASE | VM_LOCKED)) && host_mincore(from, to - from, out))
            memset(out, 1, (to - from) >> PAGE_SHIFT);
    }
    mm_unlock(mm);
}

SYSCALL3(mincore, u64, addr, u64, size, u64, vec)
{
    u64 end;
    if (addr & (PAGE_SIZE - 1))
        return -EINVAL;
    long r = range(addr, size, &end);
    if (r || end == addr)
        return r;
    if (!mm_covered(current_mm(), addr, end - addr))
        return -ENOMEM;
    u8 there[256];
    for (u64 n; addr < end; addr += n << PAGE_SHIFT) {
        n = MIN((end - addr) >> PAGE_SHIFT, sizeof(there));
        residency(current_mm(), addr, n, there);
        if (copy_to_user(vec, there, n))
            return -EFAULT;
        vec += n;
    }
    return 0;
}

static long lock_range(u64 addr, u64 size, bool lock)
{
    if (size > ~0ull - 2 * PAGE_SIZE || addr + size + PAGE_SIZE < addr)
        return -EINVAL;
    u64 end = PAGE_UP(addr + size);
    addr = PAGE_DOWN(addr);
    if (addr == end)
        return 0;
    return end > GUEST_END ? -ENOMEM : mm_lock_range(current_mm(), addr, end, lock);
}

SYSCALL2(mlock, u64, addr, u64, size) { return lock_range(addr, size, true); }
SYSCALL2(munlock, u64, addr, u64, size) { return lock_range(addr, size, false); }
SYSCALL3(mlock2, u64, addr, u64, size, int, flags) { return flags & ~1 ? -EINVAL : lock_range(addr, size, true); }

SYSCALL1(mlockall, int, flags)
{
    if (!flags || flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) || flags == MCL_ONFAULT)
        return -EINVAL;
    return mm_lock_all(current_mm(), flags & MCL_CURRENT, flags & MCL_FUTURE);
}

SYSCALL0(munlockall) { return mm_lock_all(current_mm(), false, false); }

/* One memory node. */
static long check_nodes(int mode, u64 nodes, u64 max)
{
    u64 mask = 0;
    int m = mode & ~(MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES | (1 << 13));
    if (m < 0 || m > MPOL_LOCAL || max > 32768)
        return -EINVAL;
    if (nodes && max > 1 && copy_from_user(&mask, nodes, sizeof(mask)))
        return -EFAULT;
    if (max && max <= 64)
        mask &= max == 64 ? ~0ull : (1ull << max) - 1;
    if (m == MPOL_DEFAULT || m == MPOL_LOCAL)
        return mask ? -EINVAL : 0;
    if (m == MPOL_PREFERRED && !mask)
        return 0;
    return mask & 1 ? 0 : -EINVAL;
}

SYSCALL3(set_mempolicy, int, mode, u64, nodes, u64, max) { return check_nodes(mode, nodes, max); }

SYSCALL6(mbind, u64, addr, u64, size, int, mode, u64, nodes, u64, max, u32, flags)
{
    if (addr & (PAGE_SIZE - 1) || flags & ~7u)
        return -EINVAL;
    u64 end;
    long r = range(addr, size, &end);
    if (r)
        return -EINVAL;
    r = check_nodes(mode, nodes, max);
    if (r || end == addr)
        return r;
    return mm_covered(current_mm(), addr, end - addr) ? 0 : -EFAULT;
}

SYSCALL5(get_mempolicy, u64, mode, u64, nodes, u64, max, u64, addr, u64, flags)
{
    if (flags & ~7ull || (flags & MPOL_F_MEMS_ALLOWED && flags & (MPOL_F_NODE | MPOL_F_ADDR)))
        return -EINVAL;
    if (!(flags & MPOL_F_ADDR) && addr)
        return -EINVAL;
    if (flags & MPOL_F_ADDR && !mm_covered(current_mm(), PAGE_DOWN(addr), PAGE_SIZE))
        return -EFAULT;
    if (nodes && (!max || max > 32768))
        return -EINVAL;
    s32 m = MPOL_DEFAULT;
    if (mode && put_user(m, mode))
        return -EFAULT;
    u64 bytes = ALIGN_UP(max, 64) / 8;
    if (nodes) {
        u64 mask = flags & MPOL_F_MEMS_ALLOWED ? 1 : 0;
        if (clear_user(nodes, bytes) || put_user(mask, nodes))
            return -EFAULT;
    }
    return 0;
}
