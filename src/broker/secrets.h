/* Which names are taken for a user's secrets: shown as empty in the current directory of the default root. A help against
 * accidents: contents are not looked at. Upper and lower case are the same (some file systems do not tell them apart). */
#ifndef HARENA_BROKER_SECRETS_H
#define HARENA_BROKER_SECRETS_H

#include <stddef.h>
#include "base/types.h"

/* A path of single components separated by '/', a leading '/' allowed. 0: none is a secret; 1: the last one is; -1: an earlier
 * one is. */
int secret_path(const char *path);
int secret_path_in(const char *dir, const char *path); /* of a directory called dir: some names mean something only there */

/* Is the last component a directory of settings, some of whose names are secrets only there (.config, .cargo)? */
bool secret_holder(const char *path);

/* Device and inode of secrets that have further names: files with secrets' names directly in `dir`, or at their usual places below
 * it (a home directory), or in directories with secrets' names. Appends to list; at most max in all. */
struct secret_inode {
    u64 dev, ino;
};
void secret_inodes(const char *dir, struct secret_inode *list, u32 *count, u32 max);

#endif
