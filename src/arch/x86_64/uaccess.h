#ifndef HARENA_ARCH_UACCESS_H
#define HARENA_ARCH_UACCESS_H

#include "base/types.h"

u64 user_copy(void *dst, const void *src, u64 size); /* bytes left after a fault, else 0 */
u64 user_zero(void *dst, u64 size);
long user_cas(u32 *p, u32 old, u32 new_val, u32 *seen);
u32 xsave_size(void); /* of the area, with all components the host has enabled */
u64 xsave_xcr0(void); /* these components; after xsave_size() */
long user_xsave(void *area);
long user_xrstor(const void *area);

/* Where to go on after a fault at ip inside these routines; 0: none. */
u64 user_fixup(u64 ip);

#endif
