/* harena image: hands over to harena-image, a program of its own: `run` should not pay for loading its libraries. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cmd_image(int argc, char **argv)
{
    (void)argc;
    char self[PATH_MAX], path[PATH_MAX + 64];
    const char *libexec = getenv("HARENA_LIBEXEC");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    const char *const places[] = { libexec, "%s", "%s/../libexec/harena" };
    for (size_t i = libexec ? 0 : 1; i < ARRAY_COUNT(places); i++) {
        snprintf(path, sizeof(path), "%s%s/harena-image", i ? self : libexec, i == 2 ? "/../libexec/harena" : "");
        execv(path, argv);
    }
    return fail(125, "harena-image cannot be started: %s; reinstall harena", strerror(errno));
}
