#ifndef HARENA_PROC_CRED_H
#define HARENA_PROC_CRED_H

#include "core/current.h"

struct cred *cred_new(u32 uid, u32 gid); /* full capabilities for uid 0 */
struct cred *cred_copy(const struct cred *c); /* a private copy to change and publish */
void cred_get(struct cred *c);
void cred_put(struct cred *c); /* NULL allowed */

#endif
