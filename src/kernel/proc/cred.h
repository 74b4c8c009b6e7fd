#ifndef HARENA_PROC_CRED_H
#define HARENA_PROC_CRED_H

#include "core/current.h"

struct cred *cred_new(u32 uid, u32 gid); /* full capabilities for uid 0 */
struct cred *cred_copy(const struct cred *c); /* a private copy to change and publish */
void cred_publish(struct cred *c); /* becomes the calling task's; takes the reference */
void cred_uids_changed(struct cred *c, const struct cred *old); /* what set*uid does to the capabilities */
struct cred *cred_for_exec(const struct cred *old, u32 mode, u32 uid, u32 gid, bool nosuid, bool *secure); /* of the program's file */
long cred_prctl(int op, u64 a, u64 b, u64 c, u64 d); /* sys_cred.c */
void cred_get(struct cred *c);
void cred_put(struct cred *c); /* NULL allowed */

#endif
