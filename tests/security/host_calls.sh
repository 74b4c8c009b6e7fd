#!/bin/bash
# Every rule of the host interface (src/host/hostabi.tbl) is needed: a traced run of varied programs uses each call, each alternative,
# each value and each flag of it. What nobody needs is to be taken out of the table.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/check"
command -v strace >/dev/null && command -v gcc >/dev/null || { echo 'needs strace and gcc'; exit 77; }
chmod 755 .
cat >work.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "host/vdso.h"

static volatile int stop, hits;
static void *spin(void *arg) { while (!stop); return arg; }
static void hit(int n) { (void)n; hits++; }

static void advice(void)
{
    char *p = mmap(NULL, 8 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const int list[] = { MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_WIPEONFORK, MADV_KEEPONFORK,
                                MADV_POPULATE_READ, MADV_POPULATE_WRITE };
    memset(p, 1, 8 << 20);
    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        madvise(p, 8 << 20, list[i]);
    for (int i = 0; i < 8; i++)
        mremap(p + (i << 20), 1 << 20, 2 << 20, MREMAP_MAYMOVE);
    int fd = open("/tmp/f", O_RDWR | O_CREAT, 0600);
    ftruncate(fd, 8 << 20);
    char *s = mmap(NULL, 8 << 20, 3, MAP_SHARED, fd, 0);
    memset(s, 1, 8 << 20);
    munmap(s, 8 << 20);
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8 << 20);
    close(fd);
    unlink("/tmp/f");
}

static long calling(int id, struct __kernel_timespec *ts) /* the kernel, and this program, take the trap once */
{
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(SYS_clock_gettime), "D"(id), "S"(ts) : "rcx", "r11", "memory");
    return r;
}

int main(void)
{
    pthread_t t[2];
    struct timespec ts, wait = { 4, 0 };
    struct sigaction sa = { .sa_handler = hit };
    advice();
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, spin, NULL);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    for (int i = 0; i < 50; i++) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        pthread_kill(t[i & 1], SIGUSR1);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    stop = 1;
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    for (int i = 0; i < 5; i++) {
        if (!fork())
            _exit(0);
        wait3(NULL, 0, NULL);
    }
    VDSO_DATA->clock_gettime = calling; /* as where the host's vDSO cannot read the clock source; tests/e2e/clocks.sh */
    usleep(1000);
    static const int clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME };
    for (int i = 0; i < 4; i++)
        clock_gettime(clocks[i], &ts);
    puts("waits");
    fflush(stdout);
    nanosleep(&wait, NULL); /* the test stops and continues the process meanwhile, and takes a snapshot */
    return 0;
}
C
gcc -O1 -pthread -w -I"$src" -o work work.c || exit 1
# a snapshot is taken of it, too (into nothing)
gcc -O1 -w -I"$src" -o clone "$here/../snapshot/clone.c" "$BUILD"/src/runtime/libruntime.a "$BUILD"/src/image/libpack.a -ljansson || exit 1
cat >all.sh <<'S'
/w/work
for i in 1 2 3; do ls /usr/bin | sort | tail -n 3; done
python3 -c 'import threading; t = [threading.Thread(target=sum, args=(range(10000),)) for i in range(4)]; [x.start() for x in t]; [x.join() for x in t]' 2>/dev/null
S
calls=$(grep '^[a-z]' "$src/host/hostabi.tbl" | tr '\n' ,)clone3,fork,vfork
timeout 120 strace -f -X raw -e "trace=$calls" -o trace "$HARENA" run --name "$tag-c" -v "$work:/w" sh /w/all.sh >out 2>err &
run=$!
await out
sleep 0.5
# the sleeping process sees a stop and goes on: its timed wait is begun again by the host
for p in $(awk '/mmap\(0x7effd0000000,/ { print $1; exit }' trace) $(awk '{ print $1 }' trace | sort -u); do
  [ "$(readlink "/proc/$p/exe" 2>/dev/null)" = "$(readlink -f "$BUILD/src/broker/harena-broker")" ] &&
    [ "$(cat "/proc/$p/comm")" = harena-kernel ] && stopped+=" $p"
done
kill -STOP $stopped; sleep 0.3; kill -CONT $stopped
timeout 60 ./clone "$tag-c" 0 0
is 'a snapshot of it' 0 $?
wait $run
is 'the traced run ends well' 0 $?
is 'rules of the host interface nobody needs' '' "$(python3 "$here/host_calls.py" "$src/host/hostabi.tbl" trace "$src" 2>counts)"
cat counts
nothing_left 'host calls'
finish
