/* leaks NAME COUNT: pauses, resumes, copies a running sandbox and fails to, COUNT times each. Prints what went wrong, and when this process
 * has more descriptors afterwards. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/runtime.h"

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    struct harena_parts *p;
    if (argc < 3)
        return 2;
    unsigned before = descriptors(), count = atoi(argv[2]);
    for (unsigned i = 0; i < count; i++) {
        if (harena_pause(argv[1], &err) < 0 || harena_resume(argv[1], &err) < 0)
            printf("pause: %s\n", err.text);
        if (i % 4 == 0 && harena_snapshot(argv[1], false, &p, &err) < 0)
            printf("snapshot: %s\n", err.text);
        else if (i % 4 == 0)
            harena_parts_free(p);
        if (harena_snapshot("no-such-sandbox", false, &p, &err) == 0 || harena_pause("no-such-sandbox", &err) == 0)
            printf("there is none\n");
    }
    unsigned after = descriptors();
    if (after != before)
        printf("%u descriptors, before %u\n", after, before);
    return 0;
}
