/* POSIX timers (posix_timer.c): what the rest of the kernel tells them. tasklist_lock held in all. */
#ifndef HARENA_PROC_POSIX_TIMER_H
#define HARENA_PROC_POSIX_TIMER_H

#include "base/types.h"

struct tgroup;
void posix_timers_cpu_locked(struct tgroup *tg, u64 now, u64 *next); /* cpu_watch_check: sends what is due */
void posix_timer_dequeued_locked(struct tgroup *tg, int *info); /* a signal of SI_TIMER is taken: its overrun is filled in */
void posix_timers_drop_locked(struct tgroup *tg); /* exec and exit */

#endif
