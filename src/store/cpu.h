/* What of the processor guest programs may have seen and use: a snapshot is restored only where all of it is there. */
#ifndef HARENA_STORE_CPU_H
#define HARENA_STORE_CPU_H

#include "base/types.h"

struct cpu {
    u64 xcr0;       /* states that the host's kernel has turned on */
    u32 xsave_size; /* bytes of an xsave area with all of them */
    u64 features;   /* bit n: cpu_feature_name(n) */
};

void cpu_here(struct cpu *c);
const char *cpu_feature_name(u32 n); /* NULL: beyond the last */

#endif
