/* How a system call is written: SYSCALLn(name, type, arg, ...) { body } defines sys_name, called by the generated
 * dispatch table (abi/syscalls.tbl) with six u64. The body returns a result or a negative errno. */
#ifndef HARENA_SYS_SYSCALL_H
#define HARENA_SYS_SYSCALL_H

#include "base/types.h"
#include "core/errno.h"

#define SYSCALL_U u64 _1, u64 _2, u64 _3, u64 _4, u64 _5, u64 _6
#define SYSCALL0(name)                                                                                                 \
    static always_inline_fn long do_##name(void);                                                                      \
    long sys_##name(u64 _1 __attribute__((unused)), u64 _2 __attribute__((unused)), u64 _3 __attribute__((unused)), u64 _4 __attribute__((unused)), u64 _5 __attribute__((unused)), u64 _6 __attribute__((unused)));   \
    long sys_##name(u64 _1 __attribute__((unused)), u64 _2 __attribute__((unused)), u64 _3 __attribute__((unused)), u64 _4 __attribute__((unused)), u64 _5 __attribute__((unused)), u64 _6 __attribute__((unused)))    \
    { return do_##name(); }                                                                                            \
    static always_inline_fn long do_##name(void)
#define SYSCALL_DEF(name, params, args)                                                                                \
    static always_inline_fn long do_##name params;                                                                     \
    long sys_##name(SYSCALL_U);                                                                                        \
    long sys_##name(u64 _1 __attribute__((unused)), u64 _2 __attribute__((unused)), u64 _3 __attribute__((unused)), u64 _4 __attribute__((unused)), u64 _5 __attribute__((unused)), u64 _6 __attribute__((unused)))    \
    { return do_##name args; }                                                                                         \
    static always_inline_fn long do_##name params
#define SYSCALL1(name, t1, a1) SYSCALL_DEF(name, (t1 a1), ((t1)_1))
#define SYSCALL2(name, t1, a1, t2, a2) SYSCALL_DEF(name, (t1 a1, t2 a2), ((t1)_1, (t2)_2))
#define SYSCALL3(name, t1, a1, t2, a2, t3, a3) SYSCALL_DEF(name, (t1 a1, t2 a2, t3 a3), ((t1)_1, (t2)_2, (t3)_3))
#define SYSCALL4(name, t1, a1, t2, a2, t3, a3, t4, a4)                                                                 \
    SYSCALL_DEF(name, (t1 a1, t2 a2, t3 a3, t4 a4), ((t1)_1, (t2)_2, (t3)_3, (t4)_4))
#define SYSCALL5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                                         \
    SYSCALL_DEF(name, (t1 a1, t2 a2, t3 a3, t4 a4, t5 a5), ((t1)_1, (t2)_2, (t3)_3, (t4)_4, (t5)_5))
#define SYSCALL6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                                 \
    SYSCALL_DEF(name, (t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6), ((t1)_1, (t2)_2, (t3)_3, (t4)_4, (t5)_5, (t6)_6))

#endif
