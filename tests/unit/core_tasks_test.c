/* kernel/core: locks, sleeping and waking, with threads as tasks; the timers. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core_fake.h"

#include "core/kmalloc.h"
#include "time/timer.h"
#include "wire/broker.h"

/* ---- timers ---- */

#define TIMERS 64

static struct model_timer {
    struct ktimer t;
    bool armed;
    u64 deadline, order;
} timers[TIMERS];
static u64 set_order, last_deadline, last_order;
static u32 fired, rearm_left;
static struct mutex owner;

static u32 guest_seq(void) { return atomic_load((u32 *)(R_BASE + R_CONTROL_BROKER + offsetof(struct r_control_broker, guest_seq))); }

static void model_set(struct model_timer *m, u64 deadline)
{
    u64 first = NO_DEADLINE;
    for (u32 i = 0; i < TIMERS; i++)
        if (timers[i].armed && &timers[i] != m)
            first = MIN(first, timers[i].deadline);
    u32 seq = guest_seq();
    ktimer_set(&m->t, deadline);
    EQ(guest_seq() - seq, deadline < first); /* the service thread sleeps until the first only */
    m->armed = true;
    m->deadline = deadline;
    m->order = ++set_order;
}

static void on_timer(struct ktimer *t)
{
    struct model_timer *m = (struct model_timer *)t;
    CHECK(m->armed && m->deadline <= clock_now && t->deadline == m->deadline && !list_linked(&t->link));
    CHECK(m->deadline > last_deadline || (m->deadline == last_deadline && m->order > last_order));
    CHECK(!t->lock || mutex_held(t->lock));
    last_deadline = m->deadline;
    last_order = m->order;
    m->armed = false;
    fired++;
    if (rearm_left && rnd(2)) {
        rearm_left--;
        model_set(m, clock_now - rnd(2) * (clock_now - last_deadline) + rnd(50));
    }
}

static void test_timers(void)
{
    clock_now = 1000;
    for (u32 i = 0; i < TIMERS; i++)
        timers[i].t = (struct ktimer){.fn = on_timer, .lock = i % 3 ? NULL : &owner};
    for (u32 n = 0; n < 20000; n++) {
        struct model_timer *m = &timers[rnd(TIMERS)];
        u32 op = rnd(10);
        if (op < 6) {
            model_set(m, clock_now + rnd(200));
        } else if (op < 8) {
            EQ(ktimer_cancel(&m->t), m->armed);
            m->armed = false;
        } else {
            u32 due = 0;
            u64 next = NO_DEADLINE;
            clock_now += rnd(100);
            last_deadline = last_order = fired = 0;
            rearm_left = rnd(4);
            u32 rearmed = rearm_left;
            for (u32 i = 0; i < TIMERS; i++)
                due += timers[i].armed && timers[i].deadline <= clock_now;
            u64 got = ktimers_run();
            rearmed -= rearm_left;
            CHECK(fired >= due && fired <= due + rearmed);
            for (u32 i = 0; i < TIMERS; i++)
                if (timers[i].armed)
                    next = MIN(next, timers[i].deadline);
            EQ(got, next);
            CHECK(next > clock_now);
            CHECK(!owner.word);
        }
    }
    for (u32 i = 0; i < TIMERS; i++) {
        EQ(ktimer_cancel(&timers[i].t), timers[i].armed);
        timers[i].armed = false;
    }
    CHECK(ktimers_run() == NO_DEADLINE);
}

/* The owner cancels under its lock while the service thread waits for that lock: the function does not run, and the timer can be
 * freed or set anew. */
static u32 ran;
static void on_cancelled(struct ktimer *t) { (void)t, ran++; }

static void *service(void *arg)
{
    carrier_begin();
    *(u64 *)arg = ktimers_run();
    return NULL;
}

static void test_timer_cancel(void)
{
    for (u32 n = 0; n < 50; n++) {
        struct ktimer *t = kzalloc(sizeof(*t)), other = {.fn = on_cancelled, .deadline = 0};
        pthread_t thread;
        u64 next = 0;
        t->fn = on_cancelled;
        t->lock = &owner;
        ran = 0;
        ktimer_set(t, clock_now);
        if (n % 2)
            ktimer_set(&other, clock_now); /* behind it: runs all the same */
        mutex_lock(&owner);
        pthread_create(&thread, NULL, service, &next);
        for (u32 i = 0; i < 100000 && !(atomic_load(&owner.word) & MUTEX_WAITERS); i++)
            sched_yield();
        CHECK(ktimer_cancel(t));
        kfree(t);
        mutex_unlock(&owner);
        pthread_join(thread, NULL);
        EQ(ran, n % 2);
        CHECK(next == NO_DEADLINE);
    }
}

/* ---- locks ---- */

#define THREADS 4
#define ROUNDS 20000

static struct mutex big, small[2];
static u64 count_big, count_small[2];

static void *lock_thread(void *arg)
{
    u32 seed = (u32)(u64)arg;
    carrier_begin();
    for (u32 i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525 + 1013904223;
        u32 k = seed >> 31;
        mutex_lock(&small[k]);
        count_small[k]++;
        bool both = seed >> 29 & 1;
        if (both) { /* released in the order they were taken: the list of held locks is no stack */
            if (seed >> 28 & 1)
                mutex_lock(&big);
            else
                while (!mutex_trylock(&big))
                    sched_yield();
            count_big++;
            if (!mutex_held(&big) || !mutex_held(&small[k]))
                abort();
        }
        mutex_unlock(&small[k]);
        if (both)
            mutex_unlock(&big);
        if (carrier.robust.next != &carrier.robust.next || carrier.robust.pending)
            abort();
    }
    return (void *)(u64)mutex_held(&big);
}

static u32 held_count(void)
{
    u32 n = 0;
    for (void **p = carrier.robust.next; p != &carrier.robust.next; p = *p)
        n++;
    return n;
}

static void test_mutex(void)
{
    pthread_t t[THREADS];
    void *r;
    for (u64 i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, lock_thread, (void *)(i + 1));
    for (u32 i = 0; i < THREADS; i++) {
        pthread_join(t[i], &r);
        CHECK(!r);
    }
    EQ(count_small[0] + count_small[1], THREADS * ROUNDS);
    CHECK(count_big > ROUNDS && !big.word && !small[0].word && !small[1].word);

    EQ(held_count(), 0);
    mutex_lock(&big);
    mutex_lock(&small[0]);
    mutex_lock(&small[1]);
    EQ(held_count(), 3);
    CHECK(!mutex_trylock(&big));
    EQ(held_count(), 3);
    mutex_unlock(&small[0]);
    mutex_unlock(&big);
    EQ(held_count(), 1);
    mutex_unlock(&small[1]);
    CHECK(!mutex_held(&big));

    /* Wakes wait for the release of the last lock, in whatever number they come. */
    u32 word = 0;
    wakes = 0;
    wake_word(&word);
    EQ(wakes, 1);
    mutex_lock(&big);
    mutex_lock(&small[0]);
    for (u32 i = 0; i < CARRIER_WAKES; i++)
        wake_word(&word);
    mutex_unlock(&big);
    EQ(wakes, 1);
    wake_word(&word); /* no room: at once */
    EQ(wakes, 2);
    mutex_unlock(&small[0]);
    EQ(wakes, 2 + CARRIER_WAKES);

    /* A carrier's mark of life is no lock: wakes go out after the last real lock. */
    struct mutex alive = {0};
    alive_begin(&alive);
    CHECK(!mutex_died(&alive));
    wakes = 0;
    mutex_lock(&big);
    wake_word(&word);
    EQ(wakes, 0);
    mutex_unlock(&big);
    EQ(wakes, 1);
    alive_end(&alive);
    EQ(alive.word, 0);
    EQ(held_count(), 0);
}

/* ---- sleeping ---- */

static struct waitq queue;
static struct task_core sleepers[THREADS];
static u32 asleep, woken, order[THREADS];
static bool exclusive_sleepers;

static void *sleeper(void *arg)
{
    struct task_core *t = arg;
    task_begin(t);
    if (exclusive_sleepers)
        wait_prepare_exclusive(&queue);
    else
        wait_prepare(&queue);
    atomic_add(&asleep, 1);
    long r = wait_sleep(NO_DEADLINE);
    order[atomic_add(&woken, 1) - 1] = (u32)(t - sleepers);
    wait_finish();
    return (void *)r;
}

static void start_sleepers(pthread_t *t, bool exclusive)
{
    asleep = woken = 0;
    exclusive_sleepers = exclusive;
    memset(sleepers, 0, sizeof(sleepers));
    for (u32 i = 0; i < THREADS; i++) {
        pthread_create(&t[i], NULL, sleeper, &sleepers[i]);
        while (atomic_load(&asleep) <= i)
            sched_yield();
    }
}

static void await(u32 n)
{
    for (u32 i = 0; i < 5000 && atomic_load(&woken) < n; i++)
        usleep(1000);
    usleep(2000); /* nobody more */
    EQ(atomic_load(&woken), n);
}

static bool took;
static u32 called;
static bool on_wake(struct waiter *w, u32 events)
{
    called++;
    EQ(events, 5);
    CHECK(w->data == &took);
    return took;
}

/* Two tasks hand a number to and fro: a lost wake would hang. */
static struct waitq turn_q;
static u32 turn;
static void *ping(void *arg)
{
    struct task_core t = {0};
    u32 mine = (u32)(u64)arg;
    task_begin(&t);
    for (u32 i = 0; i < 3000; i++) {
        long r = wait_event(&turn_q, atomic_load(&turn) % 2 == mine);
        if (r)
            return (void *)r;
        atomic_add(&turn, 1);
        wake_up(&turn_q, 1);
    }
    return NULL;
}

/* The same without a queue, each waking the other's word: a look at the condition that comes before wait_begin()'s store loses one. */
#define BATONS 300000
static struct task_core runners[2];
static u32 baton, runners_there;
static void *runner(void *arg)
{
    u32 mine = (u32)(u64)arg;
    task_begin(&runners[mine]);
    atomic_add(&runners_there, 1);
    while (atomic_load(&runners_there) < 2)
        sched_yield();
    for (u32 i = 0; i < BATONS; i++) {
        while (atomic_load(&baton) % 2 != mine) {
            wait_begin();
            if (atomic_load(&baton) % 2 == mine)
                break;
            if (wait_sleep(NO_DEADLINE))
                abort();
        }
        atomic_store(&baton, baton + 1);
        task_wake((struct task *)&runners[!mine]);
    }
    return NULL;
}

static void test_batons(void)
{
    pthread_t t[2];
    set_cpus(2);
    memset(runners, 0, sizeof(runners));
    for (u64 i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, runner, (void *)i);
    for (u32 seen = 0, now, same = 0; (now = atomic_load(&baton)) < 2 * BATONS; seen = now) {
        same = now == seen ? same + 1 : 0;
        if (same == 100) { /* ten seconds */
            fprintf(stderr, "lost a wake after %u\n", now);
            abort();
        }
        usleep(100000);
    }
    for (u32 i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

static u64 real_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

static void test_wait(void)
{
    pthread_t t[THREADS];
    void *r;
    for (u32 cpus = 1; cpus <= 2; cpus++) { /* with more than one a sleeper watches its word first */
        set_cpus(cpus);
        start_sleepers(t, true);
        for (u32 i = 1; i <= THREADS; i++) {
            wake_up(&queue, 1);
            await(i);
            EQ(order[i - 1], i - 1); /* in the order they came */
        }
        for (u32 i = 0; i < THREADS; i++)
            pthread_join(t[i], &r), EQ(r, 0);
        start_sleepers(t, true);
        wake_up_all(&queue, 1);
        await(THREADS);
        for (u32 i = 0; i < THREADS; i++)
            pthread_join(t[i], &r), EQ(r, 0);
        start_sleepers(t, false);
        wake_up(&queue, 1);
        await(THREADS);
        for (u32 i = 0; i < THREADS; i++)
            pthread_join(t[i], &r), EQ(r, 0);
        CHECK(list_empty(&queue.waiters) && !queue.lock.word);

        turn = 0;
        for (u64 i = 0; i < 2; i++)
            pthread_create(&t[i], NULL, ping, (void *)i);
        for (u32 i = 0; i < 2; i++)
            pthread_join(t[i], &r), EQ(r, 0);
        EQ(turn, 6000);
    }

    struct task_core self = {0};
    task_begin(&self);
    u64 start = real_now();
    EQ(wait_event_deadline(&queue, false, start + 20000000), -ETIMEDOUT);
    CHECK(real_now() - start >= 20000000);
    EQ(wait_event_deadline(&queue, false, 0), -ETIMEDOUT);
    EQ(wait_event_deadline(&queue, true, 0), 0);
    EQ(self.waiter_count, 0);

    wait_prepare(&queue); /* a wake between the look and the sleep */
    wait_prepare(&queue);
    EQ(self.waiter_count, 1);
    wake_up(&queue, 1);
    EQ(wait_sleep(NO_DEADLINE), 0);
    EQ(wait_sleep(0), -ETIMEDOUT); /* it counts once */
    wait_finish();
    CHECK(list_empty(&queue.waiters));

    static const struct {
        u32 work;
        long sleep, freezable, killable;
        bool froze;
    } works[] = {{WORK_SIGNAL, -EINTR, -ETIMEDOUT, -ETIMEDOUT, false}, {WORK_FREEZE, -EINTR, -EINTR, -ETIMEDOUT, true},
                 {WORK_EXIT, -EINTR, -EINTR, -EINTR, false}, {WORK_FREEZE | WORK_SIGNAL, -EINTR, -EINTR, -ETIMEDOUT, false},
                 {WORK_BARRIER | WORK_CUT | WORK_CPU | WORK_MASK, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT, false}};
    for (u32 i = 0; i < ARRAY_COUNT(works); i++) {
        self.work = works[i].work;
        self.froze = false;
        EQ(wait_sleep(0), works[i].sleep);
        EQ(self.froze, works[i].froze);
        EQ(wait_sleep_freezable(0), works[i].freezable);
        EQ(wait_sleep_killable(0), works[i].killable);
        task_wake((struct task *)&self);
        EQ(wait_sleep(0), 0); /* what was awaited comes first */
    }
    self.work = 0;

    /* A function in place of a task; an exclusive one that does not take the event leaves it to the next. */
    struct waiter w[2] = {{.exclusive = true, .func = on_wake, .data = &took}, {.exclusive = true, .func = on_wake, .data = &took}};
    waitq_add(&queue, &w[0]);
    waitq_add(&queue, &w[1]);
    wake_up(&queue, 5);
    EQ(called, 2);
    took = true;
    wake_up(&queue, 5);
    EQ(called, 3);
    wake_up_all(&queue, 5);
    EQ(called, 5);
    waitq_remove(&w[0]);
    waitq_remove(&w[1]);
    wake_up(&queue, 5);
    EQ(called, 5);
}

/* ---- what must not pass in silence; last, for the locks are not given back ---- */

static void test_bugs(void)
{
    static char *p;
    escaping = true;
    p = kmalloc(100);
    if (!setjmp(escape)) {
        kfree(p + 16);
        CHECK(!"a pointer into an object is freed");
    }
    static struct mutex m = {.word = MUTEX_DIED};
    int r = setjmp(escape);
    if (!r) {
        mutex_lock(&m);
        CHECK(!"the lock of the dead");
    }
    EQ(r, 137);
    escaping = false;
}

int main(void)
{
    static const struct test tests[] = {{"timers", test_timers}, {"timer_cancel", test_timer_cancel}, {"mutex", test_mutex},
                                        {"wait", test_wait}, {"batons", test_batons}, {"bugs", test_bugs}};
    return run_tests(tests, ARRAY_COUNT(tests));
}
