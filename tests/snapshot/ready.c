/* ready NAME WAIT_MS: two copies of the running sandbox NAME are made, kept for WAIT_MS and then attached, the second to /dev/null; a third
 * is never attached, a fourth is killed while it waits. Output: that of the first. Prints what went wrong. Exit status: of the first's
 * program. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../lib/booted.h"

static struct harena_parts *parts;

static struct harena_sandbox *copy(void)
{
    struct harena_error err = { 0 };
    struct harena_sandbox *s = NULL;
    struct harena_config c = { .anonymous = true, .parts = parts, .mounts = parts->mounts, .mount_count = parts->mount_count,
                               .libexec = getenv("HARENA_LIBEXEC") };
    if (harena_create(&c, &s, &err) < 0)
        printf("create: %s\n", err.text);
    return s;
}

static int run(struct harena_sandbox *s, int out)
{
    struct harena_error err = { 0 };
    struct harena_command cmd = { .fds = { -1, out, 2 } };
    int status = -1;
    if (harena_attach(s, &cmd, &err) < 0 || harena_wait(s, &status, &err) < 0)
        printf("attach: %s\n", err.text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_sandbox *s[4];
    if (argc < 3 || harena_snapshot(argv[1], false, &parts, &err) < 0) {
        printf("ready: %s\n", err.text);
        return 125;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 4; i++)
        if (!(s[i] = copy()))
            return 125;
    usleep(atoi(argv[2]) * 1000);
    int pid = booted(s[3]), null = open("/dev/null", O_WRONLY);
    if (pid < 2 || kill(pid, SIGKILL))
        printf("the fourth did not boot\n");
    usleep(100000);
    struct harena_command cmd = { .fds = { -1, null, null } };
    int status = 0;
    if (harena_attach(s[3], &cmd, &err) < 0 || harena_wait(s[3], &status, &err) == 0)
        printf("the killed one: %s, status %d\n", err.text, status);
    int second = run(s[1], null), first = run(s[0], 1);
    if (first != second)
        printf("statuses %d and %d\n", first, second);
    for (int i = 0; i < 4; i++)
        harena_close(s[i]);
    harena_parts_free(parts);
    return first;
}
