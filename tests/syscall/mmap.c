/* mmap, munmap, mprotect, mremap, madvise, mincore, msync, mlock, brk; signals of bad accesses. */
#include "tap.h"
#include <setjmp.h>
#include <sys/resource.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define P 4096ul
static sigjmp_buf jb;
static int sig, code;
static void *addr;
static void on_fault(int s, siginfo_t *i, void *c)
{
    (void)c;
    sig = s, code = i->si_code, addr = i->si_addr;
    siglongjmp(jb, 1);
}
#define FAULTS(stmt) ({ sig = code = 0; if (!sigsetjmp(jb, 1)) { stmt; } sig; })
#define READ(p) (void)(*(volatile char *)(p))
#define WRITE(p) (*(volatile char *)(p) = 1)

static char *map(size_t n, int prot)
{
    char *p = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? (char *)must(-1) : p;
}
static int fails(void *p) { return p == MAP_FAILED ? errno : 0; }
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
static int file(const char *name, size_t size)
{
    int fd = must(open(name, O_CREAT | O_RDWR | O_TRUNC, 0600));
    char b[4096];
    for (size_t i = 0; i < size; i += sizeof(b)) {
        memset(b, 'A' + (int)(i / P) % 26, sizeof(b));
        must(write(fd, b, size - i < sizeof(b) ? size - i : sizeof(b)));
    }
    return fd;
}

static void basics(void)
{
    char *p = map(10 * P, RW);
    ok(((uintptr_t)p & (P - 1)) == 0, "aligned");
    bool zero = true;
    for (size_t i = 0; i < 10 * P; i++)
        zero &= !p[i];
    ok(zero, "anonymous memory is zero");
    is(fails(mmap(NULL, 0, RW, ANON, -1, 0)), EINVAL, "size 0");
    is(fails(mmap(NULL, P, RW, MAP_ANONYMOUS, -1, 0)), EINVAL, "neither shared nor private");
    is(fails(mmap(NULL, P, RW, MAP_PRIVATE, -1, 0)), EBADF, "no descriptor");
    is(fails(mmap(NULL, P, RW, MAP_PRIVATE, 999, 0)), EBADF, "bad descriptor");
    is(fails(mmap(NULL, ~0ul - P, RW, ANON, -1, 0)), ENOMEM, "too big");
    is(fails(mmap((void *)(P + 1), P, RW, ANON | MAP_FIXED, -1, 0)), EINVAL, "MAP_FIXED: not aligned");
    is(munmap(p + 3 * P, 2 * P), 0, "munmap: a hole");
    is(FAULTS(READ(p + 3 * P)), SIGSEGV, "the hole faults");
    ok(code == SEGV_MAPERR && addr == p + 3 * P, "the hole: SEGV_MAPERR");
    is(FAULTS(READ(p + 5 * P)), 0, "behind the hole");
    is(munmap(p + 3 * P, 2 * P), 0, "munmap of nothing");
    err(munmap(p + 1, P), EINVAL, "munmap: not aligned");
    err(munmap(p, 0), EINVAL, "munmap: size 0");
    is(munmap(p, 1), 0, "munmap rounds up");
    is(FAULTS(READ(p + P - 1)), SIGSEGV, "munmap rounds up: gone");
    char *q = mmap(p, P, RW, ANON, -1, 0);
    is(q, p, "a free hint is taken");
    q = mmap(p, P, RW, ANON, -1, 0);
    ok(q != p && q != MAP_FAILED, "one in use is not");
    WRITE(p);
    is(fails(mmap(p, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0)), EEXIST, "MAP_FIXED_NOREPLACE: in use");
    is(mmap(p + 3 * P, P, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0), p + 3 * P, "MAP_FIXED_NOREPLACE: free");
    is(mmap(p, P, RW, ANON | MAP_FIXED, -1, 0), p, "MAP_FIXED");
    is(*p, 0, "MAP_FIXED replaces");
    is(mmap(NULL, P, RW, ANON | MAP_NORESERVE | MAP_POPULATE | MAP_STACK, -1, 0) != MAP_FAILED, 1, "NORESERVE, POPULATE, STACK");
    q = mmap(NULL, P, RW, ANON | MAP_32BIT, -1, 0);
    ok(q != MAP_FAILED && (uintptr_t)q < 1ul << 31, "MAP_32BIT");
    p = map(4 * P, PROT_NONE);
    is(FAULTS(READ(p)), SIGSEGV, "PROT_NONE");
    is(code, SEGV_ACCERR, "PROT_NONE: SEGV_ACCERR");
    int fd = file("f", 3 * P);
    is(fails(mmap(NULL, P, RW, MAP_SHARED, fd, 100)), EINVAL, "offset not aligned");
    int ro = open("f", O_RDONLY), wo = open("f", O_WRONLY);
    is(fails(mmap(NULL, P, RW, MAP_SHARED, ro, 0)), EACCES, "shared writable of a read-only descriptor");
    is(fails(mmap(NULL, P, PROT_READ, MAP_PRIVATE, wo, 0)), EACCES, "a write-only descriptor");
    ok(mmap(NULL, P, RW, MAP_PRIVATE, ro, 0) != MAP_FAILED, "private writable of a read-only descriptor");
    int d = open(".", O_RDONLY);
    is(fails(mmap(NULL, P, PROT_READ, MAP_PRIVATE, d, 0)), ENODEV, "a directory");
    int pp[2];
    must(pipe(pp));
    is(fails(mmap(NULL, P, PROT_READ, MAP_PRIVATE, pp[0], 0)), ENODEV, "a pipe");
    is(fails(mmap(NULL, P, RW, MAP_SHARED | MAP_PRIVATE | 0x80, fd, 0)) == 0, 1, "MAP_SHARED_VALIDATE with known flags");
    is(fails(mmap(NULL, P, RW, 3 | MAP_SYNC, fd, 0)), EOPNOTSUPP, "MAP_SHARED_VALIDATE with MAP_SYNC");
    close(d);
}

static void files(void)
{
    int fd = file("g", 3 * P + 100);
    char *s = mmap(NULL, 4 * P, RW, MAP_SHARED, fd, 0), *r = mmap(NULL, 4 * P, RW, MAP_PRIVATE, fd, 0), b[16];
    ok(s[0] == 'A' && s[P] == 'B' && s[3 * P + 99] == 'D', "shared: contents");
    is(s[3 * P + 100], 0, "behind the end: zero");
    s[5] = 'x';
    pread(fd, b, 8, 0);
    is(b[5], 'x', "shared: a store is seen by read");
    pwrite(fd, "yz", 2, 6);
    ok(s[6] == 'y' && s[7] == 'z', "shared: a write is seen in memory");
    is(r[5], 'x', "private: untouched pages follow the file");
    r[8] = 'p';
    pread(fd, b, 16, 0);
    is(b[8], 'A', "private: a store stays private");
    close(fd);
    is(s[P], 'B', "a mapping outlives its descriptor");
    fd = open("g", O_RDWR);
    pid_t c = fork();
    if (!c) {
        s[100] = 'c';
        r[100] = 'c';
        _exit(0);
    }
    waitpid(c, NULL, 0);
    ok(s[100] == 'c' && r[100] == 'A', "fork: shared is shared, private is not");
    char *far = mmap(NULL, 4 * P, PROT_READ, MAP_SHARED, fd, 2 * (off_t)P);
    is(far[0], 'C', "an offset");
    is(FAULTS(READ(far + 2 * P)), SIGBUS, "a page behind the end");
    ok(code == BUS_ADRERR && addr == far + 2 * P, "a page behind the end: BUS_ADRERR");
    ftruncate(fd, 6 * P);
    is(FAULTS(READ(far + 2 * P)), 0, "the file grew: there");
    pwrite(fd, "N", 1, 4 * P);
    is(far[2 * P], 'N', "the file grew: contents");
    ftruncate(fd, P);
    is(FAULTS(READ(far)), SIGBUS, "the file was cut: SIGBUS");
    is(FAULTS(READ(s + P)), SIGBUS, "the file was cut: another mapping");
    is(FAULTS(READ(s)), 0, "what is left");
    is(FAULTS(READ(r)), 0, "private: a touched page is left");
    is(FAULTS(READ(r + 2 * P)), SIGBUS, "private: an untouched one behind the end is not");
    ftruncate(fd, 100);
    s[50] = 'k';
    is(s[200], 0, "cut within a page: zero");
    ftruncate(fd, P);
    char *w = mmap(NULL, 2 * P, RW, MAP_SHARED, fd, 0);
    ftruncate(fd, 2 * P);
    w[P] = 'w';
    in_child(truncate("g", P));
    is(FAULTS(READ(w + P)), SIGBUS, "another process cuts the file: SIGBUS");
    ftruncate(fd, 2 * P);
    is(FAULTS(READ(w + P)), 0, "and grown again");
    is(w[P], 0, "it is empty");
    err(read(fd, far, 1), EFAULT, "a call with memory that gives SIGBUS: EFAULT");
    unlink("g");
    is(s[50], 'k', "unlinked: still there");
    char *e = mmap(NULL, P, PROT_READ, MAP_SHARED, file("empty", 0), 0);
    is(FAULTS(READ(e)), SIGBUS, "an empty file");
    char *z = mmap(NULL, P, RW, MAP_PRIVATE, open("/dev/zero", O_RDWR), 0);
    ok(z != MAP_FAILED && *z == 0, "/dev/zero");
    WRITE(z);
    char *sa = mmap(NULL, P, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    c = fork();
    if (!c) {
        *sa = 5;
        _exit(0);
    }
    waitpid(c, NULL, 0);
    is(*sa, 5, "shared anonymous");
    char *big = mmap(NULL, 64 << 20, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    big[(64 << 20) - 1] = 1;
    is(big[0], 0, "64 MiB shared anonymous");
    is(munmap(big, 64 << 20), 0, "and away");
}

static void protect(void)
{
    char *p = map(6 * P, RW);
    memset(p, 'm', 6 * P);
    is(mprotect(p + P, 2 * P, PROT_READ), 0, "mprotect");
    is(FAULTS(WRITE(p + P)), SIGSEGV, "read-only");
    is(code, SEGV_ACCERR, "read-only: SEGV_ACCERR");
    is(FAULTS(WRITE(p)), 0, "before it");
    is(FAULTS(WRITE(p + 3 * P)), 0, "behind it");
    is(p[P], 'm', "contents stay");
    is(mprotect(p, 6 * P, PROT_NONE), 0, "PROT_NONE");
    is(FAULTS(READ(p)), SIGSEGV, "PROT_NONE: faults");
    is(mprotect(p, 6 * P, RW), 0, "back");
    is(p[5 * P], 'm', "contents are still there");
    err(mprotect(p + 1, P, PROT_READ), EINVAL, "mprotect: not aligned");
    err(mprotect(p, P, 0x40), EINVAL, "mprotect: bad protection");
    is(mprotect(p, 0, PROT_READ), 0, "mprotect: nothing");
    munmap(p + 2 * P, P);
    err(mprotect(p, 6 * P, PROT_READ), ENOMEM, "mprotect: a hole");
    is(FAULTS(WRITE(p)), SIGSEGV, "mprotect: what comes before the hole is done");
    is(FAULTS(WRITE(p + 4 * P)), 0, "mprotect: what comes behind is not");
    int ro = open("f", O_RDONLY);
    char *s = mmap(NULL, P, PROT_READ, MAP_SHARED, ro, 0);
    err(mprotect(s, P, RW), EACCES, "mprotect: shared of a read-only descriptor");
    static const unsigned char ret42[] = {0xb8, 42, 0, 0, 0, 0xc3};
    char *x = map(P, RW);
    memcpy(x, ret42, sizeof(ret42));
    is(FAULTS(((int (*)(void))x)()), SIGSEGV, "no PROT_EXEC");
    is(mprotect(x, P, PROT_READ | PROT_EXEC), 0, "PROT_EXEC");
    is(((int (*)(void))x)(), 42, "code runs");
    char *rwx = map(P, RW | PROT_EXEC);
    memcpy(rwx, ret42, sizeof(ret42));
    rwx[1] = 43;
    is(((int (*)(void))rwx)(), 43, "writable and executable");
    rwx[1] = 44;
    is(((int (*)(void))rwx)(), 44, "changed code runs");
    static const unsigned char getpid_code[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
    memcpy(rwx, getpid_code, sizeof(getpid_code));
    is(((int (*)(void))rwx)(), getpid(), "a system call from generated code");
    int fd = must(open("code", O_CREAT | O_RDWR, 0700));
    write(fd, getpid_code, sizeof(getpid_code));
    ftruncate(fd, P);
    char *fx = mmap(NULL, P, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    is(((int (*)(void))fx)(), getpid(), "a system call from a mapped file");
    char *gd = mmap(NULL, 4 * P, RW, ANON | MAP_GROWSDOWN, -1, 0);
    ok(gd != MAP_FAILED, "MAP_GROWSDOWN");
}

static void remap(void)
{
    char *p = map(4 * P, RW), *q;
    for (int i = 0; i < 4; i++)
        p[(size_t)i * P] = (char)('a' + i);
    is(mremap(p, 4 * P, 2 * P, 0), p, "mremap: smaller");
    is(FAULTS(READ(p + 2 * P)), SIGSEGV, "the tail is gone");
    mmap(p + 2 * P, P, RW, ANON | MAP_FIXED, -1, 0);
    err((long)mremap(p, 2 * P, 8 * P, 0), ENOMEM, "mremap: no room");
    q = mremap(p, 2 * P, 8 * P, MREMAP_MAYMOVE);
    ok(q != MAP_FAILED && q[0] == 'a' && q[P] == 'b' && q[7 * P] == 0, "MREMAP_MAYMOVE");
    if (q != p)
        is(FAULTS(READ(p)), SIGSEGV, "the old place is gone");
    else
        ok(true, "the old place is gone");
    char *to = map(8 * P, PROT_NONE);
    is(mremap(q, 8 * P, 8 * P, MREMAP_MAYMOVE | MREMAP_FIXED, to), to, "MREMAP_FIXED");
    ok(to[0] == 'a' && to[P] == 'b', "MREMAP_FIXED: contents");
    err((long)mremap(to, 8 * P, 8 * P, MREMAP_FIXED, q), EINVAL, "MREMAP_FIXED alone");
    err((long)mremap(to + 1, P, P, 0), EINVAL, "mremap: not aligned");
    err((long)mremap(to, P, 0, 0), EINVAL, "mremap: to nothing");
    err((long)mremap(to, 8 * P, 8 * P, 64), EINVAL, "mremap: flags");
    err((long)mremap(to, 8 * P, 8 * P, MREMAP_MAYMOVE | MREMAP_FIXED, to + P), EINVAL, "mremap: overlap");
    err((long)mremap((void *)0x10000000, P, 2 * P, MREMAP_MAYMOVE), EFAULT, "mremap: not mapped");
    int fd = file("h", 4 * P);
    char *s = mmap(NULL, P, RW, MAP_SHARED, fd, P);
    s = mremap(s, P, 3 * P, MREMAP_MAYMOVE);
    ok(s[0] == 'B' && s[P] == 'C' && s[2 * P] == 'D', "a file's mapping grows");
    char *dup = mremap(s, 0, P, MREMAP_MAYMOVE);
    ok(dup != MAP_FAILED && dup != s && dup[0] == 'B', "old size 0 duplicates a shared mapping");
    dup[0] = 'Z';
    is(s[0], 'Z', "the duplicate is shared");
    /* a mapping that was made in pieces */
    p = map(16 * P, RW);
    munmap(p, 16 * P);
    for (size_t i = 0; i < 8; i++) {
        mmap(p + i * P, P, RW, ANON | MAP_FIXED, -1, 0);
        p[i * P] = (char)('0' + i);
        if (i % 3 == 1)
            in_child(p[i * P] = 0);
    }
    q = mremap(p, 4 * P, 6 * P, MREMAP_MAYMOVE);
    char *q2 = map(8 * P, RW);
    for (size_t i = 0; i < 4; i++)
        q2[i * P] = q == MAP_FAILED ? 'x' : q[i * P];
    ok(q2[0] == '0' && q2[P] == '1' && q2[2 * P] == '2' && q2[3 * P] == '3', "a mapping made in pieces moves as one");
    q[5 * P] = 'n';
    q2 = mremap(q, 6 * P, 12 * P, MREMAP_MAYMOVE | MREMAP_FIXED, map(12 * P, PROT_NONE));
    ok(q2 != MAP_FAILED && q2[3 * P] == '3' && q2[5 * P] == 'n' && q2[11 * P] == 0, "and again, growing");
    p = map(2 * P, RW);
    p[0] = 'd';
    q = mremap(p, 2 * P, 2 * P, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    ok(q != MAP_FAILED && q != p && q[0] == 'd', "MREMAP_DONTUNMAP");
    is(q == MAP_FAILED ? -1 : p[0], 0, "MREMAP_DONTUNMAP: the old place is empty memory");
    err((long)mremap(q, 2 * P, 4 * P, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL), EINVAL, "MREMAP_DONTUNMAP: sizes differ");
}

/* What a user may lock: the number of the step that went wrong. */
static int locked_by_a_user(void)
{
    struct rlimit l = {4 * P, 4 * P};
    char *p = mmap(NULL, 16 * P, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (setrlimit(RLIMIT_MEMLOCK, &l) || setuid(65534))
        return 1;
    if (mlock(p, 3 * P) || !mlock(p + 4 * P, 2 * P) || errno != ENOMEM)
        return 2;
    if (mlock(p + 2 * P, 2 * P)) /* half of it is */
        return 3;
    if (mmap(NULL, P, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0) != MAP_FAILED || errno != EAGAIN)
        return 4;
    if (!mlockall(MCL_CURRENT) || errno != ENOMEM)
        return 5;
    if (munlock(p, 4 * P) || mlock(p + 8 * P, 4 * P) || munlockall())
        return 6;
    l.rlim_cur = 0;
    if (setrlimit(RLIMIT_MEMLOCK, &l) || !mlock(p, P) || errno != EPERM || !mlockall(MCL_FUTURE) || errno != EPERM)
        return 7;
    return 0;
}

static void advise(void)
{
    char *p = map(8 * P, RW);
    unsigned char vec[8];
    memset(p, 'v', 8 * P);
    is(madvise(p, 2 * P, MADV_DONTNEED), 0, "MADV_DONTNEED");
    ok(p[0] == 0 && p[2 * P] == 'v', "MADV_DONTNEED: zero again");
    is(madvise(p + 4 * P, P, MADV_FREE), 0, "MADV_FREE");
    for (unsigned i = 0; i < 4; i++)
        is(madvise(p, 8 * P, (int[]){MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED}[i]), 0, "madvise: hint %u", i);
    is(madvise(p, P, MADV_DONTDUMP), 0, "MADV_DONTDUMP");
    is(madvise(p, P, MADV_DODUMP), 0, "MADV_DODUMP");
    is(madvise(p, P, MADV_COLD), 0, "MADV_COLD");
    is(madvise(p, 8 * P, MADV_NOHUGEPAGE), 0, "MADV_NOHUGEPAGE");
    is(madvise(p, 4 * P, MADV_POPULATE_READ), 0, "MADV_POPULATE_READ");
    is(madvise(p, 4 * P, MADV_POPULATE_WRITE), 0, "MADV_POPULATE_WRITE");
    err(madvise(p, P, 9999), EINVAL, "madvise: unknown");
    err(madvise(p + 1, P, MADV_DONTNEED), EINVAL, "madvise: not aligned");
    is(madvise(p, 0, MADV_DONTNEED), 0, "madvise: nothing");
    p[0] = 'w', p[P] = 'w';
    is(madvise(p, P, MADV_WIPEONFORK), 0, "MADV_WIPEONFORK");
    is(madvise(p + P, P, MADV_DONTFORK), 0, "MADV_DONTFORK");
    is(WEXITSTATUS(in_child(_exit(p[0]))), 0, "MADV_WIPEONFORK: zero in the child");
    is(WTERMSIG(in_child(signal(SIGSEGV, SIG_DFL); _exit(p[P]))), SIGSEGV, "MADV_DONTFORK: not in the child");
    is(p[0], 'w', "and unchanged here");
    is(madvise(p, 2 * P, MADV_DOFORK), 0, "MADV_DOFORK");
    is(madvise(p, 2 * P, MADV_KEEPONFORK), 0, "MADV_KEEPONFORK");
    munmap(p + 3 * P, P);
    err(madvise(p, 8 * P, MADV_NORMAL), ENOMEM, "madvise: a hole");
    err(mincore(p, 8 * P, vec), ENOMEM, "mincore: a hole");
    is(mincore(p, 3 * P, vec), 0, "mincore");
    is(vec[0] & 1, 1, "mincore: a touched page");
    char *fresh = mmap(NULL, 4 * P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fresh[P] = 1;
    is(mincore(fresh, 4 * P, vec), 0, "mincore of fresh memory");
    ok(!(vec[0] & 1) && vec[1] & 1 && !(vec[2] & 1) && !(vec[3] & 1), "mincore: the touched page only");
    munmap(fresh, 4 * P);
    err(mincore(p + 1, P, vec), EINVAL, "mincore: not aligned");
    err(mincore(p, P, (void *)8), EFAULT, "mincore: bad vector");
    int fd = file("i", 2 * P);
    char *s = mmap(NULL, 2 * P, RW, MAP_SHARED, fd, 0);
    s[0] = 'q';
    is(msync(s, 2 * P, MS_SYNC), 0, "msync");
    is(msync(s, P, MS_ASYNC), 0, "MS_ASYNC");
    err(msync(s, P, MS_ASYNC | MS_SYNC), EINVAL, "msync: both");
    mlock(s, P);
    err(msync(s, P, MS_SYNC | MS_INVALIDATE), EBUSY, "MS_INVALIDATE: locked");
    munlock(s, P);
    is(msync(s, P, MS_SYNC | MS_INVALIDATE), 0, "MS_INVALIDATE");
    err(msync(s, P, 64), EINVAL, "msync: flags");
    err(msync(s + 1, P, MS_SYNC), EINVAL, "msync: not aligned");
    err(msync(p + 3 * P, P, MS_SYNC), ENOMEM, "msync: not mapped");
    is(madvise(s, P, MADV_DONTNEED), 0, "MADV_DONTNEED of a shared file");
    is(s[0], 'q', "keeps its contents");
    is(madvise(s, P, MADV_REMOVE), 0, "MADV_REMOVE");
    is(s[0], 0, "MADV_REMOVE: a hole");
    char *pr = mmap(NULL, P, RW, MAP_PRIVATE, fd, P);
    pr[0] = 'r';
    madvise(pr, P, MADV_DONTNEED);
    is(pr[0], 'B', "MADV_DONTNEED of a private file: the file again");
    is(mlock(p, P), 0, "mlock");
    is(munlock(p, P), 0, "munlock");
    err(mlock(p + 3 * P, P), ENOMEM, "mlock: not mapped");
    err(mlockall(0), EINVAL, "mlockall: no flags");
    err(mlockall(99), EINVAL, "mlockall: flags");
    is(munlockall(), 0, "munlockall");
    is(WEXITSTATUS(in_child(_exit(locked_by_a_user()))), 0, "RLIMIT_MEMLOCK");
}

static void breaks(void)
{
    char *b = sbrk(0);
    ok(b != (void *)-1, "sbrk(0)");
    is(sbrk(3 * P), b, "sbrk grows");
    ok(b[0] == 0 && b[3 * P - 1] == 0, "new memory is zero");
    memset(b, 'b', 3 * P);
    is(brk(b), 0, "brk: back");
    is(sbrk(P), b, "sbrk again");
    is(b[0], 0, "zero again");
    err(brk((void *)(1ul << 60)), ENOMEM, "brk: too far");
    is(sbrk(0), b + P, "brk: unchanged by a failure");
    is(syscall(SYS_brk, 0), (long)(b + P), "brk(0) tells the end");
    is(syscall(SYS_brk, 4096), (long)(b + P), "brk below the start does nothing");
    is(sbrk(100), b + P, "a break within a page");
    b[P + 99] = 1;
    is(sbrk(-100), b + P + 100, "sbrk: negative");
    struct rlimit r = {1 << 20, 1 << 20};
    is(WEXITSTATUS(in_child(setrlimit(RLIMIT_DATA, &r); _exit(sbrk(8 << 20) == (void *)-1 ? errno : 0))), ENOMEM, "RLIMIT_DATA");
    r = (struct rlimit){64 << 20, 64 << 20};
    is(WEXITSTATUS(in_child(setrlimit(RLIMIT_AS, &r); _exit(fails(mmap(NULL, 100 << 20, RW, ANON, -1, 0))))), ENOMEM, "RLIMIT_AS");
}

static void validate(void)
{
    int fd = open("validate", O_RDWR | O_CREAT, 0600);
    must(ftruncate(fd, 4096));
    ok(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_POPULATE, fd, 0) != MAP_FAILED, "MAP_SHARED_VALIDATE");
    is(fails(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | 0x400000, fd, 0)), EOPNOTSUPP, "MAP_SHARED_VALIDATE: an unknown flag");
    ok(mmap(NULL, 4096, PROT_READ, MAP_SHARED | 0x400000, fd, 0) != MAP_FAILED, "MAP_SHARED: an unknown flag");
    close(fd);
}

TAP_MAIN
{
    validate();
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
    basics();
    files();
    protect();
    remap();
    advise();
    breaks();
    return done();
}
