/* Raw host system calls: used by host_linux.c and by launch before the filter is on; nowhere else. */
#ifndef HARENA_HOST_SYSCALL_H
#define HARENA_HOST_SYSCALL_H

#include "base/types.h"

static always_inline_fn long raw_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}
#define RAW0(n) raw_syscall(n, 0, 0, 0, 0, 0, 0)
#define RAW1(n, a) raw_syscall(n, (long)(a), 0, 0, 0, 0, 0)
#define RAW2(n, a, b) raw_syscall(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define RAW3(n, a, b, c) raw_syscall(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW4(n, a, b, c, d) raw_syscall(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define RAW5(n, a, b, c, d, e) raw_syscall(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define RAW6(n, a, b, c, d, e, f) raw_syscall(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
