#include "trace/launch.h"
#include "trace/redact.h"

#include <string.h>

#include "trace/tables.h"

/* launch.def has fewer */
#define LAUNCH_LIMIT 256u

static void make_room(struct vt_trace *trace)
{
    if (!trace->launch)
        trace->launch = vt_arena_take(&trace->tables->arena, LAUNCH_LIMIT * sizeof *trace->launch);
}

int vt_launch_add(struct vt_trace *trace, const void *record)
{
    const struct vt_record_head *head = record;
    struct vt_arena *arena = &trace->tables->arena;
    const char *text = (const char *)(head + 1), *end = (const char *)head + head->bytes;
    if (trace->launch_count) /* a trace has one */
        return 0;
    make_room(trace);
    while (text < end && trace->launch_count < LAUNCH_LIMIT) {
        const char *variable = vt_arena_next_text(arena, &text, end), *equals = strchr(variable, '=');
        if (equals)
            trace->launch[trace->launch_count++] = (struct vt_trace_variable){
                .name = vt_arena_text(arena, variable, (size_t)(equals - variable)),
                .value = vt_redact_value(arena, equals + 1)};
    }
    return 0;
}

void vt_launch_change(struct vt_trace *trace, const char *name, const char *value)
{
    size_t at = 0;
    make_room(trace);
    while (at < trace->launch_count && strcmp(trace->launch[at].name, name))
        at++;
    if (at == LAUNCH_LIMIT || (at < trace->launch_count && trace->launch[at].inspected))
        return;
    trace->launch[at] = (struct vt_trace_variable){name, vt_redact_value(&trace->tables->arena, value), true};
    trace->launch_count += at == trace->launch_count;
}
