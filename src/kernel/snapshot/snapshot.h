/* Pausing, snapshots and coming back from one: what init's service thread does (snapshot.c), what the processes do (dump.c,
 * restore.c). How a snapshot is taken:
 *
 *   broker: MAIL_FREEZE (FREEZE_COPY)
 *   kernel: freezes all tasks (proc/freeze.h); what is cached of the outside is dropped; WIRE_FROZEN
 *   broker: copies K and D, answers
 *   kernel: one task of each address space forks its stub: the copy holds the frozen memory; the sandbox goes on
 *   copies: write their pages into the page file, WIRE_DUMPED, and end
 *
 * A sandbox that comes back: the broker makes new K and D with the same contents; init finds that it has booted before,
 * makes a stub for each address space, which maps its pages and starts a carrier for each task. They run when somebody attaches. */
#ifndef HARENA_SNAPSHOT_SNAPSHOT_H
#define HARENA_SNAPSHOT_SNAPSHOT_H

#include "base/types.h"
#include "wire/broker.h"

struct task;

/* Service thread. */
void snapshot_mail(const struct mail_freeze *m);
bool snapshot_service(u64 *deadline); /* each time round, until *deadline; false: frozen, timers and the like wait */
/* Init of a sandbox whose K comes from a snapshot: makes what belongs to host processes that are not there as new; then, with the first mail,
 * brings the tasks back, still frozen; with the second they run. In between a copy can be kept ready for as long as one likes. */
void snapshot_reset(void);
long snapshot_restore(const struct mail_restore *m);
void snapshot_attached(const struct mail_attach *m, u32 size);

/* machine.c: what tells the programs inside which machine they run on. */
void machine_begins(void);  /* a new sandbox */
bool machine_has_id(void);  /* before a snapshot: a name that is not there need not be looked for in each copy */
void machine_changed(bool has_id); /* one that was made from a snapshot */
void machine_env(const char *text, u32 size); /* what whoever made it says to it */

/* dump.c: as an order to a parked task of each address space (freeze_in_each_mm). */
long dump_fork(struct task *t);
void dump_begin(u32 number, u64 how, u32 count); /* how: WIRE_FROZEN's answer; count: of address spaces */
void dump_look(void); /* now and then: a copy that was killed is told to the broker */
void dump_reset(void);

/* restore.c */
long restore_processes(void);
void restore_levels(u32 levels);

#endif
