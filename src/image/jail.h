/* The jail of children that decode hostile input: limits, and a filter that allows memory management and exit. */
#ifndef HARENA_IMAGE_JAIL_H
#define HARENA_IMAGE_JAIL_H

#include "base/types.h"

/* Enters it, for good. Limits: bytes of address space, seconds of processor time. Descriptors are the caller's to close. */
bool jail_enter(u64 address_space, u32 seconds);

/* Waits for such a child. One that was taken over may sleep and use no time at all: it is killed when four times its seconds have passed.
 * Returns whether it ended by itself, with status 0. It ends with its parent, too. */
bool jail_await(int pid, u32 seconds);

#endif
