/* Unit tests of the exec-view builder and decoder, on the machine's own programs. */
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
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image_check.h"
#include "image_native.h"
#include "image/jail.h"
#include "wire/view.h"

static const u8 no_key[VIEW_KEY_SIZE];

static u8 *load_file(const char *path, u64 *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    u8 *p;

    if (fd < 0)
        return NULL;
    assert_int_equal(fstat(fd, &st), 0);
    p = malloc(st.st_size);
    assert_non_null(p);
    assert_int_equal(read(fd, p, st.st_size), st.st_size);
    close(fd);
    *size = st.st_size;
    return p;
}

/* Programs with sites: each must verify, and most sites must be patched. */
static void test_programs(void **state)
{
    static const struct {
        const char *path;
        u32 min_sites, min_percent;
    } t[] = {
        {"/bin/busybox", 200, 95}, {"/lib/x86_64-linux-gnu/libc.so.6", 400, 97}, {"/lib64/ld-linux-x86-64.so.2", 30, 97},
        {"/lib/ld-musl-x86_64.so.1", 300, 75}, {"/usr/bin/python3", 0, 0}, {"/usr/bin/git", 0, 0}, {"/bin/bash", 0, 0},
    };

    (void)state;
    for (u32 i = 0; i < ARRAY_COUNT(t); i++) {
        struct view_stats s = {0};
        struct view_blob b;
        u64 size = 0;
        u8 *f = load_file(t[i].path, &size);
        const char *bad = NULL;
        u32 done;
        int r;

        if (!f) {
            assert_true(i > 2); /* optional */
            continue;
        }
        r = view_build(f, size, &b, &s);
        done = s.form[1] + s.form[2] + s.form[3];
        print_message("%-36s A %u B %u C %u left %u\n", t[i].path, s.form[1], s.form[2], s.form[3], s.form[0]);
        if (!r) {
            view_blob_place(&b, 0, no_key);
            bad = view_verify(f, size, &b);
        } else {
            assert_int_equal(r, -ENOENT);
        }
        if (bad)
            fail_msg("%s: %s", t[i].path, bad);
        assert_true(done >= t[i].min_sites);
        assert_true(done * 100 >= (done + s.form[0]) * t[i].min_percent);
        free(b.data);
        free(f);
    }
}

/* The verifier must notice damage, or it proves nothing. */
static void test_verifier(void **state)
{
    struct view_blob b;
    struct view_entry *e;
    u64 size = 0;
    u8 *f = load_file("/bin/busybox", &size);
    u8 *at;

    (void)state;
    assert_non_null(f);
    assert_int_equal(view_build(f, size, &b, NULL), 0);
    e = view_blob_place(&b, 0, no_key);
    assert_null(view_verify(f, size, &b));
    at = b.data + e->tramp_off;
    for (u32 k = 0; k < 20; k++) {
        at[k] ^= 1;
        assert_non_null(view_verify(f, size, &b));
        at[k] ^= 1;
    }
    at = b.data + e->seg[0].view_off + e->seg[0].len / 2;
    *at ^= 1;
    assert_non_null(view_verify(f, size, &b));
    free(b.data);
    free(f);
}

static void run_native(const char *prog, char *const argv[], const char *want, u64 min_jumps)
{
    struct view_blob b;
    u64 size = 0, jumps = 0;
    char out[4096] = {0};
    u8 *f = load_file(prog, &size);
    int pipefd[2], status;

    if (!f)
        skip();
    assert_int_equal(view_build_jailed(f, size, &b), 0);
    assert_int_equal(pipe(pipefd), 0);
    status = native_run(f, size, &b, argv, pipefd[1], &jumps);
    close(pipefd[1]);
    assert_true(read(pipefd[0], out, sizeof(out) - 1) >= 0);
    close(pipefd[0]);
    assert_int_equal(status, 0);
    assert_string_equal(out, want);
    print_message("%s: %lu system calls through trampolines\n", prog, jumps);
    assert_true(jumps >= min_jumps);
    free(b.data);
    free(f);
}

static void test_native_busybox(void **state)
{
    char *argv[] = {"busybox", "sh", "-c",
                    "i=0; while [ $i -lt 20 ]; do (exit $i); [ $? = $i ] || echo bad; i=$((i+1)); done;"
                    "cd /usr; n=0; for f in /usr/bin/*; do [ -e $f ] && n=$((n+1)); done;"
                    "[ $n -gt 50 ] && pwd", NULL};

    (void)state;
    run_native("/bin/busybox", argv, "/usr\n", 200);
}

static void test_native_glibc_loader(void **state)
{
    char *argv[] = {"ld.so", "/bin/echo", "dynamic", NULL};

    (void)state;
    run_native("/lib64/ld-linux-x86-64.so.2", argv, "dynamic\n", 10);
}

static void test_site_maps(void **state)
{
    struct view_site a = {1000, 5000, 1007, 5, VIEW_FORM_A, 5, 0}, b = {1000, 5000, 5015, 8, VIEW_FORM_B, 0, 0},
                     c = {1000, 5000, 1005, 5, VIEW_FORM_C, 3, 0};

    (void)state;
    assert_int_equal(view_site_to_tramp(&a, 1000), 5000);
    assert_int_equal(view_tramp_to_site(&a, 5000), 1000);
    assert_int_equal(view_tramp_to_site(&a, 5005), 1005); /* the syscall instruction */
    assert_int_equal(view_tramp_to_site(&a, 5012), 1005);
    assert_int_equal(view_site_to_tramp(&b, 1002), 5015); /* behind the syscall */
    assert_int_equal(view_site_to_tramp(&b, 1005), 5018);
    assert_int_equal(view_tramp_to_site(&b, 5007), 1000);
    assert_int_equal(view_tramp_to_site(&b, 5018), 1005);
    assert_int_equal(view_tramp_to_site(&b, 5021), 1008); /* the jump back */
    assert_int_equal(view_site_to_tramp(&c, 1003), 5003); /* the syscall itself */
    assert_int_equal(view_tramp_to_site(&c, 5003), 1003);
    assert_int_equal(view_tramp_to_site(&c, 5002), 1002);
}

/* Jump targets inside the bytes of a would-be B site rule it out; the same code without them is patched. */
static void test_targets_respected(void **state)
{
    /* xor eax,eax; syscall; [L:] cmp rax,-4096; jae +0; ret; jmp back to L */
    static const u8 code[] = {0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x73, 0x00, 0xc3};
    static u8 image[0x2000];
    u8 *t = image + 0x1000, eh[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 3, [18] = 62, [20] = 1, [32] = 64,
                                      [54] = 56, [56] = 1};
    u64 ph[7] = {1 | 5ull << 32, 0x1000, 0x1000, 0x1000, 0x100, 0x100, 0x1000};
    struct view_stats s;
    struct view_blob b;

    (void)state;
    memcpy(image, eh, 64);
    memcpy(image + 64, ph, sizeof(ph));
    memset(t, 0x90, 0x100);
    memcpy(t + 32, code, sizeof(code));
    assert_int_equal(view_build(image, sizeof(image), &b, &s), 0);
    assert_int_equal(s.form[VIEW_FORM_B], 1);
    free(b.data);
    t[64] = 0xeb, t[65] = (u8)(36 - 66); /* jmp to the instruction behind the syscall */
    assert_int_equal(view_build(image, sizeof(image), &b, &s), 0);
    assert_int_equal(s.form[VIEW_FORM_B], 0);
    assert_int_equal(s.form[VIEW_FORM_C], 1); /* a nop and the xor before it are free */
    free(b.data);
    t[66] = 0xeb, t[67] = (u8)(34 - 68); /* and to the syscall: nothing is left */
    assert_int_equal(view_build(image, sizeof(image), &b, &s), -ENOENT);
    assert_int_equal(s.form[0], 1);
}

/* Hostile code that was let into a jail: it sleeps, which costs no processor time. */
static void test_jail_sleeper(void **state)
{
    (void)state;
    time_t start = time(NULL);
    u32 word = 0;
    pid_t pid = fork();
    if (!pid) {
        if (!jail_enter(4ull << 30, 1))
            _exit(0);
        for (;;)
            syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
    }
    assert_false(jail_await(pid, 1));
    assert_in_range(time(NULL) - start, 3, 20);
    pid = fork();
    if (!pid)
        _exit(jail_enter(4ull << 30, 1) ? 0 : 1);
    assert_true(jail_await(pid, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_site_maps),       cmocka_unit_test(test_targets_respected),
        cmocka_unit_test(test_programs),        cmocka_unit_test(test_verifier),
        cmocka_unit_test(test_jail_sleeper),
        cmocka_unit_test(test_native_busybox),  cmocka_unit_test(test_native_glibc_loader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
