/* Parsing of numbers; the guest's environment; --json. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool parse_size(const char *text, u64 *out)
{
    char *end;
    errno = 0;
    u64 v = strtoull(text, &end, 10);
    u32 shift = 0;
    if (!isdigit((unsigned char)text[0]) || errno)
        return false;
    switch (*end) {
    case 'k': case 'K': shift = 10; end++; break;
    case 'm': case 'M': shift = 20; end++; break;
    case 'g': case 'G': shift = 30; end++; break;
    case 't': case 'T': shift = 40; end++; break;
    }
    if (shift && *end == 'i')
        end++;
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || v > UINT64_MAX >> shift)
        return false;
    *out = v << shift;
    return v > 0;
}

bool parse_count(const char *text, u64 max, u64 *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return isdigit((unsigned char)text[0]) && !*end && !errno && *out && *out <= max;
}

int parse_signal(const char *text)
{
    u64 n;
    if (isdigit((unsigned char)text[0]))
        return parse_count(text, 64, &n) ? (int)n : 0;
    if (!strncasecmp(text, "SIG", 3))
        text += 3;
    for (int i = 1; i < 32; i++)
        if (sigabbrev_np(i) && !strcasecmp(sigabbrev_np(i), text))
            return i;
    return 0;
}

bool user_valid(const char *text)
{
    const char *colon = strchr(text, ':');
    size_t n = strlen(text);
    return n && n < 128 && colon != text && !(colon && (!colon[1] || strchr(colon + 1, ':'))) && !strpbrk(text, "\n/");
}

bool parse_duration_ms(const char *text, u32 *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || !(v > 0))
        return false;
    double unit = !*end || !strcmp(end, "s") ? 1000 : !strcmp(end, "ms") ? 1 : !strcmp(end, "m") ? 60e3 : !strcmp(end, "h") ? 3600e3 : 0;
    v *= unit;
    if (v < 1 || v > 4e9)
        return false;
    *out = v;
    return true;
}

bool parse_thousandths(const char *text, u32 *out)
{
    char *end;
    double v = strtod(text, &end);
    if (!isdigit((unsigned char)text[0]) || *end || !(v >= 0.01 && v <= HARENA_CPUS_MAX))
        return false;
    *out = v * 1000 + 0.001; /* 0.29 * 1000 is a little less than 290 */
    return true;
}

bool parse_cpu_list(const char *text, u64 set[HARENA_CPUS_MAX / 64])
{
    memset(set, 0, HARENA_CPUS_MAX / 8);
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*text))
            return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (first > last || last >= HARENA_CPUS_MAX)
            return false;
        for (unsigned long i = first; i <= last; i++)
            set[i / 64] |= 1ul << i % 64;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

bool environment_set(struct environment *e, const char *assignment)
{
    const char *eq = strchr(assignment, '=');
    size_t key = eq ? (size_t)(eq - assignment) : strlen(assignment);
    char *copy;
    if (!key)
        return false;
    if (eq) {
        copy = strdup(assignment);
    } else {
        const char *value = getenv(assignment);
        if (!value)
            return true;
        if (asprintf(&copy, "%s=%s", assignment, value) < 0)
            abort();
    }
    for (u32 i = 0; i < e->count; i++)
        if (!strncmp(e->list[i], assignment, key) && e->list[i][key] == '=') {
            e->list[i] = copy;
            return true;
        }
    if (e->count + 2 > e->room) {
        e->room = e->room ? e->room * 2 : 16;
        e->list = reallocarray(e->list, e->room, sizeof(*e->list));
        if (!e->list)
            abort();
    }
    e->list[e->count++] = copy;
    e->list[e->count] = NULL;
    return true;
}

bool environment_file(struct environment *e, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    bool good = true;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (good && (errno = 0, n = getline(&line, &room, f)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        good = !line[0] || line[0] == '#' || environment_set(e, line);
    }
    int error = good ? errno : 0;
    free(line);
    fclose(f);
    errno = error;
    return good && !error;
}

/* HOME is set by the sandbox: it follows from the user. */
void environment_defaults(struct environment *e, bool tty)
{
    environment_set(e, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    environment_set(e, "LANG=C.UTF-8");
    if (tty && getenv("TERM"))
        environment_set(e, "TERM");
    else if (tty)
        environment_set(e, "TERM=xterm");
}

int parse_json_option(const char *command, int argc, char **argv, bool *json)
{
    static const struct option long_options[] = { { "json", 0, 0, 'j' }, { 0 } };
    int c;
    *json = false;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", long_options, NULL)) >= 0) {
        if (c != 'j')
            return bad_option(command, argv, c);
        *json = true;
    }
    return 0;
}

int finish_json(json_t *all)
{
    int bad = json_dumpf(all, stdout, JSON_INDENT(2)) | (putchar('\n') == EOF) | fflush(stdout);
    json_decref(all);
    return bad ? fail(125, "cannot write: %m") : 0;
}
