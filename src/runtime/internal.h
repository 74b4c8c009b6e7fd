/* Shared by the files of the runtime library only. */
#ifndef HARENA_RUNTIME_INTERNAL_H
#define HARENA_RUNTIME_INTERNAL_H

#include <limits.h>
#include <sys/types.h>
#include "broker/control.h"
#include "runtime/runtime.h"
#include "wire/fds.h"

#define CGROUP_MAX 6

enum { CGROUP_MEMORY = 1, CGROUP_PIDS = 2, CGROUP_CPU = 4, CGROUP_CPU_TIME = 8 }; /* what groups can hold */

struct harena_sandbox {
    char name[64], id[16];
    char root[256]; /* for harena_list */
    int link;       /* socket to the broker */
    struct guard *guard; /* guard.c; NULL = none */
    pid_t guard_pid;
    pid_t broker;   /* 0 = only connected to */
    int broker_pidfd; /* -1 = our own child */
    bool exited;    /* the broker was reaped */
    u64 deadline_ms; /* when the broker must have told of the time-out; 0 = none */
    pid_t group;    /* of the guest's host processes, when only we can end it after the broker was killed; else 0 */
    int state_fd;   /* our state directory, -1 = anonymous */
    int owner_fd;   /* it again: the lock of whoever the sandbox belongs to (state.c) */
    int base_fd;
    char *cgroups[CGROUP_MAX];
    u32 cgroup_count;
    u32 held;       /* CGROUP_*: limits that groups hold */
    pid_t init;     /* the first process of the sandbox, once it has booted; with a descriptor of it, which is ready when */
    int init_pidfd; /* nothing of the sandbox is left; -1 = none */
    u8 *message;    /* the last event's */
    bool closed;
    struct harena_limits limits;
    char note[1024]; /* to be told once, before other events */
    char *views_dir[2]; /* of the packs of exec views, the system's and our own; NULL = none */
    int views;      /* socket to harena-views, -1 = not started */
    char *views_program;
    struct harena_origin origin;
    char *files; /* origin.c; NULL = none */
    char *kernel;   /* path of its binary */
    char *report;   /* of its panic, with names */
};

/* Never NULL: without memory the program ends. */
void *grow(void *old, size_t size);

/* programs.c */
int find_program(const char *libexec, const char *name, const char *build_sub, char out[PATH_MAX], struct harena_error *err);
int spawn_broker(const char *libexec, const char *kernel, bool factory, int base_fd, int link, pid_t *pid, struct harena_error *err);
int broker_may_begin(int link, struct harena_error *err);

/* factory.c */
struct made_broker {
    int link;
    pid_t pid; /* 0 = not told yet */
    int pidfd;
};
int factory_take(struct harena_factory *f, bool prepared, struct made_broker *b, struct harena_error *err);
void factory_refill(struct harena_factory *f);

/* state.c */
int state_base(struct harena_error *err);
int state_create(struct harena_sandbox *s, const char *name, int *listener, struct harena_error *err);
int state_write_info(struct harena_sandbox *s, const char *const *argv);
int state_set_origin(const char *name, const char *snapshot, const char *snapshot_id, struct harena_error *err);
void state_remove(int base_fd, int dir_fd, const char *name);
struct json_t;
struct json_t *state_read_info(int dir);
void limits_from_json(const struct json_t *o, struct harena_limits *l);

/* The open directory of a running sandbox, by name or id. */
int state_open(const char *name, struct harena_error *err);
int state_connect(const char *name, struct harena_error *err); /* errno EAGAIN: it runs, but its broker takes nobody */
int state_empty_dir(int base_fd, struct harena_error *err);
void state_sweep(int base_fd);

void state_remove_unlocked(int base_fd, const char *name);
int state_end(const char *name, int link);

/* origin.c */
char *origin_files(const char *kernel, const struct harena_mount *mounts, u32 count);

/* guard.c */
void guard_start(struct harena_sandbox *s);
void guard_end(struct harena_sandbox *s);

/* cgroup.c */
struct cgroup_limits { /* 0 = none */
    u64 memory;
    u32 pids; /* host processes: the guest's, spare ones and the broker */
    u32 cpus_milli;
    bool cpu_time; /* is to be counted */
};
extern const char *cgroup_top, *cgroup_own;
void cgroup_create(struct harena_sandbox *s, const struct cgroup_limits *l);
bool cgroup_add(struct harena_sandbox *s, pid_t pid);
void cgroup_lift(char *const *paths, u32 count);
void cgroup_kill(char *const *paths, u32 count);
void cgroup_remove(char *const *paths, u32 count);
void cgroup_usage(const char *path, struct harena_usage *u);
const char *cgroup_with(const struct harena_sandbox *s, u32 what);

/* views.c */
struct views_choice {
    char path[2][PATH_MAX]; /* of the pack files, "" = none */
};
void views_choose(struct harena_sandbox *s, const struct harena_config *c, struct views_choice *v);
u32 views_mount_flags(const struct harena_sandbox *s, const struct harena_mount *m); /* CTL_MOUNT_VIEWS* */
void views_build(struct harena_sandbox *s, bool own, int fd);
void views_close(struct harena_sandbox *s);

/* symbols.c */
char *symbols_add(const char *kernel, const char *report);

#define GRACE_MS 500u /* for a broker that is to end its sandbox; then it is done without it */

/* watch.c */
u64 now_ms(void); /* monotonic */
int watch_processes(const char *name, u32 timeout_ms, struct harena_process **out, bool *paused, struct harena_error *err);
int process_lines(char *text, struct harena_process **out);
void watch_usage(int broker, struct harena_usage *u);

/* message.c */
int message_send(int fd, void *message, u32 size, const int *fds, u32 fd_count, struct harena_error *err);
int message_receive_fds(int fd, u8 **out, int *fds, u32 max, u32 *fd_count, struct harena_error *err);
int message_receive(int fd, u8 **out, int *passed, struct harena_error *err); /* *passed: a descriptor that came, or -1; NULL = none is wanted */
int message_error(const u8 *message, struct harena_error *err); /* -1 when it is CTL_ERROR, with its text in err; else 0 */
int stdio_fresh(int fd, bool write);

/* config.c: a message that grows; zero-initialise, free data. Both return where the addition lies. */
struct block {
    u8 *data;
    u32 size, room;
};
u32 block_add(struct block *b, const void *data, u32 size); /* data NULL: zeroes */
u32 block_string(struct block *b, const char *s);
int send_config(struct harena_sandbox *s, const struct harena_config *c, int listener, struct harena_error *err);

#endif
