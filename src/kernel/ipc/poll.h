/* Poll tables: how poll, select and epoll collect what to wait on (ipc/poll.c). A file's poll operation calls
 * poll_wait(f, &queue, pt) for each queue that will be woken when its events change, then returns what is ready now. */
#ifndef HARENA_IPC_POLL_H
#define HARENA_IPC_POLL_H

#include "vfs/vfs.h"

struct poll_table {
    void (*add)(struct poll_table *pt, struct file *f, struct waitq *q);
    u32 events; /* wanted */
};

/* One descriptor of a poll set; the file is referenced, NULL: nothing to watch. */
struct poll_entry {
    struct file *file;
    u32 events; /* that end the wait; poll(2) adds EPOLLERR and EPOLLHUP */
    u32 revents;
};

/* Waits until an entry has events. Count of entries with events, 0 at the deadline, -EINTR, -ENOMEM.
 * deadline 0: do not wait. */
long poll_entries(struct poll_entry *e, u32 count, u64 deadline);
/* What a file reports now, cut to `events`; registers when pt is given. */
u32 file_poll(struct file *f, u32 events, struct poll_table *pt);

/* epoll (ipc/epoll.c) */
struct epoll_event;
struct file *epoll_new(void);
/* k: copy of the guest's event (NULL for EPOLL_CTL_DEL). fd names the registration. */
long epoll_control(struct file *epf, int op, int fd, struct file *target, const struct epoll_event *k);
/* Up to max events into guest memory. Count, 0 at the deadline, -EINTR, -EFAULT. */
long epoll_collect(struct file *epf, uptr events, u32 max, u64 deadline);
bool file_is_epoll(const struct file *f);
/* Forgets all registrations of f. Every file type whose poll operation names wait queues calls poll_file_gone() first
 * in its release operation. */
void epoll_file_release(struct file *f);
static inline void poll_file_gone(struct file *f)
{
    if (unlikely(!list_empty(&f->epitems) || f->async))
        epoll_file_release(f);
}

#endif
