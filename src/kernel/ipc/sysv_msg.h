#ifndef HARENA_IPC_SYSV_MSG_H
#define HARENA_IPC_SYSV_MSG_H

#include <linux/msg.h>

#include "ipc/sysv.h"

long msg_get(s32 key, u32 flags);
long msg_send(s32 id, uptr buf, u64 size, u32 flags); /* buf: struct msgbuf */
long msg_receive(s32 id, uptr buf, u64 size, s64 type, u32 flags);
long msg_control(s32 id, int cmd, uptr arg);

#endif
