/* See freeze.h. */
#include "proc/freeze.h"
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/task.h"
#include <linux/time.h>
#include <asm/unistd.h>

static KSTATE struct {
    bool active;
    u32 word; /* parked tasks sleep on it: raised by each order and by the end */
    long (*fn)(struct task *t);
    u32 order, undone; /* number of the order; tasks that have not obeyed it yet */
    long result;
} freeze;

#define ORDER_NS 30000000000ull /* a task that takes longer is stuck */

static u8 *xsave_area(struct frozen *f) { return (u8 *)ALIGN_UP((u64)f->room, 64); }

static struct frozen *save(const struct regs *r)
{
    u32 size = xsave_size();
    struct frozen *f = kzalloc(sizeof(*f) + 64 + size);
    if (!f)
        return NULL;
    f->regs = *r;
    f->xsave_size = size;
    __asm__ volatile("rdfsbase %0" : "=r"(f->fs_base));
    if (user_xsave(xsave_area(f)))
        panic("xsave");
    return f;
}

/* The carrier is another one than that which parked. */
static void load(struct frozen *f)
{
    __asm__ volatile("wrfsbase %0" ::"r"(f->fs_base));
    if (user_xrstor(xsave_area(f)))
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
    long r = freeze.fn(t);
    if (r)
        freeze.result = r;
    atomic_sub(&freeze.undone, 1);
    host_futex_wake(&freeze.undone, 1);
}

void freeze_park(struct regs *r)
{
    struct task *t = current_task();
    if (!t->frozen)
        t->frozen = save(r);
    cputime_group();
    atomic_store(&t->parked, t->frozen ? TASK_PARKED : TASK_PARKED_IN_VAIN);
    service_wake();
    while (atomic_load(&freeze.active) && !(atomic_load(&t->core.work) & WORK_EXIT)) {
        u32 seen = atomic_load(&freeze.word);
        obey(t);
        if (atomic_load(&freeze.active))
            host_futex_wait(&freeze.word, seen, NO_DEADLINE);
    }
    if (t->moved && t->frozen)
        load(t->frozen);
    t->moved = false;
    kfree(t->frozen);
    t->frozen = NULL;
    atomic_store(&t->parked, TASK_RUNS);
    atomic_and(&t->core.work, ~WORK_FREEZE);
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

bool freeze_complete(void)
{
    bool all = true;
    struct task *t;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g && all; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link)
            all &= t->exited || t->parked != TASK_RUNS;
    mutex_unlock(&tasklist_lock);
    return all;
}

void freeze_end(void)
{
    atomic_store(&freeze.active, false);
    raise_word();
}

long freeze_in_each_mm(long (*fn)(struct task *t))
{
    struct task *t;
    u32 count = 0, order = freeze.order + 1, left;
    u64 deadline = host_clock(CLOCK_MONOTONIC) + ORDER_NS;
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
    while ((left = atomic_load(&freeze.undone)))
        if (host_futex_wait(&freeze.undone, left, deadline) == -ETIMEDOUT)
            return -ETIMEDOUT;
    return freeze.result;
}

/* ---- calls that were cut short ---- */

u64 call_deadline(u64 ns)
{
    struct task *t = current_task();
    u64 now = host_clock(CLOCK_MONOTONIC);
    t->call_deadline = t->again_deadline ? t->again_deadline : ns >= NO_DEADLINE - now ? NO_DEADLINE : now + ns;
    return t->call_deadline;
}

static bool wrote_some(const struct regs *r)
{
    bool plain = r->nr == __NR_write || r->nr == __NR_pwrite64 || (r->nr == __NR_sendto && !r->r8);
    return plain && (long)r->rax > 0 && r->rax < r->rdx;
}

bool freeze_cut_short(const struct task *t, const struct regs *r)
{
    long v = (long)r->rax;
    return t->core.froze && r->nr != ~0ull && (v == -EINTR || is_restart(v) || wrote_some(r));
}

/* A write goes on behind what it has written; the program sees its own arguments when it returns. */
static void write_goes_on(struct task *t, struct regs *r)
{
    if (!t->partial.done)
        t->partial = (struct partial_write){.buf = r->rsi, .size = r->rdx, .off = r->r10};
    u64 n = r->rax;
    t->partial.done += n;
    r->rsi += n;
    r->rdx -= n;
    if (r->nr == __NR_pwrite64)
        r->r10 += n;
}

void freeze_call_goes_on(struct task *t, struct regs *r)
{
    t->core.froze = false;
    if (wrote_some(r))
        write_goes_on(t, r);
    t->again_deadline = t->call_deadline;
    if ((long)r->rax != -ERESTART_RESTARTBLOCK)
        r->rax = r->nr;
    syscall_again(r);
    if (freeze_cut_short(t, r))
        return;
    t->again_deadline = t->call_deadline = 0;
    if (t->partial.done) {
        r->rsi = t->partial.buf;
        r->rdx = t->partial.size;
        r->r10 = t->partial.off;
        r->rax = t->partial.done + ((long)r->rax > 0 ? r->rax : 0);
        t->partial.done = 0;
    }
}
