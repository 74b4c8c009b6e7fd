/* Descriptors in flight (SCM_RIGHTS) and the collection of unreachable ones.
 *
 * A queued scm holds file references. When sockets are sent over sockets they can come to refer only to each other: then
 * their files are never closed. So each unix sock counts the references that queued messages hold to its file
 * (inflight). A sock whose file has only such references is a candidate; candidates that cannot be reached from a
 * non-candidate's receive queue are garbage: their queues are emptied. The collector runs when a unix socket is closed
 * while unix sockets are in flight.
 *
 * Locks: gc_lock > sock locks. */
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "net/show.h"
#include "net/sock.h"

#define NEST_MAX 4u /* MAX_RECURSION_LEVEL of Linux */

static KSTATE struct mutex gc_lock;
static KSTATE struct list all_unix;
static KSTATE u32 inflight_total;

void scm_free(struct scm *scm)
{
    if (!scm)
        return;
    for (u32 i = 0; i < scm->file_count; i++)
        file_put(scm->files[i]);
    kfree(scm);
}

struct scm *scm_dup(const struct scm *scm)
{
    if (!scm)
        return NULL;
    size_t size = sizeof(*scm) + scm->file_count * sizeof(scm->files[0]);
    struct scm *d = kmalloc(size);
    if (!d)
        return NULL;
    memcpy(d, scm, size);
    for (u32 i = 0; i < d->file_count; i++)
        file_get(d->files[i]);
    return d;
}

/* The unix sock of an in-flight file, or NULL. */
static struct sock *inflight_sock(struct file *f)
{
    struct sock *s = file_sock(f);
    return s && s->family == AF_UNIX ? s : NULL;
}

long scm_nest(struct sock *to, const struct scm *scm)
{
    u32 level = 0;

    for (u32 i = 0; scm && i < scm->file_count; i++) {
        struct sock *s = inflight_sock(scm->files[i]);
        if (s)
            level = MAX(level, s->un.level + 1);
    }
    if (level > NEST_MAX)
        return -ETOOMANYREFS;
    to->un.level = MAX(list_empty(&to->recs) ? 0 : to->un.level, level);
    return 0;
}

static void scm_account(struct scm *scm, int delta)
{
    if (!scm)
        return;
    for (u32 i = 0; i < scm->file_count; i++) {
        struct sock *s = inflight_sock(scm->files[i]);
        if (!s)
            continue;
        atomic_add(&s->un.inflight, (u32)delta);
        atomic_add(&inflight_total, (u32)delta);
    }
}

void scm_sent(struct scm *scm) { scm_account(scm, 1); }
void scm_received(struct scm *scm) { scm_account(scm, -1); }
bool unix_has_inflight(void) { return atomic_load(&inflight_total) != 0; }

void unix_list_add(struct sock *s)
{
    mutex_lock(&gc_lock);
    list_add(&all_unix, &s->un.all);
    mutex_unlock(&gc_lock);
}

void unix_list_del(struct sock *s)
{
    mutex_lock(&gc_lock);
    if (list_linked(&s->un.all))
        list_del(&s->un.all);
    mutex_unlock(&gc_lock);
}

/* Marks socks in s's receive queue (and in the queues of its unaccepted connections) as live; true if any is news. */
static bool mark_queue(struct sock *s)
{
    bool news = false;
    struct rec *r;
    struct sock *child;

    mutex_lock(&s->lock);
    list_for_each(r, &s->recs, link)
        for (u32 i = 0; r->scm && i < r->scm->file_count; i++) {
            struct sock *t = inflight_sock(r->scm->files[i]);
            if (t && !t->un.gc_live) {
                t->un.gc_live = true;
                news = true;
            }
        }
    list_for_each(child, &s->accept_queue, accept_link)
        if (!child->un.gc_live) {
            child->un.gc_live = true;
            news = true;
        }
    mutex_unlock(&s->lock);
    return news;
}

static bool is_candidate(struct sock *s)
{
    u32 n = atomic_load(&s->un.inflight);
    return n && s->file && atomic_load(&s->file->refs) == n;
}

/* Moves all records of s with descriptors to `garbage`. */
static void take_garbage(struct sock *s, struct list *garbage)
{
    struct rec *r;

    mutex_lock(&s->lock);
    list_for_each(r, &s->recs, link)
        if (r->scm && r->scm->file_count) {
            struct rec *keep = rec_new(NULL, 0, r->scm); /* the bytes stay, the descriptors go */
            if (!keep)
                break;
            r->scm = NULL;
            list_add(garbage, &keep->link);
        }
    mutex_unlock(&s->lock);
}

void unix_gc(void)
{
    struct list garbage = {0};
    struct sock *s;
    struct rec *r;
    bool news = true;

    if (!unix_has_inflight())
        return;
    mutex_lock(&gc_lock);
    list_for_each(s, &all_unix, un.all)
        s->un.gc_live = !is_candidate(s);
    while (news) {
        news = false;
        list_for_each(s, &all_unix, un.all)
            if (s->un.gc_live)
                news |= mark_queue(s);
        list_for_each(s, &all_unix, un.all) /* after the queues: what was received meanwhile is in none */
            if (!s->un.gc_live && !is_candidate(s))
                s->un.gc_live = news = true;
    }
    list_for_each(s, &all_unix, un.all)
        if (!s->un.gc_live)
            take_garbage(s, &garbage);
    mutex_unlock(&gc_lock);
    while ((r = list_first(&garbage, struct rec, link))) {
        list_del(&r->link);
        rec_free(r); /* closes files, which comes back here with less in flight */
    }
}

void unix_show(struct strbuf *sb)
{
    struct sock *s;

    mutex_lock(&gc_lock);
    list_for_each(s, &all_unix, un.all)
        unix_show_line(sb, s);
    mutex_unlock(&gc_lock);
}
