/* The real host interface: filtered system calls of this thread (see hostabi.tbl for what each may ask). */
#include <asm/errno.h>
#include <asm/unistd.h>
#include <linux/futex.h>
#include <linux/time_types.h>
#include "host/host.h"
#include "host/hostabi.h"
#include "host/syscall.h"
#include "host/vdso.h"

long host_mmap(u64 addr, u64 size, int prot, int flags, int fd, u64 off)
{
    return RAW6(__NR_mmap, addr, size, prot, flags, fd, off);
}

long host_munmap(u64 addr, u64 size) { return RAW2(__NR_munmap, addr, size); }
long host_mprotect(u64 addr, u64 size, int prot) { return RAW3(__NR_mprotect, addr, size, prot); }
long host_mincore(u64 addr, u64 size, u8 *vec) { return RAW3(__NR_mincore, addr, size, vec); }
long host_dump(const void *from, u64 size, u64 off) { return RAW4(__NR_pwrite64, FD_DUMP, from, size, off); }
long host_madvise(u64 addr, u64 size, int advice) { return RAW3(__NR_madvise, addr, size, advice); }

long host_mremap(u64 addr, u64 old_size, u64 new_size, int flags, u64 new_addr)
{
    return RAW5(__NR_mremap, addr, old_size, new_size, flags, new_addr);
}

long host_futex_wait(u32 *word, u32 val, u64 deadline)
{
    struct __kernel_timespec ts;
    if (unlikely(VDSO_DATA->since_start_ns) && deadline != NO_DEADLINE) {
        s64 host = (s64)deadline - VDSO_DATA->since_start_ns;
        deadline = host < 0 ? 0 : (u64)host;
    }
    ts = (struct __kernel_timespec){(s64)(deadline / 1000000000ull), (s64)(deadline % 1000000000ull)};
    return RAW6(__NR_futex, word, FUTEX_WAIT_BITSET, val, deadline == NO_DEADLINE ? NULL : &ts, 0,
                FUTEX_BITSET_MATCH_ANY);
}

long host_futex_wake(u32 *word, int count)
{
    return RAW6(__NR_futex, word, FUTEX_WAKE_BITSET, count, 0, 0, FUTEX_BITSET_MATCH_ANY);
}

/* A kick before the broker has received the notification interrupts the call: the bell has not rung yet. */
void host_doorbell(u32 request)
{
    while (RAW1(__NR_getpgrp, (u64)request) == -EINTR)
        ;
}
void host_kick(u32 host_pid, u32 host_tid) { RAW3(__NR_tgkill, host_pid, host_tid, SIGURG); }
bool host_exists(u32 host_pid, u32 host_tid) { return RAW3(__NR_tgkill, host_pid, host_tid, SIGURG) != -ESRCH; }
void host_yield(void) { RAW0(__NR_sched_yield); }

long host_clock_call(int clock_id, struct __kernel_timespec *ts) { return RAW2(__NR_clock_gettime, clock_id, ts); }

u64 host_clock(int clock_id)
{
    struct __kernel_timespec ts = {0};
    if (clock_id == 2 || clock_id == 3) /* processor time: the vDSO does not know it */
        host_clock_call(clock_id, &ts);
    else
        host_vdso_clock(clock_id, &ts);
    if (unlikely(VDSO_DATA->since_start_ns) && clock_since_start(clock_id))
        clock_shift(&ts, VDSO_DATA->since_start_ns);
    return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

long host_robust_list(void *head, u64 size) { return RAW2(__NR_set_robust_list, head, size); }

long host_sigaltstack(u64 base, u64 size)
{
    struct sigaltstack ss = {.ss_sp = (void *)base, .ss_size = size};
    return RAW2(__NR_sigaltstack, &ss, 0);
}

void host_exit_process(int code)
{
    for (;;)
        RAW1(__NR_exit_group, code);
}

void host_exit_thread(void)
{
    for (;;)
        RAW1(__NR_exit, 0);
}
