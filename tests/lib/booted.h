/* For tests that use the runtime library. */
#include "runtime/runtime.h"

/* Host pid of the sandbox's first process, once it has booted; -1: it ended before. */
static int booted(struct harena_sandbox *s)
{
    struct harena_error err;
    struct harena_event e;
    while (harena_next(s, NULL, &e, &err) == 0 && e.type != HARENA_EVENT_CLOSED)
        if (e.type == HARENA_EVENT_READY)
            return e.value;
    return -1;
}
