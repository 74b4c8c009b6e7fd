/* busy MS FILE: varied work for a while, in a tree of processes; for tests that kill some of them from outside.
 *
 * Exit status: 0 when all went well, 3 when a process of the tree was killed by a signal (its parent says so at once), 4 when something
 * gave a wrong result. Prints "up" when the work has begun. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long end_ms;
static const char *host_file;

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000l + t.tv_nsec / 1000000;
}

static int working(void) { return now_ms() < end_ms; }

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "busy: %s: %s\n", what, strerror(errno));
    _exit(4);
}

/* Work in small pieces: a test that kills processes must not be about a machine that is too busy. */
static void breathe(void) { usleep(2000); }

static int wait_child(pid_t p)
{
    int st;
    must(waitpid(p, &st, 0) == p, "waitpid");
    return WIFSIGNALED(st) ? 3 : WEXITSTATUS(st);
}

static int fork_loop(void)
{
    while (working()) {
        pid_t p = fork();
        must(p >= 0, "fork");
        if (!p)
            _exit(7);
        int st = wait_child(p);
        if (st == 3)
            return 3;
        must(st == 7, "status of a child");
        breathe();
    }
    return 0;
}

/* Two processes and a counter that goes back and forth; the end of one ends the other. */
static int ping_pong(int socket)
{
    int a[2], b[2];
    if (socket) {
        must(!socketpair(AF_UNIX, SOCK_STREAM, 0, a), "socketpair");
        b[0] = dup(a[0]);
        b[1] = dup(a[1]);
        int swap = a[0]; /* what one writes at [1] comes out at [0] */
        a[0] = b[0];
        b[0] = a[1];
        a[1] = b[1];
        b[1] = swap;
    } else {
        must(!pipe(a) && !pipe(b), "pipe");
    }
    signal(SIGPIPE, SIG_IGN);
    pid_t p = fork();
    must(p >= 0, "fork");
    long n = 0, got;
    if (!p) {
        close(a[1]);
        close(b[0]);
        while (read(a[0], &got, sizeof(got)) == sizeof(got)) {
            got++;
            if (write(b[1], &got, sizeof(got)) != sizeof(got))
                break;
        }
        _exit(0);
    }
    close(a[0]);
    close(b[1]);
    while (working()) {
        if (write(a[1], &n, sizeof(n)) != sizeof(n) || read(b[0], &got, sizeof(got)) != sizeof(got))
            break;
        must(got == n + 1, "ping-pong");
        if (++n % 100 == 0)
            breathe();
    }
    close(a[1]);
    close(b[0]);
    return wait_child(p);
}

static int files_loop(void)
{
    char name[64], other[64], text[4096], back[4096];
    snprintf(name, sizeof(name), "/tmp/busy.%d", getpid());
    snprintf(other, sizeof(other), "/tmp/busy.%d.new", getpid());
    for (unsigned n = 0; working(); n++) {
        memset(text, 'a' + n % 26, sizeof(text));
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        must(fd >= 0 && write(fd, text, sizeof(text)) == sizeof(text), "write");
        must(!rename(name, other), "rename");
        must(pread(fd, back, sizeof(back), 0) == sizeof(back) && !memcmp(text, back, sizeof(text)), "read back");
        must(!unlink(other), "unlink");
        close(fd);
        breathe();
        if (host_file) {
            fd = open(host_file, O_RDONLY);
            must(fd >= 0 && read(fd, back, sizeof(back)) > 0, "host file");
            close(fd);
        }
    }
    return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void *count(void *arg)
{
    long *mine = arg;
    while (working()) {
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
        ++*mine;
        if (*mine % 64 == 0)
            breathe();
    }
    return NULL;
}

static void *nothing(void *arg) { return arg; }

static int threads_loop(void)
{
    pthread_t t[3], s;
    long mine[3] = { 0 };
    for (int i = 0; i < 3; i++)
        must(!pthread_create(&t[i], NULL, count, &mine[i]), "thread");
    while (working()) {
        must(!pthread_create(&s, NULL, nothing, NULL), "thread");
        pthread_join(s, NULL);
        breathe();
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    must(counter == mine[0] + mine[1] + mine[2], "counter under a lock");
    return 0;
}

static int exec_loop(const char *self)
{
    while (working()) {
        pid_t p = vfork();
        must(p >= 0, "vfork");
        if (!p) {
            execl(self, self, "exit", NULL);
            _exit(9);
        }
        int st = wait_child(p);
        if (st == 3)
            return 3;
        must(st == 5, "exec");
        usleep(10000);
    }
    return 0;
}

static int memory_loop(void)
{
    while (working()) {
        size_t size = 1 << 20;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        char *q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(p != MAP_FAILED && q != MAP_FAILED, "mmap");
        memset(p, 1, size);
        memset(q, 2, size);
        munmap(p, size);
        munmap(q, size);
        usleep(10000);
    }
    return 0;
}

static int sleep_loop(void)
{
    while (working())
        poll(NULL, 0, 20);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "exit"))
        return 5;
    end_ms = now_ms() + (argc > 1 ? atol(argv[1]) : 1000);
    host_file = argc > 2 ? argv[2] : NULL;
    pid_t p[8];
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 8; i++) {
        p[i] = fork();
        must(p[i] >= 0, "fork");
        if (!p[i]) {
            switch (i) {
            case 0: _exit(fork_loop());
            case 1: _exit(ping_pong(0));
            case 2: _exit(files_loop());
            case 3: _exit(threads_loop());
            case 4: _exit(exec_loop(argv[0]));
            case 5: _exit(memory_loop());
            case 6: _exit(ping_pong(1));
            case 7: _exit(sleep_loop());
            }
        }
    }
    puts("up");
    for (int i = 0; i < 8; i++) {
        int st;
        must(wait(&st) > 0, "wait");
        if (WIFSIGNALED(st) && WTERMSIG(st) != SIGKILL)
            fprintf(stderr, "busy: a child died of signal %d\n", WTERMSIG(st));
        if (WIFSIGNALED(st) ? WTERMSIG(st) != SIGKILL : WEXITSTATUS(st) && WEXITSTATUS(st) != 3)
            _exit(4);
        if (st)
            _exit(3);
    }
    return 0;
}
