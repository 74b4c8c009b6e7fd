/* process_vm_readv(2) and process_vm_writev(2). The memory of another process lies in another host process and cannot be reached from
 * here: only the caller's own process works. Both vectors are imported like those of readv. */
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "core/uio.h"
#include "mm/mm.h"
#include "proc/task.h"
#include "sys/syscall.h"

static long same_memory(u32 pid)
{
    long r;
    mutex_lock(&tasklist_lock);
    struct task *t = task_find_locked(pid);
    r = !t || t->exited ? -ESRCH : t->mm == current_mm() ? 0 : -EPERM;
    mutex_unlock(&tasklist_lock);
    return r;
}

/* From one cursor to the other through a kernel page, as far as both go. */
static long move(struct uio *from, struct uio *to)
{
    char *page = kmalloc(PAGE_SIZE);
    long done = 0, r = page ? 0 : -ENOMEM;
    while (!r && from->resid && to->resid) {
        long n = uio_read_from(from, page, MIN(MIN(from->resid, to->resid), PAGE_SIZE));
        if (n > 0) {
            long out = uio_write_to(to, page, (u64)n);
            r = out < n ? -EFAULT : 0;
            n = out;
        } else {
            r = n ? n : -EFAULT;
        }
        if (n > 0)
            done += n;
    }
    kfree(page);
    return done ? done : r;
}

static long vm_copy(u32 pid, uptr lvec, u64 lcnt, uptr rvec, u64 rcnt, u64 flags, bool write)
{
    struct uio l, r;
    if (flags)
        return -EINVAL;
    long e = uio_import(&l, lvec, lcnt);
    if (e)
        return e;
    e = uio_import(&r, rvec, rcnt);
    if (!e) {
        if (l.resid && r.resid && !(e = same_memory(pid)))
            e = write ? move(&l, &r) : move(&r, &l);
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
