#!/bin/bash
# A guest that goes around its own kernel: it makes the host calls itself and writes the shared segments. The limits hold.
. "$(dirname "$0")/../lib/check"
cat >lie.c <<'C'
#include "base/layout.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

extern const long clone_process;
static unsigned char *call;

static long host(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("call *%1" : "=a"(r) : "r"(call), "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

static void eat_private(void)
{
    for (int i = 0; i < 400; i++) {
        char *p = (char *)host(9, 0, 1 << 20, 3, 0x4022, -1, 0); /* mmap: private, anonymous, noreserve */
        if ((unsigned long)p > -4096ul) {
            printf("refused after %d\n", i);
            exit(0);
        }
        memset(p, 1, 1 << 20);
    }
    puts("got 400 MB");
}

static void eat_shared(void)
{
    for (unsigned long i = 0; i < 400ul << 20; i += 4096)
        *(volatile char *)(D_BASE + (1ul << 36) + i) = 1;
    sleep(2);
    puts("got 400 MB");
}

static void many(void)
{
    static unsigned tid;
    int n = 0;
    long r;
    for (; n < 5000; n++) {
        r = host(56, clone_process, 0, (long)&tid, 0, 0, 0);
        if (r == 0)
            for (;;) /* futex: wait on a word of K */
                host(202, K_BASE, 9, *(volatile unsigned *)K_BASE, 0, 0, -1);
        if (r < 0)
            break;
    }
    printf("%s %s\n", n < 200 ? "few" : "many", r == -EAGAIN ? "EAGAIN" : "else");
    fflush(stdout);
    sleep(30);
}

int main(int argc, char **argv)
{
    for (unsigned char *p = (void *)KIMAGE_BASE; !call && p < (unsigned char *)KIMAGE_BASE + 0x40000; p++)
        if (p[0] == 0x0f && p[1] == 0x05 && p[2] == 0xc3)
            call = p;
    if (!call || argc < 2)
        return 1;
    if (*argv[1] == 'p')
        eat_private();
    else if (*argv[1] == 's')
        eat_shared();
    else
        many();
    return 0;
}
C
printf '#include "base/types.h"\n#include "host/hostabi.h"\nextern const long clone_process;\nconst long clone_process = HOST_CLONE_PROCESS;\n' >number.c
gcc -O -I"$src" -o lie lie.c number.c || { echo 'needs gcc'; exit 77; }
chmod 755 . lie
lie() { timeout 60 "$@" -v "$work:/w" --memory 64M --pids 40 --timeout 10s /w/lie "$what" >out 2>err; st=$?; }
limits() { # WHO COMMAND...
  local who=$1
  shift
  what=private; lie "$@"
  is "$who, private memory: refused or killed" 1 "$(if grep -q refused out || [ $st = 137 ]; then echo 1; else cat out; fi)"
  what=shared; lie "$@"
  is "$who, files in memory: killed" '137 0' "$st $(grep -c 'got 400' out)"
  what=many; lie "$@"
  is "$who, processes" 'few EAGAIN 124' "$(cat out) $st"
  nothing_left "$who"
}
limits 'with cgroups' "$HARENA" run
if [ "$(id -u)" = 0 ] && setpriv --reuid 61234 --regid 61234 --clear-groups test -x "$HARENA"; then
  mkdir run && chown 61234 run
  limits 'without cgroups' env XDG_RUNTIME_DIR="$work/run" HOME="$work/run" setpriv --reuid 61234 --regid 61234 --clear-groups "$HARENA" run
fi
finish
