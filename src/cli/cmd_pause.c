/* harena pause, harena resume. */
#define _GNU_SOURCE
#include "cli/cli.h"

static int each(int argc, char **argv, int (*call)(const char *name, struct harena_error *err))
{
    struct harena_error err = { 0 };
    int status = 0;
    if (argc < 2 || argv[1][0] == '-')
        return usage(argv[0]);
    for (int i = 1; i < argc; i++)
        if (call(argv[i], &err) < 0)
            status = fail_error(&err);
    return status;
}

int cmd_pause(int argc, char **argv) { return each(argc, argv, harena_pause); }
int cmd_resume(int argc, char **argv) { return each(argc, argv, harena_resume); }
