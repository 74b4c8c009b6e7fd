/* Sandboxes that are kept ready: a thread makes them of one configuration, whole, but frozen; whoever takes one attaches and it runs within
 * some tenths of a millisecond. An empty pool is no error: the taker makes one itself.
 *
 * The maker pauses for LATER_NS after a sandbox was taken, unless none is left: one that is just starting needs the processor more. When
 * it cannot make one (memory, descriptors) it tries again at the next take, which says why if it fails as well. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LATER_NS 3000000

struct harena_pool {
    const struct harena_config config; /* what it refers to is the caller's */
    pthread_mutex_t lock; /* all below */
    pthread_cond_t wanted;
    pthread_t maker;
    struct harena_sandbox **ready; /* the oldest first */
    u32 count, size;
    bool taken, failed, closing;
};

/* ---- making ahead ---- */

static void wait_until_wanted(struct harena_pool *p)
{
    while (!p->closing && (p->count == p->size || p->failed))
        pthread_cond_wait(&p->wanted, &p->lock);
    if (p->closing || !p->taken || !p->count)
        return;
    p->taken = false;
    pthread_mutex_unlock(&p->lock);
    nanosleep(&(struct timespec){ 0, LATER_NS }, NULL);
    pthread_mutex_lock(&p->lock);
}

static void *make_ahead(void *arg)
{
    struct harena_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (wait_until_wanted(p); !p->closing; wait_until_wanted(p)) {
        struct harena_sandbox *s = NULL;
        struct harena_error ignored;
        pthread_mutex_unlock(&p->lock);
        bool made = harena_create(&p->config, &s, &ignored) == 0;
        pthread_mutex_lock(&p->lock);
        p->failed = !made;
        if (made)
            p->ready[p->count++] = s;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- for the caller ---- */

int harena_pool_open(const struct harena_config *config, u32 size, struct harena_pool **out, struct harena_error *err)
{
    if (!config->parts || config->name || !size) {
        harena_error_set(err, 125, "a pool needs parts, no name, and room for one sandbox at least");
        return -1;
    }
    struct harena_pool *p = grow(NULL, sizeof(*p));
    memcpy(p, &(struct harena_pool){ .config = *config, .size = size }, sizeof(*p));
    p->ready = grow(NULL, size * sizeof(struct harena_sandbox *));
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wanted, NULL);
    harena_parts_settle(config->parts);
    int r = pthread_create(&p->maker, NULL, make_ahead, p);
    if (r) {
        harena_error_set(err, 125, "cannot start a thread: %s", strerror(r));
        free(p->ready);
        free(p);
        return -1;
    }
    *out = p;
    return 0;
}

static struct harena_sandbox *take_oldest(struct harena_pool *p)
{
    struct harena_sandbox *s = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->count) {
        s = p->ready[0];
        memmove(p->ready, p->ready + 1, --p->count * sizeof(s));
    }
    p->taken = true;
    p->failed = false;
    pthread_cond_signal(&p->wanted);
    pthread_mutex_unlock(&p->lock);
    return s;
}

static bool has_ended(const struct harena_sandbox *s)
{
    struct pollfd p = { .fd = s->link };
    return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

int harena_pool_take(struct harena_pool *p, struct harena_sandbox **out, struct harena_error *err)
{
    struct harena_sandbox *s;
    while ((s = take_oldest(p)) && has_ended(s)) /* killed while it waited */
        harena_close(s);
    if (!s)
        return harena_create(&p->config, out, err);
    *out = s;
    return 0;
}

void harena_pool_close(struct harena_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_signal(&p->wanted);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->maker, NULL);
    for (u32 i = 0; i < p->count; i++)
        harena_close(p->ready[i]);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wanted);
    free(p->ready);
    free(p);
}
