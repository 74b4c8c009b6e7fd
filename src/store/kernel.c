#define _GNU_SOURCE
#include "store/kernel.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/layout.h"
#include "store/internal.h"

struct symbol {
    u64 address, size;
    const char *file, *name; /* file: NULL = global */
    bool function;
};

struct kernel_image {
    char path[PATH_MAX];
    char build[MANIFEST_BUILD], layout[MANIFEST_BUILD];
    const u8 *map;
    size_t size;
    struct symbol *symbols; /* by address; read when first needed */
    u32 count;
};

/* ---- opening ---- */

/* The image is a program of ours, not hostile; a broken one must not crash us all the same. */
static const void *at(const struct kernel_image *k, u64 offset, u64 size)
{
    return offset <= k->size && size <= k->size - offset ? k->map + offset : NULL;
}

static bool read_build(struct kernel_image *k)
{
    const Elf64_Ehdr *e = at(k, 0, sizeof(*e));
    if (!e || memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    const Elf64_Phdr *ph = at(k, e->e_phoff, (u64)e->e_phnum * sizeof(*ph));
    for (u32 i = 0; ph && i < e->e_phnum; i++) {
        const Elf64_Nhdr *n = ph[i].p_type == PT_NOTE ? at(k, ph[i].p_offset, ph[i].p_filesz) : NULL;
        if (!n || ph[i].p_filesz < sizeof(*n) + 4 || n->n_type != NT_GNU_BUILD_ID || n->n_namesz != 4 || n->n_descsz > 32 ||
            ph[i].p_filesz < sizeof(*n) + 4 + n->n_descsz)
            continue;
        const u8 *id = (const u8 *)(n + 1) + 4;
        hex_text(id, n->n_descsz, k->build);
        return n->n_descsz >= 8;
    }
    return false;
}

/* "build ID\nlayout HASH\n" */
static bool read_layout(struct kernel_image *k)
{
    char path[PATH_MAX + 16], build[MANIFEST_BUILD];
    snprintf(path, sizeof(path), "%s.layout", k->path);
    FILE *f = fopen(path, "re");
    bool ok = f && fscanf(f, "build %64[0-9a-f] layout %64[0-9a-f]", build, k->layout) == 2 && !strcmp(build, k->build);
    if (f)
        fclose(f);
    return ok;
}

int kernel_open(const char *path, struct kernel_image **out, struct harena_error *err)
{
    struct stat st;
    struct kernel_image *k = calloc(1, sizeof(*k));
    if (!k)
        abort();
    snprintf(k->path, sizeof(k->path), "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        k->map = map == MAP_FAILED ? NULL : map;
        k->size = st.st_size;
    }
    if (fd >= 0)
        close(fd);
    if (k->map && read_build(k) && read_layout(k)) {
        *out = k;
        return 0;
    }
    harena_error_set(err, 125, "%s has no build id, or %s.layout is missing or belongs to another build; reinstall harena", path, path);
    kernel_close(k);
    return -1;
}

void kernel_close(struct kernel_image *k)
{
    if (!k)
        return;
    if (k->map)
        munmap((void *)k->map, k->size);
    free(k->symbols);
    free(k);
}

const char *kernel_build(const struct kernel_image *k) { return k->build; }
const char *kernel_layout(const struct kernel_image *k) { return k->layout; }

/* ---- symbols ---- */

/* By address; of several at one place the better name last: with a size, then global, then by name. */
static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (!x->size != !y->size)
        return !x->size ? -1 : 1;
    if (!x->file != !y->file)
        return x->file ? -1 : 1;
    return strcmp(y->name, x->name);
}

static void add_symbols(struct kernel_image *k, const Elf64_Sym *s, u64 count, const char *strings, u64 strings_size)
{
    const char *file = "";
    u64 vdso = 0, vdso_end = 0;
    k->symbols = malloc((count + 1) * sizeof(*k->symbols));
    if (!k->symbols)
        abort();
    for (u64 i = 1; i < count; i++) {
        u32 type = ELF64_ST_TYPE(s[i].st_info);
        const char *name = s[i].st_name < strings_size ? strings + s[i].st_name : "";
        if (type == STT_FILE)
            file = name;
        if (type > STT_FUNC || !*name || s[i].st_value - KIMAGE_BASE >= KIMAGE_SIZE)
            continue;
        bool local = ELF64_ST_BIND(s[i].st_info) == STB_LOCAL;
        k->symbols[k->count++] = (struct symbol){ s[i].st_value, s[i].st_size, local ? file : NULL, name, type == STT_FUNC };
        if (!strcmp(name, "gvdso_start"))
            vdso = k->count;
        if (!strcmp(name, "gvdso_end"))
            vdso_end = s[i].st_value;
    }
    if (vdso) /* one object, though the assembler does not say so */
        k->symbols[vdso - 1].size = vdso_end - k->symbols[vdso - 1].address;
    qsort(k->symbols, k->count, sizeof(*k->symbols), compare_symbols);
}

static int load_symbols(struct kernel_image *k, struct harena_error *err)
{
    const Elf64_Ehdr *e = (const void *)k->map;
    const Elf64_Shdr *sh = e->e_shentsize == sizeof(*sh) ? at(k, e->e_shoff, (u64)e->e_shnum * sizeof(*sh)) : NULL;
    for (u32 i = 0; sh && !k->symbols && i < e->e_shnum; i++) {
        if (sh[i].sh_type != SHT_SYMTAB || sh[i].sh_link >= e->e_shnum)
            continue;
        const Elf64_Shdr *st = &sh[sh[i].sh_link];
        const Elf64_Sym *s = at(k, sh[i].sh_offset, sh[i].sh_size);
        const char *strings = at(k, st->sh_offset, st->sh_size);
        if (s && strings && st->sh_size && !strings[st->sh_size - 1])
            add_symbols(k, s, sh[i].sh_size / sizeof(*s), strings, st->sh_size);
    }
    if (k->symbols)
        return 0;
    harena_error_set(err, 125, "%s has no symbols (was it stripped?); snapshots need them", k->path);
    return -1;
}

/* The symbol an address means: inside an object, or the start of a function or label. */
static const struct symbol *symbol_at(const struct kernel_image *k, u64 address)
{
    u32 low = 0, high = k->count;
    while (low < high) { /* the last with an address <= the one wanted */
        u32 middle = (low + high) / 2;
        if (k->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct symbol *s = low ? &k->symbols[low - 1] : NULL;
    if (!s || (s->address != address && (s->function || address - s->address >= s->size)))
        return NULL;
    return s;
}

static bool symbol_is(const struct symbol *s, const char *name)
{
    size_t n = s->file ? strlen(s->file) : 0;
    if (n && (strncmp(name, s->file, n) || name[n] != ':'))
        return false;
    return !strcmp(name + n + (n > 0), s->name);
}

/* ---- the addresses in kernel state ---- */

/* A bit for each byte of the window: what the guest puts there costs the same, however much of it there is. */
struct addresses {
    u64 bits[KIMAGE_SIZE / 64];
    u32 count;
};

/* Calls for each 8-byte word of the extents that lies in the image's window; writes back what it changes. */
static int each_word(int fd, const struct manifest_segment *s, const struct extent *list, int (*call)(void *arg, u64 *word), void *arg,
                     struct harena_error *err)
{
    u64 *buffer = malloc(CHUNK);
    int r = 0;
    if (!buffer)
        abort();
    for (u32 i = 0; i < s->count && r == 0; i++)
        for (u64 done = 0; done < list[i].size && r == 0;) {
            u64 n = list[i].size - done < CHUNK ? list[i].size - done : CHUNK, pos = list[i].offset + done;
            bool changed = false;
            if (pread(fd, buffer, n, (off_t)pos) != (ssize_t)n) {
                harena_error_set(err, 125, "cannot read the kernel's state: %s", strerror(errno));
                r = -1;
            }
            for (u64 w = 0; w < n / 8 && r == 0; w++) {
                u64 old = buffer[w];
                if (old - KIMAGE_BASE < KIMAGE_SIZE)
                    r = call(arg, &buffer[w]);
                changed |= buffer[w] != old;
            }
            if (changed && r == 0 && pwrite(fd, buffer, n, (off_t)pos) != (ssize_t)n) {
                harena_error_set(err, 125, "cannot write the kernel's state: %s", strerror(errno));
                r = -1;
            }
            done += n;
        }
    free(buffer);
    return r;
}

#define ADDRESSES_MAX 65536u

static int collect(void *arg, u64 *word)
{
    struct addresses *a = arg;
    u64 at = *word - KIMAGE_BASE, bit = 1ull << at % 64;
    if (a->bits[at / 64] & bit || a->count == ADDRESSES_MAX) /* more than that is a guest's game; it does not get what it needs on another build */
        return 0;
    a->bits[at / 64] |= bit;
    a->count++;
    return 0;
}

static void write_symbol(struct kernel_image *k, FILE *f, u64 address, u32 *unknown)
{
    const struct symbol *y = symbol_at(k, address);
    if (y && strlen(y->name) + strlen(y->file ?: "") + 2 < SYMBOL_NAME)
        fprintf(f, "%llx %llx %s%s%s\n", (unsigned long long)address, (unsigned long long)(address - y->address), y->file ?: "",
                y->file ? ":" : "", y->name);
    else
        fprintf(f, "%llx 0 -\n", (unsigned long long)address), ++*unknown;
}

int kernel_symbols(struct kernel_image *k, int fd, const struct manifest_segment *s, const struct extent *list, char **out,
                   size_t *size, u32 *unknown, struct harena_error *err)
{
    struct addresses *a = calloc(1, sizeof(*a));
    *unknown = 0;
    if (!a)
        abort();
    if ((!k->symbols && load_symbols(k, err) < 0) || each_word(fd, s, list, collect, a, err) < 0) {
        free(a);
        return -1;
    }
    FILE *f = open_memstream(out, size);
    if (!f)
        abort();
    for (u32 i = 0; i < ARRAY_COUNT(a->bits); i++)
        for (u64 left = a->bits[i]; left; left &= left - 1)
            write_symbol(k, f, KIMAGE_BASE + i * 64ull + (u32)__builtin_ctzll(left), unknown);
    free(a);
    if (fclose(f)) {
        harena_error_set(err, 125, "no memory for the kernel's symbols");
        return -1;
    }
    return 0;
}

/* ---- translating ---- */

static const char *hex(const char *p, const char *end, u64 *out)
{
    const char *start = p;
    *out = 0;
    for (; p < end && p - start < 16; p++) {
        int d = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
        if (d < 0)
            break;
        *out = *out << 4 | (u64)d;
    }
    return p > start && p < end && *p == ' ' ? p + 1 : NULL;
}

const char *symbol_line(const char *p, const char *end, struct symbol_line *out, bool *ok)
{
    size_t n = 0;
    *ok = false;
    p = hex(p, end, &out->address);
    p = p ? hex(p, end, &out->addend) : NULL;
    if (!p)
        return NULL;
    while (p + n < end && n < SYMBOL_NAME - 1 && p[n] > ' ' && p[n] <= '~')
        n++;
    if (!n || p + n >= end || p[n] != '\n')
        return NULL;
    memcpy(out->name, p, n);
    out->name[n] = 0;
    *ok = out->address - KIMAGE_BASE < KIMAGE_SIZE && out->addend < KIMAGE_SIZE;
    return p + n + 1;
}

struct translation {
    struct pair {
        u64 from, to;
    } *list; /* sorted by from */
    u32 count;
};

static int translate(void *arg, u64 *word)
{
    struct translation *t = arg;
    u32 low = 0, high = t->count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (t->list[middle].from < *word)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < t->count && t->list[low].from == *word)
        *word = t->list[low].to;
    return 0;
}

static int resolve(struct kernel_image *k, const struct symbol_line *l, u64 *to, struct harena_error *err)
{
    const struct symbol *found = NULL;
    u32 count = 0;
    for (u32 i = 0; i < k->count; i++)
        if (symbol_is(&k->symbols[i], l->name)) {
            found = &k->symbols[i];
            count++;
        }
    if (count == 1 && (l->addend == 0 || (!found->function && l->addend < found->size))) {
        *to = found->address + l->addend;
        return 0;
    }
    if (!strcmp(l->name, "-"))
        harena_error_set(err, 125, "it was made by another build of harena and refers to a place of its kernel that has no name; "
                                   "restore it with that build");
    else
        harena_error_set(err, 125, "it was made by another build of harena whose kernel has %s, which this one has not; restore it "
                                   "with that build", l->name);
    return -1;
}

int kernel_translate(struct kernel_image *k, int fd, const struct manifest_segment *s, const struct extent *list,
                     const char *symbols, size_t size, struct harena_error *err)
{
    struct translation t = { 0 };
    struct symbol_line line;
    const char *p = symbols, *end = symbols + size;
    int r = k->symbols ? 0 : load_symbols(k, err);
    t.list = malloc((ADDRESSES_MAX + 1) * sizeof(*t.list));
    if (!t.list)
        abort();
    while (r == 0 && p < end) {
        bool ok;
        p = symbol_line(p, end, &line, &ok);
        if (!ok || t.count >= ADDRESSES_MAX || (t.count && t.list[t.count - 1].from >= line.address)) {
            harena_error_set(err, 125, "its list of symbols is damaged");
            r = -1;
            break;
        }
        t.list[t.count].from = line.address;
        r = resolve(k, &line, &t.list[t.count++].to, err);
    }
    if (r == 0)
        r = each_word(fd, s, list, translate, &t, err);
    free(t.list);
    return r;
}
