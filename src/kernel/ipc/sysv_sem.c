/* System V semaphores: semop(2), semctl(2).
 *
 * All under the table's lock: an operation list is tried on a set as a whole; if it would block, the task waits on the
 * set's queue and tries again after any change. SEM_UNDO adjustments are kept per process in the set. */
#include "ipc/sysv_sem.h"
#include "ipc/sysv_shm.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"

#define SEMVMX 32767
#define SET_MAX 32000u

struct sem {
    u16 value;
    u16 ncnt, zcnt; /* waiters for more, for zero */
    u32 pid;
};

struct undo {
    struct list link;
    u32 tgid;
    s16 adj[]; /* one a semaphore */
};

struct sem_set {
    struct sysv_perm perm;
    u32 count;
    u32 seq; /* changes; sleepers compare */
    s64 otime, ctime;
    struct waitq wait;
    struct list undos;
    struct sem sems[];
};

static KSTATE struct sysv_table sem_table;

static struct sem_set *sem_find(s32 id)
{
    return (struct sem_set *)sysv_by_id_locked(&sem_table, id);
}

static void sem_put_locked(struct sem_set *s)
{
    struct undo *u;

    if (--s->perm.refs)
        return;
    while ((u = list_first(&s->undos, struct undo, link))) {
        list_del(&u->link);
        kfree(u);
    }
    kfree(s);
}

static void changed(struct sem_set *s)
{
    atomic_add(&s->seq, 1);
    wake_up_all(&s->wait, 1);
}

long sem_get(s32 key, s32 count, u32 flags)
{
    struct sysv_perm *p;

    if (count < 0 || (u32)count > SET_MAX)
        return -EINVAL;
    mutex_lock(&sem_table.lock);
    long r = sysv_get_locked(&sem_table, key, flags, &p);
    if (r >= 0 && p && (u32)count > ((struct sem_set *)p)->count)
        r = -EINVAL;
    if (!r && !p) {
        struct sem_set *s = count ? kzalloc(sizeof(*s) + (u32)count * sizeof(struct sem)) : NULL;
        r = !count ? -EINVAL : !s ? -ENOMEM : sysv_add_locked(&sem_table, &s->perm, key, flags);
        if (r < 0) {
            kfree(s);
        } else {
            s->count = (u32)count;
            s->ctime = now_ktime().sec;
        }
    }
    mutex_unlock(&sem_table.lock);
    return r;
}

/* ---- semop ---- */

static struct undo *undo_of(struct sem_set *s, bool make)
{
    u32 tgid = current_tgid();
    struct undo *u;

    list_for_each(u, &s->undos, link)
        if (u->tgid == tgid)
            return u;
    if (!make)
        return NULL;
    u = kzalloc(sizeof(*u) + s->count * sizeof(u->adj[0]));
    if (u) {
        u->tgid = tgid;
        list_add(&s->undos, &u->link);
    }
    return u;
}

/* Applies ops[0..n); on a block or an error everything is taken back. 0 done, 1 blocked by *op, or an error. */
static long try_ops(struct sem_set *s, const struct sembuf *ops, u32 n, struct undo *u, const struct sembuf **op)
{
    long r = 0;
    u32 i;

    for (i = 0; i < n; i++) {
        struct sem *m = &s->sems[ops[i].sem_num];
        s32 v = m->value + ops[i].sem_op;
        if (!ops[i].sem_op ? m->value != 0 : v < 0) {
            r = ops[i].sem_flg & IPC_NOWAIT ? -EAGAIN : 1;
            break;
        }
        s32 adj = ops[i].sem_flg & SEM_UNDO ? u->adj[ops[i].sem_num] - ops[i].sem_op : 0;
        if (v > SEMVMX || adj > SEMVMX || adj < -SEMVMX - 1) {
            r = -ERANGE;
            break;
        }
        m->value = (u16)v;
        if (ops[i].sem_flg & SEM_UNDO)
            u->adj[ops[i].sem_num] = (s16)adj;
    }
    *op = i < n ? &ops[i] : NULL;
    if (r) {
        while (i--) {
            s->sems[ops[i].sem_num].value = (u16)(s->sems[ops[i].sem_num].value - ops[i].sem_op);
            if (ops[i].sem_flg & SEM_UNDO)
                u->adj[ops[i].sem_num] = (s16)(u->adj[ops[i].sem_num] + ops[i].sem_op);
        }
        return r;
    }
    for (i = 0; i < n; i++)
        s->sems[ops[i].sem_num].pid = current_tgid();
    return 0;
}

/* Sleeps until the set changes. Lock held on entry and return. */
static long sem_sleep(struct sem_set *s, const struct sembuf *op, u64 deadline)
{
    struct sem *m = &s->sems[op->sem_num];
    u16 *waiting = op->sem_op ? &m->ncnt : &m->zcnt;
    u32 seq = s->seq;
    long r = 0;

    s->perm.refs++;
    ++*waiting;
    mutex_unlock(&sem_table.lock);
    wait_prepare(&s->wait);
    if (atomic_load(&s->seq) == seq)
        r = wait_sleep(deadline);
    wait_finish();
    mutex_lock(&sem_table.lock);
    --*waiting;
    bool removed = s->perm.removed;
    sem_put_locked(s);
    if (removed)
        return -EIDRM;
    return r == -ETIMEDOUT ? -EAGAIN : r; /* semop is never restarted */
}

long sem_op(s32 id, const struct sembuf *ops, u32 n, u64 deadline)
{
    bool alter = false, undo = false;
    long r;

    for (u32 i = 0; i < n; i++) {
        alter |= ops[i].sem_op != 0;
        undo |= (ops[i].sem_flg & SEM_UNDO) != 0;
    }
    mutex_lock(&sem_table.lock);
    struct sem_set *s = sem_find(id);
    r = IS_ERR(s) ? PTR_ERR(s) : sysv_check(&s->perm, alter ? 2 : 4);
    for (u32 i = 0; i < n && !r; i++)
        if (ops[i].sem_num >= s->count)
            r = -EFBIG;
    struct undo *u = !r && undo ? undo_of(s, true) : NULL;
    if (!r && undo && !u)
        r = -ENOMEM;
    while (!r) {
        const struct sembuf *blocked;
        r = try_ops(s, ops, n, u, &blocked);
        if (!r) {
            s->otime = now_ktime().sec;
            if (alter)
                changed(s);
            break;
        }
        if (r != 1)
            break;
        r = sem_sleep(s, blocked, deadline);
    }
    mutex_unlock(&sem_table.lock);
    return r;
}

void sysv_exit(u32 tgid)
{
    shm_sweep();
    if (!atomic_load(&sem_table.count))
        return;
    mutex_lock(&sem_table.lock);
    for (u32 k = 0; k < SYSV_MAX; k++) {
        struct sem_set *s = (struct sem_set *)sem_table.slots[k];
        struct undo *u;
        if (!s)
            continue;
        list_for_each(u, &s->undos, link) {
            if (u->tgid != tgid)
                continue;
            for (u32 i = 0; i < s->count; i++) {
                s32 v = s->sems[i].value + u->adj[i];
                s->sems[i].value = (u16)(v < 0 ? 0 : MIN(v, SEMVMX));
            }
            list_del(&u->link);
            kfree(u);
            changed(s);
        }
    }
    mutex_unlock(&sem_table.lock);
}

/* ---- semctl ---- */

static void clear_undo(struct sem_set *s, u32 num)
{
    struct undo *u;
    list_for_each(u, &s->undos, link)
        u->adj[num] = 0;
}

static long ctl_one(struct sem_set *s, u32 num, int cmd, u64 arg)
{
    if (num >= s->count)
        return -EINVAL;
    struct sem *m = &s->sems[num];
    long r = sysv_check(&s->perm, cmd == SETVAL ? 2 : 4);
    if (r)
        return r;
    switch (cmd) {
    case GETVAL:
        return m->value;
    case GETPID:
        return m->pid;
    case GETNCNT:
        return m->ncnt;
    case GETZCNT:
        return m->zcnt;
    }
    s32 v = (s32)arg;
    if (v < 0 || v > SEMVMX)
        return -ERANGE;
    m->value = (u16)v;
    m->pid = current_tgid();
    clear_undo(s, num);
    s->ctime = now_ktime().sec;
    changed(s);
    return 0;
}

static long ctl_all(struct sem_set *s, bool set, uptr arg)
{
    long r = sysv_check(&s->perm, set ? 2 : 4);

    for (u32 i = 0; i < s->count && !r && set; i++) { /* check all before changing any */
        u16 v;
        r = get_user(v, arg + i * sizeof(v)) ? -EFAULT : v > SEMVMX ? -ERANGE : 0;
    }
    for (u32 i = 0; i < s->count && !r; i++) {
        u16 v = s->sems[i].value;
        if (!set) {
            r = put_user(v, arg + i * sizeof(v));
        } else if (!(r = get_user(v, arg + i * sizeof(v)))) {
            s->sems[i].value = MIN(v, (u16)SEMVMX);
            s->sems[i].pid = current_tgid();
            clear_undo(s, i);
        }
    }
    if (set && !r) {
        s->ctime = now_ktime().sec;
        changed(s);
    }
    return r;
}

static void show_line(struct strbuf *sb, const struct sysv_perm *p)
{
    const struct sem_set *s = (const struct sem_set *)p;
    sysv_show_begin(sb, p);
    sb_printf(sb, " %10u", s->count);
    sysv_show_owners(sb, p);
    sb_printf(sb, " %10lu %10lu\n", (u64)s->otime, (u64)s->ctime);
}

void sysv_show_sem(struct strbuf *sb)
{
    sysv_show(&sem_table, sb, "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime", show_line);
}

/* Returns the id, if it was not asked for by that. */
static long ctl_stat(s32 id, enum sysv_stat how, uptr arg)
{
    struct semid64_ds d = {0};
    mutex_lock(&sem_table.lock);
    const struct sem_set *s = (const void *)sysv_stat_locked(&sem_table, id, how);
    long r = IS_ERR(s) ? PTR_ERR(s) : how == STAT_ID ? 0 : s->perm.id;
    if (!IS_ERR(s)) {
        sysv_perm_out(&s->perm, &d.sem_perm);
        d.sem_otime = s->otime;
        d.sem_ctime = s->ctime;
        d.sem_nsems = s->count;
    }
    mutex_unlock(&sem_table.lock);
    return r >= 0 && put_user(d, arg) ? -EFAULT : r;
}

static long ctl_set(struct sem_set *s, uptr arg)
{
    struct semid64_ds d;
    if (get_user(d, arg))
        return -EFAULT;
    long r = sysv_perm_set(&s->perm, &d.sem_perm);
    if (!r)
        s->ctime = now_ktime().sec;
    return r;
}

static long ctl_remove(struct sem_set *s)
{
    if (!sysv_owner(&s->perm))
        return -EPERM;
    sysv_remove_locked(&sem_table, &s->perm);
    changed(s);
    sem_put_locked(s);
    return 0;
}

static long ctl_info(int cmd, uptr arg)
{
    struct seminfo i = {.semmap = 1024000000, .semmni = SYSV_MAX, .semmns = 1024000000, .semmnu = 1024000000,
                        .semmsl = SET_MAX, .semopm = 500, .semume = 500, .semusz = 20, .semvmx = SEMVMX, .semaem = SEMVMX};
    mutex_lock(&sem_table.lock);
    if (cmd == SEM_INFO) { /* what there is: sets, semaphores */
        i.semusz = (s32)sem_table.count;
        i.semaem = 0;
        for (s32 n = sysv_last_slot_locked(&sem_table); sem_table.count && n >= 0; n--) {
            const struct sem_set *s = (const void *)sem_table.slots[n];
            i.semaem += s ? (s32)s->count : 0;
        }
    }
    long last = sysv_last_slot_locked(&sem_table), r = put_user(i, arg);
    mutex_unlock(&sem_table.lock);
    return r ? r : last;
}

long sem_control(s32 id, u32 num, int cmd, u64 arg)
{
    enum sysv_stat how = sysv_stat_how(cmd, SEM_STAT);
    if (cmd == IPC_INFO || cmd == SEM_INFO)
        return ctl_info(cmd, arg);
    if (how != STAT_NOT)
        return ctl_stat(id, how, arg);
    mutex_lock(&sem_table.lock);
    struct sem_set *s = sem_find(id);
    long r = IS_ERR(s) ? PTR_ERR(s) : 0;
    if (!r) {
        switch (cmd) {
        case GETVAL: case GETPID: case GETNCNT: case GETZCNT: case SETVAL:
            r = ctl_one(s, num, cmd, arg);
            break;
        case GETALL: case SETALL:
            r = ctl_all(s, cmd == SETALL, arg);
            break;
        case IPC_SET:
            r = ctl_set(s, arg);
            break;
        case IPC_RMID:
            r = ctl_remove(s);
            break;
        default:
            r = -EINVAL;
        }
    }
    mutex_unlock(&sem_table.lock);
    return r;
}
