#!/bin/bash
# A guest process that jumps into its kernel's code to make host calls the filter forbids is killed by the host, alone: its
# parent learns it, the sandbox goes on.
. "$(dirname "$0")/../lib/check"
cat >jump.c <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/layout.h"

/* A `syscall; ret` of the kernel: its instruction pointer is what the filter lets through. */
static unsigned char *find_call(void)
{
    for (unsigned char *p = (void *)KIMAGE_BASE; p < (unsigned char *)KIMAGE_BASE + 0x40000; p++)
        if (p[0] == 0x0f && p[1] == 0x05 && p[2] == 0xc3)
            return p;
    return NULL;
}

int main(void)
{
    static const long calls[] = { 39 /* getpid */, 2 /* open */, 41 /* socket */, 59 /* execve */, 62 /* kill */, 101 /* ptrace */,
                                  165 /* mount */, 272 /* unshare */, 317 /* seccomp */, 425 /* io_uring_setup */, 1 /* write */ };
    unsigned char *call = find_call();
    int bad = 0;
    if (!call) {
        puts("no call found");
        return 1;
    }
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pid_t p = fork();
        if (!p) {
            long r;
            __asm__ volatile("call *%1" : "=a"(r) : "r"(call), "a"(calls[i]), "D"(1l), "S"("x"), "d"(1l) : "rcx", "r11", "memory");
            _exit(1); /* it came back */
        }
        int st;
        if (waitpid(p, &st, 0) != p || !WIFSIGNALED(st)) {
            printf("call %ld: status %x\n", calls[i], st);
            bad++;
        }
    }
    printf("bad %d\n", bad);
    return bad;
}
C
gcc -O -I"$src" -o jump jump.c || { echo 'needs gcc'; exit 77; }
is 'forbidden host calls kill the caller alone' 'bad 0' "$(timeout 60 "$HARENA" run -v "$work:/w" /w/jump 2>err)"
nothing_left 'forbidden calls'
finish
