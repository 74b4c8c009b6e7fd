#ifndef HARENA_PROC_EXEC_H
#define HARENA_PROC_EXEC_H

#include "base/types.h"

struct exec_args;
struct mm;
struct task;
void exec_finish(struct task *t, struct exec_args *a); /* loads the program into t->mm; the exit path then enters it */
noreturn_fn void carrier_leave(struct mm *mm, u32 slot); /* exit.c */
void task_replace_leader_locked(struct task *me); /* task.c: takes over the group id */

#endif
