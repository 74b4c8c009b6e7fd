/* Pipes, eventfd, poll, select, epoll. */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/inotify.h>
#include <linux/stat.h>
#include <asm/ioctls.h>

#include "base/string.h"
#include "ipc/pipe.h"
#include "ipc/ring.h"
#include "ipc/sysv_msg.h"
#include "ipc/sysv_sem.h"
#include "ipc_fake.h"
#include "time/timer.h"
#include "vfs/hooks.h"

SYS(pipe2); SYS(eventfd2); SYS(poll); SYS(select); SYS(epoll_create1); SYS(epoll_ctl); SYS(epoll_wait);
SYS(timerfd_create); SYS(timerfd_settime); SYS(timerfd_gettime); SYS(signalfd4); SYS(inotify_init1);
SYS(inotify_add_watch); SYS(inotify_rm_watch); SYS(splice); SYS(tee);
SYS(semget); SYS(semop); SYS(semctl); SYS(msgget); SYS(msgsnd); SYS(msgrcv); SYS(msgctl); SYS(shmget); SYS(shmat); SYS(shmdt);
SYS(shmctl);

static char big[300000], back[300000];

static void test_ring(void)
{
    struct ring r = {0};
    struct uio u;
    u32 put = 0, got = 0;

    tap_group("ring");
    r.head = r.tail = 0xfffffff0u; /* positions wrap */
    for (u32 i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 7 + i / 251);
    bool ok = true;
    for (u32 step = 1; got < sizeof(big); step = step * 5 % 7919 + 1) {
        u32 n = MIN(step, (u32)sizeof(big) - put);
        if (ring_len(&r) < 20000 && n) {
            ok &= ring_reserve(&r, n) == 0;
            uio_kernel(&u, big + put, n);
            ok &= ring_put(&r, &u, n) == (long)n;
            put += n;
        }
        u32 m = MIN(ring_len(&r), step / 2 + 1);
        uio_kernel(&u, back + got, m);
        ok &= ring_get(&r, &u, m) == (long)m;
        got += m;
    }
    CHECK(ok);
    CHECK(!memcmp(big, back, sizeof(big)));
    CHECK_EQ(ring_unget(&r, "abc", 3), 0);
    CHECK_EQ(ring_len(&r), 3);
    ring_free(&r);
}

static void test_pipe(void)
{
    int fd[2], n;

    tap_group("pipe");
    CHECK_EQ(call2(pipe2, fd, O_NONBLOCK), 0);
    CHECK_EQ(t_read(fd[0], back, 10), -EAGAIN);
    CHECK_EQ(t_poll(fd[0], ~0u), 0);
    CHECK_EQ(t_poll(fd[1], ~0u), EPOLLOUT | EPOLLWRNORM);
    CHECK_EQ(t_write(fd[1], "hello", 5), 5);
    CHECK_EQ(t_ioctl(fd[0], FIONREAD, &n), 0);
    CHECK_EQ(n, 5);
    CHECK_EQ(t_read(fd[0], back, 3), 3);
    CHECK_EQ(t_read(fd[0], back + 3, 100), 2);
    CHECK(!memcmp(back, "hello", 5));
    CHECK_EQ(t_write(fd[1], big, 100000), 65536);
    CHECK_EQ(t_write(fd[1], big, 1), -EAGAIN);
    CHECK_EQ(t_poll(fd[1], ~0u), 0);
    CHECK_EQ(t_read(fd[0], back, 4000), 4000);
    CHECK_EQ(t_poll(fd[1], ~0u), 0); /* not yet PIPE_BUF free */
    CHECK_EQ(t_write(fd[1], big, 4096), -EAGAIN); /* atomic or not at all */
    CHECK_EQ(t_read(fd[0], back, 96), 96);
    CHECK_EQ(t_write(fd[1], big, 4096), 4096);
    CHECK_EQ(t_write(fd[1], (void *)1, 10), -EAGAIN);
    CHECK_EQ(t_read(fd[0], (void *)1, 10), -EFAULT);
    CHECK_EQ(t_close(fd[1]), 0);
    CHECK_EQ(t_poll(fd[0], ~0u), EPOLLIN | EPOLLRDNORM | EPOLLHUP);
    CHECK_EQ(t_read(fd[0], back, sizeof(back)), 65536);
    CHECK_EQ(t_read(fd[0], back, sizeof(back)), 0);
    CHECK_EQ(t_poll(fd[0], ~0u), EPOLLHUP);
    CHECK_EQ(t_close(fd[0]), 0);

    CHECK_EQ(call2(pipe2, fd, 0), 0);
    struct file *f = fd_get(fd[1]);
    CHECK_EQ(pipe_fcntl(f, F_GETPIPE_SZ, 0), 65536);
    CHECK_EQ(pipe_fcntl(f, F_SETPIPE_SZ, 5000), 8192);
    file_put(f);
    t_nonblock(fd[1], true);
    CHECK_EQ(t_write(fd[1], big, 100000), 8192);
    CHECK_EQ(t_close(fd[0]), 0);
    CHECK_EQ(t_poll(fd[1], ~0u), EPOLLERR);
    CHECK_EQ(t_write(fd[1], "x", 1), -EPIPE);
    CHECK_EQ(fake_signal_taken(), 13);
    CHECK_EQ(t_close(fd[1]), 0);

    CHECK_EQ(call2(pipe2, fd, O_DIRECT | O_NONBLOCK), 0); /* packets */
    CHECK_EQ(t_write(fd[1], "abcdef", 6), 6);
    CHECK_EQ(t_write(fd[1], "gh", 2), 2);
    CHECK_EQ(t_read(fd[0], back, 4), 4);
    CHECK_EQ(t_read(fd[0], back, 100), 2);
    CHECK(!memcmp(back, "gh", 2));
    CHECK_EQ(t_write(fd[1], big, 10000), 10000);
    CHECK_EQ(t_read(fd[0], back, 10000), 4096);
    n = 0;
    while (t_write(fd[1], "p", 1) == 1)
        n++;
    CHECK_EQ(n, 14); /* 16 slots, two taken */
    t_close(fd[0]);
    t_close(fd[1]);
}

static void pipe_writer(void *p)
{
    int fd = *(int *)p;
    CHECK_EQ(t_write(fd, big, sizeof(big)), sizeof(big));
    t_close(fd);
}

static void test_pipe_threads(void)
{
    int fd[2];
    u32 got = 0;
    long r;

    tap_group("pipe, two tasks");
    call2(pipe2, fd, 0);
    memset(back, 0, sizeof(back));
    void *t = fake_spawn(pipe_writer, &fd[1]);
    while ((r = t_read(fd[0], back + got, 7000)) > 0)
        got += (u32)r;
    CHECK_EQ(got, sizeof(big));
    CHECK(!memcmp(big, back, sizeof(big)));
    fake_join(t);
    t_close(fd[0]);

    call2(pipe2, fd, 0);
    fake_interrupt(NULL);
    CHECK_EQ(t_read(fd[0], back, 1), -ERESTARTSYS);
    t_close(fd[0]);
    t_close(fd[1]);
}

static void fifo_opener(void *p)
{
    struct file *f = file_open(AT_FDCWD, "/fifo", O_WRONLY, 0);
    *(struct file **)p = f;
}

static void test_fifo(void)
{
    struct inode *i;
    struct file *w = NULL;

    tap_group("fifo");
    CHECK_EQ(vfs_mknod(AT_FDCWD, "/fifo", S_IFIFO | 0600, 0, &i), 0);
    CHECK_EQ(PTR_ERR(file_open(AT_FDCWD, "/fifo", O_WRONLY | O_NONBLOCK, 0)), -ENXIO);
    struct file *r = file_open(AT_FDCWD, "/fifo", O_RDONLY | O_NONBLOCK, 0);
    CHECK(!IS_ERR(r));
    int fd = (int)fd_new(r, 0);
    CHECK_EQ(t_poll(fd, ~0u), 0); /* no writer yet: no hangup */
    CHECK_EQ(t_read(fd, back, 1), 0);
    t_close(fd);
    void *t = fake_spawn(fifo_opener, &w);
    fake_sleep_ms(20);
    CHECK(w == NULL); /* waits for a reader */
    r = file_open(AT_FDCWD, "/fifo", O_RDONLY, 0);
    fake_join(t);
    CHECK(w && !IS_ERR(w) && !IS_ERR(r));
    fd = (int)fd_new(r, 0);
    int wfd = (int)fd_new(w, 0);
    CHECK_EQ(t_write(wfd, "x", 1), 1);
    t_close(wfd);
    CHECK_EQ(t_poll(fd, ~0u), EPOLLIN | EPOLLRDNORM | EPOLLHUP);
    t_close(fd);
    iput(i);
}

static void test_eventfd(void)
{
    u64 v = 0;

    tap_group("eventfd");
    int fd = (int)call2(eventfd2, 3, O_NONBLOCK);
    CHECK_EQ(t_read(fd, &v, 8), 8);
    CHECK_EQ(v, 3);
    CHECK_EQ(t_read(fd, &v, 8), -EAGAIN);
    CHECK_EQ(t_read(fd, &v, 4), -EINVAL);
    v = ~0ull;
    CHECK_EQ(t_write(fd, &v, 8), -EINVAL);
    v = ~0ull - 1;
    CHECK_EQ(t_write(fd, &v, 8), 8);
    CHECK_EQ(t_poll(fd, ~0u), EPOLLIN | EPOLLRDNORM);
    v = 1;
    CHECK_EQ(t_write(fd, &v, 8), -EAGAIN);
    t_close(fd);
    fd = (int)call2(eventfd2, 2, 1 | O_NONBLOCK); /* semaphore */
    CHECK_EQ(t_read(fd, &v, 8), 8);
    CHECK_EQ(v, 1);
    CHECK_EQ(t_read(fd, &v, 8), 8);
    CHECK_EQ(t_read(fd, &v, 8), -EAGAIN);
    t_close(fd);
    CHECK_EQ(call2(eventfd2, 0, 2), -EINVAL);
}

struct pollfd {
    int fd;
    short events, revents;
};

static void late_write(void *p)
{
    fake_sleep_ms(20);
    t_write(*(int *)p, "z", 1);
}

static void test_poll(void)
{
    int fd[2];
    struct pollfd p[20];
    u64 set[2] = {0}, zero[2] = {0, 20000};

    tap_group("poll");
    call2(pipe2, fd, 0);
    p[0] = (struct pollfd){fd[0], EPOLLIN, 7};
    p[1] = (struct pollfd){fd[1], EPOLLOUT, 7};
    p[2] = (struct pollfd){-1, EPOLLOUT, 7};
    p[3] = (struct pollfd){200, EPOLLOUT, 7};
    CHECK_EQ(call3(poll, p, 4, -1), 2);
    CHECK(p[0].revents == 0 && p[1].revents == EPOLLOUT && p[2].revents == 0 && p[3].revents == 0x20);
    CHECK_EQ(call3(poll, p, 1, 10), 0);
    for (int i = 0; i < 20; i++)
        p[i] = (struct pollfd){fd[0], EPOLLIN, 0};
    void *t = fake_spawn(late_write, &fd[1]);
    CHECK_EQ(call3(poll, p, 20, -1), 20);
    fake_join(t);
    CHECK(p[19].revents == EPOLLIN);
    set[0] = 1ull << fd[0];
    CHECK_EQ(call5(select, fd[0] + 1, set, 0, 0, 0), 1);
    CHECK_EQ(set[0], 1ull << fd[0]);
    t_read(fd[0], back, 1);
    CHECK_EQ(call5(select, fd[0] + 1, set, 0, 0, zero), 0);
    CHECK_EQ(set[0], 0);
    set[0] = 1ull << 63;
    CHECK_EQ(call5(select, 64, set, 0, 0, 0), -EBADF);
    p[0] = (struct pollfd){fd[0], EPOLLIN, 0};
    fake_interrupt(NULL);
    CHECK_EQ(call3(poll, p, 1, -1), -ERESTARTNOHAND);
    t_close(fd[1]);
    set[0] = 1ull << fd[0];
    CHECK_EQ(call5(select, fd[0] + 1, 0, 0, set, zero), 0); /* a hangup is no exceptional condition */
    t_close(fd[0]);
}

static int ctl(int ep, int op, int fd, u32 events, u64 data)
{
    struct epoll_event e = {.events = events, .data = data};
    return (int)call4(epoll_ctl, ep, op, fd, &e);
}

static void test_epoll(void)
{
    int a[2], b[2];
    struct epoll_event ev[8];

    tap_group("epoll");
    int ep = (int)call1(epoll_create1, 0);
    call2(pipe2, a, 0);
    call2(pipe2, b, 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, a[0], EPOLLIN, 1), 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, a[0], EPOLLIN, 1), -EEXIST);
    CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, b[0], EPOLLIN, 1), -ENOENT);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 1), -EINVAL);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, 222, EPOLLIN, 1), -EBADF);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 0);
    CHECK_EQ(call4(epoll_wait, ep, ev, 0, 0), -EINVAL);
    t_write(a[1], "xy", 2);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1);
    CHECK(ev[0].events == EPOLLIN && ev[0].data == 1);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1); /* level */
    t_read(a[0], back, 2);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 0);

    CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, a[0], EPOLLIN | EPOLLET, 2), 0);
    t_write(a[1], "x", 1);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 0); /* edge */
    t_write(a[1], "x", 1);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1);
    CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, a[0], EPOLLIN | EPOLLONESHOT, 3), 0);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1);
    t_write(a[1], "x", 1);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_MOD, a[0], EPOLLIN, 4), 0);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 1);
    CHECK_EQ(ev[0].data, 4);

    /* several: each once per scan, in turn when the buffer is small */
    t_write(b[1], "x", 1);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, b[0], EPOLLIN, 5), 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, b[1], EPOLLOUT, 6), 0);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 3);
    u64 seen = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(call4(epoll_wait, ep, ev, 1, 0), 1);
        seen |= 1ull << ev[0].data;
    }
    CHECK_EQ(seen, 1 << 4 | 1 << 5 | 1 << 6);
    CHECK_EQ(call4(epoll_wait, ep, 1, 8, 0), -EFAULT);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 3);

    /* nesting */
    int outer = (int)call1(epoll_create1, 0);
    CHECK_EQ(ctl(outer, EPOLL_CTL_ADD, ep, EPOLLIN, 9), 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, outer, EPOLLIN, 9), -ELOOP);
    CHECK_EQ(call4(epoll_wait, outer, ev, 8, 0), 1);
    CHECK_EQ(ctl(ep, EPOLL_CTL_DEL, b[1], 0, 0), 0);
    t_read(a[0], back, 10);
    t_read(b[0], back, 10);
    CHECK_EQ(call4(epoll_wait, outer, ev, 8, 0), 0);
    void *t = fake_spawn(late_write, &a[1]);
    CHECK_EQ(call4(epoll_wait, outer, ev, 8, -1), 1);
    fake_join(t);
    int prev = outer, chain[8], made = 0;
    while (made < 8) { /* five levels are too many */
        chain[made] = (int)call1(epoll_create1, 0);
        if (ctl(chain[made++], EPOLL_CTL_ADD, prev, EPOLLIN, 0) == -ELOOP)
            break;
        prev = chain[made - 1];
    }
    CHECK(made < 8);
    while (made--)
        t_close(chain[made]);

    /* the last close of a file removes it */
    t_close(a[0]);
    CHECK_EQ(call4(epoll_wait, ep, ev, 8, 0), 0);
    CHECK_EQ(ctl(ep, EPOLL_CTL_ADD, b[0], EPOLLIN, 0), -EEXIST);
    t_close(ep); /* with b[0] still in it */
    t_close(outer);
    t_close(b[0]);
    t_close(b[1]);
    t_close(a[1]);
}

static void epoll_waiter(void *p)
{
    struct epoll_event ev;
    if (call4(epoll_wait, *(int *)p, &ev, 1, 3000) == 1)
        atomic_add((u32 *)p + 1, 1);
}

/* Two tasks wait on one epoll; one byte wakes at least one, and both end when there are two edges. */
static void test_epoll_threads(void)
{
    int a[2];
    u32 arg[2] = {0};

    tap_group("epoll, tasks");
    int ep = (int)call1(epoll_create1, 0);
    arg[0] = (u32)ep;
    call2(pipe2, a, 0);
    ctl(ep, EPOLL_CTL_ADD, a[0], EPOLLIN | EPOLLET, 0);
    void *t1 = fake_spawn(epoll_waiter, arg), *t2 = fake_spawn(epoll_waiter, arg);
    fake_sleep_ms(20);
    t_write(a[1], "x", 1);
    fake_sleep_ms(20);
    CHECK_EQ(atomic_load(&arg[1]), 1);
    t_write(a[1], "x", 1);
    fake_join(t1);
    fake_join(t2);
    CHECK_EQ(arg[1], 2);
    t_close(ep);
    t_close(a[0]);
    t_close(a[1]);
}

static void timer_soon(void *p)
{
    (void)p;
    fake_sleep_ms(15);
    ktimers_run();
}

static void test_timerfd(void)
{
    u64 spec[4] = {0, 0, 0, 10000000}, old[4], n = 0;

    tap_group("timerfd");
    CHECK_EQ(call2(timerfd_create, 2, 0), -EINVAL);
    int fd = (int)call2(timerfd_create, 1, O_NONBLOCK);
    CHECK_EQ(t_read(fd, &n, 8), -EAGAIN);
    CHECK_EQ(call4(timerfd_settime, fd, 0, spec, old), 0);
    CHECK_EQ(call2(timerfd_gettime, fd, old), 0);
    CHECK(old[3] > 0 && old[3] <= 10000000 && !old[2]);
    t_nonblock(fd, false);
    void *t = fake_spawn(timer_soon, NULL);
    CHECK_EQ(t_read(fd, &n, 8), 8);
    CHECK_EQ(n, 1);
    fake_join(t);
    CHECK_EQ(call2(timerfd_gettime, fd, old), 0);
    CHECK(!old[3]);
    spec[1] = 5000000; /* periodic: missed ones are counted */
    call4(timerfd_settime, fd, 0, spec, 0);
    fake_sleep_ms(32);
    ktimers_run();
    CHECK_EQ(t_poll(fd, ~0u), EPOLLIN | EPOLLRDNORM);
    CHECK_EQ(t_read(fd, &n, 8), 8);
    CHECK(n >= 5 && n < 20);
    CHECK_EQ(t_poll(fd, ~0u), 0);
    spec[3] = spec[2] = 0;
    CHECK_EQ(call4(timerfd_settime, fd, 0, spec, old), 0);
    CHECK_EQ(old[1], 5000000);
    spec[2] = 1; /* absolute, past: at once */
    call4(timerfd_settime, fd, 1, spec, 0);
    ktimers_run();
    CHECK_EQ(t_poll(fd, EPOLLIN), EPOLLIN);
    spec[2] = 1000;
    call4(timerfd_settime, fd, 0, spec, 0);
    t_close(fd); /* armed */
}

static void test_signalfd(void)
{
    u64 mask = 1 << 9 | 1 << 11; /* 10 and 12 */
    u32 info[64];

    tap_group("signalfd");
    int fd = (int)call4(signalfd4, -1, &mask, 8, O_NONBLOCK);
    CHECK_EQ(t_read(fd, info, 256), -EAGAIN);
    fake_pend(10);
    fake_pend(12);
    fake_pend(1);
    CHECK_EQ(t_poll(fd, EPOLLIN), EPOLLIN);
    CHECK_EQ(t_read(fd, info, 256), 256);
    CHECK(info[0] == 10 && info[32] == 12);
    CHECK_EQ(t_read(fd, info, 256), -EAGAIN);
    CHECK_EQ(t_read(fd, info, 100), -EINVAL);
    mask = 1;
    CHECK_EQ(call4(signalfd4, fd, &mask, 8, 0), fd);
    CHECK_EQ(t_read(fd, info, 256), 128);
    t_close(fd);
}

static void test_inotify(void)
{
    struct inode *dir, *file;
    struct inotify_event *e = (void *)back;
    struct qstr name = {"child", 5, 0};

    tap_group("inotify");
    vfs_mknod(AT_FDCWD, "/dir", S_IFDIR | 0700, 0, &dir);
    vfs_mknod(AT_FDCWD, "/file", S_IFREG | 0600, 0, &file);
    int fd = (int)call1(inotify_init1, O_NONBLOCK);
    int wd = (int)call3(inotify_add_watch, fd, "/dir", IN_ALL_EVENTS);
    CHECK_EQ(wd, 1);
    CHECK_EQ(call3(inotify_add_watch, fd, "/dir", IN_CREATE | IN_MODIFY | IN_MASK_ADD), 1);
    CHECK_EQ(call3(inotify_add_watch, fd, "/none", IN_CREATE), -ENOENT);
    CHECK_EQ(call3(inotify_add_watch, fd, "/dir", 0), -EINVAL);
    CHECK_EQ(call3(inotify_add_watch, fd, "/file", IN_MODIFY | IN_ONESHOT), 2);
    CHECK_EQ(t_read(fd, back, 1000), -EAGAIN);
    hooks.fsnotify(dir, &name, file, IN_CREATE, 0);
    hooks.fsnotify(dir, &name, file, IN_MODIFY, 0);
    hooks.fsnotify(dir, &name, file, IN_MODIFY, 0); /* the same again: merged for the directory */
    hooks.fsnotify(dir, &name, file, IN_MOVED_FROM, 77);
    CHECK_EQ(t_read(fd, back, 10), -EINVAL);
    CHECK_EQ(t_read(fd, back, 32), 32);
    CHECK(e->wd == 1 && e->mask == IN_CREATE && e->len == 16 && !strcmp(e->name, "child"));
    CHECK_EQ(t_read(fd, back, 1000), 32 + 16 + 16 + 32 + 32);
    CHECK(e->mask == IN_MODIFY && e->wd == 1);
    e = (void *)(back + 32);
    CHECK(e->mask == IN_MODIFY && e->wd == 2 && e->len == 0);
    e = (void *)(back + 48);
    CHECK(e->mask == IN_IGNORED && e->wd == 2); /* one shot */
    e = (void *)(back + 96);
    CHECK(e->mask == IN_MOVED_FROM && e->cookie == 77);
    hooks.fsnotify(NULL, NULL, dir, IN_DELETE_SELF, 0);
    CHECK_EQ(t_read(fd, back, 1000), 32);
    e = (void *)back;
    CHECK(e[0].mask == IN_DELETE_SELF && e[1].mask == IN_IGNORED);
    CHECK_EQ(call2(inotify_rm_watch, fd, 1), -EINVAL);
    wd = (int)call3(inotify_add_watch, fd, "/file", IN_ACCESS | IN_MODIFY);
    for (u32 i = 0; i < 20000; i++)
        hooks.fsnotify(NULL, NULL, file, i & 1 ? IN_ACCESS : IN_MODIFY, 0);
    u32 n = 0;
    long r;
    while ((r = t_read(fd, back, sizeof(back))) > 0)
        for (long at = 0; at < r; at += 16, n++)
            e = (void *)(back + at);
    CHECK_EQ(n, 16384 + 1);
    CHECK(e->mask == IN_Q_OVERFLOW && e->wd == -1);
    CHECK_EQ(call2(inotify_rm_watch, fd, wd), 0);
    t_close(fd);
    iput(dir);
    iput(file);
}

static void test_splice(void)
{
    int a[2], b[2];

    tap_group("splice");
    call2(pipe2, a, O_NONBLOCK);
    call2(pipe2, b, O_NONBLOCK);
    CHECK_EQ(call6(splice, a[0], 0, b[1], 0, 100, 0), -EAGAIN);
    t_write(a[1], big, 50000);
    CHECK_EQ(call4(tee, a[0], b[1], 100, 0), 100);
    CHECK_EQ(call6(splice, a[0], 0, b[1], 0, 40000, 0), 40000);
    CHECK_EQ(t_read(b[0], back, 100), 100);
    CHECK_EQ(t_read(b[0], back, sizeof(back)), 40000);
    CHECK(!memcmp(back, big, 40000));
    t_write(b[1], big, 60000); /* nearly full: the rest stays in front of the source */
    CHECK_EQ(call6(splice, a[0], 0, b[1], 0, 10000, 0), 5536);
    CHECK_EQ(t_read(a[0], back, sizeof(back)), 10000 - 5536);
    CHECK(!memcmp(back, big + 45536, 10000 - 5536));
    CHECK_EQ(call6(splice, a[0], 0, a[1], 0, 10, 0), -EINVAL);
    u64 off = 0;
    CHECK_EQ(call6(splice, a[0], &off, b[1], 0, 10, 0), -ESPIPE);
    for (int i = 0; i < 2; i++) {
        t_close(a[i]);
        t_close(b[i]);
    }
}

static void sem_waker(void *p)
{
    struct sembuf op = {1, 2, 0};
    fake_sleep_ms(20);
    CHECK_EQ(call3(semop, *(int *)p, &op, 1), 0);
}

static void test_sysv(void)
{
    struct sembuf ops[2] = {{0, 1, 0}, {1, -1, IPC_NOWAIT}};
    struct {
        s64 type;
        char text[32];
    } m = {3, "three"}, g;

    tap_group("semaphores");
    int id = (int)call3(semget, 0x1234, 2, IPC_CREAT | 0600);
    CHECK(id >= 0);
    CHECK_EQ(call3(semget, 0x1234, 2, IPC_CREAT | IPC_EXCL | 0600), -EEXIST);
    CHECK_EQ(call3(semget, 0x1234, 0, 0), id);
    CHECK_EQ(call3(semget, 0x9999, 1, 0), -ENOENT);
    CHECK_EQ(call3(semop, id, ops, 2), -EAGAIN);
    CHECK_EQ(call4(semctl, id, 0, GETVAL, 0), 0); /* all or nothing */
    ops[1].sem_flg = 0;
    void *t = fake_spawn(sem_waker, &id);
    CHECK_EQ(call3(semop, id, ops, 2), 0);
    fake_join(t);
    CHECK_EQ(call4(semctl, id, 0, GETVAL, 0), 1);
    CHECK_EQ(call4(semctl, id, 1, GETVAL, 0), 1);
    ops[0] = (struct sembuf){0, -1, SEM_UNDO};
    CHECK_EQ(call3(semop, id, ops, 1), 0);
    sysv_exit(1);
    CHECK_EQ(call4(semctl, id, 0, GETVAL, 0), 1);
    ops[0].sem_num = 2;
    CHECK_EQ(call3(semop, id, ops, 1), -EFBIG);
    CHECK_EQ(call4(semctl, id, 0, SETVAL, 32768), -ERANGE);
    CHECK_EQ(call4(semctl, id, 0, IPC_RMID, 0), 0);
    CHECK_EQ(call3(semop, id, ops, 1), -EINVAL);

    tap_group("message queues");
    int q = (int)call2(msgget, IPC_PRIVATE, 0600);
    CHECK_EQ(call4(msgsnd, q, &m, 6, 0), 0);
    m = (__typeof__(m)){1, "one"};
    CHECK_EQ(call4(msgsnd, q, &m, 4, 0), 0);
    m.type = 0;
    CHECK_EQ(call4(msgsnd, q, &m, 4, 0), -EINVAL);
    CHECK_EQ(call5(msgrcv, q, &g, 32, 7, IPC_NOWAIT), -ENOMSG);
    CHECK_EQ(call5(msgrcv, q, &g, 2, 3, 0), -E2BIG);
    CHECK_EQ(call5(msgrcv, q, &g, 32, -5, 0), 4); /* the lowest type */
    CHECK(g.type == 1 && !strcmp(g.text, "one"));
    CHECK_EQ(call5(msgrcv, q, &g, 3, 0, MSG_NOERROR), 3);
    CHECK_EQ(call5(msgrcv, q, &g, 32, 0, IPC_NOWAIT), -ENOMSG);
    int n = 0;
    m.type = 1;
    while (call4(msgsnd, q, &m, 32, IPC_NOWAIT) == 0)
        n++;
    CHECK_EQ(n, 16384 / 32);
    CHECK_EQ(call3(msgctl, q, IPC_RMID, 0), 0);
    CHECK_EQ(call3(msgctl, q, IPC_RMID, 0), -EINVAL);

    tap_group("shared memory");
    int s = (int)call3(shmget, 0x77, 5000, IPC_CREAT | 0600);
    CHECK(s >= 0);
    CHECK_EQ(call3(shmget, 0x77, 6000, 0), -EINVAL);
    CHECK_EQ(call3(shmget, 0x78, 0, IPC_CREAT), -EINVAL);
    CHECK_EQ(call3(shmat, s, 0x1001, 0), -EINVAL);
    CHECK_EQ(call1(shmdt, 0x1000), -EINVAL);
    CHECK_EQ(call3(shmctl, s, IPC_RMID, 0), 0);
    CHECK_EQ(call3(shmget, 0x77, 5000, 0), -ENOENT);
}

int main(void)
{
    fake_init();
    test_ring();
    u64 files = fake_live_files(), bytes = fake_live_bytes();
    test_pipe();
    test_pipe_threads();
    test_eventfd();
    test_poll();
    test_epoll();
    test_epoll_threads();
    test_timerfd();
    test_signalfd();
    test_splice();
    tap_group("end");
    CHECK_EQ(fake_live_files(), files);
    CHECK_EQ(fake_live_bytes(), bytes);
    test_fifo();
    test_inotify();
    test_sysv();
    return tap_end();
}
