/* One event on one line. */
#include "view/json/json.h"
#include "report/parts.h"
#include "view/text/print.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define TOP_FRAMES 3
#define FRAMES 512

const char *vt_event_kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [VT_EVENT_NONE] = "none",
        [VT_EVENT_ALLOC] = "alloc",
        [VT_EVENT_FREE] = "free",
        [VT_EVENT_FREE_FAILED] = "free_failed",
        [VT_EVENT_HANDLE_CREATE] = "handle_create",
        [VT_EVENT_HANDLE_RETAIN] = "handle_retain",
        [VT_EVENT_HANDLE_RELEASE] = "handle_release",
        [VT_EVENT_MAP] = "map",
        [VT_EVENT_UNMAP] = "unmap",
        [VT_EVENT_RESERVE] = "reserve",
        [VT_EVENT_UNRESERVE] = "unreserve",
        [VT_EVENT_POOL] = "pool",
        [VT_EVENT_POOL_DESTROY] = "pool_destroy",
        [VT_EVENT_MEMORY_INFO] = "memory_info",
        [VT_EVENT_DELTA] = "delta",
        [VT_EVENT_CONTEXT_CREATE] = "context_create",
        [VT_EVENT_CONTEXT_DESTROY] = "context_destroy",
        [VT_EVENT_OOM] = "oom",
        [VT_EVENT_ALLOC_FAILED] = "alloc_failed",
        [VT_EVENT_MARK] = "mark",
        [VT_EVENT_RANGE_PUSH] = "range_push",
        [VT_EVENT_RANGE_POP] = "range_pop",
        [VT_EVENT_INSPECTION] = "look",
        [VT_EVENT_NODE] = "node",
        [VT_EVENT_MULTICAST_CREATE] = "multicast_create",
        [VT_EVENT_BIND] = "bind",
        [VT_EVENT_BIND_ADDRESS] = "bind_address",
        [VT_EVENT_UNBIND] = "unbind",
    };

    return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "unknown";
}

const char *vt_layer_name(uint8_t layer)
{
    static const char *const names[] = {"none", "driver", "runtime", "framework"};

    return layer < sizeof names / sizeof *names ? names[layer] : "unknown";
}

static const struct {
    uint8_t flag;
    const char *name;
} flags[] = {
    {VT_FLAG_HOST, "host"},        {VT_FLAG_MANAGED, "managed"},       {VT_FLAG_ASYNC, "async"},
    {VT_FLAG_FOREIGN, "foreign"},  {VT_FLAG_REGISTERED, "registered"}, {VT_FLAG_CAPTURED, "captured"},
    {VT_FLAG_ESTIMATE, "estimate"}};

static const struct vt_trace_stack *stack_of(const struct vt_trace *trace, const struct vt_event *event)
{
    static const struct vt_trace_stack empty;

    return event->stack_id < trace->stack_count ? &trace->stacks[event->stack_id] : &empty;
}

static bool has_text(const struct vt_event *event)
{
    return event->kind == VT_EVENT_MARK || event->kind == VT_EVENT_RANGE_PUSH;
}

static void put_frame(const struct vt_frame *frame, FILE *out)
{
    const char *module = strrchr(frame->module, '/');

    vt_put_clean(frame->function, out);
    if (frame->file[0]) {
        fputs(" (", out);
        vt_put_clean(frame->file, out);
        fprintf(out, ":%d)", frame->line);
    } else if (frame->module[0]) {
        fputs(" (", out);
        vt_put_clean(module ? module + 1 : frame->module, out);
        fputc(')', out);
    }
}

static void put_names(const struct vt_trace *trace, const struct vt_event *event, FILE *out)
{
    const struct vt_trace_stack *stack = stack_of(trace, event);
    const char *function = stack->function ? vt_trace_function(trace, stack->function) : NULL;
    const char *label = stack->label ? vt_trace_function(trace, stack->label) : NULL;
    const char *text = has_text(event) ? vt_trace_string(trace, event->detail) : NULL;

    if (text) {
        fputs(" '", out);
        vt_put_clean(text, out);
        fputc('\'', out);
    }
    if (function) {
        fputc(' ', out);
        vt_put_clean(function, out);
    }
    if (label) {
        fputs(" in ", out);
        vt_put_clean(label, out);
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (event->flags & flags[i].flag)
            fprintf(out, " %s", flags[i].name);
    if (stack->thread_id)
        fprintf(out, " thread %u", stack->thread_id);
}

int vt_view_event_text(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out)
{
    const struct vt_event *event = &trace->events[event_index];
    struct vt_frame frames[FRAMES];
    struct vt_frame user;
    size_t count;

    fprintf(out, "%u %.6f s %s %s gpu %d", event_index, (double)vt_event_time(trace, event_index) / 1e9,
            vt_event_kind_name(event->kind), vt_layer_name(event->layer), event->device_index);
    if (event->address)
        fprintf(out, " 0x%" PRIx64, event->address);
    if (event->kind == VT_EVENT_DELTA)
        fprintf(out, " %+" PRId64 " B", (int64_t)event->bytes);
    else if (event->bytes)
        fprintf(out, " %" PRIu64 " B", event->bytes);
    put_names(trace, event, out);
    if (vt_trace_user_frame(trace, event->stack_id, &user)) {
        fputs(" at ", out);
        put_frame(&user, out);
    }
    count = with_stack ? vt_trace_frames(trace, event->stack_id, frames, FRAMES) : 0;
    for (size_t i = 0; i < count && i < FRAMES; i++) {
        fputs("\n    ", out);
        put_frame(&frames[i], out);
    }
    fputc('\n', out);
    return ferror(out) ? -EIO : 0;
}

static void add_event_names(cJSON *object, const struct vt_trace *trace, const struct vt_event *event)
{
    const struct vt_trace_stack *stack = stack_of(trace, event);
    const char *function = stack->function ? vt_trace_function(trace, stack->function) : NULL;
    const char *label = stack->label ? vt_trace_function(trace, stack->label) : NULL;
    const char *text = has_text(event) ? vt_trace_string(trace, event->detail) : NULL;
    cJSON *list = vt_json_array(object, "flags");

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (event->flags & flags[i].flag)
            vt_json_append_text(list, flags[i].name);
    if (text)
        vt_json_text(object, "name", text);
    vt_json_text(object, "function", function ? function : "");
    vt_json_text(object, "label", label ? label : "");
    vt_json_number(object, "thread", stack->thread_id);
}

/* The innermost functions, and the frame that a person would name. */
static void add_top_frames(cJSON *object, const struct vt_trace *trace, uint32_t stack_id)
{
    struct vt_frame frames[TOP_FRAMES], user;
    size_t count = vt_trace_frames(trace, stack_id, frames, TOP_FRAMES);
    cJSON *array = vt_json_array(object, "frames");

    for (size_t i = 0; i < count && i < TOP_FRAMES; i++)
        vt_json_append_text(array, frames[i].function);
    if (vt_trace_user_frame(trace, stack_id, &user))
        vt_json_put(object, "at", vt_json_frame(&user));
}

int vt_view_event_json(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out)
{
    const struct vt_event *event = &trace->events[event_index];
    cJSON *object = vt_json_begin(NULL);
    char text[32];

    vt_json_number(object, "index", event_index);
    vt_json_number(object, "t_ns", vt_event_time(trace, event_index));
    vt_json_text(object, "kind", vt_event_kind_name(event->kind));
    vt_json_text(object, "layer", vt_layer_name(event->layer));
    vt_json_integer(object, "device", event->device_index);
    snprintf(text, sizeof text, "0x%" PRIx64, event->address);
    vt_json_text(object, "address", text);
    if (event->kind == VT_EVENT_DELTA)
        vt_json_integer(object, "bytes", (int64_t)event->bytes);
    else
        vt_json_number(object, "bytes", event->bytes);
    vt_json_number(object, "detail", event->detail);
    vt_json_number(object, "total_bytes", event->total_bytes);
    vt_json_number(object, "sequence", event->sequence);
    vt_json_number(object, "stack_id", event->stack_id);
    add_event_names(object, trace, event);
    add_top_frames(object, trace, event->stack_id);
    if (with_stack)
        vt_json_put(object, "stack", vt_json_stack(trace, event->stack_id));
    return vt_json_end(object, 0, true, out);
}
