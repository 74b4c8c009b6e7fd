/* A minimal /sys: what run-time systems look at to count processors, and the places where others are mounted. */
#include "procfs/internal.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char sysfs_name[] = "sysfs";

static long show_cpus(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u32 total = cpu_total();
    if (total > 1)
        sb_printf(sb, "0-%u\n", total - 1);
    else
        sb_printf(sb, "0\n");
    return 0;
}

#define SHOW(n, f) {.name = n, .perm = 0444, .kind = PK_FILE, .show = f}
#define TEXT(n, t) {.name = n, .perm = 0444, .kind = PK_FILE, .text = t}
#define DIR(n, s) {.name = n, .perm = 0755, .kind = PK_DIR, .sub = s}

static const struct pentry none[] = {{0}};
static const struct pentry cpu_entries[] = {
    SHOW("online", show_cpus), SHOW("possible", show_cpus), SHOW("present", show_cpus), {0}};
static const struct pentry system_entries[] = {
    {.name = "cpu", .perm = 0755, .kind = PK_CPUS, .sub = cpu_entries}, {0}};
static const struct pentry devices_entries[] = {DIR("system", system_entries), {0}};
static const struct pentry thp_entries[] = {TEXT("enabled", "always [madvise] never\n"), {0}};
static const struct pentry mm_entries[] = {DIR("transparent_hugepage", thp_entries), {0}};
static const struct pentry kernel_entries[] = {DIR("mm", mm_entries), {0}};
static const struct pentry fs_entries[] = {DIR("cgroup", none), {0}};
static const struct pentry root_entries[] = {
    DIR("devices", devices_entries), DIR("kernel", kernel_entries), DIR("fs", fs_entries), {0}};
static const struct pentry root_dir = DIR("", root_entries);

const struct pentry sys_cpu_dir = DIR("", none);

long sysfs_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    (void)source;
    (void)flags;
    (void)options;
    return pnode_mount(sysfs_name, 0x62656572, &root_dir, out);
}
