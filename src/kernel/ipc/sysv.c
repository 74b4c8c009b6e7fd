#include "ipc/sysv.h"

#include <linux/capability.h>

#include "base/string.h"
#include "core/kmalloc.h"

#define SLOT_BITS 15 /* ids are seq << 15 | slot, as on Linux */
#define SEQ_MASK 0xffffu

struct sysv_perm *sysv_by_key_locked(struct sysv_table *t, s32 key)
{
    for (u32 i = 0; t->slots && i < SYSV_MAX; i++)
        if (t->slots[i] && t->slots[i]->key == key && key != IPC_PRIVATE_KEY)
            return t->slots[i];
    return NULL;
}

struct sysv_perm *sysv_by_id_locked(struct sysv_table *t, s32 id)
{
    u32 slot = (u32)id & ((1u << SLOT_BITS) - 1);

    if (id < 0 || slot >= SYSV_MAX || !t->slots || !t->slots[slot])
        return ERR_PTR(-EINVAL);
    return t->slots[slot]->id == id ? t->slots[slot] : ERR_PTR(-EIDRM);
}

static struct sysv_perm *by_slot(struct sysv_table *t, s32 slot)
{
    return slot >= 0 && slot < (s32)SYSV_MAX && t->slots && t->slots[slot] ? t->slots[slot] : ERR_PTR(-EINVAL);
}

struct sysv_perm *sysv_stat_locked(struct sysv_table *t, s32 id, enum sysv_stat how)
{
    struct sysv_perm *p = how == STAT_ID ? sysv_by_id_locked(t, id) : by_slot(t, id);
    long r = IS_ERR(p) || how == STAT_ANY ? 0 : sysv_check(p, 4);
    return r ? ERR_PTR(r) : p;
}

s32 sysv_last_slot_locked(const struct sysv_table *t)
{
    s32 slot = t->slots ? (s32)SYSV_MAX - 1 : 0;
    while (slot > 0 && !t->slots[slot])
        slot--;
    return slot;
}

void sysv_show(struct sysv_table *t, struct strbuf *sb, const char *heading, void (*line)(struct strbuf *sb, const struct sysv_perm *p))
{
    sb_printf(sb, "%s\n", heading);
    mutex_lock(&t->lock);
    for (u32 i = 0; t->count && i < SYSV_MAX; i++)
        if (t->slots[i])
            line(sb, t->slots[i]);
    mutex_unlock(&t->lock);
}

void sysv_show_begin(struct strbuf *sb, const struct sysv_perm *p) { sb_printf(sb, "%10d %10d  %4o", p->key, p->id, p->mode); }

void sysv_show_owners(struct strbuf *sb, const struct sysv_perm *p)
{
    sb_printf(sb, " %5u %5u %5u %5u", p->uid, p->gid, p->cuid, p->cgid);
}

long sysv_check(const struct sysv_perm *p, u32 mode)
{
    const struct cred *c = current_cred();
    u32 have = p->mode;

    if (c->euid == p->cuid || c->euid == p->uid)
        have >>= 6;
    else if (cred_in_group(c, p->gid) || cred_in_group(c, p->cgid))
        have >>= 3;
    return (have & mode) == mode || capable(CAP_IPC_OWNER) ? 0 : -EACCES;
}

long sysv_get_locked(struct sysv_table *t, s32 key, u32 flags, struct sysv_perm **found)
{
    *found = key == IPC_PRIVATE_KEY ? NULL : sysv_by_key_locked(t, key);
    if (!*found)
        return key == IPC_PRIVATE_KEY || (flags & IPC_CREAT) ? 0 : -ENOENT;
    if ((flags & IPC_CREAT) && (flags & IPC_EXCL))
        return -EEXIST;
    u32 want = (flags >> 6 | flags >> 3 | flags) & 7;
    long r = sysv_check(*found, want & 6);
    return r ? r : (*found)->id;
}

long sysv_add_locked(struct sysv_table *t, struct sysv_perm *p, s32 key, u32 mode)
{
    const struct cred *c = current_cred();
    u32 slot = 0;

    if (!t->slots)
        t->slots = kzalloc(SYSV_MAX * sizeof(t->slots[0]));
    if (!t->slots)
        return -ENOMEM;
    while (slot < SYSV_MAX && t->slots[slot])
        slot++;
    if (slot == SYSV_MAX)
        return -ENOSPC;
    p->key = key;
    p->uid = p->cuid = c->euid;
    p->gid = p->cgid = c->egid;
    p->mode = mode & 0777;
    p->refs = 1;
    p->id = (s32)((t->seq++ & SEQ_MASK) << SLOT_BITS | slot);
    t->slots[slot] = p;
    t->count++;
    return p->id;
}

void sysv_remove_locked(struct sysv_table *t, struct sysv_perm *p)
{
    t->slots[(u32)p->id & ((1u << SLOT_BITS) - 1)] = NULL;
    t->count--;
    p->removed = true;
}

bool sysv_owner(const struct sysv_perm *p)
{
    u32 uid = current_cred()->euid;
    return uid == p->uid || uid == p->cuid || capable(CAP_SYS_ADMIN);
}

void sysv_perm_out(const struct sysv_perm *p, struct ipc64_perm *o)
{
    memset(o, 0, sizeof(*o));
    o->key = p->key;
    o->uid = p->uid;
    o->gid = p->gid;
    o->cuid = p->cuid;
    o->cgid = p->cgid;
    o->mode = (__kernel_mode_t)p->mode;
    o->seq = (u16)((u32)p->id >> SLOT_BITS);
}

long sysv_perm_set(struct sysv_perm *p, const struct ipc64_perm *in)
{
    if (!sysv_owner(p))
        return -EPERM;
    p->uid = in->uid;
    p->gid = in->gid;
    p->mode = (p->mode & ~0777u) | (in->mode & 0777);
    return 0;
}
