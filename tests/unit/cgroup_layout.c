/* Which groups are made on hosts with cgroups of version 2, 1 and both, with what in their files: over a directory that imitates
 * /sys/fs/cgroup. A host has one layout only, so the others are tested here. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fake_mkdir(const char *path, mode_t mode);
static int fake_rmdir(const char *path);
static int fake_kill(int pid, int signal);
#define kill fake_kill
#define mkdir fake_mkdir
#define rmdir fake_rmdir
#include "runtime/cgroup.c"
#undef mkdir
#undef rmdir
#undef kill

static char top[64], own[96];

static void put(const char *dir, const char *file, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static const char *get(const char *dir, const char *file)
{
    static char text[4][256];
    static int n;
    n = (n + 1) % 4;
    if (!read_text(dir, file, text[n], sizeof(text[n])))
        return "none";
    return text[n];
}

/* As the kernel: the files of the controllers that the parent distributes (version 2), or of the hierarchy. */
static int fake_mkdir(const char *path, mode_t mode)
{
    if (mkdir(path, mode) < 0)
        return -1;
    char parent[512], control[256] = "";
    snprintf(parent, sizeof(parent), "%s", path);
    *strrchr(parent, '/') = 0;
    bool v2 = read_text(parent, "cgroup.subtree_control", control, sizeof(control));
    put(path, "cgroup.procs", "");
    if (v2) {
        put(path, "cgroup.kill", "");
        put(path, "cgroup.subtree_control", "");
        put(path, "cpu.stat", "usage_usec 1234\nuser_usec 1\n");
    }
    const char *where = v2 ? control : parent;
    if (strstr(where, "memory")) {
        put(path, v2 ? "memory.max" : "memory.limit_in_bytes", "");
        put(path, v2 ? "memory.current" : "memory.usage_in_bytes", "4096\n");
        put(path, v2 ? "memory.events" : "memory.oom_control", "low 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 9\n");
    }
    if (strstr(where, "pids"))
        put(path, "pids.max", "");
    if (strstr(where, "cpuacct"))
        put(path, "cpuacct.usage", "777\n");
    else if (strstr(where, "cpu") && v2)
        put(path, "cpu.max", "max 100000\n");
    else if (strstr(where, "/cpu"))
        put(path, "cpu.cfs_quota_us", ""), put(path, "cpu.cfs_period_us", "");
    return 0;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

static int fake_rmdir(const char *path) { return nftw(path, unlink_one, 16, FTW_DEPTH | FTW_PHYS); }

static void make_dirs(const char *sub)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", top, sub);
    for (char *p = path + strlen(top) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0755);
            *p = '/';
        }
    mkdir(path, 0755);
}

static void v2_dir(const char *sub, const char *control)
{
    char path[512];
    make_dirs(sub);
    snprintf(path, sizeof(path), "%s/%s", top, sub);
    put(path, "cgroup.subtree_control", control);
    put(path, "cgroup.controllers", "");
    put(path, "cgroup.procs", "");
}

static int begin(void **state)
{
    (void)state;
    snprintf(top, sizeof(top), "/tmp/cgroup-test.XXXXXX");
    assert_non_null(mkdtemp(top));
    snprintf(own, sizeof(own), "%s/own", top);
    cgroup_top = top;
    cgroup_own = own;
    return 0;
}

static int end(void **state)
{
    (void)state;
    return fake_rmdir(top);
}

static const struct cgroup_limits all = { .memory = 64 << 20, .pids = 40, .cpus_milli = 1500, .cpu_time = true };

static void finish(struct harena_sandbox *s)
{
    cgroup_kill(s->cgroups, s->cgroup_count);
    cgroup_remove(s->cgroups, s->cgroup_count);
    for (u32 i = 0; i < s->cgroup_count; i++) {
        assert_int_equal(access(s->cgroups[i], F_OK), -1);
        free(s->cgroups[i]);
    }
}

/* Processes live in a leaf: the nearest ancestor that distributes everything is used. */
static void test_v2(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    struct harena_usage u = { 0 };
    char path[256];
    v2_dir("", "cpu memory pids\n");
    v2_dir("user", "cpuset cpu memory pids\n");
    v2_dir("user/session", "memory\n");
    v2_dir("user/session/leaf", "\n");
    put(top, "own", "0::/user/session/leaf\n");
    cgroup_create(&s, &all);
    assert_int_equal(s.held, CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU | CGROUP_CPU_TIME);
    assert_int_equal(s.cgroup_count, 1);
    snprintf(path, sizeof(path), "%s/user/harena-x", top);
    assert_string_equal(s.cgroups[0], path);
    assert_string_equal(get(path, "memory.max"), "67108864");
    assert_string_equal(get(path, "pids.max"), "40");
    assert_string_equal(get(path, "cpu.max"), "150000 100000");
    assert_true(cgroup_add(&s, 77));
    assert_string_equal(get(path, "cgroup.procs"), "77");
    cgroup_usage(path, &u);
    assert_int_equal(u.memory, 4096);
    assert_int_equal(u.oom_kills, 2); /* not oom_group_kill, nor oom */
    assert_int_equal(u.cpu_ns, 1234000);
    assert_string_equal(cgroup_with(&s, CGROUP_MEMORY), path);
    assert_string_equal(cgroup_with(&s, CGROUP_CPU_TIME), path);
    cgroup_kill(s.cgroups, 1);
    assert_string_equal(get(path, "cgroup.kill"), "1");
    assert_string_equal(get(path, "cpu.max"), "max000 100000"); /* a real file would take it as a whole */
    finish(&s);
}

/* What nobody distributes is not held. */
static void test_v2_partly(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    v2_dir("", "memory pids\n");
    put(top, "own", "0::/\n");
    cgroup_create(&s, &all);
    assert_int_equal(s.held, CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU_TIME);
    finish(&s);
}

static void v1_dirs(void)
{
    make_dirs("memory/me");
    make_dirs("pids");
    make_dirs("cpu/me");
    make_dirs("cpuacct/me");
}

static void check_v1(struct harena_sandbox *s)
{
    char path[256];
    struct harena_usage u = { 0 };
    assert_int_equal(s->held, CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU | CGROUP_CPU_TIME);
    snprintf(path, sizeof(path), "%s/memory/me/harena-x", top);
    assert_string_equal(get(path, "memory.limit_in_bytes"), "67108864");
    snprintf(path, sizeof(path), "%s/pids/harena-x", top);
    assert_string_equal(get(path, "pids.max"), "40");
    snprintf(path, sizeof(path), "%s/cpu/me/harena-x", top);
    assert_string_equal(get(path, "cpu.cfs_quota_us"), "150000");
    assert_string_equal(get(path, "cpu.cfs_period_us"), "100000");
    for (u32 i = 0; i < s->cgroup_count; i++)
        cgroup_usage(s->cgroups[i], &u);
    assert_int_equal(u.memory, 4096);
    assert_int_equal(u.oom_kills, 2);
    assert_true(u.cpu_ns == 777 || u.cpu_ns == 1234000);
}

static void test_v1(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    v1_dirs();
    put(top, "own", "9:memory:/me\n8:pids:/not/seen/here\n4:cpu,cpuacct:/me\n1:name=systemd:/me\n");
    cgroup_create(&s, &all);
    assert_int_equal(s.cgroup_count, 4);
    check_v1(&s);
    finish(&s);
}

/* Controllers in version 1, and a group in the unified hierarchy to kill with. */
static void test_hybrid(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    char path[256];
    v1_dirs();
    v2_dir("unified", "\n");
    put(top, "own", "9:memory:/me\n8:pids:/\n4:cpu,cpuacct:/me\n0::/\n");
    cgroup_create(&s, &all);
    assert_int_equal(s.cgroup_count, 5);
    check_v1(&s);
    snprintf(path, sizeof(path), "%s/unified/harena-x", top);
    cgroup_kill(s.cgroups, s.cgroup_count);
    assert_string_equal(get(path, "cgroup.kill"), "1");
    finish(&s);
}

#define FIRST_PID 4000000
#define MANY 2500

static u8 killed[MANY];

static int fake_kill(int pid, int signal)
{
    assert_int_equal(signal, SIGKILL);
    assert_in_range(pid, FIRST_PID, FIRST_PID + MANY - 1);
    killed[pid - FIRST_PID]++;
    return 0;
}

/* Without a group of version 2: every process that is listed, once, however long the list; and the quota is lifted. */
static void test_v1_kill(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    char path[256];
    static char list[MANY * 8 + 16];
    v1_dirs();
    put(top, "own", "9:memory:/me\n4:cpu:/me\n");
    cgroup_create(&s, &(struct cgroup_limits){ .cpus_milli = 500 });
    assert_int_equal(s.held, CGROUP_CPU);
    snprintf(path, sizeof(path), "%s/cpu/me/harena-x", top);
    assert_string_equal(get(path, "cpu.cfs_quota_us"), "50000");
    int n = sprintf(list, "1\n0\n");
    for (u32 i = 0; i < MANY; i++)
        n += sprintf(list + n, "%u\n", FIRST_PID + i);
    put(path, "cgroup.procs", list);
    put(path, "cpu.cfs_quota_us", "");
    cgroup_lift(s.cgroups, s.cgroup_count);
    assert_string_equal(get(path, "cpu.cfs_quota_us"), "-1");
    assert_int_equal(killed[0], 0);
    cgroup_kill(s.cgroups, s.cgroup_count);
    for (u32 i = 0; i < MANY; i++)
        assert_int_equal(killed[i], 1);
    put(path, "cgroup.procs", "");
    finish(&s);
}

static void test_nothing(void **state)
{
    (void)state;
    struct harena_sandbox s = { .name = "x" };
    put(top, "own", "0::/\n");
    cgroup_create(&s, &all);
    assert_int_equal(s.held, 0);
    assert_int_equal(s.cgroup_count, 0);
    cgroup_create(&s, &(struct cgroup_limits){ 0 });
    assert_int_equal(s.cgroup_count, 0);
}

/* Only groups of ours are ever touched: the names come from a file in the state directory. */
static void test_foreign(void **state)
{
    (void)state;
    char path[4][256];
    make_dirs("memory/other");
    make_dirs("memory/harena-x");
    snprintf(path[0], 256, "%s/memory/other", top);
    snprintf(path[1], 256, "%s/memory/harena-x/../other", top);
    snprintf(path[2], 256, "/tmp/harena-x");
    snprintf(path[3], 256, "%s", top);
    char *list[] = { path[0], path[1], path[2], path[3] };
    cgroup_remove(list, 4);
    assert_int_equal(access(path[0], F_OK), 0);
    assert_int_equal(access(path[3], F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2, begin, end), cmocka_unit_test_setup_teardown(test_v2_partly, begin, end),
        cmocka_unit_test_setup_teardown(test_v1, begin, end), cmocka_unit_test_setup_teardown(test_hybrid, begin, end),
        cmocka_unit_test_setup_teardown(test_v1_kill, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing, begin, end), cmocka_unit_test_setup_teardown(test_foreign, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
