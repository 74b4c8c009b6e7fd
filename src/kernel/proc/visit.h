/* Memory of other processes. Only the host process of an address space can touch its private memory, so one of its tasks does it for
 * whoever asks: the work bit WORK_VISIT and a kick bring it to the exit path, or it does it in its sleep (core/wait.c), which goes on
 * afterwards.
 *
 * A visit is a buffer in K on mm->visits. While it is queued, who asked may take it back - freezing, death - once it is being
 * served it waits for its end, which is near. A visit is served by any task of the mm; if the one that was kicked ends, or sleeps where it
 * cannot serve, another is asked a little later. */
#ifndef HARENA_PROC_VISIT_H
#define HARENA_PROC_VISIT_H

#include "base/types.h"

struct mm;

#define VISIT_MAX 65536u

/* how: MM_WRITE, MM_FORCE (mm/mm.h). mm: referenced; of task tid, or of another of its group. At most VISIT_MAX bytes. Bytes done, fewer
 * where memory cannot be accessed; -ESRCH: nobody runs in it any more; -ENOMEM; -ERESTARTNOINTR: to be asked again (freezing). */
long visit(struct mm *mm, u32 tid, u64 addr, void *buf, u64 size, u32 how);
void visits_serve(void); /* by a task of the mm that holds no lock */

#endif
