/* Fuzz target: the view decoder on arbitrary containers. Checksums are mended so that the checks behind them are
 * reached. clang-19 -fsanitize=fuzzer,address,undefined. */
#include <stdlib.h>
#include <string.h>
#include "wire/view.h"

static void mend(u8 *p, size_t size, size_t crc_off)
{
    u32 crc = 0;

    memcpy(p + crc_off, &crc, 4);
    crc = view_crc32c(~0u, p, size);
    memcpy(p + crc_off, &crc, 4);
}

static void walk(const struct view_source *src, const struct view_entry *e, const u8 *base)
{
    struct view_site s;

    if (e->seg_count > VIEW_SEG_MAX)
        abort();
    for (u32 i = 0; i < e->seg_count; i++) { /* the decoder's promise: all of it may be mapped */
        if (e->seg[i].view_off + e->seg[i].len > src->size || view_seg_at(e, e->seg[i].file_off) != &e->seg[i])
            abort();
    }
    if (e->seg_count && e->tramp_off + e->tramp_len > src->size)
        abort();
    for (u32 k = 0; k < 64; k++) {
        u64 off = base[k] | (u64)base[k + 1] << 8;

        if (!view_site_at(src, e, off, &s) && (s.tramp_off < e->tramp_vaddr || off < s.site_off ||
                                               s.tramp_off + view_tramp_size(&s) > e->tramp_vaddr + e->tramp_len))
            abort();
        view_site_of_tramp(src, e, e->tramp_vaddr + off, &s);
    }
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    struct view_source src = {0};
    struct view_stat_row want = {0};
    struct view_header h;
    struct view_entry e;
    u8 *p;

    if (size < 2 * VIEW_HEADER_SIZE || size > 1 << 20 || !(p = malloc(size)))
        return 0;
    memcpy(p, data, size);
    mend(p, VIEW_HEADER_SIZE, offsetof(struct view_header, crc));
    if (size > 2 * VIEW_HEADER_SIZE + sizeof(e))
        mend(p + 2 * VIEW_HEADER_SIZE, sizeof(e), offsetof(struct view_entry, crc));
    src.mem = p;
    src.size = size;
    if (!view_open_pack(&src, &h)) {
        if (!view_find(&src, &h, p + size - VIEW_KEY_SIZE, &e))
            walk(&src, &e, p);
        memcpy(&want, p + size - sizeof(want), sizeof(want));
        if (!view_find_stat(&src, &h, &want, &e))
            walk(&src, &e, p);
        if (!view_entry_at(&src, &h, 2 * VIEW_HEADER_SIZE, &e))
            walk(&src, &e, p);
    }
    view_open_image(&src, &h);
    free(p);
    return 0;
}
