/* See boot.h. The service thread is carrier 0 of the first process; its task is the kernel's process 1. */
#include "boot/boot.h"
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
#include "host/host.h"
#include "ipc/init.h"
#include "loader/exec.h"
#include "mm/mm.h"
#include "proc/cred.h"
#include "proc/task.h"
#include "procfs/procfs.h"
#include "tty/session.h"
#include "tty/stream.h"
#include "tty/tty.h"
#include "vfs/fs_info.h"
#include "vfs/mount.h"
#include <linux/fcntl.h>

static KSTATE struct {
    struct mail_boot config;
    u32 mail_taken;
    u32 unknown[SYSCALL_COUNT];
    bool panicked, booted;
} boot;

static struct r_control_guest *guest(void) { return (void *)(R_BASE + R_CONTROL_GUEST); }
static struct r_control_broker *broker(void) { return (void *)(R_BASE + R_CONTROL_BROKER); }
const struct mail_boot *boot_config(void) { return &boot.config; }
void boot_count_unknown(u32 nr) { atomic_add(&boot.unknown[nr < SYSCALL_COUNT ? nr : SYSCALL_COUNT - 1], 1); }

void panic(const char *f, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, f);
    int n = fmt_print(text, sizeof(text), "guest kernel panic: ");
    fmt_vprint(text + n, sizeof(text) - (size_t)n, f, ap);
    va_end(ap);
    if (!__atomic_exchange_n(&boot.panicked, true, __ATOMIC_SEQ_CST))
        broker_notify(WIRE_PANIC, 0, 0, 0, text, strlen(text));
    host_exit_process(125);
}

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
        if (boot.unknown[i])
            klog("system call %u (%s) does not exist: asked for %u times", i, syscall_names[i] ? syscall_names[i] : "?",
                 boot.unknown[i]);
}

void boot_session_ended(u32 session, int status)
{
    report_unknown();
    broker_notify(WIRE_EXIT, session, (u64)(u32)status, 0, NULL, 0);
}

static void boot_mail(const struct mail_boot *m, u32 size)
{
    boot.config = *m;
    boot.config.hostname[64] = 0;
    boot.config.boot_id[36] = 0;
    random_seed(m->seed);
    u64 off = m->mounts_off;
    for (u32 i = 0; i < m->mount_count; i++) {
        const struct mail_mount *mm = (const void *)((const char *)m + off);
        if (off + sizeof(*mm) > size || mm->record_size < sizeof(*mm) || off + mm->record_size > size)
            panic("bad boot mail");
        long r = boot_mount(mm);
        if (r == -ENODEV && (mm->kind == MOUNT_PROC || mm->kind == MOUNT_SYS))
            klog("no file system for %s", mm->target);
        else if (r)
            panic("cannot mount %s: error %ld", mm->target, -r);
        if (!r && !strcmp(mm->target, "/")) { /* a new top of the namespace */
            fs_info_put(current_task()->fs);
            current_task()->fs = fs_info_new();
        }
        off += mm->record_size;
    }
    boot.booted = true;
}

/* The program by name along the PATH of its environment, as a shell would find it. */
static long find_program(const char *strings, u64 size, u32 argc, u32 envc, struct exec_args **out)
{
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

/* The session's first process, not yet carried: task, files, program. */
static long spawn(const struct mail_spawn *m, u32 *pid)
{
    const char *cwd = (const char *)m + m->cwd_off, *strings = (const char *)m + m->strings_off;
    struct tgroup *tg = tgroup_alloc(NULL);
    struct task *t = tg ? task_alloc(NULL, tg) : NULL;
    struct task *init = current_task();
    struct file *std[3] = {0};
    struct path p;
    if (!t)
        return -ENOMEM;
    tg->pgid = tg->sid = tg->tgid;
    tg->session_leader = true;
    tg->session_no = m->session;
    t->alt_flags = 2;
    t->cred = cred_new(m->uid, m->gid);
    t->files = files_new();
    t->fs = fs_info_new();
    t->mm = mm_new();
    if (!t->cred || !t->files || !t->fs || !t->mm)
        return -ENOMEM;
    mutex_lock(&tasklist_lock);
    tg->parent = init->tg;
    list_add_tail(&init->tg->children, &tg->sibling);
    mutex_unlock(&tasklist_lock);
    long r = path_lookup(AT_FDCWD, cwd, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &p);
    if (r)
        return r;
    fs_info_set_pwd(t->fs, &p);
    path_put(&p);
    r = stream_open_stdio(m, std);
    if (r)
        return r;
    /* Descriptors and the program are looked up as the new task. */
    struct carrier *c = this_carrier();
    c->task = t;
    for (int i = 0; i < 3; i++)
        fd_install((int)fd_alloc(0, 0), std[i]);
    r = find_program(strings, m->h.size - m->strings_off, m->argc, m->envc, &t->exec);
    if (m->flags & SPAWN_TTY)
        session_set_tty(console_tty(m->session));
    c->task = init;
    if (r)
        return r;
    *pid = t->tid;
    while ((r = stub_hand_over(t)) == -EAGAIN)
        stubs_refill(1);
    return r;
}

static void spawn_mail(const struct mail_spawn *m)
{
    u32 pid = 0;
    long r = spawn(m, &pid);
    broker_notify(WIRE_SPAWNED, m->session, pid, (u64)r, NULL, 0);
}

static void signal_mail(const struct mail_signal *m)
{
    mutex_lock(&tasklist_lock);
    u8 info[128];
    siginfo_user(info, (int)m->signal, 0, 0, 0);
    for (struct tgroup *g = tgroup_next_locked(2); g; g = tgroup_next_locked(g->tgid + 1))
        if (m->session == ~0u || g->session_no == m->session)
            signal_send_locked(g, NULL, (int)m->signal, info);
    mutex_unlock(&tasklist_lock);
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
    }
    kfree(h);
    boot.mail_taken = seq;
    atomic_store(&guest()->mail_done, seq);
    host_doorbell(0);
}

noreturn_fn void kernel_main(void);

void kernel_main(void)
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
    if ((r = tty_init()))
        panic("terminals: error %ld", -r);
    if ((r = procfs_init()))
        panic("proc: error %ld", -r);
    guest()->version = WIRE_VERSION;
    take_mail();
    atomic_store(&guest()->ready, 1);
    for (;;) {
        u32 seen = atomic_load((u32 *)broker());
        take_mail();
        streams_event();
        broker_call_event();
        stubs_refill(stubs_wanted());
        u64 deadline = ktimers_run();
        host_futex_wait((u32 *)broker(), seen, deadline);
    }
}
