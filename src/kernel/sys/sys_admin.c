/* What only the machine's administrator may do: checked as far as Linux checks before the permission, then refused. Nobody inside a
 * sandbox has that right. */
#include "base/string.h"
#include "core/uaccess.h"
#include "sys/syscall.h"

#define REBOOT_MAGIC1 0xfee1deadu

SYSCALL4(reboot, u32, magic1, u32, magic2, u32, cmd, uptr, arg)
{
    (void)cmd, (void)arg;
    bool known = magic2 == 672274793 || magic2 == 85072278 || magic2 == 369367448 || magic2 == 537993216;
    return magic1 != REBOOT_MAGIC1 || !known ? -EINVAL : -EPERM;
}

SYSCALL0(swapon) { return -EPERM; }
SYSCALL0(swapoff) { return -EPERM; }
SYSCALL0(acct) { return -EPERM; }
SYSCALL0(init_module) { return -EPERM; }
SYSCALL0(finit_module) { return -EPERM; }
SYSCALL0(delete_module) { return -EPERM; }
SYSCALL0(kexec_load) { return -EPERM; }
SYSCALL0(vhangup) { return -EPERM; }
SYSCALL0(iopl) { return -EPERM; }
SYSCALL0(ioperm) { return -EPERM; }
SYSCALL0(setns) { return -EPERM; }
SYSCALL0(syslog) { return -EPERM; }
SYSCALL2(setdomainname, uptr, name, int, len) { return name && len >= 0 && len <= 64 ? -EPERM : -EINVAL; }

struct timex { /* struct __kernel_timex: 208 bytes */
    u32 modes, pad;
    s64 offset, freq, maxerror, esterror;
    int status, pad2;
    s64 constant, precision, tolerance, sec, usec, tick;
    u8 rest[208 - 96];
};
_Static_assert(sizeof(struct timex) == 208, "struct __kernel_timex");

/* The clock is the host's: it can be asked about, not set. What is told: not synchronised (TIME_ERROR). */
static long adjust(uptr buf)
{
    struct timex t;
    if (copy_from_user(&t, buf, sizeof(t)))
        return -EFAULT;
    if (t.modes)
        return -EPERM;
    memset(&t, 0, sizeof(t));
    t.status = 0x40; /* STA_UNSYNC */
    t.maxerror = t.esterror = 16000000;
    t.precision = 1;
    t.tolerance = 32768000;
    t.tick = 10000;
    return copy_to_user(buf, &t, sizeof(t)) ? -EFAULT : 5;
}

SYSCALL1(adjtimex, uptr, buf) { return adjust(buf); }
SYSCALL2(clock_adjtime, int, clock, uptr, buf) { return clock ? clock > 0 && clock < 12 ? -EOPNOTSUPP : -EINVAL : adjust(buf); }
