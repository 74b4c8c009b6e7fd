/* Tracing: ptrace(2). How it works
 *
 * A tracee stops at the call boundary only, in the exit path (exit_work), as for freezing: there its registers are copied to K
 * (ptrace.saved), where the tracer reads and changes them, and it sleeps until it is resumed; then they are loaded again. All that
 * a stop is lies in K, so a frozen sandbox, or one that comes back from a snapshot, has the same stops, and the exit path goes to sleep in
 * them again. Stops in the middle of a call do not exist: the stop before a call is made before the kernel begins it, and the exit path makes
 * the call when the tracer says so; what a call reports (fork, exec, ...) is left in `pending` and reported at its end. A parent in
 * vfork leaves its call for that as for freezing, and goes on waiting in it.
 *
 * Memory: visits (visit.h). Calls: a traced task enters by syscall_entry_traced, which its carrier's `entry` names as long as calls or steps
 * are traced; others pay nothing. Exec views: access.c; a tracee's are taken away before its first stop. Single steps: the trap flag is
 * set in the registers it leaves with; the two traps on the exit path's own last instructions are swallowed (trap.c).
 *
 * struct ptrace belongs to the tracee and lives as long as it, so the tracee may look at it without a lock; tracer == NULL: not traced.
 * When a tracee ends that the tracer alone may wait for - a thread, or another's child - its struct stays on the tracer's list as
 * the notice of that (task == NULL). A process whose end its tracer has not waited for yet is hidden from its parent (tgroup.held).
 *
 * All under tasklist_lock but what only the stopped or the running tracee touches: saved, pending of itself. */
#ifndef HARENA_PROC_PTRACE_H
#define HARENA_PROC_PTRACE_H

#include "arch/x86_64/regs.h"
#include "base/list.h"
#include "base/types.h"
#include "proc/task.h"

/* linux/ptrace.h is not used: it has macros for the host's registers only. Options are 1 << event; */
#define PTRACE_O_MASK 0x1000ffu
#define PTRACE_O_SYSGOOD 1u
#define PTRACE_O_KILL (1u << 20)
enum { EVENT_FORK = 1, EVENT_VFORK, EVENT_CLONE, EVENT_EXEC, EVENT_VFORK_DONE, EVENT_EXIT, EVENT_SECCOMP, EVENT_STOP = 128 };

/* Stops, in the order in which they are made. */
#define STOP_ENTRY 1u
#define STOP_EVENT 2u
#define STOP_DIES 4u  /* EVENT_EXIT */
#define STOP_LEAVE 8u /* the end of a call */
#define STOP_STEP 16u /* after a call, or at the start of a handler */
#define STOP_SIGNAL 32u
#define STOP_TRAP 64u  /* PTRACE_INTERRUPT and the like */
#define STOP_GROUP 128u /* the group is stopped by a signal */

enum { RUN_ON, RUN_CALLS, RUN_STEP };

struct frozen;
struct ptrace {
    struct list link; /* in tracer->tracees */
    struct task *tracer, *task;
    struct tgroup *held;
    u32 tid, pgid, uid, options;
    u32 pending, kind; /* STOP_*; kind: of the present stop */
    u32 mode; /* RUN_* */
    u32 stops_seen; /* tgroup.stops: this one it has told of */
    u32 event, exec_tid;
    u64 event_msg, msg;
    bool seized, stopped, told, listening, has_info, in_call, again, cut, fpu_changed, dies_alone;
    int code; /* of wait: what is above the low byte */
    int resume_sig, status, dies_of;
    u64 call_nr, cut_rax;
    u64 shown_rip, shown_nr, shown_rax;
    u8 info[128], signal_info[128]; /* of the present stop; of STOP_SIGNAL */
    struct frozen *saved;
};

static inline bool ptraced(const struct task *t) { return unlikely(t->pt != NULL) && t->pt->tracer; }
static inline bool ptraced_by_locked(const struct task *t, const struct tgroup *tg) { return ptraced(t) && t->pt->tracer->tg == tg; }
struct ptrace *ptrace_new(void);
void ptrace_free(struct ptrace *p);
void ptrace_link_locked(struct task *tracer, struct task *t, struct ptrace *p, bool seized, u32 options); /* p: taken, or freed */
void ptrace_unlink_locked(struct ptrace *p);
void ptrace_resume_locked(struct ptrace *p, u32 mode, int sig);
void ptrace_trap_locked(struct task *t); /* seized: STOP_TRAP soon, or once more if it listens */

/* For the tracee itself */
bool ptrace_work(struct task *t, struct regs *r); /* exit_work: WORK_PTRACE; true: start over */
void ptrace_signal(struct task *t, struct regs *r, const void *info); /* one was taken: it is told first */
bool ptrace_group_stop(struct task *t); /* the group is stopped; true: that is told first */
bool ptrace_call_begins(struct task *t, struct regs *r); /* true: the exit path makes the call */
bool ptrace_call_cut(struct task *t, struct regs *r); /* one that was cut short by a stop and is to go on */
bool ptrace_call_again(struct task *t, struct regs *r); /* a restart that is traced as a call */
void ptrace_call_done(struct task *t, struct regs *r); /* a call that was interrupted may be at its end */
void ptrace_event(struct task *t, u32 event, u64 msg); /* if it is asked for */
bool ptrace_wants(const struct task *t, u32 event);
bool ptrace_dies(int status, bool alone); /* the calling task is about to end; true: that is told first */
void ptrace_handler_begins(struct task *t, struct regs *r, bool done);
void ptrace_execed(struct task *t);
void ptrace_set_entry(struct task *t); /* of the present carrier */
/* fork: the child of a traced task that is to be traced, too; NULL p: not. */
void ptrace_child(struct task *me, struct task *child, struct ptrace *p);

/* The end: t->exited is set. */
void ptrace_task_ends_locked(struct task *t);
void ptrace_group_ends_locked(struct tgroup *tg);
void ptrace_cont_locked(struct tgroup *tg); /* SIGCONT was sent */

#endif
