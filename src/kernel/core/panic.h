/* A guest-kernel bug: report (build id, task, last calls, registers, backtrace) to the broker, end the sandbox. */
#ifndef HARENA_CORE_PANIC_H
#define HARENA_CORE_PANIC_H

#include "base/types.h"

noreturn_fn void panic(const char *f, ...) printf_like(1, 2);
#define BUG_ON(cond)                                                                                                   \
    do {                                                                                                               \
        if (unlikely(cond))                                                                                            \
            panic("%s:%d: BUG_ON(%s)", __FILE__, __LINE__, #cond);                                                     \
    } while (0)

/* No bug of the kernel, but the sandbox cannot go on: the text goes to the user. status: 125 or 137. */
noreturn_fn void give_up(int status, const char *f, ...) printf_like(2, 3);

/* One line into the sandbox's log (--verbose). */
void klog(const char *f, ...) printf_like(1, 2);

#endif
