/* hostfs: exec views of host files (wire/view_format.h), from the packs that lie mapped at CONTAINER_BASE() in every stub.
 *
 * The broker says with each look-up whether a pack has the file in the version it has now (wire_view). That answer is kept with
 * the version, and used as long as the inode's attributes are those. When a file is executed that has no view, the broker is
 * asked to have one built, and the caller waits for it a little: WAIT_NS a file, and no more at all once WAITS_MAX files were
 * waited for in vain. Whoever goes without has the original pages and the trap path.
 *
 * A pack only grows, and what it holds is trusted code's work; offsets are checked all the same, since the answer lies in
 * memory that hostile processes of the sandbox can write. Lock: view_lock, a leaf; kept short, never over a request. */
#include "fs/hostfs/hostfs.h"

#include "base/layout.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/wait.h"
#include "wire/view.h"

#define WAIT_NS 150000000ull
#define WAIT_SIZE_MAX (8u << 20) /* building takes 30 ms a megabyte */
#define WAITS_MAX 3
#define RETRY_NS 1000000000ull

static KSTATE struct mutex view_lock;
static KSTATE u32 waits_lost;
static KSTATE struct waitq nobody; /* to sleep on */

static void drop(struct host_inode *h)
{
    kfree(h->view);
    h->view = NULL;
}

void host_view_free(struct host_inode *h) { drop(h); }

/* view_lock held: is the entry that of the file's present version? */
static bool current_view(struct host_inode *h)
{
    u64 v[4];
    host_version(h, v);
    return h->view && !memcmp(v, h->view_version, sizeof(v));
}

void host_view_answer(struct host_inode *h, const struct wire_view *w)
{
    struct view_header header = {0};
    struct view_source src;
    struct view_entry *e = NULL;
    mutex_lock(&view_lock);
    if (current_view(h)) /* the pack never takes anything back */
        goto out;
    drop(h);
    if (!w || w->data_end > IMAGE_STRIDE || (w->pack != FD_VIEWS && w->pack != FD_VIEWS_OWN))
        goto out;
    e = kmalloc(sizeof(*e));
    header.data_end = w->data_end;
    src = (struct view_source){.mem = (const void *)CONTAINER_BASE(w->pack), .size = w->data_end};
    if (!e || view_entry_at(&src, &header, w->entry_off, e) || e->file_size != h->i.size || !e->copy_off)
        goto out;
    h->view = e;
    h->view_pack = w->pack;
    e = NULL;
    host_version(h, h->view_version);
out:
    mutex_unlock(&view_lock);
    kfree(e);
}

bool host_view_copy(struct host_inode *h, u32 *pack, u64 *off)
{
    if (!h->view)
        return false;
    mutex_lock(&view_lock);
    bool r = current_view(h);
    if (r) {
        *pack = h->view_pack;
        *off = h->view->copy_off;
    }
    mutex_unlock(&view_lock);
    return r;
}

/* Asks the broker to have the view built. Returns its wire_view_state. */
static enum wire_view_state make_view(struct host_inode *h)
{
    struct host_answer w;
    struct broker_args a = {.op = WIRE_LOOKUP, .arg = {WIRE_VIEW_MAKE}, .reply = &w, .reply_max = sizeof(w)};
    long r = host_path_call(h, NULL, &a);
    if (r < 0 || a.reply_size < sizeof(w.attr) || w.attr.dev != h->dev || w.attr.ino != h->ino ||
        (w.attr.mode & S_IFMT) != (h->i.mode & S_IFMT))
        return WIRE_VIEW_NONE;
    host_set_attr(h, &w.attr);
    host_view_answer(h, host_answer_view(&w, &a));
    return a.value;
}

static void make_and_wait(struct host_inode *h)
{
    u64 start = host_clock(1), pause = 1000000;
    if (start < atomic_load(&h->view_retry) || (h->i.flags & INODE_UNLINKED))
        return;
    enum wire_view_state s = make_view(h);
    bool wait = h->i.size <= WAIT_SIZE_MAX && atomic_load(&waits_lost) < WAITS_MAX;
    while (s == WIRE_VIEW_PENDING && wait) {
        u64 now = host_clock(1);
        if (now - start > WAIT_NS) {
            atomic_add(&waits_lost, 1);
            break;
        }
        long r = wait_event_deadline(&nobody, false, now + pause);
        if (r == -EINTR) /* a signal: later */
            return;
        pause = MIN(pause * 2, 8000000ull);
        s = make_view(h);
    }
    if (s != WIRE_VIEW_READY)
        atomic_store(&h->view_retry, host_clock(1) + RETRY_NS);
}

long host_view(struct file *f, bool make, struct view_entry *out, int *view_fd)
{
    struct host_inode *h = host_of(f->inode);
    u64 off;
    u32 pack;
    if (make && !host_view_copy(h, &pack, &off))
        make_and_wait(h);
    long r = -ENOENT;
    mutex_lock(&view_lock);
    if (current_view(h) && h->view->seg_count) {
        *out = *h->view;
        *view_fd = (int)h->view_pack;
        r = 0;
    }
    mutex_unlock(&view_lock);
    return r;
}
