/* What a snapshot needs, and what the restorer gives.
 *
 * A mount of the manifest says kind, target and flags. Kinds without a source (tmpfs, proc, sys, dev) and links inside need nothing.
 * For an image or a host directory the restorer's own list - as `harena run` builds it from its options - is looked through
 * for the same target; source, allow-list and hiding of secrets come from there. Access is never more than given: a
 * mount that reaches the host writable must have been given writable. An image must have the digest of the manifest. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *option_for(const struct harena_mount *need)
{
    static char text[512];
    bool root = !strcmp(need->target, "/");
    if (need->kind == MOUNT_IMAGE)
        return "--image FILE";
    if (root)
        return "--root DIR";
    snprintf(text, sizeof(text), "-v DIR:%.400s%s", need->target,
             need->flags & MOUNT_OVERLAY ? ":overlay" : need->flags & MOUNT_READONLY ? "" : ":rw");
    return text;
}

static const struct harena_mount *find(const struct harena_mounts *given, const char *target, bool *used)
{
    for (u32 i = given->count; i-- > 0;) /* a later mount lies over an earlier one */
        if (!strcmp(given->list[i].target, target)) {
            used[i] = true;
            return &given->list[i];
        }
    return NULL;
}

static void take_source(struct harena_mount *need, const struct harena_mount *from)
{
    char *source = strdup(from->source);
    if (!source)
        abort();
    free((char *)need->source);
    need->source = source;
    need->allow = from->allow;
    need->hide_secrets = from->hide_secrets;
    need->system = from->system;
    need->optional = from->optional;
}

static int check_image(struct store *s, const struct harena_mount *need, const char *digest, bool recorded, struct harena_error *err)
{
    char found[MANIFEST_SHA256];
    if (digest_image(s, need->source, found, err) < 0)
        return -1;
    if (!strcmp(found, digest))
        return 0;
    if (recorded)
        harena_error_set(err, 125, "image %s has changed since the snapshot was made; give the old one with --image FILE", need->source);
    else
        harena_error_set(err, 125, "--image %s: not the image of the snapshot (SHA-256 %.16s..., needed %.16s...)", need->source, found,
                         digest);
    return -1;
}

static int one_mount(struct store *s, struct store_loaded *l, u32 i, const struct harena_mounts *given, bool *used,
                     struct harena_error *err)
{
    struct harena_mount *need = &l->parts.mounts[i];
    const struct manifest_mount *record = &l->manifest->mounts[i];
    const struct harena_mount *g = find(given, need->target, used);
    if (need->kind != MOUNT_IMAGE && need->kind != MOUNT_HOSTFS)
        return 0;
    if (g && g->kind != need->kind)
        g = NULL;
    if (!g && !(l->own && !record->restricted)) {
        harena_error_set(err, 125, need->system ? "it needs the host's %s at its place: give -v DIR:%s if it is elsewhere"
                                                : "it needs something at %s: give %s", need->target,
                         need->system ? need->target : option_for(need));
        return -1;
    }
    if (g) {
        bool need_file = need->flags & MOUNT_FILE, writes = !(need->flags & (MOUNT_READONLY | MOUNT_OVERLAY));
        struct stat st;
        if (writes && g->flags & (MOUNT_READONLY | MOUNT_OVERLAY)) {
            harena_error_set(err, 125, "it writes to the host at %s: give -v DIR:%s:rw", need->target, need->target);
            return -1;
        }
        if (need_file && stat(g->source, &st) == 0 && !S_ISREG(st.st_mode)) {
            harena_error_set(err, 125, "it needs a file at %s, not a directory", need->target);
            return -1;
        }
        take_source(need, g);
    }
    return need->kind == MOUNT_IMAGE ? check_image(s, need, record->sha256, !g, err) : 0;
}

int store_mounts(struct store *s, struct store_loaded *l, const struct harena_mounts *given, u32 explicit, struct harena_error *err)
{
    bool *used = calloc(given->count + 1, sizeof(*used));
    int r = 0;
    if (!used)
        abort();
    for (u32 i = 0; i < l->parts.mount_count && r == 0; i++)
        r = one_mount(s, l, i, given, used, err);
    for (u32 i = explicit; i < given->count && r == 0; i++)
        if (!used[i]) {
            harena_error_set(err, 125, "nothing is mounted at %s in it: leave that option out", given->list[i].target);
            r = -1;
        }
    free(used);
    return r;
}
