/* Carrier slots of a stub: stacks of its host threads (layout in arch/x86_64/regs.h). */
#ifndef HARENA_PROC_SLOT_H
#define HARENA_PROC_SLOT_H

#include "base/types.h"

struct mm;
long slot_prepare(u32 slot);
struct carrier *slot_take(struct mm *mm); /* a free slot with its carrier set up; NULL */
void slot_give_back(struct mm *mm, u32 slot);

#endif
