/* harena kill: ends sandboxes and waits until nothing of them is left. */
#define _GNU_SOURCE
#include "cli/cli.h"

int cmd_kill(int argc, char **argv)
{
    struct harena_error err = { 0 };
    int status = 0;
    if (argc < 2)
        return usage("kill");
    for (int i = 1; i < argc; i++)
        if (harena_kill(argv[i], &err) < 0)
            status = fail_error(&err);
    return status;
}
