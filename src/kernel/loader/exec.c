/* See exec.h. The initial stack: System V ABI, AMD64 supplement, 3.4. Scripts: Linux's rules (Documentation and
 * fs/binfmt_script's behaviour): one optional argument, the rest of the line; at most 4 levels. */
#include "loader/exec.h"

#include <linux/auxvec.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#include "arch/x86_64/regs.h"
#include "base/err.h"
#include "base/layout.h"
#include "base/string.h"
#include "core/current.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/random.h"
#include "core/uaccess.h"
#include "mm/mm.h"
#include "vfs/dentry.h"
#include "vfs/vfs.h"

#define SCRIPT_LINE 256
#define SCRIPT_DEPTH 5
#define RLIM_STACK 3
#define AUX_MAX 24
#define MODE_IFMT 0170000u
#define MODE_IFREG 0100000u
#define MODE_IFLNK 0120000u

extern char gvdso_start[] __attribute__((weak));

/* An executable file, writing denied. */
static struct file *open_exec(int dirfd, const char *path, int at_flags)
{
    struct path p;
    u32 look = (at_flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) | (at_flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0);
    long r = path_lookup(dirfd, path, look, &p);
    if (r)
        return ERR_PTR(r);
    struct inode *i = p.dentry->inode;
    struct file *f = NULL;
    if ((i->mode & MODE_IFMT) == MODE_IFLNK)
        r = -ELOOP;
    else if ((i->mode & MODE_IFMT) != MODE_IFREG)
        r = -EACCES;
    if (!r) {
        f = file_open_exec(&p);
        r = IS_ERR(f) ? PTR_ERR(f) : 0;
    }
    path_put(&p);
    if (r)
        return ERR_PTR(r);
    r = deny_write(f);
    if (r) {
        file_put(f);
        return ERR_PTR(r);
    }
    return f;
}

static void close_exec(struct file *f)
{
    if (f) {
        allow_write(f);
        file_put(f);
    }
}

static long room(struct exec_args *a, u64 more)
{
    if (a->strings_size + more <= a->strings_cap)
        return 0;
    u64 cap = MAX(MAX(a->strings_cap * 2, a->strings_size + more), 4096ul);
    char *p = krealloc(a->strings, a->strings_cap, cap);
    if (!p)
        return -ENOMEM;
    a->strings = p;
    a->strings_cap = cap;
    return 0;
}

static u64 weight(const struct exec_args *a) { return a->strings_size + 8ul * ((u64)a->argc + a->envc); }

static long copy_vector(struct exec_args *a, uptr vec, u32 *count, char *tmp)
{
    if (!vec)
        return 0;
    for (;; vec += 8) {
        u64 s;
        if (get_user(s, vec))
            return -EFAULT;
        if (!s)
            return 0;
        /* Pieces of one page: most strings are short. */
        u64 len = 0;
        for (;;) {
            long n = strncpy_from_user(tmp, s + len, PAGE_SIZE);
            if (n < 0 && n != -ENAMETOOLONG)
                return n;
            u64 piece = n < 0 ? PAGE_SIZE : (u64)n + 1;
            if (len + piece > EXEC_STRING_MAX || weight(a) + piece + 8 > EXEC_STRINGS_MAX)
                return -E2BIG;
            long r = room(a, piece);
            if (r)
                return r;
            memcpy(a->strings + a->strings_size, tmp, piece);
            a->strings_size += piece;
            len += piece;
            if (n >= 0)
                break;
        }
        ++*count;
        if (signal_pending() && !(*count & 1023))
            return -ERESTARTNOINTR;
    }
}

static long copy_args(struct exec_args *a, uptr argv, uptr envp)
{
    char *tmp = kmalloc(PAGE_SIZE);
    if (!tmp)
        return -ENOMEM;
    long r = copy_vector(a, argv, &a->argc, tmp);
    if (!r && !a->argc) {
        r = room(a, 1);
        if (!r) {
            a->strings[a->strings_size++] = 0;
            a->argc = 1;
        }
    }
    if (!r)
        r = copy_vector(a, envp, &a->envc, tmp);
    kfree(tmp);
    return r;
}

/* argv[0] is replaced by up to three strings. */
static long script_args(struct exec_args *a, const char *interp, const char *arg, const char *script)
{
    size_t ni = strlen(interp) + 1, na = arg ? strlen(arg) + 1 : 0, ns = strlen(script) + 1;
    size_t drop = strlen(a->strings) + 1, add = ni + na + ns;
    if (weight(a) + add + 16 > EXEC_STRINGS_MAX)
        return -E2BIG;
    long r = room(a, add);
    if (r)
        return r;
    memmove(a->strings + add, a->strings + drop, a->strings_size - drop);
    memcpy(a->strings, interp, ni);
    if (arg)
        memcpy(a->strings + ni, arg, na);
    memcpy(a->strings + ni + na, script, ns);
    a->strings_size += add - drop;
    a->argc += arg ? 2 : 1;
    return 0;
}

static bool blank(char c) { return c == ' ' || c == '\t'; }

/* 1: a script, *interp and *arg point into line; 0: not one; or an errno. line has SCRIPT_LINE + 1 bytes. */
static long parse_script(struct file *f, char *line, char **interp, char **arg)
{
    long n = file_read_kernel(f, line, SCRIPT_LINE, 0);
    if (n < 0)
        return n;
    if (n < 2 || line[0] != '#' || line[1] != '!')
        return 0;
    line[n] = 0;
    char *end = memchr(line, '\n', (size_t)n);
    bool cut = !end && n == SCRIPT_LINE;
    if (!end)
        end = line + strlen(line);
    while (end > line + 2 && blank(end[-1]))
        end--;
    *end = 0;
    char *s = line + 2;
    while (blank(*s))
        s++;
    if (!*s)
        return -ENOEXEC;
    *interp = s;
    while (*s && !blank(*s))
        s++;
    if (!*s && cut)
        return -ENOEXEC; /* the name may be truncated */
    *arg = NULL;
    if (*s) {
        *s++ = 0;
        while (blank(*s))
            s++;
        if (*s)
            *arg = s;
    }
    return 1;
}

static long resolve_scripts(struct exec_args *a)
{
    char *line = kmalloc(SCRIPT_LINE + 1), *script = kstrdup(a->execfn);
    long r = line && script ? 0 : -ENOMEM;
    for (int depth = 0; !r; depth++) {
        char *interp, *arg;
        r = parse_script(a->exe, line, &interp, &arg);
        if (r <= 0)
            break;
        r = depth == SCRIPT_DEPTH ? -ELOOP : script_args(a, interp, arg, script);
        if (r)
            break;
        struct file *f = open_exec(AT_FDCWD, interp, 0);
        if (IS_ERR(f)) {
            r = PTR_ERR(f);
            break;
        }
        close_exec(a->exe);
        a->exe = f;
        kfree(script);
        script = kstrdup(interp);
        if (!script)
            r = -ENOMEM;
    }
    kfree(line);
    kfree(script);
    return r;
}

static long read_images(struct exec_args *a)
{
    long r = elf_read(a->exe, &a->exe_elf);
    if (r || !a->exe_elf.interp)
        return r;
    struct file *f = open_exec(AT_FDCWD, a->exe_elf.interp, 0);
    if (IS_ERR(f))
        return PTR_ERR(f);
    a->interp = f;
    r = elf_read(f, &a->interp_elf);
    return r == -ENOEXEC ? -ELIBBAD : r;
}

static long set_names(struct exec_args *a, int dirfd, const char *path)
{
    const char *slash = strrchr(path, '/');
    str_copy(a->comm, slash ? slash + 1 : path, sizeof(a->comm));
    if (dirfd == AT_FDCWD || path[0] == '/') {
        a->execfn = kstrdup(path);
    } else {
        size_t size = strlen(path) + 32;
        a->execfn = kmalloc(size);
        if (a->execfn)
            fmt_print(a->execfn, size, path[0] ? "/dev/fd/%d/%s" : "/dev/fd/%d%s", dirfd, path);
        if (!path[0])
            fmt_print(a->comm, sizeof(a->comm), "%d", dirfd);
    }
    return a->execfn ? 0 : -ENOMEM;
}

static long prepare(struct exec_args *a, int dirfd, const char *path, int at_flags)
{
    a->exe = open_exec(dirfd, path, at_flags);
    if (IS_ERR(a->exe)) {
        long r = PTR_ERR(a->exe);
        a->exe = NULL;
        return r;
    }
    return set_names(a, dirfd, path);
}

static long finish(struct exec_args *a, long r, struct exec_args **out)
{
    if (!r)
        r = resolve_scripts(a);
    if (!r)
        r = read_images(a);
    if (r)
        exec_free(a);
    else
        *out = a;
    return r;
}

long exec_prepare(int dirfd, const char *path, int at_flags, uptr argv, uptr envp, struct exec_args **out)
{
    if (at_flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return -EINVAL;
    struct exec_args *a = knew(struct exec_args);
    if (!a)
        return -ENOMEM;
    long r = prepare(a, dirfd, path, at_flags);
    if (!r)
        r = copy_args(a, argv, envp);
    return finish(a, r, out);
}

long exec_prepare_kernel(const char *path, const char *strings, u64 size, u32 argc, u32 envc, struct exec_args **out)
{
    if (!argc || !size || size > EXEC_STRINGS_MAX || strings[size - 1])
        return -EINVAL;
    u64 found = 0;
    for (u64 i = 0; i < size; i++)
        found += !strings[i];
    if (found != (u64)argc + envc)
        return -EINVAL;
    struct exec_args *a = knew(struct exec_args);
    if (!a)
        return -ENOMEM;
    long r = prepare(a, AT_FDCWD, path, 0);
    if (!r)
        r = room(a, size);
    if (!r) {
        memcpy(a->strings, strings, size);
        a->strings_size = size;
        a->argc = argc;
        a->envc = envc;
    }
    return finish(a, r, out);
}

void exec_free(struct exec_args *a)
{
    close_exec(a->exe);
    close_exec(a->interp);
    elf_free(&a->exe_elf);
    elf_free(&a->interp_elf);
    kfree(a->strings);
    kfree(a->execfn);
    kfree(a);
}

static u32 cpuid(u32 leaf, u32 sub, u32 *ebx, u32 *edx)
{
    u32 eax, ecx;
    __asm__ volatile("cpuid" : "=a"(eax), "=b"(*ebx), "=c"(ecx), "=d"(*edx) : "a"(leaf), "c"(sub));
    return eax;
}

struct aux {
    u64 *v;
    u32 n;
};

static void aux_add(struct aux *x, u64 type, u64 value)
{
    x->v[x->n++] = type;
    x->v[x->n++] = value;
}

/* Address of the program headers in memory: PT_PHDR, or the segment that holds them. */
static u64 phdr_addr(const struct elf_image *e, u64 bias)
{
    for (u32 i = 0; i < e->eh.e_phnum; i++)
        if (e->ph[i].p_type == PT_PHDR)
            return bias + e->ph[i].p_vaddr;
    for (u32 i = 0; i < e->eh.e_phnum; i++) {
        const Elf64_Phdr *p = &e->ph[i];
        if (p->p_type == PT_LOAD && e->eh.e_phoff >= p->p_offset && e->eh.e_phoff - p->p_offset < p->p_filesz)
            return bias + p->p_vaddr + (e->eh.e_phoff - p->p_offset);
    }
    return 0;
}

struct stack_info {
    u64 bias, interp_base; /* interp_base 0: none */
    u64 random, platform, execfn;
};

static void fill_aux(struct aux *x, const struct exec_args *a, const struct stack_info *s)
{
    const struct cred *c = current_cred();
    u32 ebx, edx, hwcap, frame = 0;
    u32 max = cpuid(0, 0, &ebx, &edx);
    cpuid(1, 0, &ebx, &hwcap);
    if (max >= 13)
        cpuid(13, 0, &frame, &edx);
    if (gvdso_start)
        aux_add(x, AT_SYSINFO_EHDR, (u64)gvdso_start);
    aux_add(x, AT_MINSIGSTKSZ, MAX(2048ul, (u64)frame + 1024));
    aux_add(x, AT_HWCAP, hwcap);
    aux_add(x, AT_PAGESZ, PAGE_SIZE);
    aux_add(x, AT_CLKTCK, 100);
    aux_add(x, AT_PHDR, phdr_addr(&a->exe_elf, s->bias));
    aux_add(x, AT_PHENT, sizeof(Elf64_Phdr));
    aux_add(x, AT_PHNUM, a->exe_elf.eh.e_phnum);
    aux_add(x, AT_BASE, s->interp_base);
    aux_add(x, AT_FLAGS, 0);
    aux_add(x, AT_ENTRY, s->bias + a->exe_elf.eh.e_entry);
    aux_add(x, AT_UID, c->uid);
    aux_add(x, AT_EUID, c->euid);
    aux_add(x, AT_GID, c->gid);
    aux_add(x, AT_EGID, c->egid);
    aux_add(x, AT_SECURE, c->uid != c->euid || c->gid != c->egid);
    aux_add(x, AT_RANDOM, s->random);
    aux_add(x, AT_HWCAP2, 2); /* FSGSBASE */
    aux_add(x, AT_EXECFN, s->execfn);
    aux_add(x, AT_PLATFORM, s->platform);
    aux_add(x, AT_NULL, 0);
}

/* From the top: null word, execfn, strings, platform, random; then auxv, envp, argv, argc. Returns the stack pointer. */
static long fill_stack(struct exec_args *a, struct mm *mm, struct stack_info *s)
{
    static const char platform[] = "x86_64";
    u8 random[16];
    size_t fn = strlen(a->execfn) + 1;
    u64 top = GUEST_STACK_TOP - 8;
    s->execfn = top - fn;
    u64 strings = s->execfn - a->strings_size;
    s->platform = strings - sizeof(platform);
    s->random = ALIGN_DOWN(s->platform - sizeof(random), 16);
    random_bytes(random, sizeof(random));
    if (copy_to_user(s->execfn, a->execfn, fn) || copy_to_user(strings, a->strings, a->strings_size) ||
        copy_to_user(s->platform, platform, sizeof(platform)) || copy_to_user(s->random, random, sizeof(random)))
        return -EFAULT;

    size_t words = 3 + (size_t)a->argc + a->envc + 2 * AUX_MAX;
    u64 *v = kmalloc(words * sizeof(u64));
    if (!v)
        return -ENOMEM;
    size_t n = 0;
    u64 off = 0;
    v[n++] = a->argc;
    mm->arg_start = strings;
    for (u32 i = 0; i < a->argc; i++, off += strlen(a->strings + off) + 1)
        v[n++] = strings + off;
    v[n++] = 0;
    mm->arg_end = mm->env_start = strings + off;
    for (u32 i = 0; i < a->envc; i++, off += strlen(a->strings + off) + 1)
        v[n++] = strings + off;
    v[n++] = 0;
    mm->env_end = strings + off;
    struct aux x = {v + n, 0};
    fill_aux(&x, a, s);
    n += x.n;
    u64 sp = ALIGN_DOWN(s->random - n * sizeof(u64), 16);
    mm->auxv_end = sp + n * sizeof(u64);
    mm->auxv_start = mm->auxv_end - x.n * sizeof(u64);
    mm_set_args(mm, a->strings, mm->arg_end - mm->arg_start, a->strings_size);
    long r = copy_to_user(sp, v, n * sizeof(u64));
    kfree(v);
    return r ? r : (long)sp;
}

static long map_stack(struct exec_args *a, struct mm *mm)
{
    u64 size = MIN(PAGE_DOWN(current_rlimit(RLIM_STACK)), GUEST_STACK_MAX);
    size = MAX(size, PAGE_UP(weight(a)) + (256ul << 10));
    int prot = PROT_READ | PROT_WRITE | (a->exe_elf.exec_stack ? PROT_EXEC : 0);
    long r = mm_map(mm, GUEST_STACK_TOP - size, size, prot,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_STACK, NULL, 0);
    if (is_err(r))
        return r;
    mm_lock(mm);
    struct vma *v = vma_find(mm, GUEST_STACK_TOP - PAGE_SIZE);
    v->flags |= VM_STACK;
    mm->stack_top = GUEST_STACK_TOP;
    mm_unlock(mm);
    return 0;
}

/* Behind everything of the program: bss and trampolines. */
static void place_brk(struct mm *mm, const struct exec_args *a, u64 bias)
{
    u64 end = bias + a->exe_elf.high;
    mm_lock(mm);
    for (u32 i = vma_lower(mm, end); i < mm->count && mm->vmas[i].start == end && mm->vmas[i].flags & VM_HIDDEN; i++)
        end = mm->vmas[i].end;
    mm->brk_start = mm->brk = end;
    mm_unlock(mm);
}

long exec_load(struct exec_args *a, struct mm *mm, struct regs *r)
{
    struct stack_info s = {0};
    const struct elf_image *e = &a->exe_elf;
    u64 base = 0, entry;
    if (e->eh.e_type == ET_DYN && e->high - e->low <= (GUEST_BRK_MAX - GUEST_EXE_BASE) / 2)
        base = GUEST_EXE_BASE; /* a multiple of any alignment that elf_read() lets through */
    long x = map_stack(a, mm);
    if (!x)
        x = elf_map(mm, a->exe, e, base, &s.bias);
    if (x)
        return x;
    place_brk(mm, a, s.bias);
    mm->code_start = s.bias + e->low;
    mm->code_end = s.bias + e->high;
    entry = s.bias + e->eh.e_entry;
    if (a->interp) {
        x = elf_map(mm, a->interp, &a->interp_elf, 0, &s.interp_base);
        if (x)
            return x;
        entry = s.interp_base + a->interp_elf.eh.e_entry;
    }
    long sp = fill_stack(a, mm, &s);
    if (is_err(sp))
        return sp;
    mm->exe = a->exe; /* with its hold on writers */
    a->exe = NULL;
    memset(r, 0, sizeof(*r));
    r->nr = ~0ull;
    r->rip = entry;
    r->rsp = (u64)sp;
    r->flags = 0x202;
    r->kind = ENTRY_EVENT;
    return 0;
}
