/* The host's vDSO functions, found at launch. The pointers lie in the first bytes of K (struct vdso_data), where the
 * guest's own vDSO (vdso/gvdso.c) reads them too: a restored snapshot gets the new host's.
 *
 * A clock source that programs cannot read (HPET, ACPI timer, Xen; the host may change to one at any time, when it finds the processor's
 * counters unstable) makes the host's vDSO do a system call. The filter traps that, since it comes from outside the image: arch's
 * trap_handler answers it and sets by_call, and from then on the calls are made here. */
#ifndef HARENA_HOST_VDSO_H
#define HARENA_HOST_VDSO_H

#include <linux/time_types.h>
#include "base/layout.h"
#include "base/types.h"

struct vdso_data { /* at K_BASE; read by the guest's vDSO, too */
    long (*clock_gettime)(int clock_id, struct __kernel_timespec *ts);
    long (*gettimeofday)(void *tv, void *tz);
    long (*time)(void *t);
    long (*getcpu)(u32 *cpu, u32 *node, void *unused);
    long (*clock_getres)(int clock_id, struct __kernel_timespec *ts);
    /* Clocks that count from the start of the machine: how much is added to the host's, after a snapshot came back on another host or
     * after a restart of this one. */
    s64 since_start_ns;
    long (*by_call)(int clock_id, struct __kernel_timespec *ts); /* host_clock_call, when the vDSO cannot read the clock source */
};
#define VDSO_DATA ((struct vdso_data *)K_BASE)

static inline bool clock_since_start(int id) { return id == 1 || id == 4 || id == 6 || id == 7; } /* MONOTONIC*, BOOTTIME */

static inline void clock_shift(struct __kernel_timespec *ts, s64 ns)
{
    s64 sum = ts->tv_nsec + ns % 1000000000;
    ts->tv_sec += ns / 1000000000 + (sum >= 1000000000) - (sum < 0);
    ts->tv_nsec = sum + (sum < 0 ? 1000000000 : sum >= 1000000000 ? -1000000000 : 0);
}

/* Read by a call when the vDSO cannot, as bits: REALTIME, MONOTONIC, MONOTONIC_RAW, BOOTTIME. It always can read the coarse ones; others, and
 * processor time, are for the guest's kernel to answer. */
#define CLOCK_CALLS 0x93

static inline bool clock_has_call(int id) { return (u32)id < 8 && CLOCK_CALLS >> id & 1; }

long host_clock_call(int clock_id, struct __kernel_timespec *ts); /* not for the guest's vDSO, which lies elsewhere */

static inline long host_vdso_clock(int id, struct __kernel_timespec *ts)
{
    return __builtin_expect(VDSO_DATA->by_call != NULL, 0) && clock_has_call(id) ? VDSO_DATA->by_call(id, ts) : VDSO_DATA->clock_gettime(id, ts);
}

#endif
