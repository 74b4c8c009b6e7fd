/* The sandbox's limits as the files of one cgroup of version 2, at /sys/fs/cgroup: there run-time systems (JVM, Go, node, Python)
 * look for them, with /proc/self/cgroup saying 0::/. Read-only; nothing can be made or moved in it. Formats:
 * Documentation/admin-guide/cgroup-v2.rst. */
#include "procfs/internal.h"

#include "core/config.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/usage.h"
#include "proc/cputime.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char cgroup2_name[] = "cgroup2";

#define PERIOD_US 100000u

static long number_or_max(struct strbuf *sb, u64 value)
{
    if (value)
        sb_printf(sb, "%lu\n", value);
    else
        sb_printf(sb, "max\n");
    return 0;
}

static long show_memory_max(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    return number_or_max(sb, boot_config()->memory_max);
}

static long show_memory_current(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%lu\n", usage_memory());
    return 0;
}

static long show_memory_peak(struct pnode *n, struct strbuf *sb)
{
    struct wire_usage u;
    (void)n;
    usage_get(&u);
    sb_printf(sb, "%lu\n", u.memory_peak);
    return 0;
}

static long show_memory_events(struct pnode *n, struct strbuf *sb)
{
    struct wire_usage u;
    (void)n;
    usage_get(&u);
    sb_printf(sb, "low 0\nhigh 0\nmax 0\noom %lu\noom_kill %lu\noom_group_kill 0\n", u.oom_kills, u.oom_kills);
    return 0;
}

static long show_memory_stat(struct pnode *n, struct strbuf *sb)
{
    u64 files = dpages_used() * PAGE_SIZE, slab = kmalloc_used(), used = usage_memory();
    (void)n;
    sb_printf(sb, "anon %lu\nfile %lu\nkernel %lu\nshmem %lu\ninactive_anon 0\nactive_anon %lu\ninactive_file 0\nactive_file 0\n"
                  "slab %lu\n", used - MIN(used, files + slab), files, slab, files, used - MIN(used, files + slab), slab);
    return 0;
}

static long show_pids_max(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    return number_or_max(sb, boot_config()->pids_max);
}

static long show_pids_current(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%u\n", task_total());
    return 0;
}

static long show_cpu_max(struct pnode *n, struct strbuf *sb)
{
    u32 share = boot_config()->cpus_milli;
    (void)n;
    if (share)
        sb_printf(sb, "%u %u\n", share * (PERIOD_US / 1000), PERIOD_US);
    else
        sb_printf(sb, "max %u\n", PERIOD_US);
    return 0;
}

/* Without a count of the host's: what living processes and those they waited for have used. */
static u64 own_cpu_ns(void)
{
    u64 ns = 0;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *tg = tgroup_next_locked(1); tg; tg = tgroup_next_locked(tg->tgid + 1))
        ns += cputime_seen(tg) + tg->cutime + tg->cstime;
    mutex_unlock(&tasklist_lock);
    return ns;
}

static long show_cpu_stat(struct pnode *n, struct strbuf *sb)
{
    struct wire_usage u;
    (void)n;
    usage_get(&u);
    u64 us = (u.cpu_ns == ~0ull ? own_cpu_ns() : u.cpu_ns) / 1000;
    sb_printf(sb, "usage_usec %lu\nuser_usec %lu\nsystem_usec 0\n", us, us);
    return 0;
}

static long show_cpus(struct pnode *n, struct strbuf *sb)
{
    u32 total = cpu_total();
    (void)n;
    sb_printf(sb, total > 1 ? "0-%u\n" : "%u\n", total - 1);
    return 0;
}

static long show_procs(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    mutex_lock(&tasklist_lock);
    for (struct tgroup *tg = tgroup_next_locked(1); tg; tg = tgroup_next_locked(tg->tgid + 1))
        sb_printf(sb, "%u\n", tg->tgid);
    mutex_unlock(&tasklist_lock);
    return 0;
}

#define SHOW(n, f) {.name = n, .perm = 0444, .kind = PK_FILE, .show = f}
#define TEXT(n, t) {.name = n, .perm = 0444, .kind = PK_FILE, .text = t}

static const struct pentry root_entries[] = {
    TEXT("cgroup.controllers", "cpuset cpu memory pids\n"),
    TEXT("cgroup.subtree_control", "\n"),
    TEXT("cgroup.type", "domain\n"),
    TEXT("cgroup.events", "populated 1\nfrozen 0\n"),
    TEXT("cgroup.freeze", "0\n"),
    TEXT("cgroup.max.depth", "0\n"),
    TEXT("cgroup.max.descendants", "0\n"),
    SHOW("cgroup.procs", show_procs),
    SHOW("cgroup.threads", show_procs),
    SHOW("cpu.max", show_cpu_max),
    SHOW("cpu.stat", show_cpu_stat),
    TEXT("cpu.weight", "100\n"),
    SHOW("cpuset.cpus", show_cpus),
    SHOW("cpuset.cpus.effective", show_cpus),
    TEXT("cpuset.mems.effective", "0\n"),
    SHOW("memory.current", show_memory_current),
    SHOW("memory.events", show_memory_events),
    TEXT("memory.high", "max\n"),
    TEXT("memory.low", "0\n"),
    SHOW("memory.max", show_memory_max),
    TEXT("memory.min", "0\n"),
    TEXT("memory.oom.group", "0\n"),
    SHOW("memory.peak", show_memory_peak),
    SHOW("memory.stat", show_memory_stat),
    TEXT("memory.swap.current", "0\n"),
    TEXT("memory.swap.max", "0\n"),
    SHOW("pids.current", show_pids_current),
    SHOW("pids.max", show_pids_max),
    {0},
};
static const struct pentry root_dir = {.name = "", .perm = 0555, .kind = PK_DIR, .sub = root_entries};

long cgroupfs_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    (void)source;
    (void)flags;
    (void)options;
    return pnode_mount(cgroup2_name, 0x63677270, &root_dir, out);
}
