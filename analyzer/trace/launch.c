/* What a launcher had put into the environment. */
#include <errno.h>
#include <string.h>

#include "trace/tables.h"

#define LAUNCH_LIMIT 256u /* launch.def has fewer */
int vt_launch_add(struct vt_trace *trace, const void *record)
{
    const struct vt_record_head *head = record;
    struct vt_arena *arena = &trace->tables->arena;
    const char *text = (const char *)(head + 1), *end = (const char *)head + head->bytes;
    if (trace->launch) /* a trace has one */
        return 0;
    struct vt_trace_variable *variables = vt_arena_take(arena, LAUNCH_LIMIT * sizeof *variables);
    size_t count = 0;
    if (!variables)
        return -ENOMEM;
    for (const char *stop; text < end && count < LAUNCH_LIMIT; text = stop + 1) {
        stop = memchr(text, 0, (size_t)(end - text));
        stop = stop ? stop : end;
        const char *equals = memchr(text, '=', (size_t)(stop - text));
        if (!equals)
            continue;
        variables[count] = (struct vt_trace_variable){
            .name = vt_arena_text(arena, text, (size_t)(equals - text)),
            .value = vt_arena_text(arena, equals + 1, (size_t)(stop - equals - 1))};
        if (!variables[count].name || !variables[count].value)
            return -ENOMEM;
        count++;
    }
    trace->launch = variables;
    trace->launch_count = count;
    return 0;
}

int vt_launch_change(struct vt_trace *trace, const char *name, const char *value)
{
    size_t at = 0;
    if (!trace->launch)
        trace->launch = vt_arena_take(&trace->tables->arena, LAUNCH_LIMIT * sizeof *trace->launch);
    if (!trace->launch)
        return -ENOMEM;
    while (at < trace->launch_count && strcmp(trace->launch[at].name, name))
        at++;
    if (at == LAUNCH_LIMIT || (at < trace->launch_count && trace->launch[at].inspected))
        return 0;
    trace->launch[at] = (struct vt_trace_variable){name, value, true};
    trace->launch_count += at == trace->launch_count;
    return 0;
}
