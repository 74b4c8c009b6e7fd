/* The broker's own seccomp filter: what it needs to serve, nothing that starts programs, makes sockets, changes ids or
 * maps code. Names are opened relative to descriptors only; where those may lead is Landlock's part (confine.c). Everything else kills the broker, and with it (PDEATHSIG) the sandbox.
 *
 * An entry may ask for a value of one argument (its low 32 bits) - several entries for a call are alternatives. Signals go to the
 * sandbox's first process or its group only: the filter is made when they are known. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum check { ANY, EQUALS, DIFFERS, NO_BITS, ZYGOTE_FD, ZYGOTE_GROUP };

struct rule {
    u16 nr;
    u8 check;
    u8 arg;
    u32 value;
};

static const struct rule rules[] = {
    { SYS_epoll_wait, ANY, 0, 0 },
    { SYS_epoll_pwait, ANY, 0, 0 },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_RECV },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_SEND },
    { SYS_pread64, ANY, 0, 0 },
    { SYS_pwrite64, ANY, 0, 0 },
    { SYS_openat2, DIFFERS, 0, (u32)AT_FDCWD }, /* beneath the mounts' roots: its flags lie in memory, out of a filter's sight */
    { SYS_fstat, ANY, 0, 0 },
    { SYS_newfstatat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_statx, EQUALS, 2, AT_EMPTY_PATH },
    { SYS_close, ANY, 0, 0 },
    { SYS_openat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_getdents64, ANY, 0, 0 },
    { SYS_readlinkat, DIFFERS, 0, (u32)AT_FDCWD },
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
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOCTL_NOTIF_ADDFD },
    { SYS_ioctl, EQUALS, 1, (u32)SECCOMP_IOW(4, u64) }, /* NOTIF_SET_FLAGS */
    { SYS_ioctl, EQUALS, 1, SIOCOUTQ },
    { SYS_lseek, ANY, 0, 0 },
    { SYS_fcntl, EQUALS, 1, F_GETFL },
    { SYS_fcntl, EQUALS, 1, F_DUPFD_CLOEXEC },
    { SYS_fcntl, EQUALS, 1, F_ADD_SEALS },
    { SYS_fcntl, EQUALS, 1, F_SETFD }, /* musl sets FD_CLOEXEC once more after it */
    { SYS_ftruncate, ANY, 0, 0 },
    { SYS_fsync, ANY, 0, 0 },
    { SYS_fchmodat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_utimensat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_mkdirat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_symlinkat, DIFFERS, 1, (u32)AT_FDCWD },
    { SYS_linkat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_unlinkat, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_renameat2, DIFFERS, 0, (u32)AT_FDCWD },
    { SYS_fstatfs, ANY, 0, 0 },
    { SYS_accept4, ANY, 0, 0 },
    { SYS_kill, ZYGOTE_GROUP, 0, 0 },
    { SYS_pidfd_send_signal, ZYGOTE_FD, 0, 0 },
    { SYS_getsid, ANY, 0, 0 }, /* kicks */
    { SYS_tgkill, EQUALS, 2, SIGURG },
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

static struct sock_filter filter[8 + ARRAY_COUNT(rules) * 6];
static u32 filter_count;
static const struct broker *broker; /* whose filter is made */

static void emit(u16 code, u8 jt, u8 jf, u32 k) { filter[filter_count++] = (struct sock_filter){ code, jt, jf, k }; }

/* All rules of one call (they are neighbours): some alternative fits, or the call is a violation. */
static void emit_call(const struct rule *r, u32 count)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, r->nr);
    emit(BPF_RET | BPF_K, 0, 0, VIOLATION);
    for (u32 i = 0; i < count; i++) {
        if (r[i].check == ANY) {
            emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
            return;
        }
        emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + r[i].arg * 8);
        if (r[i].check == ZYGOTE_FD)
            emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, broker->zygote.fd);
        else if (r[i].check == ZYGOTE_GROUP)
            emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, -broker->zygote_pid);
        else if (r[i].check == EQUALS)
            emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, r[i].value);
        else if (r[i].check == DIFFERS)
            emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, r[i].value);
        else
            emit(BPF_JMP | BPF_JSET | BPF_K, 1, 0, r[i].value);
        emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    }
    emit(BPF_RET | BPF_K, 0, 0, VIOLATION);
}

/* A binary search over the sorted rules: at attach the host evaluates the filter for every call number, so a list would
 * cost 0.1 ms. Each half is far below the 255 instructions a jump can span. */
static void emit_search(const struct rule *r, u32 count)
{
    u32 middle = count / 2;
    while (middle < count && middle > 0 && r[middle].nr == r[middle - 1].nr)
        middle++;
    if (middle == 0 || middle == count) {
        for (middle = 1; middle < count && r[middle].nr == r[0].nr; middle++)
            ;
        if (middle == count) {
            emit_call(r, count);
            return;
        }
    }
    u32 jump = filter_count;
    emit(BPF_JMP | BPF_JGE | BPF_K, 0, 0, r[middle].nr);
    emit_search(r, middle);
    filter[jump].jt = filter_count - jump - 1;
    emit_search(r + middle, count - middle);
}

static int by_number(const void *a, const void *b)
{
    return (int)((const struct rule *)a)->nr - (int)((const struct rule *)b)->nr;
}

int setup_filter(struct broker *b)
{
    broker = b;
    static struct rule sorted[ARRAY_COUNT(rules)];
    memcpy(sorted, rules, sizeof(rules));
    qsort(sorted, ARRAY_COUNT(rules), sizeof(sorted[0]), by_number);
    emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    emit(BPF_RET | BPF_K, 0, 0, VIOLATION);
    emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    emit_search(sorted, ARRAY_COUNT(rules));
    struct sock_fprog p = { .len = filter_count, .filter = filter };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}
