/* Flag words and numbers of the host interface that both the filter (hostabi.tbl) and the kernel use. */
#ifndef HARENA_HOST_HOSTABI_H
#define HARENA_HOST_HOSTABI_H

#include <asm/signal.h>
#include <linux/sched.h>

/* clone: exactly these two. */
#define HOST_CLONE_PROCESS (CLONE_PARENT_SETTID | SIGCHLD)
#define HOST_CLONE_THREAD                                                                                              \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |          \
     CLONE_CHILD_CLEARTID)

long host_clone_process(u64 flags, u32 *parent_tid);
struct regs;
struct carrier;
long host_clone_thread(u64 flags, struct regs *frame, u32 *parent_tid, u32 *child_tid, struct carrier *c);
long host_robust_list(void *head, u64 size);
long host_sigaltstack(u64 base, u64 size);
noreturn_fn void host_exit_thread(void);

#endif
