/* errno numbers (the kernel's UAPI) and the kernel-internal restart codes. */
#ifndef HARENA_CORE_ERRNO_H
#define HARENA_CORE_ERRNO_H

#include <asm/errno.h>

#define ERESTARTSYS 512           /* restart if SA_RESTART or no handler, else EINTR */
#define ERESTARTNOINTR 513        /* always restart */
#define ERESTARTNOHAND 514        /* restart only if no handler ran, else EINTR */
#define ERESTART_RESTARTBLOCK 516 /* continue with restart_syscall (task->restart), else EINTR */

#endif
