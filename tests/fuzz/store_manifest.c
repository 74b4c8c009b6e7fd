/* The parsers of what a stranger's snapshot brings: manifest, index, list of symbols. Input: manifest text; behind a line "----"
 * an index; behind a second one symbols. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/extents.h"
#include "store/kernel.h"

/* of src/runtime, which is not linked */
void harena_error_set(struct harena_error *err, int status, const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vsnprintf(err->text, sizeof(err->text), f, ap);
    va_end(ap);
    err->status = status;
}

static const char separator[] = "\n----\n";

static void check(const struct manifest *m)
{
    char error[MANIFEST_ERROR];
    const char *why;
    size_t size;
    if (!manifest_check(m, error))
        abort();
    char *again = manifest_encode(m, &size, &why); /* what was understood can be written, and is the same */
    if (!again)
        return; /* longer with our indentation than the format allows */
    struct manifest *copy = malloc(sizeof(*copy));
    if (!manifest_decode(again, size, copy, error) || copy->mount_count != m->mount_count || copy->segment_count != m->segment_count ||
        memcmp(copy->segments, m->segments, sizeof(m->segments)) != 0 || copy->features != m->features || copy->tty != m->tty)
        abort();
    free(copy);
    free(again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct manifest m;
    char error[MANIFEST_ERROR];
    const char *text = (const char *)data, *end = text + size;
    const char *index = memmem(text, size, separator, 6), *symbols = index ? memmem(index + 6, (size_t)(end - index) - 6, separator, 6) : NULL;
    bool good = manifest_decode(text, index ? (size_t)(index - text) : size, &m, error);
    if (good)
        check(&m);
    if (good && index) {
        struct extents x = { 0 };
        struct harena_error err = { 0 };
        size_t n = (size_t)((symbols ?: end) - index) - 6;
        if (index_decode((const u8 *)index + 6, n, &m, &x, &err) == 0)
            for (u32 i = 0; i < m.segment_count; i++)
                for (u32 e = 0; e < m.segments[i].count; e++)
                    if (x.list[m.segments[i].first + e].offset + x.list[m.segments[i].first + e].size > m.segments[i].size)
                        abort();
        extents_free(&x);
    }
    for (const char *p = symbols ? symbols + 6 : text; p && p < end;) {
        struct symbol_line l;
        bool ok;
        p = symbol_line(p, end, &l, &ok);
        if (!ok)
            break;
    }
    return 0;
}
