/* What a sandbox was started with: its kernel and images, as lines "DEV INO SIZE MTIME PATH" in info.json, so that a snapshot
 * taken later does not name a file that has taken their place. Not the ctime: it changes with every hard link (perf makes some), chmod
 * and rename of the same content. Updates make another inode, or at least write. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_line(FILE *f, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !strchr(path, '\n'))
        fprintf(f, "%llx %llx %llx %lld.%09ld %s\n", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
                (unsigned long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, path);
}

char *origin_files(const char *kernel, const struct harena_mount *mounts, u32 count)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    put_line(f, kernel);
    for (u32 i = 0; i < count; i++)
        if (mounts[i].kind == MOUNT_IMAGE && mounts[i].source)
            put_line(f, mounts[i].source);
    fclose(f);
    return text;
}

static int check_files(const char *files, struct harena_error *err)
{
    for (const char *line = files; *line;) {
        const char *end = strchrnul(line, '\n'), *path = line;
        char name[PATH_MAX], *now = NULL;
        size_t size;
        for (int i = 0; i < 4 && path < end; i++)
            path += strcspn(path, " \n") + 1;
        if (path >= end)
            break;
        snprintf(name, sizeof(name), "%.*s", (int)(end - path), path);
        FILE *f = open_memstream(&now, &size);
        if (!f)
            break;
        put_line(f, name);
        fclose(f);
        bool same = now && size == (size_t)(end - line) + 1 && !strncmp(now, line, size - 1);
        free(now);
        if (!same) {
            harena_error_set(err, 125, "%s was changed or replaced since the sandbox was started, so a snapshot could not be restored", name);
            return -1;
        }
        line = *end ? end + 1 : end;
    }
    return 0;
}

int harena_origin(const char *name, struct harena_origin *out, struct harena_error *err)
{
    int dir = state_open(name, err);
    if (dir < 0)
        return -1;
    *out = (struct harena_origin){ 0 };
    json_t *info = state_read_info(dir);
    snprintf(out->snapshot, sizeof(out->snapshot), "%s", json_string_value(json_object_get(info, "snapshot")) ?: "");
    snprintf(out->snapshot_id, sizeof(out->snapshot_id), "%s", json_string_value(json_object_get(info, "snapshot_id")) ?: "");
    limits_from_json(json_object_get(info, "limits"), &out->limits);
    int r = check_files(json_string_value(json_object_get(info, "files")) ?: "", err);
    json_decref(info);
    close(dir);
    return r;
}

int harena_kernel_path(const char *libexec, char *out, size_t room, struct harena_error *err)
{
    char path[PATH_MAX];
    if (find_program(libexec, "harena-kernel", "../launch", path, err) < 0)
        return -1;
    if ((size_t)snprintf(out, room, "%s", path) < room)
        return 0;
    harena_error_set(err, 125, "the path of harena-kernel is too long");
    return -1;
}
