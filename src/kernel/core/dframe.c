/* Windows of D: sizes are powers of four pages; free lists per size, refilled from a bump pointer.
 *
 * A free window is either empty - punched, so that its memory has gone back to the host and it reads as zeroes - or kept: small, zeroed by who
 * had it, with its memory. Host calls cost microseconds, whatever the size of what they punch: so kept windows are collected,
 * and when there are too many the older half is sorted and given back in as few calls as possible. */
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

#define KEPT_SIZE_MAX 65536u
#define KEPT_BYTES (2u << 20) /* of each size */

static KSTATE struct {
    struct mutex lock;
    u64 next; /* bump pointer */
    struct free_win *empty[SIZES], *kept[SIZES];
    u32 kept_count[SIZES];
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
    struct free_win **list = dspace.kept[i] ? &dspace.kept[i] : &dspace.empty[i], *w = *list;
    if (w) {
        dspace.kept_count[i] -= list == &dspace.kept[i];
        *list = w->next;
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

void dwin_punch(u64 off, u64 size)
{
    if (size)
        host_madvise(D_BASE + off, size, MADV_REMOVE);
}

void dwin_free(u64 off, u64 size)
{
    struct free_win *w = kmalloc(sizeof(*w));
    dwin_punch(off, size);
    if (!w)
        return; /* address space is lost, memory is not */
    int i = size_index(size);
    w->off = off;
    mutex_lock(&dspace.lock);
    w->next = dspace.empty[i];
    dspace.empty[i] = w;
    mutex_unlock(&dspace.lock);
}

static struct free_win *merge(struct free_win *a, struct free_win *b)
{
    struct free_win *first = NULL, **end = &first;
    while (a && b) {
        struct free_win **less = a->off < b->off ? &a : &b;
        *end = *less;
        end = &(*end)->next;
        *less = (*less)->next;
    }
    *end = a ? a : b;
    return first;
}

static struct free_win *sort(struct free_win *list)
{
    struct free_win *piles[32] = {NULL}; /* of 2^i windows each */
    while (list) {
        struct free_win *pile = list;
        u32 i = 0;
        list = list->next;
        pile->next = NULL;
        for (; i < ARRAY_COUNT(piles) - 1 && piles[i]; i++) {
            pile = merge(piles[i], pile);
            piles[i] = NULL;
        }
        piles[i] = merge(piles[i], pile);
    }
    for (u32 i = 0; i < ARRAY_COUNT(piles); i++)
        list = merge(piles[i], list);
    return list;
}

/* Windows of one size that are on no list. */
static void give_back(struct free_win *list, u64 size)
{
    struct free_win *first = sort(list), *last = NULL;
    u64 start = 0, end = 0;
    for (struct free_win *w = first; w; w = w->next) {
        if (w->off != end) {
            dwin_punch(start, end - start);
            start = w->off;
        }
        end = w->off + size;
        last = w;
    }
    dwin_punch(start, end - start);
    int i = size_index(size);
    mutex_lock(&dspace.lock);
    last->next = dspace.empty[i];
    dspace.empty[i] = first;
    mutex_unlock(&dspace.lock);
}

/* dspace.lock held: the older half, when there are too many. */
static struct free_win *take_old(int i)
{
    u32 keep = KEPT_BYTES / 2 / (u32)(PAGE_SIZE << (2 * i));
    if (dspace.kept_count[i] < 2 * keep)
        return NULL;
    struct free_win **p = &dspace.kept[i], *old;
    for (u32 n = 0; n < keep; n++)
        p = &(*p)->next;
    old = *p;
    *p = NULL;
    dspace.kept_count[i] = keep;
    return old;
}

void dwin_free_clean(u64 off, u64 size)
{
    struct free_win *w = size <= KEPT_SIZE_MAX ? kmalloc(sizeof(*w)) : NULL, *old;
    if (!w) {
        dwin_free(off, size);
        return;
    }
    int i = size_index(size);
    w->off = off;
    mutex_lock(&dspace.lock);
    w->next = dspace.kept[i];
    dspace.kept[i] = w;
    dspace.kept_count[i]++;
    old = take_old(i);
    mutex_unlock(&dspace.lock);
    if (old)
        give_back(old, size);
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
