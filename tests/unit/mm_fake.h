/* A host for tests of kernel/mm: it keeps, page by page, what the host would show in a window of the guest's address space.
 * Files lie in places of their own making. Each host call, allocation or file operation can be made to fail. */
#ifndef HARENA_TESTS_MM_FAKE_H
#define HARENA_TESTS_MM_FAKE_H

#include "base/layout.h"
#include "mm/mm.h"
#include "vfs/vfs.h"

#define PAGES 256
#define WINDOW (GUEST_MMAP_TOP - 192 * PAGE_SIZE)
#define WINDOW_END (WINDOW + PAGES * PAGE_SIZE)
#define FILES 3

enum { SHOWS_NOTHING, SHOWS_ANON, SHOWS_FILE };

struct host_page {
    u8 kind, prot;
    bool shared;
    int fd;
    u64 off;
    u32 tag;    /* what the guest wrote into its private page; 0: nothing */
    u32 serial; /* of the host call that mapped it */
};

struct fake_file {
    struct file f;
    struct inode i;
    int index;
    u32 maps, unmaps;
};

extern struct host_page host_pages[PAGES];
extern struct fake_file *fake_files[FILES]; /* 0: read and write, in D; 1: in D, read only; 2: in an image, with a hole */
extern u32 fail_in;      /* the n-th call that can fail does so; 0: none */
extern bool failed_once; /* it did */
extern struct mutex *other_holds; /* held by another thread, which lets it go when it is other_until (ns) */
extern u64 other_until;
extern u32 live_files;
extern long live_blocks;

void fake_init(void);
struct host_page file_place(struct file *f, u64 page); /* kind, fd and off */
u64 file_pages(struct file *f);
noreturn_fn void die(const char *f, ...) printf_like(1, 2);

#endif
