/* The pack: a cache of exec views of host files, in one append-only file that all guests map read-only (FD_VIEWS).
 *
 * A pack directory holds `lock`, the pack file `views.<n>`, `stamp.<n>` (pack.c) and `current`, which names its number. A pack file holds, per
 * content (SHA-256), the view and a page-aligned copy of the whole file, so that a guest can map every
 * segment - text from the view, the rest from the copy - from this one descriptor. Format: wire/view_format.h.
 *
 * What may be in it. Every guest that gets the descriptor can read every file in the pack, so pack_add() accepts only
 * files that everybody may read (mode & 0004), unless the pack is opened with `private`: such a pack must be given
 * to sandboxes of one owner only. The directory must not be writable by anyone less trusted than the caller.
 *
 * Stat rows. Files are keyed by content, never by path or time - with one exception that makes look-ups cheap: a
 * stat tuple (dev, ino, size, mtime, ctime) is remembered if it pins the content: see wire/view_pin.h.
 *
 * Concurrency: writers of all processes are serialised by flock on `lock`; readers take no lock: data is appended and
 * synced, then one of two header pages is overwritten with a checksummed one of a higher generation. A handle stays
 * with its file for life, because guests have a descriptor of that file. When the file is full pack_add() answers
 * -ENOSPC; the next pack_open() starts a new file and unlinks older ones (open descriptors stay valid).
 * A handle is for one thread.
 *
 * Errors: negative errno. */
#ifndef HARENA_IMAGE_PACK_H
#define HARENA_IMAGE_PACK_H

#include <sys/stat.h>
#include "wire/view.h"
#include "wire/view_pin.h"

#define PACK_SIZE_DEFAULT (1ull << 30)
#define PACK_FILE_MAX VIEW_FILE_MAX /* larger files are not cached */

struct pack;

struct pack_options { /* NULL = all zero */
    u64 max_size;     /* bytes of one generation; 0 = PACK_SIZE_DEFAULT */
    bool private;     /* may hold files that not everybody can read */
    bool no_sync;     /* tests: skip fdatasync */
};

/* Makes the directory, mode 0700. -EPERM: it belongs to somebody else or others may write there. */
int pack_open(const char *dir, const struct pack_options *o, struct pack **out);
void pack_close(struct pack *p);

/* The path of the current pack file, made when there is none or it was changed by others. No lock in the usual case. */
int pack_current(const char *dir, const struct pack_options *o, char *path, size_t path_size);

/* A new read-only descriptor of the pack file (close-on-exec), for FD_VIEWS. */
int pack_guest_fd(struct pack *p);
void pack_id(struct pack *p, u8 id[16]);

/* 0 and a checked entry, its offset in *off (may be NULL); -ENOENT. A few microseconds, no system calls
 * unless the pack grew. */
int pack_lookup_stat(struct pack *p, u64 dev, u64 ino, u64 size, s64 mtime_ns, s64 ctime_ns, struct view_entry *e,
                     u64 *off);
int pack_lookup_key(struct pack *p, const u8 key[VIEW_KEY_SIZE], struct view_entry *e, u64 *off);

/* Adds the file behind a readable descriptor (its offset is not used or moved): private copy, hash, view built in a
 * jailed child, append. Already known content is only looked up. -EACCES: not allowed in this pack; -EFBIG;
 * -ENOSPC: full;
 * -ESTALE: the pack file is no longer current; -EAGAIN: the file changed meanwhile; -EFAULT: the builder died. Forks. */
int pack_add(struct pack *p, int fd, struct view_entry *e, u64 *off);

#endif
