/* Whom a session's program runs as: "UID", "NAME", either with ":GID" or ":GROUP", by /etc/passwd and /etc/group inside. */
#ifndef HARENA_BOOT_USER_H
#define HARENA_BOOT_USER_H

#include "core/current.h"

#define USER_HOME_MAX 256

/* home: from /etc/passwd, or "/". -ENOENT: a name that is in neither file; -EINVAL: not of that form. */
long user_resolve(const char *text, struct cred **out, char home[USER_HOME_MAX]);

#endif
