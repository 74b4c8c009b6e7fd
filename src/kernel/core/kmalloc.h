/* Kernel memory in K (metadata) - sizes in bytes, results 16-byte aligned, zeroed by the k*z* forms.
 * NULL when K is exhausted: callers return -ENOMEM. Frames of D (file contents) are in core/dframe.h. */
#ifndef HARENA_CORE_KMALLOC_H
#define HARENA_CORE_KMALLOC_H

#include "base/types.h"

must_check void *kmalloc(size_t size);
must_check void *kzalloc(size_t size);
must_check void *krealloc(void *p, size_t old_size, size_t new_size);
void kfree(void *p); /* NULL allowed */
must_check char *kstrdup(const char *s);
must_check char *kmemdup_str(const char *s, size_t size); /* adds a NUL */

u64 kmalloc_used(void); /* bytes, for /proc/meminfo and limits */
void kmalloc_set_limit(u64 bytes);

#define knew(type) ((type *)kzalloc(sizeof(type)))

#endif
