/* Character devices by number, and the hooks. Entries are only added, at boot. */
#include "vfs/hooks.h"

#include "core/kstate.h"

#define CHRDEVS_MAX 64

KSTATE struct vfs_hooks hooks;

static KSTATE struct chrdev {
    u32 major, first, count;
    const struct file_ops *ops;
    const char *name;
} devs[CHRDEVS_MAX];
static KSTATE u32 dev_count;

long register_chrdev(u32 major, u32 minor_first, u32 minor_count, const struct file_ops *ops, const char *name)
{
    if (dev_count == CHRDEVS_MAX)
        return -ENOSPC;
    devs[dev_count++] = (struct chrdev){major, minor_first, minor_count, ops, name};
    return 0;
}

const struct file_ops *chrdev_ops(u64 rdev)
{
    u32 major = (u32)(rdev >> 8 & 0xfff) | (u32)(rdev >> 32 & ~0xfffull);
    u32 minor = (u32)(rdev & 0xff) | (u32)(rdev >> 12 & 0xffffff00);
    for (u32 n = 0; n < dev_count; n++)
        if (devs[n].major == major && minor >= devs[n].first && minor - devs[n].first < devs[n].count)
            return devs[n].ops;
    return NULL;
}
