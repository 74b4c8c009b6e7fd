/* The virtual file system: objects and their operation tables.
 *
 * inode    a file object of one file system; file systems embed it (container_of).
 * dentry   a name: (parent, name) -> inode or negative; the dentry cache is the tree of names in use or cached.
 * mount    a super block's tree attached at a dentry.
 * file     an open file description (offset, flags).
 * files    a descriptor table.
 *
 * Reference counts: iget/iput, dget/dput, file_get/file_put, path_get/path_put; the last put frees.
 * Locks: inode->lock guards an inode's data, size and - for directories - its entries (create, unlink, rename take the
 * parents', in address order for rename, under rename_lock); dcache_lock (leaf) guards dentry links. Lookups of cached
 * names take no lock where it can be helped. file->pos_lock is outermost of the three.
 * File systems' operations are called with the locks that their comment names; they may sleep (hostfs asks the broker).
 * Errors: negative errno. Times: struct ktime {s64 sec; u32 nsec}. */
#ifndef HARENA_VFS_VFS_H
#define HARENA_VFS_VFS_H

#include "base/err.h"
#include "base/list.h"
#include "base/types.h"
#include "core/current.h"
#include "core/errno.h"
#include "core/mutex.h"
#include "core/uio.h"
#include "core/wait.h"

struct dentry;
struct inode;
struct mount;
struct path;
struct pipe;
struct strbuf; /* core/strbuf.h: text for /proc files */
struct view_entry; /* wire/view_format.h */

struct ktime {
    s64 sec;
    u32 nsec;
};

struct qstr {
    const char *name; /* not necessarily terminated */
    u32 len;
    u32 hash;
};

struct kstat {
    u64 dev, ino, size, blocks;
    u32 mode, nlink, uid, gid;
    u64 rdev;
    u32 blksize;
    struct ktime atime, mtime, ctime, btime;
};

struct iattr {
    u32 valid; /* ATTR_* */
    u32 mode, uid, gid;
    u64 size;
    struct ktime atime, mtime, ctime;
};
#define ATTR_MODE 1u
#define ATTR_UID 2u
#define ATTR_GID 4u
#define ATTR_SIZE 8u
#define ATTR_ATIME 16u
#define ATTR_MTIME 32u
#define ATTR_CTIME 64u

struct super_block {
    const struct super_ops *ops;
    const char *fstype; /* as in /proc/mounts */
    u64 dev; /* st_dev */
    u32 flags; /* MS_RDONLY ... */
    struct dentry *root;
    void *priv;
    u64 next_ino;
    u64 name_ttl; /* ns that a cached name is believed without asking ops->revalidate; 0 = for ever */
    u32 mounts; /* how many mounts show it */
    bool outside; /* its files are the host's, and may change while the sandbox is a snapshot */
};

struct kstatfs {
    u64 type, bsize, blocks, bfree, bavail, files, ffree, namelen;
};

struct super_ops {
    long (*statfs)(struct super_block *sb, struct kstatfs *st);
    void (*free_inode)(struct inode *i); /* last reference gone: release data and memory */
    long (*sync)(struct super_block *sb);
    void (*put_super)(struct super_block *sb); /* after the last mount is gone and no inode is left in use */
};

struct inode {
    const struct inode_ops *ops;
    const struct file_ops *fops; /* default for open files */
    struct super_block *sb;
    u64 ino;
    u32 refs;
    u32 mode, uid, gid, nlink;
    u64 rdev;
    u64 size; /* under lock to write, atomic to read */
    u64 blocks; /* 512-byte units */
    struct ktime atime, mtime, ctime, btime;
    struct mutex lock;
    u32 flags; /* INODE_* */
    s32 write_count; /* open for writing (>0) or executing (<0): ETXTBSY */
    struct list flocks; /* POSIX and flock locks: vfs/locks.c */
    struct waitq flock_wait;
    struct list watches; /* inotify */
    struct pipe *pipe; /* FIFO: set by ipc/pipe */
    void *sock; /* bound AF_UNIX socket: set by net/unix */
    void *priv;
    const char *link; /* symlink text that lives as long as the inode (not terminated), or NULL: ask ops->readlink */
    u32 link_len;
    u32 seals; /* F_SEAL_*, under lock */
    u32 mapped; /* has been mapped by somebody: cutting it short must be told (current_file_cut) */
    u64 cache_key; /* inode cache: vfs/inode.c */
    struct inode *cache_next;
};
#define INODE_CACHED 1u
#define INODE_SEALABLE 2u /* memfd */
#define INODE_DEAD_DIR 4u /* removed directory: nothing can be made in it */
#define INODE_MAGIC_LINK 8u /* ops->follow */
#define INODE_NO_ATIME 16u
#define INODE_UNLINKED 64u /* nlink fell to 0: cannot be linked again (an O_TMPFILE file can) */
#define INODE_PSEUDO 32u /* anonymous: pipes, sockets ... */

/* One directory entry, delivered by iterate; returns false when the buffer is full. */
struct dir_ctx {
    u64 pos; /* cookie of the next entry */
    bool (*emit)(struct dir_ctx *c, const char *name, u32 len, u64 next_pos, u64 ino, u32 dt_type);
};

struct inode_ops {
    /* dir->lock held. Return a referenced inode, NULL if absent, or an error pointer. */
    struct inode *(*lookup)(struct inode *dir, const struct qstr *name);
    /* Make a node of any type (mode has S_IFMT); `target` for symlinks. dir->lock held; the name does not exist. */
    struct inode *(*create)(struct inode *dir, const struct qstr *name, u32 mode, u64 rdev, const char *target);
    long (*link)(struct inode *dir, const struct qstr *name, struct inode *target);
    long (*unlink)(struct inode *dir, const struct qstr *name, struct inode *target);
    long (*rmdir)(struct inode *dir, const struct qstr *name, struct inode *target);
    long (*rename)(struct inode *old_dir, const struct qstr *old_name, struct inode *node, struct inode *new_dir,
                   const struct qstr *new_name, struct inode *replaced, u32 flags);
    long (*readlink)(struct inode *i, char *buf, size_t size); /* bytes, not terminated */
    /* Magic links of /proc (fd, exe, cwd, root): fills a referenced path instead of text. */
    long (*follow)(struct inode *i, struct path *out);
    long (*getattr)(struct inode *i, struct kstat *st); /* NULL: from the inode's fields */
    long (*setattr)(struct inode *i, const struct iattr *a); /* i->lock held; permissions already checked */
    long (*getxattr)(struct inode *i, const char *name, void *buf, size_t size);
    long (*setxattr)(struct inode *i, const char *name, const void *buf, size_t size, int flags); /* buf NULL: remove */
    long (*listxattr)(struct inode *i, char *buf, size_t size);
    /* Is a cached name still right? NULL: always. false: drop and look up again. No locks held. */
    bool (*revalidate)(struct inode *dir, const struct qstr *name, struct inode *i);
    long (*tmpfile)(struct inode *dir, u32 mode, struct inode **out); /* O_TMPFILE */
};

struct path {
    struct mount *mnt;
    struct dentry *dentry;
};

struct file {
    const struct file_ops *ops;
    u32 refs;
    u32 flags; /* O_* status flags and access mode */
    u32 mode; /* FMODE_* */
    struct path path; /* anonymous files: of a pseudo file system ("anon_inode:[eventfd]") */
    struct inode *inode; /* = path.dentry->inode, or the inode below it that has the contents (overlay) */
    u64 pos;
    struct mutex pos_lock;
    void *priv;
    struct list epitems; /* epoll registrations: ipc/epoll */
    u32 owner_pid; s32 owner_type; int owner_sig; /* F_SETOWN, F_SETSIG */
    struct fasync *async; /* O_ASYNC: proc/fasync.c */
};
#define FMODE_READ 1u
#define FMODE_WRITE 2u
#define FMODE_SEEK 4u /* has a position: pos_lock used, lseek allowed */
#define FMODE_PATH 8u /* O_PATH */
#define FMODE_WRITER 32u /* counted in inode.write_count */
#define FMODE_PREAD 16u

struct poll_table; /* ipc/poll.h: collects waiters */
void poll_wait(struct file *f, struct waitq *q, struct poll_table *pt); /* pt may be NULL: only query */

/* A piece of a file that can be host-mapped: host descriptor slot and offset in it. */
struct map_extent {
    int fd; /* FD_D, FD_IMAGE0 + n, FD_VIEWS, grant slot; -1: zero pages (anonymous) */
    u64 off; /* page aligned, of the first byte asked for */
    u64 size; /* bytes that lie there contiguously, page multiple */
};

struct file_ops {
    /* pos: file position to use and advance (seekable), or NULL (stream). Return bytes or negative errno. */
    long (*read)(struct file *f, struct uio *u, u64 *pos);
    long (*write)(struct file *f, struct uio *u, u64 *pos); /* O_APPEND handled by the implementation under inode->lock */
    long (*iterate)(struct file *f, struct dir_ctx *c); /* inode->lock held */
    u32 (*poll)(struct file *f, struct poll_table *pt); /* EPOLL* events ready; NULL: always readable and writable */
    long (*ioctl)(struct file *f, u32 cmd, u64 arg); /* -ENOTTY when unknown */
    long (*llseek)(struct file *f, s64 off, int whence); /* NULL: generic; pos_lock held */
    long (*fsync)(struct file *f, bool data_only);
    long (*fallocate)(struct file *f, int mode, u64 off, u64 size);
    long (*open)(struct file *f); /* after the file is set up; may replace ops and priv */
    void (*release)(struct file *f); /* last reference gone */
    long (*flush)(struct file *f); /* each close of a descriptor */
    /* Where file bytes [off, off+max) can be mapped from; off page aligned and below the page-rounded EOF. The inode
     * must keep that place until unmap() has been called as often as map(): i.e. mapped windows do not move. `write_shared`: a
     * shared mapping that may be written. NULL: -ENODEV. */
    long (*map)(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out);
    void (*unmap)(struct file *f, bool write_shared);
    /* Executable views: the view entry of this file, or -ENOENT. view_fd: slot of its container. make: the file is about to be
     * executed: a view that can be had soon is worth waiting for. */
    long (*view)(struct file *f, bool make, struct view_entry *out, int *view_fd);
    void (*show_fdinfo)(struct file *f, struct strbuf *sb);
};

/* Reference counts */
static inline void file_get(struct file *f) { atomic_add(&f->refs, 1); }
void file_put(struct file *f);
static inline void iget(struct inode *i) { atomic_add(&i->refs, 1); }
void iput(struct inode *i);
void path_get(struct path *p);
void path_put(struct path *p);

/* Descriptors (vfs/files.c) */
#define FILES_MAX 65536
void files_set_max(u32 max); /* of open files in the sandbox; 0: the default. At boot */
u32 files_max(void);
u32 files_count(void);
struct files *files_new(void);
struct files *files_clone(struct files *old); /* fork */
void files_get(struct files *fs);
void files_put(struct files *fs); /* last: closes everything */
void files_close_on_exec(struct files *fs);
struct files *files_unshare(struct files *fs); /* a private copy if shared; fs is the caller's to put when nobody finds it any more */
struct file *fd_get(int fd); /* of the current task; referenced; NULL if not open (O_PATH files too) */
long fd_alloc(u32 min, u32 flags); /* O_CLOEXEC; reserves the lowest free number; -EMFILE */
void fd_install(int fd, struct file *f); /* takes the reference */
long fd_new_pair(struct file *const f[2], u32 flags, uptr out);
void fd_release(int fd); /* gives a reserved number back */
long fd_new(struct file *f, u32 flags); /* alloc + install; puts f on failure */
long fd_close(int fd);
struct file *files_lookup(struct files *fs, int fd); /* of another task (for /proc); referenced or NULL */
int files_next(struct files *fs, int fd); /* lowest open number >= fd, or -1 */

/* Anonymous files: eventfd, epoll, sockets, pipes. `name` as readlink /proc/self/fd shows it ("anon_inode:[eventfd]",
 * "pipe:[123]", "socket:[124]": the number is the inode's). mode: S_IFIFO|0600, S_IFSOCK|0777, 0600 ... */
struct file *file_anon(const struct file_ops *ops, void *priv, const char *name, u32 mode, u32 flags);

/* Names (vfs/namei.c) */
#define LOOKUP_FOLLOW 1u
#define LOOKUP_DIRECTORY 2u
#define LOOKUP_PARENT 4u
#define LOOKUP_EMPTY 8u /* "" means dirfd itself */
#define LOOKUP_BENEATH 16u
#define LOOKUP_IN_ROOT 32u
#define LOOKUP_NO_SYMLINKS 64u
#define LOOKUP_NO_MAGICLINKS 128u
#define LOOKUP_NO_XDEV 256u
#define LOOKUP_KERNEL 512u /* no permission checks (boot) */
#define LOOKUP_NO_MOUNT 1024u /* the last component's mounts are not entered */
long path_lookup(int dirfd, const char *name, u32 flags, struct path *out); /* kernel string; referenced result */
long user_path(int dirfd, uptr name, u32 flags, struct path *out);
struct file *file_open_path(struct path *p, u32 flags); /* p is not consumed */
struct file *file_open_exec(struct path *p); /* a regular file to execute: the right to do so is all that is asked for */
struct file *file_open(int dirfd, const char *name, u32 flags, u32 mode);
/* Absolute text of a path as seen from the current root; returns a pointer inside buf or an error pointer. */
char *path_text(const struct path *p, char *buf, size_t size);
char *path_text_cwd(const struct path *p, char *buf, size_t size); /* getcwd: says when the root directory is not above */
long vfs_mknod(int dirfd, const char *name, u32 mode, u64 rdev, struct inode **out); /* AF_UNIX bind */
#define MAY_EXEC 1u
#define MAY_WRITE 2u
#define MAY_READ 4u
long inode_permission(struct inode *i, u32 mask);
long vfs_getattr(const struct path *p, struct kstat *st);

/* Exec and mapping */
long deny_write(struct file *f); /* ETXTBSY while executing */
void allow_write(struct file *f);
/* Whole-file helpers for the loader: kernel buffer. */
long file_read_kernel(struct file *f, void *buf, size_t size, u64 off);

/* Memory file for MAP_SHARED|MAP_ANONYMOUS, memfd_create and SysV shared memory (fs/tmpfs): an unlinked tmpfs file. */
struct file *shmem_file(const char *name, u64 size, u32 flags);

/* Character devices (fs/dev): open of (major, minor) gets these file_ops; ops->open may look at f->inode->rdev. */
long register_chrdev(u32 major, u32 minor_first, u32 minor_count, const struct file_ops *ops, const char *name);
/* A node in /dev: path below /dev. */
long dev_create(const char *path, u32 mode, u64 rdev);
long dev_remove(const char *path); /* ptys come and go */

/* inotify hook (ipc/inotify registers): called by vfs operations without locks held. */
void fsnotify(struct inode *dir, const struct qstr *name, struct inode *node, u32 mask, u32 cookie); /* ipc/inotify.c */

/* Time stamps: current coarse real time. */
struct ktime now_ktime(void);

static inline u64 makedev(u32 major, u32 minor)
{
    return ((u64)(minor & 0xff)) | ((u64)(major & 0xfff) << 8) | ((u64)(minor & ~0xffu) << 12) |
           ((u64)(major & ~0xfffu) << 32);
}

#endif
