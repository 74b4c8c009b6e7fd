/* timerfd and signalfd files. */
#ifndef HARENA_IPC_TIMERFD_H
#define HARENA_IPC_TIMERFD_H

#include "vfs/vfs.h"

struct timerfd_spec { /* nanoseconds; value 0: disarmed */
    u64 interval, value;
};

struct file *timerfd_new(int clock, u32 flags);
bool file_is_timerfd(const struct file *f);
long timerfd_set(struct file *f, bool absolute, const struct timerfd_spec *new_spec, struct timerfd_spec *old);
void timerfd_get(struct file *f, struct timerfd_spec *cur);

struct file *signalfd_new(u64 mask, u32 flags);
long signalfd_set_mask(struct file *f, u64 mask); /* -EINVAL: not a signalfd */

#endif
