/* The output file of an image: an append-only, buffered stream, plus a spool (unlinked file) for the contents of small
 * files until their inodes are written. Memory is bounded by two buffers. Errors: 0 or -1 with a line in err. */
#ifndef HARENA_IMAGE_SINK_H
#define HARENA_IMAGE_SINK_H

#include <sys/types.h>
#include "image/tree.h"

#define SINK_BUF (1u << 20)
#define SINK_CHUNK (256u << 10)

struct sink {
    int fd, spool;
    u64 pos;                   /* bytes appended, the buffered ones included */
    u64 spool_pos, limit;      /* limit: bytes the output may have */
    u8 *buf, *chunk;
    u32 used;
    struct image_error *err;
};

int sink_init(struct sink *s, int fd, const char *near, u64 limit, struct image_error *err); /* keeps fd the caller's */
void sink_free(struct sink *s);
int sink_write(struct sink *s, const void *p, u64 size);
int sink_pad(struct sink *s, u32 align);
int sink_flush(struct sink *s);

/* Streams one regular file's content: whole blocks into the output, small non-ELF files into the spool. Fills the
 * inode's size, block and spool fields. read() returns bytes, 0 at the end, or -1 with a line in err. */
int sink_content(struct sink *s, struct inode *i, ssize_t (*read)(void *ctx, void *buf, size_t n), void *ctx);
int sink_spool_read(struct sink *s, const struct inode *i, u8 *buf); /* i->size bytes */

#endif
