/* harena trace: the calls of a new sandbox (`trace -- CMD`) or of a running one (`trace NAME`). */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "broker/control.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>

/* Until it ends or we are interrupted: then the connection closes, and the broker turns the trace off. */
static int follow(const char *name, struct trace_out *out, const u64 calls[8])
{
    struct harena_error err = { 0 };
    struct harena_sandbox *s;
    struct harena_event e;
    int status = 0;
    if (harena_connect(name, &s, &err) < 0 || harena_trace(s, calls, &err) < 0)
        return fail_error(&err);
    while (harena_next(s, NULL, &e, &err) == 0 && e.type != HARENA_EVENT_CLOSED) {
        if (e.type == HARENA_EVENT_TEXT)
            trace_out_text(out, e.text, e.text_size);
        if (e.type == HARENA_EVENT_ERROR)
            status = fail(e.value ?: 125, "%.*s", (int)e.text_size, e.text);
        if (ferror(out->file)) {
            status = fail(125, "cannot write the trace: %s", strerror(errno));
            break;
        }
    }
    harena_close(s);
    return status;
}

static bool is_ours(const char *arg)
{
    return arg[0] == '-' && (strchr("foe", arg[1] ?: '?') || !strncmp(arg, "--output", 8) || !strncmp(arg, "--calls", 7));
}

int cmd_trace(int argc, char **argv)
{
    static const struct option long_options[] = { { "output", 1, 0, 'o' }, { "calls", 1, 0, 'e' }, { 0 } };
    static struct trace_out out;
    const char *path = NULL, *names = NULL;
    u64 calls[8];
    int c, at = 1;
    opterr = 0;
    /* our own options come first; the first we do not know belongs to run, as all that follow (its -e is spelt --env here) */
    for (; at < argc && is_ours(argv[at]); at = optind) {
        optind = at;
        c = getopt_long(argc, argv, "+:fo:e:", long_options, NULL);
        if (c == 'o')
            path = optarg;
        else if (c == 'e')
            names = optarg;
        else if (c != 'f')
            return bad_option("trace", argv, c);
    }
    if (at >= argc)
        return usage("trace");
    if (!trace_calls(names, calls))
        return 125;
    out.file = path ? fopen(path, "we") : stderr;
    if (!out.file)
        return fail(125, "-o %s: %s", path, strerror(errno));
    setvbuf(out.file, NULL, _IOLBF, 65536);
    if (argv[at][0] != '-' && at + 1 == argc)
        return follow(argv[at], &out, calls);
    if (argv[at][0] != '-')
        return fail(125, "write harena trace NAME for a running sandbox, or harena trace [OPTIONS] -- COMMAND [ARG...]");
    argv[at - 1] = argv[0];
    return run_with(argc - at + 1, argv + at - 1, &out, calls);
}
