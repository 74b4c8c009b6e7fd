/* Interface ioctls (netdevice(7)) of a host that has only `lo`. */
#include <linux/in.h>
#include <linux/sockios.h>

#include "base/string.h"
#include "core/uaccess.h"
#include "net/sock.h"

/* <linux/if.h> needs a C library: the parts of netdevice(7) that are used. */
#define IFNAMSIZ 16
#define IFF_UP 1
#define IFF_LOOPBACK 8
#define IFF_RUNNING 64
#define ARPHRD_LOOPBACK 772

struct sockaddr_any {
    u16 family;
    u8 data[14];
};

struct ifreq {
    char ifr_name[IFNAMSIZ];
    union {
        struct sockaddr_any ifr_addr, ifr_hwaddr;
        s16 ifr_flags;
        s32 ifr_ifindex, ifr_mtu, ifr_metric, ifr_qlen;
        u8 pad[24];
    };
};

struct ifconf {
    s32 ifc_len, pad;
    u64 ifc_buf;
};

#define LO_FLAGS (IFF_UP | IFF_LOOPBACK | IFF_RUNNING)

static void fill_in4(struct sockaddr_any *sa, u32 be_addr)
{
    struct sockaddr_in in;
    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = be_addr;
    memcpy(sa, &in, sizeof(in));
}

static void fill_lo(struct ifreq *r)
{
    memset(r, 0, sizeof(*r));
    str_copy(r->ifr_name, "lo", sizeof(r->ifr_name));
    fill_in4(&r->ifr_addr, __builtin_bswap32(0x7f000001));
}

static long get_conf(uptr arg)
{
    struct ifconf c;
    struct ifreq r;

    if (get_user(c, arg))
        return -EFAULT;
    if (c.ifc_len < 0)
        return -EINVAL;
    fill_lo(&r);
    if (!c.ifc_buf) {
        c.ifc_len = sizeof(r);
    } else if (c.ifc_len >= (int)sizeof(r)) {
        if (put_user(r, c.ifc_buf))
            return -EFAULT;
        c.ifc_len = sizeof(r);
    } else {
        c.ifc_len = 0;
    }
    return put_user(c, arg);
}

long if_ioctl(struct sock *s, u32 cmd, uptr arg)
{
    struct ifreq r;

    (void)s;
    if (cmd == SIOCGIFCONF)
        return get_conf(arg);
    if (cmd < 0x8910 || cmd > 0x8970)
        return -ENOTTY;
    if (get_user(r, arg))
        return -EFAULT;
    r.ifr_name[IFNAMSIZ - 1] = 0;
    if (cmd == SIOCGIFNAME) {
        if (r.ifr_ifindex != LO_INDEX)
            return -ENODEV;
        str_copy(r.ifr_name, "lo", sizeof(r.ifr_name));
        return put_user(r, arg);
    }
    if (strcmp(r.ifr_name, "lo"))
        return -ENODEV;
    switch (cmd) {
    case SIOCGIFFLAGS: r.ifr_flags = LO_FLAGS; break;
    case SIOCGIFADDR: fill_in4(&r.ifr_addr, __builtin_bswap32(0x7f000001)); break;
    case SIOCGIFNETMASK: fill_in4(&r.ifr_addr, __builtin_bswap32(0xff000000)); break;
    case SIOCGIFDSTADDR: fill_in4(&r.ifr_addr, __builtin_bswap32(0x7f000001)); break;
    case SIOCGIFBRDADDR: fill_in4(&r.ifr_addr, 0); break;
    case SIOCGIFINDEX: r.ifr_ifindex = LO_INDEX; break;
    case SIOCGIFMTU: r.ifr_mtu = LO_MTU; break;
    case SIOCGIFMETRIC: r.ifr_metric = 0; break;
    case SIOCGIFTXQLEN: r.ifr_qlen = 1000; break;
    case SIOCGIFHWADDR:
        memset(&r.ifr_hwaddr, 0, sizeof(r.ifr_hwaddr));
        r.ifr_hwaddr.family = ARPHRD_LOOPBACK;
        break;
    case SIOCSIFFLAGS: case SIOCSIFADDR: case SIOCSIFNETMASK: case SIOCSIFMTU: case SIOCSIFHWADDR: case SIOCSIFBRDADDR:
        return -EPERM;
    default:
        return -EOPNOTSUPP;
    }
    return put_user(r, arg);
}
