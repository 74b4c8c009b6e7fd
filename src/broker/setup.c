/* What the broker prepares before the first guest instruction: limits, memory objects, mounts, boot mail; and how it drops
 * what it no longer needs. Order matters: everything privileged is opened first, then setup_drop(), then the filter. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

u64 monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

int setup_rlimits(void)
{
    struct rlimit core = { 0, 0 }, files, file_size;
    setrlimit(RLIMIT_CORE, &core);
    /* the segments are larger than what users limit files to */
    if (!getrlimit(RLIMIT_FSIZE, &file_size) && file_size.rlim_cur != RLIM_INFINITY &&
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }) < 0) {
        file_size.rlim_cur = file_size.rlim_max;
        setrlimit(RLIMIT_FSIZE, &file_size);
    }
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = MIN(files.rlim_max, (rlim_t)BROKER_HANDLE_MAX * 2);
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return 0;
}

/* A segment whose size nobody can change. */
static int segment(const char *name, u64 size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int setup_segments(struct broker *b)
{
    b->k_fd = segment("K", K_SIZE);
    b->d_fd = b->k_fd < 0 ? b->k_fd : segment("D", D_SIZE);
    b->r_fd = b->d_fd < 0 ? b->d_fd : segment("R", R_SIZE);
    return MIN(b->r_fd, 0);
}

/* What the segments hold when the sandbox begins. */
int setup_memory(struct broker *b)
{
    int r = b->base_count ? snapshot_load(b) : 0;
    if (r < 0)
        return r;
    b->event_page = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, b->r_fd, R_CONTROL_BROKER);
    return b->event_page == MAP_FAILED ? -errno : 0;
}

/* ---- mounts and the boot mail ---- */

static int open_image(struct broker *b, const char *path, u32 *index, u64 *size)
{
    if (b->image_count == FD_IMAGE_MAX)
        return -E2BIG;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -ENODEV;
    }
    *index = b->image_count++;
    b->image_fd[*index] = fd;
    *size = st.st_size;
    return 0;
}

/* Opens one mount's source and appends its record for the guest. Returns the record's size, 0 when skipped. */
static int add_mount(struct broker *b, struct ctl_mount *cm, struct mail_mount *out, u32 room)
{
    char *end = (char *)cm + cm->record_size, *target = cm->strings;
    char *source = memchr(target, 0, end - target);
    char *after = source ? memchr(source + 1, 0, end - source - 1) : NULL;
    if (!after || target[0] != '/')
        return -EINVAL;
    source++;
    u32 target_size = source - target, text_size = cm->kind == MOUNT_SYMLINK ? after + 1 - source : 0;
    u32 record = ALIGN_UP(sizeof(*out) + target_size + text_size, 8);
    if (record > room)
        return -E2BIG;
    u32 index = 0;
    u64 size = cm->size;
    int r = 0;
    if (cm->kind == MOUNT_IMAGE) {
        r = open_image(b, source, &index, &size);
    } else if (cm->kind == MOUNT_HOSTFS) {
        r = hostfs_mount(&b->fs, cm, source, cm->ctl_flags & CTL_MOUNT_ALLOW ? after + 1 : NULL);
        index = r;
    }
    if (r < 0) {
        if ((cm->ctl_flags & CTL_MOUNT_OPTIONAL) && (r == -ENOENT || r == -EMEDIUMTYPE || r == -ENODEV))
            return 0;
        link_error(b, 125, "cannot mount %s: %s", source,
                   r == -EMEDIUMTYPE ? "its file system does not hold ordinary files" :
                   r == -ENODEV      ? "neither a file nor a directory" :
                   r == -E2BIG       ? "too many mounts" : strerror(-r));
        return r;
    }
    memset(out, 0, record);
    *out = (struct mail_mount){ .record_size = record, .kind = cm->kind, .flags = cm->flags, .index = index, .size = size };
    memcpy(out->target, target, target_size);
    memcpy(out->target + target_size, source, text_size);
    return record;
}

/* Opens what the configuration names and describes it in the zeroed m, which is `head` bytes long. Returns the mail's size. */
static int fill_boot_mail(struct broker *b, struct mail_boot *m, u32 head)
{
    struct ctl_config *c = b->config;
    u32 at = head, in = c->mounts_off;
    if (c->hidden_count) {
        if (c->hidden_off % 8 || c->hidden_off > c->h.total || c->hidden_count > (c->h.total - c->hidden_off) / 16)
            return -EINVAL;
        b->fs.hidden = (const u64 *)((u8 *)c + c->hidden_off);
        b->fs.hidden_count = c->hidden_count;
    }
    for (u32 i = 0; i < c->mount_count; i++) {
        struct ctl_mount *cm = (void *)((u8 *)c + in);
        if (in < sizeof(*c) || in > c->h.total || c->h.total - in < sizeof(*cm) || cm->record_size < sizeof(*cm) + 2 ||
            cm->record_size > c->h.total - in || cm->record_size % 8)
            return -EINVAL;
        int r = add_mount(b, cm, (void *)((u8 *)m + at), MAIL_SIZE - at);
        if (r < 0)
            return r;
        m->mount_count += r > 0;
        at += r;
        in += cm->record_size;
    }
    m->mounts_off = head;
    m->h = (struct mail_header){ .type = MAIL_BOOT, .size = at };
    m->wire_version = WIRE_VERSION;
    m->flags = (c->flags & CTL_CONFIG_VERBOSE ? BOOT_VERBOSE : 0) | (c->flags & CTL_CONFIG_NO_PATCH ? BOOT_NO_PATCH : 0) |
               (b->limits.time_fd >= 0 ? BOOT_CPU_COUNT : 0);
    m->memory_max = c->memory_max;
    m->pids_max = c->pids_max;
    m->cpu_count = b->limits.cpus;
    m->cpus_milli = c->cpus_milli;
    m->files_max = c->files_max;
    m->tmpfs_max = c->tmpfs_max;
    getrandom(m->seed, sizeof(m->seed), 0);
    snprintf(m->hostname, sizeof(m->hostname), "%.64s", c->hostname);
    views_init(b, c);
    return at;
}

/* Opens what the configuration names and writes the boot mail into R. Errors are reported on the link. */
int setup_boot_mail(struct broker *b)
{
    struct mail_restore *m = calloc(1, MAIL_SIZE);
    if (!m)
        return -ENOMEM;
    int size = fill_boot_mail(b, &m->boot, b->base_count ? sizeof(*m) : sizeof(m->boot));
    if (size >= 0) {
        u32 head[2] = { 1, size };
        if (b->base_count) {
            m->boot.h.type = MAIL_RESTORE;
            m->levels = b->base_count;
        }
        pwrite(b->r_fd, m, size, R_MAIL);
        pwrite(b->r_fd, head, 8, R_CONTROL_BROKER + offsetof(struct r_control_broker, mail_seq));
        b->mail_seq = 1;
        b->unattached = b->base_count;
    }
    free(m);
    return MIN(size, 0);
}

/* ---- dropping ---- */

/* After the zygote was started: no capability, no way back to the user we came from, not traceable, no core. */
int setup_drop(struct broker *b)
{
    if (has_own_uid(b)) {
        uid_t u = b->outer_uid;
        if (setresuid(-1, 0, -1) < 0) /* chroot wants the capability back */
            return -errno;
        if (fchdir(b->empty_fd) < 0 || chroot(".") < 0)
            return -errno;
        if (b->stays_root)
            u = 0;
        if (setresgid(u, u, u) < 0 || setresuid(u, u, u) < 0)
            return -errno;
    }
    struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct keep[2] = { 0 };
    if (b->stays_root) /* the guest has another uid; the filter lets signals go to it only */
        keep[0].effective = keep[0].permitted = 1u << CAP_KILL;
    if (syscall(SYS_capset, &h, keep) < 0)
        return -errno;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return 0;
}
