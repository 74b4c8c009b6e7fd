/* eventfd and timerfd files. */
#ifndef HARENA_IPC_EVENTFD_H
#define HARENA_IPC_EVENTFD_H

#include "vfs/vfs.h"

struct file *eventfd_new(u32 count, u32 flags); /* EFD_SEMAPHORE, O_NONBLOCK */

#endif
