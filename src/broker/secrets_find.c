/* Secrets with several names (hard links): found before a sandbox starts, so that the other names look empty too. Only the usual places
 * are looked at, which costs a fraction of a millisecond: not a search of the disk. Used by the command line. */
#define _GNU_SOURCE
#include "broker/secrets.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 2000 /* of one directory */
#define DEPTH_MAX 3

struct found {
    struct secret_inode *list;
    u32 *count, max;
};

static void look_at(int dir, const char *name, struct found *f, int depth);

/* All of a directory that is a secret, or those in it that are. */
static void look_into(int dir, const char *name, bool all, struct found *f, int depth)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return;
    struct dirent *e;
    for (int n = 0; n < ENTRIES_MAX && (e = readdir(d)); n++)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && (all || secret_path(e->d_name)))
            look_at(fd, e->d_name, f, depth);
    closedir(d);
}

static void look_at(int dir, const char *name, struct found *f, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
        look_into(dir, name, true, f, depth + 1);
    else if (S_ISREG(st.st_mode) && st.st_nlink > 1 && *f->count < f->max)
        f->list[(*f->count)++] = (struct secret_inode){ st.st_dev, st.st_ino };
}

void secret_inodes(const char *dir, struct secret_inode *list, u32 *count, u32 max)
{
    static const char *const places[] = { /* below directories that are no secrets themselves */
        ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
        ".config/gcloud", ".config/gh", ".config/hub", ".config/rclone", ".config/doctl", ".config/git/credentials", ".config/pip/pip.conf",
        ".pip/pip.conf", ".local/share/keyrings", ".local/share/fish/fish_history", ".huggingface/token", ".cache/huggingface/token",
    };
    struct found f = { list, count, max };
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    look_into(fd, ".", false, &f, 0);
    for (size_t i = 0; i < ARRAY_COUNT(places); i++)
        look_at(fd, places[i], &f, 1);
    close(fd);
}
