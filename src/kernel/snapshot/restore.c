/* Coming back from a snapshot: one host process for each address space, which maps its memory and carries its tasks.
 *
 * Init forks the processes; each maps every mapping of its mm as it was - anonymous, of a file, of D - and over it the extents of the
 * page file. What lies between is as the mapping itself shows it. Then it starts a host thread for each further task; all
 * go to their place in freeze_park() and load their registers when the sandbox is thawed.
 *
 * The table of extents is hostile in a sense: whoever wrote the snapshot chose it. It can only harm this sandbox: every host
 * call here is one a guest may make as well. Bounds are checked so that a damaged file gives an error and no crash. */
#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/freeze.h"
#include "proc/slot.h"
#include "proc/task.h"
#include "snapshot/pages.h"
#include "snapshot/snapshot.h"
#include <linux/time.h>
#include <linux/mman.h>

#define HOST_ANON (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE)
#define RESTORE_NS 30000000000ull

extern void enter_guest(struct regs *frame) __attribute__((noreturn)); /* entry.S */

static KSTATE struct {
    u32 left; /* address spaces that are not there yet */
    u32 failed;
    u32 host_tid; /* of the process being made */
    u32 levels;
} restoring;

/* ---- memory ---- */

bool pages_table(const void *mm, u32 level, struct pages_table *t)
{
    const struct pages_head *h = pages_level(level);
    if (h->b.magic != PAGES_MAGIC || h->b.mm_count > PAGES_MM_MAX)
        return false;
    for (u32 i = 0; i < h->b.mm_count; i++) {
        const struct pages_mm *m = &h->mm[i];
        if (m->mm != (u64)mm)
            continue;
        *t = (struct pages_table){(const void *)((const char *)h + m->table), m->count, 0};
        return m->table < BASE_STRIDE && m->count <= (BASE_STRIDE - m->table) / sizeof(struct pages_extent);
    }
    return false;
}

void pages_map_levels(u32 levels)
{
    for (u32 i = 0; i < levels; i++)
        host_mmap((u64)pages_level(i), BASE_STRIDE, PROT_READ, MAP_PRIVATE | MAP_FIXED, (int)(FD_BASE0 + i), 0);
}

static long map_extents(struct pages_table *t, const struct vma *v)
{
    for (; t->at < t->count && t->e[t->at].addr < v->end; t->at++) {
        const struct pages_extent *e = &t->e[t->at];
        u64 size = (u64)e->count * PAGE_SIZE;
        if (e->addr < v->start || size > v->end - e->addr || e->level >= restoring.levels)
            return -EUCLEAN;
        long r = host_mmap(e->addr, size, (int)v->prot, MAP_PRIVATE | MAP_FIXED, (int)(FD_BASE0 + e->level), e->off);
        if (is_err(r))
            return r;
    }
    return 0;
}

bool pages_pinned(const struct vma *v)
{
    if (!v->map)
        return false;
    const struct super_block *sb = v->map->file->inode->sb;
    return v->flags & (VM_VIEW | VM_HIDDEN) || (sb && sb->outside && !(v->flags & VM_SHARED));
}

/* What the mapping shows where it has no extent. */
static long map_original(struct vma *v)
{
    bool pinned = pages_pinned(v);
    if (v->map && !pinned)
        return vma_map_again(v);
    u64 end = pinned ? vma_host_end(v) : v->end;
    long r = 0;
    if (end > v->start)
        r = host_mmap(v->start, end - v->start, (int)v->prot, HOST_ANON, -1, 0);
    if (!is_err(r) && end < v->end)
        r = host_mmap(end, v->end - end, PROT_NONE, HOST_ANON, -1, 0);
    if (!is_err(r) && v->flags & VM_WIPEONFORK)
        host_madvise(v->start, v->end - v->start, MADV_WIPEONFORK);
    return is_err(r) ? r : 0;
}

/* Nothing of the mapping itself would be seen. */
static bool covered(const struct pages_table *t, const struct vma *v)
{
    u64 at = v->start;
    for (u64 i = t->at; i < t->count && t->e[i].addr == at && at < v->end; i++)
        at += (u64)t->e[i].count * PAGE_SIZE;
    return at >= v->end;
}

static long map_memory(struct mm *mm)
{
    struct pages_table t;
    if (!pages_table(mm, restoring.levels - 1, &t))
        return -EUCLEAN;
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        long r = covered(&t, v) ? 0 : map_original(v);
        if (!r)
            r = map_extents(&t, v);
        if (r)
            return r;
        v->flags &= ~VM_MOVED;
        if (!(v->flags & (VM_SHARED | VM_HIDDEN | VM_WIPEONFORK)))
            v->flags |= VM_BASE | (pages_pinned(v) ? VM_STILL : 0);
    }
    mm->base[0] = (struct mm_base){mm, 0};
    mm->base[1] = (struct mm_base){0};
    mm->closed = 0;
    return t.at == t.count ? 0 : -EUCLEAN;
}

/* ---- tasks ---- */

static void task_moves(struct task *t, u32 host_pid)
{
    t->moved = true;
    t->core.host_pid = host_pid;
    cputime_restored(t);
}

static long carry_others(struct mm *mm, struct task *first, u32 host_pid)
{
    struct task *t;
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link) {
            if (t == first || t->exited || t->mm != mm)
                continue;
            struct carrier *c = slot_take(mm);
            if (!c)
                return -EAGAIN;
            struct regs *frame = (struct regs *)(c->kstack_top - sizeof(*frame));
            *frame = t->frozen->regs;
            c->task = t;
            t->slot = c->slot;
            t->tls = ~0ull;
            task_moves(t, host_pid);
            atomic_add(&mm->live_carriers, 1);
            long r = host_clone_thread(HOST_CLONE_THREAD, frame, &t->core.host_tid, &c->alive, c);
            if (r < 0)
                return r;
        }
    return 0;
}

static noreturn_fn void process_main(struct task *t)
{
    struct carrier *c = this_carrier();
    struct mm *mm = t->mm;
    c->tid = restoring.host_tid;
    c->task = t;
    robust_begin(c);
    t->core.host_tid = c->tid;
    t->slot = 0;
    task_moves(t, c->tid);
    memset(mm->carriers, 0, sizeof(mm->carriers));
    memset(mm->carriers_mapped, 0, sizeof(mm->carriers_mapped));
    mm->carriers[0] = mm->carriers_mapped[0] = 1;
    mm->live_carriers = 1;
    alive_begin(&t->core.alive);
    long r = map_memory(mm);
    if (!r)
        r = carry_others(mm, t, c->tid);
    if (r)
        restoring.failed = (u32)-r;
    struct regs *frame = (struct regs *)(c->kstack_top - sizeof(*frame));
    *frame = t->frozen->regs;
    atomic_sub(&restoring.left, 1);
    host_futex_wake(&restoring.left, 1);
    enter_guest(frame);
}

static long make_process(struct task *t)
{
    long r = host_clone_process(HOST_CLONE_PROCESS, &restoring.host_tid);
    if (r == 0)
        process_main(t);
    return r < 0 ? r : 0;
}

static void reset_group(struct tgroup *g)
{
    struct task *t;
    g->cpu_before = g->utime = MAX(g->utime, g->cpu_seen);
    g->proc_base = 0;
    list_for_each(t, &g->tasks, tg_link) {
        memset(&t->core.alive, 0, sizeof(t->core.alive));
        t->core.host_tid = t->core.host_pid = 0;
        if (t->mm)
            t->mm->freeze_order = 0;
    }
}

/* One at a time: each process is a copy of init, and takes its number from the same word. */
static long make_and_wait(struct task *t)
{
    u64 deadline = host_clock(CLOCK_MONOTONIC) + RESTORE_NS;
    atomic_store(&restoring.left, 1);
    long r = make_process(t);
    while (!r && atomic_load(&restoring.left))
        if (host_futex_wait(&restoring.left, 1, deadline) == -ETIMEDOUT)
            return -ETIMEDOUT;
    return r ? r : -(long)restoring.failed;
}

long restore_processes(void)
{
    struct task *t;
    long r = 0;
    restoring.failed = 0;
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        reset_group(g);
    for (struct tgroup *g = tgroup_next_locked(2); g && !r; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link) {
            if (r || t->exited || !t->mm || t->mm->freeze_order)
                continue;
            if (!t->frozen)
                return -EUCLEAN;
            t->mm->freeze_order = 1;
            r = make_and_wait(t);
        }
    return r;
}

void restore_levels(u32 levels)
{
    restoring.levels = MIN(levels, (u32)FD_BASE_MAX);
    pages_map_levels(restoring.levels);
}
