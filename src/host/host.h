/* The host interface: every call the guest kernel can make to the host goes through these functions.
 *
 * The real implementation (host_linux.c) issues filtered system calls; the fake one (tests/unit/fake_host.c)
 * lets the kernel run in an ordinary process under sanitizers and fault injection. All return a negative
 * errno on failure. Times are absolute CLOCK_MONOTONIC nanoseconds unless said otherwise. */
#ifndef HARENA_HOST_HOST_H
#define HARENA_HOST_HOST_H

#include "base/types.h"

#define NO_DEADLINE (~0ull)

long host_mmap(u64 addr, u64 size, int prot, int flags, int fd, u64 off);
long host_munmap(u64 addr, u64 size);
long host_mprotect(u64 addr, u64 size, int prot);
long host_mremap(u64 addr, u64 old_size, u64 new_size, int flags, u64 new_addr);
long host_mincore(u64 addr, u64 size, u8 *vec); /* a byte for each page: bit 0 = resident */
long host_madvise(u64 addr, u64 size, int advice);
long host_dump(const void *from, u64 size, u64 off); /* into the page file */

/* Waits while *word == val. 0 woken, -EAGAIN value differs, -ETIMEDOUT, -EINTR (kick). `word` lies in K. */
long host_futex_wait(u32 *word, u32 val, u64 deadline);
long host_futex_wake(u32 *word, int count);

/* The broker looks at the rings; returns when it has. request: slot + 1 of a request, so that a granted descriptor reaches the
 * right process (a hint that the broker checks), 0 for the rings only. */
void host_doorbell(u32 request);
u64 host_clock(int clock_id); /* ns; CLOCK_REALTIME, MONOTONIC, BOOTTIME, (thread|process) cpu time of the caller */
void host_yield(void);
bool host_exists(u32 host_pid, u32 host_tid); /* a thread of the sandbox; it is kicked */
void host_kick(u32 host_pid, u32 host_tid); /* tgkill(SIGURG) to a carrier of any stub of this sandbox */
noreturn_fn void host_exit_process(int code);

#endif
