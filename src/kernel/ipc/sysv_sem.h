#ifndef HARENA_IPC_SYSV_SEM_H
#define HARENA_IPC_SYSV_SEM_H

#include <linux/sem.h>

#include "ipc/sysv.h"

long sem_get(s32 key, s32 count, u32 flags);
long sem_op(s32 id, const struct sembuf *ops, u32 n, u64 deadline); /* -EAGAIN at the deadline */
long sem_control(s32 id, u32 num, int cmd, u64 arg); /* arg: union semun */

#endif
