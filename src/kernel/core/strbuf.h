/* Growing text buffer in K, for /proc files and reports. Errors are sticky: sb_failed() once at the end. */
#ifndef HARENA_CORE_STRBUF_H
#define HARENA_CORE_STRBUF_H

#include "base/types.h"

struct strbuf {
    char *buf;
    size_t len, cap;
    bool failed; /* out of memory */
};

void sb_printf(struct strbuf *sb, const char *f, ...) printf_like(2, 3);
void sb_write(struct strbuf *sb, const void *p, size_t size);
void sb_free(struct strbuf *sb);

#endif
