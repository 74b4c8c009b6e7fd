/* clone NAME DELAY_MS [COUNT]: takes a snapshot of a running sandbox DELAY_MS from now and runs COUNT sandboxes made from it to their end,
 * one after the other, with our standard streams. Exit status: that of the last one; 99: there is no sandbox NAME (any more). */
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

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_parts *p;
    if (argc < 3)
        return 2;
    usleep(atoi(argv[2]) * 1000);
    if (harena_snapshot(argv[1], false, &p, &err) < 0) {
        fprintf(stderr, "clone: %s\n", err.text);
        return strstr(err.text, "no running sandbox") || strstr(err.text, "ended") ? 99 : 125;
    }
    int status = 0;
    for (int i = 0; i < (argc > 3 ? atoi(argv[3]) : 1); i++)
        status = run_clone(p);
    harena_parts_free(p);
    return status;
}
