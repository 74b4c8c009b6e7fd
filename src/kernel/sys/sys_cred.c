/* User and group ids, groups, capabilities. credentials(7), capabilities(7). A change publishes a new struct cred. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "proc/cred.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>

#define NONE (~0u)

SYSCALL0(getuid) { return current_cred()->uid; }
SYSCALL0(geteuid) { return current_cred()->euid; }
SYSCALL0(getgid) { return current_cred()->gid; }
SYSCALL0(getegid) { return current_cred()->egid; }

/* ---- users ---- */

static bool own_uid(const struct cred *c, u32 id) { return id == NONE || id == c->uid || id == c->euid || id == c->suid; }
static bool own_gid(const struct cred *c, u32 id) { return id == NONE || id == c->gid || id == c->egid || id == c->sgid; }

static long set_uids(u32 r, u32 e, u32 s)
{
    struct cred *c = cred_copy(current_cred());
    if (!c)
        return -ENOMEM;
    if (r != NONE)
        c->uid = r;
    if (e != NONE)
        c->euid = e;
    if (s != NONE)
        c->suid = s;
    c->fsuid = c->euid;
    cred_uids_changed(c, current_cred());
    cred_publish(c);
    return 0;
}

static long set_gids(u32 r, u32 e, u32 s)
{
    struct cred *c = cred_copy(current_cred());
    if (!c)
        return -ENOMEM;
    if (r != NONE)
        c->gid = r;
    if (e != NONE)
        c->egid = e;
    if (s != NONE)
        c->sgid = s;
    c->fsgid = c->egid;
    cred_publish(c);
    return 0;
}

SYSCALL1(setuid, u32, id)
{
    const struct cred *c = current_cred();
    if (id == NONE)
        return -EINVAL;
    if (capable(CAP_SETUID))
        return set_uids(id, id, id);
    return id == c->uid || id == c->suid ? set_uids(NONE, id, NONE) : -EPERM;
}

SYSCALL1(setgid, u32, id)
{
    const struct cred *c = current_cred();
    if (id == NONE)
        return -EINVAL;
    if (capable(CAP_SETGID))
        return set_gids(id, id, id);
    return id == c->gid || id == c->sgid ? set_gids(NONE, id, NONE) : -EPERM;
}

/* The saved id follows the effective one when the real id is set, or the effective one to something else than it. */
SYSCALL2(setreuid, u32, r, u32, e)
{
    const struct cred *c = current_cred();
    if (!capable(CAP_SETUID) && ((r != NONE && r != c->uid && r != c->euid) || !own_uid(c, e)))
        return -EPERM;
    bool save = r != NONE || (e != NONE && e != c->uid);
    return set_uids(r, e, save ? e != NONE ? e : c->euid : NONE);
}

SYSCALL2(setregid, u32, r, u32, e)
{
    const struct cred *c = current_cred();
    if (!capable(CAP_SETGID) && ((r != NONE && r != c->gid && r != c->egid) || !own_gid(c, e)))
        return -EPERM;
    bool save = r != NONE || (e != NONE && e != c->gid);
    return set_gids(r, e, save ? e != NONE ? e : c->egid : NONE);
}

SYSCALL3(setresuid, u32, r, u32, e, u32, s)
{
    const struct cred *c = current_cred();
    return capable(CAP_SETUID) || (own_uid(c, r) && own_uid(c, e) && own_uid(c, s)) ? set_uids(r, e, s) : -EPERM;
}

SYSCALL3(setresgid, u32, r, u32, e, u32, s)
{
    const struct cred *c = current_cred();
    return capable(CAP_SETGID) || (own_gid(c, r) && own_gid(c, e) && own_gid(c, s)) ? set_gids(r, e, s) : -EPERM;
}

/* Both tell the old id and no error. */
SYSCALL1(setfsuid, u32, id)
{
    const struct cred *o = current_cred();
    u32 old = o->fsuid;
    if (id == NONE || (!own_uid(o, id) && id != o->fsuid && !capable(CAP_SETUID)))
        return old;
    struct cred *c = cred_copy(o);
    if (!c)
        return old;
    c->fsuid = id;
    u64 fs = 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_FOWNER | 1ull << CAP_FSETID |
             1ull << CAP_LINUX_IMMUTABLE | 1ull << CAP_MKNOD | 1ull << CAP_MAC_OVERRIDE;
    if (!(c->securebits & 1 << SECURE_NO_SETUID_FIXUP)) {
        if (!old && id)
            c->cap_effective &= ~fs;
        else if (old && !id)
            c->cap_effective |= c->cap_permitted & fs;
    }
    cred_publish(c);
    return old;
}

SYSCALL1(setfsgid, u32, id)
{
    const struct cred *o = current_cred();
    u32 old = o->fsgid;
    if (id == NONE || (!own_gid(o, id) && id != o->fsgid && !capable(CAP_SETGID)))
        return old;
    struct cred *c = cred_copy(o);
    if (!c)
        return old;
    c->fsgid = id;
    cred_publish(c);
    return old;
}

SYSCALL3(getresuid, uptr, r, uptr, e, uptr, s)
{
    const struct cred *c = current_cred();
    return put_user(c->uid, r) || put_user(c->euid, e) || put_user(c->suid, s) ? -EFAULT : 0;
}

SYSCALL3(getresgid, uptr, r, uptr, e, uptr, s)
{
    const struct cred *c = current_cred();
    return put_user(c->gid, r) || put_user(c->egid, e) || put_user(c->sgid, s) ? -EFAULT : 0;
}

/* ---- groups ---- */

SYSCALL2(getgroups, int, n, uptr, list)
{
    const struct cred *c = current_cred();
    if (n < 0 || (n && (u32)n < c->group_count))
        return -EINVAL;
    if (n && copy_to_user(list, c->groups, c->group_count * 4))
        return -EFAULT;
    return c->group_count;
}

static void sift(u32 *v, u32 i, u32 n)
{
    for (u32 k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && v[k + 1] > v[k])
            k++;
        if (v[i] >= v[k])
            return;
        u32 t = v[i];
        v[i] = v[k], v[k] = t;
    }
}

static void sort(u32 *v, u32 n)
{
    for (u32 i = n / 2; i-- > 0;)
        sift(v, i, n);
    for (u32 i = n; i-- > 1;) {
        u32 t = v[0];
        v[0] = v[i], v[i] = t;
        sift(v, 0, i);
    }
}

SYSCALL2(setgroups, int, n, uptr, list)
{
    if (!capable(CAP_SETGID))
        return -EPERM;
    if (n < 0 || n > 65536)
        return -EINVAL;
    struct cred *c = kmalloc(sizeof(*c) + (size_t)n * 4);
    if (!c)
        return -ENOMEM;
    memcpy(c, current_cred(), sizeof(*c));
    c->refs = 1;
    c->group_count = (u32)n;
    if (copy_from_user(c->groups, list, (size_t)n * 4)) {
        kfree(c);
        return -EFAULT;
    }
    sort(c->groups, c->group_count);
    cred_publish(c);
    return 0;
}

/* ---- capabilities ---- */

static long cap_header(uptr head, bool data, u32 h[2], u32 *words)
{
    u32 mine = _LINUX_CAPABILITY_VERSION_3;
    if (copy_from_user(h, head, 8))
        return -EFAULT;
    *words = h[0] == _LINUX_CAPABILITY_VERSION_1 ? 1 : 2;
    if (*words == 1 || h[0] == _LINUX_CAPABILITY_VERSION_2 || h[0] == mine)
        return (int)h[1] < 0 ? -EINVAL : 0;
    return put_user(mine, head) ? -EFAULT : data ? -EINVAL : 1;
}

SYSCALL2(capget, uptr, head, uptr, data)
{
    u32 h[2], d[6] = {0}, words;
    long r = cap_header(head, data != 0, h, &words);
    if (r)
        return r > 0 ? 0 : r;
    mutex_lock(&tasklist_lock);
    struct task *t = h[1] ? task_find_locked(h[1]) : current_task();
    const struct cred *c = t ? t->cred : NULL;
    for (int i = 0; c && i < 2; i++) {
        d[i * 3] = (u32)(c->cap_effective >> (32 * i));
        d[i * 3 + 1] = (u32)(c->cap_permitted >> (32 * i));
        d[i * 3 + 2] = (u32)(c->cap_inheritable >> (32 * i));
    }
    mutex_unlock(&tasklist_lock);
    if (!c)
        return -ESRCH;
    return data ? copy_to_user(data, d, words * 12) : 0;
}

SYSCALL2(capset, uptr, head, uptr, data)
{
    u32 h[2], d[6] = {0}, words;
    long r = cap_header(head, true, h, &words);
    if (r)
        return r > 0 ? -EINVAL : r;
    if (h[1] && h[1] != current_tid())
        return -EPERM;
    if (copy_from_user(d, data, words * 12))
        return -EFAULT;
    const struct cred *o = current_cred();
    u64 e = d[0] | (u64)d[3] << 32, p = d[1] | (u64)d[4] << 32, i = d[2] | (u64)d[5] << 32;
    if (p & ~o->cap_permitted || e & ~p || i & ~(o->cap_inheritable | o->cap_bounding) ||
        (i & ~(o->cap_inheritable | o->cap_permitted) && !capable(CAP_SETPCAP)))
        return -EPERM;
    struct cred *c = cred_copy(o);
    if (!c)
        return -ENOMEM;
    c->cap_effective = e, c->cap_permitted = p, c->cap_inheritable = i;
    c->cap_ambient &= p & i;
    cred_publish(c);
    return 0;
}

/* ---- the part of prctl ---- */

static long change(struct cred *c, int op, u64 a, u64 b)
{
    u64 bit = 1ull << (b & 63);
    switch (op) {
    case PR_SET_NO_NEW_PRIVS:
        c->no_new_privs = true;
        return 0;
    case PR_SET_KEEPCAPS:
        if (c->securebits & 1 << SECURE_KEEP_CAPS_LOCKED)
            return -EPERM;
        c->securebits = (c->securebits & ~(1u << SECURE_KEEP_CAPS)) | (a ? 1u << SECURE_KEEP_CAPS : 0);
        return 0;
    case PR_SET_SECUREBITS: {
        u32 old = c->securebits, new = (u32)a, locks = (old & SECURE_ALL_LOCKS) >> 1;
        if (a & ~(u64)(SECURE_ALL_LOCKS | SECURE_ALL_BITS) || (locks & (old ^ new)) || (old & SECURE_ALL_LOCKS & ~new) ||
            !capable(CAP_SETPCAP))
            return -EPERM;
        c->securebits = new;
        return 0;
    }
    case PR_CAPBSET_DROP:
        if (!capable(CAP_SETPCAP))
            return -EPERM;
        c->cap_bounding &= ~(1ull << a);
        return 0;
    case PR_CAP_AMBIENT:
        if (a == PR_CAP_AMBIENT_CLEAR_ALL)
            c->cap_ambient = 0;
        else if (a == PR_CAP_AMBIENT_LOWER)
            c->cap_ambient &= ~bit;
        else if (!(c->cap_permitted & c->cap_inheritable & bit) || (c->securebits & 1 << SECURE_NO_CAP_AMBIENT_RAISE))
            return -EPERM;
        else
            c->cap_ambient |= bit;
        return 0;
    }
    return -EINVAL;
}

/* -ENOSYS: not about credentials. */
long cred_prctl(int op, u64 a, u64 b, u64 c, u64 d)
{
    const struct cred *o = current_cred();
    switch (op) {
    case PR_GET_NO_NEW_PRIVS:
        return a || b || c || d ? -EINVAL : o->no_new_privs;
    case PR_GET_KEEPCAPS:
        return (o->securebits >> SECURE_KEEP_CAPS) & 1;
    case PR_GET_SECUREBITS:
        return o->securebits;
    case PR_CAPBSET_READ:
        return a > CAP_LAST_CAP ? -EINVAL : (long)((o->cap_bounding >> a) & 1);
    case PR_SET_NO_NEW_PRIVS:
        if (a != 1 || b || c || d)
            return -EINVAL;
        break;
    case PR_SET_KEEPCAPS:
        if (a > 1)
            return -EINVAL;
        break;
    case PR_CAPBSET_DROP:
        if (a > CAP_LAST_CAP)
            return -EINVAL;
        break;
    case PR_CAP_AMBIENT:
        if (a == PR_CAP_AMBIENT_CLEAR_ALL ? b || c || d : a < PR_CAP_AMBIENT_IS_SET || a > PR_CAP_AMBIENT_LOWER || b > CAP_LAST_CAP || c || d)
            return -EINVAL;
        if (a == PR_CAP_AMBIENT_IS_SET)
            return (long)((o->cap_ambient >> b) & 1);
        break;
    case PR_SET_SECUREBITS:
        break;
    default:
        return -ENOSYS;
    }
    struct cred *n = cred_copy(o);
    if (!n)
        return -ENOMEM;
    long r = change(n, op, a, b);
    if (r)
        cred_put(n);
    else
        cred_publish(n);
    return r;
}
