/* Calls that signals interrupt while they have done a part or wait for a time: nothing is lost, done twice or over too early. Of interest
 * where the sandbox is frozen all the time as well (tests/e2e/snapshot_instants.sh): then a call is made again, may be cut short
 * once more, and a handler may run in between. */
#include "tap.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define TOTAL 1500000
enum { CHUNK = 200000 };
static volatile int signals;
static void count(int sig) { signals++; }
static char byte_at(long i) { return (char)(i * 7 + i / 251); }

static void handle(void (*fn)(int), int flags)
{
    struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};
    sigaction(SIGUSR1, &sa, NULL);
}

static pid_t sender(pid_t to)
{
    pid_t p = fork();
    if (!p) {
        for (int i = 0; i < 20000 && !kill(to, SIGUSR1); i++)
            usleep(700 + (unsigned)i % 7 * 300);
        _exit(0);
    }
    return p;
}

/* All that it reads, slowly, is what was meant. */
static pid_t reader(int fd, int other)
{
    pid_t p = fork();
    if (!p) {
        char part[9000];
        long n = 0, k;
        close(other);
        handle(SIG_IGN, 0);
        while ((k = read(fd, part, sizeof(part))) > 0) {
            for (long i = 0; i < k; i++, n++)
                if (part[i] != byte_at(n))
                    _exit(2);
            usleep(1000);
        }
        _exit(n != TOTAL);
    }
    return p;
}

enum { WRITE, WRITEV, SENDMSG };
static ssize_t put_by(int how, int fd, char *p, size_t size)
{
    struct iovec v[3] = {{p, size / 3}, {p + size / 3, size / 2}, {p + size / 3 + size / 2, size - size / 3 - size / 2}};
    struct msghdr h = {.msg_iov = v, .msg_iovlen = 3};
    return how == WRITE ? write(fd, p, size) : how == WRITEV ? writev(fd, v, 3) : sendmsg(fd, &h, 0);
}

/* shorts: how many calls did a part only, although no signal came */
static bool moves(int how, bool socket, bool interrupted, int flags, int *shorts)
{
    int p[2], st = -1;
    char *all = malloc(TOTAL);
    for (long i = 0; i < TOTAL; i++)
        all[i] = byte_at(i);
    must(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, p) : pipe(p));
    pid_t r = reader(p[0], p[1]);
    close(p[0]);
    handle(count, flags);
    pid_t s = interrupted ? sender(getpid()) : 0;
    *shorts = 0;
    bool good = true;
    for (long n = 0; n < TOTAL;) {
        size_t size = TOTAL - n < CHUNK ? (size_t)(TOTAL - n) : CHUNK;
        ssize_t k = put_by(how, p[1], all + n, size);
        *shorts += k < (ssize_t)size;
        if (k < 0 && errno != EINTR)
            good = false;
        if (!good)
            break;
        n += k > 0 ? k : 0;
    }
    close(p[1]);
    if (s) {
        kill(s, SIGKILL);
        waitpid(s, NULL, 0);
    }
    waitpid(r, &st, 0);
    free(all);
    return good && st == 0;
}

static bool waits(int flags)
{
    struct timespec a, b;
    pid_t s = sender(getpid());
    bool good = true;
    handle(count, flags);
    for (int i = 0; i < 300 && good; i++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        int ms = i % 2 ? 3 : 1;
        int r = poll(NULL, 0, ms);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double d = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
        good = r == -1 ? errno == EINTR : r == 0 && d >= ms;
    }
    kill(s, SIGKILL);
    waitpid(s, NULL, 0);
    return good;
}

TAP_MAIN
{
    static const char *const names[] = {"write", "writev", "sendmsg"};
    int shorts;
    for (int how = WRITE; how <= SENDMSG; how++) {
        ok(moves(how, how == SENDMSG, false, 0, &shorts), "%s of more than fits", names[how]);
        is(shorts, 0, "  all of it each time");
        ok(moves(how, how == SENDMSG, true, SA_RESTART, &shorts), "  with a signal now and then, SA_RESTART");
        ok(moves(how, how == SENDMSG, true, 0, &shorts), "  that interrupts");
    }
    ok(waits(SA_RESTART), "no time-out before its time, SA_RESTART");
    ok(waits(0), "no time-out before its time");
    ok(signals > 0, "there were signals");
    return done();
}
