/* The broker's own seccomp filter: what it needs to serve, nothing that starts programs, makes sockets, changes ids or
 * maps code. Everything else kills the broker, and with it (PDEATHSIG) the sandbox.
 *
 * An entry may ask for a value of one argument (its low 32 bits) - several entries for a call are alternatives. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum check { ANY, EQUALS, NO_BITS };

struct rule {
    u16 nr;
    u8 check;
    u8 arg;
    u32 value;
};

static const struct rule rules[] = {
    /* the hot ones first */
    { SYS_epoll_wait, ANY, 0, 0 },
    { SYS_epoll_pwait, ANY, 0, 0 },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_RECV },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_SEND },
    { SYS_pread64, ANY, 0, 0 },
    { SYS_pwrite64, ANY, 0, 0 },
    { SYS_openat2, ANY, 0, 0 }, /* beneath the mounts' roots: its flags lie in memory, out of a filter's sight */
    { SYS_fstat, ANY, 0, 0 },
    { SYS_newfstatat, ANY, 0, 0 },
    { SYS_close, ANY, 0, 0 },
    { SYS_openat, ANY, 0, 0 },
    { SYS_getdents64, ANY, 0, 0 },
    { SYS_readlinkat, ANY, 0, 0 },
    { SYS_read, ANY, 0, 0 },
    { SYS_write, ANY, 0, 0 },
    { SYS_recvfrom, ANY, 0, 0 },
    { SYS_sendto, ANY, 0, 0 },
    { SYS_recvmsg, ANY, 0, 0 },
    { SYS_sendmsg, ANY, 0, 0 },
    { SYS_poll, ANY, 0, 0 },
    { SYS_futex, EQUALS, 1, FUTEX_WAKE },
    { SYS_futex, EQUALS, 1, FUTEX_WAKE | FUTEX_PRIVATE_FLAG },
    { SYS_epoll_ctl, ANY, 0, 0 },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_ID_VALID },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_ADDFD },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOW(4, u64) }, /* NOTIF_SET_FLAGS */
    { SYS_lseek, ANY, 0, 0 },
    { SYS_fcntl, EQUALS, 1, F_GETFL },
    { SYS_fcntl, EQUALS, 1, F_DUPFD_CLOEXEC },
    { SYS_ftruncate, ANY, 0, 0 },
    { SYS_fsync, ANY, 0, 0 },
    { SYS_fchmodat, ANY, 0, 0 },
    { SYS_utimensat, ANY, 0, 0 },
    { SYS_mkdirat, ANY, 0, 0 },
    { SYS_symlinkat, ANY, 0, 0 },
    { SYS_linkat, ANY, 0, 0 },
    { SYS_unlinkat, ANY, 0, 0 },
    { SYS_renameat2, ANY, 0, 0 },
    { SYS_fstatfs, ANY, 0, 0 },
    { SYS_accept4, ANY, 0, 0 },
    { SYS_kill, EQUALS, 1, 9 },
    { SYS_pidfd_send_signal, EQUALS, 1, 9 },
    { SYS_waitid, ANY, 0, 0 },
    { SYS_clock_gettime, ANY, 0, 0 },
    { SYS_brk, ANY, 0, 0 },
    { SYS_mmap, NO_BITS, 2, PROT_EXEC },
    { SYS_munmap, ANY, 0, 0 },
    { SYS_mremap, ANY, 0, 0 },
    { SYS_madvise, ANY, 0, 0 },
    { SYS_getrandom, ANY, 0, 0 },
    { SYS_restart_syscall, ANY, 0, 0 },
    { SYS_rt_sigreturn, ANY, 0, 0 },
    { SYS_rt_sigprocmask, ANY, 0, 0 },
    { SYS_exit_group, ANY, 0, 0 },
};

#ifdef __SANITIZE_ADDRESS__
#define VIOLATION SECCOMP_RET_LOG
#else
#define VIOLATION SECCOMP_RET_KILL_PROCESS
#endif

int setup_filter(struct broker *b)
{
    (void)b;
    static struct sock_filter f[8 + ARRAY_COUNT(rules) * 5];
    u32 n = 0;
#define EMIT(...) f[n++] = (struct sock_filter)__VA_ARGS__
    EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    EMIT(BPF_STMT(BPF_RET | BPF_K, VIOLATION));
    EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (u32 i = 0; i < ARRAY_COUNT(rules); i++) {
        const struct rule *r = &rules[i];
        if (r->check == ANY) {
            EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, 1));
            EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
            continue;
        }
        EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, 4));
        EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + r->arg * 8));
        if (r->check == EQUALS)
            EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, 0, 1));
        else
            EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, r->value, 1, 0));
        EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    }
    EMIT(BPF_STMT(BPF_RET | BPF_K, VIOLATION));
#undef EMIT
    struct sock_fprog p = { .len = n, .filter = f };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}
