/* Freezing: every task stops at the call boundary, so that the kernel's state is whole and can be copied.
 *
 * freeze_begin() sets WORK_FREEZE on every task and kicks it. Sleeps unwind: wait_sleep() returns -EINTR with core.froze set, the
 * call ends, and the exit path parks the task (freeze_park), before any signal is delivered. When all are parked the sandbox is
 * frozen: no lock is held, nobody is inside a call, each task's registers lie in K (struct frozen). When it is thawed a
 * call that froze goes on where it was, unseen by the program (freeze_call_goes_on): it is made again, with its first deadline
 * (call_deadline), and what a write had done already counts.
 *
 * All but freeze_park() is called by init's service thread, which is not frozen itself and holds no lock. */
#ifndef HARENA_PROC_FREEZE_H
#define HARENA_PROC_FREEZE_H

#include "arch/x86_64/regs.h"
#include "base/types.h"

struct task;

struct frozen { /* what else is in the registers of a parked task's carrier */
    struct regs regs;
    u64 fs_base;
    u32 xsave_size;
    u8 room[]; /* the XSAVE area begins at a multiple of 64 */
};

struct frozen *frozen_new(void); /* NULL: no memory */
void frozen_fill(struct frozen *f, const struct regs *r); /* from the calling task */
u8 *frozen_xsave(struct frozen *f);

void freeze_begin(void);
bool freeze_begun(void);
void freeze_kick(const struct task *t);
bool freeze_complete(void); /* all tasks are parked, each with its registers in K; to be asked again soon */
void freeze_tell(void); /* into the log: who is not parked */
void freeze_end(void);
/* A carrier whose task is gone still changes the kernel's state for a moment: that has to be over, too. */
void freeze_carrier_leaves(void);
void freeze_carrier_stays(void); /* it does not after all */
void freeze_carrier_left(void);  /* it changes nothing any more */
void freeze_reset(void); /* coming back: carriers of the original are no matter here */
void freeze_park(struct regs *r); /* exit_work: WORK_FREEZE is set */

/* One parked task of each address space calls fn; returns when all have, with the first error. fn runs on that task's carrier. */
long freeze_in_each_mm(long (*fn)(struct task *t));

/* snapshot/dump.c, for trap.c: kernel code got SIGBUS there. */
void dump_fault(u64 addr);

/* exit_work: the call that r tells about was cut short by freezing: it was made again, or went on, r tells the result. */
void freeze_call_goes_on(struct task *t, struct regs *r);
bool freeze_cut_short(const struct task *t, const struct regs *r);
/* A signal comes in between: the call is over with the parts it has done, or is made from its start; its deadline is not the handler's. */
void freeze_call_interrupted(struct task *t, struct regs *r);

/* trap.c: runs an interrupted call again. signal.c: is v one of the kernel's own codes for that? */
void syscall_again(struct regs *r);
bool is_restart(long v);

#endif
