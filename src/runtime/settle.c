/* Page files in huge pages. A sandbox made from parts maps them private and the host shows sixteen pages around each that it touches; in huge
 * pages these are counted and forgotten together instead of one by one, which is a fifth of all that a short-lived sandbox costs. */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include <stdint.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>

#define HUGE_SIZE (2l << 20) /* what one entry of the second level of page tables maps (x86-64) */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; madvise(2) */
#endif

static void collapse(int fd, off_t block, char *at)
{
    if (mmap(at, HUGE_SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, block) != MAP_FAILED)
        madvise(at, HUGE_SIZE, MADV_COLLAPSE);
}

/* Blocks of which at least half is there; `at`: where one can be mapped. */
static void settle_file(int fd, char *at)
{
    off_t begin, end = 0, block = 0, filled = 0;
    while ((begin = lseek(fd, end, SEEK_DATA)) >= 0 && (end = lseek(fd, begin, SEEK_HOLE)) > begin)
        for (off_t next; begin < end; begin = next) {
            off_t this = begin & -HUGE_SIZE;
            next = MIN(end, this + HUGE_SIZE);
            filled = (this == block ? filled : 0) + next - begin;
            if (filled >= HUGE_SIZE / 2 && filled - (next - begin) < HUGE_SIZE / 2)
                collapse(fd, this, at);
            block = this;
        }
}

/* Only of files in memory: others would be read from the disk. */
void harena_parts_settle(const struct harena_parts *p)
{
    char *window = mmap(NULL, 2 * HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct statfs st;
    if (window == MAP_FAILED)
        return;
    char *at = (char *)(((intptr_t)window + HUGE_SIZE - 1) & -HUGE_SIZE);
    for (u32 i = 0; i < p->levels; i++)
        if (fstatfs(p->pages[i], &st) == 0 && st.f_type == TMPFS_MAGIC)
            settle_file(p->pages[i], at);
    munmap(window, 2 * HUGE_SIZE);
}
