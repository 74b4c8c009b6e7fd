/* Lines of /proc/net/tcp, udp and unix: proc(5). Called with the table's lock held: only what does not change, or may be a little old, is
 * read of a sock. */
#include "net/show.h"

#include "base/string.h"
#include "core/strbuf.h"
#include "net/inet.h"
#include "vfs/vfs.h"

enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_CLOSE = 7, TCP_LISTEN = 10 };

static u64 inode_of(struct sock *s)
{
    mutex_lock(&s->lock);
    struct file *f = s->dead ? NULL : s->file;
    u64 ino = f && f->inode ? f->inode->ino : 0;
    mutex_unlock(&s->lock);
    return ino;
}

static u32 state_of(const struct sock *s)
{
    switch (s->state) {
    case SOCK_LISTEN: return TCP_LISTEN;
    case SOCK_CONNECTED: return TCP_ESTABLISHED;
    case SOCK_CONNECTING: return TCP_SYN_SENT;
    default: return TCP_CLOSE;
    }
}

static void put_end(struct strbuf *sb, u16 family, const struct inet_end *e)
{
    u32 w[4];
    memcpy(w, e->addr, 16);
    if (family == AF_INET)
        sb_printf(sb, "%08X:%04X ", w[3], e->port);
    else
        sb_printf(sb, "%08X%08X%08X%08X:%04X ", w[0], w[1], w[2], w[3], e->port);
}

void inet_show_line(struct strbuf *sb, struct sock *s, u32 *n)
{
    static const struct inet_end none;
    bool tcp = s->type == SOCK_STREAM;
    sb_printf(sb, tcp ? "%4u: " : "%5u: ", (*n)++);
    put_end(sb, s->family, &s->in.local);
    put_end(sb, s->family, s->in.remote.port ? &s->in.remote : &none);
    sb_printf(sb, "%02X %08X:%08X 00:00000000 00000000 %5u        0 %lu %u 0000000000000000", state_of(s), 0u, ring_len(&s->rx),
              s->cred.uid, inode_of(s), s->refs);
    sb_printf(sb, tcp ? " 100 0 0 10 0\n" : " 0\n");
}

void unix_show_line(struct strbuf *sb, struct sock *s)
{
    const struct unix_name *name = s->un.name;
    bool listening = s->state == SOCK_LISTEN;
    sb_printf(sb, "0000000000000000: %08X 00000000 %08X %04X %02X %5lu", s->refs, listening ? 0x10000u : 0u, s->type,
              s->state == SOCK_CONNECTED ? 3u : 1u, inode_of(s));
    if (name && name->size > 2) {
        const char *path = (const char *)name->addr + 2;
        sb_printf(sb, " ");
        for (u32 i = 0; i < name->size - 2u && (path[i] || (!i && !path[0])); i++) /* an abstract name starts with @ */
            sb_printf(sb, "%c", path[i] ? path[i] : '@');
    }
    sb_printf(sb, "\n");
}
