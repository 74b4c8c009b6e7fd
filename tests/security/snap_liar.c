/* snap_liar MODE: a guest that answers for its own kernel when a snapshot of it is taken. A host process that its kernel knows nothing of
 * guesses the number of each order and reports before the kernel can. It says what became of it; see e2e/snapshots_hostile.sh.
 *
 *   hold   says that all is written, and goes on writing into the page file
 *   grow   fills the page file with 512 MB
 *   never  opens the page file and says nothing more
 *   again  says that all is written without a word about the state, with errors that are none, for orders there never were
 *   ahead  writes new files in memory (D) while the broker copies them
 *   rest   no lies, but no rest
 *   bells  no lies: rings without an end */
#define _GNU_SOURCE
#include "attack.h"

#define PAGES_SIZE (512ul << 20)
#define FILLED (1ul << 36) /* in D */
#define FILL_MAX (600ul << 20)

static struct shared {
    volatile u32 go, done;
    volatile long opened, after, filled, grown;
} *shared;

/* Into the page file: 0 or what the host says. */
static long put(u64 at, u64 size)
{
    static char data[1 << 20];
    memset(data, 1, sizeof(data));
    long n = host(18, FD_DUMP, (long)data, size, at, 0, 0);
    return n == (long)size ? 0 : n;
}

static void nap(u32 ms)
{
    struct timespec t, now;
    clock_gettime(CLOCK_MONOTONIC, &t);
    do {
        host(24, 0, 0, 0, 0, 0, 0); /* sched_yield */
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - t.tv_sec) * 1000 + (now.tv_nsec - t.tv_nsec) / 1000000 < ms);
}

/* Returns the number of the order that it answered first. */
static u64 answer_first(u64 from, u64 error, u64 spaces)
{
    for (;; host(24, 0, 0, 0, 0, 0, 0))
        for (u64 n = from; n < from + 2; n++)
            if (ask(WIRE_FROZEN, 0, 0, n, error, spaces, "", 0) != -ESRCH)
                return n;
}

static void liar(const char *mode)
{
    if (!strcmp(mode, "again")) {
        for (u64 n = 0;; n++, nap(1)) {
            ask(WIRE_DUMPED, 0, 0, n % 9, ~0ul, 0, "", 0);
            ask(WIRE_DUMP_OPEN, 0, 0, n % 9, 0, 0, "", 0);
            ask(WIRE_FROZEN, 0, 0, n % 9, 1ul << 40, ~0ul, "", 0);
        }
    }
    for (u64 n = 1;; n++) {
        n = answer_first(n, 0, strcmp(mode, "never") ? 1 : 1000);
        shared->opened = ask(WIRE_DUMP_OPEN, 0, 0, n, 0, 0, "", 0);
        shared->grown = put(DUMP_SIZE, 4096);
        if (!strcmp(mode, "grow"))
            for (u64 i = 0; i < PAGES_SIZE && !put(i, 1 << 20); i += 1 << 20)
                shared->filled = (i >> 20) + 1, nap(2);
        else
            shared->filled = put(0, 1 << 20);
        if (!strcmp(mode, "hold")) {
            ask(WIRE_DUMPED, 0, 0, n, 0, 0, "", 0);
            nap(1500);
        } else if (!strcmp(mode, "never")) {
            while (ask(WIRE_DUMP_OPEN, 0, 0, n, 0, 0, "", 0) != -ESRCH)
                nap(10);
        } else
            nap(100);
        shared->after = put(2ul << 20, 1 << 20);
        shared->done = 1;
        nap(100);
    }
}

static void filler(void)
{
    while (!shared->go)
        nap(1);
    for (u64 i = 0; i < FILL_MAX; i += 4096)
        *(volatile char *)(D_BASE + FILLED + i) = 1;
    nap(600000);
}

/* Sleeps outside of its kernel: a kick there looks like one that met the kernel, and the task does not come to rest. */
static void rest_not(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += 1;
    host(202, K_BASE, 9, *(volatile u32 *)K_BASE, (long)&t, 0, -1); /* FUTEX_WAIT_BITSET */
}

static bool alone(void)
{
    static u32 tid;
    return host(56, 0x00100011, 0, (long)&tid, 0, 0, 0) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || find_gadget() < 0)
        return 2;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset((void *)shared, 0, sizeof(*shared));
    shared->grown = shared->after = 1;
    const char *mode = argv[1];
    if (!strcmp(mode, "bells")) {
        for (int i = 0; i < 3; i++)
            if (alone())
                for (u64 n = 0;; n++)
                    host(111, n % 70, 0, 0, 0, 0, 0);
    } else if (!strcmp(mode, "ahead")) {
        if (alone())
            filler();
        if (alone()) {
            shared->go = 1;
            u64 n = answer_first(1, 0, 1);
            ask(WIRE_DUMPED, 0, 0, n, 0, 0, "", 0);
            nap(600000);
        }
    } else if (strcmp(mode, "rest") && alone()) {
        liar(mode);
    }
    printf("up\n");
    fflush(stdout);
    while (strcmp(mode, "bells") && !shared->done)
        rest_not();
    printf("open %ld, beyond its end %ld, filled %ld, afterwards %ld\n", shared->opened, shared->grown, shared->filled, shared->after);
    fflush(stdout);
    sleep(60);
    return 0;
}
