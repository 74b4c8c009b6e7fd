/* What kernel/core and the timers need below them: K, R and D at their places, the host's futexes, a clock that the test sets, guest
 * memory with an end. A thread is a carrier after carrier_begin(), a task after task_begin(). */
#ifndef HARENA_TESTS_CORE_FAKE_H
#define HARENA_TESTS_CORE_FAKE_H

#include <setjmp.h>

#include "arch/x86_64/regs.h"
#include "base/layout.h"
#include "core/task_core.h"

#define CHECK(c) check((c), #c, __FILE__, __LINE__)
#define EQ(a, b) equal((long)(a), (long)(b), #a " == " #b, __FILE__, __LINE__)

extern u64 clock_now;      /* of the timers */
extern u32 wakes, punches; /* host calls: futex wakes, madvise */
extern u64 punched_bytes;
extern bool escaping;      /* a panic goes to escape */
extern jmp_buf escape;
extern __thread struct carrier carrier;
extern u8 guest[65536];
extern u64 fault_at; /* guest memory from here on faults */

void check(bool ok, const char *what, const char *file, int line);
void equal(long a, long b, const char *what, const char *file, int line);
u32 rnd(u32 n);
void carrier_begin(void);
void task_begin(struct task_core *t);
void set_cpus(u32 count);

struct test {
    const char *name;
    void (*fn)(void);
};
int run_tests(const struct test *t, u32 count);

#endif
