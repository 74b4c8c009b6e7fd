/* scribble SECONDS SEED MODE: a guest that writes over everything it shares with its broker, while the broker serves it. Four host
 * processes that its kernel knows nothing of fill R - request slots, sequence numbers, ring positions, mail box - with requests that are
 * nearly right and with noise, change them while they are looked at, and ring the doorbell. MODE r: requests that would end
 * the sandbox, and what its own kernel reads of R, are left out, so that it is served as long as possible. MODE a: everything, K and D too. */
#define _GNU_SOURCE
#include "attack.h"

static u64 state;
static u32 rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

static u32 names(u8 *to, u32 size)
{
    static const char *const words[] = { "marker", "d", "file", "..", ".", "", "link-up", "new", "fifo", "a", "/", "link-proc", "marker-rw" };
    u32 n = 0;
    while (n + 16 < size && rnd() % 6) {
        const char *w = words[rnd() % ARRAY_COUNT(words)];
        memcpy(to + n, w, strlen(w));
        n += strlen(w);
        to[n++] = rnd() % 3 ? '/' : 0;
    }
    to[n ? n - 1 : 0] = 0;
    return n ? n : 1;
}

static void one_request(void)
{
    u32 i = rnd() % REQ_SLOTS;
    struct wire_request *q = (void *)(R_BASE + R_REQUESTS + i * (u64)R_REQUEST_STRIDE);
    q->op = rnd() % 8 ? WIRE_LOOKUP + rnd() % 22 : WIRE_STATS + rnd() % 4;
    q->mount = rnd() % 16;
    q->handle = rnd() % 2 ? rnd() % 64 | (rnd() % 3) << 16 : rnd();
    for (int k = 0; k < 4; k++)
        q->arg[k] = rnd() % 3 ? rnd() % 40000 : (u64)rnd() << rnd() % 40;
    if (q->op == WIRE_READ)
        q->arg[2] = (1ull << 36) + rnd() % 65536;
    q->size = rnd() % 8 ? rnd() % 200 : rnd() % 13000;
    if (rnd() % 4) {
        u32 n = names(q->data, 400);
        if (rnd() % 4)
            q->size = n;
        if (q->op >= WIRE_CREATE && q->op <= WIRE_RENAME)
            q->arg[0] = rnd() % 2 ? strlen((char *)q->data) + 1 : 0755;
    } else
        for (u32 k = 0; k < 64; k++)
            ((u32 *)q->data)[k] = rnd();
    if (q->op == WIRE_LOOKUP_MANY)
        q->size = 12288;
    mine->req_seq[i]++;
    if (rnd() % 4 == 0)
        q->size = rnd(); /* while it is looked at */
}

static void noise(bool all)
{
    u32 what = rnd() % 6;
    u32 ring = all ? rnd() % RING_COUNT : 3 + rnd() % (RING_COUNT - 3); /* 0 to 2 are the main program's */
    if (what == 0) {
        mine->ring[ring].pos += rnd() % 5 ? rnd() % 40000 : rnd();
    } else if (what == 1) {
        mine->ring[ring].want += rnd();
        mine->ring[ring].flags = rnd() % 4;
    } else if (!all && what > 2) {
        theirs->done_seq[rnd() % REQ_SLOTS] = rnd();
    } else if (what == 2) {
        mine->mail_done = rnd() % 2 ? theirs->mail_seq : rnd();
    } else if (what == 3) {
        theirs->done_seq[rnd() % REQ_SLOTS] = rnd();
        ((u32 *)(R_BASE + R_CONTROL_BROKER))[rnd() % 1024] = rnd();
    } else if (what == 4) {
        *(u32 *)(R_BASE + R_MAIL + rnd() % (R_SIZE - R_MAIL) / 4 * 4) = rnd();
    } else if (all) {
        *(u64 *)(K_BASE + rnd() % (2u << 20) / 8 * 8) = rnd();
        *(u64 *)(D_BASE + (u64)rnd() % (8u << 20) / 8 * 8) = rnd();
    }
}

static void run(u64 seed, u64 until, bool all)
{
    state = seed * 0x9e3779b97f4a7c15ul + 1;
    struct timespec t;
    do {
        for (int i = 0; i < 200; i++) {
            for (u32 n = rnd() % 4; n; n--)
                one_request();
            noise(all && rnd() % 20 == 0);
            host(111, rnd() % 70, 0, 0, 0, 0, 0);
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((u64)t.tv_sec < until);
}

int main(int argc, char **argv)
{
    if (argc < 4 || find_gadget() < 0)
        return 2;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    u64 until = t.tv_sec + atol(argv[1]), seed = atol(argv[2]);
    static u32 tid;
    printf("up\n");
    fflush(stdout);
    for (int i = 0; i < 4; i++)
        if (host(56, 0x00100011, 0, (long)&tid, 0, 0, 0) == 0) {
            run(seed * 8 + i, until, *argv[3] == 'a');
            host(231, 0, 0, 0, 0, 0, 0);
        }
    sleep(atol(argv[1]) + 1);
    return 0;
}
