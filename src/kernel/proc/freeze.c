/* See freeze.h. */
#include "proc/freeze.h"
#include "proc/futex.h"
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/ptrace.h"
#include "proc/task.h"
#include <linux/time.h>
#include <asm/unistd.h>

static KSTATE struct {
    u32 leaving; /* carriers whose task has ended or moved on, but which are still at it */
    u64 parked_since; /* all tasks are, 0: not yet */
    bool active;
    u32 word; /* parked tasks sleep on it: raised by each order and by the end */
    long (*fn)(struct task *t);
    u32 order, undone; /* number of the order; tasks that have not obeyed it yet */
    long result;
} freeze;

#define ORDER_NS 30000000000ull /* a task that takes longer is stuck */
#define ORDER_LOOK_NS 100000000ull /* for one that was killed from outside */
#define LEAVING_NS 200000000ull /* a carrier that leaves for longer was killed by the host meanwhile */

u8 *frozen_xsave(struct frozen *f) { return (u8 *)ALIGN_UP((u64)f->room, 64); }

struct frozen *frozen_new(void)
{
    u32 size = xsave_size();
    struct frozen *f = kzalloc(sizeof(*f) + 64 + size);
    if (f)
        f->xsave_size = size;
    return f;
}

void frozen_fill(struct frozen *f, const struct regs *r)
{
    f->regs = *r;
    __asm__ volatile("rdfsbase %0" : "=r"(f->fs_base));
    if (user_xsave(frozen_xsave(f)))
        panic("xsave");
}

static struct frozen *save(const struct regs *r)
{
    struct frozen *f = frozen_new();
    if (f)
        frozen_fill(f, r);
    return f;
}

/* The carrier is another one than that which parked. */
static void load(struct frozen *f)
{
    __asm__ volatile("wrfsbase %0" ::"r"(f->fs_base));
    if (user_xrstor(frozen_xsave(f)))
        panic("the vector state of a snapshot does not fit this processor");
}

/* ---- orders ---- */

static void raise_word(void)
{
    atomic_add(&freeze.word, 1);
    host_futex_wake(&freeze.word, 0x7fffffff);
}

static void obey(struct task *t)
{
    if (!t->freeze_order || t->freeze_order != atomic_load(&freeze.order))
        return;
    t->freeze_order = 0;
    t->obeys = true;
    long r = freeze.fn(t);
    t->obeys = false;
    if (r)
        freeze.result = r;
    atomic_sub(&freeze.undone, 1);
    host_futex_wake(&freeze.undone, 1);
}

static bool must_rest(const struct task *t) { return atomic_load(&freeze.active) && !(atomic_load(&t->core.work) & WORK_EXIT); }

static void rest(struct task *t)
{
    atomic_store(&t->parked, t->frozen ? TASK_PARKED : TASK_PARKED_IN_VAIN);
    service_wake();
    while (must_rest(t)) {
        u32 seen = atomic_load(&freeze.word);
        atomic_and(&t->core.work, ~WORK_BARRIER); /* it is past the exit path already */
        obey(t);
        if (must_rest(t))
            host_futex_wait(&freeze.word, seen, NO_DEADLINE);
    }
}

/* For task_kick(): the host's signal alone may come between a look at the work and the sleep. */
void freeze_kick(const struct task *t)
{
    if (unlikely(atomic_load(&t->parked) != TASK_RUNS))
        raise_word();
}

void freeze_park(struct regs *r)
{
    struct task *t = current_task();
    if (!t->frozen)
        t->frozen = save(r);
    cputime_parks(t);
    do {
        rest(t);
        atomic_xchg(&t->parked, TASK_RUNS);
    } while (must_rest(t)); /* frozen again before that: it may have been counted as parked */
    if (t->moved && t->frozen)
        load(t->frozen);
    if (t->moved && t->pt)
        ptrace_set_entry(t);
    t->moved = false;
    kfree(t->frozen);
    t->frozen = NULL;
    atomic_and(&t->core.work, ~WORK_FREEZE);
    if (atomic_load(&freeze.active)) /* again, meanwhile: what told us so may be what was just cleared */
        atomic_or(&t->core.work, WORK_FREEZE);
}

void freeze_begin(void)
{
    struct task *t;
    atomic_store(&freeze.active, true);
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link) {
            atomic_or(&t->core.work, WORK_FREEZE);
            task_kick(t);
        }
    mutex_unlock(&tasklist_lock);
}

bool freeze_begun(void) { return atomic_load(&freeze.active); }

/* One that must end is about to leave its place, whatever `parked` still says. */
static bool task_rests(const struct task *t)
{
    return t->exited || (atomic_load(&t->parked) != TASK_RUNS && !(atomic_load(&t->core.work) & WORK_EXIT));
}

bool freeze_complete(void)
{
    bool all = true;
    struct task *t;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g && all; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link)
            all &= task_rests(t);
    mutex_unlock(&tasklist_lock);
    if (!all || !atomic_load(&freeze.leaving)) {
        freeze.parked_since = 0;
        return all;
    }
    u64 now = host_clock(CLOCK_MONOTONIC);
    if (!freeze.parked_since)
        freeze.parked_since = now;
    if (now - freeze.parked_since < LEAVING_NS)
        return false;
    freeze.parked_since = 0;
    return true;
}

void freeze_carrier_leaves(void) { atomic_add(&freeze.leaving, 1); }
void freeze_carrier_stays(void) { atomic_sub(&freeze.leaving, 1); }
void freeze_reset(void) { freeze.leaving = 0; }

void freeze_carrier_left(void)
{
    if (atomic_sub(&freeze.leaving, 1) == 0 && atomic_load(&freeze.active))
        service_wake();
}

void freeze_tell(void)
{
    struct task *t;
    char text[160];
    for (u32 tid = 2; tid < PID_MAX; tid++) {
        mutex_lock(&tasklist_lock);
        t = task_find_locked(tid);
        bool moves = t && !task_rests(t);
        if (moves)
            fmt_print(text, sizeof(text), "task %u (%.16s) does not come to rest: work %x, %s, host thread %u, stopped by %u", tid,
                      t->comm, t->core.work, t->core.wake == WAKE_SLEEPING ? "sleeps" : "runs", t->core.host_tid, t->tg->stop_sig);
        mutex_unlock(&tasklist_lock);
        if (moves)
            klog("%s", text);
    }
}

void freeze_end(void)
{
    atomic_store(&freeze.active, false);
    raise_word();
}

/* Of those the order is waiting for. */
static bool one_died(u32 order)
{
    struct task *t;
    bool died = false;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link)
            died |= (t->freeze_order == order || t->obeys) && carrier_died(&t->core);
    mutex_unlock(&tasklist_lock);
    return died;
}

static long await_order(u32 order)
{
    u64 now = host_clock(CLOCK_MONOTONIC), end = now + ORDER_NS;
    for (u32 left; (left = atomic_load(&freeze.undone)); now = host_clock(CLOCK_MONOTONIC))
        if (now >= end)
            return -ETIMEDOUT;
        else if (host_futex_wait(&freeze.undone, left, now + ORDER_LOOK_NS) == -ETIMEDOUT && one_died(order))
            return -EOWNERDEAD;
    return freeze.result;
}

long freeze_in_each_mm(long (*fn)(struct task *t))
{
    struct task *t;
    u32 count = 0, order = freeze.order + 1;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link)
            if (!t->exited && t->mm && t->mm->freeze_order != order) {
                t->mm->freeze_order = t->freeze_order = order;
                count++;
            }
    mutex_unlock(&tasklist_lock);
    freeze.fn = fn;
    freeze.result = 0;
    atomic_store(&freeze.undone, count);
    atomic_store(&freeze.order, order);
    raise_word();
    long r = await_order(order);
    if (r) /* those that come later have nothing to do */
        atomic_store(&freeze.order, order + 1);
    return r;
}

/* ---- calls that were cut short ---- */

u64 call_deadline_anew(u64 ns)
{
    u64 now = host_clock(CLOCK_MONOTONIC);
    return current_task()->call_deadline = ns >= NO_DEADLINE - now ? NO_DEADLINE : now + ns;
}

u64 call_deadline(u64 ns)
{
    struct task *t = current_task();
    return t->again_deadline ? (t->call_deadline = t->again_deadline) : call_deadline_anew(ns);
}

u64 call_done_before(void) { return current_task()->partial.done; }

/* Reads are content with a part unless they say so. */
void call_wants_rest(void)
{
    struct task_core *t = &current_task()->core;
    t->wants_rest = t->froze;
}

void call_wants_no_rest(void) { current_task()->core.wants_rest = false; }

#define MMSGHDR_SIZE 64u
static bool counts_messages(const struct regs *r) { return r->nr == __NR_sendmmsg || r->nr == __NR_recvmmsg; }

/* Those whose arguments lie in memory of the program skip what they had done (call_done_before). */
static bool skips_itself(const struct regs *r)
{
    return r->nr == __NR_writev || r->nr == __NR_pwritev || r->nr == __NR_readv || r->nr == __NR_sendmsg || r->nr == __NR_recvmsg;
}

static bool did_a_part(const struct task *t, const struct regs *r)
{
    if (counts_messages(r) || skips_itself(r)) /* these say so only where what is left would be waited for */
        return t->core.wants_rest && (long)r->rax > 0;
    bool write = r->nr == __NR_write || r->nr == __NR_pwrite64 || (r->nr == __NR_sendto && !r->r8);
    bool read = t->core.wants_rest && (r->nr == __NR_read || (r->nr == __NR_recvfrom && !r->r8));
    return (write || read) && (long)r->rax > 0 && r->rax < r->rdx;
}

bool freeze_cut_short(const struct task *t, const struct regs *r)
{
    long v = (long)r->rax;
    return t->core.froze && r->nr != ~0ull && (v == -EINTR || is_restart(v) || did_a_part(t, r));
}

/* The call goes on behind what it has done. */
static void take_rest(struct task *t, struct regs *r)
{
    if (!t->partial.done)
        t->partial = (struct partial_call){.buf = r->rsi, .size = r->rdx, .off = r->r10};
    u64 n = r->rax;
    t->partial.done += n;
    if (r->nr == __NR_pwrite64 || r->nr == __NR_pwritev)
        r->r10 += n;
    if (skips_itself(r))
        return;
    r->rsi += counts_messages(r) ? n * MMSGHDR_SIZE : n;
    r->rdx -= n;
}

/* The program sees its own arguments, and all that was done. */
static void add_parts(struct task *t, struct regs *r)
{
    if (!t->partial.done)
        return;
    r->rsi = t->partial.buf;
    r->rdx = t->partial.size;
    r->r10 = t->partial.off;
    r->rax = t->partial.done + ((long)r->rax > 0 ? r->rax : 0);
    t->partial.done = 0;
}

static void freeze_call_ends(struct task *t, struct regs *r)
{
    t->again_deadline = t->call_deadline = 0;
    add_parts(t, r);
}

void freeze_call_interrupted(struct task *t, struct regs *r)
{
    long result;
    freeze_call_ends(t, r);
    if (t->core.froze && r->nr != ~0ull && (long)r->rax == -ERESTART_RESTARTBLOCK && futex_interrupted(t, &result))
        r->rax = (u64)result;
    t->core.froze = t->core.wants_rest = false;
}

/* A System V object that went while its waiter was parked is not found again. */
static bool removed_meanwhile(const struct regs *r)
{
    bool waits = r->nr == __NR_semop || r->nr == __NR_semtimedop || r->nr == __NR_msgsnd || r->nr == __NR_msgrcv;
    return waits && (long)r->rax == -EINVAL;
}

void freeze_call_goes_on(struct task *t, struct regs *r)
{
    if (did_a_part(t, r))
        take_rest(t, r);
    t->core.froze = t->core.wants_rest = false;
    t->again_deadline = t->call_deadline;
    if ((long)r->rax != -ERESTART_RESTARTBLOCK)
        r->rax = r->nr;
    syscall_again(r);
    if (freeze_cut_short(t, r))
        return;
    if (removed_meanwhile(r))
        r->rax = (u64)-EIDRM;
    freeze_call_ends(t, r);
    if (t->pt)
        ptrace_call_done(t, r);
}
