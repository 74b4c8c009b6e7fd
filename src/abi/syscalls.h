/* The dispatch table and the names of the guest's system calls, generated from syscalls.tbl. */
#ifndef HARENA_ABI_SYSCALLS_H
#define HARENA_ABI_SYSCALLS_H

#include "base/types.h"

#define SYSCALL_COUNT 467u /* largest number + 1; the generator checks it */

typedef long (*syscall_fn)(u64, u64, u64, u64, u64, u64);

extern const syscall_fn syscall_table[SYSCALL_COUNT]; /* NULL: not implemented, ENOSYS */
extern const char *const syscall_names[SYSCALL_COUNT]; /* NULL: no such number */
extern const char *const syscall_args[SYSCALL_COUNT]; /* "fd,buf,count"; "" = none; NULL: no such number */

#endif
