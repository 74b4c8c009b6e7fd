/* What the files of AF_INET and AF_INET6 share. */
#ifndef HARENA_NET_INET_H
#define HARENA_NET_INET_H

#include "net/sock.h"

bool addr_is_v4(const u8 a[16]);
u32 inet_addr_out(u16 family, const struct inet_end *e, void *out); /* sockaddr of the family; its size */
long inet_setopt(struct sock *s, int level, int opt, const void *val, u32 size);
long inet_getopt(struct sock *s, int level, int opt, void *val, u32 *size);

#endif
