/* What `harena run` was asked for: options (cmd_run.c) and what of the host they show (shown.c). */
#ifndef HARENA_CLI_RUN_OPTIONS_H
#define HARENA_CLI_RUN_OPTIONS_H

#include "cli/cli.h"

struct options {
    struct harena_config config;
    struct harena_command command;
    struct harena_mounts mounts, volumes;
    struct environment env; /* -e, in order */
    const char *image, *root, *workdir;
    bool show_secrets, force_cwd;
};

/* Both return 0, or an exit status after a message. */
int parse_volume(struct options *o, const char *text);
int build_mounts(struct options *o);

#endif
