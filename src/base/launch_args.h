/* What the broker's child tells the kernel image at its entry: a pointer in rdi (broker/enter.c -> launch/start.S). */
#ifndef HARENA_BASE_LAUNCH_ARGS_H
#define HARENA_BASE_LAUNCH_ARGS_H

#include "base/types.h"

#define LAUNCH_PAGES_MAX 8

struct launch_args {
    u64 vdso;   /* where the host put its vDSO */
    u64 hwcap2; /* AT_HWCAP2 of the host */
    u32 ask_kicks; /* no signal of a guest process goes past the broker */
    u32 page_count;
    struct {
        u64 start, end;
    } pages[LAUNCH_PAGES_MAX]; /* the host's mappings that stay: vDSO and its data, in order of address */
};

#endif
