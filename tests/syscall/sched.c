/* Affinity, priorities, policies, getcpu, yield. */
#include "tap.h"
#include <sched.h>
#include <sys/resource.h>

TAP_MAIN
{
    cpu_set_t s, o;
    unsigned cpu = 9999, node = 9999;
    is(sched_getaffinity(0, sizeof(s), &s), 0, "sched_getaffinity");
    ok(CPU_COUNT(&s) >= 1, "at least one");
    err(syscall(SYS_sched_getaffinity, 0, 4, &s), EINVAL, "sched_getaffinity: small");
    err(sched_getaffinity(4000000, sizeof(s), &s), ESRCH, "sched_getaffinity: nobody");
    CPU_ZERO(&o);
    err(sched_setaffinity(0, sizeof(o), &o), EINVAL, "sched_setaffinity: empty");
    CPU_SET(0, &o);
    is(WEXITSTATUS(in_child(sched_setaffinity(0, sizeof(o), &o); sched_getaffinity(0, sizeof(s), &s); _exit(CPU_COUNT(&s) == 1 && CPU_ISSET(0, &s) ? 0 : 1))), 0,
       "sched_setaffinity reads back");
    is(WEXITSTATUS(in_child(sched_setaffinity(0, sizeof(o), &o); _exit(WEXITSTATUS(in_child(cpu_set_t x; sched_getaffinity(0, sizeof(x), &x); _exit(CPU_COUNT(&x))))))), 1,
       "and is inherited");
    err(sched_setaffinity(4000000, sizeof(o), &o), ESRCH, "sched_setaffinity: nobody");
    is(syscall(SYS_getcpu, &cpu, &node, NULL), 0, "getcpu");
    ok(cpu < 1024 && node < 64, "getcpu: values");
    ok(sched_getcpu() >= 0, "sched_getcpu");
    is(sched_yield(), 0, "sched_yield");
    is(syscall(SYS_ioprio_get, 1, 0), 0, "ioprio_get: none");
    err(syscall(SYS_ioprio_get, 9, 0), EINVAL, "ioprio_get: of what");
    is(sched_getscheduler(0), SCHED_OTHER, "sched_getscheduler");
    err(sched_getscheduler(-1), EINVAL, "sched_getscheduler: negative");
    err(sched_getscheduler(4000000), ESRCH, "sched_getscheduler: nobody");
    struct sched_param p = {0};
    is(sched_getparam(0, &p), 0, "sched_getparam");
    is(p.sched_priority, 0, "sched_getparam: 0");
    is(sched_setscheduler(0, SCHED_OTHER, &p), 0, "SCHED_OTHER");
    is(WEXITSTATUS(in_child(_exit(sched_setscheduler(0, SCHED_BATCH, &p) || sched_getscheduler(0) != SCHED_BATCH))), 0, "SCHED_BATCH");
    p.sched_priority = 5;
    err(sched_setscheduler(0, SCHED_OTHER, &p), EINVAL, "SCHED_OTHER with a priority");
    err(sched_setscheduler(0, 99, &p), EINVAL, "unknown policy");
    p.sched_priority = 200;
    err(sched_setscheduler(0, SCHED_FIFO, &p), EINVAL, "SCHED_FIFO: priority 200");
    is(sched_get_priority_max(SCHED_FIFO), 99, "priority max");
    is(sched_get_priority_min(SCHED_RR), 1, "priority min");
    err(sched_get_priority_max(99), EINVAL, "priority max: unknown");
    struct timespec t;
    is(sched_rr_get_interval(0, &t), 0, "sched_rr_get_interval");
    is(getpriority(PRIO_PROCESS, 0), 0, "getpriority");
    is(WEXITSTATUS(in_child(_exit(nice(5) != 5 || getpriority(PRIO_PROCESS, 0) != 5))), 0, "nice");
    is(WEXITSTATUS(in_child(setpriority(PRIO_PROCESS, 0, 100); _exit(getpriority(PRIO_PROCESS, 0)))), 19, "setpriority is cut to 19");
    is(WEXITSTATUS(in_child(nice(3); _exit(WEXITSTATUS(in_child(_exit(getpriority(PRIO_PROCESS, 0))))))), 3, "nice is inherited");
    err(getpriority(99, 0), EINVAL, "getpriority: which");
    err(getpriority(PRIO_PROCESS, 4000000), ESRCH, "getpriority: nobody");
    err(setpriority(PRIO_PROCESS, 4000000, 1), ESRCH, "setpriority: nobody");
    is(getpriority(PRIO_PGRP, 0), 0, "getpriority: group");
    is(getpriority(PRIO_USER, 0) <= 0, 1, "getpriority: user");
    is(syscall(SYS_ioprio_get, 1, 0), 0, "ioprio_get: none");
    is(WEXITSTATUS(in_child(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 3); _exit(syscall(SYS_ioprio_get, 1, 0) != (2 << 13 | 3)))), 0, "ioprio_set");
    is(WEXITSTATUS(in_child(syscall(SYS_ioprio_set, 1, 0, 3 << 13); _exit(WEXITSTATUS(in_child(_exit(syscall(SYS_ioprio_get, 1, 0) == 3 << 13)))))), 1, "is inherited");
    err(syscall(SYS_ioprio_set, 1, 0, 4 << 13), EINVAL, "ioprio_set: class");
    err(syscall(SYS_ioprio_set, 1, 0, 1), EINVAL, "ioprio_set: a level of no class");
    err(syscall(SYS_ioprio_set, 9, 0, 0), EINVAL, "ioprio_set: which");
    err(syscall(SYS_ioprio_get, 1, 4000000), ESRCH, "ioprio_get: nobody");
    if (getuid() == 0)
        is(WEXITSTATUS(in_child(setuid(65534); nice(5); _exit(setpriority(PRIO_PROCESS, 0, 0) ? errno : 0))), EACCES, "setpriority: up again needs a right");
    return done();
}
