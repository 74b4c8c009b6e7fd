/* Writing private memory into the page file.
 *
 * A parked task of each address space makes the plan - what each mapping holds and where its original lies - and forks its stub. The
 * copy (the twin) has the frozen memory while the sandbox goes on; it gets the page file from the broker (FD_DUMP), writes what differs from
 * zeroes, from the mapped file and from the lower levels, and ends. The twin shares K with the running sandbox: it takes no lock but
 * that of broker_call, allocates nothing there, and looks at nothing that can change. It is told from other tasks by having no group. One
 * that is killed from outside is noticed by its mark of life, as tasks are (proc/dead.c), and the order fails.
 *
 * What is stored of a private mapping: anonymous: pages that are resident (mincore) or that a lower level has for this address, and not
 * zero; where pages of the snapshot were moved to other addresses, all are looked at. Of an image or a file in memory: pages that differ
 * from it. Of a host file and its exec view: all of it, since the file may be another one when the snapshot is used. Shared mappings show
 * D, which is copied as a whole.
 *
 * What several processes show of a pack of exec views - text and constants, which nothing could write to - is stored once: whoever plans
 * such a piece first gives it its place in the page file, which the tables of all name. The twins write such pieces last, whoever comes
 * first; so they are through at about the same time.
 *
 * When the page file may be the base of the next, the task then begins to note what is written (mm/track.h): of memory that only writing
 * changes. What was not written since the base is taken from its table, unseen. All else is compared with it. */
#include "arch/x86_64/regs.h"
#include "arch/x86_64/uaccess.h"
#include "base/string.h"
#include "core/broker_call.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "mm/mm.h"
#include "mm/track.h"
#include "proc/task.h"
#include "snapshot/pages.h"
#include "snapshot/snapshot.h"
#include "vfs/vfs.h"
#include <asm/errno.h>
#include <linux/mman.h>

#define PLAN_SIZE (64ul << 20) /* room for the plan, then for extents */
#define PLAN_EXTENTS (16ul << 20)
#define WINDOW (2ul << 20) /* pages looked at in one go */
#define GAP 4u /* empty pages that do not end an extent */
#define TWINS 1024
#define SHARED 1024u /* pieces of packs */

struct piece { /* of a mapping, with one kind of original */
    u64 start, end;
    u64 original; /* address where the mapped file can be read; 0: zeroes */
    u32 prot;
    bool pinned; /* everything is stored */
    bool moved;  /* the host may show pages of a page file that are not the base's for this address */
    bool still;  /* only writing changes it: what was not written is as before */
    bool anonymous; /* the host has it in no file */
    u32 shared;  /* place in dumps.shared[] + 1; 0: none */
};

struct plan {
    u32 count, number; /* number: the order */
    u32 index; /* of the address space in the page file */
    u64 how; /* DUMP_* */
    struct mm *mm;
    struct mm_base base; /* of the uppermost page file; mm NULL: there is none for this address space */
    bool tracked; /* what is closed (mm/track.h) is as in the uppermost page file */
    struct piece piece[];
};

struct shared {
    u64 what, size; /* as in_pack() has it */
    u64 off; /* in the page file */
    u32 unwritten; /* the order, until a twin of it comes to write it: one of an order that was given up may still be there */
};

/* In K: what a twin's kernel code needs to call itself a task. */
static KSTATE_LARGE struct {
    u32 number; /* the order */
    u64 how;    /* DUMP_* */
    u32 used;
    u32 count, planned; /* address spaces */
    struct task *twin[TWINS];
    u64 pages; /* bytes of the page file given away, behind its head */
    struct mutex lock; /* of shared[]; the innermost */
    u32 shared_count;
    struct shared shared[SHARED];
} dumps;

static struct plan *plan(void) { return (struct plan *)DUMP_PLAN; }

/* ---- planning, by the parked task ---- */

static void add_piece(const struct piece *p)
{
    struct plan *l = plan();
    if (p->end > p->start && (u64)&l->piece[l->count + 1] < DUMP_PLAN + PLAN_EXTENTS)
        l->piece[l->count++] = *p;
}

static u64 page_alloc(u64 pages)
{
    u64 off = atomic_add(&dumps.pages, pages * PAGE_SIZE) - pages * PAGE_SIZE + PAGES_HEAD_SIZE;
    return off + pages * PAGE_SIZE <= DUMP_SIZE ? off : 0;
}

/* What a mapping shows of a pack, and always did: file and offset in one word; 0: something else. */
static u64 in_pack(const struct vma *v)
{
    const struct vview *w = v->map->view;
    if (v->flags & (VM_BASE | VM_WROTE) || (plan()->base.mm && DUMP_LEVEL(plan()->how)))
        return 0;
    if (v->flags & VM_HIDDEN)
        return (w->e.tramp_off + v->pgoff) | (u32)w->fd;
    for (u32 i = 0; v->flags & VM_VIEW && i < w->e.seg_count; i++)
        if (v->pgoff - w->e.seg[i].file_off < w->e.seg[i].len)
            return (w->e.seg[i].view_off + (v->pgoff - w->e.seg[i].file_off)) | (u32)w->fd;
    return v->flags & VM_STILL && v->map->pack != VMAP_PACKS ? v->map->pack + v->pgoff : 0;
}

static void share_piece(struct piece *p, u64 what)
{
    u64 size = p->end - p->start;
    u32 i = 0;
    mutex_lock(&dumps.lock);
    while (i < dumps.shared_count && (dumps.shared[i].what != what || dumps.shared[i].size != size))
        i++;
    if (i == dumps.shared_count && i < SHARED) {
        u64 off = page_alloc(size / PAGE_SIZE);
        if (off)
            dumps.shared[dumps.shared_count++] = (struct shared){what, size, off, plan()->number};
    }
    if (i < dumps.shared_count)
        p->shared = i + 1;
    mutex_unlock(&dumps.lock);
}

static bool moved(const struct vma *v) { return v->flags & (plan()->base.mm ? VM_MOVED : VM_BASE); }

/* Where the kernel can read what a file mapping shows; host files: nowhere. */
static long plan_file(const struct vma *v)
{
    struct file *f = v->map->file;
    u64 end = vma_host_end(v);
    for (u64 at = v->start; at < end;) {
        struct map_extent x;
        long r = f->ops->map(f, v->pgoff + (at - v->start), end - at, false, false, &x);
        if (r)
            return r;
        if (f->ops->unmap)
            f->ops->unmap(f, false);
        u64 n = MIN(end - at, x.size);
        if (!n)
            return -EIO;
        bool image = x.fd >= FD_IMAGE0 && x.fd < FD_IMAGE0 + FD_IMAGE_MAX;
        u64 original = x.fd == FD_D ? D_BASE + x.off : image ? CONTAINER_BASE(x.fd) + x.off : 0;
        add_piece(&(struct piece){at, at + n, original, v->prot, x.fd >= 0 && !original, moved(v), image});
        at += n;
    }
    return 0;
}

static long make_plan(struct mm *mm)
{
    for (u32 i = 0; i < mm->count; i++) {
        const struct vma *v = &mm->vmas[i];
        if (v->flags & (VM_SHARED | VM_WIPEONFORK))
            continue;
        long r = 0;
        bool pinned = pages_pinned(v);
        bool still = !v->map || v->flags & (VM_VIEW | VM_HIDDEN | VM_STILL);
        if (!v->map || pinned) {
            struct piece p = {v->start, vma_host_end(v), 0, v->prot, pinned, moved(v), still};
            u64 what = v->map && p.end > p.start ? in_pack(v) : 0;
            p.anonymous = !v->map && !(v->flags & VM_BASE);
            if (what)
                share_piece(&p, what);
            add_piece(&p);
        } else {
            r = plan_file(v);
        }
        if (r)
            return r;
    }
    return 0;
}

/* ---- writing, by the twin ---- */

struct writer {
    struct pages_extent *extents, *end; /* being collected, behind the plan */
    u32 count;
    struct pages_table base; /* of the uppermost level there is, complete: what this address space began with */
    u32 level;  /* of the page file: pages of levels below it are not written again */
    u32 levels; /* that there are */
    const struct piece *piece;
    u8 page[PAGE_SIZE];
};

static bool same_page(const void *a, const void *b)
{
    const u64 *x = a, *y = b;
    for (u32 i = 0; i < PAGE_SIZE / 8; i += 8)
        if ((x[i] ^ y[i]) | (x[i + 1] ^ y[i + 1]) | (x[i + 2] ^ y[i + 2]) | (x[i + 3] ^ y[i + 3]) | (x[i + 4] ^ y[i + 4]) |
            (x[i + 5] ^ y[i + 5]) | (x[i + 6] ^ y[i + 6]) | (x[i + 7] ^ y[i + 7]))
            return false;
    return true;
}

static bool zero_page(const void *a)
{
    const u64 *x = a;
    for (u32 i = 0; i < PAGE_SIZE / 8; i += 8)
        if (x[i] | x[i + 1] | x[i + 2] | x[i + 3] | x[i + 4] | x[i + 5] | x[i + 6] | x[i + 7])
            return false;
    return true;
}

static bool add_extent(struct writer *w, u64 addr, u32 count, u32 level, u64 off)
{
    struct pages_extent *last = w->count ? &w->extents[w->count - 1] : NULL;
    if (last && last->level == level && last->addr + last->count * PAGE_SIZE == addr &&
        last->off + last->count * PAGE_SIZE == off && addr > w->piece->start) {
        last->count += count;
        return true;
    }
    if (&w->extents[w->count] >= w->end)
        return false;
    w->extents[w->count++] = (struct pages_extent){addr, off, count, level};
    return true;
}

/* The lower levels' page for an address; NULL: none. Addresses are asked for in ascending order. */
static const void *base_page(struct writer *w, u64 addr, u32 *level, u64 *off)
{
    struct pages_table *t = &w->base;
    while (t->at < t->count && t->e[t->at].addr + (u64)t->e[t->at].count * PAGE_SIZE <= addr)
        t->at++;
    const struct pages_extent *e = t->at < t->count ? &t->e[t->at] : NULL;
    if (!e || e->addr > addr || e->level >= w->levels)
        return NULL;
    *level = e->level;
    *off = e->off + (addr - e->addr);
    return *off + PAGE_SIZE <= BASE_STRIDE ? (char *)pages_level(*level) + *off : NULL;
}

/* A page of the guest. Memory that is in no file can be read where it is. Else by way of ours: one that cannot be read - its file was cut
 * short on the host - is zeroes. */
static const void *look_at(struct writer *w, u64 addr)
{
    if (w->piece->anonymous)
        return (void *)addr;
    u64 left = user_copy(w->page, (void *)addr, PAGE_SIZE);
    memset(w->page + PAGE_SIZE - left, 0, left);
    return w->page;
}

/* Pages that are not zero. What the host cannot read is for look_at(). */
static bool write_some(struct writer *w, u64 addr, u32 count, u64 off)
{
    for (u64 done = 0, size = count * PAGE_SIZE; done < size;) {
        long n = host_dump((void *)(addr + done), size - done, off + done);
        n = n < 0 ? n : n & ~(long)(PAGE_SIZE - 1);
        if (!n || n == -EFAULT)
            n = host_dump(look_at(w, addr + done), PAGE_SIZE, off + done);
        if (n <= 0)
            return false;
        done += (u64)n;
    }
    return true;
}

/* A page of zeroes stays a hole. */
static bool write_pages(struct writer *w, u64 addr, u32 count, u64 off)
{
    for (u32 at = 0, n; at < count; at += n + 1) {
        for (n = 0; at + n < count && !zero_page(look_at(w, addr + (at + n) * PAGE_SIZE)); n++)
            ;
        if (n && !write_some(w, addr + at * PAGE_SIZE, n, off + at * PAGE_SIZE))
            return false;
    }
    return true;
}

static bool write_run(struct writer *w, u64 addr, u32 count)
{
    u64 off = page_alloc(count);
    return off && write_pages(w, addr, count, off) && add_extent(w, addr, count, w->level, off);
}

static u32 page_count(const struct piece *p) { return (u32)((p->end - p->start) / PAGE_SIZE); }

static bool write_shared(struct writer *w, const struct piece *p)
{
    struct shared *s = &dumps.shared[p->shared - 1];
    w->piece = p;
    return !atomic_cas(&s->unwritten, plan()->number, 0u) || write_pages(w, p->start, page_count(p), s->off);
}

enum page_kind { PAGE_AS_MAPPED, PAGE_LOWER, PAGE_NEW };

static enum page_kind classify(struct writer *w, u64 addr, bool resident, u32 *level, u64 *off)
{
    const struct piece *p = w->piece;
    const void *lower = base_page(w, addr, level, off);
    if (!resident && !lower && !p->original && !p->pinned)
        return PAGE_AS_MAPPED;
    const void *page = look_at(w, addr);
    if (p->original && same_page(page, (void *)(p->original + (addr - p->start))))
        return PAGE_AS_MAPPED;
    if (lower && same_page(page, lower))
        return *level < w->level ? PAGE_LOWER : PAGE_NEW;
    return !p->original && !p->pinned && zero_page(page) ? PAGE_AS_MAPPED : PAGE_NEW;
}

static bool write_window(struct writer *w, u64 start, u64 end, const u8 *resident)
{
    u64 run = 0, run_end = 0, off; /* pages to be written that were not yet */
    u32 level;
    for (u64 at = start; at < end; at += PAGE_SIZE) {
        enum page_kind k = classify(w, at, resident[(at - start) / PAGE_SIZE] & 1, &level, &off);
        if (k == PAGE_NEW) {
            run = run ? run : at;
            run_end = at + PAGE_SIZE;
            continue;
        }
        if (run && k == PAGE_AS_MAPPED && !w->piece->original && at - run_end < GAP * PAGE_SIZE)
            continue; /* a small gap of zeroes */
        if (run && !write_run(w, run, (u32)((run_end - run) / PAGE_SIZE)))
            return false;
        run = 0;
        if (k == PAGE_LOWER && !add_extent(w, at, 1, level, off))
            return false;
    }
    return !run || write_run(w, run, (u32)((run_end - run) / PAGE_SIZE));
}

/* What was not written since: as the lower levels have it. */
static bool write_closed(struct writer *w, u64 start, u64 end)
{
    struct pages_table *t = &w->base;
    for (; t->at < t->count && t->e[t->at].addr < end; t->at++) {
        const struct pages_extent *e = &t->e[t->at];
        u64 from = MAX(start, e->addr), to = MIN(end, e->addr + (u64)e->count * PAGE_SIZE);
        if (from >= to)
            continue;
        u32 n = (u32)((to - from) / PAGE_SIZE);
        if (!(e->level < w->level ? add_extent(w, from, n, e->level, e->off + (from - e->addr)) : write_run(w, from, n)))
            return false;
        if (to == end)
            return true; /* it may go on behind */
    }
    return true;
}

static bool write_piece(struct writer *w, const struct piece *p)
{
    u8 resident[WINDOW / PAGE_SIZE];
    w->piece = p;
    if (!(p->prot & PROT_READ) && host_mprotect(p->start, p->end - p->start, PROT_READ))
        return false;
    if (p->shared) /* its contents come last */
        return add_extent(w, p->start, page_count(p), w->level, dumps.shared[p->shared - 1].off);
    u64 end;
    for (u64 at = p->start; at < p->end; at = end) {
        bool closed = plan()->tracked && track_closed(at, &end);
        end = plan()->tracked ? MIN(end, p->end) : p->end;
        if (closed) {
            if (!write_closed(w, at, end))
                return false;
            continue;
        }
        end = MIN(at + WINDOW, end);
        memset(resident, 0, sizeof(resident));
        if (plan()->how & DUMP_SWAP) /* mincore() does not tell such pages from those that were never there */
            host_madvise(at, end - at, MADV_POPULATE_READ);
        if (host_mincore(at, end - at, resident))
            return false;
        if (p->moved) /* of a page of the snapshot's file it says whether the host has it in memory just now */
            memset(resident, 1, sizeof(resident));
        if (!write_window(w, at, end, resident))
            return false;
    }
    return true;
}

/* Each twin writes all of the head's beginning, and its own entry. */
static bool write_head(const struct writer *w, u64 table)
{
    struct pages_begin h = {.magic = PAGES_MAGIC, .level = w->level, .mm_count = dumps.count};
    struct pages_mm own = {(u64)plan()->mm, table, w->count};
    u64 at = sizeof(h) + plan()->index * sizeof(own);
    return plan()->index < PAGES_MM_MAX && host_dump(&h, sizeof(h), 0) == sizeof(h) && host_dump(&own, sizeof(own), at) == sizeof(own);
}

static long write_all(void)
{
    struct plan *l = plan();
    struct writer w = {.extents = (void *)(DUMP_PLAN + PLAN_EXTENTS),
                       .end = (void *)(DUMP_PLAN + PLAN_SIZE), .levels = DUMP_LEVELS(l->how), .level = DUMP_LEVEL(l->how)};
    pages_map_levels(w.levels);
    if (l->base.mm && !pages_table(l->base.mm, w.levels - 1, &w.base))
        return -EUCLEAN;
    for (u32 i = 0; i < l->count; i++)
        if (!write_piece(&w, &l->piece[i]))
            return -ENOSPC;
    for (u32 i = 0; i < l->count; i++)
        if (l->piece[i].shared && !write_shared(&w, &l->piece[i]))
            return -ENOSPC;
    u64 size = w.count * sizeof(*w.extents), table = size ? page_alloc(PAGE_UP(size) / PAGE_SIZE) : PAGE_SIZE;
    return table && write_head(&w, table) && (!size || host_dump(w.extents, size, table) == (long)size) ? 0 : -ENOSPC;
}

static noreturn_fn void twin_ended(struct task *twin)
{
    atomic_store(&twin->core.host_tid, 0);
    alive_end(&twin->core.alive);
    host_exit_process(0);
}

/* Somebody has cut one of the lower levels. */
void dump_fault(u64 addr)
{
    struct task *t = this_carrier()->task;
    if (addr - BASE_WINDOW < DUMP_WINDOW - BASE_WINDOW && t && !t->tg)
        twin_ended(t);
}

static noreturn_fn void twin_main(struct task *twin)
{
    struct carrier *c = this_carrier();
    c->tid = twin->core.host_tid;
    c->task = twin;
    robust_begin(c);
    alive_begin(&twin->core.alive);
    struct broker_args open = {.op = WIRE_DUMP_OPEN, .arg = {plan()->number}};
    long r = broker_call(&open);
    if (!r)
        r = write_all();
    struct broker_args done = {.op = WIRE_DUMPED, .arg = {plan()->number, (u64)-r}};
    broker_call(&done);
    twin_ended(twin);
}

/* ---- the order ---- */

void dump_begin(u32 number, u64 how, u32 count)
{
    dumps.number = number;
    dumps.count = count;
    dumps.planned = 0;
    dumps.how = DUMP_LEVELS(how) <= FD_BASE_MAX ? how : 0;
    dumps.used = dumps.shared_count = 0;
    dumps.pages = 0;
}

static struct task *twin_task(void)
{
    u32 i = atomic_add(&dumps.used, 1) - 1;
    if (i >= TWINS)
        return NULL;
    if (!dumps.twin[i])
        dumps.twin[i] = knew(struct task);
    if (dumps.twin[i])
        memset(&dumps.twin[i]->core, 0, sizeof(struct task_core));
    return dumps.twin[i];
}

void dump_reset(void) { dumps.used = 0; }

void dump_look(void)
{
    for (u32 i = 0; i < MIN(dumps.used, TWINS); i++) {
        struct task *twin = dumps.twin[i];
        u32 tid = twin ? atomic_load(&twin->core.host_tid) : 0;
        if (!tid || !carrier_died(&twin->core))
            continue;
        twin->core.host_tid = 0;
        broker_call_forget(tid);
        struct broker_args a = {.op = WIRE_DUMPED, .arg = {dumps.number, EOWNERDEAD}};
        broker_call(&a);
    }
}

static struct mm_base find_base(struct mm *mm)
{
    u32 top = DUMP_TOP(dumps.how);
    if (mm->base[1].mm && mm->base[1].number == top)
        mm->base[0] = mm->base[1];
    return DUMP_LEVELS(dumps.how) && mm->base[0].number == top ? mm->base[0] : (struct mm_base){0};
}

/* From now on: what is written. */
static void track(struct mm *mm)
{
    struct plan *l = plan();
    for (u32 i = 0; i < l->count; i++)
        if (!l->piece[i].still)
            track_open(mm, l->piece[i].start, l->piece[i].end);
    bool begun = track_begin(mm, dumps.number);
    for (u32 i = 0; begun && i < l->count; i++)
        if (l->piece[i].still)
            track_close(l->piece[i].start, l->piece[i].end, l->piece[i].prot);
}

long dump_fork(struct task *t)
{
    struct mm *mm = t->mm;
    struct task *twin = twin_task();
    if (!twin)
        return -ENOMEM;
    long r = host_mmap(DUMP_PLAN, PLAN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (is_err(r))
        return r;
    *plan() = (struct plan){.number = dumps.number, .how = dumps.how, .mm = mm, .base = find_base(mm)};
    plan()->index = atomic_add(&dumps.planned, 1) - 1;
    plan()->tracked = mm->closed && plan()->base.mm && mm->closed == plan()->base.number;
    r = make_plan(mm);
    if (!r) {
        r = host_clone_process(HOST_CLONE_PROCESS, &twin->core.host_tid);
        if (r == 0)
            twin_main(twin);
    }
    if (r > 0 && dumps.how & DUMP_BASE) {
        mm->base[1] = (struct mm_base){mm, dumps.number};
        track(mm);
    }
    host_munmap(DUMP_PLAN, PLAN_SIZE);
    return r < 0 ? r : 0;
}
