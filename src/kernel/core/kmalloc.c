/* The allocator of K: a buddy system of page runs and, for small objects, slabs of one page with free lists.
 *
 * page_info[] has one byte a page: what a run that starts there is. Pages of K behind the kernel's own state are handed
 * out on first use by a bump pointer; freed runs coalesce. Slab pages stay with their class (objects of one class are
 * type-stable enough for readers that check sequence counts). One lock, leaf. Sizes in bytes. */
#include "core/kmalloc.h"
#include "base/layout.h"
#include "base/list.h"
#include "base/string.h"
#include "core/kstate.h"
#include "core/mutex.h"
#include "core/panic.h"

#define K_PAGES (K_SIZE / PAGE_SIZE)
#define MAX_ORDER 16 /* 256 MiB */
#define INFO_FREE 0x40 /* | order: head of a free run */
#define INFO_RUN 0x20  /* | order: head of a run in use */
#define INFO_SLAB 0x80 /* | class */

static const u16 class_size[] = {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1344, 2048};
#define CLASSES ARRAY_COUNT(class_size)

struct free_obj {
    struct free_obj *next;
};

static KSTATE_LARGE struct {
    struct mutex lock;
    u64 next_page; /* bump pointer: first page never used (index from K_BASE) */
    u64 used, limit; /* bytes; 0: none */
    struct free_obj *objs[CLASSES];
    struct list runs[MAX_ORDER + 1];
    u8 info[K_PAGES];
} heap;

#ifdef HARENA_FAKE_HOST
#define HEAP_START_PAGE 256ul
#else
extern char kstate_end[];
#define HEAP_START_PAGE (((u64)kstate_end - K_BASE + PAGE_SIZE - 1) / PAGE_SIZE)
#endif

static void *page_ptr(u64 page) { return (void *)(K_BASE + page * PAGE_SIZE); }
static u64 ptr_page(const void *p) { return ((u64)p - K_BASE) / PAGE_SIZE; }

static void push_run(u64 page, int order)
{
    heap.info[page] = (u8)(INFO_FREE | order);
    list_add(&heap.runs[order], page_ptr(page));
}

static void *alloc_run(int order)
{
    int o = order;
    if (heap.limit && heap.used + (PAGE_SIZE << order) > heap.limit)
        return NULL;
    while (o <= MAX_ORDER && list_empty(&heap.runs[o]))
        o++;
    u64 page;
    if (o <= MAX_ORDER) {
        struct list *l = heap.runs[o].next;
        list_del(l);
        page = ptr_page(l);
        while (o > order) {
            o--;
            push_run(page + (1ul << o), o);
        }
    } else {
        if (!heap.next_page)
            heap.next_page = HEAP_START_PAGE;
        u64 count = 1ul << order;
        page = ALIGN_UP(heap.next_page, count);
        if (page + count > K_PAGES)
            return NULL;
        for (u64 p = heap.next_page; p < page;) { /* give the skipped part to the free lists */
            int f = __builtin_ctzl(p);
            while (p + (1ul << f) > page)
                f--;
            push_run(p, f);
            p += 1ul << f;
        }
        heap.next_page = page + count;
    }
    heap.info[page] = (u8)(INFO_RUN | order);
    heap.used += PAGE_SIZE << order;
    return page_ptr(page);
}

static void free_run(u64 page, int order)
{
    heap.used -= PAGE_SIZE << order;
    while (order < MAX_ORDER) {
        u64 buddy = page ^ (1ul << order);
        if (buddy + (1ul << order) > heap.next_page || heap.info[buddy] != (INFO_FREE | order))
            break;
        list_del(page_ptr(buddy));
        heap.info[buddy] = heap.info[page] = 0;
        page = MIN(page, buddy);
        order++;
    }
    push_run(page, order);
}

static int class_of(size_t size)
{
    int c = 0;
    while (class_size[c] < size)
        c++;
    return c;
}

static void *alloc_small(int c)
{
    struct free_obj *o = heap.objs[c];
    if (!o) {
        char *page = alloc_run(0);
        if (!page)
            return NULL;
        heap.info[ptr_page(page)] = (u8)(INFO_SLAB | c);
        for (size_t n = PAGE_SIZE / class_size[c]; n-- > 0;) {
            o = (void *)(page + n * class_size[c]);
            o->next = heap.objs[c];
            heap.objs[c] = o;
        }
        o = heap.objs[c];
    }
    heap.objs[c] = o->next;
    return o;
}

static int order_of(size_t size)
{
    u64 pages = (size + PAGE_SIZE - 1) / PAGE_SIZE;
    return pages <= 1 ? 0 : 64 - __builtin_clzl(pages - 1);
}

void *kmalloc(size_t size)
{
    if (size > (PAGE_SIZE << MAX_ORDER))
        return NULL;
    mutex_lock(&heap.lock);
    void *p = size <= class_size[CLASSES - 1] ? alloc_small(class_of(size)) : alloc_run(order_of(size));
    mutex_unlock(&heap.lock);
    return p;
}

void *kzalloc(size_t size)
{
    void *p = kmalloc(size);
    if (p)
        memset(p, 0, size);
    return p;
}

void kfree(void *p)
{
    if (!p)
        return;
    u64 page = ptr_page(p);
    BUG_ON(page >= K_PAGES);
    u8 info = heap.info[page];
    mutex_lock(&heap.lock);
    if (info & INFO_SLAB) {
        struct free_obj *o = p;
        int c = info & 0x1f;
        BUG_ON(((u64)p & (PAGE_SIZE - 1)) % class_size[c]);
        o->next = heap.objs[c];
        heap.objs[c] = o;
    } else {
        BUG_ON(!(info & INFO_RUN) || ((u64)p & (PAGE_SIZE - 1)));
        free_run(page, info & 0x1f);
    }
    mutex_unlock(&heap.lock);
}

void *krealloc(void *p, size_t old_size, size_t new_size)
{
    void *q = kmalloc(new_size);
    if (q && p) {
        memcpy(q, p, MIN(old_size, new_size));
        kfree(p);
    }
    return q;
}

char *kmemdup_str(const char *s, size_t size)
{
    char *p = kmalloc(size + 1);
    if (p) {
        memcpy(p, s, size);
        p[size] = 0;
    }
    return p;
}

char *kstrdup(const char *s) { return kmemdup_str(s, strlen(s)); }
u64 kmalloc_used(void) { return heap.used; }
void kmalloc_set_limit(u64 bytes) { heap.limit = bytes; }
