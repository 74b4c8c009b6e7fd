/* What the parts of vfs/ and the file system calls share. */
#ifndef HARENA_VFS_INTERNAL_H
#define HARENA_VFS_INTERNAL_H

#include <linux/capability.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>

#include "vfs/dentry.h"
#include "vfs/fs_info.h"
#include "vfs/mount.h"

/* umount2 flags (not in the UAPI headers) */
#define MNT_FORCE 1
#define MNT_DETACH 2
#define MNT_EXPIRE 4
#define UMOUNT_NOFOLLOW 8

#define NAME_LEN_MAX 255
#define PATH_LEN_MAX 4096
#define PERM_MASK 07777u

/* Inotify events (<linux/inotify.h> has them too; here for those who raise them). */
#define FSN_ACCESS 1u
#define FSN_MODIFY 2u
#define FSN_ATTRIB 4u
#define FSN_CLOSE_WRITE 8u
#define FSN_CLOSE_NOWRITE 16u
#define FSN_OPEN 32u
#define FSN_MOVED_FROM 64u
#define FSN_MOVED_TO 128u
#define FSN_CREATE 256u
#define FSN_DELETE 512u
#define FSN_DELETE_SELF 1024u
#define FSN_MOVE_SELF 2048u
#define FSN_UNLINKED 0x04000000u /* IN_EXCL_UNLINK: of a file whose name is gone */
#define FSN_ISDIR 0x40000000u

/* ---- user path names ---- */
struct name_buf {
    char *p; /* small or kmalloc'd */
    char small[256];
};
long name_from_user(struct name_buf *n, uptr user); /* -ENOENT for "" must be checked by the caller */
void name_free(struct name_buf *n);

/* ---- namei.c ---- */
struct walk;
/* The parent of the last component: *last points into `name` text or *keep (kfree it); `trailing`: slashes followed it.
 * -EEXIST/-EBUSY as `special` for ".", ".." and "/" (then last->len == 0). */
struct parent_ref {
    struct path dir;
    struct qstr last; /* len 0: ".", ".." or the root */
    char type; /* 'n' name, '.' dot, ':' dotdot, '/' root */
    bool trailing;
    char *keep;
};
long path_parent(int dirfd, const char *name, u32 flags, struct parent_ref *out);
void parent_put(struct parent_ref *r);
/* Looks one name up below dir (inode lock of dir held), creating the dentry, possibly negative. No permission check. */
struct dentry *lookup_one_locked(struct dentry *dir, const struct qstr *name);
long path_lookup_from(const struct path *root, const struct path *base, const char *name, u32 flags, struct path *out);
long path_parent_from(const struct path *root, const struct path *base, const char *name, u32 flags,
                      struct parent_ref *out);
long path_lookup_cred(int dirfd, const char *name, u32 flags, const struct cred *cred, struct path *out);
char *path_text_from(const struct path *p, const struct path *root, char *buf, size_t size);
long fd_path(int dirfd, struct path *out); /* of an open descriptor; AT_FDCWD too */

/* ---- ops.c: changes of the name space; permissions checked, locks taken, fsnotify called ---- */
long vfs_make(int dirfd, const char *name, u32 mode, u64 rdev, const char *target, struct path *made); /* made may be NULL */
long vfs_remove(int dirfd, const char *name, bool dir);
long vfs_link(int old_dirfd, const char *old_name, int new_dirfd, const char *new_name, int at_flags);
long vfs_rename(int old_dirfd, const char *old_name, int new_dirfd, const char *new_name, u32 flags);
/* Permission to add or remove names in dir (dir lock held). */
long may_create(struct inode *dir);
long may_delete(struct inode *dir, struct inode *victim, bool is_dir);
u32 apply_umask(u32 mode);
void notify_dir(struct inode *dir, const struct qstr *name, struct inode *i, u32 mask, u32 cookie);

/* ---- inode.c ---- */
void inode_init(struct inode *i, struct super_block *sb, u32 mode);
void inode_init_owner(struct inode *i, const struct inode *dir, u32 mode); /* uid, gid, sgid of directories */
struct inode *inode_cache_get(struct super_block *sb, u64 key); /* referenced or NULL */
/* Enters i (refs 1); returns i, or the other inode that was first (referenced; i is then dropped). */
struct inode *inode_cache_add(struct inode *i, u64 key);
void inode_cache_each(void (*fn)(struct inode *i)); /* nobody else runs */
void inode_cache_rekey(struct inode *i, u64 key); /* enters it if it was not cached */
long vfs_setattr(const struct path *p, struct iattr *a); /* permission rules of chmod, chown, utimes, truncate; locks */
long vfs_truncate(const struct path *p, u64 size);
void generic_setattr(struct inode *i, const struct iattr *a); /* copies the fields */
void generic_getattr(struct inode *i, struct kstat *st);
void touch_mtime(struct inode *i); /* mtime and ctime = now */
void touch_atime(struct file *f); /* relatime */
void remove_privs(struct inode *i); /* suid and sgid after a write; inode lock held */
long inode_permission_cred(const struct inode *i, u32 mask, const struct cred *c);
bool inode_owner_or_capable(const struct inode *i);
bool has_cap(int cap); /* true at boot, when there is no task */

/* ---- open.c ---- */
struct file *file_alloc(void); /* -ENFILE, -ENOMEM */
struct file *file_open_how(int dirfd, const char *name, u32 flags, u32 mode, u32 lookup); /* lookup: LOOKUP_* of openat2 */
/* A kernel-internal file on an inode, without a path: for reading lower files and directories. */
struct file *file_open_inode(struct inode *i, u32 flags);
/* From an open operation: the file works on another inode's contents from now on (overlay). */
long file_swap_inode(struct file *f, struct inode *real);
long file_read(struct file *f, struct uio *u, u64 *pos); /* mode checks, notify */
long file_write(struct file *f, struct uio *u, u64 *pos);
bool file_pos_begin(struct file *f); /* takes pos_lock if others may use f; pass the result to file_pos_end */
void file_pos_end(struct file *f, bool locked);
long file_seek(struct file *f, s64 off, int whence);
long generic_llseek(struct file *f, s64 off, int whence, u64 size);
void notify_file(struct file *f, u32 mask);
void notify_path(const struct path *p, u32 mask);
struct file *file_from_inode(struct inode *i, const char *name, u32 flags); /* consumes i; unlinked, anonymous mount */

/* ---- files.c ---- */
bool files_single(void); /* the current table has one user */
long fd_dup(int fd, u32 min, u32 flags);
long fd_dup_to(int fd, int new_fd, u32 flags);
long fd_get_cloexec(int fd);
long fd_set_cloexec(int fd, bool on);
long fd_close_range(u32 first, u32 last, u32 flags);

/* ---- locks.c ---- */
struct flock;
long posix_lock_set(struct file *f, u32 cmd, struct flock *fl);
long posix_lock_get(struct file *f, u32 cmd, struct flock *fl);
void posix_locks_drop(struct file *f, const void *owner); /* a descriptor of this process was closed */
void file_locks_drop(struct file *f); /* last reference gone */
long flock_set(struct file *f, int op);

/* ---- xattr.c ---- */
long vfs_getxattr(struct inode *i, const char *name, void *buf, size_t size);
long vfs_setxattr(const struct path *p, const char *name, const void *buf, size_t size, int flags);
long vfs_listxattr(struct inode *i, char *buf, size_t size);

extern struct mount *anon_mount; /* KSTATE: of anonymous files */
long anon_init(void);

#endif
