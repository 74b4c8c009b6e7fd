/* Kernel timers: a sorted list served by init's service thread. Callbacks run there with no lock held but
 * ktimer->lock and may not sleep. */
#ifndef HARENA_TIME_TIMER_H
#define HARENA_TIME_TIMER_H

#include "base/list.h"
#include "base/types.h"

struct mutex;

struct ktimer { /* in K; zeroed before first use */
    struct list link;
    u64 deadline; /* CLOCK_MONOTONIC ns */
    void (*fn)(struct ktimer *t);
    struct mutex *lock; /* of the owner, or NULL: held while fn runs, so that a timer cancelled under it can be freed. A lock that is
                         * never freed itself; it comes before the timers' own. */
};

void ktimer_set(struct ktimer *t, u64 deadline); /* (re)arms */
bool ktimer_cancel(struct ktimer *t); /* true: was armed and will not run */
u64 ktimers_run(void); /* service thread: runs what is due, returns the next deadline */

/* Wakes init's service thread (new earliest timer, spare stubs used up). */
void service_wake(void);
void service_wake_later(void); /* the same, after the last unlock */

#endif
