/* As much state as a program can have, set up before a snapshot and looked at after it. Prints "ready", waits for a line on standard
 * input (the word "clone" says that this is a sandbox made from a snapshot) and prints TAP: see ../syscall/tap.h. Lines "# KEY VALUE" tell
 * what must differ between two copies. Natively, and in a sandbox that was not restored, everything holds as well. */
#define TAP_TIMEOUT 200
#include "../syscall/tap.h"
#include <arpa/inet.h>
#include <grp.h>
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
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>
#include "state_memory.h"
#include "state_files.h"
#include "state_procs.h"

static const char *line_of(const char *path)
{
    int fd = open(path, O_RDONLY);
    const char *t = fd < 0 ? "none" : get(fd);
    close(fd);
    return t;
}

static void tell(void)
{
    unsigned long r = 0;
    char name[65];
    getrandom(&r, sizeof(r), 0);
    gethostname(name, sizeof(name));
    note("random %lx", r);
    note("host %s", name);
    note("boot %.36s", line_of("/proc/sys/kernel/random/boot_id"));
    note("machine %.32s", line_of("/etc/machine-id"));
    note("generation %.32s", line_of("/run/harena/generation"));
    note("time %ld", (long)time(NULL));
    note("up %ld", (long)now_s(CLOCK_MONOTONIC));
}

int main(int argc, char **argv)
{
    char text[64] = "";
    if (argc > 1) /* run by exec */
        return strcmp(argv[1], "exec") != 0;
    tap_begin();
    int in = fcntl(0, F_DUPFD, 240);
    processes_prepare();
    memory_setup();
    objects_setup();
    kids_setup();
    block_signals(SIG_BLOCK);
    threads_setup();
    processes_setup();
    descriptors_setup();
    files_setup();
    sockets_setup();
    signals_setup();
    tls_value = 123;
    ok(says("up\n"), "the shell is ready");
    for (int i = 0; i < 200 && (!s->in_handler || !s->fp_ran || !s->vforked || !s->futex_word); i++)
        sleep_ms(10);
    sleep_ms(100);
    double used = now_s(CLOCK_THREAD_CPUTIME_ID), used_by_all = now_s(CLOCK_PROCESS_CPUTIME_ID);
    note("ready");
    if (read(in, text, sizeof(text) - 1) < 0)
        note("standard input: %s", strerror(errno));
    bool clone = !strncmp(text, "clone", 5);
    tell();
    ok(now_s(CLOCK_THREAD_CPUTIME_ID) >= used && now_s(CLOCK_PROCESS_CPUTIME_ID) >= used_by_all, "clocks of processor time go on");
    check_anonymous();
    check_protection();
    check_wide(clone);
    check_mapped();
    check_descriptors(clone);
    check_files();
    check_sockets();
    check_signals();
    check_threads();
    check_terminal();
    check_processes();
    check_objects();
    is(in_child(execl("/proc/self/exe", "state", "exec", NULL); _exit(9)), 0, "exec");
    ok(alike(m.plain, 40, 1), "anonymous memory is still the same");
    return done();
}
