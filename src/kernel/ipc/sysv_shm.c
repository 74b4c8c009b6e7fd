/* System V shared memory: shmget(2), shmat(2), shmctl(2).
 *
 * A segment is an unlinked tmpfs file; attaching maps it. The mappings hold file references, so the memory lives as long as
 * it is mapped. A removed segment (IPC_RMID) stays in the table, without its key, until only the table refers to the
 * file: that is looked at by each call and when a process ends. shm_nattch counts mappings made by shmat; copies
 * made by fork share the reference and are not counted. Lock: the table's, not held while mm is called. */
#include "ipc/sysv_shm.h"

#include <linux/fcntl.h>
#include <linux/mman.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "mm/mm.h"

#define SHM_MAX_SIZE (1ull << 36)
#define SHMLBA_SIZE PAGE_SIZE
#define SHM_DEST 01000u /* in the mode, see shmctl(2) */
#define SHM_LOCKED 02000u

struct segment {
    struct sysv_perm perm;
    struct file *file; /* referenced */
    u64 size;
    u32 creator, last;
    bool removed;
    s64 atime, dtime, ctime;
};

static KSTATE struct sysv_table shm_table;

static struct segment *segment_find(s32 id) { return (struct segment *)sysv_by_id_locked(&shm_table, id); }

static u32 attached(const struct segment *s) { return atomic_load(&s->file->refs) - 1; }

/* Takes one removed and unmapped segment out of the table. Lock held. */
static struct segment *take_dead(void)
{
    for (u32 i = 0; shm_table.slots && i < SYSV_MAX; i++) {
        struct segment *s = (struct segment *)shm_table.slots[i];
        if (s && s->removed && !attached(s)) {
            sysv_remove_locked(&shm_table, &s->perm);
            return s;
        }
    }
    return NULL;
}

void shm_sweep(void)
{
    while (atomic_load(&shm_table.count)) {
        mutex_lock(&shm_table.lock);
        struct segment *s = take_dead();
        mutex_unlock(&shm_table.lock);
        if (!s)
            break;
        file_put(s->file);
        kfree(s);
    }
}

static long segment_new(s32 key, u64 size, u32 flags)
{
    char name[24];
    struct segment *s = knew(struct segment);

    if (!s)
        return -ENOMEM;
    fmt_print(name, sizeof(name), "/SYSV%08x", (u32)key);
    s->file = shmem_file(name, PAGE_UP(size), O_RDWR);
    if (IS_ERR(s->file)) {
        long r = PTR_ERR(s->file);
        kfree(s);
        return r;
    }
    s->size = size;
    s->creator = current_tgid();
    s->ctime = now_ktime().sec;
    mutex_lock(&shm_table.lock);
    struct sysv_perm *other;
    long r = sysv_get_locked(&shm_table, key, flags, &other); /* made by another meanwhile? */
    if (!r && !other)
        r = sysv_add_locked(&shm_table, &s->perm, key, flags);
    else
        other = &s->perm;
    bool used = r >= 0 && other == NULL;
    mutex_unlock(&shm_table.lock);
    if (!used) {
        file_put(s->file);
        kfree(s);
    }
    return r;
}

long shm_get(s32 key, u64 size, u32 flags)
{
    struct sysv_perm *p;

    shm_sweep();
    mutex_lock(&shm_table.lock);
    long r = sysv_get_locked(&shm_table, key, flags, &p);
    if (r >= 0 && p && size > ((struct segment *)p)->size)
        r = -EINVAL;
    mutex_unlock(&shm_table.lock);
    if (r || p)
        return r;
    return size < 1 || size > SHM_MAX_SIZE ? -EINVAL : segment_new(key, size, flags);
}

/* The segment's file, referenced, after a permission check. */
static struct file *attach_file(s32 id, bool write, u64 *size)
{
    mutex_lock(&shm_table.lock);
    struct segment *s = segment_find(id);
    long r = IS_ERR(s) ? PTR_ERR(s) : sysv_check(&s->perm, write ? 6 : 4);
    struct file *f = NULL;
    if (!r) {
        f = s->file;
        file_get(f);
        *size = PAGE_UP(s->size);
        s->last = current_tgid();
        s->atime = now_ktime().sec;
    }
    mutex_unlock(&shm_table.lock);
    return r ? ERR_PTR(r) : f;
}

long shm_attach(s32 id, u64 addr, u32 flags)
{
    u64 size = 0;
    int prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) | (flags & SHM_EXEC ? PROT_EXEC : 0);
    int how = MAP_SHARED;

    if (flags & SHM_RND)
        addr = ALIGN_DOWN(addr, SHMLBA_SIZE);
    if (addr & ~PAGE_MASK)
        return -EINVAL;
    if (addr)
        how |= flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;
    else if (flags & SHM_REMAP)
        return -EINVAL;
    shm_sweep();
    struct file *f = attach_file(id, !(flags & SHM_RDONLY), &size);
    if (IS_ERR(f))
        return PTR_ERR(f);
    long r = mm_map(current_mm(), addr, size, prot, how, f, 0);
    file_put(f);
    return r == -EEXIST ? -EINVAL : r;
}

/* The segment whose file is f. Lock held. */
static struct segment *segment_of_file(const struct file *f)
{
    for (u32 i = 0; shm_table.slots && i < SYSV_MAX; i++) {
        struct segment *s = (struct segment *)shm_table.slots[i];
        if (s && s->file == f)
            return s;
    }
    return NULL;
}

long shm_detach(u64 addr)
{
    struct mm *mm = current_mm();
    const struct file *f = NULL;
    u64 size = 0;

    if (addr & ~PAGE_MASK)
        return -EINVAL;
    mm_lock(mm);
    struct vma *v = vma_find(mm, addr);
    if (v && v->start == addr && v->map && !v->pgoff)
        f = v->map->file; /* compared only */
    mm_unlock(mm);
    mutex_lock(&shm_table.lock);
    struct segment *s = f ? segment_of_file(f) : NULL;
    if (s) {
        size = PAGE_UP(s->size);
        s->last = current_tgid();
        s->dtime = now_ktime().sec;
    }
    mutex_unlock(&shm_table.lock);
    if (!s)
        return -EINVAL;
    long r = mm_unmap(mm, addr, size);
    shm_sweep();
    return r;
}

/* ---- shmctl ---- */

static void show_line(struct strbuf *sb, const struct sysv_perm *p)
{
    const struct segment *s = (const struct segment *)p;
    sysv_show_begin(sb, p);
    sb_printf(sb, " %21lu %5u %5u  %5lu", s->size, s->creator, s->last, (u64)attached(s));
    sysv_show_owners(sb, p);
    sb_printf(sb, " %10lu %10lu %10lu %21lu %21lu\n", (u64)s->atime, (u64)s->dtime, (u64)s->ctime, PAGE_UP(s->size), 0ul);
}

void sysv_show_shm(struct strbuf *sb)
{
    shm_sweep();
    sysv_show(&shm_table, sb, "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime"
              "      ctime                   rss                  swap", show_line);
}

/* Returns the id, if it was not asked for by that. */
static long ctl_stat(s32 id, enum sysv_stat how, uptr arg)
{
    struct shmid64_ds d = {0};
    mutex_lock(&shm_table.lock);
    const struct segment *s = (const void *)sysv_stat_locked(&shm_table, id, how);
    long r = IS_ERR(s) ? PTR_ERR(s) : how == STAT_ID ? 0 : s->perm.id;
    if (!IS_ERR(s)) {
        sysv_perm_out(&s->perm, &d.shm_perm);
        d.shm_segsz = s->size;
        d.shm_atime = s->atime;
        d.shm_dtime = s->dtime;
        d.shm_ctime = s->ctime;
        d.shm_cpid = (s32)s->creator;
        d.shm_lpid = (s32)s->last;
        d.shm_nattch = attached(s);
    }
    mutex_unlock(&shm_table.lock);
    return r >= 0 && put_user(d, arg) ? -EFAULT : r;
}

static long ctl_set(struct segment *s, uptr arg)
{
    struct shmid64_ds d;
    if (get_user(d, arg))
        return -EFAULT;
    long r = sysv_perm_set(&s->perm, &d.shm_perm);
    if (!r)
        s->ctime = now_ktime().sec;
    return r;
}

static long ctl_info(int cmd, uptr arg)
{
    mutex_lock(&shm_table.lock);
    struct shm_info used = {.used_ids = (s32)shm_table.count};
    long last = sysv_last_slot_locked(&shm_table);
    for (long n = last; shm_table.count && n >= 0; n--) {
        const struct segment *s = (const void *)shm_table.slots[n];
        used.shm_tot += s ? PAGE_UP(s->size) >> PAGE_SHIFT : 0; /* all of it counts as in memory */
    }
    used.shm_rss = used.shm_tot;
    mutex_unlock(&shm_table.lock);
    struct shminfo64 i = {.shmmax = SHM_MAX_SIZE, .shmmin = 1, .shmmni = SYSV_MAX, .shmseg = SYSV_MAX,
                          .shmall = SHM_MAX_SIZE / PAGE_SIZE};
    long r = cmd == SHM_INFO ? put_user(used, arg) : put_user(i, arg);
    return r ? r : last;
}

static long shm_command(struct segment *s, int cmd, uptr arg)
{
    switch (cmd) {
    case IPC_SET:
        return ctl_set(s, arg);
    case IPC_RMID:
        if (!sysv_owner(&s->perm))
            return -EPERM;
        s->removed = true;
        s->perm.mode |= SHM_DEST;
        s->perm.key = IPC_PRIVATE_KEY;
        return 0;
    case SHM_LOCK: /* nothing is ever swapped: kept for those who ask */
    case SHM_UNLOCK:
        if (!sysv_owner(&s->perm))
            return -EPERM;
        s->perm.mode = cmd == SHM_LOCK ? s->perm.mode | SHM_LOCKED : s->perm.mode & ~(u32)SHM_LOCKED;
        return 0;
    }
    return -EINVAL;
}

long shm_control(s32 id, int cmd, uptr arg)
{
    enum sysv_stat how = sysv_stat_how(cmd, SHM_STAT);
    if (cmd == IPC_INFO || cmd == SHM_INFO)
        return ctl_info(cmd, arg);
    shm_sweep();
    if (how != STAT_NOT)
        return ctl_stat(id, how, arg);
    mutex_lock(&shm_table.lock);
    struct segment *s = segment_find(id);
    long r = IS_ERR(s) ? PTR_ERR(s) : shm_command(s, cmd, arg);
    mutex_unlock(&shm_table.lock);
    shm_sweep();
    return r;
}
