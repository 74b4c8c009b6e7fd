/* Exec-view builder: finds system-call sites in an ELF file and patches copies of its text.
 *
 * How it works. Every executable segment gets a map with one byte per text byte: the length of the instruction
 * that starts there, and whether something may jump there. The map is filled by decoding linearly (sections,
 * symbols and .eh_frame are hints that resynchronise the sweep; they are bounds-checked and never trusted) and by
 * collecting jump targets:
 *   - direct jumps and calls; rip-relative address loads; 32-bit immediates in fixed-address programs;
 *   - aligned 8-byte words anywhere in the file's segments that are addresses of text (function pointers, RELA
 *     addends, absolute jump tables);
 *   - relative jump tables: from every address that a rip-relative lea loads, 4-byte entries as long as
 *     base + entry lies in text.
 * Landing pads (LSDA) are not read: a pad is entered by unwinding from a call, so it cannot lie behind a syscall
 * instruction in straight-line code.
 *
 * A site is patched in the first form that is safe:
 *   A  needs only the mov before the syscall; the syscall stays, so jumping to it is still right. Accepted for
 *      plausible numbers wherever the sweep decodes the pair.
 *   B, C  overwrite neighbours. They need: no target inside the overwritten bytes (C: but at its start),
 *      neighbours that are position-independent (or rip-relative, which is corrected), a run of valid instructions
 *      around, and - where the file tells which bytes are functions - to lie in one. C does not start at an
 *      instruction that follows an unconditional jump unless something is known to jump there.
 * Everything else is left: it traps, which is correct.
 *
 * Files with text relocations, writable text, overlapping or misaligned segments get no view. */
#include "image/view_build.h"
#include "image/elf.h"
#include "wire/view.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdlib.h>

#define TEXT_MAX (512ull << 20)
#define NR_MAX 1024         /* largest plausible system-call number in form A */
#define TABLE_MAX 1024      /* entries followed in one relative jump table */
#define RUN_BEFORE 12       /* instructions that must decode before and behind a B or C site */
#define RUN_AFTER 4
#define QUICK_WINDOW 65536  /* may_have_sites(): bytes back to a function start, patterns tried */
#define QUICK_TRIES 4096

/* map bytes */
#define M_LEN 0x0f
#define M_TARGET 0x10
#define M_KNOWN 0x20        /* inside a function by symbol or .eh_frame */
#define M_STOP 0x40         /* control does not fall through */
#define M_HINT 0x80         /* a function starts here */

struct text {
    u64 vaddr, size;        /* of the bytes in the file */
    u64 file_off;
    const u8 *bytes;
    u8 *map;
    u8 *view;               /* copy; view[0] is the page-aligned start */
};

struct builder {
    struct elf_file elf;
    ZydisDecoder dec;
    struct text text[VIEW_SEG_MAX];
    u32 texts;
    bool has_known, fixed;  /* fixed: ET_EXEC */
    u64 span;
    u64 *calls;             /* addresses of syscall instructions, ascending per text */
    u32 ncalls, calls_cap;
    struct view_site *sites;
    u32 nsites;
    u8 *tramp;
    u64 tramp_len, tramp_cap;
    struct view_stats stats;
};

static u32 get32(const u8 *p)
{
    u32 v;

    memcpy(&v, p, 4);
    return v;
}

static u64 get64(const u8 *p)
{
    u64 v;

    memcpy(&v, p, 8);
    return v;
}

static struct text *text_at(struct builder *b, u64 va)
{
    for (u32 i = 0; i < b->texts; i++)
        if (va >= b->text[i].vaddr && va - b->text[i].vaddr < b->text[i].size)
            return &b->text[i];
    return NULL;
}

static void mark(struct builder *b, u64 va, u8 bits)
{
    struct text *t = text_at(b, va);

    if (t)
        t->map[va - t->vaddr] |= bits;
}

static void mark_function(struct builder *b, u64 va, u64 size)
{
    struct text *t = text_at(b, va);

    if (!t)
        return;
    t->map[va - t->vaddr] |= M_TARGET | M_HINT;
    size = MIN(size, t->size - (va - t->vaddr));
    for (u64 i = 0; i < size && !(i && t->map[va - t->vaddr + i] & M_HINT); i++)
        t->map[va - t->vaddr + i] |= M_KNOWN;
    b->has_known |= size != 0;
}

/* File bytes at a virtual address (within one PT_LOAD), or NULL. */
static const u8 *va_bytes(struct builder *b, u64 va, u64 size)
{
    for (u32 i = 0; i < b->elf.eh.e_phnum; i++) {
        Elf64_Phdr p = elf_phdr(&b->elf, i);

        if (p.p_type == PT_LOAD && va >= p.p_vaddr && va - p.p_vaddr < p.p_filesz &&
            size <= p.p_filesz - (va - p.p_vaddr))
            return elf_at(&b->elf, p.p_offset + (va - p.p_vaddr), size);
    }
    return NULL;
}

/* ------------------------------------------------------------------ layout */

static bool has_textrel(struct builder *b, const Elf64_Phdr *dyn)
{
    const u8 *d = elf_at(&b->elf, dyn->p_offset, dyn->p_filesz);

    for (u64 i = 0; d && i + sizeof(Elf64_Dyn) <= dyn->p_filesz; i += sizeof(Elf64_Dyn)) {
        u64 tag = get64(d + i), val = get64(d + i + 8);

        if (tag == DT_NULL)
            break;
        if (tag == DT_TEXTREL || (tag == DT_FLAGS && val & DF_TEXTREL))
            return true;
    }
    return false;
}

/* Fills texts and span; false if the file's layout rules a view out. */
static bool layout(struct builder *b)
{
    u64 end = 0, file_end = 0, total = 0;

    for (u32 i = 0; i < b->elf.eh.e_phnum; i++) {
        Elf64_Phdr p = elf_phdr(&b->elf, i);
        struct text *t;

        if (p.p_type == PT_DYNAMIC && has_textrel(b, &p))
            return false;
        if (p.p_type != PT_LOAD || !p.p_memsz)
            continue;
        if (p.p_vaddr > VIEW_SPAN_MAX || p.p_memsz > VIEW_SPAN_MAX || p.p_filesz > p.p_memsz ||
            p.p_vaddr < PAGE_DOWN(end ? end - 1 : 0) || !elf_at(&b->elf, p.p_offset, p.p_filesz) ||
            (p.p_vaddr ^ p.p_offset) & ~PAGE_MASK)
            return false;
        end = p.p_vaddr + p.p_memsz;
        if (!(p.p_flags & PF_X))
            continue;
        if (p.p_flags & PF_W || p.p_filesz != p.p_memsz || b->texts == VIEW_SEG_MAX ||
            PAGE_DOWN(p.p_offset) < file_end || (total += p.p_filesz) > TEXT_MAX)
            return false;
        file_end = PAGE_UP(p.p_offset + p.p_filesz);
        t = &b->text[b->texts++];
        t->vaddr = p.p_vaddr;
        t->size = p.p_filesz;
        t->file_off = p.p_offset;
        t->bytes = b->elf.data + p.p_offset;
    }
    b->span = PAGE_UP(end);
    return b->texts && b->span <= VIEW_SPAN_MAX;
}

bool view_wanted(const u8 *file, u64 size)
{
    struct builder b = {0};
    bool found = false;

    if (!elf_open(&b.elf, file, size) || !layout(&b))
        return false;
    for (u32 i = 0; i < b.texts && !found; i++)
        found = memmem(b.text[i].bytes, b.text[i].size, "\x0f\x05", 2) != NULL;
    return found;
}

/* ------------------------------------------------------------------ hints and indirect targets */

static void hint_symbols(struct builder *b)
{
    for (u32 i = 0; i < elf_shnum(&b->elf); i++) {
        Elf64_Shdr sh = elf_shdr(&b->elf, i);
        const u8 *p;

        if ((sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM) || !(p = elf_at(&b->elf, sh.sh_offset, sh.sh_size)))
            continue;
        for (u64 k = 0; k + sizeof(Elf64_Sym) <= sh.sh_size; k += sizeof(Elf64_Sym)) {
            Elf64_Sym s;

            memcpy(&s, p + k, sizeof(s));
            if (s.st_shndx == SHN_UNDEF)
                continue;
            if (ELF64_ST_TYPE(s.st_info) == STT_FUNC || ELF64_ST_TYPE(s.st_info) == STT_GNU_IFUNC)
                mark_function(b, s.st_value, s.st_size);
            else if (ELF64_ST_TYPE(s.st_info) == STT_NOTYPE)
                mark(b, s.st_value, M_TARGET);
        }
    }
}

/* The sorted table of .eh_frame_hdr in its usual encoding (LSB, "DWARF exception header"). */
static void hint_eh_frame(struct builder *b)
{
    for (u32 i = 0; i < b->elf.eh.e_phnum; i++) {
        Elf64_Phdr ph = elf_phdr(&b->elf, i);
        const u8 *h;
        u64 n;

        if (ph.p_type != PT_GNU_EH_FRAME || ph.p_filesz < 12 || !(h = elf_at(&b->elf, ph.p_offset, ph.p_filesz)))
            continue;
        if (h[0] != 1 || h[2] != 0x03 || h[3] != 0x3b || (h[1] & 0x0f) != 0x0b)
            continue;
        n = MIN((u64)get32(h + 8), (ph.p_filesz - 12) / 8);
        for (u64 k = 0; k < n; k++) {
            u64 loc = ph.p_vaddr + (s64)(s32)get32(h + 12 + 8 * k);
            u64 fde = ph.p_vaddr + (s64)(s32)get32(h + 16 + 8 * k);
            const u8 *p = va_bytes(b, fde, 16);

            if (p && fde + 8 + (s64)(s32)get32(p + 8) == loc) /* pcrel sdata4, then the range */
                mark_function(b, loc, get32(p + 12));
        }
    }
}

static void data_targets(struct builder *b)
{
    for (u32 i = 0; i < b->elf.eh.e_phnum; i++) {
        Elf64_Phdr p = elf_phdr(&b->elf, i);
        const u8 *d = elf_at(&b->elf, p.p_offset, p.p_filesz);

        if (p.p_type != PT_LOAD || !d)
            continue;
        for (u64 k = -p.p_vaddr & 7; k + 8 <= p.p_filesz; k += 8) {
            u64 v = get64(d + k);

            if (v && v < b->span)
                mark(b, v, M_TARGET);
        }
    }
}

static void table_targets(struct builder *b, u64 base)
{
    if (base % 4)
        return;
    for (u32 i = 0; i < TABLE_MAX; i++) {
        const u8 *p = va_bytes(b, base + 4 * i, 4);
        u64 to = p ? base + (s64)(s32)get32(p) : 0;

        if (!p || !text_at(b, to))
            return;
        mark(b, to, M_TARGET);
    }
}

/* ------------------------------------------------------------------ the sweep */

static bool decode(struct builder *b, const u8 *p, u64 avail, ZydisDecodedInstruction *in)
{
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&b->dec, NULL, p, MIN(avail, 15ul), in));
}

static bool rip_relative(const ZydisDecodedInstruction *in)
{
    return in->raw.modrm.offset && in->raw.modrm.mod == 0 && in->raw.modrm.rm == 5 && in->raw.disp.size == 32;
}

static bool is_stop(const ZydisDecodedInstruction *in)
{
    return in->meta.category == ZYDIS_CATEGORY_UNCOND_BR || in->meta.category == ZYDIS_CATEGORY_RET ||
           in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT ||
           in->mnemonic == ZYDIS_MNEMONIC_INT3;
}

static int note_instruction(struct builder *b, u64 va, const ZydisDecodedInstruction *in)
{
    u64 next = va + in->length;

    for (int i = 0; i < 2; i++) {
        if (in->raw.imm[i].is_relative)
            mark(b, next + in->raw.imm[i].value.s, M_TARGET);
        else if (b->fixed && in->raw.imm[i].size == 32)
            mark(b, (u32)in->raw.imm[i].value.u, M_TARGET);
    }
    if (in->mnemonic == ZYDIS_MNEMONIC_LEA && rip_relative(in)) {
        mark(b, next + in->raw.disp.value, M_TARGET);
        table_targets(b, next + in->raw.disp.value);
    }
    if (in->mnemonic != ZYDIS_MNEMONIC_SYSCALL || in->length != 2)
        return 0;
    if (b->ncalls == b->calls_cap) {
        u32 cap = b->calls_cap ? 2 * b->calls_cap : 256;
        u64 *p = cap <= VIEW_SITES_MAX ? realloc(b->calls, cap * sizeof(*p)) : NULL;

        if (!p)
            return -ENOMEM;
        b->calls = p;
        b->calls_cap = cap;
    }
    b->calls[b->ncalls++] = va;
    return 0;
}

static int sweep(struct builder *b, struct text *t, u64 from, u64 to)
{
    while (from < to) {
        ZydisDecodedInstruction in;
        u64 n, skip;

        if (!decode(b, t->bytes + from, to - from, &in)) {
            from++;
            continue;
        }
        n = in.length;
        for (skip = 1; skip < n && !(t->map[from + skip] & M_HINT); skip++)
            ;
        if (skip < n) { /* a function starts inside: this was no instruction */
            from += skip;
            continue;
        }
        t->map[from] = (t->map[from] & ~M_LEN) | n | (is_stop(&in) ? M_STOP : 0);
        if (note_instruction(b, t->vaddr + from, &in))
            return -ENOMEM;
        from += n;
    }
    return 0;
}

static int cmp_range(const void *a, const void *b)
{
    u64 x = *(const u64 *)a, y = *(const u64 *)b;

    return x < y ? -1 : x > y;
}

/* Executable sections inside the segment, or the whole segment if there are none. */
static int sweep_text(struct builder *b, struct text *t)
{
    u32 n = elf_shnum(&b->elf), k = 0;
    u64 (*range)[2] = calloc(n + 1, sizeof(*range));
    u64 done = 0;
    int r = 0;

    if (!range)
        return -ENOMEM;
    for (u32 i = 0; i < n; i++) {
        Elf64_Shdr s = elf_shdr(&b->elf, i);

        if (s.sh_type == SHT_PROGBITS && s.sh_flags & SHF_EXECINSTR && s.sh_addr >= t->vaddr &&
            s.sh_addr - t->vaddr < t->size && s.sh_size && s.sh_size <= t->size - (s.sh_addr - t->vaddr)) {
            range[k][0] = s.sh_addr - t->vaddr;
            range[k++][1] = s.sh_addr - t->vaddr + s.sh_size;
        }
    }
    if (!k)
        range[k++][1] = t->size;
    qsort(range, k, sizeof(*range), cmp_range);
    for (u32 i = 0; i < k && !r; i++) {
        r = sweep(b, t, MAX(range[i][0], done), range[i][1]);
        done = MAX(done, range[i][1]);
    }
    free(range);
    return r;
}

/* Is the syscall pattern at `pos` an instruction, judging from the function start before it? True if unknown. */
static bool may_be_syscall(struct builder *b, const struct text *t, u64 pos)
{
    u64 from = pos;

    while (!(t->map[from] & M_HINT)) {
        if (!from || pos - from >= QUICK_WINDOW)
            return true;
        from--;
    }
    while (from < pos) {
        ZydisDecodedInstruction in;

        from += decode(b, t->bytes + from, t->size - from, &in) ? in.length : 1;
    }
    return from == pos;
}

/* The two bytes occur by chance in most large programs; the whole sweep is for those that have real ones. */
static bool may_have_sites(struct builder *b)
{
    for (u32 i = 0; i < b->texts; i++) {
        const struct text *t = &b->text[i];
        const u8 *p = t->bytes, *end = t->bytes + t->size;
        u32 tries = 0;

        for (; (p = memmem(p, end - p, "\x0f\x05", 2)); p += 2)
            if (++tries > QUICK_TRIES || may_be_syscall(b, t, p - t->bytes))
                return true;
    }
    return false;
}

/* ------------------------------------------------------------------ sites */

/* Start of the instruction that ends at `pos`, or -1. */
static s64 insn_before(const struct text *t, u64 pos)
{
    for (u64 n = 1; n <= 15 && n <= pos; n++)
        if ((t->map[pos - n] & M_LEN) == n)
            return pos - n;
    return -1;
}

static bool plausible(const struct builder *b, const struct text *t, u64 pos)
{
    u64 p = pos;

    if (b->has_known && !(t->map[pos] & M_KNOWN))
        return false;
    for (int i = 0; i < RUN_BEFORE && !(t->map[p] & M_HINT) && p; i++) {
        s64 q = insn_before(t, p);

        if (q < 0)
            return false;
        p = q;
    }
    for (int i = 0; i < RUN_AFTER && pos < t->size; i++) {
        if (!(t->map[pos] & M_LEN))
            return false;
        pos += t->map[pos] & M_LEN;
    }
    return true;
}

static bool targets_in(const struct text *t, u64 from, u64 to)
{
    for (; from < to; from++)
        if (t->map[from] & (M_TARGET | M_HINT))
            return true;
    return false;
}

/* May this instruction run at another address? (rip-relative ones are corrected when copied) */
static bool movable(const ZydisDecodedInstruction *in)
{
    switch (in->meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_RET:
        return false;
    default:
        break;
    }
    return in->meta.branch_type == ZYDIS_BRANCH_TYPE_NONE && in->mnemonic != ZYDIS_MNEMONIC_ENDBR64 &&
           in->mnemonic != ZYDIS_MNEMONIC_ENDBR32 && in->mnemonic != ZYDIS_MNEMONIC_HLT &&
           in->mnemonic != ZYDIS_MNEMONIC_UD2 && !in->raw.imm[0].is_relative && !in->raw.imm[1].is_relative;
}

static bool movable_range(struct builder *b, struct text *t, u64 from, u64 to, bool ret_ok)
{
    bool ended = false;

    while (from < to) {
        ZydisDecodedInstruction in;

        if (!decode(b, t->bytes + from, t->size - from, &in) || (t->map[from] & M_LEN) != in.length)
            return false;
        if (ended) { /* padding behind a ret */
            if (in.mnemonic != ZYDIS_MNEMONIC_NOP && in.mnemonic != ZYDIS_MNEMONIC_INT3)
                return false;
        } else if (ret_ok && in.mnemonic == ZYDIS_MNEMONIC_RET && in.meta.branch_type != ZYDIS_BRANCH_TYPE_FAR) {
            ended = true;
        } else if (!movable(&in)) {
            return false;
        }
        from += in.length;
    }
    return from == to;
}

static u8 *emit(struct builder *b, const void *bytes, u32 n)
{
    u8 *at = b->tramp + b->tramp_len;

    memcpy(at, bytes, n);
    b->tramp_len += n;
    return at;
}

/* The kernel entry; `to` is the address to return to. */
static void emit_enter(struct builder *b, u64 to)
{
    u8 code[15] = {0x48, 0x8d, 0x0d, 0, 0, 0, 0, 0x65, 0xff, 0x24, 0x25, VIEW_ENTRY_GS_OFFSET};
    s32 rel = (s32)(to - (b->span + b->tramp_len + 7));

    memcpy(code + 3, &rel, 4);
    emit(b, code, sizeof(code));
}

static bool emit_moved(struct builder *b, struct text *t, u64 from, u64 to)
{
    while (from < to) {
        u64 old = t->vaddr + from, now = b->span + b->tramp_len;
        ZydisDecodedInstruction in;
        u8 *at;

        if (!decode(b, t->bytes + from, t->size - from, &in))
            return false;
        at = emit(b, t->bytes + from, in.length);
        if (rip_relative(&in)) {
            s64 disp = in.raw.disp.value + (s64)(old - now);
            s32 d = (s32)disp;

            if (d != disp)
                return false;
            memcpy(at + in.raw.disp.offset, &d, 4);
        }
        from += in.length;
    }
    return true;
}

static void put_jump(u8 *at, u64 at_va, u64 to)
{
    s32 rel = (s32)(to - (at_va + 5));

    at[0] = 0xe9;
    memcpy(at + 1, &rel, 4);
}

/* Overwrites [from, to) in the view and emits the trampoline. */
static bool patch(struct builder *b, struct text *t, enum view_form form, u64 from, u64 to, u64 sys)
{
    u8 *at = t->view + (t->file_off & ~PAGE_MASK) + from;
    u64 start = b->tramp_len, end_va = t->vaddr + sys + 2, cont = end_va;
    struct view_site *s = &b->sites[b->nsites];

    if (start + 64 > b->tramp_cap) {
        u64 cap = b->tramp_cap ? 2 * b->tramp_cap : 1 << 16;
        u8 *p = cap <= VIEW_TRAMP_MAX ? realloc(b->tramp, cap) : NULL;

        if (!p)
            return false;
        b->tramp = p;
        b->tramp_cap = cap;
    }
    if (form == VIEW_FORM_B) {
        u8 jump[5];

        cont = b->span + start + 15;
        emit_enter(b, cont);
        if (!emit_moved(b, t, sys + 2, to))
            goto undo;
        put_jump(jump, b->span + b->tramp_len, t->vaddr + to);
        emit(b, jump, 5);
    } else {
        if (!emit_moved(b, t, from, sys))
            goto undo;
        emit_enter(b, end_va);
    }
    memset(at, 0xcc, to - from);
    put_jump(at, t->vaddr + from, b->span + start);
    *s = (struct view_site){.site_off = (u32)(t->vaddr + from), .tramp_off = (u32)(b->span + start),
                            .cont_off = (u32)cont, .len = (u8)(to - from), .form = (u8)form, .sys = (u8)(sys - from)};
    b->nsites++;
    b->stats.form[form]++;
    return true;
undo:
    b->tramp_len = start;
    return false;
}

static bool try_a(struct builder *b, struct text *t, u64 sys, u64 low)
{
    s64 p = insn_before(t, sys);
    const u8 *c = t->bytes + p;
    u64 n = sys - p;

    if (p < 0 || (u64)p < low || targets_in(t, p + 1, sys))
        return false;
    if (!(n == 5 && c[0] == 0xb8) && !(n == 7 && c[0] == 0x48 && c[1] == 0xc7 && c[2] == 0xc0))
        return false;
    return get32(c + n - 4) < NR_MAX && patch(b, t, VIEW_FORM_A, p, sys, sys);
}

static bool try_b(struct builder *b, struct text *t, u64 sys, u64 low)
{
    u64 end = sys + 2;

    while (end < sys + 5 && end < t->size && t->map[end] & M_LEN)
        end += t->map[end] & M_LEN;
    return sys >= low && end >= sys + 5 && end < t->size && !targets_in(t, sys + 1, end) &&
           movable_range(b, t, sys + 2, end, true) && patch(b, t, VIEW_FORM_B, sys, end, sys);
}

static bool try_c(struct builder *b, struct text *t, u64 sys, u64 low)
{
    s64 p = sys, before;

    while (p >= 0 && sys - p < 3)
        p = insn_before(t, p);
    if (p < 0 || (u64)p < low || targets_in(t, p + 1, sys + 2) || !movable_range(b, t, p, sys, false))
        return false;
    before = insn_before(t, p);
    if (!(t->map[p] & M_TARGET) && (before < 0 || t->map[before] & M_STOP))
        return false;
    return patch(b, t, VIEW_FORM_C, p, sys + 2, sys);
}

static void patch_text(struct builder *b, struct text *t)
{
    u64 low = 0; /* end of the bytes overwritten so far */

    for (u32 i = 0; i < b->ncalls; i++) {
        u64 sys = b->calls[i] - t->vaddr;
        bool done;

        if (b->calls[i] < t->vaddr || sys >= t->size)
            continue;
        done = sys >= low && (try_a(b, t, sys, low) ||
                              (plausible(b, t, sys) && (try_b(b, t, sys, low) || try_c(b, t, sys, low))));
        if (!done) {
            b->stats.form[0]++;
            continue;
        }
        low = b->sites[b->nsites - 1].site_off - t->vaddr + b->sites[b->nsites - 1].len;
    }
}

/* ------------------------------------------------------------------ assembling */

static int make_blob(struct builder *b, struct view_blob *blob)
{
    u64 sites_off = ALIGN_UP(sizeof(struct view_entry), 16);
    u64 tramp_off = PAGE_UP(sites_off + b->nsites * sizeof(struct view_site));
    u64 off = tramp_off + PAGE_UP(b->tramp_len);
    struct view_entry e = {
        .magic = VIEW_ENTRY_MAGIC, .span = b->span, .tramp_vaddr = b->span, .tramp_off = tramp_off,
        .tramp_len = PAGE_UP(b->tramp_len), .sites_off = sites_off, .sites_count = b->nsites,
        .sites_left = b->stats.form[0], .file_size = b->elf.size, .seg_count = b->texts,
    };

    for (u32 i = 0; i < b->texts; i++) {
        struct text *t = &b->text[i];

        e.seg[i] = (struct view_seg){.file_off = PAGE_DOWN(t->file_off), .vaddr = PAGE_DOWN(t->vaddr), .view_off = off,
                                     .len = PAGE_UP(t->file_off + t->size) - PAGE_DOWN(t->file_off)};
        off += e.seg[i].len;
    }
    blob->size = off;
    blob->data = calloc(1, off);
    if (!blob->data)
        return -ENOMEM;
    memcpy(blob->data, &e, sizeof(e));
    memcpy(blob->data + sites_off, b->sites, b->nsites * sizeof(*b->sites));
    memset(blob->data + tramp_off, 0xcc, e.tramp_len);
    memcpy(blob->data + tramp_off, b->tramp, b->tramp_len);
    for (u32 i = 0; i < b->texts; i++)
        memcpy(blob->data + e.seg[i].view_off, b->text[i].view, e.seg[i].len);
    return 0;
}

static int load_texts(struct builder *b)
{
    for (u32 i = 0; i < b->texts; i++) {
        struct text *t = &b->text[i];
        u64 from = PAGE_DOWN(t->file_off), len = PAGE_UP(t->file_off + t->size) - from;

        t->map = calloc(1, t->size);
        t->view = calloc(1, len);
        if (!t->map || !t->view)
            return -ENOMEM;
        memcpy(t->view, b->elf.data + from, MIN(len, b->elf.size - from));
    }
    return 0;
}

static int analyse(struct builder *b)
{
    int r = load_texts(b);

    if (r)
        return r;
    hint_symbols(b);
    hint_eh_frame(b);
    if (!may_have_sites(b))
        return -ENOENT;
    mark(b, b->elf.eh.e_entry, M_TARGET);
    data_targets(b);
    for (u32 i = 0; i < b->texts; i++)
        if ((r = sweep_text(b, &b->text[i])))
            return r;
    if (!b->ncalls)
        return -ENOENT;
    b->sites = calloc(b->ncalls, sizeof(*b->sites));
    if (!b->sites)
        return -ENOMEM;
    for (u32 i = 0; i < b->texts; i++)
        patch_text(b, &b->text[i]);
    return b->nsites ? 0 : -ENOENT;
}

int view_build(const u8 *file, u64 size, struct view_blob *blob, struct view_stats *stats)
{
    struct builder b = {0};
    int r = -ENOENT;

    *blob = (struct view_blob){0};
    if (elf_open(&b.elf, file, size) && layout(&b)) {
        b.fixed = b.elf.eh.e_type == ET_EXEC;
        ZydisDecoderInit(&b.dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        r = analyse(&b);
        if (!r)
            r = make_blob(&b, blob);
    }
    if (stats)
        *stats = b.stats;
    for (u32 i = 0; i < b.texts; i++) {
        free(b.text[i].map);
        free(b.text[i].view);
    }
    free(b.calls);
    free(b.sites);
    free(b.tramp);
    return r;
}

struct view_entry *view_blob_place(struct view_blob *blob, u64 base, const u8 key[VIEW_KEY_SIZE])
{
    struct view_entry *e = (struct view_entry *)blob->data;

    memcpy(e->key, key, VIEW_KEY_SIZE);
    if (e->seg_count) {
        e->tramp_off += base;
        e->sites_off += base;
    }
    for (u32 i = 0; i < e->seg_count && i < VIEW_SEG_MAX; i++)
        e->seg[i].view_off += base;
    e->crc = 0;
    e->crc = view_crc32c(~0u, e, sizeof(*e));
    return e;
}
