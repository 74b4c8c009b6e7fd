/* Messages between the broker and its clients (the runtime library): the link it was born with and
 * connections to the control socket in the sandbox's state directory.
 *
 * Transport: SOCK_SEQPACKET, one message a packet, at most CTL_PACKET_MAX bytes; a message with more (CTL_CONFIG,
 * CTL_RUN) is cut into packets, all but the last with CTL_MORE in `flags`. Every packet starts with ctl_header.
 * Descriptors ride (SCM_RIGHTS) on the first packet. Same machine, same build: host byte order, `CTL_VERSION` is
 * checked. Clients are trusted as far as the state directory's mode 0700 goes; lengths are checked all the same.
 *
 * The link: CTL_PREPARE (it may begin: it is in its cgroups), CTL_CONFIG (descriptors: listening control socket and locked state
 * directory, with CTL_CONFIG_NAMED; copies of K and D and the pages of each level, if made from a snapshot), then CTL_RUN with
 * CTL_RUN_MAIN. Between the first two any time may pass: a broker kept for later has come that far. When the link closes, the sandbox
 * ends. Other connections: one CTL_RUN, CTL_KILL, CTL_PROCS or CTL_TRACE each; a connection with a session that closes kills the
 * session. */
#ifndef HARENA_BROKER_CONTROL_H
#define HARENA_BROKER_CONTROL_H

#include "base/types.h"

#define CTL_VERSION 2
#define CTL_PACKET_MAX 32768u
#define CTL_MESSAGE_MAX (320u << 10)

enum ctl_type {
    CTL_PREPARE = 1, /* client -> broker: ctl_number: CTL_VERSION */
    CTL_CONFIG,     /* client -> broker: struct ctl_config */
    CTL_RUN,        /* client -> broker: struct ctl_run; descriptors: in, out, err */
    CTL_SIGNAL,     /* client -> broker: struct ctl_number: signal to this connection's session */
    CTL_WINSIZE,    /* client -> broker: struct ctl_winsize */
    CTL_KILL,       /* client -> broker: ctl_number: 0 ends the sandbox, else a signal to the main session's program; then the
                     * connection is closed */
    CTL_PROCS,      /* client -> broker: -> CTL_FROZEN: ctl_number: 1 = it is paused; CTL_TEXT ..., then the connection is closed; lines:
                     * struct mail_procs */
    CTL_TRACE,      /* client -> broker: ctl_trace; -> CTL_TEXT ... until closed: lines of kernel/sys/trace.h */
    CTL_FREEZE,     /* client -> broker: ctl_number: enum freeze_order, | CTL_FREEZE_STOP; FREEZE_COPY: descriptors of files for K, D and
                     * pages, of K_SIZE, D_SIZE and DUMP_SIZE. Then CTL_FROZEN: done, or CTL_ERROR. With CTL_FREEZE_BASE CTL_REBASE may
                     * follow, on another connection */
    CTL_ATTACH,     /* client -> broker: ctl_attach, instead of CTL_RUN when made from a snapshot; descriptors: in, out, err */
    CTL_REBASE,     /* client -> broker: ctl_number: of ctl_frozen; descriptors: pages of all levels, read-only files: what the next
                     * snapshot is to refer to. Refused when another was taken meanwhile; the connection is closed when it is done */
    CTL_BASE,       /* broker -> client: before CTL_FROZEN; descriptors: pages of the levels below */
    CTL_FROZEN,     /* broker -> client: ctl_frozen, or of a pause or its end ctl_number 0 */
    CTL_READY,      /* broker -> link: the guest kernel has booted and takes orders; struct ctl_ready */
    CTL_STARTED,    /* broker -> client: ctl_number: 0, or the errno why not, and enum spawn_step << 16 */
    CTL_EXITED,     /* broker -> client: ctl_number: wait status of the session */
    CTL_TEXT,       /* broker -> client: text */
    CTL_NOTE,       /* broker -> client: one line for the user (missing layers, statistics) */
    CTL_VIEW,       /* broker -> link: no payload; descriptor: a file whose exec view is wanted in the pack of the system, */
    CTL_VIEW_OWN,   /* ... in the sandbox's own */
    CTL_ERROR,      /* broker -> client: text; harena's own failure (exit status 125, or `number` of ctl_error) */
};

struct ctl_header {
    u32 type;
    u32 size; /* of this packet */
    u32 flags;
    u32 total; /* of the whole message in its first packet: header once and all payloads */
};
#define CTL_MORE 1u

struct ctl_number {
    struct ctl_header h;
    u32 number;
    u32 pad;
};

struct ctl_ready {
    struct ctl_header h;
    u32 init;          /* host pid of the sandbox's first process, which leads its process group */
    u32 pid_namespace; /* its death ends all others */
};

struct ctl_error {
    struct ctl_header h;
    u32 status; /* exit status for the user */
    u32 pad;
    char text[];
};

struct ctl_trace {
    struct ctl_header h;
    u64 calls[8]; /* as in struct mail_trace; none: off */
};

struct ctl_winsize {
    struct ctl_header h;
    u16 rows, cols, xpixel, ypixel;
};

/* One mount of the sandbox. Strings behind it: target NUL, then source NUL (host path; MOUNT_SYMLINK: the link's
 * text; otherwise empty), then with CTL_MOUNT_ALLOW the names that may be seen directly below the source, each NUL
 * terminated, and an empty one. */
struct ctl_mount {
    u32 record_size; /* 8-byte aligned */
    u32 kind;        /* enum mount_kind of wire/broker.h */
    u32 flags;       /* MOUNT_* of wire/broker.h, handed to the guest */
    u32 ctl_flags;   /* CTL_MOUNT_* */
    u64 size;        /* tmpfs limit */
    char strings[];
};
#define CTL_MOUNT_ALLOW 1u    /* only the listed names */
#define CTL_MOUNT_SECRETS 2u  /* hide secrets by name */
#define CTL_MOUNT_SYSTEM 8u   /* world-readable: no id-mapped mount needed */
#define CTL_MOUNT_VIEWS 16u     /* its files may have exec views in the pack of the system */
#define CTL_MOUNT_VIEWS_OWN 32u /* ... in the pack of this sandbox's directories */
#define CTL_MOUNT_OPTIONAL 4u /* skip silently when the source does not exist */

struct ctl_config {
    struct ctl_header h;
    u32 flags;  /* CTL_CONFIG_* */
    u32 levels; /* of the snapshot it is made from; 0 = none */
    u64 memory_max;
    u32 pids_max;
    u32 timeout_ms; /* 0 = none */
    u32 mount_count, mounts_off;
    u32 views_off;  /* paths of the packs of exec views, the system's and the sandbox's own; 0 = none */
    u32 views_own_off;
    u32 hidden_off, hidden_count; /* pairs of u64: device and inode of files that mounts with CTL_MOUNT_SECRETS hide, too */
    u64 tmpfs_max, output_max, cpu_time_ms; /* 0 = none */
    u32 cpus_milli, files_max;              /* 0 = none */
    u32 memory_group_off, time_group_off;   /* paths of the cgroups that count memory and processor time; 0 = none */
    u64 cpuset[16];                         /* processors to run on; none = all */
    char name[64];
    char hostname[65];
    char pad[3];
};
#define CTL_CONFIG_VERBOSE 1u
#define CTL_CONFIG_CGROUP 2u /* the limits hold without the broker's help */
#define CTL_CONFIG_REQUIRE_LAYERS 4u
#define CTL_CONFIG_NO_PATCH 8u
#define CTL_CONFIG_CGROUP_PIDS 512u /* the count of processes */
#define CTL_CONFIG_CGROUP_CPU 256u /* the share of processors holds without the broker's help */

#define CTL_CONFIG_NAMED 16u

#define CTL_FREEZE_STOP 256u
#define CTL_FREEZE_BASE 512u

struct ctl_attach { /* followed by the text of /run/harena/env */
    struct ctl_header h;
    u32 flags; /* CTL_RUN_TTY */
    u32 pad;
    u16 rows, cols, xpixel, ypixel;
};

struct ctl_frozen {
    struct ctl_header h;
    u32 levels; /* below the page file */
    u32 tty;
    u32 mount_count; /* struct ctl_mount behind this */
    u32 number; /* names the order */
};

struct ctl_run {
    struct ctl_header h;
    u32 flags; /* CTL_RUN_* */
    u32 user_off;
    u32 pad;
    u16 rows, cols, xpixel, ypixel;
    u32 argc, envc;
    u32 cwd_off, strings_off; /* as in struct mail_spawn */
};
#define CTL_RUN_TTY 1u
#define CTL_RUN_MAIN 2u

#endif
