/* Queues of signals (proc/signal.c): random sending, masks, actions and taking of three threads against a model; stopping and going
 * on through the exit path. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/freeze.h"
#include "proc/futex.h"
#include "proc/posix_timer.h"
#include "proc/ptrace.h"
#include "proc/visit.h"
#include "proc/signal.h"
#include "proc/task.h"
#include "sys/trace.h"
#include "tty/session.h"

#define TASKS 3
#define LIMIT 20

static struct task tasks[TASKS], parent_task, *me;
static struct tgroup group, parent;
static struct carrier carrier;
static long live_blocks;
static bool cont_in_between;
struct mutex tasklist_lock;
u32 trace_active;
char syscall_entry[1];

#define MUST(c)                                                                                                        \
    do {                                                                                                               \
        if (!(c)) {                                                                                                    \
            printf("Bail out! signal_test.c:%d: %s\n", __LINE__, #c);                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- the rest of the kernel ---- */

void mutex_lock(struct mutex *m) { MUST(!m->word++); }
void mutex_unlock(struct mutex *m) { MUST(m->word--); }
void *kmalloc(size_t size) { return live_blocks++, malloc(size); }
void kfree(void *p) { live_blocks -= p != NULL, free(p); }
struct task *current_task(void) { return me; }
struct carrier *this_carrier(void) { return &carrier; }
void panic(const char *f, ...) { printf("Bail out! %s\n", f), exit(1); }
void klog(const char *f, ...) { (void)f; }
void wake_up_all(struct waitq *q, u32 events) { (void)q, (void)events; }
void wait_prepare(struct waitq *q) { (void)q; }
void wait_finish(void) {}
long wait_sleep_freezable(u64 deadline) { return (void)deadline, -EINTR; }
void task_kick(struct task *t) { MUST(t->core.work); }
void task_exit(int status) { printf("Bail out! exit %d\n", status), exit(1); }
void group_exit(int status) { task_exit(status); }
void posix_timer_dequeued_locked(struct tgroup *tg, int *info) { (void)tg, (void)info; }
void trace_event(char type, int number) { (void)type, (void)number; }
void visits_serve(void) {}
bool ptrace_work(struct task *t, struct regs *r) { return (void)t, (void)r, false; }
void ptrace_signal(struct task *t, struct regs *r, const void *info) { (void)t, (void)r, (void)info; }
bool ptrace_group_stop(struct task *t) { return (void)t, false; }
bool ptrace_call_cut(struct task *t, struct regs *r) { return (void)t, (void)r, false; }
bool ptrace_call_again(struct task *t, struct regs *r) { return (void)t, (void)r, false; }
bool ptrace_dies(int status, bool alone) { return (void)status, (void)alone, false; }
void ptrace_handler_begins(struct task *t, struct regs *r, bool done) { (void)t, (void)r, (void)done; }
void ptrace_cont_locked(struct tgroup *tg) { (void)tg; }
u64 mm_view_original(struct mm *mm, u64 ip) { return (void)mm, ip; }
u64 mm_view_at_call(struct mm *mm, u64 ip) { return (void)mm, ip; }
void mm_files_cut(struct mm *mm) { (void)mm; }
void cpu_watch_check(struct task *t) { (void)t; }
void freeze_park(struct regs *r) { (void)r; }
void freeze_call_goes_on(struct task *t, struct regs *r) { (void)t, (void)r; }
void freeze_call_interrupted(struct task *t, struct regs *r) { (void)t, (void)r; }
bool freeze_cut_short(const struct task *t, const struct regs *r) { return (void)t, (void)r, false; }
bool vfork_parent_waits(const struct task *t, const struct regs *r) { return (void)t, (void)r, false; }
void syscall_again(struct regs *r) { (void)r; }
long sigframe_setup(struct regs *r, int sig, const void *info, const struct ksigaction *a, u64 mask);
long sigframe_setup(struct regs *r, int sig, const void *info, const struct ksigaction *a, u64 mask)
{
    return (void)r, (void)sig, (void)info, (void)a, (void)mask, 0;
}
void exit_work(struct regs *r);

static void send(struct tgroup *tg, struct task *t, int sig, int code, int value, long want)
{
    int info[32] = {sig, 0, code, 0, value};
    mutex_lock(&tasklist_lock);
    long r = signal_send_locked(tg, t, sig, info);
    mutex_unlock(&tasklist_lock);
    MUST(r == want);
}

/* Asked after a stop signal was taken and before the group stops. */
bool pgrp_orphaned(u32 pgid)
{
    if (cont_in_between)
        send(&group, NULL, SIGCONT, SI_USER, 0, 0);
    return (void)pgid, false;
}

/* ---- the model ---- */

#define BIT(sig) (1ull << ((sig) - 1))
#define STOPS (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))
#define SILENT (BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT))
#define SYNC (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGFPE) | BIT(SIGSYS))

static struct entry {
    int sig, value, queue; /* queue: task, or TASKS: the group's */
} model[1000];
static u32 count, taken;
static u64 actions[65]; /* 0 default, 1 ignored */
static u64 rng = 88172645463325252ull;

static u32 rnd(u32 n)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (u32)(rng >> 20) % n;
}

static void model_drop(u64 set)
{
    u32 out = 0;
    for (u32 i = 0; i < count; i++)
        if (!(BIT(model[i].sig) & set))
            model[out++] = model[i];
    count = out;
}

static bool unheard(int sig) { return actions[sig] == 1 || (!actions[sig] && BIT(sig) & SILENT); }

static u64 model_set(int queue)
{
    u64 set = 0;
    for (u32 i = 0; i < count; i++)
        set |= model[i].queue == queue ? BIT(model[i].sig) : 0;
    return set;
}

static void op_send(void)
{
    static const int some[] = {SIGSTOP, SIGTSTP, SIGCONT, SIGCONT, SIGTTIN, SIGCHLD, SIGSEGV, SIGUSR1, SIGUSR1, SIGTERM, SIGSYS};
    int sig = rnd(2) ? some[rnd(ARRAY_COUNT(some))] : rnd(3) ? 34 + (int)rnd(4) : 1 + (int)rnd(64);
    int queue = (int)rnd(TASKS + 1), value = (int)rnd(1u << 30);
    long want = 0;
    if (sig == SIGKILL)
        return;
    if (sig == SIGCONT)
        model_drop(STOPS);
    if (STOPS & BIT(sig))
        model_drop(BIT(SIGCONT));
    int target = queue;
    if (queue == TASKS) { /* one that does not block it, else the first */
        target = 0;
        for (int i = TASKS; i-- > 0;)
            if (!(tasks[i].blocked & BIT(sig)))
                target = i;
    }
    if (unheard(sig) && !(tasks[target].blocked & BIT(sig)))
        ;
    else if (sig < 32 && model_set(queue) & BIT(sig))
        ;
    else if (sig >= 32 && count >= LIMIT)
        want = -EAGAIN;
    else
        model[count++] = (struct entry){sig, value, queue};
    send(&group, queue == TASKS ? NULL : &tasks[queue], sig, SI_QUEUE, value, want);
    if (!want && model_set(queue) & BIT(sig) && !(tasks[target].blocked & BIT(sig)))
        MUST(tasks[target].core.work & WORK_SIGNAL);
}

static void op_take(void)
{
    int task = (int)rnd(TASKS), info[32] = {0};
    u64 mask = rnd(2) ? ~tasks[task].blocked : ~0ull << rnd(40);
    me = &tasks[task];
    MUST(signal_pending_set() == (model_set(task) | model_set(TASKS)));
    long sig = signal_dequeue(mask, info);
    int queue = model_set(task) & mask ? task : TASKS;
    u64 set = model_set(queue) & mask;
    int want = set ? __builtin_ctzll(set & SYNC ? set & SYNC : set) + 1 : 0;
    MUST(sig == want);
    taken += want != 0;
    for (u32 i = 0; want && i < count; i++)
        if (model[i].queue == queue && model[i].sig == want) {
            MUST(info[0] == want && info[4] == model[i].value);
            memmove(&model[i], &model[i + 1], (--count - i) * sizeof(model[0]));
            break;
        }
    bool work = (model_set(task) | model_set(TASKS)) & ~tasks[task].blocked;
    MUST(!(tasks[task].core.work & WORK_SIGNAL) == !work);
}

static void op_action(void)
{
    int sig = 1 + (int)rnd(64);
    if (sig == SIGKILL || sig == SIGSTOP)
        return;
    actions[sig] = group.actions[sig - 1].handler = rnd(3) ? 4096 * rnd(2) : 1;
    mutex_lock(&tasklist_lock);
    signal_drop_ignored_locked(&group, sig);
    mutex_unlock(&tasklist_lock);
    if (unheard(sig))
        model_drop(BIT(sig));
}

static void op_mask(void)
{
    int i = (int)rnd(TASKS);
    u64 mask = rnd(3) ? (u64)rnd(~0u) << rnd(34) : 0;
    signal_set_mask(&tasks[i], mask);
    MUST(tasks[i].blocked == (mask & ~(BIT(SIGKILL) | BIT(SIGSTOP))));
    bool work = (model_set(i) | model_set(TASKS)) & ~tasks[i].blocked;
    MUST(!(tasks[i].core.work & WORK_SIGNAL) == !work);
}

/* ---- stopping ---- */

static int child_news(void) /* what the parent was told last: CLD_*, 0 nothing */
{
    int info[32];
    me = &parent_task;
    return signal_dequeue(BIT(SIGCHLD), info) ? info[2] : 0;
}

static void stop(int sig)
{
    struct regs r = {.nr = ~0ull};
    send(&group, NULL, sig, SI_USER, 0, 0);
    me = &tasks[0];
    exit_work(&r);
}

static void test_stop(void)
{
    stop(SIGSTOP);
    MUST(group.stop_sig == SIGSTOP && stopped_groups == 1 && group.stop_notify && child_news() == CLD_STOPPED);
    for (u32 i = 0; i < TASKS; i++)
        MUST(tasks[i].core.work & WORK_SIGNAL);
    send(&group, NULL, SIGCONT, SI_USER, 0, 0);
    MUST(!group.stop_sig && !stopped_groups && group.cont_notify && !group.stop_notify && child_news() == CLD_CONTINUED);
    send(&group, NULL, SIGCONT, SI_USER, 0, 0);
    MUST(!child_news());

    cont_in_between = true; /* a SIGCONT that finds the stop signal taken, but nobody stopped yet */
    stop(SIGTSTP);
    MUST(!group.stop_sig && !stopped_groups && !child_news());
    cont_in_between = false;
    stop(SIGTSTP);
    MUST(group.stop_sig == SIGTSTP && child_news() == CLD_STOPPED);

    group.cont_notify = false; /* killed while stopped: the parent hears of the end, not that it goes on */
    send(&group, NULL, SIGKILL, SI_USER, 0, 0);
    MUST(!group.stop_sig && !stopped_groups && !group.cont_notify && !child_news() && group.group_exit);
    for (u32 i = 0; i < TASKS; i++)
        MUST(tasks[i].core.work & WORK_EXIT);
}

int main(void)
{
    static struct cred cred;
    for (u32 i = 0; i < TASKS; i++) {
        tasks[i].tg = &group;
        tasks[i].cred = &cred;
        list_add_tail(&group.tasks, &tasks[i].tg_link);
    }
    parent_task.tg = &parent;
    parent_task.blocked = BIT(SIGCHLD);
    list_add_tail(&parent.tasks, &parent_task.tg_link);
    group.leader = &tasks[0];
    group.parent = &parent;
    group.rlimits[11][0] = LIMIT; /* RLIMIT_SIGPENDING */
    for (u32 n = 0; n < 200000; n++) {
        static void (*const ops[])(void) = {op_send, op_send, op_send, op_take, op_take, op_action, op_mask};
        ops[rnd(ARRAY_COUNT(ops))]();
        MUST(group.queued == count && live_blocks == (long)count);
    }
    MUST(taken > 10000);
    printf("ok 1 - queues\n# %u signals taken\n", taken);
    for (u32 i = 0; i < TASKS; i++)
        signal_set_mask(&tasks[i], 0);
    for (int sig = 1; sig <= 64; sig++) {
        int info[32];
        for (u32 i = 0; i < TASKS; i++)
            for (me = &tasks[i]; signal_dequeue(BIT(sig), info);)
                ;
        group.actions[sig - 1].handler = 0;
    }
    MUST(!live_blocks && !group.queued);
    test_stop();
    printf("ok 2 - stopping\n1..2\n");
    return 0;
}
