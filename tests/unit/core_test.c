/* kernel/core: allocators against shadow models, text buffers, the random generator, cursors over guest memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core_fake.h"

#include "core/dframe.h"
#include "core/kmalloc.h"
#include "core/random.h"
#include "core/strbuf.h"
#include "core/uio.h"

/* ---- kmalloc ---- */

#define LIVE 600
#define UNIT 16

static u8 *shadow; /* a byte for each 16 of K: in use */
static struct {
    u8 *p;
    size_t size;
    u8 fill;
} live[LIVE];

static size_t any_size(void)
{
    switch (rnd(40)) {
    case 0: return rnd(200000);
    case 1: return rnd(200) ? PAGE_SIZE * rnd(20) : rnd(32u << 20);
    case 2: return 0;
    case 3: case 4: case 5: return 2040 + rnd(20);
    default: return rnd(rnd(4) ? 300 : 2100);
    }
}

static bool mark(const u8 *p, size_t size, u8 from, u8 to)
{
    u64 first = ((u64)p - K_BASE) / UNIT, n = (MAX(size, 1ul) + UNIT - 1) / UNIT;
    for (u64 i = first; i < first + n; i++)
        if (shadow[i] != from)
            return false;
    memset(shadow + first, to, n);
    return true;
}

static bool filled(u32 i)
{
    for (size_t n = 0; n < live[i].size; n++)
        if (live[i].p[n] != live[i].fill)
            return false;
    return true;
}

static void take(u32 i)
{
    size_t size = any_size();
    bool zero = rnd(4) == 0;
    u8 *p = zero ? kzalloc(size) : kmalloc(size);
    if (!p) {
        CHECK(kmalloc_used() + 2 * size + PAGE_SIZE > 64u << 20); /* only at the limit */
        return;
    }
    CHECK((u64)p % 16 == 0 && (u64)p >= K_BASE && (u64)p + size <= K_BASE + K_SIZE);
    CHECK(mark(p, size, 0, 1));
    for (size_t n = 0; zero && n < size; n++)
        if (p[n]) {
            CHECK(!"zeroed");
            break;
        }
    live[i].p = p;
    live[i].size = size;
    live[i].fill = (u8)(1 + rnd(255));
    memset(p, live[i].fill, size);
}

static void drop(u32 i)
{
    CHECK(filled(i));
    CHECK(mark(live[i].p, live[i].size, 1, 0));
    kfree(live[i].p);
    live[i].p = NULL;
}

static void grow(u32 i)
{
    size_t size = any_size(), old = live[i].size;
    u8 *p = live[i].p, *q = krealloc(p, old, size);
    if (!q) {
        CHECK(filled(i)); /* still there */
        return;
    }
    mark(p, old, 1, 0);
    CHECK(mark(q, size, 0, 1));
    live[i].p = q;
    live[i].size = MIN(size, old);
    CHECK(filled(i));
    live[i].size = size;
    memset(q, live[i].fill, size);
}

static u32 fill_k(void **first)
{
    u32 n = 0;
    for (void **p; (p = kmalloc(1u << 20)); n++) {
        *p = *first;
        *first = p;
    }
    return n;
}

static void empty_k(void *first)
{
    while (first) {
        void *next = *(void **)first;
        kfree(first);
        first = next;
    }
}

static void test_kmalloc(void)
{
    shadow = mmap(NULL, K_SIZE / UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    kmalloc_set_limit(64u << 20);
    for (u32 n = 0; n < 100000; n++) {
        u32 i = rnd(LIVE);
        if (!live[i].p)
            take(i);
        else if (rnd(8))
            drop(i);
        else
            grow(i);
        CHECK(kmalloc_used() <= 64u << 20);
    }
    for (u32 i = 0; i < LIVE; i++)
        if (live[i].p)
            drop(i);
    kfree(NULL);

    u64 slabs = kmalloc_used();
    CHECK(slabs < 8u << 20);
    kmalloc_set_limit(slabs + 4 * PAGE_SIZE);
    CHECK(!kmalloc(5 * PAGE_SIZE)); /* a run of eight */
    void *p = kmalloc(3 * PAGE_SIZE);
    CHECK(p && !kmalloc(PAGE_SIZE));
    kfree(p);
    EQ(kmalloc_used(), slabs);
    kmalloc_set_limit(0);
    CHECK(!kmalloc((PAGE_SIZE << 16) + 1) && !kmalloc(~0ul));

    void *first = NULL, *again = NULL;
    u32 count = fill_k(&first);
    CHECK(count > K_SIZE / (1u << 20) - 80);
    static char text[1u << 20];
    memset(text, 'x', sizeof(text) - 1);
    CHECK(!kzalloc(sizeof(text)) && !kstrdup(text) && !krealloc(NULL, 0, sizeof(text)));
    empty_k(first);
    EQ(kmalloc_used(), slabs);
    EQ(fill_k(&again), count); /* the pieces have become whole again */
    empty_k(again);
    p = kmalloc(PAGE_SIZE << 16);
    CHECK(p && ((u64)p - K_BASE) % (PAGE_SIZE << 16) == 0);
    kfree(p);

    char *s = kstrdup("text"), *t = kmemdup_str("textual", 4);
    CHECK(!strcmp(s, "text") && !strcmp(t, "text"));
    kfree(s);
    kfree(t);
}

/* ---- D ---- */

static void test_dframe(void)
{
    static struct {
        u64 off, size;
    } win[200];
    u64 got;
    for (u32 n = 0; n < 20000; n++) {
        u32 i = rnd(200);
        if (!win[i].size) {
            u64 size = rnd(10) ? rnd(200000) : (u64)rnd(1u << 12) << 20;
            win[i].off = dwin_alloc(size, &win[i].size);
            if (!win[i].off) { /* freed windows keep their size: large ones use D up */
                CHECK(size > 16u << 20);
                win[i].size = 0;
                continue;
            }
            u64 pages = win[i].size / PAGE_SIZE;
            CHECK(win[i].off % PAGE_SIZE == 0 && win[i].size >= size && win[i].off + win[i].size <= D_SIZE);
            CHECK(!(pages & (pages - 1)) && __builtin_ctzl(pages) % 2 == 0 && (pages == 1 || pages / 4 * PAGE_SIZE < size));
            for (u32 k = 0; k < 200; k++)
                if (k != i && win[k].size && win[i].off < win[k].off + win[k].size && win[k].off < win[i].off + win[i].size)
                    CHECK(!"windows overlap");
            u8 *p = dwin_ptr(win[i].off);
            CHECK(!p[0] && !p[win[i].size - 1] && !p[win[i].size / 2]);
            p[0] = p[win[i].size - 1] = p[win[i].size / 2] = 1;
        } else {
            u8 *p = dwin_ptr(win[i].off);
            CHECK(p[0] && p[win[i].size - 1]);
            if (rnd(2)) {
                dwin_free(win[i].off, win[i].size);
            } else {
                p[0] = p[win[i].size - 1] = p[win[i].size / 2] = 0;
                dwin_free_clean(win[i].off, win[i].size);
            }
            win[i].size = 0;
        }
    }
    CHECK(!dwin_alloc((256ul << 30) + 1, &got) && !dwin_alloc(~0ull, &got));
    static u64 off[8000]; /* more than lie about */
    for (u32 i = 0; i < 8000; i++)
        off[i] = dwin_alloc(PAGE_SIZE, &got);
    punches = 0;
    punched_bytes = 0;
    for (u32 i = 0; i < 8000; i++) {
        u32 k = MIN(i + rnd(10), 7999u);
        u64 x = off[k];
        off[k] = off[i];
        dwin_free_clean(x, PAGE_SIZE);
    }
    CHECK(punched_bytes >= (8000 - 512) * PAGE_SIZE); /* two megabytes of each size keep their memory, for a while */
    CHECK(punches < 800);                            /* neighbours go together, in whatever order they come */
    for (u32 i = 0; i < 8000; i++) {
        off[i] = dwin_alloc(PAGE_SIZE, &got);
        u8 *p = dwin_ptr(off[i]);
        CHECK(!*p);
        *p = 1; /* given to nobody else */
    }
    for (u32 i = 0; i < 8000; i++)
        dwin_free(off[i], PAGE_SIZE);

    memory_set_limit(8u << 20);
    EQ(memory_limit(), 8u << 20);
    EQ(dpages_limit(), 1024);
    EQ(dpages_charge(1000), 0);
    EQ(dpages_charge(25), -ENOSPC);
    EQ(dpages_charge(24), 0);
    EQ(dpages_used(), 1024);
    dpages_uncharge(1024);
    memory_set_limit(PAGE_SIZE);
    EQ(dpages_limit(), 256);
    memory_set_limit(0);
    CHECK(memory_limit() == ~0ull && !dpages_charge(1ul << 40));
    dpages_uncharge(1ul << 40);
    EQ(dpages_used(), 0);
}

/* ---- strbuf, random ---- */

static void test_strbuf(void)
{
    static char want[200000], word[1000];
    struct strbuf sb = {0};
    size_t len = 0;
    memset(word, 'w', sizeof(word));
    for (u32 i = 0; i < 500; i++) {
        u32 n = rnd(3) ? 250 + rnd(12) : rnd(999), v = rnd(100000);
        if (rnd(2)) {
            sb_printf(&sb, "%u:%.*s;", v, (int)n, word);
            len += (size_t)snprintf(want + len, sizeof(want) - len, "%u:%.*s;", v, (int)n, word);
        } else {
            sb_write(&sb, word, n % 300);
            memcpy(want + len, word, n % 300);
            len += n % 300;
        }
        CHECK(sb.len == len && sb.len <= sb.cap);
    }
    CHECK(!sb.failed && !memcmp(sb.buf, want, len));
    u64 used = kmalloc_used();
    kmalloc_set_limit(1);
    for (u32 i = 0; i < 2000; i++)
        sb_printf(&sb, "%.*s", i % 500, word);
    CHECK(sb.failed && !memcmp(sb.buf, want, len));
    size_t at = sb.len;
    kmalloc_set_limit(0);
    sb_write(&sb, "x", 1);
    CHECK(sb.failed && sb.len == at); /* for good */
    sb_free(&sb);
    CHECK(!sb.buf && kmalloc_used() < used);
}

static void test_random(void)
{
    /* RFC 8439, A.1, test vector 1: the second half of the block is what the first caller gets. */
    static const u8 block[32] = {0xda, 0x41, 0x59, 0x7c, 0x51, 0x57, 0x48, 0x8d, 0x77, 0x24, 0xe0, 0x3f, 0xb8, 0xd8, 0x4a, 0x37,
        0x6a, 0x43, 0xb8, 0xf4, 0x15, 0x18, 0xa1, 0x1c, 0xc3, 0x87, 0xb6, 0x69, 0xb2, 0xee, 0x65, 0x86};
    u8 buf[4096 + 1], seed[64];
    random_bytes(buf, 32);
    CHECK(!memcmp(buf, block, 32));
    for (u32 i = 0; i < 64; i++)
        seed[i] = (u8)(i * 7 + i / 32);
    random_seed(seed);
    u32 ones = 0;
    buf[4096] = 0x77;
    random_bytes(buf, 4096);
    for (u32 i = 0; i < 4096; i++)
        ones += (u32)__builtin_popcount(buf[i]);
    CHECK(ones > 16384 - 600 && ones < 16384 + 600 && buf[4096] == 0x77);
    for (u32 i = 32; i < 4096; i += 32)
        CHECK(memcmp(buf, buf + i, 32));
    memset(buf, 0, 8);
    random_bytes(buf, 5);
    CHECK(!buf[5] && !buf[6]);
    random_bytes(buf, 0);
}

/* ---- uio ---- */

static void one_uio(void)
{
    struct uio_seg segs[9];
    u8 *flat[4096], data[4096], want[4096];
    u32 count = rnd(9), total = 0, readable = 0;
    struct uio u;
    fault_at = rnd(3) ? sizeof(guest) : 32768 + rnd(20000);
    for (u32 i = 0; i < count; i++) {
        u64 at = 1024 + rnd(60000), size = rnd(3) ? rnd(400) : 0;
        segs[i] = (struct uio_seg){(u64)guest + at, size};
        for (u64 n = 0; n < size; n++)
            flat[total++] = guest + at + n;
    }
    while (readable < total && flat[readable] < guest + fault_at)
        readable++;
    memcpy(guest, segs, sizeof(segs));
    EQ(uio_import(&u, (uptr)guest, count), 0);
    EQ(u.resid, total);
    u32 at = 0;
    for (u32 n = 0; n < 20; n++) {
        u32 size = rnd(200), op = rnd(3);
        u32 whole = MIN(size, total - at), got = MIN(whole, readable - at);
        if (op == 2 && got < whole) /* zeroes whole segments only: not compared */
            break;
        for (u32 k = 0; k < size; k++)
            data[k] = (u8)rnd(256);
        for (u32 k = 0; k < got; k++)
            want[k] = op == 1 ? *flat[at + k] : op ? 0 : data[k];
        long r = op == 0 ? uio_write_to(&u, data, size) : op == 1 ? uio_read_from(&u, data, size) : uio_zero(&u, size);
        EQ(r, got || !whole ? (long)got : -EFAULT);
        /* segments may overlap: the last writer of a byte counts */
        for (u32 k = 0; k < got; k++) {
            bool last = true;
            for (u32 j = k + 1; j < got; j++)
                last &= flat[at + j] != flat[at + k];
            u8 seen = op == 1 ? data[k] : *flat[at + k];
            if (last || op == 1)
                CHECK(seen == want[k]);
        }
        at += got;
        EQ(u.resid, total - at);
    }
    uio_release(&u);
}

static void test_uio(void)
{
    struct uio u;
    struct uio_seg *v = (void *)guest;
    for (u32 i = 0; i < 3000; i++)
        one_uio();
    u64 used = kmalloc_used();
    fault_at = sizeof(guest);
    EQ(uio_import(&u, (uptr)guest, 1025), -EINVAL);
    EQ(uio_import(&u, (uptr)guest + sizeof(guest) - 8, 1024), -EFAULT);
    memset(guest, 0, sizeof(guest));
    v[1].size = 1ul << 63;
    EQ(uio_import(&u, (uptr)guest, 2), -EINVAL);
    v[0].size = v[1].size = 0x7fffffff;
    EQ(uio_import(&u, (uptr)guest, 2), 0);
    EQ(u.resid, 0x7ffff000);
    uio_release(&u);
    EQ(uio_import(&u, 8, 0), 0);
    EQ(uio_write_to(&u, "x", 1), 0);
    uio_user(&u, (uptr)guest, ~0ull);
    EQ(u.resid, 0x7ffff000);
    kmalloc_set_limit(1);
    EQ(uio_import(&u, (uptr)guest, 1024), -ENOMEM);
    uio_release(&u);
    kmalloc_set_limit(0);
    EQ(kmalloc_used(), used);
    u8 own[16];
    uio_kernel(&u, own, sizeof(own));
    EQ(uio_write_to(&u, "0123456789", 10), 10);
    EQ(uio_write_to(&u, "0123456789", 10), 6);
    EQ(uio_zero(&u, 1), 0);
    CHECK(!memcmp(own, "0123456789012345", 16));
}

int main(void)
{
    static const struct test tests[] = {{"random", test_random}, {"kmalloc", test_kmalloc}, {"dframe", test_dframe},
                                        {"strbuf", test_strbuf}, {"uio", test_uio}};
    return run_tests(tests, ARRAY_COUNT(tests));
}
