#include "record/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* /proc/self/mountinfo, one letter after another: lines may be longer than any buffer. */
struct reader {
    int file;
    char data[4096];
    ssize_t bytes, at;
};

/* -1 at the end. */
static int next_letter(struct reader *reader)
{
    if (reader->at == reader->bytes) {
        reader->bytes = read(reader->file, reader->data, sizeof reader->data);
        reader->at = 0;
    }
    return reader->bytes > 0 ? (unsigned char)reader->data[reader->at++] : -1;
}

enum { MOUNT_POINT = 4 }; /* its field; the first is the mount's number */

/* A blank and a few others are written as \ooo. */
static void undo_escapes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (*from == '\\' && from[1] && from[2] && from[3]) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* Number and point of the next mount. False at the end. A point that is too long is left empty. */
static bool next_mount(struct reader *reader, uint64_t *number, char point[PATH_MAX])
{
    unsigned field = 0;
    size_t bytes = 0;
    int letter;
    *number = 0;
    while ((letter = next_letter(reader)) >= 0 && letter != '\n') {
        if (letter == ' ')
            field++;
        else if (field == 0)
            *number = *number * 10 + (uint64_t)(letter - '0');
        else if (field == MOUNT_POINT && bytes < PATH_MAX)
            point[bytes++] = (char)letter;
    }
    point[bytes < PATH_MAX ? bytes : 0] = 0;
    undo_escapes(point);
    return letter >= 0;
}

/* Length of the mount point if the path is below it, else 0; 1 = the root. */
static size_t covers(const char *point, const char *path)
{
    const size_t bytes = strlen(point);
    if (bytes == 1 && point[0] == '/')
        return 1;
    return bytes && !strncmp(point, path, bytes) && path[bytes] == '/' ? bytes : 0;
}

bool vt_on_same_mount(const char *path, const char *other)
{
    struct reader reader = {.file = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)};
    const char *const paths[2] = {path, other};
    uint64_t number, mounts[2] = {0, 0};
    size_t longest[2] = {0, 0};
    char point[PATH_MAX];
    while (reader.file >= 0 && next_mount(&reader, &number, point))
        for (int i = 0; i < 2; i++) {
            const size_t covered = covers(point, paths[i]);
            if (covered && covered >= longest[i]) { /* the last one lies on top */
                longest[i] = covered;
                mounts[i] = number;
            }
        }
    if (reader.file >= 0)
        close(reader.file);
    return longest[0] && longest[1] && mounts[0] == mounts[1];
}
