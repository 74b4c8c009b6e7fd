/* Opening snapshots. What is checked when: manifest and seal first, then build, layout and processor, then the index and sizes
 * of all files, then the contents of `kernel`; contents of data and pages with `verify`, or when they are copied anyway. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/layout.h"
#include "store/cpu.h"
#include "store/kernel.h"

int error_in(struct harena_error *err, const char *where)
{
    char text[1024];
    if (!err)
        return -1;
    snprintf(text, sizeof(text), "%s", err->text);
    snprintf(err->text, sizeof(err->text), "snapshot %.200s: %.800s", where, text);
    return -1;
}

/* ---- parts that save.c needs, too ---- */

struct manifest *manifest_load(struct store *s, int dir, bool *own, struct harena_error *err)
{
    size_t size, seal_size;
    char error[MANIFEST_ERROR];
    char *text = (char *)file_read(dir, "manifest.json", MANIFEST_TEXT_MAX, &size, err);
    char *seal = text ? (char *)file_read(dir, "seal", SEAL_MAX, &seal_size, err) : NULL;
    struct manifest *m = NULL;
    if (seal && seal_check(seal, seal_size, text, size, err) == 0) {
        bool mine = seal_own(s, dir, seal, seal_size, text, size);
        m = malloc(sizeof(*m));
        if (!m)
            abort();
        if (!(mine ? manifest_decode : manifest_decode_jailed)(text, size, m, error)) {
            harena_error_set(err, 125, "its manifest is not valid: %s", error);
            free(m);
            m = NULL;
        }
        if (own)
            *own = mine;
    }
    free(text);
    free(seal);
    return m;
}

int index_load(int dir, const struct manifest *m, struct extents *x, struct harena_error *err)
{
    size_t size;
    char checksum[MANIFEST_ID];
    u8 *data = file_read(dir, "index", m->index.size, &size, err);
    if (!data)
        return -1;
    hash_text(data, size, checksum);
    int r = -1;
    if (size != m->index.size || strcmp(checksum, m->index.xxh3))
        harena_error_set(err, 125, "its index is damaged (wrong checksum)");
    else
        r = index_decode(data, size, m, x, err);
    free(data);
    return r;
}

void segments_close(struct opened *o)
{
    for (u32 i = 0; i < o->levels; i++)
        if (o->fd[i] >= 0)
            close(o->fd[i]);
    o->levels = 0;
}

int segments_open(int dir, const struct manifest *m, u32 kind, struct opened *o, struct harena_error *err)
{
    o->levels = 0;
    for (u32 i = 0; i < m->segment_count; i++) {
        const struct manifest_segment *g = &m->segments[i];
        char name[16];
        struct stat st;
        if (g->kind != kind)
            continue;
        int fd = file_open(dir, segment_name(g, name), INT64_MAX, &st, err);
        if (fd >= 0 && (u64)st.st_size != g->size) {
            harena_error_set(err, 125, "its file %s was %s", name, (u64)st.st_size < g->size ? "truncated" : "extended");
            close(fd);
            fd = -1;
        }
        if (fd < 0) {
            segments_close(o);
            return -1;
        }
        o->fd[o->levels++] = fd;
    }
    return 0;
}

struct stack stack_of(const struct manifest *m, u32 kind, const struct opened *o, const struct extents *x)
{
    struct stack s = { .levels = o->levels };
    for (u32 i = 0; i < o->levels; i++) {
        const struct manifest_segment *g = manifest_segment(m, kind, i);
        s.level[i].fd = o->fd[i];
        s.level[i].list = x->list + g->first;
        s.level[i].count = g->count;
    }
    return s;
}

/* ---- what the snapshot needs of this machine ---- */

static int check_machine(const struct manifest *m, const struct kernel_image *k, struct harena_error *err)
{
    struct cpu here;
    if (strcmp(m->layout, kernel_layout(k))) {
        harena_error_set(err, 125, "it was made by a version of harena whose kernel keeps its state differently (layout %.12s, this one "
                                   "%.12s); restore it with that version", m->layout, kernel_layout(k));
        return -1;
    }
    cpu_here(&here);
    for (u32 i = 0; cpu_feature_name(i); i++)
        if (m->features >> i & 1 && !(here.features >> i & 1)) {
            harena_error_set(err, 125, "it was made on a processor with %s, which this one has not; its programs may use it",
                             cpu_feature_name(i));
            return -1;
        }
    if (m->xcr0 & ~here.xcr0 || m->xsave_size > here.xsave_size) {
        harena_error_set(err, 125, "it was made on a machine with more vector state (XCR0 %#llx, %u bytes; here %#llx, %u bytes)",
                         (unsigned long long)m->xcr0, m->xsave_size, (unsigned long long)here.xcr0, here.xsave_size);
        return -1;
    }
    return 0;
}

/* ---- segments ---- */

struct loading {
    struct store *s;
    const struct manifest *m;
    const struct extents *x;
    bool inside; /* the files cannot change: they are in the store */
    bool verify;
    struct harena_error *err;
};

/* A private copy of levels on each other as one file. Each is verified. */
static int copy_levels(struct loading *l, u32 kind, const struct opened *o, u32 from, u32 to)
{
    int fd = file_unlinked(l->s, l->err);
    if (fd < 0)
        return -1;
    for (u32 i = from; i < to; i++) {
        const struct manifest_segment *g = manifest_segment(l->m, kind, i);
        const struct extent *list = l->x->list + g->first;
        bool check = !l->inside || l->verify;
        int r;
        if (i == from && ioctl(fd, FICLONE, o->fd[i]) == 0)
            r = check ? segment_verify(fd, g, list, l->err) : 0;
        else
            r = segment_copy(o->fd[i], fd, g, list, check, l->err);
        if (r == 0 && ftruncate(fd, (off_t)g->size) < 0) {
            harena_error_set(l->err, 125, "cannot write a copy of it: %s", strerror(errno));
            r = -1;
        }
        if (r == 0 && kind == SEGMENT_PAGES)
            r = segment_fill(fd, l->err);
        if (r < 0) {
            close(fd);
            return -1;
        }
    }
    return file_reopen(fd, l->err);
}

/* Takes the descriptor out of o, so that it is not closed with it. */
static int take(struct opened *o, u32 i)
{
    int fd = o->fd[i];
    o->fd[i] = -1;
    return fd;
}

static int load_level(struct loading *l, u32 kind, struct opened *o, u32 i)
{
    const struct manifest_segment *g = manifest_segment(l->m, kind, i);
    if (!l->inside)
        return copy_levels(l, kind, o, i, i + 1);
    if ((l->verify || kind == SEGMENT_KERNEL) && segment_verify(o->fd[i], g, l->x->list + g->first, l->err) < 0)
        return -1;
    return take(o, i);
}

static int load_segments(struct loading *l, struct opened open[SEGMENT_KINDS], struct harena_parts *parts)
{
    parts->kernel = load_level(l, SEGMENT_KERNEL, &open[SEGMENT_KERNEL], 0);
    if (parts->kernel < 0)
        return -1;
    struct opened *data = &open[SEGMENT_DATA], *pages = &open[SEGMENT_PAGES];
    parts->data = data->levels == 1 ? load_level(l, SEGMENT_DATA, data, 0) : copy_levels(l, SEGMENT_DATA, data, 0, data->levels);
    if (parts->data < 0)
        return -1;
    for (u32 i = 0; i < pages->levels; i++) {
        parts->pages[i] = load_level(l, SEGMENT_PAGES, pages, i);
        if (parts->pages[i] < 0)
            return -1;
        parts->levels = i + 1;
    }
    return 0;
}

/* Kernel state of another build, in a copy. */
static int adapt_kernel(int dir, const struct manifest *m, const struct extents *x, struct kernel_image *k, int *kernel,
                        struct harena_error *err)
{
    const struct manifest_segment *g = manifest_segment(m, SEGMENT_KERNEL, 0);
    char checksum[MANIFEST_ID];
    size_t size;
    char *symbols = (char *)file_read(dir, "symbols", m->symbols.size, &size, err);
    if (!symbols)
        return -1;
    hash_text(symbols, size, checksum);
    int copy = -1, r = -1;
    if (size != m->symbols.size || strcmp(checksum, m->symbols.xxh3))
        harena_error_set(err, 125, "its list of symbols is damaged (wrong checksum)");
    else if ((copy = memfd_create("K", MFD_CLOEXEC)) < 0 || ftruncate(copy, (off_t)g->size) < 0)
        harena_error_set(err, 125, "no memory: %s", strerror(errno));
    else if (segment_copy(*kernel, copy, g, x->list + g->first, true, err) == 0)
        r = kernel_translate(k, copy, g, x->list + g->first, symbols, size, err);
    free(symbols);
    if (r == 0) {
        close(*kernel);
        *kernel = copy;
    } else if (copy >= 0) {
        close(copy);
    }
    return r;
}

/* ---- all of it ---- */

static char *copy_string(const char *s)
{
    char *c = strdup(s);
    if (!c)
        abort();
    return c;
}

static void fill_mounts(struct store_loaded *l)
{
    const struct manifest *m = l->manifest;
    l->parts.mounts = calloc(m->mount_count + 1, sizeof(*l->parts.mounts));
    if (!l->parts.mounts)
        abort();
    for (u32 i = 0; i < m->mount_count; i++) {
        const struct manifest_mount *x = &m->mounts[i];
        l->parts.mounts[i] = (struct harena_mount){
            .kind = x->kind, .flags = x->flags, .size = x->size, .hide_secrets = x->hide_secrets, .system = x->system,
            .optional = x->optional, .target = copy_string(m->pool + x->target),
            .source = x->source ? copy_string(m->pool + x->source) : NULL,
        };
    }
    l->parts.mount_count = m->mount_count;
}

static int load_from(struct store *s, int dir, const struct place *p, struct kernel_image *k, bool verify, struct store_loaded *l,
                     struct harena_error *err)
{
    struct extents x = { 0 };
    struct opened open[SEGMENT_KINDS] = { 0 };
    l->manifest = manifest_load(s, dir, &l->own, err);
    if (!l->manifest || check_machine(l->manifest, k, err) < 0 || index_load(dir, l->manifest, &x, err) < 0)
        return -1;
    l->same_build = !strcmp(l->manifest->build, kernel_build(k));
    struct loading job = { .s = s, .m = l->manifest, .x = &x, .inside = p->in_store, .verify = verify, .err = err };
    int r = 0;
    for (u32 i = 0; i < SEGMENT_KINDS && r == 0; i++)
        r = segments_open(dir, l->manifest, i, &open[i], err);
    if (r == 0)
        r = load_segments(&job, open, &l->parts);
    if (r == 0 && !l->same_build)
        r = adapt_kernel(dir, l->manifest, &x, k, &l->parts.kernel, err);
    for (u32 i = 0; i < SEGMENT_KINDS; i++)
        segments_close(&open[i]);
    extents_free(&x);
    if (r < 0)
        return -1;
    l->parts.tty = l->manifest->tty;
    fill_mounts(l);
    return 0;
}

int store_load(struct store *s, const char *where, const struct kernel_image *k, bool verify, struct store_loaded **out,
               struct harena_error *err)
{
    struct place p;
    int dir = snapshot_open(s, where, &p, err);
    if (dir < 0)
        return -1;
    struct store_loaded *l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    l->parts.kernel = l->parts.data = -1;
    if (p.in_store)
        snprintf(l->where, sizeof(l->where), "%.63s", p.name);
    int r = load_from(s, dir, &p, (struct kernel_image *)k, verify, l, err);
    close(dir);
    place_close(s, &p);
    if (r == 0) {
        *out = l;
        return 0;
    }
    store_loaded_free(l);
    return error_in(err, where);
}

void store_loaded_free(struct store_loaded *l)
{
    if (!l)
        return;
    if (l->parts.kernel >= 0)
        close(l->parts.kernel);
    if (l->parts.data >= 0)
        close(l->parts.data);
    for (u32 i = 0; i < l->parts.levels; i++)
        close(l->parts.pages[i]);
    for (u32 i = 0; i < l->parts.mount_count; i++) {
        free((char *)l->parts.mounts[i].target);
        free((char *)l->parts.mounts[i].source);
    }
    free(l->parts.mounts);
    free(l->manifest);
    free(l);
}
