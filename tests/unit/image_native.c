/* See image_native.h. The child stays single-threaded per process; the entry keeps return addresses on a stack in the
 * GS block, which nested signal handlers use in order; threads and vfork would share it and are out of scope. */
#include "image_native.h"
#include "image/elf.h"

#include <asm/prctl.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void native_entry(void);
__asm__(".text\n"
        "native_entry:\n"
        "    cmp $15, %eax\n"          /* rt_sigreturn does not come back */
        "    je 1f\n"
        "    mov %gs:32, %r11\n"       /* reserve first: a signal may come anywhere */
        "    lea 8(%r11), %r11\n"
        "    mov %r11, %gs:32\n"
        "    mov %rcx, -8(%r11)\n"
        "    mov %gs:40, %r11\n"
        "    mov (%r11), %rcx\n"
        "    lea 1(%rcx), %rcx\n"
        "    mov %rcx, (%r11)\n"
        "1:  syscall\n"
        "    mov %gs:32, %r11\n"
        "    mov -8(%r11), %rcx\n"
        "    lea -8(%r11), %r11\n"
        "    mov %r11, %gs:32\n"
        "    jmp *%rcx\n");

struct gs_block {
    u64 pad[3];
    void (*entry)(void);       /* %gs:24 */
    u64 *top;                  /* %gs:32: of the stack of return addresses */
    u64 *counter;              /* %gs:40, shared */
    u64 stack[256];
};

static void need(bool ok)
{
    if (!ok)
        _exit(125);
}

static void map_at(u64 va, u64 len, const u8 *from, u64 n, int prot)
{
    void *p = mmap((void *)va, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    need(p == (void *)va);
    memcpy(p, from, n);
    need(!mprotect(p, len, prot));
}

/* Loads all segments; PT_LOADs do not share pages in files that current linkers write. */
static u64 load(const struct elf_file *f, const struct view_blob *blob, u64 *phdr)
{
    const struct view_entry *e = (const struct view_entry *)blob->data;
    u64 bias = f->eh.e_type == ET_DYN ? 0x7a0000000000ull : 0;

    for (u32 i = 0; i < f->eh.e_phnum; i++) {
        Elf64_Phdr p = elf_phdr(f, i);
        u64 va = PAGE_DOWN(p.p_vaddr), len = PAGE_UP(p.p_vaddr + p.p_memsz) - va;
        u64 lead = p.p_vaddr - va;
        int prot = (p.p_flags & PF_R ? PROT_READ : 0) | (p.p_flags & PF_W ? PROT_WRITE : 0) |
                   (p.p_flags & PF_X ? PROT_EXEC : 0);

        if (p.p_type != PT_LOAD)
            continue;
        if (f->eh.e_phoff >= p.p_offset && f->eh.e_phoff < p.p_offset + p.p_filesz)
            *phdr = bias + p.p_vaddr + (f->eh.e_phoff - p.p_offset);
        if (!(p.p_flags & PF_X)) {
            map_at(bias + va, len, f->data + p.p_offset - lead, p.p_filesz + lead, prot);
            continue;
        }
        for (u32 k = 0; k < e->seg_count; k++)
            if (e->seg[k].vaddr == va)
                map_at(bias + va, e->seg[k].len, blob->data + e->seg[k].view_off, e->seg[k].len, prot);
    }
    map_at(bias + e->tramp_vaddr, e->tramp_len, blob->data + e->tramp_off, e->tramp_len, PROT_READ | PROT_EXEC);
    return bias;
}

static noreturn_fn void start(const struct elf_file *f, u64 bias, u64 phdr, char *const argv[])
{
    u64 top = 4 << 20, n = 0, argc = 0;
    u64 *stack = mmap(NULL, top, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    u64 *sp = stack + top / 8 - 256;
    u64 aux[][2] = {{AT_PHDR, phdr}, {AT_PHENT, sizeof(Elf64_Phdr)}, {AT_PHNUM, f->eh.e_phnum}, {AT_PAGESZ, PAGE_SIZE},
                    {AT_BASE, 0}, {AT_ENTRY, bias + f->eh.e_entry}, {AT_UID, getuid()}, {AT_EUID, getuid()},
                    {AT_GID, getgid()}, {AT_EGID, getgid()}, {AT_SECURE, 0}, {AT_RANDOM, (u64)(stack + top / 8 - 8)},
                    {AT_HWCAP, getauxval(AT_HWCAP)}, {AT_CLKTCK, 100}, {AT_NULL, 0}};

    need(stack != MAP_FAILED);
    while (argv[argc])
        argc++;
    sp[n++] = argc;
    for (u64 i = 0; i <= argc; i++)
        sp[n++] = (u64)argv[i];
    sp[n++] = 0; /* environment */
    memcpy(sp + n, aux, sizeof(aux));
    __asm__ volatile("mov %0, %%rsp\n"
                     "xor %%edx, %%edx\n"
                     "xor %%ebp, %%ebp\n"
                     "jmp *%1\n" : : "r"(sp), "r"(bias + f->eh.e_entry) : "memory");
    __builtin_unreachable();
}

int native_run(const u8 *file, u64 size, const struct view_blob *blob, char *const argv[], int out_fd, u64 *jumps)
{
    u64 *counter = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct elf_file f;
    int status = -1;
    pid_t pid;

    if (counter == MAP_FAILED || !elf_open(&f, file, size))
        return -1;
    pid = fork();
    if (!pid) {
        struct gs_block *gs = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        u64 phdr = 0, bias = load(&f, blob, &phdr);

        need(gs != MAP_FAILED && dup2(out_fd, 1) == 1);
        gs->entry = native_entry;
        gs->counter = counter;
        gs->top = gs->stack;
        need(!syscall(SYS_arch_prctl, ARCH_SET_GS, gs));
        start(&f, bias, phdr, argv);
    }
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    *jumps = *counter;
    munmap(counter, PAGE_SIZE);
    return status;
}
