#ifndef HARENA_IPC_SYSV_SHM_H
#define HARENA_IPC_SYSV_SHM_H

#include <linux/shm.h>

#include "ipc/sysv.h"

long shm_get(s32 key, u64 size, u32 flags);
long shm_attach(s32 id, u64 addr, u32 flags); /* address */
long shm_detach(u64 addr);
long shm_control(s32 id, int cmd, uptr arg);
void shm_sweep(void); /* frees removed segments that nobody maps any more */

#endif
