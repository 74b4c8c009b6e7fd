/* System V IPC: keys, permissions and identifiers shared by semaphores, messages and shared memory. */
#ifndef HARENA_IPC_SYSV_H
#define HARENA_IPC_SYSV_H

#include <linux/ipc.h>
#include <asm/ipcbuf.h>

#include "core/strbuf.h"
#include "vfs/vfs.h"

#define SYSV_MAX 1024u /* objects of a kind */
#define IPC_PRIVATE_KEY 0

struct sysv_perm {
    s32 key, id;
    u32 uid, gid, cuid, cgid, mode;
    u32 refs; /* the table's and running calls' */
    bool removed;
};

/* Objects start with a sysv_perm. The table's lock guards the table and all fields of its objects. */
struct sysv_table {
    struct mutex lock;
    struct sysv_perm **slots; /* SYSV_MAX of them, made on first use */
    u32 count, seq;
};

struct sysv_perm *sysv_by_key_locked(struct sysv_table *t, s32 key); /* NULL: none */
struct sysv_perm *sysv_by_id_locked(struct sysv_table *t, s32 id); /* error pointer: -EINVAL, -EIDRM */
/* What a command tells of: by id (IPC_STAT); or, as ipcs(1) asks, by the number of a slot, of those who may read it (XXX_STAT) or of all
 * (XXX_STAT_ANY, whose number is two higher in each kind). Error pointer: also -EACCES. */
enum sysv_stat { STAT_NOT, STAT_ID, STAT_SLOT, STAT_ANY };
static inline enum sysv_stat sysv_stat_how(int cmd, int xxx_stat)
{
    return cmd == IPC_STAT ? STAT_ID : cmd == xxx_stat ? STAT_SLOT : cmd == xxx_stat + 2 ? STAT_ANY : STAT_NOT;
}
struct sysv_perm *sysv_stat_locked(struct sysv_table *t, s32 id, enum sysv_stat how);
s32 sysv_last_slot_locked(const struct sysv_table *t); /* 0 too when there is none */
/* The get call: finds by key or says it must be made: id, -ENOENT with *make set, or an error. */
long sysv_get_locked(struct sysv_table *t, s32 key, u32 flags, struct sysv_perm **found);
long sysv_add_locked(struct sysv_table *t, struct sysv_perm *p, s32 key, u32 mode); /* its id; refs = 1 */
void sysv_remove_locked(struct sysv_table *t, struct sysv_perm *p); /* out of the table; the reference is the caller's */
long sysv_check(const struct sysv_perm *p, u32 mode); /* mode: 4 read, 2 write; -EACCES */
bool sysv_owner(const struct sysv_perm *p); /* may IPC_SET and IPC_RMID */
void sysv_perm_out(const struct sysv_perm *p, struct ipc64_perm *o);
/* /proc/sysvipc: one line an object, also to those who may not read it. */
void sysv_show(struct sysv_table *t, struct strbuf *sb, const char *heading, void (*line)(struct strbuf *sb, const struct sysv_perm *p));
void sysv_show_begin(struct strbuf *sb, const struct sysv_perm *p);
void sysv_show_owners(struct strbuf *sb, const struct sysv_perm *p);
void sysv_show_msg(struct strbuf *sb);
void sysv_show_sem(struct strbuf *sb);
void sysv_show_shm(struct strbuf *sb);
long sysv_perm_set(struct sysv_perm *p, const struct ipc64_perm *in);

/* proc: a process ends: its SEM_UNDO adjustments are applied. */
void sysv_exit(u32 tgid);

#endif
