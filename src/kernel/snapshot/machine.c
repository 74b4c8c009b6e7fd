/* A sandbox made from a snapshot is a new machine. Programs that care can watch the file /run/harena/generation (inotify): it holds a
 * random number of 32 hex digits that is another one in every copy. /etc/machine-id is made anew where there is one that can be
 * written; the host name and /proc/sys/kernel/random/boot_id come with the mail. Where the root is read-only there is no such file.
 *
 * /run/harena/env is what `harena restore -e` gave this copy: lines NAME=VALUE. It is there before the copy's
 * programs go on. */
#include "base/string.h"
#include "core/random.h"
#include "snapshot/snapshot.h"
#include "vfs/internal.h"
#include <linux/fcntl.h>

#define GENERATION "/run/harena/generation"
#define ENV "/run/harena/env"
#define MACHINE_ID "/etc/machine-id"
#define ID_SIZE 33

static void write_text(const char *path, u32 flags, const char *text, u32 size)
{
    struct uio u;
    u64 pos = 0;
    struct file *f = file_open(AT_FDCWD, path, O_WRONLY | flags, 0644);
    if (IS_ERR(f))
        return;
    uio_kernel(&u, (void *)text, size);
    if (file_write(f, &u, &pos) < 0) { /* a full file system: the old one stays */
    }
    file_put(f);
}

static void write_id(const char *path, u32 flags)
{
    u8 id[16];
    char text[ID_SIZE + 1];
    random_bytes(id, sizeof(id));
    for (u32 i = 0; i < sizeof(id); i++)
        fmt_print(text + 2 * i, 3, "%02x", id[i]);
    text[ID_SIZE - 1] = '\n';
    write_text(path, flags, text, ID_SIZE);
}

static bool make_directory(const char *path)
{
    long r = vfs_make(AT_FDCWD, path, S_IFDIR | 0755, 0, NULL, NULL);
    return !r || r == -EEXIST;
}

void machine_begins(void)
{
    if (make_directory("/run") && make_directory("/run/harena"))
        write_id(GENERATION, O_CREAT);
}

bool machine_has_id(void)
{
    struct file *f = file_open(AT_FDCWD, MACHINE_ID, O_RDONLY, 0);
    bool there = !IS_ERR(f) && f->inode->size == ID_SIZE;
    if (!IS_ERR(f))
        file_put(f);
    return there;
}

void machine_changed(bool has_id)
{
    if (has_id)
        write_id(MACHINE_ID, 0);
    write_id(GENERATION, 0);
}

void machine_env(const char *text, u32 size)
{
    if (size)
        write_text(ENV, O_CREAT | O_TRUNC, text, size);
}
