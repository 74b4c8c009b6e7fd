/* Bounds-checked access to the headers of an x86-64 ELF file in memory. Host side; the file is hostile.
 * Structures are from <elf.h>; every accessor returns NULL or false for what does not lie in the file. */
#ifndef HARENA_IMAGE_ELF_H
#define HARENA_IMAGE_ELF_H

#include <elf.h>
#include <string.h>
#include "base/types.h"

struct elf_file {
    const u8 *data;
    u64 size;
    Elf64_Ehdr eh;
};

#define ELF_PHNUM_MAX 128

/* `size` bytes at file offset `off`, or NULL. */
static inline const void *elf_at(const struct elf_file *f, u64 off, u64 size)
{
    return off <= f->size && size <= f->size - off ? f->data + off : NULL;
}

/* Is this an executable or shared library for x86-64 with sane program headers? */
static inline bool elf_open(struct elf_file *f, const void *data, u64 size)
{
    f->data = data;
    f->size = size;
    if (size < sizeof(f->eh))
        return false;
    memcpy(&f->eh, data, sizeof(f->eh));
    return !memcmp(f->eh.e_ident, ELFMAG, SELFMAG) && f->eh.e_ident[EI_CLASS] == ELFCLASS64 &&
           f->eh.e_ident[EI_DATA] == ELFDATA2LSB && f->eh.e_machine == EM_X86_64 &&
           (f->eh.e_type == ET_EXEC || f->eh.e_type == ET_DYN) && f->eh.e_phentsize == sizeof(Elf64_Phdr) &&
           f->eh.e_phnum && f->eh.e_phnum <= ELF_PHNUM_MAX &&
           elf_at(f, f->eh.e_phoff, (u64)f->eh.e_phnum * sizeof(Elf64_Phdr));
}

static inline Elf64_Phdr elf_phdr(const struct elf_file *f, u32 i) /* i < e_phnum, after elf_open() */
{
    Elf64_Phdr p;

    memcpy(&p, f->data + f->eh.e_phoff + (u64)i * sizeof(p), sizeof(p));
    return p;
}

/* Section headers are hints only; 0 if there are none or they are broken. */
static inline u32 elf_shnum(const struct elf_file *f)
{
    if (f->eh.e_shentsize != sizeof(Elf64_Shdr) || !f->eh.e_shoff ||
        !elf_at(f, f->eh.e_shoff, (u64)f->eh.e_shnum * sizeof(Elf64_Shdr)))
        return 0;
    return f->eh.e_shnum;
}

static inline Elf64_Shdr elf_shdr(const struct elf_file *f, u32 i) /* i < elf_shnum() */
{
    Elf64_Shdr s;

    memcpy(&s, f->data + f->eh.e_shoff + (u64)i * sizeof(s), sizeof(s));
    return s;
}

#endif
