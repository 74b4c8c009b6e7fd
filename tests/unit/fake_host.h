/* Unit tests of kernel code in a hosted program. */
#ifndef HARENA_TESTS_FAKE_HOST_H
#define HARENA_TESTS_FAKE_HOST_H

#include "core/current.h"
#include "vfs/vfs.h"

struct fake {
    struct cred *cred;
    struct fs_info *fs;
    struct files *files;
    u32 tgid;
    bool signal;
    int last_signal, d_fd;
    u64 clock_skew;
    long fail_alloc; /* n: the n-th allocation from now fails */
    void (*doorbell)(void);
};
extern struct fake fake;
extern int fake_failures, fake_checks;

void fake_init(void); /* memory and root credentials */
void fake_task(void); /* after mounts: fs_info and files */
void fake_user(u32 uid);
void fake_check(bool ok, const char *what, const char *file, int line, long got);

#define IS(expr, want)                                                                                                 \
    do {                                                                                                               \
        long _got = (long)(expr);                                                                                      \
        fake_check(_got == (long)(want), #expr " == " #want, __FILE__, __LINE__, _got);                                \
    } while (0)
#define OK(expr) fake_check(!!(expr), #expr, __FILE__, __LINE__, 0)

/* System calls by name: SYS(open, "/x", O_RDONLY) */
#define SYS_ARGS(a, b, c, d, e, f, ...) (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f)
#define SYS(name, ...)                                                                                                 \
    ({                                                                                                                 \
        extern long sys_##name(u64, u64, u64, u64, u64, u64);                                                          \
        sys_##name(SYS_ARGS(__VA_ARGS__, 0, 0, 0, 0, 0, 0));                                                           \
    })

#endif
