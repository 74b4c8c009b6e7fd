/* Faults in guest memory, /proc/PID/maps, and the way from an address to its exec view. See mm.h. */
#include <linux/mman.h>
#include <asm/siginfo.h>
#include <asm/signal.h>

#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/current.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/strbuf.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "mm/track.h"
#include "vfs/vfs.h"
#include "wire/view.h"

extern char gvdso_start[] __attribute__((weak)), gvdso_end[] __attribute__((weak));

#define PF_WRITE 2u
#define PF_FETCH 16u
#define STACK_GUARD (256 * PAGE_SIZE)
#define RLIM_STACK 3
#define YIELDS 1000
#define PATIENCE 1000000000ul /* ns; the holder of the lock may wait long for a processor */
#define NAP 1000000ul

/* A fault can come from kernel code that holds an inode lock, which another holder of mm->lock may want: that gives up in the
 * end (the access fails) rather than wait for ever. */
static bool lock_for_fault(struct mm *mm)
{
    if (mutex_held(&mm->lock))
        return false;
    if (mutex_none_held()) {
        mutex_lock(&mm->lock);
        return true;
    }
    for (u32 i = 0; i < YIELDS; i++) {
        if (mutex_trylock(&mm->lock))
            return true;
        host_yield();
    }
    static KSTATE u32 nap; /* stays 0 */
    u64 now = host_clock(CLOCK_MONOTONIC), stop = now + PATIENCE;
    for (; now < stop; now = host_clock(CLOCK_MONOTONIC)) {
        if (mutex_trylock(&mm->lock))
            return true;
        host_futex_wait(&nap, 0, now + NAP); /* not on the lock's word: a wake for one that counts on it would be taken from it */
    }
    return false;
}

/* The mapping allows an access that faulted: it was made, or opened (track.h), since. That cannot be if the same access has faulted
 * before and nothing has changed in between: then the host does not give the page (out of memory, a file cut outside). */
static bool changed_since(struct mm *mm, u64 page)
{
    struct carrier *c = this_carrier();
    bool changed = c->fault_page != page || c->fault_changes != mm->changes;
    c->fault_page = page;
    c->fault_changes = mm->changes;
    return changed;
}

static bool allowed(const struct vma *v, u64 error)
{
    if (error & PF_FETCH)
        return v->prot & PROT_EXEC;
    if (error & PF_WRITE)
        return v->prot & PROT_WRITE;
    return v->prot & (PROT_READ | PROT_WRITE | PROT_EXEC);
}

static bool fault_grow_down(struct mm *mm, u64 page)
{
    u32 i = vma_lower(mm, page);
    if (i == mm->count || !(mm->vmas[i].flags & VM_GROWSDOWN))
        return false;
    struct vma *v = &mm->vmas[i];
    u64 limit = current_rlimit(RLIM_STACK);
    u64 floor = i ? mm->vmas[i - 1].end : GUEST_MIN;
    if (v->end - page > limit || page < GUEST_MIN || page < floor || page - floor < STACK_GUARD)
        return false;
    long r = host_mmap(page, v->start - page, (int)v->prot,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (is_err(r))
        return false;
    mm->total_pages += (v->start - page) >> PAGE_SHIFT;
    v->start = page;
    return true;
}

bool mm_fault(struct mm *mm, u64 addr, u64 error_code)
{
    if (addr < GUEST_MIN || addr >= GUEST_END)
        return false;
    if (mm->closed && error_code & PF_WRITE && track_fault(mm, addr))
        return true;
    if (!lock_for_fault(mm))
        return false;
    u64 page = PAGE_DOWN(addr);
    bool retry = false;
    struct vma *v = vma_find(mm, addr);
    if (!v) {
        retry = fault_grow_down(mm, page);
        goto out;
    }
    if (!allowed(v, error_code))
        goto out;
    u64 end = vma_host_end(v);
    if (addr >= end) {
        u64 before = v->eof;
        retry = !vma_map_file(v, end, v->end) && v->eof > before && addr < vma_host_end(v);
        vma_merge(mm, v->start, v->end);
    } else {
        retry = changed_since(mm, page);
    }
out:
    mm_unlock(mm);
    return retry;
}

int mm_fault_signal(struct mm *mm, u64 addr, u64 error_code, int host_sig, int *sig)
{
    *sig = host_sig;
    int code = host_sig == SIGBUS ? BUS_ADRERR : SEGV_MAPERR;
    if (addr < GUEST_MIN || addr >= GUEST_END || !lock_for_fault(mm))
        return code;
    struct vma *v = vma_find(mm, addr);
    if (v && !(v->flags & VM_HIDDEN)) {
        if (allowed(v, error_code) && addr >= vma_host_end(v)) { /* behind the end of the file */
            *sig = SIGBUS;
            code = BUS_ADRERR;
        } else if (host_sig != SIGBUS) {
            code = SEGV_ACCERR;
        }
    }
    mm_unlock(mm);
    return code;
}

/* The exec view whose text (VM_VIEW) or trampolines (VM_HIDDEN) hold an address. */
static bool view_at(struct mm *mm, u64 addr, u32 kind, struct vview *out)
{
    if (addr < GUEST_MIN || addr >= GUEST_END)
        return false;
    mm_lock(mm);
    struct vma *v = vma_find(mm, addr);
    bool found = v && v->flags & kind && v->map && v->map->view;
    if (found)
        *out = *v->map->view;
    mm_unlock(mm);
    return found;
}

/* The container lies mapped in every stub, and the entry's bounds were checked when it was read. */
static struct view_source view_source_of(const struct vview *w)
{
    const char *mem = w->sites ? (const char *)w->sites - w->e.sites_off : (const char *)CONTAINER_BASE(w->fd);
    return (struct view_source){.mem = mem,
                                .size = w->e.sites_off + (u64)w->e.sites_count * sizeof(struct view_site)};
}

u64 view_original(const struct vview *w, u64 ip)
{
    struct view_site s;
    struct view_source src = view_source_of(w);
    return view_site_of_tramp(&src, &w->e, ip - w->bias, &s) ? ip : w->bias + view_tramp_to_site(&s, ip - w->bias);
}

u64 mm_view_original(struct mm *mm, u64 ip)
{
    struct vview w;
    u64 hot;
    if (mm_hot_original(mm, ip, &hot))
        return hot;
    return view_at(mm, ip, VM_HIDDEN, &w) ? view_original(&w, ip) : ip;
}

u64 mm_view_resume(struct mm *mm, u64 ip)
{
    struct vview w;
    struct view_site s;
    if (!view_at(mm, ip, VM_VIEW, &w))
        return ip;
    struct view_source src = view_source_of(&w);
    if (view_site_at(&src, &w.e, ip - w.bias, &s) || ip - w.bias == s.site_off) /* the jump itself */
        return ip;
    return w.bias + view_site_to_tramp(&s, ip - w.bias);
}

u64 mm_view_at_call(struct mm *mm, u64 ip)
{
    struct vview w;
    struct view_site s;
    u8 code[2];
    ip -= 2;
    if (view_at(mm, ip, VM_VIEW, &w)) {
        struct view_source src = view_source_of(&w);
        if (!view_site_at(&src, &w.e, ip - w.bias, &s))
            return ip - w.bias == s.site_off + (u64)s.sys ? ip : 0;
    }
    return !copy_from_user(code, ip, 2) && code[0] == 0x0f && code[1] == 0x05 ? ip : 0;
}

static const char *area_name(struct mm *mm, const struct vma *v)
{
    if (v->flags & VM_VDSO)
        return "[vdso]";
    if (v->flags & VM_HEAP)
        return "[heap]";
    if (v->start < mm->stack_top && v->end >= mm->stack_top)
        return "[stack]";
    return NULL;
}

static void show_maps(struct mm *mm, struct strbuf *sb, bool detail);

static void show_sizes(struct strbuf *sb, const struct vma *v, u64 size)
{
    bool shared = v && v->flags & VM_SHARED;
    bool file = v && v->map && (shared || !(v->flags & VM_WROTE)); /* what was written is the process's own: a core file needs it */
    u64 kb = size >> 10, rss = !v || v->prot ? kb : 0;
    if (v)
        sb_printf(sb, "Size:           %8lu kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n", kb);
    sb_printf(sb, "Rss:            %8lu kB\nPss:            %8lu kB\nPss_Dirty:             0 kB\nShared_Clean:   %8lu kB\n"
                  "Shared_Dirty:          0 kB\nPrivate_Clean:  %8lu kB\nPrivate_Dirty:  %8lu kB\nReferenced:     %8lu kB\n",
              rss, rss, shared ? rss : 0, !shared && file ? rss : 0, !shared && !file ? rss : 0, rss);
    sb_printf(sb, "Anonymous:      %8lu kB\nKSM:                   0 kB\nLazyFree:              0 kB\nAnonHugePages:         0 kB\n"
                  "ShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\nShared_Hugetlb:        0 kB\nPrivate_Hugetlb:       0 kB\n"
                  "Swap:                  0 kB\nSwapPss:               0 kB\nLocked:         %8lu kB\n", file ? 0 : rss,
              v && v->flags & VM_LOCKED ? kb : 0);
}

void mm_show_smaps(struct mm *mm, struct strbuf *sb, bool sum)
{
    if (!sum) {
        show_maps(mm, sb, true);
        return;
    }
    u64 total = 0;
    mm_lock(mm);
    for (u32 i = 0; i < mm->count; i++)
        total += mm->vmas[i].prot && !(mm->vmas[i].flags & VM_HIDDEN) ? mm->vmas[i].end - mm->vmas[i].start : 0;
    u64 low = mm->count ? mm->vmas[0].start : 0, high = mm->count ? mm->vmas[mm->count - 1].end : 0;
    mm_unlock(mm);
    sb_printf(sb, "%08lx-%08lx ---p 00000000 00:00 0 %*s[rollup]\n", low, high, 22, "");
    show_sizes(sb, NULL, total);
}

void mm_show_maps(struct mm *mm, struct strbuf *sb) { show_maps(mm, sb, false); }

static void show_maps(struct mm *mm, struct strbuf *sb, bool detail)
{
    char *buf = kmalloc(PAGE_SIZE);
    if (!buf) {
        sb->failed = true;
        return;
    }
    mm_lock(mm);
    for (u32 i = 0; i < mm->count; i++) {
        const struct vma *v = &mm->vmas[i];
        if (v->flags & VM_HIDDEN)
            continue;
        const struct inode *n = v->map ? v->map->file->inode : NULL;
        u64 dev = n ? n->sb->dev : 0;
        size_t at = sb->len;
        sb_printf(sb, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu", v->start, v->end, v->prot & PROT_READ ? 'r' : '-',
                  v->prot & PROT_WRITE ? 'w' : '-', v->prot & PROT_EXEC ? 'x' : '-', v->flags & VM_SHARED ? 's' : 'p',
                  v->map ? v->pgoff : 0ul, (u32)(dev >> 8 & 0xfff), (u32)((dev & 0xff) | (dev >> 12 & 0xfff00)),
                  n ? n->ino : 0ul);
        const char *name = n ? path_text(&v->map->file->path, buf, PAGE_SIZE) : area_name(mm, v);
        if (name && !IS_ERR(name)) {
            size_t used = sb->len - at;
            sb_printf(sb, "%*s%s", used < 73 ? (int)(73 - used) : 1, "", name);
        }
        sb_write(sb, "\n", 1);
        if (detail) {
            show_sizes(sb, v, v->end - v->start);
            sb_printf(sb, "THPeligible:           0\nVmFlags: %s%s%smr mw me\n", v->prot & PROT_READ ? "rd " : "",
                      v->prot & PROT_WRITE ? "wr " : "", v->prot & PROT_EXEC ? "ex " : "");
        }
    }
    mm_unlock(mm);
    if (gvdso_start && !detail) /* lies in the kernel's image, shared by all */
        sb_printf(sb, "%08lx-%08lx r-xp 00000000 00:00 0                  [vdso]\n", (u64)gvdso_start, PAGE_UP((u64)gvdso_end));
    kfree(buf);
}
