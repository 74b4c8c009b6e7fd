/* System V message queues: msgop(2), msgctl(2). Everything under the table's lock; one wait queue a message queue. */
#include "ipc/sysv_msg.h"

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"

#define MSG_BYTES_MAX 8192u /* one message: kernel.msgmax */
#define QUEUE_BYTES 16384u /* kernel.msgmnb */

struct message {
    struct list link;
    s64 type;
    u32 size;
    u8 data[];
};

struct msg_queue {
    struct sysv_perm perm;
    u32 seq; /* changes; sleepers compare */
    u64 bytes, max_bytes;
    u32 count;
    u32 last_sender, last_receiver;
    s64 stime, rtime, ctime;
    struct list messages;
    struct waitq wait;
};

static KSTATE struct sysv_table msg_table;

static struct msg_queue *queue_find(s32 id) { return (struct msg_queue *)sysv_by_id_locked(&msg_table, id); }

static void queue_put_locked(struct msg_queue *q)
{
    struct message *m;

    if (--q->perm.refs)
        return;
    while ((m = list_first(&q->messages, struct message, link))) {
        list_del(&m->link);
        kfree(m);
    }
    kfree(q);
}

static void changed(struct msg_queue *q)
{
    atomic_add(&q->seq, 1);
    wake_up_all(&q->wait, 1);
}

static long queue_sleep(struct msg_queue *q)
{
    u32 seq = q->seq;
    long r = 0;

    q->perm.refs++;
    mutex_unlock(&msg_table.lock);
    wait_prepare(&q->wait);
    if (atomic_load(&q->seq) == seq)
        r = wait_sleep(NO_DEADLINE);
    wait_finish();
    mutex_lock(&msg_table.lock);
    bool removed = q->perm.removed;
    queue_put_locked(q);
    return removed ? -EIDRM : r == -EINTR ? -ERESTARTNOHAND : r;
}

long msg_get(s32 key, u32 flags)
{
    struct sysv_perm *p;

    mutex_lock(&msg_table.lock);
    long r = sysv_get_locked(&msg_table, key, flags, &p);
    if (!r && !p) {
        struct msg_queue *q = knew(struct msg_queue);
        r = q ? sysv_add_locked(&msg_table, &q->perm, key, flags) : -ENOMEM;
        if (r < 0) {
            kfree(q);
        } else {
            q->max_bytes = QUEUE_BYTES;
            q->ctime = now_ktime().sec;
        }
    }
    mutex_unlock(&msg_table.lock);
    return r;
}

static struct message *message_in(uptr buf, u64 size)
{
    s64 type;

    if (size > MSG_BYTES_MAX)
        return ERR_PTR(-EINVAL);
    if (get_user(type, buf))
        return ERR_PTR(-EFAULT);
    if (type < 1)
        return ERR_PTR(-EINVAL);
    struct message *m = kmalloc(sizeof(*m) + size);
    if (!m)
        return ERR_PTR(-ENOMEM);
    *m = (struct message){.type = type, .size = (u32)size};
    if (size && copy_from_user(m->data, buf + sizeof(type), size)) {
        kfree(m);
        return ERR_PTR(-EFAULT);
    }
    return m;
}

long msg_send(s32 id, uptr buf, u64 size, u32 flags)
{
    struct message *m = message_in(buf, size);

    if (IS_ERR(m))
        return PTR_ERR(m);
    mutex_lock(&msg_table.lock);
    struct msg_queue *q = queue_find(id);
    long r = IS_ERR(q) ? PTR_ERR(q) : sysv_check(&q->perm, 2);
    while (!r && (q->bytes + size > q->max_bytes || q->count >= q->max_bytes))
        r = flags & IPC_NOWAIT ? -EAGAIN : queue_sleep(q);
    if (!r) {
        list_add_tail(&q->messages, &m->link);
        q->bytes += size;
        q->count++;
        q->last_sender = current_tgid();
        q->stime = now_ktime().sec;
        changed(q);
        m = NULL;
    }
    mutex_unlock(&msg_table.lock);
    kfree(m);
    return r;
}

/* type 0: first; > 0: first of it (MSG_EXCEPT: not of it); < 0: lowest type up to -type; MSG_COPY: the type-th. */
static struct message *pick(struct msg_queue *q, s64 type, u32 flags)
{
    struct message *m, *best = NULL;
    s64 n = 0;

    list_for_each(m, &q->messages, link) {
        if (flags & MSG_COPY) {
            if (n++ == type)
                return m;
        } else if (!type || (type > 0 && (m->type == type) == !(flags & MSG_EXCEPT))) {
            return m;
        } else if (type < 0 && m->type <= -type && (!best || m->type < best->type)) {
            best = m;
        }
    }
    return best;
}

static long give(struct message *m, uptr buf, u64 size)
{
    u32 n = (u32)MIN((u64)m->size, size);
    if (put_user(m->type, buf) || (n && copy_to_user(buf + sizeof(m->type), m->data, n)))
        return -EFAULT;
    return n;
}

long msg_receive(s32 id, uptr buf, u64 size, s64 type, u32 flags)
{
    struct message *m = NULL;

    if ((s64)size < 0 || id < 0)
        return -EINVAL;
    if ((flags & MSG_COPY) && (!(flags & IPC_NOWAIT) || (flags & MSG_EXCEPT)))
        return -EINVAL;
    mutex_lock(&msg_table.lock);
    struct msg_queue *q = queue_find(id);
    long r = IS_ERR(q) ? PTR_ERR(q) : sysv_check(&q->perm, 4);
    while (!r && !(m = pick(q, type, flags)))
        r = flags & IPC_NOWAIT ? -ENOMSG : queue_sleep(q);
    if (!r && m->size > size && !(flags & MSG_NOERROR))
        r = -E2BIG;
    if (!r) {
        r = give(m, buf, size); /* a fault leaves the message in the queue */
        if (r >= 0 && !(flags & MSG_COPY)) {
            list_del(&m->link);
            q->bytes -= m->size;
            q->count--;
            q->last_receiver = current_tgid();
            q->rtime = now_ktime().sec;
            changed(q);
            kfree(m);
        }
    }
    mutex_unlock(&msg_table.lock);
    return r;
}

static void show_line(struct strbuf *sb, const struct sysv_perm *p)
{
    const struct msg_queue *q = (const struct msg_queue *)p;
    sysv_show_begin(sb, p);
    sb_printf(sb, "  %10lu %10lu %5u %5u", (u64)q->bytes, (u64)q->count, q->last_sender, q->last_receiver);
    sysv_show_owners(sb, p);
    sb_printf(sb, " %10lu %10lu %10lu\n", (u64)q->stime, (u64)q->rtime, (u64)q->ctime);
}

void sysv_show_msg(struct strbuf *sb)
{
    sysv_show(&msg_table, sb, "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime",
              show_line);
}

/* Returns the id, if it was not asked for by that. */
static long ctl_stat(s32 id, enum sysv_stat how, uptr arg)
{
    struct msqid64_ds d = {0};
    mutex_lock(&msg_table.lock);
    const struct msg_queue *q = (const void *)sysv_stat_locked(&msg_table, id, how);
    long r = IS_ERR(q) ? PTR_ERR(q) : how == STAT_ID ? 0 : q->perm.id;
    if (!IS_ERR(q)) {
        sysv_perm_out(&q->perm, &d.msg_perm);
        d.msg_stime = q->stime;
        d.msg_rtime = q->rtime;
        d.msg_ctime = q->ctime;
        d.msg_cbytes = q->bytes;
        d.msg_qnum = q->count;
        d.msg_qbytes = q->max_bytes;
        d.msg_lspid = (s32)q->last_sender;
        d.msg_lrpid = (s32)q->last_receiver;
    }
    mutex_unlock(&msg_table.lock);
    return r >= 0 && put_user(d, arg) ? -EFAULT : r;
}

static long ctl_set(struct msg_queue *q, uptr arg)
{
    struct msqid64_ds d;

    if (get_user(d, arg))
        return -EFAULT;
    if (d.msg_qbytes > QUEUE_BYTES && !capable(24 /* CAP_SYS_RESOURCE */))
        return -EPERM;
    long r = sysv_perm_set(&q->perm, &d.msg_perm);
    if (!r) {
        q->max_bytes = MIN((u64)d.msg_qbytes, 1ull << 20);
        q->ctime = now_ktime().sec;
        changed(q);
    }
    return r;
}

static long ctl_info(int cmd, uptr arg)
{
    struct msginfo i = {.msgpool = SYSV_MAX * QUEUE_BYTES / 1024, .msgmap = (s32)QUEUE_BYTES, .msgmax = MSG_BYTES_MAX,
                        .msgmnb = QUEUE_BYTES, .msgmni = SYSV_MAX, .msgssz = 16, .msgtql = (s32)QUEUE_BYTES, .msgseg = 0xffff};
    mutex_lock(&msg_table.lock);
    if (cmd == MSG_INFO) { /* what there is: queues, messages, bytes */
        i.msgpool = (s32)msg_table.count;
        i.msgmap = i.msgtql = 0;
        for (s32 n = sysv_last_slot_locked(&msg_table); msg_table.count && n >= 0; n--) {
            const struct msg_queue *q = (const void *)msg_table.slots[n];
            i.msgmap += q ? (s32)q->count : 0;
            i.msgtql += q ? (s32)q->bytes : 0;
        }
    }
    long last = sysv_last_slot_locked(&msg_table), r = put_user(i, arg);
    mutex_unlock(&msg_table.lock);
    return r ? r : last;
}

long msg_control(s32 id, int cmd, uptr arg)
{
    enum sysv_stat how = sysv_stat_how(cmd, MSG_STAT);
    if (cmd == IPC_INFO || cmd == MSG_INFO)
        return ctl_info(cmd, arg);
    if (how != STAT_NOT)
        return ctl_stat(id, how, arg);
    mutex_lock(&msg_table.lock);
    struct msg_queue *q = queue_find(id);
    long r = IS_ERR(q) ? PTR_ERR(q) : 0;
    if (!r) {
        switch (cmd) {
        case IPC_SET:
            r = ctl_set(q, arg);
            break;
        case IPC_RMID:
            r = sysv_owner(&q->perm) ? 0 : -EPERM;
            if (!r) {
                sysv_remove_locked(&msg_table, &q->perm);
                changed(q);
                queue_put_locked(q);
            }
            break;
        default:
            r = -EINVAL;
        }
    }
    mutex_unlock(&msg_table.lock);
    return r;
}
