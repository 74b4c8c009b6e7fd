/* What the sandbox uses of its limits: as the host counts it, or else what the guest kernel knows itself. */
#ifndef HARENA_CORE_USAGE_H
#define HARENA_CORE_USAGE_H

#include "wire/broker.h"

#define MEMORY_DEFAULT (8ull << 30) /* shown when there is no limit */
#define NOFILE_MAX (boot_config()->files_max ? boot_config()->files_max : 65536u) /* hard limit of descriptors, fs.nr_open */

u64 memory_total(void);
u64 usage_memory(void); /* bytes, for meminfo and the like */
void usage_get(struct wire_usage *u); /* all fields known; cpu_ns ~0: nobody counts */

#endif
