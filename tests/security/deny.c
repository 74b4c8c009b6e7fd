/* deny WHAT COMMAND...: runs a command on a host that lacks something. Letters of WHAT, one or more:
 *
 *   u   user namespaces
 *   o   openat2
 *   l   Landlock
 *   p   looking into other processes, as with kernel.yama.ptrace_scope=3
 *   d   what the default seccomp profile of Docker (moby/profiles/seccomp/default.json) refuses a container without CAP_SYS_ADMIN,
 *       CAP_SYS_PTRACE and the like */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NEW_NAMESPACES 0x7e020000 /* CLONE_NEW* but NEWTIME, which clone() cannot ask for */

static const int landlock[] = { SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self };
static const int others[] = { SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp };
static const int docker[] = {
    SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_create_module, SYS_delete_module, SYS_fanotify_init,
    SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_get_kernel_syms, SYS_get_mempolicy, SYS_init_module,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_ioperm, SYS_iopl, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load,
    SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_mount, SYS_mount_setattr, SYS_move_mount, SYS_move_pages, SYS_nfsservctl,
    SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pidfd_getfd, SYS_pivot_root, SYS_process_madvise, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_ptrace, SYS_query_module, SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_request_key, SYS_set_mempolicy,
    SYS_setdomainname, SYS_sethostname, SYS_setns, SYS_settimeofday, SYS_swapoff, SYS_swapon, SYS_syslog, SYS_sysfs, SYS__sysctl,
    SYS_umount2, SYS_unshare, SYS_uselib, SYS_userfaultfd, SYS_ustat, SYS_vhangup,
};

static int install(struct sock_filter *f, unsigned short count)
{
    struct sock_fprog p = { count, f };
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

static int refuse(const int *calls, size_t count, int error)
{
    struct sock_filter f[2 * 128 + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
    unsigned short n = 1;
    for (size_t i = 0; i < count; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return install(f, n);
}

/* clone and unshare with any of the flags; clone3, whose flags no filter sees, does not exist. */
static int refuse_namespaces(unsigned flags)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(f, COUNT(f));
}

static int deny(char what)
{
    static const int openat2[] = { SYS_openat2 };
    switch (what) {
    case 'u': return refuse_namespaces(0x10000000 /* CLONE_NEWUSER */);
    case 'o': return refuse(openat2, 1, ENOSYS);
    case 'l': return refuse(landlock, COUNT(landlock), ENOSYS);
    case 'p': return refuse(others, COUNT(others), EPERM);
    case 'd': return refuse_namespaces(NEW_NAMESPACES) || refuse(docker, COUNT(docker), EPERM);
    }
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return 125;
    for (const char *w = argv[1]; *w; w++)
        if (deny(*w))
            return 125;
    execvp(argv[2], argv + 2);
    return 127;
}
