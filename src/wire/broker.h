/* The shared rings segment R between one sandbox's guest kernel and its broker: layout and messages.
 *
 * R is a sealed memfd of R_SIZE bytes. The guest maps it read-write at R_BASE. The broker never maps
 * it (but for one read-only page whose address is used for FUTEX_WAKE only and never read): it copies
 * each message once with pread, checks every field, and answers with pwrite. Everything in R that the
 * guest can write is hostile. Little endian, natural alignment, no pointers.
 *
 * Guest -> broker: the guest fills a request slot, increments `req_seq[slot]`, and rings the doorbell
 * (getpgrp, a seccomp user notification). The broker reads req_seq[] in one pread, compares it with what
 * it has answered, handles each new request, writes the slot's reply, then done_seq[slot] = req_seq[slot].
 * Synchronous operations are finished before the doorbell is answered; asynchronous ones later, followed
 * by an event (below). The doorbell's first argument (rdi) is slot + 1 when it is rung for a request, 0 when it is
 * rung for rings or mail only; WIRE_GRANT needs it (the descriptor goes into the process that rings), other
 * operations do not.
 *
 * Broker -> guest: the broker writes its data, then event_seq += 1 (its own counter, pwrite), then FUTEX_WAKE
 * on the 32-bit word that starts with it. Init's service thread waits there, looks at all rings, done_seq[] and the mail box, and wakes tasks.
 *
 * Byte streams: rings of RING_SIZE bytes. The producer advances `head`, the consumer `tail` (free-running u32
 * byte counts). Out ring: guest produces. In ring: broker produces, but only up to the guest's `want` (so that
 * input no program asked for stays unread in the outside descriptor). Whoever advances a position then re-reads
 * the other's position (full fence): the guest rings the doorbell only if the broker had consumed all before
 * (out), or after raising `want` (in); the broker raises an event after moving tail of a ring that was full or whose
 * guest flags have RING_WAITING, and after producing into an in ring.
 *
 * Mail: the guest zeroes its half of the rings a MAIL_SPAWN names, then stores mail_done, then rings the doorbell
 * (so that the broker can put the next mail into the box). The broker has zeroed its half before it wrote the mail and
 * looks at the guest's half only after mail_done, WIRE_SPAWNED or WIRE_EXIT of that session. A doorbell without a request
 * is answered after the rings have been looked at: what an in ring can get at once is there then. */
#ifndef HARENA_WIRE_BROKER_H
#define HARENA_WIRE_BROKER_H

#include "base/types.h"

#define WIRE_VERSION 2

#define REQ_SLOTS 64
#define REQ_DATA_SIZE 12288u
#define RING_COUNT 48
#define RING_SIZE 32768u /* power of two */
#define MAIL_SIZE 262144u

/* ---- segment layout ---- */

struct r_control_guest { /* page 0: written by the guest only */
    u32 version;
    u32 ready; /* the kernel has booted */
    u32 mail_done; /* = mail_seq of the last mail taken */
    u32 pad;
    u32 req_seq[REQ_SLOTS];
    struct {
        u32 pos; /* out: head; in: tail */
        u32 want; /* in: may be filled up to this position */
        u32 flags; /* RING_* */
        u32 pad;
    } ring[RING_COUNT];
};

struct r_control_broker { /* page 1: written by the broker only */
    u16 event_seq; /* the broker's half of the futex word: pwrite of two bytes, then FUTEX_WAKE */
    u16 guest_seq; /* guest tasks wake the service thread by an atomic add here; never written by the broker */
    u32 mail_seq; /* a mail is in the box when mail_seq != mail_done */
    u32 mail_size;
    u32 pad;
    u32 done_seq[REQ_SLOTS];
    struct {
        u32 pos; /* out: tail; in: head */
        u32 flags; /* RING_* */
    } ring[RING_COUNT];
};

#define RING_CLOSED 1u  /* producer: end of stream; consumer: nobody reads any more (EPIPE) */
#define RING_WAITING 2u /* this side waits for the other to move */

#define R_CONTROL_GUEST 0u
#define R_CONTROL_BROKER 4096u
#define R_REQUESTS 16384u
#define R_REQUEST_STRIDE 16384u
#define R_MAIL (R_REQUESTS + REQ_SLOTS * R_REQUEST_STRIDE)
#define R_RINGS (R_MAIL + MAIL_SIZE)

/* ---- requests ---- */

struct wire_request { /* followed by `size` bytes at data */
    u32 op; /* enum wire_op */
    u32 size; /* bytes of data, <= REQ_DATA_SIZE */
    u32 mount; /* hostfs mount index */
    u32 handle; /* open file */
    u64 arg[4];
    /* reply, written by the broker: */
    s32 result; /* >= 0 or negative errno */
    u32 reply_size; /* bytes of data */
    u64 value;
    u8 data[];
};

struct wire_attr { /* what the guest may know of a host file; ids virtualised by the guest */
    u64 ino;
    u64 dev; /* opaque, equal for files of one host file system */
    u64 size;
    u64 blocks;
    u32 mode; /* type and permission bits; suid and sgid stripped */
    u32 nlink;
    u32 uid, gid;
    u32 rdev_major, rdev_minor;
    s64 atime, mtime, ctime;
    u32 atime_nsec, mtime_nsec, ctime_nsec;
    u32 flags; /* WIRE_ATTR_* */
};
#define WIRE_ATTR_HIDDEN 1u /* a secret shown as an empty file */

/* Paths are relative to the mount's root, NUL terminated, at most 4096 bytes with the NUL, without "." or ".."
 * components or empty ones; "" is the root itself. The broker opens them with openat2 RESOLVE_BENEATH |
 * RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV; the guest kernel resolves links itself. */
enum wire_op {
    WIRE_NOP = 0,
    /* sandbox life */
    WIRE_EXIT,    /* session arg[0] ended with wait status arg[1] */
    WIRE_PANIC,   /* data: text; the sandbox ends. arg[0]: 0 = a bug, status 125; otherwise the text is for the user, 137 = status
                   * of a process that was killed from outside, else 125 */
    WIRE_STATS,   /* data: text lines for --verbose (unknown system calls ...) */
    WIRE_SPAWNED, /* session arg[0] started as pid arg[1], or result arg[2] = -errno of enum spawn_step arg[3] */
    WIRE_PROCS,   /* part of the answer to MAIL_PROCS; arg[0]: its token, arg[1]: 1 = more follows; data: lines, see struct mail_procs */
    WIRE_FROZEN,    /* order arg[0] (struct mail_freeze): arg[1] = 0 all tasks are parked, or an errno; arg[2]: address spaces. FREEZE_COPY:
                     * K and D have been copied when it is answered -> value: DUMP_* */
    WIRE_DUMP_OPEN, /* into the slots of the calling process, which is a copy that only writes pages, go the page file (FD_DUMP) and those of
                     * the levels below (FD_BASE0 ...) */
    WIRE_DUMPED,    /* order arg[0]: one address space is written; arg[1] = 0 or an errno */
    WIRE_TRACE,   /* data: whole lines (kernel/sys/trace.h) -> EAGAIN: the reader is slow, send them again later */
    WIRE_USAGE,   /* -> wire_usage */
    /* hostfs, synchronous */
    WIRE_LOOKUP = 32, /* data: path; arg[0]: WIRE_VIEW_* flags -> wire_attr; value: enum wire_view_state, READY: wire_view behind */
    WIRE_READDIR,     /* data: path; arg[0]: cookie (0 = start) -> entries wire_dirent..., value = next cookie, 0 at end */
    WIRE_READLINK,    /* data: path -> target */
    WIRE_OPEN,        /* data: path; arg[0]: O_RDONLY|O_WRONLY|O_RDWR -> value = handle, data wire_attr (regular files only) */
    WIRE_CLOSE,       /* handle */
    WIRE_READ,        /* handle; arg[0] file offset, arg[1] size, arg[2] offset in D -> value = bytes */
    WIRE_WRITE,       /* handle; arg[0] file offset, arg[1] size, arg[2] offset in D -> value = bytes, data wire_attr */
    WIRE_FSETATTR,    /* handle; arg[0] WIRE_SET_* mask; data wire_attr -> wire_attr */
    WIRE_FSYNC,       /* handle */
    WIRE_GRANT,       /* handle; arg[0]: slot (FD_GRANT0..): put a read-only descriptor there in the caller (ADDFD) */
    WIRE_CREATE,      /* data: path; arg[0] mode -> handle in value, wire_attr; O_EXCL semantics: EEXIST if it exists */
    WIRE_MKDIR,       /* data: path; arg[0] mode -> wire_attr */
    WIRE_SYMLINK,     /* data: path NUL target -> wire_attr */
    WIRE_LINK,        /* data: old path NUL new path (arg[0]: offset of the second) -> wire_attr */
    WIRE_UNLINK,      /* data: path */
    WIRE_RMDIR,       /* data: path */
    WIRE_RENAME,      /* data: old NUL new (arg[0]: offset of the second); arg[1]: RENAME_NOREPLACE|EXCHANGE */
    WIRE_SETATTR,     /* data: wire_attr then path (by path: chmod, utimens, truncate); arg[0] mask -> wire_attr */
    WIRE_STATFS,      /* -> wire_statfs */
    WIRE_LOOKUP_MANY, /* data: path of a directory, then names in it, NUL terminated, WIRE_MANY_MAX at most -> wire_many for each */
    WIRE_READ_PATH,   /* data: path of a regular file -> wire_attr, then its first WIRE_SMALL_MAX bytes; value = bytes */
};
#define WIRE_SMALL_MAX (REQ_DATA_SIZE - (u32)sizeof(struct wire_attr))

#define WIRE_VIEW_MAKE 1u /* have the exec view built when there is none yet */

enum wire_view_state {
    WIRE_VIEW_NONE,
    WIRE_VIEW_READY,   /* a pack holds this version of the file */
    WIRE_VIEW_PENDING, /* somebody was asked to build it: ask again in some ms */
};

struct wire_view { /* where a view pack holds a host file, see wire/view_format.h */
    u32 pack; /* FD_VIEWS or FD_VIEWS_OWN */
    u32 pad;
    u64 entry_off; /* of the view_entry */
    u64 data_end;  /* of the pack: everything the entry refers to lies below */
};

#define WIRE_MANY_MAX 64

struct wire_usage { /* of the sandbox, as the host counts it; ~0 = it does not */
    u64 memory, memory_peak, oom_kills; /* bytes; processes */
    u64 cpu_ns;
};

struct wire_many { /* as the answer to WIRE_LOOKUP */
    s32 result;
    u32 view_state; /* enum wire_view_state */
    struct wire_attr attr;
    struct wire_view view;
};

#define WIRE_SET_MODE 1u
#define WIRE_SET_SIZE 2u
#define WIRE_SET_ATIME 4u
#define WIRE_SET_MTIME 8u

struct wire_dirent { /* 8-byte aligned records */
    u64 ino;
    u16 record_size;
    u8 type; /* DT_* */
    u8 name_size;
    char name[]; /* not terminated */
};

struct wire_statfs {
    u64 bsize, blocks, bfree, bavail, files, ffree, namelen;
};

/* ---- mail: broker -> guest, one at a time; taken when mail_done = mail_seq ---- */

enum mail_type { MAIL_BOOT = 1, MAIL_SPAWN, MAIL_SIGNAL, MAIL_WINSIZE, MAIL_PROCS, MAIL_TRACE, MAIL_SHUTDOWN, MAIL_FREEZE, MAIL_RESTORE, MAIL_ATTACH };

struct mail_header {
    u32 type;
    u32 size; /* whole mail */
};

enum mount_kind { MOUNT_IMAGE = 1, MOUNT_HOSTFS, MOUNT_TMPFS, MOUNT_PROC, MOUNT_SYS, MOUNT_DEV, MOUNT_SYMLINK };
#define MOUNT_READONLY 1u
#define MOUNT_OVERLAY 2u /* a writable tmpfs layer over it */
#define MOUNT_FILE 4u    /* the source is a single file: bind it over (or create) the target file */

struct mail_mount {
    u32 record_size; /* of this record, 8-byte aligned */
    u32 kind, flags;
    u32 index; /* image: FD_IMAGE0 + index; hostfs: mount index */
    u64 size; /* image: bytes; tmpfs: limit, 0 = default */
    char target[]; /* NUL terminated absolute path, created when missing; MOUNT_SYMLINK: then the link's text, NUL */
};

struct mail_boot {
    struct mail_header h;
    u32 wire_version;
    u32 flags; /* BOOT_* */
    u64 memory_max; /* bytes, 0 = unlimited */
    u32 pids_max; /* 0 = default */
    u32 cpu_count; /* processors it can use at a time */
    u32 cpus_milli; /* share of them, 0 = all */
    u32 files_max; /* open files, 0 = default */
    u64 tmpfs_max; /* bytes of files in memory, 0 = default */
    u8 seed[64]; /* for getrandom */
    char hostname[65];
    char build_id[26];
    u32 mount_count;
    u32 mounts_off; /* of the first mail_mount, from the mail's start */
};
#define BOOT_VERBOSE 1u
#define BOOT_CPU_COUNT 256u /* WIRE_USAGE tells the processor time */
#define BOOT_NO_PATCH 4u /* trap path only */

struct mail_spawn {
    struct mail_header h;
    u32 session; /* chosen by the broker, names it in WIRE_EXIT */
    u32 flags; /* SPAWN_* */
    u32 user_off; /* text: "NAME|UID[:GROUP|GID]", looked up inside; without HOME in the environment it is added */
    u32 pad;
    u32 ring_in, ring_out, ring_err; /* ring numbers, ~0 = /dev/null; SPAWN_TTY: in and out only */
    u16 rows, cols, xpixel, ypixel;
    u32 argc, envc;
    u32 cwd_off, strings_off; /* cwd; then argc + envc NUL terminated strings, to the end of the mail */
};
enum spawn_step { SPAWN_STEP_PROGRAM, SPAWN_STEP_CWD, SPAWN_STEP_USER, SPAWN_STEP_COUNT };
#define SPAWN_TTY 1u
#define SPAWN_MAIN 2u /* the sandbox ends with this session */

enum freeze_order {
    FREEZE_THAW,
    FREEZE_STAY, /* pause */
    FREEZE_COPY, /* have the state copied; go on as soon as that is possible, or stay paused if it was */
};

/* How pages are to be written. */
#define DUMP_SWAP 1u /* the host may have moved pages out */
#define DUMP_BASE 2u /* the page file may be the base of a later order */
#define DUMP_LEVELS(value) ((u32)((value) >> 8) & 15u) /* page files of earlier orders, or that this sandbox was made from */
#define DUMP_LEVEL(value) ((u32)((value) >> 12) & 15u) /* of the new page file: it refers to those below this */
#define DUMP_TOP(value) ((u32)((value) >> 32)) /* the order that wrote the uppermost; 0: the sandbox was made from it */

struct mail_freeze {
    struct mail_header h;
    u32 order; /* enum freeze_order */
    u32 number; /* names the order in the answers */
};

/* Instead of MAIL_BOOT to a kernel whose K comes from a snapshot: everything is brought back, but stays frozen. The mounts are those of
 * the snapshot. */
struct mail_restore {
    struct mail_boot boot;
    u32 levels; /* page files in FD_BASE0 ... */
    u32 pad;
};

/* After it: the streams of the main session; all run. */
struct mail_attach { /* followed by the text of /run/harena/env */
    struct mail_header h;
    u32 session; /* the main session's number from now on */
    u32 flags; /* SPAWN_TTY */
    u32 ring_in, ring_out, ring_err; /* ~0 = nothing */
    u16 rows, cols, xpixel, ypixel;
};

struct mail_signal {
    struct mail_header h;
    u32 session; /* ~0 = every process */
    u32 signal;
};

struct mail_winsize {
    struct mail_header h;
    u32 session;
    u16 rows, cols, xpixel, ypixel;
};

/* Answer: a line for each process: pid, parent, process group, uid, state letter, threads, mapped KiB, age in seconds, session
 * number (0: none), command line; separated by tabs. */
struct mail_procs {
    struct mail_header h;
    u32 token; /* names the question in WIRE_PROCS */
    u32 pad;
};

#define TRACE_WORDS 8
struct mail_trace {
    struct mail_header h;
    u32 on;
    u32 pad;
    u64 calls[TRACE_WORDS]; /* a bit per number of a call that is wanted */
};

#endif
