/* The broker's own structures. One process per sandbox, one thread, one epoll loop; nothing here is shared.
 *
 * Trust: R (rings) and D (data) are guest-writable and never mapped; messages are copied once with pread. Clients on the
 * control socket are the user who owns the sandbox. All state the broker relies on is in its own memory.
 *
 * Errors: functions return 0 or a positive result, or a negative errno. */
#ifndef HARENA_BROKER_BROKER_H
#define HARENA_BROKER_BROKER_H

#include <sys/stat.h>
#include <sys/types.h>
#include "base/launch_args.h"
#include "base/layout.h"
#include "base/types.h"
#include "broker/control.h"
#include "wire/broker.h"
#include "wire/fds.h"
#include "wire/view.h"

#define BROKER_MOUNT_MAX 128
#define DEFAULT_PIDS 4096
#define BROKER_HANDLE_MAX 4096
#define BROKER_SESSION_MAX (RING_COUNT / 3)
#define BROKER_CLIENT_MAX 32
#define BROKER_MAIL_MAX 256 /* mails that wait for a guest which does not take them */
#define BROKER_READ_MAX (1u << 20) /* bytes one WIRE_READ or WIRE_WRITE moves at most */

enum source_kind { SOURCE_NONE, SOURCE_LISTENER, SOURCE_ZYGOTE, SOURCE_CONTROL, SOURCE_CLIENT, SOURCE_STREAM };

struct source { /* something epoll watches; embedded */
    enum source_kind kind;
    int fd;
};

/* ---- hostfs ---- */

struct mount {
    int root; /* O_PATH: directory, or the file itself with MOUNT_FILE */
    u32 kind, flags, ctl_flags;
    bool writable;
    dev_t dev;
    u64 mount_id; /* 0 = not known */
    char *allow; /* NUL terminated names, then an empty one; NULL = all */
    struct ctl_mount *record; /* the configuration's record */
    char name[256]; /* of the directory outside */
    u8 views;     /* files may have exec views: 1 + index of struct views; 0 = none */
};

struct handle {
    int fd;
    bool used;
    u16 generation;
    u16 mount;
    bool writable;
    bool hidden; /* a secret: reads as empty */
};

struct hostfs {
    struct mount mounts[BROKER_MOUNT_MAX];
    u32 mount_count;
    struct handle handles[BROKER_HANDLE_MAX];
    u32 handle_next; /* where to look for a free one */
    u32 handle_count, handle_max;
    int proc_fd; /* O_PATH of /proc/self/fd: descriptors are reopened through it */
    bool no_openat2;
    int userns; /* for id-mapped mounts; -1 = none, -2 = not tried yet (only as root) */
    uid_t outer_uid;
    uid_t own_uid; /* files of this user look like root's inside */
    gid_t own_gid;
    bool stranger; /* we have a uid that owns nothing, and no groups: the host itself refuses what is not for everybody */
    const u64 *hidden; /* device, inode: further names of secrets; in the configuration */
    u32 hidden_count;
    bool secret_told;        /* the user was told that secrets look empty */
    char secret_first[128]; /* about to be told: the first one met */
};

/* ---- exec views ---- */

#define BROKER_VIEWS_ASKED 512 /* files one sandbox may have built */

struct views {
    int fd; /* the pack; -1 = none */
    bool own; /* the sandbox's, else the system's */
    u64 generation, data_end;
    struct view_stat_row *rows; /* a copy, sorted */
    u32 count;
    struct { /* what the builder was asked for */
        u64 dev, ino;
        s64 ctime_ns;
        u64 when; /* monotonic ns */
    } asked[BROKER_VIEWS_ASKED];
    u32 asked_count;
    u64 asked_bytes;
};

/* ---- byte streams, sessions ---- */

struct session;

struct stream {
    struct source source;
    struct session *session;
    u32 ring;
    u32 pos;       /* our position: out: tail; in: head */
    u32 written;   /* position last published in R */
    u32 flags;     /* our RING_* */
    int error;     /* why output was lost, errno */
    bool in;
    bool closed;
    bool pollable; /* epoll takes it */
    bool added;    /* is in the epoll set */
    bool armed;    /* waiting for epoll */
    bool nonblock; /* the file description is O_NONBLOCK */
    bool socket;
    bool regular;
};

enum session_state { SESSION_FREE, SESSION_QUEUED, SESSION_MAILED, SESSION_RUNNING, SESSION_EXITED };

struct session {
    enum session_state state;
    u32 id;
    u32 mail_seq; /* rings are ours and the guest's when mail_done reaches it */
    bool rings_live;
    bool main;
    bool tty;
    u32 status; /* wait status once SESSION_EXITED */
    struct client *client;
    struct stream stream[3]; /* in, out, err; fd -1 = none */
};

struct client {
    struct source source;
    bool is_link;
    u32 procs_token; /* waits for this answer, 0 = for none */
    struct session *session;
    /* a message that arrives in several packets */
    u8 *message;
    u32 message_size, message_total;
    int fds[FDS_MAX];
    u32 fd_count;
};

/* Pausing and snapshots: snapshot.c. */
struct freeze {
    enum { FREEZE_IDLE, FREEZE_ASKED, FREEZE_DUMPING } state;
    bool paused; /* stays frozen after an order */
    bool stop;   /* the sandbox ends after it */
    bool posted; /* the guest was told: not before its program has started */
    u32 order, number;
    struct client *client; /* who asked; NULL: has gone */
    int fd[3];   /* the client's files for K, D and pages; -1 = none */
    u32 left;    /* address spaces that have not been written */
    u32 level;   /* of the page file: it may refer to those below */
    bool may_base;
    u32 written; /* the last order whose page file may become the base, 0 = none */
    u64 deadline_ns;
};

struct mail_item {
    struct mail_item *next;
    struct session *session; /* of a MAIL_SPAWN, else NULL */
    u32 size;
    u8 data[];
};

/* ---- the kernel image ---- */

struct kernel_segment {
    u64 addr, size, offset;
    int prot;
};

struct kernel_image {
    struct kernel_segment segment[8];
    u32 count;
    u64 entry;
};

/* ---- limits ---- */

struct host_process { /* of the guest, as /proc shows it */
    u32 pid;
    u64 start; /* tells two with the same pid apart */
    u64 ticks; /* of processor time */
};

struct limits {
    int memory_fd, peak_fd, oom_fd, stat_fd, time_fd; /* files of cgroups; -1 = none */
    u32 cpus;     /* the guest can use at a time */
    u64 next_ns;  /* when to look next; 0 = never */
    u64 output, output_max; /* bytes written; 0 = no limit */
    u64 gone_ticks; /* of host processes that ended, as last seen */
    struct host_process *seen;
    u32 seen_count;
};

struct broker {
    int epoll_fd, k_fd, d_fd, r_fd;
    int kernel_fd;
    struct views views[2]; /* the system's, our own */
    int empty_fd;              /* an empty directory to be chrooted into */
    int image_fd[FD_IMAGE_MAX];
    u32 image_count;
    int parts_fd[2];           /* made from a snapshot: what K and D begin as */
    int base_fd[FD_BASE_MAX];  /* its pages, or those of the last snapshot taken of it: by order base_number */
    u32 base_count, base_number;
    bool unattached;           /* made from a snapshot: frozen, other mails wait */
    bool swap;                 /* the host may move pages out */
    struct freeze freeze;
    struct ctl_config *config;
    u32 *event_page;           /* read-only mapping of R's broker page: an address for FUTEX_WAKE, never read */

    struct source listener, zygote, control;
    struct kernel_image kernel;
    struct launch_args launch;
    int boot_socket;           /* the child's reports, then LSTN */
    int lock_fd;               /* state directory, flock held */
    pid_t zygote_pid;
    bool user_namespace, pid_namespace, empty_root; /* layers the zygote has */
    bool was_root;
    bool stays_root; /* no user namespaces: outer_uid is the guest's only */
    uid_t outer_uid;

    struct r_control_guest guest; /* last copy of the guest's page */
    u32 done_seq[REQ_SLOTS];
    u32 slot_next;             /* where serving begins */
    bool requests_left;        /* not all were served: others wait */
    u32 event_seq;
    bool event_due;
    u32 mail_seq;
    u32 mail_count; /* waiting */
    struct mail_item *mail_first, **mail_last;

    struct hostfs fs;
    struct session sessions[BROKER_SESSION_MAX];
    u32 session_next;
    struct client clients[BROKER_CLIENT_MAX];
    struct client *link;
    struct client *tracer;     /* one at most */
    u32 procs_next;

    struct limits limits;
    u64 deadline_ns;           /* CLOCK_MONOTONIC; 0 = none */
    bool booted;
    bool ending;               /* the zygote was killed by us */
    bool zygote_gone;
    bool main_done;
    int status;                /* what we exit with */
};

/* Started by root, and as a uid of its own from then on. */
static inline bool has_own_uid(const struct broker *b) { return b->was_root && b->outer_uid; }

/* enter.c: in the child */
int enter_find_vdso(struct launch_args *a);
int enter_read_image(int fd, struct kernel_image *k);
int enter_map_image(int fd, const struct kernel_image *k);
void enter_kernel(const struct kernel_image *k, const struct launch_args *a) __attribute__((noreturn));

/* factory.c */
int factory_serve(int link);

/* setup.c: before the first guest instruction */
int setup_rlimits(void);
int setup_segments(struct broker *b);
int setup_memory(struct broker *b);
int setup_boot_mail(struct broker *b);
int setup_drop(struct broker *b);
int setup_filter(struct broker *b);
u64 monotonic_ns(void);

/* confine.c */
bool confine_available(void);
int confine(struct broker *b);

/* idmap.c */
int idmap_namespace(uid_t outer);
int idmap_open(int userns, const char *path);

/* spawn.c */
void spawn_choose_uid(struct broker *b);
int spawn_zygote(struct broker *b);
int spawn_as_user(struct broker *b);
int spawn_limits(struct broker *b);
void spawn_layers(struct broker *b, char *text, size_t size);
int spawn_hand_over(struct broker *b);
int spawn_add_fd(struct broker *b, u64 id, int fd, u32 slot);
void spawn_kill(struct broker *b);

/* request.c: the doorbell and the requests in R */
int doorbell_serve(struct broker *b);
int guest_refresh(struct broker *b);
u32 requests_serve(struct broker *b, u64 hint, u64 notify_id);
void requests_go_on(struct broker *b);
void event_flush(struct broker *b);

struct request { /* our copy of a slot, answered in place */
    struct wire_request head;
    u8 data[REQ_DATA_SIZE + 8]; /* NUL behind the data */
    u8 reply[REQ_DATA_SIZE] __attribute__((aligned(8)));
    u64 notify_id; /* of the doorbell that may receive descriptors, 0 = none */
};

/* hostfs*.c */
void hostfs_init(struct hostfs *fs);
int hostfs_mount(struct hostfs *fs, struct ctl_mount *record, const char *source, char *allow);
void hostfs_serve(struct broker *b, struct request *r);
int hostfs_check_path(const char *path, size_t size);
int hostfs_walk(struct hostfs *fs, struct mount *m, const char *path, bool *hidden);
int hostfs_reopen(struct hostfs *fs, int fd, int flags);
void hostfs_attr(struct hostfs *fs, const struct stat *st, struct wire_attr *a, bool hidden);
struct handle *hostfs_handle(struct hostfs *fs, u32 number);
int hostfs_handle_new(struct hostfs *fs, int fd, u32 mount, bool writable, bool hidden, u64 *number);
int hostfs_fstat(struct hostfs *fs, int fd, struct wire_attr *a, bool hidden);
s32 hostfs_modify(struct hostfs *fs, struct request *r, struct mount *m); /* hostfs_modify.c: all that writes names */
s32 hostfs_setattr_fd(struct hostfs *fs, int fd, const struct wire_attr *want, u64 mask, bool opath);

/* views.c */
void views_init(struct broker *b, const struct ctl_config *c);
enum wire_view_state views_find(struct broker *b, const struct mount *m, int opath, const struct stat *st, bool make,
                                struct wire_view *out);

/* snapshot.c */
int freeze_rebase(struct broker *b, u32 number, int *fds, u32 fd_count);
int freeze_order(struct broker *b, struct client *c, u32 order, int *fds, u32 fd_count);
void freeze_client_gone(struct broker *b, struct client *c);
void freeze_check(struct broker *b);
int freeze_wait_ms(const struct broker *b); /* until freeze_check() wants to be called; -1: never */
void freeze_limit(struct broker *b, u64 max); /* bytes of the page file */
s32 freeze_frozen(struct broker *b, struct request *r);
s32 freeze_dump_open(struct broker *b, struct request *r);
s32 freeze_dumped(struct broker *b, struct request *r);
int snapshot_load(struct broker *b);

/* session.c: sessions, rings, mail */
int session_attach(struct broker *b, struct client *c, const struct ctl_attach *a, u32 size, int fds[3]);
int session_start(struct broker *b, struct client *c, const struct ctl_run *run, u32 size, int fds[3]);
struct session *session_main(struct broker *b);
struct session *session_find(struct broker *b, u32 id);
void session_exit(struct broker *b, struct session *s, u32 status);
void session_signal(struct broker *b, struct session *s, u32 signal);
void sessions_settle(struct broker *b);
bool mail_post(struct broker *b, struct session *s, const void *data, u32 size);
void mail_pump(struct broker *b);
bool rings_pump(struct broker *b);
void stream_init(struct stream *s, int fd, bool in);
void stream_close(struct broker *b, struct stream *s);

/* limits.c */
int limits_begin(struct broker *b);
int limits_check(struct broker *b, int wait_ms);
bool limits_need_proc(const struct broker *b);
u64 limits_output_room(const struct broker *b);
void limits_usage(struct broker *b, struct wire_usage *u);
bool limits_room_for_copy(const struct broker *b);
void end_sandbox(struct broker *b, u32 status, const char *f, ...) printf_like(3, 4);

/* control.c */
int control_recv_config(struct broker *b);
int control_watch(struct broker *b, struct source *s, u32 events);
void control_accept(struct broker *b);
void control_event(struct broker *b, struct client *c);
void client_drop(struct broker *b, struct client *c);
bool client_has_room(struct client *c, u32 size);
int client_send(struct client *c, u32 type, const void *payload, u32 size);
int client_send_fds(struct client *c, u32 type, const int *fds, u32 count);
void client_number(struct client *c, u32 type, u32 number);
void client_say(struct client *c, u32 type, u32 status, const char *f, ...) printf_like(4, 5);
#define link_note(b, ...) client_say((b)->link, CTL_NOTE, 0, __VA_ARGS__)
#define link_error(b, status, ...) client_say((b)->link, CTL_ERROR, status, __VA_ARGS__)
size_t escape_text(char *out, size_t out_size, const char *text, size_t size);

#endif
