/* The exec-view builder in a jailed child (see view_build.h).
 *
 * The child inherits the file's mapping and a shared anonymous mapping for its result; it has no use for any
 * descriptor. Limits on memory and cpu time and a seccomp allow-list (memory management and exit; everything else
 * kills it) are in force before the first byte of the file is decoded. The parent copies nothing from the child that
 * it has not checked: the entry's bounds are verified by the decoder of wire/view.c. A hostile file that takes the
 * child over can therefore spoil only its own view, which only programs that run that file use. */
#include "image/view_build.h"
#include "wire/view.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define IMAGE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IMAGE_SANITIZED
#endif
#endif

#define JAIL_AS_EXTRA (6ull << 30)

struct result {
    int status;   /* of view_build() */
    u64 size;     /* of the blob that follows at RESULT_DATA */
};

#define RESULT_DATA PAGE_SIZE

u32 view_jail_seconds = 60;

static bool enter_jail(u64 input)
{
    static const int allowed[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_exit, SYS_exit_group,
                                  SYS_mprotect, SYS_futex, SYS_getrandom /* malloc */,
#ifdef IMAGE_SANITIZED
                                  SYS_sigaltstack,
#endif
    };
    struct rlimit as = {input + JAIL_AS_EXTRA, input + JAIL_AS_EXTRA}, cpu = {view_jail_seconds, view_jail_seconds},
                  zero = {0, 0};
    struct sock_filter f[8 + ARRAY_COUNT(allowed)];
    struct sock_fprog prog = {.filter = f};
    u32 n = 0, calls = ARRAY_COUNT(allowed);

    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (u32 i = 0; i < calls; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)allowed[i], (u8)(calls - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prog.len = (u16)n;
#ifdef IMAGE_SANITIZED
    (void)as;
#else
    if (setrlimit(RLIMIT_AS, &as)) /* a sanitizer's shadow memory is larger */
        return false;
#endif
    if (setrlimit(RLIMIT_CPU, &cpu) || setrlimit(RLIMIT_CORE, &zero) || setrlimit(RLIMIT_FSIZE, &zero))
        return false;
    return !prctl(PR_SET_DUMPABLE, 0) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static noreturn_fn void child(const u8 *file, u64 size, struct result *res, u64 room)
{
    struct view_blob b = {0};

    if (close_range(0, ~0u, 0) || !enter_jail(size))
        _exit(1);
    res->status = view_build(file, size, &b, NULL);
    if (!res->status && b.size > room)
        res->status = -ENOENT;
    if (!res->status) {
        memcpy((u8 *)res + RESULT_DATA, b.data, b.size);
        res->size = b.size;
    }
    _exit(0);
}

/* Takes the child's answer over; it may be anything. */
static int take(const struct result *res, u64 room, u64 file_size, struct view_blob *blob)
{
    static const u8 no_key[VIEW_KEY_SIZE];
    struct view_header h = {0};
    struct view_source src = {0};
    struct view_entry e;
    u64 size = res->size;

    if (res->status == -ENOENT || res->status == -ENOMEM)
        return res->status;
    if (res->status || size > room || size % PAGE_SIZE || size < PAGE_SIZE)
        return -EFAULT;
    blob->data = malloc(size);
    if (!blob->data)
        return -ENOMEM;
    memcpy(blob->data, (const u8 *)res + RESULT_DATA, size);
    blob->size = src.size = h.data_end = size;
    src.mem = blob->data;
    view_blob_place(blob, 0, no_key); /* the checksum is ours */
    if (!view_entry_at(&src, &h, 0, &e) && e.seg_count && !e.copy_off && e.file_size == file_size)
        return 0;
    free(blob->data);
    *blob = (struct view_blob){0};
    return -EFAULT;
}

int view_build_jailed(const u8 *file, u64 size, struct view_blob *blob)
{
    /* The text once more and what its sites need; a file with more sites than that gets no view. */
    u64 room = PAGE_UP(size) * 2 + (16 << 20);
    struct result *res;
    int status = 0, r = -EFAULT;
    pid_t pid;

    *blob = (struct view_blob){0};
    res = mmap(NULL, RESULT_DATA + room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (res == MAP_FAILED)
        return -ENOMEM;
    res->status = -EFAULT;
    pid = fork();
    if (!pid)
        child(file, size, res, room);
    if (pid > 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(status) && !WEXITSTATUS(status))
            r = take(res, room, size, blob);
    }
    munmap(res, RESULT_DATA + room);
    return pid < 0 ? -ENOMEM : r;
}
