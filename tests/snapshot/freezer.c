/* freezer NAME SEED: pauses and resumes a running sandbox at random instants until it has ended, and takes snapshots, after which all
 * memory is write-protected (kernel/mm/track.h). Prints how often. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/runtime.h"

int main(int argc, char **argv)
{
    struct harena_error err = { 0 };
    unsigned rounds = 0;
    if (argc < 3)
        return 2;
    srandom(atoi(argv[2]));
    for (;; rounds++) {
        struct harena_parts *p;
        usleep(random() % 4000);
        if (random() % 4 == 0) {
            if (harena_snapshot(argv[1], HARENA_SNAPSHOT_BASE, &p, &err) < 0)
                break;
            harena_parts_free(p);
            continue;
        }
        if (harena_pause(argv[1], &err) < 0)
            break;
        usleep(random() % 1500);
        if (harena_resume(argv[1], &err) < 0)
            break;
    }
    printf("frozen %u times; %s\n", rounds, err.text);
    return strstr(err.text, "no running sandbox") || strstr(err.text, "ended") ? 0 : 1;
}
