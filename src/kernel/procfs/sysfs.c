/* A minimal /sys: what run-time systems look at to count processors, the one network interface, the places where others are mounted, and empty
 * directories for those who list devices. */
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
/* lo: its counters are those of /proc/net/dev, which does not count. */
static const struct pentry lo_statistics[] = {
    TEXT("rx_bytes", "0\n"), TEXT("rx_dropped", "0\n"), TEXT("rx_errors", "0\n"), TEXT("rx_packets", "0\n"),
    TEXT("tx_bytes", "0\n"), TEXT("tx_dropped", "0\n"), TEXT("tx_errors", "0\n"), TEXT("tx_packets", "0\n"), {0}};
static const struct pentry lo_entries[] = {
    TEXT("addr_len", "6\n"), TEXT("address", "00:00:00:00:00:00\n"), TEXT("broadcast", "00:00:00:00:00:00\n"), TEXT("carrier", "1\n"),
    TEXT("dormant", "0\n"), TEXT("flags", "0x9\n"), TEXT("ifindex", "1\n"), TEXT("iflink", "1\n"), TEXT("link_mode", "0\n"),
    TEXT("mtu", "65536\n"), TEXT("operstate", "unknown\n"), DIR("statistics", lo_statistics), TEXT("tx_queue_len", "1000\n"),
    TEXT("type", "772\n"), TEXT("uevent", "INTERFACE=lo\nIFINDEX=1\n"), {0}};
static const struct pentry net_entries[] = {DIR("lo", lo_entries), {0}};
static const struct pentry class_entries[] = {DIR("block", none), DIR("net", net_entries), DIR("tty", none), {0}};
static const struct pentry dev_entries[] = {DIR("block", none), DIR("char", none), {0}};
static const struct pentry root_entries[] = {
    DIR("block", none), DIR("bus", none), DIR("class", class_entries), DIR("dev", dev_entries), DIR("devices", devices_entries),
    DIR("fs", fs_entries), DIR("kernel", kernel_entries), DIR("module", none), {0}};
static const struct pentry root_dir = DIR("", root_entries);

const struct pentry sys_cpu_dir = DIR("", none);

long sysfs_mount(const char *source, u32 flags, const char *options, struct super_block **out)
{
    (void)source;
    (void)flags;
    (void)options;
    return pnode_mount(sysfs_name, 0x62656572, &root_dir, out);
}
