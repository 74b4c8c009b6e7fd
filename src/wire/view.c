/* Decoder of exec-view containers, second part: entries and sites; see wire/view.h and wire/view_format.h. */
#include "wire/view_read.h"

/* ------------------------------------------------------------------ entries */

void view_key_nid(u8 key[VIEW_KEY_SIZE], u64 nid)
{
    memset(key, 0, VIEW_KEY_SIZE);
    for (int i = 0; i < 8; i++)
        key[i] = (u8)(nid >> (56 - 8 * i));
}

static bool page_range_ok(u64 off, u64 len, u64 limit)
{
    return !(off & ~PAGE_MASK) && !(len & ~PAGE_MASK) && inside(off, len, 1, limit);
}

static bool entry_ok(const struct view_entry *e, u64 limit)
{
    u64 file_end = 0;

    if (e->flags || e->seg_count > VIEW_SEG_MAX || e->file_size > VIEW_CONTAINER_MAX)
        return false;
    if (e->copy_off && !page_range_ok(e->copy_off, PAGE_UP(e->file_size), limit))
        return false;
    if (!e->seg_count)
        return true;
    if (!e->span || e->span > VIEW_SPAN_MAX || e->span & ~PAGE_MASK || e->tramp_vaddr != e->span)
        return false;
    if (!e->tramp_len || e->tramp_len > VIEW_TRAMP_MAX || !page_range_ok(e->tramp_off, e->tramp_len, limit))
        return false;
    if (!e->sites_count || e->sites_count > VIEW_SITES_MAX || e->sites_off % 16 ||
        !inside(e->sites_off, e->sites_count, sizeof(struct view_site), limit))
        return false;
    for (u32 i = 0; i < e->seg_count; i++) {
        const struct view_seg *s = &e->seg[i];

        if (!s->len || !page_range_ok(s->view_off, s->len, limit))
            return false;
        if (s->file_off & ~PAGE_MASK || s->file_off < file_end || s->file_off > VIEW_CONTAINER_MAX)
            return false;
        if (s->vaddr & ~PAGE_MASK || s->vaddr > e->span || s->len > e->span - s->vaddr)
            return false;
        file_end = s->file_off + s->len;
    }
    return true;
}

int view_entry_at(const struct view_source *src, const struct view_header *h, u64 entry_off, struct view_entry *e)
{
    u32 crc;
    int r;

    if (!inside(entry_off, 1, sizeof(*e), h->data_end))
        return -EUCLEAN;
    r = src_read(src, entry_off, e, sizeof(*e));
    if (r)
        return r;
    if (e->magic != VIEW_ENTRY_MAGIC)
        return -EUCLEAN;
    crc = e->crc;
    e->crc = 0;
    if (view_crc32c(~0u, e, sizeof(*e)) != crc)
        return -EUCLEAN;
    e->crc = crc;
    return entry_ok(e, h->data_end) ? 0 : -EUCLEAN;
}

int view_find(const struct view_source *src, const struct view_header *h, const u8 key[VIEW_KEY_SIZE],
              struct view_entry *e)
{
    u32 lo = 0, hi = h->index_count;

    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        struct view_row row;
        int c, r = src_read(src, h->index_off + (u64)mid * sizeof(row), &row, sizeof(row));

        if (r)
            return r;
        c = memcmp(row.key, key, VIEW_KEY_SIZE);
        if (c < 0) {
            lo = mid + 1;
        } else if (c > 0) {
            hi = mid;
        } else {
            r = view_entry_at(src, h, row.entry_off, e);
            return r ? r : memcmp(e->key, key, VIEW_KEY_SIZE) ? -EUCLEAN : 0;
        }
    }
    return -ENOENT;
}

int view_find_stat(const struct view_source *src, const struct view_header *h, const struct view_stat_row *want,
                   struct view_entry *e)
{
    u32 lo = 0, hi = h->stat_count;

    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        struct view_stat_row row;
        int r = src_read(src, h->stat_off + (u64)mid * sizeof(row), &row, sizeof(row));

        if (r)
            return r;
        if (row.dev < want->dev || (row.dev == want->dev && row.ino < want->ino)) {
            lo = mid + 1;
        } else if (row.dev != want->dev || row.ino != want->ino) {
            hi = mid;
        } else {
            if (row.size != want->size || row.mtime_ns != want->mtime_ns || row.ctime_ns != want->ctime_ns)
                return -ENOENT;
            return view_entry_at(src, h, row.entry_off, e);
        }
    }
    return -ENOENT;
}

const struct view_seg *view_seg_at(const struct view_entry *e, u64 off)
{
    for (u32 i = 0; i < e->seg_count && i < VIEW_SEG_MAX; i++)
        if (off >= e->seg[i].file_off && off - e->seg[i].file_off < e->seg[i].len)
            return &e->seg[i];
    return NULL;
}

/* ------------------------------------------------------------------ sites */

/* Sizes of the parts of a trampoline (see image/view_build.c, which emits them). */
#define LEA_SIZE 7
#define ENTER_SIZE 15 /* lea ret(%rip),%rcx; jmp *%gs:24 */
#define JMP_SIZE 5

static u32 site_end(const struct view_site *s) /* offset behind the syscall instruction, from site_off */
{
    return s->sys + 2u;
}

u32 view_tramp_size(const struct view_site *s)
{
    if (s->form == VIEW_FORM_A)
        return s->len + ENTER_SIZE;
    if (s->form == VIEW_FORM_B)
        return ENTER_SIZE + (s->len - 2u) + JMP_SIZE;
    return s->sys + ENTER_SIZE;
}

static bool site_ok(const struct view_entry *e, const struct view_site *s)
{
    u64 tramp_end = e->tramp_vaddr + e->tramp_len;

    if (s->len < JMP_SIZE || s->len > VIEW_SITE_LEN_MAX || s->site_off >= e->span || s->len > e->span - s->site_off)
        return false;
    if (s->form == VIEW_FORM_A ? s->sys != s->len : s->form == VIEW_FORM_B ? s->sys != 0 :
        s->form == VIEW_FORM_C ? s->sys + 2 > s->len : true)
        return false;
    if (s->tramp_off < e->tramp_vaddr || s->tramp_off + (u64)view_tramp_size(s) > tramp_end)
        return false;
    return s->cont_off == (s->form == VIEW_FORM_B ? s->tramp_off + ENTER_SIZE : s->site_off + site_end(s));
}

static int site_read(const struct view_source *src, const struct view_entry *e, u32 i, struct view_site *s)
{
    int r = src_read(src, e->sites_off + (u64)i * sizeof(*s), s, sizeof(*s));

    return r ? r : site_ok(e, s) ? 0 : -EUCLEAN;
}

/* Both arrays ascend: trampolines are emitted in the order of their sites. */
static int site_search(const struct view_source *src, const struct view_entry *e, u64 off, bool tramp,
                       struct view_site *s)
{
    u32 lo = 0, hi = e->seg_count ? e->sites_count : 0;

    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        int r = site_read(src, e, mid, s);
        u64 start, len;

        if (r)
            return r;
        start = tramp ? s->tramp_off : s->site_off;
        len = tramp ? view_tramp_size(s) : s->len;
        if (off < start)
            hi = mid;
        else if (off - start >= len)
            lo = mid + 1;
        else
            return 0;
    }
    return -ENOENT;
}

int view_site_at(const struct view_source *src, const struct view_entry *e, u64 off, struct view_site *s)
{
    return site_search(src, e, off, false, s);
}

int view_site_of_tramp(const struct view_source *src, const struct view_entry *e, u64 off, struct view_site *s)
{
    if (off < e->tramp_vaddr)
        return -ENOENT;
    return site_search(src, e, off, true, s);
}

u64 view_site_to_tramp(const struct view_site *s, u64 off)
{
    u64 k = off - s->site_off;

    if (s->form == VIEW_FORM_B && k >= 2)
        return s->tramp_off + ENTER_SIZE + (k - 2);
    if (s->form == VIEW_FORM_C && k > s->sys) /* inside or behind the syscall: filler, or its second byte */
        return off;
    return s->tramp_off + k;
}

u64 view_tramp_to_site(const struct view_site *s, u64 off)
{
    u64 k = off - s->tramp_off;

    if (s->form == VIEW_FORM_B) {
        if (k < ENTER_SIZE)
            return s->site_off;
        return s->site_off + 2 + MIN(k - ENTER_SIZE, (u64)s->len - 2);
    }
    return s->site_off + MIN(k, (u64)s->sys);
}
