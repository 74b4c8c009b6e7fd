/* The guest's own vDSO: a tiny ELF shared object linked at 0 and embedded, page aligned, into the kernel image's text. Each
 * function jumps to the host's, whose address the launch code put at K_BASE (host/vdso.h). Built with -shared -nostdlib. */
#include "host/vdso.h"

long __vdso_clock_gettime(int id, struct __kernel_timespec *ts);
long __vdso_gettimeofday(void *tv, void *tz);
long __vdso_time(void *t);
long __vdso_getcpu(u32 *cpu, u32 *node, void *unused);
long __vdso_clock_getres(int id, struct __kernel_timespec *ts);

long __vdso_clock_gettime(int id, struct __kernel_timespec *ts)
{
    long r = host_vdso_clock(id, ts);
    if (__builtin_expect(VDSO_DATA->since_start_ns != 0, 0) && !r && clock_since_start(id))
        clock_shift(ts, VDSO_DATA->since_start_ns);
    return r;
}
long __vdso_gettimeofday(void *tv, void *tz)
{
    struct __kernel_timespec ts;
    if (__builtin_expect(!VDSO_DATA->by_call, 1) || !tv || tz)
        return VDSO_DATA->gettimeofday(tv, tz);
    long r = VDSO_DATA->by_call(0, &ts);
    ((s64 *)tv)[0] = ts.tv_sec;
    ((s64 *)tv)[1] = ts.tv_nsec / 1000;
    return r;
}
long __vdso_time(void *t) { return VDSO_DATA->time(t); }
long __vdso_getcpu(u32 *cpu, u32 *node, void *unused) { return VDSO_DATA->getcpu(cpu, node, unused); }
long __vdso_clock_getres(int id, struct __kernel_timespec *ts) { return VDSO_DATA->clock_getres(id, ts); }
