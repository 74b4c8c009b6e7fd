/* /etc/hosts: programs look up "localhost" and the machine's own name there (Java's getLocalHost, gethostbyname(gethostname())), and many root
 * directories and images come without it, or cannot know the name. So a line with the sandbox's name is added, and those of localhost where
 * the file is missing or empty. Where /etc can be written inside, the file itself is changed, in the layer that is thrown away; on a host
 * directory - read-only, or writable for the guest - a file in memory is put over it, as container engines do. Without /etc nothing happens, and where the name is
 * known already. A copy made from a snapshot has another name: the line is exchanged, if it is there still.
 *
 * Files are at most TEXT_MAX bytes; longer ones are left alone. */
#include "boot/boot.h"

#include "base/string.h"
#include "core/config.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "fs/tmpfs/tmpfs.h"
#include "vfs/internal.h"

#define HOSTS "/etc/hosts"
static const char localhost[] = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
#define LINE_MAX 96u /* a host name has 64 */
#define TEXT_MAX (8192u - LINE_MAX - sizeof(localhost))

static KSTATE char own_line[LINE_MAX]; /* that we added; "" = none */

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || !c; }

/* Is `name` a word of text that does not begin a line and is no comment? */
static bool names(const char *text, const char *name)
{
    size_t len = strlen(name);
    bool first = true, comment = false;
    for (const char *p = text; *p; p++) {
        comment |= *p == '#';
        if (*p == '\n')
            first = true, comment = false;
        else if (!comment && !first && blank(p[-1]) && !strncmp(p, name, len) && blank(p[len]))
            return true;
        else if (!blank(*p))
            first = false;
    }
    return false;
}

static long read_text(struct file *f, char *text)
{
    struct uio u;
    u64 pos = 0;
    uio_kernel(&u, text, TEXT_MAX);
    long n = file_read(f, &u, &pos);
    text[MAX(n, 0l)] = 0;
    return n;
}

static long write_text(struct file *f, const char *text)
{
    struct uio u;
    u64 pos = 0;
    uio_kernel(&u, (void *)text, strlen(text));
    return file_write(f, &u, &pos);
}

/* An empty file in memory over /etc/hosts. */
static long put_over(void)
{
    struct super_block *sb;
    struct qstr name = qstr_make("hosts", 5);
    struct path target;
    long r = path_lookup(AT_FDCWD, HOSTS, LOOKUP_FOLLOW, &target);
    if (r)
        return r;
    r = tmpfs_mount("hosts", 0, "mode=755", &sb);
    if (!r) {
        struct inode *dir = sb->root->inode, *i;
        mutex_lock(&dir->lock);
        struct dentry *d = lookup_one_locked(sb->root, &name);
        i = IS_ERR(d) ? ERR_PTR(PTR_ERR(d)) : dir->ops->create(dir, &name, S_IFREG | 0644, 0, NULL);
        if (!IS_ERR(i))
            d_instantiate(d, i);
        mutex_unlock(&dir->lock);
        r = IS_ERR(i) ? PTR_ERR(i) : vfs_mount(sb, d, "tmpfs", &target, MS_NOSUID | MS_NODEV | MS_RELATIME);
        if (!IS_ERR(d))
            dput(d);
    }
    path_put(&target);
    return r;
}

static bool root_readonly(void)
{
    struct path root;
    vfs_root(&root);
    bool ro = mount_readonly(root.mnt);
    path_put(&root);
    return ro;
}

/* Our line goes. false: it is not there any more. */
static bool cut_own_line(char *text)
{
    size_t len = strlen(own_line);
    for (char *p = text; *p; p++) {
        if (strncmp(p, own_line, len))
            continue;
        memmove(p, p + len, strlen(p + len) + 1);
        return true;
    }
    return !len;
}

void hosts_name(void)
{
    const char *host = boot_config()->hostname;
    char *text = kmalloc(TEXT_MAX + LINE_MAX + sizeof(localhost));
    struct file *f = file_open(AT_FDCWD, HOSTS, O_RDONLY | O_NONBLOCK, 0);
    long n = IS_ERR(f) ? PTR_ERR(f) : text && S_ISREG(f->inode->mode) ? read_text(f, text) : -EINVAL;
    bool there = !IS_ERR(f), outside = there && f->path.mnt->sb->outside;
    struct mount *own = NULL; /* put there read-only by us, before this is a copy */
    if (there && !outside && own_line[0] && f->path.mnt->root == f->path.dentry && f->path.mnt->flags & MS_RDONLY) {
        own = mntget(f->path.mnt);
        own->flags &= ~(u32)MS_RDONLY;
    }
    if (there)
        file_put(f);
    if (!text || !host[0] || (n < 0 && n != -ENOENT) || n >= (long)TEXT_MAX)
        goto out;
    if (n <= 0)
        memcpy(text, localhost, sizeof(localhost));
    if (!cut_own_line(text) || names(text, host))
        goto out;
    size_t len = strlen(text);
    if (len && text[len - 1] != '\n')
        text[len++] = '\n';
    fmt_print(own_line, sizeof(own_line), "127.0.1.1\t%s\n", host);
    memcpy(text + len, own_line, strlen(own_line) + 1);
    if (outside && put_over())
        goto out;
    f = file_open(AT_FDCWD, HOSTS, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (IS_ERR(f) || write_text(f, text) < 0)
        own_line[0] = 0;
    else if (outside && root_readonly())
        f->path.mnt->flags |= MS_RDONLY;
    if (!IS_ERR(f))
        file_put(f);
out:
    if (own) {
        own->flags |= MS_RDONLY;
        mntput(own);
    }
    kfree(text);
}
