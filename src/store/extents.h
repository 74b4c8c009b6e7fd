/* Segment files: sparse files whose offsets are those of the segment, with a list of extents that says what is stored.
 *
 * The list is the authority, not what the file system calls a hole: file systems report holes in coarse steps, and in a level of
 * `data` a stored page of zeroes means something. Extents are whole pages, in order, apart. A segment's checksum goes over the
 * contents of its extents in order; the extents themselves are covered by the index's checksum. */
#ifndef HARENA_STORE_EXTENTS_H
#define HARENA_STORE_EXTENTS_H

#include "runtime/runtime.h"
#include "store/manifest.h"

#define CHUNK (1u << 20)

struct extent {
    u64 offset, size; /* bytes */
};

struct extents {
    struct extent *list;
    u32 count, room;
};

/* Levels that lie on each other, the lowest first. Owns nothing. */
struct stack {
    u32 levels;
    struct {
        int fd;
        const struct extent *list;
        u32 count;
        u32 at; /* cursor of stack_next() */
    } level[MANIFEST_LEVELS];
};

struct progress {
    void (*call)(void *arg, u64 done, u64 total);
    void *arg;
    u64 done, total;
};

void hash_text(const void *data, size_t size, char out[MANIFEST_ID]);

/* Stores what of source is not zero, or with a stack what differs from it, to dest (empty); appends to x; fills in all of *out but
 * kind and level. size in bytes, whole pages. */
int segment_write(int source, u64 size, const struct stack *below, int dest, struct extents *x, struct manifest_segment *out,
                  struct progress *p, struct harena_error *err);
/* Reads all of it: checksum right, and nothing but zeroes outside of its extents? */
int segment_verify(int fd, const struct manifest_segment *s, const struct extent *list, struct harena_error *err);
/* The extents from one file to another; with `check` fails when the checksum is wrong. */
int segment_copy(int from, int to, const struct manifest_segment *s, const struct extent *list, bool check, struct harena_error *err);
/* On tmpfs, that the small holes of a page file take their room at once; elsewhere nothing. */
int segment_fill(int fd, struct harena_error *err);
/* What hash and extents of an existing file are, without copying it. */
int segment_scan(int fd, u64 size, struct extents *x, struct manifest_segment *out, struct harena_error *err);

int extents_add(struct extents *x, u32 first, u64 offset, u64 size, struct harena_error *err);
void extents_free(struct extents *x);
/* The index file as bytes, malloc'ed. */
u8 *index_encode(const struct extents *x, size_t *size);
/* Checks every extent against the manifest's segments. */
int index_decode(const u8 *data, size_t size, const struct manifest *m, struct extents *x, struct harena_error *err);

/* "kernel", "data.0": of a segment. */
const char *segment_name(const struct manifest_segment *s, char out[16]);

#endif
