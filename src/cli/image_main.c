/* harena-image: `harena image build DIR|TAR -o FILE`. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "image/image.h"

static int problem(const char *text)
{
    fprintf(stderr, "harena: %s\n", text);
    return 125;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = { { "output", 1, 0, 'o' }, { "no-views", 0, 0, 'n' },
                                                  { "one-file-system", 0, 0, 'x' }, { 0 } };
    static const char usage[] = "usage: harena image build [--no-views] [--one-file-system] DIR|TAR|- -o FILE";
    struct image_options options = { 0 };
    struct image_stats stats = { 0 };
    struct image_error err = { "" };
    const char *out = NULL;
    struct stat st;
    int c;
    if (argc < 2 || strcmp(argv[1], "build"))
        return problem(usage);
    optind = 2;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "o:", long_options, NULL)) >= 0) {
        switch (c) {
        case 'o': out = optarg; break;
        case 'n': options.no_views = true; break;
        case 'x': options.one_file_system = true; break;
        default: return problem(usage);
        }
    }
    if (!out || optind + 1 != argc)
        return problem(usage);
    const char *source = argv[optind];
    int r;
    if (!strcmp(source, "-")) {
        r = image_build_tar_fd(0, out, &options, &stats, &err);
    } else if (stat(source, &st) < 0) {
        fprintf(stderr, "harena: %s: %m\n", source);
        return 125;
    } else if (S_ISDIR(st.st_mode)) {
        r = image_build_dir(source, out, &options, &stats, &err);
    } else {
        r = image_build_tar(source, out, &options, &stats, &err);
    }
    if (r < 0)
        return problem(err.msg);
    printf("%s: %llu files, %llu bytes, %u programs prepared\n", out, (unsigned long long)stats.inodes,
           (unsigned long long)stats.bytes, stats.views);
    return 0;
}
