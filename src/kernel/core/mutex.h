/* The kernel's only lock: a sleeping mutex in K, robust.
 *
 * The word holds the owner's host tid, plus MUTEX_WAITERS. Uncontended lock and unlock are one atomic each.
 * A contender spins briefly, then futex-waits. Every held mutex is linked into its carrier's robust list:
 * when a host thread dies with a mutex held, the host marks the word, and the next contender panics the
 * sandbox ("a holder died") instead of hanging.
 *
 * Wakes wait for the unlock: whoever is woken would only run into the waker's locks. wake_word() puts the sleeper's word into
 * the carrier, and the release of the outermost mutex does the host call. Words lie in K and a futex wake too many is harmless,
 * so a task that was freed meanwhile does no harm.
 *
 * Not recursive. Never sleep (wait_event, host request) with a mutex held unless the module header says so;
 * copying to or from guest memory under a mutex is allowed (faults are served by the host), except under mm->lock.
 * Lock order: outermost first, see the module headers; global order:
 *     tasklist_lock > mm->lock > inode->lock (parent before child) > dcache_lock > pipe/socket/files/epoll locks > waitq
 *     locks > allocator locks. */
#ifndef HARENA_CORE_MUTEX_H
#define HARENA_CORE_MUTEX_H

#include "base/types.h"

struct mutex {
    u32 word;
    u32 pad;
    struct mutex *next; /* robust list of the holder; tagged by the host ABI, see mutex.c */
};

#define MUTEX_WAITERS 0x80000000u
#define MUTEX_DIED 0x40000000u

void mutex_lock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);

/* A mark of life: as if held by the carrier from begin to end, both called with no lock held; begin ends another one. When the host kills the
 * carrier's thread in between, mutex_died() is true. */
void alive_begin(struct mutex *m);
void alive_end(struct mutex *m);
static inline bool mutex_died(const struct mutex *m) { return atomic_load_relaxed(&m->word) & MUTEX_DIED; }
void wake_word(u32 *word); /* wakes one that futex-waits on it, after the last unlock */
bool mutex_held(const struct mutex *m); /* by this carrier */
bool mutex_none_held(void); /* by this carrier */

#endif
