/* System calls of System V IPC. */
#include <linux/time_types.h>

#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/sysv_msg.h"
#include "ipc/sysv_sem.h"
#include "ipc/sysv_shm.h"
#include "sys/syscall.h"

#define OPS_MAX 500u
#define OPS_STACK 8
#define SEC 1000000000ull

#define CLOCK_MONO 1

SYSCALL3(semget, s32, key, s32, count, u32, flags) { return sem_get(key, count, flags); }
SYSCALL4(semctl, s32, id, u32, num, s32, cmd, u64, arg) { return sem_control(id, num, cmd & ~IPC_64, arg); }

static long semop_common(s32 id, uptr uops, u64 n, u64 deadline)
{
    struct sembuf small[OPS_STACK], *ops = small;

    if (n < 1 || id < 0)
        return -EINVAL;
    if (n > OPS_MAX)
        return -E2BIG;
    if (n > OPS_STACK && !(ops = kmalloc(n * sizeof(*ops))))
        return -ENOMEM;
    long r = copy_from_user(ops, uops, n * sizeof(*ops));
    if (!r)
        r = sem_op(id, ops, (u32)n, deadline);
    if (ops != small)
        kfree(ops);
    return r;
}

SYSCALL3(semop, s32, id, uptr, ops, u64, n) { return semop_common(id, ops, n, NO_DEADLINE); }

SYSCALL4(semtimedop, s32, id, uptr, ops, u64, n, uptr, timeout)
{
    struct __kernel_timespec t;

    if (!timeout)
        return semop_common(id, ops, n, NO_DEADLINE);
    if (get_user(t, timeout))
        return -EFAULT;
    if (t.tv_sec < 0 || (u64)t.tv_nsec >= SEC)
        return -EINVAL;
    u64 ns = (u64)t.tv_sec > NO_DEADLINE / SEC / 4 ? NO_DEADLINE : (u64)t.tv_sec * SEC + (u64)t.tv_nsec;
    return semop_common(id, ops, n, call_deadline(ns));
}

SYSCALL2(msgget, s32, key, u32, flags) { return msg_get(key, flags); }
SYSCALL4(msgsnd, s32, id, uptr, buf, u64, size, u32, flags) { return msg_send(id, buf, size, flags); }
SYSCALL5(msgrcv, s32, id, uptr, buf, u64, size, s64, type, u32, flags) { return msg_receive(id, buf, size, type, flags); }
SYSCALL3(msgctl, s32, id, s32, cmd, uptr, arg) { return msg_control(id, cmd & ~IPC_64, arg); }

SYSCALL3(shmget, s32, key, u64, size, u32, flags) { return shm_get(key, size, flags); }
SYSCALL3(shmat, s32, id, uptr, addr, u32, flags) { return shm_attach(id, addr, flags); }
SYSCALL1(shmdt, uptr, addr) { return shm_detach(addr); }
SYSCALL3(shmctl, s32, id, s32, cmd, uptr, arg) { return shm_control(id, cmd & ~IPC_64, arg); }
