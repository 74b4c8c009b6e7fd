/* flock, fcntl record locks, open file description locks. */
#include "tap.h"
#include <sys/file.h>

static int lock(int fd, int cmd, int type, off_t start, off_t len)
{
    struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(fd, cmd, &l);
}
static struct flock get(int fd, int cmd, int type, off_t start, off_t len)
{
    struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    if (fcntl(fd, cmd, &l))
        l.l_type = -1;
    return l;
}
static int other(int type, off_t start, off_t len) /* what another process gets for trying a lock */
{
    return WEXITSTATUS(in_child(int fd = open("f", O_RDWR); _exit(lock(fd, F_SETLK, type, start, len) ? errno : 0)));
}

TAP_MAIN
{
    int a = must(open("f", O_CREAT | O_RDWR, 0600)), b = must(open("f", O_RDWR));
    write(a, "0123456789", 10);
    is(flock(a, LOCK_EX), 0, "flock: LOCK_EX");
    err(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK, "flock: another description");
    err(flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK, "flock: shared neither");
    is(flock(dup(a), LOCK_EX | LOCK_NB), 0, "flock: a duplicate is the same");
    is(flock(a, LOCK_SH), 0, "flock: down to shared");
    is(flock(b, LOCK_SH | LOCK_NB), 0, "flock: two shared ones");
    err(flock(a, LOCK_EX | LOCK_NB), EWOULDBLOCK, "flock: up again");
    is(flock(b, LOCK_UN), 0, "flock: unlock");
    is(flock(a, LOCK_EX | LOCK_NB), 0, "flock: exclusive again");
    err(flock(a, 0), EINVAL, "flock: bad operation");
    err(flock(999, LOCK_EX), EBADF, "flock: bad descriptor");
    is(WEXITSTATUS(in_child(_exit(flock(a, LOCK_EX | LOCK_NB) ? errno : 0))), 0, "flock: inherited by fork");
    pid_t c = fork();
    if (!c) {
        sleep_ms(50);
        flock(a, LOCK_UN);
        _exit(0);
    }
    is(flock(b, LOCK_EX), 0, "flock: waits");
    waitpid(c, NULL, 0);
    flock(b, LOCK_UN);
    int ro = open("f", O_RDONLY);
    is(flock(ro, LOCK_EX | LOCK_NB), 0, "flock: read-only descriptors too");
    close(ro);
    is(flock(a, LOCK_EX | LOCK_NB), 0, "flock: closing unlocks");
    is(lock(b, F_SETLK, F_WRLCK, 0, 0), 0, "flock and fcntl locks do not meet");
    lock(b, F_SETLK, F_UNLCK, 0, 0);
    flock(a, LOCK_UN);
    /* records */
    is(lock(a, F_SETLK, F_WRLCK, 2, 3), 0, "F_SETLK");
    is(other(F_WRLCK, 0, 2), 0, "record: before it");
    is(other(F_WRLCK, 5, 5), 0, "record: behind it");
    is(other(F_RDLCK, 4, 1), EAGAIN, "record: in it");
    is(other(F_WRLCK, 0, 0), EAGAIN, "record: to the end");
    is(lock(b, F_SETLK, F_WRLCK, 0, 0), 0, "record: one's own process may");
    is(other(F_RDLCK, 9, 1), EAGAIN, "record: all of it");
    is(lock(a, F_SETLK, F_UNLCK, 3, 1), 0, "record: a hole");
    is(other(F_WRLCK, 3, 1), 0, "record: in the hole");
    is(other(F_WRLCK, 2, 1), EAGAIN, "record: before the hole");
    is(lock(a, F_SETLK, F_RDLCK, 0, 0), 0, "record: down to shared");
    is(other(F_RDLCK, 0, 0), 0, "record: shared twice");
    is(other(F_WRLCK, 0, 1), EAGAIN, "record: not exclusive");
    struct flock g = get(a, F_GETLK, F_WRLCK, 0, 0);
    is(g.l_type, F_UNLCK, "F_GETLK: one's own does not count");
    pid_t me = getpid();
    int st = in_child(int fd = open("f", O_RDWR); struct flock l = get(fd, F_GETLK, F_WRLCK, 3, 2);
                      _exit(l.l_type == F_RDLCK && l.l_pid == me && l.l_start == 0 && l.l_len == 0 && l.l_whence == SEEK_SET ? 0 : 1));
    is(st, 0, "F_GETLK: whose it is");
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    lock(a, F_SETLK, F_WRLCK, 10, 5);
    lock(a, F_SETLK, F_RDLCK, 1, 5);
    st = in_child(int fd = open("f", O_RDWR); struct flock l = get(fd, F_GETLK, F_WRLCK, 0, 0);
                  _exit(l.l_type == F_RDLCK && l.l_start == 1 && l.l_len == 5 ? 0 : 1));
    is(st, 0, "F_GETLK: the first in the file, not the oldest");
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    lock(a, F_SETLK, F_RDLCK, 0, 0);
    is(WEXITSTATUS(in_child(_exit(lock(a, F_SETLK, F_WRLCK, 0, 1) ? errno : 0))), EAGAIN, "record: not inherited by fork");
    close(dup(a));
    is(other(F_WRLCK, 0, 0), 0, "record: closing any descriptor of the file unlocks");
    ro = open("f", O_RDONLY);
    err(lock(ro, F_SETLK, F_WRLCK, 0, 0), EBADF, "record: exclusive needs writing");
    is(lock(ro, F_SETLK, F_RDLCK, 0, 0), 0, "record: shared needs reading");
    close(ro);
    int wo = open("f", O_WRONLY);
    err(lock(wo, F_SETLK, F_RDLCK, 0, 0), EBADF, "record: shared without reading");
    close(wo);
    err(lock(a, F_SETLK, 99, 0, 0), EINVAL, "record: bad type");
    err(lock(a, F_SETLK, F_WRLCK, -1, 1), EINVAL, "record: negative start");
    is(lock(a, F_SETLK, F_WRLCK, 5, -3), 0, "record: negative length");
    is(other(F_WRLCK, 2, 1), EAGAIN, "record: counts backwards");
    is(other(F_WRLCK, 5, 1), 0, "record: and ends before the start");
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    err(fcntl(a, F_SETLK, (void *)8), EFAULT, "record: bad pointer");
    struct flock w = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -2, .l_len = 1};
    is(fcntl(a, F_SETLK, &w), 0, "record: from the end");
    is(other(F_WRLCK, 8, 1), EAGAIN, "record: from the end: there");
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    int p[2];
    must(pipe(p));
    c = fork();
    if (!c) {
        int fd = open("f", O_RDWR);
        lock(fd, F_SETLK, F_WRLCK, 0, 0);
        write(p[1], "x", 1);
        sleep_ms(60);
        _exit(0);
    }
    char x;
    read(p[0], &x, 1);
    is(lock(a, F_SETLKW, F_WRLCK, 0, 0), 0, "F_SETLKW waits until the owner ends");
    waitpid(c, NULL, 0);
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    /* deadlock */
    lock(a, F_SETLK, F_WRLCK, 0, 1);
    c = fork();
    if (!c) {
        int fd = open("f", O_RDWR);
        lock(fd, F_SETLK, F_WRLCK, 5, 1);
        write(p[1], "x", 1);
        _exit(lock(fd, F_SETLKW, F_WRLCK, 0, 1) ? errno : 0);
    }
    read(p[0], &x, 1);
    sleep_ms(40);
    err(lock(a, F_SETLKW, F_WRLCK, 5, 1), EDEADLK, "deadlock is seen");
    lock(a, F_SETLK, F_UNLCK, 0, 0);
    waitpid(c, &st, 0);
    is(st, 0, "the other one goes on");
    /* open file descriptions */
    is(lock(a, F_OFD_SETLK, F_WRLCK, 0, 5), 0, "F_OFD_SETLK");
    err(lock(b, F_OFD_SETLK, F_WRLCK, 0, 1), EAGAIN, "OFD: another description of this process");
    is(lock(dup(a), F_OFD_SETLK, F_WRLCK, 0, 1), 0, "OFD: a duplicate");
    is(WEXITSTATUS(in_child(_exit(lock(a, F_OFD_SETLK, F_WRLCK, 0, 1) ? errno : 0))), 0, "OFD: inherited by fork");
    g = get(b, F_OFD_GETLK, F_WRLCK, 0, 1);
    ok(g.l_type == F_WRLCK && g.l_pid == -1, "F_OFD_GETLK");
    is(other(F_WRLCK, 0, 1), EAGAIN, "OFD and record locks meet");
    struct flock bad = {.l_type = F_WRLCK, .l_pid = 5};
    err(fcntl(a, F_OFD_SETLK, &bad), EINVAL, "OFD: l_pid must be 0");
    lock(a, F_OFD_SETLK, F_UNLCK, 0, 0);
    is(lock(b, F_OFD_SETLK, F_WRLCK, 0, 1), 0, "OFD: unlocked");
    return done();
}
