/* What ttys need to know of processes; implemented by proc. Unit tests implement it with a fake. */
#ifndef HARENA_TTY_SESSION_H
#define HARENA_TTY_SESSION_H

#include "base/types.h"

struct tty;

/* The controlling terminal of the caller's session, referenced (tty_put), or NULL. */
struct tty *session_tty(void);
/* Sets (or with NULL: clears) it; the session then owns one reference, taken here by the caller of this function before.
 * proc gives it back by tty_session_exit() when the leader exits. */
long session_set_tty(struct tty *t);
u32 current_pgrp(void);
u32 current_sid(void);
bool pgrp_orphaned(u32 pgid);
bool pgrp_in_session(u32 pgid, u32 sid); /* such a group exists there */
bool signal_ignored(int sig); /* blocked or ignored by the calling task */

#endif
