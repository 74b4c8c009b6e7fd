/* Says its version and whether it runs from an exec view: then the bytes of its system call are a jump. With an argument it also
 * moves its code to another place, and says what it is there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

extern const unsigned char probe_site[];
__asm__(".text\n.p2align 12\n.globl probe, probe_site\n.type probe,@function\nprobe:\nprobe_site: mov $110,%eax\nsyscall\nret\n.size probe,.-probe\n.p2align 12\n");
long probe(void);
const char note[] = "a note that only the probe holds";

int main(int argc, char **argv)
{
    if (probe() != getppid() || !note[argc])
        return 1;
    printf("%s %s\n", VERSION, *probe_site == 0xe9 ? "patched" : "plain");
    if (argc > 1) {
        unsigned char *old = (unsigned char *)probe_site;
        unsigned char *new = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mremap(old, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, new) != new || ((long (*)(void))new)() != getppid())
            return 1;
        printf("moved %s\n", *new == 0xe9 ? "patched" : "plain");
    }
    return 0;
}
