/* The manifest of a snapshot: JSON <-> struct. Pure: no files. The struct is flat (no pointers), so that a jailed child can decode a
 * stranger's manifest and hand it over through shared memory, where manifest_check() looks at every field again.
 *
 * The decoder is strict: every object has exactly the keys it should have, no duplicates, unknown kinds, flags and processor
 * features are refused, all counts and sizes are capped. A later format has another number in "format". */
#ifndef HARENA_STORE_MANIFEST_H
#define HARENA_STORE_MANIFEST_H

#include <stddef.h>
#include "base/types.h"

#define MANIFEST_FORMAT 1
#define MANIFEST_TEXT_MAX (256u << 10)
#define MANIFEST_NAME 64   /* with NUL, as all below */
#define MANIFEST_ID 33     /* 32 hexadecimal digits */
#define MANIFEST_BUILD 65
#define MANIFEST_SHA256 65
#define MANIFEST_MOUNTS 128
#define MANIFEST_POOL (48u << 10)
#define MANIFEST_LEVELS 4
#define MANIFEST_SEGMENTS (1 + 2 * MANIFEST_LEVELS)
#define MANIFEST_EXTENTS (4u << 20)
#define MANIFEST_PAGES_MAX (64ull << 30) /* bytes of a page file; kernels write less */

enum segment_kind { SEGMENT_KERNEL, SEGMENT_DATA, SEGMENT_PAGES, SEGMENT_KINDS };

struct manifest_file { /* a file that is checked as a whole */
    u64 size;
    char xxh3[MANIFEST_ID]; /* XXH3, 128 bits */
};

struct manifest_segment {
    u32 kind, level;
    u64 size;          /* apparent, bytes */
    u64 stored;        /* bytes in its extents */
    u32 first, count;  /* of its extents in the index */
    char xxh3[MANIFEST_ID]; /* over the contents of the extents in order */
};

struct manifest_mount {
    u32 kind, flags;   /* enum mount_kind, MOUNT_* */
    u64 size;
    bool hide_secrets, system, optional;
    bool restricted;   /* it had an allow-list, which is not recorded: the restorer must give one */
    u32 target, source; /* in the pool; source 0 = none */
    char sha256[MANIFEST_SHA256]; /* of an image, else "" */
};

struct manifest {
    char id[MANIFEST_ID], parent_id[MANIFEST_ID]; /* parent: "" = none */
    char name[MANIFEST_NAME], parent[MANIFEST_NAME], sandbox[MANIFEST_NAME];
    char build[MANIFEST_BUILD], layout[MANIFEST_BUILD]; /* of the guest kernel, hexadecimal */
    s64 created;       /* seconds since 1970 */
    u64 xcr0;
    u64 features;      /* of the processor, bits of cpu.h */
    u32 xsave_size;
    bool tty;
    u32 mount_count, segment_count;
    struct manifest_file index, symbols;
    struct manifest_segment segments[MANIFEST_SEGMENTS]; /* kernel; data by level; pages by level */
    struct manifest_mount mounts[MANIFEST_MOUNTS];
    u32 pool_size;     /* its first byte is 0 */
    char pool[MANIFEST_POOL];
};

#define MANIFEST_ERROR 160

/* malloc'ed text, or NULL when the manifest does not fit into the format (*why). */
char *manifest_encode(const struct manifest *m, size_t *size, const char **why);
/* Return false with a line in error (printable ASCII). */
bool manifest_decode(const char *text, size_t size, struct manifest *m, char error[MANIFEST_ERROR]);
bool manifest_check(const struct manifest *m, char error[MANIFEST_ERROR]);
/* The same in a child that can do nothing else. */
bool manifest_decode_jailed(const char *text, size_t size, struct manifest *m, char error[MANIFEST_ERROR]);

/* Appends a string; 0 when there is no room or s is NULL. */
u32 manifest_string(struct manifest *m, const char *s);
const struct manifest_segment *manifest_segment(const struct manifest *m, u32 kind, u32 level); /* NULL = none */
u32 manifest_levels(const struct manifest *m, u32 kind);
/* Letters, digits, '.', '_', '-'; not first '.' or '-'; at most 60. */
bool manifest_name_valid(const char *name);

#endif
