/* See elf.h. Format: System V ABI, AMD64 supplement. */
#include "loader/elf.h"

#include <linux/mman.h>

#include "base/err.h"
#include "base/layout.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "mm/mm.h"
#include "vfs/vfs.h"

#define INTERP_MAX 4096u
#define ALIGN_MAX (64ul << 20)

static long read_exact(struct file *f, void *buf, size_t size, u64 off)
{
    long n = file_read_kernel(f, buf, size, off);
    if (n < 0)
        return n;
    return (size_t)n == size ? 0 : -ENOEXEC;
}

static bool header_ok(const Elf64_Ehdr *h)
{
    return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_X86_64 &&
           (h->e_type == ET_EXEC || h->e_type == ET_DYN) && h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum &&
           h->e_phnum <= 65536 / sizeof(Elf64_Phdr) && h->e_phoff < 1ull << 62;
}

static long check_load(const Elf64_Phdr *p, struct elf_image *e, u64 *last_end)
{
    u64 pageoff = p->p_vaddr & (PAGE_SIZE - 1);
    if (p->p_filesz > p->p_memsz || p->p_vaddr >= GUEST_END || p->p_memsz > GUEST_END - p->p_vaddr)
        return -ENOEXEC;
    if (p->p_filesz && ((p->p_offset & (PAGE_SIZE - 1)) != pageoff || p->p_offset > 1ull << 62 ||
                        p->p_filesz > 1ull << 62))
        return -ENOEXEC;
    if (p->p_align & (p->p_align - 1) || p->p_vaddr < *last_end)
        return -ENOEXEC;
    if (!p->p_memsz)
        return 0;
    *last_end = p->p_vaddr + p->p_memsz;
    if (e->high == 0)
        e->low = PAGE_DOWN(p->p_vaddr);
    e->high = PAGE_UP(*last_end);
    e->align = MAX(e->align, (u64)p->p_align);
    return 0;
}

static long read_interp(struct file *f, const Elf64_Phdr *p, struct elf_image *e)
{
    if (e->interp)
        return 0; /* the first counts */
    if (p->p_filesz < 2 || p->p_filesz > INTERP_MAX || p->p_offset > 1ull << 62)
        return -ENOEXEC;
    e->interp = kmalloc(p->p_filesz);
    if (!e->interp)
        return -ENOMEM;
    long r = read_exact(f, e->interp, p->p_filesz, p->p_offset);
    if (r)
        return r;
    return e->interp[p->p_filesz - 1] ? -ENOEXEC : 0;
}

long elf_read(struct file *f, struct elf_image *e)
{
    memset(e, 0, sizeof(*e));
    long r = read_exact(f, &e->eh, sizeof(e->eh), 0);
    if (r)
        return r;
    if (!header_ok(&e->eh))
        return -ENOEXEC;
    size_t size = (size_t)e->eh.e_phnum * sizeof(Elf64_Phdr);
    e->ph = kmalloc(size);
    if (!e->ph)
        return -ENOMEM;
    r = read_exact(f, e->ph, size, e->eh.e_phoff);
    u64 last_end = 0;
    e->align = PAGE_SIZE;
    e->exec_stack = false; /* 64-bit Linux: also without PT_GNU_STACK */
    for (u32 i = 0; !r && i < e->eh.e_phnum; i++) {
        const Elf64_Phdr *p = &e->ph[i];
        if (p->p_type == PT_LOAD)
            r = check_load(p, e, &last_end);
        else if (p->p_type == PT_INTERP)
            r = read_interp(f, p, e);
        else if (p->p_type == PT_GNU_STACK)
            e->exec_stack = p->p_flags & PF_X;
    }
    if (!r && !e->high)
        r = -ENOEXEC;
    if (!r && e->align > ALIGN_MAX)
        e->align = ALIGN_MAX;
    if (r)
        elf_free(e);
    return r;
}

void elf_free(struct elf_image *e)
{
    kfree(e->ph);
    kfree(e->interp);
    e->ph = NULL;
    e->interp = NULL;
}

static long map_segment(struct mm *mm, struct file *f, const Elf64_Phdr *p, u64 bias)
{
    int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
               (p->p_flags & PF_X ? PROT_EXEC : 0);
    u64 start = bias + p->p_vaddr, end = start + p->p_memsz, file_end = start + p->p_filesz;
    u64 pageoff = start & (PAGE_SIZE - 1);
    u64 anon = PAGE_DOWN(start);
    if (p->p_filesz) {
        long r = mm_map(mm, start - pageoff, p->p_filesz + pageoff, prot, MAP_PRIVATE | MAP_FIXED, f,
                        p->p_offset - pageoff);
        if (is_err(r))
            return r;
        anon = PAGE_UP(file_end);
        /* The rest of the last file page is bss, up to its end: loaders take it for zeroed memory. */
        if (p->p_memsz > p->p_filesz && prot & PROT_WRITE && clear_user(file_end, anon - file_end))

            return -EFAULT;
    }
    if (PAGE_UP(end) <= anon)
        return 0;
    long r = mm_map(mm, anon, PAGE_UP(end) - anon, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0);
    return is_err(r) ? r : 0;
}

/* Finds room for the whole image, and for the trampolines of its view behind it. */
static long find_room(struct mm *mm, struct file *f, const struct elf_image *e)
{
    struct view_entry *v = kmalloc(sizeof(*v));
    int fd;
    u64 behind = 0, span = e->high - e->low;
    if (v && f->ops->view && !f->ops->view(f, true, v, &fd) && v->tramp_len <= VIEW_TRAMP_MAX)
        behind = PAGE_UP(v->tramp_len);
    kfree(v);
    u64 extra = e->align > PAGE_SIZE ? e->align : 0;
    u64 size = span + behind + extra;
    long at = mm_map(mm, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, NULL, 0);
    if (is_err(at) && behind) {
        size = span + extra;
        at = mm_map(mm, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, NULL, 0);
    }
    if (is_err(at))
        return at;
    u64 base = ALIGN_DOWN((u64)at + extra, e->align);
    if (base < (u64)at)
        base = (u64)at;
    /* Give everything back but the span itself: gaps between segments stay inaccessible. */
    long r = base > (u64)at ? mm_unmap(mm, (u64)at, base - (u64)at) : 0;
    if (!r && (u64)at + size > base + span)
        r = mm_unmap(mm, base + span, (u64)at + size - base - span);
    return r ? r : (long)base;
}

long elf_map(struct mm *mm, struct file *f, const struct elf_image *e, u64 base, u64 *bias)
{
    *bias = 0;
    if (e->eh.e_type == ET_DYN) {
        if (!base) {
            long r = find_room(mm, f, e);
            if (is_err(r))
                return r;
            base = (u64)r;
        }
        *bias = base - e->low;
    }
    for (u32 i = 0; i < e->eh.e_phnum; i++) {
        if (e->ph[i].p_type != PT_LOAD || !e->ph[i].p_memsz)
            continue;
        long r = map_segment(mm, f, &e->ph[i], *bias);
        if (r)
            return r;
    }
    return 0;
}
