#include "proc/cred.h"
#include "base/string.h"
#include "core/kmalloc.h"

#define CAP_ALL ((1ull << 41) - 1)

struct cred *cred_new(u32 uid, u32 gid)
{
    struct cred *c = knew(struct cred);
    if (!c)
        return NULL;
    c->refs = 1;
    c->uid = c->euid = c->suid = c->fsuid = uid;
    c->gid = c->egid = c->sgid = c->fsgid = gid;
    c->cap_bounding = CAP_ALL;
    if (uid == 0)
        c->cap_effective = c->cap_permitted = CAP_ALL;
    return c;
}

struct cred *cred_copy(const struct cred *c)
{
    size_t size = sizeof(*c) + c->group_count * sizeof(u32);
    struct cred *n = kmalloc(size);
    if (n) {
        memcpy(n, c, size);
        n->refs = 1;
    }
    return n;
}

void cred_get(struct cred *c) { atomic_add(&c->refs, 1); }

void cred_put(struct cred *c)
{
    if (c && atomic_sub(&c->refs, 1) == 0)
        kfree(c);
}
