/* The guest's process table as text, taken apart strictly: a line that does not have the form of wire/broker.h's struct mail_procs
 * is left out, what is not printable ASCII is replaced (the broker has done so already). */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES_MAX 65536

/* A number that ends with a tab. */
static bool take_number(char **p, u64 max, u64 *out)
{
    char *end;
    if (!isdigit((unsigned char)**p))
        return false;
    errno = 0;
    *out = strtoull(*p, &end, 10);
    if (errno || *end != '\t' || *out > max)
        return false;
    *p = end + 1;
    return true;
}

static bool parse_process(char *line, struct harena_process *out)
{
    u64 n[8];
    char state;
    for (int i = 0; i < 4; i++)
        if (!take_number(&line, UINT32_MAX, &n[i]))
            return false;
    state = *line;
    if (!state || !strchr("RSTZ", state) || line[1] != '\t')
        return false;
    line += 2;
    if (!take_number(&line, UINT32_MAX, &n[4]) || !take_number(&line, UINT64_MAX, &n[5]) ||
        !take_number(&line, UINT64_MAX, &n[6]) || !take_number(&line, UINT32_MAX, &n[7]))
        return false;
    *out = (struct harena_process){ .pid = n[0], .ppid = n[1], .pgid = n[2], .uid = n[3], .state = state, .threads = n[4],
                                    .mapped_kib = n[5], .age = n[6], .session = n[7], .command = strdup(line) };
    for (char *c = out->command; c && *c; c++)
        if (*c < 0x20 || *c >= 0x7f)
            *c = '?';
    return out->command != NULL;
}

void harena_processes_free(struct harena_process *list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i].command);
    free(list);
}

/* Cuts `text` up. Returns the count. */
int process_lines(char *text, struct harena_process **out)
{
    struct harena_process *list = NULL;
    int count = 0, room = 0;
    for (char *save, *line = strtok_r(text, "\n", &save); line && count < PROCESSES_MAX; line = strtok_r(NULL, "\n", &save)) {
        if (count == room) {
            room = room ? room * 2 : 32;
            list = reallocarray(list, room, sizeof(*list));
            if (!list)
                abort();
        }
        count += parse_process(line, &list[count]);
    }
    *out = list;
    return count;
}
