/* hostfs: looking names up ahead.
 *
 * Who reads a directory often looks at each of its names next (find, git status, ls -l), a request to the broker for each. So the
 * lists of the directories last read are kept in a few slots; from the second look-up in such a directory on, the names that
 * follow are looked up with it in one request (WIRE_LOOKUP_MANY), and what they gave answers the look-ups that come. An answer
 * is used for HOST_TTL from when it was given, like every attribute; only on mounts the guest cannot write to, so that no
 * change of its own is overtaken by an older answer.
 *
 * Lock: ahead_lock over the slots; not held over a request. */
#include "fs/hostfs/hostfs.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"

#define SLOTS 8
#define LIST_MAX (1u << 20)
#define LIST_MIN 4 /* names */

struct batch {
    u64 when;
    u32 count, next; /* next: the one most likely wanted */
    struct wire_many got[WIRE_MANY_MAX];
    u16 name[WIRE_MANY_MAX]; /* offset in text */
    u32 size;
    char text[REQ_DATA_SIZE];
};

struct ahead {
    const struct host_inode *dir; /* compared only */
    u64 dev, ino, when;
    u8 *list; /* wire_dirent records, checked */
    u32 size, next;
    bool second; /* a name was looked up */
    struct batch *batch;
};

static KSTATE struct mutex ahead_lock;
static KSTATE struct ahead slots[SLOTS];
static KSTATE u32 slot_next;

static void slot_clear(struct ahead *a)
{
    kfree(a->list);
    kfree(a->batch);
    memset(a, 0, sizeof(*a));
}

void host_ahead_reset(void)
{
    for (u32 i = 0; i < SLOTS; i++)
        slot_clear(&slots[i]);
}

static struct ahead *slot_of(const struct host_inode *dir)
{
    for (u32 i = 0; i < SLOTS; i++)
        if (slots[i].dir == dir && slots[i].dev == dir->dev && slots[i].ino == dir->ino) {
            if (host_clock(1) - slots[i].when < HOST_TTL)
                return &slots[i];
            slot_clear(&slots[i]);
        }
    return NULL;
}

static const struct wire_dirent *record(const struct ahead *a, u32 off) { return (const void *)(a->list + off); }

/* list: records that were checked; copied. */
void host_ahead_list(const struct host_inode *dir, const u8 *list, u32 size)
{
    u32 names = 0;
    if (!(dir->i.sb->flags & MS_RDONLY) || size > LIST_MAX)
        return;
    for (u32 off = 0; off < size && names < LIST_MIN; names++)
        off += ((const struct wire_dirent *)(list + off))->record_size;
    u8 *copy = names < LIST_MIN ? NULL : kmalloc(size);
    if (!copy)
        return;
    memcpy(copy, list, size);
    mutex_lock(&ahead_lock);
    struct ahead *a = slot_of(dir);
    if (!a)
        a = &slots[slot_next++ % SLOTS];
    slot_clear(a);
    *a = (struct ahead){.dir = dir, .dev = dir->dev, .ino = dir->ino, .when = host_clock(1), .list = copy, .size = size};
    mutex_unlock(&ahead_lock);
}

static bool batch_find(struct batch *b, const struct qstr *name, struct host_ahead *out)
{
    if (!b || host_clock(1) - b->when >= HOST_TTL)
        return false;
    for (u32 k = 0; k < b->count; k++) {
        u32 i = (b->next + k) % b->count;
        const char *text = b->text + b->name[i];
        if (strncmp(text, name->name, name->len) || text[name->len])
            continue;
        b->next = (i + 1) % b->count;
        if (b->got[i].result)
            return false;
        *out = (struct host_ahead){b->got[i], b->when};
        return true;
    }
    return false;
}

/* The request for `name` and those that follow it in the list; NULL: it is not there, or not worth it. ahead_lock held. */
static struct batch *batch_new(struct ahead *a, struct host_inode *dir, const struct qstr *name)
{
    u32 off = a->next;
    bool again = false;
    if (!a->second) {
        a->second = true;
        return NULL;
    }
    for (;; off += record(a, off)->record_size) {
        if (off >= a->size) {
            if (again || !a->next)
                return NULL;
            again = true;
            off = 0;
        }
        const struct wire_dirent *d = record(a, off);
        if (d->name_size == name->len && !memcmp(d->name, name->name, name->len))
            break;
        if (again && off >= a->next)
            return NULL;
    }
    struct batch *b = kmalloc(sizeof(*b));
    long n = b ? host_path(dir, NULL, b->text, PATH_LEN_MAX) : -ENOMEM;
    if (n < 0) {
        kfree(b);
        return NULL;
    }
    b->count = b->next = 0;
    b->size = (u32)n;
    for (; off < a->size && b->count < WIRE_MANY_MAX; off += record(a, off)->record_size) {
        const struct wire_dirent *d = record(a, off);
        if (b->size + d->name_size + 1u > sizeof(b->text))
            break;
        b->name[b->count++] = (u16)b->size;
        memcpy(b->text + b->size, d->name, d->name_size);
        b->text[b->size + d->name_size] = 0;
        b->size += d->name_size + 1u;
    }
    a->next = off;
    return b;
}

bool host_ahead_find(struct host_inode *dir, const struct qstr *name, struct host_ahead *out)
{
    struct batch *b = NULL;
    if (!(dir->i.sb->flags & MS_RDONLY))
        return false;
    mutex_lock(&ahead_lock);
    struct ahead *a = slot_of(dir);
    bool found = a && batch_find(a->batch, name, out);
    if (a && !found)
        b = batch_new(a, dir, name);
    mutex_unlock(&ahead_lock);
    if (!b)
        return found;
    struct broker_args q = {.op = WIRE_LOOKUP_MANY, .mount = host_sb_of(&dir->i)->mount, .data = b->text, .size = b->size,
                            .reply = b->got, .reply_max = sizeof(b->got)};
    b->when = host_clock(1);
    if (broker_call(&q) < 0 || q.reply_size != b->count * sizeof(b->got[0]) || !batch_find(b, name, out)) {
        kfree(b);
        return false;
    }
    mutex_lock(&ahead_lock);
    a = slot_of(dir);
    if (a) {
        struct batch *old = a->batch;
        a->batch = b;
        b = old;
    }
    mutex_unlock(&ahead_lock);
    kfree(b);
    return true;
}
