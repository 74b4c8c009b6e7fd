/* Shared writable mappings of host files. They show the file's window of D, as all processes of the sandbox do, and what they store
 * is written to the host's file later: at msync, fsync, unmapping, exit, and before a write call or another change of the file
 * touches the same pages. Stores are not seen by the kernel, so each page of the window has a hash of what the file is known to hold;
 * a page that differs is written. Programs outside the sandbox see stores only then, and what a killed sandbox had not written
 * is lost. i.lock is held everywhere. */
#include "fs/hostfs/hostfs.h"

#include "base/layout.h"
#include "core/dframe.h"
#include "core/kmalloc.h"

static u64 hash_of(const struct host_inode *h, u64 off)
{
    const u64 *p = (const u64 *)((char *)dwin_ptr(h->win) + off);
    u64 a = 0x9e3779b97f4a7c15ull, b = 0xc2b2ae3d27d4eb4full;
    for (u32 i = 0; i < PAGE_SIZE / 8; i += 2) { /* two independent lanes */
        a = (a ^ p[i]) * 0xff51afd7ed558ccdull;
        b = (b ^ p[i + 1]) * 0xc4ceb9fe1a85ec53ull;
        a ^= a >> 32;
        b ^= b >> 29;
    }
    return a ^ (b << 1 | b >> 63);
}

void host_wmap_filled(struct host_inode *h, u64 off, u64 size)
{
    u64 end = MIN(off + size, h->win_got);
    for (off = PAGE_DOWN(off); h->hash && off < end; off += PAGE_SIZE)
        if (host_have(h, off))
            h->hash[off >> PAGE_SHIFT] = off < PAGE_UP(h->i.size) ? hash_of(h, off) : 0;
}

long host_wmap_begin(struct host_inode *h)
{
    h->hash = kzalloc((h->win_got >> PAGE_SHIFT) * sizeof(u64));
    if (!h->hash)
        return -ENOMEM;
    h->write_mapped = true;
    host_wmap_filled(h, 0, MIN(h->win_got, PAGE_UP(h->i.size)));
    return 0;
}

void host_wmap_end(struct host_inode *h)
{
    kfree(h->hash);
    h->hash = NULL;
    h->write_mapped = false;
}

static bool changed(const struct host_inode *h, u64 off) { return host_have(h, off) && hash_of(h, off) != h->hash[off >> PAGE_SHIFT]; }

static long write_run(struct host_inode *h, u64 from, u64 to)
{
    while (from < to) {
        struct wire_attr w;
        struct broker_args a = {.op = WIRE_WRITE, .handle = h->handle, .mount = host_sb_of(&h->i)->mount,
                                .arg = {from, MIN(to - from, (u64)HOST_CHUNK), h->win + from}, .reply = &w, .reply_max = sizeof(w)};
        long r = broker_call(&a);
        if (r < 0)
            return r;
        if (!a.value || a.value > to - from)
            return -EIO;
        if (a.reply_size >= sizeof(w))
            host_set_attr(h, &w);
        from += a.value;
    }
    return 0;
}

long host_wmap_sync(struct host_inode *h, u64 from, u64 to)
{
    u64 end = MIN(MIN(to, h->win_got), PAGE_UP(h->i.size));
    long r = 0;
    bool wrote = false;
    while (!r && from < end) {
        if (!changed(h, from)) {
            from += PAGE_SIZE;
            continue;
        }
        u64 run = from;
        if (!wrote)
            r = host_handle_get(h, true);
        while (run < end && run - from < HOST_CHUNK && changed(h, run)) {
            h->hash[run >> PAGE_SHIFT] = hash_of(h, run); /* before the broker reads it: a later store differs again */
            run += PAGE_SIZE;
        }
        if (!r)
            r = write_run(h, from, MIN(run, h->i.size));
        wrote = true;
        from = run;
    }
    if (wrote)
        host_version(h, h->version);
    return r;
}
