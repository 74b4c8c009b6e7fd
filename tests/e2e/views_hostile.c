/* A guest that wants to change the packs of exec views (descriptors 6 and 7): it makes host calls with a syscall instruction of
 * the kernel image, as any guest can. "private": what it writes into a private mapping, or tries to punch out of one, stays its
 * own. "shared": a shared writable mapping is its end. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define KIMAGE 0x7effd0000000ul /* KIMAGE_BASE of base/layout.h */
#define SIZE 65536

static const unsigned char *gadget;

static long host(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("call *%[g]" : "+a"(nr) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9), [g] "r"(gadget)
                     : "rcx", "r11", "memory");
    return nr;
}

int main(int argc, char **argv)
{
    const unsigned char *p = (const unsigned char *)KIMAGE;
    int shared = argc > 1 && !strcmp(argv[1], "shared");
    for (gadget = p; gadget < p + (4 << 20) && memcmp(gadget, "\x0f\x05\xc3", 3); gadget++)
        ;
    if (memcmp(gadget, "\x0f\x05\xc3", 3))
        return 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int fd = 6; fd <= 7; fd++) {
        long at = host(SYS_mmap, 0x10000000, SIZE, PROT_READ | PROT_WRITE, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, fd, 0);
        if (at != 0x10000000) {
            printf("%d: no mapping (%ld)\n", fd, at);
            continue;
        }
        memset((void *)at, 0xcc, SIZE);
        long r = host(SYS_madvise, at, SIZE, MADV_REMOVE, 0, 0, 0);
        printf("%d: written, punch %ld\n", fd, r);
        host(SYS_munmap, at, SIZE, 0, 0, 0, 0);
    }
    puts("end");
    return 0;
}
