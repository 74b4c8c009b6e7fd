/* Files of /proc that say little in a sandbox, but that programs open: fixed or simple texts. Formats: proc(5), and what Linux prints. */
#include "procfs/internal.h"

#include "core/dframe.h"
#include "core/kmalloc.h"
#include "ipc/sysv.h"
#include "mm/mm.h"

#define TEXT(n, t) {.name = n, .perm = 0444, .kind = PK_FILE, .text = t}
#define SHOW(n, f) {.name = n, .perm = 0444, .kind = PK_FILE, .show = f}
#define LINK(n, t) {.name = n, .perm = 0777, .kind = PK_LINK, .text = t}

/* One name space of each kind: the sandbox. */
const struct pentry proc_ns_entries[] = {
    LINK("cgroup", "cgroup:[4026531835]"), LINK("ipc", "ipc:[4026531839]"),
    LINK("mnt", "mnt:[4026531832]"), LINK("net", "net:[4026531833]"),
    LINK("pid", "pid:[4026531836]"), LINK("pid_for_children", "pid:[4026531836]"),
    LINK("time", "time:[4026531834]"), LINK("time_for_children", "time:[4026531834]"),
    LINK("user", "user:[4026531837]"), LINK("uts", "uts:[4026531838]"),
    {0},
};

long proc_show_vmstat(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    sb_printf(sb, "nr_free_pages %lu\nnr_anon_pages 0\nnr_mapped 0\nnr_file_pages %lu\nnr_dirty 0\nnr_writeback 0\nnr_shmem %lu\n"
                  "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n",
              dpages_limit() ? dpages_limit() - MIN(dpages_limit(), dpages_used()) : 1ul << 20, dpages_used(), dpages_used());
    return 0;
}

static long show_sysv_msg(struct pnode *n, struct strbuf *sb) { return (void)n, sysv_show_msg(sb), 0; }
static long show_sysv_sem(struct pnode *n, struct strbuf *sb) { return (void)n, sysv_show_sem(sb), 0; }
static long show_sysv_shm(struct pnode *n, struct strbuf *sb) { return (void)n, sysv_show_shm(sb), 0; }

const struct pentry proc_sysvipc_entries[] = {SHOW("msg", show_sysv_msg), SHOW("sem", show_sysv_sem), SHOW("shm", show_sysv_shm), {0}};

const struct pentry proc_kernel_more[] = {
    TEXT("shmmax", "68719476736\n"), TEXT("shmall", "16777216\n"), TEXT("shmmni", "1024\n"), /* ipc/sysv_shm.c */
    TEXT("sem", "32000\t1024000000\t500\t1024\n"), TEXT("msgmax", "8192\n"), TEXT("msgmnb", "16384\n"),
    TEXT("msgmni", "1024\n"), TEXT("perf_event_paranoid", "4\n"), TEXT("kptr_restrict", "2\n"),
    TEXT("dmesg_restrict", "1\n"), TEXT("printk", "4\t4\t1\t7\n"), TEXT("tainted", "0\n"),
    TEXT("panic", "0\n"), TEXT("sched_rr_timeslice_ms", "100\n"), TEXT("sched_autogroup_enabled", "0\n"),
    TEXT("core_uses_pid", "0\n"), TEXT("io_uring_disabled", "2\n"), TEXT("unprivileged_bpf_disabled", "2\n"),
    {0},
};

const struct pentry proc_vm_more[] = {
    TEXT("swappiness", "60\n"), TEXT("overcommit_ratio", "50\n"), TEXT("nr_hugepages", "0\n"),
    TEXT("dirty_ratio", "20\n"), TEXT("dirty_background_ratio", "10\n"), TEXT("vfs_cache_pressure", "100\n"),
    TEXT("min_free_kbytes", "67584\n"), TEXT("panic_on_oom", "0\n"),
    {0},
};

static const struct pentry mqueue_entries[] = { /* sys/sys_mqueue.c */
    TEXT("queues_max", "256\n"), TEXT("msg_max", "10\n"), TEXT("msg_default", "10\n"), TEXT("msgsize_max", "8192\n"),
    TEXT("msgsize_default", "8192\n"),
    {0},
};

const struct pentry proc_sys_fs_more[] = {
    TEXT("pipe-user-pages-soft", "0\n"), TEXT("pipe-user-pages-hard", "0\n"), TEXT("lease-break-time", "45\n"),
    TEXT("leases-enable", "0\n"), TEXT("protected_hardlinks", "0\n"), TEXT("protected_symlinks", "0\n"),
    {.name = "mqueue", .perm = 0555, .kind = PK_DIR, .sub = mqueue_entries},
    {0},
};

const struct pentry proc_ipv4_entries[] = {
    TEXT("ip_local_port_range", "32768\t60999\n"), TEXT("ip_forward", "0\n"), TEXT("tcp_rmem", "4096\t131072\t6291456\n"),
    TEXT("tcp_wmem", "4096\t16384\t4194304\n"), TEXT("tcp_syncookies", "1\n"), TEXT("tcp_fin_timeout", "60\n"),
    TEXT("tcp_keepalive_time", "7200\n"), TEXT("tcp_keepalive_intvl", "75\n"), TEXT("tcp_keepalive_probes", "9\n"),
    TEXT("ip_default_ttl", "64\n"), TEXT("ip_unprivileged_port_start", "1024\n"), TEXT("tcp_congestion_control", "cubic\n"),
    TEXT("ping_group_range", "1\t0\n"),
    {0},
};

const struct pentry proc_net_more[] = {
    TEXT("raw", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"),
    TEXT("packet", "sk       RefCnt Type Proto  Iface R Rmem   User   Inode\n"),
    TEXT("route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT                                 "
                  "                      \n"),
    TEXT("if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"),
    TEXT("arp", "IP address       HW type     Flags       HW address            Mask     Device\n"),
    TEXT("sockstat", "sockets: used 0\nTCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0\nUDP: inuse 0 mem 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n"),
    {0},
};

const struct pentry proc_root_more[] = {
    TEXT("diskstats", ""), TEXT("partitions", "major minor  #blocks  name\n\n"), TEXT("modules", ""), TEXT("locks", ""),
    TEXT("devices", "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n"),
    TEXT("cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n"),
    TEXT("interrupts", "           CPU0       \n"), TEXT("consoles", ""), TEXT("execdomains", "0-0\tLinux           \t[kernel]\n"),
    TEXT("misc", ""), TEXT("buddyinfo", ""), TEXT("key-users", ""),
    {0},
};
