#include "base/memory_stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

struct memory {
    char **text;
    size_t *bytes;
    size_t capacity, at;
    bool failed; /* for good */
};

static ssize_t put(void *cookie, const char *data, size_t bytes)
{
    struct memory *memory = cookie;

    if (memory->failed || vt_reserve(memory->text, &memory->capacity, memory->at + bytes + 1, 1)) {
        memory->failed = true;
        errno = ENOMEM;
        return 0;
    }
    memcpy(*memory->text + memory->at, data, bytes);
    memory->at += bytes;
    (*memory->text)[memory->at] = '\0';
    *memory->bytes = memory->at;
    return (ssize_t)bytes;
}

/* The size follows the position: what is written then is shorter or longer than what was there. */
static int seek(void *cookie, off64_t *position, int from)
{
    struct memory *memory = cookie;
    int64_t to = (from == SEEK_CUR ? (int64_t)memory->at : 0) + *position;

    if (from == SEEK_END || to < 0 || to > (int64_t)memory->at) /* only back */
        return -1;
    memory->at = (size_t)to;
    *position = to;
    return 0;
}

static int end(void *cookie)
{
    struct memory *memory = cookie;
    bool failed = memory->failed;

    free(memory);
    errno = failed ? ENOMEM : errno;
    return failed ? -1 : 0;
}

FILE *vt_memory_stream(char **text, size_t *bytes)
{
    struct memory *memory = malloc(sizeof *memory);
    FILE *stream = NULL;

    *text = NULL;
    *bytes = 0;
    if (!memory)
        return NULL;
    *memory = (struct memory){.text = text, .bytes = bytes};
    if (put(memory, "", 0) >= 0 && !memory->failed)
        stream = fopencookie(memory, "w", (cookie_io_functions_t){.write = put, .seek = seek, .close = end});
    if (stream)
        return stream;
    free(*text);
    free(memory);
    *text = NULL;
    return NULL;
}
