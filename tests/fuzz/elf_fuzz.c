/* libFuzzer target: the guest kernel's ELF loader on arbitrary files. What it maps must lie inside the guest's part of the address
 * space and, for position-independent files, inside the room that was reserved for it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/layout.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "loader/elf.h"
#include "mm/mm.h"
#include "vfs/vfs.h"
#include <linux/mman.h>

static const uint8_t *file_data;
static size_t file_size;
static u64 room, room_end; /* 0: a file with fixed addresses */

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

void *kmalloc(size_t size) { return malloc(size); }
void kfree(void *p) { free(p); }

long file_read_kernel(struct file *f, void *buf, size_t size, u64 off)
{
    (void)f;
    if (off >= file_size)
        return 0;
    size = MIN(size, file_size - (size_t)off);
    memcpy(buf, file_data + off, size);
    return (long)size;
}

static void inside(u64 start, u64 size)
{
    must(!(start & (PAGE_SIZE - 1)), "page-aligned");
    must(size && start + size > start && start + size <= GUEST_END, "inside the guest's addresses");
    must(!room || (start >= room && start + size <= room_end), "inside the reserved room");
}

long mm_map(struct mm *mm, u64 addr, u64 size, int prot, int flags, struct file *f, u64 off)
{
    (void)mm, (void)prot, (void)f;
    if (flags & MAP_FIXED) {
        inside(addr, PAGE_UP(size));
        must(!(off & (PAGE_SIZE - 1)), "page-aligned offset");
        return (long)addr;
    }
    if (size > GUEST_END / 2)
        return -ENOMEM;
    room = 0x100000000ul, room_end = room + PAGE_UP(size);
    return (long)room;
}

long mm_unmap(struct mm *mm, u64 addr, u64 size)
{
    (void)mm;
    must(addr >= room && addr + size <= room_end, "unmaps only of the room");
    if (addr == room)
        room += size;
    else if (addr + size == room_end)
        room_end = addr;
    return 0;
}

long clear_user(uptr addr, size_t size)
{
    must(size < PAGE_SIZE && addr + size <= GUEST_END, "clears less than a page");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct file_ops ops;
    struct file f = {.ops = &ops};
    struct elf_image e;
    u64 bias;
    file_data = data, file_size = size, room = room_end = 0;
    if (elf_read(&f, &e))
        return 0;
    must(e.low < e.high && e.high <= PAGE_UP(GUEST_END), "bounds");
    must(!e.interp || strnlen(e.interp, 4096) < 4096, "the interpreter's name ends");
    elf_map(NULL, &f, &e, 0, &bias);
    elf_free(&e);
    return 0;
}
