/* The configuration as the broker gets it: what a sandbox is shown and may use, as one message (broker/control.h). */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

u32 block_add(struct block *b, const void *data, u32 size)
{
    if (b->size + size > b->room) {
        b->room = (b->size + size) * 2 + 4096;
        b->data = grow(b->data, b->room);
    }
    u32 at = b->size;
    if (data)
        memcpy(b->data + at, data, size);
    else
        memset(b->data + at, 0, size);
    b->size += size;
    return at;
}

u32 block_string(struct block *b, const char *s) { return block_add(b, s, strlen(s) + 1); }

static void add_mount(struct block *b, const struct harena_mount *m, u32 more_flags)
{
    u32 start = b->size;
    struct ctl_mount r = {
        .kind = m->kind, .flags = m->flags, .size = m->size,
        .ctl_flags = (m->allow ? CTL_MOUNT_ALLOW : 0) | (m->hide_secrets ? CTL_MOUNT_SECRETS : 0) |
                     (m->optional ? CTL_MOUNT_OPTIONAL : 0) | (m->system ? CTL_MOUNT_SYSTEM : 0) |
                     more_flags,
    };
    block_add(b, &r, sizeof(r));
    block_string(b, m->target);
    block_string(b, m->source ?: "");
    for (const char *const *a = m->allow; a && *a; a++)
        block_string(b, *a);
    block_string(b, "");
    block_add(b, NULL, -b->size & 7);
    ((struct ctl_mount *)(b->data + start))->record_size = b->size - start;
}

int send_config(struct harena_sandbox *s, const struct harena_config *c, int listener, struct harena_error *err)
{
    struct block b = { 0 };
    struct views_choice views;
    views_choose(s, c, &views);
    struct ctl_config head = {
        .h.type = CTL_CONFIG, .levels = c->parts ? c->parts->levels : 0, .memory_max = c->limits.memory, .pids_max = c->limits.pids,
        .timeout_ms = c->limits.timeout_ms, .mount_count = c->mount_count, .tmpfs_max = c->limits.files_memory,
        .output_max = c->limits.output, .cpu_time_ms = c->limits.cpu_time_ms, .cpus_milli = c->limits.cpus_milli,
        .files_max = c->limits.files,
        .flags = (c->verbose ? CTL_CONFIG_VERBOSE : 0) |
                 (!c->limits.memory || (s->held & CGROUP_MEMORY) ? CTL_CONFIG_CGROUP : 0) |
                 (s->held & CGROUP_PIDS ? CTL_CONFIG_CGROUP_PIDS : 0) |
                 (s->held & CGROUP_CPU ? CTL_CONFIG_CGROUP_CPU : 0) |
                 (listener >= 0 ? CTL_CONFIG_NAMED : 0) |
                 (c->require_layers ? CTL_CONFIG_REQUIRE_LAYERS : 0) | (c->no_patch ? CTL_CONFIG_NO_PATCH : 0),
    };
    snprintf(head.name, sizeof(head.name), "%s", s->name);
    snprintf(head.hostname, sizeof(head.hostname), "%s", c->hostname ?: s->name);
    block_add(&b, &head, sizeof(head));
    memcpy(((struct ctl_config *)b.data)->cpuset, c->limits.cpuset, sizeof(c->limits.cpuset));
    u32 views_off[2];
    const char *memory_group = cgroup_with(s, CGROUP_MEMORY), *time_group = cgroup_with(s, CGROUP_CPU_TIME);
    u32 memory_off = memory_group ? block_string(&b, memory_group) : 0, time_off = time_group ? block_string(&b, time_group) : 0;
    for (int i = 0; i < 2; i++)
        views_off[i] = views.path[i][0] ? block_string(&b, views.path[i]) : 0;
    block_add(&b, NULL, -b.size & 7);
    u32 hidden_off = block_add(&b, c->hidden ? (const void *)c->hidden : "", c->hidden_count * 16);
    u32 mounts_off = b.size;
    for (u32 i = 0; i < c->mount_count; i++)
        add_mount(&b, &c->mounts[i], views_mount_flags(s, &c->mounts[i]));
    ((struct ctl_config *)b.data)->mounts_off = mounts_off;
    ((struct ctl_config *)b.data)->memory_group_off = memory_off;
    ((struct ctl_config *)b.data)->time_group_off = time_off;
    ((struct ctl_config *)b.data)->hidden_off = hidden_off;
    ((struct ctl_config *)b.data)->hidden_count = c->hidden_count;
    ((struct ctl_config *)b.data)->views_off = views_off[0];
    ((struct ctl_config *)b.data)->views_own_off = views_off[1];
    int fds[FDS_MAX] = { listener, s->state_fd };
    u32 count = listener >= 0 ? 2 : 0;
    if (c->parts) {
        fds[count++] = c->parts->kernel;
        fds[count++] = c->parts->data;
        memcpy(fds + count, c->parts->pages, c->parts->levels * sizeof(int));
        count += c->parts->levels;
    }
    int r = message_send(s->link, b.data, b.size, fds, count, err);
    free(b.data);
    return r;
}
