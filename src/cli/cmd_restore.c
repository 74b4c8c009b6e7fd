/* harena restore: a sandbox that goes on where a snapshot was taken. What the snapshot asks for is matched with what is given here
 * (store/mounts.c); everything else is as for a new sandbox. */
#define _GNU_SOURCE
#include "cli/options.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "store/kernel.h"
#include "store/store.h"

static const struct harena_mount *root_of(const struct store_loaded *l)
{
    for (u32 i = 0; i < l->parts.mount_count; i++)
        if (!strcmp(l->parts.mounts[i].target, "/"))
            return &l->parts.mounts[i];
    return NULL;
}

/* The mounts that our options make, as `run` would, and the snapshot's needs met with them. */
static int meet_needs(struct store *s, struct store_loaded *l, struct run_options *o, const char *where)
{
    struct harena_error err = { 0 };
    const struct harena_mount *root = root_of(l);
    bool default_root = !root || (root->kind != MOUNT_IMAGE && root->kind != MOUNT_HOSTFS);
    if ((o->image && (default_root || root->kind != MOUNT_IMAGE)) || (o->root && (default_root || root->kind != MOUNT_HOSTFS)))
        return fail(125, "snapshot %s: its root is %s: leave %s out", where,
                    default_root ? "the default one" : root->kind == MOUNT_IMAGE ? "an image" : "a directory", o->image ? "--image" : "--root");
    o->quiet = true;
    int status = run_options_mounts(o, default_root);
    if (status)
        return status;
    if (store_mounts(s, l, &o->mounts, o->first_volume, &err) == 0)
        return 0;
    return fail(err.status ?: 125, "snapshot %s: %s", where, err.text);
}

static int run_restored(struct store_loaded *l, struct run_options *o)
{
    struct harena_error err = { 0 };
    struct harena_sandbox *sandbox;
    bool terminal = l->parts.tty && isatty(0);
    if (o->command.tty && !l->parts.tty)
        return fail(125, "-t: the program in the snapshot has no terminal");
    o->command.tty = l->parts.tty;
    o->command.env = o->env.list;
    for (int i = 0; i < 3; i++)
        o->command.fds[i] = i;
    run_options_parts(o, &l->parts);
    o->config.snapshot = l->where[0] ? l->where : NULL;
    o->config.snapshot_id = l->where[0] ? l->manifest->id : NULL;
    if (terminal)
        session_winsize(&o->command);
    session_prepare(terminal);
    if (harena_create(&o->config, &sandbox, &err) < 0) {
        session_restore();
        return fail_error(&err);
    }
    if (harena_attach(sandbox, &o->command, &err) < 0) {
        session_restore();
        harena_close(sandbox);
        return fail_error(&err);
    }
    struct session_options so = { .tty = terminal, .program = "the snapshot's program", .cwd = "/" };
    int status = session_run(sandbox, &so);
    harena_close(sandbox);
    return status;
}

int cmd_restore(int argc, char **argv)
{
    struct run_options o = { 0 };
    struct harena_error err = { 0 };
    struct store *s;
    struct kernel_image *k;
    struct store_loaded *l;
    const char *where;
    int status = run_options_around(&o, "restore", FOR_RESTORE, argc, argv, &where);
    if (status)
        return status;
    if (where[0] == '-')
        return usage("restore");
    if (optind < argc)
        return fail(125, "restore takes one snapshot and options; its program goes on by itself");
    status = store_begin(&s, &k);
    if (status)
        return status;
    if (store_load(s, where, k, o.verify, &l, &err) < 0) {
        status = fail_error(&err);
    } else {
        status = meet_needs(s, l, &o, where);
        if (!status)
            status = run_restored(l, &o);
        store_loaded_free(l);
    }
    kernel_close(k);
    store_close(s);
    return status;
}
