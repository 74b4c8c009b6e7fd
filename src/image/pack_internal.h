/* Shared by pack.c (files, generations, look-up: no libraries) and pack_add.c (hashing, building, appending). */
#ifndef HARENA_IMAGE_PACK_INTERNAL_H
#define HARENA_IMAGE_PACK_INTERNAL_H

#include "image/pack.h"

struct pack {
    int dir, lock, fd;
    u32 number;           /* of the file views.<number> */
    u64 max;
    bool private, no_sync;
    const u8 *map;        /* of max bytes */
    struct view_source src;
    struct view_header h;
};

int pack_read_header(struct pack *p);
int pack_write_at(int fd, const void *buf, u64 size, u64 off);
int pack_write_header(struct pack *p, int fd, struct view_header *h);
u64 pack_entry_offset(const struct view_entry *e);

/* The stamp; the lock is held. begin: -ESTALE when the file was changed by somebody else or is no longer current. */
int pack_begin(struct pack *p);
int pack_end(struct pack *p);

#endif
