/* clone NAME DELAY_MS [COUNT [CHAIN]]: takes a snapshot of a running sandbox DELAY_MS from now and runs COUNT sandboxes made from it to their
 * end, one after the other, with our standard streams. CHAIN: so many snapshots, each but the first based on the one before; that many
 * moments apart; the last is used. Exit status: that of the last sandbox; 99: there is no sandbox NAME (any more). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/runtime.h"

static int run_clone(const struct harena_parts *p)
{
    struct harena_error err = { 0 };
    struct harena_config c = { .parts = p, .mounts = p->mounts, .mount_count = p->mount_count, .verbose = getenv("VERBOSE") != NULL,
                               .libexec = getenv("HARENA_LIBEXEC") };
    struct harena_command cmd = { .fds = { 0, 1, 2 }, .tty = p->tty };
    struct harena_sandbox *s;
    int status = 125;
    if (harena_create(&c, &s, &err) < 0 || harena_attach(s, &cmd, &err) < 0) {
        fprintf(stderr, "clone: %s\n", err.text);
        return 125;
    }
    for (struct harena_event e;;) {
        if (harena_next(s, NULL, &e, &err) < 0 || e.type == HARENA_EVENT_CLOSED)
            break;
        if (e.type == HARENA_EVENT_EXITED)
            status = WIFSIGNALED(e.value) ? 128 + WTERMSIG(e.value) : WEXITSTATUS(e.value);
        if (e.type == HARENA_EVENT_NOTE || e.type == HARENA_EVENT_ERROR)
            fprintf(stderr, "clone: %.*s\n", (int)e.text_size, e.text);
    }
    harena_close(s);
    return status;
}

/* The page files of a snapshot, in memory as they are, become the base of the next. */
static int rebase(const char *name, const struct harena_parts *p, struct harena_error *err)
{
    struct harena_base base = { .number = p->number, .levels = p->levels, .snapshot = "", .snapshot_id = "" };
    char path[64];
    for (u32 i = 0; i < p->levels; i++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", p->pages[i]);
        base.pages[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
    int r = harena_rebase(name, &base, err);
    for (u32 i = 0; i < p->levels; i++)
        close(base.pages[i]);
    return r;
}

static int take(const char *name, int chain, struct harena_parts **p, struct harena_error *err)
{
    int r = harena_snapshot(name, HARENA_SNAPSHOT_BASE, p, err);
    for (srand(getpid()); r == 0 && chain > 1; chain--) {
        r = rebase(name, *p, err);
        usleep(rand() % 30000);
        struct harena_parts *old = *p;
        if (r == 0)
            r = harena_snapshot(name, HARENA_SNAPSHOT_BASE, p, err);
        harena_parts_free(old);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_parts *p;
    if (argc < 3)
        return 2;
    usleep(atoi(argv[2]) * 1000);
    if (take(argv[1], argc > 4 ? atoi(argv[4]) : 1, &p, &err) < 0) {
        fprintf(stderr, "clone: %s\n", err.text);
        return strstr(err.text, "no running sandbox") || strstr(err.text, "ended") ? 99 : 125;
    }
    int status = 0;
    for (int i = 0; i < (argc > 3 ? atoi(argv[3]) : 1); i++)
        status = run_clone(p);
    harena_parts_free(p);
    return status;
}
