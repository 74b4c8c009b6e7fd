#ifndef HARENA_PROC_FUTEX_H
#define HARENA_PROC_FUTEX_H

#include "base/types.h"

struct task;
long futex_wake_addr(uptr addr, u32 count);
void futex_forget(struct task *t); /* it waits no more: it ends, perhaps frozen in its wait */
bool futex_interrupted(struct task *t, long *result);
void futex_exit(struct task *t); /* robust list of an ending task */

#endif
