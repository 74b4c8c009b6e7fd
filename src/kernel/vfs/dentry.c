/* The dentry cache: see dentry.h. Unused dentries stay findable; a clock hand over all of them drops those that were
 * not looked at since its last round when there are more than DENTRY_MAX. */
#include "vfs/dentry.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"

#define BUCKETS 4096u
#define DENTRY_MAX 24000u
#define CHUNK 25u /* dentries in one allocation, about a page */

struct chunk {
    struct chunk *next;
    struct dentry d[CHUNK];
};

KSTATE u64 dcache_seq;
static KSTATE struct mutex dcache_lock;
static KSTATE_LARGE struct dentry *buckets[BUCKETS];
static KSTATE struct dentry *free_dentries;
static KSTATE struct chunk *chunks, *hand;
static KSTATE u64 live_count;

u32 name_hash(const char *name, u32 len)
{
    u64 h = 0x9e3779b97f4a7c15ull;
    for (u32 n = 0; n < len; n++)
        h = (h ^ (u8)name[n]) * 0x100000001b3ull;
    return (u32)(h ^ h >> 32);
}

struct qstr qstr_of(const char *name)
{
    return qstr_make(name, (u32)strlen(name));
}

static struct dentry **bucket_of(const struct dentry *parent, u32 hash)
{
    u64 h = (u64)parent / 64 * 0x9e3779b97f4a7c15ull;
    return &buckets[(hash ^ (u32)(h >> 32)) % BUCKETS];
}

void dcache_write_begin(void)
{
    mutex_lock(&dcache_lock);
    __atomic_store_n(&dcache_seq, dcache_seq + 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void dcache_write_end(void)
{
    atomic_store(&dcache_seq, dcache_seq + 1);
    mutex_unlock(&dcache_lock);
}

/* Name and parent as they are together at one moment; the name is copied, the parent (NULL: it has none) is the caller's to put. */
struct dentry *d_place(struct dentry *d, char text[NAME_MAX + 1], struct qstr *name)
{
    mutex_lock(&dcache_lock);
    struct dentry *parent = d->parent != d ? dget(d->parent) : NULL;
    *name = (struct qstr){text, MIN(d->len, (u32)NAME_MAX), d->hash};
    memcpy(text, d->name, name->len);
    mutex_unlock(&dcache_lock);
    text[name->len] = 0;
    return parent;
}

static void unhash(struct dentry *d)
{
    if (!(d->flags & D_HASHED))
        return;
    for (struct dentry **p = bucket_of(d->parent, d->hash); *p; p = &(*p)->next) {
        if (*p == d) {
            atomic_store(p, d->next);
            break;
        }
    }
    atomic_and(&d->flags, ~D_HASHED);
}

static void hash_in(struct dentry *d)
{
    struct dentry **p = bucket_of(d->parent, d->hash);
    d->next = *p;
    atomic_or(&d->flags, D_HASHED);
    atomic_store(p, d);
}

/* Objects to let go of after dcache_lock is dropped. */
struct dropped {
    struct inode *inodes[32];
    u32 count;
};

static void dropped_put(struct dropped *x)
{
    for (u32 n = 0; n < x->count; n++)
        iput(x->inodes[n]);
    x->count = 0;
}

/* Write lock held, refs 0: frees d and parents that become unused and unfindable by it. */
static void kill_locked(struct dentry *d, struct dropped *x)
{
    while (d) {
        struct dentry *parent = d->parent;
        unhash(d);
        if (d->inode)
            x->inodes[x->count++] = d->inode;
        d->inode = NULL;
        if (parent != d)
            list_del(&d->sibling);
        if (d->name != d->small)
            kfree((void *)d->name);
        d->name = d->small;
        d->small[0] = 0;
        d->len = 0;
        atomic_store(&d->flags, 0);
        d->next = free_dentries;
        free_dentries = d;
        live_count--;
        if (parent == d || atomic_sub(&parent->refs, 1) || (parent->flags & (D_HASHED | D_MOUNTED)) ||
            !(parent->flags & D_LIVE) || x->count == ARRAY_COUNT(x->inodes))
            return;
        d = parent;
    }
}

void dput(struct dentry *d)
{
    if (atomic_sub(&d->refs, 1) || (atomic_load(&d->flags) & (D_HASHED | D_LIVE)) != D_LIVE)
        return;
    struct dropped x = {.count = 0};
    dcache_write_begin();
    if (atomic_load(&d->refs) == 0 && (d->flags & (D_HASHED | D_LIVE)) == D_LIVE)
        kill_locked(d, &x);
    dcache_write_end();
    dropped_put(&x);
}

/* Write lock held: lets the clock hand run over some chunks. */
static void evict_some(struct dropped *x)
{
    for (u32 round = 0; round < 16 && x->count < ARRAY_COUNT(x->inodes) / 2; round++) {
        if (!hand)
            hand = chunks;
        if (!hand)
            return;
        for (u32 n = 0; n < CHUNK && x->count < ARRAY_COUNT(x->inodes) - 1; n++) {
            struct dentry *d = &hand->d[n];
            if (!(d->flags & D_LIVE) || !(d->flags & D_HASHED) || atomic_load(&d->refs) || d->parent == d)
                continue;
            if (d->flags & D_REFERENCED)
                atomic_and(&d->flags, ~D_REFERENCED);
            else
                kill_locked(d, x);
        }
        hand = hand->next;
    }
}

/* dcache_lock held. */
static struct dentry *take_free(void)
{
    if (!free_dentries) {
        struct chunk *c = kzalloc(sizeof(*c));
        if (!c)
            return NULL;
        for (u32 n = 0; n < CHUNK; n++) {
            c->d[n].name = c->d[n].small;
            c->d[n].next = free_dentries;
            free_dentries = &c->d[n];
        }
        c->next = chunks;
        chunks = c;
    }
    struct dentry *d = free_dentries;
    free_dentries = d->next;
    return d;
}

struct dentry *d_alloc(struct dentry *parent, const struct qstr *name, struct inode *i, struct super_block *sb)
{
    char *long_name = NULL;
    struct dropped x = {.count = 0};
    if (name->len >= DNAME_INLINE) {
        long_name = kmemdup_str(name->name, name->len);
        if (!long_name)
            return NULL;
    }
    bool evict = atomic_load_relaxed(&live_count) >= DENTRY_MAX;
    if (evict)
        dcache_write_begin();
    else
        mutex_lock(&dcache_lock);
    if (evict)
        evict_some(&x);
    struct dentry *d = take_free();
    if (d) {
        d->next = NULL;
        d->hash = name->hash;
        d->len = name->len;
        d->sb = sb;
        d->inode = i;
        d->expire = 0;
        d->parent = parent ? dget(parent) : d;
        list_init(&d->children);
        d->sibling = (struct list){0};
        if (long_name) {
            d->name = long_name;
        } else {
            memcpy(d->small, name->name, name->len);
            d->small[name->len] = 0;
            d->name = d->small;
        }
        if (parent)
            list_add_tail(&parent->children, &d->sibling);
        atomic_add(&d->refs, 1); /* not a store: a lock-free reader may hold it for a moment */
        atomic_store(&d->flags, D_LIVE | D_REFERENCED);
        live_count++;
    }
    if (evict)
        dcache_write_end();
    else
        mutex_unlock(&dcache_lock);
    if (!d)
        kfree(long_name);
    dropped_put(&x);
    return d;
}

struct dentry *d_make_root(struct super_block *sb, struct inode *i)
{
    struct qstr name = qstr_make("/", 1);
    struct dentry *d = d_alloc(NULL, &name, i, sb);
    if (!d)
        iput(i);
    return d;
}

void d_add(struct dentry *d)
{
    mutex_lock(&dcache_lock);
    if (!(d->flags & D_HASHED))
        hash_in(d);
    mutex_unlock(&dcache_lock);
}

void d_instantiate(struct dentry *d, struct inode *i)
{
    BUG_ON(d->inode);
    atomic_store(&d->inode, i);
}

void d_drop(struct dentry *d)
{
    dcache_write_begin();
    unhash(d);
    dcache_write_end();
}

struct dentry *d_lookup_fast(struct dentry *parent, const struct qstr *name)
{
    u32 guard = 0;
    for (struct dentry *d = atomic_load(bucket_of(parent, name->hash)); d && guard < 10000; d = atomic_load(&d->next)) {
        guard++; /* an entry that was freed meanwhile may lead into the free list */
        if (d->hash == name->hash && d->parent == parent && d->len == name->len && (d->flags & D_HASHED) &&
            !memcmp(d->name, name->name, name->len))
            return d;
    }
    return NULL;
}

struct dentry *d_lookup(struct dentry *parent, const struct qstr *name)
{
    mutex_lock(&dcache_lock);
    struct dentry *d = d_lookup_fast(parent, name);
    if (d) {
        dget(d);
        if (!(d->flags & D_REFERENCED))
            atomic_or(&d->flags, D_REFERENCED);
    }
    mutex_unlock(&dcache_lock);
    return d;
}

/* Write lock held. */
static void set_name(struct dentry *d, const struct qstr *name, char *long_name)
{
    if (d->name != d->small)
        kfree((void *)d->name);
    d->len = name->len;
    d->hash = name->hash;
    if (long_name) {
        d->name = long_name;
    } else {
        memcpy(d->small, name->name, name->len);
        d->small[name->len] = 0;
        d->name = d->small;
    }
}

static void set_parent(struct dentry *d, struct dentry *parent)
{
    list_del(&d->sibling);
    d->parent = parent;
    list_add_tail(&parent->children, &d->sibling);
}

long d_move(struct dentry *d, struct dentry *new_parent, const struct qstr *name)
{
    char *long_name = NULL;
    if (name->len >= DNAME_INLINE && !(long_name = kmemdup_str(name->name, name->len)))
        return -ENOMEM;
    struct dentry *old = d->parent;
    dget(new_parent);
    dcache_write_begin();
    bool hashed = d->flags & D_HASHED;
    unhash(d);
    set_name(d, name, long_name);
    set_parent(d, new_parent);
    if (hashed)
        hash_in(d);
    dcache_write_end();
    dput(old);
    return 0;
}

long d_exchange(struct dentry *a, struct dentry *b)
{
    dcache_write_begin();
    unhash(a);
    unhash(b);
    struct dentry *pa = a->parent, *pb = b->parent;
    struct qstr na = {a->name, a->len, a->hash}, nb = {b->name, b->len, b->hash};
    char tmp_a[DNAME_INLINE], tmp_b[DNAME_INLINE];
    bool long_a = a->name != a->small, long_b = b->name != b->small;
    memcpy(tmp_a, a->small, sizeof(tmp_a));
    memcpy(tmp_b, b->small, sizeof(tmp_b));
    a->name = long_b ? nb.name : a->small;
    b->name = long_a ? na.name : b->small;
    memcpy(a->small, tmp_b, sizeof(tmp_b));
    memcpy(b->small, tmp_a, sizeof(tmp_a));
    a->len = nb.len;
    a->hash = nb.hash;
    b->len = na.len;
    b->hash = na.hash;
    set_parent(a, pb);
    set_parent(b, pa);
    hash_in(a);
    hash_in(b);
    dcache_write_end();
    return 0;
}

/* One pass over unused names for which want() holds; true: call again. */
static bool prune_pass(struct dentry *below, struct super_block *sb, struct dropped *x)
{
    bool again = false;
    if (below) {
        struct dentry *at = below;
        while (!list_empty(&at->children)) {
            struct dentry *found = NULL, *c;
            list_for_each(c, &at->children, sibling)
            {
                if (!atomic_load(&c->refs) && !(c->flags & D_MOUNTED)) {
                    kill_locked(c, x);
                    again = true;
                    if (x->count >= ARRAY_COUNT(x->inodes) - 8)
                        return true;
                } else if (!found && !list_empty(&c->children)) {
                    found = c;
                }
            }
            if (!found || !again)
                break;
            at = found;
        }
        return again;
    }
    for (struct chunk *c = chunks; c; c = c->next) {
        for (u32 n = 0; n < CHUNK; n++) {
            struct dentry *d = &c->d[n];
            if ((d->flags & D_LIVE) && d->sb == sb && d->parent != d && !atomic_load(&d->refs)) {
                kill_locked(d, x);
                again = true;
                if (x->count >= ARRAY_COUNT(x->inodes) - 8)
                    return true;
            }
        }
    }
    return again;
}

void d_prune(struct dentry *d)
{
    struct dropped x = {.count = 0};
    bool again = !list_empty(&d->children);
    while (again) {
        dcache_write_begin();
        again = prune_pass(d, NULL, &x);
        dcache_write_end();
        dropped_put(&x);
    }
}

void dcache_shrink_sb(struct super_block *sb)
{
    struct dropped x = {.count = 0};
    bool again = true;
    while (again) {
        dcache_write_begin();
        again = prune_pass(NULL, sb, &x);
        dcache_write_end();
        dropped_put(&x);
    }
}

bool d_is_below(struct dentry *d, struct dentry *ancestor)
{
    for (;; d = d->parent) {
        if (d == ancestor)
            return true;
        if (d->parent == d)
            return false;
    }
}
