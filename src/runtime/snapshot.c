/* Pausing, snapshots and sandboxes made from them; the broker's side is broker/snapshot.c. The files a snapshot is copied into are
 * memfds here: K and D are written by the broker, pages by copies of the guest's processes until the broker seals that file. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/layout.h"

void harena_parts_free(struct harena_parts *p)
{
    if (!p)
        return;
    if (p->kernel >= 0)
        close(p->kernel);
    if (p->data >= 0)
        close(p->data);
    for (u32 i = 0; i < p->levels; i++)
        if (p->pages[i] >= 0)
            close(p->pages[i]);
    for (u32 i = 0; i < p->mount_count; i++) {
        free((char *)p->mounts[i].target);
        free((char *)p->mounts[i].source);
        for (const char *const *a = p->mounts[i].allow; a && *a; a++)
            free((char *)*a);
        free((void *)p->mounts[i].allow);
    }
    free(p->mounts);
    free(p);
}

/* ---- orders to a running sandbox ---- */

static int order(int fd, u32 what, const int *fds, u32 fd_count, struct harena_error *err)
{
    struct ctl_number m = { .h.type = CTL_FREEZE, .number = what };
    return message_send(fd, &m, sizeof(m), fds, fd_count, err);
}

/* Answered with CTL_FROZEN. */
static int simple_order(const char *name, u32 what, struct harena_error *err)
{
    int fd = state_connect(name, err);
    if (fd < 0)
        return -1;
    u8 *answer = NULL;
    int r = order(fd, what, NULL, 0, err);
    if (!r && (r = message_receive(fd, &answer, NULL, err)) == 0) {
        harena_error_set(err, 125, "the sandbox ended");
        r = -1;
    } else if (r > 0) {
        r = message_error(answer, err);
    }
    free(answer);
    close(fd);
    return r;
}

int harena_pause(const char *name, struct harena_error *err) { return simple_order(name, FREEZE_STAY, err); }
int harena_resume(const char *name, struct harena_error *err) { return simple_order(name, FREEZE_THAW, err); }

/* ---- taking a snapshot ---- */

static int new_file(const char *name, u64 size, struct harena_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0)
        return fd;
    harena_error_set(err, 125, "cannot make memory for a snapshot: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The broker has done so as far as that is quick. Here the host looks at each page, and makes sure that nobody has mapped the file for
 * writing, whatever the guest's filter was good for. */
static int seal(int fd, struct harena_error *err)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
        return 0;
    harena_error_set(err, 125, "cannot seal a snapshot's memory: %s", strerror(errno));
    return -1;
}

static const char *next_string(const char **at, const char *end)
{
    const char *s = *at, *stop = s < end ? memchr(s, 0, end - s) : NULL;
    if (!stop)
        return NULL;
    *at = stop + 1;
    return strdup(s) ?: (abort(), NULL);
}

/* Up to an empty one. */
static const char *const *decode_names(const char **at, const char *end)
{
    const char **list = grow(NULL, sizeof(*list)), *name;
    u32 count = 0;
    while ((name = next_string(at, end)) && *name) {
        list = grow(list, (count + 2) * sizeof(*list));
        list[count++] = name;
    }
    free((char *)name);
    list[count] = NULL;
    return list;
}

/* The broker's records of its mounts: the broker is trusted, but they are read once only. */
static int decode_mounts(struct harena_parts *p, const u8 *at, const u8 *end, u32 count)
{
    p->mounts = grow(NULL, (count + 1) * sizeof(*p->mounts));
    memset(p->mounts, 0, (count + 1) * sizeof(*p->mounts));
    for (u32 i = 0; i < count; i++) {
        const struct ctl_mount *c = (const void *)at;
        if (end - at < (ptrdiff_t)sizeof(*c) || c->record_size < sizeof(*c) || c->record_size > end - at)
            return -1;
        const char *s = c->strings, *stop = (const char *)at + c->record_size;
        struct harena_mount *m = &p->mounts[p->mount_count++];
        *m = (struct harena_mount){ .kind = c->kind, .flags = c->flags, .size = c->size,
                                    .hide_secrets = c->ctl_flags & CTL_MOUNT_SECRETS, .system = c->ctl_flags & CTL_MOUNT_SYSTEM,
                                    .optional = c->ctl_flags & CTL_MOUNT_OPTIONAL };
        m->target = next_string(&s, stop);
        m->source = next_string(&s, stop);
        if (!m->target || !m->source)
            return -1;
        m->allow = c->ctl_flags & CTL_MOUNT_ALLOW ? decode_names(&s, stop) : NULL;
        at += c->record_size;
    }
    return 0;
}

static int take_answer(struct harena_parts *p, int fd, struct harena_error *err)
{
    u32 below = 0;
    for (;;) {
        u8 *answer = NULL;
        int fds[FDS_MAX];
        u32 count = 0;
        int r = message_receive_fds(fd, &answer, fds, FDS_MAX, &count, err);
        struct ctl_frozen *m = (void *)answer;
        if (r <= 0) {
            if (!r)
                harena_error_set(err, 125, "the sandbox ended while its snapshot was taken");
            return -1;
        }
        if (m->h.type == CTL_BASE) {
            int top = p->pages[p->levels - 1];
            for (u32 i = 0; i < count && below + 1 < HARENA_LEVELS; i++)
                p->pages[below++] = fds[i];
            p->pages[below] = top;
            p->levels = below + 1;
        }
        r = m->h.type == CTL_FROZEN && m->h.size >= sizeof(*m) ? 1 : message_error(answer, err);
        if (r > 0) {
            p->tty = m->tty;
            p->number = m->number;
            if (m->levels != below || decode_mounts(p, (u8 *)(m + 1), answer + m->h.size, m->mount_count)) {
                harena_error_set(err, 125, "the broker's answer makes no sense");
                r = -1;
            }
        }
        free(answer);
        if (r)
            return r < 0 ? -1 : 0;
    }
}

_Static_assert(HARENA_SNAPSHOT_STOP == CTL_FREEZE_STOP && HARENA_SNAPSHOT_BASE == CTL_FREEZE_BASE, "handed on as they are");

int harena_snapshot(const char *name, u32 how, struct harena_parts **out, struct harena_error *err)
{
    struct harena_parts *p = grow(NULL, sizeof(*p));
    memset(p, 0, sizeof(*p));
    p->levels = 1;
    p->kernel = new_file("K", K_SIZE, err);
    p->data = p->kernel < 0 ? -1 : new_file("D", D_SIZE, err);
    p->pages[0] = p->data < 0 ? -1 : new_file("pages", DUMP_SIZE, err);
    int fd = p->pages[0] < 0 ? -1 : state_connect(name, err);
    int fds[3] = { p->kernel, p->data, p->pages[0] };
    int r = fd < 0 ? -1 : order(fd, FREEZE_COPY | how, fds, 3, err);
    if (!r)
        r = take_answer(p, fd, err);
    if (fd >= 0)
        close(fd);
    if (!r)
        r = seal(p->pages[p->levels - 1], err);
    if (r < 0) {
        harena_parts_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

int harena_rebase(const char *name, const struct harena_base *base, struct harena_error *err)
{
    struct ctl_number m = { .h.type = CTL_REBASE, .number = base->number };
    u8 *answer = NULL;
    int fd = state_connect(name, err);
    if (fd < 0)
        return -1;
    int r = message_send(fd, &m, sizeof(m), base->pages, base->levels, err);
    if (r == 0)
        r = message_receive(fd, &answer, NULL, err); /* its end, or why not */
    if (r > 0)
        r = message_error(answer, err);
    free(answer);
    close(fd);
    return r < 0 ? -1 : state_set_origin(name, base->snapshot, base->snapshot_id, err);
}

/* ---- making a sandbox from parts ---- */

/* The message with a line for each variable, or NULL. */
static struct ctl_attach *attach_message(const struct harena_command *c, u32 *size, struct harena_error *err)
{
    size_t n = sizeof(struct ctl_attach) + 1;
    for (const char *const *v = c->env; v && *v; v++) {
        if (strchr(*v, '\n')) {
            harena_error_set(err, 125, "variable %.*s: a value with a line break cannot be given to a copy", (int)strcspn(*v, "="), *v);
            return NULL;
        }
        n += strlen(*v) + 1;
    }
    struct ctl_attach *m = malloc(n);
    if (!m) {
        harena_error_set(err, 125, "out of memory");
        return NULL;
    }
    *m = (struct ctl_attach){ .h.type = CTL_ATTACH, .flags = c->tty ? CTL_RUN_TTY : 0, .rows = c->rows, .cols = c->cols,
                              .xpixel = c->xpixel, .ypixel = c->ypixel };
    char *at = (char *)(m + 1);
    for (const char *const *v = c->env; v && *v; v++)
        at += sprintf(at, "%s\n", *v);
    *size = (u32)(at - (char *)m);
    return m;
}

int harena_attach(struct harena_sandbox *s, const struct harena_command *c, struct harena_error *err)
{
    u32 size;
    struct ctl_attach *m = attach_message(c, &size, err);
    if (!m)
        return -1;
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = stdio_fresh(c->fds[i], i > 0);
    int r = message_send(s->link, m, size, fds, 3, err);
    if (s->limits.timeout_ms)
        s->deadline_ms = now_ms() + s->limits.timeout_ms + GRACE_MS;
    if (r < 0 && errno == EPIPE) /* it has ended while it was kept: harena_next() tells why */
        r = 0;
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (r == 0 && s->state_fd >= 0) {
        static const char *const restored[] = { "(from a snapshot)", NULL };
        state_write_info(s, c->argv ?: restored);
        state_sweep(s->base_fd);
    }
    free(m);
    return r;
}
