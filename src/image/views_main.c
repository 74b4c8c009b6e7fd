/* harena-views SYSTEM-DIR OWN-DIR: fills the packs of exec views in the two directories (either may be "") with the files whose
 * descriptors arrive on descriptor 0 (a SOCK_SEQPACKET socket; one descriptor a packet, whose byte is 's' or 'o'), until
 * the other end is closed and the queue is empty.
 *
 * Started by the runtime library when the first view is missing; it detaches, so that a sandbox that ends at once does not
 * wait for it and the terminal's signals do not reach it. The descriptors come from the broker, which chose the files; what is in
 * them is hostile: only the copy and the hash happen here, everything that looks at the content in a jail
 * (image/view_jail.c). Nothing is answered: the pack tells. A file that cannot be added is left out. */
#include "image/pack.h"
#include "image/view_build.h"
#include "wire/fds.h"

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
#define FILE_SECONDS 10 /* of cpu time for one file, and for all: hostile ones may be made to be slow */
#define ALL_SECONDS 60
#define PACKS_MAX 8 /* packs of single directories that are kept */

/* A descriptor, -1 at the end. *own: for which pack. */
static int receive(bool *own)
{
    char byte;
    u32 count;
    int fd;

    for (;;) {
        if (fds_recv(0, &byte, 1, &fd, 1, &count, NULL, 0) <= 0)
            return -1;
        if (!count)
            continue;
        *own = byte == 'o';
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

/* Keeps the packs of single directories from growing in number: the ones longest not used go (runtime/views.c). */
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

static bool tired(void)
{
    struct rusage u;

    return getrusage(RUSAGE_CHILDREN, &u) || u.ru_utime.tv_sec + u.ru_stime.tv_sec > ALL_SECONDS;
}

int main(int argc, char **argv)
{
    static const struct pack_options options[2] = {{.max_size = SHARED_MAX}, {.max_size = PRIVATE_MAX, .private = true}};
    struct rlimit none = {0, 0};
    struct view_entry e;
    struct pack *p[2] = {0};
    bool closed[2] = {0}, own;
    u32 done = 0;
    int fd;

    if (argc != 3) {
        fprintf(stderr, "usage: harena-views SYSTEM-DIR OWN-DIR (started by harena itself)\n");
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
    view_jail_seconds = FILE_SECONDS;
    while (done++ < QUEUE_MAX && !tired() && (fd = receive(&own)) >= 0) {
        int r;

        if (!p[own] && !closed[own] && (!argv[1 + own][0] || pack_open(argv[1 + own], &options[own], &p[own])))
            closed[own] = true;
        r = closed[own] ? 0 : pack_add(p[own], fd, &e, NULL);
        close(fd);
        if (r == -ENOSPC || r == -ESTALE) /* the next sandbox starts a new file */
            closed[own] = true;
    }
    if (p[1])
        remove_old(argv[2]);
    return 0;
}
