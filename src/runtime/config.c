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

static u32 config_flags(const struct harena_sandbox *s, const struct harena_config *c, bool named)
{
    return (c->verbose ? CTL_CONFIG_VERBOSE : 0) | (!c->limits.memory || (s->held & CGROUP_MEMORY) ? CTL_CONFIG_CGROUP : 0) |
           (s->held & CGROUP_PIDS ? CTL_CONFIG_CGROUP_PIDS : 0) | (s->held & CGROUP_CPU ? CTL_CONFIG_CGROUP_CPU : 0) |
           (named ? CTL_CONFIG_NAMED : 0) | (c->require_layers ? CTL_CONFIG_REQUIRE_LAYERS : 0) |
           (c->no_patch ? CTL_CONFIG_NO_PATCH : 0);
}

static u32 optional_string(struct block *b, const char *s) { return s && s[0] ? block_string(b, s) : 0; }

/* The head, and what it points to behind it. */
static void config_block(struct block *b, struct harena_sandbox *s, const struct harena_config *c, bool named)
{
    struct ctl_config head = {
        .h.type = CTL_CONFIG, .levels = c->parts ? c->parts->levels : 0, .memory_max = c->limits.memory, .pids_max = c->limits.pids,
        .timeout_ms = c->limits.timeout_ms, .mount_count = c->mount_count, .tmpfs_max = c->limits.files_memory,
        .output_max = c->limits.output, .cpu_time_ms = c->limits.cpu_time_ms, .cpus_milli = c->limits.cpus_milli,
        .files_max = c->limits.files, .hidden_count = c->hidden_count, .flags = config_flags(s, c, named),
    };
    struct views_choice views;
    views_choose(s, c, &views);
    snprintf(head.name, sizeof(head.name), "%s", s->name);
    snprintf(head.hostname, sizeof(head.hostname), "%s", c->hostname ?: s->name);
    memcpy(head.cpuset, c->limits.cpuset, sizeof(head.cpuset));
    block_add(b, NULL, sizeof(head));
    head.memory_group_off = optional_string(b, cgroup_with(s, CGROUP_MEMORY));
    head.time_group_off = optional_string(b, cgroup_with(s, CGROUP_CPU_TIME));
    head.views_off = optional_string(b, views.path[0]);
    head.views_own_off = optional_string(b, views.path[1]);
    block_add(b, NULL, -b->size & 7);
    head.hidden_off = block_add(b, c->hidden ? (const void *)c->hidden : "", c->hidden_count * 16);
    head.mounts_off = b->size;
    for (u32 i = 0; i < c->mount_count; i++)
        add_mount(b, &c->mounts[i], views_mount_flags(s, &c->mounts[i]));
    memcpy(b->data, &head, sizeof(head));
}

int send_config(struct harena_sandbox *s, const struct harena_config *c, int listener, struct harena_error *err)
{
    struct block b = { 0 };
    config_block(&b, s, c, listener >= 0);
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
