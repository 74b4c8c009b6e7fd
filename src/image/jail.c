#include "image/jail.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define IMAGE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IMAGE_SANITIZED
#endif
#endif

bool jail_enter(u64 address_space, u32 seconds)
{
    static const int allowed[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_exit, SYS_exit_group,
                                  SYS_mprotect, SYS_futex, SYS_getrandom /* malloc */,
#ifdef IMAGE_SANITIZED
                                  SYS_sigaltstack,
#endif
    };
    struct rlimit as = {address_space, address_space}, cpu = {seconds, seconds},
                  zero = {0, 0};
    struct sock_filter f[8 + ARRAY_COUNT(allowed)];
    struct sock_fprog prog = {.filter = f};
    u32 n = 0, calls = ARRAY_COUNT(allowed);

    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (u32 i = 0; i < calls; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)allowed[i], (u8)(calls - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prog.len = (u16)n;
#ifdef IMAGE_SANITIZED
    (void)as;
#else
    if (setrlimit(RLIMIT_AS, &as)) /* a sanitizer's shadow memory is larger */
        return false;
#endif
    if (setrlimit(RLIMIT_CPU, &cpu) || setrlimit(RLIMIT_CORE, &zero) || setrlimit(RLIMIT_FSIZE, &zero))
        return false;
    return !prctl(PR_SET_PDEATHSIG, SIGKILL) && !prctl(PR_SET_DUMPABLE, 0) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

bool jail_await(int pid, u32 seconds)
{
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int status = -1;

    int r;
    while (p.fd >= 0 && (r = poll(&p, 1, (int)seconds * 4000)) < 1)
        if (!r && !kill(pid, SIGKILL)) /* after a signal it may take as long once more */
            break;
    if (p.fd >= 0)
        close(p.fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && !WEXITSTATUS(status);
}
