/* Stubs: host processes that init forked beforehand, waiting for a task to carry. A task is handed over with its program
 * (task->exec) and an empty mm; the stub loads it and becomes its carrier for good. */
#include "arch/x86_64/regs.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "host/host.h"
#include "host/hostabi.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/exec.h"
#include "proc/slot.h"
#include "proc/task.h"

#define STUBS 8
#define STUBS_SPARE 2

enum { STUB_FREE, STUB_IDLE, STUB_GIVEN };

static KSTATE struct {
    struct mutex lock;
    struct waitq wait; /* for an idle one */
    u32 idle;
    struct {
        u32 state, host_tid;
        struct task *task;
    } stub[STUBS];
} pool;

extern void enter_guest(struct regs *frame) __attribute__((noreturn)); /* entry.S */

static noreturn_fn void stub_main(int i)
{
    struct carrier *c = this_carrier();
    c->tid = pool.stub[i].host_tid;
    c->robust.next = &c->robust.next;
    c->robust.pending = NULL;
    host_robust_list(&c->robust, sizeof(c->robust));
    while (atomic_load(&pool.stub[i].state) != STUB_GIVEN)
        host_futex_wait(&pool.stub[i].state, STUB_IDLE, NO_DEADLINE);
    struct task *t = pool.stub[i].task;
    c->task = t;
    t->slot = 0;
    t->mm->live_carriers = t->mm->users = 1;
    t->mm->carriers[0] = t->mm->carriers_mapped[0] = 1;
    t->core.host_pid = c->tid;
    atomic_store(&t->core.host_tid, c->tid);
    atomic_store(&pool.stub[i].state, STUB_FREE);
    service_wake();
    cputime_enter_stub(t);
    struct exec_args *a = t->exec;
    t->exec = NULL;
    exec_finish(t, a);
    enter_guest((struct regs *)(c->kstack_top - sizeof(struct regs)));
}

void stubs_refill(void)
{
    bool made = false;
    for (int i = 0; i < STUBS && atomic_load(&pool.idle) < STUBS_SPARE; i++) {
        if (atomic_load(&pool.stub[i].state) != STUB_FREE)
            continue;
        pool.stub[i].state = STUB_IDLE;
        long r = host_clone_process(HOST_CLONE_PROCESS, &pool.stub[i].host_tid);
        if (r == 0)
            stub_main(i);
        if (r < 0) {
            pool.stub[i].state = STUB_FREE;
            klog("cannot make a spare stub: error %ld", -r);
            break;
        }
        atomic_add(&pool.idle, 1);
        made = true;
    }
    if (made)
        wake_up_all(&pool.wait, 1);
}

static bool try_give(struct task *t)
{
    bool given = false;
    mutex_lock(&pool.lock);
    for (int i = 0; i < STUBS && !given && pool.idle; i++)
        if (pool.stub[i].state == STUB_IDLE) {
            pool.stub[i].task = t;
            t->core.host_tid = 0;
            atomic_sub(&pool.idle, 1);
            atomic_store(&pool.stub[i].state, STUB_GIVEN);
            host_futex_wake(&pool.stub[i].state, 1);
            given = true;
        }
    mutex_unlock(&pool.lock);
    return given;
}

long stub_hand_over(struct task *t)
{
    if (current_task()->tid == INIT_PID)
        return try_give(t) ? 0 : -EAGAIN;
    while (!try_give(t)) {
        wait_prepare(&pool.wait);
        if (atomic_load(&pool.idle)) {
            wait_finish();
            continue;
        }
        service_wake();
        long r = wait_sleep_killable(NO_DEADLINE);
        wait_finish();
        if (r)
            return r;
    }
    return 0;
}
