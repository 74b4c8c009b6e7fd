/* /proc/<pid> and /proc/<pid>/task/<tid>. Formats: proc(5).
 *
 * Everything taken from a task is copied under tasklist_lock, or referenced there (mm, files, paths) and used after.
 * Command line and environment of another process are what it was started with: they do not wait for it.
 * Resident pages are not known to the kernel (the host has them); the mapped size, an upper bound, stands for them. */
#include "procfs/internal.h"

#include <linux/resource.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "mm/mm.h"
#include "proc/cputime.h"
#include "proc/ptrace.h"
#include "proc/visit.h"

#define TICK_NS 10000000u /* USER_HZ 100 */
#define ARGS_MAX (1u << 20)

static char state_of(const struct task *t)
{
    if (t->exited || t->tg->zombie)
        return 'Z';
    if (t->tg->virtual_init)
        return 'S';
    if (t->pt && t->pt->stopped)
        return 't';
    if (t->tg->stop_sig)
        return 'T';
    return t == current_task() || atomic_load_relaxed(&t->core.wake) != WAKE_SLEEPING ? 'R' : 'S';
}

static u32 parent_of(const struct tgroup *tg)
{
    return tg->parent ? tg->parent->tgid : 0;
}

static u64 pages_of(const struct task *t)
{
    return t->mm && !t->exited ? atomic_load_relaxed(&t->mm->total_pages) : 0;
}

static struct mm *mm_of(struct pnode *n, long *error)
{
    struct mm *mm = NULL;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    *error = !t ? -ESRCH : pnode_may_look_locked(t) ? 0 : -EACCES;
    if (t && !*error && !t->exited && t->mm) {
        mm = t->mm;
        mm_get(mm);
    }
    mutex_unlock(&tasklist_lock);
    return mm;
}

static void show_ids(struct strbuf *sb, const struct cred *c)
{
    sb_printf(sb, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", c->uid, c->euid, c->suid, c->fsuid, c->gid, c->egid,
              c->sgid, c->fsgid);
}

static void show_caps(struct strbuf *sb, const struct cred *c)
{
    sb_printf(sb, "CapInh:\t%016lx\nCapPrm:\t%016lx\nCapEff:\t%016lx\nCapBnd:\t%016lx\nCapAmb:\t%016lx\n",
              c->cap_inheritable, c->cap_permitted, c->cap_effective, c->cap_bounding, c->cap_ambient);
    sb_printf(sb, "NoNewPrivs:\t%d\n", c->no_new_privs);
}

static void show_signals(struct strbuf *sb, const struct task *t)
{
    u64 ignored = 0, caught = 0;
    for (u32 s = 0; s < 64; s++) {
        u64 h = t->tg->actions[s].handler;
        if (h == 1)
            ignored |= 1ull << s;
        else if (h)
            caught |= 1ull << s;
    }
    sb_printf(sb, "SigQ:\t0/%lu\nSigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\nSigCgt:\t%016lx\n",
              t->tg->rlimits[RLIMIT_SIGPENDING][0], t->pending.set, t->tg->shared.set, t->blocked, ignored, caught);
}

static long show_status(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (!t) {
        mutex_unlock(&tasklist_lock);
        return -ESRCH;
    }
    char s = state_of(t);
    const char *word = s == 'Z' ? "zombie" : s == 'T' ? "stopped" : s == 't' ? "tracing stop" : s == 'S' ? "sleeping" : "running";
    sb_printf(sb, "Name:\t%.16s\n", t->comm);
    if (t->fs && !t->exited)
        sb_printf(sb, "Umask:\t%04o\n", t->fs->umask);
    sb_printf(sb, "State:\t%c (%s)\nTgid:\t%u\nNgid:\t0\nPid:\t%u\nPPid:\t%u\nTracerPid:\t%u\n", s, word, n->pid, n->tid,
              parent_of(t->tg), ptraced(t) ? t->pt->tracer->tg->tgid : 0);
    if (t->cred)
        show_ids(sb, t->cred);
    sb_printf(sb, "FDSize:\t64\nGroups:\t");
    for (u32 g = 0; t->cred && g < t->cred->group_count; g++)
        sb_printf(sb, "%u ", t->cred->groups[g]);
    sb_printf(sb, "\nNStgid:\t%u\nNSpid:\t%u\nNSpgid:\t%u\nNSsid:\t%u\n", n->pid, n->tid, t->tg->pgid, t->tg->sid);
    if (s != 'Z') {
        u64 kb = pages_of(t) * (PAGE_SIZE / 1024);
        sb_printf(sb, "VmPeak:\t%8lu kB\nVmSize:\t%8lu kB\nVmLck:\t%8lu kB\nVmHWM:\t%8lu kB\nVmRSS:\t%8lu kB\n", kb, kb,
                  t->mm && !t->exited ? mm_locked(t->mm) / 1024 : 0, kb, kb);
        sb_printf(sb, "VmSwap:\t       0 kB\n");
    }
    sb_printf(sb, "Threads:\t%u\n", t->tg->live);
    show_signals(sb, t);
    if (t->cred)
        show_caps(sb, t->cred);
    mutex_unlock(&tasklist_lock);
    u32 cpus = cpu_total();
    sb_printf(sb, "Seccomp:\t0\nSeccomp_filters:\t0\nCpus_allowed:\t%lx\nCpus_allowed_list:\t",
              cpus >= 64 ? ~0ul : (1ul << cpus) - 1);
    sb_printf(sb, cpus > 1 ? "0-%u\n" : "0\n", cpus - 1);
    sb_printf(sb, "Mems_allowed:\t1\nMems_allowed_list:\t0\n");
    sb_printf(sb, "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n");
    return 0;
}

static long show_personality(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t)
        sb_printf(sb, "%08x\n", t->personality);
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

static long show_stat(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t) {
        struct tgroup *tg = t->tg;
        struct mm *mm = t->exited ? NULL : t->mm;
        bool look = mm && pnode_may_look_locked(t);
        sb_printf(sb, "%u (%.16s) %c %u %u %u 0 -1 0 0 0 0 0 %lu %lu %lu %lu %d %d %u 0 %lu %lu %lu %lu ",
                  n->tid, t->comm, state_of(t), parent_of(tg), tg->pgid, tg->sid, cputime_ask_locked(tg) / TICK_NS, tg->stime / TICK_NS,
                  tg->cutime / TICK_NS, tg->cstime / TICK_NS, 20 + t->nice, t->nice, tg->live, tg->start_time / TICK_NS,
                  pages_of(t) * PAGE_SIZE, pages_of(t), tg->rlimits[RLIMIT_RSS][0]);
        sb_printf(sb, "%lu %lu %lu 0 0 %lu %lu 0 0 0 0 0 %d 0 0 0 0 0 0 ", look ? mm->code_start : 1ul,
                  look ? mm->code_end : 1ul, look ? mm->stack_top : 0ul, t->pending.set & 0x7fffffff,
                  t->blocked & 0x7fffffff, tg->exit_signal);
        sb_printf(sb, "0 0 %lu %lu %lu %lu %lu %d\n", look ? mm->brk_start : 0ul, look ? mm->arg_start : 0ul,
                  look ? mm->arg_end : 0ul, look ? mm->env_start : 0ul, look ? mm->env_end : 0ul,
                  tg->zombie ? tg->exit_code : 0);
    }
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

static long show_statm(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    u64 pages = t ? pages_of(t) : 0;
    mutex_unlock(&tasklist_lock);
    sb_printf(sb, "%lu %lu 0 0 0 %lu 0\n", pages, pages, pages);
    return t ? 0 : -ESRCH;
}

static long show_comm(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t)
        sb_printf(sb, "%.16s\n", t->comm);
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

static long write_comm(struct pnode *n, struct uio *u)
{
    char name[16] = {0};
    u64 size = u->resid;
    long r = uio_read_from(u, name, MIN(size, sizeof(name) - 1));
    if (r < 0)
        return r;
    char *nl = memchr(name, '\n', sizeof(name));
    if (nl)
        memset(nl, 0, (size_t)(name + sizeof(name) - nl));
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    bool own = t && t->tg == current_task()->tg; /* threads of the caller's process only, as on Linux */
    if (own)
        memcpy(t->comm, name, sizeof(name));
    mutex_unlock(&tasklist_lock);
    return own ? (long)size : t ? -EINVAL : -ESRCH;
}

static void copy_guest(struct strbuf *sb, u64 start, u64 end)
{
    char *page = end > start ? kmalloc(PAGE_SIZE) : NULL;
    if (end > start && !page)
        sb->failed = true;
    if (page && end - start > ARGS_MAX)
        end = start + ARGS_MAX;
    while (page && start < end) {
        size_t want = MIN(end - start, (u64)PAGE_SIZE), got = copy_from_user_some(page, start, want);
        sb_write(sb, page, got);
        if (got < want)
            break;
        start += got;
    }
    kfree(page);
}

static long show_cmdline(struct pnode *n, struct strbuf *sb)
{
    struct mm *mm = NULL;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t && !t->exited && (mm = t->mm))
        mm_get(mm);
    mutex_unlock(&tasklist_lock);
    if (!mm)
        return t ? 0 : -ESRCH;
    if (mm == current_mm()) {
        copy_guest(sb, mm->arg_start, mm->arg_end);
    } else {
        struct mm_args *a = mm_args_get(mm);
        if (a)
            sb_write(sb, a->data, a->args);
        mm_args_put(a);
    }
    mm_put(mm);
    return 0;
}

static long show_environ(struct pnode *n, struct strbuf *sb)
{
    long r;
    struct mm *mm = mm_of(n, &r);
    if (mm && mm == current_mm()) {
        copy_guest(sb, mm->env_start, mm->env_end);
    } else if (mm) {
        struct mm_args *a = mm_args_get(mm);
        if (a)
            sb_write(sb, a->data + a->args, a->size - a->args);
        mm_args_put(a);
    }
    if (mm)
        mm_put(mm);
    return r;
}

static long show_auxv(struct pnode *n, struct strbuf *sb)
{
    long r;
    struct mm *mm = mm_of(n, &r);
    u64 v[64], size = mm ? MIN(mm->auxv_end - mm->auxv_start, sizeof(v)) : 0;
    long got = size ? visit(mm, n->tid, mm->auxv_start, v, size, 0) : 0;
    if (got > 0)
        sb_write(sb, (char *)v, (size_t)got);
    if (mm)
        mm_put(mm);
    return r ? r : got < 0 && got != -ESRCH ? got : 0;
}

static long show_detail(struct pnode *n, struct strbuf *sb, bool sum)
{
    long r;
    struct mm *mm = mm_of(n, &r);
    if (mm) {
        mm_show_smaps(mm, sb, sum);
        mm_put(mm);
    }
    return r;
}

static long show_smaps(struct pnode *n, struct strbuf *sb) { return show_detail(n, sb, false); }
static long show_smaps_rollup(struct pnode *n, struct strbuf *sb) { return show_detail(n, sb, true); }

static long show_io(struct pnode *n, struct strbuf *sb) /* not counted */
{
    (void)n;
    sb_printf(sb, "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n");
    return 0;
}

/* The file is of the process, and of the task only as far as that is one of it. */
static long mem_io(struct file *f, struct uio *u, u64 *pos, bool write)
{
    long r;
    struct pnode *n = PNODE(f->inode);
    struct mm *mm = mm_of(n, &r);
    if (!mm)
        return r == -ESRCH ? 0 : r;
    u64 max = MIN(MAX(u->resid, 1ul), (u64)VISIT_MAX), done = 0, start = *pos;
    char *buf = kmalloc(max);
    r = buf ? 0 : -ENOMEM;
    while (u->resid && !r) {
        u64 size = MIN(u->resid, max);
        if (write && (r = uio_read_from(u, buf, size)) <= 0)
            break;
        long got = visit(mm, n->tid, *pos, buf, size, MM_FORCE | (write ? MM_WRITE : 0));
        if (!write && got > 0)
            got = uio_write_to(u, buf, (u64)got);
        if (got == -ESRCH) /* it has ended meanwhile */
            break;
        r = got < 0 ? got : (u64)got < size ? -EIO : 0;
        done += got > 0 ? (u64)got : 0;
        *pos += got > 0 ? (u64)got : 0;
    }
    if (r == -ERESTARTNOINTR) { /* all over again, once it is thawed */
        *pos = start;
        done = 0;
    }
    kfree(buf);
    mm_put(mm);
    return done ? (long)done : r;
}

static long mem_read(struct file *f, struct uio *u, u64 *pos) { return mem_io(f, u, pos, false); }
static long mem_write(struct file *f, struct uio *u, u64 *pos) { return mem_io(f, u, pos, true); }
static long mem_llseek(struct file *f, s64 off, int whence)
{
    if (whence > 1)
        return -EINVAL;
    f->pos = (u64)off + (whence ? f->pos : 0);
    return (long)f->pos;
}
const struct file_ops proc_mem_fops = {.read = mem_read, .write = mem_write, .llseek = mem_llseek};

static long show_maps(struct pnode *n, struct strbuf *sb)
{
    long r;
    struct mm *mm = mm_of(n, &r);
    if (mm) {
        mm_show_maps(mm, sb);
        mm_put(mm);
    }
    return r;
}

static long show_limits(struct pnode *n, struct strbuf *sb)
{
    static const struct {
        char name[24], unit[12];
    } names[16] = {
        {"Max cpu time", "seconds"},     {"Max file size", "bytes"},       {"Max data size", "bytes"},
        {"Max stack size", "bytes"},     {"Max core file size", "bytes"},  {"Max resident set", "bytes"},
        {"Max processes", "processes"},  {"Max open files", "files"},      {"Max locked memory", "bytes"},
        {"Max address space", "bytes"},  {"Max file locks", "locks"},      {"Max pending signals", "signals"},
        {"Max msgqueue size", "bytes"},  {"Max nice priority", ""},        {"Max realtime priority", ""},
        {"Max realtime timeout", "us"},
    };
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    sb_printf(sb, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (u32 l = 0; t && l < 16; l++) {
        sb_printf(sb, "%-25s ", names[l].name);
        for (u32 k = 0; k < 2; k++) {
            u64 v = t->tg->rlimits[l][k];
            if (v == ~0ull)
                sb_printf(sb, "%-20s ", "unlimited");
            else
                sb_printf(sb, "%-20lu ", v);
        }
        sb_printf(sb, "%-10s\n", names[l].unit);
    }
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

static long show_oom_adj(struct pnode *n, struct strbuf *sb)
{
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    if (t)
        sb_printf(sb, "%d\n", t->tg->oom_adj);
    mutex_unlock(&tasklist_lock);
    return t ? 0 : -ESRCH;
}

static long write_oom_adj(struct pnode *n, struct uio *u)
{
    char text[16] = {0};
    const char *p = text;
    u64 size = u->resid;
    int v = 0;
    long r = uio_read_from(u, text, MIN(size, sizeof(text) - 1));
    if (r < 0)
        return r;
    bool minus = *p == '-';
    for (p += minus; *p >= '0' && *p <= '9' && v <= 1000; p++)
        v = v * 10 + *p - '0';
    if (v > 1000 || p == text + minus || (*p && *p != '\n'))
        return -EINVAL;
    v = minus ? -v : v;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    bool privileged = capable(24 /* CAP_SYS_RESOURCE */);
    r = !t ? -ESRCH : v < t->tg->oom_adj_min && !privileged ? -EACCES : (long)size;
    if (r >= 0) {
        t->tg->oom_adj = (s16)v;
        if (privileged)
            t->tg->oom_adj_min = (s16)v;
    }
    mutex_unlock(&tasklist_lock);
    return r;
}

static long write_ignored(struct pnode *n, struct uio *u)
{
    (void)n;
    long r = (long)u->resid;
    u->resid = 0;
    return r;
}

/* ---- mounts ---- */

static void show_escaped(struct strbuf *sb, const char *s)
{
    for (; *s; s++) {
        if (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\\')
            sb_printf(sb, "\\%03o", *s);
        else
            sb_write(sb, s, 1);
    }
}

static void show_flags(struct strbuf *sb, u32 flags)
{
    sb_printf(sb, "%s%s%s%s,relatime", flags & MS_RDONLY ? "ro" : "rw", flags & MS_NOSUID ? ",nosuid" : "",
              flags & MS_NODEV ? ",nodev" : "", flags & MS_NOEXEC ? ",noexec" : "");
}

/* The mount's root inside its super block (bind mounts), built from the end of buf. */
static const char *mount_root_text(const struct mount *m, char *buf, size_t size)
{
    char *p = buf + size - 1;
    *p = 0;
    dcache_write_begin(); /* holds dcache_lock: parents do not change */
    for (struct dentry *d = m->root; d->parent != d && (size_t)(p - buf) > d->len + 1u; d = d->parent) {
        p -= d->len;
        memcpy(p, d->name, d->len);
        *--p = '/';
    }
    dcache_write_end();
    return *p ? p : "/";
}

static void show_mount(struct strbuf *sb, struct mount *m, bool info, char *buf)
{
    struct path top = {m, m->root};
    char *at = path_text(&top, buf, PATH_LEN_MAX);
    if (IS_ERR(at) || *at != '/')
        return; /* outside the caller's root */
    u32 flags = m->flags | (m->sb->flags & MS_RDONLY);
    if (!info) {
        show_escaped(sb, m->source);
        sb_write(sb, " ", 1);
        show_escaped(sb, at);
        sb_printf(sb, " %s ", m->sb->fstype);
        show_flags(sb, flags);
        sb_printf(sb, " 0 0\n");
        return;
    }
    u64 dev = m->sb->dev;
    sb_printf(sb, "%u %u %u:%u ", m->id, m->parent->id,
              (u32)(dev >> 8 & 0xfff), (u32)((dev & 0xff) | (dev >> 12 & 0xfff00)));
    show_escaped(sb, mount_root_text(m, buf + PATH_LEN_MAX, PATH_LEN_MAX));
    sb_write(sb, " ", 1);
    show_escaped(sb, at);
    sb_write(sb, " ", 1);
    show_flags(sb, flags);
    sb_printf(sb, " - %s ", m->sb->fstype);
    show_escaped(sb, m->source);
    sb_printf(sb, " %s\n", m->sb->flags & MS_RDONLY ? "ro" : "rw");
}

/* The mounts are referenced under mount_lock and shown after it: path_text and strings may take other locks. */
static long show_mount_list(struct strbuf *sb, bool info)
{
    u32 count = 0, max = 0;
    struct mount *m, **all;
    char *buf = kmalloc(2 * PATH_LEN_MAX);
    mutex_lock(&mount_lock);
    list_for_each(m, mount_list(), link)
        max++;
    all = kmalloc((max + 1) * sizeof(*all));
    if (all && buf)
        list_for_each(m, mount_list(), link)
            all[count++] = mntget(m);
    mutex_unlock(&mount_lock);
    long r = all && buf ? 0 : -ENOMEM;
    for (u32 k = 0; k < count; k++) {
        show_mount(sb, all[k], info, buf);
        mntput(all[k]);
    }
    kfree(all);
    kfree(buf);
    return r;
}

static long show_mounts(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    return show_mount_list(sb, false);
}

static long show_mountinfo(struct pnode *n, struct strbuf *sb)
{
    (void)n;
    return show_mount_list(sb, true);
}

/* ---- magic links ---- */

static long follow_exe(struct pnode *n, struct path *out)
{
    long r;
    struct mm *mm = mm_of(n, &r);
    if (!mm)
        return r ? r : -ENOENT;
    mm_lock(mm);
    r = mm->exe ? 0 : -ENOENT;
    if (!r) {
        *out = mm->exe->path;
        path_get(out);
    }
    mm_unlock(mm);
    mm_put(mm);
    return r;
}

static long follow_fs(struct pnode *n, struct path *out, void (*get)(struct fs_info *, struct path *))
{
    struct fs_info *fs = NULL;
    mutex_lock(&tasklist_lock);
    struct task *t = pnode_task_locked(n);
    long r = !t ? -ESRCH : pnode_may_look_locked(t) ? 0 : -EACCES;
    if (t && !r && !t->exited && t->fs) {
        fs = t->fs;
        fs_info_get(fs);
    }
    mutex_unlock(&tasklist_lock);
    if (!fs)
        return r ? r : -ENOENT;
    get(fs, out);
    fs_info_put(fs);
    return 0;
}

static long follow_cwd(struct pnode *n, struct path *out)
{
    return follow_fs(n, out, fs_info_pwd);
}

static long follow_root(struct pnode *n, struct path *out)
{
    return follow_fs(n, out, fs_info_root);
}

static struct file *file_of(struct pnode *n)
{
    struct files *fs = pnode_files(n);
    struct file *f = fs ? files_lookup(fs, n->fd) : NULL;
    if (fs)
        files_put(fs);
    return f;
}

static long follow_fd(struct pnode *n, struct path *out)
{
    struct file *f = file_of(n);
    if (!f)
        return -ENOENT;
    *out = f->path;
    path_get(out);
    file_put(f);
    return 0;
}

static long show_fdinfo(struct pnode *n, struct strbuf *sb)
{
    struct file *f = file_of(n);
    if (!f)
        return -ENOENT;
    sb_printf(sb, "pos:\t%lu\nflags:\t0%o\nmnt_id:\t%u\nino:\t%lu\n", f->pos, f->flags,
              f->path.mnt ? f->path.mnt->id : 0,
              f->inode ? f->inode->ino : 0ul);
    if (f->ops && f->ops->show_fdinfo)
        f->ops->show_fdinfo(f, sb);
    file_put(f);
    return 0;
}

/* ---- tables ---- */

#define SHOW(n, p, f) {.name = n, .perm = p, .kind = PK_FILE, .show = f}
#define TEXT(n, t) {.name = n, .perm = 0444, .kind = PK_FILE, .text = t}
#define MAGIC(n, f) {.name = n, .perm = 0777, .kind = PK_MAGIC, .follow = f}

#define COMMON_ENTRIES                                                                                                 \
    SHOW("status", 0444, show_status), SHOW("stat", 0444, show_stat), SHOW("statm", 0444, show_statm),                 \
        {.name = "comm", .perm = 0644, .kind = PK_FILE, .show = show_comm, .write = write_comm},                       \
        SHOW("cmdline", 0444, show_cmdline), SHOW("environ", 0400, show_environ), SHOW("maps", 0444, show_maps),       \
        SHOW("auxv", 0400, show_auxv), {.name = "mem", .perm = 0600, .kind = PK_MEM}, TEXT("oom_score", "666\n"),      \
        SHOW("smaps", 0444, show_smaps), SHOW("smaps_rollup", 0444, show_smaps_rollup), SHOW("io", 0400, show_io),     \
        TEXT("uid_map", "         0          0 4294967295\n"), TEXT("gid_map", "         0          0 4294967295\n"),     \
        TEXT("setgroups", "allow\n"), TEXT("schedstat", "0 0 0\n"), SHOW("personality", 0400, show_personality),               \
        TEXT("cpuset", "/\n"), {.name = "coredump_filter", .perm = 0644, .kind = PK_FILE, .text = "00000033\n", .write = write_ignored}, TEXT("stack", ""), TEXT("oom_adj", "0\n"),     \
        {.name = "ns", .perm = 0511, .kind = PK_DIR, .sub = proc_ns_entries},                                          \
        TEXT("loginuid", "4294967295"), TEXT("sessionid", "4294967295"), TEXT("wchan", "0"),                           \
        SHOW("limits", 0444, show_limits), SHOW("mounts", 0444, show_mounts),                                          \
        SHOW("mountinfo", 0444, show_mountinfo), TEXT("cgroup", "0::/\n"), MAGIC("exe", follow_exe),                   \
        MAGIC("cwd", follow_cwd), MAGIC("root", follow_root), {.name = "fd", .perm = 0500, .kind = PK_FDS},            \
        {.name = "fdinfo", .perm = 0555, .kind = PK_FDINFOS},                                                          \
    {                                                                                                                  \
        .name = "oom_score_adj", .perm = 0644, .kind = PK_FILE, .show = show_oom_adj, .write = write_oom_adj           \
    }

const struct pentry proc_tid_entries[] = {COMMON_ENTRIES, {0}};
const struct pentry proc_pid_entries[] = {COMMON_ENTRIES, {.name = "task", .perm = 0555, .kind = PK_TASKS}, {0}};
const struct pentry proc_pid_dir = {.name = "", .perm = 0555, .kind = PK_DIR, .sub = proc_pid_entries};
const struct pentry proc_tid_dir = {.name = "", .perm = 0555, .kind = PK_DIR, .sub = proc_tid_entries};
const struct pentry proc_fd_link = {.name = "", .perm = 0700, .kind = PK_MAGIC, .follow = follow_fd};
const struct pentry proc_fdinfo_file = {.name = "", .perm = 0444, .kind = PK_FILE, .show = show_fdinfo};
