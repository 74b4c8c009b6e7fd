/* pidfd_open(2) and its kin: a descriptor that names a process and never another one that gets its number later.
 *
 * struct pidfd is owned by its file. While the process exists (zombies too) it is linked in tgroup->pidfds and points to it;
 * reaping unlinks it. All of it is under tasklist_lock; wait queues come after that in the lock order. */
#include "proc/pidfd.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/strbuf.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "proc/task.h"
#include "sys/syscall.h"
#include "vfs/vfs.h"
#include <asm/siginfo.h>
#include <linux/capability.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/pidfd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

struct pidfd {
    struct list link; /* tgroup->pidfds */
    struct tgroup *tg; /* NULL: reaped */
    u32 pid;
    struct waitq wait;
};

static u32 pidfd_poll(struct file *f, struct poll_table *pt)
{
    struct pidfd *p = f->priv;
    poll_wait(f, &p->wait, pt);
    mutex_lock(&tasklist_lock);
    u32 ev = !p->tg ? EPOLLIN | EPOLLRDNORM | EPOLLHUP : p->tg->zombie ? EPOLLIN | EPOLLRDNORM : 0;
    mutex_unlock(&tasklist_lock);
    return ev;
}

static void pidfd_release(struct file *f)
{
    struct pidfd *p = f->priv;
    poll_file_gone(f);
    mutex_lock(&tasklist_lock);
    if (p->tg)
        list_del(&p->link);
    mutex_unlock(&tasklist_lock);
    kfree(p);
}

static void pidfd_fdinfo(struct file *f, struct strbuf *sb)
{
    struct pidfd *p = f->priv;
    int pid = p->tg ? (int)p->pid : -1;
    sb_printf(sb, "Pid:\t%d\nNSpid:\t%d\n", pid, pid);
}

static long pidfd_read(struct file *f, struct uio *u, u64 *pos)
{
    (void)f, (void)u, (void)pos;
    return -EINVAL;
}

static const struct file_ops pidfd_fops = {
    .read = pidfd_read, .poll = pidfd_poll, .release = pidfd_release, .show_fdinfo = pidfd_fdinfo};

bool file_is_pidfd(const struct file *f) { return f->ops == &pidfd_fops; }

u32 pidfd_pid(const struct file *f)
{
    const struct pidfd *p = f->priv;
    mutex_lock(&tasklist_lock);
    u32 pid = p->tg ? p->pid : 0;
    mutex_unlock(&tasklist_lock);
    return pid;
}

/* pid 0: tg. Looks the process up under the lock that links the descriptor to it. */
static struct file *make(u32 pid, struct tgroup *tg, u32 flags)
{
    struct pidfd *p = knew(struct pidfd);
    if (!p)
        return ERR_PTR(-ENOMEM);
    struct file *f = file_anon(&pidfd_fops, p, "anon_inode:[pidfd]", 0600, O_RDWR | (flags & O_NONBLOCK));
    if (IS_ERR(f)) {
        kfree(p);
        return f;
    }
    long r = 0;
    mutex_lock(&tasklist_lock);
    struct task *t = pid ? task_find_locked(pid) : tg->leader;
    if (!t)
        r = -ESRCH;
    else if (t->tg->leader != t)
        r = -ENOENT;
    else {
        p->tg = t->tg;
        p->pid = t->tg->tgid;
        list_add_tail(&t->tg->pidfds, &p->link);
    }
    mutex_unlock(&tasklist_lock);
    if (r) {
        file_put(f);
        return ERR_PTR(r);
    }
    return f;
}

struct file *pidfd_new(struct tgroup *tg, u32 flags) { return make(0, tg, flags); }

void pidfd_ended_locked(struct tgroup *tg)
{
    struct pidfd *p;
    list_for_each(p, &tg->pidfds, link)
        wake_up_all(&p->wait, EPOLLIN | EPOLLRDNORM);
}

void pidfd_gone_locked(struct tgroup *tg)
{
    struct pidfd *p;
    list_for_each(p, &tg->pidfds, link) {
        list_del(&p->link);
        p->tg = NULL;
        wake_up_all(&p->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
    }
}

SYSCALL2(pidfd_open, int, pid, u32, flags)
{
    if (flags & ~(u32)(O_NONBLOCK | PIDFD_THREAD) || pid <= 0)
        return -EINVAL;
    struct file *f = make((u32)pid, NULL, flags);
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, O_CLOEXEC);
}

static KSTATE u32 (*directory_of)(const struct file *f);

void pidfd_know_directories(u32 (*of)(const struct file *f)) { directory_of = of; }

static struct file *pidfd_get(int fd)
{
    struct file *f = fd_get(fd);
    if (f && !file_is_pidfd(f)) {
        file_put(f);
        f = NULL;
    }
    return f;
}

SYSCALL4(pidfd_send_signal, int, fd, int, sig, uptr, uinfo, u32, flags)
{
    int info[32];
    if (flags & ~7u || (flags & (flags - 1)))
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    bool dir = !file_is_pidfd(f);
    long r = 0;
    if (uinfo && copy_from_user(info, uinfo, sizeof(info)))
        r = -EFAULT;
    else if (uinfo && info[0] != sig)
        r = -EINVAL;
    else if (sig < 0 || sig > 64)
        r = -EINVAL;
    if (!uinfo)
        siginfo_user(info, sig, SI_USER, current_tgid(), current_cred()->uid);
    mutex_lock(&tasklist_lock);
    u32 pid = dir && directory_of ? directory_of(f) : 0;
    struct tgroup *tg = dir ? pid ? tgroup_find_locked(pid) : NULL : ((struct pidfd *)f->priv)->tg;
    if (r)
        ;
    else if (dir && !pid)
        r = -EBADF;
    else if (!tg)
        r = -ESRCH;
    else if (uinfo && tg != current_task()->tg && (info[2] >= 0 || info[2] == SI_TKILL))
        r = -EPERM;
    else if (flags & 4 /* PIDFD_SIGNAL_PROCESS_GROUP */)
        r = signal_send_pgrp_locked(tg->tgid, sig, info);
    else
        r = signal_send_checked_locked(tg, flags & 1 /* PIDFD_SIGNAL_THREAD */ ? tg->leader : NULL, sig, info);
    mutex_unlock(&tasklist_lock);
    file_put(f);
    return r;
}

SYSCALL3(pidfd_getfd, int, fd, int, target, u32, flags)
{
    if (flags)
        return -EINVAL;
    struct file *f = pidfd_get(fd), *got = NULL;
    if (!f)
        return -EBADF;
    struct pidfd *p = f->priv;
    struct files *files = NULL;
    long r = 0;
    mutex_lock(&tasklist_lock);
    if (!p->tg || p->tg->zombie)
        r = -ESRCH;
    else if (!may_inspect_locked(p->tg))
        r = -EPERM;
    else if ((files = p->tg->leader->files))
        files_get(files);
    else
        r = -ESRCH;
    mutex_unlock(&tasklist_lock);
    if (files) {
        got = files_lookup(files, target);
        r = got ? fd_new(got, O_CLOEXEC) : -EBADF;
        files_put(files);
    }
    file_put(f);
    return r;
}
