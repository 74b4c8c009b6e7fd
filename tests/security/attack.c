/* A hostile guest program. It makes host calls with the `syscall` instruction of the kernel image, as any guest can, and talks to
 * the broker itself, in a request slot of its own. `attack GROUP [ARG...]` runs the cases of a group, each in a process of its
 * own, and prints a line for each: its name and what came of it. tests/security/attacks.list says what has to come of it.
 *
 *   killed    the host killed the process        refused   an error came back, or what came back was harmless
 *   crashed   a signal of the guest's own kernel
 *   BROKEN    the attack worked */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include "attack.h"

/* ---- group call: what the filter must not let through, whatever the arguments ---- */

struct call {
    const char *name;
    long nr, a, b, c, d, e, f;
};

#define G 0x10000000l /* an address that is free */

static const struct call calls[] = {
    { "read", 0, 0, 0, 0 }, { "write", 1, 1, 0, 0 }, { "open", 2, 0, 0, 0 }, { "close", 3, 9, 0, 0 }, { "stat", 4 }, { "fstat", 5 },
    { "lseek", 8 }, { "rt_sigaction", 13, 31 }, { "rt_sigprocmask", 14 }, { "ioctl-notify", 16, 3, 0xc0502100 }, { "pread64", 17 },
    { "pwrite64", 18 }, { "shmget", 29 }, { "dup", 32, 0 }, { "dup2", 33, 3, 0 }, { "nanosleep", 35 }, { "getpid", 39 },
    { "sendfile", 40 }, { "socket", 41, 1, 1 }, { "connect", 42 }, { "sendmsg", 46 }, { "recvmsg", 47 }, { "socketpair", 53, 1, 1 },
    { "fork", 57 }, { "vfork", 58 }, { "execve", 59 }, { "kill-all", 62, -1, 9 }, { "kill-group", 62, 0, 9 }, { "uname", 63 },
    { "fcntl-dup", 72, 0, 0 }, { "fcntl-addseals", 72, 0, 1033, 8 }, { "ftruncate", 77, 0, 0 }, { "getcwd", 79 }, { "chdir", 80 },
    { "rename", 82 }, { "mkdir", 83 }, { "link", 86 }, { "unlink", 87 }, { "symlink", 88 }, { "chmod", 90 }, { "getrlimit", 97 },
    { "ptrace-traceme", 101, 0 }, { "ptrace-attach", 101, 16, 1 }, { "setuid", 105, 0 }, { "setpgid", 109 }, { "setsid", 112 },
    { "rt_sigqueueinfo", 129, 1, 9 }, { "mknod", 133 }, { "personality", 135, 0x40000 }, { "mlock", 149 }, { "modify_ldt", 154, 1 },
    { "pivot_root", 155 }, { "prctl-pdeathsig", 157, 1, 0 }, { "prctl-dumpable", 157, 4, 1 }, { "arch_prctl", 158, 0x1002, 0 },
    { "setrlimit", 160, 7 }, { "chroot", 161 }, { "mount", 165 }, { "umount2", 166 }, { "swapon", 167 }, { "reboot", 169 },
    { "iopl", 172, 3 }, { "ioperm", 173, 0, 1024, 1 }, { "init_module", 175 }, { "gettid", 186 }, { "tkill", 200, 1, 9 },
    { "io_setup", 206 }, { "remap_file_pages", 216, D_BASE, 4096 }, { "tgkill-kill", 234, 1, 1, 9 }, { "tgkill-stop", 234, 1, 1, 19 },
    { "tgkill-0", 234, 1, 1, 0 }, { "tgkill-high", 234, 1, 1, 0x100000017 }, { "mbind", 237 }, { "kexec_load", 246 }, { "add_key", 248 },
    { "keyctl", 250 }, { "inotify_init", 253 }, { "migrate_pages", 256 }, { "openat", 257, -100 }, { "unlinkat", 263 },
    { "unshare", 272, 0x10000000 }, { "splice", 275 }, { "tee", 276 }, { "vmsplice", 278 }, { "move_pages", 279 },
    { "perf_event_open", 298 }, { "fanotify_init", 300 }, { "prlimit64", 302, 0, 7 }, { "name_to_handle_at", 303 },
    { "open_by_handle_at", 304 }, { "setns", 308 }, { "process_vm_readv", 310, 1 }, { "process_vm_writev", 311, 1 }, { "kcmp", 312 },
    { "finit_module", 313 }, { "seccomp", 317, 1 }, { "memfd_create", 319 }, { "bpf", 321 }, { "execveat", 322 },
    { "userfaultfd", 323 }, { "membarrier", 324, 1 }, { "copy_file_range", 326 }, { "pkey_mprotect", 329, G, 4096, 7, -1 }, { "rseq", 334 },
    { "pidfd_send_signal", 424, 3, 9 }, { "io_uring_setup", 425 }, { "open_tree", 428, -100 }, { "move_mount", 429 }, { "fsopen", 430 },
    { "pidfd_open", 434, 1 }, { "clone3", 435 }, { "close_range", 436, 0, -1 }, { "openat2", 437 }, { "pidfd_getfd", 438 },
    { "process_madvise", 440 }, { "landlock_create_ruleset", 444 }, { "memfd_secret", 447 }, { "process_mrelease", 448 },
    { "futex_waitv", 449 }, { "cachestat", 451 }, { "map_shadow_stack", 453 }, { "mseal", 462 }, { "no-such-call", 100000 },
    { "negative-call", -1 }, { "x32-write", 0x40000001 }, { "x32-execve", 0x40000208 },
    /* mmap: ADDR SIZE PROT FLAGS FD OFF */
    { "mmap-shared-image", 9, 0, 4096, 3, 1, 3 }, { "mmap-shared-views", 9, 0, 4096, 3, 1, 7 },
    { "mmap-shared-views-read", 9, 0, 4096, 1, 1, 7 }, { "mmap-shared-grant", 9, 0, 4096, 3, 1, 9 },
    { "mmap-shared-validate", 9, 0, 4096, 3, 3, 0 }, { "mmap-shared-anonymous", 9, 0, 4096, 3, 0x21, -1 },
    { "mmap-shared-anonymous-fd0", 9, 0, 4096, 3, 0x21, 0 }, { "mmap-populate", 9, 0, 4096, 3, 0x8022, -1 }, { "mmap-stack", 9, 0, 4096, 3, 0x20022, -1 }, { "mmap-noreplace", 9, G, 4096, 3, 0x100022, -1 },
    { "mmap-nonblock", 9, 0, 4096, 3, 0x18022, -1 }, { "mmap-32bit", 9, 0, 4096, 3, 0x62, -1 }, { "mmap-sync-shared", 9, 0, 4096, 3, 0x80001, 0 },
    { "mremap-in-place", 25, G, 4096, 8192, 0 }, { "mremap-anywhere", 25, G, 4096, 8192, 1 }, { "clock-coarse", 228, 5 }, { "clock-tai", 228, 11 },
    { "madvise-willneed", 28, G, 4096, 3 }, { "madvise-dump", 28, G, 4096, 17 }, { "madvise-soft-offline", 28, G, 4096, 101 },
    { "futex-cmp-requeue-pi", 202, K_BASE, 12, 1, 1, K_BASE }, { "futex-wait-requeue-pi", 202, K_BASE, 11, 0, 0, K_BASE },
    { "futex-unlock-pi", 202, K_BASE, 7 }, { "futex-trylock-pi", 202, K_BASE, 8 }, { "futex-lock-pi2", 202, K_BASE, 13 }, { "futex-fd", 202, K_BASE, 2 },
    { "futex2-wake", 454, K_BASE, 1, 1, 2 }, { "futex2-requeue", 456, K_BASE }, { "clone-newnet", 56, 0x40000011 }, { "clone-newuts", 56, 0x4000011 },
    { "clone-newipc", 56, 0x8000011 }, { "clone-newtime", 56, 0x91 }, { "clone-thread-parent", 56, 0x358f00 }, { "clone-io", 56, 0x80100011 },
    { "clone-settls", 56, 0x3d0f00 }, { "mmap-growsdown", 9, 0, 4096, 3, 0x122, -1 },
    { "mmap-locked", 9, 0, 4096, 3, 0x2022, -1 }, { "mmap-hugetlb", 9, 0, 2 << 20, 3, 0x40022, -1 }, { "mmap-sync", 9, 0, 4096, 3, 0x80003, 0 },
    { "mmap-fd-32", 9, 0, 4096, 1, 2, 32 }, { "mmap-fd-high", 9, 0, 4096, 3, 1, 0x100000000 }, { "mmap-flags-high", 9, 0, 4096, 3, 0x100000022, -1 },
    { "mmap-prot-high", 9, 0, 4096, 0x100000003, 0x22, -1 }, { "mmap-prot-sem", 9, 0, 4096, 8, 0x22, -1 },
    { "mprotect-growsdown", 10, G, 4096, 0x1000003 }, { "mremap-dontunmap", 25, D_BASE, 4096, 4096, 5 },
    { "mremap-high", 25, D_BASE, 4096, 4096, 0x100000001 }, { "madvise-mergeable", 28, G, 4096, 12 }, { "madvise-cold", 28, G, 4096, 20 },
    { "madvise-pageout", 28, G, 4096, 21 }, { "madvise-collapse", 28, G, 4096, 25 }, { "madvise-hwpoison", 28, G, 4096, 100 },
    { "madvise-dontfork", 28, G, 4096, 10 }, { "madvise-guard", 28, G, 4096, 102 },
    /* futex: ADDR OP; only the shared forms on K and R */
    { "futex-private", 202, K_BASE, 9 | 128, 0, 0, 0, -1 }, { "futex-wait", 202, K_BASE, 0 }, { "futex-requeue", 202, K_BASE, 3, 1, 1, K_BASE },
    { "futex-wake-op", 202, K_BASE, 5, 1, 1, K_BASE }, { "futex-lock-pi", 202, K_BASE, 6 }, { "futex-realtime", 202, K_BASE, 9 | 256, 0, 0, 0, -1 },
    { "futex-guest-memory", 202, G, 10, 1, 0, 0, -1 }, { "futex-data", 202, D_BASE, 10, 1, 0, 0, -1 }, { "futex-image", 202, IMAGE_BASE, 10, 1, 0, 0, -1 },
    { "futex-behind-r", 202, R_BASE + R_SIZE, 10, 1, 0, 0, -1 }, { "futex-high", 202, K_BASE, 0x10000000a, 1, 0, 0, -1 },
    /* clone: no flag word but two */
    { "clone-plain", 56, 17 }, { "clone-newuser", 56, 0x10000011 }, { "clone-newpid", 56, 0x20000011 }, { "clone-newns", 56, 0x20011 },
    { "clone-parent", 56, 0x108011 }, { "clone-ptrace", 56, 0x102011 }, { "clone-pidfd", 56, 0x101011 }, { "clone-vm", 56, 0x100111 },
    { "clone-vfork", 56, 0x104111 }, { "clone-files", 56, 0x100411 }, { "clone-no-signal", 56, 0x100000 }, { "clone-other-signal", 56, 0x100009 },
    { "clone-untraced", 56, 0x900011 }, { "clone-high", 56, 0x100100011 }, { "clone-cgroup", 56, 0x2000100011 },
    { "clock-other-process", 228, -14 }, { "clock-dynamic", 228, 0xfffffffb }, { "clock-boottime-alarm", 228, 9 },
};

static int do_call(void *arg)
{
    const struct call *c = arg;
    long r = host(c->nr, c->a, c->b, c->c, c->d, c->e, c->f);
    return r == -ENOSYS ? 0 : 1; /* the filter kills; nothing comes back */
}

static int int80(void *arg)
{
    long r;
    (void)arg;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20l) : "memory");
    return failed(r) ? 0 : 1;
}

/* Code that calls as a 32-bit program does. */
static int far32(void *arg)
{
    static const u8 code[] = { 0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xf4 };
    u8 *p = mmap((void *)0x400000, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    struct {
        u32 ip;
        u16 cs;
    } __attribute__((packed)) to = { 0x400000, 0x23 };
    (void)arg;
    if (p == MAP_FAILED)
        p = mmap((void *)(long)(to.ip = 0x20000000), 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(p, code, sizeof(code));
    __asm__ volatile("ljmp *%0" ::"m"(to));
    return 1;
}

static void group_call(void)
{
    pid_t pid[ARRAY_COUNT(calls) + 2];
    unsigned n = ARRAY_COUNT(calls);
    for (unsigned i = 0; i < n; i++) /* all at once: that a process was killed is noticed within a second */
        pid[i] = start_case(do_call, (void *)&calls[i]);
    pid[n] = start_case(int80, NULL);
    pid[n + 1] = start_case(far32, NULL);
    for (unsigned i = 0; i < n; i++)
        end_case(calls[i].name, pid[i]);
    end_case("int-0x80", pid[n]);
    end_case("far-jump-32-bit", pid[n + 1]);
}

/* ---- group memory: allowed calls that must have no effect on others ---- */

static int empty_slots(void *arg)
{
    (void)arg;
    for (int fd = FD_IMAGE0; fd < FD_IMAGE0 + FD_IMAGE_MAX; fd++)
        if (host(9, 0, 4096, 1, 2, fd, 0) != -EBADF)
            return 1; /* there is no image, and the listener of the notifications, which once lay here, would say ENODEV */
    return 0;
}

/* Only the sizes they were made with: they are sealed. */
static int grow_segments(void *arg)
{
    (void)arg;
    long at = host(9, 0, 8192, 3, 1, 2, R_SIZE - 4096);
    if (failed(at))
        return 0;
    *(volatile char *)(at + 4096) = 1; /* SIGBUS */
    return 1;
}

static int punch_views(void *arg)
{
    (void)arg;
    long at = host(9, 0, 65536, 3, 2, FD_VIEWS, 0);
    if (failed(at))
        return 0;
    memset((void *)at, 0xcc, 65536);
    return host(28, at, 65536, MADV_REMOVE, 0, 0, 0) == 0;
}

/* Of the broker's memory nothing may be left: no address of its stack, program or libraries. */
static int leftovers(void *arg)
{
    (void)arg;
    static const u64 known[][2] = { { 0x7e8000000000, HOST_VDSO_BASE + HOST_VDSO_SIZE } };
    int found = 0;
    for (u64 a = CARRIER_BASE; a < CARRIER_BASE + CARRIER_SIZE; a += 8) {
        if (a % 4096 == 0 && failed(host(28, a, 4096, 22 /* MADV_POPULATE_READ */, 0, 0, 0))) {
            a += 4088;
            continue;
        }
        u64 v = *(volatile u64 *)a;
        if (v >> 47 == 0 && v >= 0x550000000000 && !(v >= known[0][0] && v < known[0][1])) {
            fprintf(stderr, "%llx: %llx\n", (unsigned long long)a, (unsigned long long)v);
            found++;
        }
    }
    return found != 0;
}

/* Signals: only the sandbox's own processes may be reached. */
static int signal_host(void *arg)
{
    long pid = atol(arg);
    return pid > 400 /* none of ours */ && host(234, pid, pid, 23, 0, 0, 0) == 0;
}

/* ---- group broker ---- */

#define SECRET "the outside's secret"

static bool shows_secret(void) { return memmem(slot->data, REQ_DATA_SIZE, SECRET, strlen(SECRET)) != NULL; }

/* Names that lead out of the directory, or to what must not be opened. */
static int escapes(void *arg)
{
    static const char *const paths[] = {
        "..", "../secret", "./../secret", "d/../../secret", "d/..", "/", "//", "/etc/shadow", "d//x", "d/", "d/.", ".", "./marker", "link-up/secret",
        "link-secret", "link-abs", "link-root/etc/shadow", "link-proc/self/mem", "d/link-up2/secret", "fifo", "socket", "device", "link-magic",
        "link-magic/secret", "...", "marker/..", "marker/x", "marker/../../secret",
    };
    u32 m = mount_with(arg);
    int bad = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(paths); i++)
        for (u32 op = WIRE_LOOKUP; op <= WIRE_READ_PATH; op++)
            for (u64 a = 0; a < 3; a++) {
                if (op == WIRE_CREATE || op == WIRE_MKDIR || op == WIRE_SYMLINK || op == WIRE_UNLINK || op == WIRE_RMDIR || op == WIRE_RENAME ||
                    op == WIRE_LINK || op == WIRE_SETATTR)
                    continue; /* in another case */
                memset(slot->data, 0, REQ_DATA_SIZE);
                s32 r = ask_path(op, m, a, paths[i]);
                if (shows_secret() || (r >= 0 && (op == WIRE_OPEN || op == WIRE_READ_PATH))) {
                    fprintf(stderr, "op %u %s: %d\n", op, paths[i], r);
                    bad++;
                }
            }
    return bad != 0;
}

/* Everything that writes, on a mount that is read-only or has an overlay. The test compares the directory afterwards. */
static int writes(void *arg)
{
    static const char *const names[] = { "marker", "d", "d/file", "new", "d/new", "", "link-secret" };
    u32 m = mount_with(arg);
    char two[300];
    int bad = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        struct {
            struct wire_attr a;
            char name[64];
        } set = { .a = { .mode = 0777, .size = 3, .atime = 1, .mtime = 1 } };
        strcpy(set.name, names[i]);
        bad += ask_path(WIRE_OPEN, m, O_WRONLY, names[i]) >= 0;
        bad += ask_path(WIRE_OPEN, m, O_RDWR, names[i]) >= 0;
        bad += ask_path(WIRE_OPEN, m, O_RDONLY | O_TRUNC, names[i]) >= 0;
        bad += ask_path(WIRE_OPEN, m, O_RDWR | O_CREAT, names[i]) >= 0;
        bad += ask_path(WIRE_CREATE, m, 0777, names[i]) >= 0;
        bad += ask_path(WIRE_MKDIR, m, 0777, names[i]) >= 0;
        bad += ask_path(WIRE_UNLINK, m, 0, names[i]) >= 0;
        bad += ask_path(WIRE_RMDIR, m, 0, names[i]) >= 0;
        for (u64 mask = 1; mask < 32; mask++)
            bad += ask(WIRE_SETATTR, m, 0, mask, 0, 0, &set, sizeof(set.a) + strlen(set.name) + 1) >= 0;
        int n = sprintf(two, "%s%cnew2", names[i], 0) + 1, first = strlen(names[i]) + 1;
        bad += ask(WIRE_RENAME, m, 0, first, 0, 0, two, n) >= 0;
        bad += ask(WIRE_RENAME, m, 0, first, 2, 0, two, n) >= 0;
        bad += ask(WIRE_LINK, m, 0, first, 0, 0, two, n) >= 0;
        bad += ask(WIRE_SYMLINK, m, 0, 0, 0, 0, two, n) >= 0;
    }
    /* through a handle that may only read */
    if (ask_path(WIRE_OPEN, m, O_RDONLY, "marker") < 0)
        return 1;
    u32 h = slot->value;
    struct wire_attr a = { .mode = 0777 };
    bad += ask(WIRE_WRITE, m, h, 0, 16, 1ul << 36, "", 0) >= 0;
    for (u64 mask = 1; mask < 32; mask++)
        bad += ask(WIRE_FSETATTR, 0, h, mask, 0, 0, &a, sizeof(a)) >= 0;
    return bad != 0;
}

/* Names of a writable mount that would change something outside of it, or what is hidden. */
static int write_escapes(void *arg)
{
    static const char *const names[] = { "../new", "..", ".", "", "d/../../new", "link-up/new", "link-up", "link-root/tmp/new", "/tmp/new", "d/link-up2/new",
                                         "link-proc/self/oom_score_adj" };
    u32 m = mount_with(arg);
    char two[600];
    int bad = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        bool own_link = !strcmp(names[i], "link-up"); /* the link itself is in the directory */
        bad += ask_path(WIRE_CREATE, m, 0777, names[i]) >= 0;
        bad += ask_path(WIRE_OPEN, m, O_WRONLY, names[i]) >= 0;
        bad += ask_path(WIRE_MKDIR, m, 0777, names[i]) >= 0;
        bad += !own_link && ask_path(WIRE_UNLINK, m, 0, names[i]) >= 0;
        bad += ask_path(WIRE_RMDIR, m, 0, names[i]) >= 0;
        int n = sprintf(two, "marker%c%s", 0, names[i]) + 1;
        bad += !own_link && ask(WIRE_RENAME, m, 0, 7, 0, 0, two, n) >= 0;
        bad += !own_link && ask(WIRE_RENAME, m, 0, 7, 2, 0, two, n) >= 0;
        bad += ask(WIRE_LINK, m, 0, 7, 0, 0, two, n) >= 0;
        n = sprintf(two, "%s%cmine", names[i], 0) + 1;
        bad += !own_link && ask(WIRE_LINK, m, 0, strlen(names[i]) + 1, 0, 0, two, n) >= 0;
        bad += !own_link && ask(WIRE_RENAME, m, 0, strlen(names[i]) + 1, 0, 0, two, n) >= 0;
        bad += ask(WIRE_SYMLINK, m, 0, 0, 0, 0, two, n) >= 0;
    }
    return bad != 0;
}

/* Bits that would mean something outside. */
static int special_bits(void *arg)
{
    u32 m = mount_with(arg);
    struct {
        struct wire_attr a;
        char name[16];
    } set = { .a = { .mode = 07777 }, .name = "suid" };
    ask_path(WIRE_CREATE, m, 06777, "suid");
    if (ask(WIRE_SETATTR, m, 0, WIRE_SET_MODE, 0, 0, &set, sizeof(set)) < 0 && slot->result != -EINVAL)
        return 1;
    ask(WIRE_SETATTR, m, 0, WIRE_SET_MODE, 0, 0, &set, sizeof(set.a) + 5);
    ask_path(WIRE_MKDIR, m, 06777, "sgid");
    return 0; /* the test looks at the modes */
}

/* Descriptors: only into the slots for them, read-only. */
static int grants(void *arg)
{
    static const u64 slots[] = { 0, 1, 2, 3, 5, 6, 7, 31, 32, 64, 1ul << 32, (1ul << 32) + 8, -1ul };
    u32 m = mount_with(arg);
    int bad = 0;
    if (ask_path(WIRE_OPEN, m, O_RDWR, "marker") < 0)
        return 1;
    u32 h = slot->value;
    for (unsigned i = 0; i < ARRAY_COUNT(slots); i++)
        bad += ask(WIRE_GRANT, m, h, slots[i], 0, 0, "", 0) >= 0;
    if (ask(WIRE_GRANT, m, h, 30, 0, 0, "", 0) < 0)
        return 1;
    long at = host(9, 0, 4096, 3, 2, 30, 0);
    if (failed(at))
        return 1;
    memcpy((void *)at, "overwritten", 11);
    host(28, at, 4096, MADV_REMOVE, 0, 0, 0);
    host(9, 0, 4096, 3, 1, 30, 0); /* shared: this kills */
    return 1;
}

/* Handles that are not ours, were closed, or never were. */
static int handles(void *arg)
{
    int bad = 0;
    (void)arg;
    for (u32 i = 0; i < 4; i++)
        for (u32 op = WIRE_CLOSE; op <= WIRE_GRANT; op++)
            bad += ask(op, 0, (u32[]){ 0xffffffff, 0x1000, 0xffff0fff, 4096 }[i], 8, 16, 0, "", 0) >= 0;
    return bad != 0;
}

/* Positions and sizes at the edges of what they count. */
static int ranges(void *arg)
{
    static const u64 edge[] = { 0, 1, 4095, D_SIZE - 1, D_SIZE, D_SIZE + 1, 1ul << 62, (1ul << 63) - 1, 1ul << 63, -1ul, -4096ul };
    u32 m = mount_with(arg);
    if (ask_path(WIRE_OPEN, m, O_RDONLY, "marker") < 0)
        return 1;
    u32 h = slot->value;
    int bad = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(edge); i++)
        for (unsigned k = 0; k < ARRAY_COUNT(edge); k++)
            for (unsigned n = 0; n < ARRAY_COUNT(edge); n++)
                if (ask(WIRE_READ, m, h, edge[i], edge[k], edge[n], "", 0) >= 0 && (edge[n] > D_SIZE || edge[i] >= 1ul << 63))
                    bad++;
    for (unsigned i = 0; i < ARRAY_COUNT(edge); i++)
        ask(WIRE_READDIR, m, 0, edge[i], 0, 0, "", 1);
    return bad != 0;
}

/* Sizes that lie, data without an end, names too long, too many names. */
static int shapes(void *arg)
{
    static char big[REQ_DATA_SIZE];
    u32 m = mount_with(arg);
    static const u32 sizes[] = { 0, 1, 2, 255, 256, 257, 4095, 4096, 4097, 12287, 12288 };
    for (int fill = 0; fill < 4; fill++) {
        memset(big, "a/\0\xff"[fill], sizeof(big));
        for (u32 op = 0; op < 64; op++)
            for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
                if (op == WIRE_PANIC || op == WIRE_EXIT || op == WIRE_SPAWNED || op == WIRE_STATS)
                    continue;
                ask(op, m, 0, i, 0, 0, big, sizes[i]);
                if (shows_secret())
                    return 1;
            }
    }
    for (u32 s = 12289; s; s <<= 1) {
        slot->op = WIRE_LOOKUP;
        slot->size = s;
        slot->result = -1;
        mine->req_seq[SLOT]++;
        bell(SLOT + 1);
        if (slot->result >= 0)
            return 1;
    }
    return ask_path(WIRE_LOOKUP, m, 0, "marker") != 0; /* it still answers */
}

/* Everything at random, also what lies about, for a while. The positions of the rings are left alone: they end the output. */
static int noise(void *arg)
{
    unsigned seed = 1;
    (void)arg;
    for (time_t end = time(NULL) + 2; time(NULL) < end;) {
        for (int i = 0; i < 64; i++) {
            for (unsigned k = 0; k < sizeof(*slot) / 4; k++)
                ((u32 *)slot)[k] = (u32)(rand_r(&seed) % 3 ? rand_r(&seed) % 70 : rand_r(&seed));
            slot->op = 32 + rand_r(&seed) % 24;
            if (rand_r(&seed) % 4)
                slot->size = rand_r(&seed) % 300;
            for (unsigned k = 0; k < 300; k++)
                slot->data[k] = "ab/.\0\xff d"[rand_r(&seed) % 8];
            mine->req_seq[SLOT] += 1 + rand_r(&seed) % 3;
            bell(rand_r(&seed) % 70);
        }
        theirs->done_seq[SLOT] = rand_r(&seed); /* the broker keeps its own */
    }
    return shows_secret();
}

/* Changes a request while it is looked at: a good path and a bad one in turns. */
static int race_request(void *arg)
{
    u32 m = mount_with(arg);
    static volatile bool *stop;
    stop = mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t p = fork();
    if (!p) {
        while (!*stop) {
            memcpy(slot->data, "marker\0..", 10);
            slot->size = 7;
            memcpy(slot->data, "../secret", 10);
            slot->size = 10;
        }
        _exit(0);
    }
    bool bad = false;
    for (int i = 0; i < 5000 && !bad; i++) {
        slot->op = WIRE_READ_PATH;
        slot->mount = m;
        mine->req_seq[SLOT]++;
        bell(SLOT + 1);
        bad = shows_secret();
    }
    *stop = true;
    waitpid(p, NULL, 0);
    return bad;
}

static void group_broker(void)
{
    run_case("ro-escapes", escapes, "marker-ro");
    run_case("overlay-escapes", escapes, "marker-ov");
    run_case("rw-escapes", escapes, "marker-rw");
    run_case("ro-writes", writes, "marker-ro");
    run_case("overlay-writes", writes, "marker-ov");
    run_case("file-writes", writes, "marker-ro");
    run_case("rw-write-escapes", write_escapes, "marker-rw");
    run_case("rw-special-bits", special_bits, "marker-rw");
    run_case("rw-grant-shared", grants, "marker-rw");
    run_case("handles", handles, NULL);
    run_case("ranges", ranges, "marker-ro");
    run_case("shapes", shapes, "marker-ro");
    run_case("race-request", race_request, "marker-ro");
    run_case("noise", noise, NULL);
}

/* ---- group honest: a read-only directory through the guest kernel's own calls ---- */

static long pivot_root_to(const char *dir) { return syscall(SYS_pivot_root, dir, dir); }

static int honest(void *arg)
{
    const char *dir = arg;
    char f[300], g[300], fd_path[64];
    struct timespec t[2] = { { 1, 1 }, { 1, 1 } };
    int bad = 0;
    sprintf(f, "%s/marker", dir);
    sprintf(g, "%s/new", dir);
#define NO(call)                                                                                                                           \
    do {                                                                                                                                   \
        if ((long)(call) >= 0)                                                                                                             \
            bad++, fprintf(stderr, "%s\n", #call);                                                                                         \
    } while (0)
    NO(truncate(f, 0)); NO(chmod(f, 0777)); NO(chown(f, 1, 1)); NO(utimensat(AT_FDCWD, f, t, 0)); NO(rename(f, g)); NO(link(f, g));
    NO(unlink(f)); NO(symlink("x", g)); NO(mkdir(g, 0755)); NO(mknod(g, S_IFREG | 0644, 0)); NO(open(f, O_WRONLY)); NO(open(f, O_RDWR));
    NO(open(f, O_RDONLY | O_TRUNC)); NO(open(g, O_CREAT | O_RDONLY, 0644)); NO(open(dir, O_TMPFILE | O_RDWR, 0644));
    NO(renameat2(AT_FDCWD, f, AT_FDCWD, dir, RENAME_EXCHANGE));
    int path = open(f, O_PATH), fd = open(f, O_RDONLY);
    sprintf(fd_path, "/proc/self/fd/%d", path);
    NO(open(fd_path, O_WRONLY)); NO(open(fd_path, O_RDWR | O_TRUNC)); NO(truncate(fd_path, 0)); NO(chmod(fd_path, 0777));
    NO(ftruncate(fd, 0)); NO(fchmod(fd, 0777)); NO(fchown(fd, 1, 1)); NO(futimens(fd, t)); NO(fallocate(fd, 0, 0, 4096)); NO(write(fd, "x", 1));
    NO(pwrite(fd, "x", 1, 0)); NO(copy_file_range(open("/proc/self/exe", O_RDONLY), NULL, fd, NULL, 100, 0));
    if (mmap(NULL, 4096, 3, MAP_SHARED, fd, 0) != MAP_FAILED)
        bad++, fprintf(stderr, "mmap shared\n");
    char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        NO(mprotect(p, 4096, 3));
    /* attributes, flags, further ways to write, to name and to make */
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY), dirpath = open(dir, O_PATH), pipes[2], flags = 0;
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/new", dir);
    NO(setxattr(f, "user.x", "y", 1, 0)); NO(lsetxattr(f, "user.x", "y", 1, 0)); NO(fsetxattr(fd, "user.x", "y", 1, 0)); NO(setxattr(dir, "user.x", "y", 1, 0));
    NO(setxattr(f, "security.capability", "y", 1, 0)); NO(setxattr(f, "trusted.x", "y", 1, 0)); NO(removexattr(f, "user.test")); NO(fremovexattr(fd, "user.test"));
    NO(ioctl(fd, 0x40086602 /* FS_IOC_SETFLAGS */, &flags)); NO(ioctl(fd, 0x401c5820 /* FSSETXATTR */, &flags)); NO(ioctl(fd, 0x40049409 /* FICLONE */, fd));
    NO(ioctl(fd, 0xc0185879 /* FITRIM */, &flags));
    NO(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)); NO(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    NO(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096)); NO(posix_fallocate(fd, 0, 10) ? -1 : 0);
    if (!pipe(pipes) && write(pipes[1], "x", 1) == 1)
        NO(splice(pipes[0], NULL, fd, NULL, 1, 0));
    NO(sendfile(fd, open("/proc/self/exe", O_RDONLY), NULL, 10)); NO(writev(fd, &(struct iovec){ "x", 1 }, 1)); NO(pwritev(fd, &(struct iovec){ "x", 1 }, 1, 0));
    NO(fchmod(dirfd, 0777)); NO(fchmodat(dirfd, "marker", 0777, 0)); NO(fchmodat(dirpath, "marker", 0777, 0)); NO(syscall(452, dirfd, "marker", 0777, 0x100));
    NO(fchownat(dirfd, "marker", 1, 1, AT_SYMLINK_NOFOLLOW)); NO(lchown(f, 1, 1)); NO(fchownat(path, "", 1, 1, AT_EMPTY_PATH)); NO(fchown(dirfd, 1, 1));
    NO(utimensat(dirfd, "marker", t, AT_SYMLINK_NOFOLLOW)); NO(futimens(dirfd, t)); NO(utimes(f, NULL)); NO(syscall(SYS_utime, f, NULL));
    NO(linkat(path, "", AT_FDCWD, g, AT_EMPTY_PATH)); NO(linkat(AT_FDCWD, fd_path, AT_FDCWD, g, AT_SYMLINK_FOLLOW)); NO(linkat(dirfd, "marker", dirfd, "new", 0));
    NO(symlinkat("x", dirfd, "new")); NO(mkdirat(dirfd, "new", 0777)); NO(unlinkat(dirfd, "marker", 0)); NO(unlinkat(dirfd, "d", AT_REMOVEDIR)); NO(rmdir(dir));
    NO(renameat(dirfd, "marker", dirfd, "new")); NO(renameat(dirpath, "d", dirpath, "new")); NO(renameat2(dirfd, "marker", dirfd, "d", RENAME_EXCHANGE));
    NO(renameat2(dirfd, "marker", dirfd, "new", RENAME_WHITEOUT)); NO(rename("/tmp", g)); NO(link("/proc/self/exe", g));
    NO(mknod(g, S_IFCHR | 0666, 0x103)); NO(mknod(g, S_IFIFO | 0666, 0)); NO(mknodat(dirfd, "new", S_IFSOCK | 0666, 0)); NO(mkfifoat(dirfd, "new", 0666));
    NO(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&un, sizeof(un))); NO(creat(g, 0666)); NO(openat(dirfd, "new", O_CREAT | O_EXCL | O_WRONLY, 0666));
    NO(openat(dirfd, ".", O_TMPFILE | O_WRONLY, 0666)); NO(openat(path, "", O_WRONLY)); NO(open("/proc/self/fd/0/../../../../ro/marker", O_WRONLY));
    /* the guest's own mount may become writable; the broker's rules stay */
    mount(NULL, dir, NULL, MS_REMOUNT, NULL);
    NO(open(f, O_WRONLY)); NO(truncate(f, 0)); NO(creat(g, 0666)); NO(chmod(f, 0777)); NO(unlink(f)); NO(rename(f, g)); NO(utimensat(AT_FDCWD, f, t, 0));
    NO(fcntl(fd, F_ADD_SEALS, 1)); NO(fcntl(fd, F_SETLEASE, F_WRLCK)); NO(acct(f)); NO(swapon(f, 0)); NO(quotactl(0, f, 0, NULL)); NO(pivot_root_to(dir));
    if (fcntl(fd, F_SETFL, O_RDWR) == 0)
        NO(write(fd, "x", 1));
    /* names at the limits */
    static char name[5000];
    for (unsigned n = 254; n < 258; n++) {
        snprintf(name, sizeof(name), "%s/%0*d", dir, n, 0);
        NO(open(name, O_RDONLY)); NO(mkdir(name, 0777));
    }
    for (unsigned n = 4090; n < 4100; n++) {
        memset(name, 'a', n);
        memcpy(name, dir, strlen(dir));
        for (unsigned k = strlen(dir); k < n; k += 2)
            name[k] = '/';
        name[n] = 0;
        NO(open(name, O_RDONLY)); NO(mkdir(name, 0777)); NO(readlink(name, f, 1));
    }
    return bad != 0;
}

/* Set-id bits of host files are not shown, and what runs keeps its user. */
static int set_id_files(void *arg)
{
    struct stat st;
    char f[300];
    snprintf(f, sizeof(f), "%s/set-id", (char *)arg);
    return stat(f, &st) || (st.st_mode & 06000) || !(st.st_mode & 0111);
}

/* Devices, pipes and sockets of the host: named, never opened. */
static int special_files(void *arg)
{
    static const char *const names[] = { "fifo", "device", "socket" };
    int bad = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        char f[300], x[4];
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        snprintf(f, sizeof(f), "%s/%s", (char *)arg, names[i]);
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", f);
        int fd = open(f, O_RDWR | O_NONBLOCK);
        if (fd >= 0 && i != 0 && read(fd, x, 1) >= 0)
            bad++;
        bad += connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&un, sizeof(un)) == 0;
    }
    return bad != 0;
}

/* ---- single attacks ---- */

/* As many handles as it gets. */
static int open_many(void)
{
    u32 m = mount_with("marker-ro");
    int n = 0;
    while (ask_path(WIRE_OPEN, m, O_RDONLY, "marker") >= 0)
        n++;
    printf("%d\n", n);
    fflush(stdout);
    sleep(60);
    return 0;
}

/* The broker reads a large file into D for us: who pays? */
static int fill(void)
{
    u32 m = mount_with("big");
    if (ask_path(WIRE_OPEN, m, O_RDONLY, "big") < 0)
        return 1;
    u32 h = slot->value;
    for (u64 n = 0; n < 400; n++)
        ask(WIRE_READ, m, h, n << 20, 1 << 20, (1ul << 36) + (n << 20), "", 0);
    sleep(2);
    printf("400 MB\n");
    return 0;
}

/* Reads a name again and again while somebody outside turns directories into links and back. */
static int race_names(void)
{
    static const char *const names[] = { "a/secret", "a/b/secret", "secret" };
    u32 m = mount_with("marker-race");
    long seen = 0, total = 0;
    for (time_t end = time(NULL) + 3; time(NULL) < end; total++) {
        ask_path(total & 1 ? WIRE_READ_PATH : WIRE_READLINK, m, 0, names[total % 3]);
        seen += shows_secret();
        memset(slot->data, 0, 300);
        if (ask_path(WIRE_OPEN, m, O_RDWR, names[total % 3]) >= 0) {
            u32 h = slot->value;
            memcpy((void *)(D_BASE + (1ul << 36)), "broken", 6);
            ask(WIRE_WRITE, m, h, 0, 6, 1ul << 36, "", 0);
            ask(WIRE_CLOSE, m, h, 0, 0, 0, "", 0);
        }
        ask_path(WIRE_CREATE, m, 0777, "a/new");
        if (slot->result >= 0)
            ask(WIRE_CLOSE, m, slot->value, 0, 0, 0, "", 0);
    }
    printf("%s\n", seen ? "BROKEN" : total > 100 ? "refused" : "slow");
    return 0;
}

/* A report with escape sequences and lines that are not its own. */
static int bad_text(void)
{
    static const char text[] = "\033]0;title\007\033[2J\x9b" "1m bad \r\033[1A text";
    ask(WIRE_PANIC, 0, 0, 1, 0, 0, text, sizeof(text));
    sleep(5);
    return 0;
}

/* Other threads of the sandbox keep ringing, with and without requests. */
static int storm(void)
{
    printf("storm\n");
    fflush(stdout);
    for (int i = 0; i < 6; i++)
        if (!fork())
            for (unsigned n = i;; n++) {
                mine->req_seq[48 + i]++;
                mine->ring[n % RING_COUNT].want += 100;
                mine->mail_done ^= n % 5 ? 0 : 1;
                bell(n % 3 ? 49 + i : 0);
            }
    sleep(60);
    return 0;
}

/* Private memory that the host does not count as data: written, then made read-only. */
static int uncounted(void)
{
    for (int i = 0; i < 400; i++) {
        long p = host(9, 0, 1 << 20, 3, 0x4022, -1, 0);
        if (failed(p)) {
            printf("refused\n");
            return 0;
        }
        memset((void *)p, 1, 1 << 20);
        host(10, p, 1 << 20, 1, 0, 0, 0);
    }
    printf("400 MB\n");
    return 0;
}

/* Address space until there is no more: page tables, mappings. */
static int mappings(void)
{
    long n = 0;
    for (; n < 200000 && !failed(host(9, 0x100000000l + n * 8192, 4096, 1 + 2 * (n & 1), 0x22 | MAP_FIXED, -1, 0)); n++)
        *(volatile char *)(0x100000000l + n * 8192);
    printf("%s\n", n < 70000 ? "refused" : "many");
    return 0;
}

/* A host process or thread that its kernel does not know of: waits on a word that nobody changes. */
static void __attribute__((noreturn, force_align_arg_pointer)) wait_for_ever(void)
{
    volatile u32 *word = (void *)(R_BASE + R_SIZE - 8);
    for (;;)
        host(202, (long)word, 9 /* FUTEX_WAIT_BITSET */, *word, 0, 0, 0xffffffff);
}

/* As many of them as the host allows. */
static int host_tasks(bool threads)
{
    static u64 tid;
    long n = 0;
    u64 *stacks = mmap(NULL, 3000 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (; n < 2000; n++) {
        u64 *top = stacks + (n + 1) * 512 - 8;
        *top = (u64)wait_for_ever; /* the gadget returns there */
        if (failed(threads ? host(56, 0x350f00, (long)top, (long)&tid, (long)&tid, 0, 0)
                           : host(56, 0x100011, (long)top, (long)&tid, 0, 0, 0)))
            break;
    }
    printf("%s\n", n < 10 ? "few" : n < 100 ? "refused" : "many");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "0";
    if (find_gadget() < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "call")) {
        group_call();
    } else if (!strcmp(what, "memory")) {
        run_case("empty-slots", empty_slots, NULL);
        run_case("behind-r", grow_segments, NULL);
        run_case("punch-views", punch_views, NULL);
        run_case("leftovers", leftovers, NULL);
        run_case("signal-host", signal_host, (void *)arg);
    } else if (!strcmp(what, "broker")) {
        group_broker();
    } else if (!strcmp(what, "honest")) {
        run_case("ro-calls", honest, (void *)arg);
        run_case("set-id-files", set_id_files, (void *)arg);
        run_case("special-files", special_files, (void *)arg);
    } else if (!strcmp(what, "open-many")) {
        return open_many();
    } else if (!strcmp(what, "bad-text")) {
        return bad_text();
    } else if (!strcmp(what, "fill")) {
        return fill();
    } else if (!strcmp(what, "race-names")) {
        return race_names();
    } else if (!strcmp(what, "chatter")) {
        static char line[8000];
        memset(line, 'x', sizeof(line));
        for (int i = 0; i < 2000; i++)
            ask(WIRE_STATS, 0, 0, 0, 0, 0, line, sizeof(line));
    } else if (!strcmp(what, "storm")) {
        return storm();
    } else if (!strcmp(what, "uncounted")) {
        return uncounted();
    } else if (!strcmp(what, "mappings")) {
        return mappings();
    } else if (!strcmp(what, "processes") || !strcmp(what, "threads")) {
        return host_tasks(*what == 't');
    } else {
        return 2;
    }
    return 0;
}
