/* What the parts of procfs share.
 *
 * A tree is described by constant tables of struct pentry; inodes are made on lookup and keep the entry, and for those below
 * a process the ids (never pointers): every use looks the task up again under tasklist_lock, and the group's start
 * time tells a reused id apart. Text is made by show() into a strbuf without any lock of procfs held. */
#ifndef HARENA_PROCFS_INTERNAL_H
#define HARENA_PROCFS_INTERNAL_H

#include "vfs/internal.h"

#include "core/strbuf.h"
#include "proc/task.h"

enum pkind {
    PK_FILE, /* show, perhaps write */
    PK_DIR, /* sub */
    PK_ROOT, /* sub, then the live processes */
    PK_TASKS, /* threads of a process */
    PK_FDS, /* descriptors as magic links */
    PK_FDINFOS,
    PK_CPUS, /* sub, then cpu0 ... */
    PK_LINK, /* text */
    PK_SELF, /* text made for the caller */
    PK_MAGIC, /* follow */
    PK_MEM, /* memory of the process */
};

struct pnode;
struct pentry {
    const char *name; /* NULL: end of the table, which goes on at sub if that is set */
    u16 perm;
    u16 kind;
    const struct pentry *sub;
    const char *text; /* link target; files without show: the content */
    long (*show)(struct pnode *n, struct strbuf *sb);
    long (*follow)(struct pnode *n, struct path *out);
    long (*write)(struct pnode *n, struct uio *u); /* consumes it */
};

struct pnode {
    struct inode i;
    const struct pentry *e;
    u32 pid, tid; /* 0: not below a process */
    u64 start; /* tgroup.start_time */
    int fd; /* PK_FDS and PK_FDINFOS: which */
};

#define PNODE(inode) container_of(inode, struct pnode, i)

/* The task of a node, or NULL when it is gone; tasklist_lock held. */
struct task *pnode_task_locked(const struct pnode *n);
/* May the caller look into the task (memory map, descriptors, paths)? */
bool pnode_may_look_locked(const struct task *t);
struct files *pnode_files(const struct pnode *n); /* referenced; NULL: gone or not allowed */

long pnode_mount(const char *fstype, u64 magic, const struct pentry *root, struct super_block **out);

extern const struct pentry proc_pid_entries[], proc_tid_entries[], proc_root_entries[];
long proc_show_vmstat(struct pnode *n, struct strbuf *sb);
extern const struct pentry proc_ns_entries[], proc_kernel_more[], proc_vm_more[], proc_ipv4_entries[], proc_net_more[], proc_root_more[],
    proc_sysvipc_entries[], proc_sys_fs_more[];
static inline const struct pentry *pentry_next(const struct pentry *e) /* of a table; e: NULL or a named entry */
{
    if (e && !e->name)
        e = e->sub;
    return e && e->name ? e : NULL;
}
extern const struct file_ops proc_mem_fops;
extern const struct pentry proc_fd_link, proc_fdinfo_file, proc_pid_dir, proc_tid_dir, sys_cpu_dir;
long sysfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
long cgroupfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
u32 cpu_total(void);

#endif
