#include "time/timer.h"
#include "core/kstate.h"
#include "core/mutex.h"
#include "host/host.h"
#include "wire/broker.h"
#include "base/layout.h"
#include <linux/time.h>

static KSTATE struct {
    struct mutex lock;
    struct list timers; /* by deadline */
} wheel;

void ktimer_set(struct ktimer *t, u64 deadline)
{
    mutex_lock(&wheel.lock);
    if (list_linked(&t->link))
        list_del(&t->link);
    t->deadline = deadline;
    struct list *after = wheel.timers.prev;
    while (after && after != &wheel.timers && list_entry(after, struct ktimer, link)->deadline > deadline)
        after = after->prev;
    if (!after || after == &wheel.timers)
        list_add(&wheel.timers, &t->link);
    else
        list_insert_between(&t->link, after, after->next);
    bool first = wheel.timers.next == &t->link;
    mutex_unlock(&wheel.lock);
    if (first)
        service_wake();
}

bool ktimer_cancel(struct ktimer *t)
{
    mutex_lock(&wheel.lock);
    bool armed = list_linked(&t->link);
    if (armed)
        list_del(&t->link);
    mutex_unlock(&wheel.lock);
    return armed;
}

u64 ktimers_run(void)
{
    for (;;) {
        mutex_lock(&wheel.lock);
        struct ktimer *t = list_first(&wheel.timers, struct ktimer, link);
        u64 next = t ? t->deadline : NO_DEADLINE;
        if (!t || next > host_clock(CLOCK_MONOTONIC)) {
            mutex_unlock(&wheel.lock);
            return next;
        }
        list_del(&t->link);
        mutex_unlock(&wheel.lock);
        t->fn(t);
    }
}

void service_wake(void)
{
    struct r_control_broker *b = (void *)(R_BASE + R_CONTROL_BROKER);
    __atomic_add_fetch(&b->guest_seq, 1, __ATOMIC_SEQ_CST);
    host_futex_wake((u32 *)b, 1);
}
