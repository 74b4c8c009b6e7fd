/* witness FILE: what others must not notice. Until its standard input ends it checks, two hundred times a second, that its memory holds
 * what it wrote there, that FILE can be read and synced, and how long that takes; it counts signals that nobody here sends. Then one
 * line: ticks, faults, signals, and the times for FILE in microseconds (half of them below, 99 of 100 below, longest). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE (8 << 20)
#define TIMES 100000

static volatile sig_atomic_t signals;
static void count(int n) { (void)n; signals++; }
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000l + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    static int times[TIMES];
    unsigned *memory = malloc(SIZE), n = SIZE / sizeof(*memory), bad = 0, ticks = 0;
    char text[6] = "", other[6];
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0666) : -1;
    if (fd < 0 || !memory || pwrite(fd, "fixed", 5, 0) != 5)
        return 1;
    signal(SIGURG, count);
    signal(SIGCHLD, count);
    signal(SIGUSR1, count);
    signal(SIGCONT, count);
    for (unsigned i = 0; i < n; i++)
        memory[i] = i * 2654435761u;
    for (;; ticks++) {
        struct pollfd p = { .fd = 0, .events = POLLIN };
        if (poll(&p, 1, 5) > 0 && read(0, other, 1) <= 0)
            break;
        for (unsigned i = ticks % 64; i < n; i += 64)
            bad += memory[i] != i * 2654435761u;
        long start = now_us();
        bad += pread(fd, text, 5, 0) != 5 || memcmp(text, "fixed", 5) || fsync(fd);
        if (ticks < TIMES)
            times[ticks] = now_us() - start;
    }
    int shown = ticks < TIMES ? ticks : TIMES;
    qsort(times, shown, sizeof(*times), by_value);
    printf("ticks %u bad %u signals %d us %d %d %d\n", ticks, bad, (int)signals, shown ? times[shown / 2] : 0, shown ? times[shown * 99 / 100] : 0,
           shown ? times[shown - 1] : 0);
    return 0;
}
