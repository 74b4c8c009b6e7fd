/* Which names are taken for a user's secrets: shown as empty in the current directory of the default root. A help against
 * accidents: contents are not looked at. Upper and lower case are the same (some file systems do not tell them apart). */
#ifndef HARENA_BROKER_SECRETS_H
#define HARENA_BROKER_SECRETS_H

#include <stddef.h>
#include "base/types.h"

/* A path of single components separated by '/', a leading '/' allowed. 0: none is a secret; 1: the last one is; -1: an earlier
 * one is. */
int secret_path(const char *path);

#endif
