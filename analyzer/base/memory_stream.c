#include "base/memory_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

struct memory {
    char **text;
    size_t *bytes;
    size_t capacity, at;
};

static ssize_t put_bytes(void *cookie, const char *data, size_t bytes)
{
    struct memory *memory = cookie;

    vt_reserve(memory->text, &memory->capacity, memory->at + bytes + 1, 1);
    memcpy(*memory->text + memory->at, data, bytes);
    memory->at += bytes;
    (*memory->text)[memory->at] = '\0';
    *memory->bytes = memory->at;
    return (ssize_t)bytes;
}

/* The size follows the position: what is written then is shorter or longer than what was there. */
static int seek_back(void *cookie, off64_t *position, int from)
{
    struct memory *memory = cookie;
    int64_t to = (from == SEEK_CUR ? (int64_t)memory->at : 0) + *position;

    if (from == SEEK_END || to < 0 || to > (int64_t)memory->at) /* only back */
        return -1;
    memory->at = (size_t)to;
    *position = to;
    return 0;
}

static int end_stream(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *vt_memory_stream(char **text, size_t *bytes)
{
    struct memory *memory = vt_allocate(sizeof *memory);
    FILE *stream;

    *text = NULL;
    *memory = (struct memory){.text = text, .bytes = bytes};
    put_bytes(memory, "", 0);
    stream = fopencookie(memory, "w",
                         (cookie_io_functions_t){.write = put_bytes, .seek = seek_back, .close = end_stream});
    if (!stream)
        vt_end_out_of_memory();
    return stream;
}
