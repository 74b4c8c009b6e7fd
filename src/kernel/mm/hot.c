/* Hot system-call sites: code without an exec view - made by a compiler inside, just in time, or in a directory that has no
 * views - traps on each call, which costs 3 us. A site that has trapped HOT_TRAPS times is patched: the instruction that
 * loads the number becomes a jump to a trampoline, which loads it and enters the kernel.
 *
 * Only `mov $nr,%eax` (5 bytes) or `mov $nr,%rax` (7) straight before `syscall`, with the very number the site traps with, and not the
 * tail of an instruction with a prefix. `syscall` itself stays, so whoever jumps to it traps as before, and a call that is
 * restarted is found there. Only while the address space has one host thread: nobody else can be in the bytes being changed. And
 * only private mappings. Trampolines lie in one hidden page near the first site; when the guest maps over it, the sites get their
 * bytes back. The guest can see the change by reading its code. Under mm->lock; guest memory is written there with faults that
 * the host serves, others fail. */
#include "base/err.h"
#include "base/string.h"
#include "core/config.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "mm/mm.h"
#include "mm/track.h"
#include <linux/mman.h>

#define HOT_TRAPS 16
#define HOT_SEEN 32
#define SLOT 32u
#define SLOTS (PAGE_SIZE / SLOT)
#define REACH (1ul << 30) /* of a jump, with room to spare */

struct mm_hot {
    struct {
        u64 ip;
        u32 traps;
    } seen[HOT_SEEN]; /* by address; races between threads only cost a patch */
    u64 page; /* trampolines; 0 = none yet */
    u32 used;
    struct {
        u64 start;
        u8 code[8]; /* what was there */
        u8 size;
    } site[SLOTS];
};

/* The size of the instruction before the call at ip - 2 that may be replaced, 0 = none. code: the 10 bytes before ip. */
static u32 replaceable(const u8 code[10], u32 nr)
{
    u32 value;
    if (code[8] != 0x0f || code[9] != 0x05)
        return 0;
    memcpy(&value, code + 4, 4);
    if (value != nr)
        return 0;
    if (code[1] == 0x48 && code[2] == 0xc7 && code[3] == 0xc0)
        return 7;
    bool prefixed = (code[2] & 0xf0) == 0x40 || code[2] == 0x66 || code[2] == 0x67 || code[2] == 0x0f || code[2] == 0xf2 || code[2] == 0xf3;
    return code[3] == 0xb8 && !prefixed ? 5 : 0;
}

/* Writes code of the guest's: its pages are made writable meanwhile. */
static long write_code(struct mm *mm, u64 at, const void *data, u32 size, u32 prot)
{
    u64 start = PAGE_DOWN(at), len = PAGE_UP(at + size) - start;
    track_open(mm, start, start + len);
    long r = host_mprotect(start, len, PROT_READ | PROT_WRITE | PROT_EXEC);
    if (!r) {
        r = copy_to_user(at, data, size);
        host_mprotect(start, len, (int)prot);
    }
    return r;
}

static long hot_page(struct mm *mm, struct mm_hot *h, u64 near)
{
    if (h->page)
        return h->used < SLOTS && near + REACH > h->page && near < h->page + REACH ? 0 : -ENOSPC;
    near = PAGE_DOWN(near);
    u64 low = near > REACH + GUEST_MIN ? near - REACH : GUEST_MIN, high = MIN(near + REACH, (u64)GUEST_END);
    if (vma_reserve(mm, 1))
        return -ENOMEM;
    u64 at = vma_place(mm, PAGE_SIZE, low, high);
    if (!at)
        return -ENOMEM;
    long r = host_mmap(at, PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (is_err(r))
        return r;
    vma_insert(mm, &(struct vma){.start = at, .end = at + PAGE_SIZE, .prot = PROT_READ | PROT_EXEC, .flags = VM_HIDDEN});
    h->page = at;
    return 0;
}

static void put32(u8 *p, u64 v)
{
    u32 low = (u32)v;
    memcpy(p, &low, 4);
}

static long hot_patch(struct mm *mm, struct mm_hot *h, u64 ip, u32 nr)
{
    u8 code[10];
    if (copy_from_user(code, ip - sizeof(code), sizeof(code)))
        return -EFAULT;
    u32 size = replaceable(code, nr);
    if (!size || atomic_load(&mm->live_carriers) != 1)
        return -EINVAL;
    u64 start = ip - 2 - size;
    struct vma *v = vma_find(mm, start);
    if (!v || v->start > start || ip > v->end || !(v->prot & PROT_EXEC) ||
        v->flags & (VM_SHARED | VM_VIEW | VM_HIDDEN | VM_VDSO))
        return -EINVAL;
    u32 prot = v->prot;
    v->flags |= VM_WROTE;
    long r = hot_page(mm, h, start);
    if (r)
        return r;
    u64 tramp = h->page + h->used * SLOT;
    u8 t[20] = {0xb8, 0, 0, 0, 0,                            /* mov $nr,%eax */
                0x48, 0x8d, 0x0d, 0, 0, 0, 0,                /* lea ip(%rip),%rcx: where to return */
                0x65, 0xff, 0x24, 0x25, 24, 0, 0, 0};        /* jmp *%gs:CARRIER_ENTRY */
    u8 jump[7] = {0xe9, 0, 0, 0, 0, 0x66, 0x90};             /* jmp tramp */
    put32(t + 1, nr);
    put32(t + 8, ip - (tramp + 12));
    put32(jump + 1, tramp - (start + 5));
    if ((r = write_code(mm, tramp, t, sizeof(t), PROT_READ | PROT_EXEC)))
        return r;
    h->site[h->used].start = start;
    h->site[h->used].size = (u8)size;
    memcpy(h->site[h->used].code, code + 8 - size, size);
    h->used++;
    return write_code(mm, start, jump, size, prot);
}

void mm_hot_trap(struct mm *mm, u64 ip, u32 nr)
{
    struct mm_hot *h = atomic_load(&mm->hot);
    if (ip >= GUEST_END || ip < GUEST_MIN + 16 || mm->plain)
        return;
    if (!h) {
        if (boot_config()->flags & BOOT_NO_PATCH || !(h = knew(struct mm_hot)))
            return;
        struct mm_hot *none = NULL;
        if (!__atomic_compare_exchange_n(&mm->hot, &none, h, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            kfree(h);
            h = none;
        }
    }
    u32 i = (u32)(ip ^ ip >> 7) % HOT_SEEN;
    if (h->seen[i].ip != ip) {
        h->seen[i].ip = ip;
        h->seen[i].traps = 0;
    } else if (++h->seen[i].traps == HOT_TRAPS) {
        mm_lock(mm);
        hot_patch(mm, h, ip, nr);
        mm_unlock(mm);
    }
}

bool mm_hot_original(struct mm *mm, u64 ip, u64 *original)
{
    struct mm_hot *h = atomic_load(&mm->hot);
    if (!h || ip - h->page >= h->used * SLOT)
        return false;
    *original = h->site[(ip - h->page) / SLOT].start;
    return true;
}

/* The page of trampolines is about to go. */
void mm_hot_undo(struct mm *mm)
{
    struct mm_hot *h = mm->hot;
    for (u32 i = 0; h && i < h->used; i++) {
        u64 start = h->site[i].start;
        struct vma *v = vma_find(mm, start);
        u8 now[5];
        u64 rel = h->page + i * SLOT - (start + 5);
        if (v && v->start <= start && start + h->site[i].size <= v->end && !copy_from_user(now, start, 5) && now[0] == 0xe9 &&
            !memcmp(now + 1, &rel, 4))
            write_code(mm, start, h->site[i].code, h->site[i].size, v->prot);
    }
    if (h)
        h->page = h->used = 0;
}

/* fork: false = out of memory. */
bool mm_hot_copy(struct mm *mm, const struct mm *old)
{
    mm->hot = NULL;
    if (!old->hot)
        return true;
    mm->hot = kmalloc(sizeof(*mm->hot));
    if (mm->hot)
        memcpy(mm->hot, old->hot, sizeof(*mm->hot));
    return mm->hot != NULL;
}
