/* harena ps: running sandboxes. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int cmd_ps(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_info *list = NULL;
    bool json = argc == 2 && !strcmp(argv[1], "--json");
    if (argc > 2 || (argc == 2 && !json))
        return usage("ps");
    int n = harena_list(&list, &err);
    if (n < 0)
        return fail_error(&err);
    if (json) {
        json_t *all = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(all, json_pack("{s:s, s:i, s:I, s:s}", "name", list[i].name, "pid", list[i].pid, "created",
                                                 (json_int_t)list[i].created, "command", list[i].command));
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    } else {
        printf("%-20s %8s %8s  %s\n", "NAME", "PID", "AGE", "COMMAND");
        for (int i = 0; i < n; i++)
            printf("%-20s %8d %7llds  %s\n", list[i].name, list[i].pid, (long long)(time(NULL) - list[i].created), list[i].command);
    }
    free(list);
    return 0;
}
