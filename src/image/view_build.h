/* Builds the exec view (wire/view_format.h) of one ELF file. */
#ifndef HARENA_IMAGE_VIEW_BUILD_H
#define HARENA_IMAGE_VIEW_BUILD_H

#include "wire/view_format.h"

/* A view as one relocatable block: a view_entry at offset 0, sites behind it, then page-aligned trampolines and
 * segments; offsets in the entry count from the block's start. The key is zero. Owned by the caller (free data). */
struct view_blob {
    u8 *data;
    u64 size; /* page aligned */
};

struct view_stats {
    u32 form[4]; /* sites by enum view_form; [0]: left to trap */
};

/* Cheap test without decoding: an x86-64 ELF file with the bytes of a syscall instruction in executable pages. */
bool view_wanted(const u8 *file, u64 size);

/* 0 and a blob; -ENOENT: the file has no view (nothing to patch or a layout that cannot be patched); -ENOMEM.
 * Decodes hostile input in this process: see view_build_jailed(). */
int view_build(const u8 *file, u64 size, struct view_blob *blob, struct view_stats *stats);

/* The same in a forked child that has no descriptors and may only manage memory (seccomp), with limits on
 * memory and time (seconds). Forks, so the caller should be single-threaded or hold no locks malloc needs.
 * In addition -EFAULT: the child was killed or its answer is not a valid view. */
int view_build_jailed(const u8 *file, u64 size, struct view_blob *blob);
extern u32 view_jail_seconds; /* of cpu time, 60 unless set */

/* Moves a blob to its place in a container: adds `base` to the offsets, sets key and checksum. Returns the entry. */
struct view_entry *view_blob_place(struct view_blob *blob, u64 base, const u8 key[VIEW_KEY_SIZE]);

#endif
