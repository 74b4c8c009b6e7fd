#define _GNU_SOURCE
#include "store/manifest.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/layout.h"
#include "store/cpu.h"
#include "wire/broker.h"

_Static_assert(MANIFEST_MOUNTS * 2 < MANIFEST_POOL, "two strings a mount");

static const char *const kinds[] = { NULL, "image", "hostfs", "tmpfs", "proc", "sys", "dev", "symlink" }; /* enum mount_kind */
static const char *const segment_names[] = { "kernel", "data", "pages" };
static const u64 size_max[] = { K_SIZE, D_SIZE, MANIFEST_PAGES_MAX };

static bool bad(char error[MANIFEST_ERROR], const char *f, ...) printf_like(2, 3);
static bool bad(char error[MANIFEST_ERROR], const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vsnprintf(error, MANIFEST_ERROR, f, ap);
    va_end(ap);
    for (char *p = error; *p; p++) /* keys and values of a stranger's */
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
    return false;
}

/* ---- small things ---- */

u32 manifest_string(struct manifest *m, const char *s)
{
    size_t n = s ? strlen(s) + 1 : 0;
    if (!m->pool_size)
        m->pool[m->pool_size++] = 0;
    if (!n || n > sizeof(m->pool) - m->pool_size)
        return 0;
    memcpy(m->pool + m->pool_size, s, n);
    m->pool_size += n;
    return m->pool_size - n;
}

const struct manifest_segment *manifest_segment(const struct manifest *m, u32 kind, u32 level)
{
    for (u32 i = 0; i < m->segment_count; i++)
        if (m->segments[i].kind == kind && m->segments[i].level == level)
            return &m->segments[i];
    return NULL;
}

u32 manifest_levels(const struct manifest *m, u32 kind)
{
    u32 n = 0;
    for (u32 i = 0; i < m->segment_count; i++)
        n += m->segments[i].kind == kind;
    return n;
}

bool manifest_name_valid(const char *name)
{
    size_t n = strlen(name);
    return n >= 1 && n <= 60 && name[0] != '.' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* ---- checks ---- */

static bool hex_valid(const char *s, size_t room, size_t least)
{
    size_t n = strnlen(s, room);
    return n < room && n >= least && strspn(s, "0123456789abcdef") == n;
}

static bool name_or_empty(const char *s, size_t room)
{
    return strnlen(s, room) < room && (!*s || manifest_name_valid(s));
}

/* "/" or "/a/b": no empty, "." or ".." components. */
static bool path_valid(const char *p)
{
    if (p[0] != '/' || strlen(p) >= 4096)
        return false;
    for (const char *c = p + 1; p[1]; c++) {
        size_t n = strcspn(c, "/");
        if (n == 0 || n > 255 || (n == 1 && c[0] == '.') || (n == 2 && c[0] == '.' && c[1] == '.'))
            return false;
        c += n;
        if (!*c)
            break;
    }
    return true;
}

static bool check_mount(const struct manifest *m, const struct manifest_mount *x, char error[MANIFEST_ERROR])
{
    if (x->kind < MOUNT_IMAGE || x->kind > MOUNT_SYMLINK || x->flags & ~(MOUNT_READONLY | MOUNT_OVERLAY | MOUNT_FILE))
        return bad(error, "a mount of unknown kind or flags");
    if (!x->target || x->target >= m->pool_size || x->source >= m->pool_size)
        return bad(error, "a mount without a target");
    const char *target = m->pool + x->target, *source = m->pool + x->source;
    if (!path_valid(target))
        return bad(error, "mount target '%.60s' is no plain absolute path", target);
    bool host = x->kind == MOUNT_IMAGE || x->kind == MOUNT_HOSTFS;
    if (host || x->kind == MOUNT_SYMLINK ? !*source || strlen(source) >= 4096 : *source != 0)
        return bad(error, "mount %.60s: source missing, too long or not wanted", target);
    if (host && source[0] != '/')
        return bad(error, "mount %.60s: the source is not absolute", target);
    if (x->kind == MOUNT_IMAGE ? !hex_valid(x->sha256, MANIFEST_SHA256, 64) : x->sha256[0])
        return bad(error, "mount %.60s: the digest is missing or not wanted", target);
    for (const struct manifest_mount *y = m->mounts; y < x; y++)
        if (!strcmp(m->pool + y->target, target))
            return bad(error, "two mounts at %.60s", target);
    return true;
}

/* Segments come in order, levels without gaps, extents one behind the other. */
static bool check_segments(const struct manifest *m, char error[MANIFEST_ERROR])
{
    u64 next = 0;
    u32 kind = SEGMENT_KERNEL, level = 0;
    if (m->segment_count < 3 || m->segment_count > MANIFEST_SEGMENTS)
        return bad(error, "%u segments", m->segment_count);
    for (u32 i = 0; i < m->segment_count; i++) {
        const struct manifest_segment *s = &m->segments[i];
        if (level && s->kind == kind + 1) {
            kind++;
            level = 0;
        }
        if (s->kind != kind || s->level != level || level >= (kind == SEGMENT_KERNEL ? 1u : MANIFEST_LEVELS))
            return bad(error, "segments out of order");
        level++;
        if (!s->size || s->size > size_max[kind] || s->size % PAGE_SIZE || s->stored > s->size || s->stored % PAGE_SIZE)
            return bad(error, "segment %s.%u: impossible sizes", segment_names[kind], s->level);
        if (s->first != next || s->count > MANIFEST_EXTENTS - next || (s->stored == 0) != (s->count == 0))
            return bad(error, "segment %s.%u: impossible extents", segment_names[kind], s->level);
        if (!hex_valid(s->xxh3, MANIFEST_ID, 32))
            return bad(error, "segment %s.%u: no checksum", segment_names[kind], s->level);
        next += s->count;
    }
    return kind == SEGMENT_PAGES || bad(error, "segments are missing");
}

bool manifest_check(const struct manifest *m, char error[MANIFEST_ERROR])
{
    if (!hex_valid(m->id, sizeof(m->id), 32) || (m->parent_id[0] && !hex_valid(m->parent_id, sizeof(m->parent_id), 32)))
        return bad(error, "no id");
    if (!name_or_empty(m->name, sizeof(m->name)) || !name_or_empty(m->parent, sizeof(m->parent)) ||
        !name_or_empty(m->sandbox, sizeof(m->sandbox)))
        return bad(error, "an impossible name");
    if (!hex_valid(m->build, sizeof(m->build), 8) || !hex_valid(m->layout, sizeof(m->layout), 8))
        return bad(error, "no build id or layout hash");
    if (m->created < 0 || m->created > 1ll << 40 || m->xsave_size > 1u << 20)
        return bad(error, "numbers out of range");
    if (!hex_valid(m->index.xxh3, MANIFEST_ID, 32) || !hex_valid(m->symbols.xxh3, MANIFEST_ID, 32) ||
        m->index.size > 4096 + (u64)MANIFEST_EXTENTS * 16 || m->symbols.size > 8u << 20)
        return bad(error, "index or symbols: impossible size or checksum");
    if (!check_segments(m, error))
        return false;
    if (m->mount_count > MANIFEST_MOUNTS || m->pool_size > sizeof(m->pool) || !m->pool_size || m->pool[0] || m->pool[m->pool_size - 1])
        return bad(error, "too many mounts or strings");
    for (u32 i = 0; i < m->mount_count; i++)
        if (!check_mount(m, &m->mounts[i], error))
            return false;
    return true;
}

/* ---- writing ---- */

static json_t *encode_mount(const struct manifest *m, const struct manifest_mount *x)
{
    static const char *const flags[] = { "readonly", "overlay", "file" };
    json_t *list = json_array();
    for (u32 i = 0; i < ARRAY_COUNT(flags); i++)
        if (x->flags >> i & 1)
            json_array_append_new(list, json_string(flags[i]));
    const bool on[] = { x->hide_secrets, x->system, x->optional, x->restricted };
    static const char *const more[] = { "hide-secrets", "system", "optional", "restricted" };
    for (u32 i = 0; i < ARRAY_COUNT(more); i++)
        if (on[i])
            json_array_append_new(list, json_string(more[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:o, s:s}", "kind", kinds[x->kind], "target", m->pool + x->target, "flags", list, "size",
                     (json_int_t)x->size, "source", x->source ? json_string(m->pool + x->source) : json_null(), "sha256", x->sha256);
}

char *manifest_encode(const struct manifest *m, size_t *size, const char **why)
{
    static char error[MANIFEST_ERROR];
    *why = error;
    if (!manifest_check(m, error))
        return NULL;
    json_t *features = json_array(), *mounts = json_array(), *segments = json_array();
    for (u32 i = 0; i < 64; i++)
        if (m->features >> i & 1 && cpu_feature_name(i))
            json_array_append_new(features, json_string(cpu_feature_name(i)));
    for (u32 i = 0; i < m->mount_count; i++) {
        json_t *x = encode_mount(m, &m->mounts[i]);
        if (!x) {
            snprintf(error, sizeof(error), "the path of a mount is not UTF-8");
            json_decref(features), json_decref(mounts), json_decref(segments);
            return NULL;
        }
        json_array_append_new(mounts, x);
    }
    for (u32 i = 0; i < m->segment_count; i++) {
        const struct manifest_segment *s = &m->segments[i];
        json_array_append_new(segments, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s}", "kind", segment_names[s->kind], "level",
            (int)s->level, "size", (json_int_t)s->size, "stored", (json_int_t)s->stored, "first", (json_int_t)s->first, "count",
            (json_int_t)s->count, "xxh3", s->xxh3));
    }
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:I, s:{s:s, s:s}, s:{s:s, s:s}, s:{s:I, s:I, s:o}, s:b, s:o, s:{s:I, s:s}, "
                            "s:{s:I, s:s}, s:o}",
        "format", MANIFEST_FORMAT, "id", m->id, "name", m->name, "sandbox", m->sandbox, "created", (json_int_t)m->created,
        "parent", "id", m->parent_id, "name", m->parent, "kernel", "build", m->build, "layout", m->layout,
        "cpu", "xcr0", (json_int_t)m->xcr0, "xsave", (json_int_t)m->xsave_size, "features", features,
        "tty", m->tty, "mounts", mounts, "index", "size", (json_int_t)m->index.size, "xxh3", m->index.xxh3,
        "symbols", "size", (json_int_t)m->symbols.size, "xxh3", m->symbols.xxh3, "segments", segments);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    json_decref(all);
    snprintf(error, sizeof(error), "no memory, or too many mounts");
    *size = text ? strlen(text) : 0;
    if (text && *size <= MANIFEST_TEXT_MAX)
        return text;
    free(text);
    return NULL;
}

/* ---- reading ---- */

struct reader {
    char *error; /* MANIFEST_ERROR; set once something was wrong */
    bool ok;
};

/* An object with exactly the keys "a b c". */
static bool object(struct reader *r, const json_t *o, const char *what, const char *keys)
{
    size_t count = 0;
    char key[32];
    if (!r->ok)
        return false;
    if (!json_is_object(o))
        return r->ok = bad(r->error, "%s is missing or no object", what);
    for (const char *k = keys; *k; k += strspn(k, " ")) {
        size_t n = strcspn(k, " ");
        snprintf(key, sizeof(key), "%.*s", (int)n, k);
        if (!json_object_get(o, key))
            return r->ok = bad(r->error, "%s has no '%s'", what, key);
        count++;
        k += n;
    }
    if (json_object_size(o) != count)
        return r->ok = bad(r->error, "%s has keys that are unknown here", what);
    return true;
}

static void text(struct reader *r, const json_t *o, const char *key, char *out, size_t room)
{
    const char *s = json_string_value(json_object_get(o, key));
    if (r->ok && (!s || strlen(s) >= room || strlen(s) != json_string_length(json_object_get(o, key))))
        r->ok = bad(r->error, "'%s' is no string or too long", key);
    if (r->ok)
        snprintf(out, room, "%s", s);
}

static u64 number(struct reader *r, const json_t *o, const char *key, u64 max)
{
    json_t *v = json_object_get(o, key);
    if (r->ok && (!json_is_integer(v) || json_integer_value(v) < 0 || (u64)json_integer_value(v) > max))
        r->ok = bad(r->error, "'%s' is no number or too large", key);
    return r->ok ? (u64)json_integer_value(v) : 0;
}

static const json_t *array(struct reader *r, const json_t *o, const char *key, size_t max)
{
    json_t *v = json_object_get(o, key);
    if (r->ok && (!json_is_array(v) || json_array_size(v) > max))
        r->ok = bad(r->error, "'%s' is no list or too long", key);
    return r->ok ? v : NULL;
}

/* The index of s in names[0..count), -1 = not there. */
static int find(const json_t *s, const char *const *names, u32 count)
{
    const char *v = json_string_value(s);
    for (u32 i = 0; v && i < count; i++)
        if (names[i] && !strcmp(names[i], v))
            return (int)i;
    return -1;
}

static void read_mount(struct reader *r, const json_t *o, struct manifest *m)
{
    static const char *const flags[] = { "readonly", "overlay", "file", "hide-secrets", "system", "optional", "restricted" };
    struct manifest_mount *x = &m->mounts[m->mount_count];
    if (!object(r, o, "a mount", "kind target flags size source sha256"))
        return;
    int kind = find(json_object_get(o, "kind"), kinds, ARRAY_COUNT(kinds));
    if (kind < 0)
        r->ok = bad(r->error, "a mount of unknown kind");
    const json_t *list = array(r, o, "flags", ARRAY_COUNT(flags)), *source = json_object_get(o, "source");
    u32 bits = 0;
    for (size_t i = 0; r->ok && i < json_array_size(list); i++) {
        int f = find(json_array_get(list, i), flags, ARRAY_COUNT(flags));
        if (f < 0 || bits >> f & 1)
            r->ok = bad(r->error, "an unknown flag of a mount");
        else
            bits |= 1u << f;
    }
    x->size = number(r, o, "size", INT64_MAX);
    text(r, o, "sha256", x->sha256, sizeof(x->sha256));
    const char *target = json_string_value(json_object_get(o, "target"));
    if (r->ok && (!target || !(json_is_null(source) || json_is_string(source))))
        r->ok = bad(r->error, "a mount without a target or source");
    if (!r->ok)
        return;
    x->kind = kind;
    x->flags = bits & 7;
    x->hide_secrets = bits & 8;
    x->system = bits & 16;
    x->optional = bits & 32;
    x->restricted = bits & 64;
    x->target = manifest_string(m, target);
    x->source = manifest_string(m, json_string_value(source));
    if (!x->target || (json_is_string(source) && !x->source))
        r->ok = bad(r->error, "the paths of the mounts are too long");
    m->mount_count++;
}

static void read_segment(struct reader *r, const json_t *o, struct manifest_segment *s)
{
    if (!object(r, o, "a segment", "kind level size stored first count xxh3"))
        return;
    int kind = find(json_object_get(o, "kind"), segment_names, SEGMENT_KINDS);
    if (kind < 0)
        r->ok = bad(r->error, "a segment of unknown kind");
    s->kind = kind;
    s->level = number(r, o, "level", MANIFEST_LEVELS - 1);
    s->size = number(r, o, "size", D_SIZE);
    s->stored = number(r, o, "stored", D_SIZE);
    s->first = number(r, o, "first", MANIFEST_EXTENTS);
    s->count = number(r, o, "count", MANIFEST_EXTENTS);
    text(r, o, "xxh3", s->xxh3, sizeof(s->xxh3));
}

static void read_file(struct reader *r, const json_t *all, const char *key, struct manifest_file *f)
{
    const json_t *o = json_object_get(all, key);
    if (!object(r, o, key, "size xxh3"))
        return;
    f->size = number(r, o, "size", 1u << 30);
    text(r, o, "xxh3", f->xxh3, sizeof(f->xxh3));
}

static void read_cpu(struct reader *r, const json_t *o, struct manifest *m)
{
    if (!object(r, o, "cpu", "xcr0 xsave features"))
        return;
    m->xcr0 = number(r, o, "xcr0", INT64_MAX);
    m->xsave_size = number(r, o, "xsave", 1u << 20);
    const json_t *list = array(r, o, "features", 64);
    for (size_t i = 0; r->ok && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        u32 n = 0;
        while (name && cpu_feature_name(n) && strcmp(cpu_feature_name(n), name))
            n++;
        if (!name || !cpu_feature_name(n))
            r->ok = bad(r->error, "it needs the processor feature '%.30s', which is unknown here", name ?: "");
        else
            m->features |= 1ull << n;
    }
}

static void read_all(struct reader *r, const json_t *all, struct manifest *m)
{
    const json_t *o = json_object_get(all, "format"), *list;
    if (json_is_integer(o) && json_integer_value(o) != MANIFEST_FORMAT) {
        r->ok = bad(r->error, "format %lld is not known here, only %d", (long long)json_integer_value(o), MANIFEST_FORMAT);
        return;
    }
    if (!object(r, all, "the manifest", "format id name sandbox created parent kernel cpu tty mounts index symbols segments"))
        return;
    number(r, all, "format", MANIFEST_FORMAT);
    text(r, all, "id", m->id, sizeof(m->id));
    text(r, all, "name", m->name, sizeof(m->name));
    text(r, all, "sandbox", m->sandbox, sizeof(m->sandbox));
    m->created = (s64)number(r, all, "created", 1ull << 40);
    o = json_object_get(all, "parent");
    if (object(r, o, "parent", "id name")) {
        text(r, o, "id", m->parent_id, sizeof(m->parent_id));
        text(r, o, "name", m->parent, sizeof(m->parent));
    }
    o = json_object_get(all, "kernel");
    if (object(r, o, "kernel", "build layout")) {
        text(r, o, "build", m->build, sizeof(m->build));
        text(r, o, "layout", m->layout, sizeof(m->layout));
    }
    read_cpu(r, json_object_get(all, "cpu"), m);
    if (!json_is_boolean(json_object_get(all, "tty")) && r->ok)
        r->ok = bad(r->error, "'tty' is neither true nor false");
    m->tty = json_is_true(json_object_get(all, "tty"));
    read_file(r, all, "index", &m->index);
    read_file(r, all, "symbols", &m->symbols);
    list = array(r, all, "mounts", MANIFEST_MOUNTS);
    for (size_t i = 0; r->ok && i < json_array_size(list); i++)
        read_mount(r, json_array_get(list, i), m);
    list = array(r, all, "segments", MANIFEST_SEGMENTS);
    for (size_t i = 0; r->ok && i < json_array_size(list); i++)
        read_segment(r, json_array_get(list, i), &m->segments[m->segment_count++]);
}

bool manifest_decode(const char *input, size_t size, struct manifest *m, char error[MANIFEST_ERROR])
{
    struct reader r = { .error = error, .ok = true };
    json_error_t e;
    memset(m, 0, sizeof(*m));
    manifest_string(m, NULL);
    if (size > MANIFEST_TEXT_MAX)
        return bad(error, "it is longer than %u bytes", MANIFEST_TEXT_MAX);
    json_t *all = json_loadb(input, size, JSON_REJECT_DUPLICATES, &e);
    if (!all)
        return bad(error, "line %d: %s", e.line, e.text);
    read_all(&r, all, m);
    json_decref(all);
    return r.ok && manifest_check(m, error);
}
