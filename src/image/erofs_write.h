/* Writes the metadata of an EROFS image behind the file contents; see erofs_write.c. */
#ifndef HARENA_IMAGE_EROFS_WRITE_H
#define HARENA_IMAGE_EROFS_WRITE_H

#include "image/sink.h"

/* The sink holds a zero block 0 and all file contents; the tree is sorted. Afterwards every inode has its nid, the
 * sink ends at the end of the file system, and block 0 is written. */
int erofs_write(struct tree *t, struct sink *s, const u8 uuid[16]);

#endif
