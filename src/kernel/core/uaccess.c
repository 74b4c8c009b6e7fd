/* Guest memory access (uaccess.h) over the fixup routines of arch/x86_64/uaccess.S. A guest address is checked to lie below
 * GUEST_END first: the kernel's own segments are never read or written on a guest's behalf. */
#include "core/uaccess.h"
#include "base/layout.h"
#include "core/errno.h"
#include "arch/x86_64/uaccess.h"

static bool range_ok(uptr p, size_t size) { return size <= GUEST_END && p <= GUEST_END - size; }

size_t copy_from_user_some(void *dst, uptr src, size_t size)
{
    return range_ok(src, size) ? size - user_copy(dst, (void *)src, size) : 0;
}

size_t copy_to_user_some(uptr dst, const void *src, size_t size)
{
    return range_ok(dst, size) ? size - user_copy((void *)dst, src, size) : 0;
}

long copy_from_user(void *dst, uptr src, size_t size) { return copy_from_user_some(dst, src, size) == size ? 0 : -EFAULT; }
long copy_to_user(uptr dst, const void *src, size_t size) { return copy_to_user_some(dst, src, size) == size ? 0 : -EFAULT; }

long clear_user(uptr dst, size_t size)
{
    if (!range_ok(dst, size))
        return -EFAULT;
    return user_zero((void *)dst, size) ? -EFAULT : 0;
}

long strncpy_from_user(char *dst, uptr src, size_t size)
{
    size_t done = 0;
    while (done < size) {
        /* a chunk never crosses a page, so a fault behind the NUL does no harm */
        size_t n = MIN(size - done, PAGE_SIZE - ((src + done) & (PAGE_SIZE - 1)));
        n = MIN(n, (size_t)128);
        size_t got = copy_from_user_some(dst + done, src + done, n);
        for (size_t i = 0; i < got; i++)
            if (!dst[done + i])
                return (long)(done + i);
        if (got < n)
            return -EFAULT;
        done += n;
    }
    return -ENAMETOOLONG;
}

long user_load32(uptr addr, u32 *val) { return copy_from_user(val, addr, 4); }
long user_store32(uptr addr, u32 val) { return copy_to_user(addr, &val, 4); }

long user_cas32(uptr addr, u32 old, u32 new_val, u32 *seen)
{
    return range_ok(addr, 4) ? user_cas((u32 *)addr, old, new_val, seen) : -EFAULT;
}
