/* Basic types and compiler helpers. Freestanding: shared by guest kernel and host programs.
 *
 * Size means bytes, count means elements. Guest addresses are `uptr` (never dereferenced directly,
 * only through core/uaccess.h); kernel addresses are ordinary pointers. */
#ifndef HARENA_BASE_TYPES_H
#define HARENA_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef u64 uptr; /* an address in guest memory; hostile */

#define PAGE_SHIFT 12
#define PAGE_SIZE 4096ul
#define PAGE_MASK (~(PAGE_SIZE - 1))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define must_check __attribute__((warn_unused_result))
#define noreturn_fn __attribute__((noreturn))
#define always_inline_fn inline __attribute__((always_inline))
#define printf_like(f, a) __attribute__((format(printf, f, a)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define ALIGN_UP(x, a) (((u64)(x) + ((u64)(a) - 1)) & ~((u64)(a) - 1))
#define ALIGN_DOWN(x, a) ((u64)(x) & ~((u64)(a) - 1))
#define PAGE_UP(x) ALIGN_UP(x, PAGE_SIZE)
#define PAGE_DOWN(x) ALIGN_DOWN(x, PAGE_SIZE)
#define MIN(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define MAX(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })

#define atomic_load(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define atomic_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define atomic_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define atomic_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define atomic_add(p, v) __atomic_add_fetch((p), (v), __ATOMIC_ACQ_REL)
#define atomic_sub(p, v) __atomic_sub_fetch((p), (v), __ATOMIC_ACQ_REL)
#define atomic_or(p, v) __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define atomic_and(p, v) __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)
#define atomic_xchg(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define atomic_cas(p, old, new)                                                                                        \
    ({                                                                                                                 \
        __typeof__(*(p)) _o = (old);                                                                                   \
        __atomic_compare_exchange_n((p), &_o, (new), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                           \
    })
#define cpu_relax() __builtin_ia32_pause()

#endif
