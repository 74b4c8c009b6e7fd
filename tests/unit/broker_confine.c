/* What a broker that was taken over can still open: only what lies below its mounts, with their rights. A child takes on the rules and
 * tries everything by ordinary calls, as hostile code in the broker would (its filter, which would stop much of it, is not on). */
#define _GNU_SOURCE
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "broker/broker.h"

static int bad;

static void check(const char *what, long result, bool works)
{
    if ((result >= 0) != works) {
        printf("%s: %s\n", what, works ? strerror(errno) : "it worked");
        bad++;
    }
}
#define YES(call) check(#call, call, true)
#define NO(call) check(#call, call, false)

static int touch(const char *path) { return open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644); }

static void add_mount(struct broker *b, const char *path, u32 flags)
{
    static struct ctl_mount records[4];
    struct ctl_mount *c = &records[b->fs.mount_count];
    *c = (struct ctl_mount){ .kind = MOUNT_HOSTFS, .flags = flags };
    assert_true(hostfs_mount(&b->fs, c, path, NULL) >= 0);
}

static void act(void)
{
    static struct ctl_config config;
    static struct broker b = { .lock_fd = -1, .config = &config };
    hostfs_init(&b.fs);
    add_mount(&b, "rw", 0);
    add_mount(&b, "ro", MOUNT_READONLY);
    add_mount(&b, "file", MOUNT_READONLY);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    YES(confine(&b));
    YES(open("rw/a", O_RDWR));
    YES(touch("rw/new"));
    YES(rename("rw/new", "rw/d/new"));
    YES(link("rw/a", "rw/d/linked"));
    YES(mkdir("rw/made", 0755));
    YES(rmdir("rw/made"));
    YES(symlink("x", "rw/s"));
    YES(truncate("rw/a", 1));
    YES(unlink("rw/d/new"));
    YES(open("ro/a", O_RDONLY));
    YES(open("ro", O_RDONLY | O_DIRECTORY));
    YES(open("file", O_RDONLY));
    YES(hostfs_reopen(&b.fs, b.fs.mounts[0].root, O_RDONLY | O_DIRECTORY));
    NO(open("ro/a", O_RDWR));
    NO(touch("ro/new"));
    NO(unlink("ro/a"));
    NO(truncate("ro/a", 0));
    NO(rename("ro/a", "rw/stolen"));
    NO(link("ro/a", "rw/stolen"));
    NO(mkdir("ro/made", 0755));
    NO(open("file", O_RDWR));
    NO(open("out/secret", O_RDONLY));
    NO(open("out", O_RDONLY | O_DIRECTORY));
    NO(touch("out/new"));
    NO(rename("out/secret", "rw/secret"));
    NO(link("out/secret", "rw/secret"));
    NO(open("rw/../out/secret", O_RDONLY));
    NO(open("rw/link-out", O_RDONLY));
    NO(open("/etc/passwd", O_RDONLY));
    NO(open("/proc/self/mem", O_RDWR));
    NO(open("/proc/self/maps", O_RDONLY));
    NO(open("/dev/tty", O_RDWR));
    NO(execl("/bin/true", "true", NULL));
    fflush(stdout);
}

static void test_confine(void **state)
{
    (void)state;
    char top[] = "/tmp/harena-confine-XXXXXX", command[128];
    if (!confine_available())
        skip();
    assert_non_null(mkdtemp(top));
    assert_int_equal(chdir(top), 0);
    assert_int_equal(system("mkdir -p rw/d ro out && echo x >rw/a && echo x >ro/a && echo x >file && echo x >out/secret && "
                            "ln -s ../out/secret rw/link-out"), 0);
    int status;
    pid_t pid = fork();
    if (!pid) {
        act();
        _exit(bad != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chdir("/"), 0);
    snprintf(command, sizeof(command), "rm -rf %s", top);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_confine) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
