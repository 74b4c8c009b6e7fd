/* hostfs against attacks: what a hostile guest kernel may send, on a real directory tree. No guest is needed: requests go
 * straight into hostfs_serve(). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "broker/broker.h"
#include "broker/secrets.h"

static struct broker b;
static struct request r;
static char top[64];
enum { RO, RW, SECRETS, ALLOW, ONE_FILE };

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", top, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static s32 ask2(u32 op, u32 mount, const void *data, u32 size, u64 a0, u64 a1)
{
    memset(&r.head, 0, sizeof(r.head));
    memcpy(r.data, data, size);
    r.data[size] = 0;
    r.head.op = op;
    r.head.mount = mount;
    r.head.size = size;
    r.head.arg[0] = a0;
    r.head.arg[1] = a1;
    hostfs_serve(&b, &r);
    return r.head.result;
}

static s32 ask(u32 op, u32 mount, const char *path, u64 a0) { return ask2(op, mount, path, strlen(path) + 1, a0, 0); }

static s32 on_handle(u32 op, u32 handle, u64 a0, u64 a1, u64 a2)
{
    memset(&r.head, 0, sizeof(r.head));
    r.head.op = op;
    r.head.handle = handle;
    r.head.arg[0] = a0;
    r.head.arg[1] = a1;
    r.head.arg[2] = a2;
    hostfs_serve(&b, &r);
    return r.head.result;
}

static void add_mount(const char *sub, u32 flags, u32 ctl_flags, char *allow)
{
    static struct ctl_mount records[8];
    static u32 n;
    char path[256];
    struct ctl_mount *c = &records[n++ % 8];
    *c = (struct ctl_mount){ .kind = MOUNT_HOSTFS, .flags = flags, .ctl_flags = ctl_flags };
    snprintf(path, sizeof(path), "%s/%s", top, sub);
    assert_true(hostfs_mount(&b.fs, c, path, allow) >= 0);
}

static int set_up(void **state)
{
    (void)state;
    char path[256];
    strcpy(top, "/tmp/harena-hostfs-XXXXXX");
    assert_non_null(mkdtemp(top));
    static const char *const dirs[] = { "box", "box/sub", "outside", "box/.ssh" };
    for (size_t i = 0; i < ARRAY_COUNT(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", top, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    put("box/plain", "hello");
    put("box/sub/deep", "deep");
    put("outside/secret", "outside secret");
    put("box/.env", "TOKEN=1");
    put("box/.ssh/id_rsa", "KEY");
    snprintf(path, sizeof(path), "%s/box/out", top);
    assert_int_equal(symlink("../outside", path), 0);
    snprintf(path, sizeof(path), "%s/box/abs", top);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof(path), "%s/box/magic", top);
    assert_int_equal(symlink("/proc/self/root", path), 0);
    snprintf(path, sizeof(path), "%s/box/fifo", top);
    assert_int_equal(mkfifo(path, 0666), 0);
    snprintf(path, sizeof(path), "%s/box/device", top);
    mknod(path, S_IFCHR | 0666, makedev(1, 5)); /* only root can */
    snprintf(path, sizeof(path), "%s/box/suid", top);
    put("box/suid", "x");
    chmod(path, 06755);
    memset(&b, 0, sizeof(b));
    hostfs_init(&b.fs);
    b.d_fd = memfd_create("D", 0);
    assert_int_equal(ftruncate(b.d_fd, D_SIZE), 0);
    static char allow[] = "plain\0sub\0";
    add_mount("box", MOUNT_READONLY, 0, NULL);
    add_mount("box", 0, 0, NULL);
    add_mount("box", 0, CTL_MOUNT_SECRETS, NULL);
    add_mount("box", MOUNT_READONLY, CTL_MOUNT_ALLOW, allow);
    add_mount("box/plain", 0, 0, NULL);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    for (u32 i = 0; i < BROKER_HANDLE_MAX; i++)
        if (b.fs.handles[i].used)
            close(b.fs.handles[i].fd);
    for (u32 i = 0; i < b.fs.mount_count; i++)
        close(b.fs.mounts[i].root);
    close(b.fs.proc_fd);
    close(b.d_fd);
    return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const bad[] = { "..", ".", "../outside/secret", "sub/../../outside/secret", "/etc/passwd", "//", "/", "sub/",
                                       "sub//deep", "./plain", "sub/..", "sub/.", "plain/../plain" };
    static const u32 ops[] = { WIRE_LOOKUP, WIRE_OPEN, WIRE_READDIR, WIRE_READLINK, WIRE_CREATE, WIRE_MKDIR, WIRE_UNLINK, WIRE_RMDIR };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        for (size_t k = 0; k < ARRAY_COUNT(ops); k++)
            assert_int_equal(ask(ops[k], RW, bad[i], 0), -EINVAL);
    assert_int_equal(ask2(WIRE_LOOKUP, RO, "plain", 5, 0, 0), -EINVAL);    /* no NUL */
    assert_int_equal(ask2(WIRE_LOOKUP, RO, "pla\0in", 7, 0, 0), -EINVAL);  /* one inside */
    assert_int_equal(ask2(WIRE_LOOKUP, RO, "", 0, 0, 0), -EINVAL);
    char longest[5000];
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(ask2(WIRE_LOOKUP, RO, longest, sizeof(longest), 0, 0), -ENAMETOOLONG);
    assert_int_equal(ask(WIRE_LOOKUP, 99, "plain", 0), -EINVAL);
    assert_int_equal(ask(WIRE_LOOKUP, RO, "plain", 0), 0);
    struct wire_attr *a = (void *)r.reply;
    assert_int_equal(a->size, 5);
    assert_int_equal(ask(WIRE_LOOKUP, RO, "", 0), 0);
    assert_true(S_ISDIR(a->mode));
    assert_int_equal(ask(WIRE_LOOKUP, RO, "suid", 0), 0);
    assert_int_equal(a->mode & 06000, 0);
}

static void test_links(void **state)
{
    (void)state;
    assert_int_equal(ask(WIRE_OPEN, RO, "out/secret", O_RDONLY), -ELOOP);
    assert_int_equal(ask(WIRE_LOOKUP, RO, "out/secret", 0), -ELOOP);
    assert_int_equal(ask(WIRE_READDIR, RO, "out", 0), -ENOTDIR);
    assert_int_equal(ask(WIRE_OPEN, RO, "abs", O_RDONLY), -ELOOP);
    assert_int_equal(ask(WIRE_LOOKUP, RO, "magic/etc", 0), -ELOOP);
    assert_int_equal(ask(WIRE_CREATE, RW, "out/new", 0644), -ENOTDIR);
    assert_int_equal(ask(WIRE_READLINK, RO, "out", 0), 0);
    assert_int_equal(r.head.reply_size, 10);
    assert_memory_equal(r.reply, "../outside", 10);
    assert_int_equal(ask(WIRE_READLINK, RO, "plain", 0), -EINVAL);
    /* a link as the last component is looked at, not followed */
    assert_int_equal(ask(WIRE_LOOKUP, RO, "abs", 0), 0);
    assert_true(S_ISLNK(((struct wire_attr *)r.reply)->mode));
    struct wire_attr want[2] = { { .mode = 0777 } };
    memcpy(&want[1], "abs", 4);
    assert_int_equal(ask2(WIRE_SETATTR, RW, want, sizeof(want[0]) + 4, WIRE_SET_MODE, 0), -ELOOP);
}

static void test_special_files(void **state)
{
    (void)state;
    alarm(5); /* opening the FIFO would block for ever */
    assert_int_equal(ask(WIRE_OPEN, RO, "fifo", O_RDONLY), -ENXIO);
    assert_int_equal(ask(WIRE_OPEN, RW, "fifo", O_WRONLY), -ENXIO);
    alarm(0);
    assert_int_equal(ask(WIRE_OPEN, RO, "sub", O_RDONLY), -EISDIR);
    if (ask(WIRE_LOOKUP, RO, "device", 0) == 0)
        assert_int_equal(ask(WIRE_OPEN, RO, "device", O_RDONLY), -ENXIO);
}

static void test_read_only(void **state)
{
    (void)state;
    static const u32 ops[] = { WIRE_CREATE, WIRE_MKDIR, WIRE_SYMLINK, WIRE_LINK, WIRE_UNLINK, WIRE_RMDIR, WIRE_RENAME, WIRE_SETATTR };
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++)
        assert_int_equal(ask(ops[i], RO, "plain", 0), -EROFS);
    assert_int_equal(ask(WIRE_OPEN, RO, "plain", O_RDWR), -EROFS);
    assert_int_equal(ask(WIRE_OPEN, RO, "plain", O_RDWR | O_TRUNC), -EINVAL);
    assert_int_equal(ask(WIRE_OPEN, RO, "plain", O_RDONLY), 0);
    u32 handle = r.head.value;
    assert_int_equal(on_handle(WIRE_WRITE, handle, 0, 5, 0), -EBADF);
    r.head.size = sizeof(struct wire_attr);
    r.head.op = WIRE_FSETATTR;
    r.head.arg[0] = WIRE_SET_MODE;
    hostfs_serve(&b, &r);
    assert_int_equal(r.head.result, -EROFS);
    assert_int_equal(on_handle(WIRE_CLOSE, handle, 0, 0, 0), 0);
    assert_int_equal(on_handle(WIRE_CLOSE, handle, 0, 0, 0), -EBADF);
}

static void test_data(void **state)
{
    (void)state;
    char text[16] = "";
    assert_int_equal(ask(WIRE_CREATE, RW, "sub/new", 06777), 0);
    assert_int_equal(((struct wire_attr *)r.reply)->mode & 07000, 0);
    u32 handle = r.head.value;
    assert_int_equal(ask(WIRE_CREATE, RW, "sub/new", 0644), -EEXIST);
    assert_int_equal(pwrite(b.d_fd, "data!", 5, D_SIZE - 4096), 5);
    assert_int_equal(on_handle(WIRE_WRITE, handle, 3, 5, D_SIZE - 4096), 0);
    assert_int_equal(r.head.value, 5);
    assert_int_equal(((struct wire_attr *)r.reply)->size, 8);
    assert_int_equal(on_handle(WIRE_READ, handle, 0, 100, 8192), 0);
    assert_int_equal(r.head.value, 8);
    assert_int_equal(pread(b.d_fd, text, 8, 8192), 8);
    assert_memory_equal(text, "\0\0\0data!", 8);
    /* outside D, and numbers that overflow */
    assert_int_equal(on_handle(WIRE_READ, handle, 0, 100, D_SIZE - 50), -EINVAL);
    assert_int_equal(on_handle(WIRE_READ, handle, 0, ~0ul, 8192), -EINVAL);
    assert_int_equal(on_handle(WIRE_READ, handle, ~0ul, 1, 0), -EINVAL);
    assert_int_equal(on_handle(WIRE_READ, handle, 0, 1, ~0ul), -EINVAL);
    assert_int_equal(on_handle(WIRE_READ, handle ^ 0x10000, 0, 1, 0), -EBADF);
    assert_int_equal(on_handle(WIRE_READ, 0xffffffff, 0, 1, 0), -EBADF);
    /* grants need a doorbell and a grant slot */
    assert_int_equal(on_handle(WIRE_GRANT, handle, FD_R, 0, 0), -EINVAL);
    assert_int_equal(on_handle(WIRE_GRANT, handle, FD_LIMIT, 0, 0), -EINVAL);
    assert_int_equal(on_handle(WIRE_GRANT, handle, FD_GRANT0, 0, 0), -EPERM);
    assert_int_equal(on_handle(WIRE_CLOSE, handle, 0, 0, 0), 0);
}

static void test_names(void **state)
{
    (void)state;
    struct stat st;
    char path[256];
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0sub/moved", 16, 6, 0), 0);
    assert_int_equal(ask2(WIRE_RENAME, RW, "sub/moved\0plain", 16, 10, 1), 0);
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0sub/moved", 16, 5, 0), -EINVAL); /* lies about the second name */
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0sub/moved", 16, 600, 0), -EINVAL);
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0../moved", 15, 6, 0), -EINVAL);
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0out/moved", 16, 6, 0), -ENOTDIR);
    assert_int_equal(ask2(WIRE_RENAME, RW, "plain\0moved", 12, 6, 4), -EINVAL); /* RENAME_WHITEOUT */
    assert_int_equal(ask2(WIRE_LINK, RW, "plain\0sub/hard", 15, 6, 0), 0);
    assert_int_equal(ask2(WIRE_LINK, RW, "fifo\0sub/fifo2", 15, 5, 0), -EPERM);
    assert_int_equal(ask2(WIRE_SYMLINK, RW, "sub/link\0../../../etc", 22, 0, 0), 0);
    assert_int_equal(ask2(WIRE_SYMLINK, RW, "sub/link2", 10, 0, 0), -EINVAL);
    assert_int_equal(ask(WIRE_MKDIR, RW, "made", 07777), 0);
    snprintf(path, sizeof(path), "%s/box/made", top);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 06000, 0);
    assert_int_equal(ask(WIRE_UNLINK, RW, "made", 0), -EISDIR);
    assert_int_equal(ask(WIRE_RMDIR, RW, "made", 0), 0);
    assert_int_equal(ask(WIRE_RMDIR, RW, "", 0), -EBUSY);
    struct {
        struct wire_attr a;
        char path[8];
    } set = { .a = { .mode = 06711, .size = 3, .mtime = 1000, .mtime_nsec = 5 }, .path = "plain" };
    assert_int_equal(ask2(WIRE_SETATTR, RW, &set, sizeof(set.a) + 6, WIRE_SET_MODE | WIRE_SET_SIZE | WIRE_SET_MTIME, 0), 0);
    snprintf(path, sizeof(path), "%s/box/plain", top);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(st.st_mtim.tv_sec, 1000);
    assert_int_equal(ask2(WIRE_SETATTR, RW, &set, sizeof(set.a) + 6, 1u << 20, 0), -EINVAL);
    assert_int_equal(ask2(WIRE_SETATTR, RW, &set, sizeof(set.a), WIRE_SET_MODE, 0), -EINVAL);
}

static void test_secrets(void **state)
{
    (void)state;
    struct wire_attr *a = (void *)r.reply;
    assert_int_equal(ask(WIRE_LOOKUP, SECRETS, ".env", 0), 0);
    assert_int_equal(a->size, 0);
    assert_true(a->flags & WIRE_ATTR_HIDDEN);
    assert_int_equal(ask(WIRE_OPEN, SECRETS, ".env", O_RDONLY), 0);
    u32 handle = r.head.value;
    assert_int_equal(on_handle(WIRE_READ, handle, 0, 100, 0), 0);
    assert_int_equal(r.head.value, 0);
    assert_int_equal(on_handle(WIRE_GRANT, handle, FD_GRANT0, 0, 0), -EACCES);
    assert_int_equal(ask(WIRE_OPEN, SECRETS, ".env", O_RDWR), -EACCES);
    assert_int_equal(ask(WIRE_LOOKUP, SECRETS, ".ssh/id_rsa", 0), -ENOENT);
    assert_int_equal(ask(WIRE_READDIR, SECRETS, ".ssh", 0), 0);
    assert_int_equal(r.head.reply_size, 0);
    /* no way round by another name */
    assert_int_equal(ask2(WIRE_RENAME, SECRETS, ".env\0plain2", 12, 5, 0), -EACCES);
    assert_int_equal(ask2(WIRE_LINK, SECRETS, ".env\0plain2", 12, 5, 0), -EACCES);
    assert_int_equal(ask2(WIRE_RENAME, SECRETS, ".ssh\0plain2", 12, 5, 0), -EACCES);
    assert_int_equal(ask(WIRE_UNLINK, SECRETS, ".env", 0), -EACCES);
    static const char *const secret[] = {
        ".env.local", "server.key", ".ENV", "Id_RSA", "a/b/.netrc", ".cargo/credentials.toml", "x/.config/gcloud", ".git-credentials",
        ".npmrc", "home/.aws", ".config/git/credentials", "/home/user/.ssh", ".bash_history",
    }, *const open_ones[] = { ".env.example", "keyboard", "credentials", "credentials/main.c", "gcloud", "src/.envy", "a//b", "", "pem", ".pem" };
    for (size_t i = 0; i < ARRAY_COUNT(secret); i++)
        if (secret_path(secret[i]) != 1)
            fail_msg("%s", secret[i]);
    for (size_t i = 0; i < ARRAY_COUNT(open_ones); i++)
        if (secret_path(open_ones[i]) != 0)
            fail_msg("%s", open_ones[i]);
    assert_int_equal(secret_path(".ssh/config"), -1);
}

static void test_allow_list(void **state)
{
    (void)state;
    assert_int_equal(ask(WIRE_LOOKUP, ALLOW, "plain", 0), 0);
    assert_int_equal(ask(WIRE_LOOKUP, ALLOW, "sub/deep", 0), 0);
    assert_int_equal(ask(WIRE_LOOKUP, ALLOW, "suid", 0), -ENOENT);
    assert_int_equal(ask(WIRE_LOOKUP, ALLOW, ".ssh/id_rsa", 0), -ENOENT);
    assert_int_equal(ask(WIRE_READDIR, ALLOW, "", 0), 0);
    u32 n = 0;
    for (u32 at = 0; at < r.head.reply_size; at += ((struct wire_dirent *)(r.reply + at))->record_size)
        n++;
    assert_int_equal(n, 2);
}

static void test_file_mount(void **state)
{
    (void)state;
    assert_true(b.fs.mounts[ONE_FILE].flags & MOUNT_FILE);
    assert_int_equal(ask(WIRE_LOOKUP, ONE_FILE, "", 0), 0);
    assert_int_equal(ask(WIRE_LOOKUP, ONE_FILE, "x", 0), -ENOTDIR);
    assert_int_equal(ask(WIRE_OPEN, ONE_FILE, "", O_RDWR), 0);
    assert_int_equal(ask(WIRE_UNLINK, ONE_FILE, "plain", 0), -ENOTDIR);
}

static void test_big_directory(void **state)
{
    (void)state;
    char name[64];
    for (u32 i = 0; i < 700; i++) {
        snprintf(name, sizeof(name), "box/sub/file-with-a-name-%03u", i);
        put(name, "");
    }
    u64 cookie = 0;
    u32 n = 0, replies = 0;
    do {
        assert_int_equal(ask(WIRE_READDIR, RO, "sub", cookie), 0);
        assert_true(r.head.reply_size <= REQ_DATA_SIZE);
        for (u32 at = 0; at < r.head.reply_size; at += ((struct wire_dirent *)(r.reply + at))->record_size)
            n++;
        cookie = r.head.value;
        assert_true(++replies < 20);
    } while (cookie);
    assert_int_equal(n, 701);
    assert_true(replies > 1);
}

/* Many names in one request: each as by WIRE_LOOKUP, none can lead elsewhere. */
static s32 many(u32 mount, const char *data, u32 size, struct wire_many out[WIRE_MANY_MAX])
{
    s32 result = ask2(WIRE_LOOKUP_MANY, mount, data, size, 0, 0);
    memcpy(out, r.reply, r.head.reply_size);
    return result;
}

static void test_many(void **state)
{
    (void)state;
    struct wire_many m[WIRE_MANY_MAX + 8];
    static const char names[] = "\0plain\0none\0sub\0out\0../outside\0..\0.\0sub/deep\0\0fifo";
    assert_int_equal(many(RO, names, sizeof(names), m), 0);
    assert_int_equal(r.head.reply_size, 10 * sizeof(m[0]));
    assert_true(m[0].result == 0 && m[0].attr.size == 5 && S_ISREG(m[0].attr.mode) && m[0].view_state == WIRE_VIEW_NONE);
    assert_int_equal(m[1].result, -ENOENT);
    assert_true(m[2].result == 0 && S_ISDIR(m[2].attr.mode));
    assert_true(m[3].result == 0 && S_ISLNK(m[3].attr.mode));
    for (int i = 4; i < 9; i++)
        assert_int_equal(m[i].result, -EINVAL);
    assert_true(m[9].result == 0 && S_ISFIFO(m[9].attr.mode));
    assert_int_equal(many(RO, "sub\0deep", 9, m), 0);
    assert_true(m[0].result == 0 && m[0].attr.size == 4);
    assert_int_equal(many(RO, "out\0secret", 11, m), 0);
    assert_int_equal(m[0].result, -ELOOP);
    assert_int_equal(many(RO, "sub\0deep", 8, m), -EINVAL); /* not terminated */
    assert_int_equal(many(RO, "sub", 3, m), -EINVAL);
    assert_int_equal(many(RO, "..\0plain", 9, m), -EINVAL);
    assert_int_equal(many(RO, "sub\0", 4, m), 0);
    assert_int_equal(r.head.reply_size, 0);
    char lots[WIRE_MANY_MAX * 4 + 1] = "";
    for (u32 i = 1; i < sizeof(lots); i += 2)
        lots[i] = 'x';
    assert_int_equal(many(RO, lots, sizeof(lots), m), 0);
    assert_int_equal(r.head.reply_size, WIRE_MANY_MAX * sizeof(m[0]));
    assert_int_equal(many(ALLOW, "\0plain\0suid", 12, m), 0);
    assert_true(m[0].result == 0 && m[1].result == -ENOENT);
    assert_int_equal(many(SECRETS, "\0.env\0.ssh", 11, m), 0);
    assert_true(m[0].result == 0 && m[0].attr.size == 0 && m[0].attr.flags & WIRE_ATTR_HIDDEN);
    assert_int_equal(many(SECRETS, ".ssh\0id_rsa", 12, m), 0);
    assert_int_equal(m[0].result, -ENOENT);
}

static void test_read_path(void **state)
{
    (void)state;
    assert_int_equal(ask(WIRE_READ_PATH, RO, "sub/deep", 0), 0);
    assert_int_equal(r.head.value, 4);
    assert_int_equal(r.head.reply_size, sizeof(struct wire_attr) + 4);
    assert_memory_equal(r.reply + sizeof(struct wire_attr), "deep", 4);
    assert_int_equal(((struct wire_attr *)r.reply)->size, 4);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "fifo", 0), -EINVAL);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "abs", 0), -EINVAL);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "sub", 0), -EINVAL);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "out/secret", 0), -ELOOP);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "none", 0), -ENOENT);
    assert_int_equal(ask(WIRE_READ_PATH, RO, "../outside/secret", 0), -EINVAL);
    assert_int_equal(ask(WIRE_READ_PATH, SECRETS, ".env", 0), -EACCES);
    assert_int_equal(ask(WIRE_READ_PATH, SECRETS, ".ssh/id_rsa", 0), -ENOENT);
    assert_int_equal(ask(WIRE_READ_PATH, ALLOW, "suid", 0), -ENOENT);
}

static void test_handle_limit(void **state)
{
    (void)state;
    setup_rlimits();
    s32 result;
    u32 n = 0;
    while ((result = ask(WIRE_OPEN, RO, "plain", O_RDONLY)) == 0)
        n++;
    assert_int_equal(result, -ENFILE);
    assert_true(n > 100);
    assert_int_equal(on_handle(WIRE_CLOSE, 0x10000, 0, 0, 0), 0); /* index 0, first generation */
    assert_int_equal(ask(WIRE_OPEN, RO, "plain", O_RDONLY), 0);
}

static void test_no_openat2(void **state)
{
    b.fs.no_openat2 = true;
    assert_int_equal(ask(WIRE_OPEN, RO, "out/secret", O_RDONLY), -ENOTDIR);
    assert_int_equal(ask(WIRE_LOOKUP, RO, "sub/deep", 0), 0);
    assert_int_equal(ask(WIRE_OPEN, RO, "abs", O_RDONLY), -ELOOP);
    test_paths(state);
    test_special_files(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_paths), T(test_links), T(test_special_files), T(test_read_only), T(test_data), T(test_names), T(test_secrets),
        T(test_allow_list), T(test_file_mount), T(test_big_directory), T(test_many), T(test_read_path), T(test_handle_limit), T(test_no_openat2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
