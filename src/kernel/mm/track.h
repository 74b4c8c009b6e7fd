/* Which memory has changed since a snapshot, without the host's help.
 *
 * When the copy of a process that writes its pages has been forked off, the process's private memory is closed: the host
 * lets it be read only, in chunks. The first write to a chunk faults and opens it again. What is still closed at the next snapshot is as
 * the page file of the last says, and nobody has to look at it. Whatever else may change what a range shows (unmapping, mapping over it,
 * mprotect, mremap, advice) opens it before, so: a closed chunk lies in one vma, and but for PROT_WRITE the host has its protection.
 *
 * The table lies in the process's own memory at TRACK_TABLE: a child of fork, and the copy that writes pages, have theirs as of then.
 * mm->closed is the order it is for; 0: there is none, and nothing here costs anything.
 *
 * A fault may come from kernel code that holds any lock but mm->lock: mm->closed_lock is the innermost of all. Chunks are marked before
 * the host is told, so that a fork in between errs on the safe side. */
#ifndef HARENA_MM_TRACK_H
#define HARENA_MM_TRACK_H

#include "base/types.h"

struct mm;

/* All tasks are parked. Ranges in ascending order, each in one vma; then the table is in force. */
bool track_begin(struct mm *mm, u32 order);
void track_close(u64 start, u64 end, u32 prot);

/* Under mm->lock, or all tasks are parked: before [start, end) is changed but by writing. */
void track_open(struct mm *mm, u64 start, u64 end);
bool track_fault(struct mm *mm, u64 addr); /* of a write; true: try again */

/* In any copy of the process: is addr in a chunk that was not written? *until: as far as that is so. */
bool track_closed(u64 addr, u64 *until);

#endif
