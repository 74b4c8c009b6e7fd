/* The part of a task that the core knows: first member of struct task (entry.S tests `work` at offset 0). */
#ifndef HARENA_CORE_TASK_CORE_H
#define HARENA_CORE_TASK_CORE_H

#include "core/wait.h"

#define WORK_SIGNAL 1u  /* an unblocked signal is pending, or the group stops */
#define WORK_EXIT 2u    /* the task must end: group exit, exec by another thread, SIGKILL */
#define WORK_BARRIER 16u /* membarrier(2) waits for this task to pass the exit path */
#define WORK_CUT 32u     /* mapped files became shorter */
#define WORK_FREEZE 64u  /* the task is to park: proc/freeze.h */
#define WORK_VISIT 128u  /* somebody wants to see memory of its process: proc/visit.h */
#define WORK_PTRACE 256u /* a stop for the tracer is to be made, or being made: proc/ptrace.h */
#define WORK_CPU 8u     /* timers on cpu time are to be looked at */
#define WORK_MASK 4u    /* a saved signal mask must be put back */

#define WAKE_RUNNING 0u
#define WAKE_PENDING 1u
#define WAKE_SLEEPING 2u

#define TASK_WAITERS 6

struct task_core {
    u32 work;
    u32 wake; /* WAKE_*: the futex word it sleeps on */
    u32 in_kernel; /* its carrier runs kernel code that may hold references: see proc/dead.c */
    u32 host_tid; /* of its carrier; written by the host's clone (PARENT_SETTID) */
    u32 host_pid; /* of its stub */
    struct mutex alive; /* as long as a carrier carries the task */
    bool wants_rest; /* then: a read whose caller waits for all it asked for has got a part */
    bool froze; /* the call's sleep ended because of WORK_FREEZE and nothing else */
    u32 spin_misses, spin_skipped; /* wait.c */
    u32 waiter_base; /* those below belong to a sleep that serves a visit */
    u32 waiter_count;
    struct waiter waiters[TASK_WAITERS];
};

#endif
