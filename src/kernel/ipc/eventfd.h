/* eventfd and timerfd files. */
#ifndef HARENA_IPC_EVENTFD_H
#define HARENA_IPC_EVENTFD_H

#include "vfs/vfs.h"

/* eventfd2(2) flags; linux/eventfd.h is not in every set of headers. */
#define EFD_SEMAPHORE 1
#define EFD_CLOEXEC 02000000
#define EFD_NONBLOCK 04000

struct file *eventfd_new(u32 count, u32 flags); /* EFD_SEMAPHORE, O_NONBLOCK */

#endif
