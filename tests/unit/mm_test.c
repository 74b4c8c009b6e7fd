/* Random calls on an address space, compared page by page with a model of what Linux would have, and with what the host shows.
 *
 * A call is first played in the model (`after`), then made; afterwards each page must be as in the model. When something was
 * made to fail, a page may also be as before, or, if the call was to change it, gone; the model then goes on with what is.
 * In all cases the array of mappings and the host agree, and neighbours that belong together are one mapping. */
#include "mm_fake.h"

#include <linux/mman.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/strbuf.h"
#include "host/host.h"
#include "mm/track.h"

#define RW (PROT_READ | PROT_WRITE)
#define TOP ((GUEST_MMAP_TOP - WINDOW) / PAGE_SIZE)
#define BRK_START (WINDOW + 200 * PAGE_SIZE)
#define ADDR(page) (WINDOW + (u64)(page) * PAGE_SIZE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define FLAGS (VM_SHARED | VM_GROWSDOWN | VM_LOCKED | VM_DONTFORK | VM_WIPEONFORK | VM_HEAP | VM_DENYWRITE)

struct page { /* of the model */
    bool used;
    u8 prot;
    u32 flags;
    void *map; /* names the mapping of a file */
    struct file *file;
    u64 off; /* page of the file */
    u32 tag; /* as host_page.tag */
};

static struct mm *mm;
static struct page now[PAGES], after[PAGES];
static u64 brk_now;
static u64 rng = 1;
static u32 tags, calls, injected;
static const char *doing = "start";
static bool may_go[PAGES]; /* with a failure, even if they are to look the same afterwards */
static void *const NEW = (void *)1; /* a mapping that the call makes */

static u32 rnd(u32 n)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (u32)(rng >> 20) % n;
}

static void show(const char *when, u32 i, const struct page *p)
{
    printf("# page %u %s: used %d prot %d flags %x map %p off %lu tag %u\n", i, when, p->used, p->prot, p->flags, p->map, p->off, p->tag);
}

#define MUST(c, ...)                                                                                                   \
    do {                                                                                                               \
        if (!(c)) {                                                                                                    \
            printf("# " __VA_ARGS__);                                                                                  \
            die("%s:%d: %s after call %u (%s)", __FILE__, __LINE__, #c, calls, doing);                                 \
        }                                                                                                              \
    } while (0)

/* ---- what has not been written since a snapshot (track.h) ---- */

static struct host_page snapshot[PAGES];
static u32 snapshots;

static bool closed(u32 i)
{
    u64 until;
    return mm->closed && track_closed(ADDR(i), &until);
}

static void check_closed(u32 i)
{
    const struct host_page *h = &host_pages[i], *s = &snapshot[i];
    MUST(h->kind == s->kind && h->serial == s->serial && h->tag == s->tag, "page %u is another one than at the snapshot\n", i);
}

/* ---- the array and the host ---- */

static struct page array_page(u32 i)
{
    struct vma *v = vma_find(mm, ADDR(i));
    struct page p = {0};
    if (!v)
        return p;
    p = (struct page){.used = true, .prot = (u8)v->prot, .flags = v->flags & FLAGS, .map = v->map, .tag = host_pages[i].tag};
    if (v->map) {
        p.file = v->map->file;
        p.off = (v->pgoff + (ADDR(i) - v->start)) / PAGE_SIZE;
    }
    return p;
}

static void check_host(u32 i, const struct page *p)
{
    const struct host_page *h = &host_pages[i];
    struct vma *v = vma_find(mm, ADDR(i));
    if (!p->used) {
        MUST(h->kind == SHOWS_NOTHING, "page %u: nothing should be there\n", i);
        return;
    }
    if (p->map && ADDR(i) >= vma_host_end(v)) { /* not mapped yet, or behind the end */
        MUST(h->kind == SHOWS_ANON && !h->prot && !h->tag, "page %u: behind the end: kind %d prot %d\n", i, h->kind, h->prot);
        return;
    }
    if (closed(i))
        check_closed(i);
    u8 prot = closed(i) ? p->prot & (u8)~PROT_WRITE : p->prot;
    MUST(h->kind != SHOWS_NOTHING && h->prot == prot, "page %u: kind %d, prot %d, want %d\n", i, h->kind, h->prot, p->prot);
    if (!p->map) {
        MUST(h->kind == SHOWS_ANON, "page %u: not anonymous\n", i);
        return;
    }
    struct host_page want = file_place(p->file, p->off);
    MUST(h->kind == want.kind && (h->kind == SHOWS_ANON || (h->fd == want.fd && h->off == want.off)),
         "page %u: wrong place: kind %d fd %d off %lx, want %d fd %d off %lx\n", i, h->kind, h->fd, h->off, want.kind, want.fd,
         want.off);
    MUST(h->kind == SHOWS_ANON || h->shared == (p->flags & VM_SHARED && h->fd == FD_D), "page %u: shared %d\n", i, h->shared);
    MUST(p->off < file_pages(p->file), "page %u: shows page %lu of a file of %lu\n", i, p->off, file_pages(p->file));
}

static void check_array(void)
{
    u64 total = 0;
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i], *n = v + 1;
        MUST(v->start < v->end, "vma %u: %lx-%lx\n", i, v->start, v->end);
        total += (v->end - v->start) / PAGE_SIZE;
        if (i + 1 == mm->count)
            break;
        MUST(v->end <= n->start, "vma %u: order\n", i);
        bool joined = v->end == n->start && v->prot == n->prot && v->flags == n->flags && v->map == n->map &&
                      (!v->map || v->pgoff + (v->end - v->start) == n->pgoff);
        bool gap = v->map && vma_host_end(v) < v->end && vma_host_end(n) > n->start;
        if (joined && gap)
            continue;
        MUST(!joined, "vma %u: %lx-%lx-%lx prot %x flags %x should be one\n", i, v->start, v->end, n->end, v->prot, v->flags);
    }
    MUST(total == mm->total_pages, "total pages %lu, counted %lu\n", mm->total_pages, total);
    MUST(!mm->dead && !mm->lock.word, "left over\n");
}

static bool same(const struct page *a, const struct page *b)
{
    return a->used == b->used && (!a->used || (a->prot == b->prot && a->flags == b->flags && a->off == b->off && a->tag == b->tag &&
        (a->map == b->map || (b->map == NEW && a->map)) && a->file == b->file));
}

/* keep: pages whose contents must still be there when the call failed. */
static void check(u32 keep, u32 keep_count)
{
    check_array();
    for (u32 i = 0; i < PAGES; i++) {
        struct page p = array_page(i);
        check_host(i, &p);
        if (failed_once) {
            bool changes = !same(&now[i], &after[i]) || may_go[i];
            if (!same(&p, &now[i]) && !same(&p, &after[i]) && (!changes || p.used)) {
                show("before", i, &now[i]);
                show("wanted", i, &after[i]);
                show("got", i, &p);
            }
            MUST(same(&p, &now[i]) || same(&p, &after[i]) || (changes && !p.used), "page %u after a failure\n", i);
            MUST(i < keep || i - keep >= keep_count || same(&p, &now[i]), "page %u was lost\n", i);
        } else {
            if (!same(&p, &after[i])) {
                show("before", i, &now[i]);
                show("wanted", i, &after[i]);
                show("got", i, &p);
            }
            MUST(same(&p, &after[i]), "page %u\n", i);
        }
        now[i] = p;
    }
    injected += failed_once;
}

static void begin(const char *what)
{
    doing = what;
    calls++;
    memcpy(after, now, sizeof(now));
    memset(may_go, 0, sizeof(may_go));
    failed_once = false;
}

static void inject(void) { fail_in = rnd(3) ? 0 : 1 + rnd(6); }

/* Model and call agree about the result. */
static void result(long got, long want, u32 keep, u32 keep_count)
{
    fail_in = 0;
    if (!failed_once)
        MUST(got == want, "result %lx, want %lx\n", got, want);
    check(keep, failed_once && is_err(got) ? keep_count : 0);
}

/* ---- the model ---- */

static bool range_free(const struct page *m, u32 at, u32 n)
{
    for (u32 i = at; i < at + n; i++)
        if (i >= PAGES || m[i].used)
            return false;
    return true;
}

static long highest_gap(const struct page *m, u32 n)
{
    for (u32 at = TOP; at-- > 0;)
        if (at + n <= TOP && range_free(m, at, n))
            return at;
    return -1;
}

/* End of the mapping that page i belongs to. Of a file that grew, a part that shows the new pages stays apart from one before it
 * that does not yet: check_array() says when that may be. */
static u32 run_end(u32 i)
{
    for (; i + 1 < PAGES; i++) {
        const struct page *a = &now[i], *b = a + 1;
        if (!b->used || a->prot != b->prot || a->flags != b->flags || a->map != b->map || (a->map && a->off + 1 != b->off) ||
            (a->map && vma_find(mm, ADDR(i)) != vma_find(mm, ADDR(i + 1))))
            break;
    }
    return i + 1;
}

static struct page following(struct page p, u32 n)
{
    p.off += p.map ? n : 0;
    p.tag = 0;
    return p;
}

static u8 any_prot(void)
{
    static const u8 prots[] = {0, PROT_READ, RW, RW, RW, PROT_READ | PROT_EXEC, RW | PROT_EXEC};
    return prots[rnd(sizeof(prots))];
}

/* ---- the calls ---- */

static void op_map(void)
{
    u32 n = rnd(8) ? 1 + rnd(12) : 1 + rnd(40), at = rnd(PAGES), how = rnd(4), off = 0;
    u8 prot = any_prot();
    struct file *f = NULL;
    int flags = rnd(3) ? MAP_PRIVATE : MAP_SHARED;
    u64 hint = 0;

    begin("mmap");
    if (rnd(2)) {
        f = &fake_files[rnd(FILES)]->f;
        off = rnd(12);
    } else {
        flags |= MAP_ANONYMOUS;
    }
    if (at + n > PAGES)
        at = PAGES - n;
    if (how) {
        hint = ADDR(at);
        flags |= how == 2 ? MAP_FIXED : how == 3 ? MAP_FIXED_NOREPLACE : 0;
    }
    long want;
    if (f && flags & MAP_SHARED && prot & PROT_WRITE && !(f->mode & FMODE_WRITE)) {
        want = -EACCES;
    } else if (how == 3 && !range_free(now, at, n)) {
        want = -EEXIST;
    } else {
        long to = how >= 2 || (how == 1 && range_free(now, at, n)) ? (long)at : highest_gap(now, n);
        want = to < 0 ? -ENOMEM : (long)ADDR(to);
        u32 vm = (flags & MAP_SHARED ? VM_SHARED : 0) |
                 (flags & MAP_SHARED && f && !(f->mode & FMODE_WRITE) ? VM_DENYWRITE : 0);
        bool file = f || flags & MAP_SHARED;
        for (u32 i = 0; to >= 0 && i < n; i++)
            after[to + i] = (struct page){.used = true, .prot = prot, .flags = vm, .map = file ? NEW : NULL, .file = f,
                                          .off = file ? off + i : 0};
    }
    if (how == 2)
        memset(&may_go[at], 1, n);
    inject();
    long r = mm_map(mm, hint, n * PAGE_SIZE - rnd(PAGE_SIZE), prot, flags, f, off * PAGE_SIZE);
    if (!is_err(r)) {
        struct vma *v = vma_find(mm, (u64)r);
        for (u32 i = 0; v && i < PAGES; i++)
            if (after[i].map == NEW) {
                after[i].map = v->map;
                after[i].file = v->map->file;
            }
    }
    result(r, want, 0, 0);
}

static void op_unmap(void)
{
    u32 at = rnd(PAGES), n = 1 + rnd(20);
    begin("munmap");
    n = MIN(n, PAGES - at);
    memset(&after[at], 0, n * sizeof(after[0]));
    inject();
    result(mm_unmap(mm, ADDR(at), n * PAGE_SIZE), 0, at, n);
}

static void op_protect(void)
{
    u32 at = rnd(PAGES), n = 1 + rnd(20);
    u8 prot = any_prot();
    long want = 0;
    begin("mprotect");
    n = MIN(n, PAGES - at);
    for (u32 i = at; i < at + n && !want; i++) {
        if (!now[i].used)
            want = -ENOMEM;
        else if (prot & PROT_WRITE && now[i].flags & VM_DENYWRITE)
            want = -EACCES;
        else
            after[i].prot = prot;
    }
    inject();
    result(mm_protect(mm, ADDR(at), n * PAGE_SIZE, prot), want, 0, 0);
}

static void op_brk(void)
{
    u64 to = BRK_START - PAGE_SIZE + rnd(40 * PAGE_SIZE);
    u64 old = (PAGE_UP(brk_now) - WINDOW) / PAGE_SIZE, end = (PAGE_UP(to) - WINDOW) / PAGE_SIZE;
    begin("brk");
    u64 want = to;
    if (to < BRK_START || (end > old && !range_free(now, (u32)old, (u32)(end - old))))
        want = brk_now;
    for (u64 i = end; want == to && i < old; i++)
        after[i] = (struct page){0};
    for (u64 i = old; want == to && i < end; i++)
        after[i] = (struct page){.used = true, .prot = RW, .flags = VM_HEAP};
    inject();
    brk_now = (u64)mm_brk(mm, to);
    result((long)brk_now, (long)want, 0, 0);
}

static long model_remap(u32 at, u32 old, u32 n, u32 flags, u32 to)
{
    bool fixed = flags & MREMAP_FIXED, keep = flags & MREMAP_DONTUNMAP;
    if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) && !(flags & MREMAP_MAYMOVE))
        return -EINVAL;
    if ((keep && old != n) || (fixed && to < at + old && at < to + n))
        return -EINVAL;
    struct page first = now[at];
    if (!first.used)
        return -EFAULT;
    if (!old && !(first.flags & VM_SHARED))
        return -EINVAL;
    u32 end = run_end(at);
    if (old > end - at)
        return -EFAULT;
    if (keep && first.map)
        return -EINVAL;
    if (!fixed && old && !keep) {
        if (n <= old) {
            memset(&after[at + n], 0, (old - n) * sizeof(after[0]));
            return (long)ADDR(at);
        }
        if (at + old == end && range_free(now, end, at + n - end)) {
            for (u32 i = end; i < at + n; i++)
                after[i] = following(first, i - at);
            return (long)ADDR(at);
        }
    }
    if (!(flags & MREMAP_MAYMOVE))
        return -ENOMEM;
    long where = fixed ? (long)to : highest_gap(now, n);
    if (where < 0)
        return -ENOMEM;
    to = (u32)where;
    if (fixed)
        memset(&after[to], 0, n * sizeof(after[0]));
    if (!old && !after[at].used) /* the target was the source */
        return -EFAULT;
    for (u32 i = at; i < at + old; i++)
        after[i] = keep ? following(now[i], 0) : (struct page){0};
    for (u32 i = 0; i < n; i++)
        after[to + i] = i < MIN(n, old) ? now[at + i] : following(first, i);
    return (long)ADDR(to);
}

static void op_remap(void)
{
    u32 at = rnd(PAGES), old, n = 1 + rnd(16), to = rnd(PAGES), flags = rnd(4) ? MREMAP_MAYMOVE : 0;
    for (u32 i = 0; i < 8 && !now[at].used; i++)
        at = rnd(PAGES);
    u32 room = now[at].used ? run_end(at) - at : 1;
    old = rnd(8) ? rnd(room) + 1 : rnd(16) / 4;
    if (rnd(3) == 0)
        flags |= MREMAP_FIXED;
    if (rnd(5) == 0) {
        flags |= MREMAP_DONTUNMAP;
        n = old ? old : n;
    }
    begin("mremap");
    if (rnd(10) == 0)
        to = at;
    if (to + n > PAGES)
        to = PAGES - n;
    if (at + old > PAGES)
        old = PAGES - at;
    long want = model_remap(at, old, n, flags, to);
    if (flags & MREMAP_DONTUNMAP)
        memset(&may_go[at], 1, old);
    if (flags & MREMAP_FIXED)
        memset(&may_go[to], 1, n);
    inject();
    long r = mm_remap(mm, ADDR(at), old * PAGE_SIZE, n * PAGE_SIZE, flags, ADDR(to));
    result(r, want, at, MIN(old, n));
}

static void op_advise(void)
{
    static const int advices[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_FREE, MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK,
                                  MADV_KEEPONFORK, MADV_POPULATE_READ, MADV_NORMAL, MADV_PAGEOUT, 77};
    int advice = advices[rnd(ARRAY_COUNT(advices))];
    u32 at = rnd(PAGES), n = 1 + rnd(20);
    long want = 0;
    begin("madvise");
    n = MIN(n, PAGES - at);
    if (advice == 77)
        want = -EINVAL;
    for (u32 i = at; i < at + n && want != -EINVAL && want != -EFAULT; i++) {
        struct page *p = &after[i];
        bool file = p->map;
        if (!p->used) {
            want = -ENOMEM;
            continue;
        }
        switch (advice) {
        case MADV_DONTNEED:
            p->tag = 0;
            break;
        case MADV_FREE:
            want = file ? -EINVAL : want;
            p->tag = file ? p->tag : 0;
            break;
        case MADV_DONTFORK: p->flags |= VM_DONTFORK; break;
        case MADV_DOFORK: p->flags &= ~VM_DONTFORK; break;
        case MADV_WIPEONFORK: case MADV_KEEPONFORK:
            if (file)
                want = -EINVAL;
            else
                p->flags = advice == MADV_WIPEONFORK ? p->flags | VM_WIPEONFORK : p->flags & ~VM_WIPEONFORK;
            break;
        case MADV_POPULATE_READ: {
            struct vma *v = vma_find(mm, ADDR(i));
            u64 end = MIN(v->end, ADDR(at + n));
            if (!p->prot)
                want = -EINVAL;
            else if (vma_host_end(v) < end)
                want = -EFAULT;
            break;
        }
        default: break;
        }
    }
    inject();
    result(mm_advise(mm, ADDR(at), n * PAGE_SIZE, advice), want, 0, 0);
}

#define PF_PRESENT 1u
#define PF_WRITE 2u
#define PF_FETCH 16u

static bool host_allows(u32 i, u8 need) { return host_pages[i].kind && (host_pages[i].prot & need) == need; }

/* An access faulted before another thread made it possible. */
static void late_fault(u32 i, u64 error)
{
    mm_lock(mm);
    mm_unlock(mm);
    MUST(mm_fault(mm, ADDR(i), error), "page %u: a late fault\n", i);
    if (!mm->closed || !(error & PF_WRITE)) /* of a write to what was closed once, the host's answer is believed */
        MUST(!mm_fault(mm, ADDR(i), error), "page %u: nothing has changed\n", i);
}

/* An access by the guest. */
static void op_access(void)
{
    u32 i = rnd(PAGES);
    u8 need = (u8[]){PROT_READ, PROT_WRITE, PROT_EXEC}[rnd(3)];
    begin("access");
    const struct page *p = &now[i];
    bool prot_ok = p->used && (need == PROT_READ ? p->prot != 0 : (p->prot & need) != 0);
    bool inside = !p->file || p->off < file_pages(p->file);
    inject();
    u32 tries = 0;
    u64 error = need == PROT_WRITE ? PF_WRITE : need == PROT_EXEC ? PF_FETCH : 0;
    if (need == PROT_READ && p->prot && !closed(i))
        need = p->prot; /* what can be written or executed can be read */
    bool ok = host_allows(i, need);
    if (ok && rnd(2))
        late_fault(i, error | PF_PRESENT);
    while (!ok && tries++ < 12) {
        if (!mm_fault(mm, ADDR(i) + rnd(PAGE_SIZE), error | (host_pages[i].prot ? PF_PRESENT : 0)))
            break;
        ok = host_allows(i, need);
    }
    fail_in = 0;
    if (!failed_once) {
        MUST(ok == (prot_ok && inside), "page %u, need %d: allowed %d, want %d\n", i, need, ok, prot_ok && inside);
        MUST(tries <= 2, "page %u: %u faults\n", i, tries);
    }
    if (!ok && !failed_once && (prot_ok || inside)) {
        int sig, code = mm_fault_signal(mm, ADDR(i), error, SIGSEGV, &sig);
        MUST(sig == (prot_ok ? SIGBUS : SIGSEGV) && code == (!p->used ? SEGV_MAPERR : prot_ok ? BUS_ADRERR : SEGV_ACCERR),
             "page %u: signal %d code %d\n", i, sig, code);
    }
    if (ok && need & PROT_WRITE && !(p->flags & VM_SHARED))
        host_pages[i].tag = after[i].tag = ++tags;
    check(0, 0);
}

/* All tasks are parked, and the pages have been written. */
static void op_snapshot(void)
{
    begin("snapshot");
    inject();
    bool close[PAGES];
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        close[i % PAGES] = rnd(4) && !(v->flags & VM_SHARED) && v->start >= WINDOW && v->end <= WINDOW_END && vma_host_end(v) == v->end;
        if (!close[i % PAGES] && v->end > WINDOW && v->start < WINDOW_END)
            track_open(mm, MAX(v->start, WINDOW), MIN(v->end, WINDOW_END));
    }
    if (track_begin(mm, ++snapshots))
        for (u32 i = 0; i < mm->count; i++)
            if (close[i % PAGES])
                track_close(mm->vmas[i].start, mm->vmas[i].end, mm->vmas[i].prot);
    fail_in = 0;
    memcpy(snapshot, host_pages, sizeof(snapshot));
    check(0, 0);
}

/* A file grows or is cut. */
static void op_truncate(void)
{
    struct file *f = &fake_files[rnd(FILES)]->f;
    u64 pages = rnd(24);
    begin("truncate");
    bool cut = pages < file_pages(f);
    f->inode->size = pages ? pages * PAGE_SIZE - rnd(PAGE_SIZE) : 0;
    if (cut && f->inode->mapped)
        mm_files_cut(mm);
    for (u32 i = 0; i < PAGES; i++)
        if (after[i].file == f && after[i].off >= pages)
            after[i].tag = 0;
    check(0, 0);
}

static void op_fork(void)
{
    begin("fork");
    inject();
    mm_lock(mm);
    struct mm *child = mm_copy(mm);
    mm_unlock(mm);
    fail_in = 0;
    if (child) {
        MUST(child->count == mm->count && child->total_pages == mm->total_pages, "a copy of %u\n", child->count);
        mm_put(child);
    } else {
        MUST(failed_once, "fork\n");
    }
    check(0, 0);
}

/* /proc/PID/maps against the model's runs. */
static void op_maps(void)
{
    struct strbuf sb = {0};
    begin("maps");
    mm_show_maps(mm, &sb);
    sb_write(&sb, "", 1);
    MUST(!sb.failed, "no text\n");
    const char *line = strchr(sb.buf, '\n') + 1; /* the floor of the window */
    for (u32 i = 0; i < PAGES; i++) {
        if (!now[i].used)
            continue;
        u32 first = i;
        while (i + 1 < run_end(first))
            i++;
        u64 start, end, off, ino;
        char prot[5];
        MUST(sscanf(line, "%lx-%lx %4s %lx 00:00 %lu", &start, &end, prot, &off, &ino) == 5, "line: %s", line);
        line = strchr(line, '\n') + 1;
        const struct page *p = &now[first];
        MUST(start == ADDR(first) && end == ADDR(i + 1), "%lx-%lx, want %lx-%lx\n", start, end, ADDR(first), ADDR(i + 1));
        MUST(prot[0] == (p->prot & PROT_READ ? 'r' : '-') && prot[1] == (p->prot & PROT_WRITE ? 'w' : '-') &&
             prot[2] == (p->prot & PROT_EXEC ? 'x' : '-') && prot[3] == (p->flags & VM_SHARED ? 's' : 'p'), "prot %s\n", prot);
        MUST(off == p->off * PAGE_SIZE && ino == (p->map ? p->file->inode->ino : 0), "off %lx ino %lu\n", off, ino);
    }
    sb_free(&sb);
}

/* ---- set pieces ---- */

static void set_up(void)
{
    mm = mm_new();
    memset(now, 0, sizeof(now));
    mm->brk_start = mm->brk = brk_now = BRK_START;
    /* Nothing is free outside of the window. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    MUST(mm_map(mm, GUEST_MIN, WINDOW - GUEST_MIN, 0, flags, NULL, 0) == (long)GUEST_MIN, "floor\n");
    MUST(mm_map(mm, WINDOW_END, 64 * PAGE_SIZE, 0, flags, NULL, 0) == (long)WINDOW_END, "ceiling\n");
}

static void tear_down(void)
{
    begin("end");
    for (u32 i = 0; i < FILES; i++)
        fake_files[i]->i.mapped = 0;
    memset(after, 0, sizeof(after));
    MUST(!mm_unmap(mm, WINDOW, WINDOW_END - WINDOW), "munmap of all\n");
    check(0, 0);
    mm_put(mm);
    MUST(!live_blocks, "%ld blocks of memory\n", live_blocks);
    MUST(live_files == FILES, "%u files\n", live_files);
    for (u32 i = 0; i < FILES; i++)
        MUST(fake_files[i]->f.refs == 1 && fake_files[i]->maps == fake_files[i]->unmaps, "file %u\n", i);
}

static void random_calls(u32 count, u64 seed)
{
    rng = seed * 0x9e3779b97f4a7c15ull | 1;
    set_up();
    for (u32 i = 0; i < count; i++) {
        static void (*const ops[])(void) = {op_map, op_map, op_map, op_unmap, op_unmap, op_protect, op_protect, op_brk, op_remap,
            op_remap, op_remap, op_advise, op_advise, op_access, op_access, op_access, op_access, op_access, op_truncate, op_fork,
            op_maps, op_snapshot};
        ops[rnd(ARRAY_COUNT(ops))]();
    }
    tear_down();
}

/* Faults that were found, each as it was. */

static long map_pages(u32 at, u32 n, int flags, struct file *f)
{
    return mm_map(mm, ADDR(at), n * PAGE_SIZE, RW, flags | MAP_FIXED, f, 0);
}

static void resync(void)
{
    fail_in = 0;
    check_array();
    for (u32 i = 0; i < PAGES; i++) {
        now[i] = array_page(i);
        check_host(i, &now[i]);
    }
}

static bool readable(u32 i) { return host_allows(i, PROT_READ) || (mm_fault(mm, ADDR(i), 0) && host_allows(i, PROT_READ)); }

static void found(void)
{
    struct file *f = &fake_files[0]->f;
    set_up();

    begin("mremap: a duplicate onto its source");
    map_pages(8, 2, MAP_SHARED | MAP_ANONYMOUS, NULL);
    long r = mm_remap(mm, ADDR(8), 0, 2 * PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, ADDR(8));
    MUST(r == -EFAULT, "result %ld\n", r);
    resync();

    begin("mremap: pages that appeared in the file before the mapping grew");
    for (u32 fixed = 0; fixed < 2; fixed++) {
        f->inode->size = PAGE_SIZE;
        map_pages(16, 4, MAP_PRIVATE, f);
        f->inode->size = 12 * PAGE_SIZE;
        u32 to = fixed ? 40 : 16;
        r = mm_remap(mm, ADDR(16), 4 * PAGE_SIZE, 10 * PAGE_SIZE, fixed ? MREMAP_MAYMOVE | MREMAP_FIXED : 0, ADDR(to));
        MUST(r == (long)ADDR(to), "result %ld\n", r);
        for (u32 i = to; i < to + 10; i++)
            MUST(readable(i), "page %u\n", i);
        resync();
        mm_unmap(mm, ADDR(to), 10 * PAGE_SIZE);
    }

    begin("mremap: a part of a mapping grows when its file has become shorter");
    f->inode->size = 8 * PAGE_SIZE;
    map_pages(16, 8, MAP_PRIVATE, f);
    mm_unmap(mm, ADDR(18), 6 * PAGE_SIZE);
    f->inode->size = 3 * PAGE_SIZE;
    mm_files_cut(mm);
    MUST(mm_remap(mm, ADDR(16), 2 * PAGE_SIZE, 6 * PAGE_SIZE, 0, 0) == (long)ADDR(16), "grow\n");
    MUST(readable(18) && !readable(19), "the end\n");
    f->inode->size = 6 * PAGE_SIZE;
    MUST(readable(20), "the end moved\n");
    resync();
    mm_unmap(mm, ADDR(16), 6 * PAGE_SIZE);

    begin("mremap: an error loses nothing");
    for (u32 n = 1; n < 12; n++) {
        map_pages(16, 3, MAP_PRIVATE, f);
        map_pages(19, 1, ANON, NULL);
        host_pages[17].tag = 77;
        host_pages[18].serial++;
        fail_in = n;
        r = mm_remap(mm, ADDR(16), 3 * PAGE_SIZE, 5 * PAGE_SIZE, MREMAP_MAYMOVE, 0);
        resync();
        u32 at = is_err(r) ? 16 : (u32)(((u64)r - WINDOW) / PAGE_SIZE);
        MUST(now[at].used && now[at + 2].used && now[at + 1].tag == 77, "failure %u\n", n);
        mm_unmap(mm, ADDR(at), 5 * PAGE_SIZE);
        mm_unmap(mm, ADDR(19), PAGE_SIZE);
    }

    begin("a fault that fails half way keeps what was mapped");
    f->inode->size = PAGE_SIZE;
    map_pages(16, 10, MAP_PRIVATE, f);
    f->inode->size = 10 * PAGE_SIZE;
    fail_in = 3; /* the second piece of the file */
    mm_fault(mm, ADDR(24), 0);
    fail_in = 0;
    MUST(host_allows(17, PROT_WRITE), "the first piece\n");
    host_pages[17].tag = 78;
    MUST(readable(24) && host_pages[17].tag == 78, "written memory is lost\n");
    resync();
    mm_unmap(mm, ADDR(16), 10 * PAGE_SIZE);

    begin("madvise: a piece of a file mapping that came from a snapshot");
    map_pages(16, 8, MAP_PRIVATE, f);
    vma_find(mm, ADDR(16))->flags |= VM_BASE;
    host_pages[18].tag = host_pages[22].tag = 79;
    MUST(!mm_advise(mm, ADDR(17), 3 * PAGE_SIZE, MADV_DONTNEED), "dontneed\n");
    resync();
    MUST(!host_pages[18].tag && host_pages[22].tag == 79, "the piece and no more\n");
    MUST(!mm_protect(mm, ADDR(16), 8 * PAGE_SIZE, PROT_READ) && host_pages[22].prot == PROT_READ, "what is behind it\n");
    mm_unmap(mm, ADDR(16), 8 * PAGE_SIZE);

    begin("mremap: what MREMAP_DONTUNMAP leaves is counted once");
    map_pages(16, 4, ANON, NULL);
    MUST(!is_err(mm_remap(mm, ADDR(16), 4 * PAGE_SIZE, 4 * PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0)), "dontunmap\n");
    resync();

    begin("madvise: holes are told");
    mm_unmap(mm, ADDR(18), PAGE_SIZE);
    MUST(mm_advise(mm, ADDR(16), 4 * PAGE_SIZE, MADV_DONTFORK) == -ENOMEM, "a hole\n");
    resync();
    MUST(now[16].flags & VM_DONTFORK && now[19].flags & VM_DONTFORK, "the rest is done\n");
    tear_down();
}

/* The stack grows to the page that is touched, as far as its limit and the mapping below allow. */
static void stack(void)
{
    set_up();
    begin("stack");
    mm_unmap(mm, GUEST_MIN, WINDOW - GUEST_MIN);
    MUST(!is_err(mm_map(mm, ADDR(100), 4 * PAGE_SIZE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, NULL, 0)), "map\n");
    MUST(mm_fault(mm, ADDR(90) + 5, PF_WRITE), "grows\n");
    MUST(host_allows(90, PROT_WRITE) && host_allows(99, PROT_WRITE) && !host_pages[89].kind, "the pages between\n");
    resync();
    MUST(!mm_fault(mm, ADDR(104) - (8ul << 20) - 1, PF_WRITE), "the limit\n");
    map_pages(80, 1, ANON, NULL);
    MUST(!mm_fault(mm, ADDR(85), PF_WRITE), "too near to the mapping below\n");
    resync();
    mm_unmap(mm, ADDR(0), PAGES * PAGE_SIZE);
    resync();
    fake_files[0]->i.size = 8 * PAGE_SIZE;
    tear_down();
}

/* Kernel code that holds a lock faults while another thread has the address space's, and does not run: in the end one gives up. */
static void lock_waits(void)
{
    struct mutex inode = {0};
    set_up();
    begin("a fault waits for the lock");
    map_pages(16, 1, ANON, NULL);
    mutex_lock(&inode);
    for (u32 seconds = 0; seconds <= 10; seconds += 10) {
        other_holds = &mm->lock;
        mm->lock.word = 1;
        other_until = host_clock(CLOCK_MONOTONIC) + 500000000ul + seconds * 1000000000ul;
        mm->changes++;
        MUST(mm_fault(mm, ADDR(16), PF_WRITE) == !seconds, "%u s\n", seconds);
        mm->lock.word = 0;
        other_holds = NULL;
    }
    mutex_unlock(&inode);
    resync();
    tear_down();
}

int main(int argc, char **argv)
{
    fake_init();
    found();
    stack();
    lock_waits();
    u64 seeds = argc > 1 ? (u64)atol(argv[1]) : 0;
    for (u64 seed = seeds ? seeds : 1; seed <= (seeds ? seeds : 60); seed++) {
        random_calls(1000, seed);
        printf("ok - seed %lu\n", seed);
    }
    printf("# %u calls, %u with a failure\n1..60\n", calls, injected);
    return injected ? 0 : 1;
}
