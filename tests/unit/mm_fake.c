#include "mm_fake.h"

#include <linux/mman.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/x86_64/regs.h"
#include "base/err.h"
#include "core/config.h"
#include "core/current.h"
#include "core/dframe.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/panic.h"
#include "core/uaccess.h"
#include "host/host.h"

struct host_page host_pages[PAGES];
struct fake_file *fake_files[FILES];
u32 fail_in, live_files;
bool failed_once;
long live_blocks;
struct mutex *other_holds;
u64 other_until;
static u32 serial, locks_held;
static struct carrier carrier;
struct carrier *this_carrier(void) { return &carrier; }
static int next_index;

void die(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    printf("Bail out! ");
    vprintf(f, ap);
    printf("\n");
    fflush(stdout);
    exit(1);
}

static bool fails(void)
{
    if (!fail_in || --fail_in)
        return false;
    return failed_once = true;
}

/* ---- the host's mappings ---- */

/* What lies outside of the window is not kept. */
static struct host_page *page_at(u64 addr) { return &host_pages[(addr - WINDOW) / PAGE_SIZE]; }

static void check_call(u64 addr, u64 size)
{
    if (!size || (addr | size) & (PAGE_SIZE - 1) || addr < GUEST_MIN || addr + size > GUEST_END)
        die("host call for %lx+%lx", addr, size);
}

long host_mmap(u64 addr, u64 size, int prot, int flags, int fd, u64 off)
{
    if (addr == TRACK_TABLE) {
        void *real = mmap((void *)addr, size, prot, flags, fd, (off_t)off);
        return real == MAP_FAILED ? -ENOMEM : (long)addr;
    }
    check_call(addr, size);
    if (!(flags & MAP_FIXED) || (flags & MAP_ANONYMOUS) != (fd < 0 ? MAP_ANONYMOUS : 0))
        die("host_mmap: flags %x fd %d", flags, fd);
    if (fd >= FD_IMAGE0 && flags & MAP_SHARED)
        die("an image mapped shared");
    if (fails())
        return -ENOMEM;
    serial++;
    for (u64 at = MAX(addr, WINDOW); at < MIN(addr + size, WINDOW_END); at += PAGE_SIZE)
        *page_at(at) = (struct host_page){.kind = fd < 0 ? SHOWS_ANON : SHOWS_FILE, .prot = (u8)prot, .fd = fd,
            .shared = flags & MAP_SHARED, .off = fd < 0 ? 0 : off + (at - addr), .serial = serial};
    return (long)addr;
}

long host_munmap(u64 addr, u64 size)
{
    check_call(addr, size);
    if (fails())
        return -ENOMEM;
    for (u64 at = MAX(addr, WINDOW); at < MIN(addr + size, WINDOW_END); at += PAGE_SIZE)
        *page_at(at) = (struct host_page){0};
    return 0;
}

static bool all_mapped(u64 addr, u64 size)
{
    for (u64 at = MAX(addr, WINDOW); at < MIN(addr + size, WINDOW_END); at += PAGE_SIZE)
        if (!page_at(at)->kind)
            return false;
    return true;
}

long host_mprotect(u64 addr, u64 size, int prot)
{
    check_call(addr, size);
    if (!all_mapped(addr, size))
        die("host_mprotect of what is not mapped");
    if (fails())
        return -ENOMEM;
    for (u64 at = MAX(addr, WINDOW); at < MIN(addr + size, WINDOW_END); at += PAGE_SIZE)
        page_at(at)->prot = (u8)prot;
    return 0;
}

/* Pages of different calls are different mappings, which cannot be moved at once. */
long host_mremap(u64 addr, u64 old_size, u64 new_size, int flags, u64 to)
{
    check_call(addr, old_size);
    check_call(to, new_size);
    if (old_size != new_size || flags != (MREMAP_MAYMOVE | MREMAP_FIXED) || (to < addr + old_size && addr < to + new_size))
        die("host_mremap %lx+%lx to %lx", addr, old_size, to);
    if (fails())
        return -ENOMEM;
    for (u64 at = addr; at < addr + old_size; at += PAGE_SIZE)
        if (!page_at(at)->kind || page_at(at)->serial != page_at(addr)->serial || page_at(at)->prot != page_at(addr)->prot)
            return -EFAULT;
    for (u64 n = 0; n < old_size; n += PAGE_SIZE) {
        *page_at(to + n) = *page_at(addr + n);
        *page_at(addr + n) = (struct host_page){0};
    }
    return (long)to;
}

long host_madvise(u64 addr, u64 size, int advice)
{
    check_call(addr, size);
    if (!all_mapped(addr, size))
        die("host_madvise of what is not mapped");
    if (fails())
        return -ENOMEM;
    for (u64 at = addr; at < addr + size; at += PAGE_SIZE) {
        struct host_page *p = page_at(at);
        if ((advice == MADV_WIPEONFORK || advice == MADV_FREE) && (p->kind != SHOWS_ANON || p->shared))
            return -EINVAL;
        if (advice == MADV_DONTNEED || advice == MADV_FREE)
            p->tag = 0;
    }
    return 0;
}

/* Time passes by sleeping only; what waits for another thread sees that one unlock. */
static u64 clock_ns = 1;
void host_yield(void) {}
u64 host_clock(int id) { return (void)id, clock_ns; }
long host_futex_wait(u32 *word, u32 val, u64 deadline)
{
    if (*word != val)
        return -EAGAIN;
    if (other_holds && deadline > other_until) {
        other_holds->word = 0;
        other_holds = NULL;
    }
    clock_ns = deadline;
    return -ETIMEDOUT;
}

/* ---- files ---- */

u64 file_pages(struct file *f) { return PAGE_UP(f->inode->size) / PAGE_SIZE; }

/* In runs of three pages. */
struct host_page file_place(struct file *f, u64 page)
{
    struct fake_file *k = container_of(f, struct fake_file, f);
    if (k->index == 2 && page / 3 % 4 == 1)
        return (struct host_page){.kind = SHOWS_ANON, .fd = -1};
    return (struct host_page){.kind = SHOWS_FILE, .fd = k->index == 2 ? FD_IMAGE0 : FD_D,
        .off = (((u64)k->index * 4096 + page / 3) * 16 + page % 3) * PAGE_SIZE};
}

static long fake_map(struct file *f, u64 off, u64 max, bool shared, bool write_shared, struct map_extent *out)
{
    struct fake_file *k = container_of(f, struct fake_file, f);
    u64 page = off / PAGE_SIZE;
    if (page >= file_pages(f) || !max || off & (PAGE_SIZE - 1) || (write_shared && !shared) ||
        (write_shared && !(f->mode & FMODE_WRITE)))
        die("map(%lx, %lx)", off, max);
    if (fails())
        return -ENOMEM;
    struct host_page p = file_place(f, page);
    *out = (struct map_extent){.fd = p.fd, .off = p.off, .size = (3 - page % 3) * PAGE_SIZE};
    k->maps++;
    return 0;
}

static void fake_unmap(struct file *f, bool write_shared) { (void)write_shared, container_of(f, struct fake_file, f)->unmaps++; }

static const struct file_ops fake_ops = {.map = fake_map, .unmap = fake_unmap};
static struct super_block fake_sb;

static struct fake_file *file_new(u64 pages, u32 mode)
{
    struct fake_file *k = calloc(1, sizeof(*k));
    *k = (struct fake_file){.f = {.ops = &fake_ops, .refs = 1, .mode = mode, .inode = &k->i}, .index = next_index++};
    k->i.mode = 0100644;
    k->i.size = pages * PAGE_SIZE;
    k->i.sb = &fake_sb;
    k->i.ino = 1000 + (u64)k->index;
    live_files++;
    return k;
}

struct file *shmem_file(const char *name, u64 size, u32 flags)
{
    (void)name, (void)flags;
    return fails() ? ERR_PTR(-ENOMEM) : &file_new(size / PAGE_SIZE, FMODE_READ | FMODE_WRITE)->f;
}

void file_put(struct file *f)
{
    struct fake_file *k = container_of(f, struct fake_file, f);
    if (!f->refs || k->unmaps > k->maps)
        die("file %d: a reference too few", k->index);
    if (--f->refs)
        return;
    if (k->maps != k->unmaps)
        die("file %d: mapped %u times, unmapped %u times", k->index, k->maps, k->unmaps);
    live_files--;
    free(k);
}

char *path_text(const struct path *p, char *buf, size_t size)
{
    snprintf(buf, size, "/f%d", container_of(p, struct fake_file, f.path)->index);
    return buf;
}
long deny_write(struct file *f) { return (void)f, 0; }
void allow_write(struct file *f) { (void)f; }

/* ---- the rest of the kernel ---- */

void *kmalloc(size_t size)
{
    if (fails())
        return NULL;
    live_blocks++;
    return memset(malloc(size ? size : 1), 0xa5, size);
}
void *kzalloc(size_t size)
{
    void *p = kmalloc(size);
    return p ? memset(p, 0, size) : NULL;
}
void kfree(void *p)
{
    live_blocks -= p != NULL;
    free(p);
}
void *krealloc(void *p, size_t old_size, size_t new_size)
{
    void *q = kmalloc(new_size);
    if (q && p) {
        memcpy(q, p, MIN(old_size, new_size));
        kfree(p);
    }
    return q;
}

void mutex_lock(struct mutex *m)
{
    if (m->word++)
        die("lock taken twice");
    locks_held++;
}
bool mutex_trylock(struct mutex *m)
{
    if (m->word)
        return false;
    mutex_lock(m);
    return true;
}
void mutex_unlock(struct mutex *m)
{
    if (!m->word--)
        die("unlock of a lock that is not held");
    locks_held--;
}
bool mutex_held(const struct mutex *m) { return m->word && m != other_holds; }
bool mutex_none_held(void) { return !locks_held; }

void panic(const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    vprintf(f, ap);
    die("panic");
}
u64 current_rlimit(int resource) { return resource == 3 ? 8ul << 20 : ~0ull; }
bool capable(int cap) { return (void)cap, false; }
u64 memory_limit(void) { return 1ul << 40; }
const struct mail_boot *boot_config(void) { return NULL; }
long copy_from_user(void *dst, uptr src, size_t size) { return (void)dst, (void)src, size ? -EFAULT : 0; }
long copy_to_user(uptr dst, const void *src, size_t size) { return (void)dst, (void)src, size ? -EFAULT : 0; }
void frames_redirect(struct mm *mm, const struct vview *w) { (void)mm, (void)w; }

void fake_init(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < FILES; i++)
        fake_files[i] = file_new(8, i ? FMODE_READ : FMODE_READ | FMODE_WRITE);
}
