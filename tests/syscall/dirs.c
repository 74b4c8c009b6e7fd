/* mkdir, rmdir, rename, renameat2, link, symlink, unlink, readlink, getdents, chdir, getcwd, mknod. */
#include "tap.h"
#include <dirent.h>
#include <sys/sysmacros.h>

static void make(const char *name)
{
    close(must(open(name, O_CREAT | O_WRONLY, 0644)));
}
static bool there(const char *name)
{
    struct stat st;
    return !lstat(name, &st);
}
static nlink_t links_of(const char *name)
{
    struct stat st;
    return lstat(name, &st) ? 999 : st.st_nlink;
}
static ino_t ino(const char *name)
{
    struct stat st;
    return lstat(name, &st) ? 0 : st.st_ino;
}
static int renameat2_(const char *a, const char *b, unsigned f) { return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, f); }

static void making(void)
{
    struct stat st;
    is(mkdir("d", 0777), 0, "mkdir");
    lstat("d", &st);
    ok(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755, "mkdir: umask");
    is(st.st_nlink, 2, "mkdir: two links");
    err(mkdir("d", 0777), EEXIST, "mkdir: exists");
    err(mkdir("none/x", 0777), ENOENT, "mkdir: no parent");
    err(mkdir("", 0777), ENOENT, "mkdir: empty");
    err(mkdir("/", 0777), EEXIST, "mkdir: root");
    err(mkdir(".", 0777), EEXIST, "mkdir: .");
    err(mkdir("d/..", 0777), EEXIST, "mkdir: ..");
    is(mkdir("slash/", 0700), 0, "mkdir: trailing slash");
    is(mkdir("d/sub", 01777), 0, "mkdir: sticky");
    lstat("d/sub", &st);
    is(st.st_mode & 07777, 01755, "mkdir: sticky stays");
    is(links_of("d"), 3, "a sub-directory counts");
    make("f");
    err(mkdir("f/x", 0777), ENOTDIR, "mkdir: below a file");
    err(mkdir("f", 0777), EEXIST, "mkdir: a file");
    must(symlink("nowhere", "dangling"));
    err(mkdir("dangling", 0777), EEXIST, "mkdir: a dangling link");
    err(rmdir("d"), ENOTEMPTY, "rmdir: not empty");
    err(rmdir("none"), ENOENT, "rmdir: none");
    err(rmdir("f"), ENOTDIR, "rmdir: a file");
    err(rmdir("d/sub/."), EINVAL, "rmdir: .");
    err(rmdir("d/sub/.."), ENOTEMPTY, "rmdir: ..");
    err(rmdir("/"), EBUSY, "rmdir: root");
    is(rmdir("d/sub/"), 0, "rmdir: trailing slash");
    is(links_of("d"), 2, "rmdir: links");
    must(symlink("d", "ld"));
    err(rmdir("ld"), ENOTDIR, "rmdir: a link to a directory");
    must(mkdir("cwd", 0755));
    chdir("cwd");
    is(rmdir("../cwd"), 0, "rmdir: the current directory");
    char b[512];
    ok(getcwd(b, sizeof(b)) == NULL && errno == ENOENT, "getcwd: gone");
    err(open("x", O_CREAT | O_WRONLY, 0600), ENOENT, "nothing can be made in it");
    err(mkdir("x", 0700), ENOENT, "no directory either");
    does(close(open(".", O_RDONLY)), "it can be opened");
    is(chdir(tap_scratch), 0, "chdir");
    err(unlink("d"), EISDIR, "unlink: directory");
    err(unlink("none"), ENOENT, "unlink: none");
    err(unlink("f/"), ENOTDIR, "unlink: slash");
    err(unlinkat(AT_FDCWD, "f", 4), EINVAL, "unlinkat: flags");
    err(unlinkat(AT_FDCWD, "f", AT_REMOVEDIR), ENOTDIR, "unlinkat: AT_REMOVEDIR of a file");
    int fd = open("f", O_RDWR);
    is(unlink("f"), 0, "unlink");
    fstat(fd, &st);
    is(st.st_nlink, 0, "unlink: an open file has no links");
    is(write(fd, "x", 1), 1, "and can be used");
    close(fd);
    is(unlink("ld"), 0, "unlink: a link");
    ok(there("d"), "not its target");
}

static void linking(void)
{
    struct stat st;
    char b[64];
    make("a");
    is(link("a", "b"), 0, "link");
    ok(links_of("a") == 2 && ino("a") == ino("b"), "two names");
    err(link("a", "b"), EEXIST, "link: exists");
    err(link("none", "c"), ENOENT, "link: none");
    err(link("d", "c"), EPERM, "link: directory");
    err(link("a", "none/c"), ENOENT, "link: no directory");
    must(symlink("a", "s"));
    is(link("s", "hs"), 0, "link: a symlink");
    lstat("hs", &st);
    ok(S_ISLNK(st.st_mode), "is linked itself");
    is(linkat(AT_FDCWD, "s", AT_FDCWD, "hs2", AT_SYMLINK_FOLLOW), 0, "AT_SYMLINK_FOLLOW");
    is(ino("hs2"), ino("a"), "links the target");
    err(linkat(AT_FDCWD, "a", AT_FDCWD, "x", 1), EINVAL, "linkat: flags");
    unlink("b");
    is(links_of("a"), 2, "one name less");
    is(symlink("any text at all", "sl"), 0, "symlink");
    lstat("sl", &st);
    is(st.st_size, 15, "its size");
    is(readlink("sl", b, sizeof(b)), 15, "readlink");
    is(readlink("sl", b, 3), 3, "readlink: cut");
    err(readlink("a", b, sizeof(b)), EINVAL, "readlink: a file");
    err(readlink("none", b, sizeof(b)), ENOENT, "readlink: none");
    err(syscall(SYS_readlink, "sl", b, 0), EINVAL, "readlink: size 0");
    err(symlink("", "es"), ENOENT, "symlink: empty");
    err(symlink("x", "a"), EEXIST, "symlink: exists");
    err(symlink("x", "none/y"), ENOENT, "symlink: no directory");
    char *text = malloc(5000);
    memset(text, 't', 5000);
    text[4095] = 0;
    is(symlink(text, "lt"), 0, "symlink: 4095 bytes");
    text[4095] = 't';
    text[4096] = 0;
    err(symlink(text, "lt2"), ENAMETOOLONG, "symlink: 4096 bytes");
    free(text);
    char name[300];
    memset(name, 'x', 299);
    name[256] = 0;
    err(mkdir(name, 0700), ENAMETOOLONG, "mkdir: long name");
    err(unlink(name), ENAMETOOLONG, "unlink: long name");
    err(rename("a", name), ENAMETOOLONG, "rename: long name");
    err(link("a", name), ENAMETOOLONG, "link: long name");
    if (getuid() == 0) {
        is(mknod("null", S_IFCHR | 0666, makedev(1, 3)), 0, "mknod: a device");
        lstat("null", &st);
        ok(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3), "mknod: number");
        is(WEXITSTATUS(in_child(chmod(".", 0777); setuid(65534); _exit(mknod("n2", S_IFCHR | 0666, makedev(1, 3)) ? errno : 0))), EPERM, "mknod: not for others");
    }
    chmod(".", 0755);
    is(mknod("nf", S_IFREG | 0600, 0), 0, "mknod: a file");
    is(mknod("nff", 0600, 0), 0, "mknod: type 0 is a file");
    is(mknod("nfifo", S_IFIFO | 0600, 0), 0, "mknod: a fifo");
    is(mknod("nsock", S_IFSOCK | 0600, 0), 0, "mknod: a socket");
    err(mknod("nd", S_IFDIR | 0600, 0), EPERM, "mknod: a directory");
    err(mknod("nl", S_IFLNK | 0600, 0), EINVAL, "mknod: a link");
    err(open("nsock", O_RDONLY), ENXIO, "open: a socket");
}

static void renaming(void)
{
    make("r1");
    make("r2");
    ino_t i1 = ino("r1"), i2 = ino("r2");
    is(rename("r1", "r3"), 0, "rename");
    ok(!there("r1") && ino("r3") == i1, "it moved");
    is(rename("r3", "r2"), 0, "rename over a file");
    ok(!there("r3") && ino("r2") == i1, "it replaced");
    (void)i2;
    is(rename("r2", "r2"), 0, "rename to itself");
    ok(there("r2"), "does nothing");
    must(link("r2", "r4"));
    is(rename("r2", "r4"), 0, "rename to another link of the file");
    ok(there("r2") && there("r4"), "does nothing either");
    err(rename("none", "x"), ENOENT, "rename: none");
    err(rename("r2", "none/x"), ENOENT, "rename: no directory");
    must(mkdir("rd", 0755));
    must(mkdir("rd2", 0755));
    err(rename("r2", "rd"), EISDIR, "rename: file over directory");
    err(rename("rd", "r2"), ENOTDIR, "rename: directory over file");
    is(rename("rd", "rd2"), 0, "rename: directory over an empty one");
    ok(!there("rd") && there("rd2"), "replaced");
    must(mkdir("rd", 0755));
    make("rd2/f");
    err(rename("rd", "rd2"), ENOTEMPTY, "rename: over one that is not empty");
    err(rename("rd2", "rd2/x"), EINVAL, "rename: into itself");
    err(rename("rd2", "rd2/y/x"), ENOENT, "rename: below itself, no directory");
    err(rename("rd2/.", "z"), EBUSY, "rename: .");
    err(rename("rd2/..", "z"), EBUSY, "rename: ..");
    err(rename("r2", "rd2/."), EBUSY, "rename to .");
    err(rename("r2", "z/"), ENOTDIR, "rename: file to a name with slash");
    is(rename("rd2", "z/"), 0, "rename: directory to a name with slash");
    must(rename("z", "rd2"));
    is(rename("rd2/f", "rd/f"), 0, "rename: to another directory");
    is(rename("rd2", "rd/rd2"), 0, "rename: directory into another");
    is(links_of("rd"), 3, "links of the new parent");
    chdir("rd/rd2");
    is(rename("../../rd", "../../re"), 0, "rename: above the current directory");
    char cwd[512];
    ok(getcwd(cwd, sizeof(cwd)) && !strcmp(cwd + strlen(cwd) - 7, "/re/rd2"), "getcwd follows");
    chdir(tap_scratch);
    is(renameat2_("r2", "r5", RENAME_NOREPLACE), 0, "RENAME_NOREPLACE");
    err(renameat2_("r5", "r4", RENAME_NOREPLACE), EEXIST, "RENAME_NOREPLACE: exists");
    ino_t a = ino("r5"), b = ino("re");
    is(renameat2_("r5", "re", RENAME_EXCHANGE), 0, "RENAME_EXCHANGE: file and directory");
    ok(ino("r5") == b && ino("re") == a, "exchanged");
    err(renameat2_("r5", "none", RENAME_EXCHANGE), ENOENT, "RENAME_EXCHANGE: none");
    err(renameat2_("r5", "re", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL, "RENAME_EXCHANGE and NOREPLACE");
    err(renameat2_("r5", "re", 0x80), EINVAL, "renameat2: flags");
    err(renameat2_("r5", "r5/rd2", RENAME_EXCHANGE), EINVAL, "RENAME_EXCHANGE: with a descendant");
    if (getuid() == 0) {
        is(renameat2_("re", "rw", RENAME_WHITEOUT), 0, "RENAME_WHITEOUT");
        struct stat st;
        ok(!lstat("re", &st) && S_ISCHR(st.st_mode) && st.st_rdev == 0, "leaves a whiteout");
        must(unlink("re"));
    }
    must(symlink("r5", "rs"));
    is(rename("rs", "rs2"), 0, "rename: a link");
    ok(!there("rs") && there("r5"), "not its target");
    err(rename("/proc/self/comm", "x"), EXDEV, "rename: another file system");
    err(link("/proc/self/comm", "x"), EXDEV, "link: another file system");
    if (getuid() == 0) {
        must(mkdir("st", 01777));
        must(chmod("st", 01777));
        make("st/root");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(unlink("st/root") ? errno : 0))), EPERM, "sticky: unlink");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(rename("st/root", "st/x") ? errno : 0))), EPERM, "sticky: rename");
        is(WEXITSTATUS(in_child(setuid(65534); close(open("st/mine", O_CREAT, 0600)); _exit(rename("st/mine", "st/root") ? errno : 0))), EPERM, "sticky: replace");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(unlink("st/mine") ? errno : 0))), 0, "sticky: one's own");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(mkdir("x", 0700) ? errno : 0))), EACCES, "mkdir: no permission");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(unlink("r4") ? errno : 0))), EACCES, "unlink: no permission");
    }
}

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    struct dirent *e;
    while (d && (e = readdir(d)))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void listing(void)
{
    must(mkdir("l", 0755));
    is(count_entries("l"), 2, "an empty directory has two entries");
    char name[64], b[4096];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "l/a rather long name so that several calls are needed %d", i);
        make(name);
    }
    is(count_entries("l"), 502, "500 files");
    must(mkdir("l/dir", 0755));
    must(symlink("x", "l/link"));
    must(mkfifo("l/fifo", 0600));
    DIR *d = opendir("l");
    struct dirent *e;
    int types = 0, inodes = 0;
    while ((e = readdir(d))) {
        if (!strcmp(e->d_name, "dir"))
            types += e->d_type == DT_DIR;
        if (!strcmp(e->d_name, "link"))
            types += e->d_type == DT_LNK;
        if (!strcmp(e->d_name, "fifo"))
            types += e->d_type == DT_FIFO;
        if (!strcmp(e->d_name, "."))
            inodes += e->d_ino == ino("l");
        if (!strcmp(e->d_name, "dir"))
            inodes += e->d_ino == ino("l/dir");
        if (!strcmp(e->d_name, ".."))
            inodes += e->d_ino == ino(".");
    }
    is(types, 3, "d_type");
    is(inodes, 3, "d_ino");
    rewinddir(d);
    int n = 0, removed = 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] == 'a') {
            snprintf(b, sizeof(b), "l/%s", e->d_name);
            removed += !unlink(b);
        }
        n++;
    }
    is(removed, 500, "entries can be removed while listing");
    is(n, 505, "and none is missed");
    rewinddir(d);
    readdir(d);
    long pos = telldir(d);
    struct dirent *e1 = readdir(d);
    char first[256];
    snprintf(first, sizeof(first), "%s", e1->d_name);
    readdir(d);
    seekdir(d, pos);
    ok(!strcmp(readdir(d)->d_name, first), "seekdir");
    closedir(d);
    int fd = open("l", O_RDONLY | O_DIRECTORY);
    err(syscall(SYS_getdents64, fd, b, 4), EINVAL, "getdents64: small buffer");
    ok(syscall(SYS_getdents64, fd, b, sizeof(b)) > 0, "getdents64");
    is(syscall(SYS_getdents64, fd, b, sizeof(b)), 0, "getdents64: end");
    lseek(fd, 0, SEEK_SET);
    ok(syscall(SYS_getdents, fd, b, sizeof(b)) > 0, "getdents");
    err(syscall(SYS_getdents64, 999, b, sizeof(b)), EBADF, "getdents64: bad descriptor");
    int f = open("a", O_RDONLY);
    err(syscall(SYS_getdents64, f, b, sizeof(b)), ENOTDIR, "getdents64: a file");
    lseek(fd, 0, SEEK_SET);
    err(syscall(SYS_getdents64, fd, 8, sizeof(b)), EFAULT, "getdents64: bad buffer");
    close(f);
    close(fd);
}

static void current(void)
{
    char b[512];
    must(mkdir("cd", 0755));
    is(chdir("cd"), 0, "chdir");
    ok(getcwd(b, sizeof(b)) && !strcmp(b + strlen(b) - 3, "/cd"), "getcwd");
    is(syscall(SYS_getcwd, b, sizeof(b)), (long)strlen(b) + 1, "getcwd: counts the NUL");
    err(syscall(SYS_getcwd, b, 3), ERANGE, "getcwd: small buffer");
    err(syscall(SYS_getcwd, b, 0), ERANGE, "getcwd: no buffer");
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(mkdir("jail", 0755); must(chroot("jail")); long n = syscall(SYS_getcwd, b, sizeof(b));
                                _exit(n != (long)strlen(b) + 1 || strncmp(b, "(unreachable)/", 14) || getcwd(b, sizeof(b)) || errno != ENOENT))),
           0, "getcwd: outside of the root directory");
    is(chdir(".."), 0, "chdir: ..");
    err(chdir("none"), ENOENT, "chdir: none");
    err(chdir("a"), ENOTDIR, "chdir: a file");
    int fd = open("cd", O_RDONLY);
    is(fchdir(fd), 0, "fchdir");
    close(fd);
    chdir("..");
    fd = open("a", O_RDONLY);
    err(fchdir(fd), ENOTDIR, "fchdir: a file");
    err(fchdir(999), EBADF, "fchdir: bad descriptor");
    close(fd);
    must(chmod("cd", 0600));
    if (getuid() == 0) {
        is(WEXITSTATUS(in_child(setuid(65534); _exit(chdir("cd") ? errno : 0))), EACCES, "chdir: no permission");
        chmod("cd", 0755);
        is(WEXITSTATUS(in_child(chroot("cd"); chdir("/"); mkdir("/inside", 0755); _exit(open("/../../inside", O_RDONLY) >= 0))), 1, "chroot");
        ok(there("cd/inside"), "chroot: it was made here");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(chroot("cd") ? errno : 0))), EPERM, "chroot: not for others");
    }
    err(chroot("a"), ENOTDIR, "chroot: a file");
    err(chroot("none"), ENOENT, "chroot: none");
}

TAP_MAIN
{
    making();
    linking();
    renaming();
    listing();
    current();
    return done();
}
