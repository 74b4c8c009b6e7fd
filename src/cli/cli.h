/* The command line: a table of commands, one file each. Exit status: the guest's (128 + n for a signal), or 125 with one line
 * "harena: ..." for harena's own errors, 126 and 127 as shells. */
#ifndef HARENA_CLI_CLI_H
#define HARENA_CLI_CLI_H

#include <stdio.h>
#include "runtime/runtime.h"

struct json_t; /* jansson */

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage; /* after "harena NAME " */
    const char *help;  /* first line: what it does; then options and notes */
};

int cmd_run(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_snapshots(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* commands.c */
const struct command *command_find(const char *name);
void print_help(FILE *f, const char *name); /* NULL: of all */

/* One line on standard error; returns the status. */
int fail(int status, const char *f, ...) printf_like(2, 3);
int fail_error(const struct harena_error *err);
int usage(const char *command);
/* getopt_long() returned ? or : (c): says why. Returns 125. */
int bad_option(const char *command, char **argv, int c);
/* The options of a command that knows --json alone. Returns 0 or 125. */
int parse_json_option(const char *command, int argc, char **argv, bool *json);
/* Writes it to standard output and frees it. Returns 0 or 125. */
int finish_json(struct json_t *all);

/* trace_out.c: lines of kernel/sys/trace.h for people. */
struct trace_out {
    FILE *file;
    char line[4096];
    size_t size;
    bool skip; /* the rest of a line that is too long */
};
void trace_out_text(struct trace_out *t, const char *text, size_t size);
/* "name,name,..." to bits; NULL: all. Returns false after a message. */
bool trace_calls(const char *names, u64 calls[8]);

/* session.c: runs a started session's events, forwards signals and the window size. Returns the exit status. */
struct session_options {
    bool tty;
    const char *program, *cwd, *user; /* for messages */
    struct trace_out *trace;
};
void session_prepare(bool tty);            /* signals blocked, raw mode; before harena_create */
void session_restore(void);                /* the terminal as it was */
int session_run(struct harena_sandbox *s, const struct session_options *o);
void session_winsize(struct harena_command *c);

/* cmd_run.c, shared with `trace -- CMD`. */
int run_with(int argc, char **argv, struct trace_out *trace, const u64 calls[8]);

/* Opens the snapshot store, and with k the guest kernel's image. Returns 0 or an exit status. */
struct store;
struct kernel_image;
int store_begin(struct store **s, struct kernel_image **k);

/* The guest's environment: defaults plus -e. */
struct environment {
    const char **list;
    u32 count, room;
};
/* K=V, or K: taken from ours. Returns false for what is neither. */
bool environment_set(struct environment *e, const char *assignment);
/* Lines of such, empty ones and comments (#). On false errno tells why; 0: a line is neither. */
bool environment_file(struct environment *e, const char *path);
void environment_defaults(struct environment *e, bool tty);

/* Numbers with K, M, G suffixes; seconds with s, m, h. Return false on nonsense. */
bool parse_size(const char *text, u64 *out);
bool parse_count(const char *text, u64 max, u64 *out);
bool parse_duration_ms(const char *text, u32 *out);
/* 0.5, 2: as thousandths, from 10. */
bool parse_thousandths(const char *text, u32 *out);
/* "0,2-3": a bit each. */
bool parse_cpu_list(const char *text, u64 set[HARENA_CPUS_MAX / 64]);
/* TERM, SIGTERM, 15. 0: none of that. */
int parse_signal(const char *text);
/* Is it NAME|UID[:GROUP|GID]? */
bool user_valid(const char *text);

#endif
