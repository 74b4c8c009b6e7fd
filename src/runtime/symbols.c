/* Names for the addresses in a guest kernel's report (kernel/boot/panic.c): lines of two blanks and an address in the image get
 * `name+offset` behind them, from the symbol table of the kernel's binary - where it has one and is the build the report is about.
 *
 * The report comes from the guest and may hold anything; the binary is ours. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/layout.h"

struct symbols {
    const u8 *file;
    u64 size;
    const Elf64_Sym *list;
    u64 count;
    const char *names;
    u64 names_size;
};

static const void *part(const struct symbols *s, u64 offset, u64 size)
{
    return offset > s->size || size > s->size - offset ? NULL : s->file + offset;
}

static bool find_tables(struct symbols *s)
{
    const Elf64_Ehdr *e = part(s, 0, sizeof(*e));
    if (!e || memcmp(e->e_ident, ELFMAG "\2\1\1", 7) || e->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    const Elf64_Shdr *sh = part(s, e->e_shoff, (u64)e->e_shnum * sizeof(*sh));
    for (u32 i = 0; sh && i < e->e_shnum; i++) {
        if (sh[i].sh_type != SHT_SYMTAB || sh[i].sh_link >= e->e_shnum)
            continue;
        const Elf64_Shdr *str = &sh[sh[i].sh_link];
        s->list = part(s, sh[i].sh_offset, sh[i].sh_size);
        s->count = sh[i].sh_size / sizeof(Elf64_Sym);
        s->names = part(s, str->sh_offset, str->sh_size);
        s->names_size = str->sh_size;
        return s->list && s->names && s->names_size && !s->names[s->names_size - 1];
    }
    return false;
}

/* Does the report say `build ID` with the binary's id? It lies in the first page, behind the headers. */
static bool same_build(const struct symbols *s, const char *report)
{
    const char *line = strstr(report, "\nbuild ");
    char id[41] = "";
    const u8 *note = part(s, 0, 4096);
    for (u32 i = 0; note && i < 4096 - 36; i += 4)
        if (!memcmp(note + i, "\4\0\0\0\24\0\0\0\3\0\0\0GNU", 16))
            for (u32 k = 0; k < 20; k++)
                sprintf(id + 2 * k, "%02x", note[i + 16 + k]);
    return line && id[0] && !strncmp(line + 7, id, 40);
}

static const char *name_of(const struct symbols *s, u64 address, u64 *offset)
{
    const Elf64_Sym *best = NULL;
    for (u64 i = 0; i < s->count; i++)
        if (s->list[i].st_name < s->names_size && s->list[i].st_value <= address && ELF64_ST_TYPE(s->list[i].st_info) <= STT_FUNC &&
            s->list[i].st_value >= KIMAGE_BASE && s->names[s->list[i].st_name] && (!best || s->list[i].st_value > best->st_value ||
                (s->list[i].st_value == best->st_value && ELF64_ST_TYPE(s->list[i].st_info) == STT_FUNC)))
            best = &s->list[i];
    if (!best)
        return NULL;
    *offset = address - best->st_value;
    return s->names + best->st_name;
}

static char *annotate(const struct symbols *s, const char *report)
{
    char *out = NULL;
    size_t out_size;
    FILE *f = open_memstream(&out, &out_size);
    bool trace = false;
    u64 offset;
    for (const char *line = report; f && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int n = strcspn(line, "\n");
        char *end;
        trace = !strncmp(line, "backtrace", 9) || (trace && !strncmp(line, "  ", 2));
        u64 address = trace && line[0] == ' ' ? strtoull(line, &end, 16) : 0;
        /* a return address may be the first one of the next function */
        const char *name = address - KIMAGE_BASE < KIMAGE_SIZE && end == line + n ? name_of(s, address - 1, &offset) : NULL;
        if (name)
            fprintf(f, "%.*s %s+0x%llx\n", n, line, name, (unsigned long long)offset + 1);
        else
            fprintf(f, "%.*s\n", n, line);
    }
    if (f)
        fclose(f);
    return out;
}

/* The report with names, malloc'ed, or NULL when there are none. */
char *symbols_add(const char *kernel, const char *report)
{
    struct symbols s = { 0 };
    struct stat st;
    char *out = NULL;
    int fd = kernel ? open(kernel, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    if (!fstat(fd, &st) && st.st_size > 0)
        s.file = mmap(NULL, s.size = st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (!s.file || s.file == MAP_FAILED)
        return NULL;
    if (find_tables(&s) && same_build(&s, report))
        out = annotate(&s, report);
    munmap((void *)s.file, s.size);
    return out;
}
