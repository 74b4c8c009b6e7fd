/* See trace.h. Lock order: flush_lock > lock; flush_lock is held over the host request, which is why nothing else is taken
 * inside it. Arguments are shown as the call finds them, but for buffers it fills, which are shown afterwards. How an
 * argument is shown follows from its name in abi/syscalls.tbl. */
#include "sys/trace.h"
#include "base/string.h"
#include "core/broker_call.h"
#include "core/current.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "core/wait.h"
#include "time/timer.h"
#include <asm/unistd.h>
#include <linux/time.h>

#define BUFFER_SIZE 131072u
#define BATCH 8192u /* sent at once when so much has come together */
#define FLUSH_NS 20000000ull
#define STALL_NS 1000000000ull
#define LINE_MAX 768
#define STRING_SHOWN 64
#define PATH_SHOWN 256
#define DATA_SHOWN 32
#define ARGV_SHOWN 8

KSTATE u32 trace_active;

static KSTATE struct {
    struct mutex lock, flush_lock;
    struct waitq room;
    char *buf;
    u32 used;
    u32 lost;
    u32 nap; /* nobody wakes it */
    bool stalled;
    u64 flush_at; /* 0: nothing waits */
    u64 calls[(SYSCALL_COUNT + 63) / 64];
} trace;

void trace_reset(void)
{
    trace_active = 0;
    trace.used = trace.lost = 0;
    trace.flush_at = 0;
    trace.stalled = false;
}

/* ---- lines ---- */

struct line {
    char text[LINE_MAX];
    u32 n;
};

static void add(struct line *l, const char *f, ...) printf_like(2, 3);
static void add(struct line *l, const char *f, ...)
{
    va_list ap;
    u32 room = LINE_MAX - 48 - l->n; /* the result always fits */
    if (l->n >= LINE_MAX - 48)
        return;
    va_start(ap, f);
    int n = fmt_vprint(l->text + l->n, room, f, ap);
    va_end(ap);
    l->n += MIN((u32)n, room - 1);
}

static void add_hex(struct line *l, u64 v) { add(l, v ? "0x%lx" : "0", v); }

static void add_quoted(struct line *l, const char *s, size_t size, bool more)
{
    add(l, "\"");
    for (size_t i = 0; i < size; i++) {
        u8 c = (u8)s[i];
        if (c == '\n')
            add(l, "\\n");
        else if (c == '"' || c == '\\')
            add(l, "\\%c", c);
        else if (c >= 0x20 && c < 0x7f)
            add(l, "%c", c);
        else
            add(l, "\\x%02x", c);
    }
    add(l, more ? "\"..." : "\"");
}

static void add_string(struct line *l, uptr addr, size_t max)
{
    char s[PATH_SHOWN];
    size_t n = 0;
    bool ended = false;
    if (!addr) {
        add(l, "NULL");
        return;
    }
    while (n < max && !ended) { /* never across a page that may not be there */
        size_t want = MIN(max - n, PAGE_SIZE - ((addr + n) & (PAGE_SIZE - 1)));
        size_t got = copy_from_user_some(s + n, addr + n, want);
        char *end = memchr(s + n, 0, got);
        n = end ? (size_t)(end - s) : n + got;
        ended = end != NULL;
        if (!ended && got < want) {
            add_hex(l, addr);
            return;
        }
    }
    add_quoted(l, s, n, !ended);
}

static void add_data(struct line *l, uptr addr, u64 size)
{
    char s[DATA_SHOWN];
    size_t n = MIN(size, (u64)DATA_SHOWN);
    if (copy_from_user_some(s, addr, n) < n)
        add_hex(l, addr);
    else
        add_quoted(l, s, n, size > n);
}

static void add_vector(struct line *l, uptr addr, bool values)
{
    u64 p = 0;
    u32 count = 0;
    if (!addr) {
        add(l, "NULL");
        return;
    }
    if (values)
        add(l, "[");
    for (; count < 65536 && !get_user(p, addr + count * 8) && p; count++) {
        if (values && count < ARGV_SHOWN) {
            add(l, count ? ", " : "");
            add_string(l, p, STRING_SHOWN);
        }
    }
    if (values)
        add(l, count > ARGV_SHOWN ? ", ...]" : "]");
    else
        add(l, "0x%lx /* %u vars */", addr, count);
}

/* ---- arguments ---- */

static bool is(const char *name, u32 n, const char *what) { return strlen(what) == n && !memcmp(name, what, n); }

static bool is_one(const char *name, u32 n, const char *const *list)
{
    for (; *list; list++)
        if (is(name, n, *list))
            return true;
    return false;
}

/* Fills a buffer that is worth showing: told after the call. */
static bool fills(u32 nr)
{
    switch (nr) {
    case __NR_read: case __NR_pread64: case __NR_recvfrom: case __NR_readlink: case __NR_readlinkat: case __NR_getcwd:
    case __NR_pipe: case __NR_pipe2: case __NR_socketpair: case __NR_wait4:
        return true;
    }
    return false;
}

static bool string_arg(u32 nr, const char *a, u32 n)
{
    static const char *const always[] = {"path", "name", "source", "new_root", "put_old", "from", NULL};
    if (nr == __NR_ioperm || nr == __NR_migrate_pages)
        return false;
    if (is_one(a, n, always))
        return true;
    if (is(a, n, "old") || is(a, n, "new"))
        return nr == __NR_rename || nr == __NR_renameat || nr == __NR_renameat2 || nr == __NR_link || nr == __NR_linkat;
    if (is(a, n, "target"))
        return nr == __NR_symlink || nr == __NR_symlinkat || nr == __NR_mount || nr == __NR_umount2;
    return nr == __NR_mount && is(a, n, "type");
}

static void add_pair(struct line *l, uptr addr)
{
    u32 fds[2];
    if (copy_from_user(fds, addr, sizeof(fds)))
        add_hex(l, addr);
    else
        add(l, "[%u, %u]", fds[0], fds[1]);
}

static void add_number(struct line *l, const char *a, u32 n, u64 v)
{
    static const char *const fds[] = {"fd", "dirfd", "olddirfd", "newdirfd", "oldfd", "newfd", "epfd", "out_fd", "in_fd", "fd_in",
                                      "fd_out", "pidfd", "to_dfd", "from_dfd", "pid", "tgid", "tid", "timeout", "pgid", "sig",
                                      "who", "uid", "gid", "mount_fd", "group_fd", NULL};
    static const char *const bits[] = {"flags", "prot", "mask", "cmd", "special", "options", NULL};
    if (is(a, n, "mode"))
        add(l, "%s%o", (u32)v ? "0" : "", (u32)v);
    else if (is_one(a, n, fds))
        add(l, "%d", (s32)v);
    else if (is_one(a, n, bits))
        add_hex(l, v);
    else if (v < 0x100000)
        add(l, "%lu", v);
    else if (v > -4096ul)
        add(l, "%ld", (s64)v);
    else
        add_hex(l, v);
}

static void add_arg(struct line *l, u32 nr, u32 index, const char *a, u32 n, const u64 *args, long result)
{
    u64 v = args[index];
    if (string_arg(nr, a, n))
        add_string(l, v, PATH_SHOWN);
    else if (is(a, n, "dirfd") && (s32)v == -100)
        add(l, "AT_FDCWD");
    else if (is(a, n, "argv") || is(a, n, "envp"))
        add_vector(l, v, a[0] == 'a');
    else if (nr == __NR_write || nr == __NR_pwrite64 || nr == __NR_sendto) {
        if (is(a, n, "buf"))
            add_data(l, v, args[2]);
        else
            add_number(l, a, n, v);
    } else if (fills(nr) && result >= 0 && is(a, n, "buf")) {
        add_data(l, v, nr == __NR_getcwd ? (u64)MAX(result - 1, 0l) : (u64)result);
    } else if (fills(nr) && result >= 0 && is(a, n, "fds")) {
        add_pair(l, v);
    } else if (nr == __NR_wait4 && result > 0 && v && is(a, n, "status")) {
        u32 status;
        if (get_user(status, v))
            add_hex(l, v);
        else
            add(l, "[0x%x]", status);
    } else {
        add_number(l, a, n, v);
    }
}

static void add_args(struct line *l, u32 nr, const u64 *args, long result)
{
    const char *a = syscall_args[nr];
    for (u32 i = 0; a && *a && i < 6; i++) {
        const char *end = strchr(a, ',');
        u32 n = end ? (u32)(end - a) : (u32)strlen(a);
        if (i)
            add(l, ", ");
        add_arg(l, nr, i, a, n, args, result);
        a += n + (end != NULL);
    }
}

/* ---- the buffer ---- */

static void add_lost_locked(void)
{
    trace.used += (u32)fmt_print(trace.buf + trace.used, 64, "d\t0\t%u\n", trace.lost);
    trace.lost = 0;
}

/* Sends one batch. Returns whether something was taken. Caller holds flush_lock. */
static bool send_locked(void)
{
    mutex_lock(&trace.lock);
    u32 n = MIN(trace.used, REQ_DATA_SIZE);
    while (n && trace.buf[n - 1] != '\n')
        n--;
    const char *from = trace.buf;
    mutex_unlock(&trace.lock);
    if (!n)
        return false;
    struct broker_args a = {.op = WIRE_TRACE, .data = from, .size = n};
    long r = broker_call(&a); /* the front of the buffer stays where it is: only we take from it */
    if (r == -EAGAIN)
        return false;
    mutex_lock(&trace.lock);
    memmove(trace.buf, trace.buf + n, trace.used - n);
    trace.used -= n;
    trace.stalled = false;
    mutex_unlock(&trace.lock);
    wake_up_all(&trace.room, 1);
    return true;
}

static void flush(void)
{
    mutex_lock(&trace.flush_lock);
    while (send_locked())
        ;
    mutex_unlock(&trace.flush_lock);
}

/* The reader sleeps: it is told at least how much it missed. */
static void tell_lost(void)
{
    char line[64];
    mutex_lock(&trace.flush_lock);
    mutex_lock(&trace.lock);
    u64 lost = trace.lost;
    for (u32 i = 0; i < trace.used; i++) {
        const char *line = trace.buf + i, *end;
        lost += line[0] == 'd' ? str_to_u64(line + 4, &end, 10) : 1;
        while (trace.buf[i] != '\n')
            i++;
    }
    trace.used = trace.lost = 0;
    mutex_unlock(&trace.lock);
    fmt_print(line, sizeof(line), "d\t0\t%lu\n", lost);
    broker_notify(WIRE_TRACE, 0, 0, 0, line, strlen(line));
    mutex_unlock(&trace.flush_lock);
}

/* Everything, and if the reader needs a second for it. */
void trace_finish(void)
{
    u64 give_up = host_clock(CLOCK_MONOTONIC) + STALL_NS;
    for (;;) {
        mutex_lock(&trace.lock);
        if (trace.lost && trace.used + 64 <= BUFFER_SIZE)
            add_lost_locked();
        bool done = !trace.used && !trace.lost;
        mutex_unlock(&trace.lock);
        if (done)
            return;
        if (host_clock(CLOCK_MONOTONIC) >= give_up) {
            tell_lost();
            return;
        }
        flush();
        if (trace.used)
            host_futex_wait(&trace.nap, 0, host_clock(CLOCK_MONOTONIC) + FLUSH_NS);
    }
}

u64 trace_service(u64 deadline)
{
    if (!trace_active && !trace.used)
        return deadline;
    u64 now = host_clock(CLOCK_MONOTONIC), at = atomic_load(&trace.flush_at);
    if (at && now >= at) {
        atomic_store(&trace.flush_at, 0);
        flush();
        if (trace.used)
            atomic_store(&trace.flush_at, now + FLUSH_NS);
        at = atomic_load(&trace.flush_at);
    }
    return at ? MIN(at, deadline) : deadline;
}

static bool append(const char *text, u32 n)
{
    bool first = false, ok = false;
    mutex_lock(&trace.lock);
    if (trace.buf && trace.used + n + 64 <= BUFFER_SIZE) {
        if (trace.lost)
            add_lost_locked();
        if (trace.used + n <= BUFFER_SIZE) {
            memcpy(trace.buf + trace.used, text, n);
            trace.used += n;
            ok = true;
        }
        if (!trace.flush_at) {
            trace.flush_at = host_clock(CLOCK_MONOTONIC) + FLUSH_NS;
            first = true;
        }
    }
    mutex_unlock(&trace.lock);
    if (first)
        service_wake();
    return ok;
}

static void emit(const char *text, u32 n)
{
    u64 give_up = 0;
    bool waits = current_tid() != 1;
    while (!append(text, n)) {
        if (!trace_active)
            return;
        bool sent = false;
        if (mutex_trylock(&trace.flush_lock)) {
            sent = send_locked();
            mutex_unlock(&trace.flush_lock);
        }
        if (sent)
            continue;
        u64 now = host_clock(CLOCK_MONOTONIC);
        if (!give_up)
            give_up = now + STALL_NS;
        wait_prepare(&trace.room);
        long r = waits && !trace.stalled && now < give_up ? wait_sleep_killable(now + FLUSH_NS / 4) : -EAGAIN;
        wait_finish();
        if (r && r != -ETIMEDOUT) {
            mutex_lock(&trace.lock);
            trace.stalled = r == -EAGAIN;
            trace.lost++;
            mutex_unlock(&trace.lock);
            return;
        }
    }
    if (atomic_load_relaxed(&trace.used) >= BATCH && mutex_trylock(&trace.flush_lock)) {
        send_locked();
        mutex_unlock(&trace.flush_lock);
    }
}

/* ---- what happens ---- */

static bool wanted(u32 nr) { return nr < SYSCALL_COUNT && (trace.calls[nr / 64] >> (nr % 64) & 1); }

static void begin(struct line *l, char type, const char *name)
{
    l->n = 0;
    add(l, "%c\t%u\t%s\t", type, current_tid(), name);
}

static void end_call(struct line *l, long result, bool returns)
{
    if (returns)
        l->n += (u32)fmt_print(l->text + l->n, LINE_MAX - l->n, "\t%ld\n", result);
    else
        l->n += (u32)fmt_print(l->text + l->n, LINE_MAX - l->n, "\t?\n");
    emit(l->text, l->n);
}

long trace_call(u32 nr, syscall_fn fn, const u64 args[6])
{
    struct line l;
    char number[16];
    if (!wanted(nr))
        return fn ? fn(args[0], args[1], args[2], args[3], args[4], args[5]) : -ENOSYS;
    fmt_print(number, sizeof(number), "syscall_%u", nr);
    begin(&l, 'c', syscall_names[nr] ? syscall_names[nr] : number);
    bool late = fills(nr);
    if (!late)
        add_args(&l, nr, args, -1);
    if (nr == __NR_exit || nr == __NR_exit_group || nr == __NR_rt_sigreturn)
        end_call(&l, 0, false);
    long r = fn ? fn(args[0], args[1], args[2], args[3], args[4], args[5]) : -ENOSYS;
    if (nr == __NR_rt_sigreturn || ((nr == __NR_execve || nr == __NR_execveat) && r >= 0))
        return r; /* told already */
    if (late)
        add_args(&l, nr, args, r);
    end_call(&l, r, true);
    return r;
}

void trace_exec(const char *path, const char *strings, u64 size, u32 argc, u32 envc)
{
    struct line l;
    u64 at = 0;
    if (!wanted(__NR_execve))
        return;
    begin(&l, 'c', "execve");
    add_quoted(&l, path, MIN(strlen(path), (size_t)PATH_SHOWN), strlen(path) > PATH_SHOWN);
    add(&l, ", [");
    for (u32 i = 0; i < argc && i < ARGV_SHOWN && at < size; i++) {
        size_t n = strlen(strings + at);
        add(&l, i ? ", " : "");
        add_quoted(&l, strings + at, MIN(n, (size_t)STRING_SHOWN), n > STRING_SHOWN);
        at += n + 1;
    }
    add(&l, argc > ARGV_SHOWN ? ", ...], /* %u vars */" : "], /* %u vars */", envc);
    end_call(&l, 0, true);
}

void trace_event(char type, int number)
{
    struct line l = {.n = 0};
    add(&l, "%c\t%u\t%d\n", type, current_tid(), number);
    emit(l.text, l.n);
}

long trace_set(const u64 *calls, u32 words)
{
    if (!calls) {
        atomic_store(&trace_active, 0);
        mutex_lock(&trace.flush_lock);
        mutex_lock(&trace.lock);
        trace.used = trace.lost = 0;
        trace.stalled = false;
        mutex_unlock(&trace.lock);
        mutex_unlock(&trace.flush_lock);
        return 0;
    }
    if (!trace.buf) { /* kept when it is turned off: a task may be using it */
        char *buf = kmalloc(BUFFER_SIZE);
        if (!buf)
            return -ENOMEM;
        mutex_lock(&trace.lock);
        trace.buf = buf;
        mutex_unlock(&trace.lock);
    }
    for (u32 i = 0; i < ARRAY_COUNT(trace.calls); i++)
        trace.calls[i] = i < words ? calls[i] : 0;
    atomic_store(&trace_active, 1);
    return 0;
}
