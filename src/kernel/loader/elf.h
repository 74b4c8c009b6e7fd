/* ELF files: reading and checking of headers, mapping of segments. Everything read from a file is hostile; a struct
 * elf_image has passed elf_read()'s checks. */
#ifndef HARENA_LOADER_ELF_H
#define HARENA_LOADER_ELF_H

#include <linux/elf.h>

#include "base/types.h"

struct file;
struct mm;

struct elf_image {
    Elf64_Ehdr eh;
    Elf64_Phdr *ph; /* eh.e_phnum of them; kfree */
    u64 low, high;  /* page-rounded bounds of the PT_LOADs, before the bias */
    u64 align;      /* largest p_align, a power of two */
    char *interp;   /* kfree; NULL: none */
    bool exec_stack;
};

/* -ENOEXEC: not an ELF file for this machine, or broken. -ENOMEM, -EIO, -ELIBBAD. */
long elf_read(struct file *f, struct elf_image *e);
void elf_free(struct elf_image *e);
/* Maps the segments. `base`: where `low` shall lie (position-independent files); 0: anywhere. */
long elf_map(struct mm *mm, struct file *f, const struct elf_image *e, u64 base, u64 *bias);

#endif
