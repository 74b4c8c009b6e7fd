cat > fs_calls.c <<'E'
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/openat2.h>
static long r;
#define T(e) (errno = 0, r = (long)(e), printf("%3d %s = %ld %s\n", __LINE__, #e, r, r < 0 ? strerrorname_np(errno) : ""), fflush(stdout), r)
/* a descriptor: its number is not shown */
#define F(e) (errno = 0, r = (long)(e), printf("%3d %s = %s\n", __LINE__, #e, r < 0 ? strerrorname_np(errno) : "fd"), fflush(stdout), (int)r)
static char buf[1 << 16];
static struct stat st;
static void show(const char *n)
{
    if (lstat(n, &st)) { printf("    %s: %s\n", n, strerrorname_np(errno)); return; }
    printf("    %s: mode %o nlink %d uid %d gid %d size %ld\n", n, st.st_mode, S_ISDIR(st.st_mode) ? 0 : (int)st.st_nlink, st.st_uid, st.st_gid, S_ISDIR(st.st_mode) ? 0 : (long)st.st_size);
}
static void names(void)
{
    T(mkdir("a", 0777)); T(mkdir("a", 0777)); T(mkdir("a/b/c", 0777)); T(mkdir("a/b/", 0755)); T(mkdir(".", 0777)); T(mkdir("a/..", 0777));
    T(mkdir("", 0777)); T(rmdir("a")); T(rmdir("a/b/.")); T(rmdir("a/b/..")); T(rmdir("/")); T(unlink("a")); T(unlink("a/")); T(unlink("."));
    T(unlink("none")); T(unlink("a/b/none/x"));
    int fd = F(open("f", O_CREAT | O_EXCL | O_RDWR, 0666)); T(write(fd, "0123456789", 10));
    F(open("f", O_CREAT | O_EXCL, 0600)); F(open("f/", O_RDONLY)); F(open("f/x", O_RDONLY)); F(open("f/.", O_RDONLY)); F(open("f", O_DIRECTORY)); F(open("a", O_WRONLY));
    F(open("a", O_CREAT, 0600)); F(open("a", O_CREAT | O_DIRECTORY, 0600)); F(open("a/new/", O_CREAT | O_WRONLY, 0600)); F(open("a/.", O_CREAT, 0600)); F(open("none", O_RDONLY)); F(open("", O_RDONLY)); F(open("a", O_TMPFILE)); 
    T(mkdir("f/x", 0777)); T(mkdir("f/", 0777)); T(rmdir("f")); T(rmdir("f/")); T(mknod("f", S_IFREG | 0600, 0)); T(mknod("p", S_IFIFO | 0666, 0)); T(mknod("x", S_IFDIR | 0666, 0)); T(mknod("rf", 0644, 0)); show("p"); show("rf");
    T(symlink("f", "l")); T(symlink("f", "l")); T(symlink("", "e")); T(symlink("loop", "loop")); T(symlink("f", "sl/")); T(symlink("a", "la")); T(symlink("../../w/a/b", "a/lb"));
    F(open("loop", O_RDONLY)); F(open("l", O_NOFOLLOW)); F(open("l", O_PATH | O_NOFOLLOW)); F(open("l/", O_RDONLY)); F(open("la/", O_NOFOLLOW)); F(open("la", O_DIRECTORY | O_NOFOLLOW)); F(open("l", O_CREAT | O_EXCL, 0600));
    T(readlink("l", buf, 100)); T(readlink("l", buf, 0)); T(readlink("f", buf, 10)); T(readlink("none", buf, 10)); T(readlink("la/", buf, 10)); T(rmdir("la")); T(unlink("la/"));
    T(stat("a/lb/..", &st)); T(access("la/lb", X_OK)); T(chdir("la/lb")); T(getcwd(buf, sizeof buf) != NULL); T(!strcmp(strrchr(buf, '/'), "/b")); T(chdir("../..")); T(getcwd(buf, 2) != NULL); T(chdir("f")); T(chdir("none")); 
    T(symlink("made", "dangle")); F(open("dangle", O_RDONLY)); F(open("dangle", O_CREAT | O_WRONLY, 0600)); show("made"); T(mkdir("dangle2", 0700)); T(symlink("nodir/x", "dangle3")); F(open("dangle3", O_CREAT | O_WRONLY, 0600));
    T(link("f", "h")); T(link("f", "h")); T(link("a", "ha")); T(link("none", "x")); T(link("l", "hl")); show("hl"); show("h"); T(linkat(AT_FDCWD, "l", AT_FDCWD, "hf", AT_SYMLINK_FOLLOW)); show("hf"); T(link("f", "x/")); T(link("f", "h/"));
    char path[64]; sprintf(path, "/proc/self/fd/%d", fd); T(linkat(AT_FDCWD, path, AT_FDCWD, "via", AT_SYMLINK_FOLLOW)); show("via"); T(readlink(path, buf, sizeof buf) > 2);
    memset(buf, 'n', 300); buf[255] = 0; T(close(open(buf, O_CREAT, 0600))); T(unlink(buf)); buf[255] = 'n'; buf[256] = 0; F(open(buf, O_CREAT, 0600)); memset(buf, '/', 5000); buf[5000] = 0; F(open(buf, O_RDONLY)); buf[4095] = 0; F(open(buf, O_RDONLY));
    F(open((char *)8, O_RDONLY)); T(stat("f", (struct stat *)8)); T(syscall(SYS_stat, "f", 8)); T(mkdir((char *)-1, 0));
    close(fd);
}
static void renames(void)
{
    mkdir("r", 0777); mkdir("r/1", 0777); mkdir("r/1/in", 0777); mkdir("r/2", 0777); close(open("r/f", O_CREAT, 0600)); close(open("r/g", O_CREAT, 0640)); link("r/f", "r/ff");
    T(rename("r/f", "r/ff")); show("r/f"); T(rename("r/1", "r/1/in/x")); T(rename("r/1", "r/1")); T(rename("r/2", "r/1")); T(rename("r/1/in", "r/1")); T(rename("r/f", "r/1")); T(rename("r/1", "r/f")); T(rename("r/.", "r/x")); T(rename("r/1/..", "r/x")); T(rename("r/f", "r/1/.")); T(rename("none", "x")); T(rename("none", "none2/x"));
    T(rename("r/f/", "r/x")); T(rename("r/f", "r/x/")); T(rename("r/2", "r/x/")); T(rename("r/x/", "r/2")); T(rename("r/1", "r/2")); show("r/2/in"); T(rename("r/g", "r/ff")); show("r/ff"); show("r/g");
    T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/ff", RENAME_NOREPLACE)); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/ff", RENAME_EXCHANGE)); show("r/f"); show("r/ff"); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/2", RENAME_EXCHANGE)); show("r/f"); show("r/2"); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "none", RENAME_EXCHANGE)); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/f/in/x", RENAME_EXCHANGE)); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/2", RENAME_EXCHANGE | RENAME_NOREPLACE)); T(renameat2(AT_FDCWD, "r/f", AT_FDCWD, "r/q", 64));
}
static void io(void)
{
    int fd = F(open("io", O_CREAT | O_RDWR | O_TRUNC, 0644)), d = F(open(".", O_RDONLY)), w = F(open("io", O_WRONLY)), o = F(open("io", O_PATH)), p = F(open("io", O_RDONLY));
    T(write(fd, "hello world", 11)); T(lseek(fd, 0, SEEK_CUR)); T(lseek(fd, -3, SEEK_END)); T(read(fd, buf, 100)); T(read(fd, buf, 100)); T(lseek(fd, -1, SEEK_SET)); T(lseek(fd, 0, 99)); T(lseek(fd, 100, SEEK_SET)); T(read(fd, buf, 10)); T(lseek(o, 0, SEEK_SET));
    T(pread(fd, buf, 5, 3)); T(pread(fd, buf, 5, -1)); T(pwrite(fd, "X", 1, 20)); T(pread(w, buf, 1, 0)); T(read(w, buf, 1)); T(write(p, buf, 1)); T(read(d, buf, 1)); T(write(d, buf, 1)); T(read(o, buf, 1)); T(read(99, buf, 1)); T(read(fd, (void *)8, 10)); T(pread(fd, (void *)8, 10, 0)); T(pwrite(fd, (void *)8, 10, 0)); T(read(fd, buf, 0)); T(write(fd, (void *)8, 0)); T(syscall(SYS_read, fd, buf, -1L));
    struct iovec v[3] = {{buf, 3}, {buf + 10, 0}, {buf + 20, 4}}; T(preadv(fd, v, 3, 0)); T(readv(fd, v, 3)); T(writev(fd, v, 3)); T(readv(fd, v, -1)); T(readv(fd, v, 0)); T(preadv(fd, v, 1025, 0)); T(pwritev2(fd, v, 1, -1, 0)); T(preadv2(fd, v, 1, 0, 0x1000)); T(pwritev2(fd, v, 1, 0, RWF_APPEND)); fstat(fd, &st); T(st.st_size);
    T(ftruncate(fd, 5)); T(ftruncate(fd, 100)); T(pread(fd, buf, 200, 0)); T(memcmp(buf + 5, buf + 6, 90)); T(ftruncate(fd, -1)); T(ftruncate(p, 1)); T(ftruncate(d, 1)); T(ftruncate(o, 1)); T(truncate("io", 50)); T(truncate(".", 50)); T(truncate("none", 50)); T(truncate("p", 50));
    T(lseek(fd, 0, SEEK_DATA)); T(lseek(fd, 50, SEEK_DATA)); T(lseek(fd, 0, SEEK_HOLE)); T(lseek(fd, 60, SEEK_HOLE)); T(lseek(fd, -1, SEEK_HOLE));
    int q = F(dup(fd)); T(lseek(fd, 7, SEEK_SET)); T(lseek(q, 0, SEEK_CUR)); T(fcntl(q, F_GETFL) & (O_ACCMODE | O_APPEND)); T(fcntl(fd, F_SETFL, O_APPEND)); T(fcntl(q, F_GETFL) & (O_ACCMODE | O_APPEND)); T(pwrite(fd, "zz", 2, 0)); fstat(fd, &st); T(st.st_size); T(fcntl(fd, F_SETFL, 0));
    T(dup2(fd, fd)); T(dup2(99, 3)); T(dup2(fd, -1)); T(dup2(fd, 100000000)); T(dup3(fd, fd, 0)); T(dup3(fd, 50, O_APPEND)); T(dup3(fd, 50, O_CLOEXEC)); T(fcntl(50, F_GETFD)); T(fcntl(50, F_SETFD, 0)); T(fcntl(50, F_GETFD)); T(fcntl(fd, F_DUPFD, 60)); T(fcntl(fd, F_DUPFD_CLOEXEC, 60)); T(fcntl(61, F_GETFD)); T(fcntl(fd, F_DUPFD, -1)); T(fcntl(fd, 9999)); T(fcntl(o, F_SETFL, 0)); T(close_range(50, 70, 0)); T(fcntl(60, F_GETFD)); T(close_range(5, 4, 0)); T(close_range(1000, 2000, 77));
    T(fsync(fd)); T(fsync(d)); T(fdatasync(fd)); T(fsync(o)); T(posix_fadvise(fd, 0, 0, 99)); T(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED)); T(readahead(fd, 0, 10)); T(sync_file_range(fd, 0, 10, 0)); T(syncfs(fd));
    int x = 0; T(ioctl(fd, FIONREAD, &x)); T(ioctl(fd, TCGETS_, 0)); T(ioctl(fd, FIONBIO, &x)); T(ioctl(o, FIONREAD, &x));
    int c = F(open("copy", O_CREAT | O_RDWR | O_TRUNC, 0600)); T(lseek(fd, 0, SEEK_SET)); T(sendfile(c, fd, NULL, 20)); off_t off = 5; T(sendfile(c, fd, &off, 10)); T(off); T(lseek(fd, 0, SEEK_CUR)); T(sendfile(c, fd, &off, 1000)); T(copy_file_range(fd, NULL, c, NULL, 1000, 0)); off_t a = 0, b = 10; T(copy_file_range(fd, &a, c, &b, 10, 0)); T(a); T(b); T(copy_file_range(fd, &a, c, &b, 10, 1)); T(copy_file_range(d, NULL, c, NULL, 10, 0)); T(sendfile(p, fd, NULL, 1)); fstat(c, &st); T(st.st_size);
    struct statfs sf; T(fstatfs(fd, &sf)); T(statfs("none", &sf)); T(sf.f_namelen);
}
static void attrs(void)
{
    close(open("at", O_CREAT, 0644)); T(chmod("at", 04755)); show("at"); T(chown("at", 1, 2)); show("at"); T(chmod("at", 06755)); T(chown("at", -1, 3)); show("at"); T(chmod("at", 02644)); T(chown("at", 0, 0)); show("at"); T(lchown("l", 5, 6)); show("l"); T(chmod("none", 0)); T(fchmodat(AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW)); T(chmod("f/", 0600)); T(fchmod(99, 0)); T(fchownat(AT_FDCWD, "at", 7, 7, 0x5555));
    struct timespec t[2] = {{100, 1}, {200, 2}}; T(utimensat(AT_FDCWD, "at", t, 0)); stat("at", &st); T(st.st_mtime); T(st.st_mtim.tv_nsec); T(st.st_atime); t[0].tv_nsec = UTIME_OMIT; t[1].tv_sec = 300; T(utimensat(AT_FDCWD, "at", t, 0)); stat("at", &st); T(st.st_mtime); T(st.st_atime); t[0].tv_nsec = 1000000000; T(utimensat(AT_FDCWD, "at", t, 0)); T(utimensat(AT_FDCWD, "none", NULL, 0)); T(utimensat(AT_FDCWD, NULL, NULL, 0)); t[0].tv_nsec = t[1].tv_nsec = UTIME_OMIT; T(utimensat(AT_FDCWD, "none", t, 0)); T(utimensat(AT_FDCWD, "l", NULL, AT_SYMLINK_NOFOLLOW)); struct timeval tv[2] = {{1, 2}, {3, 1000000}}; T(utimes("at", tv));
    T(access("at", R_OK)); T(access("at", X_OK)); T(access("at", 8)); T(access("none", F_OK)); T(faccessat(AT_FDCWD, "l", F_OK, AT_SYMLINK_NOFOLLOW)); T(umask(027)); close(open("um", O_CREAT, 0666)); show("um"); mkdir("umd", 0777); show("umd"); T(umask(022)); mkdir("sg", 0777); chmod("sg", 02777); chown("sg", 0, 9); close(open("sg/f", O_CREAT, 0666)); mkdir("sg/d", 0755); show("sg/f"); show("sg/d"); mkdir("st", 0777); chmod("st", 01777); show("st");
    struct statx sx; T(statx(AT_FDCWD, "at", 0, STATX_ALL, &sx)); T(sx.stx_mode); T(statx(AT_FDCWD, "", 0, 0, &sx)); T(statx(AT_FDCWD, "", AT_EMPTY_PATH, 0, &sx)); T(statx(AT_FDCWD, "at", 0x10000, 0, &sx)); T(statx(AT_FDCWD, "at", 0, 0x80000000, &sx)); T(fstatat(AT_FDCWD, "", &st, 0)); T(fstatat(99, "at", &st, 0)); T(fstatat(99, "/", &st, 0)); T(fstatat(0, "", &st, AT_EMPTY_PATH)); T(fstatat(AT_FDCWD, "at", &st, 0x40000));
}
static void other_user(void)
{
    close(open("root_only", O_CREAT, 0600)); mkdir("closed", 0700); close(open("closed/x", O_CREAT, 0666)); mkdir("sticky", 0777); chmod("sticky", 01777); close(open("sticky/root", O_CREAT, 0666)); chmod("sticky/root", 0666); close(open("suid", O_CREAT, 0777)); chmod("suid", 06777); chmod(".", 0755);
    fflush(stdout);
    if (fork() == 0) {
        setgid(1234); setuid(1234);
        F(open("root_only", O_RDONLY)); F(open("closed/x", O_RDONLY)); T(stat("closed/x", &st)); F(open("closed", O_RDONLY)); T(chdir("closed")); T(mkdir("new", 0777)); T(unlink("root_only")); T(unlink("sticky/root")); T(rename("sticky/root", "sticky/r2")); F(open("sticky/mine", O_CREAT, 0644)); T(chown("sticky/mine", 0, 0)); T(chown("sticky/mine", 1234, -1)); T(chown("sticky/mine", -1, 99)); T(chmod("sticky/mine", 02777)); show("sticky/mine"); T(chmod("sticky/root", 0777)); T(link("closed/x", "sticky/x")); T(utimensat(AT_FDCWD, "root_only", NULL, 0)); struct timespec t[2] = {{1, 1}, {2, 2}}; T(utimensat(AT_FDCWD, "sticky/root", t, 0)); T(utimensat(AT_FDCWD, "sticky/root", NULL, 0)); T(truncate("root_only", 0)); T(access("root_only", R_OK)); T(access("sticky/root", W_OK)); T(mknod("sticky/dev", S_IFCHR | 0666, 0x103)); T(mknod("sticky/fifo", S_IFIFO | 0666, 0)); int fd = F(open("suid", O_WRONLY)); T(write(fd, "x", 1)); show("suid"); T(mkdir("sticky/d", 0700)); T(rmdir("sticky/d")); T(chroot(".")); F(open("sticky/root", O_RDONLY | O_NOATIME)); T(rename("sticky/mine", "root_only")); T(rename("sticky/mine", "sticky/mine2")); F(open("sticky/root", O_TRUNC | O_RDONLY)); T(setxattr("sticky/root", "trusted.x", "1", 1, 0)); T(setxattr("suid", "security.x", "1", 1, 0));
        _exit(0);
    }
    wait(NULL);
}
static void locks(void)
{
    int fd = F(open("lk", O_CREAT | O_RDWR, 0600)), e = F(open("lk", O_RDWR)); struct flock l = {.l_type = F_WRLCK, .l_start = 10, .l_len = 10}; T(fcntl(fd, F_SETLK, &l)); T(fcntl(e, F_SETLK, &l)); T(flock(fd, LOCK_EX)); T(flock(e, LOCK_EX | LOCK_NB)); T(flock(e, LOCK_SH | LOCK_NB)); T(flock(fd, LOCK_SH)); T(flock(e, LOCK_SH | LOCK_NB)); T(flock(fd, 77)); T(flock(99, LOCK_SH));
    fflush(stdout);
    if (fork() == 0) { T(fcntl(fd, F_GETLK, &l)); T(l.l_type); T(l.l_start); T(l.l_len); T(l.l_pid == getppid()); l = (struct flock){.l_type = F_RDLCK, .l_start = 0, .l_len = 0}; T(fcntl(fd, F_SETLK, &l)); l.l_len = 10; T(fcntl(fd, F_SETLK, &l)); l.l_start = 15; l.l_len = -5; T(fcntl(fd, F_SETLK, &l)); l.l_start = 2; T(fcntl(fd, F_SETLK, &l)); l.l_type = 77; T(fcntl(fd, F_SETLK, &l)); l = (struct flock){.l_type = F_WRLCK, .l_start = 5}; T(fcntl(fd, F_OFD_SETLK, &l)); _exit(0); }
    wait(NULL); close(e);
    if (fork() == 0) { l = (struct flock){.l_type = F_WRLCK, .l_start = 10, .l_len = 10}; T(fcntl(fd, F_SETLK, &l)); _exit(0); } /* closing e dropped the record */
    wait(NULL);
    int a[2]; char c; pipe(a); l = (struct flock){.l_type = F_WRLCK, .l_start = 0, .l_len = 1}; T(fcntl(fd, F_SETLK, &l)); fflush(stdout);
    if (fork() == 0) { struct flock m = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1}; fcntl(fd, F_SETLK, &m); write(a[1], "x", 1); m.l_start = 0; fcntl(fd, F_SETLKW, &m); _exit(0); }
    read(a[0], &c, 1); usleep(100000); l.l_start = 1; T(fcntl(fd, F_SETLKW, &l)); l.l_type = F_UNLCK; l.l_start = 0; T(fcntl(fd, F_SETLK, &l)); wait(NULL);
    int ro = F(open("lk", O_RDONLY)); l.l_type = F_WRLCK; T(fcntl(ro, F_SETLK, &l));
}
static void maps(void)
{
    int fd = F(open("mp", O_CREAT | O_RDWR | O_TRUNC, 0600)), ro = F(open("mp", O_RDONLY)); T(ftruncate(fd, 10000)); char *p = mmap(0, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); T(p != MAP_FAILED); if (p == MAP_FAILED) return; strcpy(p + 5000, "shared"); T(pread(fd, buf, 6, 5000)); T(memcmp(buf, "shared", 6)); T(pwrite(fd, "written", 7, 100)); T(memcmp(p + 100, "written", 7)); char *q = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 4096); q[0] = 'P'; T(p[4096]); T(mmap(0, 4096, PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED); T(mmap(0, 4096, PROT_READ, MAP_SHARED, ro, 100) == MAP_FAILED); T(ftruncate(fd, 20000)); T(pwrite(fd, "more", 4, 15000)); char *s = mmap(0, 20480, PROT_READ, MAP_SHARED, fd, 0); T(memcmp(s + 15000, "more", 4)); T(memcmp(s + 5000, "shared", 6)); strcpy(p + 200, "again"); T(memcmp(s + 200, "again", 5)); T(msync(p, 12288, MS_SYNC)); T(munmap(p, 12288)); close(fd); T(memcmp(s + 200, "again", 5));
    int m = F(memfd_create("m", MFD_ALLOW_SEALING)); T(ftruncate(m, 8192)); T(fcntl(m, F_ADD_SEALS, F_SEAL_GROW)); T(ftruncate(m, 9000)); T(pwrite(m, "abc", 3, 8190)); T(fcntl(m, F_GET_SEALS)); T(fcntl(m, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_WRITE)); T(write(m, "x", 1)); T(fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK)); T(memfd_create("x", 0x1000));
}
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static void dirs(void)
{
    char n[64]; mkdir("many", 0777); for (int i = 0; i < 500; i++) { sprintf(n, "many/%d", i); close(open(n, O_CREAT, 0600)); }
    struct dirent **l; int c = T(scandir("many", &l, NULL, by_name)); for (int i = 0; i < c; i += 50) printf("    %s %d\n", l[i]->d_name, l[i]->d_type);
    DIR *d = opendir("many"); int seen = 0; struct dirent *e; while ((e = readdir(d))) { if (e->d_name[0] != '.') { sprintf(n, "many/%s", e->d_name); unlink(n); seen++; } } T(seen); rewinddir(d); seen = 0; while (readdir(d)) seen++; T(seen); closedir(d); T(rmdir("many"));
    mkdir("gone", 0777); int g = F(open("gone", O_RDONLY)); T(rmdir("gone")); T(syscall(SYS_getdents64, g, buf, 1000)); T(fstat(g, &st)); T(st.st_nlink); T(openat(g, "x", O_CREAT, 0600)); T(mkdirat(g, "x", 0700)); T(fchdir(g)); T(getcwd(buf, 100) != NULL); T(open("x", O_CREAT, 0600)); T(chdir("..")); int f = F(open("f", O_RDONLY)); T(syscall(SYS_getdents64, f, buf, 1000)); T(fchdir(f)); T(syscall(SYS_getdents64, 99, buf, 10));
    int dd = F(open(".", O_RDONLY)); struct open_how h = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH}; F(syscall(SYS_openat2, dd, "f", &h, sizeof h)); F(syscall(SYS_openat2, dd, "../w/f", &h, sizeof h)); F(syscall(SYS_openat2, dd, "/etc", &h, sizeof h)); F(syscall(SYS_openat2, dd, "a/lb", &h, sizeof h)); h.resolve = RESOLVE_IN_ROOT; F(syscall(SYS_openat2, dd, "/f", &h, sizeof h)); F(syscall(SYS_openat2, dd, "../../f", &h, sizeof h)); h.resolve = RESOLVE_NO_SYMLINKS; F(syscall(SYS_openat2, dd, "l", &h, sizeof h)); F(syscall(SYS_openat2, dd, "la/b", &h, sizeof h)); h.resolve = 0x1000; F(syscall(SYS_openat2, dd, "f", &h, sizeof h)); h.resolve = 0; h.flags = 1ull << 40; F(syscall(SYS_openat2, dd, "f", &h, sizeof h)); h.flags = 0; h.mode = 0600; F(syscall(SYS_openat2, dd, "f", &h, sizeof h)); h.mode = 0; F(syscall(SYS_openat2, dd, "f", &h, 8)); F(syscall(SYS_openat2, dd, "f", &h, 5000));
    int t = F(open(".", O_TMPFILE | O_RDWR, 0600)); if (t >= 0) { T(write(t, "tmp", 3)); fstat(t, &st); T(st.st_nlink); sprintf(n, "/proc/self/fd/%d", t); T(linkat(AT_FDCWD, n, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW)); show("linked"); } T(open(".", O_TMPFILE | O_RDONLY, 0600));
    int u = F(open("gone2", O_CREAT | O_RDWR, 0600)); T(unlink("gone2")); T(write(u, "still", 5)); fstat(u, &st); T(st.st_nlink); T(st.st_size); sprintf(n, "/proc/self/fd/%d", u); T(readlink(n, buf, sizeof buf) > 0); T(open(n, O_RDONLY) >= 0); T(linkat(AT_FDCWD, n, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
}
int main(void)
{
    umask(022); names(); renames(); io(); attrs(); other_user(); locks(); maps(); dirs(); return 0;
}
E
sed -i 's/TCGETS_/0x5401/' fs_calls.c
gcc -w -o fs_calls fs_calls.c || exit 1
here=$PWD
for d in "$here" "$(mktemp -d)"; do
    rm -rf "$d/w"; mkdir "$d/w"; chmod 755 "$d"
    (cd "$d/w" && "$here/fs_calls")
    rm -rf "$d/w"
done
