/* execve in two steps. exec_prepare() does everything that can fail in an ordinary way - opening, permissions, scripts,
 * copying of arguments, checking of both ELF files - and leaves all in K, independent of any address space. exec_load()
 * then fills an empty mm; if it fails the process cannot go on. In between the caller ends the other threads and
 * replaces the memory (mm_clear() or a fresh stub). */
#ifndef HARENA_LOADER_EXEC_H
#define HARENA_LOADER_EXEC_H

#include "base/types.h"
#include "loader/elf.h"

struct file;
struct mm;
struct regs;

#define EXEC_STRINGS_MAX (2ul << 20) /* with their pointers, as Linux with an 8 MiB stack */
#define EXEC_STRING_MAX (128ul << 10)

struct exec_args {
    struct file *exe, *interp; /* writing denied until exec_free() or mm_drop(); interp may be NULL */
    struct elf_image exe_elf, interp_elf;
    char *strings; /* argv, then env, each terminated */
    u64 strings_size, strings_cap;
    u32 argc, envc;
    char *execfn; /* AT_EXECFN, kmalloc'd */
    char comm[16];
};

/* path: kernel string. at_flags: AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW. */
long exec_prepare(int dirfd, const char *path, int at_flags, uptr argv, uptr envp, struct exec_args **out);
/* strings: argc + envc terminated strings, one behind the other, in kernel memory. */
long exec_prepare_kernel(const char *path, const char *strings, u64 size, u32 argc, u32 envc, struct exec_args **out);
long exec_load(struct exec_args *a, struct mm *mm, struct regs *r); /* mm empty and the current one; takes a->exe */
void exec_free(struct exec_args *a);

#endif
