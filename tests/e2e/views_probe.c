/* Says its version and whether it runs from an exec view: then the bytes of its system call are a jump. */
#include <stdio.h>
#include <unistd.h>

extern const unsigned char probe_site[];
__asm__(".text\n.globl probe, probe_site\n.type probe,@function\nprobe:\nprobe_site: mov $110,%eax\nsyscall\nret\n.size probe,.-probe\n");
long probe(void);
const char note[] = "a note that only the probe holds";

int main(int argc, char **argv)
{
    if (probe() != getppid() || !note[argc])
        return 1;
    printf("%s %s\n", VERSION, *probe_site == 0xe9 ? "patched" : "plain");
    return 0;
}
