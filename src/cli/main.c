/* harena: finds the command and runs it. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fail(int status, const char *f, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, f);
    vsnprintf(text, sizeof(text), f, ap);
    va_end(ap);
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = 0;
    fprintf(stderr, "harena: %s\n", text);
    return status;
}

int fail_error(const struct harena_error *err) { return fail(err->status ? err->status : 125, "%s", err->text); }

int usage(const char *name)
{
    const struct command *c = command_find(name);
    fprintf(stderr, "harena: usage: harena %s %s\n", c->name, c->usage);
    return 125;
}

int bad_option(const char *command, char **argv, int c)
{
    const char *problem = c == ':' ? "needs a value" : "does not exist", *arg = argv[optind - 1];
    if (optopt && optopt < 128 && strncmp(arg, "--", 2))
        return fail(125, "option -%c %s; see `harena %s --help`", optopt, problem, command);
    return fail(125, "option %s %s; see `harena %s --help`", arg, problem, command);
}

/* Closed standard descriptors must not become something else of ours, which the guest would then read or write. */
static void fill_standard_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= 2)
        ;
    if (fd > 2)
        close(fd);
}

static bool is_help(const char *arg) { return !strcmp(arg, "--help") || !strcmp(arg, "-h"); }

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (argc < 2) {
        print_help(stderr, NULL);
        return 125;
    }
    if (is_help(argv[1]) || !strcmp(argv[1], "help")) {
        if (argc > 2 && !command_find(argv[2]))
            return fail(125, "unknown command '%s'; `harena help` lists them", argv[2]);
        print_help(stdout, argc > 2 ? argv[2] : NULL);
        return fflush(stdout) ? fail(125, "cannot write: %m") : 0;
    }
    if (!strcmp(argv[1], "--version"))
        return cmd_version(1, argv + 1);
    const struct command *c = command_find(argv[1]);
    if (!c)
        return fail(125, "unknown command '%s'; `harena help` lists them", argv[1]);
    int at = argc > 3 && !strcmp(c->name, "image") ? 3 : 2; /* image build --help */
    if (argc > 2 && (is_help(argv[2]) || is_help(argv[at]))) {
        print_help(stdout, c->name);
        return 0;
    }
    return c->run(argc - 1, argv + 1);
}
