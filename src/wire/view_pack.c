/* Decoder of exec-view containers, first part: the headers of images and packs. The broker needs no more. See wire/view.h and
 * wire/view_format.h. */
#include "wire/view_read.h"

/* By the instruction of SSE 4.2, which is older than FSGSBASE, without which nothing runs here. It needs no vector registers. */
u32 view_crc32c(u32 crc, const void *buf, size_t size)
{
    const u8 *p = buf;
    u64 c = crc, v;

    for (; size >= sizeof(v); size -= sizeof(v), p += sizeof(v)) {
        memcpy(&v, p, sizeof(v));
        __asm__("crc32q %1, %0" : "+r"(c) : "r"(v));
    }
    for (; size; size--, p++)
        __asm__("crc32b %1, %0" : "+r"(c) : "r"(*p));
    return c;
}

/* ------------------------------------------------------------------ header */

static int header_read(const struct view_source *src, u64 off, struct view_header *h)
{
    u8 chunk[1024];
    u32 crc = ~0u;

    if (src->size > VIEW_CONTAINER_MAX)
        return -EUCLEAN;
    for (u32 done = 0; done < VIEW_HEADER_SIZE; done += sizeof(chunk)) {
        int r = src_read(src, off + done, chunk, sizeof(chunk));

        if (r)
            return r;
        if (!done) {
            memcpy(h, chunk, sizeof(*h));
            memset(chunk + offsetof(struct view_header, crc), 0, sizeof(h->crc));
        }
        crc = view_crc32c(crc, chunk, sizeof(chunk));
    }
    if (h->magic != VIEW_MAGIC)
        return -ENODATA;
    if (h->version != VIEW_VERSION || h->crc != crc || h->flags)
        return -EUCLEAN;
    if (h->key_kind != VIEW_KEY_NID && h->key_kind != VIEW_KEY_SHA256)
        return -EUCLEAN;
    if (h->data_end > src->size || h->fs_size > h->data_end)
        return -EUCLEAN;
    if (h->index_count > VIEW_ROWS_MAX || !inside(h->index_off, h->index_count, sizeof(struct view_row), h->data_end))
        return -EUCLEAN;
    if (h->stat_count > VIEW_ROWS_MAX || !inside(h->stat_off, h->stat_count, sizeof(struct view_stat_row), h->data_end))
        return -EUCLEAN;
    return 0;
}

int view_open_image(const struct view_source *src, struct view_header *h)
{
    if (src->size < VIEW_HEADER_SIZE || src->size % VIEW_HEADER_SIZE)
        return -ENODATA;
    return header_read(src, src->size - VIEW_HEADER_SIZE, h);
}

int view_open_pack(const struct view_source *src, struct view_header *h)
{
    struct view_header a, b;
    int ra, rb;

    if (src->size < 2 * VIEW_HEADER_SIZE)
        return -ENODATA;
    ra = header_read(src, 0, &a);
    rb = header_read(src, VIEW_HEADER_SIZE, &b);
    if (ra && rb)
        return ra == -ENODATA ? rb : ra;
    *h = rb || (!ra && a.generation > b.generation) ? a : b;
    return 0;
}
