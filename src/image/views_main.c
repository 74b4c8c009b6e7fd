/* harena-views DIR shared|private: fills the pack of exec views in DIR with the files whose descriptors arrive on descriptor 0
 * (a SOCK_SEQPACKET socket; one descriptor a packet), until the other end is closed and the queue is empty.
 *
 * Started by the runtime library when the first view is missing; it detaches, so that a sandbox that ends at once does not
 * wait for it and the terminal's signals do not reach it. The descriptors come from the broker, which chose the files; what is in
 * them is hostile: only the copy and the hash happen here, everything that looks at the content in a jail
 * (image/view_jail.c). Nothing is answered: the pack tells. A file that cannot be added is left out. */
#include "image/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE_MAX 512
#define SHARED_MAX (1ull << 30)
#define PRIVATE_MAX (256ull << 20)
#define PACKS_MAX 8 /* packs of single directories that are kept */

/* A descriptor, -1 at the end. */
static int receive(void)
{
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec v = {&byte, 1};

    for (;;) {
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(0, &m, MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
        int fd;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        return fd;
    }
}

struct old {
    char name[64];
    time_t used;
};

static int by_age(const void *a, const void *b)
{
    time_t x = ((const struct old *)a)->used, y = ((const struct old *)b)->used;

    return x < y ? 1 : x > y ? -1 : 0;
}

static void remove_pack(int base, const char *name)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(fd, e->d_name, 0);
    closedir(d);
    unlinkat(base, name, AT_REMOVEDIR);
}

/* Keeps the packs of single directories from growing in number: the ones longest not written go. */
static void remove_old(const char *dir)
{
    struct old old[256];
    u32 count = 0;
    char base[4096];
    const char *slash = strrchr(dir, '/');
    struct dirent *e;
    struct stat st;
    DIR *d;

    if (!slash || snprintf(base, sizeof(base), "%.*s", (int)(slash - dir), dir) >= (int)sizeof(base) || !(d = opendir(base)))
        return;
    while (count < 256 && (e = readdir(d)))
        if (!strncmp(e->d_name, "views-", 6) && strlen(e->d_name) < sizeof(old[0].name) && strcmp(e->d_name, slash + 1) &&
            !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode)) {
            strcpy(old[count].name, e->d_name);
            old[count++].used = st.st_mtime;
        }
    qsort(old, count, sizeof(old[0]), by_age);
    for (u32 i = PACKS_MAX - 1; i < count; i++)
        remove_pack(dirfd(d), old[i].name);
    closedir(d);
}

int main(int argc, char **argv)
{
    struct pack_options o = {.max_size = SHARED_MAX};
    struct rlimit none = {0, 0};
    struct view_entry e;
    struct pack *p;
    u32 done = 0;
    int fd;

    if (argc != 3 || (strcmp(argv[2], "shared") && strcmp(argv[2], "private"))) {
        fprintf(stderr, "usage: harena-views DIR shared|private (started by harena itself)\n");
        return 2;
    }
    switch (fork()) {
    case -1:
        return 1;
    case 0:
        break;
    default:
        _exit(0);
    }
    setsid();
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &none);
    umask(077);
    o.private = !strcmp(argv[2], "private");
    if (o.private)
        o.max_size = PRIVATE_MAX;
    if (pack_open(argv[1], &o, &p))
        return 1;
    while (done++ < QUEUE_MAX && (fd = receive()) >= 0) {
        int r = pack_add(p, fd, &e, NULL);

        close(fd);
        if (r == -ENOSPC || r == -ESTALE) /* the next sandbox starts a new file */
            break;
    }
    pack_close(p);
    if (o.private)
        remove_old(argv[1]);
    return 0;
}
