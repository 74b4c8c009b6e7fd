/* The broker's own filter: each case runs in a child that installs it and makes one call. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "broker/broker.h"

struct attempt {
    const char *name;
    bool killed;
    long nr, a, b, c, d;
};

static const struct attempt attempts[] = {
    { "socket", true, SYS_socket, 1, 1, 0, 0 },
    { "connect", true, SYS_connect, 0, 0, 0, 0 },
    { "execve", true, SYS_execve, 0, 0, 0, 0 },
    { "execveat", true, SYS_execveat, 0, 0, 0, 0 },
    { "clone", true, SYS_clone, SIGCHLD, 0, 0, 0 },
    { "fork", true, SYS_fork, 0, 0, 0, 0 },
    { "ptrace", true, SYS_ptrace, 16, 1, 0, 0 },
    { "process_vm_readv", true, SYS_process_vm_readv, 1, 0, 0, 0 },
    { "setuid", true, SYS_setuid, 0, 0, 0, 0 },
    { "mount", true, SYS_mount, 0, 0, 0, 0 },
    { "bpf", true, SYS_bpf, 99, 0, 0, 0 },
    { "open", true, SYS_open, 0, 0, 0, 0 },
    { "mmap for code", true, SYS_mmap, 0, 4096, 5, 0x22 },
    { "mprotect", true, SYS_mprotect, 0, 0, 0, 0 },
    { "kill with TERM", true, SYS_kill, 1 << 28, SIGTERM, 0, 0 },
    { "F_SETFL", true, SYS_fcntl, 0, F_SETFL, 0, 0 },
    { "TIOCSTI", true, SYS_ioctl, 0, 0x5412, 0, 0 },
    { "x32 read", true, 0x40000000, 0, 0, 0, 0 },
    { "mmap of data", false, SYS_mmap, 0, 4096, 3, 0x22 },
    { "kill with KILL", false, SYS_kill, 1 << 28, SIGKILL, 0, 0 },
    { "F_GETFL", false, SYS_fcntl, 0, F_GETFL, 0, 0 },
    { "pread", false, SYS_pread64, 99, 0, 0, 0 },
    { "openat2", false, SYS_openat2, -1, 0, 0, 0 },
    { "unlinkat", false, SYS_unlinkat, 99, 0, 0, 0 },
    { "exit_group", false, SYS_exit_group, 0, 0, 0, 0 },
};

static void test_filter(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(attempts); i++) {
        const struct attempt *t = &attempts[i];
        int status;
        pid_t pid = fork();
        if (!pid) {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (setup_filter(NULL) < 0)
                _exit(99);
            syscall(t->nr, t->a, t->b, t->c, t->d, 0, 0);
            syscall(SYS_exit_group, 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
        if (killed != t->killed || (!killed && status != 0))
            fail_msg("%s: status %x", t->name, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_filter) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
