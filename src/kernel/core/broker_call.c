#include "core/broker_call.h"
#include "arch/x86_64/regs.h"
#include "base/layout.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kstate.h"
#include "core/wait.h"

static KSTATE struct {
    struct mutex lock;
    struct waitq wait;
    u64 busy; /* slots in use */
    u32 owner[REQ_SLOTS]; /* host_tid */
} calls;

static struct r_control_guest *guest(void) { return (void *)(R_BASE + R_CONTROL_GUEST); }
static struct r_control_broker *broker(void) { return (void *)(R_BASE + R_CONTROL_BROKER); }

static int slot_take(void)
{
    int i = -1;
    mutex_lock(&calls.lock);
    u64 free = ~calls.busy & ((1ull << (REQ_SLOTS - 1)) - 1); /* the last one is for panic() */
    if (free) {
        i = __builtin_ctzll(free);
        calls.busy |= 1ull << i;
        calls.owner[i] = this_carrier()->tid;
    }
    mutex_unlock(&calls.lock);
    return i;
}

static void slot_give(int i)
{
    mutex_lock(&calls.lock);
    calls.busy &= ~(1ull << i);
    mutex_unlock(&calls.lock);
    wake_up_all(&calls.wait, 1);
}

static bool done(int i, u32 seq) { return atomic_load(&broker()->done_seq[i]) == seq; }

long broker_call(struct broker_args *a)
{
    int i;
    if (a->size + a->size2 > REQ_DATA_SIZE)
        return -ENAMETOOLONG;
    while ((i = slot_take()) < 0) {
        wait_prepare(&calls.wait);
        i = slot_take();
        if (i >= 0)
            break;
        long r = wait_sleep_killable(NO_DEADLINE);
        if (r) {
            wait_finish();
            return r;
        }
    }
    wait_finish();
    struct wire_request *q = (void *)(R_BASE + R_REQUESTS + (u64)i * R_REQUEST_STRIDE);
    *q = (struct wire_request){.op = a->op, .size = a->size + a->size2, .mount = a->mount, .handle = a->handle};
    memcpy(q->arg, a->arg, sizeof(q->arg));
    if (a->size)
        memcpy(q->data, a->data, a->size);
    if (a->size2)
        memcpy(q->data + a->size, a->data2, a->size2);
    u32 seq = guest()->req_seq[i] + 1;
    atomic_store(&guest()->req_seq[i], seq);
    host_doorbell((u32)i + 1);
    while (!done(i, seq)) { /* answered late: an event follows */
        wait_prepare(&calls.wait);
        if (done(i, seq))
            break;
        if (wait_sleep_killable(NO_DEADLINE)) /* a dying task still waits: the broker may yet write its slot */
            host_yield();
    }
    wait_finish();
    long r = q->result;
    a->value = q->value;
    a->reply_size = MIN(q->reply_size, a->reply_max);
    if (a->reply_size)
        memcpy(a->reply, q->data, a->reply_size);
    slot_give(i);
    return r;
}

void broker_notify(u32 op, u64 a0, u64 a1, u64 a2, const void *data, size_t size)
{
    struct broker_args a = {.op = op, .arg = {a0, a1, a2}, .data = data, .size = (u32)MIN(size, (size_t)REQ_DATA_SIZE)};
    broker_call(&a);
}

void broker_call_forget(u32 host_tid)
{
    for (int i = 0; i < (int)REQ_SLOTS - 1; i++)
        if (calls.busy >> i & 1 && calls.owner[i] == host_tid && done(i, atomic_load(&guest()->req_seq[i])))
            slot_give(i);
}

void broker_call_reset(void) { memset(&calls, 0, sizeof(calls)); }
void broker_call_event(void) { wake_up_all(&calls.wait, 1); }
