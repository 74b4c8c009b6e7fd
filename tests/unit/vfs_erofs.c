/* The EROFS reader against images of mkfs.erofs (plain, inline, chunk layouts, compact and extended inodes), and against
 * corrupted ones: any answer but a crash. Skipped (77) without mkfs.erofs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/dframe.h"
#include "fake_host.h"

typedef long (*mount_t)(const char *, u32, const char *, struct super_block **);
long register_filesystem(const char *name, mount_t mount);
long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
long erofs_open(const void *base, u64 size, u32 index, struct super_block **out);
long vfs_init(void);

static void *image;
static u64 image_size;
static char dir[] = "/tmp/vfs_erofs.XXXXXX";

static long mount_image(const char *s, u32 f, const char *o, struct super_block **out)
{
    return erofs_open(image, image_size, 0, out);
}

static void put(const char *name, size_t size)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/tree/%s", dir, name);
    FILE *f = fopen(path, "w");
    for (size_t n = 0; n < size; n++)
        fputc((int)(n * 31 + n / 4096 + size), f);
    fclose(f);
}

static void make_tree(void)
{
    char path[256], name[64];
    snprintf(path, sizeof(path), "mkdir -p %s/tree/a/b/many", dir);
    OK(!system(path));
    put("empty", 0);
    put("small", 100);
    put("page", 4096);
    put("odd", 4096 * 3 + 17);
    put("large", 1 << 20);
    put("a/b/deep", 5000);
    for (int n = 0; n < 700; n++) {
        sprintf(name, "a/b/many/file-with-a-long-name-%d", n);
        put(name, n % 5 ? 0 : 10);
    }
    snprintf(path, sizeof(path), "%s/tree/link", dir);
    OK(!symlink("a/b/deep", path));
    snprintf(name, sizeof(name), "%s/tree/small", dir);
    snprintf(path, sizeof(path), "%s/tree/hard", dir);
    OK(!link(name, path));
    setxattr(name, "user.one", "value1", 6, 0);
    setxattr(name, "user.two", "v2", 2, 0);
    snprintf(path, sizeof(path), "%s/tree/odd", dir);
    setxattr(path, "user.one", "value1", 6, 0);
    chmod(path, 0640);
}

/* The whole tree as the host and as the reader show it. */
static void compare(const char *rel)
{
    char host[512], guest[512], child[512];
    static char a[1 << 21], b[1 << 21];
    struct stat h, g;
    snprintf(host, sizeof(host), "%s/tree/%s", dir, rel);
    snprintf(guest, sizeof(guest), "/img/%s", rel);
    OK(!lstat(host, &h));
    IS(SYS(lstat, guest, &g), 0);
    IS(g.st_mode, h.st_mode);
    IS(g.st_nlink, h.st_nlink);
    if (S_ISREG(h.st_mode)) {
        IS(g.st_size, h.st_size);
        int fd = open(host, O_RDONLY);
        long gfd = SYS(open, guest, O_RDONLY);
        ssize_t n = read(fd, a, sizeof(a));
        IS(SYS(read, gfd, b, sizeof(b)), n);
        OK(!memcmp(a, b, (size_t)n));
        if (n > 100) {
            IS(SYS(pread64, gfd, b, 50, n / 2), 50);
            OK(!memcmp(a + n / 2, b, 50));
        }
        struct file *f = fd_get((int)gfd);
        for (u64 off = 0; off < (u64)n;) {
            struct map_extent e;
            IS(f->ops->map(f, off, (u64)n - off, false, false, &e), 0);
            OK(e.size && !(e.size & 4095));
            u64 len = MIN(e.size, (u64)n - off);
            const char *p = e.fd == FD_D ? (char *)dwin_ptr(e.off) : e.fd == -1 ? NULL : (char *)image + e.off;
            for (u64 k = 0; k < len; k++)
                if (a[off + k] != (p ? p[k] : 0)) {
                    OK(!"mapped bytes differ");
                    break;
                }
            off += e.size;
        }
        file_put(f);
        SYS(close, gfd);
        close(fd);
    } else if (S_ISLNK(h.st_mode)) {
        ssize_t n = readlink(host, a, sizeof(a));
        IS(SYS(readlink, guest, b, 4096), n);
        OK(!memcmp(a, b, (size_t)n));
    } else if (S_ISDIR(h.st_mode)) {
        long fd = SYS(open, guest, O_RDONLY | O_DIRECTORY), got, count = 0;
        char data[1000];
        while ((got = SYS(getdents64, fd, data, sizeof(data))) > 0)
            for (long off = 0; off < got; off += *(u16 *)(data + off + 16))
                count++;
        IS(got, 0);
        SYS(close, fd);
        DIR *d = opendir(host);
        struct dirent *e;
        while ((e = readdir(d))) {
            count--;
            if (e->d_name[0] == '.')
                continue;
            snprintf(child, sizeof(child), "%s%s%s", rel, *rel ? "/" : "", e->d_name);
            compare(child);
        }
        closedir(d);
        IS(count, 0);
    }
    char hl[1000], gl[1000];
    ssize_t n = llistxattr(host, hl, sizeof(hl));
    if (n >= 0)
        IS(SYS(llistxattr, guest, gl, sizeof(gl)), n);
    n = lgetxattr(host, "user.one", hl, sizeof(hl));
    IS(SYS(lgetxattr, guest, "user.one", gl, sizeof(gl)), n < 0 ? -ENODATA : n);
    if (n > 0)
        OK(!memcmp(hl, gl, (size_t)n));
}

static bool load(const char *options)
{
    char cmd[512];
    struct stat st;
    snprintf(cmd, sizeof(cmd), "rm -f %s/img && mkfs.erofs %s %s/img %s/tree >/dev/null 2>&1", dir, options, dir, dir);
    if (system(cmd))
        return false;
    snprintf(cmd, sizeof(cmd), "%s/img", dir);
    int fd = open(cmd, O_RDONLY);
    fstat(fd, &st);
    image_size = (u64)st.st_size;
    image = mmap(NULL, image_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    return true;
}

/* Walks everything of a damaged image. */
static void roam(const char *at, int depth)
{
    char data[2000], child[600], buf[5000];
    struct stat st;
    if (SYS(lstat, at, &st) || depth > 4)
        return;
    SYS(lgetxattr, at, "user.one", buf, 100);
    SYS(llistxattr, at, buf, 1000);
    SYS(readlink, at, buf, 1000);
    long fd = SYS(open, at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    SYS(read, fd, buf, sizeof(buf));
    SYS(pread64, fd, buf, sizeof(buf), st.st_size / 2);
    int budget = 8;
    long got;
    while (budget > 0 && (got = SYS(getdents64, fd, data, sizeof(data))) > 0) {
        for (long off = 0; off < got && budget-- > 0; off += *(u16 *)(data + off + 16)) {
            if (data[off + 19] == '.')
                continue;
            snprintf(child, sizeof(child), "%s/%s", at, data + off + 19);
            roam(child, depth + 1);
        }
    }
    SYS(close, fd);
}

static void damage(void)
{
    void *clean = malloc(image_size);
    memcpy(clean, image, image_size);
    srand(7);
    for (int round = 0; round < 300; round++) {
        u64 meta = MIN(image_size, 1u << 16);
        for (int n = 0; n < 1 + round % 20; n++) {
            u64 at = 1024 + (u64)rand() % (meta - 1024);
            ((u8 *)image)[at] = (u8)rand();
        }
        if (round % 3 == 0)
            ((u32 *)((char *)image + 1024))[0] = 0xe0f5e1e2u;
        image_size -= round % 2 ? 4096 : 0;
        if (!SYS(mount, "i", "/img", "image", 0, 0)) {
            roam("/img", 0);
            IS(SYS(umount2, "/img", 0), 0);
        }
        image_size += round % 2 ? 4096 : 0;
        memcpy(image, clean, image_size);
    }
    free(clean);
}

int main(void)
{
    static const char *const options[] = {"", "-E force-inode-extended", "-E force-inode-compact", "-E noinline_data",
                                          "--chunksize=4096", "--chunksize=65536", "-x1"};
    if (system("command -v mkfs.erofs >/dev/null"))
        return 77;
    fake_init();
    register_filesystem("tmpfs", tmpfs_mount);
    register_filesystem("image", mount_image);
    IS(vfs_init(), 0);
    fake_task();
    SYS(mkdir, "/img", 0755);
    OK(mkdtemp(dir) != NULL);
    make_tree();
    int mounted = 0;
    for (size_t n = 0; n < sizeof(options) / sizeof(options[0]); n++) {
        if (!load(options[n])) {
            printf("# mkfs.erofs %s: not supported here\n", options[n]);
            continue;
        }
        mounted++;
        IS(SYS(mount, "i", "/img", "image", 0, 0), 0);
        compare("");
        IS(SYS(open, "/img/new", O_CREAT | O_WRONLY, 0600), -EROFS);
        IS(SYS(open, "/img/small", O_WRONLY), -EROFS);
        IS(SYS(unlink, "/img/small"), -EROFS);
        struct stat a, b;
        SYS(stat, "/img/small", &a);
        SYS(stat, "/img/hard", &b);
        IS(a.st_ino, b.st_ino);
        IS(SYS(umount2, "/img", 0), 0);
        damage();
        munmap(image, image_size);
    }
    OK(mounted >= 2);
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    OK(!system(cmd));
    printf("%s - vfs_erofs: %d checks, %d failed\n", fake_failures ? "not ok" : "ok", fake_checks, fake_failures);
    return fake_failures != 0;
}
