/* Windows of D: contiguous, sparse ranges of the data segment. D is mapped whole at D_BASE in every stub;
 * a window's host memory appears on first touch and reads as zeroes before. An inode that may be mapped owns
 * its windows until no mm maps them (the guest can never see another file's old data: freed ranges are punched before
 * reuse). Sizes are rounded up to powers of four pages. */
#ifndef HARENA_CORE_DFRAME_H
#define HARENA_CORE_DFRAME_H

#include "base/layout.h"
#include "base/types.h"

/* Reserves address space of at least `size` bytes, page aligned. 0 on failure. *got = real size. Offsets in D. */
u64 dwin_alloc(u64 size, u64 *got);
void dwin_free(u64 off, u64 size); /* punches and returns it; size as *got said */
void dwin_free_clean(u64 off, u64 size); /* the caller has zeroed what it wrote: small windows are kept with their memory */
void dwin_punch(u64 off, u64 size); /* page aligned; gives memory back, reads as zeroes afterwards */
static inline void *dwin_ptr(u64 off) { return (void *)(D_BASE + off); }

/* Accounting of pages in use by file data (limit of tmpfs and of the sandbox): -ENOSPC when over the limit. */
long dpages_charge(u64 pages);
void dpages_uncharge(u64 pages);
u64 dpages_used(void);
u64 dpages_limit(void);
void dpages_set_limit(u64 pages); /* 0: none */

/* The sandbox's memory. Files in memory may fill half of it (dpages), as on Linux; a single piece of anonymous memory that is
 * larger than all of it is refused. Beyond that pages are the host's: its limit (cgroup) kills the largest process. */
void memory_set_limit(u64 bytes);
u64 memory_limit(void); /* bytes; ~0: none */

#endif
