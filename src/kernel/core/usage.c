/* See usage.h. The broker reads the counts of its cgroups (broker/limits.c): a doorbell, so not for hot paths. */
#include "core/usage.h"
#include "core/broker_call.h"
#include "core/config.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "base/string.h"

static KSTATE u64 peak; /* of what we know ourselves, as of the looks at it */

u64 memory_total(void) { return boot_config()->memory_max ? boot_config()->memory_max : MEMORY_DEFAULT; }

/* Files in memory and the kernel's own; private memory is the host's business. */
static u64 own_memory(void)
{
    u64 used = dpages_used() * PAGE_SIZE + kmalloc_used();
    peak = MAX(peak, used);
    return used;
}

void usage_get(struct wire_usage *u)
{
    memset(u, 0xff, sizeof(*u));
    if (boot_config()->memory_max || boot_config()->flags & BOOT_CPU_COUNT) {
        struct broker_args a = {.op = WIRE_USAGE, .reply = u, .reply_max = sizeof(*u)};
        if (broker_call(&a) < 0 || a.reply_size != sizeof(*u))
            memset(u, 0xff, sizeof(*u));
    }
    if (u->memory == ~0ull)
        u->memory = own_memory();
    if (u->memory_peak == ~0ull)
        u->memory_peak = MAX(peak, u->memory);
    if (u->oom_kills == ~0ull)
        u->oom_kills = 0;
}

u64 usage_memory(void)
{
    struct wire_usage u;
    usage_get(&u);
    return u.memory;
}
