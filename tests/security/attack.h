/* What hostile guest programs share: host calls by the kernel image's own `syscall`, requests to the broker in a slot of their own, and
 * cases, each in a process. */
#ifndef ATTACK_H
#define ATTACK_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/layout.h"
#include "wire/broker.h"

#pragma GCC diagnostic ignored "-Wunused-function"

static const u8 *gadget; /* syscall; ret */

static long host(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("call *%1" : "=a"(r) : "r"(gadget), "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

static bool failed(long r) { return (unsigned long)r > -4096ul; }

/* Starts one case; it exits with 0 when it was refused. */
static pid_t start_case(int (*act)(void *), void *arg)
{
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        alarm(20);
        exit(act(arg));
    }
    return p;
}

static void end_case(const char *name, pid_t p)
{
    int st = 0;
    waitpid(p, &st, 0);
    printf("%s %s\n", name, WIFSIGNALED(st) ? WTERMSIG(st) == SIGALRM ? "HANGS" : WTERMSIG(st) == SIGKILL ? "killed" : "crashed"
                                            : WEXITSTATUS(st) ? "BROKEN" : "refused");
}

static void run_case(const char *name, int (*act)(void *), void *arg) { end_case(name, start_case(act, arg)); }

#define SLOT 63
static struct r_control_guest *const mine = (void *)R_BASE;
static struct r_control_broker *const theirs = (void *)(R_BASE + R_CONTROL_BROKER);
static struct wire_request *const slot = (void *)(R_BASE + R_REQUESTS + SLOT * (u64)R_REQUEST_STRIDE);

static void bell(long hint) { while (host(111, hint, 0, 0, 0, 0, 0) == -EINTR); }

static s32 ask(u32 op, u32 mount, u32 handle, u64 a0, u64 a1, u64 a2, const void *data, u32 size)
{
    slot->op = op;
    slot->size = size;
    slot->mount = mount;
    slot->handle = handle;
    slot->arg[0] = a0;
    slot->arg[1] = a1;
    slot->arg[2] = a2;
    slot->arg[3] = 0;
    slot->result = -9999;
    memcpy(slot->data, data, size <= REQ_DATA_SIZE ? size : 0);
    __atomic_add_fetch(&mine->req_seq[SLOT], 1, __ATOMIC_SEQ_CST);
    bell(SLOT + 1);
    return slot->result;
}

static s32 ask_path(u32 op, u32 mount, u64 a0, const char *path) { return ask(op, mount, 0, a0, 0, 0, path, strlen(path) + 1); }

/* The hostfs mount that shows a file. */
static u32 mount_with(const char *name)
{
    for (u32 m = 0; m < 64; m++)
        if (!ask_path(WIRE_LOOKUP, m, 0, name))
            return m;
    fprintf(stderr, "no mount has %s\n", name);
    exit(1);
}

static int find_gadget(void)
{
    for (gadget = (u8 *)KIMAGE_BASE; gadget < (u8 *)KIMAGE_BASE + 0x40000; gadget++)
        if (!memcmp(gadget, "\x0f\x05\xc3", 3))
            return 0;
    return -1;
}

#endif
