/* libharena: create, start, watch and end sandboxes. Used by the command line and by other host programs.
 *
 * Every function that can fail returns 0 or a descriptor/count, or -1 with one clear line in *err. Strings in the structures
 * belong to the caller and are only read during the call. Handles are not thread safe; different handles may be used from
 * different threads. Nothing here installs signal handlers; a sandbox ends when its handle is closed or its process dies.
 * Child processes: the broker (or the factory), and a guard where it is asked for. */
#ifndef HARENA_RUNTIME_RUNTIME_H
#define HARENA_RUNTIME_RUNTIME_H

#include <signal.h>
#include <stddef.h>
#include "base/types.h"
#include "wire/broker.h" /* MOUNT_*: kinds and flags of mounts */

struct harena_error {
    int status; /* what a command line should exit with: 125, 126, 127 ... */
    char text[1024];
};

void harena_error_set(struct harena_error *err, int status, const char *f, ...) printf_like(3, 4);

/* ---- what a sandbox is made of ---- */

struct harena_mount {
    u32 kind;  /* enum mount_kind */
    u32 flags; /* MOUNT_READONLY, MOUNT_OVERLAY */
    bool hide_secrets;
    bool system;        /* a world-readable directory of the system */
    bool optional;      /* a missing source is no error */
    u64 size;           /* tmpfs: limit in bytes, 0 = default */
    const char *target; /* absolute path inside */
    const char *source; /* host path; MOUNT_SYMLINK: the link's text; NULL for tmpfs, proc, sys, dev */
    const char *const *allow; /* NULL-terminated names that may be seen directly below source; NULL = all */
};

/* A process that makes brokers by fork: for programs that create many sandboxes; each costs less than half of the time then.
 * Threads may share one. Close it when no sandbox made with it is to be created any more; those that run go on. */
struct harena_factory;
int harena_factory_open(const char *libexec, struct harena_factory **out, struct harena_error *err);
void harena_factory_close(struct harena_factory *f);

/* The state of a frozen sandbox, as descriptors of sparse files that nobody changes any more: kernel state, contents of files in
 * memory, pages of processes. Pages come in levels: level n refers to those below it, which were the levels of the sandbox the
 * snapshot was made of. What lies in them is the guest's and read by the guest's kernel only. */
#define HARENA_LEVELS 4
struct harena_parts {
    int kernel, data;
    int pages[HARENA_LEVELS];
    u32 levels;
    u32 number; /* for harena_rebase() */
    bool tty; /* its main session has a terminal */
    struct harena_mount *mounts; /* of the sandbox; strings are owned */
    u32 mount_count;
};
void harena_parts_free(struct harena_parts *p);
/* For parts of which very many sandboxes will be made: puts their pages into huge pages where the host can (Linux 6.1). Costs about as much as
 * copying them twice, and saves a fifth of what a sandbox costs. A pool does so. */
void harena_parts_settle(const struct harena_parts *p);
#define HARENA_CPUS_MAX 1024

struct harena_limits { /* 0 = none, or the default */
    u64 memory;       /* bytes: processes and files in memory together */
    u64 files_memory; /* bytes: files in memory alone; default: half of memory */
    u64 output;       /* bytes: standard output and error of all its programs together */
    u64 cpu_time_ms;  /* of all processes together, the broker's included */
    u32 timeout_ms;   /* wall time */
    u32 pids;         /* processes and threads */
    u32 cpus_milli;   /* thousandths of a processor */
    u32 files;        /* open files */
    u64 cpuset[HARENA_CPUS_MAX / 64]; /* processors it may run on; none = all */
};

struct harena_config {
    const struct harena_parts *parts; /* NULL = a new sandbox; else mounts must be those of the parts but for their sources */
    const char *snapshot, *snapshot_id; /* that the parts are or go back to, for harena_origin(); NULL = none */
    struct harena_factory *factory; /* NULL = an exec of the broker */
    const char *name;     /* NULL = a random one */
    const char *hostname; /* NULL = the name */
    struct harena_limits limits;
    bool verbose, require_layers, no_patch;
    bool guard;           /* a child that cleans up if this program is killed; see guard.c */
    bool anonymous;       /* no state directory: not seen by list, exec and kill; faster */
    const char *libexec;  /* directory of harena-broker and harena-kernel; NULL = search beside the running program */
    const struct harena_mount *mounts;
    u32 mount_count;
    const u64 *hidden; /* device and inode of further files that mounts with hide_secrets show as empty */
    u32 hidden_count;
};

struct harena_command {
    const char *const *argv; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated K=V */
    const char *cwd;
    const char *user; /* NAME|UID[:GROUP|GID] inside; NULL: 0. HOME comes from there unless env has it */
    bool tty;
    u16 rows, cols, xpixel, ypixel;
    int fds[3]; /* standard input, output, error outside; not closed; -1 = nothing */
};

/* ---- a running sandbox ---- */

struct harena_sandbox; /* the sandbox this program created, and its main session */

enum harena_event_type {
    HARENA_EVENT_NONE,    /* interrupted by a signal of the mask given */
    HARENA_EVENT_READY,   /* the guest kernel has booted */
    HARENA_EVENT_STARTED, /* value: 0, or the errno why the program could not be started, and enum spawn_step << 16 */
    HARENA_EVENT_EXITED,  /* value: wait status of the session */
    HARENA_EVENT_TEXT,    /* trace, process table */
    HARENA_EVENT_NOTE,    /* for the user: missing layers, statistics */
    HARENA_EVENT_ERROR,   /* harena's own failure; value: exit status for the user */
    HARENA_EVENT_CLOSED,  /* the broker is gone */
};

struct harena_event {
    enum harena_event_type type;
    u32 value;
    const char *text; /* valid until the next call */
    size_t text_size;
};

#define __harena_autoclose __attribute__((cleanup(harena_cleanup)))

int harena_create(const struct harena_config *config, struct harena_sandbox **out, struct harena_error *err);
int harena_start(struct harena_sandbox *s, const struct harena_command *command, struct harena_error *err);
/* Instead of harena_start, when made from parts: the main session goes on with these streams (and terminal size); env: what its programs find
 * in /run/harena/env. */
int harena_attach(struct harena_sandbox *s, const struct harena_command *command, struct harena_error *err);
const char *harena_name(const struct harena_sandbox *s);

/* Sandboxes of one configuration with parts (and without a name) that are kept ready, `size` of them, by a thread: a taken one only waits for
 * harena_attach. Never empty: one is made then. What the configuration refers to must stay. Threads may share a pool. A limit of time begins
 * when somebody attaches. */
struct harena_pool;
int harena_pool_open(const struct harena_config *config, u32 size, struct harena_pool **out, struct harena_error *err);
int harena_pool_take(struct harena_pool *p, struct harena_sandbox **out, struct harena_error *err);
void harena_pool_close(struct harena_pool *p);

/* Waits for the next event; with `mask` the signal mask is replaced while waiting (HARENA_EVENT_NONE after a signal). */
int harena_next(struct harena_sandbox *s, const sigset_t *mask, struct harena_event *e, struct harena_error *err);

/* Runs events to the end of the main session. Returns 0 with its wait status. */
int harena_wait(struct harena_sandbox *s, int *wait_status, struct harena_error *err);

struct harena_usage { /* as the host counts it; 0 also when it does not */
    u64 memory, memory_peak; /* bytes, broker included */
    u64 oom_kills;           /* processes killed because the memory limit was reached */
    u64 cpu_ns;
    u32 host_processes;      /* tasks of the host: the guest's, spare ones, the broker */
};

/* Of a sandbox with limits; all zero without cgroups. */
void harena_usage(const struct harena_sandbox *s, struct harena_usage *u);

int harena_signal(struct harena_sandbox *s, int signal, struct harena_error *err);
int harena_winsize(struct harena_sandbox *s, u16 rows, u16 cols, u16 xpixel, u16 ypixel, struct harena_error *err);

/* Ends the sandbox if it still runs, waits until nothing of it is left, frees the handle. NULL is fine. */
void harena_close(struct harena_sandbox *s);
void harena_cleanup(struct harena_sandbox **s);

/* ---- other people's sandboxes, by name ---- */

/* A connection to a running sandbox as a handle for harena_start (a further session), harena_next, harena_signal. */
int harena_connect(const char *name, struct harena_sandbox **out, struct harena_error *err);
/* signal 0: ends the sandbox and waits until nothing of it is left; otherwise its main program gets the signal. */
int harena_kill(const char *name, int signal, struct harena_error *err);
int harena_request(struct harena_sandbox *s, u32 ctl_type, u32 number, struct harena_error *err);

/* Every process stops at once, wherever it is, until resumed. */
int harena_pause(const char *name, struct harena_error *err);
int harena_resume(const char *name, struct harena_error *err);
bool harena_paused(const char *name);
/* Its state as of now; it goes on at once (unless it was paused), or ends. Free *out with harena_parts_free. how: 0 or */
#define HARENA_SNAPSHOT_STOP 256u
#define HARENA_SNAPSHOT_BASE 512u /* harena_rebase() may follow */
int harena_snapshot(const char *name, u32 how, struct harena_parts **out, struct harena_error *err);
/* The last snapshot taken (with HARENA_SNAPSHOT_BASE) is safe: the next one refers to its page files, and the sandbox goes back to it
 * (harena_origin). They must not change any more. The descriptors stay the caller's. */
struct harena_base {
    u32 number; /* of the parts */
    u32 levels;
    int pages[HARENA_LEVELS]; /* read-only */
    const char *snapshot, *snapshot_id;
};
int harena_rebase(const char *name, const struct harena_base *base, struct harena_error *err);

struct harena_info {
    char name[64];
    char id[16];
    int pid; /* of the broker */
    s64 created; /* seconds since 1970 */
    char root[256]; /* image or directory, "default" */
    char command[256];
    struct harena_limits limits;
    struct harena_usage usage;
    bool paused;
    int processes; /* of the guest; -1: it did not answer in time */
};

/* Running sandboxes of this user; the array is malloc'ed. Removes what dead ones left. Returns the count or -1. */
int harena_list(struct harena_info **out, struct harena_error *err);

/* Where a running sandbox comes from. Fails when its kernel or an image is not the file any more that it was started with: a snapshot
 * would name the wrong ones. */
struct harena_origin {
    char snapshot[64], snapshot_id[33]; /* "" = none */
    struct harena_limits limits;
};
int harena_origin(const char *name, struct harena_origin *out, struct harena_error *err);
/* The guest kernel that new sandboxes get. */
int harena_kernel_path(const char *libexec, char *out, size_t room, struct harena_error *err);

/* ---- watching: src/runtime/watch.c ---- */

struct harena_process {
    u32 pid, ppid, pgid, uid, threads, session; /* session: 0 = not the first process of one */
    char state; /* R S T Z */
    u64 mapped_kib, age; /* seconds */
    char *command; /* printable ASCII, malloc'ed with the array */
};

/* Processes of the guest, by what its kernel says, which may be a lie but is well-formed. Returns the count, -1 on error. */
int harena_processes(const char *name, u32 timeout_ms, struct harena_process **out, struct harena_error *err);
void harena_processes_free(struct harena_process *list, int count);

/* Calls (a bit per number) of everything in the sandbox come as HARENA_EVENT_TEXT: lines of kernel/sys/trace.h, which may be
 * cut anywhere. */
int harena_trace(struct harena_sandbox *s, const u64 calls[8], struct harena_error *err);

/* ---- helpers for building a configuration ---- */

struct harena_mounts { /* a growing list that owns its strings; zero-initialise */
    struct harena_mount *list;
    u32 count, room;
    char **strings;
    u32 string_count, string_room;
};

/* Appends; strings are copied. Returns the entry (valid until the next call). */
struct harena_mount *harena_mounts_add(struct harena_mounts *m, u32 kind, u32 flags, const char *target, const char *source);
/* The default root: an allow-list of the host's directories, empty everything else. */
void harena_mounts_default_root(struct harena_mounts *m);
/* /proc, /sys, /dev, /tmp. */
void harena_mounts_system(struct harena_mounts *m);
void harena_mounts_free(struct harena_mounts *m);

#endif
