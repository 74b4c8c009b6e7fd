/* Formatting (see string.h for the supported subset) and number parsing. */
#include "base/string.h"

struct out {
    char *buf;
    size_t size, len;
};

static void put(struct out *o, char c)
{
    if (o->len + 1 < o->size)
        o->buf[o->len] = c;
    o->len++;
}

static void pad(struct out *o, char c, int n)
{
    while (n-- > 0)
        put(o, c);
}

struct spec {
    bool left, zero, plus;
    int width, prec;
};

static void put_text(struct out *o, const struct spec *sp, const char *s, int len)
{
    if (!sp->left)
        pad(o, ' ', sp->width - len);
    for (int i = 0; i < len; i++)
        put(o, s[i]);
    if (sp->left)
        pad(o, ' ', sp->width - len);
}

static void put_number(struct out *o, const struct spec *sp, u64 v, int base, bool neg, const char *digits)
{
    char tmp[24];
    int n = 0;
    do {
        tmp[n++] = digits[v % (u64)base];
        v /= (u64)base;
    } while (v);
    int sign = neg || sp->plus;
    int zeros = sp->prec > n ? sp->prec - n : 0;
    if (sp->zero && !sp->left && sp->prec < 0 && sp->width > n + sign)
        zeros = sp->width - n - sign;
    int total = n + zeros + sign;
    if (!sp->left)
        pad(o, ' ', sp->width - total);
    if (neg)
        put(o, '-');
    else if (sp->plus)
        put(o, '+');
    pad(o, '0', zeros);
    while (n)
        put(o, tmp[--n]);
    if (sp->left)
        pad(o, ' ', sp->width - total);
}

static const char *parse_spec(const char *f, struct spec *sp, va_list *ap)
{
    *sp = (struct spec){.prec = -1};
    for (;; f++) {
        if (*f == '-')
            sp->left = true;
        else if (*f == '0')
            sp->zero = true;
        else if (*f == '+')
            sp->plus = true;
        else
            break;
    }
    if (*f == '*') {
        sp->width = va_arg(*ap, int);
        f++;
    } else {
        while (*f >= '0' && *f <= '9')
            sp->width = sp->width * 10 + *f++ - '0';
    }
    if (*f == '.') {
        f++;
        sp->prec = 0;
        if (*f == '*') {
            sp->prec = va_arg(*ap, int);
            f++;
        } else {
            while (*f >= '0' && *f <= '9')
                sp->prec = sp->prec * 10 + *f++ - '0';
        }
    }
    return f;
}

int fmt_vprint(char *buf, size_t size, const char *f, va_list ap0)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    struct out o = {buf, size, 0};
    va_list ap;
    va_copy(ap, ap0);
    for (; *f; f++) {
        if (*f != '%') {
            put(&o, *f);
            continue;
        }
        struct spec sp;
        f = parse_spec(f + 1, &sp, &ap);
        int lng = 0, half = 0;
        for (; *f == 'l' || *f == 'z' || *f == 'h' || *f == 'j'; f++)
            *f == 'h' ? half++ : lng++;
        switch (*f) {
        case 'd':
        case 'i': {
            s64 v = lng ? va_arg(ap, s64) : va_arg(ap, int);
            put_number(&o, &sp, v < 0 ? -(u64)v : (u64)v, 10, v < 0, lower);
            break;
        }
        case 'u':
        case 'x':
        case 'X':
        case 'o': {
            u64 v = lng ? va_arg(ap, u64) : va_arg(ap, u32);
            if (half)
                v = half > 1 ? (u8)v : (u16)v;
            sp.plus = false;
            put_number(&o, &sp, v, *f == 'u' ? 10 : *f == 'o' ? 8 : 16, false, *f == 'X' ? upper : lower);
            break;
        }
        case 'p':
            put(&o, '0');
            put(&o, 'x');
            sp.plus = false;
            put_number(&o, &sp, (u64)va_arg(ap, void *), 16, false, lower);
            break;
        case 's': {
            const char *s = va_arg(ap, const char *);
            if (!s)
                s = "(null)";
            put_text(&o, &sp, s, (int)(sp.prec >= 0 ? strnlen(s, (size_t)sp.prec) : strlen(s)));
            break;
        }
        case 'c': {
            char c = (char)va_arg(ap, int);
            put_text(&o, &sp, &c, 1);
            break;
        }
        case '%':
            put(&o, '%');
            break;
        default:
            put(&o, '%');
            if (!*f)
                f--;
            else
                put(&o, *f);
        }
    }
    va_end(ap);
    if (size)
        buf[o.len < size ? o.len : size - 1] = 0;
    return (int)o.len;
}

int fmt_print(char *buf, size_t size, const char *f, ...)
{
    va_list ap;
    va_start(ap, f);
    int n = fmt_vprint(buf, size, f, ap);
    va_end(ap);
    return n;
}

size_t str_copy(char *dst, const char *src, size_t size)
{
    size_t n = strlen(src);
    if (size) {
        size_t m = n < size - 1 ? n : size - 1;
        memcpy(dst, src, m);
        dst[m] = 0;
    }
    return n;
}

u64 str_to_u64(const char *s, const char **end, int base)
{
    u64 v = 0;
    for (;; s++) {
        int d = *s >= '0' && *s <= '9' ? *s - '0' : (*s | 32) >= 'a' && (*s | 32) <= 'f' ? (*s | 32) - 'a' + 10 : 99;
        if (d >= base)
            break;
        v = v * (u64)base + (u64)d;
    }
    if (end)
        *end = s;
    return v;
}
