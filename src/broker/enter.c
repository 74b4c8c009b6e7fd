/* Becoming the guest kernel: the child of a broker maps the kernel image and jumps into it.
 *
 * This does what an exec of the image would do, at a fraction of its cost: the image's segments are mapped at the addresses
 * it is linked for (below KIMAGE_BASE + KIMAGE_SIZE, private and read-only as the file says), and its first code
 * (launch/launch.c) unmaps everything else that the broker's address space held - program, heap, stacks - before it maps
 * anything of the guest. Only the host's vDSO and its data pages stay. The descriptors are put in place before
 * (spawn.c); what lies above them the launcher closes. The image is our own file and trusted; its headers are checked
 * all the same, since a broken installation should give an error. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc registers restartable sequences; their area is about to go. musl has none. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* Finds the host's pages that must stay: [vvar], perhaps [vvar_vclock], and [vdso]. */
int enter_find_vdso(struct launch_args *a)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f)
        return -errno;
    *a = (struct launch_args){ .vdso = getauxval(AT_SYSINFO_EHDR), .hwcap2 = getauxval(AT_HWCAP2) };
    while (fgets(line, sizeof(line), f) && a->page_count < LAUNCH_PAGES_MAX) {
        unsigned long start, end;
        if ((strstr(line, "[vvar") || strstr(line, "[vdso]")) && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            a->pages[a->page_count].start = start;
            a->pages[a->page_count++].end = end;
        }
    }
    fclose(f);
    return a->vdso && a->page_count ? 0 : -ENOENT;
}

/* Reads and checks the image's headers. */
int enter_read_image(int fd, struct kernel_image *k)
{
    Elf64_Ehdr e;
    Elf64_Phdr ph[16];
    memset(k, 0, sizeof(*k));
    if (pread(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG "\2\1\1", 7) || e.e_machine != EM_X86_64 ||
        e.e_type != ET_EXEC || e.e_phentsize != sizeof(*ph) || e.e_phnum > ARRAY_COUNT(ph))
        return -ENOEXEC;
    ssize_t size = e.e_phnum * sizeof(*ph);
    if (pread(fd, ph, size, e.e_phoff) != size)
        return -ENOEXEC;
    for (u32 i = 0; i < e.e_phnum; i++) {
        if (ph[i].p_type != PT_LOAD)
            continue;
        u64 start = ph[i].p_vaddr & ~(PAGE_SIZE - 1), end = ph[i].p_vaddr + ph[i].p_filesz;
        if (k->count == ARRAY_COUNT(k->segment) || ph[i].p_memsz != ph[i].p_filesz || start < KIMAGE_BASE ||
            end > KIMAGE_BASE + KIMAGE_SIZE || end < start || (ph[i].p_offset ^ ph[i].p_vaddr) % PAGE_SIZE ||
            (ph[i].p_flags & PF_W))
            return -ENOEXEC;
        k->segment[k->count++] = (struct kernel_segment){
            .addr = start, .size = end - start, .offset = ph[i].p_offset - (ph[i].p_vaddr - start),
            .prot = (ph[i].p_flags & PF_R ? PROT_READ : 0) | (ph[i].p_flags & PF_X ? PROT_EXEC : 0) };
    }
    k->entry = e.e_entry;
    return k->count && k->entry >= KIMAGE_BASE && k->entry < KIMAGE_BASE + KIMAGE_SIZE ? 0 : -ENOEXEC;
}

int enter_map_image(int fd, const struct kernel_image *k)
{
    for (u32 i = 0; i < k->count; i++) {
        const struct kernel_segment *s = &k->segment[i];
        if (mmap((void *)s->addr, s->size, s->prot, MAP_PRIVATE | MAP_FIXED, fd, s->offset) == MAP_FAILED)
            return -errno;
    }
    return 0;
}

void enter_kernel(const struct kernel_image *k, const struct launch_args *a)
{
    if (&__rseq_size && __rseq_size)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, MAX(__rseq_size, 32u), 1, 0x53053053);
    /* no address or data of ours is handed on in a register: vector state as after an exec, then the general ones */
    static u8 initial[576] __attribute__((aligned(64))) = { [24] = 0x80, 0x1f }; /* mxcsr; XSTATE_BV = 0: all initial */
    __asm__ volatile("xrstor %0" ::"m"(initial), "a"(~0u), "d"(~0u));
    __asm__ volatile("xor %%ebp,%%ebp; xor %%ebx,%%ebx; xor %%r12d,%%r12d; xor %%r13d,%%r13d; xor %%r14d,%%r14d;"
                     "xor %%r15d,%%r15d; jmp *%%rax" ::"a"(k->entry), "D"(a)
                     : "memory");
    __builtin_unreachable();
}
