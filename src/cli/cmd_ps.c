/* harena ps: running sandboxes, or the processes of one. What comes from a guest is plain ASCII already (runtime/watch.c);
 * command lines and directories of our own are escaped here: whoever started the sandbox may have been handed them. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void print_plain(const char *s, int width)
{
    int n = 0;
    for (; *s; s++)
        if (*s >= 0x20 && *s < 0x7f)
            n += printf("%c", *s);
        else
            n += printf("\\x%02x", (unsigned char)*s);
    printf("%*s", n < width ? width - n : 0, "");
}

static const char *age_text(s64 seconds, char out[24])
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 120)
        snprintf(out, 24, "%llds", (long long)seconds);
    else if (seconds < 7200)
        snprintf(out, 24, "%lldm", (long long)seconds / 60);
    else if (seconds < 172800)
        snprintf(out, 24, "%lldh", (long long)seconds / 3600);
    else
        snprintf(out, 24, "%lldd", (long long)seconds / 86400);
    return out;
}

static const char *size_text(u64 bytes, char out[24])
{
    if (bytes < 10ul << 20)
        snprintf(out, 24, "%lluK", (unsigned long long)bytes >> 10);
    else if (bytes < 10ul << 30)
        snprintf(out, 24, "%lluM", (unsigned long long)bytes >> 20);
    else
        snprintf(out, 24, "%lluG", (unsigned long long)bytes >> 30);
    return out;
}

static json_t *text(const char *s) { return json_string(s) ?: json_string("?"); }

static json_t *or_null(u64 value, double unit)
{
    return !value ? json_null() : unit > 1 ? json_real(value / unit) : json_integer(value);
}

static json_t *limits_json(const struct harena_limits *l)
{
    json_t *cpus = json_array();
    for (u32 i = 0; i < HARENA_CPUS_MAX; i++)
        if (l->cpuset[i / 64] >> i % 64 & 1)
            json_array_append_new(cpus, json_integer(i));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "memory", or_null(l->memory, 1), "tmpfs", or_null(l->files_memory, 1),
                     "output", or_null(l->output, 1), "cpu_time", or_null(l->cpu_time_ms, 1000), "timeout", or_null(l->timeout_ms, 1000),
                     "pids", or_null(l->pids, 1), "cpus", or_null(l->cpus_milli, 1000), "files", or_null(l->files, 1), "cpuset", cpus);
}

static int show_sandboxes(bool json)
{
    struct harena_error err = { 0 };
    struct harena_info *list = NULL;
    int n = harena_list(&list, &err);
    if (n < 0)
        return fail_error(&err);
    s64 now = time(NULL);
    if (json) {
        json_t *all = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:b, s:I, s:I, s:o, s:o, s:I, s:I, s:f, s:I, s:I, s:o, s:o}", "name", list[i].name, "id",
                list[i].id, "pid", list[i].pid, "paused", list[i].paused, "created", (json_int_t)list[i].created, "age", (json_int_t)(now - list[i].created),
                "root", text(list[i].root), "command", text(list[i].command), "memory", (json_int_t)list[i].usage.memory, "memory_peak",
                (json_int_t)list[i].usage.memory_peak, "cpu_time", list[i].usage.cpu_ns / 1e9, "oom_kills",
                (json_int_t)list[i].usage.oom_kills, "host_processes", (json_int_t)list[i].usage.host_processes, "processes",
                list[i].processes < 0 ? json_null() : json_integer(list[i].processes), "limits", limits_json(&list[i].limits)));
        free(list);
        return finish_json(all);
    }
    printf("%-18s %7s %-13s %5s %-7s %7s %5s  %-18s %s\n", "NAME", "PID", "ID", "AGE", "STATE", "MEMORY", "PROCS", "ROOT", "COMMAND");
    for (int i = 0; i < n; i++) {
        char age[24], size[24], procs[16] = "-";
        if (list[i].processes >= 0)
            snprintf(procs, sizeof(procs), "%d", list[i].processes);
        printf("%-18s %7d %-13s %5s %-7s %7s %5s  ", list[i].name, list[i].pid, list[i].id, age_text(now - list[i].created, age),
               list[i].paused ? "paused" : "runs", size_text(list[i].usage.memory, size), procs);
        print_plain(list[i].root, 18);
        putchar(' ');
        print_plain(list[i].command, 0);
        putchar('\n');
    }
    free(list);
    return fflush(stdout) ? fail(125, "cannot write: %m") : 0;
}

static int show_processes(const char *name, bool json)
{
    struct harena_error err = { 0 };
    struct harena_process *p;
    int n = harena_processes(name, 5000, &p, &err);
    if (n < 0)
        return fail_error(&err);
    if (json) {
        json_t *all = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(all, json_pack("{s:i, s:i, s:i, s:I, s:s#, s:i, s:I, s:I, s:o}", "pid", (int)p[i].pid, "ppid",
                (int)p[i].ppid, "pgid", (int)p[i].pgid, "uid", (json_int_t)p[i].uid, "state", &p[i].state, 1, "threads",
                (int)p[i].threads, "mapped", (json_int_t)p[i].mapped_kib * 1024, "age", (json_int_t)p[i].age, "command",
                text(p[i].command)));
        harena_processes_free(p, n);
        return finish_json(all);
    }
    printf("%7s %7s %7s %5s %4s %8s %5s  %s\n", "PID", "PPID", "UID", "STATE", "THR", "MAPPED", "AGE", "COMMAND");
    for (int i = 0; i < n; i++) {
        char age[24], size[24];
        printf("%7u %7u %7u %5c %4u %8s %5s  ", p[i].pid, p[i].ppid, p[i].uid, p[i].state, p[i].threads,
               size_text(p[i].mapped_kib << 10, size), age_text(p[i].age, age));
        print_plain(p[i].command, 0);
        putchar('\n');
    }
    harena_processes_free(p, n);
    return fflush(stdout) ? fail(125, "cannot write: %m") : 0;
}

int cmd_ps(int argc, char **argv)
{
    bool json;
    int status = parse_json_option("ps", argc, argv, &json);
    if (status)
        return status;
    if (optind + 1 < argc)
        return usage("ps");
    return optind < argc ? show_processes(argv[optind], json) : show_sandboxes(json);
}
