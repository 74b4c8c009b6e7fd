/* Corners of a program's state that state.c does not have: set up before a snapshot, looked at after it. Each case is a process of its own that
 * waits in the middle and says whether it found what it should: in a call that blocks, or for the end of a pipe. Prints "ready", waits
 * for a line on standard input and prints TAP. Natively all of it holds as well. */
#define TAP_TIMEOUT 200
#include "../syscall/tap.h"
#include <arpa/inet.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <math.h>
#include <mqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <termios.h>
#include "state_memory.h"
#include "state_files.h"
#include "state_procs.h"
#include "corners_calls.h"
#include "corners_rest.h"

int main(int argc, char **argv)
{
    char text[64] = "";
    if (argc > 1) { /* run by exec: waits as well */
        go[0] = atoi(argv[1]);
        return wait_go() ? 0 : 1;
    }
    tap_begin();
    int in = fcntl(0, F_DUPFD, 240);
    s = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(pipe(go));
    calls_setup();
    rest_setup();
    sleep_ms(300);
    note("ready");
    if (read(in, text, sizeof(text) - 1) < 0)
        note("standard input: %s", strerror(errno));
    close(go[1]);
    for (int i = 0; i < kid_count; i++) {
        int st = -1;
        for (int k = 0; k < 400 && waitpid(kids[i].pid, &st, WNOHANG) == 0; k++)
            sleep_ms(20);
        if (!is(st, 0, "%s", kids[i].name))
            kill(kids[i].pid, SIGKILL);
    }
    return done();
}
