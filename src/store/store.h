/* Snapshots of sandboxes on disk: the format, the store directory, and what a snapshot may ask for when it is restored.
 *
 * How it works. A snapshot is a directory (0700, files 0600):
 *
 *     manifest.json  what it is and what it needs (manifest.h); strict JSON
 *     index          extents of all segments (extents.h)
 *     symbols        names of the kernel's addresses that occur in `kernel` (kernel.h): for restoring on another build
 *     seal           checksum of the manifest, and its HMAC under the store's key (seal.c)
 *     kernel         kernel state; sparse, offsets are those of the segment
 *     data.N         contents of files in memory: level 0 is whole, level N what differs from the levels below it
 *     pages.N        private memory; level N refers to those below it, as the guest's kernel knows
 *
 * Every directory is complete by itself: levels that came from another snapshot are hard links to its files, else reflinks, else
 * copies. It is written as a temporary directory beside its place, synced, and renamed; the writer holds a flock on it, so the
 * next command knows what a dead one left. Readers hold a shared flock while they open the files; removal first renames, then
 * waits for them: nobody ever sees half a snapshot.
 *
 * A snapshot may come from a stranger. Nothing in it is policy: mounts in the manifest are needs, and sources are the restorer's
 * (store_mounts). Only a snapshot whose HMAC was made with this store's key over these very files (inode and time of birth are
 * covered, so a copy does not count) may reuse the sources it records. One that lies outside of the store is first copied into
 * unlinked files, and only extents of its index, all verified.
 *
 * Functions return 0 or -1 with one line in *err. Nothing here is thread safe per handle; processes may do anything at once. */
#ifndef HARENA_STORE_STORE_H
#define HARENA_STORE_STORE_H

#include "runtime/runtime.h"
#include "store/manifest.h"

struct store;
struct kernel_image;

/* $HARENA_SNAPSHOTS, for root /var/lib/harena/snapshots, else below $XDG_DATA_HOME or ~/.local/share; made when missing. Sweeps. */
int store_open(struct store **out, struct harena_error *err);
int store_open_at(const char *path, struct store **out, struct harena_error *err);
void store_close(struct store *s);

/* Is it a path (it has a '/') rather than a name in the store? */
bool store_is_path(const char *where);

struct store_save {
    const char *where;          /* name in the store, or a path */
    const char *sandbox;        /* its name, for the manifest */
    const struct harena_parts *parts;
    const struct kernel_image *kernel; /* that the sandbox runs */
    const char *parent, *parent_id; /* the snapshot it was restored from or that was taken of it before, or NULL */
    struct harena_base *base;   /* out, or NULL: its page files, to be closed by store_base_close(); no levels outside of the store */
    bool replace;               /* an existing snapshot, but nothing else */
    bool no_sync;               /* for tests */
    void (*progress)(void *arg, u64 done, u64 total); /* bytes */
    void *arg;
};

struct store_info {
    char name[MANIFEST_NAME];
    char id[MANIFEST_ID];
    char parent[MANIFEST_NAME];
    char sandbox[MANIFEST_NAME];
    s64 created;
    u64 disk;     /* bytes of its files, shared ones included */
    u64 own;      /* bytes that no other snapshot shares */
    u64 apparent; /* bytes of the state it holds, all levels */
    u32 data_levels, page_levels;
    bool broken;  /* its manifest cannot be read: only the name, the time and the sizes are there */
};

/* Would store_save fail at once because the name is taken or not valid? */
int store_check_free(struct store *s, const struct store_save *o, struct harena_error *err);
int store_save(struct store *s, const struct store_save *o, struct store_info *out, struct harena_error *err);

void store_base_close(struct harena_base *base);

struct store_loaded {
    struct manifest *manifest;
    struct harena_parts parts; /* read-only descriptors; mounts as recorded: needs, not policy */
    bool own;                  /* sealed by this store: its sources may be used */
    bool same_build;
    char where[MANIFEST_NAME]; /* name in the store, "" = a path */
};

/* Opens and checks; `verify` checks everything. With a kernel of another build the kernel's state is adapted in a copy. */
int store_load(struct store *s, const char *where, const struct kernel_image *kernel, bool verify, struct store_loaded **out,
               struct harena_error *err);
void store_loaded_free(struct store_loaded *l);

/* Fills l->parts.mounts with sources, allow-lists and the like from `given`, the restorer's own mounts, matched by target; those at
 * `explicit` and behind must each be used. What lacks is taken from the record when the snapshot is our own. */
int store_mounts(struct store *s, struct store_loaded *l, const struct harena_mounts *given, u32 explicit, struct harena_error *err);

int store_remove(struct store *s, const char *where, struct harena_error *err);
/* Sorted by time; malloc'ed. Returns the count or -1. */
int store_list(struct store *s, struct store_info **out, struct harena_error *err);

#endif
