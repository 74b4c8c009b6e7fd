/* harena version. */
#include "cli/cli.h"
#include <stdio.h>

#ifndef HARENA_VERSION
#define HARENA_VERSION "0.1.0"
#endif

int cmd_version(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return usage("version");
    printf("harena %s (wire %u)\n", HARENA_VERSION, WIRE_VERSION);
    return 0;
}
