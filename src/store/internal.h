/* Shared by the files of the store only. */
#ifndef HARENA_STORE_INTERNAL_H
#define HARENA_STORE_INTERNAL_H

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include "store/extents.h"
#include "store/store.h"

struct store {
    int fd;
    char path[PATH_MAX];
    u8 key[32];
};

/* ---- dir.c: places, locks, temporary directories ---- */

/* Where a snapshot is: the directory that holds it, and its name there. */
struct place {
    int dir; /* owned unless it is the store's */
    bool in_store;
    char name[NAME_MAX + 1];
};
int place_find(struct store *s, const char *where, struct place *p, struct harena_error *err);
void place_close(struct store *s, struct place *p);
bool same_inode(int a, int b);
/* Does the name still stand for the open file? */
bool same_file(int fd, int dir, const char *name);

/* Makes a locked temporary directory; removes what dead writers left. Returns its descriptor. */
int temporary_make(int dir, char name[NAME_MAX + 1], struct harena_error *err);
void temporary_sweep(int dir);
/* Removes the files of a snapshot's directory and itself; nothing else that may lie there. */
int directory_remove(int dir, int fd, const char *name);

/* A snapshot that has been renamed to a temporary name: waits for its readers. */
void temporary_remove(int dir, const char *name);
void temporary_name(char name[NAME_MAX + 1]);

/* Opens a snapshot's directory with a shared lock. Removed meanwhile, or being written: an error. */
int snapshot_open(struct store *s, const char *where, struct place *p, struct harena_error *err);
/* A regular file of it, read-only, no link followed, at most max bytes. */
int file_open(int dir, const char *name, u64 max, struct stat *st, struct harena_error *err);
/* All of it, malloc'ed, with a NUL behind. */
u8 *file_read(int dir, const char *name, u64 max, size_t *size, struct harena_error *err);
int file_write(int dir, const char *name, const void *data, size_t size, struct harena_error *err);
/* An unlinked file in the store, read-write. */
int file_unlinked(struct store *s, struct harena_error *err);
/* The same file through another, read-only description; closes fd. */
int file_reopen(int fd, struct harena_error *err);

/* ---- list.c ---- */

/* Nothing else than a snapshot's files in it, and outside of the store a manifest? What may be removed or replaced. */
bool snapshot_removable(int dir, bool in_store);
void snapshot_describe(struct store *s, int dir, const char *name, struct store_info *out);

/* ---- seal.c ---- */

/* 2 * size digits and a NUL. */
static inline void hex_text(const u8 *in, u32 size, char *out)
{
    for (u32 i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02x", in[i]);
}

int key_load(struct store *s, struct harena_error *err);
/* "xxh3 CHECKSUM\nhmac HMAC\n" of the manifest's text; the HMAC covers the identity of the files in dir. */
#define SEAL_MAX 256
void seal_make(struct store *s, int dir, const char *text, size_t size, char out[SEAL_MAX]);
/* -1: damaged. */
int seal_check(const char *seal, size_t seal_size, const char *text, size_t size, struct harena_error *err);
/* Was it made by this store, with these files? */
bool seal_own(struct store *s, int dir, const char *seal, size_t seal_size, const char *text, size_t size);

/* ---- digest.c ---- */

/* SHA-256 of an image file, from the store's cache when the file has not changed. */
int digest_image(struct store *s, const char *path, char out[MANIFEST_SHA256], struct harena_error *err);

/* ---- load.c ---- */

/* Manifest only. *own may be NULL. */
struct manifest *manifest_load(struct store *s, int dir, bool *own, struct harena_error *err);
int index_load(int dir, const struct manifest *m, struct extents *x, struct harena_error *err);
/* All levels of a kind, opened; sizes are checked. */
struct opened {
    int fd[MANIFEST_LEVELS];
    u32 levels;
};
int segments_open(int dir, const struct manifest *m, u32 kind, struct opened *o, struct harena_error *err);
void segments_close(struct opened *o);
struct stack stack_of(const struct manifest *m, u32 kind, const struct opened *o, const struct extents *x);
/* "snapshot WHERE: " before the error. Returns -1. */
int error_in(struct harena_error *err, const char *where);

#endif
