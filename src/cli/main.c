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

static const struct command commands[] = {
    { "run", cmd_run, "[OPTIONS] [--] COMMAND [ARG...]",
      "run a program in a new sandbox\n"
      "      --image FILE            root file system: an image made by `harena image build`\n"
      "      --root DIR              root file system: a host directory (writes are thrown away)\n"
      "                              (default: the host's /usr, /bin, /lib*, named files of /etc, the current directory)\n"
      "  -v, --volume SRC:DST[:ro|rw|overlay]  show a host file or directory (default: ro)\n"
      "  -e, --env K[=V]             set a variable (K alone: from this environment)\n"
      "  -w, --workdir DIR           directory to start in\n"
      "  -u, --user UID[:GID]        numbers, inside (default 0)\n"
      "  -t, --tty                   give the program a terminal\n"
      "      --hostname NAME         host name inside\n"
      "      --name NAME             for ps, exec, kill\n"
      "      --memory SIZE           limit, such as 512M\n"
      "      --pids N                limit\n"
      "      --timeout TIME          kill it after, such as 30s (status 124)\n"
      "      --require-layers        fail when a protection layer is missing on this machine\n"
      "      --show-secrets          do not hide .env, keys ... of the current directory\n"
      "      --force-cwd             show the current directory even if it is / or the home directory\n"
      "      --verbose               say more" },
    { "exec", cmd_exec, "[-e K=V] [-w DIR] [-u UID[:GID]] [-t] NAME [--] COMMAND [ARG...]", "run a program in a running sandbox" },
    { "ps", cmd_ps, "[--json]", "list running sandboxes" },
    { "kill", cmd_kill, "NAME...", "end sandboxes" },
    { "trace", cmd_trace, "NAME | [run's OPTIONS] -- COMMAND [ARG...]", "show system calls as they happen" },
    { "image", cmd_image, "build DIR|TAR -o FILE", "make a root image" },
    { "version", cmd_version, "", "print the version" },
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

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

static void print_help(FILE *f, const char *name)
{
    const struct command *only = name ? command_find(name) : NULL;
    if (only) {
        fprintf(f, "usage: harena %s %s\n\n%s\n", only->name, only->usage, only->help);
        return;
    }
    fprintf(f, "Harena runs programs nobody has vetted in a sandbox with its own kernel.\n\nusage: harena COMMAND ...\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        fprintf(f, "  %-9s%.*s\n", commands[i].name, (int)strcspn(commands[i].help, "\n"), commands[i].help);
    fprintf(f, "\n`harena COMMAND --help` tells more.\n");
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

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (argc < 2) {
        print_help(stderr, NULL);
        return 125;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
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
    if (argc > 2 && !strcmp(argv[2], "--help")) {
        print_help(stdout, c->name);
        return 0;
    }
    return c->run(argc - 1, argv + 1);
}
