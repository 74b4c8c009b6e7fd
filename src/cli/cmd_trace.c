/* harena trace: the calls of a new sandbox (`trace -- CMD`) or of a running one (`trace NAME`), on standard error. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "broker/control.h"
#include <stdio.h>
#include <string.h>

int cmd_trace(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    struct harena_event e;
    if (argc < 2)
        return usage("trace");
    if (argc > 2 || argv[1][0] == '-')
        return run_with(argc, argv, true);
    if (harena_connect(argv[1], &s, &err) < 0 || harena_request(s, CTL_TRACE, 1, &err) < 0)
        return fail_error(&err);
    while (harena_next(s, NULL, &e, &err) == 0 && e.type != HARENA_EVENT_CLOSED)
        if (e.type == HARENA_EVENT_TEXT)
            fwrite(e.text, 1, e.text_size, stderr);
    harena_close(s);
    return 0;
}
