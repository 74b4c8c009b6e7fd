/* Decoder of exec-view containers (wire/view_format.h). Pure: no I/O of its own, no allocation, only
 * base/; used by host programs and by the guest kernel. Every offset and count is checked against the
 * container before use, and structures are copied before they are checked.
 *
 * All functions return 0 or a negative errno: -EIO the source could not be read, -EUCLEAN the data is not a
 * valid container or entry, -ENOENT no such key, -ENODATA no header. */
#ifndef HARENA_WIRE_VIEW_H
#define HARENA_WIRE_VIEW_H

#include "wire/view_format.h"

/* A container. read() copies exactly `size` bytes at `off` and returns 0, or a negative errno; it is never
 * asked for bytes behind `size`. With read == NULL, `mem` is the container in memory. */
struct view_source {
    int (*read)(void *ctx, u64 off, void *buf, size_t size);
    void *ctx;
    const void *mem;
    u64 size;
};

u32 view_crc32c(u32 crc, const void *buf, size_t size); /* start with ~0u */

/* The header of an image (last page) or of a pack (the newer of two). src->size of a pack that grows must
 * be its current size. */
int view_open_image(const struct view_source *src, struct view_header *h);
int view_open_pack(const struct view_source *src, struct view_header *h);

void view_key_nid(u8 key[VIEW_KEY_SIZE], u64 nid);

/* Looks a key up; fills a checked entry. */
int view_find(const struct view_source *src, const struct view_header *h, const u8 key[VIEW_KEY_SIZE],
              struct view_entry *e);
int view_find_stat(const struct view_source *src, const struct view_header *h, const struct view_stat_row *want,
                   struct view_entry *e); /* want->entry_off is ignored */

/* The entry at an offset (an answer of the host's pack_lookup_stat, say). */
int view_entry_at(const struct view_source *src, const struct view_header *h, u64 entry_off, struct view_entry *e);

/* The segment that covers page-aligned file offset `off`, or NULL. */
const struct view_seg *view_seg_at(const struct view_entry *e, u64 off);

/* The site whose overwritten bytes [site_off, site_off + len) contain `off`, or the one whose trampoline
 * contains `off` (offsets from the load bias). -ENOENT if none. The site is checked against the entry. */
int view_site_at(const struct view_source *src, const struct view_entry *e, u64 off, struct view_site *s);
int view_site_of_tramp(const struct view_source *src, const struct view_entry *e, u64 off, struct view_site *s);

/* Bytes of a site's trampoline. */
u32 view_tramp_size(const struct view_site *s);

/* Where execution continues for an instruction pointer inside the overwritten bytes: an offset in the
 * trampoline (for an offset that is no instruction boundary of the original: whatever lies there). */
u64 view_site_to_tramp(const struct view_site *s, u64 off);

/* The original program counter for an instruction pointer inside a trampoline. Behind the kernel's return
 * (form B's cont) this is the instruction after the syscall; on the entering instructions it is the
 * syscall itself. */
u64 view_tramp_to_site(const struct view_site *s, u64 off);

#endif
