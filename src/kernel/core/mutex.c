/* See mutex.h. The robust list follows the host ABI (Documentation/locking/robust-futex-ABI.rst): a list of nodes whose
 * futex word lies at a fixed offset from them; here the node is mutex.next and the word lies 8 bytes before it. */
#include "core/mutex.h"
#include "arch/x86_64/regs.h"
#include "core/errno.h"
#include "core/panic.h"
#include "host/host.h"
#include "host/hostabi.h"

#define SPIN_ROUNDS 200

static void push_held(struct carrier *c, struct mutex *m)
{
    m->next = c->robust.next;
    __asm__ volatile("" ::: "memory");
    c->robust.next = &m->next;
}

static void pop_held(struct carrier *c, struct mutex *m)
{
    void **link = &c->robust.next;
    while (*link != &m->next)
        link = *link;
    *link = m->next;
}

static noreturn_fn void holder_died(struct mutex *m)
{
    (void)m;
    give_up(137, "a process was killed from outside (out of memory?) inside the sandbox's kernel; the sandbox ends");
}

static void lock_slow(struct mutex *m, u32 tid)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_relaxed(&m->word) == 0 && atomic_cas(&m->word, 0, tid))
            return;
        cpu_relax();
    }
    for (;;) {
        u32 v = atomic_load(&m->word);
        if (v == 0) {
            if (atomic_cas(&m->word, 0, tid | MUTEX_WAITERS)) /* others may still wait */
                return;
            continue;
        }
        if (v & MUTEX_DIED)
            holder_died(m);
        if (!(v & MUTEX_WAITERS) && !atomic_cas(&m->word, v, v | MUTEX_WAITERS))
            continue;
        host_futex_wait(&m->word, v | MUTEX_WAITERS, NO_DEADLINE);
    }
}

void mutex_lock(struct mutex *m)
{
    struct carrier *c = this_carrier();
    c->robust.pending = &m->next;
    if (!likely(atomic_cas(&m->word, 0, c->tid)))
        lock_slow(m, c->tid);
    push_held(c, m);
    c->robust.pending = NULL;
}

bool mutex_trylock(struct mutex *m)
{
    struct carrier *c = this_carrier();
    c->robust.pending = &m->next;
    bool ok = atomic_cas(&m->word, 0, c->tid);
    if (ok)
        push_held(c, m);
    c->robust.pending = NULL;
    return ok;
}

void alive_begin(struct mutex *m)
{
    struct carrier *c = this_carrier();
    m->word = c->tid;
    m->next = (void *)&c->robust.next;
    c->none_held = &m->next;
    __asm__ volatile("" ::: "memory");
    c->robust.next = &m->next;
}

void alive_end(struct mutex *m)
{
    struct carrier *c = this_carrier();
    c->none_held = c->robust.next = &c->robust.next;
    atomic_store(&m->word, 0);
}

void robust_begin(struct carrier *c)
{
    c->none_held = c->robust.next = &c->robust.next;
    c->robust.futex_offset = -8;
    c->robust.pending = NULL;
    host_robust_list(&c->robust, sizeof(c->robust));
}

static bool holds_none(const struct carrier *c) { return c->robust.next == c->none_held; }

bool mutex_none_held(void) { return holds_none(this_carrier()); }

void wake_word(u32 *word)
{
    struct carrier *c = this_carrier();
    if (holds_none(c) || c->wake_count == CARRIER_WAKES)
        host_futex_wake(word, 1);
    else
        c->wakes[c->wake_count++] = word;
}

static void do_wakes(struct carrier *c)
{
    while (c->wake_count)
        host_futex_wake(c->wakes[--c->wake_count], 1);
}

void mutex_unlock(struct mutex *m)
{
    struct carrier *c = this_carrier();
    c->robust.pending = &m->next;
    pop_held(c, m);
    u32 old = atomic_xchg(&m->word, 0);
    if (unlikely(old & MUTEX_WAITERS))
        host_futex_wake(&m->word, 1);
    c->robust.pending = NULL;
    if (unlikely(c->wake_count) && holds_none(c))
        do_wakes(c);
}

bool mutex_held(const struct mutex *m) { return (atomic_load_relaxed(&m->word) & ~MUTEX_WAITERS) == this_carrier()->tid; }
