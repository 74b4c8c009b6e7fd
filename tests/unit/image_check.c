/* See image_check.h. Decodes on its own, so that a mistake of the builder is not repeated here. */
#include "image_check.h"
#include "wire/view.h"

#include <Zydis/Zydis.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const u8 *file;
    u64 size;
    const struct view_blob *blob;
    struct view_source src;
    struct view_entry e;
    ZydisDecoder dec;
};

/* View bytes (patched text or trampoline) at an offset from the load bias. */
static const u8 *view_at(const struct check *c, u64 va, u64 n)
{
    if (va >= c->e.tramp_vaddr && va - c->e.tramp_vaddr + n <= c->e.tramp_len)
        return c->blob->data + c->e.tramp_off + (va - c->e.tramp_vaddr);
    for (u32 i = 0; i < c->e.seg_count; i++)
        if (va >= c->e.seg[i].vaddr && va - c->e.seg[i].vaddr + n <= c->e.seg[i].len)
            return c->blob->data + c->e.seg[i].view_off + (va - c->e.seg[i].vaddr);
    return NULL;
}

static const u8 *file_at(const struct check *c, u64 va, u64 n)
{
    for (u32 i = 0; i < c->e.seg_count; i++) {
        u64 k = va - c->e.seg[i].vaddr;

        if (va >= c->e.seg[i].vaddr && k + n <= c->e.seg[i].len && c->e.seg[i].file_off + k + n <= c->size)
            return c->file + c->e.seg[i].file_off + k;
    }
    return NULL;
}

/* The absolute target of rel32 at p + 1 of the five bytes at va. */
static u64 rel_target(const u8 *p, u64 va, u32 len)
{
    s32 rel;

    memcpy(&rel, p + len - 4, 4);
    return va + len + (s64)rel;
}

static const char *verify_enter(const struct check *c, u64 va, u64 ret)
{
    static const u8 lea[] = {0x48, 0x8d, 0x0d}, jmp[] = {0x65, 0xff, 0x24, 0x25, 24, 0, 0, 0};
    const u8 *p = view_at(c, va, 15);

    if (!p || memcmp(p, lea, 3) || memcmp(p + 7, jmp, 8))
        return "trampoline does not enter the kernel";
    return rel_target(p, va, 7) == ret ? NULL : "trampoline returns to the wrong place";
}

/* Moved instructions: the same decoding and, if rip-relative, the same absolute address. */
static const char *verify_moved(const struct check *c, u64 old, u64 now, u64 n)
{
    const u8 *o = file_at(c, old, n), *m = view_at(c, now, n);

    if (!o || !m)
        return "moved instructions out of range";
    for (u64 k = 0; k < n;) {
        ZydisDecodedInstruction x, y;
        ZydisDecodedOperand xo[ZYDIS_MAX_OPERAND_COUNT], yo[ZYDIS_MAX_OPERAND_COUNT];

        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&c->dec, o + k, n - k, &x, xo)) ||
            !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&c->dec, m + k, n - k, &y, yo)))
            return "moved instruction does not decode";
        if (x.length != y.length || x.mnemonic != y.mnemonic)
            return "moved instruction differs";
        if (!(x.attributes & ZYDIS_ATTRIB_IS_RELATIVE)) {
            if (memcmp(o + k, m + k, x.length))
                return "moved instruction differs";
        } else {
            if (x.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || !x.raw.disp.size)
                return "a branch was moved";
            if (old + k + x.length + x.raw.disp.value != now + k + y.length + y.raw.disp.value)
                return "rip-relative operand not corrected";
        }
        k += x.length;
    }
    return NULL;
}

static const char *verify_site(const struct check *c, const struct view_site *s)
{
    const u8 *at = view_at(c, s->site_off, s->len), *sys = file_at(c, s->site_off + s->sys, 2);
    const char *bad;

    if (!at || at[0] != 0xe9 || rel_target(at, s->site_off, 5) != s->tramp_off)
        return "site does not jump to its trampoline";
    if (!sys || sys[0] != 0x0f || sys[1] != 0x05)
        return "no syscall instruction at the site";
    if (s->form == VIEW_FORM_B) {
        u64 moved = s->len - 2, back = s->tramp_off + 15 + moved;
        const u8 *j = view_at(c, back, 5);

        if ((bad = verify_enter(c, s->tramp_off, s->tramp_off + 15)))
            return bad;
        if ((bad = verify_moved(c, s->site_off + 2, s->tramp_off + 15, moved)))
            return bad;
        return j && j[0] == 0xe9 && rel_target(j, back, 5) == (u64)s->site_off + s->len ? NULL : "wrong jump back";
    }
    if (s->form == VIEW_FORM_A && memcmp(view_at(c, s->site_off + s->sys, 2), "\x0f\x05", 2))
        return "form A lost its syscall";
    if ((bad = verify_moved(c, s->site_off, s->tramp_off, s->sys)))
        return bad;
    return verify_enter(c, s->tramp_off + s->sys, s->site_off + s->sys + 2u);
}

/* Every byte outside the sites is the file's. */
static const char *verify_rest(const struct check *c, const struct view_site *sites)
{
    for (u32 i = 0; i < c->e.seg_count; i++) {
        const struct view_seg *g = &c->e.seg[i];
        u32 k = 0;

        for (u64 off = 0; off < g->len; off++) {
            u64 va = g->vaddr + off;
            u8 want = g->file_off + off < c->size ? c->file[g->file_off + off] : 0;

            while (k < c->e.sites_count && sites[k].site_off + sites[k].len <= va)
                k++;
            if (k < c->e.sites_count && va >= sites[k].site_off)
                continue;
            if (c->blob->data[g->view_off + off] != want)
                return "byte outside the sites changed";
        }
    }
    return NULL;
}

static const char *verify_maps(const struct check *c, const struct view_site *s)
{
    struct view_site t;

    if (view_site_at(&c->src, &c->e, s->site_off, &t) || memcmp(&t, s, sizeof(t)))
        return "site not found by its address";
    if (view_site_of_tramp(&c->src, &c->e, s->tramp_off + view_tramp_size(s) - 1, &t) || memcmp(&t, s, sizeof(t)))
        return "site not found by its trampoline";
    if (view_tramp_to_site(s, s->tramp_off) != s->site_off || view_site_to_tramp(s, s->site_off) != s->tramp_off)
        return "site and trampoline do not map to each other";
    return NULL;
}

const char *view_verify(const u8 *file, u64 size, const struct view_blob *blob)
{
    struct check c = {.file = file, .size = size, .blob = blob, .src = {.mem = blob->data, .size = blob->size}};
    struct view_header h = {.data_end = blob->size};
    const struct view_site *sites;
    const char *bad = NULL;

    if (view_entry_at(&c.src, &h, 0, &c.e))
        return "the entry is not valid";
    ZydisDecoderInit(&c.dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    sites = (const struct view_site *)(blob->data + c.e.sites_off);
    for (u32 i = 0; i < c.e.sites_count && !bad; i++) {
        if (i && sites[i].site_off < sites[i - 1].site_off + sites[i - 1].len)
            return "sites overlap or are not sorted";
        bad = verify_maps(&c, &sites[i]);
        if (!bad)
            bad = verify_site(&c, &sites[i]);
    }
    return bad ? bad : verify_rest(&c, sites);
}
