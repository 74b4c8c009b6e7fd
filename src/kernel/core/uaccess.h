/* Guest memory. Every access goes through these; a fault gives -EFAULT (fixup table), never a kernel crash.
 * Guest memory may change at any moment: copy once, check the copy, use the copy. */
#ifndef HARENA_CORE_UACCESS_H
#define HARENA_CORE_UACCESS_H

#include "base/types.h"

must_check long copy_from_user(void *dst, uptr src, size_t size); /* 0 or -EFAULT */
must_check long copy_to_user(uptr dst, const void *src, size_t size);
must_check long clear_user(uptr dst, size_t size);
/* As much as could be copied before a fault (bytes). */
size_t copy_from_user_some(void *dst, uptr src, size_t size);
size_t copy_to_user_some(uptr dst, const void *src, size_t size);
/* Length without NUL; -EFAULT; -ENAMETOOLONG when no NUL in size bytes. */
must_check long strncpy_from_user(char *dst, uptr src, size_t size);
/* Atomic 32-bit operations on guest words (futex, robust lists). */
must_check long user_load32(uptr addr, u32 *val);
must_check long user_store32(uptr addr, u32 val);
must_check long user_cas32(uptr addr, u32 old, u32 new_val, u32 *seen); /* 0: done or not, see *seen */

#define get_user(var, addr) copy_from_user(&(var), (addr), sizeof(var))
#define put_user(val, addr)                                                                                            \
    ({                                                                                                                 \
        __typeof__(val) _v = (val);                                                                                    \
        copy_to_user((addr), &_v, sizeof(_v));                                                                         \
    })

#endif
