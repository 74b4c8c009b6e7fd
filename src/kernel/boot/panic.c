/* The end of a sandbox whose kernel cannot go on, and its report (core/panic.h).
 *
 * Nothing the kernel has can be trusted by then: the report is made without a lock, in a buffer of its own, and goes through a
 * request slot that nobody else uses. It is made by the first carrier that comes here. Does it fault itself - it follows pointers that
 * may be damaged - it says only the message. Others that come later end quietly; but the first process, whose end is the sandbox's, waits
 * for the report to do that, and makes one itself when none comes: who came first may have been killed (out of memory).
 *
 * The addresses of the backtrace are those on the kernel stack that follow a call instruction: without frame pointers
 * some may be left over from earlier calls. The command line adds the names (runtime/symbols.c), and escapes the text. */
#include "arch/x86_64/regs.h"
#include "abi/syscalls.h"
#include "base/string.h"
#include "core/broker_call.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "core/strbuf.h"
#include "host/host.h"
#include "proc/task.h"
#include <linux/time.h>

#define REPORT_MAX 6144
#define TRACE_MAX 24
#define PATIENCE 500000000ul /* ns */

extern const char kimage_headers[] __attribute__((visibility("hidden"))), text_end[];

static KSTATE struct {
    u32 stage;  /* carriers that came here */
    u32 tid;    /* of the first one */
    u32 again;  /* it faulted while it made the report */
    u32 size;
} ending;
static KSTATE_LARGE char report[REPORT_MAX];

static void add(const char *f, ...) printf_like(1, 2);
static void add(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    int n = fmt_vprint(report + ending.size, REPORT_MAX - ending.size, f, ap);
    va_end(ap);
    ending.size = MIN(ending.size + (u32)MAX(n, 0), REPORT_MAX - 1u);
}

/* Slot REQ_SLOTS - 1 belongs to this (broker_call.c). The broker answers the bell when everything is being killed. */
static noreturn_fn void send(u32 status)
{
    struct r_control_guest *g = (void *)(R_BASE + R_CONTROL_GUEST);
    u32 slot = REQ_SLOTS - 1;
    struct wire_request *q = (void *)(R_BASE + R_REQUESTS + (u64)slot * R_REQUEST_STRIDE);
    *q = (struct wire_request){.op = WIRE_PANIC, .size = ending.size, .arg = {status}};
    memcpy(q->data, report, ending.size);
    atomic_store(&g->req_seq[slot], g->req_seq[slot] + 1);
    host_doorbell(slot + 1);
    host_exit_process(125);
}

static void take_over(u32 tid)
{
    ending.tid = tid;
    ending.size = ending.again = 0;
}

static bool in_first_process(void)
{
    const struct task *t = this_carrier()->task;
    return t && t->tid == INIT_PID;
}

/* Returns in the first carrier, in the same one a second time with ending.again set, and in who takes over. */
static void begin(u64 ip)
{
    u32 tid = this_carrier()->tid;
    if (atomic_cas(&ending.stage, 0, 1)) {
        take_over(tid);
    } else if (ending.tid != tid && in_first_process()) {
        u64 stop = host_clock(CLOCK_MONOTONIC) + PATIENCE;
        while (host_clock(CLOCK_MONOTONIC) < stop)
            host_futex_wait(&ending.stage, 1, stop);
        take_over(tid);
    } else if (ending.tid == tid && !ending.again) {
        ending.again = 1;
        add("\n(the report ends here: making it failed at %lx)\n", ip);
        send(0);
    } else {
        host_exit_process(125);
    }
}

static void add_build_id(void)
{
    const u32 *note = (const u32 *)kimage_headers; /* name size, size, type, name, id */
    const u8 *id = (const u8 *)(note + 3) + ALIGN_UP(note[0], 4);
    add("build ");
    for (u32 i = 0; i < MIN(note[1], 20u); i++)
        add("%02x", id[i]);
    add("\n");
}

static void add_call(const char *what, u32 nr)
{
    add("%s%s", what, nr < SYSCALL_COUNT && syscall_names[nr] ? syscall_names[nr] : "?");
}

static void add_task(const struct carrier *c)
{
    const struct regs *u = (const struct regs *)(c->kstack_top - sizeof(*u));
    const struct task *t = c->task;
    u32 nr = (u32)u->nr;
    add("carrier %u, host thread %u\n", c->slot, c->tid);
    if (!t || t->tid == 1) {
        add("service thread of the first process\n");
        return;
    }
    if (u->nr != ~0ull) {
        add_call("system call ", nr);
        add(" (%u): %lx %lx %lx %lx %lx %lx, %s\n", nr, u->rdi, u->rsi, u->rdx, u->r10, u->r8, u->r9,
            u->kind == ENTRY_JUMP ? "by a jump" : "by a trap");
    } else {
        add("exception or kick, signal %d at address %lx\n", c->trap.sig, c->trap.addr);
    }
    add("guest at ip %lx sp %lx flags %lx\n", u->rip, u->rsp, u->flags);
    add("last calls, newest first:");
    for (u32 i = 0; i < 4; i++)
        add_call(" ", c->calls >> 16 * i & 0xffff);
    add("\n");
    add("task %u", t->tid); /* from here on pointers are followed that may be damaged */
    add(" of process %u, \"", t->tg->tgid);
    for (u32 i = 0; i < sizeof(t->comm) && t->comm[i]; i++)
        add(t->comm[i] < 0x20 || t->comm[i] >= 0x7f ? "\\x%02x" : "%c", (u8)t->comm[i]);
    add("\"\n");
}

static bool follows_call(u64 ip)
{
    const u8 *p = (const u8 *)ip;
    if (ip < KIMAGE_BASE + 0x1008 || ip > (u64)text_end)
        return false;
    return p[-5] == 0xe8 || (p[-2] == 0xff && (p[-1] & 0x38) == 0x10) || (p[-3] == 0xff && (p[-2] & 0x38) == 0x10) ||
           (p[-6] == 0xff && (p[-5] & 0x38) == 0x10);
}

static void add_trace(const struct carrier *c, u64 ip, u64 sp)
{
    u32 n = 0;
    add("backtrace (addr2line -f -i -e harena-kernel):\n");
    if (ip - KIMAGE_BASE < KIMAGE_SIZE)
        add("  %lx\n", ip);
    for (u64 p = ALIGN_UP(sp, 8); c->kstack_top - p <= SLOT_KSTACK_SIZE && p < c->kstack_top - sizeof(struct regs) && n < TRACE_MAX; p += 8)
        if (follows_call(*(u64 *)p)) {
            add("  %lx\n", *(u64 *)p);
            n++;
        }
}

static void add_registers(const struct regs *r)
{
    add("ip  %016lx sp  %016lx flags %lx\n", r->rip, r->rsp, r->flags);
    add("rax %016lx rbx %016lx rcx %016lx rdx %016lx\n", r->rax, r->rbx, r->rcx, r->rdx);
    add("rsi %016lx rdi %016lx rbp %016lx r8  %016lx\n", r->rsi, r->rdi, r->rbp, r->r8);
    add("r9  %016lx r10 %016lx r11 %016lx r12 %016lx\n", r->r9, r->r10, r->r11, r->r12);
    add("r13 %016lx r14 %016lx r15 %016lx\n", r->r13, r->r14, r->r15);
}

static noreturn_fn void finish(u64 ip, u64 sp)
{
    struct carrier *c = this_carrier();
    add_build_id();
    add_trace(c, ip, sp);
    add_task(c);
    send(0);
}

void panic(const char *f, ...)
{
    begin((u64)__builtin_return_address(0));
    va_list ap;
    va_start(ap, f);
    add("guest kernel panic: ");
    ending.size += (u32)fmt_vprint(report + ending.size, 512, f, ap);
    va_end(ap);
    add("\n");
    finish((u64)__builtin_return_address(0), (u64)__builtin_frame_address(0));
}

void panic_exception(const struct regs *r, int sig, u64 addr)
{
    begin(r->rip);
    add("guest kernel panic: signal %d in the kernel at address %lx\n", sig, addr);
    add_registers(r);
    finish(r->rip, r->rsp);
}

void give_up(int status, const char *f, ...)
{
    begin((u64)__builtin_return_address(0));
    va_list ap;
    va_start(ap, f);
    ending.size = MIN((u32)fmt_vprint(report, 512, f, ap), 511u);
    va_end(ap);
    send((u32)status);
}
