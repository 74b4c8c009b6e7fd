/* Listing and removing snapshots. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls for each entry of a directory but . and ..; false when it cannot be read. */
static bool each_entry(int dir, void (*call)(void *arg, const char *name), void *arg)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            call(arg, e->d_name);
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
    return d;
}

struct sizes {
    int dir;
    u64 disk, own;
};

static void add_size(void *arg, const char *name)
{
    struct sizes *z = arg;
    struct stat st;
    if (fstatat(z->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    z->disk += (u64)st.st_blocks * 512;
    z->own += st.st_nlink == 1 ? (u64)st.st_blocks * 512 : 0;
}

void snapshot_describe(struct store *s, int dir, const char *name, struct store_info *out)
{
    struct sizes z = { .dir = dir };
    struct stat st;
    struct manifest *m = manifest_load(s, dir, NULL, NULL);
    *out = (struct store_info){ .broken = !m };
    snprintf(out->name, sizeof(out->name), "%.63s", name);
    each_entry(dir, add_size, &z);
    out->disk = z.disk;
    out->own = z.own;
    if (m) {
        memcpy(out->id, m->id, sizeof(out->id));
        memcpy(out->parent, m->parent, sizeof(out->parent));
        memcpy(out->sandbox, m->sandbox, sizeof(out->sandbox));
        out->created = m->created;
        out->data_levels = manifest_levels(m, SEGMENT_DATA);
        out->page_levels = manifest_levels(m, SEGMENT_PAGES);
        for (u32 i = 0; i < m->segment_count; i++)
            out->apparent += m->segments[i].stored;
    } else if (fstat(dir, &st) == 0) {
        out->created = st.st_mtim.tv_sec;
    }
    free(m);
}

struct listing {
    struct store *s;
    struct store_info *list;
    int count, room;
};

static void list_one(void *arg, const char *name)
{
    struct listing *l = arg;
    struct place p;
    if (!manifest_name_valid(name))
        return;
    int dir = snapshot_open(l->s, name, &p, NULL);
    if (dir < 0)
        return; /* just removed */
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 16;
        l->list = reallocarray(l->list, (size_t)l->room, sizeof(*l->list));
        if (!l->list)
            abort();
    }
    snapshot_describe(l->s, dir, name, &l->list[l->count++]);
    close(dir);
    place_close(l->s, &p);
}

static int older(const void *a, const void *b)
{
    const struct store_info *x = a, *y = b;
    return x->created != y->created ? (x->created < y->created ? -1 : 1) : strcmp(x->name, y->name);
}

int store_list(struct store *s, struct store_info **out, struct harena_error *err)
{
    struct listing l = { .s = s };
    if (!each_entry(s->fd, list_one, &l)) {
        harena_error_set(err, 125, "cannot read %s: %s", s->path, strerror(errno));
        return -1;
    }
    if (l.count)
        qsort(l.list, (size_t)l.count, sizeof(*l.list), older);
    *out = l.list;
    return l.count;
}

/* ---- removing ---- */

static void look_for_foreign(void *arg, const char *name)
{
    static const char *const known[] = { "manifest.json", "index", "symbols", "seal", "kernel" };
    bool *foreign = arg;
    bool level = (!strncmp(name, "data.", 5) || !strncmp(name, "pages.", 6)) && strlen(strchr(name, '.')) == 2;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        level |= !strcmp(name, known[i]);
    *foreign |= !level;
}

bool snapshot_removable(int dir, bool in_store)
{
    struct stat st;
    bool foreign = !in_store && fstatat(dir, "manifest.json", &st, AT_SYMLINK_NOFOLLOW) < 0;
    each_entry(dir, look_for_foreign, &foreign);
    return !foreign;
}

int store_remove(struct store *s, const char *where, struct harena_error *err)
{
    struct place p;
    char temporary[NAME_MAX + 1];
    int dir = snapshot_open(s, where, &p, err), r = -1;
    if (dir < 0)
        return -1;
    bool removable = snapshot_removable(dir, p.in_store);
    close(dir);
    temporary_name(temporary);
    if (!removable)
        harena_error_set(err, 125, "%.200s is no snapshot, or holds other files, too; remove it yourself", where);
    else if (renameat(p.dir, p.name, p.dir, temporary) < 0)
        harena_error_set(err, 125, errno == ENOENT ? "snapshot %.200s was just removed" : "cannot remove snapshot %.200s: %s", where,
                         strerror(errno));
    else
        r = 0;
    if (r == 0)
        temporary_remove(p.dir, temporary);
    place_close(s, &p);
    return r;
}
