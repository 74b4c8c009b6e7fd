/* Freestanding memory and string functions (the compiler may also call mem* on its own). In hosted
 * builds (host programs, unit tests) the C library provides the standard ones. */
#ifndef HARENA_BASE_STRING_H
#define HARENA_BASE_STRING_H

#include <stdarg.h>
#include "base/types.h"

void *memcpy(void *d, const void *s, size_t n);
void *memmove(void *d, const void *s, size_t n);
void *memset(void *d, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void *memchr(const void *s, int c, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
char *strrchr(const char *s, int c);

/* Copies with truncation; always terminated if size > 0. Returns strlen(src). */
size_t str_copy(char *dst, const char *src, size_t size);

/* printf subset: %d %u %x %o %s %c %p %% with l, ll, z, h, *, width, precision, 0, - and + flags. Returns
 * the length the whole output would have; terminates if size > 0. */
int fmt_print(char *buf, size_t size, const char *f, ...) printf_like(3, 4);
int fmt_vprint(char *buf, size_t size, const char *f, va_list ap);

/* Parses an unsigned number; *end receives the first unparsed character. */
u64 str_to_u64(const char *s, const char **end, int base);

#endif
