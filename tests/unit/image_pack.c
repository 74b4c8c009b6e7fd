/* Unit tests of the pack: adding, looking up, concurrent writers, crashes, generations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/pack_internal.h"

static const char *libc = "/lib/x86_64-linux-gnu/libc.so.6", *busybox = "/bin/busybox";
static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/image-pack-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    return system(cmd);
}

static const struct pack_options quick = {.no_sync = true};

static int add(struct pack *p, const char *path, struct view_entry *e, u64 *off)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), r;

    assert_true(fd >= 0);
    r = pack_add(p, fd, e, off);
    close(fd);
    return r;
}

static int lookup(struct pack *p, const char *path, struct view_entry *e, u64 *off)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return pack_lookup_stat(p, st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec,
                            st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec, e, off);
}

/* What a guest sees through its own descriptor: the copy equals the file. */
static void check_copy(struct pack *p, const char *path, u64 off)
{
    int g = pack_guest_fd(p), fd = open(path, O_RDONLY | O_CLOEXEC);
    struct view_source src = {0};
    struct view_header h;
    struct view_entry e;
    struct stat st;
    u8 *a, *b;

    assert_true(g >= 0 && fd >= 0);
    assert_int_equal(fstat(g, &st), 0);
    assert_int_equal(write(g, "x", 1), -1); /* not writable */
    src.size = st.st_size;
    src.mem = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, g, 0);
    assert_true(src.mem != MAP_FAILED);
    assert_int_equal(view_open_pack(&src, &h), 0);
    assert_int_equal(view_entry_at(&src, &h, off, &e), 0);
    a = malloc(e.file_size);
    b = malloc(e.file_size);
    assert_int_equal(pread(g, a, e.file_size, e.copy_off), e.file_size);
    assert_int_equal(pread(fd, b, e.file_size, 0), e.file_size);
    assert_memory_equal(a, b, e.file_size);
    free(a);
    free(b);
    munmap((void *)src.mem, st.st_size);
    close(g);
    close(fd);
}

static void test_add_and_lookup(void **state)
{
    struct view_entry e, x;
    struct pack *p, *q;
    u64 off, off2;

    (void)state;
    assert_int_equal(pack_open(dir, &quick, &p), 0);
    assert_int_equal(lookup(p, libc, &e, &off), -ENOENT);
    assert_int_equal(add(p, libc, &e, &off), 0);
    assert_true(e.seg_count == 1 && e.sites_count > 400);
    check_copy(p, libc, off);
    assert_int_equal(add(p, busybox, &x, &off2), 0);
    check_copy(p, busybox, off2);
    assert_int_equal(add(p, libc, &x, &off2), 0); /* known: the same entry */
    assert_true(off2 == off && !memcmp(&e, &x, sizeof(e)));
    assert_int_equal(add(p, "/etc/passwd", &x, &off2), 0); /* no ELF file: copy without a view */
    assert_int_equal(x.seg_count, 0);
    check_copy(p, "/etc/passwd", off2);
    assert_int_equal(pack_open(dir, &quick, &q), 0); /* persistent */
    assert_int_equal(pack_lookup_key(q, e.key, &x, &off2), 0);
    assert_int_equal(off2, off);
    if (!lookup(q, libc, &x, &off2)) { /* on file systems that qualify */
        struct timespec a, b;

        assert_int_equal(off2, off);
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 10000; i++)
            assert_int_equal(lookup(q, libc, &x, &off2), 0);
        clock_gettime(CLOCK_MONOTONIC, &b);
        print_message("look-up by stat: %.2f us (with the stat)\n",
                      ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e7);
    } else {
        print_message("the file system of libc does not qualify for stat rows\n");
    }
    pack_close(q);
    pack_close(p);
}

static void test_refusals(void **state)
{
    const struct pack_options private = {.no_sync = true, .private = true};
    struct view_entry e;
    struct pack *p;
    char path[128];
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "%s/secret", dir);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "secret", 6) == 6);
    assert_int_equal(pack_open(dir, &quick, &p), 0);
    assert_int_equal(pack_add(p, fd, &e, NULL), -EACCES);
    assert_int_equal(add(p, "/dev/null", &e, NULL), -EACCES);
    pack_close(p);
    assert_int_equal(pack_open(dir, &private, &p), 0);
    assert_int_equal(pack_add(p, fd, &e, NULL), 0);
    assert_int_equal(lookup(p, path, &e, NULL), -ENOENT); /* too young for a stat row */
    pack_close(p);
    close(fd);
}

/* Several processes add different contents; all are found afterwards. */
static void test_concurrent(void **state)
{
    enum { PROCS = 4, FILES = 8 };
    struct view_entry e;
    struct pack *p;
    int status;

    (void)state;
    for (int k = 0; k < PROCS; k++)
        if (!fork()) {
            bool ok = !pack_open(dir, &quick, &p);

            for (int i = 0; ok && i < FILES; i++) {
                int fd = memfd_create("x", MFD_CLOEXEC);
                u32 v = k * 100 + i;

                ok = fchmod(fd, 0644) == 0 && write(fd, &v, sizeof(v)) == sizeof(v) && !pack_add(p, fd, &e, NULL);
                close(fd);
            }
            _exit(!ok);
        }
    for (int k = 0; k < PROCS; k++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(pack_open(dir, &quick, &p), 0);
    for (int k = 0; k < PROCS * FILES; k++) {
        int fd = memfd_create("x", MFD_CLOEXEC);
        u32 v = k / FILES * 100 + k % FILES;
        u64 before = 0, after = 0;
        struct stat st;
        int g = pack_guest_fd(p);

        assert_int_equal(fchmod(fd, 0644), 0);
        assert_int_equal(write(fd, &v, sizeof(v)), sizeof(v));
        before = !fstat(g, &st) ? st.st_size : 0;
        assert_int_equal(pack_add(p, fd, &e, NULL), 0);
        after = !fstat(g, &st) ? st.st_size : 0;
        assert_true(before && before == after); /* it was there */
        close(g);
        close(fd);
    }
    pack_close(p);
}

static void write_to(const char *name, const char *text, off_t off)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), off), strlen(text));
    close(fd);
}

static bool exists(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return !access(path, F_OK);
}

/* A pack that somebody else changed is thrown away, wherever the change is. */
static void test_changed(void **state)
{
    struct view_entry e, x;
    char path[256];
    struct pack *p, *q;

    (void)state;
    assert_int_equal(pack_open(dir, &quick, &p), 0);
    assert_int_equal(add(p, libc, &e, NULL), 0);
    assert_int_equal(pack_current(dir, &quick, path, sizeof(path)), 0);
    assert_string_equal(path + strlen(dir), "/views.1");
    usleep(20000); /* times of files have the granularity of a tick */
    write_to("views.1", "\xcc\xcc", e.seg[0].view_off + 4096);
    assert_int_equal(add(p, busybox, &x, NULL), -ESTALE);
    pack_close(p);
    assert_int_equal(pack_current(dir, &quick, path, sizeof(path)), 0);
    assert_string_equal(path + strlen(dir), "/views.2");
    assert_int_equal(pack_open(dir, &quick, &q), 0);
    assert_int_equal(pack_lookup_key(q, e.key, &x, NULL), -ENOENT);
    assert_int_equal(add(q, libc, &x, NULL), 0);
    pack_close(q);
    assert_false(exists("views.1") || exists("stamp.1"));
    write_to("stamp.2", "x", 20); /* a broken stamp is no stamp */
    assert_int_equal(pack_current(dir, &quick, path, sizeof(path)), 0);
    assert_string_equal(path + strlen(dir), "/views.3");
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(pack_current(dir, &quick, path, sizeof(path)), -EPERM);
    assert_int_equal(pack_open(dir, &quick, &q), -EPERM);
}

/* A writer that was killed: what was committed stays. */
static void test_killed(void **state)
{
    struct view_entry e, x;
    struct pack *p, *q;
    char path[256];
    int status;

    (void)state;
    assert_int_equal(pack_open(dir, &quick, &p), 0);
    assert_int_equal(add(p, libc, &e, NULL), 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();

        if (!pid) {
            for (u32 v = 0; !pack_open(dir, &quick, &q); v++) {
                int fd = memfd_create("x", MFD_CLOEXEC);

                for (int k = 0; k < 100; k++)
                    if (write(fd, &v, sizeof(v)) != sizeof(v) || write(fd, &i, sizeof(i)) != sizeof(i))
                        _exit(1);
                fchmod(fd, 0644);
                if (pack_add(q, fd, &x, NULL))
                    _exit(1);
                close(fd);
                pack_close(q);
            }
            _exit(1);
        }
        usleep(3000 + i * 700);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(pack_current(dir, &quick, path, sizeof(path)), 0);
        assert_string_equal(path + strlen(dir), "/views.1");
        assert_int_equal(pack_lookup_key(p, e.key, &x, NULL), 0);
        assert_memory_equal(&e, &x, sizeof(e));
    }
    pack_close(p);
}

/* A torn header write leaves the older state; a full pack says so and the next open starts a new file. */
static void test_torn_and_full(void **state)
{
    const struct pack_options small = {.no_sync = true, .max_size = 6 << 20};
    struct view_entry e, x;
    struct pack *p, *q;
    u8 id[16], id2[16];
    int fd;

    (void)state;
    assert_int_equal(pack_open(dir, &small, &p), 0);
    pack_id(p, id);
    assert_int_equal(add(p, libc, &e, NULL), 0); /* generation 2, in slot 0 */
    assert_int_equal(pack_begin(p), 0);          /* a writer that is cut short while it writes the header */
    write_to("views.1", "junk", 100);
    assert_int_equal(pack_open(dir, &small, &q), 0);
    pack_id(q, id2);
    assert_memory_equal(id, id2, 16);
    assert_int_equal(pack_lookup_key(q, e.key, &x, NULL), -ENOENT);
    assert_int_equal(add(q, libc, &x, NULL), 0);
    assert_int_equal(add(q, busybox, &x, NULL), -ENOSPC);
    assert_int_equal(pack_lookup_key(q, e.key, &x, NULL), 0);
    assert_int_equal(pack_begin(p), 0);
    fd = q->fd;
    assert_int_equal(ftruncate(fd, 6 << 20), 0);
    write_to("views.1", "junk", 100); /* both headers broken: */
    write_to("views.1", "junk", 4196);
    pack_close(q);
    pack_close(p);
    assert_int_equal(pack_open(dir, &small, &p), 0); /* a new file */
    pack_id(p, id2);
    assert_memory_not_equal(id, id2, 16);
    assert_false(exists("views.1"));
    assert_int_equal(add(p, busybox, &x, NULL), 0);
    pack_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_add_and_lookup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_concurrent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn_and_full, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
