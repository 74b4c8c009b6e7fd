/* Sleeping and waking: the one way.
 *
 * A task sleeps by futex-waiting on its own word (task->wake); wakers store, then wake. A wait queue lists
 * waiters; they lie in K (task->waiters, or kmalloc'd), since other processes walk the list and kernel stacks are private.
 *
 *     for (;;) {                            A wake between the check of the condition and the sleep is not lost.
 *         wait_prepare(&q);
 *         if (condition) break;
 *         r = wait_sleep(deadline);         0 woken, -ETIMEDOUT, -EINTR (signal, freeze, exit)
 *         if (r) break;
 *     }
 *     wait_finish();                        unlinks from all queues
 *
 * Without a queue: wait_begin() in place of wait_prepare(), and the waker stores and calls task_wake(). Both forget an earlier wake, with a
 * full barrier: would the look at the condition come before that store, a wake in between were lost.
 *
 * -EINTR is turned into -ERESTARTSYS by the caller where the call is restartable. The condition may be checked
 * under the object's lock; wait_sleep is called with no lock held. Macros below do the common case. */
#ifndef HARENA_CORE_WAIT_H
#define HARENA_CORE_WAIT_H

#include "base/list.h"
#include "core/mutex.h"
#include "host/host.h"

struct task;

struct waitq {
    struct mutex lock;
    struct list waiters;
};

/* In K, part of struct task (inline pool) or kmalloc'd (epoll, poll of many). If `func` is set it is called under
 * q->lock instead of waking the task (epoll); it must not sleep. Returns true if it consumed an exclusive wake. */
struct waiter {
    struct list link;
    struct waitq *q;
    struct task *task;
    bool exclusive;
    bool (*func)(struct waiter *w, u32 events);
    void *data;
};

void wait_begin(void);
void wait_prepare(struct waitq *q);           /* links one of the task's inline waiters (idempotent per q) */
void wait_prepare_exclusive(struct waitq *q); /* woken one at a time, FIFO */
must_check long wait_sleep(u64 deadline);     /* absolute CLOCK_MONOTONIC ns, or NO_DEADLINE */
must_check long wait_sleep_freezable(u64 deadline); /* the same for a fatal signal and freezing only */
must_check long wait_sleep_killable(u64 deadline); /* -EINTR for a fatal signal only */
void wait_finish(void);

void waitq_add(struct waitq *q, struct waiter *w); /* explicit waiters, for poll and epoll */
void waitq_remove(struct waiter *w);
void wake_up(struct waitq *q, u32 events);     /* everybody non-exclusive + one exclusive */
void wake_up_all(struct waitq *q, u32 events);
static inline bool waitq_active(struct waitq *q) { __atomic_thread_fence(__ATOMIC_SEQ_CST); return !list_empty(&q->waiters); }

void task_wake(struct task *t); /* sets its wake word; it returns from wait_sleep */

/* Sleeps until `cond`; evaluates to 0, -EINTR or -ETIMEDOUT. */
#define wait_event_deadline(q, cond, deadline)                                                                         \
    ({                                                                                                                 \
        long _r = 0;                                                                                                   \
        while (!(cond)) {                                                                                              \
            wait_prepare(q);                                                                                           \
            if (cond)                                                                                                  \
                break;                                                                                                 \
            _r = wait_sleep(deadline);                                                                                 \
            if (_r)                                                                                                    \
                break;                                                                                                 \
        }                                                                                                              \
        wait_finish();                                                                                                 \
        _r;                                                                                                            \
    })
#define wait_event(q, cond) wait_event_deadline(q, cond, NO_DEADLINE)

#endif
