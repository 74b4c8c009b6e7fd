/* Processor time of tasks and groups, and the timers that run on it (cputime.c). Times in ns. */
#ifndef HARENA_PROC_CPUTIME_H
#define HARENA_PROC_CPUTIME_H

#include "base/types.h"

struct task;
struct tgroup;

u64 cputime_stub(void);         /* the calling stub's clock */
u64 cputime_thread(void);       /* of the calling task */
u64 cputime_group(void);        /* of the calling task's group */
u64 cputime_seen(struct tgroup *tg); /* of any group: as of the last time it looked itself */
u64 cputime_ask_locked(struct tgroup *tg); /* the same; running tasks are made to look, so that the next answer is newer */
void cputime_leave_stub(struct task *t); /* exec moves t to another stub: what it used counts on */
void cputime_enter_stub(struct task *t);
void cputime_parks(struct task *t);    /* the calling task is frozen, and may */
void cputime_restored(struct task *t); /* come back on another host thread */
void cputime_task_ends_locked(struct task *t); /* the calling task */
void cputime_children_locked(struct tgroup *parent, struct tgroup *child); /* child is being reaped */

/* Some timer of tg on cpu time was set: it is looked at in `ns` of cpu time at the earliest. */
void cpu_watch_locked(struct tgroup *tg, u64 ns);
void cpu_watch_check(struct task *t); /* WORK_CPU: the calling task looks at the timers of its group */
void cpu_watch_start(struct task *t); /* exec, setrlimit: RLIMIT_CPU may be finite */

#endif
