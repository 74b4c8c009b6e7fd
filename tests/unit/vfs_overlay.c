/* Overlay semantics over a tmpfs lower tree. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/dframe.h"
#include "fake_host.h"

typedef long (*mount_t)(const char *, u32, const char *, struct super_block **);
long register_filesystem(const char *name, mount_t mount);
long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
long overlay_mount(struct super_block **lower, u32 count, struct super_block **out);
long vfs_init(void);

static struct super_block *lower_sb;
static char buf[65536];

static long mount_lower(const char *s, u32 f, const char *o, struct super_block **out)
{
    long r = tmpfs_mount(s, f, o, out);
    lower_sb = *out;
    return r;
}

static long mount_overlay(const char *s, u32 f, const char *o, struct super_block **out)
{
    return overlay_mount(&lower_sb, 1, out);
}

static long ino(const char *name)
{
    struct stat st;
    long r = SYS(lstat, name, &st);
    return r ? r : (long)st.st_ino;
}

static void put(const char *name, const char *text)
{
    long fd = SYS(open, name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    OK(fd >= 0);
    IS(SYS(write, fd, text, strlen(text)), strlen(text));
    SYS(close, fd);
}

static bool has(const char *name, const char *text)
{
    long fd = SYS(open, name, O_RDONLY);
    if (fd < 0)
        return false;
    long n = SYS(read, fd, buf, sizeof(buf));
    SYS(close, fd);
    return n == (long)strlen(text) && !memcmp(buf, text, (size_t)n);
}

/* Names of a directory, sorted by appearance in one string; -1 if one comes twice. */
static int list(const char *dir, char *out)
{
    long fd = SYS(open, dir, O_RDONLY | O_DIRECTORY), got;
    int count = 0;
    out[0] = 0;
    char data[300];
    while ((got = SYS(getdents64, fd, data, sizeof(data))) > 0) {
        for (long off = 0; off < got;) {
            u16 len = *(u16 *)(data + off + 16);
            char *name = data + off + 19, key[300];
            off += len;
            if (name[0] == '.')
                continue;
            sprintf(key, " %s ", name);
            OK(!strstr(out, key));
            strcat(out, key);
            count++;
        }
    }
    IS(got, 0);
    SYS(close, fd);
    return count;
}

int main(void)
{
    char names[8192];
    struct stat st;
    fake_init();
    register_filesystem("tmpfs", tmpfs_mount);
    register_filesystem("lower", mount_lower);
    register_filesystem("overlay", mount_overlay);
    IS(vfs_init(), 0);
    fake_task();
    SYS(mkdir, "/low", 0755);
    SYS(mkdir, "/o", 0755);
    IS(SYS(mount, "l", "/low", "lower", 0, "mode=755"), 0);
    SYS(mkdir, "/low/d", 0750);
    SYS(mkdir, "/low/d/e", 0755);
    SYS(mkdir, "/low/empty", 0755);
    put("/low/f", "lower f");
    put("/low/g", "lower g");
    put("/low/d/x", "lower x");
    put("/low/d/y", "lower y");
    put("/low/d/e/deep", "deep");
    SYS(symlink, "d/x", "/low/link");
    SYS(link, "/low/g", "/low/g2");
    SYS(setxattr, "/low/f", "user.k", "v", 1, 0);
    SYS(chown, "/low/d/x", 7, 8);
    IS(SYS(mount, "o", "/o", "overlay", 0, 0), 0);

    OK(has("/o/f", "lower f"));
    OK(has("/o/link", "lower x"));
    long f_ino = ino("/o/f");
    /* an early reader keeps the old contents; the number stays */
    long early = SYS(open, "/o/f", O_RDONLY);
    put("/o/f", "new");
    OK(has("/o/f", "new"));
    OK(has("/low/f", "lower f"));
    IS(SYS(pread64, early, buf, 100, 0), 7);
    SYS(close, early);
    IS(ino("/o/f"), f_ino);
    IS(SYS(getxattr, "/o/f", "user.k", buf, 10), 1);
    /* append copies data, parents, owners and modes */
    long fd = SYS(open, "/o/d/x", O_WRONLY | O_APPEND);
    IS(SYS(write, fd, "+", 1), 1);
    SYS(close, fd);
    OK(has("/o/d/x", "lower x+"));
    IS(SYS(stat, "/o/d/x", &st), 0);
    IS(st.st_uid, 7);
    IS(st.st_gid, 8);
    IS(SYS(stat, "/o/d", &st), 0);
    IS(st.st_mode, S_IFDIR | 0750);
    OK(has("/o/link", "lower x+"));
    IS(list("/o/d", names), 3);
    put("/o/d/new", "n");
    IS(list("/o/d", names), 4);
    /* unlink: whiteout; re-creation */
    IS(SYS(unlink, "/o/d/y"), 0);
    IS(ino("/o/d/y"), -ENOENT);
    IS(list("/o/d", names), 3);
    put("/o/d/y", "again");
    OK(has("/o/d/y", "again"));
    IS(SYS(unlink, "/o/d/y"), 0);
    IS(ino("/o/d/y"), -ENOENT);
    OK(has("/low/d/y", "lower y"));
    IS(SYS(unlink, "/o/g"), 0);
    OK(has("/o/g2", "lower g"));
    put("/o/g2", "own");
    OK(has("/low/g", "lower g"));
    /* a directory removed and made again is empty */
    IS(SYS(rmdir, "/o/d"), -ENOTEMPTY);
    IS(SYS(unlink, "/o/d/x"), 0);
    IS(SYS(unlink, "/o/d/new"), 0);
    IS(SYS(unlink, "/o/d/e/deep"), 0);
    IS(SYS(rmdir, "/o/d/e"), 0);
    IS(SYS(rmdir, "/o/d"), 0);
    IS(ino("/o/d"), -ENOENT);
    IS(SYS(mkdir, "/o/d", 0700), 0);
    IS(list("/o/d", names), 0);
    IS(ino("/o/d/x"), -ENOENT);
    /* renames */
    IS(SYS(rename, "/o/empty", "/o/e2"), -EXDEV);
    IS(SYS(rename, "/o/d", "/o/d2"), 0);
    IS(ino("/o/d"), -ENOENT);
    IS(SYS(rename, "/o/d2", "/o/empty"), 0); /* over a lower directory that is empty */
    IS(list("/o/empty", names), 0);
    IS(SYS(rename, "/o/link", "/o/link2"), 0);
    IS(ino("/o/link"), -ENOENT);
    IS(SYS(readlink, "/o/link2", buf, 100), 3);
    IS(SYS(rename, "/o/g2", "/o/f"), 0);
    OK(has("/o/f", "own"));
    IS(ino("/o/g2"), -ENOENT);
    put("/o/a", "a");
    put("/o/b", "b");
    IS(SYS(renameat2, AT_FDCWD, "/o/a", AT_FDCWD, "/o/b", 2), 0);
    OK(has("/o/a", "b") && has("/o/b", "a"));
    IS(SYS(link, "/o/a", "/o/hard"), 0);
    IS(ino("/o/hard"), ino("/o/a"));
    put("/o/hard", "both");
    OK(has("/o/a", "both"));
    IS(SYS(chmod, "/o/hard", 0600), 0);
    IS(SYS(stat, "/o/a", &st), 0);
    IS(st.st_mode, S_IFREG | 0600);
    IS(st.st_nlink, 2);
    /* truncation copies only what is needed */
    fd = SYS(open, "/low/big", O_CREAT | O_WRONLY, 0644);
    for (int n = 0; n < 64; n++)
        SYS(write, fd, buf, sizeof(buf));
    SYS(close, fd);
    u64 used = dpages_used();
    IS(SYS(truncate, "/o/big", 5000), 0);
    IS(dpages_used() - used, 2);
    IS(SYS(stat, "/o/big", &st), 0);
    IS(st.st_size, 5000);
    /* an open file that is removed; O_TMPFILE and linking it */
    fd = SYS(open, "/o/a", O_RDWR);
    IS(SYS(unlink, "/o/a"), 0);
    IS(SYS(unlink, "/o/hard"), 0);
    IS(SYS(write, fd, "zz", 2), 2);
    IS(SYS(fstat, fd, &st), 0);
    IS(st.st_nlink, 0);
    SYS(close, fd);
    fd = SYS(open, "/o", __O_TMPFILE | O_DIRECTORY | O_RDWR, 0600);
    IS(SYS(write, fd, "t", 1), 1);
    IS(SYS(linkat, fd, "", AT_FDCWD, "/o/t", AT_EMPTY_PATH), 0);
    SYS(close, fd);
    OK(has("/o/t", "t"));
    /* many names come each once */
    for (int n = 0; n < 200; n++) {
        char name[64];
        sprintf(name, n & 1 ? "/low/empty/n%d" : "/o/many%d", n);
        put(name, "1");
    }
    OK(list("/o", names) >= 100);
    /* memory pressure at every allocation: no crash, no lost lock */
    for (long n = 1; n < 60; n++) {
        fake.fail_alloc = n;
        SYS(open, "/o/oom/x", O_CREAT | O_WRONLY, 0600);
        SYS(mkdir, "/o/oom", 0700);
        SYS(rename, "/o/f", "/o/oom/f");
        SYS(rename, "/o/oom/f", "/o/f");
        SYS(unlink, "/o/oom/x");
        fake.fail_alloc = 0;
    }
    printf("%s - vfs_overlay: %d checks, %d failed\n", fake_failures ? "not ok" : "ok", fake_checks, fake_failures);
    return fake_failures != 0;
}
