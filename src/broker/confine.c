/* What the broker itself may open, held by the host: the directories and files it was given, and nothing else, also if it were
 * taken over. Its filter cannot see paths, so this is Landlock's part (Linux 5.19 on, where renames between directories can be
 * allowed): a rule for each mount, with the rights the mount has. Descriptors that are open already or come on the link are not
 * concerned. Where no cgroup counts the sandbox's memory or time (limits.c), /proc can be read, too, but for what the host shows to
 * tracers only (memory, environment, descriptors): Landlock keeps us from that, of processes that are not our own. A broker started by root also has an empty root directory (setup_drop). Format: linux/landlock.h, landlock(7). */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446
#define VERSION_FLAG 1u
#define PATH_BENEATH 1

enum {
    EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, REMOVE_DIR = 1 << 4, REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7, MAKE_REG = 1 << 8, MAKE_SYM = 1 << 12, REFER = 1 << 13, TRUNCATE = 1 << 14, IOCTL_DEV = 1 << 15,
};
#define ALL_OF(last) (((u64)(last) << 1) - 1)
#define NET_TCP 3ull

static int version(void) { return syscall(CREATE_RULESET, NULL, 0, VERSION_FLAG); }

bool confine_available(void) { return version() >= 2; }

static int allow(int rules, int fd, u64 rights)
{
    struct {
        u64 rights;
        s32 fd;
    } __attribute__((packed)) rule = { rights, fd };
    return syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static u64 mount_rights(const struct mount *m)
{
    u64 rights = READ_FILE | (m->writable ? WRITE_FILE | TRUNCATE : 0);
    if (!(m->flags & MOUNT_FILE))
        rights |= READ_DIR | (m->writable ? REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER : 0);
    return rights;
}

/* From here on nothing outside the mounts can be opened, made or removed, but the files in the sandbox's own state directory. */
int confine(struct broker *b)
{
    int v = version(), result = 0;
    if (v < 2)
        return 0;
    u64 handled = v >= 5 ? ALL_OF(IOCTL_DEV) : v >= 3 ? ALL_OF(TRUNCATE) : ALL_OF(REFER);
    const u64 attr[2] = { handled, NET_TCP };
    int rules = syscall(CREATE_RULESET, attr, v >= 4 ? 16 : 8, 0);
    if (rules < 0)
        return -errno;
    for (u32 i = 0; !result && i < b->fs.mount_count; i++)
        result = allow(rules, b->fs.mounts[i].root, mount_rights(&b->fs.mounts[i]) & handled);
    if (!result && b->lock_fd >= 0)
        result = allow(rules, b->lock_fd, REMOVE_FILE);
    if (!result && limits_need_proc(b)) {
        int proc = openat(b->fs.proc_fd, "../..", O_PATH | O_CLOEXEC);
        result = proc < 0 ? -errno : allow(rules, proc, READ_FILE | READ_DIR);
        close(proc);
    }
    if (!result && syscall(RESTRICT_SELF, rules, 0) < 0)
        result = -errno;
    close(rules);
    return result;
}
