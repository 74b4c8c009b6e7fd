/* Init: boots the kernel, takes the broker's mail, and serves timers, streams and spare stubs for ever. */
#ifndef HARENA_BOOT_BOOT_H
#define HARENA_BOOT_BOOT_H

#include "base/types.h"

void boot_session_ended(u32 session, int status); /* the first process of a session has ended */
void boot_count_unknown(u32 nr);
void hosts_name(void); /* hosts.c: after the mounts, and when the host name is another */

#endif
