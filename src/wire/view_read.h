/* Reading a container, and ranges in it: shared by view_pack.c and view.c only. */
#ifndef HARENA_WIRE_VIEW_READ_H
#define HARENA_WIRE_VIEW_READ_H

#include "wire/view.h"
#include "base/string.h"

#define EIO 5
#define ENOENT 2
#define ENODATA 61
#define EUCLEAN 117

static inline int src_read(const struct view_source *src, u64 off, void *buf, size_t size)
{
    if (off > src->size || size > src->size - off)
        return -EUCLEAN;
    if (src->read)
        return src->read(src->ctx, off, buf, size) ? -EIO : 0;
    memcpy(buf, (const u8 *)src->mem + off, size);
    return 0;
}

/* [off, off + count * size) lies inside [0, limit). */
static inline bool inside(u64 off, u64 count, u64 size, u64 limit)
{
    return count <= VIEW_CONTAINER_MAX / size && off <= limit && count * size <= limit - off;
}

#endif
