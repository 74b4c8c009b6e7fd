/* hostfs: host directories through the broker. See hostfs.c (names, attributes) and hostfs_data.c (contents). */
#ifndef HARENA_FS_HOSTFS_H
#define HARENA_FS_HOSTFS_H

#include "core/broker_call.h"
#include "vfs/internal.h"

#define HOST_TTL 1000000000ull /* ns that attributes and names are believed */

struct host_sb {
    u32 mount; /* the broker's index */
    struct mutex tree_lock; /* parent and name of all inodes; leaf */
};

/* A window that is too small for the file's new version but still mapped. */
struct host_stale {
    struct host_stale *next;
    u64 win, got;
};

struct host_inode {
    struct inode i;
    struct host_inode *parent; /* referenced; NULL: the mount's root */
    char *name; /* of the name last looked up; tree_lock */
    u64 dev, ino; /* the host's */
    u64 attr_time; /* monotonic ns of the last answer */
    /* the rest: i.lock */
    u32 handle;
    bool handle_open, handle_write;
    u32 opens; /* files that use the handle */
    bool elsewhere; /* from a snapshot: the file may have another number on this host */
    u64 win, win_got; /* window of D with the contents, one bit per chunk in `have` */
    u64 *have;
    u64 charged; /* pages */
    u64 version[4]; /* size, mtime, ctime of what is cached */
    u32 map_count;
    bool write_mapped; /* shared and writable, since map_count was 0: the window is newer than the file (hostfs_wmap.c) */
    u64 *hash; /* of each page of the window as the file has it; while write_mapped */
    struct host_stale *stale;
    struct list cached; /* all inodes with a window, oldest first; cache_lock */
    /* exec view, hostfs_view.c; view_lock */
    struct view_entry *view; /* of this version of the file; the pack holds a copy of it at copy_off */
    u32 view_pack; /* descriptor of the pack */
    u64 view_version[4];
    u64 view_retry; /* monotonic ns: not asked for again before */
};

static inline struct host_inode *host_of(struct inode *i) { return container_of(i, struct host_inode, i); }
static inline struct host_sb *host_sb_of(const struct inode *i) { return i->sb->priv; }

/* Snapshots: nobody else runs. Drops what need not be kept; after coming back, what the old broker knew is not known any more. */
void hostfs_forget(void);
void hostfs_restored(void);

long hostfs_mount(u32 index, bool readonly, struct super_block **out);

/* One request about `h`'s path (or h's path + "/" + name); data2 follows the terminated path. */
long host_path_call(struct host_inode *h, const struct qstr *name, struct broker_args *a);
long host_path(struct host_inode *h, const struct qstr *name, char *buf, size_t size); /* length with the NUL */
void host_set_attr(struct host_inode *h, const struct wire_attr *a);
long host_refresh(struct host_inode *h); /* asks for attributes if they are old */

/* hostfs_view.c */
void host_view_answer(struct host_inode *h, const struct wire_view *w); /* w: of a look-up answer, NULL: it had none */
long host_view(struct file *f, bool make, struct view_entry *out, int *view_fd);
bool host_view_copy(struct host_inode *h, u32 *pack, u64 *off); /* where a pack has the whole file, this version of it */
void host_view_free(struct host_inode *h);
void host_version(const struct host_inode *h, u64 v[4]); /* size, mtime, ctime */

struct host_answer { /* to a look-up */
    struct wire_attr attr;
    struct wire_view view;
};
static inline const struct wire_view *host_answer_view(const struct host_answer *w, const struct broker_args *a)
{
    return a->value == WIRE_VIEW_READY && a->reply_size >= sizeof(*w) ? &w->view : NULL;
}

/* hostfs_wmap.c, i.lock held */
#define HOST_CHUNK (128u << 10)
static inline bool host_have(const struct host_inode *h, u64 off) { return h->have[off / HOST_CHUNK / 64] >> off / HOST_CHUNK % 64 & 1; }
long host_wmap_begin(struct host_inode *h); /* window and handle are there */
void host_wmap_filled(struct host_inode *h, u64 off, u64 size); /* the window now shows the file there */
long host_wmap_sync(struct host_inode *h, u64 from, u64 to); /* writes changed pages to the file */
void host_wmap_end(struct host_inode *h); /* nothing is mapped any more: after a sync */

/* hostfs_ahead.c */
struct host_ahead {
    struct wire_many w;
    u64 when; /* monotonic ns of the answer */
};
void host_ahead_list(const struct host_inode *dir, const u8 *list, u32 size);
void host_ahead_reset(void);
bool host_ahead_find(struct host_inode *dir, const struct qstr *name, struct host_ahead *out);

/* hostfs_data.c */
long host_handle_get(struct host_inode *h, bool write); /* i.lock held */
extern const struct file_ops host_file_fops;
void host_data_restored(struct host_inode *h);
void host_data_free(struct host_inode *h);
void host_data_check(struct host_inode *h); /* i.lock held: drops what belongs to another version of the file */
void host_data_resized(struct host_inode *h); /* own truncate: i.lock held */
void host_adopt_handle(struct host_inode *h, u32 handle); /* of WIRE_CREATE; kept until the first open and close */

#endif
