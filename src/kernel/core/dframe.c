/* Windows of D: sizes are powers of four pages; a free list per size, refilled from a bump pointer. A freed window is
 * punched at once when large, so that its memory goes back to the host and it reads as zeroes when reused. */
#include "core/dframe.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/mutex.h"
#include "host/host.h"
#include "base/string.h"
#include <asm/mman.h>

#define SIZES 14 /* 4 KiB * 4^13 = 256 GiB */

struct free_win {
    struct free_win *next;
    u64 off;
};

static KSTATE struct {
    struct mutex lock;
    u64 next; /* bump pointer */
    struct free_win *free[SIZES];
    u32 free_count[SIZES];
    u64 used_pages, limit_pages;
    u64 memory_limit;
} dspace;

static int size_index(u64 size)
{
    int i = 0;
    while (i < SIZES && (PAGE_SIZE << (2 * i)) < size)
        i++;
    return i;
}

u64 dwin_alloc(u64 size, u64 *got)
{
    int i = size_index(size);
    if (i >= SIZES)
        return 0;
    u64 real = PAGE_SIZE << (2 * i), off = 0;
    mutex_lock(&dspace.lock);
    struct free_win *w = dspace.free[i];
    if (w) {
        dspace.free[i] = w->next;
        dspace.free_count[i]--;
        off = w->off;
    } else {
        if (!dspace.next)
            dspace.next = 1ul << 20; /* offset 0 stays invalid */
        u64 at = ALIGN_UP(dspace.next, MIN(real, 2ul << 20));
        if (at + real <= D_SIZE) {
            dspace.next = at + real;
            off = at;
        }
    }
    mutex_unlock(&dspace.lock);
    if (w)
        kfree(w);
    *got = real;
    return off;
}

static void give_back(u64 off, u64 size)
{
    struct free_win *w = kmalloc(sizeof(*w));
    if (!w)
        return; /* address space is lost, memory is not */
    int i = size_index(size);
    w->off = off;
    mutex_lock(&dspace.lock);
    w->next = dspace.free[i];
    dspace.free[i] = w;
    dspace.free_count[i]++;
    mutex_unlock(&dspace.lock);
}

void dwin_free(u64 off, u64 size)
{
    dwin_punch(off, size);
    give_back(off, size);
}

/* Host calls cost microseconds: up to CLEAN_BYTES of each small size keep their memory. */
#define CLEAN_SIZE_MAX 65536u
#define CLEAN_BYTES (1u << 20)

void dwin_free_clean(u64 off, u64 size)
{
    if (size > CLEAN_SIZE_MAX || (u64)atomic_load_relaxed(&dspace.free_count[size_index(size)]) * size >= CLEAN_BYTES)
        dwin_punch(off, size);
    give_back(off, size);
}

void dwin_punch(u64 off, u64 size)
{
    if (size)
        host_madvise(D_BASE + off, size, MADV_REMOVE);
}

long dpages_charge(u64 pages)
{
    u64 used = atomic_add(&dspace.used_pages, pages);
    if (dspace.limit_pages && used > dspace.limit_pages) {
        atomic_sub(&dspace.used_pages, pages);
        return -ENOSPC;
    }
    return 0;
}

void dpages_uncharge(u64 pages) { atomic_sub(&dspace.used_pages, pages); }
u64 dpages_used(void) { return atomic_load(&dspace.used_pages); }
u64 dpages_limit(void) { return dspace.limit_pages; }
void dpages_set_limit(u64 pages) { dspace.limit_pages = pages; }

void memory_set_limit(u64 bytes)
{
    dspace.memory_limit = bytes;
    dpages_set_limit(bytes ? MAX(bytes / 2 / PAGE_SIZE, 256ul) : 0);
}

u64 memory_limit(void) { return dspace.memory_limit ? dspace.memory_limit : ~0ull; }
