/* The page file: private memory of a frozen sandbox's address spaces. Written by copies of its processes (dump.c) into a sparse
 * memfd, read by the kernel of the sandboxes made from it (restore.c); nothing on the host's side looks into it.
 *
 * At 0 lies struct pages_head. Tables of extents and pages follow, allocated in whole pages. An extent is a piece of
 * one mapping whose pages lie in this file or, for what had not changed since, in the file of a lower level. Pages of a private
 * mapping without an extent show what the mapping itself shows: zeroes, or its file.
 *
 * The head names an address space by its struct mm's address, which is the same in the snapshot's K. A snapshot of a sandbox
 * that was restored from another, or of which another was taken before, lies on that one's page files: each mm remembers which
 * address space its memory was (its parent's, before a fork) and in the file of which order. An order is a base only when its files are
 * safe, and the sandbox is not told of that before the next one. So there are two, the last that was known to be a base, and one that
 * may have become it. */
#ifndef HARENA_SNAPSHOT_PAGES_H
#define HARENA_SNAPSHOT_PAGES_H

#include "base/layout.h"
#include "base/types.h"

#define PAGES_MAGIC 0x7365676170727648ull
#define PAGES_MM_MAX 2000

struct pages_extent {
    u64 addr;
    u64 off; /* in the file of its level */
    u32 count; /* pages */
    u32 level;
};

struct pages_mm {
    u64 mm;
    u64 table; /* offset of its extents, by address */
    u64 count;
};

struct pages_begin {
    u64 magic;
    u32 level; /* of this file */
    u32 mm_count;
};

struct pages_head {
    struct pages_begin b;
    struct pages_mm mm[PAGES_MM_MAX];
};
#define PAGES_HEAD_SIZE PAGE_UP(sizeof(struct pages_head))

static inline struct pages_head *pages_level(u32 n) { return (struct pages_head *)(BASE_WINDOW + n * BASE_STRIDE); }

struct mm;
struct vma;

/* The page files of lower levels are in FD_BASE0 ... */
void pages_map_levels(u32 levels);
/* The extents of an address space, and how far one has come in them. */
struct pages_table {
    const struct pages_extent *e;
    u64 count, at;
};
/* Returns false when there are none or they lie outside the level's file. */
bool pages_table(const void *mm, u32 level, struct pages_table *t);
/* Is all of the mapping stored, so that its original is not needed? */
bool pages_pinned(const struct vma *v);

#endif
