/* Writing snapshots.
 *
 * What a parent has is not stored again. Pages come in levels from the kernel: those below the last are files of other snapshots
 * and are linked. Contents of files in memory (`data`) come whole: they are compared with the parent's, whose levels are linked,
 * and what differs becomes a level on top; at MANIFEST_LEVELS it takes the place of all but the first. When little is the same, a
 * snapshot starts anew. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "base/layout.h"
#include "store/cpu.h"
#include "store/kernel.h"

struct saving {
    struct store *s;
    const struct store_save *o;
    int dir;             /* the temporary directory */
    struct manifest *m;
    struct extents x;
    struct progress progress;
    struct harena_error *err;
    struct { /* the parent, when it is still there */
        struct manifest *m;
        struct extents x;
        struct opened data, pages;
    } parent;
};

static int fail_errno(struct saving *v, const char *what)
{
    harena_error_set(v->err, 125, "cannot write the snapshot's %s: %s", what, strerror(errno));
    return -1;
}

/* ---- files of segments ---- */

/* Without holes a segment of some gigabytes of address space would take them on the disk (vfat, exfat). */
static int check_sparse(struct saving *v, int fd)
{
    struct stat st;
    if (ftruncate(fd, 1 << 20) < 0 || fstat(fd, &st) < 0)
        return fail_errno(v, "files");
    if (st.st_blocks * 512 < 1 << 20)
        return 0;
    harena_error_set(v->err, 125, "the file system there has no sparse files (such as vfat and exfat); choose another for the snapshot");
    return -1;
}

static int file_size(struct saving *v, int fd, u64 max, u64 *size)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (u64)st.st_size > max) {
        harena_error_set(v->err, 125, "the sandbox's state is no file or too large");
        return -1;
    }
    *size = st.st_size ? PAGE_UP((u64)st.st_size) : PAGE_SIZE;
    return 0;
}

static struct manifest_segment *add_segment(struct saving *v, u32 kind, u32 level, char name[16])
{
    struct manifest_segment *g = &v->m->segments[v->m->segment_count++];
    g->kind = kind;
    g->level = level;
    segment_name(g, name);
    return g;
}

static int make_file(struct saving *v, const char *name)
{
    int fd = openat(v->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? fail_errno(v, name) : fd;
}

/* sync_files() waits for it. */
static int finish_file(struct saving *v, int fd, int r)
{
    if (r == 0 && !v->o->no_sync)
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* a hint */
    close(fd);
    return r;
}

static int write_segment(struct saving *v, u32 kind, u32 level, int source, const struct stack *below, u64 max)
{
    char name[16];
    struct manifest_segment *g = add_segment(v, kind, level, name);
    u64 size;
    if (file_size(v, source, max, &size) < 0)
        return -1;
    if (below) { /* never smaller than what lies below */
        for (u32 i = 0; i < level; i++) {
            const struct manifest_segment *b = manifest_segment(v->m, kind, i);
            size = b->size > size ? b->size : size;
        }
    }
    int fd = make_file(v, name);
    if (fd < 0)
        return -1;
    int r = kind == SEGMENT_KERNEL ? check_sparse(v, fd) : 0;
    if (r == 0)
        r = segment_write(source, size, below, fd, &v->x, g, &v->progress, v->err);
    if (r == 0 && kind == SEGMENT_PAGES)
        r = segment_fill(fd, v->err);
    return finish_file(v, fd, r);
}

/* The level is what the parent's manifest says: extents and checksum need not be found again. */
static int take_over(struct saving *v, struct manifest_segment *g, const struct manifest_segment *old)
{
    u32 first = v->x.count;
    for (u32 i = 0; i < old->count; i++) {
        const struct extent *e = &v->parent.x.list[old->first + i];
        if (extents_add(&v->x, first, e->offset, e->size, v->err) < 0)
            return -1;
    }
    *g = *old;
    g->first = first;
    return 0;
}

/* A name in our directory for a file that is open: a hard link, else a reflink or copy of its extents. */
static int share_file(struct saving *v, int source, const char *name, const struct manifest_segment *g, const struct extent *list)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", source);
    if (linkat(AT_FDCWD, path, v->dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    int fd = make_file(v, name), r = 0;
    if (fd < 0)
        return -1;
    if (ioctl(fd, FICLONE, source) < 0)
        r = segment_copy(source, fd, g, list, false, v->err);
    if (r == 0 && ftruncate(fd, (off_t)g->size) < 0)
        r = fail_errno(v, name);
    if (r == 0 && g->kind == SEGMENT_PAGES)
        r = segment_fill(fd, v->err);
    return finish_file(v, fd, r);
}

/* ---- what the three kinds of segments need ---- */

static int save_kernel(struct saving *v)
{
    char *symbols = NULL;
    size_t size = 0;
    u32 unknown;
    if (write_segment(v, SEGMENT_KERNEL, 0, v->o->parts->kernel, NULL, K_SIZE) < 0)
        return -1;
    const struct manifest_segment *g = &v->m->segments[0];
    int fd = openat(v->dir, "kernel", O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? fail_errno(v, "kernel")
                   : kernel_symbols((struct kernel_image *)v->o->kernel, fd, g, v->x.list, &symbols, &size, &unknown, v->err);
    if (fd >= 0)
        close(fd);
    if (r == 0)
        r = file_write(v->dir, "symbols", symbols, size, v->err);
    v->m->symbols.size = size;
    hash_text(symbols ?: "", size, v->m->symbols.xxh3);
    free(symbols);
    return r;
}

/* Parent's levels and a difference; false when it should be stored whole. */
static int save_data_difference(struct saving *v, bool *done)
{
    struct opened *old = &v->parent.data;
    struct stack below = stack_of(v->parent.m, SEGMENT_DATA, old, &v->parent.x);
    u32 levels = below.levels = below.levels < MANIFEST_LEVELS ? below.levels : 1;
    u32 segments = v->m->segment_count, extents = v->x.count;
    u64 whole = 0;
    char name[16];
    for (u32 i = 0; i < levels; i++) {
        const struct manifest_segment *theirs = manifest_segment(v->parent.m, SEGMENT_DATA, i);
        struct manifest_segment *g = add_segment(v, SEGMENT_DATA, i, name);
        whole += theirs->stored;
        if (take_over(v, g, theirs) < 0 || share_file(v, old->fd[i], name, g, v->x.list + g->first) < 0)
            return -1;
    }
    if (write_segment(v, SEGMENT_DATA, levels, v->o->parts->data, &below, D_SIZE) < 0)
        return -1;
    const struct manifest_segment *top = &v->m->segments[v->m->segment_count - 1];
    *done = top->stored <= whole / 2 || top->stored <= CHUNK;
    if (*done)
        return 0;
    for (u32 i = 0; i <= levels; i++) {
        snprintf(name, sizeof(name), "data.%u", i);
        unlinkat(v->dir, name, 0);
    }
    v->m->segment_count = segments;
    v->x.count = extents;
    return 0;
}

static int save_data(struct saving *v)
{
    bool done = false;
    if (v->parent.m && v->parent.data.levels && save_data_difference(v, &done) < 0)
        return -1;
    return done ? 0 : write_segment(v, SEGMENT_DATA, 0, v->o->parts->data, NULL, D_SIZE);
}

static int save_lower_pages(struct saving *v, u32 i)
{
    int source = v->o->parts->pages[i];
    char name[16];
    u64 size;
    if (v->parent.m && i < v->parent.pages.levels && same_inode(v->parent.pages.fd[i], source)) {
        struct manifest_segment *g = add_segment(v, SEGMENT_PAGES, i, name);
        return take_over(v, g, manifest_segment(v->parent.m, SEGMENT_PAGES, i)) < 0 ||
               share_file(v, source, name, g, v->x.list + g->first) < 0 ? -1 : 0;
    }
    struct stat st;
    bool ours = fstat(source, &st) == 0 && st.st_nlink && st.st_uid == geteuid() && (st.st_mode & 0777) == 0600 &&
                (fcntl(source, F_GETFL) & O_ACCMODE) == O_RDONLY;
    if (!ours)
        return write_segment(v, SEGMENT_PAGES, i, source, NULL, MANIFEST_PAGES_MAX);
    struct manifest_segment *g = add_segment(v, SEGMENT_PAGES, i, name); /* of a snapshot that was removed, but others share it */
    return file_size(v, source, MANIFEST_PAGES_MAX, &size) < 0 || segment_scan(source, size, &v->x, g, v->err) < 0 ||
           share_file(v, source, name, g, v->x.list + g->first) < 0 ? -1 : 0;
}

static int save_pages(struct saving *v)
{
    const struct harena_parts *p = v->o->parts;
    if (p->levels < 1 || p->levels > MANIFEST_LEVELS) {
        harena_error_set(v->err, 125, "the sandbox's memory has %u levels", p->levels);
        return -1;
    }
    for (u32 i = 0; i + 1 < p->levels; i++)
        if (save_lower_pages(v, i) < 0)
            return -1;
    return write_segment(v, SEGMENT_PAGES, p->levels - 1, p->pages[p->levels - 1], NULL, MANIFEST_PAGES_MAX);
}

/* ---- the manifest ---- */

static int add_mounts(struct saving *v)
{
    const struct harena_parts *p = v->o->parts;
    for (u32 i = 0; i < p->mount_count; i++) {
        const struct harena_mount *x = &p->mounts[i];
        if (i == MANIFEST_MOUNTS) {
            harena_error_set(v->err, 125, "a snapshot can have at most %u mounts", MANIFEST_MOUNTS);
            return -1;
        }
        struct manifest_mount *y = &v->m->mounts[v->m->mount_count++];
        *y = (struct manifest_mount){
            .kind = x->kind, .flags = x->flags & (MOUNT_READONLY | MOUNT_OVERLAY | MOUNT_FILE), .size = x->size,
            .hide_secrets = x->hide_secrets, .system = x->system, .optional = x->optional, .restricted = x->allow != NULL,
            .target = manifest_string(v->m, x->target), .source = manifest_string(v->m, x->source && *x->source ? x->source : NULL),
        };
        if (!y->target || (x->source && *x->source && !y->source)) {
            harena_error_set(v->err, 125, "the paths of the mounts are too long for a snapshot");
            return -1;
        }
        if (x->kind == MOUNT_IMAGE && digest_image(v->s, x->source ?: "", y->sha256, v->err) < 0)
            return -1;
    }
    return 0;
}

static void add_names(struct saving *v, const char *name)
{
    struct manifest *m = v->m;
    struct cpu cpu;
    u64 id[2] = { 0 };
    getrandom(id, sizeof(id), 0);
    snprintf(m->id, sizeof(m->id), "%016llx%016llx", (unsigned long long)id[0], (unsigned long long)id[1]);
    snprintf(m->name, sizeof(m->name), "%.60s", name);
    if (!manifest_name_valid(m->name)) /* of a path */
        m->name[0] = 0;
    if (v->o->sandbox && manifest_name_valid(v->o->sandbox))
        snprintf(m->sandbox, sizeof(m->sandbox), "%s", v->o->sandbox);
    if (v->o->parent_id && *v->o->parent_id) {
        snprintf(m->parent_id, sizeof(m->parent_id), "%.32s", v->o->parent_id);
        snprintf(m->parent, sizeof(m->parent), "%.63s", v->o->parent ?: "");
    }
    snprintf(m->build, sizeof(m->build), "%s", kernel_build(v->o->kernel));
    snprintf(m->layout, sizeof(m->layout), "%s", kernel_layout(v->o->kernel));
    cpu_here(&cpu);
    m->xcr0 = cpu.xcr0;
    m->xsave_size = cpu.xsave_size;
    m->features = cpu.features;
    m->created = time(NULL);
    m->tty = v->o->parts->tty;
}

static int write_manifest(struct saving *v)
{
    const char *why;
    char seal[SEAL_MAX];
    size_t size;
    u8 *index = index_encode(&v->x, &size);
    v->m->index.size = size;
    hash_text(index, size, v->m->index.xxh3);
    int r = file_write(v->dir, "index", index, size, v->err);
    free(index);
    if (r < 0)
        return -1;
    char *text = manifest_encode(v->m, &size, &why);
    if (!text) {
        harena_error_set(v->err, 125, "the snapshot does not fit into the format: %s", why);
        return -1;
    }
    seal_make(v->s, v->dir, text, size, seal);
    r = file_write(v->dir, "manifest.json", text, size, v->err);
    free(text);
    return r < 0 ? -1 : file_write(v->dir, "seal", seal, strlen(seal), v->err);
}

/* All files together: the file system's journal is written once for the first, and the others find that done. */
static int sync_files(struct saving *v)
{
    static const char *const fixed[] = { "symbols", "index", "manifest.json", "seal" };
    char name[16];
    for (u32 i = 0; i < v->m->segment_count + ARRAY_COUNT(fixed); i++) {
        const char *file = i < ARRAY_COUNT(fixed) ? fixed[i] : segment_name(&v->m->segments[i - ARRAY_COUNT(fixed)], name);
        int fd = openat(v->dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), r = fd < 0 ? -1 : fsync(fd);
        if (r < 0)
            fail_errno(v, file);
        if (fd >= 0)
            close(fd);
        if (r < 0)
            return -1;
    }
    return fsync(v->dir) < 0 ? fail_errno(v, "directory") : 0;
}

/* ---- all of it ---- */

/* The parent's files, as far as they are there: without them everything is stored whole. */
static void open_parent(struct saving *v)
{
    struct place p;
    const struct store_save *o = v->o;
    if (!o->parent || !*o->parent || !o->parent_id || !manifest_name_valid(o->parent))
        return;
    int dir = snapshot_open(v->s, o->parent, &p, NULL);
    if (dir < 0)
        return;
    v->parent.m = manifest_load(v->s, dir, NULL, NULL);
    bool good = v->parent.m && !strcmp(v->parent.m->id, o->parent_id) && index_load(dir, v->parent.m, &v->parent.x, NULL) == 0 &&
                segments_open(dir, v->parent.m, SEGMENT_DATA, &v->parent.data, NULL) == 0 &&
                segments_open(dir, v->parent.m, SEGMENT_PAGES, &v->parent.pages, NULL) == 0;
    if (!good) {
        free(v->parent.m);
        v->parent.m = NULL;
    }
    close(dir);
    place_close(v->s, &p);
}

static u64 blocks_of(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (u64)st.st_blocks * 512 : 0;
}

static int save_all(struct saving *v, const char *name)
{
    const struct harena_parts *p = v->o->parts;
    v->progress = (struct progress){ .call = v->o->progress, .arg = v->o->arg, .total = blocks_of(p->kernel) + blocks_of(p->data) };
    if (p->levels)
        v->progress.total += blocks_of(p->pages[p->levels - 1]);
    manifest_string(v->m, NULL);
    add_names(v, name);
    open_parent(v);
    return add_mounts(v) < 0 || save_kernel(v) < 0 || save_data(v) < 0 || save_pages(v) < 0 || write_manifest(v) < 0 ? -1 : 0;
}

/* The caller's, to be handed to the sandbox. */
static int give_base(struct saving *v, struct harena_base *base)
{
    struct opened pages;
    if (segments_open(v->dir, v->m, SEGMENT_PAGES, &pages, v->err) < 0)
        return -1;
    memcpy(base->pages, pages.fd, sizeof(base->pages));
    base->levels = pages.levels;
    base->number = v->o->parts->number;
    return 0;
}

void store_base_close(struct harena_base *base)
{
    for (; base->levels; base->levels--)
        close(base->pages[base->levels - 1]);
}

static bool exists(const struct place *p)
{
    struct stat st;
    return fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int already(const char *where, struct harena_error *err)
{
    harena_error_set(err, 125, "snapshot %.200s exists already; choose another name, or use --replace", where);
    return -1;
}

/* Is there something at the place that must stay? Only a snapshot is ever replaced. */
static int check_place(const struct store_save *o, const struct place *p, struct harena_error *err)
{
    for (int tries = 0; tries < 10 && exists(p); tries++) {
        int dir = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool good = dir >= 0 && snapshot_removable(dir, p->in_store);
        bool gone = dir >= 0 ? !same_file(dir, p->dir, p->name) : errno == ENOENT; /* removers rename before they unlink */
        if (dir >= 0)
            close(dir);
        if (gone)
            continue;
        if (good)
            return o->replace ? 0 : already(o->where, err);
        harena_error_set(err, 125, "%.200s is there already, and is no snapshot or holds other files, too; choose another name", o->where);
        return -1;
    }
    return 0;
}

int store_check_free(struct store *s, const struct store_save *o, struct harena_error *err)
{
    struct place p;
    if (place_find(s, o->where, &p, err) < 0)
        return -1;
    int r = check_place(o, &p, err);
    place_close(s, &p);
    return r;
}

/* temporary -> its place. What was there, when it is to be replaced, lies at the temporary name afterwards. */
static int put_in_place(const struct store_save *o, const struct place *p, const char *temporary, bool *replaced, struct harena_error *err)
{
    for (int tries = 0; tries < 10; tries++) {
        *replaced = o->replace && exists(p);
        if (*replaced && check_place(o, p, err) < 0) /* once more: writing takes its time */
            return -1;
        if (renameat2(p->dir, temporary, p->dir, p->name, *replaced ? RENAME_EXCHANGE : RENAME_NOREPLACE) == 0)
            return 0;
        int e = errno;
        if (e == EINVAL && !*replaced && !exists(p) && renameat(p->dir, temporary, p->dir, p->name) == 0)
            return 0; /* a file system without the flags */
        if (e == EEXIST && check_place(o, p, err) < 0)
            return -1;
        errno = e;
        if (e != EEXIST && e != ENOENT)
            break;
    }
    harena_error_set(err, 125, "cannot rename the snapshot to %.200s: %s", o->where, strerror(errno));
    return -1;
}

int store_save(struct store *s, const struct store_save *o, struct store_info *out, struct harena_error *err)
{
    struct saving v = { .s = s, .o = o, .err = err };
    struct place p;
    char temporary[NAME_MAX + 1];
    bool replaced = false;
    if (place_find(s, o->where, &p, err) < 0)
        return -1;
    int r = check_place(o, &p, err);
    v.dir = r == 0 ? temporary_make(p.dir, temporary, err) : -1;
    if (v.dir < 0) {
        place_close(s, &p);
        return -1;
    }
    v.m = calloc(1, sizeof(*v.m));
    if (!v.m)
        abort();
    r = save_all(&v, p.name);
    if (r == 0 && !o->no_sync)
        r = sync_files(&v);
    if (r == 0)
        r = put_in_place(o, &p, temporary, &replaced, err);
    if (r < 0)
        directory_remove(p.dir, v.dir, temporary);
    else if (!o->no_sync && fsync(p.dir) < 0)
        r = fail_errno(&v, "directory");
    if (r == 0 && out)
        snapshot_describe(s, v.dir, p.name, out);
    if (r == 0 && o->base && p.in_store && give_base(&v, o->base) < 0)
        r = -1;
    close(v.dir);
    if (replaced)
        temporary_remove(p.dir, temporary);
    segments_close(&v.parent.data);
    segments_close(&v.parent.pages);
    extents_free(&v.parent.x);
    extents_free(&v.x);
    free(v.parent.m);
    free(v.m);
    place_close(s, &p);
    return r;
}
