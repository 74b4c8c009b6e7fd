/* harena snapshot: the state of a running sandbox to a directory. harena snapshots, harena rm: those of the store. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "store/kernel.h"
#include "store/store.h"

int store_begin(struct store **s, struct kernel_image **k)
{
    struct harena_error err = { 0 };
    char path[4096];
    if (store_open(s, &err) < 0)
        return fail_error(&err);
    if (k && (harena_kernel_path(getenv("HARENA_LIBEXEC"), path, sizeof(path), &err) < 0 || kernel_open(path, k, &err) < 0)) {
        store_close(*s);
        return fail_error(&err);
    }
    return 0;
}

static s64 now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct shown {
    s64 start, last;
};

/* After half a second, on a terminal. */
static void show_progress(void *arg, u64 done, u64 total)
{
    struct shown *p = arg;
    s64 now = now_ms();
    if (now - p->start < 500 || now - p->last < 100)
        return;
    p->last = now;
    fprintf(stderr, "\rharena: writing, %llu of %llu MB ", (unsigned long long)(done >> 20), (unsigned long long)((done > total ? done : total) >> 20));
}

int cmd_snapshot(int argc, char **argv)
{
    static const struct option long_options[] = { { "output", 1, 0, 'o' }, { "stop", 0, 0, 's' }, { "replace", 0, 0, 'r' }, { 0 } };
    struct harena_error err = { 0 };
    struct store_save save = { 0 };
    struct harena_origin origin;
    struct store *s;
    struct kernel_image *k;
    bool stop = false;
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:", long_options, NULL)) >= 0) {
        switch (c) {
        case 'o': save.where = optarg; break;
        case 's': stop = true; break;
        case 'r': save.replace = true; break;
        default: return bad_option("snapshot", argv, c);
        }
    }
    if (optind + 1 != argc)
        return usage("snapshot");
    save.sandbox = argv[optind];
    if (!save.where)
        save.where = save.sandbox;
    int status = store_begin(&s, &k);
    if (status)
        return status;
    struct shown shown = { .start = now_ms() };
    struct harena_parts *parts = NULL;
    struct store_info info;
    struct harena_base base = { 0 };
    save.kernel = k;
    save.progress = isatty(2) ? show_progress : NULL;
    save.arg = &shown;
    /* --stop: it ends only when the snapshot is safe */
    bool paused = false;
    int r = store_check_free(s, &save, &err) < 0 || harena_origin(save.sandbox, &origin, &err) < 0 ? -1 : 0;
    if (r == 0 && stop) {
        r = harena_pause(save.sandbox, &err);
        paused = r == 0;
    }
    if (r == 0)
        r = harena_snapshot(save.sandbox, HARENA_SNAPSHOT_BASE, &parts, &err);
    if (r == 0) {
        save.parts = parts;
        save.parent = origin.snapshot;
        save.parent_id = origin.snapshot_id;
        save.base = stop ? NULL : &base;
        r = store_save(s, &save, &info, &err);
        if (shown.last)
            fprintf(stderr, "\r%48s\r", "");
    }
    if (r == 0 && stop)
        r = harena_kill(save.sandbox, 0, &err);
    else if (r < 0 && paused)
        harena_resume(save.sandbox, NULL);
    if (r < 0)
        status = fail_error(&err);
    else if (base.levels) { /* not when another one is under way: then the next one is larger */
        base.snapshot = info.name;
        base.snapshot_id = info.id;
        harena_rebase(save.sandbox, &base, NULL);
    }
    store_base_close(&base);
    harena_parts_free(parts);
    kernel_close(k);
    store_close(s);
    return status;
}

/* ---- the store ---- */

static void size_text(u64 bytes, char out[24])
{
    if (bytes < 10ul << 20)
        snprintf(out, 24, "%lluK", (unsigned long long)bytes >> 10);
    else if (bytes < 10ul << 30)
        snprintf(out, 24, "%lluM", (unsigned long long)bytes >> 20);
    else
        snprintf(out, 24, "%lluG", (unsigned long long)bytes >> 30);
}

static int list_json(const struct store_info *list, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:b}", "name", list[i].name, "id",
            list[i].id, "sandbox", list[i].sandbox, "parent", list[i].parent, "created", (json_int_t)list[i].created, "disk",
            (json_int_t)list[i].disk, "own", (json_int_t)list[i].own, "state", (json_int_t)list[i].apparent, "data_levels",
            (int)list[i].data_levels, "page_levels", (int)list[i].page_levels, "broken", (int)list[i].broken));
    return finish_json(all);
}

int cmd_snapshots(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct store_info *list = NULL;
    struct store *s;
    bool json;
    int status = parse_json_option("snapshots", argc, argv, &json);
    if (status)
        return status;
    if (optind < argc)
        return usage("snapshots");
    status = store_begin(&s, NULL);
    if (status)
        return status;
    int n = store_list(s, &list, &err);
    store_close(s);
    if (n < 0)
        return fail_error(&err);
    if (json) {
        status = list_json(list, n);
        free(list);
        return status;
    }
    printf("%-24s %-16s %7s %7s %7s %6s  %s\n", "NAME", "CREATED", "DISK", "OWN", "STATE", "LEVELS", "PARENT");
    for (int i = 0; i < n; i++) {
        char disk[24], own[24], state[24], when[32] = "?", levels[24];
        time_t t = list[i].created;
        struct tm tm;
        if (localtime_r(&t, &tm))
            strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
        size_text(list[i].disk, disk);
        size_text(list[i].own, own);
        size_text(list[i].apparent, state);
        snprintf(levels, sizeof(levels), "%u/%u", list[i].data_levels, list[i].page_levels);
        printf("%-24s %-16s %7s %7s %7s %6s  %s\n", list[i].name, when, disk, own, list[i].broken ? "damaged" : state, levels,
               list[i].parent[0] ? list[i].parent : "-");
    }
    free(list);
    return fflush(stdout) ? fail(125, "cannot write: %m") : 0;
}

int cmd_rm(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct store *s;
    if (argc < 2 || argv[1][0] == '-')
        return usage("rm");
    int status = store_begin(&s, NULL);
    if (status)
        return status;
    for (int i = 1; i < argc; i++)
        if (store_remove(s, argv[i], &err) < 0)
            status = fail_error(&err);
    store_close(s);
    return status;
}
