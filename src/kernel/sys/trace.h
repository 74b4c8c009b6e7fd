/* The trace: a line of text for every system call of the sandbox, while somebody outside wants it (MAIL_TRACE).
 *
 * Off, it costs the call path one test of `trace_active`. On, lines collect in a buffer in K; whoever fills it and the service
 * thread send it in batches (WIRE_TRACE). Back-pressure: while the broker takes nothing, tasks wait for room, but never more
 * than a second in a row; then lines are dropped and counted, so that a reader who sleeps does not stop the sandbox.
 *
 * A line: TYPE TAB tid TAB ..., arguments escaped to printable ASCII (string.h's quoting), results as the call returned them:
 *     c  tid  name  arguments  result    result: a signed decimal number, or ? for a call that does not return
 *     s  tid  signal                     delivered to a handler, or deadly
 *     x  tid  wait status                the task has ended
 *     d  0    count                      lines lost */
#ifndef HARENA_SYS_TRACE_H
#define HARENA_SYS_TRACE_H

#include "base/types.h"
#include "abi/syscalls.h"

extern u32 trace_active;

/* Service thread. calls: a bit per number; NULL: off. */
long trace_set(const u64 *calls, u32 words);
u64 trace_service(u64 deadline); /* sends what waits; returns the earlier of deadline and its own */
void trace_reset(void); /* whoever wanted it is not there */
void trace_finish(void); /* before the sandbox ends */

/* Runs the call and tells. */
long trace_call(u32 nr, syscall_fn fn, const u64 args[6]);
void trace_exec(const char *path, const char *strings, u64 size, u32 argc, u32 envc); /* kernel memory */
void trace_event(char type, int number);

#endif
