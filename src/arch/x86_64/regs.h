/* The guest's registers as saved on the kernel stack, and the carrier: offsets are known to entry.S. */
#ifndef HARENA_ARCH_REGS_H
#define HARENA_ARCH_REGS_H

#define REGS_RAX 80
#define REGS_RIP 128
#define REGS_SIZE 160

#define CARRIER_KSTACK 0
#define CARRIER_USER_RSP 8
#define CARRIER_ENTRY 24 /* trampolines jump through %gs:24 */
#define CARRIER_EXIT_RIP 32
#define CARRIER_TASK 40
#define TASK_WORK_OFFSET 0

#ifndef __ASSEMBLER__
#include "base/layout.h"
#include "base/types.h"

enum entry_kind { ENTRY_JUMP = 0, ENTRY_TRAP = 1, ENTRY_EVENT = 2 };

struct regs {
    u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
    u64 nr; /* system call number; ~0 outside one */
    u64 rip, flags, rsp;
    u64 kind; /* enum entry_kind */
};
_Static_assert(sizeof(struct regs) == REGS_SIZE, "entry.S");
_Static_assert(offsetof(struct regs, rip) == REGS_RIP && offsetof(struct regs, rax) == REGS_RAX, "entry.S");

struct mutex;

#define CARRIER_WAKES 8

/* What the host told about an exception in guest code. */
struct trap_info {
    int sig, code;
    u64 addr, trapno, error;
};

/* A host thread of a stub: lives in the last page of its slot (see layout of a slot in carrier.h). Private memory. */
struct carrier {
    u64 kstack_top;
    u64 user_rsp;
    struct carrier *self;
    u64 entry;
    u64 exit_rip;
    struct task *task;
    u32 tid;   /* host tid in the sandbox's pid namespace */
    u32 alive; /* CLONE_CHILD_CLEARTID: zero when the host thread has gone */
    u32 slot;
    u32 pad;
    struct { /* struct robust_list_head of the host ABI */
        void *next;
        long futex_offset;
        void *pending;
    } robust;
    void *none_held; /* robust.next when no lock is held */
    struct trap_info trap;
    u64 fault_page; /* the last access that was tried again, and mm->changes then: mm/fault.c */
    u32 fault_changes;
    u32 *wakes[CARRIER_WAKES]; /* sleepers to wake when the last mutex is released: see mutex.h */
    u32 wake_count;
    u64 calls; /* numbers of the last four calls for a report, newest in the low 16 bits */
};
_Static_assert(offsetof(struct carrier, task) == CARRIER_TASK, "entry.S");
_Static_assert(offsetof(struct carrier, exit_rip) == CARRIER_EXIT_RIP, "entry.S");

/* A slot: [guard 4K][alternate stack 16K][guard 4K][kernel stack 36K][carrier 4K] */
#define SLOT_ALTSTACK 0x1000ul
#define SLOT_ALTSTACK_SIZE 0x4000ul
#define SLOT_KSTACK 0x6000ul
#define SLOT_KSTACK_SIZE 0x9000ul
#define SLOT_CARRIER 0xf000ul

static inline u64 carrier_slot_base(u32 slot) { return CARRIER_BASE + (u64)slot * CARRIER_SIZE; }
static inline struct carrier *carrier_at(u32 slot) { return (struct carrier *)(carrier_slot_base(slot) + SLOT_CARRIER); }

#ifndef HARENA_FAKE_HOST
static inline struct carrier *this_carrier(void)
{
    struct carrier *c;
    __asm__("mov %%gs:16,%0" : "=r"(c)); /* not volatile: the same for a whole kernel activation */
    return c;
}
#else
struct carrier *this_carrier(void);
#endif

void robust_begin(struct carrier *c); /* core/mutex.c: first thing of a host thread, c->tid is set */
#endif
#endif
