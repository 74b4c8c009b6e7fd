/* harena kill: ends sandboxes and waits until nothing of them is left, or sends their programs a signal. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <getopt.h>

int cmd_kill(int argc, char **argv)
{
    static const struct option long_options[] = { { "signal", 1, 0, 's' }, { 0 } };
    struct harena_error err = { 0 };
    int status = 0, signal = 0, c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:s:", long_options, NULL)) >= 0) {
        if (c != 's')
            return bad_option("kill", argv, c);
        signal = parse_signal(optarg);
        if (!signal)
            return fail(125, "--signal %s: give a name such as TERM or a number from 1 to 64", optarg);
    }
    if (optind >= argc)
        return usage("kill");
    for (int i = optind; i < argc; i++)
        if (harena_kill(argv[i], signal, &err) < 0)
            status = fail_error(&err);
    return status;
}
