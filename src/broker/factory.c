/* The factory: a broker process that makes brokers. A program that creates many sandboxes keeps one (runtime/factory.c), so that
 * each costs a fork of this small static process and not an exec.
 *
 * It holds nothing of any sandbox: a request is one byte with the new broker's link as descriptor; the child takes the link and
 * goes on as if it had just been executed, the parent answers with the pid and a pidfd. A request is put off for LATER_NS, so
 * that it takes no processor time from a sandbox that is just starting; SIGURG: somebody waits. Children are reaped by the
 * host (SIGCHLD is ignored); whoever asked watches the pidfd. The factory ends when its link closes; the brokers it
 * made go on until theirs do. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LATER_NS 3000000

/* The next request's descriptor, or -1 at the end. */
static int next_request(int link)
{
    char byte;
    int fd;
    u32 count;
    return fds_recv(link, &byte, 1, &fd, 1, &count, NULL, 0) > 0 && count ? fd : -1;
}

static void answer(int link, pid_t pid, int pidfd)
{
    fds_send(link, &(struct iovec){ &pid, sizeof(pid) }, 1, &pidfd, pid > 0, 0);
}

static void wake_up(int signal) { (void)signal; }

/* Returns only in new brokers, with their link at the factory's descriptor; -1 in the factory itself when its link has closed. */
int factory_serve(int link)
{
    struct timespec later = { 0, LATER_NS };
    signal(SIGCHLD, SIG_IGN);
    signal(SIGURG, wake_up);
    for (;;) {
        int fd = next_request(link), pidfd = -1;
        if (fd < 0)
            return -1;
        nanosleep(&later, NULL);
        long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
        if (pid == 0) {
            signal(SIGCHLD, SIG_DFL);
            signal(SIGURG, SIG_DFL);
            dup2(fd, link);
            close(fd);
            return 0;
        }
        close(fd);
        answer(link, pid < 0 ? -errno : pid, pidfd);
        if (pidfd >= 0)
            close(pidfd);
    }
}
