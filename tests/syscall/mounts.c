/* mount and umount2: tmpfs, binds, flags and what they forbid. Natively in a mount name space of its own. */
#include "tap.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

static void copy_self(const char *to, mode_t mode)
{
    char b[65536];
    ssize_t n;
    int in = must(open("/proc/self/exe", O_RDONLY)), out = must(open(to, O_CREAT | O_WRONLY, 0700));
    while ((n = read(in, b, sizeof(b))) > 0)
        must(write(out, b, (size_t)n));
    fchmod(out, mode);
    close(in);
    close(out);
}
static bool fs_is(const char *p, unsigned long type)
{
    struct statfs s;
    return !statfs(p, &s) && (unsigned long)s.f_type == type;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return (int)geteuid() & 0xff;
    (void)argv;
    tap_begin();
    if (getuid()) {
        ok(true, "needs root");
        return done();
    }
    if (!unshare(CLONE_NEWNS))
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    must(mkdir("m", 0755));
    must(mkdir("b", 0755));
    close(open("m/below", O_CREAT, 0600));
    err(mount("none", "none", "tmpfs", 0, NULL), ENOENT, "mount: no directory");
    err(mount("none", "m", "nonsense", 0, NULL), ENODEV, "mount: unknown type");
    err(mount("none", "m/below", "tmpfs", 0, NULL), ENOTDIR, "mount: on a file");
    err(mount("nothere", "m", NULL, MS_BIND, NULL), ENOENT, "bind: no source");
    err(umount("m"), EINVAL, "umount: not a mount");
    err(umount("none"), ENOENT, "umount: none");
    err(umount2("m", 0x100), EINVAL, "umount: flags");
    struct stat st, st2;
    stat("m", &st);
    is(mount("none", "m", "tmpfs", 0, "size=1m,mode=0700"), 0, "mount: tmpfs");
    stat("m", &st2);
    ok(st.st_dev != st2.st_dev && (st2.st_mode & 07777) == 0700, "another device, the mode asked for");
    ok(fs_is("m", 0x01021994), "statfs");
    err(access("m/below", F_OK), ENOENT, "what was below is hidden");
    int fd = open("m/f", O_CREAT | O_RDWR, 0600);
    ok(fd >= 0, "a file in it");
    err(rename("m/f", "f"), EXDEV, "rename across");
    err(link("m/f", "f"), EXDEV, "link across");
    err(rmdir("m"), EBUSY, "rmdir of a mount point");
    err(umount("m"), EBUSY, "umount: in use");
    char *big = calloc(1, 2 << 20);
    ok(write(fd, big, 2 << 20) < 2 << 20, "size=: no room for more");
    err(pwrite(fd, big, 1 << 20, 1 << 20), ENOSPC, "size=: ENOSPC");
    close(fd);
    is(umount("m"), 0, "umount");
    is(access("m/below", F_OK), 0, "what was below is back");
    is(mount("m", "b", NULL, MS_BIND, NULL), 0, "bind");
    is(access("b/below", F_OK), 0, "the same directory");
    close(open("b/new", O_CREAT, 0600));
    is(access("m/new", F_OK), 0, "in both directions");
    is(mount(NULL, "b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0, "remount: read-only bind");
    err(open("b/x", O_CREAT | O_WRONLY, 0600), EROFS, "read-only: create");
    err(open("b/new", O_WRONLY), EROFS, "read-only: write");
    err(unlink("b/new"), EROFS, "read-only: unlink");
    err(mkdir("b/d", 0700), EROFS, "read-only: mkdir");
    err(chmod("b/new", 0600), EROFS, "read-only: chmod");
    err(access("b/new", W_OK), EROFS, "read-only: access");
    does(close(open("m/x", O_CREAT | O_WRONLY, 0600)), "not at the other place");
    is(umount("b"), 0, "umount of the bind");
    close(open("file", O_CREAT | O_RDWR, 0600));
    is(mount("m/new", "file", NULL, MS_BIND, NULL), 0, "bind of a file");
    stat("m/new", &st);
    stat("file", &st2);
    ok(st.st_ino == st2.st_ino, "it is that file");
    is(umount("file"), 0, "umount of a file");
    is(mount("none", "m", "tmpfs", MS_NOEXEC, NULL), 0, "MS_NOEXEC");
    copy_self("m/prog", 0755);
    is(WEXITSTATUS(in_child(execl("m/prog", "x", "y", NULL); _exit(errno))), EACCES, "MS_NOEXEC: execve");
    err(access("m/prog", X_OK), EACCES, "MS_NOEXEC: access");
    fd = open("m/prog", O_RDONLY);
    ok(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EPERM, "MS_NOEXEC: mmap");
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    err(mprotect(p, 4096, PROT_READ | PROT_EXEC), EACCES, "MS_NOEXEC: mprotect");
    munmap(p, 4096);
    close(fd);
    umount("m");
    is(mount("none", "m", "tmpfs", 0, NULL), 0, "again, without flags");
    copy_self("m/suid", 0755);
    must(chown("m/suid", 123, 123));
    must(chmod("m/suid", 06755));
    is(WEXITSTATUS(in_child(setuid(65534); execl("m/suid", "x", "y", NULL); _exit(1))), 123, "a set-user-id program");
    is(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL), 0, "MS_NOSUID");
    is(WEXITSTATUS(in_child(setuid(65534); execl("m/suid", "x", "y", NULL); _exit(1))), 65534 & 0xff, "MS_NOSUID: runs as the caller");
    must(mknod("m/null", S_IFCHR | 0666, makedev(1, 3)));
    is(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND | MS_NODEV, NULL), 0, "MS_NODEV");
    err(open("m/null", O_RDWR), EACCES, "MS_NODEV: a device");
    is(mount("none", "m", "tmpfs", 0, NULL), 0, "a mount on a mount");
    err(access("m/suid", F_OK), ENOENT, "the upper one is seen");
    umount("m");
    is(access("m/suid", F_OK), 0, "then the lower one");
    fd = open("m/suid", O_RDONLY);
    is(umount2("m", MNT_DETACH), 0, "MNT_DETACH");
    err(access("m/suid", F_OK), ENOENT, "it is gone");
    is(fstat(fd, &st), 0, "an open file lives on");
    close(fd);
    is(mount("proc", "m", "proc", 0, NULL), 0, "proc");
    ok(access("m/self/status", F_OK) == 0, "it shows processes");
    umount("m");
    is(WEXITSTATUS(in_child(setuid(65534); _exit(mount("none", "m", "tmpfs", 0, NULL) ? errno : 0))), EPERM, "mount: others may not");
    is(WEXITSTATUS(in_child(setuid(65534); _exit(umount("m") ? errno : 0))), EPERM, "umount: others may not");
    return done();
}
