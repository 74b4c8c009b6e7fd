/* The host side end to end: the real command line and broker with the fake guest kernel (tests/fixtures/fake_kernel.c), which
 * has a real seccomp listener. Needs HARENA (the command) and HARENA_LIBEXEC (broker and the fake as harena-kernel). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char output[1 << 16];

/* Runs a shell command line with $H as harena; returns its exit status, standard output and error in `output`. */
static int sh(const char *line)
{
    size_t n = 0, r;
    FILE *f = popen(line, "re");
    assert_non_null(f);
    while ((r = fread(output + n, 1, sizeof(output) - 1 - n, f)) > 0)
        n += r;
    output[n] = 0;
    int status = pclose(f);
    return WEXITSTATUS(status);
}

static void has(const char *text)
{
    if (!strstr(output, text))
        fail_msg("no '%s' in: %s", text, output);
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(sh("$H run -- true 2>&1"), 0);
    assert_string_equal(output, "");
    assert_int_equal(sh("$H run -- exit 7"), 7);
    assert_int_equal(sh("$H run -- signal 15"), 143);
    assert_int_equal(sh("$H run -- missing 2>&1"), 127);
    has("harena: missing: not found");
    assert_int_equal(sh("$H run 2>&1"), 125);
    assert_int_equal(sh("$H run --memory nonsense -- true 2>&1"), 125);
    has("harena: --memory nonsense");
    assert_int_equal(sh("$H frobnicate 2>&1"), 125);
}

static void test_failures(void **state)
{
    (void)state;
    assert_int_equal(sh("$H run -- panic 2>&1"), 125);
    has("BUG: test panic\\x1b[2J at line 7");
    assert_int_equal(sh("$H run -- crash 2>&1"), 125);
    has("signal 11");
    assert_int_equal(sh("$H run -- bye 2>&1"), 125);
    assert_int_equal(sh("$H run --timeout 200ms -- sleep 10 2>&1"), 124);
    has("timed out");
    assert_int_equal(sh("HARENA_LIBEXEC=/nonexistent $H run -- true 2>&1"), 125);
    has("harena: harena-kernel is not in /nonexistent");
}

static void test_streams(void **state)
{
    (void)state;
    assert_int_equal(sh("seq 200000 >/tmp/hr.$$; seq 200000 | $H run -- cat | cmp - /tmp/hr.$$; r=$?; rm /tmp/hr.$$; exit $r"), 0);
    assert_int_equal(sh("$H run -- flood 5000000 | wc -c"), 0);
    has("5000000");
    assert_int_equal(sh("$H run -- flood 500000000 | head -c 10 | wc -c"), 0);
    has("10");
    assert_int_equal(sh("printf 'a\\nb\\nc\\n' >/tmp/hi.$$; (read x; $H run -- cat) </tmp/hi.$$ | head -1; rm /tmp/hi.$$"), 0);
    assert_string_equal(output, "b\n"); /* the file's position is honoured */
    assert_int_equal(sh("echo one >/tmp/ho.$$; $H run -- echo two >>/tmp/ho.$$; cat /tmp/ho.$$; rm /tmp/ho.$$"), 0);
    assert_string_equal(output, "one\ntwo\n");
    assert_int_equal(sh("(sleep 0.3; echo late) | (timeout 5 $H run -- true; cat)"), 0);
    assert_string_equal(output, "late\n"); /* input nobody asked for stays outside */
    assert_int_equal(sh("$H run -- cat </dev/null"), 0);
    assert_int_equal(sh("$H run -- echo x >&-"), 0);
}

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(sh("SECRET=1 $H run -e A=b -e PATH=/bin -- env"), 0);
    has("A=b\n");
    has("PATH=/bin\n");
    has("LANG=C.UTF-8\n");
    assert_null(strstr(output, "SECRET"));
}

static void test_mounts(void **state)
{
    (void)state;
    assert_int_equal(sh("mkdir -p /tmp/hm.x/p && cd /tmp/hm.x/p && $H run -v /etc/hostname:/data/name:rw -- mounts; rm -r /tmp/hm.x"), 0);
    has("kind 3 flags 0 index 0 size 0 /\n");
    has(" /usr\n");
    has("kind 2 flags 2");
    has(" /tmp/hm.x/p\n");
    has("kind 2 flags 4");
    has(" /data/name\n");
    assert_int_equal(sh("cd / && $H run -- mounts"), 0);
    assert_null(strstr(output, "flags 2"));
    assert_int_equal(sh("cd / && $H run --verbose -- true 2>&1"), 0);
    has("is not shown because");
    assert_int_equal(sh("$H run -v /nonexistent:/x -- true 2>&1"), 125);
    assert_int_equal(sh("$H run --root /proc -- true 2>&1"), 125);
    has("does not hold ordinary files");
    assert_int_equal(sh("mkdir -p /tmp/hr.x && echo secret >/tmp/hr.x/f && chmod 600 /tmp/hr.x/f; $H run --root /tmp/hr.x -- read f; "
                        "rm -r /tmp/hr.x"), 0);
    assert_string_equal(output, "secret\n");
}

static void test_named(void **state)
{
    (void)state;
    assert_int_equal(sh("$H run --name hr-test -- sleep 20 2>/dev/null & p=$!; sleep 0.4; $H ps; $H ps --json; "
                        "$H run --name hr-test -- true 2>&1; $H kill hr-test; wait $p; echo status $?; $H ps"), 0);
    has("hr-test");
    has("\"command\": \"sleep 20\"");
    has("a sandbox named 'hr-test' is running");
    has("status 137");
    assert_null(strstr(strstr(output, "status 137"), "hr-test"));
    assert_int_equal(sh("$H kill hr-none 2>&1"), 125);
    assert_int_equal(sh("$H run --name ../x -- true 2>&1"), 125);
}

static void test_signals(void **state)
{
    (void)state;
    assert_int_equal(sh("$H run -- sleep 20 & p=$!; sleep 0.4; kill -TERM $p; wait $p; echo $?"), 0);
    assert_string_equal(output, "143\n");
    /* harena killed outright: the sandbox goes with it */
    assert_int_equal(sh("$H run --name hr-gone -- sleep 777 & p=$!; sleep 0.4; b=$($H ps | awk '/hr-gone/{print $2}'); "
                        "ps -o stat= -p $b; kill -9 $p; sleep 0.4; echo then $(ps -o stat= -p $b); $H ps"), 0);
    assert_true(output[0] != 't'); /* the broker was there */
    assert_true(strstr(output, "then \n") || strstr(output, "then Z"));
    assert_null(strstr(output, "hr-gone"));
}

static void test_memory_limit(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(sh("$H run --memory 64M --pids 50 --verbose -- true 2>&1"), 0);
    assert_int_equal(sh("find /sys/fs/cgroup -name 'harena-h*' | wc -l"), 0);
}

int main(void)
{
    if (!getenv("HARENA") || !getenv("HARENA_LIBEXEC")) {
        fprintf(stderr, "broker_run: set HARENA and HARENA_LIBEXEC\n");
        return 1;
    }
    setenv("H", getenv("HARENA"), 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),  cmocka_unit_test(test_failures), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_mounts), cmocka_unit_test(test_named),
        cmocka_unit_test(test_signals), cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
