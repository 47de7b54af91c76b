/* Memory that lives as long as the job, or as one of its processes. */
#include "job/job_maker.h"

#include "base/allocate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *vt_job_take(struct vt_arena *arena, size_t count, size_t item_bytes)
{
    void *taken = vt_arena_take(arena, count * item_bytes);

    memset(taken, 0, count * item_bytes);
    return taken;
}

void *vt_job_copy_items(struct vt_arena *arena, const void *items, size_t count, size_t item_bytes)
{
    void *copy = vt_arena_take(arena, count * item_bytes);

    if (count)
        memcpy(copy, items, count * item_bytes);
    return copy;
}

const char *vt_job_copy(struct vt_arena *arena, const char *text)
{
    return text ? vt_arena_text(arena, text, strlen(text)) : NULL;
}

const char *vt_job_print(struct vt_arena *arena, const char *format, ...)
{
    va_list arguments;
    char *text;
    const char *copy;

    va_start(arguments, format);
    text = vt_print_text_list(format, arguments);
    va_end(arguments);
    copy = vt_job_copy(arena, text);
    free(text);
    return copy;
}
