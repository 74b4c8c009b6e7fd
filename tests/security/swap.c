/* swap DIR: turns DIR/a into a link to the directory above and back, and moves DIR/a/b out and in, until it is killed. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || chdir(argv[1]) || symlink("../out", "link") || symlink("..", "a/b/up"))
        return 1;
    for (;;) {
        rename("a", "a-away");
        rename("link", "a");
        rename("a", "link");
        rename("a-away", "a");
        rename("a/b", "../b-outside"); /* a walk that has got into it must not find what lies beside it there */
        rename("../b-outside", "a/b");
        rename("a", "../a-outside");
        rename("../a-outside", "a");
    }
}
