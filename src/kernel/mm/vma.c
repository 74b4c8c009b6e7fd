/* The array of mappings: search, placement, split, merge, removal; life of an mm. See mm.h. */
#include "mm/mm.h"
#include "mm/track.h"

#include <linux/mman.h>

#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "host/host.h"
#include "vfs/vfs.h"

static void vmap_release(struct vmap *m)
{
    if (m->file->ops->unmap)
        for (u32 i = 0; i < m->maps; i++)
            m->file->ops->unmap(m->file, m->writes);
    file_put(m->file);
    if (m->view)
        kfree(m->view->sites);
    kfree(m->view);
    kfree(m);
}

void vmap_put(struct mm *mm, struct vmap *m)
{
    if (m && atomic_sub(&m->refs, 1) == 0) {
        m->next = mm->dead;
        mm->dead = m;
    }
}

void mm_lock(struct mm *mm)
{
    mutex_lock(&mm->lock);
    mm->changes++;
}

void mm_unlock(struct mm *mm)
{
    struct vmap *m = mm->dead;
    mm->dead = NULL;
    mutex_unlock(&mm->lock);
    while (m) {
        struct vmap *next = m->next;
        vmap_release(m);
        m = next;
    }
}

u32 vma_lower(struct mm *mm, u64 addr)
{
    u32 lo = 0, hi = mm->count;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (mm->vmas[mid].end > addr)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

struct vma *vma_find(struct mm *mm, u64 addr)
{
    u32 i = vma_lower(mm, addr);
    return i < mm->count && mm->vmas[i].start <= addr ? &mm->vmas[i] : NULL;
}

bool vma_range_free(struct mm *mm, u64 start, u64 end)
{
    u32 i = vma_lower(mm, start);
    return i == mm->count || mm->vmas[i].start >= end;
}

u64 vma_place(struct mm *mm, u64 size, u64 low, u64 high)
{
    u32 i = vma_lower(mm, high - 1); /* vmas from i on end above high */
    u64 top = high;
    if (i < mm->count && mm->vmas[i].start < top)
        top = mm->vmas[i].start;
    for (;;) {
        u64 floor = i ? MAX(mm->vmas[i - 1].end, low) : low;
        if (top > floor && top - floor >= size)
            return top - size;
        if (!i || mm->vmas[i - 1].start <= low)
            return 0;
        i--;
        top = MIN(top, mm->vmas[i].start);
    }
}

long vma_reserve(struct mm *mm, u32 more)
{
    u32 need = mm->count + more;
    if (need > MM_VMAS_MAX)
        return -ENOMEM;
    if (need <= mm->cap)
        return 0;
    u32 cap = MAX(MAX(need, 16u), mm->cap * 2);
    struct vma *p = krealloc(mm->vmas, (size_t)mm->cap * sizeof(*p), (size_t)cap * sizeof(*p));
    if (!p)
        return -ENOMEM;
    mm->vmas = p;
    mm->cap = cap;
    return 0;
}

void vma_insert(struct mm *mm, const struct vma *v)
{
    u32 i = vma_lower(mm, v->start);
    BUG_ON(mm->count >= mm->cap);
    memmove(&mm->vmas[i + 1], &mm->vmas[i], (size_t)(mm->count - i) * sizeof(*v));
    mm->vmas[i] = *v;
    mm->count++;
    if (!(v->flags & VM_HIDDEN))
        mm->total_pages += (v->end - v->start) >> PAGE_SHIFT;
}

void vma_remove(struct mm *mm, u32 i, u32 n)
{
    for (u32 k = i; k < i + n; k++) {
        struct vma *v = &mm->vmas[k];
        if (!(v->flags & VM_HIDDEN))
            mm->total_pages -= (v->end - v->start) >> PAGE_SHIFT;
        vmap_put(mm, v->map);
    }
    memmove(&mm->vmas[i], &mm->vmas[i + n], (size_t)(mm->count - i - n) * sizeof(struct vma));
    mm->count -= n;
}

void vma_split(struct mm *mm, u64 addr)
{
    struct vma *v = vma_find(mm, addr);
    if (!v || v->start == addr)
        return;
    BUG_ON(mm->count >= mm->cap);
    u32 i = (u32)(v - mm->vmas);
    memmove(v + 1, v, (size_t)(mm->count - i) * sizeof(*v));
    mm->count++;
    v[1].pgoff += addr - v->start;
    v[1].start = addr;
    v->end = addr;
    if (v->map)
        atomic_add(&v->map->refs, 1);
}

u64 vma_host_end(const struct vma *v)
{
    if (!v->map || v->eof >= v->pgoff + (v->end - v->start))
        return v->end;
    return v->eof <= v->pgoff ? v->start : v->start + (v->eof - v->pgoff);
}

static bool vma_joins(const struct vma *a, const struct vma *b)
{
    if (a->end != b->start || a->prot != b->prot || (a->flags ^ b->flags) & ~(VM_BASE | VM_MOVED | VM_WROTE) || (a->flags & VM_HIDDEN))
        return false;
    if (!a->map || !b->map)
        return !a->map && !b->map;
    /* what the host shows must be a beginning of the whole */
    bool shown = vma_host_end(a) == a->end || vma_host_end(b) == b->start;
    return a->map == b->map && shown && a->pgoff + (a->end - a->start) == b->pgoff;
}

void vma_merge(struct mm *mm, u64 start, u64 end)
{
    u32 i = vma_lower(mm, start);
    if (i)
        i--;
    u32 out = i;
    /* One pass over the touched range, compacting once. */
    if (i >= mm->count)
        return;
    u32 k = i + 1;
    for (; k < mm->count && mm->vmas[k].start <= end; k++) {
        if (vma_joins(&mm->vmas[out], &mm->vmas[k])) {
            if (vma_host_end(&mm->vmas[out]) == mm->vmas[out].end)
                mm->vmas[out].eof = MAX(mm->vmas[k].eof, mm->vmas[k].pgoff);
            mm->vmas[out].end = mm->vmas[k].end;
            mm->vmas[out].flags |= mm->vmas[k].flags & (VM_BASE | VM_MOVED | VM_WROTE);
            vmap_put(mm, mm->vmas[k].map);
        } else {
            mm->vmas[++out] = mm->vmas[k];
        }
    }
    if (k != out + 1) {
        memmove(&mm->vmas[out + 1], &mm->vmas[k], (size_t)(mm->count - k) * sizeof(struct vma));
        mm->count -= k - (out + 1);
    }
}

/* The trampolines of a view go away: text that jumps to them shows the original again. */
static void view_disable(struct mm *mm, struct vmap *m, u64 skip_start, u64 skip_end)
{
    if (m && m->view)
        frames_redirect(mm, m->view);
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        if (v->map != m || !(v->flags & VM_VIEW) || (v->start >= skip_start && v->end <= skip_end))
            continue;
        track_open(mm, v->start, v->end);
        vma_map_file(v, v->start, v->end);
        v->flags &= ~VM_VIEW;
    }
}

/* Trampolines whose text is gone. */
static void view_sweep(struct mm *mm, struct vmap *m)
{
    for (u32 i = 0; i < mm->count; i++)
        if (mm->vmas[i].map == m && (mm->vmas[i].flags & VM_VIEW))
            return;
    for (u32 i = 0; i < mm->count;) {
        struct vma *v = &mm->vmas[i];
        if (v->map == m && (v->flags & VM_HIDDEN)) {
            track_open(mm, v->start, v->end);
            host_munmap(v->start, v->end - v->start);
            vma_remove(mm, i, 1);
        } else {
            i++;
        }
    }
}

void vma_view_drop(struct mm *mm, struct vmap *m)
{
    view_disable(mm, m, 0, 0);
    view_sweep(mm, m);
}

/* `host`: also the host mapping; otherwise the caller maps over it at once. */
long vma_unmap(struct mm *mm, u64 start, u64 end, bool host)
{
    u32 i = vma_lower(mm, start);
    if (i == mm->count || mm->vmas[i].start >= end)
        return 0;
    if (vma_reserve(mm, 2))
        return -ENOMEM;
    vma_split(mm, start);
    vma_split(mm, end);
    track_open(mm, start, end);
    i = vma_lower(mm, start);
    u32 n = 0;
    while (i + n < mm->count && mm->vmas[i + n].start < end) {
        struct vma *v = &mm->vmas[i + n++];
        if (v->flags & VM_HIDDEN && v->map)
            view_disable(mm, v->map, start, end);
        else if (v->flags & VM_HIDDEN)
            mm_hot_undo(mm);
    }
    if (host) {
        long r = host_munmap(start, end - start);
        if (r) {
            vma_merge(mm, start, end);
            return r;
        }
    }
    /* Views whose text is touched: swept after the removal, one at a time (a range seldom has more than one). */
    for (;;) {
        struct vmap *view = NULL;
        i = vma_lower(mm, start);
        n = 0;
        while (i + n < mm->count && mm->vmas[i + n].start < end) {
            struct vma *v = &mm->vmas[i + n++];
            if (v->flags & (VM_VIEW | VM_HIDDEN)) { /* text or trampolines */
                view = v->map;
                break;
            }
        }
        if (!n)
            return 0;
        if (view)
            atomic_add(&view->refs, 1);
        vma_remove(mm, i, n);
        if (view) {
            view_sweep(mm, view);
            vmap_put(mm, view);
        }
    }
}

struct mm *mm_new(void)
{
    struct mm *mm = knew(struct mm);
    if (mm)
        mm->refs = 1;
    return mm;
}

void mm_get(struct mm *mm) { atomic_add(&mm->refs, 1); }

static void mm_forget(struct mm *mm)
{
    vma_remove(mm, 0, mm->count);
    mm->total_pages = 0;
    mm->brk = mm->brk_start = 0;
    mm->def_flags = 0;
}

void mm_drop(struct mm *mm)
{
    mm_lock(mm);
    mm_forget(mm);
    struct vma *vmas = mm->vmas;
    struct file *exe = mm->exe;
    struct mm_args *args = mm->args;
    struct mm_hot *hot = mm->hot;
    mm->args = NULL;
    mm->hot = NULL;
    mm->vmas = NULL;
    mm->cap = 0;
    mm->exe = NULL;
    mm_unlock(mm);
    kfree(vmas);
    kfree(hot);
    mm_args_put(args);
    if (exe) {
        allow_write(exe);
        file_put(exe);
    }
}

void mm_put(struct mm *mm)
{
    if (atomic_sub(&mm->refs, 1))
        return;
    mm_drop(mm);
    kfree(mm);
}

void mm_set_args(struct mm *mm, const char *strings, u64 args, u64 size)
{
    size = MIN(size, (u64)MM_ARGS_MAX);
    struct mm_args *a = kmalloc(sizeof(*a) + size), *old;
    if (a) {
        a->refs = 1;
        a->args = (u32)MIN(args, size);
        a->size = (u32)size;
        memcpy(a->data, strings, size);
    }
    mm_lock(mm);
    old = mm->args;
    mm->args = a;
    mm_unlock(mm);
    mm_args_put(old);
}

struct mm_args *mm_args_get(struct mm *mm)
{
    mm_lock(mm);
    struct mm_args *a = mm->args;
    if (a)
        atomic_add(&a->refs, 1);
    mm_unlock(mm);
    return a;
}

void mm_args_put(struct mm_args *a)
{
    if (a && !atomic_sub(&a->refs, 1))
        kfree(a);
}

void mm_clear(struct mm *mm)
{
    mm_lock(mm);
    long r = host_munmap(GUEST_MIN, GUEST_END - GUEST_MIN);
    if (r)
        panic("exec: munmap: %ld", r);
    mm->closed = 0;
    mm->plain = false;
    mm_unlock(mm);
    mm_drop(mm);
}

struct mm *mm_copy(struct mm *old)
{
    struct mm *mm = kmalloc(sizeof(*mm));
    if (!mm)
        return NULL;
    memcpy(mm, old, sizeof(*mm));
    memset(&mm->lock, 0, sizeof(mm->lock));
    memset(&mm->carrier_lock, 0, sizeof(mm->carrier_lock));
    memset(&mm->closed_lock, 0, sizeof(mm->closed_lock));
    memset(&mm->visit_lock, 0, sizeof(mm->visit_lock));
    memset(&mm->visits, 0, sizeof(mm->visits));
    memset(mm->carriers, 0, sizeof(mm->carriers));
    mm->refs = 1;
    mm->live_carriers = 0;
    mm->dead = NULL;
    mm->def_flags = 0;
    mm->cap = MAX(mm->count + 4, 16u);
    mm->vmas = kmalloc((size_t)mm->cap * sizeof(struct vma));
    if (!mm->vmas || !mm_hot_copy(mm, old)) {
        kfree(mm->vmas);
        kfree(mm);
        return NULL;
    }
    memcpy(mm->vmas, old->vmas, (size_t)mm->count * sizeof(struct vma));
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        v->flags &= ~VM_LOCKED;
        if (v->map)
            atomic_add(&v->map->refs, 1);
    }
    if (mm->args)
        atomic_add(&mm->args->refs, 1);
    if (mm->exe) {
        file_get(mm->exe);
        if (deny_write(mm->exe)) /* cannot fail: the parent's hold keeps writers out */
            panic("fork: executable is open for writing");
    }
    return mm;
}

void mm_after_fork(struct mm *mm)
{
    mm_lock(mm);
    for (u32 i = 0; i < mm->count;) {
        struct vma v = mm->vmas[i];
        if (v.flags & VM_DONTFORK && !vma_unmap(mm, v.start, v.end, true))
            i = vma_lower(mm, v.end);
        else
            i++;
    }
    mm_unlock(mm);
}
