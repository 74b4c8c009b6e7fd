/* Path walk, name space changes, descriptors, tmpfs contents and locks, through the system calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <errno.h>
#include <unistd.h>

#include "fake_host.h"
#include "core/dframe.h"

long register_filesystem(const char *name, long (*mount)(const char *, u32, const char *, struct super_block **));
long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
long vfs_init(void);
long dev_init(void);

static char buf[65536], big[300000];

static long st_ino(const char *name)
{
    struct stat st;
    long r = SYS(stat, name, &st);
    return r ? r : (long)st.st_ino;
}

static long st_mode(const char *name)
{
    struct stat st;
    long r = SYS(lstat, name, &st);
    return r ? r : (long)st.st_mode;
}

static void test_walk(void)
{
    IS(SYS(mkdir, "/a", 0755), 0);
    IS(SYS(mkdir, "/a/b", 0755), 0);
    IS(SYS(mkdir, "/a/b/c", 0755), 0);
    IS(SYS(mkdir, "/a", 0755), -EEXIST);
    IS(SYS(mkdir, "/", 0755), -EEXIST);
    IS(SYS(mkdir, "/a/.", 0755), -EEXIST);
    IS(SYS(mkdir, "/x/y", 0755), -ENOENT);
    IS(SYS(mkdir, "", 0755), -ENOENT);
    IS(SYS(mkdir, "/a/d/", 0755), 0);
    IS(SYS(rmdir, "/a/d/", 0), 0);
    IS(st_ino("/a/b/../b/./c/../../.."), st_ino("/"));
    IS(st_ino("/../../.."), st_ino("/"));
    long fd = SYS(open, "/a/f", O_CREAT | O_EXCL | O_RDWR, 0644);
    OK(fd >= 0);
    IS(SYS(open, "/a/f", O_CREAT | O_EXCL | O_RDWR, 0644), -EEXIST);
    IS(SYS(open, "/a/f/", O_RDONLY), -ENOTDIR);
    IS(SYS(open, "/a/f/g", O_RDONLY), -ENOTDIR);
    IS(SYS(open, "/a/f", O_RDONLY | O_DIRECTORY), -ENOTDIR);
    IS(SYS(open, "/a", O_WRONLY), -EISDIR);
    IS(SYS(open, "/a/", O_CREAT | O_WRONLY, 0600), -EISDIR);
    IS(SYS(open, "/a/new/", O_CREAT | O_WRONLY, 0600), -EISDIR);
    IS(SYS(open, "/a/none", O_RDONLY), -ENOENT);
    IS(SYS(unlink, "/a/f/"), -ENOTDIR);
    IS(SYS(unlink, "/a"), -EISDIR);
    IS(SYS(rmdir, "/a"), -ENOTEMPTY);
    IS(SYS(rmdir, "/a/f"), -ENOTDIR);
    IS(SYS(rmdir, "/a/b/."), -EINVAL);
    IS(SYS(rmdir, "/a/b/c/.."), -ENOTEMPTY);
    IS(SYS(rmdir, "/"), -EBUSY);
    IS(SYS(close, fd), 0);
    IS(SYS(close, fd), -EBADF);

    IS(SYS(symlink, "b/c", "/a/link"), 0);
    IS(st_ino("/a/link"), st_ino("/a/b/c"));
    IS(st_ino("/a/link/.."), st_ino("/a/b"));
    IS(st_mode("/a/link") & S_IFMT, S_IFLNK);
    IS(SYS(readlink, "/a/link", buf, 100), 3);
    IS(SYS(readlink, "/a/link", buf, 2), 2);
    IS(SYS(readlink, "/a/f", buf, 100), -EINVAL);
    IS(SYS(open, "/a/link", O_RDONLY | O_NOFOLLOW), -ELOOP);
    IS(SYS(symlink, "loop2", "/loop1"), 0);
    IS(SYS(symlink, "loop1", "/loop2"), 0);
    IS(st_ino("/loop1"), -ELOOP);
    IS(SYS(symlink, "/a/made", "/dangle"), 0);
    IS(SYS(open, "/dangle", O_CREAT | O_EXCL | O_WRONLY, 0600), -EEXIST);
    fd = SYS(open, "/dangle", O_CREAT | O_WRONLY, 0600);
    OK(fd >= 0);
    SYS(close, fd);
    OK(st_ino("/a/made") > 0);
    IS(st_ino("/a/link/"), st_ino("/a/b/c"));
    IS(SYS(symlink, "f", "/a/flink"), 0);
    IS(st_ino("/a/flink/"), -ENOTDIR);
    /* 40 links are followed, 41 are not */
    char name[64], target[64];
    strcpy(target, "/a/f");
    for (int n = 0; n < 41; n++) {
        sprintf(name, "/l%d", n);
        IS(SYS(symlink, target, name), 0);
        strcpy(target, name);
    }
    OK(st_ino("/l39") > 0);
    IS(st_ino("/l40"), -ELOOP);
    memset(big, 'n', 256);
    big[0] = '/';
    big[256] = 0;
    IS(SYS(mkdir, big, 0755), 0);
    big[256] = 'n';
    big[257] = 0;
    IS(SYS(mkdir, big, 0755), -ENAMETOOLONG);
    memset(big, '/', 4096);
    big[4095] = 0;
    IS(st_ino(big), st_ino("/"));
    big[4095] = '/';
    big[4096] = 0;
    IS(st_ino(big), -ENAMETOOLONG);
    IS(SYS(stat, 8, buf), -EFAULT);

    IS(SYS(chdir, "/a/b"), 0);
    IS(SYS(getcwd, buf, 100), 5);
    OK(!strcmp(buf, "/a/b"));
    IS(SYS(getcwd, buf, 4), -ERANGE);
    IS(st_ino("c"), st_ino("/a/b/c"));
    IS(st_ino(".."), st_ino("/a"));
    long dir = SYS(open, "/a", O_PATH);
    OK(dir >= 0);
    struct stat st;
    IS(SYS(newfstatat, dir, "b/c", &st, 0), 0);
    IS(st.st_ino, st_ino("/a/b/c"));
    IS(SYS(newfstatat, dir, "", &st, AT_EMPTY_PATH), 0);
    IS(st.st_ino, st_ino("/a"));
    IS(SYS(newfstatat, dir, "", &st, 0), -ENOENT);
    IS(SYS(newfstatat, 99, "x", &st, 0), -EBADF);
    IS(SYS(read, dir, buf, 10), -EBADF);
    IS(SYS(fchmod, dir, 0755), -EBADF);
    IS(SYS(close, dir), 0);
    IS(SYS(mkdir, "/a/gone", 0755), 0);
    IS(SYS(chdir, "/a/gone"), 0);
    IS(SYS(rmdir, "/a/gone"), 0);
    IS(SYS(getcwd, buf, 100), -ENOENT);
    IS(SYS(open, "x", O_CREAT | O_WRONLY, 0600), -ENOENT);
    IS(SYS(chdir, "/"), 0);
}

static void test_rename(void)
{
    IS(SYS(mkdir, "/r", 0755), 0);
    IS(SYS(mkdir, "/r/d1", 0755), 0);
    IS(SYS(mkdir, "/r/d1/in", 0755), 0);
    IS(SYS(mkdir, "/r/d2", 0755), 0);
    SYS(close, SYS(open, "/r/f1", O_CREAT | O_WRONLY, 0644));
    SYS(close, SYS(open, "/r/f2", O_CREAT | O_WRONLY, 0644));
    long f1 = st_ino("/r/f1"), f2 = st_ino("/r/f2"), d1 = st_ino("/r/d1");
    IS(SYS(rename, "/r/d1", "/r/d1/in/x"), -EINVAL);
    IS(SYS(rename, "/r/d2", "/r/d1"), -ENOTEMPTY);
    IS(SYS(rename, "/r/d1/in", "/r/d1"), -ENOTEMPTY);
    IS(SYS(rename, "/r/f1", "/r/d1"), -EISDIR);
    IS(SYS(rename, "/r/d1", "/r/f1"), -ENOTDIR);
    IS(SYS(rename, "/r/none", "/r/f1"), -ENOENT);
    IS(SYS(rename, "/r/.", "/r/x"), -EBUSY);
    IS(SYS(renameat2, AT_FDCWD, "/r/f1", AT_FDCWD, "/r/f2", 1), -EEXIST);
    IS(SYS(renameat2, AT_FDCWD, "/r/f1", AT_FDCWD, "/r/f2", 2), 0);
    IS(st_ino("/r/f1"), f2);
    IS(st_ino("/r/f2"), f1);
    IS(SYS(renameat2, AT_FDCWD, "/r/f1", AT_FDCWD, "/r/f9", 2), -ENOENT);
    IS(SYS(rename, "/r/f1", "/r/f2"), 0);
    IS(st_ino("/r/f1"), -ENOENT);
    IS(st_ino("/r/f2"), f2);
    IS(SYS(rename, "/r/d1", "/r/d2"), 0); /* over an empty directory */
    IS(st_ino("/r/d2"), d1);
    IS(st_ino("/r/d2/in/.."), d1);
    IS(SYS(mkdir, "/r/e", 0755), 0);
    IS(SYS(rename, "/r/d2/in", "/r/e/in"), 0);
    IS(st_ino("/r/e/in/.."), st_ino("/r/e"));
    IS(SYS(link, "/r/f2", "/r/hard"), 0);
    struct stat st;
    IS(SYS(stat, "/r/hard", &st), 0);
    IS(st.st_nlink, 2);
    IS(SYS(rename, "/r/f2", "/r/hard"), 0); /* the same file: nothing happens */
    OK(st_ino("/r/f2") > 0);
    IS(SYS(link, "/r/f2", "/r/hard"), -EEXIST);
    IS(SYS(link, "/r/e", "/r/hard2"), -EPERM);
    IS(SYS(unlink, "/r/f2"), 0);
    IS(SYS(stat, "/r/hard", &st), 0);
    IS(st.st_nlink, 1);
    memset(big, 'q', 200);
    memcpy(big, "/r/", 3);
    big[200] = 0;
    IS(SYS(rename, "/r/hard", big), 0);
    OK(st_ino(big) > 0);
    IS(SYS(renameat2, AT_FDCWD, big, AT_FDCWD, "/r/e", 2), 0);
    OK(S_ISDIR(st_mode(big)) && S_ISREG(st_mode("/r/e")));
}

static void test_files(void)
{
    long fd = SYS(open, "/data", O_CREAT | O_RDWR, 0644);
    IS(SYS(write, fd, "hello", 5), 5);
    IS(SYS(lseek, fd, 0, SEEK_CUR), 5);
    IS(SYS(pread64, fd, buf, 100, 1), 4);
    OK(!memcmp(buf, "ello", 4));
    IS(SYS(pwrite64, fd, "X", 1, 8), 1);
    IS(SYS(pread64, fd, buf, 100, 0), 9);
    OK(!memcmp(buf, "hello\0\0\0X", 9));
    IS(SYS(pread64, fd, buf, 100, 100), 0);
    IS(SYS(pread64, fd, 8, 100, 0), -EFAULT);
    IS(SYS(pread64, fd, buf, 100, -1), -EINVAL);
    /* growth through several windows, contents kept */
    for (size_t n = 0; n < sizeof(big); n++)
        big[n] = (char)(n * 7 + n / 4096);
    long pos = 0;
    for (int n = 0; n < 20; n++, pos += sizeof(big))
        IS(SYS(pwrite64, fd, big, sizeof(big), pos), sizeof(big));
    char *back = malloc(sizeof(big));
    for (int n = 0; n < 20; n++) {
        IS(SYS(pread64, fd, back, sizeof(big), n * sizeof(big)), sizeof(big));
        OK(!memcmp(big, back, sizeof(big)));
    }
    free(back);
    struct stat st;
    IS(SYS(fstat, fd, &st), 0);
    IS(st.st_size, pos);
    OK(st.st_blocks >= pos / 512 && st.st_blocks < pos / 512 + 32);
    /* truncation leaves no old data behind */
    IS(SYS(ftruncate, fd, 10), 0);
    IS(SYS(ftruncate, fd, 10000), 0);
    IS(SYS(pread64, fd, buf, 10000, 0), 10000);
    OK(!memcmp(buf, big, 10));
    for (int n = 10; n < 10000; n++)
        if (buf[n]) {
            OK(0);
            break;
        }
    IS(SYS(fstat, fd, &st), 0);
    IS(st.st_blocks, 8);
    /* holes */
    IS(SYS(pwrite64, fd, "tail", 4, 50 << 20), 4);
    IS(SYS(lseek, fd, 0, SEEK_DATA), 0);
    IS(SYS(lseek, fd, 0, SEEK_HOLE), 4096);
    IS(SYS(lseek, fd, 4096, SEEK_DATA), 50 << 20);
    IS(SYS(lseek, fd, (50 << 20) + 1, SEEK_HOLE), (50 << 20) + 4);
    IS(SYS(lseek, fd, (50 << 20) + 4, SEEK_HOLE), -ENXIO);
    IS(SYS(fallocate, fd, 3, 50 << 20, 4096), 0);
    IS(SYS(lseek, fd, 4096, SEEK_DATA), -ENXIO);
    IS(SYS(fallocate, fd, 0, 0, 65536), 0);
    IS(SYS(fstat, fd, &st), 0);
    IS(st.st_blocks, 128);
    IS(SYS(close, fd), 0);
    /* append, O_TRUNC */
    fd = SYS(open, "/app", O_CREAT | O_WRONLY | O_APPEND, 0644);
    SYS(write, fd, "ab", 2);
    SYS(lseek, fd, 0, SEEK_SET);
    SYS(write, fd, "cd", 2);
    IS(SYS(read, fd, buf, 1), -EBADF);
    SYS(close, fd);
    fd = SYS(open, "/app", O_RDONLY);
    IS(SYS(read, fd, buf, 10), 4);
    OK(!memcmp(buf, "abcd", 4));
    IS(SYS(write, fd, buf, 1), -EBADF);
    SYS(close, fd);
    SYS(close, SYS(open, "/app", O_WRONLY | O_TRUNC));
    IS(SYS(stat, "/app", &st), 0);
    IS(st.st_size, 0);
    /* an unlinked open file lives on; its memory goes with the last reference */
    u64 used = dpages_used();
    fd = SYS(open, "/tmpf", O_CREAT | O_RDWR, 0600);
    IS(SYS(write, fd, big, 100000), 100000);
    IS(SYS(unlink, "/tmpf"), 0);
    OK(dpages_used() > used);
    IS(SYS(pread64, fd, buf, 100, 50000), 100);
    SYS(close, fd);
    IS(dpages_used() - used, 0);
    fd = SYS(open, "/", __O_TMPFILE | O_DIRECTORY | O_RDWR, 0600);
    OK(fd >= 0);
    IS(SYS(write, fd, "x", 1), 1);
    IS(SYS(linkat, fd, "", AT_FDCWD, "/linked", AT_EMPTY_PATH), 0);
    SYS(close, fd);
    OK(st_ino("/linked") > 0);
    /* limits */
    dpages_set_limit(dpages_used() + 2);
    fd = SYS(open, "/full", O_CREAT | O_RDWR, 0600);
    IS(SYS(write, fd, big, 100000), 8192);
    IS(SYS(write, fd, big, 1), -ENOSPC);
    dpages_set_limit(0);
    SYS(close, fd);
    IS(SYS(unlink, "/full"), 0);
}

static void test_map(void)
{
    long fd = SYS(open, "/map", O_CREAT | O_RDWR, 0600);
    IS(SYS(write, fd, big, 10000), 10000);
    struct file *f = fd_get((int)fd);
    struct map_extent e;
    IS(f->ops->map(f, 4096, 1 << 20, true, true, &e), 0);
    IS(e.fd, FD_D);
    char *p = (char *)D_BASE + e.off;
    OK(!memcmp(p, big + 4096, 4096));
    p[10] = 'Z'; /* stored through the mapping: read(2) sees it */
    IS(SYS(pread64, fd, buf, 1, 4106), 1);
    OK(buf[0] == 'Z');
    p[8192] = 'Q'; /* in a page never written by write(2) */
    IS(SYS(ftruncate, fd, 30000), 0);
    IS(SYS(pread64, fd, buf, 1, 4096 + 8192), 1);
    OK(buf[0] == 'Q');
    /* growing does not move the mapped window */
    IS(SYS(pwrite64, fd, big, 100000, 200000), 100000);
    p[11] = 'Y';
    IS(SYS(pread64, fd, buf, 1, 4107), 1);
    OK(buf[0] == 'Y');
    IS(SYS(ftruncate, fd, 4100), 0);
    OK(p[10] == 0);
    f->ops->unmap(f, false);
    file_put(f);
    SYS(close, fd);
    fd = SYS(memfd_create, "m", 2);
    OK(fd >= 0);
    IS(SYS(ftruncate, fd, 8192), 0);
    IS(SYS(fcntl, fd, 1033, 2 | 4), 0); /* SHRINK | GROW */
    IS(SYS(ftruncate, fd, 4096), -EPERM);
    IS(SYS(ftruncate, fd, 10000), -EPERM);
    IS(SYS(write, fd, "ok", 2), 2);
    IS(SYS(fcntl, fd, 1033, 8), 0);
    IS(SYS(write, fd, "no", 2), -EPERM);
    IS(SYS(fcntl, fd, 1034, 0), 14);
    IS(SYS(close, fd), 0);
}

struct dirent64 {
    u64 ino;
    s64 off;
    u16 reclen;
    u8 type;
    char name[];
};

static void test_readdir(void)
{
    char name[64];
    IS(SYS(mkdir, "/dir", 0755), 0);
    for (int n = 0; n < 300; n++) {
        sprintf(name, "/dir/file%d", n);
        SYS(close, SYS(open, name, O_CREAT | O_WRONLY, 0644));
    }
    long fd = SYS(open, "/dir", O_RDONLY | O_DIRECTORY), got;
    char seen[400] = {0};
    int count = 0, removed = 0;
    while ((got = SYS(getdents64, fd, buf, 500)) > 0) {
        for (long off = 0; off < got;) {
            struct dirent64 *d = (void *)(buf + off);
            int k;
            off += d->reclen;
            count++;
            if (sscanf(d->name, "file%d", &k) == 1) {
                OK(!seen[k]);
                seen[k] = 1;
                sprintf(name, "/dir/file%d", k); /* removing while reading loses nothing */
                IS(SYS(unlink, name), 0);
                removed++;
            }
        }
    }
    IS(got, 0);
    IS(count, 302);
    IS(removed, 300);
    IS(SYS(lseek, fd, 0, SEEK_SET), 0);
    IS(SYS(getdents64, fd, buf, 10), -EINVAL);
    IS(SYS(getdents64, fd, buf, 500), 48);
    SYS(close, fd);
    IS(SYS(rmdir, "/dir"), 0);
    fd = SYS(open, "/app", O_RDONLY);
    IS(SYS(getdents64, fd, buf, 500), -ENOTDIR);
    SYS(close, fd);
}

static void test_perm(void)
{
    IS(SYS(mkdir, "/p", 0700), 0);
    IS(SYS(mkdir, "/sticky", 0777), 0);
    IS(SYS(chmod, "/sticky", 01777), 0);
    SYS(close, SYS(open, "/p/f", O_CREAT | O_WRONLY, 0644));
    SYS(close, SYS(open, "/sticky/root", O_CREAT | O_WRONLY, 0644));
    SYS(close, SYS(open, "/suid", O_CREAT | O_WRONLY, 0755));
    IS(SYS(chmod, "/suid", 06755), 0);
    fake_user(1000);
    IS(st_ino("/p/f"), -EACCES);
    IS(SYS(open, "/p", O_RDONLY), -EACCES);
    IS(SYS(mkdir, "/mine", 0755), -EACCES);
    IS(SYS(unlink, "/sticky/root"), -EPERM);
    IS(SYS(rename, "/sticky/root", "/sticky/x"), -EPERM);
    SYS(close, SYS(open, "/sticky/me", O_CREAT | O_WRONLY, 0644));
    IS(SYS(chown, "/sticky/me", 0, -1), -EPERM);
    IS(SYS(chown, "/sticky/me", -1, 1000), 0);
    IS(SYS(chmod, "/sticky/root", 0777), -EPERM);
    IS(SYS(open, "/sticky/root", O_WRONLY), -EACCES);
    IS(SYS(access, "/sticky/root", 4), 0);
    IS(SYS(access, "/sticky/root", 2), -EACCES);
    IS(SYS(utimensat, AT_FDCWD, "/sticky/root", 0, 0), -EACCES);
    struct timespec ts[2] = {{1, 2}, {3, 4}};
    IS(SYS(utimensat, AT_FDCWD, "/sticky/root", ts, 0), -EPERM);
    IS(SYS(utimensat, AT_FDCWD, "/sticky/me", ts, 0), 0);
    struct stat st;
    IS(SYS(stat, "/sticky/me", &st), 0);
    IS(st.st_mtim.tv_sec, 3);
    IS(st.st_mtim.tv_nsec, 4);
    IS(st.st_uid, 1000);
    IS(SYS(unlink, "/sticky/me"), 0);
    IS(SYS(mknod, "/sticky/dev", S_IFCHR | 0600, 0x103), -EPERM);
    fake_user(0);
    IS(SYS(chown, "/suid", 5, 5), 0);
    IS(st_mode("/suid"), S_IFREG | 0755);
    IS(SYS(chmod, "/suid", 06755), 0);
    IS(SYS(chown, "/suid", 1000, 1000), 0);
    IS(SYS(chmod, "/suid", 06777), 0);
    fake_user(2000);
    long fd = SYS(open, "/suid", O_WRONLY);
    OK(fd >= 0);
    IS(SYS(write, fd, "x", 1), 1);
    SYS(close, fd);
    IS(st_mode("/suid"), S_IFREG | 0777);
    fake_user(0);
    IS(SYS(setxattr, "/suid", "user.a", "val", 3, 0), 0);
    IS(SYS(setxattr, "/suid", "user.a", "val", 3, 1), -EEXIST);
    IS(SYS(setxattr, "/suid", "user.b", "val", 3, 2), -ENODATA);
    IS(SYS(getxattr, "/suid", "user.a", buf, 100), 3);
    IS(SYS(getxattr, "/suid", "user.a", buf, 2), -ERANGE);
    IS(SYS(getxattr, "/suid", "user.a", buf, 0), 3);
    IS(SYS(getxattr, "/suid", "user.c", buf, 10), -ENODATA);
    IS(SYS(getxattr, "/suid", "bad.c", buf, 10), -EOPNOTSUPP);
    IS(SYS(listxattr, "/suid", buf, 100), 7);
    IS(SYS(removexattr, "/suid", "user.a"), 0);
    IS(SYS(removexattr, "/suid", "user.a"), -ENODATA);
}

static void test_fds(void)
{
    long a = SYS(open, "/app", O_RDWR);
    long b = SYS(dup, a);
    IS(b, a + 1);
    IS(SYS(dup2, a, 100), 100);
    IS(SYS(dup2, a, a), a);
    IS(SYS(dup3, a, a, 0), -EINVAL);
    IS(SYS(dup3, a, 101, O_CLOEXEC), 101);
    IS(SYS(fcntl, 101, F_GETFD), 1);
    IS(SYS(fcntl, 100, F_GETFD), 0);
    IS(SYS(fcntl, a, F_DUPFD, 90), 90);
    IS(SYS(fcntl, a, F_DUPFD, 5000), -EINVAL);
    IS(SYS(dup2, a, 5000), -EBADF);
    IS(SYS(write, a, "12345", 5), 5);
    IS(SYS(lseek, 100, 0, SEEK_CUR), 5); /* shared position */
    files_close_on_exec(fake.files);
    IS(SYS(close, 101), -EBADF);
    struct files *copy = files_clone(fake.files);
    IS(files_next(copy, 91), 100);
    files_put(copy);
    IS(SYS(close_range, b, 200, 0), 0);
    IS(SYS(close, 100), -EBADF);
    IS(SYS(fcntl, a, F_SETFL, O_APPEND | O_NONBLOCK), 0);
    IS(SYS(fcntl, a, F_GETFL) & ~O_LARGEFILE & ~0100000, O_RDWR | O_APPEND | O_NONBLOCK);
    /* locks: another description conflicts, a description of the same process shares records */
    struct flock fl = {.l_type = F_WRLCK, .l_start = 10, .l_len = 10};
    IS(SYS(fcntl, a, F_SETLK, &fl), 0);
    struct files *mine = fake.files;
    fake.files = files_new();
    fake.tgid = 2;
    long c = SYS(open, "/app", O_RDWR);
    fl = (struct flock){.l_type = F_RDLCK, .l_start = 0, .l_len = 0};
    IS(SYS(fcntl, c, F_SETLK, &fl), -EAGAIN);
    IS(SYS(fcntl, c, F_GETLK, &fl), 0);
    IS(fl.l_type, F_WRLCK);
    IS(fl.l_start, 10);
    IS(fl.l_len, 10);
    IS(fl.l_pid, 1);
    fl = (struct flock){.l_type = F_RDLCK, .l_start = 0, .l_len = 10};
    IS(SYS(fcntl, c, F_SETLK, &fl), 0);
    struct files *other = fake.files;
    fake.files = mine;
    fl = (struct flock){.l_type = F_UNLCK, .l_start = 12, .l_len = 2}; /* split */
    IS(SYS(fcntl, a, F_SETLK, &fl), 0);
    fake.files = other;
    fl = (struct flock){.l_type = F_WRLCK, .l_start = 12, .l_len = 2};
    IS(SYS(fcntl, c, F_SETLK, &fl), 0);
    fl = (struct flock){.l_type = F_WRLCK, .l_start = 14, .l_len = 1};
    IS(SYS(fcntl, c, F_SETLK, &fl), -EAGAIN);
    IS(SYS(flock, c, 2 | 4), 0);
    fake.files = mine;
    IS(SYS(flock, a, 1 | 4), -EAGAIN);
    fake.files = other;
    files_put(other);
    fake.files = mine;
    fake.tgid = 1;
    IS(SYS(flock, a, 1 | 4), 0);
    fl = (struct flock){.l_type = F_WRLCK};
    IS(SYS(fcntl, a, F_GETLK, &fl), 0);
    IS(fl.l_type, F_UNLCK);
    SYS(close, a);
}

static void test_dev_mount(void)
{
    IS(SYS(mkdir, "/dev", 0755), 0);
    IS(SYS(mount, "dev", "/dev", "devtmpfs", 0, 0), 0);
    long fd = SYS(open, "/dev/zero", O_RDWR);
    memset(buf, 1, 100);
    IS(SYS(read, fd, buf, 100), 100);
    OK(!buf[0] && !buf[99]);
    SYS(close, fd);
    fd = SYS(open, "/dev/full", O_WRONLY);
    IS(SYS(write, fd, buf, 1), -ENOSPC);
    SYS(close, fd);
    IS(dev_create("pts/3", S_IFCHR | 0620, makedev(136, 3)), 0);
    IS(st_mode("/dev/pts/3"), S_IFCHR | 0620);
    IS(SYS(open, "/dev/pts/3", O_RDWR), -ENXIO);
    IS(SYS(mkdir, "/mnt", 0755), 0);
    IS(SYS(mount, "t", "/mnt", "tmpfs", 0, "size=1m,mode=700"), 0);
    IS(st_mode("/mnt"), S_IFDIR | 0700);
    IS(SYS(mkdir, "/mnt/x", 0755), 0);
    IS(SYS(rename, "/mnt/x", "/x"), -EXDEV);
    IS(SYS(rmdir, "/mnt"), -EBUSY);
    IS(st_ino("/mnt/.."), st_ino("/"));
    IS(SYS(mount, "/app", "/data", "", 4096, 0), 0); /* bind a file over a file */
    IS(st_ino("/data"), st_ino("/app"));
    IS(SYS(umount2, "/data", 0), 0);
    OK(st_ino("/data") != st_ino("/app"));
    fd = SYS(open, "/mnt/x", O_RDONLY);
    IS(SYS(umount2, "/mnt", 0), -EBUSY);
    SYS(close, fd);
    IS(SYS(mount, 0, "/mnt", 0, 32 | 1, 0), 0); /* remount read-only */
    IS(SYS(mkdir, "/mnt/y", 0755), -EROFS);
    IS(SYS(umount2, "/mnt", 0), 0);
    IS(st_ino("/mnt/x"), -ENOENT);
    IS(SYS(umount2, "/mnt", 0), -EINVAL);
    IS(SYS(chroot, "/a"), 0);
    IS(st_ino("/../../b"), st_ino("/b"));
    OK(st_ino("/b") > 0);
}

static void bench(void)
{
    struct stat st;
    struct timespec a, b;
    enum { N = 200000 };
    SYS(mkdir, "/1", 0755);
    SYS(mkdir, "/1/2", 0755);
    SYS(mkdir, "/1/2/3", 0755);
    SYS(close, SYS(open, "/1/2/3/4", O_CREAT | O_RDWR, 0644));
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int n = 0; n < N; n++)
        SYS(stat, "/1/2/3/4", &st);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("# stat of 4 components: %ld ns\n", ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) / N);
    long fd = SYS(open, "/1/2/3/4", O_RDWR);
    SYS(write, fd, big, 4096);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int n = 0; n < N; n++)
        SYS(pread64, fd, buf, 4096, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("# pread of 4 KB: %ld ns\n", ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) / N);
    SYS(close, fd);
}

int main(int argc, char **argv)
{
    struct super_block *sb;
    (void)sb;
    fake_init();
    IS(register_filesystem("tmpfs", tmpfs_mount), 0);
    IS(vfs_init(), 0);
    IS(dev_init(), 0);
    fake_task();
    if (argc > 1 && !strcmp(argv[1], "bench")) {
        bench();
        return 0;
    }
    test_walk();
    test_rename();
    test_files();
    test_map();
    test_readdir();
    test_perm();
    test_fds();
    test_dev_mount();
    printf("%s - vfs_tmpfs: %d checks, %d failed\n", fake_failures ? "not ok" : "ok", fake_checks, fake_failures);
    return fake_failures != 0;
}
