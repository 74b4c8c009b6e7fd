/* Unit tests of the EROFS writer: images of a directory and of an archive are checked by fsck.erofs, extracted and
 * compared with the source. Skips with a message what needs root or erofs-utils. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/image.h"
#include "wire/erofs_format.h"
#include "wire/view.h"

static char dir[] = "/tmp/image-build-XXXXXX";
static const struct image_options quick = {.no_sync = true};

static int sh(const char *f, ...)
{
    char cmd[4096];
    va_list ap;

    va_start(ap, f);
    vsnprintf(cmd, sizeof(cmd), f, ap);
    va_end(ap);
    return system(cmd);
}

/* Everything stat shows, and the contents. */
#define LIST_TREE "find . -printf '%P %y %m %U %G %T@ %n %l\\n' | sort; find . -type f -exec sha256sum {} + | sort"

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir) || chdir(dir))
        return -1;
    if (sh("mkdir -p src/a/b src/many src/empty && cd src && printf hello >small && ln small a/hard &&"
           "ln -s ../small a/sym && mkfifo a/fifo && head -c 4096 /dev/urandom >page &&"
           "head -c 4095 /dev/urandom >below && head -c 100001 /dev/urandom >a/b/big && : >zero &&"
           "cp /bin/busybox a/prog && chmod 4755 a/prog && chmod 1777 a/b && touch -d @1234567.987654321 small &&"
           "i=0; while [ $i -lt 600 ]; do head -c $((i * 7)) /dev/zero >many/a-rather-long-file-name-number-$i;"
           "i=$((i+1)); done; : >-dash; : >.hidden; ln -s $(printf 'y%%.0s' $(seq 4000)) longlink;"
           ": >a/$(printf 'n%%.0s' $(seq 255))"))
        return -1;
    if (!geteuid() && sh("cd src && mknod a/null c 1 3 && mknod a/big-minor b 259 300000 && chown 100000:70000 small"))
        return -1;
    setxattr("src/small", "user.colour", "blue", 4, 0);
    setxattr("src/a", "user.dir", "x", 1, 0);
    return sh("(cd src && %s) >want", LIST_TREE);
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || sh("rm -rf %s", dir);
}

/* The kernel is the reader that counts; without root fsck.erofs has to do. */
static void check_image(const char *img)
{
    char value[16] = {0};

    assert_int_equal(sh("fsck.erofs %s >fsck.log 2>&1", img), 0);
    if (geteuid() || sh("mkdir -p mnt && mount -t erofs -o loop,ro %s mnt 2>mount.log", img)) {
        print_message("no loop mount here: comparing contents only\n");
        assert_int_equal(sh("rm -rf out && fsck.erofs --extract=out %s >fsck.log 2>&1", img), 0);
        assert_int_equal(sh("diff -r --no-dereference -x fifo -x null -x big-minor src out"), 0);
        return;
    }
    assert_int_equal(sh("(cd mnt && %s) >got", LIST_TREE), 0);
    getxattr("mnt/small", "user.colour", value, sizeof(value));
    assert_int_equal(sh("[ ! -e src/a/null ] || [ $(stat -c %%t:%%T mnt/a/big-minor) = 103:493e0 ]"), 0);
    assert_int_equal(sh("umount mnt"), 0);
    if (getxattr("src/small", "user.colour", NULL, 0) == 4)
        assert_string_equal(value, "blue");
    assert_int_equal(sh("diff -u want got | head -20 >&2; cmp want got"), 0);
}

/* The one program in the tree has its view, found by node id. */
static void check_views(const char *img, u32 views)
{
    int fd = open(img, O_RDONLY | O_CLOEXEC);
    struct view_source src = {0};
    struct view_header h;
    struct view_entry e;
    struct view_row row;
    struct stat st;

    assert_true(fd >= 0 && !fstat(fd, &st));
    src.size = st.st_size;
    src.mem = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(src.mem != MAP_FAILED);
    assert_int_equal(view_open_image(&src, &h), 0);
    assert_int_equal(h.index_count, views);
    for (u32 i = 0; i < views; i++) {
        memcpy(&row, (const u8 *)src.mem + h.index_off + i * sizeof(row), sizeof(row));
        assert_int_equal(view_find(&src, &h, row.key, &e), 0);
        assert_true(e.sites_count > 200);
        row.key[31] ^= 1;
        assert_int_equal(view_find(&src, &h, row.key, &e), -ENOENT);
    }
    munmap((void *)src.mem, st.st_size);
    close(fd);
}

static void test_directory(void **state)
{
    struct image_error err = {{0}};
    struct image_stats st;

    (void)state;
    if (image_build_dir("src", "dir.img", &quick, &st, &err))
        fail_msg("%s", err.msg);
    check_image("dir.img");
    check_views("dir.img", 1);
    assert_int_equal(st.views, 1);
    assert_int_equal(image_build_dir("src", "dir2.img", &quick, NULL, &err), 0);
    assert_int_equal(sh("cmp dir.img dir2.img"), 0); /* reproducible */
}

static void test_archive(void **state)
{
    static const char *kind[] = {"", "z", "J", " --zstd "};
    struct image_error err = {{0}};

    (void)state;
    for (u32 i = 0; i < ARRAY_COUNT(kind); i++) {
        if (sh("tar --format=pax --xattrs --numeric-owner -C src -c%sf t.tar . 2>/dev/null", i == 3 ? "" : kind[i]))
            fail();
        if (i == 3 && sh("zstd -q -f t.tar -o t.zst && mv t.zst t.tar"))
            continue;
        if (image_build_tar("t.tar", "tar.img", &quick, NULL, &err))
            fail_msg("%s", err.msg);
        check_image("tar.img");
    }
    check_views("tar.img", 1);
}

/* Hostile or broken archives: an error with a line, no output, no stray file. */
static void test_bad_archives(void **state)
{
    static const char *make[] = {
        "tar -cf bad.tar -P --transform 's|^|../|' src/small 2>/dev/null",
        "head -c 20000 /dev/urandom >bad.tar",
        "tar -cf bad.tar src/page && truncate -s 2000 bad.tar",
        "tar -cf bad.tar --transform 's|small|page/below|' src/page src/small",
    };
    struct image_error err;

    (void)state;
    for (u32 i = 0; i < ARRAY_COUNT(make); i++) {
        assert_int_equal(sh("rm -f bad.img; %s", make[i]), 0);
        err.msg[0] = 0;
        assert_int_equal(image_build_tar("bad.tar", "bad.img", &quick, NULL, &err), -1);
        print_message("%s\n", err.msg);
        assert_true(err.msg[0] && !strchr(err.msg, '\n'));
        assert_int_equal(access("bad.img", F_OK), -1);
        assert_int_equal(sh("! ls bad.img.tmp-* 2>/dev/null"), 0);
    }
    assert_int_equal(image_build_dir("/nonexistent", "bad.img", &quick, NULL, &err), -1);
    assert_int_equal(image_build_tar("t.tar", "/nonexistent/x.img", &quick, NULL, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directory), cmocka_unit_test(test_archive), cmocka_unit_test(test_bad_archives),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
