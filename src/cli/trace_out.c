/* Lines of the guest's trace (kernel/sys/trace.h) for people, in the manner of strace. They come from the guest: whatever does not
 * have their form is shown escaped behind a '?', and nothing but printable ASCII is ever written. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern const char *const trace_names[]; /* generated from abi/syscalls.tbl */
extern const unsigned trace_name_count;

bool trace_calls(const char *names, u64 calls[8])
{
    memset(calls, names ? 0 : 0xff, 64);
    if (names && !strncmp(names, "trace=", 6)) /* as strace spells it */
        names += 6;
    while (names && *names) {
        size_t n = strcspn(names, ",");
        unsigned i = 0;
        while (i < trace_name_count && !(trace_names[i] && strlen(trace_names[i]) == n && !strncmp(trace_names[i], names, n)))
            i++;
        if (i == trace_name_count) {
            fail(125, "-e: '%.*s' is no system call of x86-64", (int)n, names);
            return false;
        }
        calls[i / 64] |= 1ull << (i % 64);
        names += n + (names[n] == ',');
    }
    return true;
}

static void put_plain(FILE *f, const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (s[i] >= 0x20 && s[i] < 0x7f)
            putc(s[i], f);
        else
            fprintf(f, "\\x%02x", (unsigned char)s[i]);
}

static bool number(const char *s, size_t size, long long *out)
{
    char copy[24], *end;
    if (!size || size >= sizeof(copy) || !(isdigit((unsigned char)s[0]) || (s[0] == '-' && size > 1)))
        return false;
    memcpy(copy, s, size);
    copy[size] = 0;
    errno = 0;
    *out = strtoll(copy, &end, 10);
    return !*end && !errno;
}

static const char *restart_name(long long r)
{
    static const char *const names[] = { "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", NULL, "ERESTART_RESTARTBLOCK" };
    return r <= -512 && r >= -516 ? names[-512 - r] : NULL;
}

static void put_result(FILE *f, long long r)
{
    if (restart_name(r))
        fprintf(f, " = ? %s (to be restarted)\n", restart_name(r));
    else if (r < 0 && r >= -4095 && strerrorname_np(-r))
        fprintf(f, " = -1 %s (%s)\n", strerrorname_np(-r), strerror(-r));
    else if (r >= 0 && r < 0x100000000)
        fprintf(f, " = %lld\n", r);
    else
        fprintf(f, " = 0x%llx\n", (unsigned long long)r);
}

struct fields {
    const char *at[5];
    size_t size[5];
    int count;
};

static struct fields cut(const char *line, size_t size)
{
    struct fields f = { .count = 0 };
    while (f.count < 5) {
        const char *tab = f.count < 4 ? memchr(line, '\t', size) : NULL;
        size_t n = tab ? (size_t)(tab - line) : size;
        f.at[f.count] = line;
        f.size[f.count++] = n;
        if (!tab)
            break;
        line += n + 1;
        size -= n + 1;
    }
    return f;
}

static bool name_valid(const char *s, size_t n)
{
    if (!n || n > 40)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return false;
    return true;
}

static bool show_call(FILE *out, const struct fields *f, long long pid)
{
    long long r = 0;
    bool returns = f->count == 5 && !(f->size[4] == 1 && f->at[4][0] == '?');
    if (f->count != 5 || !name_valid(f->at[2], f->size[2]) || (returns && !number(f->at[4], f->size[4], &r)))
        return false;
    fprintf(out, "[pid %5lld] %.*s(", pid, (int)f->size[2], f->at[2]);
    put_plain(out, f->at[3], f->size[3]);
    putc(')', out);
    if (returns)
        put_result(out, r);
    else
        fprintf(out, " = ?\n");
    return true;
}

static bool show_line(FILE *out, const char *line, size_t size)
{
    struct fields f = cut(line, size);
    long long pid, n;
    if (f.count < 3 || f.size[0] != 1 || !number(f.at[1], f.size[1], &pid) || pid < 0)
        return false;
    if (f.at[0][0] == 'c')
        return show_call(out, &f, pid);
    if (f.count != 3 || !number(f.at[2], f.size[2], &n))
        return false;
    switch (f.at[0][0]) {
    case 's':
        if (n < 1 || n > 64)
            return false;
        fprintf(out, "[pid %5lld] --- signal %lld (%s%s) ---\n", pid, n, sigabbrev_np(n) ? "SIG" : "", sigabbrev_np(n) ?: "real-time");
        return true;
    case 'x':
        if (WIFSIGNALED(n) && sigabbrev_np(WTERMSIG(n)))
            fprintf(out, "[pid %5lld] +++ killed by SIG%s +++\n", pid, sigabbrev_np(WTERMSIG(n)));
        else
            fprintf(out, "[pid %5lld] +++ exited with %d +++\n", pid, (int)n >> 8 & 0xff);
        return true;
    case 'd':
        fprintf(out, "harena: %lld lines are missing here: they came faster than they could be written\n", n);
        return true;
    }
    return false;
}

void trace_out_text(struct trace_out *t, const char *text, size_t size)
{
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t n = end ? (size_t)(end - text) : size, room = sizeof(t->line) - t->size;
        if (n > room)
            t->skip = true;
        memcpy(t->line + t->size, text, n < room ? n : room);
        t->size += n < room ? n : room;
        if (end) {
            if (t->skip || !show_line(t->file, t->line, t->size)) {
                fprintf(t->file, "? ");
                put_plain(t->file, t->line, t->size);
                putc('\n', t->file);
            }
            t->size = 0;
            t->skip = false;
            n++;
        }
        text += n;
        size -= n;
    }
}
