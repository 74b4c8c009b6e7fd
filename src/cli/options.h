/* Options that several commands share: cli/options.c. */
#ifndef HARENA_CLI_OPTIONS_H
#define HARENA_CLI_OPTIONS_H

#include "cli/cli.h"

#define FOR_RUN 1u
#define FOR_RESTORE 2u
#define FOR_FORK 4u

struct run_options {
    struct harena_config config;
    struct harena_command command;
    struct harena_mounts mounts, volumes;
    struct environment env; /* -e, in order */
    const char *image, *root, *workdir;
    u32 first_volume; /* in mounts: those of -v begin there */
    bool show_secrets, force_cwd, quiet;
    bool read_only;     /* run: nothing but /tmp, /dev and volumes can be written */
    bool verify;        /* restore */
    u32 count;          /* fork; 0 = not given */
    const char *output; /* fork */
    bool detach;        /* fork */
};

/* Leaves what is no option at argv[optind]. Returns 0 or an exit status. */
int run_options_parse(struct run_options *o, const char *command, u32 who, int argc, char **argv);
/* The same for a command with one name, on either side of which options stand. What follows them is at argv[optind]. */
int run_options_around(struct run_options *o, const char *command, u32 who, int argc, char **argv, const char **name);
/* shown.c: one -v. Returns 0 or an exit status after a message. */
int run_options_volume(struct run_options *o, const char *text);
/* Fills mounts from --image, --root, -v; the default root and the current directory when neither is given and default_root. */
int run_options_mounts(struct run_options *o, bool default_root);
/* config is for a sandbox made from parts, which stay the caller's. */
void run_options_parts(struct run_options *o, const struct harena_parts *parts);
/* Hidden files of these mounts, to config. */
void run_options_hidden(struct run_options *o, const struct harena_mount *mounts, u32 count);

#endif
