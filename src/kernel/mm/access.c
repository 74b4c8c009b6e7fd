/* Guest memory as a debugger or process_vm_readv(2) sees it, and the way out of exec views.
 *
 * mm_access() runs in the stub whose memory it is (proc/visit.c brings it there). What the mapping allows goes as any copy does. What it
 * does not allow goes with MM_FORCE only (/proc/PID/mem, ptrace), a page at a time under mm->lock with the page opened to the host
 * meanwhile: a write to a private mapping gives the process a page of its own, one to a shared mapping fails, as on Linux.
 *
 * A debugger must find the original code, put breakpoints at any instruction of it and step through it. So a process that is traced
 * has no exec views (mm->plain): its text is shown from the file, later mappings get none, and its calls take the trap path. The
 * trampolines stay mapped, since other threads may be in them at this moment. */
#include "base/string.h"
#include "core/errno.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "mm/track.h"
#include <linux/mman.h>

extern char gvdso_start[] __attribute__((weak)), gvdso_end[] __attribute__((weak));

/* All mappings of m show their file. mm->lock held. */
static void show_original(struct mm *mm, struct vmap *m)
{
    for (u32 i = 0; i < mm->count; i++) {
        struct vma *v = &mm->vmas[i];
        if (!(v->flags & VM_VIEW) || (m && v->map != m))
            continue;
        track_open(mm, v->start, v->end);
        if (!vma_map_file(v, v->start, v->end))
            v->flags &= ~VM_VIEW;
    }
}

void mm_show_plain(struct mm *mm)
{
    if (mm->plain)
        return;
    mm_lock(mm);
    mm->plain = true;
    show_original(mm, NULL);
    mm_hot_undo(mm);
    mm_unlock(mm);
}

static size_t copy(u64 addr, void *buf, size_t n, bool write)
{
    return write ? copy_to_user_some(addr, buf, n) : copy_from_user_some(buf, addr, n);
}

static size_t access_forced(struct mm *mm, struct vma *v, u64 addr, void *buf, size_t n, bool write)
{
    u64 page = PAGE_DOWN(addr);
    if (write && v->flags & VM_SHARED)
        return 0;
    if (write && v->flags & VM_VIEW)
        show_original(mm, v->map);
    if (addr >= vma_host_end(v))
        return 0;
    track_open(mm, page, page + PAGE_SIZE);
    if (host_mprotect(page, PAGE_SIZE, (int)(v->prot | PROT_READ | (write ? PROT_WRITE : 0))))
        return 0;
    size_t done = copy(addr, buf, n, write);
    host_mprotect(page, PAGE_SIZE, (int)v->prot);
    v->flags |= write ? VM_WROTE : 0;
    return done;
}

static size_t access_page(struct mm *mm, u64 addr, void *buf, size_t n, u32 how)
{
    bool write = how & MM_WRITE;
    size_t done = 0;
    if (gvdso_start && addr - (u64)gvdso_start < PAGE_UP((u64)gvdso_end) - (u64)gvdso_start) {
        if (!write)
            memcpy(buf, (void *)addr, n);
        return write ? 0 : n;
    }
    mm_lock(mm);
    struct vma *v = vma_find(mm, addr);
    bool shown = v && !(v->flags & VM_HIDDEN), allowed = shown && v->prot & (write ? PROT_WRITE : PROT_READ);
    if (shown && !allowed && how & MM_FORCE)
        done = access_forced(mm, v, addr, buf, n, write);
    mm_unlock(mm);
    return allowed ? copy(addr, buf, n, write) : done;
}

size_t mm_access(struct mm *mm, u64 addr, void *buf, size_t size, u32 how)
{
    size_t done = 0;
    while (done < size) {
        size_t n = MIN(size - done, PAGE_SIZE - ((addr + done) & (PAGE_SIZE - 1)));
        size_t got = access_page(mm, addr + done, (char *)buf + done, n, how);
        done += got;
        if (got < n)
            break;
    }
    return done;
}
