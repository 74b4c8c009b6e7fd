/* The files of /proc that describe the machine and the kernel. Formats: proc(5).
 * Processor times are not accounted per processor: the cpu lines of stat show idle
 * time only. */
#include "procfs/internal.h"

#include <cpuid.h>

#include "base/string.h"
#include "core/config.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/random.h"
#include "core/usage.h"
#include "host/host.h"
#include "net/show.h"

#define NS 1000000000ull
#define RELEASE "6.12.0-harena" /* as uname() says */
#define VERSION "#1 SMP PREEMPT_DYNAMIC Harena"

u32 cpu_total(void)
{
    u32 n = boot_config()->cpu_count;
    return n ? MIN(n, 1024u) : 1;
}

static long show_meminfo(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u64 total = memory_total(), files = dpages_used() * PAGE_SIZE, slab = kmalloc_used();
    u64 used = MIN(total, usage_memory()), anon = used - MIN(used, files + slab);
    const struct {
        const char *name;
        u64 bytes;
    } lines[] = {
        {"MemTotal", total}, {"MemFree", total - used}, {"MemAvailable", total - used}, {"Buffers", 0},
        {"Cached", files},
        {"SwapCached", 0}, {"Active", files}, {"Inactive", 0}, {"SwapTotal", 0}, {"SwapFree", 0},
        {"Dirty", 0}, {"Writeback", 0}, {"AnonPages", anon}, {"Mapped", 0}, {"Shmem", files},
        {"KReclaimable", 0},  {"Slab", slab},            {"SReclaimable", 0},            {"SUnreclaim", slab},
        {"CommitLimit", total}, {"Committed_AS", used},  {"VmallocTotal", 0},            {"VmallocUsed", 0},
    };
    for (u32 l = 0; l < ARRAY_COUNT(lines); l++) {
        int pad = 15 - (int)strlen(lines[l].name);
        sb_printf(sb, "%s:%*s%8lu kB\n", lines[l].name, pad, "", lines[l].bytes >> 10);
    }
    sb_printf(sb, "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n");
    return 0;
}

struct cpu_flag {
    char name[13];
    u8 leaf, reg, bit; /* leaf 1, 7 or 0x81 (0x80000001); reg 0..3: eax .. edx */
};

static void show_flags(struct strbuf *sb)
{
    static const struct cpu_flag flags[] = {
        {"fpu", 1, 3, 0},      {"tsc", 1, 3, 4},       {"msr", 1, 3, 5},       {"pae", 1, 3, 6},       {"cx8", 1, 3, 8},
        {"apic", 1, 3, 9}, {"cmov", 1, 3, 15}, {"clflush", 1, 3, 19}, {"mmx", 1, 3, 23}, {"fxsr", 1, 3, 24},
        {"sse", 1, 3, 25}, {"sse2", 1, 3, 26}, {"ht", 1, 3, 28}, {"syscall", 0x81, 3, 11}, {"nx", 0x81, 3, 20},
        {"rdtscp", 0x81, 3, 27}, {"lm", 0x81, 3, 29}, {"pni", 1, 2, 0}, {"pclmulqdq", 1, 2, 1}, {"ssse3", 1, 2, 9},
        {"fma", 1, 2, 12}, {"cx16", 1, 2, 13}, {"sse4_1", 1, 2, 19}, {"sse4_2", 1, 2, 20}, {"movbe", 1, 2, 22},
        {"popcnt", 1, 2, 23}, {"aes", 1, 2, 25}, {"xsave", 1, 2, 26}, {"avx", 1, 2, 28}, {"f16c", 1, 2, 29},
        {"rdrand", 1, 2, 30}, {"hypervisor", 1, 2, 31}, {"lahf_lm", 0x81, 2, 0}, {"abm", 0x81, 2, 5},
        {"sse4a", 0x81, 2, 6},
        {"fsgsbase", 7, 1, 0}, {"bmi1", 7, 1, 3}, {"avx2", 7, 1, 5}, {"bmi2", 7, 1, 8}, {"erms", 7, 1, 9},
        {"avx512f", 7, 1, 16}, {"avx512dq", 7, 1, 17}, {"rdseed", 7, 1, 18}, {"adx", 7, 1, 19},
        {"clflushopt", 7, 1, 23},
        {"avx512cd", 7, 1, 28}, {"sha_ni", 7, 1, 29}, {"avx512bw", 7, 1, 30}, {"avx512vl", 7, 1, 31},
        {"vaes", 7, 2, 9},
    };
    u32 r[3][4] = {{0}};
    __get_cpuid(1, &r[0][0], &r[0][1], &r[0][2], &r[0][3]);
    __get_cpuid_count(7, 0, &r[1][0], &r[1][1], &r[1][2], &r[1][3]);
    __get_cpuid(0x80000001u, &r[2][0], &r[2][1], &r[2][2], &r[2][3]);
    for (u32 n = 0; n < ARRAY_COUNT(flags); n++) {
        const struct cpu_flag *f = &flags[n];
        u32 set = f->leaf == 1 ? 0 : f->leaf == 7 ? 1 : 2;
        if (r[set][f->reg] >> f->bit & 1)
            sb_printf(sb, " %s", f->name);
    }
}

static long show_cpuinfo(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u32 a = 0, b = 0, c = 0, d = 0, name[13] = {0}, vendor[4] = {0};
    __get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]);
    for (u32 k = 0; k < 3; k++)
        __get_cpuid(0x80000002u + k, &name[k * 4], &name[k * 4 + 1], &name[k * 4 + 2], &name[k * 4 + 3]);
    __get_cpuid(1, &a, &b, &c, &d);
    u32 family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 6 || family == 15)
        model |= (a >> 16 & 15) << 4;
    if (family == 15)
        family += a >> 20 & 255;
    u32 total = cpu_total();
    for (u32 cpu = 0; cpu < total; cpu++) {
        sb_printf(sb, "processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\nmodel name\t: %s\n", cpu,
                  (char *)vendor, family, model, name[0] ? (char *)name : "unknown");
        sb_printf(sb, "stepping\t: %u\nphysical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: %u\n",
                  a & 15, total, cpu, total);
        sb_printf(sb, "fpu\t\t: yes\nfpu_exception\t: yes\nwp\t\t: yes\nflags\t\t:");
        show_flags(sb);
        sb_printf(sb, "\nclflush size\t: %u\naddress sizes\t: 46 bits physical, 48 bits virtual\n\n",
                  (b >> 8 & 255) * 8);
    }
    return 0;
}

struct counts {
    u32 threads, running, processes, last;
};

static struct counts count_tasks(void)
{
    struct counts c = {0};
    mutex_lock(&tasklist_lock);
    for (struct tgroup *tg = tgroup_next_locked(1); tg; tg = tgroup_next_locked(tg->tgid + 1)) {
        struct task *t;
        c.processes++;
        c.last = tg->tgid;
        list_for_each(t, &tg->tasks, tg_link)
        {
            c.threads++;
            c.running += atomic_load_relaxed(&t->core.wake) != WAKE_SLEEPING;
        }
    }
    mutex_unlock(&tasklist_lock);
    return c;
}

static long show_stat(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u64 up = host_clock(1), now = host_clock(0);
    u64 ticks = up / (NS / 100);
    u32 total = cpu_total();
    struct counts c = count_tasks();
    sb_printf(sb, "cpu  0 0 0 %lu 0 0 0 0 0 0\n", ticks * total);
    for (u32 cpu = 0; cpu < total; cpu++)
        sb_printf(sb, "cpu%u 0 0 0 %lu 0 0 0 0 0 0\n", cpu, ticks);
    sb_printf(sb, "intr 0\nctxt 0\nbtime %lu\nprocesses %u\nprocs_running %u\nprocs_blocked 0\nsoftirq 0\n",
              (u64)((now - up) / NS), c.last, c.running);
    return 0;
}

static long show_uptime(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u64 cs = host_clock(1) / (NS / 100), idle = cs * cpu_total();
    sb_printf(sb, "%lu.%02lu %lu.%02lu\n", cs / 100, cs % 100, idle / 100, idle % 100);
    return 0;
}

static long show_loadavg(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    struct counts c = count_tasks();
    sb_printf(sb, "0.00 0.00 0.00 %u/%u %u\n", c.running, c.threads, c.last);
    return 0;
}

static long show_filesystems(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    const char *name;
    for (u32 k = 0; (name = filesystem_name(k)); k++)
        sb_printf(sb, "%s\t%s\n", strcmp(name, "erofs") ? "nodev" : "", name);
    return 0;
}

static long show_hostname(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%s\n", boot_config()->hostname[0] ? boot_config()->hostname : "harena");
    return 0;
}

/* Of 16 random bytes (RFC 9562, version 4). */
static void print_uuid(struct strbuf *sb, const u8 random[16])
{
    u8 b[16];
    memcpy(b, random, sizeof(b));
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    for (u32 k = 0; k < 16; k++)
        sb_printf(sb, k == 4 || k == 6 || k == 8 || k == 10 ? "-%02x" : "%02x", b[k]);
    sb_write(sb, "\n", 1);
}

static long show_boot_id(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    print_uuid(sb, boot_id());
    return 0;
}

static long show_uuid(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    u8 b[16];
    random_bytes(b, sizeof(b));
    print_uuid(sb, b);
    return 0;
}

static long show_file_max(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%u\n", files_max());
    return 0;
}

static long show_file_nr(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%u\t0\t%u\n", files_count(), files_max());
    return 0;
}

static long show_nr_open(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%u\n", NOFILE_MAX);
    return 0;
}

static long show_threads_max(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "%u\n", boot_config()->pids_max ? boot_config()->pids_max : 32768);
    return 0;
}

#define AF_INET_ 2
#define AF_INET6_ 10
#define SHOW(n, f) {.name = n, .perm = 0444, .kind = PK_FILE, .show = f}
#define TEXT(n, t) {.name = n, .perm = 0444, .kind = PK_FILE, .text = t}
#define DIR(n, s) {.name = n, .perm = 0555, .kind = PK_DIR, .sub = s}
#define LINK(n, t) {.name = n, .perm = 0777, .kind = PK_LINK, .text = t}

static const struct pentry random_entries[] = {
    SHOW("boot_id", show_boot_id), SHOW("uuid", show_uuid), TEXT("entropy_avail", "256\n"),
    TEXT("poolsize", "256\n"), {0}};

static const struct pentry kernel_entries[] = {
    SHOW("hostname", show_hostname),
    TEXT("domainname", "(none)\n"),
    TEXT("osrelease", RELEASE "\n"),
    TEXT("ostype", "Linux\n"),
    TEXT("version", VERSION "\n"),
    TEXT("pid_max", "32768\n"),
    TEXT("ngroups_max", "65536\n"),
    TEXT("cap_last_cap", "40\n"),
    TEXT("overflowuid", "65534\n"),
    TEXT("overflowgid", "65534\n"),
    TEXT("core_pattern", "core\n"),
    SHOW("threads-max", show_threads_max),
    TEXT("randomize_va_space", "2\n"),
    DIR("random", random_entries),
    {.sub = proc_kernel_more},
};
static const struct pentry vm_entries[] = {
    TEXT("overcommit_memory", "1\n"), TEXT("max_map_count", "65530\n"), TEXT("mmap_min_addr", "65536\n"),
    {.sub = proc_vm_more}};
static const struct pentry inotify_entries[] = {
    TEXT("max_user_watches", "65536\n"), TEXT("max_user_instances", "128\n"),
    TEXT("max_queued_events", "16384\n"), {0}};
static const struct pentry sys_fs_entries[] = {
    SHOW("file-max", show_file_max), SHOW("nr_open", show_nr_open), SHOW("file-nr", show_file_nr), TEXT("pipe-max-size", "1048576\n"),
    DIR("inotify", inotify_entries), {.sub = proc_sys_fs_more},
};
static const struct pentry core_entries[] = {TEXT("somaxconn", "4096\n"), {0}};
static const struct pentry sys_net_entries[] = {DIR("core", core_entries), DIR("ipv4", proc_ipv4_entries), {0}};
static const struct pentry sys_entries[] = {
    DIR("kernel", kernel_entries), DIR("vm", vm_entries), DIR("fs", sys_fs_entries), DIR("net", sys_net_entries), {0}};

#define INET_END "retrnsmt   uid  timeout inode"

static long show_tcp(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when " INET_END "\n");
    inet_show(sb, true, AF_INET_);
    return 0;
}

static long show_tcp6(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when "
                  INET_END "\n");
    inet_show(sb, true, AF_INET6_);
    return 0;
}

static long show_udp(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when " INET_END " ref pointer drops\n");
    inet_show(sb, false, AF_INET_);
    return 0;
}

static long show_udp6(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when "
                  INET_END " ref pointer drops\n");
    inet_show(sb, false, AF_INET6_);
    return 0;
}

static long show_unix(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "Num       RefCount Protocol Flags    Type St Inode Path\n");
    unix_show(sb);
    return 0;
}

static const struct pentry net_entries[] = {
    TEXT("dev", "Inter-|   Receive                                                |  Transmit\n"
                " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
                "carrier compressed\n"
                "    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n"),
    SHOW("tcp", show_tcp),
    SHOW("tcp6", show_tcp6),
    SHOW("udp", show_udp),
    SHOW("udp6", show_udp6),
    SHOW("unix", show_unix),
    {.sub = proc_net_more},
};

const struct pentry proc_root_entries[] = {
    {.name = "self", .perm = 0777, .kind = PK_SELF},
    {.name = "thread-self", .perm = 0777, .kind = PK_SELF, .text = "thread"},
    LINK("mounts", "self/mounts"),
    SHOW("meminfo", show_meminfo),
    SHOW("cpuinfo", show_cpuinfo),
    SHOW("stat", show_stat),
    SHOW("uptime", show_uptime),
    SHOW("loadavg", show_loadavg),
    TEXT("version", "Linux version " RELEASE " (harena) " VERSION "\n"),
    SHOW("filesystems", show_filesystems),
    TEXT("cmdline", "\n"),
    TEXT("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
    DIR("sys", sys_entries),
    DIR("net", net_entries),
    DIR("sysvipc", proc_sysvipc_entries),
    SHOW("vmstat", proc_show_vmstat),
    {.sub = proc_root_more},
};
