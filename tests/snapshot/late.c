/* late NAME NEW COMMAND: takes a snapshot of NAME and makes the sandbox NEW of it, but attaches to it only half a second after the shell
 * COMMAND was begun, which may use NEW meanwhile. Exit status: that of NEW's program. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/runtime.h"

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_parts *p;
    struct harena_sandbox *s;
    if (argc < 4)
        return 2;
    if (harena_snapshot(argv[1], false, &p, &err) < 0) {
        fprintf(stderr, "late: %s\n", err.text);
        return 125;
    }
    struct harena_config c = { .name = argv[2], .parts = p, .mounts = p->mounts, .mount_count = p->mount_count,
                               .libexec = getenv("HARENA_LIBEXEC") };
    struct harena_command cmd = { .fds = { 0, 1, 2 } };
    int status = 125;
    if (harena_create(&c, &s, &err) < 0) {
        fprintf(stderr, "late: %s\n", err.text);
        return 125;
    }
    pid_t child = fork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", argv[3], (char *)NULL);
        _exit(127);
    }
    usleep(500000);
    if (harena_attach(s, &cmd, &err) < 0)
        fprintf(stderr, "late: %s\n", err.text);
    for (struct harena_event e; harena_next(s, NULL, &e, &err) == 0 && e.type != HARENA_EVENT_CLOSED;) {
        if (e.type == HARENA_EVENT_EXITED)
            status = WIFSIGNALED(e.value) ? 128 + WTERMSIG(e.value) : WEXITSTATUS(e.value);
        if (e.type == HARENA_EVENT_NOTE || e.type == HARENA_EVENT_ERROR)
            fprintf(stderr, "late: %.*s\n", (int)e.text_size, e.text);
    }
    waitpid(child, NULL, 0);
    harena_close(s);
    harena_parts_free(p);
    return status;
}
