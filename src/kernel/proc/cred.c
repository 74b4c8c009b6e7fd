#include "proc/cred.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "proc/task.h"
#include <linux/securebits.h>

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

void cred_publish(struct cred *c)
{
    struct task *t = current_task();
    mutex_lock(&tasklist_lock);
    struct cred *old = t->cred;
    t->cred = c;
    if (c->euid != old->euid || c->egid != old->egid || c->fsuid != old->fsuid || c->fsgid != old->fsgid ||
        c->cap_permitted & ~old->cap_permitted)
        t->tg->no_dump = true; /* as Linux with fs.suid_dumpable 0 */
    mutex_unlock(&tasklist_lock);
    cred_put(old);
}

static bool any_root(const struct cred *c) { return !c->uid || !c->euid || !c->suid; }

void cred_uids_changed(struct cred *c, const struct cred *old)
{
    if (c->securebits & 1 << SECURE_NO_SETUID_FIXUP)
        return;
    if (any_root(old) && !any_root(c)) {
        if (!(c->securebits & 1 << SECURE_KEEP_CAPS))
            c->cap_permitted = c->cap_effective = 0;
        c->cap_ambient = 0;
    }
    if (!old->euid && c->euid)
        c->cap_effective = 0;
    if (old->euid && !c->euid)
        c->cap_effective = c->cap_permitted;
}

/* capabilities(7), "Transformation of capabilities during execve()"; files have no capabilities of their own. */
struct cred *cred_for_exec(const struct cred *old, u32 mode, u32 uid, u32 gid, bool nosuid, bool *secure)
{
    struct cred *c = cred_copy(old);
    if (!c)
        return NULL;
    bool set_id = false;
    if (!nosuid && !c->no_new_privs) {
        if (mode & 04000) {
            set_id |= c->euid != uid;
            c->euid = uid;
        }
        if ((mode & 02010) == 02010) {
            set_id |= c->egid != gid;
            c->egid = gid;
        }
    }
    c->suid = c->fsuid = c->euid;
    c->sgid = c->fsgid = c->egid;
    if (set_id)
        c->cap_ambient = 0;
    bool root = (!c->uid || !c->euid) && !(c->securebits & 1 << SECURE_NOROOT);
    c->cap_permitted = root ? c->cap_inheritable | c->cap_bounding : c->cap_ambient;
    c->cap_effective = root && !c->euid ? c->cap_permitted : c->cap_ambient;
    c->securebits &= ~(1u << SECURE_KEEP_CAPS);
    *secure = set_id;
    return c;
}

void cred_get(struct cred *c) { atomic_add(&c->refs, 1); }

void cred_put(struct cred *c)
{
    if (c && atomic_sub(&c->refs, 1) == 0)
        kfree(c);
}
