/* Builds a sandbox image: one standard, uncompressed EROFS file system, followed by the exec views of its
 * programs (wire/view_format.h). Host side.
 *
 * Input is a directory tree or a tar archive (any format and compression libarchive reads), both hostile: names are
 * checked, nothing is ever followed or written outside the output file.
 *
 * What is kept: all file types, mode, uid, gid, mtime with nanoseconds, link count, hard links, user.* xattrs.
 * Dropped: security.* (file capabilities mean nothing to the guest), ACLs and trusted.*; atime and ctime.
 *
 * The output is written to a temporary file beside the target, synced and renamed: the target is either the old file
 * or the complete new one. All functions return 0 or -1 with one line in *err. */
#ifndef HARENA_IMAGE_IMAGE_H
#define HARENA_IMAGE_IMAGE_H

#include "base/types.h"

struct image_error {
    char msg[256];
};

struct image_options {         /* NULL = all zero */
    bool no_views;             /* only the file system */
    bool no_sync;              /* tests: skip fsync */
    bool one_file_system;      /* directories: leave mount points empty */
    u8 uuid[16];
};

struct image_stats {           /* filled if not NULL */
    u64 inodes, bytes;         /* of the whole image */
    u64 fs_bytes;              /* of the EROFS part */
    u32 views, sites, sites_left;
};

int image_build_dir(const char *dir, const char *out, const struct image_options *o, struct image_stats *st,
                    struct image_error *err);

/* From a descriptor (a file or pipe, read to its end, not closed) or a path. */
int image_build_tar_fd(int fd, const char *out, const struct image_options *o, struct image_stats *st,
                       struct image_error *err);
int image_build_tar(const char *path, const char *out, const struct image_options *o, struct image_stats *st,
                    struct image_error *err);

#endif
