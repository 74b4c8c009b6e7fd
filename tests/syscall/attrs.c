/* stat and its kin, chmod, chown, times, extended attributes, access, umask. */
#include "tap.h"
#include <grp.h>
#include <linux/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

static void make(const char *name, mode_t mode)
{
    int fd = must(open(name, O_CREAT | O_WRONLY, 0600));
    must(write(fd, "12345", 5));
    must(fchmod(fd, mode));
    close(fd);
}
static struct stat st_of(const char *n)
{
    struct stat st = {0};
    lstat(n, &st);
    return st;
}
static mode_t mode(const char *n) { return st_of(n).st_mode & 07777; }
static bool root;

static void stats(void)
{
    struct stat st;
    make("f", 0640);
    is(stat("f", &st), 0, "stat");
    ok(S_ISREG(st.st_mode) && st.st_size == 5 && st.st_nlink == 1 && st.st_uid == getuid() && st.st_gid == getgid(), "fields");
    ok(st.st_blksize >= 512 && st.st_blocks >= 1, "blocks");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ok(labs(now.tv_sec - st.st_mtime) <= 2 && labs(now.tv_sec - st.st_ctime) <= 2 && labs(now.tv_sec - st.st_atime) <= 2, "times");
    err(stat("none", &st), ENOENT, "stat: none");
    err(stat("", &st), ENOENT, "stat: empty");
    err(stat("f", (void *)8), EFAULT, "stat: bad buffer");
    err(fstat(999, &st), EBADF, "fstat: bad descriptor");
    must(symlink("f", "l"));
    lstat("l", &st);
    ok(S_ISLNK(st.st_mode) && st.st_size == 1 && (st.st_mode & 0777) == 0777, "lstat of a link");
    stat("l", &st);
    ok(S_ISREG(st.st_mode), "stat follows");
    fstatat(AT_FDCWD, "l", &st, AT_SYMLINK_NOFOLLOW);
    ok(S_ISLNK(st.st_mode), "AT_SYMLINK_NOFOLLOW");
    err(fstatat(AT_FDCWD, "", &st, 0), ENOENT, "fstatat: empty");
    is(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH), 0, "AT_EMPTY_PATH: the directory");
    ok(S_ISDIR(st.st_mode), "AT_EMPTY_PATH: is one");
    err(fstatat(AT_FDCWD, "f", &st, 0x10), EINVAL, "fstatat: flags");
    struct statx x;
    memset(&x, 0xff, sizeof(x));
    is(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &x), 0, "statx");
    ok((x.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS, "statx: mask");
    ok(x.stx_size == 5 && x.stx_nlink == 1 && S_ISREG(x.stx_mode) && x.stx_uid == getuid() && x.stx_ino == st_of("f").st_ino, "statx: fields");
    ok(x.stx_dev_minor == (st_of("f").st_dev & 0xff), "statx: device");
    err(statx(AT_FDCWD, "f", 0x10, STATX_BASIC_STATS, &x), EINVAL, "statx: flags");
    err(statx(AT_FDCWD, "f", 0, 0x80000000u, &x), EINVAL, "statx: mask");
    err(statx(AT_FDCWD, "f", 0x6000, STATX_BASIC_STATS, &x), EINVAL, "statx: both sync flags");
    int fd = open("f", O_RDONLY);
    is(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x), 0, "statx: descriptor");
    is(x.stx_size, 5, "statx: size");
    close(fd);
    struct statfs fs;
    is(statfs(".", &fs), 0, "statfs");
    ok(fs.f_bsize == 4096 && fs.f_namelen == 255, "statfs: values");
    int mem = (int)syscall(SYS_memfd_create, "m", 0);
    is(fstatfs(mem, &fs), 0, "fstatfs");
    is(fs.f_type, 0x01021994, "fstatfs: a memfd is on a tmpfs");
    close(mem);
    is(statfs("/proc", &fs), 0, "statfs: proc");
    is(fs.f_type, 0x9fa0, "statfs: proc's type");
    err(statfs("none", &fs), ENOENT, "statfs: none");
}

static void modes(void)
{
    is(chmod("f", 0751), 0, "chmod");
    is(mode("f"), 0751, "chmod: mode");
    is(chmod("f", 06777), 0, "chmod: set-id bits");
    is(mode("f"), 06777, "chmod: set-id bits stay");
    is(chmod("f", 0100644), 0, "chmod: type bits are ignored");
    is(mode("f"), 0644, "chmod: plain");
    err(chmod("none", 0644), ENOENT, "chmod: none");
    is(chmod("l", 0600), 0, "chmod follows");
    is(mode("f"), 0600, "chmod follows: target");
    err(fchmodat(AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW), EOPNOTSUPP, "chmod of a link");
    int fd = open("f", O_RDONLY);
    is(fchmod(fd, 0444), 0, "fchmod");
    is(mode("f"), 0444, "fchmod: mode");
    err(fchmod(999, 0444), EBADF, "fchmod: bad descriptor");
    close(fd);
    struct timespec t0 = st_of("f").st_ctim;
    sleep_ms(20);
    chmod("f", 0644);
    struct timespec t1 = st_of("f").st_ctim;
    ok(t1.tv_sec > t0.tv_sec || t1.tv_nsec > t0.tv_nsec, "chmod: ctime");
    if (!root)
        return;
    is(chown("f", 100, 200), 0, "chown");
    ok(st_of("f").st_uid == 100 && st_of("f").st_gid == 200, "chown: ids");
    is(chown("f", -1, 300), 0, "chown: -1");
    ok(st_of("f").st_uid == 100 && st_of("f").st_gid == 300, "chown: -1 leaves");
    chmod("f", 06755);
    is(chown("f", 0, 0), 0, "chown: set-id");
    is(mode("f"), 0755, "chown clears set-id bits");
    chmod("f", 02644);
    chown("f", 0, 0);
    is(mode("f"), 02644, "but not setgid without x");
    lchown("l", 5, 6);
    ok(st_of("l").st_uid == 5 && st_of("f").st_uid == 0, "lchown");
    is(WEXITSTATUS(in_child(setuid(65534); _exit(chmod("f", 0777) ? errno : 0))), EPERM, "chmod: not the owner");
    is(WEXITSTATUS(in_child(setuid(65534); _exit(chown("f", 65534, -1) ? errno : 0))), EPERM, "chown: not the owner");
    chown("f", 65534, 65534);
    is(WEXITSTATUS(in_child(setgid(65534); setuid(65534); _exit(chown("f", 1, -1) ? errno : 0))), EPERM, "chown: giving away");
    is(WEXITSTATUS(in_child(setgid(65534); setuid(65534); _exit(chown("f", -1, 65534) ? errno : 0))), 0, "chown: to one's own group");
    is(WEXITSTATUS(in_child(setgid(65534); setuid(65534); _exit(chown("f", -1, 7) ? errno : 0))), EPERM, "chown: to another group");
    chown("f", 65534, 7);
    is(WEXITSTATUS(in_child(setgroups(0, NULL); setgid(65534); setuid(65534); _exit(chmod("f", 02755) ? errno : 0))), 0, "chmod: setgid of a foreign group");
    is(mode("f"), 0755, "is dropped");
    chown("f", 0, 0);
    must(mkdir("sg", 0755));
    chown("sg", 0, 77);
    chmod("sg", 02755);
    make("sg/f", 0644);
    must(mkdir("sg/d", 0755));
    ok(st_of("sg/f").st_gid == 77 && !(mode("sg/f") & 02000), "setgid directory: the file's group");
    ok(st_of("sg/d").st_gid == 77 && (mode("sg/d") & 02000), "setgid directory: inherited");
    make("w", 06777);
    fd = open("w", O_WRONLY);
    is(WEXITSTATUS(in_child(setuid(65534); _exit(write(fd, "x", 1) != 1))), 0, "writing a set-id file");
    is(mode("w"), 0777, "clears the bits");
    close(fd);
}

static void times(void)
{
    struct timespec t[2] = {{1000, 5}, {2000, 6}};
    is(utimensat(AT_FDCWD, "f", t, 0), 0, "utimensat");
    struct stat st = st_of("f");
    ok(st.st_atim.tv_sec == 1000 && st.st_atim.tv_nsec == 5 && st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 6, "utimensat: values");
    t[0].tv_nsec = UTIME_OMIT, t[1].tv_nsec = UTIME_NOW;
    is(utimensat(AT_FDCWD, "f", t, 0), 0, "UTIME_OMIT, UTIME_NOW");
    st = st_of("f");
    ok(st.st_atim.tv_sec == 1000 && st.st_mtim.tv_sec > 1000000, "UTIME_OMIT, UTIME_NOW: values");
    is(utimensat(AT_FDCWD, "f", NULL, 0), 0, "utimensat: NULL");
    ok(st_of("f").st_atim.tv_sec > 1000000, "utimensat: NULL is now");
    t[0] = (struct timespec){1, 1000000000};
    err(utimensat(AT_FDCWD, "f", t, 0), EINVAL, "utimensat: nanoseconds");
    err(utimensat(AT_FDCWD, "none", NULL, 0), ENOENT, "utimensat: none");
    err(utimensat(AT_FDCWD, "f", NULL, 0x10), EINVAL, "utimensat: flags");
    t[0] = (struct timespec){-5, 0}, t[1] = (struct timespec){5000000000, 0};
    is(utimensat(AT_FDCWD, "f", t, 0), 0, "before 1970, after 2038");
    ok(st_of("f").st_atim.tv_sec == -5 && st_of("f").st_mtim.tv_sec == 5000000000, "before 1970, after 2038: kept");
    t[0] = (struct timespec){7, 0}, t[1] = (struct timespec){8, 0};
    is(utimensat(AT_FDCWD, "l", t, AT_SYMLINK_NOFOLLOW), 0, "utimensat: of a link");
    is(st_of("l").st_mtim.tv_sec, 8, "utimensat: of a link: kept");
    int fd = open("f", O_RDWR);
    is(futimens(fd, t), 0, "futimens");
    is(st_of("f").st_mtim.tv_sec, 8, "futimens: kept");
    sleep_ms(20);
    write(fd, "x", 1);
    ok(st_of("f").st_mtim.tv_sec > 1000, "a write sets mtime");
    futimens(fd, t);
    char c;
    lseek(fd, 0, SEEK_SET);
    read(fd, &c, 1);
    ok(st_of("f").st_atim.tv_sec > 1000, "a read sets atime (relatime)");
    close(fd);
    struct timespec dt = st_of(".").st_mtim;
    sleep_ms(20);
    make("newfile", 0600);
    ok(st_of(".").st_mtim.tv_sec > dt.tv_sec || st_of(".").st_mtim.tv_nsec != dt.tv_nsec, "a new name sets the directory's mtime");
    struct timeval tv[2] = {{100, 999999}, {200, 1}};
    is(utimes("f", tv), 0, "utimes");
    ok(st_of("f").st_atim.tv_sec == 100 && st_of("f").st_atim.tv_nsec == 999999000, "utimes: values");
    tv[0].tv_usec = 1000000;
    err(utimes("f", tv), EINVAL, "utimes: microseconds");
    if (root) {
        chmod("f", 0644);
        is(WEXITSTATUS(in_child(setuid(65534); _exit(utimensat(AT_FDCWD, "f", t, 0) ? errno : 0))), EPERM, "utimensat: not the owner");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(utimensat(AT_FDCWD, "f", NULL, 0) ? errno : 0))), EACCES, "utimensat: now, without write permission");
        chmod("f", 0666);
        is(WEXITSTATUS(in_child(setuid(65534); _exit(utimensat(AT_FDCWD, "f", NULL, 0) ? errno : 0))), 0, "utimensat: now, with write permission");
    }
}

static void xattrs(void)
{
    char b[256];
    is(setxattr("f", "user.one", "value", 5, 0), 0, "setxattr");
    is(getxattr("f", "user.one", b, sizeof(b)), 5, "getxattr");
    ok(!memcmp(b, "value", 5), "getxattr: value");
    is(getxattr("f", "user.one", NULL, 0), 5, "getxattr: size");
    err(getxattr("f", "user.one", b, 2), ERANGE, "getxattr: small buffer");
    err(getxattr("f", "user.none", b, sizeof(b)), ENODATA, "getxattr: none");
    err(setxattr("f", "user.one", "v", 1, XATTR_CREATE), EEXIST, "XATTR_CREATE");
    err(setxattr("f", "user.two", "v", 1, XATTR_REPLACE), ENODATA, "XATTR_REPLACE");
    is(setxattr("f", "user.one", "new", 3, XATTR_REPLACE), 0, "XATTR_REPLACE: exists");
    is(setxattr("f", "user.empty", "", 0, 0), 0, "an empty value");
    is(getxattr("f", "user.empty", b, sizeof(b)), 0, "an empty value reads");
    err(setxattr("f", "nonsense", "v", 1, 0), EOPNOTSUPP, "no name space");
    err(setxattr("f", "user.", "v", 1, 0), EINVAL, "no name");
    err(setxattr("f", "user.x", "v", 1, 99), EINVAL, "setxattr: flags");
    char name[300] = "user.";
    memset(name + 5, 'n', 260);
    name[265] = 0;
    err(setxattr("f", name, "v", 1, 0), ERANGE, "long name");
    err(setxattr("f", "user.big", b, 1 << 20, 0), E2BIG, "big value");
    ssize_t n = listxattr("f", b, sizeof(b));
    bool one = false, empty = false;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(b + i) + 1) {
        one |= !strcmp(b + i, "user.one");
        empty |= !strcmp(b + i, "user.empty");
    }
    ok(one && empty, "listxattr");
    err(listxattr("f", b, 3), ERANGE, "listxattr: small buffer");
    is(listxattr("f", NULL, 0), n, "listxattr: size");
    is(removexattr("f", "user.one"), 0, "removexattr");
    err(removexattr("f", "user.one"), ENODATA, "removexattr: none");
    err(lsetxattr("l", "user.x", "v", 1, 0), EPERM, "user attributes of a link");
    int fd = open("f", O_RDWR);
    is(fsetxattr(fd, "user.fd", "1", 1, 0), 0, "fsetxattr");
    is(fgetxattr(fd, "user.fd", b, 1), 1, "fgetxattr");
    is(fremovexattr(fd, "user.fd"), 0, "fremovexattr");
    close(fd);
    if (root) {
        is(setxattr("f", "trusted.t", "v", 1, 0), 0, "trusted.");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(getxattr("f", "trusted.t", b, 9) < 0 ? errno : 0))), ENODATA, "trusted.: not for others");
        chmod("f", 0644);
        is(WEXITSTATUS(in_child(setuid(65534); _exit(setxattr("f", "user.y", "v", 1, 0) < 0 ? errno : 0))), EACCES, "setxattr: no permission");
    }
}

static void accesses(void)
{
    chmod("f", 0644);
    is(access("f", F_OK), 0, "access: F_OK");
    is(access("f", R_OK | W_OK), 0, "access: R_OK|W_OK");
    err(access("f", X_OK), EACCES, "access: X_OK without x bits");
    err(access("none", F_OK), ENOENT, "access: none");
    err(access("f", 99), EINVAL, "access: mode");
    is(access(".", X_OK), 0, "access: X_OK of a directory");
    err(access("f/x", F_OK), ENOTDIR, "access: below a file");
    chmod("f", 0100);
    is(access("f", X_OK), 0, "access: X_OK");
    err(faccessat(AT_FDCWD, "f", F_OK, 0x8), EINVAL, "faccessat: flags");
    if (root) {
        chmod("f", 0000);
        is(access("f", R_OK | W_OK), 0, "access: root");
        chmod("f", 0604);
        is(WEXITSTATUS(in_child(setgid(65534); setuid(65534); _exit(access("f", R_OK) ? errno : 0))), 0, "access: others read");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(access("f", W_OK) ? errno : 0))), EACCES, "access: others do not write");
        chown("f", 65534, 65534);
        chmod("f", 0077);
        is(WEXITSTATUS(in_child(setgid(65534); setuid(65534); _exit(access("f", R_OK) ? errno : 0))), EACCES, "access: the owner's bits count for the owner");
        chmod("f", 0600);
        is(WEXITSTATUS(in_child(setreuid(65534, 0); _exit(access("f", R_OK) ? errno : 0))), 0, "access: the real user");
        chown("f", 0, 0);
        is(WEXITSTATUS(in_child(setreuid(65534, 0); _exit(access("f", R_OK) ? errno : 0))), EACCES, "access: the real user has no right");
        is(WEXITSTATUS(in_child(setreuid(65534, 0); _exit(faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS) ? errno : 0))), 0, "AT_EACCESS: the effective one has");
    }
    umask(0);
    close(open("um", O_CREAT, 0666));
    is(mode("um"), 0666, "umask 0");
    is(umask(0777), 0, "umask gives the old one");
    close(open("um2", O_CREAT, 0666));
    is(mode("um2"), 0, "umask 777");
    is(umask(022), 0777, "umask again");
    umask(017777);
    is(umask(022), 0777, "umask: only permission bits");
}

TAP_MAIN
{
    root = getuid() == 0;
    stats();
    modes();
    times();
    xattrs();
    accesses();
    return done();
}
