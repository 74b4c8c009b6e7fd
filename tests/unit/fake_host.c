/* A fake host and a fake task for kernel unit tests: vfs, file systems and system calls run in an ordinary process.
 *
 * K is malloc (so the address sanitizer sees every misuse), D a sparse memfd at D_BASE, guest memory the process's own.
 * Locks check for recursion and double unlock; sleeping yields. One task with settable credentials. */
#define _GNU_SOURCE
#include "fake_host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "arch/x86_64/regs.h"
#include "base/layout.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "core/random.h"
#include "core/uaccess.h"
#include "vfs/fs_info.h"

struct fake fake;
int fake_failures, fake_checks;

void fake_check(bool ok, const char *what, const char *file, int line, long got)
{
    fake_checks++;
    if (ok)
        return;
    fake_failures++;
    printf("# %s:%d: %s failed (got %ld)\n", file, line, what, got);
}

/* ---- host ---- */

long host_mmap(u64 addr, u64 size, int prot, int flags, int fd, u64 off)
{
    void *p = mmap((void *)addr, size, prot, flags, fd, (off_t)off);
    return p == MAP_FAILED ? -errno : (long)p;
}

long host_munmap(u64 addr, u64 size) { return munmap((void *)addr, size) ? -errno : 0; }
long host_madvise(u64 addr, u64 size, int advice) { return madvise((void *)addr, size, advice) ? -errno : 0; }
long host_futex_wait(u32 *word, u32 val, u64 deadline)
{
    (void)deadline;
    if (*word == val)
        sched_yield();
    return 0;
}
long host_futex_wake(u32 *word, int count)
{
    (void)word;
    return count;
}
u64 host_clock(int id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec + fake.clock_skew;
}
void host_doorbell(u32 slot_plus_1)
{
    (void)slot_plus_1;
    if (fake.doorbell)
        fake.doorbell();
}

/* ---- core ---- */

void panic(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vprintf(f, ap);
    va_end(ap);
    abort();
}

void klog(const char *f, ...) { (void)f; }

static u32 my_tid(void)
{
    static __thread u32 tid;
    if (!tid)
        tid = (u32)gettid();
    return tid;
}

void mutex_lock(struct mutex *m)
{
    if (atomic_load(&m->word) == my_tid())
        panic("recursive lock\n");
    while (!atomic_cas(&m->word, 0, my_tid()))
        sched_yield();
}

bool mutex_trylock(struct mutex *m) { return atomic_cas(&m->word, 0, my_tid()); }

void mutex_unlock(struct mutex *m)
{
    if (!atomic_cas(&m->word, my_tid(), 0))
        panic("unlock of a lock that is not held\n");
}

bool mutex_held(const struct mutex *m) { return m->word == my_tid(); }

static bool fail_now(void) { return fake.fail_alloc && --fake.fail_alloc == 0; }
void *kmalloc(size_t size) { return fail_now() ? NULL : malloc(size ? size : 1); }
void *kzalloc(size_t size) { return fail_now() ? NULL : calloc(1, size ? size : 1); }
void *krealloc(void *p, size_t old_size, size_t new_size)
{
    (void)old_size;
    return fail_now() ? NULL : realloc(p, new_size);
}
void kfree(void *p) { free(p); }
char *kstrdup(const char *s) { return fail_now() ? NULL : strdup(s); }
char *kmemdup_str(const char *s, size_t size) { return fail_now() ? NULL : strndup(s, size); }

void wait_prepare(struct waitq *q) { (void)q; }
void wait_finish(void) {}
long wait_sleep(u64 deadline)
{
    (void)deadline;
    sched_yield();
    return fake.signal ? -EINTR : 0;
}
long wait_sleep_killable(u64 deadline) { return wait_sleep(deadline); }
void host_yield(void) { sched_yield(); }
void wake_up(struct waitq *q, u32 events)
{
    (void)q;
    (void)events;
}
void wake_up_all(struct waitq *q, u32 events) { wake_up(q, events); }

void random_bytes(void *buf, size_t size) { memset(buf, 0x5a, size); }

/* ---- guest memory: addresses in the first page fault ---- */

static bool bad(uptr p) { return p < 4096; }
long copy_from_user(void *dst, uptr src, size_t size)
{
    if (size && bad(src))
        return -EFAULT;
    memcpy(dst, (void *)src, size);
    return 0;
}
long copy_to_user(uptr dst, const void *src, size_t size)
{
    if (size && bad(dst))
        return -EFAULT;
    memcpy((void *)dst, src, size);
    return 0;
}
size_t copy_from_user_some(void *dst, uptr src, size_t size) { return copy_from_user(dst, src, size) ? 0 : size; }
size_t copy_to_user_some(uptr dst, const void *src, size_t size) { return copy_to_user(dst, src, size) ? 0 : size; }
long clear_user(uptr dst, size_t size)
{
    if (size && bad(dst))
        return -EFAULT;
    memset((void *)dst, 0, size);
    return 0;
}
long strncpy_from_user(char *dst, uptr src, size_t size)
{
    if (bad(src))
        return -EFAULT;
    size_t n = strnlen((char *)src, size);
    if (n == size)
        return -ENAMETOOLONG;
    memcpy(dst, (char *)src, n + 1);
    return (long)n;
}

/* ---- the task ---- */

struct task *current_task(void) { return NULL; }

struct carrier *this_carrier(void)
{
    static struct carrier carrier = {.tid = 1};
    return &carrier;
}
const struct cred *current_cred(void) { return fake.cred; }
struct fs_info *current_fs(void) { return fake.fs; }
struct files *current_files(void) { return fake.files; }
void current_file_cut(void) {}
long current_unshare_files(void) { return 0; }
long signal_pid(u32 pid, int sig) { return (void)pid, (void)sig, 0; }
long signal_pgrp(u32 pgid, int sig) { return (void)pgid, (void)sig, 0; }
u32 current_tid(void) { return 1; }
u32 current_tgid(void) { return fake.tgid; }
void call_wants_rest(void) {}
void call_wants_no_rest(void) {}
u64 call_deadline_anew(u64 ns) { return host_clock(1) + ns; }
u64 call_done_before(void) { return 0; }
u64 call_deadline(u64 ns) { return ns >= NO_DEADLINE - host_clock(1) ? NO_DEADLINE : host_clock(1) + ns; }
u64 current_rlimit(int resource) { return resource == 7 ? 1024 : ~0ull; }
bool signal_pending(void) { return fake.signal; }
void send_signal_current(int sig) { fake.last_signal = sig; }
bool cred_in_group(const struct cred *c, u32 gid) { return c->fsgid == gid; }
bool capable(int cap) { return fake.cred->cap_effective >> cap & 1; }

void fake_user(u32 uid)
{
    struct cred *c = calloc(1, sizeof(*c));
    c->uid = c->euid = c->suid = c->fsuid = uid;
    c->gid = c->egid = c->sgid = c->fsgid = uid;
    c->cap_effective = c->cap_permitted = uid ? 0 : ~0ull;
    free(fake.cred);
    fake.cred = c;
}

/* The host's address randomisation may put libraries where D must be: run again without it. */
__attribute__((constructor)) static void fixed_addresses(int argc, char **argv)
{
    (void)argc;
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE) && personality(ADDR_NO_RANDOMIZE) != -1)
        execv("/proc/self/exe", argv);
}

void fake_init(void)
{
    int fd = memfd_create("D", 0);
    if (fd < 0 || ftruncate(fd, (off_t)D_SIZE) ||
        mmap((void *)D_BASE, D_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0) ==
            MAP_FAILED) {
        perror("D");
        exit(99);
    }
    fake.d_fd = fd;
    fake.tgid = 1;
    fake_user(0);
}

void fake_task(void)
{
    fake.fs = fs_info_new();
    fake.files = files_new();
}
