/* harena image: hands over to harena-image, a program of its own: `run` should not pay for loading its libraries. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void try_place(const char *dir, const char *sub, char **argv)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s%s/harena-image", dir, sub);
    execv(path, argv);
}

int cmd_image(int argc, char **argv)
{
    (void)argc;
    char self[PATH_MAX];
    const char *libexec = getenv("HARENA_LIBEXEC");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    if (libexec && *libexec)
        try_place(libexec, "", argv);
    try_place(self, "", argv);
    try_place(self, "/../libexec/harena", argv);
    return fail(125, "harena-image cannot be started: %s; reinstall harena", strerror(errno));
}
