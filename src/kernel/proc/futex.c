/* Guest futexes: hash buckets of waiting tasks keyed by (mm, address) or, in shared mappings, (file, offset). A waiter sleeps on
 * its task's word like everything else. futex(2). PI futexes: ENOSYS (glibc falls back to plain ones only for non-PI types). */
#include "proc/futex.h"
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
static KSTATE struct bucket buckets[BUCKETS];

struct key {
    void *obj;
    u64 off;
};

static long get_key(uptr addr, bool private, struct key *k)
{
    struct mm *mm = current_mm();
    if (addr & 3)
        return -EINVAL;
    if (addr >= GUEST_END)
        return -EFAULT;
    *k = (struct key){mm, addr};
    if (private)
        return 0;
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

static void leave(struct task *t)
{
    for (;;) { /* a requeue may move us between buckets */
        struct key k = {atomic_load(&t->futex.obj), t->futex.off};
        struct bucket *b = bucket_of(&k);
        mutex_lock(&b->lock);
        bool same = k.obj == t->futex.obj && k.off == t->futex.off;
        if (same && list_linked(&t->futex.link))
            list_del(&t->futex.link);
        mutex_unlock(&b->lock);
        if (same)
            return;
    }
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
    atomic_store(&t->core.wake, WAKE_RUNNING);
    mutex_lock(&b->lock);
    r = user_load32(addr, &now);
    if (!r && now != val)
        r = -EAGAIN;
    if (!r) {
        t->futex.obj = k.obj;
        t->futex.off = k.off;
        t->futex.bits = bits;
        t->futex.woken = 0;
        list_add_tail(&b->waiters, &t->futex.link);
    }
    mutex_unlock(&b->lock);
    if (r)
        return r;
    while (!atomic_load(&t->futex.woken)) {
        r = wait_sleep(deadline);
        if (r)
            break;
    }
    leave(t);
    if (t->futex.woken)
        return 0;
    return r == -ETIMEDOUT ? r : deadline == NO_DEADLINE ? -ERESTARTSYS : -EINTR;
}

static long wake_key(const struct key *k, u32 count, u32 bits)
{
    struct bucket *b = bucket_of(k);
    long n = 0;
    struct task *t;
    mutex_lock(&b->lock);
    list_for_each(t, &b->waiters, futex.link) {
        if ((u32)n >= count)
            break;
        if (t->futex.obj != k->obj || t->futex.off != k->off || !(t->futex.bits & bits))
            continue;
        list_del(&t->futex.link);
        atomic_store(&t->futex.woken, 1);
        task_wake(t);
        n++;
    }
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
    long r = get_key(from, private, &a);
    if (!r)
        r = get_key(to, private, &b);
    if (!r && compare)
        r = user_load32(from, &now);
    if (r)
        return r;
    if (compare && now != val)
        return -EAGAIN;
    long woken = wake_key(&a, wake, ~0u), moved = 0;
    struct bucket *x = bucket_of(&a), *y = bucket_of(&b);
    mutex_lock(x < y ? &x->lock : &y->lock);
    if (x != y)
        mutex_lock(x < y ? &y->lock : &x->lock);
    struct task *t;
    list_for_each(t, &x->waiters, futex.link) {
        if ((u32)moved >= move)
            break;
        if (t->futex.obj != a.obj || t->futex.off != a.off)
            continue;
        list_del(&t->futex.link);
        t->futex.off = b.off;
        atomic_store(&t->futex.obj, b.obj);
        list_add_tail(&y->waiters, &t->futex.link);
        moved++;
    }
    if (x != y)
        mutex_unlock(&y->lock);
    mutex_unlock(&x->lock);
    return compare ? woken + moved : woken;
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
    u64 now = host_clock(CLOCK_MONOTONIC);
    if (cmd == FUTEX_WAIT)
        ns += now;
    else if (realtime) {
        u64 real = host_clock(CLOCK_REALTIME);
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
    }
    return -ENOSYS;
}

SYSCALL2(set_robust_list, uptr, head, u64, size)
{
    if (size != 24)
        return -EINVAL;
    current_task()->robust_list = head;
    return 0;
}

static void robust_died(uptr word, u32 tid)
{
    u32 v, seen;
    if (user_load32(word, &v))
        return;
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

void futex_forget(struct task *t) { leave(t); }

void futex_exit(struct task *t)
{
    u64 head[3], entry;
    if (!t->robust_list || copy_from_user(head, t->robust_list, sizeof(head)))
        return;
    entry = head[0];
    for (int i = 0; i < 2048 && entry != t->robust_list; i++) {
        u64 next;
        if (get_user(next, entry & ~1ull))
            break;
        if ((entry & ~1ull) != (head[2] & ~1ull))
            robust_died((entry & ~1ull) + head[1], t->tid);
        entry = next;
    }
    if (head[2])
        robust_died((head[2] & ~1ull) + head[1], t->tid);
}
