/* A guest-kernel bug: report (build id, registers, backtrace, task, last calls) to the broker, end the sandbox with status 125: boot/panic.c. */
#ifndef HARENA_CORE_PANIC_H
#define HARENA_CORE_PANIC_H

#include "base/types.h"

noreturn_fn void panic(const char *f, ...) printf_like(1, 2);
#define BUG_ON(cond)                                                                                                   \
    do {                                                                                                               \
        if (unlikely(cond))                                                                                            \
            panic("%s:%d: BUG_ON(%s)", __FILE__, __LINE__, #cond);                                                     \
    } while (0)

/* A fault of kernel code; r: its registers. */
struct regs;
noreturn_fn void panic_exception(const struct regs *r, int sig, u64 addr);

/* No bug of the kernel, but the sandbox cannot go on: the text goes to the user. status: 125 or 137. */
noreturn_fn void give_up(int status, const char *f, ...) printf_like(2, 3);

/* One line into the sandbox's log (--verbose). */
void klog(const char *f, ...) printf_like(1, 2);

#endif
