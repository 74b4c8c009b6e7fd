/* inotify: events of files and directories, masks, cookies, removal. */
#include "tap.h"
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

static int fd;
static char buf[65536];
static char text[4096];
static const char *const names[] = {"ACCESS", "MODIFY", "ATTRIB", "CLOSE_WRITE", "CLOSE_NOWRITE", "OPEN", "MOVED_FROM", "MOVED_TO",
                                    "CREATE", "DELETE", "DELETE_SELF", "MOVE_SELF", "", "UNMOUNT", "Q_OVERFLOW", "IGNORED"};
/* All queued events as text: NAME(file) NAME(file)/ ... */
static const char *events(void)
{
    text[0] = 0;
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, 10) > 0) {
        ssize_t n = read(fd, buf, sizeof(buf));
        for (char *q = buf; q < buf + n;) {
            struct inotify_event *e = (void *)q;
            for (int i = 0; i < 16; i++)
                if (e->mask & 1u << i)
                    sprintf(text + strlen(text), "%s%s%s%s", text[0] ? " " : "", names[i], e->mask & IN_ISDIR ? "/" : "", e->len ? ":" : "");
            if (e->len)
                strcat(text, e->name);
            q += sizeof(*e) + e->len;
        }
    }
    return text;
}

TAP_MAIN
{
    err(inotify_init1(0x12345), EINVAL, "inotify_init1: flags");
    fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ok(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC, "inotify_init1");
    err(read(fd, buf, sizeof(buf)), EAGAIN, "nothing");
    must(mkdir("d", 0755));
    int wd = inotify_add_watch(fd, "d", IN_ALL_EVENTS);
    ok(wd >= 1, "inotify_add_watch");
    is(inotify_add_watch(fd, "d", IN_ALL_EVENTS), wd, "again: the same number");
    err(inotify_add_watch(fd, "none", IN_ALL_EVENTS), ENOENT, "add: none");
    err(inotify_add_watch(fd, "d", 0), EINVAL, "add: no events");
    err(inotify_add_watch(0, "d", IN_OPEN), EINVAL, "add: not an inotify");
    err(inotify_add_watch(999, "d", IN_OPEN), EBADF, "add: bad descriptor");
    err(inotify_rm_watch(fd, 9999), EINVAL, "rm: none");
    int f = open("d/f", O_CREAT | O_RDWR, 0644);
    is_str(events(), "CREATE:f OPEN:f", "create");
    write(f, "x", 1);
    is_str(events(), "MODIFY:f", "write");
    write(f, "x", 1);
    write(f, "x", 1);
    is_str(events(), "MODIFY:f", "equal events are merged");
    lseek(f, 0, SEEK_SET);
    read(f, buf, 1);
    is_str(events(), "ACCESS:f", "read");
    fchmod(f, 0600);
    is_str(events(), "ATTRIB:f", "chmod");
    ftruncate(f, 0);
    is_str(events(), "MODIFY:f", "ftruncate");
    close(f);
    is_str(events(), "CLOSE_WRITE:f", "close after writing");
    f = open("d/f", O_RDONLY);
    close(f);
    is_str(events(), "OPEN:f CLOSE_NOWRITE:f", "open and close for reading");
    rename("d/f", "d/g");
    is_str(events(), "MOVED_FROM:f MOVED_TO:g", "rename");
    rename("d/g", "g");
    is_str(events(), "MOVED_FROM:g", "rename out");
    rename("g", "d/g");
    is_str(events(), "MOVED_TO:g", "rename in");
    link("d/g", "d/l");
    is_str(events(), "CREATE:l", "link");
    unlink("d/l");
    is_str(events(), "DELETE:l", "unlink");
    unlink("d/g");
    events();
    mkdir("d/sub", 0755);
    is_str(events(), "CREATE/:sub", "mkdir");
    rmdir("d/sub");
    is_str(events(), "DELETE/:sub", "rmdir");
    symlink("x", "d/s");
    is_str(events(), "CREATE:s", "symlink");
    unlink("d/s");
    is_str(events(), "DELETE:s", "unlink of a link");
    mkfifo("d/p", 0600);
    is_str(events(), "CREATE:p", "mkfifo");
    unlink("d/p");
    events();

    int dd = open("d", O_RDONLY);
    is_str(events(), "OPEN/", "opening the directory itself");
    close(dd);
    is_str(events(), "CLOSE_NOWRITE/", "closing it");
    int n = -1;
    close(open("d/q", O_CREAT | O_RDWR, 0600));
    ioctl(fd, FIONREAD, &n);
    ok(n >= 3 * 16, "FIONREAD");
    err(read(fd, buf, 8), EINVAL, "read: too small for an event");
    events();
    /* a file's own watch */
    int w2 = inotify_add_watch(fd, "d/q", IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF);
    ok(w2 > wd, "another watch");
    int q = open("d/q", O_WRONLY);
    events();
    write(q, "x", 1);
    is_str(events(), "MODIFY:q MODIFY", "file and directory");
    close(q);
    events();
    rename("d/q", "d/r");
    is_str(events(), "MOVED_FROM:q MOVED_TO:r MOVE_SELF", "MOVE_SELF");
    unlink("d/r");
    is_str(events(), "DELETE_SELF IGNORED DELETE:r", "DELETE_SELF and IGNORED");
    is(inotify_rm_watch(fd, wd), 0, "inotify_rm_watch");
    is_str(events(), "IGNORED", "IGNORED");
    close(open("d/z", O_CREAT, 0600));
    is_str(events(), "", "no more events");
    /* flags */
    wd = inotify_add_watch(fd, "d", IN_CREATE | IN_ONESHOT);
    mkdir("d/a", 0755);
    is_str(events(), "CREATE/:a IGNORED", "IN_ONESHOT");
    err(inotify_add_watch(fd, "d/z", IN_OPEN | IN_ONLYDIR), ENOTDIR, "IN_ONLYDIR");
    symlink("z", "d/lz");
    wd = inotify_add_watch(fd, "d/lz", IN_ATTRIB | IN_DONT_FOLLOW);
    chmod("d/z", 0644);
    is_str(events(), "", "IN_DONT_FOLLOW");
    inotify_rm_watch(fd, wd);
    events();
    wd = inotify_add_watch(fd, "d/z", IN_OPEN);
    is(inotify_add_watch(fd, "d/z", IN_MODIFY | IN_MASK_ADD), wd, "IN_MASK_ADD");
    q = open("d/z", O_WRONLY);
    write(q, "x", 1);
    is_str(events(), "OPEN MODIFY", "IN_MASK_ADD: both");
    err(inotify_add_watch(fd, "d/z", IN_MODIFY | IN_MASK_CREATE), EEXIST, "IN_MASK_CREATE");
    close(q);
    inotify_rm_watch(fd, wd);
    events();
    /* cookies */
    wd = inotify_add_watch(fd, "d", IN_MOVE);
    rename("d/z", "d/y");
    ssize_t len = read(fd, buf, sizeof(buf));
    struct inotify_event *e1 = (void *)buf, *e2 = (void *)(buf + sizeof(*e1) + e1->len);
    ok(len > 0 && e1->cookie && e1->cookie == e2->cookie && e1->len % 16 == 0, "a cookie joins the two");
    rmdir("d/a");
    rename("d/y", "d/a");
    uint32_t old = e1->cookie;
    read(fd, buf, sizeof(buf));
    ok(e1->cookie != old, "the next has another");
    unlink("d/a");
    unlink("d/lz");
    inotify_rm_watch(fd, wd);
    wd = inotify_add_watch(fd, "d", IN_DELETE_SELF);
    events();
    rmdir("d");
    is_str(events(), "DELETE_SELF IGNORED", "a watched directory goes") ;
    int gone[2] = {open("gone", O_CREAT | O_RDWR, 0600), open("kept", O_CREAT | O_RDWR, 0600)};
    wd = inotify_add_watch(fd, ".", IN_MODIFY | IN_EXCL_UNLINK);
    is(write(gone[0], "x", 1) + write(gone[1], "x", 1), 2, "write");
    is_str(events(), "MODIFY:gone MODIFY:kept", "IN_EXCL_UNLINK: files with names");
    unlink("gone");
    is(write(gone[0], "x", 1) + write(gone[1], "x", 1), 2, "write");
    is_str(events(), "MODIFY:kept", "IN_EXCL_UNLINK: a file without");
    inotify_rm_watch(fd, wd);
    events();
    unlink("kept");
    close(gone[0]);
    close(gone[1]);
    /* waiting */
    fcntl(fd, F_SETFL, 0);
    wd = inotify_add_watch(fd, ".", IN_CREATE);
    pid_t c = fork();
    if (!c) {
        sleep_ms(30);
        close(open("late", O_CREAT, 0600));
        _exit(0);
    }
    ok(read(fd, buf, sizeof(buf)) > 0, "read waits");
    waitpid(c, NULL, 0);
    return done();
}
