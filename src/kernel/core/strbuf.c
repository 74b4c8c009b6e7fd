#include "core/strbuf.h"
#include "base/string.h"
#include "core/kmalloc.h"

static bool reserve(struct strbuf *sb, size_t more)
{
    if (sb->failed)
        return false;
    if (sb->len + more <= sb->cap)
        return true;
    size_t cap = MAX(sb->cap * 2, MAX(sb->len + more, (size_t)256));
    char *p = krealloc(sb->buf, sb->cap, cap);
    if (!p) {
        sb->failed = true;
        return false;
    }
    sb->buf = p;
    sb->cap = cap;
    return true;
}

void sb_write(struct strbuf *sb, const void *p, size_t size)
{
    if (!reserve(sb, size))
        return;
    memcpy(sb->buf + sb->len, p, size);
    sb->len += size;
}

void sb_printf(struct strbuf *sb, const char *f, ...)
{
    char tmp[256];
    va_list ap;
    va_start(ap, f);
    int n = fmt_vprint(tmp, sizeof(tmp), f, ap);
    va_end(ap);
    if ((size_t)n < sizeof(tmp)) {
        sb_write(sb, tmp, (size_t)n);
        return;
    }
    if (!reserve(sb, (size_t)n + 1))
        return;
    va_start(ap, f);
    fmt_vprint(sb->buf + sb->len, (size_t)n + 1, f, ap);
    va_end(ap);
    sb->len += (size_t)n;
}

void sb_free(struct strbuf *sb)
{
    kfree(sb->buf);
    *sb = (struct strbuf){0};
}
