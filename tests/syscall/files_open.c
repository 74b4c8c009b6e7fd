/* open, openat, openat2, creat, O_TMPFILE, O_PATH, memfd: flags and errors. */
#include "tap.h"
#include <linux/openat2.h>
#include <sys/ioctl.h>

static void make(const char *name, const char *text, mode_t mode)
{
    int fd = must(open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600));
    must(write(fd, text, strlen(text)));
    must(fchmod(fd, mode));
    close(fd);
}
static int fl(int fd) { return fcntl(fd, F_GETFL) & ~0100000 /* O_LARGEFILE */; }
static long at2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
    struct open_how h = {.flags = flags, .mode = mode, .resolve = resolve};
    return syscall(SYS_openat2, dir, path, &h, sizeof(h));
}
static mode_t mode_of(const char *p)
{
    struct stat st;
    return lstat(p, &st) ? 0xffff : st.st_mode & 07777;
}

static void creating(void)
{
    int fd;
    err(open("none", O_RDONLY), ENOENT, "no such file");
    err(open("", O_RDONLY), ENOENT, "empty name");
    err(open((char *)8, O_RDONLY), EFAULT, "bad pointer");
    err(open("none/x", O_RDONLY | O_CREAT, 0600), ENOENT, "no such directory");
    fd = open("a", O_CREAT | O_EXCL | O_RDWR, 0640);
    ok(fd >= 0, "O_CREAT|O_EXCL makes it");
    is(mode_of("a"), 0640, "with its mode");
    err(open("a", O_CREAT | O_EXCL | O_RDWR, 0640), EEXIST, "O_EXCL: it exists");
    umask(077);
    close(must(open("b", O_CREAT | O_RDWR, 0666)));
    is(mode_of("b"), 0600, "umask");
    umask(022);
    close(must(open("sticky", O_CREAT | O_RDWR, 07777)));
    is(mode_of("sticky"), 07755, "all permission bits");
    close(must(creat("c", 0444)));
    is(mode_of("c"), 0444, "creat");
    int rw = must(open("ro", O_CREAT | O_RDWR, 0400));
    is(write(rw, "x", 1), 1, "a file made read-only can be written through this descriptor");
    close(rw);
    does(close(open("a", O_RDWR | O_CREAT, 0777)), "O_CREAT of an existing file");
    is(mode_of("a"), 0640, "leaves its mode");
    err(open("a/x", O_RDONLY), ENOTDIR, "below a file");
    err(open("a/", O_RDONLY), ENOTDIR, "a file with a slash");
    err(open("newfile/", O_CREAT | O_RDWR, 0600), EISDIR, "making a file with a slash");
    must(mkdir("d", 0755));
    err(open("d", O_WRONLY), EISDIR, "a directory for writing");
    err(open("d", O_RDWR), EISDIR, "a directory for both");
    err(open("d", O_RDONLY | O_CREAT, 0600), EISDIR, "O_CREAT of a directory");
    err(open("d/", O_RDONLY | O_CREAT, 0600), EISDIR, "O_CREAT of a directory with slash");
    err(open("d", O_RDONLY | O_TRUNC), EISDIR, "O_TRUNC of a directory");
    err(open("d", O_CREAT | O_EXCL, 0600), EEXIST, "O_EXCL of a directory");
    err(open("d", O_DIRECTORY | O_CREAT, 0600), EINVAL, "O_DIRECTORY|O_CREAT");
    does(close(open("d", O_RDONLY | O_DIRECTORY)), "O_DIRECTORY");
    err(open("a", O_RDONLY | O_DIRECTORY), ENOTDIR, "O_DIRECTORY of a file");
    is(write(fd, "hello", 5), 5, "content");
    does(close(open("a", O_WRONLY | O_TRUNC)), "O_TRUNC");
    struct stat st;
    fstat(fd, &st);
    is(st.st_size, 0, "empties");
    close(fd);
    err(open("d/../a/../a", O_RDONLY), ENOTDIR, "dot-dot through a file");
    does(close(open("./d//..///a", O_RDONLY)), "dots and slashes");
    char name[300];
    memset(name, 'n', 255);
    name[255] = 0;
    does(close(open(name, O_CREAT | O_RDWR, 0600)), "a name of 255 bytes");
    name[255] = 'n';
    name[256] = 0;
    err(open(name, O_CREAT | O_RDWR, 0600), ENAMETOOLONG, "256 bytes");
    char *path = malloc(5000);
    memset(path, '/', 5000);
    path[4095] = 0;
    does(close(open(path, O_RDONLY)), "a path of 4095 bytes");
    path[4095] = '/';
    path[4096] = 0;
    err(open(path, O_RDONLY), ENAMETOOLONG, "4096 bytes");
    free(path);
    fd = open("a", O_RDONLY | O_NONBLOCK | O_APPEND | O_NOATIME | O_SYNC | O_CLOEXEC);
    is(fl(fd), O_RDONLY | O_NONBLOCK | O_APPEND | O_NOATIME | O_SYNC, "F_GETFL: status flags");
    is(fcntl(fd, F_GETFD), FD_CLOEXEC, "F_GETFD");
    is(fcntl(fd, F_SETFL, O_APPEND), 0, "F_SETFL");
    is(fl(fd), O_RDONLY | O_APPEND | O_SYNC, "F_SETFL changes some flags only");
    close(fd);
    fd = open("a", O_WRONLY);
    err(read(fd, name, 1), EBADF, "read of O_WRONLY");
    close(fd);
    fd = open("a", O_RDONLY);
    err(write(fd, name, 1), EBADF, "write to O_RDONLY");
    err(ftruncate(fd, 0), EINVAL, "ftruncate of O_RDONLY");
    close(fd);
    fd = open("a", 3);
    ok(fd >= 0, "access mode 3");
    err(read(fd, name, 1), EBADF, "access mode 3: no read");
    err(write(fd, name, 1), EBADF, "access mode 3: no write");
    close(fd);
}

static void links(void)
{
    make("target", "text", 0644);
    must(symlink("target", "l1"));
    must(symlink("l1", "l2"));
    must(symlink("dangling", "l3"));
    must(symlink("loop2", "loop1"));
    must(symlink("loop1", "loop2"));
    must(symlink("d", "ld"));
    does(close(open("l2", O_RDONLY)), "two links");
    err(open("l1", O_RDONLY | O_NOFOLLOW), ELOOP, "O_NOFOLLOW");
    err(open("loop1", O_RDONLY), ELOOP, "a loop");
    err(open("l3", O_RDONLY), ENOENT, "dangling");
    err(open("l3", O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST, "O_EXCL does not follow");
    does(close(open("l3", O_CREAT | O_RDWR, 0600)), "O_CREAT makes the target of a dangling link");
    struct stat st;
    is(lstat("dangling", &st), 0, "there");
    does(close(open("ld/x", O_CREAT | O_RDWR, 0600)), "a link to a directory in the middle");
    is(lstat("d/x", &st), 0, "a link to a directory in the middle: there");
    err(open("ld", O_RDONLY | O_NOFOLLOW | O_DIRECTORY), ENOTDIR, "O_NOFOLLOW|O_DIRECTORY of a link");
    does(close(open("ld/", O_RDONLY | O_NOFOLLOW)), "a slash follows");
    char from[16], to[16];
    strcpy(to, "target");
    for (int i = 0; i < 41; i++) {
        snprintf(from, sizeof(from), "chain%d", i);
        must(symlink(to, from));
        strcpy(to, from);
    }
    does(close(open("chain39", O_RDONLY)), "forty links");
    err(open("chain40", O_RDONLY), ELOOP, "forty-one links");
    int fd = open("l1", O_PATH | O_NOFOLLOW);
    ok(fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode), "O_PATH|O_NOFOLLOW names the link");
    char buf[16] = {0};
    is(readlinkat(fd, "", buf, sizeof(buf)), 6, "readlinkat by descriptor");
    close(fd);
}

static void paths(void)
{
    char buf[64];
    int fd = open("target", O_PATH);
    ok(fd >= 0, "O_PATH");
    is(fl(fd), O_PATH, "O_PATH: flags");
    err(read(fd, buf, 1), EBADF, "O_PATH: read");
    err(write(fd, buf, 1), EBADF, "O_PATH: write");
    err(lseek(fd, 0, SEEK_SET), EBADF, "O_PATH: lseek");
    err(fchmod(fd, 0600), EBADF, "O_PATH: fchmod");
    err(fchown(fd, 0, 0), EBADF, "O_PATH: fchown");
    err(ioctl(fd, 0, 0), EBADF, "O_PATH: ioctl");
    err(ftruncate(fd, 0), EBADF, "O_PATH: ftruncate");
    err(fsync(fd), EBADF, "O_PATH: fsync");
    ok(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EBADF, "O_PATH: mmap");
    struct stat st;
    is(fstat(fd, &st), 0, "O_PATH: fstat");
    int d = dup(fd);
    ok(d >= 0, "O_PATH: dup");
    close(d);
    snprintf(buf, sizeof(buf), "/proc/self/fd/%d", fd);
    d = open(buf, O_RDONLY);
    is(read(d, buf, 4), 4, "opened again through /proc");
    close(d);
    close(fd);
    fd = open("d", O_PATH | O_DIRECTORY);
    does(d = openat(fd, "x", O_RDONLY), "openat below an O_PATH directory");
    close(d);
    does(fchdir(fd), "fchdir to it");
    chdir("..");
    err(openat(fd, "", O_RDONLY), ENOENT, "openat: empty");
    close(fd);
    err(openat(999, "x", O_RDONLY), EBADF, "openat: bad descriptor");
    does(close(openat(999, "/", O_RDONLY)), "openat: which does not matter for absolute names");
    fd = open("target", O_RDONLY);
    err(openat(fd, "x", O_RDONLY), ENOTDIR, "openat: a file");
    close(fd);
    if (getuid() == 0) {
        make("secret", "s", 0600);
        must(mkdir("closed", 0700));
        make("closed/f", "s", 0644);
        must(mkdir("dropbox", 0733));
        must(chmod("dropbox", 0733));
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("secret", O_RDONLY) < 0 ? errno : 0))), EACCES, "no permission");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("closed/f", O_RDONLY) < 0 ? errno : 0))), EACCES, "no search permission");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("newone", O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0))), EACCES, "no write permission in the directory");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("dropbox/y", O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0))), 0, "write but not read");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("dropbox", O_RDONLY) < 0 ? errno : 0))), EACCES, "reading such a directory");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("target", O_RDONLY | O_NOATIME) < 0 ? errno : 0))), EPERM, "O_NOATIME of another's file");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(open("target", O_WRONLY | O_TRUNC) < 0 ? errno : 0))), EACCES, "O_TRUNC without permission");
    }
}

static void tmpfiles(void)
{
    struct stat st;
    err(open("d", O_TMPFILE | O_RDONLY, 0600), EINVAL, "O_TMPFILE: read-only");
    err(open("target", O_TMPFILE | O_RDWR, 0600), ENOTDIR, "O_TMPFILE: not a directory");
    int fd = open("d", O_TMPFILE | O_RDWR, 0640);
    ok(fd >= 0, "O_TMPFILE");
    fstat(fd, &st);
    ok(st.st_nlink == 0 && (st.st_mode & 07777) == 0640, "O_TMPFILE: no links");
    is(write(fd, "data", 4), 4, "O_TMPFILE: write");
    char p[64];
    snprintf(p, sizeof(p), "/proc/self/fd/%d", fd);
    is(linkat(AT_FDCWD, p, AT_FDCWD, "named", AT_SYMLINK_FOLLOW), 0, "O_TMPFILE: linked");
    stat("named", &st);
    ok(st.st_size == 4 && st.st_nlink == 1, "O_TMPFILE: named");
    close(fd);
    fd = open("d", O_TMPFILE | O_RDWR | O_EXCL, 0640);
    snprintf(p, sizeof(p), "/proc/self/fd/%d", fd);
    err(linkat(AT_FDCWD, p, AT_FDCWD, "named2", AT_SYMLINK_FOLLOW), ENOENT, "O_TMPFILE|O_EXCL cannot be linked");
    close(fd);
}

static void open2(void)
{
    struct open_how h = {.flags = O_RDONLY};
    err(syscall(SYS_openat2, AT_FDCWD, "target", &h, 8), EINVAL, "openat2: small");
    err(syscall(SYS_openat2, AT_FDCWD, "target", &h, 100000), E2BIG, "openat2: big");
    err(at2(AT_FDCWD, "target", 1ull << 40, 0, 0), EINVAL, "openat2: unknown flags");
    err(at2(AT_FDCWD, "target", O_RDONLY, 0600, 0), EINVAL, "openat2: a mode without O_CREAT");
    err(at2(AT_FDCWD, "target", O_RDWR | O_CREAT, 010000, 0), EINVAL, "openat2: a bad mode");
    err(at2(AT_FDCWD, "target", O_RDONLY, 0, 1ull << 30), EINVAL, "openat2: unknown resolve");
    err(at2(AT_FDCWD, "target", O_PATH | O_RDWR, 0, 0), EINVAL, "openat2: O_PATH with others");
    does(close((int)at2(AT_FDCWD, "target", O_RDONLY, 0, 0)), "openat2");
    err(at2(AT_FDCWD, "../x", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "RESOLVE_BENEATH: ..");
    err(at2(AT_FDCWD, "/", O_RDONLY, 0, RESOLVE_BENEATH), EXDEV, "RESOLVE_BENEATH: absolute");
    does(close((int)at2(AT_FDCWD, "d/../target", O_RDONLY, 0, RESOLVE_BENEATH)), "RESOLVE_BENEATH: .. inside");
    err(at2(AT_FDCWD, "l1", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), ELOOP, "RESOLVE_NO_SYMLINKS");
    err(at2(AT_FDCWD, "ld/x", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), ELOOP, "RESOLVE_NO_SYMLINKS: in the middle");
    must(symlink("/target", "abs"));
    does(close((int)at2(AT_FDCWD, "abs", O_RDONLY, 0, RESOLVE_IN_ROOT)), "RESOLVE_IN_ROOT: absolute link");
    does(close((int)at2(AT_FDCWD, "../../../target", O_RDONLY, 0, RESOLVE_IN_ROOT)), "RESOLVE_IN_ROOT: ..");
    err(at2(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), ELOOP, "RESOLVE_NO_MAGICLINKS");
    err(at2(AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CREAT, 0600, RESOLVE_NO_MAGICLINKS), ELOOP, "RESOLVE_NO_MAGICLINKS: O_CREAT");
    does(close((int)at2(AT_FDCWD, "l1", O_RDONLY | O_CREAT, 0600, RESOLVE_NO_MAGICLINKS)), "RESOLVE_NO_MAGICLINKS: an ordinary link");
    err(at2(AT_FDCWD, "/proc/self", O_RDONLY, 0, RESOLVE_NO_XDEV), EXDEV, "RESOLVE_NO_XDEV");
    err(at2(AT_FDCWD, "target", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT), EINVAL, "BENEATH and IN_ROOT");
}

static void special(void)
{
    must(mkfifo("fifo", 0600));
    err(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO, "fifo: nobody reads");
    int r = open("fifo", O_RDONLY | O_NONBLOCK);
    ok(r >= 0, "fifo: O_RDONLY|O_NONBLOCK");
    int w = open("fifo", O_WRONLY | O_NONBLOCK);
    ok(w >= 0, "fifo: then a writer");
    char c;
    is(write(w, "x", 1), 1, "fifo: write");
    is(read(r, &c, 1), 1, "fifo: read");
    err(read(r, &c, 1), EAGAIN, "fifo: empty");
    close(w);
    is(read(r, &c, 1), 0, "fifo: end");
    close(r);
    r = open("fifo", O_RDWR);
    ok(r >= 0, "fifo: O_RDWR does not wait");
    close(r);
    int n = open("/dev/null", O_RDWR), z = open("/dev/zero", O_RDWR);
    char buf[16] = "xxxxxxxxxxxxxxx";
    is(read(n, buf, 16), 0, "/dev/null reads nothing");
    is(write(n, buf, 16), 16, "/dev/null takes all");
    is(read(z, buf, 16), 16, "/dev/zero reads");
    ok(!buf[0] && !buf[15], "/dev/zero: zeroes");
    is(write(z, buf, 16), 16, "/dev/zero takes all");
    close(n);
    close(z);
    n = open("/dev/full", O_RDWR);
    err(write(n, buf, 1), ENOSPC, "/dev/full");
    close(n);
    n = open("/dev/urandom", O_RDONLY);
    is(read(n, buf, 16), 16, "/dev/urandom");
    close(n);
    err(open("/dev/tty", O_RDWR), ENXIO, "/dev/tty without a terminal");
    int m = (int)syscall(SYS_memfd_create, "name", 1u);
    ok(m >= 0 && fcntl(m, F_GETFD) == FD_CLOEXEC, "memfd_create: MFD_CLOEXEC");
    err(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE), EPERM, "memfd: no seals");
    is(fcntl(m, F_GET_SEALS), F_SEAL_SEAL, "memfd: sealed against sealing");
    close(m);
    m = (int)syscall(SYS_memfd_create, "name", 2u);
    must(ftruncate(m, 4096));
    is(fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0, "memfd: seals");
    err(ftruncate(m, 100), EPERM, "F_SEAL_SHRINK");
    err(ftruncate(m, 8192), EPERM, "F_SEAL_GROW");
    is(write(m, "x", 1), 1, "writing is allowed");
    is(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE), 0, "F_SEAL_WRITE");
    err(write(m, "x", 1), EPERM, "no more writing");
    is(fcntl(m, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, "F_GET_SEALS");
    int sealed = (int)syscall(SYS_memfd_create, "name", 2u);
    must(ftruncate(sealed, 8192));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0), *other = mmap(NULL, 8192, PROT_READ, MAP_SHARED, sealed, 0);
    map[0] = 1;
    err(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "F_SEAL_WRITE: a writable mapping");
    munmap(map, 4096);
    err(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "F_SEAL_WRITE: half of it");
    munmap(map + 4096, 4096);
    munmap(other, 8192);
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, sealed, 0);
    is(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0, "F_SEAL_WRITE: a private mapping");
    is(map[0], 1, "what was written");
    munmap(map, 4096);
    close(w);
    char link[64] = {0};
    snprintf(buf, sizeof(buf), "/proc/self/fd/%d", m);
    readlink("/proc/self/fd/3", link, 1);
    close(m);
    err(syscall(SYS_memfd_create, "name", 0x8000u), EINVAL, "memfd_create: flags");
    char longname[300];
    memset(longname, 'a', 299);
    longname[299] = 0;
    err(syscall(SYS_memfd_create, longname, 0), EINVAL, "memfd_create: long name");
}

TAP_MAIN
{
    creating();
    links();
    paths();
    tmpfiles();
    open2();
    special();
    return done();
}
