/* Part of state.c: memory. */
#define PAGE 4096ul
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

static sigjmp_buf fault_at;
static void on_fault(int sig) { siglongjmp(fault_at, sig); }

/* 1: touching it is a fault */
static bool faults(volatile char *p, bool write)
{
    struct sigaction sa = {.sa_handler = on_fault}, old;
    sigaction(SIGSEGV, &sa, &old);
    bool r = true;
    if (!sigsetjmp(fault_at, 1)) {
        if (write)
            *p = 1;
        else
            (void)*p;
        r = false;
    }
    sigaction(SIGSEGV, &old, NULL);
    return r;
}

static char *map(size_t pages, int prot, int flags, int fd)
{
    char *p = mmap(NULL, pages * PAGE, prot, flags, fd, 0);
    if (p == MAP_FAILED)
        must(-1);
    return p;
}

static char *filled(size_t pages, int c) { return memset(map(pages, RW, PRIVATE, -1), c, pages * PAGE); }

static bool all(const char *p, size_t size, char c)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != c)
            return false;
    return true;
}

static bool alike(const char *p, size_t pages, char c) { return all(p, pages * PAGE, c); }

static struct {
    char *plain, *emptied, *fork_emptied, *freed, *grown, *moved, *kept, *over, *hole, *protected, *none, *sparse, *wiped, *dontfork, *code,
        *down, *shared, *file_shared, *file_private, *host_private, *locked, *dev_zero, *big, *split;
    char *brk;
    size_t host_size;
    int fd, host_fd;
} m;
#define SPARSE (8ul << 30)

__attribute__((noinline, noclone, aligned(4096))) static int patched(void)
{
    __asm__ volatile("");
    return 1;
}

static void patch(char value)
{
    char *page = (char *)((uintptr_t)patched & ~(PAGE - 1));
    static const char code[] = {(char)0xb8, 0, 0, 0, 0, (char)0xc3}; /* mov eax, value; ret */
    must(mprotect(page, PAGE, RW | PROT_EXEC));
    memcpy((char *)(uintptr_t)patched, code, sizeof(code));
    ((char *)(uintptr_t)patched)[1] = value;
    must(mprotect(page, PAGE, PROT_READ | PROT_EXEC));
}

static long (*jit)(void);
static long call_jit(void)
{
    long r = 0;
    for (int i = 0; i < 40; i++)
        r = jit();
    return r;
}

static void memory_setup(void)
{
    m.plain = filled(40, 1);
    m.emptied = filled(16, 2);
    m.fork_emptied = filled(4, 2);
    m.freed = filled(4, 3);
    m.grown = filled(8, 4);
    m.moved = filled(8, 5);
    m.kept = filled(4, 6);
    m.over = filled(4, 7);
    m.hole = filled(9, 8);
    m.protected = filled(3, 9);
    m.none = filled(3, 10);
    m.split = filled(64, 14);
    must(mprotect(m.none, 3 * PAGE, PROT_NONE));
    must(mprotect(m.protected + PAGE, PAGE, PROT_READ));
    for (int i = 0; i < 64; i += 2)
        must(mprotect(m.split + (size_t)i * PAGE, PAGE, PROT_READ));
    m.sparse = map(SPARSE / PAGE, RW, PRIVATE | MAP_NORESERVE, -1);
    for (size_t i = 0; i < SPARSE; i += SPARSE / 64)
        m.sparse[i + 77] = (char)(1 + i / (SPARSE / 64));
    m.wiped = filled(2, 11);
    must(madvise(m.wiped, 2 * PAGE, MADV_WIPEONFORK));
    m.dontfork = filled(2, 12);
    must(madvise(m.dontfork, 2 * PAGE, MADV_DONTFORK));
    m.code = map(1, RW | PROT_EXEC, PRIVATE, -1);
    static const unsigned char getppid_code[] = {0xb8, 0x6e, 0, 0, 0, 0x0f, 0x05, 0xc3};
    memcpy(m.code, getppid_code, sizeof(getppid_code));
    jit = (long (*)(void))(uintptr_t)m.code;
    call_jit();
    m.down = map(600, PROT_NONE, PRIVATE, -1);
    m.down = mmap(m.down + 598 * PAGE, 2 * PAGE, RW, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    memset(m.down, 13, 2 * PAGE);
    m.brk = sbrk(8 * PAGE);
    memset(m.brk, 20, 8 * PAGE);
    patch(2);
    m.shared = memset(map(8, RW, MAP_SHARED | MAP_ANONYMOUS, -1), 21, 8 * PAGE);
    m.fd = (int)must(open("mapped", O_RDWR | O_CREAT, 0644));
    char page[PAGE];
    memset(page, 22, PAGE);
    for (int i = 0; i < 4; i++)
        must(write(m.fd, page, PAGE));
    m.file_shared = map(4, RW, MAP_SHARED, m.fd);
    m.file_private = map(4, RW, MAP_PRIVATE, m.fd);
    memset(m.file_shared + PAGE, 23, PAGE);
    memset(m.file_private + 2 * PAGE, 24, PAGE);
    m.host_fd = (int)must(open("/proc/self/exe", O_RDONLY));
    m.host_private = map(4, RW, MAP_PRIVATE, m.host_fd);
    memset(m.host_private + PAGE, 25, PAGE);
    m.locked = filled(2, 26);
    mlock(m.locked, 2 * PAGE);
    int zero = (int)must(open("/dev/zero", O_RDWR));
    m.dev_zero = memset(map(2, RW, MAP_PRIVATE, zero), 27, 2 * PAGE);
    close(zero);
    m.big = map((64 << 20) / PAGE, RW, PRIVATE, -1);
    madvise(m.big, 64 << 20, MADV_HUGEPAGE);
    memset(m.big, 28, 5 << 20);
}

static void check_anonymous(void)
{
    ok(alike(m.plain, 40, 1), "anonymous memory");
    ok(alike(m.locked, 2, 26), "locked memory");
    ok(alike(m.dev_zero, 2, 27), "private memory of /dev/zero");
    ok(all(m.big, 5 << 20, 28) && all(m.big + (5 << 20), 59 << 20, 0), "large pages");
    madvise(m.big + (2 << 20), 2 << 20, MADV_DONTNEED);
    ok(all(m.big, 2 << 20, 28) && all(m.big + (2 << 20), 2 << 20, 0) && all(m.big + (4 << 20), 1 << 20, 28), "  the middle is emptied");
    ok(alike(m.emptied, 16, 2), "memory that will be emptied");
    madvise(m.emptied + 4 * PAGE, 4 * PAGE, MADV_DONTNEED);
    ok(alike(m.emptied, 4, 2) && alike(m.emptied + 4 * PAGE, 4, 0) && alike(m.emptied + 8 * PAGE, 8, 2), "MADV_DONTNEED gives zeroes");
    memset(m.emptied + 4 * PAGE, 99, 4 * PAGE);
    madvise(m.emptied, 16 * PAGE, MADV_DONTNEED);
    ok(alike(m.emptied, 16, 0), "MADV_DONTNEED again");
    is(in_child(madvise(m.fork_emptied, 4 * PAGE, MADV_DONTNEED); _exit(!alike(m.fork_emptied, 4, 0))), 0, "MADV_DONTNEED in a child");
    ok(alike(m.fork_emptied, 4, 2), "  not in the parent");
    memset(m.freed, 98, 4 * PAGE);
    madvise(m.freed, 4 * PAGE, MADV_FREE);
    ok(m.freed[0] == 98 || m.freed[0] == 0, "MADV_FREE: what was written last, or zero");
    char *p = mremap(m.grown, 8 * PAGE, 4096 * PAGE, MREMAP_MAYMOVE);
    ok(p != MAP_FAILED && alike(p, 8, 4) && alike(p + 8 * PAGE, 100, 0), "mremap: grown");
    p = mremap(p, 4096 * PAGE, 4 * PAGE, 0);
    p = mremap(p, 4 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
    ok(p != MAP_FAILED && alike(p, 4, 4) && alike(p + 4 * PAGE, 12, 0), "mremap: shrunk and grown");
    char *to = map(8, PROT_NONE, PRIVATE, -1);
    p = mremap(m.moved, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    ok(p == to && alike(p, 8, 5) && faults(m.moved, false), "mremap: moved");
    madvise(p, 2 * PAGE, MADV_DONTNEED);
    ok(alike(p, 2, 0) && alike(p + 2 * PAGE, 6, 5), "  and emptied there");
    p = mremap(m.kept, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    ok(p != MAP_FAILED && alike(p, 4, 6) && alike(m.kept, 4, 0), "MREMAP_DONTUNMAP leaves zeroes");
    p = mmap(m.over, 2 * PAGE, RW, PRIVATE | MAP_FIXED, -1, 0);
    ok(p == m.over && alike(p, 2, 0) && alike(p + 2 * PAGE, 2, 7), "a mapping over the half");
    munmap(m.hole + 3 * PAGE, 3 * PAGE);
    ok(faults(m.hole + 4 * PAGE, true) && alike(m.hole, 3, 8) && alike(m.hole + 6 * PAGE, 3, 8), "a hole in the middle");
    p = mmap(m.hole + 3 * PAGE, 3 * PAGE, RW, PRIVATE | MAP_FIXED, -1, 0);
    ok(alike(m.hole, 3, 8) && alike(p, 3, 0), "  filled again");
    madvise(m.hole, 9 * PAGE, MADV_DONTNEED);
    ok(alike(m.hole, 9, 0), "  and emptied");
}

static void check_protection(void)
{
    ok(faults(m.protected + PAGE, true) && !faults(m.protected, true), "read-only pages");
    mprotect(m.protected + PAGE, PAGE, RW);
    ok(!faults(m.protected + PAGE, true) && all(m.protected + PAGE + 1, PAGE - 1, 9), "  made writable");
    ok(faults(m.none, false), "PROT_NONE");
    mprotect(m.none, 2 * PAGE, PROT_READ);
    ok(alike(m.none, 2, 10) && faults(m.none + 2 * PAGE, false), "PROT_NONE with data");
    bool good = alike(m.split, 64, 14);
    mprotect(m.split, 64 * PAGE, RW);
    memset(m.split + 31 * PAGE, 15, PAGE);
    madvise(m.split + 32 * PAGE, 32 * PAGE, MADV_DONTNEED);
    ok(good && alike(m.split, 31, 14) && alike(m.split + 32 * PAGE, 32, 0), "pages of many protections made one mapping");
    is(patched(), 2, "patched text");
    patch(3);
    is(patched(), 3, "  patched again");
    is(call_jit(), getppid(), "made code calls the system");
    char *page = (char *)((uintptr_t)patched & ~(PAGE - 1));
    madvise(page, PAGE, MADV_DONTNEED);
    is(patched(), 1, "  MADV_DONTNEED gives the file's code");
}

static int check_brk(void)
{
    char *behind = (char *)(((uintptr_t)m.brk + 5 * PAGE) & ~(PAGE - 1));
    if (brk(m.brk + 4 * PAGE) || !faults(m.brk + 5 * PAGE, false))
        return 1;
    return brk(m.brk + 64 * PAGE) || !alike(m.brk, 4, 20) || !all(behind, 50 * PAGE, 0) ? 2 : 0;
}

static void check_wide(bool clone)
{
    bool good = true;
    for (size_t i = 0; i < SPARSE; i += SPARSE / 64)
        good &= m.sparse[i + 77] == (char)(1 + i / (SPARSE / 64)) && m.sparse[i + SPARSE / 128] == 0;
    ok(good, "a huge sparse mapping");
    madvise(m.sparse, SPARSE, MADV_DONTNEED);
    for (size_t i = 0; i < SPARSE; i += SPARSE / 64)
        good &= m.sparse[i + 77] == 0;
    ok(good, "  emptied");
    ok(munmap(m.sparse, SPARSE) == 0 && faults(m.sparse, false), "  and unmapped");
    ok(alike(m.wiped, 2, clone ? 0 : 11), "MADV_WIPEONFORK");
    madvise(m.wiped, PAGE, MADV_DONTNEED);
    memset(m.wiped, 55, PAGE);
    is(in_child(_exit(!alike(m.wiped, 1, 0))), 0, "  is still so after MADV_DONTNEED");
    memset(m.wiped, 55, 2 * PAGE);
    is(in_child(_exit(!alike(m.wiped, 2, 0))), 0, "  in a child");
    ok(alike(m.wiped, 2, 55), "  and here");
    ok(alike(m.dontfork, 2, 12), "MADV_DONTFORK");
    is(in_child(_exit(!faults(m.dontfork, false))), 0, "  in a child");
    ok(alike(m.down, 2, 13), "MAP_GROWSDOWN");
    munmap(m.down - 598 * PAGE, 598 * PAGE);
    ok(!faults(m.down - 8, true) && !faults(m.down - PAGE - 8, true) && all(m.down - PAGE, PAGE - 8, 0), "  grows");
    ok(alike(m.brk, 8, 20), "brk");
    is(in_child(_exit(check_brk())), 0, "  shrinks and grows with zeroes"); /* the allocator's memory lies behind it */
}

static void check_mapped(void)
{
    char page[PAGE], now[PAGE];
    ok(alike(m.shared, 8, 21), "shared memory");
    in_child(memset(m.shared, 30, PAGE));
    ok(alike(m.shared, 1, 30) && alike(m.shared + PAGE, 7, 21), "  is shared with a child");
    madvise(m.shared, PAGE, MADV_DONTNEED);
    ok(alike(m.shared, 1, 30), "  MADV_DONTNEED keeps it");
    madvise(m.shared + PAGE, PAGE, MADV_REMOVE);
    ok(alike(m.shared + PAGE, 1, 0), "  MADV_REMOVE empties it");
    ok(alike(m.file_shared, 1, 22) && alike(m.file_shared + PAGE, 1, 23), "a shared mapping of a file");
    ok(pread(m.fd, page, PAGE, PAGE) == (ssize_t)PAGE && all(page, PAGE, 23), "  is the file");
    memset(page, 31, PAGE);
    pwrite(m.fd, page, PAGE, 3 * PAGE);
    ok(alike(m.file_shared + 3 * PAGE, 1, 31), "  shows what is written later");
    ok(alike(m.file_private, 1, 22) && alike(m.file_private + PAGE, 1, 23) && alike(m.file_private + 2 * PAGE, 1, 24) &&
       alike(m.file_private + 3 * PAGE, 1, 31), "a private mapping of a file");
    madvise(m.file_private, 4 * PAGE, MADV_DONTNEED);
    ok(alike(m.file_private + 2 * PAGE, 1, 22), "  MADV_DONTNEED gives the file");
    ftruncate(m.fd, PAGE);
    ftruncate(m.fd, 4 * PAGE);
    ok(alike(m.file_shared, 1, 22) && alike(m.file_shared + PAGE, 3, 0), "  cut and grown again");
    ok(alike(m.host_private + PAGE, 1, 25), "a private mapping of the program");
    pread(m.host_fd, now, PAGE, 0);
    ok(!memcmp(m.host_private, now, PAGE), "  is the file");
    pread(m.host_fd, now, PAGE, PAGE);
    madvise(m.host_private, 4 * PAGE, MADV_DONTNEED);
    ok(!memcmp(m.host_private + PAGE, now, PAGE), "  MADV_DONTNEED gives the file");
}

__attribute__((noinline)) static int deep(int n)
{
    volatile char frame[2000];
    frame[0] = frame[1999] = (char)n;
    return n ? deep(n - 1) + (frame[1999] != frame[0]) : 0;
}
