/* mlock and its kin. Guests cannot pin the host's memory: what is kept is the state, RLIMIT_MEMLOCK and its errors (mlock(2)). */
#include "base/layout.h"
#include "core/current.h"
#include "core/errno.h"
#include "mm/mm.h"

#define RLIM_MEMLOCK 8
#define CAP_IPC_LOCK 14

/* mm->lock held. */
static u64 locked_in(struct mm *mm, u64 start, u64 end)
{
    u64 size = 0;
    for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start < end; i++)
        if (mm->vmas[i].flags & VM_LOCKED)
            size += MIN(mm->vmas[i].end, end) - MAX(mm->vmas[i].start, start);
    return size;
}

u64 mm_locked(struct mm *mm)
{
    mm_lock(mm);
    u64 size = locked_in(mm, 0, GUEST_END);
    mm_unlock(mm);
    return size;
}

/* Is there room for so much more under the limit? -EPERM: for none at all. mm->lock held. */
static long room(struct mm *mm, u64 more)
{
    if (capable(CAP_IPC_LOCK))
        return 0;
    u64 limit = current_rlimit(RLIM_MEMLOCK);
    if (!limit)
        return -EPERM;
    return locked_in(mm, 0, GUEST_END) + more > limit ? -ENOMEM : 0;
}

long mm_lock_room(struct mm *mm, u64 more)
{
    mm_lock(mm);
    long r = room(mm, more);
    mm_unlock(mm);
    return r;
}

static void set_locked(struct vma *v, bool lock) { v->flags = lock ? v->flags | VM_LOCKED : v->flags & ~VM_LOCKED; }

long mm_lock_range(struct mm *mm, u64 start, u64 end, bool lock)
{
    mm_lock(mm);
    long r = lock ? room(mm, end - start - locked_in(mm, start, end)) : 0;
    mm_unlock(mm);
    if (r)
        return r;
    if (!mm_covered(mm, start, end - start))
        return -ENOMEM;
    mm_lock(mm);
    r = vma_reserve(mm, 2);
    if (!r) {
        vma_split(mm, start);
        vma_split(mm, end);
        for (u32 i = vma_lower(mm, start); i < mm->count && mm->vmas[i].start < end; i++)
            set_locked(&mm->vmas[i], lock);
        vma_merge(mm, start, end);
    }
    mm_unlock(mm);
    return r;
}

long mm_lock_all(struct mm *mm, bool now, bool future)
{
    mm_lock(mm);
    long r = now || future ? room(mm, now ? mm_size(mm) - locked_in(mm, 0, GUEST_END) : 0) : 0;
    if (!r) {
        mm->def_flags = future ? VM_LOCKED : 0;
        for (u32 i = 0; (now || !future) && i < mm->count; i++)
            set_locked(&mm->vmas[i], now);
        vma_merge(mm, 0, GUEST_END);
    }
    mm_unlock(mm);
    return r;
}
