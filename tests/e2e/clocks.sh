#!/bin/bash
# Where the host's vDSO cannot read the clock source and makes system calls instead, which the filter traps (src/host/vdso.h). Here it can: a
# program puts a function that makes calls into its place.
. "$(dirname "$0")/../lib/check"
chmod 755 .
cat >clocks.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "host/vdso.h"

static long (*hosts)(int id, struct __kernel_timespec *ts);

static long calling(int id, struct __kernel_timespec *ts) /* not from the image: it is trapped */
{
    long r;
    if (id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE) /* these the host's can always read */
        return hosts(id, ts);
    __asm__ volatile("syscall" : "=a"(r) : "a"(228), "D"(id), "S"(ts) : "rcx", "r11", "memory");
    return r;
}

static double now(int id)
{
    struct timespec ts = { 0, 0 };
    return clock_gettime(id, &ts) ? -1 : ts.tv_sec + ts.tv_nsec / 1e9;
}

static void check(const char *what, int ok) { printf("%s - %s\n", ok ? "ok" : "not ok", what); }

static void *sleeper(void *arg)
{
    usleep(20000);
    return arg;
}

int main(void)
{
    static const int ids[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM,
                               CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID };
    enum { COUNT = sizeof(ids) / sizeof(*ids) };
    struct timeval tv;
    pthread_t t;
    double before[COUNT], cpu, start = now(CLOCK_MONOTONIC);
    int status, wrong = 0;
    for (int i = 0; i < COUNT; i++)
        before[i] = now(ids[i]);
    hosts = VDSO_DATA->clock_gettime;
    VDSO_DATA->clock_gettime = calling;
    usleep(100000); /* the kernel is the first to notice: in its own code */
    check("the kernel goes on", VDSO_DATA->by_call != NULL);
    for (int i = 0; i < COUNT; i++) {
        double past = now(ids[i]) - before[i];
        if (ids[i] == CLOCK_PROCESS_CPUTIME_ID || ids[i] == CLOCK_THREAD_CPUTIME_ID ? past < 0 || past > 0.1 : past < 0.09 || past > 5)
            wrong++, printf("# clock %d: %f s\n", ids[i], past);
    }
    check("all clocks go on", !wrong);
    gettimeofday(&tv, NULL);
    cpu = tv.tv_sec + tv.tv_usec / 1e6 - now(CLOCK_REALTIME);
    check("gettimeofday", cpu > -1 && cpu <= 0.000001);
    for (int i = 0; i < 1000; i++) {
        double a = now(CLOCK_MONOTONIC), b = now(CLOCK_MONOTONIC);
        wrong += b < a;
    }
    check("never backwards", !wrong);
    VDSO_DATA->by_call = NULL;
    check("a program is the first to notice", now(CLOCK_MONOTONIC) > start);
    pthread_create(&t, NULL, sleeper, NULL);
    pthread_join(t, NULL);
    if (!fork())
        _exit(now(CLOCK_MONOTONIC) > start ? 3 : 4);
    check("threads and processes", wait(&status) > 0 && WEXITSTATUS(status) == 3 && VDSO_DATA->by_call != NULL);
    struct timespec ts = { 1, 1 };
    check("a clock that does not exist", clock_gettime(77, &ts) == -1 && ts.tv_sec == 1);
    return 0;
}
C
gcc -O1 -w -pthread -I"$src" -o clocks clocks.c || { echo 'needs gcc'; exit 77; }
timeout 60 "$HARENA" run --no-patch -v "$work:/w" -- /w/clocks 2>&1 | tee out
is 'all checks ran' 7 "$(grep -c '^ok' out)"
nothing_left clocks
finish
