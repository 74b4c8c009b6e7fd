/* Guest futexes: hash buckets of waiters keyed by (mm, address) or, in shared mappings, (file, offset). A waiter sleeps on
 * its task's word like everything else. futex(2).
 *
 * PI futexes: the word names the owner's tid; unlocking hands it over to the longest waiter under the bucket's lock. The owner's
 * priority is not raised: guests have no real-time priorities. An owner that ends hands over with FUTEX_OWNER_DIED. Not
 * there: FUTEX_WAIT_REQUEUE_PI (ENOSYS; glibc does not use it any more). Lock order: tasklist_lock > bucket. */
#include "proc/futex.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <linux/futex.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define BUCKETS 256
struct bucket {
    struct mutex lock;
    struct list waiters;
};
static KSTATE_LARGE struct bucket buckets[BUCKETS];
static KSTATE u32 pi_waiters; /* of all buckets: an ending task looks for its own only if there are any */

struct key {
    void *obj;
    u64 off;
};

static long get_key(uptr addr, bool private, struct key *k)
{
    struct mm *mm = current_mm();
    u32 value;
    if (addr & 3)
        return -EINVAL;
    if (addr >= GUEST_END)
        return -EFAULT;
    *k = (struct key){mm, addr};
    if (private)
        return 0;
    if (user_load32(addr, &value)) /* Linux finds the page, and so what is not there */
        return -EFAULT;
    mm_lock(mm);
    struct vma *v = vma_find(mm, addr);
    if (v && v->start <= addr && (v->flags & VM_SHARED) && v->map)
        *k = (struct key){v->map->file->inode, v->pgoff + (addr - v->start)};
    mm_unlock(mm);
    return 0;
}

static struct bucket *bucket_of(const struct key *k)
{
    u64 h = ((u64)k->obj ^ (k->off >> 2)) * 0x9e3779b97f4a7c15ull;
    return &buckets[h >> 56];
}

/* w->obj while the key of a waiter changes: what leave() reads of it is not half the old, half the new one. */
#define MOVES ((void *)1)

static void leave(struct futex_waiter *w)
{
    for (;;) { /* a requeue may move us between buckets */
        struct key k = {atomic_load(&w->obj), w->off};
        struct bucket *b = bucket_of(&k);
        mutex_lock(&b->lock);
        bool same = k.obj != MOVES && k.obj == w->obj && k.off == w->off;
        if (same && list_linked(&w->link))
            list_del(&w->link);
        mutex_unlock(&b->lock);
        if (same)
            return;
    }
}

static void enter(struct bucket *b, struct futex_waiter *w, const struct key *k, u32 bits)
{
    *w = (struct futex_waiter){.task = current_task(), .obj = k->obj, .off = k->off, .bits = bits};
    list_add_tail(&b->waiters, &w->link);
}

/* The result: 0 when it was woken, else r of the sleep. */
static long futex_ends(struct task *t, long r)
{
    leave(&t->futex);
    if (t->futex.woken)
        return 0;
    return r == -EINTR && t->restart_deadline == NO_DEADLINE ? -ERESTARTSYS : r;
}

/* A waiter that is frozen stays in its queue, so that no wake is lost: who counts on one need not change the word. */
static long futex_goes_on(struct task *t)
{
    long r = 0;
    while (!r && !atomic_load(&t->futex.woken))
        r = wait_sleep(t->restart_deadline);
    return r == -EINTR && t->core.froze ? -ERESTART_RESTARTBLOCK : futex_ends(t, r);
}

static long futex_wait(uptr addr, bool private, u32 val, u64 deadline, u32 bits)
{
    struct task *t = current_task();
    struct key k;
    u32 now;
    if (!bits)
        return -EINVAL;
    long r = get_key(addr, private, &k);
    if (r)
        return r;
    if ((r = user_load32(addr, &now))) /* populate before the lock */
        return r;
    struct bucket *b = bucket_of(&k);
    wait_begin();
    mutex_lock(&b->lock);
    r = user_load32(addr, &now);
    if (!r && now != val)
        r = -EAGAIN;
    if (!r)
        enter(b, &t->futex, &k, bits);
    mutex_unlock(&b->lock);
    if (r)
        return r;
    t->restart = futex_goes_on;
    t->restart_deadline = deadline;
    return futex_goes_on(t);
}

static long wake_key_locked(struct bucket *b, const struct key *k, u32 count, u32 bits)
{
    long n = 0;
    struct futex_waiter *w;
    list_for_each(w, &b->waiters, link) {
        if ((u32)n >= count)
            break;
        if (w->obj != k->obj || w->off != k->off || !(w->bits & bits) || w->pi)
            continue;
        struct task *t = w->task;
        list_del(&w->link);
        atomic_store(&w->woken, 1); /* a waitv's waiter may go now; the task stays while the lock is held */
        task_wake(t);
        n++;
    }
    return n;
}

static long wake_key(const struct key *k, u32 count, u32 bits)
{
    struct bucket *b = bucket_of(k);
    mutex_lock(&b->lock);
    long n = wake_key_locked(b, k, count, bits);
    mutex_unlock(&b->lock);
    return n;
}

static long futex_wake(uptr addr, bool private, u32 count, u32 bits)
{
    struct key k;
    long r = get_key(addr, private, &k);
    return r ? r : !bits ? -EINVAL : wake_key(&k, count, bits);
}

long futex_wake_addr(uptr addr, u32 count)
{
    long n = futex_wake(addr, true, count, ~0u);
    return n ? n : futex_wake(addr, false, count, ~0u);
}

static long futex_requeue(uptr from, uptr to, bool private, u32 wake, u32 move, bool compare, u32 val)
{
    struct key a, b;
    u32 now;
    if ((s32)wake < 0 || (s32)move < 0)
        return -EINVAL;
    long r = get_key(from, private, &a);
    if (!r)
        r = get_key(to, private, &b);
    if (!r && compare)
        r = user_load32(from, &now); /* populate before the locks */
    if (r)
        return r;
    struct bucket *x = bucket_of(&a), *y = bucket_of(&b);
    mutex_lock(x < y ? &x->lock : &y->lock);
    if (x != y)
        mutex_lock(x < y ? &y->lock : &x->lock);
    long woken = 0, moved = 0;
    struct futex_waiter *w;
    if (compare && !(r = user_load32(from, &now)) && now != val)
        r = -EAGAIN;
    if (r)
        goto unlock;
    woken = wake_key_locked(x, &a, wake, ~0u);
    list_for_each(w, &x->waiters, link) {
        if ((u32)moved >= move)
            break;
        if (w->obj != a.obj || w->off != a.off || w->pi)
            continue;
        moved++;
        if (a.obj == b.obj && a.off == b.off)
            continue;
        list_del(&w->link);
        atomic_store(&w->obj, MOVES);
        atomic_store(&w->off, b.off);
        atomic_store(&w->obj, b.obj);
        list_add_tail(&y->waiters, &w->link);
    }
unlock:
    if (x != y)
        mutex_unlock(&y->lock);
    mutex_unlock(&x->lock);
    return r ? r : woken + moved; /* also for FUTEX_REQUEUE, whatever its man page says */
}

static long futex_wake_op(uptr a1, uptr a2, bool private, u32 n1, u32 n2, u32 op)
{
    u32 old, seen, arg = (op >> 12) & 0xfff, cmparg = op & 0xfff, val;
    if (((op >> 28) & 8))
        arg = 1u << (arg & 31);
    if (user_load32(a2, &old))
        return -EFAULT;
    for (;;) {
        switch ((op >> 28) & 7) {
        case 0: val = arg; break;
        case 1: val = old + arg; break;
        case 2: val = old | arg; break;
        case 3: val = old & ~arg; break;
        case 4: val = old ^ arg; break;
        default: return -ENOSYS;
        }
        if (user_cas32(a2, old, val, &seen))
            return -EFAULT;
        if (seen == old)
            break;
        old = seen;
    }
    s32 o = (s32)old, c = (s32)cmparg;
    bool hit[] = {o == c, o != c, o < c, o <= c, o > c, o >= c};
    u32 which = (op >> 24) & 15;
    if (which > 5)
        return -ENOSYS;
    long r = futex_wake(a1, private, n1, ~0u);
    if (r >= 0 && hit[which]) {
        long s = futex_wake(a2, private, n2, ~0u);
        r = s < 0 ? s : r + s;
    }
    return r;
}

/* ---- PI ---- */

static struct futex_waiter *pi_first(struct bucket *b, const struct key *k, struct futex_waiter *after)
{
    struct futex_waiter *w;
    bool behind = !after;
    list_for_each(w, &b->waiters, link) {
        if (behind && w->pi && w->obj == k->obj && w->off == k->off)
            return w;
        behind |= w == after;
    }
    return NULL;
}

/* The word goes from `tid` to the longest waiter or to nobody. Bucket locked. */
static long pi_hand_over(struct bucket *b, const struct key *k, uptr addr, u32 tid, u32 died)
{
    struct futex_waiter *w = pi_first(b, k, NULL), *o;
    u32 v, seen;
    if (user_load32(addr, &v))
        return -EFAULT;
    for (;;) {
        if ((v & FUTEX_TID_MASK) != tid)
            return -EPERM;
        u32 to = w ? w->task->tid | (pi_first(b, k, w) ? FUTEX_WAITERS : 0) | died : died;
        if (user_cas32(addr, v, to, &seen))
            return -EFAULT;
        if (seen == v)
            break;
        v = seen;
    }
    if (!w)
        return 0;
    list_for_each(o, &b->waiters, link)
        if (o->pi && o->obj == k->obj && o->off == k->off)
            o->owner = w->task->tid;
    list_del(&w->link);
    atomic_store(&w->woken, 1);
    task_wake(w->task);
    return 0;
}

static bool task_exists(u32 tid)
{
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(tid);
    bool found = t && !t->exited;
    mutex_unlock(&tasklist_lock);
    return found;
}

/* 0: owned now. 1: the waiter is queued. Bucket locked. */
static long pi_try(struct bucket *b, const struct key *k, uptr addr, bool try, u32 alive)
{
    struct task *t = current_task();
    u32 v, seen;
    if (user_load32(addr, &v))
        return -EFAULT;
    for (;;) {
        u32 owner = v & FUTEX_TID_MASK, to;
        if (owner == t->tid)
            return -EDEADLK;
        if (!owner)
            to = t->tid | (v & FUTEX_OWNER_DIED) | (pi_first(b, k, NULL) ? FUTEX_WAITERS : 0);
        else if (try)
            return -EAGAIN;
        else if (owner != alive)
            return -ERESTARTNOINTR; /* another owner than the caller looked for */
        else
            to = v | FUTEX_WAITERS;
        if (user_cas32(addr, v, to, &seen))
            return -EFAULT;
        if (seen != v) {
            v = seen;
            continue;
        }
        if (!owner)
            return 0;
        enter(b, &t->futex, k, ~0u);
        t->futex.pi = true;
        t->futex.addr = addr;
        t->futex.owner = owner;
        return 1;
    }
}

static long futex_lock_pi(uptr addr, bool private, u64 deadline, bool try)
{
    struct task *t = current_task();
    struct key k;
    long r = get_key(addr, private, &k);
    if (r)
        return r;
    struct bucket *b = bucket_of(&k);
    do {
        u32 v;
        if (user_load32(addr, &v))
            return -EFAULT;
        u32 owner = v & FUTEX_TID_MASK;
        if (owner && owner != t->tid && !task_exists(owner))
            return -ESRCH;
        wait_begin();
        atomic_add(&pi_waiters, 1);
        mutex_lock(&b->lock);
        r = pi_try(b, &k, addr, try, owner);
        mutex_unlock(&b->lock);
        if (r != 1)
            atomic_sub(&pi_waiters, 1);
    } while (r == -ERESTARTNOINTR);
    if (r != 1)
        return r;
    r = 0;
    while (!atomic_load(&t->futex.woken)) {
        r = wait_sleep(deadline);
        if (r)
            break;
    }
    leave(&t->futex);
    atomic_sub(&pi_waiters, 1);
    if (t->futex.woken)
        return 0;
    return r == -ETIMEDOUT ? r : -ERESTARTNOINTR;
}

static long futex_unlock_pi(uptr addr, bool private)
{
    struct key k;
    u32 v;
    long r = get_key(addr, private, &k);
    if (!r)
        r = user_load32(addr, &v);
    if (r)
        return r;
    struct bucket *b = bucket_of(&k);
    mutex_lock(&b->lock);
    r = pi_hand_over(b, &k, addr, current_tid(), 0);
    mutex_unlock(&b->lock);
    return r;
}

/* What an ending task owns and others wait for. */
static void pi_exit(struct task *t)
{
    for (u32 i = 0; i < BUCKETS && atomic_load(&pi_waiters); i++) {
        struct bucket *b = &buckets[i];
        struct futex_waiter *w;
        bool again = true;
        mutex_lock(&b->lock);
        while (again) {
            again = false;
            list_for_each(w, &b->waiters, link)
                if (w->pi && w->owner == t->tid && w->task->mm == t->mm) {
                    struct key k = {w->obj, w->off};
                    again = !pi_hand_over(b, &k, w->addr, t->tid, FUTEX_OWNER_DIED);
                    if (!again)
                        w->owner = 0;
                    break;
                }
        }
        mutex_unlock(&b->lock);
    }
}

/* ---- several words ---- */

struct waitv { /* struct futex_waitv of the ABI */
    u64 val, addr;
    u32 flags, reserved;
};
#define WAITV_MAX 128
#define WAITV_32 2u
#define WAITV_PRIVATE 128u

struct futex_several { /* a call that waits for several words; it may be frozen meanwhile */
    u32 entered;
    struct futex_waiter w[];
};

static long waitv_enter(struct futex_waiter *w, const struct waitv *v)
{
    struct key k;
    u32 now;
    if (v->reserved || (v->flags & ~WAITV_PRIVATE) != WAITV_32 || v->val >> 32)
        return -EINVAL;
    long r = get_key(v->addr, v->flags & WAITV_PRIVATE, &k);
    if (!r)
        r = user_load32(v->addr, &now);
    if (r)
        return r;
    struct bucket *b = bucket_of(&k);
    mutex_lock(&b->lock);
    r = user_load32(v->addr, &now);
    if (!r && now != (u32)v->val)
        r = -EAGAIN;
    if (!r)
        enter(b, w, &k, ~0u);
    mutex_unlock(&b->lock);
    return r;
}

static long waitv_woken(const struct futex_several *s)
{
    for (u32 i = 0; i < s->entered; i++)
        if (atomic_load(&s->w[i].woken))
            return i;
    return -EAGAIN;
}

/* The result: which one was woken, else r. */
static long waitv_ends(struct task *t, long r)
{
    struct futex_several *s = t->futexes;
    for (u32 i = 0; i < s->entered; i++)
        leave(&s->w[i]);
    long woken = waitv_woken(s);
    t->futexes = NULL;
    kfree(s);
    return woken >= 0 ? woken : r;
}

static long waitv_goes_on(struct task *t)
{
    long r = 0;
    while (!r && waitv_woken(t->futexes) < 0)
        r = wait_sleep(t->restart_deadline);
    if (r == -EINTR && t->core.froze)
        return -ERESTART_RESTARTBLOCK;
    return waitv_ends(t, r == -EINTR ? -ERESTARTSYS : r);
}

static long waitv(const struct waitv *v, u32 n, u64 deadline)
{
    struct task *t = current_task();
    struct futex_several *s = kzalloc(sizeof(*s) + n * sizeof(s->w[0]));
    long r = 0;
    if (!s)
        return -ENOMEM;
    t->futexes = s;
    wait_begin();
    while (s->entered < n && !(r = waitv_enter(&s->w[s->entered], &v[s->entered])))
        s->entered++;
    if (r)
        return waitv_ends(t, r);
    t->restart = waitv_goes_on;
    t->restart_deadline = deadline;
    return waitv_goes_on(t);
}

static long deadline_of(uptr ts, int cmd, bool realtime, u64 *out)
{
    struct __kernel_timespec t;
    *out = NO_DEADLINE;
    if (!ts)
        return 0;
    if (copy_from_user(&t, ts, sizeof(t)))
        return -EFAULT;
    if (t.tv_sec < 0 || (u64)t.tv_nsec >= 1000000000ull)
        return -EINVAL;
    u64 ns = t.tv_sec > 4000000000ll ? NO_DEADLINE / 2 : (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
    if (cmd == FUTEX_WAIT) {
        ns = call_deadline(ns);
    } else if (realtime) {
        u64 now = host_clock(CLOCK_MONOTONIC), real = host_clock(CLOCK_REALTIME);
        ns = ns > real ? now + (ns - real) : now;
    }
    *out = ns;
    return 0;
}

SYSCALL6(futex, uptr, addr, int, op, u32, val, uptr, ts, uptr, addr2, u32, val3)
{
    int cmd = op & FUTEX_CMD_MASK;
    bool private = op & FUTEX_PRIVATE_FLAG;
    u64 deadline;
    switch (cmd) {
    case FUTEX_WAIT:
        val3 = ~0u; /* fall through */
    case FUTEX_WAIT_BITSET: {
        long r = deadline_of(ts, cmd, op & FUTEX_CLOCK_REALTIME, &deadline);
        return r ? r : futex_wait(addr, private, val, deadline, val3);
    }
    case FUTEX_WAKE:
        return futex_wake(addr, private, val, ~0u);
    case FUTEX_WAKE_BITSET:
        return futex_wake(addr, private, val, val3);
    case FUTEX_REQUEUE:
        return futex_requeue(addr, addr2, private, val, (u32)ts, false, 0);
    case FUTEX_CMP_REQUEUE:
        return futex_requeue(addr, addr2, private, val, (u32)ts, true, val3);
    case FUTEX_WAKE_OP:
        return futex_wake_op(addr, addr2, private, val, (u32)ts, val3);
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2: {
        long r = deadline_of(ts, cmd, cmd == FUTEX_LOCK_PI || (op & FUTEX_CLOCK_REALTIME), &deadline);
        return r ? r : futex_lock_pi(addr, private, deadline, false);
    }
    case FUTEX_TRYLOCK_PI:
        return futex_lock_pi(addr, private, 0, true);
    case FUTEX_UNLOCK_PI:
        return futex_unlock_pi(addr, private);
    }
    return -ENOSYS;
}

SYSCALL5(futex_waitv, uptr, uv, u32, n, u32, flags, uptr, ts, int, clock)
{
    u64 deadline;
    if (flags || !n || n > WAITV_MAX || !uv)
        return -EINVAL;
    if (ts && clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)
        return -EINVAL;
    long r = deadline_of(ts, FUTEX_WAIT_BITSET, clock == CLOCK_REALTIME, &deadline);
    if (r)
        return r;
    struct waitv *v = kmalloc(n * sizeof(*v));
    r = !v ? -ENOMEM : copy_from_user(v, uv, n * sizeof(*v));
    if (!r)
        r = waitv(v, n, deadline);
    kfree(v);
    return r;
}

SYSCALL3(get_robust_list, int, pid, uptr, uhead, uptr, usize)
{
    long r = 0;
    u64 head = 0, size = 24;
    mutex_lock(&tasklist_lock);
    struct task *t = pid ? task_find_locked((u32)pid) : current_task();
    if (!t)
        r = -ESRCH;
    else if (!may_inspect_locked(t->tg))
        r = -EPERM;
    else
        head = t->robust_list;
    mutex_unlock(&tasklist_lock);
    return r ? r : put_user(size, usize) || put_user(head, uhead) ? -EFAULT : 0;
}

SYSCALL2(set_robust_list, uptr, head, u64, size)
{
    if (size != 24)
        return -EINVAL;
    current_task()->robust_list = head;
    return 0;
}

static void robust_died(uptr word, u32 tid, bool pi)
{
    u32 v, seen;
    struct key k;
    if (user_load32(word, &v))
        return;
    if (pi && (v & FUTEX_TID_MASK) == tid && !get_key(word, false, &k)) {
        struct key own = {current_mm(), word}; /* glibc uses private operations on it when it is not shared */
        struct bucket *b = bucket_of(&own);
        mutex_lock(&b->lock);
        bool local = pi_first(b, &own, NULL) != NULL;
        if (local)
            pi_hand_over(b, &own, word, tid, FUTEX_OWNER_DIED);
        mutex_unlock(&b->lock);
        if (local)
            return;
        b = bucket_of(&k);
        mutex_lock(&b->lock);
        pi_hand_over(b, &k, word, tid, FUTEX_OWNER_DIED);
        mutex_unlock(&b->lock);
        return;
    }
    while ((v & FUTEX_TID_MASK) == tid) {
        if (user_cas32(word, v, (v & FUTEX_WAITERS) | FUTEX_OWNER_DIED, &seen))
            return;
        if (seen == v) {
            if (v & FUTEX_WAITERS)
                futex_wake_addr(word, 1);
            return;
        }
        v = seen;
    }
}

/* Frozen in its wait, and now a signal comes: the result of the call, as if it had come to the sleeping task. */
bool futex_interrupted(struct task *t, long *result)
{
    if (t->futexes)
        *result = waitv_ends(t, -ERESTARTSYS);
    else if (t->restart == futex_goes_on)
        *result = futex_ends(t, -EINTR);
    else
        return false;
    return true;
}

void futex_forget(struct task *t)
{
    leave(&t->futex);
    if (t->futexes)
        waitv_ends(t, 0);
}

void futex_exit(struct task *t)
{
    u64 head[3], entry;
    if (!t->robust_list || copy_from_user(head, t->robust_list, sizeof(head))) {
        pi_exit(t);
        return;
    }
    entry = head[0];
    for (int i = 0; i < 2048 && entry != t->robust_list; i++) {
        u64 next;
        if (get_user(next, entry & ~1ull))
            break;
        if ((entry & ~1ull) != (head[2] & ~1ull))
            robust_died((entry & ~1ull) + head[1], t->tid, entry & 1);
        entry = next;
    }
    if (head[2])
        robust_died((head[2] & ~1ull) + head[1], t->tid, head[2] & 1);
    pi_exit(t);
}
