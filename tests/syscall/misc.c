/* uname, sysinfo, getrandom, sysconf, hostname, times, sync, and calls that do not exist. */
#include "tap.h"
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/syslog.h>
#include <sys/uio.h>
#include <sys/vfs.h>

TAP_MAIN
{
    struct utsname u;
    is(uname(&u), 0, "uname");
    is_str(u.sysname, "Linux", "uname: system");
    is_str(u.machine, "x86_64", "uname: machine");
    ok(atoi(u.release) >= 5, "uname: release");
    err(uname((void *)8), EFAULT, "uname: bad pointer");
    char h[65];
    is(gethostname(h, sizeof(h)), 0, "gethostname");
    is_str(h, u.nodename, "the same as uname's");
    err(syscall(SYS_sethostname, "x", -1), EINVAL, "sethostname: negative");
    err(syscall(SYS_sethostname, "x", 100), EINVAL, "sethostname: long");
    struct sysinfo s;
    is(sysinfo(&s), 0, "sysinfo");
    ok(s.uptime > 0 && s.totalram > 0 && s.freeram <= s.totalram && s.procs > 0 && s.mem_unit > 0, "sysinfo: values");
    err(sysinfo((void *)8), EFAULT, "sysinfo: bad pointer");
    unsigned char a[64] = {0}, b[64] = {0};
    is(getrandom(a, 64, 0), 64, "getrandom");
    is(getrandom(b, 64, GRND_NONBLOCK), 64, "GRND_NONBLOCK");
    ok(memcmp(a, b, 64) != 0, "getrandom: different");
    is(getrandom(a, 64, GRND_RANDOM), 64, "GRND_RANDOM");
    is(getrandom(a, 0, 0), 0, "getrandom: nothing");
    err(getrandom(a, 1, 0x80), EINVAL, "getrandom: flags");
    err(getrandom((void *)8, 1, 0), EFAULT, "getrandom: bad pointer");
    char *big = malloc(1 << 20);
    is(getrandom(big, 1 << 20, 0), 1 << 20, "getrandom: a megabyte");
    is(sysconf(_SC_PAGESIZE), 4096, "_SC_PAGESIZE");
    is(sysconf(_SC_CLK_TCK), 100, "_SC_CLK_TCK");
    ok(sysconf(_SC_NPROCESSORS_ONLN) >= 1 && sysconf(_SC_NPROCESSORS_CONF) >= 1, "processors");
    ok(sysconf(_SC_PHYS_PAGES) > 1000 && sysconf(_SC_AVPHYS_PAGES) > 0, "pages");
    ok(sysconf(_SC_OPEN_MAX) >= 20, "_SC_OPEN_MAX");
    is(sysconf(_SC_ARG_MAX), 2097152, "_SC_ARG_MAX");
    is(pathconf(".", _PC_NAME_MAX), 255, "_PC_NAME_MAX");
    is(pathconf(".", _PC_PIPE_BUF), 4096, "_PC_PIPE_BUF");
    is(personality(0xffffffff), 0, "personality");
    sync();
    ok(true, "sync");
    static const int absent[] = {174, 177, 178, 180, 181, 183, 185, 205, 211, 214, 236};
    for (unsigned i = 0; i < COUNT(absent); i++)
        err(syscall(absent[i]), ENOSYS, "call %d does not exist", absent[i]);
    err(syscall(400), ENOSYS, "call 400 does not exist");
    err(syscall(1000), ENOSYS, "call 1000 does not exist");
    err(syscall(-1), ENOSYS, "call -1 does not exist");
    err(syscall(0x40000000 | 39), ENOSYS, "an x32 call does not exist");
    struct rusage r;
    is(getrusage(RUSAGE_SELF, &r), 0, "getrusage");
    err(getrusage(RUSAGE_SELF, (void *)8), EFAULT, "getrusage: bad pointer");
    double l[3];
    is(getloadavg(l, 3), 3, "getloadavg");
    is(syscall(SYS_gettid), getpid(), "gettid");
    unsigned long fs = 0;
    is(syscall(SYS_arch_prctl, 0x1003, &fs), 0, "ARCH_GET_FS");
    ok(fs != 0, "ARCH_GET_FS: value");
    err(syscall(SYS_arch_prctl, 0x9999, 0), EINVAL, "arch_prctl: unknown");
    err(syscall(SYS_arch_prctl, 0x1002, -1l), EPERM, "ARCH_SET_FS: not canonical");
    char from[] = "0123456789", to[12] = {0};
    struct iovec lv[2] = {{to, 3}, {to + 5, 4}}, rv[1] = {{from, 10}};
    is(process_vm_readv(getpid(), lv, 2, rv, 1, 0), 7, "process_vm_readv");
    ok(!memcmp(to, "012\0\0003456", 9), "process_vm_readv: data");
    is(process_vm_writev(getpid(), rv, 1, lv, 1, 0), 3, "process_vm_writev");
    err(process_vm_readv(getpid(), lv, 2, rv, 1, 1), EINVAL, "process_vm_readv: flags");
    err(process_vm_readv(4000000, lv, 2, rv, 1, 0), ESRCH, "process_vm_readv: nobody");
    rv[0].iov_base = (void *)8;
    err(process_vm_readv(getpid(), lv, 2, rv, 1, 0), EFAULT, "process_vm_readv: bad address");
    int bits = 0, rnd = open("/dev/urandom", O_RDWR);
    is(ioctl(rnd, RNDGETENTCNT, &bits), 0, "RNDGETENTCNT");
    is(bits, 256, "RNDGETENTCNT: value");
    err(ioctl(rnd, 0x5299, &bits), EINVAL, "an unknown ioctl");
    close(rnd);
    int tsc = 0;
    is(prctl(PR_GET_TSC, &tsc), 0, "PR_GET_TSC");
    is(tsc, PR_TSC_ENABLE, "PR_GET_TSC: value");
    is(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0, "PR_SET_TSC");
    is(personality(0xffffffff), 0, "personality");
    is(WEXITSTATUS(in_child(personality(ADDR_NO_RANDOMIZE); _exit(WEXITSTATUS(in_child(_exit(personality(0xffffffff) == ADDR_NO_RANDOMIZE)))))), 1,
       "personality: inherited");
    long v;
    is(syscall(SYS_time, &v), v, "time");
    is(getpagesize(), 4096, "getpagesize");
    ok(getppid() >= 0, "getppid");
    err(syscall(SYS_reboot, 0, 0, 0, 0), EINVAL, "reboot: bad magic");
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(setuid(65534); _exit(syscall(SYS_sethostname, "x", 1) ? errno : 0))), EPERM, "sethostname: no permission");
    return done();
}
