/* The host's vDSO functions, found at launch. The pointers lie in the first bytes of K (struct vdso_data), where the
 * guest's own vDSO (arch/x86_64/gvdso.S) reads them too: a restored snapshot gets the new host's. */
#ifndef HARENA_HOST_VDSO_H
#define HARENA_HOST_VDSO_H

#include <linux/time_types.h>
#include "base/layout.h"
#include "base/types.h"

struct vdso_data { /* at K_BASE; offsets known to gvdso.S */
    long (*clock_gettime)(int clock_id, struct __kernel_timespec *ts);
    long (*gettimeofday)(void *tv, void *tz);
    long (*time)(void *t);
    long (*getcpu)(u32 *cpu, u32 *node, void *unused);
    long (*clock_getres)(int clock_id, struct __kernel_timespec *ts);
    /* Clocks that count from the start of the machine: how much is added to the host's, after a snapshot came back on another host or
     * after a restart of this one. */
    s64 since_start_ns;
};
#define VDSO_DATA ((struct vdso_data *)K_BASE)

static inline bool clock_since_start(int id) { return id == 1 || id == 4 || id == 6 || id == 7; } /* MONOTONIC*, BOOTTIME */

static inline void clock_shift(struct __kernel_timespec *ts, s64 ns)
{
    s64 sum = ts->tv_nsec + ns % 1000000000;
    ts->tv_sec += ns / 1000000000 + (sum >= 1000000000) - (sum < 0);
    ts->tv_nsec = sum + (sum < 0 ? 1000000000 : sum >= 1000000000 ? -1000000000 : 0);
}

static inline void host_vdso_clock(int id, struct __kernel_timespec *ts) { VDSO_DATA->clock_gettime(id, ts); }

#endif
