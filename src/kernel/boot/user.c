/* See user.h. The files are the guest's: every line is taken apart within its bounds, numbers are checked, what does not fit is
 * skipped. Formats: passwd(5), group(5). */
#include "boot/user.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "proc/cred.h"
#include "vfs/vfs.h"
#include <linux/fcntl.h>

#define FILE_MAX (256u << 10)
#define GROUPS_MAX 64
#define FIELDS 7

struct entry { /* a line cut at its colons; fields are not terminated */
    const char *field[FIELDS];
    size_t size[FIELDS];
    u32 count;
};

struct table {
    char *text;
    size_t size, at;
};

static void table_open(struct table *t, const char *path)
{
    *t = (struct table){0};
    struct file *f = file_open(AT_FDCWD, path, O_RDONLY, 0);
    if (IS_ERR(f))
        return;
    t->text = kmalloc(FILE_MAX);
    long n = t->text ? file_read_kernel(f, t->text, FILE_MAX, 0) : -ENOMEM;
    t->size = n > 0 ? (size_t)n : 0;
    file_put(f);
}

static bool table_next(struct table *t, struct entry *e)
{
    if (t->at >= t->size)
        return false;
    const char *line = t->text + t->at, *end = memchr(line, '\n', t->size - t->at);
    size_t n = end ? (size_t)(end - line) : t->size - t->at;
    t->at += n + 1;
    e->count = 0;
    while (e->count < FIELDS) {
        const char *colon = memchr(line, ':', n);
        size_t size = colon ? (size_t)(colon - line) : n;
        e->field[e->count] = line;
        e->size[e->count++] = size;
        if (!colon)
            break;
        line += size + 1;
        n -= size + 1;
    }
    return true;
}

static bool parse_id(const char *s, size_t n, u32 *out)
{
    u64 v = 0;
    if (!n || n > 10)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        v = v * 10 + (u64)(s[i] - '0');
    }
    *out = (u32)v;
    return v < ~0u; /* -1 is "unchanged" everywhere */
}

static bool field_is(const struct entry *e, u32 i, const char *s, size_t n)
{
    return e->count > i && e->size[i] == n && !memcmp(e->field[i], s, n);
}

static bool has_member(const struct entry *e, const char *user, size_t n)
{
    if (e->count < 4)
        return false;
    const char *p = e->field[3], *end = p + e->size[3];
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t size = (size_t)((comma ? comma : end) - p);
        if (size == n && !memcmp(p, user, n))
            return true;
        p += size + 1;
    }
    return false;
}

struct user {
    u32 uid, gid;
    char name[64];
    size_t name_size;
};

static long find_user(const char *s, size_t n, struct user *u, char *home)
{
    struct table t;
    struct entry e;
    u32 uid, gid;
    bool number = parse_id(s, n, &u->uid), found = false;
    u->gid = u->uid; /* a number that nobody knows: its own group */
    table_open(&t, "/etc/passwd");
    while (!found && table_next(&t, &e)) {
        if (e.count < 4 || !parse_id(e.field[2], e.size[2], &uid) || !parse_id(e.field[3], e.size[3], &gid))
            continue;
        if (number ? uid != u->uid : !field_is(&e, 0, s, n))
            continue;
        found = true;
        u->uid = uid;
        u->gid = gid;
        if (e.size[0] < sizeof(u->name)) {
            memcpy(u->name, e.field[0], e.size[0]);
            u->name_size = e.size[0];
        }
        if (e.count > 5 && e.size[5] && e.size[5] < USER_HOME_MAX) {
            memcpy(home, e.field[5], e.size[5]);
            home[e.size[5]] = 0;
        }
    }
    kfree(t.text);
    return number || found ? 0 : -ENOENT;
}

static long find_group(const char *s, size_t n, u32 *gid)
{
    struct table t;
    struct entry e;
    bool found = parse_id(s, n, gid);
    if (found)
        return 0;
    table_open(&t, "/etc/group");
    while (!found && table_next(&t, &e))
        found = field_is(&e, 0, s, n) && e.count > 2 && parse_id(e.field[2], e.size[2], gid);
    kfree(t.text);
    return found ? 0 : -ENOENT;
}

/* Supplementary groups, sorted as struct cred wants them. */
static u32 find_groups(const struct user *u, u32 *out)
{
    struct table t;
    struct entry e;
    u32 count = 0, gid;
    if (!u->name_size)
        return 0;
    table_open(&t, "/etc/group");
    while (count < GROUPS_MAX && table_next(&t, &e)) {
        if (e.count < 3 || !parse_id(e.field[2], e.size[2], &gid) || !has_member(&e, u->name, u->name_size))
            continue;
        u32 at = count++;
        for (; at && out[at - 1] > gid; at--)
            out[at] = out[at - 1];
        out[at] = gid;
    }
    kfree(t.text);
    return count;
}

static struct cred *with_groups(struct cred *c, const u32 *groups, u32 count)
{
    struct cred *n = c && count ? kmalloc(sizeof(*n) + count * sizeof(u32)) : NULL;
    if (!n)
        return c;
    memcpy(n, c, sizeof(*n));
    n->group_count = count;
    memcpy(n->groups, groups, count * sizeof(u32));
    cred_put(c);
    return n;
}

long user_resolve(const char *text, struct cred **out, char home[USER_HOME_MAX])
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    struct user u = {0};
    u32 groups[GROUPS_MAX], count = 0;
    str_copy(home, "/", USER_HOME_MAX);
    if (!n || (colon && !colon[1]))
        return -EINVAL;
    long r = find_user(text, n, &u, home);
    if (!r && colon)
        r = find_group(colon + 1, strlen(colon + 1), &u.gid);
    else if (!r)
        count = find_groups(&u, groups);
    if (r)
        return r;
    *out = with_groups(cred_new(u.uid, u.gid), groups, count);
    return *out ? 0 : -ENOMEM;
}
