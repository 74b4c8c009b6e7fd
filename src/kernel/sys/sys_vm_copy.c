/* process_vm_readv(2) and process_vm_writev(2), by visits to the other process (proc/visit.h). Both vectors are imported like those of
 * readv; of the remote one only addresses and sizes matter. */
#include "core/current.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "core/uio.h"
#include "mm/mm.h"
#include "proc/task.h"
#include "proc/visit.h"
#include "sys/syscall.h"

static long memory_of(u32 pid, struct mm **mm)
{
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(pid);
    long r = !t || t->exited || !t->mm ? -ESRCH : may_trace_locked(t->tg) ? 0 : -EPERM;
    if (!r)
        mm_get(*mm = t->mm);
    mutex_unlock(&tasklist_lock);
    return r;
}

/* One piece of the remote vector, or as much of it as the buffer holds. Returns bytes moved; fewer than *size: it ends there. */
static long move_piece(u32 pid, struct mm *mm, struct uio *local, u64 addr, char *buf, u64 *size, bool write)
{
    *size = MIN(MIN(*size, local->resid), (u64)VISIT_MAX);
    if (!write) {
        long n = visit(mm, pid, addr, buf, *size, 0);
        return n > 0 ? uio_write_to(local, buf, (u64)n) : n;
    }
    long n = uio_read_from(local, buf, *size);
    return n > 0 ? visit(mm, pid, addr, buf, (u64)n, MM_WRITE) : n;
}

static long move(u32 pid, struct mm *mm, struct uio *local, const struct uio *remote, bool write)
{
    char *buf = kmalloc(MIN(MIN(local->resid, remote->resid), (u64)VISIT_MAX));
    long done = 0, r = buf ? 0 : -ENOMEM;
    for (u32 i = 0; !r && i < remote->count && local->resid; i++)
        for (u64 at = 0; !r && at < remote->segs[i].size && local->resid;) {
            u64 size = remote->segs[i].size - at;
            long n = move_piece(pid, mm, local, remote->segs[i].base + at, buf, &size, write);
            r = n < 0 ? n : (u64)n < size ? -EFAULT : 0;
            done += n > 0 ? n : 0;
            at += n > 0 ? (u64)n : 0;
        }
    kfree(buf);
    return done && r != -ERESTARTNOINTR ? done : r; /* it may well be done all over again */
}

static long vm_copy(u32 pid, uptr lvec, u64 lcnt, uptr rvec, u64 rcnt, u64 flags, bool write)
{
    struct uio l, r;
    struct mm *mm;
    if (flags)
        return -EINVAL;
    long e = uio_import(&l, lvec, lcnt);
    if (e)
        return e;
    e = uio_import(&r, rvec, rcnt);
    if (!e) {
        if (l.resid && r.resid && !(e = memory_of(pid, &mm))) {
            e = move(pid, mm, &l, &r, write);
            mm_put(mm);
        }
        uio_release(&r);
    }
    uio_release(&l);
    return e;
}

SYSCALL6(process_vm_readv, u32, pid, uptr, lvec, u64, lcnt, uptr, rvec, u64, rcnt, u64, flags)
{
    return vm_copy(pid, lvec, lcnt, rvec, rcnt, flags, false);
}

SYSCALL6(process_vm_writev, u32, pid, uptr, lvec, u64, lcnt, uptr, rvec, u64, rcnt, u64, flags)
{
    return vm_copy(pid, lvec, lcnt, rvec, rcnt, flags, true);
}
