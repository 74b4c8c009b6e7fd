/* Memory of other processes: process_vm_readv, process_vm_writev, /proc/PID/mem; of sleeping, running and own ones. */
#include "tap.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/uio.h>

static char data[3 * 65536 + 100];
static const char constant[4096] __attribute__((aligned(4096))) = "constant";
static volatile int word = 1;
static char *none, *both, *ro;

static ssize_t rd(pid_t p, void *to, const void *from, size_t n)
{
    struct iovec l = {to, n}, r = {(void *)from, n};
    return process_vm_readv(p, &l, 1, &r, 1, 0);
}

static ssize_t wr(pid_t p, const void *from, void *to, size_t n)
{
    struct iovec l = {(void *)from, n}, r = {to, n};
    return process_vm_writev(p, &l, 1, &r, 1, 0);
}

static int mem_open(pid_t p, int flags)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/%d/mem", p);
    return open(name, flags);
}

static void *sleeps(void *p)
{
    for (;;)
        pause();
    return p;
}

/* kind 0: sleeps; 1: runs, ends when word is 3; 2: has threads. */
static pid_t start(int kind)
{
    int p[2];
    char c;
    pthread_t t;
    must(pipe(p));
    pid_t pid = must(fork());
    if (pid) {
        close(p[1]);
        must(read(p[0], &c, 1));
        close(p[0]);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(data, 'c', sizeof(data));
    strcpy(both, "private");
    word = 2;
    if (kind == 2)
        pthread_create(&t, NULL, sleeps, NULL);
    must(write(p[1], "x", 1));
    close(p[1]);
    while (kind == 1)
        if (word == 3)
            _exit(7);
    for (;;)
        pause();
}

static void try_kind(int kind, const char *what)
{
    static char buf[sizeof(data)];
    char c[64];
    pid_t p = start(kind);
    memset(data, 'p', sizeof(data));
    is(rd(p, buf, data, sizeof(data)), sizeof(data), "%s: read", what);
    bool same = true;
    for (size_t i = 0; i < sizeof(data); i++)
        same &= buf[i] == 'c';
    ok(same, "%s: the other's data", what);
    memset(buf, 'w', sizeof(buf));
    is(wr(p, buf, data, sizeof(data) - 1), sizeof(data) - 1, "%s: write", what);
    ok(data[0] == 'p', "%s: one's own is as it was", what);
    is(rd(p, buf, data + sizeof(data) - 2, 2), 2, "%s: read back", what);
    ok(buf[0] == 'w' && buf[1] == 'c', "%s: as written", what);

    struct iovec l[2] = {{c, 3}, {c + 3, 20}}, r[3] = {{data, 2}, {both, 7}, {(void *)constant, 8}};
    is(process_vm_readv(p, l, 2, r, 3, 0), 17, "%s: vectors", what);
    ok(!memcmp(c, "wwprivateconstant", 17), "%s: vectors: data", what);
    r[1].iov_base = none;
    is(process_vm_readv(p, l, 2, r, 3, 0), 2, "%s: up to the piece that cannot be read", what);
    err(rd(p, c, none, 1), EFAULT, "%s: PROT_NONE", what);
    err(rd(p, c, (void *)8, 1), EFAULT, "%s: nothing there", what);
    err(wr(p, "x", (void *)constant, 1), EFAULT, "%s: constants are not written", what);
    err(wr(p, "x", ro, 1), EFAULT, "%s: nor what is read-only", what);
    is(rd(p, c, both + 4090, 100), 6, "%s: up to the end", what);

    int fd = does(mem_open(p, O_RDWR), "%s: mem", what);
    is(pread(fd, c, 7, (off_t)both), 7, "%s: mem: read", what);
    ok(!memcmp(c, "private", 7), "%s: mem: data", what);
    is(pwrite(fd, "P", 1, (off_t)both), 1, "%s: mem: write", what);
    is(pread(fd, c, 8, (off_t)constant), 8, "%s: mem: constants", what);
    is(pwrite(fd, "K", 1, (off_t)constant), 1, "%s: mem: constants are written all the same", what);
    is(pread(fd, c, 8, (off_t)constant), 8, "%s: mem: and read again", what);
    ok(!memcmp(c, "Konstant", 8) && constant[0] == 'c', "%s: mem: a page of its own", what);
    is(pwrite(fd, "none", 4, (off_t)none), 4, "%s: mem: PROT_NONE is written", what);
    is(pread(fd, c, 4, (off_t)none), 4, "%s: mem: and read", what);
    ok(!memcmp(c, "none", 4), "%s: mem: as it was written", what);
    is(pwrite(fd, "x", 1, (off_t)ro), -1, "%s: mem: not shared memory that is read-only", what);
    err(pread(fd, c, 4, 8), EIO, "%s: mem: nothing there", what);
    is(lseek(fd, (off_t)&word, SEEK_SET), (off_t)&word, "%s: mem: seek", what);
    int v = 0;
    is(read(fd, &v, 4), 4, "%s: mem: read there", what);
    is(v, 2, "%s: mem: the word", what);
    if (kind == 1) {
        v = 3;
        is(pwrite(fd, &v, 4, (off_t)&word), 4, "%s: it is told to end", what);
    } else {
        kill(p, SIGKILL);
    }
    int status;
    is(waitpid(p, &status, 0), p, "%s: it ends", what);
    is(status, kind == 1 ? 7 << 8 : SIGKILL, "%s: as told", what);
    is(pread(fd, c, 4, (off_t)both), 0, "%s: mem of one that has ended", what);
    err(rd(p, c, both, 4), ESRCH, "%s: nobody", what);
    close(fd);
}

static void own(void)
{
    char c[16] = "";
    int fd = does(open("/proc/self/mem", O_RDWR), "own mem");
    is(pwrite(fd, "X", 1, (off_t)constant), 1, "own constants are written");
    ok(*(volatile const char *)constant == 'X', "and seen");
    is(pwrite(fd, "own", 3, (off_t)none), 3, "own PROT_NONE");
    is(pread(fd, c, 3, (off_t)none), 3, "and read");
    is_str(c, "own", "as written");
    err(pread(fd, c, 1, 16), EIO, "nothing there");
    is(pwrite(fd, "c", 1, (off_t)constant), 1, "back");
    close(fd);
}

/* Two that read each other's memory all the time. */
static void each_other(void)
{
    volatile pid_t *pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++) {
        pid_t p = must(fork()); /* the child must not store its zero */
        if (p) {
            pids[i] = p;
        } else {
            long bad = 0;
            char c[8];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            strcpy(both, i ? "one" : "nul");
            pids[2 + i] = 1;
            while (!pids[2 + !i] || !pids[!i])
                usleep(1000);
            for (int n = 0; n < 100; n++)
                bad += rd(pids[!i], c, both, 4) != 4 || strcmp(c, i ? "nul" : "one");
            pids[4 + i] = 1;
            while (!pids[4 + !i])
                usleep(1000);
            _exit(bad != 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        is(status, 0, "each reads the other's memory");
    }
}

static void rights(void)
{
    char c[8];
    int p[2], status;
    pid_t child = start(0);
    must(pipe(p));
    status = in_child({
        must(setresgid(1234, 1234, 1234));
        must(setresuid(1234, 1234, 1234));
        err(rd(child, c, both, 4), EPERM, "another user's memory");
        err(wr(child, c, both, 4), EPERM, "another user's memory is not written");
        err(mem_open(child, O_RDONLY), EACCES, "another user's mem");
        is(prctl(PR_GET_DUMPABLE), 0, "who has changed its user is not dumpable");
        pid_t twin = start(0);
        err(rd(twin, c, both, 4), EPERM, "nor its child: the same user may not");
        kill(twin, SIGKILL);
        waitpid(twin, NULL, 0);
        prctl(PR_SET_DUMPABLE, 1);
        twin = start(0);
        is(rd(twin, c, both, 4), 4, "of a dumpable one it may");
        kill(twin, SIGKILL);
        waitpid(twin, NULL, 0);
    });
    is(status, 0, "another user");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(p[0]), close(p[1]);
}

TAP_MAIN
{
    none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    both = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(both + 4096, 4096, PROT_NONE);
    ro = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    try_kind(0, "asleep");
    try_kind(1, "running");
    try_kind(2, "with threads");
    own();
    each_other();
    rights();
    return done();
}
