cat > fs_hammer.c <<'E'
/* Processes work on the same few names at once; each call may fail, none may hang, and what is left must be consistent. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned seed;
static int rnd(int n) { return rand_r(&seed) % n; }
static void name(char *b) { int d = rnd(4); sprintf(b, d == 3 ? "n%d" : "d%d/n%d", d == 3 ? rnd(6) : d, rnd(6)); }
static void work(int rounds)
{
    char a[64], b[64], buf[9000];
    struct stat st;
    for (int n = 0; n < rounds; n++) {
        name(a); name(b);
        switch (rnd(14)) {
        case 0: case 1: { int fd = open(a, O_CREAT | O_RDWR, 0600); if (fd >= 0) { memset(buf, 'a' + rnd(26), sizeof buf); write(fd, buf, 1 + rnd(8999)); lseek(fd, 0, 0); read(fd, buf, sizeof buf); close(fd); } break; }
        case 2: unlink(a); break;
        case 3: rename(a, b); break;
        case 4: link(a, b); break;
        case 5: symlink(b, a); break;
        case 6: stat(a, &st); break;
        case 7: mkdir(a, 0700); break;
        case 8: rmdir(a); break;
        case 9: renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE); break;
        case 10: { sprintf(a, "d%d", rnd(3)); DIR *d = opendir(a); if (d) { while (readdir(d)); closedir(d); } break; }
        case 11: truncate(a, rnd(20000)); break;
        case 12: { int fd = open(a, O_RDWR); if (fd >= 0) { char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); if (p != MAP_FAILED) munmap(p, 4096); close(fd); } break; }
        case 13: chmod(a, 0600 | rnd(8)); break;
        }
    }
}
int main(void)
{
    for (int d = 0; d < 3; d++) { char n[8]; sprintf(n, "d%d", d); mkdir(n, 0700); }
    for (int p = 0; p < 4; p++) if (!fork()) { seed = 77 + p; work(20000); _exit(0); }
    int bad = 0, s; while (wait(&s) > 0) bad += s != 0;
    printf("children failed: %d\n", bad);
    /* every name that is listed exists, link counts are what the names say */
    int missing = 0, wrong = 0; struct { ino_t i; int n, links; } f[400]; int files = 0;
    const char *dirs[] = {".", "d0", "d1", "d2"};
    for (int d = 0; d < 4; d++) {
        DIR *h = opendir(dirs[d]); struct dirent *e;
        while (h && (e = readdir(h))) {
            char n[600]; struct stat st; sprintf(n, "%s/%s", dirs[d], e->d_name);
            if (lstat(n, &st)) { missing++; continue; }
            if (!S_ISREG(st.st_mode) || strncmp(e->d_name, "n", 1)) continue;
            int k = 0; while (k < files && f[k].i != st.st_ino) k++;
            if (k == files) { f[files].i = st.st_ino; f[files].n = 0; f[files++].links = st.st_nlink; }
            f[k].n++;
        }
        if (h) closedir(h);
    }
    /* names below moved directories are not counted: only too many is wrong */
    for (int k = 0; k < files; k++) wrong += f[k].n > f[k].links;
    printf("missing %d wrong %d\n", missing, wrong);
    return 0;
}
E
gcc -w -O1 -o fs_hammer fs_hammer.c || exit 1
here=$PWD
for d in "$here" "$(mktemp -d)"; do
    rm -rf "$d/w"; mkdir "$d/w"
    (cd "$d/w" && "$here/fs_hammer")
    chmod -R u+rwx "$d/w"; rm -rf "$d/w"; [ ! -e "$d/w" ] && echo clean
done
