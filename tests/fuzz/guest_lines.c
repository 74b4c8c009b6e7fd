/* Fuzz target: what a guest says of itself - trace, process table - on its way to a user's terminal. Nothing but printable ASCII
 * and line ends may come out; calls shown must have the form of one. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "runtime/internal.h"

const char *const trace_names[] = {"read", "write"};
const unsigned trace_name_count = 2;

int fail(int status, const char *f, ...)
{
    (void)f;
    return status;
}

static void check_plain(const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (s[i] != '\n' && (s[i] < 0x20 || s[i] >= 0x7f))
            abort();
}

static void processes(const u8 *data, size_t size)
{
    struct harena_process *list = NULL;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    int n = process_lines(text, &list);
    for (int i = 0; i < n; i++) {
        check_plain(list[i].command, strlen(list[i].command));
        if (strchr(list[i].command, '\n') || !strchr("RSTZ", list[i].state) || !list[i].state)
            abort();
    }
    harena_processes_free(list, n);
    free(text);
}

/* In pieces, as it arrives; the first byte says how they are cut. */
static void trace(const u8 *data, size_t size)
{
    static struct trace_out t;
    char *out = NULL;
    size_t out_size = 0, step = size ? data[0] % 64 + 1 : 1;
    memset(&t, 0, sizeof(t));
    t.file = open_memstream(&out, &out_size);
    for (size_t at = 0; at < size; at += step)
        trace_out_text(&t, (const char *)data + at, size - at < step ? size - at : step);
    fclose(t.file);
    check_plain(out, out_size);
    free(out);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    processes(data, size);
    trace(data, size);
    return 0;
}
