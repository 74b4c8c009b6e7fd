/* The outside's byte streams (standard input and output of a session): rings of R, see wire/broker.h. */
#ifndef HARENA_TTY_STREAM_H
#define HARENA_TTY_STREAM_H

#include "vfs/vfs.h"
#include "wire/broker.h"

/* Standard files of a new session: out[0..2], each referenced. With SPAWN_TTY all three are one new terminal. */
long stream_open_stdio(const struct mail_spawn *m, struct file *out[3]);

/* Init's service thread, after event_seq has changed: looks at all rings, wakes readers and writers, feeds terminals. */
void streams_ring(void); /* after a task's files were given back at its end */
void streams_event(void);

/* Snapshots: input that was taken from the outside and not yet read is kept in K (stash) while K is copied. After coming back all
 * rings are cut off (reset) but those of the main session, which begin anew (restored). */
long streams_stash(void);
void streams_unstash(void);
void streams_reset(void);
void streams_attached(const struct mail_attach *m);

/* MAIL_WINSIZE. -ESRCH: the session has no terminal. */
long console_winsize(u32 session, u16 rows, u16 cols, u16 xpixel, u16 ypixel);
/* The terminal of a session (referenced; NULL), now belonging to the caller's session and process group: boot, acting as the
 * new session's first process, passes it to session_set_tty(). */
struct tty *console_tty(u32 session);

#endif
