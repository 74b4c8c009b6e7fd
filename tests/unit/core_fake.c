#define _GNU_SOURCE
#include "core_fake.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <asm/unistd.h>
#include <time.h>
#include <unistd.h>

#include "core/config.h"
#include "core/current.h"
#include "core/panic.h"
#include "core/uaccess.h"

static int checks, failures;

void check(bool ok, const char *what, const char *file, int line)
{
    checks++;
    if (ok)
        return;
    failures++;
    printf("# %s:%d: %s\n", file, line, what);
}
void equal(long a, long b, const char *what, const char *file, int line)
{
    if (a != b)
        printf("# got %ld, want %ld\n", a, b);
    check(a == b, what, file, line);
}

static u64 rng = 88172645463325252ull;
u32 rnd(u32 n)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (u32)(rng >> 20) % n;
}

/* ---- the host ---- */

u64 clock_now;
u32 wakes, punches;
u64 punched_bytes;
jmp_buf escape;
bool escaping;
__thread struct carrier carrier;
static __thread struct task_core *me;
static struct mail_boot config;

struct carrier *this_carrier(void) { return &carrier; }
struct task *current_task(void) { return (struct task *)me; }
const struct mail_boot *boot_config(void) { return &config; }
long host_robust_list(void *head, u64 size) { return (void)head, (void)size, 0; }
u64 host_clock(int id) { return (void)id, clock_now; }
long host_madvise(u64 addr, u64 size, int advice)
{
    punches++;
    punched_bytes += size;
    return madvise((void *)addr, size, advice) ? -errno : 0;
}
long host_futex_wait(u32 *word, u32 val, u64 deadline)
{
    struct timespec t = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};
    return syscall(__NR_futex, word, FUTEX_WAIT_BITSET, val, deadline == NO_DEADLINE ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY) ? -errno : 0;
}
long host_futex_wake(u32 *word, int count)
{
    atomic_add(&wakes, 1);
    return syscall(__NR_futex, word, FUTEX_WAKE, count);
}

void panic(const char *f, ...)
{
    va_list ap;
    if (escaping)
        longjmp(escape, 1);
    va_start(ap, f);
    vprintf(f, ap);
    printf("\nBail out! panic\n");
    exit(1);
}
void give_up(int status, const char *f, ...)
{
    if (escaping)
        longjmp(escape, status);
    panic("%s", f);
}

/* Guest memory: what lies at or behind fault_at faults. */
u8 guest[65536];
u64 fault_at;

static size_t reach(uptr p, size_t n)
{
    if (p < (uptr)guest || p >= (uptr)guest + fault_at)
        return 0;
    return MIN(n, (uptr)guest + fault_at - p);
}
size_t copy_from_user_some(void *dst, uptr src, size_t n) { return memcpy(dst, (void *)src, reach(src, n)), reach(src, n); }
size_t copy_to_user_some(uptr dst, const void *src, size_t n) { return memcpy((void *)dst, src, reach(dst, n)), reach(dst, n); }
long copy_from_user(void *dst, uptr src, size_t n) { return copy_from_user_some(dst, src, n) == n ? 0 : -EFAULT; }
long clear_user(uptr dst, size_t n) { return memset((void *)dst, 0, reach(dst, n)), reach(dst, n) == n ? 0 : -EFAULT; }

void carrier_begin(void)
{
    carrier.tid = (u32)gettid();
    robust_begin(&carrier);
}

void task_begin(struct task_core *t)
{
    carrier_begin();
    me = t;
}

static void map_at(u64 addr, u64 size, int fd)
{
    if (mmap((void *)addr, size, PROT_READ | PROT_WRITE, (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE |
             MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED) {
        perror("Bail out! mmap");
        exit(1);
    }
}

/* The host's address randomisation may put libraries where K or D must be: run again without it. */
__attribute__((constructor)) static void fixed_addresses(int argc, char **argv)
{
    (void)argc;
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE) && personality(ADDR_NO_RANDOMIZE) != -1)
        execv("/proc/self/exe", argv);
}

void set_cpus(u32 count) { config.cpu_count = count; }

int run_tests(const struct test *t, u32 count)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int fd = memfd_create("D", 0);
    if (fd < 0 || ftruncate(fd, (off_t)D_SIZE))
        return 99;
    map_at(K_BASE, K_SIZE, -1);
    map_at(R_BASE, R_SIZE, -1);
    map_at(D_BASE, D_SIZE, fd);
    carrier_begin();
    for (u32 i = 0; i < count; i++) {
        int before = failures;
        t[i].fn();
        printf("%s %u - %s\n", failures == before ? "ok" : "not ok", i + 1, t[i].name);
    }
    printf("# %d checks\n1..%u\n", checks, count);
    return failures || !checks;
}
