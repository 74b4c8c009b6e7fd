/* The file tree of an image under construction; see tree.h. */
#include "image/tree.h"
#include "wire/erofs_format.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dent_slot {
    struct inode *dir;         /* NULL: free */
    u32 index;                 /* into dir->dents */
};

int image_fail(struct image_error *err, const char *f, ...)
{
    va_list ap;

    va_start(ap, f);
    vsnprintf(err->msg, sizeof(err->msg), f, ap);
    va_end(ap);
    for (char *c = err->msg; *c; c++) /* names are hostile: keep it one printable line */
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    return -1;
}

struct inode *tree_inode(struct tree *t, u32 mode)
{
    struct inode *i = t->count < TREE_INODES_MAX ? calloc(1, sizeof(*i)) : NULL;

    if (!i) {
        image_fail(t->err, t->count < TREE_INODES_MAX ? "out of memory" : "too many files");
        return NULL;
    }
    i->mode = mode;
    if (S_ISDIR(mode))
        i->nlink = 2;
    *t->last = i;
    t->last = &i->next;
    t->count++;
    return i;
}

int tree_init(struct tree *t, struct image_error *err)
{
    *t = (struct tree){.err = err};
    t->last = &t->first;
    t->root = tree_inode(t, S_IFDIR | 0755);
    if (!t->root)
        return -1;
    t->root->parent = t->root;
    return 0;
}

static void inode_free(struct inode *i)
{
    for (u32 k = 0; k < i->dent_count; k++)
        free(i->dents[k].name);
    free(i->dents);
    free(i->link);
    free(i->xattrs);
    free(i);
}

void tree_free(struct tree *t)
{
    for (struct inode *i = t->first, *n; i; i = n) {
        n = i->next;
        inode_free(i);
    }
    free(t->slots);
    *t = (struct tree){0};
}

static u64 hash_name(const struct inode *dir, const char *name, u32 len)
{
    u64 h = (u64)(uintptr_t)dir * 0x9e3779b97f4a7c15ull;

    for (u32 k = 0; k < len; k++)
        h = (h ^ (u8)name[k]) * 0x100000001b3ull;
    return h ^ h >> 29;
}

/* The slot of that name, or the free one where it would go. */
static struct dent_slot *slot_find(struct tree *t, const struct inode *dir, const char *name, u32 len)
{
    for (u64 h = hash_name(dir, name, len);; h++) {
        struct dent_slot *s = &t->slots[h & (t->slot_cap - 1)];
        const struct dent *d;

        if (!s->dir)
            return s;
        d = &s->dir->dents[s->index];
        if (s->dir == dir && d->name_len == len && !memcmp(d->name, name, len))
            return s;
    }
}

static int slots_grow(struct tree *t)
{
    struct dent_slot *old = t->slots;
    u32 cap = t->slot_cap;

    if (t->slot_used * 2 < cap)
        return 0;
    t->slot_cap = cap ? 2 * cap : 1024;
    t->slots = calloc(t->slot_cap, sizeof(*t->slots));
    if (!t->slots) {
        t->slots = old;
        t->slot_cap = cap;
        return image_fail(t->err, "out of memory");
    }
    for (u32 k = 0; k < cap; k++)
        if (old[k].dir) {
            struct dent *d = &old[k].dir->dents[old[k].index];

            *slot_find(t, old[k].dir, d->name, d->name_len) = old[k];
        }
    free(old);
    return 0;
}

struct inode *tree_lookup(struct tree *t, struct inode *dir, const char *name, u32 len)
{
    struct dent_slot *s = t->slots ? slot_find(t, dir, name, len) : NULL;

    return s && s->dir ? dir->dents[s->index].inode : NULL;
}

int tree_enter(struct tree *t, struct inode *dir, const char *name, u32 len, struct inode *i)
{
    struct dent_slot *s;
    struct dent *d;

    if (!len || len > EROFS_NAME_LEN || memchr(name, '/', len) || memchr(name, 0, len) ||
        (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
        return image_fail(t->err, "bad file name '%.*s'", (int)MIN(len, 80u), name);
    if (slots_grow(t))
        return -1;
    s = slot_find(t, dir, name, len);
    if (s->dir) {
        d = &dir->dents[s->index];
        if (S_ISDIR(d->inode->mode))
            return image_fail(t->err, "'%.*s' would replace a directory", (int)MIN(len, 80u), name);
        d->inode->nlink--;
        d->inode = i;
    } else {
        if (dir->dent_count == dir->dent_cap) {
            u32 cap = dir->dent_cap ? 2 * dir->dent_cap : 8;
            struct dent *p = realloc(dir->dents, cap * sizeof(*p));

            if (!p)
                return image_fail(t->err, "out of memory");
            dir->dents = p;
            dir->dent_cap = cap;
        }
        d = &dir->dents[dir->dent_count];
        d->name = strndup(name, len);
        if (!d->name)
            return image_fail(t->err, "out of memory");
        d->name_len = len;
        d->inode = i;
        *s = (struct dent_slot){.dir = dir, .index = dir->dent_count++};
        t->slot_used++;
    }
    if (S_ISDIR(i->mode)) {
        i->parent = dir;
        dir->nlink++;
    } else {
        i->nlink++;
    }
    return 0;
}

int tree_xattr(struct tree *t, struct inode *i, const char *name, const void *value, size_t size)
{
    struct erofs_xattr_entry e = {.e_name_index = EROFS_XATTR_INDEX_USER};
    size_t len = strlen(name), total;
    u8 *p;

    if (strncmp(name, "user.", 5) || len - 5 > 255 || len == 5 || size > 65535)
        return 0;
    e.e_name_len = (u8)(len - 5);
    e.e_value_size = (u16)size;
    total = ALIGN_UP(sizeof(e) + e.e_name_len + size, 4);
    if (i->xattr_size + total > TREE_XATTR_MAX)
        return image_fail(t->err, "too many extended attributes on one file");
    p = realloc(i->xattrs, i->xattr_size + total);
    if (!p)
        return image_fail(t->err, "out of memory");
    i->xattrs = p;
    p += i->xattr_size;
    i->xattr_size += total;
    memset(p, 0, total);
    memcpy(p, &e, sizeof(e));
    memcpy(p + sizeof(e), name + 5, e.e_name_len);
    memcpy(p + sizeof(e) + e.e_name_len, value, size);
    return 0;
}

static int cmp_dent(const void *a, const void *b)
{
    const struct dent *x = a, *y = b;
    int c = memcmp(x->name, y->name, MIN(x->name_len, y->name_len));

    return c ? c : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

int tree_sort(struct tree *t)
{
    struct inode **link = &t->first;

    free(t->slots); /* indexes are about to change */
    t->slots = NULL;
    t->slot_cap = t->slot_used = 0;
    t->count = 0;
    while (*link) {
        struct inode *i = *link;

        if (!i->nlink || (S_ISDIR(i->mode) && !i->parent)) {
            *link = i->next;
            inode_free(i);
            continue;
        }
        if (i->dent_count)
            qsort(i->dents, i->dent_count, sizeof(*i->dents), cmp_dent);
        i->ino = ++t->count;
        link = &i->next;
    }
    t->last = link;
    return 0;
}
