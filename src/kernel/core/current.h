/* What lower modules (vfs, mm, ipc, net, tty) may know of the calling task, without knowing tasks.
 * Implemented by proc/current.c; unit tests implement it with a fake. */
#ifndef HARENA_CORE_CURRENT_H
#define HARENA_CORE_CURRENT_H

#include "base/types.h"

struct task;
struct mm;
struct files;
struct fs_info;

struct cred { /* immutable once published; reference counted; replaced as a whole */
    u32 refs;
    u32 uid, euid, suid, fsuid;
    u32 gid, egid, sgid, fsgid;
    u64 cap_effective, cap_permitted, cap_inheritable, cap_bounding, cap_ambient;
    u32 securebits;
    bool no_new_privs;
    u32 group_count;
    u32 groups[]; /* supplementary, sorted */
};

struct task *current_task(void);
const struct cred *current_cred(void);
struct fs_info *current_fs(void); /* cwd, root, umask: vfs/fs_info.h */
struct files *current_files(void);
void current_file_cut(void); /* a mapped file became shorter: every process looks at its mappings */
long current_unshare_files(void); /* a descriptor table of one's own */
struct mm *current_mm(void);
u32 current_tid(void);
u32 current_tgid(void);
u64 current_rlimit(int resource); /* soft limit; RLIM_INFINITY = ~0 */
/* When a call that waits for `ns` ends (monotonic): the same when it goes on after the sandbox was frozen. */
u64 call_deadline(u64 ns);
u64 call_deadline_anew(u64 ns); /* a new one takes its place */
u64 call_done_before(void); /* bytes the calling read or write had done before freezing cut it short */
void call_wants_rest(void); /* a read got a part of what it has to wait for, and freezing ended its sleep: it goes on later */
void call_wants_no_rest(void); /* it is content after all */
bool signal_pending(void); /* an unblocked signal, a freeze or an exit waits: sleeps unwind */
void send_signal_current(int sig); /* SIGPIPE, SIGXFSZ to the calling thread */
bool cred_in_group(const struct cred *c, u32 gid); /* fsgid or supplementary */
bool capable(int cap); /* of the current task: CAP_* number */

/* tty and file owners: signals to processes by id. -ESRCH. sig 0: only looks. */
long signal_pgrp(u32 pgid, int sig);
long signal_pid(u32 pid, int sig);

#endif
