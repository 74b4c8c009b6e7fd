/* Text for /proc/net. */
#ifndef HARENA_NET_SHOW_H
#define HARENA_NET_SHOW_H

#include "base/types.h"

struct sock;
struct strbuf;
void inet_show(struct strbuf *sb, bool tcp, u16 family); /* inet.c: all bound socks, and the accepted ends of connections */
void unix_show(struct strbuf *sb); /* scm.c */
void inet_show_line(struct strbuf *sb, struct sock *s, u32 *n); /* show.c */
void unix_show_line(struct strbuf *sb, struct sock *s);

#endif
