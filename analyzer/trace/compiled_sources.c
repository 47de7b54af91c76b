#include "trace/compiled_sources.h"

#include <stdlib.h>
#include <string.h>

#include "trace/tables.h"

#define LINE_MAXIMUM 100000000

/* Reads `  File "FILE", line 12, in FUNCTION` at `text`. False if that is not there. */
static bool read_frame(struct vt_trace *trace, const char *text, struct vt_compiled_line *line)
{
    static const char middle[] = "\", line ", before[] = ", in ";
    const char *file_end = strstr(text, middle), *end = strchr(text, '\n');
    char *number_end;
    if (!end)
        end = text + strlen(text);
    if (!file_end || file_end > end)
        return false;
    unsigned long number = strtoul(file_end + sizeof middle - 1, &number_end, 10);
    if (number == 0 || number > LINE_MAXIMUM || strncmp(number_end, before, sizeof before - 1) != 0)
        return false;
    const char *function = number_end + sizeof before - 1;
    struct vt_arena *arena = &trace->tables->arena;
    line->source_line = (uint32_t)number;
    line->source_file = vt_arena_text(arena, text, (size_t)(file_end - text));
    line->function = vt_arena_text(arena, function, (size_t)(end - function));
    return true;
}

bool vt_compiled_source_add(struct vt_trace *trace, const char *file, uint32_t line, const char *where)
{
    static const char start[] = "  File \"";
    struct vt_trace_tables *tables = trace->tables;
    struct vt_compiled_line compiled = {.file = file, .line = line};
    const char *innermost = NULL;
    for (const char *at = where; (at = strstr(at, start)) != NULL; at += sizeof start - 1)
        innermost = at + sizeof start - 1;
    if (innermost && !read_frame(trace, innermost, &compiled))
        return false;
    VT_APPEND(tables->compiled, tables->compiled_count, tables->compiled_capacity, compiled);
    return true;
}

static int by_line(const void *a, const void *b)
{
    const struct vt_compiled_line *left = a, *right = b;
    int files = strcmp(left->file, right->file);
    return files ? files : vt_order(left->line, right->line);
}

void vt_compiled_source_finish(struct vt_trace *trace)
{
    if (trace->tables->compiled_count > 1)
        qsort(trace->tables->compiled, trace->tables->compiled_count, sizeof *trace->tables->compiled,
              by_line);
}

const struct vt_compiled_line *vt_compiled_source_find(const struct vt_trace *trace, const char *file,
                                                       int32_t line)
{
    const struct vt_trace_tables *tables = trace->tables;
    if (tables->compiled_count == 0 || line <= 0)
        return NULL;
    struct vt_compiled_line after = {.file = file, .line = (uint32_t)line + 1};
    size_t at = vt_lower_bound(tables->compiled, tables->compiled_count, sizeof after, &after, by_line);
    const struct vt_compiled_line *found = at > 0 ? &tables->compiled[at - 1] : NULL;
    return found && found->source_file && strcmp(found->file, file) == 0 ? found : NULL;
}
