/* Finding and starting our own programs. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINK_FD 3 /* of the broker */
#define EMPTY_FD 4
#define FREE_FD 10

static bool try_place(char out[PATH_MAX], const char *dir, const char *sub, const char *name)
{
    int n = snprintf(out, PATH_MAX, "%s%s%s%s%s", dir, *sub ? "/" : "", sub, "/", name);
    return n < PATH_MAX && access(out, R_OK) == 0;
}

/* libexec (none if empty), or beside the running program: installed (../libexec/harena) or in a build tree. */
int find_program(const char *libexec, const char *name, const char *build_sub, char out[PATH_MAX], struct harena_error *err)
{
    char self[PATH_MAX];
    if (libexec && *libexec) {
        if (try_place(out, libexec, "", name))
            return 0;
        harena_error_set(err, 125, "%s is not in %s, the value of HARENA_LIBEXEC; correct or unset it", name, libexec);
    } else {
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = 0;
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
        const char *const subs[] = { "", "../libexec/harena", build_sub, "../..", "../kernel" };
        for (size_t i = 0; i < ARRAY_COUNT(subs); i++)
            if (try_place(out, self, subs[i], name))
                return 0;
        harena_error_set(err, 125, "%s was not found beside the program; reinstall harena or set HARENA_LIBEXEC", name);
    }
    return -1;
}

/* Only what a host program may have changed is put back to default: handled signals are by exec. */
static int spawn(const char *path, char *const argv[], int link, int empty, pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    static const int often_ignored[] = { SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU };
    for (size_t i = 0; i < ARRAY_COUNT(often_ignored); i++)
        sigaddset(&ignored, often_ignored[i]);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, link, LINK_FD);
    posix_spawn_file_actions_adddup2(&fa, empty, EMPTY_FD);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&fa, 0, 1);
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &ignored);
    char *const env[] = { NULL };
    int error = posix_spawn(pid, path, &fa, &at, argv, env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return error;
}

/* A broker, or with `factory` one that makes brokers, with its link at LINK_FD. */
int spawn_broker(const char *libexec, const char *kernel, bool factory, int base_fd, int link, pid_t *pid, struct harena_error *err)
{
    char path[PATH_MAX];
    if (find_program(libexec, "harena-broker", "../broker", path, err) < 0)
        return -1;
    int empty = state_empty_dir(base_fd, err);
    if (empty < 0)
        return -1;
    int high[2] = { fcntl(link, F_DUPFD_CLOEXEC, FREE_FD), fcntl(empty, F_DUPFD_CLOEXEC, FREE_FD) };
    close(empty);
    char *const argv[] = { "harena-broker", factory ? "factory" : (char *)kernel, factory ? (char *)kernel : NULL, NULL };
    int error = high[0] < 0 || high[1] < 0 ? EMFILE : spawn(path, argv, high[0], high[1], pid);
    for (int i = 0; i < 2; i++)
        if (high[i] >= 0)
            close(high[i]);
    if (!error)
        return 0;
    *pid = 0;
    harena_error_set(err, 125, "cannot start %s: %s", path, strerror(error));
    return -1;
}

/* With the configuration to follow at any time: what can be done without is done. */
int broker_may_begin(int link, struct harena_error *err)
{
    struct ctl_number m = { .h.type = CTL_PREPARE, .number = CTL_VERSION };
    return message_send(link, &m, sizeof(m), NULL, 0, err);
}
