/* See track.h. */
#include "mm/track.h"

#include <linux/mman.h>

#include "base/err.h"
#include "base/layout.h"
#include "host/host.h"
#include "mm/mm.h"

#define CHUNK (256ul << 10)
#define RANGE_CHUNKS 1024u /* of a larger range the chunks are larger: each can become a mapping of the host, which has 65530 */
#define CHUNKS 16384u
#define RANGES 8192u
#define TABLE_SIZE PAGE_UP(sizeof(struct table))

enum state { OPEN, /* not looked after */ CLOSED, WRITTEN /* was closed */ };

struct range {
    u64 start, end, chunk;
    u32 prot, first; /* first: in state[] */
};

struct table {
    u32 count, chunks;
    struct range range[RANGES];
    u8 state[CHUNKS];
};

static struct table *table(void) { return (struct table *)TRACK_TABLE; }

/* The first range that ends behind addr. */
static struct range *lower(u64 addr)
{
    u32 low = 0, high = table()->count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (table()->range[middle].end <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table()->count ? &table()->range[low] : NULL;
}

static u8 *state_at(const struct range *r, u64 addr) { return &table()->state[r->first + (addr - r->start) / r->chunk]; }
static u64 chunk_end(const struct range *r, u64 addr) { return MIN(r->end, addr + r->chunk - (addr - r->start) % r->chunk); }
static u64 chunk_start(const struct range *r, u64 addr) { return addr - (addr - r->start) % r->chunk; }

bool track_begin(struct mm *mm, u32 order)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (!mm->closed && is_err(host_mmap(TRACK_TABLE, TABLE_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0)))
        return false;
    mm->closed = order;
    table()->count = table()->chunks = 0;
    return true;
}

void track_close(u64 start, u64 end, u32 prot)
{
    struct table *t = table();
    u64 chunk = CHUNK;
    while (end - start > chunk * RANGE_CHUNKS)
        chunk *= 2;
    u32 n = (u32)((end - start + chunk - 1) / chunk);
    if (t->count == RANGES || n > CHUNKS - t->chunks ||
        (prot & PROT_WRITE && host_mprotect(start, end - start, (int)(prot & ~(u32)PROT_WRITE)))) {
        host_mprotect(start, end - start, (int)prot); /* it may have been closed before */
        return;
    }
    t->range[t->count++] = (struct range){start, end, chunk, prot, t->chunks};
    for (u32 i = 0; i < n; i++)
        t->state[t->chunks++] = CLOSED;
}

/* The host may have too many mappings for another: then all that is closed on both sides, which is one with it. */
static bool unprotect(const struct range *r, u64 start, u64 end)
{
    if (!host_mprotect(start, end - start, (int)r->prot))
        return true;
    for (; start > r->start && *state_at(r, start - 1) == CLOSED; start = chunk_start(r, start - 1))
        *state_at(r, start - 1) = WRITTEN;
    for (; end < r->end && *state_at(r, end) == CLOSED; end = chunk_end(r, end))
        *state_at(r, end) = WRITTEN;
    return !host_mprotect(start, end - start, (int)r->prot);
}

static void open_range(struct range *r, u64 start, u64 end)
{
    u64 run = 0, at;
    for (at = chunk_start(r, MAX(start, r->start)); at < MIN(end, r->end); at = chunk_end(r, at)) {
        u8 *state = state_at(r, at);
        if (*state != OPEN) { /* one that was written, too: a fork may have come in between */
            run = run ? run : at;
        } else if (run) {
            unprotect(r, run, at);
            run = 0;
        }
        *state = OPEN;
    }
    if (run)
        unprotect(r, run, at);
}

void track_open(struct mm *mm, u64 start, u64 end)
{
    if (!mm->closed)
        return;
    mutex_lock(&mm->closed_lock);
    struct range *r = lower(start), *stop = table()->range + table()->count;
    for (; r && r < stop && r->start < end; r++)
        open_range(r, start, end);
    mutex_unlock(&mm->closed_lock);
}

bool track_fault(struct mm *mm, u64 addr)
{
    bool again = false;
    mutex_lock(&mm->closed_lock);
    struct range *r = lower(addr);
    if (r && addr >= r->start && r->prot & PROT_WRITE && *state_at(r, addr) != OPEN) {
        *state_at(r, addr) = WRITTEN;
        again = unprotect(r, chunk_start(r, addr), chunk_end(r, addr));
    }
    mutex_unlock(&mm->closed_lock);
    return again;
}

bool track_closed(u64 addr, u64 *until)
{
    struct range *r = lower(addr);
    if (!r || addr < r->start) {
        *until = r ? r->start : GUEST_END;
        return false;
    }
    *until = chunk_end(r, addr);
    return *state_at(r, addr) == CLOSED;
}
