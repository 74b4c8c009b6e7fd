/* The service thread's side of pausing, snapshots and coming back. See snapshot.h. */
#include "snapshot/snapshot.h"
#include "base/string.h"
#include "core/broker_call.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "fs/hostfs/hostfs.h"
#include "host/host.h"
#include "host/vdso.h"
#include "mm/mm.h"
#include "proc/freeze.h"
#include "proc/task.h"
#include "sys/trace.h"
#include "tty/stream.h"
#include "wire/view.h"
#include <linux/time.h>

#define LOOK_AGAIN_NS 20000000ull /* whoever parks or ends wakes us */
#define CLOCK_SLACK_NS 1000000000ull /* less is the adjustment of clocks */

static KSTATE struct {
    bool paused; /* stays frozen until told otherwise */
    bool asked;  /* an order is under way */
    bool has_id; /* the machine had one when it was frozen */
    u32 order, number;
    u64 monotonic, realtime; /* when it was frozen */
} state;

/* ---- what is dropped or made whole before the copy ---- */

static long copy_sites(struct mm *mm)
{
    for (u32 i = 0; i < mm->count; i++) {
        struct vview *w = mm->vmas[i].map ? mm->vmas[i].map->view : NULL;
        u64 size = w ? w->e.sites_count * sizeof(struct view_site) : 0;
        if (!w || w->sites || w->fd < FD_VIEWS_OWN)
            continue;
        if (!(w->sites = kmalloc(size)))
            return -ENOMEM;
        memcpy(w->sites, (const char *)CONTAINER_BASE(w->fd) + w->e.sites_off, size);
    }
    return 0;
}

static long make_whole(u32 *spaces)
{
    struct task *t;
    long r = 0;
    u32 mark = state.number | 0x80000000u; /* the orders of freeze.c count from 1 */
    *spaces = 0;
    state.monotonic = host_clock(CLOCK_MONOTONIC);
    state.realtime = host_clock(CLOCK_REALTIME);
    state.has_id = machine_has_id();
    hostfs_forget();
    for (struct tgroup *g = tgroup_next_locked(2); g && !r; g = tgroup_next_locked(g->tgid + 1))
        list_for_each(t, &g->tasks, tg_link) {
            if (t->exited || !t->mm || r)
                continue;
            if (t->parked != TASK_PARKED)
                r = -ENOMEM;
            if (t->mm->freeze_order == mark)
                continue;
            t->mm->freeze_order = mark;
            ++*spaces;
            if (!r)
                r = copy_sites(t->mm);
        }
    return r ? r : streams_stash();
}

/* ---- orders ---- */

static void thaw(void)
{
    state.paused = state.asked = false;
    streams_unstash();
    freeze_end();
}

void snapshot_mail(const struct mail_freeze *m)
{
    state.order = m->order;
    state.number = m->number;
    if (m->order == FREEZE_THAW) {
        if (state.asked)
            freeze_tell();
        if (freeze_begun())
            thaw();
        return;
    }
    state.asked = true;
    if (!freeze_begun())
        freeze_begin();
}

/* All tasks are parked. */
static void frozen(void)
{
    u32 spaces = 0;
    long r = state.order == FREEZE_COPY ? make_whole(&spaces) : 0;
    struct broker_args a = {.op = WIRE_FROZEN, .arg = {state.number, (u64)-r, spaces}};
    long copied = broker_call(&a);
    state.asked = false;
    if (state.order == FREEZE_STAY) {
        state.paused = true;
        return;
    }
    if (!r && !copied) {
        dump_begin(state.number, a.value, spaces);
        r = freeze_in_each_mm(dump_fork);
        if (r) {
            struct broker_args failed = {.op = WIRE_DUMPED, .arg = {state.number, (u64)-r}};
            broker_call(&failed);
        }
    }
    if (!state.paused)
        thaw();
}

bool snapshot_service(u64 *deadline)
{
    if (state.asked && freeze_complete())
        frozen();
    *deadline = state.asked ? host_clock(CLOCK_MONOTONIC) + LOOK_AGAIN_NS : NO_DEADLINE;
    return !freeze_begun();
}

/* ---- coming back ---- */

/* The guest's monotonic clocks go on by what real time has passed. On the host the snapshot was made on, since its start, that is what
 * its own clock says. */
static void set_clocks(void)
{
    u64 real = host_clock(CLOCK_REALTIME), now = host_clock(CLOCK_MONOTONIC);
    u64 right = state.monotonic + (real > state.realtime ? real - state.realtime : 0);
    u64 off = right > now ? right - now : now - right;
    if (now < state.monotonic || off > CLOCK_SLACK_NS)
        VDSO_DATA->since_start_ns += (s64)(right - now);
}

void snapshot_reset(void)
{
    state.paused = state.asked = false;
    freeze_reset();
    dump_reset();
    broker_call_reset();
    stubs_reset();
    streams_reset();
    trace_reset();
}

long snapshot_restore(const struct mail_restore *m)
{
    set_clocks();
    restore_levels(m->levels);
    hostfs_restored();
    long r = restore_processes();
    if (!r)
        machine_changed(state.has_id);
    return r;
}

void snapshot_attached(const struct mail_attach *m, u32 size)
{
    machine_env((const char *)(m + 1), size - (u32)sizeof(*m));
    set_clocks();
    streams_attached(m);
    freeze_end();
}
