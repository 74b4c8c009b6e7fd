/* See boot.h. The service thread is carrier 0 of the first process; its task is the kernel's process 1. */
#include "boot/boot.h"
#include "core/config.h"
#include "boot/user.h"
#include "abi/syscalls.h"
#include "arch/x86_64/regs.h"
#include "base/string.h"
#include "core/broker_call.h"
#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/panic.h"
#include "core/random.h"
#include "fs/erofs/erofs.h"
#include "fs/mounts.h"
#include "core/strbuf.h"
#include "host/host.h"
#include "ipc/init.h"
#include "loader/exec.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/fasync.h"
#include "proc/task.h"
#include "procfs/procfs.h"
#include "snapshot/snapshot.h"
#include "sys/trace.h"
#include "tty/session.h"
#include "tty/stream.h"
#include "tty/tty.h"
#include "vfs/fs_info.h"
#include "vfs/mount.h"
#include <linux/fcntl.h>
#include <linux/time.h>
#include <asm/signal.h>
#include <asm/unistd.h>

#define FILES_OWN 32u /* standard streams of the processes around: so that one process reaches its own limit first */
#define LOOK_NS 400000000ull

static KSTATE struct {
    struct mail_boot config;
    u8 id[16]; /* of this boot */
    u32 mail_taken;
    u32 unknown[SYSCALL_COUNT];
    u32 nap; /* nobody wakes it */
    u64 look_at; /* for dead host processes */
    u32 main_session; /* the sandbox ends with it */
    bool booted;
} boot;

static struct r_control_guest *guest(void) { return (void *)(R_BASE + R_CONTROL_GUEST); }
static struct r_control_broker *broker(void) { return (void *)(R_BASE + R_CONTROL_BROKER); }
const struct mail_boot *boot_config(void) { return &boot.config; }
const u8 *boot_id(void) { return boot.id; }
void boot_count_unknown(u32 nr) { atomic_add(&boot.unknown[nr < SYSCALL_COUNT ? nr : SYSCALL_COUNT - 1], 1); }

void klog(const char *f, ...)
{
    char text[256];
    if (!(boot.config.flags & BOOT_VERBOSE))
        return;
    va_list ap;
    va_start(ap, f);
    int n = fmt_vprint(text, sizeof(text) - 1, f, ap);
    va_end(ap);
    n = MIN(n, (int)sizeof(text) - 2);
    text[n++] = '\n';
    broker_notify(WIRE_STATS, 0, 0, 0, text, (size_t)n);
}

static void report_unknown(void)
{
    if (!(boot.config.flags & BOOT_VERBOSE))
        return;
    for (u32 i = 0; i < SYSCALL_COUNT; i++)
        if (boot.unknown[i] && i != __NR_rseq) /* every libc asks for rseq and goes on without */
            klog("system call %u (%s) does not exist: asked for %u times", i, syscall_names[i] ? syscall_names[i] : "?",
                 boot.unknown[i]);
}

void boot_session_ended(u32 session, int status)
{
    report_unknown();
    if (trace_active)
        trace_finish();
    broker_notify(WIRE_EXIT, session, (u64)(u32)status, 0, NULL, 0);
}

/* What holds for the whole sandbox, and may differ when it comes back from a snapshot. */
static void configure(const struct mail_boot *m)
{
    boot.config = *m;
    boot.config.hostname[64] = 0;
    random_seed(m->seed);
    random_bytes(boot.id, sizeof(boot.id));
    memory_set_limit(m->memory_max);
    kmalloc_set_limit(m->memory_max ? MAX(m->memory_max / 4, 4ul << 20) : 0); /* files without contents, processes ... */
    if (m->tmpfs_max)
        dpages_set_limit(MAX(m->tmpfs_max / PAGE_SIZE, 256ul));
    files_set_max(m->files_max ? m->files_max + FILES_OWN : 0);
}

static void boot_mail(const struct mail_boot *m, u32 size)
{
    configure(m);
    u64 off = m->mounts_off;
    for (u32 i = 0; i < m->mount_count; i++) {
        const struct mail_mount *mm = (const void *)((const char *)m + off);
        if (off + sizeof(*mm) > size || mm->record_size < sizeof(*mm) || off + mm->record_size > size)
            panic("bad boot mail");
        off += mm->record_size;
    }
    const struct mail_mount *mm = mail_mount_first(m);
    for (u32 i = 0; i < m->mount_count; i++, mm = mail_mount_next(mm)) {
        long r = boot_mount(mm, m);
        if (r == -ENODEV && (mm->kind == MOUNT_PROC || mm->kind == MOUNT_SYS))
            klog("no file system for %s", mm->target);
        else if (r && mm->kind == MOUNT_IMAGE)
            give_up(125, r == -EUCLEAN || r == -EINVAL || r == -EIO
                             ? "the image for %s is damaged or none that `harena image build` made (error %ld)"
                             : "the image for %s cannot be mounted (error %ld)", mm->target, -r);
        else if (r == -ENOTDIR || r == -EEXIST || r == -ENOENT || r == -EROFS || r == -ELOOP || r == -EISDIR)
            give_up(125, "the place %s cannot be made in the sandbox's file system (error %ld); choose another one", mm->target, -r);
        else if (r && mm->kind == MOUNT_HOSTFS)
            give_up(125, "the host's directory for %s cannot be shown%s (error %ld)", mm->target,
                    r == -EACCES || r == -EPERM ? ": it may not be read" : "", -r);
        else if (r)
            panic("cannot mount %s: error %ld", mm->target, -r);
        if (!r && !strcmp(mm->target, "/")) { /* a new top of the namespace */
            fs_info_put(current_task()->fs);
            current_task()->fs = fs_info_new();
        }
    }
    machine_begins();
    hosts_name();
    boot.booted = true;
}

/* The program by name along the PATH of its environment, as a shell would find it. */
static long find_program(const char *strings, u64 size, u32 argc, u32 envc, struct exec_args **out)
{
    if (!*strings)
        return -ENOENT;
    const char *env = strings, *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    if (strchr(strings, '/'))
        return exec_prepare_kernel(strings, strings, size, argc, envc, out);
    for (u32 i = 0; i < argc + envc; i++, env += strlen(env) + 1)
        if (i >= argc && !strncmp(env, "PATH=", 5))
            path = env + 5;
    char *full = kmalloc(4096);
    long r = -ENOENT, best = -ENOENT;
    while (full && *path) {
        const char *end = strchr(path, ':');
        int n = (int)(end ? (size_t)(end - path) : strlen(path));
        if (n && fmt_print(full, 4096, "%.*s/%s", n, path, strings) < 4096) {
            r = exec_prepare_kernel(full, strings, size, argc, envc, out);
            if (!r)
                break;
            if (r == -EACCES)
                best = r;
        }
        path += n + (end != NULL);
    }
    kfree(full);
    return r ? best : 0;
}

static bool has_home(const struct mail_spawn *m)
{
    const char *s = (const char *)m + m->strings_off;
    for (u32 i = 0; i < m->argc + m->envc; i++, s += strlen(s) + 1)
        if (i >= m->argc && !strncmp(s, "HOME=", 5))
            return true;
    return false;
}

static long prepare_program(const struct mail_spawn *m, const char *home, struct exec_args **out)
{
    const char *strings = (const char *)m + m->strings_off;
    u64 size = m->h.size - m->strings_off;
    if (has_home(m))
        return find_program(strings, size, m->argc, m->envc, out);
    char *longer = kmalloc(size + USER_HOME_MAX + 8);
    if (!longer)
        return -ENOMEM;
    memcpy(longer, strings, size);
    u64 n = (u64)fmt_print(longer + size, USER_HOME_MAX + 8, "HOME=%s", home) + 1;
    long r = find_program(longer, size + n, m->argc, m->envc + 1, out);
    kfree(longer);
    return r;
}

/* Standard streams and program, looked up as the new task. */
static long equip(struct task *t, const struct mail_spawn *m, const char *home)
{
    struct carrier *c = this_carrier();
    struct task *init = c->task;
    struct file *std[3] = {0};
    long r = stream_open_stdio(m, std);
    for (int i = 0; i < 3 && !r; i++)
        if (S_ISFIFO(std[i]->inode->mode) || m->flags & SPAWN_TTY)
            std[i]->inode->uid = t->cred->euid; /* for /dev/stdout by name */
    if (r)
        return r;
    c->task = t;
    for (int i = 0; i < 3; i++)
        fd_install((int)fd_alloc(0, 0), std[i]);
    r = prepare_program(m, home, &t->exec);
    if (!r && m->flags & SPAWN_TTY)
        session_set_tty(console_tty(m->session));
    c->task = init;
    return r;
}

static long prepare_task(struct task *t, const struct mail_spawn *m, u32 *step)
{
    char home[USER_HOME_MAX];
    struct path p;
    t->files = files_new();
    t->fs = fs_info_new();
    t->mm = mm_new();
    if (!t->files || !t->fs || !t->mm)
        return -ENOMEM;
    *step = SPAWN_STEP_USER;
    long r = user_resolve((const char *)m + m->user_off, &t->cred, home);
    if (r)
        return r;
    *step = SPAWN_STEP_CWD;
    r = path_lookup(AT_FDCWD, (const char *)m + m->cwd_off, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &p);
    if (r)
        return r;
    *step = SPAWN_STEP_PROGRAM;
    fs_info_set_pwd(t->fs, &p);
    path_put(&p);
    return equip(t, m, home);
}

static void discard_task(struct task *t)
{
    struct tgroup *tg = t->tg;
    if (t->exec)
        exec_free(t->exec);
    if (t->files)
        files_put(t->files);
    if (t->fs)
        fs_info_put(t->fs);
    if (t->mm)
        mm_put(t->mm);
    mutex_lock(&tasklist_lock);
    list_del(&t->tg_link);
    tgroup_release_locked(tg);
    mutex_unlock(&tasklist_lock);
}

/* The session's first process, not yet carried: task, files, program. */
static long spawn(const struct mail_spawn *m, u32 *pid, u32 *step)
{
    struct tgroup *tg = tgroup_alloc(NULL);
    struct task *t = tg ? task_alloc(NULL, tg) : NULL;
    if (!t) {
        kfree(tg);
        return tg ? -EAGAIN : -ENOMEM;
    }
    tg->pgid = tg->sid = tg->tgid;
    tg->session_leader = true;
    tg->session_no = m->session;
    t->alt_flags = 2;
    mutex_lock(&tasklist_lock);
    tg->parent = current_task()->tg;
    list_add_tail(&tg->parent->children, &tg->sibling);
    mutex_unlock(&tasklist_lock);
    long r = prepare_task(t, m, step);
    if (r) {
        discard_task(t);
        return r;
    }
    *pid = t->tid;
    while ((r = stub_hand_over(t)) == -EAGAIN && !(r = stubs_refill(1)))
        ;
    if (r)
        discard_task(t);
    return r;
}

static void spawn_mail(const struct mail_spawn *m)
{
    if (m->flags & SPAWN_MAIN)
        boot.main_session = m->session;
    u32 pid = 0, step = SPAWN_STEP_PROGRAM;
    long r = spawn(m, &pid, &step);
    struct broker_args a = {.op = WIRE_SPAWNED, .arg = {m->session, pid, (u64)r, step}};
    broker_call(&a);
}

/* The main session goes by its new number, others are nobody's. Returns the pid of its first process. */
static u32 take_over_sessions(u32 session)
{
    u32 pid = 0;
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1)) {
        if (g->session_no == boot.main_session && g->session_no != ~0u) {
            g->session_no = session;
            pid = g->tgid;
        } else {
            g->session_no = ~0u;
        }
    }
    boot.main_session = session;
    return pid;
}

static void restore_mail(const struct mail_restore *m)
{
    configure(&m->boot);
    long r = snapshot_restore(m);
    if (r)
        give_up(125, r == -EUCLEAN ? "the snapshot is damaged (error %ld)" : "the snapshot cannot be brought back (error %ld)", -r);
    hosts_name();
}

static void attach_mail(const struct mail_attach *m, u32 size)
{
    u32 pid = take_over_sessions(m->session);
    snapshot_attached(m, size);
    struct broker_args a = {.op = WIRE_SPAWNED, .arg = {m->session, pid, pid ? 0 : (u64)-ESRCH, SPAWN_STEP_PROGRAM}};
    broker_call(&a);
}

/* Whom a signal to a session reaches: what a terminal sends (INT, QUIT, HUP) its program's process group, KILL everything
 * it started, others the program alone. */
static bool signal_reaches(const struct tgroup *g, const struct tgroup *program, int sig)
{
    if (sig == SIGKILL)
        return g->sid == program->sid;
    if (sig == SIGINT || sig == SIGQUIT || sig == SIGHUP)
        return g->pgid == program->pgid;
    return g == program;
}

static void signal_mail(const struct mail_signal *m)
{
    mutex_lock(&tasklist_lock);
    u8 info[128];
    struct tgroup *g, *next, *program = NULL;
    siginfo_user(info, (int)m->signal, 0, 0, 0);
    for (g = tgroup_next_locked(2); g && !program; g = tgroup_next_locked(g->tgid + 1))
        if (g->session_no == m->session)
            program = g;
    for (g = tgroup_next_locked(2); g; g = next) {
        next = tgroup_next_locked(g->tgid + 1);
        if (m->session == ~0u || (program && signal_reaches(g, program, (int)m->signal)))
            signal_send_locked(g, NULL, (int)m->signal, info);
    }
    mutex_unlock(&tasklist_lock);
}

static void trace_mail(const struct mail_trace *m)
{
    if (trace_set(m->on ? m->calls : NULL, TRACE_WORDS))
        klog("no memory for the trace");
}

/* ---- what `harena ps NAME` shows ---- */

#define PROCS_COMMAND_MAX 256u /* bytes of a command line */

static void show_process(struct strbuf *sb, struct tgroup *g, u64 now)
{
    struct task *t = g->leader;
    char state = g->zombie ? 'Z' : g->stop_sig ? 'T' : atomic_load_relaxed(&t->core.wake) == WAKE_SLEEPING ? 'S' : 'R';
    u64 kib = t->mm && !g->zombie ? mm_size(t->mm) >> 10 : 0;
    sb_printf(sb, "%u	%u	%u	%u	%c	%u	%lu	%lu	%u	", g->tgid, g->parent ? g->parent->tgid : 0, g->pgid,
              t->cred ? t->cred->euid : 0, state, g->live, kib, (now - g->start_time) / 1000000000, g->session_no + 1);
    struct mm_args *a = t->mm && !g->zombie ? mm_args_get(t->mm) : NULL;
    u32 n = a ? MIN(a->args, PROCS_COMMAND_MAX) : 0;
    for (u32 i = 0; i + 1 < n; i++) {
        u8 c = (u8)a->data[i];
        if (!c)
            sb_printf(sb, " ");
        else
            sb_printf(sb, c < 0x20 || c >= 0x7f ? "\\x%02x" : "%c", c);
    }
    sb_printf(sb, n ? "\n" : "[%.16s]\n", t->comm);
    mm_args_put(a);
}

static void procs_mail(const struct mail_procs *m)
{
    struct strbuf sb = {0};
    u64 now = host_clock(CLOCK_MONOTONIC);
    mutex_lock(&tasklist_lock);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        show_process(&sb, g, now);
    mutex_unlock(&tasklist_lock);
    size_t at = 0;
    u32 tries = 0;
    do {
        size_t n = MIN(sb.len - at, (size_t)REQ_DATA_SIZE);
        struct broker_args a = {.op = WIRE_PROCS, .arg = {m->token, at + n < sb.len}, .data = sb.buf + at, .size = (u32)n};
        if (broker_call(&a) != -EAGAIN)
            at += n;
        else if (++tries > 20) /* whoever asked does not read */
            break;
        else
            host_futex_wait(&boot.nap, 0, host_clock(CLOCK_MONOTONIC) + 5000000);
    } while (at < sb.len);
    sb_free(&sb);
}

/* The broker is trusted, but the box lies in memory that a guest can write: copied once, then checked. */
static void take_mail(void)
{
    u32 seq = atomic_load(&broker()->mail_seq), size = broker()->mail_size;
    if (seq == boot.mail_taken)
        return;
    struct mail_header *h = size >= sizeof(*h) && size < MAIL_SIZE ? kmalloc(size + 1) : NULL;
    if (!h)
        panic("bad mail size %u", size);
    memcpy(h, (void *)(R_BASE + R_MAIL), size);
    ((char *)h)[size] = 0;
    switch (h->type) {
    case MAIL_BOOT:
        if (size >= sizeof(struct mail_boot))
            boot_mail((void *)h, size);
        break;
    case MAIL_SPAWN:
        if (size >= sizeof(struct mail_spawn))
            spawn_mail((void *)h);
        break;
    case MAIL_SIGNAL:
        if (size >= sizeof(struct mail_signal))
            signal_mail((void *)h);
        break;
    case MAIL_WINSIZE:
        if (size >= sizeof(struct mail_winsize)) {
            struct mail_winsize *w = (void *)h;
            console_winsize(w->session, w->rows, w->cols, w->xpixel, w->ypixel);
        }
        break;
    case MAIL_PROCS:
        if (size >= sizeof(struct mail_procs))
            procs_mail((void *)h);
        break;
    case MAIL_FREEZE:
        if (size >= sizeof(struct mail_freeze))
            snapshot_mail((void *)h);
        break;
    case MAIL_RESTORE:
        if (size >= sizeof(struct mail_restore))
            restore_mail((void *)h);
        break;
    case MAIL_ATTACH:
        if (size >= sizeof(struct mail_attach))
            attach_mail((void *)h, size);
        break;
    case MAIL_TRACE:
        if (size >= sizeof(struct mail_trace))
            trace_mail((void *)h);
        break;
    }
    kfree(h);
    boot.mail_taken = seq;
    atomic_store(&guest()->mail_done, seq);
    host_doorbell(0);
}

/* Nobody tells when a host process was killed: looked for once in a while, as long as there are any. */
static u64 look_for_dead(u64 deadline)
{
    if (list_empty(&current_task()->tg->children))
        return deadline;
    u64 now = host_clock(CLOCK_MONOTONIC);
    if (now >= boot.look_at) {
        tasks_reap_dead();
        dump_look();
        boot.look_at = now + LOOK_NS;
    }
    return MIN(deadline, boot.look_at);
}

noreturn_fn void kernel_main(void);

static void boot_new(void)
{
    struct carrier *c = this_carrier();
    struct task *t = task_make_init();
    if (!t)
        host_exit_process(125);
    c->task = t;
    erofs_map_images();
    t->core.host_tid = t->core.host_pid = c->tid;
    t->cred = cred_new(0, 0);
    t->files = files_new();
    long r = fs_init();
    if (r)
        panic("file systems: error %ld", -r);
    t->fs = fs_info_new();
    ipc_init();
    fasync_init();
    if ((r = tty_init()))
        panic("terminals: error %ld", -r);
    if ((r = procfs_init()))
        panic("proc: error %ld", -r);
    take_mail();
}

/* K comes from a snapshot: all is there but what belongs to host processes. The tasks come with the mail. */
static void boot_again(void)
{
    struct carrier *c = this_carrier();
    struct task *t = task_find_locked(INIT_PID);
    c->task = t;
    erofs_map_images();
    t->core.host_tid = t->core.host_pid = c->tid;
    t->core.waiter_count = t->core.waiter_base = 0;
    boot.mail_taken = 0;
    snapshot_reset();
}

void kernel_main(void)
{
    guest()->version = WIRE_VERSION;
    if (boot.booted)
        boot_again();
    else
        boot_new();
    atomic_store(&guest()->ready, 1);
    for (;;) {
        u32 seen = atomic_load((u32 *)broker());
        u64 deadline;
        take_mail();
        streams_event();
        broker_call_event();
        fasync_service();
        stubs_refill(stubs_wanted());
        if (snapshot_service(&deadline))
            deadline = trace_service(ktimers_run());
        deadline = look_for_dead(deadline);
        host_futex_wait((u32 *)broker(), seen, deadline);
    }
}
