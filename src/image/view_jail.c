/* The exec-view builder in a jailed child (see view_build.h).
 *
 * The child inherits the file's mapping and a shared anonymous mapping for its result; it has no use for any
 * descriptor. The jail (jail.h) is in force before the first byte of the file is decoded. The parent copies nothing from the child that
 * it has not checked: the entry's bounds are verified by the decoder of wire/view.c. A hostile file that takes the
 * child over can therefore spoil only its own view, which only programs that run that file use. */
#include "image/jail.h"
#include "image/view_build.h"
#include "wire/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define JAIL_AS_EXTRA (6ull << 30)

struct result {
    int status;   /* of view_build() */
    u64 size;     /* of the blob that follows at RESULT_DATA */
};

#define RESULT_DATA PAGE_SIZE

u32 view_jail_seconds = 60;

static noreturn_fn void child(const u8 *file, u64 size, struct result *res, u64 room)
{
    struct view_blob b = {0};

    if (close_range(0, ~0u, 0) || !jail_enter(size + JAIL_AS_EXTRA, view_jail_seconds))
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
    int r = -EFAULT;
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
        if (jail_await(pid, view_jail_seconds))
            r = take(res, room, size, blob);
    }
    munmap(res, RESULT_DATA + room);
    return pid < 0 ? -ENOMEM : r;
}
