/* Signals for other modules: signalfd, temporary masks. */
#ifndef HARENA_PROC_SIGNAL_H
#define HARENA_PROC_SIGNAL_H

#include "core/wait.h"

long signal_dequeue(u64 mask, void *info128); /* signal number of one pending in mask, info filled; 0 none */
u64 signal_pending_set(void); /* thread and group */
struct waitq *signal_waitq(void); /* woken when a signal is queued to the caller's group */
void signal_set_temp_mask(u64 mask);

#endif
