/* pipe, pipe2, FIFOs: sizes, atomic writes, O_NONBLOCK, SIGPIPE, packets, poll states. */
#include "tap.h"
#include <poll.h>
#include <sys/ioctl.h>

static char buf[1 << 20];
static volatile int sigpipes;
static void on_pipe(int s) { (void)s, sigpipes++; }
static short events(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    poll(&p, 1, 0);
    return p.revents;
}
static int queued(int fd)
{
    int n = -1;
    ioctl(fd, FIONREAD, &n);
    return n;
}

/* Each holds more and more of them, so that the kernel makes room for new ones all the time, for several at once. */
static int by_many(void)
{
    int go[2], p[2], st, failed = 0;
    must(pipe(go));
    for (int k = 0; k < 4; k++)
        if (!fork()) {
            close(go[1]);
            read(go[0], &st, 1); /* all begin at once */
            for (int i = 0; i < 500; i++)
                if (pipe(p))
                    _exit(1);
            _exit(0);
        }
    close(go[0]);
    close(go[1]);
    for (int k = 0; k < 4; k++) {
        wait(&st);
        failed += st != 0;
    }
    return failed;
}

TAP_MAIN
{
    int p[2], n;
    err(pipe2(p, 0x40000000), EINVAL, "pipe2: flags");
    err(pipe((int *)8), EFAULT, "pipe: bad pointer");
    is(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0, "pipe2");
    ok(fcntl(p[0], F_GETFD) == FD_CLOEXEC && fcntl(p[1], F_GETFD) == FD_CLOEXEC, "O_CLOEXEC");
    is(fcntl(p[0], F_GETFL), O_RDONLY | O_NONBLOCK, "flags of the read end");
    is(fcntl(p[1], F_GETFL), O_WRONLY | O_NONBLOCK, "flags of the write end");
    struct stat a, b;
    fstat(p[0], &a);
    fstat(p[1], &b);
    ok(S_ISFIFO(a.st_mode) && a.st_ino == b.st_ino && a.st_dev == b.st_dev, "both ends are one inode");
    is(a.st_mode & 07777, 0600, "mode");
    char l1[64] = {0}, l2[64] = {0}, path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", p[0]);
    readlink(path, l1, 63);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", p[1]);
    readlink(path, l2, 63);
    ok(!strncmp(l1, "pipe:[", 6) && !strcmp(l1, l2), "/proc/self/fd names both the same");
    snprintf(path, sizeof(path), "pipe:[%lu]", (unsigned long)a.st_ino);
    is_str(l1, path, "with the inode's number") ;
    err(read(p[1], buf, 1), EBADF, "read of the write end");
    err(write(p[0], buf, 1), EBADF, "write to the read end");
    err(read(p[0], buf, 1), EAGAIN, "empty: EAGAIN");
    is(events(p[0]), 0, "empty: not readable");
    is(events(p[1]), POLLOUT, "empty: writable");
    is(write(p[1], "hello", 5), 5, "write");
    is(queued(p[0]), 5, "FIONREAD");
    is(events(p[0]), POLLIN, "readable");
    is(read(p[0], buf, 2), 2, "part of it");
    is(read(p[0], buf, 100), 3, "the rest");
    is(fcntl(p[1], F_GETPIPE_SZ), 65536, "F_GETPIPE_SZ");
    for (n = 0; write(p[1], buf, 4096) == 4096; n++)
        ;
    is(n, 16, "64 KiB fit");
    err(write(p[1], buf, 1), EAGAIN, "full: EAGAIN");
    is(events(p[1]), 0, "full: not writable");
    is(queued(p[0]), 65536, "FIONREAD when full");
    is(read(p[0], buf, 100), 100, "some room");
    err(write(p[1], buf, 4096), EAGAIN, "a small write is all or nothing");
    is(events(p[1]), 0, "not writable before a page is free");
    is(read(p[0], buf, 3996), 3996, "a page is free");
    is(events(p[1]), POLLOUT, "writable");
    is(write(p[1], buf, 8192), 4096, "a big write is cut");
    while (read(p[0], buf, sizeof(buf)) > 0)
        ;
    is(write(p[1], buf, sizeof(buf)), 65536, "a huge write is cut to the room");
    while (read(p[0], buf, sizeof(buf)) > 0)
        ;
    is(fcntl(p[1], F_SETPIPE_SZ, 1 << 20), 1 << 20, "F_SETPIPE_SZ: 1 MiB");
    is(write(p[1], buf, sizeof(buf)), 1 << 20, "then it fits");
    err(fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY, "F_SETPIPE_SZ: more is in it");
    while (read(p[0], buf, sizeof(buf)) > 0)
        ;
    is(fcntl(p[0], F_SETPIPE_SZ, 1), 4096, "F_SETPIPE_SZ: at least a page");
    is(fcntl(p[0], F_SETPIPE_SZ, 5000), 8192, "F_SETPIPE_SZ: rounded up");
    if (fcntl(p[0], F_SETPIPE_SZ, 65536) < 0)
        note("cannot set back");
    err(fcntl(0, F_GETPIPE_SZ), EBADF, "F_GETPIPE_SZ: not a pipe");
    close(p[1]);
    is(events(p[0]), POLLHUP, "no writer: POLLHUP");
    is(read(p[0], buf, 1), 0, "no writer: end");
    close(p[0]);
    signal(SIGPIPE, on_pipe);
    must(pipe(p));
    write(p[1], "x", 1);
    close(p[0]);
    ok((events(p[1]) & POLLERR) != 0, "no reader: POLLERR");
    err(write(p[1], "x", 1), EPIPE, "no reader: EPIPE");
    is(sigpipes, 1, "and SIGPIPE");
    signal(SIGPIPE, SIG_IGN);
    err(write(p[1], "x", 1), EPIPE, "no reader, ignored SIGPIPE: EPIPE");
    is(write(p[1], "x", 0), 0, "write of nothing is no error");
    close(p[1]);
    is(in_child(signal(SIGPIPE, SIG_DFL); pipe(p); close(p[0]); write(p[1], "x", 1)), SIGPIPE, "SIGPIPE kills");
    /* blocking */
    must(pipe(p));
    pid_t c = fork();
    if (!c) {
        close(p[0]);
        sleep_ms(40);
        write(p[1], "abc", 3);
        sleep_ms(40);
        _exit(0);
    }
    close(p[1]);
    is(read(p[0], buf, 10), 3, "a reader waits for data");
    is(read(p[0], buf, 10), 0, "and for the last writer");
    waitpid(c, NULL, 0);
    close(p[0]);
    must(pipe(p));
    c = fork();
    if (!c) {
        close(p[1]);
        size_t total = 0;
        ssize_t r;
        while ((r = read(p[0], buf, 10000)) > 0)
            total += (size_t)r, sleep_ms(1);
        _exit(total == 300000 ? 0 : 1);
    }
    close(p[0]);
    is(write(p[1], buf, 300000), 300000, "a blocking write waits for room");
    close(p[1]);
    int st;
    waitpid(c, &st, 0);
    is(st, 0, "and all arrives");
    /* atomicity: writes up to PIPE_BUF of two writers are not mixed */
    must(pipe(p));
    for (int k = 0; k < 2; k++)
        if (!fork()) {
            char m[512];
            memset(m, 'A' + k, sizeof(m));
            close(p[0]);
            for (int i = 0; i < 300; i++)
                write(p[1], m, sizeof(m));
            _exit(0);
        }
    close(p[1]);
    int mixed = 0, total = 0;
    char m[512];
    for (;;) {
        int have = 0;
        ssize_t r;
        while (have < 512 && (r = read(p[0], m + have, 512 - (size_t)have)) > 0)
            have += (int)r;
        if (have < 512)
            break;
        total++;
        for (int i = 1; i < 512; i++)
            mixed += m[i] != m[0];
    }
    ok(total == 600 && !mixed, "writes up to PIPE_BUF are atomic");
    while (wait(NULL) > 0)
        ;
    close(p[0]);
    /* packets */
    must(pipe2(p, O_DIRECT));
    write(p[1], "one", 3);
    write(p[1], "three", 5);
    is(read(p[0], buf, 100), 3, "O_DIRECT: a packet");
    is(read(p[0], buf, 2), 2, "O_DIRECT: cut");
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    err(read(p[0], buf, 2), EAGAIN, "O_DIRECT: the rest is gone");
    close(p[0]);
    close(p[1]);
    /* a writer that blocks gets EPIPE when the reader goes */
    must(pipe(p));
    fcntl(p[1], F_SETPIPE_SZ, 4096);
    c = fork();
    if (!c) {
        close(p[1]);
        sleep_ms(50);
        _exit(0);
    }
    close(p[0]);
    is(write(p[1], buf, 100000), 4096, "a blocked write ends short when the reader goes");
    waitpid(c, NULL, 0);
    close(p[1]);
    /* FIFO */
    is(mkfifo("f", 0640), 0, "mkfifo");
    err(mkfifo("f", 0640), EEXIST, "mkfifo: exists");
    c = fork();
    if (!c) {
        sleep_ms(30);
        int w = open("f", O_WRONLY);
        write(w, "via fifo", 8);
        _exit(0);
    }
    int r = open("f", O_RDONLY);
    ok(r >= 0, "open waits for the writer");
    is(read(r, buf, 100), 8, "data");
    is(read(r, buf, 100), 0, "end");
    waitpid(c, NULL, 0);
    is(events(r), POLLHUP, "POLLHUP after the last writer");
    int w = open("f", O_WRONLY);
    is(events(r), 0, "not with a new one");
    write(w, "x", 1);
    is(events(r), POLLIN, "readable");
    close(r);
    close(w);
    r = open("f", O_RDONLY | O_NONBLOCK);
    is(events(r), 0, "no writer yet: no POLLHUP");
    is(read(r, buf, 1), 0, "no writer yet: end");
    fstat(r, &a);
    ok(S_ISFIFO(a.st_mode) && (a.st_mode & 07777) == 0640, "fstat of a FIFO");
    close(r);
    is(by_many(), 0, "four processes make 500 each at once: none fails");
    return done();
}
