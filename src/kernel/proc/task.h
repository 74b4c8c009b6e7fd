/* Tasks (guest threads) and thread groups (guest processes); see design in docs/ARCHITECTURE.md.
 *
 * Locks: tasklist_lock guards the pid table, parent/child links, group membership, exit and stop states and all signal
 * queues and masks seen by others; it is short and leaf towards wait queues. Fields marked (own) are touched by the task alone.
 * A task struct lives until it is reaped (leader) or has left its group (others); references are never kept outside the lock. */
#ifndef HARENA_PROC_TASK_H
#define HARENA_PROC_TASK_H

#include "arch/x86_64/regs.h"
#include "base/list.h"
#include "core/current.h"
#include "core/task_core.h"
#include "time/timer.h"
#include "vfs/vfs.h"

#define PID_MAX 32768
#define INIT_PID 1
#define SIGSET(s) (1ull << ((s) - 1))

struct ksigaction {
    u64 handler, flags, restorer, mask;
};

struct sigqueue {
    struct list link;
    u8 info[128]; /* siginfo as Linux lays it out */
};

struct sigpending {
    u64 set;
    struct list queue;
};

struct futex_waiter { /* proc/futex.c; under its bucket's lock */
    struct list link;
    struct task *task;
    void *obj; /* key */
    u64 off;
    u32 bits, woken;
    bool pi; /* wants to own the word: woken by a hand-over only */
    uptr addr; /* pi: of the word */
    u32 owner; /* pi: tid it waits for */
};

struct ptrace;

struct tgroup {
    u32 tgid, pgid, sid;
    u32 live; /* tasks that have not ended */
    u32 leaving; /* of them, those that have begun to */
    struct task *leader;
    struct tgroup *parent;
    struct list children, sibling, tasks;
    struct sigpending shared;
    struct ksigaction actions[64];
    struct waitq child_wait; /* wait4 of this group */
    struct waitq stop_wait;
    bool group_exit, zombie, session_leader, execed, virtual_init, stop_notify, cont_notify;
    u32 stop_sig; /* stopped by */
    u32 conts; /* SIGCONTs it got: signal.c */
    u32 stops; /* stops it had */
    u32 forked_by; /* tid of the parent's thread */
    bool held; /* a zombie its tracer has not waited for yet */
    int exit_code; /* wait status */
    int exit_signal; /* to the parent; 0 none */
    u32 session_no; /* broker's session of the first process, ~0 else */
    struct tty *tty; /* of the session, on its leader */
    u64 rlimits[16][2];
    struct ktimer alarm;
    u64 alarm_interval;
    u64 start_time;
    u64 utime, stime, cutime, cstime; /* ns; utime: of the tasks that have ended (proc/cputime.c) */
    u64 cpu_before, proc_base, cpu_seen; /* in earlier stubs; the stub's clock when it began here; highest told */
    u64 maxrss, cmaxrss; /* bytes */
    struct cpu_timer { /* setitimer's ITIMER_PROF and VIRTUAL: ns of cpu time; 0: off */
        u64 deadline, interval;
    } cpu_timer[2];
    u64 cpu_limit_told; /* seconds of RLIMIT_CPU that SIGXCPU was sent for */
    struct ktimer cpu_watch;
    struct list posix_timers; /* sys/sys_timer.c */
    u32 posix_timer_next;
    struct list pidfds;
    bool no_dump;
    s16 oom_adj, oom_adj_min; /* /proc/PID/oom_score_adj; only kept */
    u32 queued; /* signals in its queues */
    u32 membarrier; /* registered commands */
    u32 pdeath_sig;
    bool subreaper;
};

struct partial_call { /* arguments of a read or write that was cut short by freezing, and what it had done */
    u64 buf, size, off, done;
};

enum { TASK_RUNS, TASK_PARKED, TASK_PARKED_IN_VAIN /* no memory for its registers */ };

struct task {
    struct task_core core;
    u32 tid;
    u32 slot; /* carrier */
    struct tgroup *tg;
    struct mm *mm;
    struct files *files;
    struct fs_info *fs;
    struct cred *cred;
    struct list tg_link;
    struct sigpending pending;
    u64 blocked, saved_blocked;
    u64 alt_sp, alt_size;
    u32 alt_flags;
    uptr clear_child_tid, robust_list;
    u64 tls; /* fs base a new thread starts with; ~0: keep */
    struct task *vfork_parent; /* sleeping until we exec or end */
    bool vfork_waiting, exited;
    bool leaves; /* takes no more signals */
    bool killed_outside; /* stays in memory: somebody may yet wake it (dead.c) */
    long (*restart)(struct task *t); /* -ERESTART_RESTARTBLOCK */
    u64 restart_deadline, restart_arg;
    int restart_clock;
    struct futex_waiter futex;
    struct futex_several *futexes; /* waits for several */
    struct ptrace *pt; /* ptrace.h; NULL: never traced */
    struct list tracees; /* struct ptrace */
    struct exec_args *exec; /* handed over to a spare stub */
    struct frozen *frozen; /* freeze.h, from here on */
    u32 parked, freeze_order;
    bool obeys; /* works for an order while it is parked (proc/freeze.c) */
    bool moved; /* carried by another carrier than the one that parked it */
    u64 call_deadline, again_deadline;
    struct partial_call partial;
    char comm[16];
    u64 utime_base; /* thread clock when it began to count */
    u64 utime_before, utime_parked; /* on earlier carriers; on this one when it was frozen */
    u64 affinity; /* 0: all */
    u64 timerslack, timerslack_default; /* ns; 0: 50 us. The default is what the parent had */
    int nice, policy;
    u32 personality, ioprio;
    bool reset_on_fork;
};

extern struct mutex tasklist_lock;
extern u32 stopped_groups; /* by a signal */

struct task *task_alloc(struct task *like, struct tgroup *tg); /* like NULL: first process */
struct tgroup *tgroup_alloc(struct tgroup *like);
void task_free(struct task *t);
bool too_many_tasks(void); /* for the calling user */
struct task *task_make_init(void);
struct task *task_find_locked(u32 tid);
struct tgroup *tgroup_find_locked(u32 pid);
struct tgroup *tgroup_next_locked(u32 from); /* lowest tgid >= from, NULL */
void tgroup_release_locked(struct tgroup *tg); /* reap */

void task_kick(struct task *t); /* t->work was set: make it look */
noreturn_fn void task_exit(int status); /* the calling task only */
noreturn_fn void group_exit(int status);
void notify_parent_locked(struct tgroup *tg);
void vfork_release(struct task *t);
void vfork_parent_ends_locked(struct task *t);
bool vfork_parent_waits(const struct task *t, const struct regs *r); /* frozen in vfork */
/* The end of a task that has given back files and memory; last: nobody else of the group will do anything. May free t, tg. */
void task_ended(struct task *t, struct tgroup *tg, bool last);
u32 task_total(void); /* tasks there are */
long put_rusage(uptr ru, u64 cpu_ns, u64 rss);

/* Signals (signal.c) */
long signal_send_locked(struct tgroup *tg, struct task *t, int sig, const void *info); /* t NULL: to the group */
long signal_send_checked_locked(struct tgroup *tg, struct task *t, int sig, const void *info); /* kill's permission; sig 0 */
long signal_send_pgrp_locked(u32 pgid, int sig, const void *info);
bool may_inspect_locked(struct tgroup *tg); /* same ids and dumpable, or CAP_SYS_PTRACE */
bool may_trace_locked(struct tgroup *tg); /* the same with the caller's real ids */
bool signal_timer_pending_locked(struct tgroup *tg, struct task *t, u32 timer);
bool signal_deliver(struct task *t, struct regs *r, int sig, void *info, u32 conts); /* false: nothing came of it */
void signal_force(int sig, int code, u64 addr); /* from a fault of the calling task */
void signal_recalc(struct task *t);
void signal_drop_ignored_locked(struct tgroup *tg, int sig);
void signal_set_mask(struct task *t, u64 mask);
void signal_drop_pending_locked(struct task *t);
void signal_retarget_locked(struct task *t, u64 set);
void signal_set_temp_mask(u64 mask);
void signal_clear_handlers(struct tgroup *tg); /* of a group that does not run yet */
void signal_flush_on_exec(struct task *t);
void siginfo_user(void *info, int sig, int code, u32 pid, u32 uid);

/* Ends tasks whose host process was killed from outside (a limit's OOM killer, an administrator). Service thread. */
void tasks_reap_dead(void);
bool carrier_died(const struct task_core *t); /* killed from outside */

/* Stubs (stub.c): host processes waiting for a task to carry. */
/* init's service thread: makes idle ones up to that number. An error when there is none and none can be made. */
long stubs_refill(u32 wanted);
u32 stubs_wanted(void); /* 0 as long as no program is spawned */
void stubs_reap_dead(void);
void stubs_reset(void); /* there are none */
long stub_hand_over(struct task *t); /* t with ->exec and ->mm set; -EAGAIN */

#endif
