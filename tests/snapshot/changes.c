/* changes SEED FILE: memory in random use, for snapshots of copies of copies. Each line of standard input makes a round: look that every page
 * is as it should be (here, in a child of the last round and in a program that it has executed), change things by chance, look again, make a
 * new child and program; prints "good" or what is wrong. What each page should be is kept page by page. FILE: 32 pages of the byte 7.
 * changes -program SEED: fills memory, and looks at it when standard input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES 32
#define CHUNKS 48
#define OPS 400

enum kind { ANON, TMP_FILE, HOST_FILE, SHARED, KINDS };
static struct chunk {
    char *at;
    unsigned char byte[PAGES];
    int prot[PAGES];
    enum kind kind;
} chunks[CHUNKS];
static unsigned long seed;
static int fds[KINDS];
static pid_t keeper, program;
static int ask[2], in[2] = {-1, -1}; /* in: of the program */
static bool shared_stays; /* in a child, which looks after shared memory may have changed */

static unsigned chance(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}

static void fail(const char *what, const struct chunk *c, unsigned page)
{
    printf("bad: %s (%m): chunk %ld (kind %d), page %u: %d, should be %d\n", what, (long)(c - chunks), c->kind, page, c->at[page * PAGE], c->byte[page]);
    fflush(stdout);
    _exit(1);
}

static void look(const char *what)
{
    for (struct chunk *c = chunks; c < chunks + CHUNKS; c++)
        for (unsigned p = 0; p < PAGES; p++) {
            char *at = c->at + p * PAGE;
            if (c->kind == SHARED && shared_stays)
                continue;
            if (!(c->prot[p] & PROT_READ))
                mprotect(at, PAGE, PROT_READ);
            if (at[0] != c->byte[p] || memcmp(at, at + 1, PAGE - 1))
                fail(what, c, p);
            if (!(c->prot[p] & PROT_READ))
                mprotect(at, PAGE, c->prot[p]);
        }
}

static void map(struct chunk *c, unsigned first, unsigned end)
{
    int flags = c->kind == SHARED ? MAP_SHARED | MAP_ANONYMOUS : c->kind == ANON ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    char *want = c->at ? c->at + first * PAGE : NULL;
    char *p = mmap(want, (end - first) * PAGE, PROT_READ | PROT_WRITE, flags | (want ? MAP_FIXED : 0), flags & MAP_ANONYMOUS ? -1 : fds[c->kind],
                   flags & MAP_ANONYMOUS ? 0 : (off_t)(first * PAGE));
    if (p == MAP_FAILED)
        fail("mmap", c, first);
    c->at = want ? c->at : p;
    for (unsigned i = first; i < end; i++) {
        c->byte[i] = c->kind == ANON || c->kind == SHARED ? 0 : 7;
        c->prot[i] = PROT_READ | PROT_WRITE;
    }
}

static bool whole(const struct chunk *c) /* one mapping: mremap wants that */
{
    for (unsigned i = 1; i < PAGES; i++)
        if (c->prot[i] != c->prot[0])
            return false;
    return true;
}

static void change(void)
{
    static const int prots[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    struct chunk *c = &chunks[chance(CHUNKS)];
    unsigned first = chance(PAGES), end = first + 1 + chance(PAGES - first);
    unsigned char byte = (unsigned char)(chance(3) ? 1 + chance(120) : 0);
    int prot = prots[chance(5)];
    char *to;
    switch (chance(8)) {
    case 0: case 1:
        for (unsigned i = first; i < end; i++)
            if (c->prot[i] & PROT_WRITE && !(c->kind == SHARED && shared_stays))
                memset(c->at + i * PAGE, c->byte[i] = byte, PAGE);
        break;
    case 2:
        if (madvise(c->at + first * PAGE, (end - first) * PAGE, MADV_DONTNEED))
            fail("madvise", c, first);
        for (unsigned i = first; i < end; i++)
            c->byte[i] = c->kind == SHARED ? c->byte[i] : c->kind == ANON ? 0 : 7;
        break;
    case 3:
        if (c->kind != SHARED) /* a new one would be another object: mremap could not take both */
            map(c, first, end);
        break;
    case 4: /* all of it, or what is one mapping only in our eyes: piece by piece */
        to = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (unsigned i = 0; i < PAGES; i++)
            if (mremap(c->at + i * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + i * PAGE) == MAP_FAILED)
                fail("mremap", c, i);
        c->at = to;
        break;
    case 5:
        if (mprotect(c->at + first * PAGE, (end - first) * PAGE, prot))
            fail("mprotect", c, first);
        for (unsigned i = first; i < end; i++)
            c->prot[i] = prot;
        break;
    case 6: /* shrinks and grows */
        if (c->kind != ANON || !whole(c) || first == 0)
            break;
        if (munmap(c->at + first * PAGE, (PAGES - first) * PAGE))
            fail("munmap", c, first);
        if ((to = mremap(c->at, first * PAGE, PAGES * PAGE, MREMAP_MAYMOVE)) == MAP_FAILED) { /* to Linux these are two mappings */
            map(c, first, PAGES);
            for (unsigned i = first; i < PAGES; i++)
                c->prot[i] = c->prot[0];
            mprotect(c->at + first * PAGE, (PAGES - first) * PAGE, c->prot[0]);
            break;
        }
        c->at = to;
        memset(c->byte + first, 0, PAGES - first);
        break;
    case 7:
        if (c->kind != ANON)
            break;
        for (unsigned i = first; i < end; i++) {
            to = mremap(c->at + i * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
            if (to == MAP_FAILED)
                break; /* some kernels do not like all mappings */
            munmap(to, PAGE);
            c->byte[i] = 0;
        }
        break;
    }
}

static void await(pid_t pid, const char *what)
{
    int st = 0;
    waitpid(pid, &st, 0);
    if (st) {
        printf("bad: %s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

/* Pages of a program that was executed: some are written again when it is asked to by a byte. */
static int program_main(void)
{
    static unsigned char byte[1024];
    char *at = mmap(NULL, sizeof(byte) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), x;
    for (unsigned i = 0; i < sizeof(byte); i++)
        if (chance(2))
            memset(at + i * PAGE, byte[i] = (unsigned char)(1 + chance(200)), PAGE);
    while (read(0, &x, 1) == 1) {
        unsigned i = chance(sizeof(byte));
        memset(at + i * PAGE, byte[i] = (unsigned char)chance(200), PAGE);
    }
    for (unsigned i = 0; i < sizeof(byte); i++)
        if ((unsigned char)at[i * PAGE] != byte[i] || memcmp(at + i * PAGE, at + i * PAGE + 1, PAGE - 1))
            return 1;
    return 0;
}

static void new_program(void)
{
    static int rounds;
    char text[32];
    if (program && write(in[1], "xxx", 3) != 3)
        fail("program", chunks, 0);
    if (rounds++ % 4)
        return;
    if (program) {
        close(in[1]);
        await(program, "the program");
    }
    sprintf(text, "%lu", seed);
    if (pipe2(in, O_CLOEXEC))
        _exit(2);
    if (!(program = fork())) {
        dup2(in[0], 0);
        execl("/proc/self/exe", "changes", "-program", text, NULL);
        _exit(2);
    }
    close(in[0]);
}

static void new_keeper(void)
{
    if (keeper) {
        close(ask[1]);
        await(keeper, "the child");
    }
    if (pipe2(ask, O_CLOEXEC))
        _exit(2);
    if (!(keeper = fork())) {
        char x;
        close(ask[1]);
        close(in[1]);
        shared_stays = true;
        for (int i = 0; i < OPS / 4; i++)
            change();
        if (read(ask[0], &x, 1) == 0)
            look("a child");
        _exit(0);
    }
    close(ask[0]);
}

int main(int argc, char **argv)
{
    char line[64] = "";
    FILE *t = tmpfile();
    static char page[PAGE];
    if (argc < 3)
        return 2;
    seed = strtoul(strcmp(argv[1], "-program") ? argv[1] : argv[2], NULL, 0);
    if (!strcmp(argv[1], "-program"))
        return program_main();
    memset(page, 7, PAGE);
    for (int i = 0; i < PAGES; i++)
        fwrite(page, PAGE, 1, t);
    fflush(t);
    fds[TMP_FILE] = fileno(t);
    fds[HOST_FILE] = open(argv[2], O_RDONLY);
    for (int i = 0; i < CHUNKS; i++) {
        chunks[i].kind = i % 4 ? ANON : (enum kind)(i / 4 % KINDS);
        map(&chunks[i], 0, PAGES);
    }
    do {
        bool quiet = line[0] == 'q'; /* touches nothing that it does not change */
        if (!quiet)
            look("before");
        for (int i = 0; i < OPS; i++)
            change();
        if (!quiet) {
            look("after");
            new_keeper();
            new_program();
        }
        puts("good");
        fflush(stdout);
    } while (fgets(line, sizeof(line), stdin));
    return 0;
}
