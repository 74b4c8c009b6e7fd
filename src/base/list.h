/* Circular doubly linked list with an embedded node. An all-zero head is an empty list that was
 * never used (kernel state starts zeroed), so a global head needs no initialiser. */
#ifndef HARENA_BASE_LIST_H
#define HARENA_BASE_LIST_H

#include "base/types.h"

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *h) { h->next = h->prev = h; }
static inline bool list_empty(const struct list *h) { return h->next == h || h->next == NULL; }

/* A node not on any list has next == NULL. */
static inline bool list_linked(const struct list *n) { return n->next != NULL; }

static inline void list_insert_between(struct list *n, struct list *prev, struct list *next)
{
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
}

static inline void list_add(struct list *h, struct list *n)
{
    if (!h->next)
        list_init(h);
    list_insert_between(n, h, h->next);
}

static inline void list_add_tail(struct list *h, struct list *n)
{
    if (!h->next)
        list_init(h);
    list_insert_between(n, h->prev, h);
}

static inline void list_del(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->next = n->prev = NULL;
}

#define list_entry(n, type, member) container_of(n, type, member)
#define list_first(h, type, member) (list_empty(h) ? NULL : list_entry((h)->next, type, member))
#define list_for_each(it, h, member)                                                                                   \
    for (__typeof__(it) _n, *_once = (h)->next ? (void *)1 : NULL; _once; _once = NULL)                                \
        for (it = list_entry((h)->next, __typeof__(*it), member);                                                      \
             &it->member != (h) && (_n = list_entry(it->member.next, __typeof__(*it), member), 1); it = _n)

#endif
