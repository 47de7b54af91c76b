/* What the allocators did, device by device: "device_traces". */
#include <stdlib.h>

#include "view/memory_viz/snapshot.h"

/* In the order in which they stand where one event is several. */
enum what { FREE, SEGMENT_FREE, SEGMENT_ALLOC, ALLOC, OUT_OF_MEMORY };

struct action {
    uint32_t event, number; /* of an allocation, or of a refusal */
    uint8_t what;
};

struct actions {
    struct vt_snapshot *snapshot;
    int device_index;
    uint32_t last_event; /* that is shown */
    struct action *items;
    size_t count, capacity;
    struct vt_pickle_batch batch;
};

static int add(struct actions *actions, uint32_t event, enum what what, size_t number)
{
    struct action action = {event, (uint32_t)number, (uint8_t)what};

    if (event > actions->last_event)
        return 0;
    return VT_APPEND(actions->items, actions->count, actions->capacity, action);
}

static int add_memory(struct actions *actions, size_t number)
{
    const struct vt_memory *memory = &actions->snapshot->memory[number];
    bool is_block = memory->role == VT_MEMORY_BLOCK || memory->role == VT_MEMORY_DIRECT,
         is_segment = memory->role != VT_MEMORY_BLOCK;
    int result = 0;

    if (memory->device_index != actions->device_index || memory->role == VT_MEMORY_NONE)
        return 0;
    if (is_segment)
        result = add(actions, memory->alloc_event, SEGMENT_ALLOC, number);
    if (is_block && !result)
        result = add(actions, memory->alloc_event, ALLOC, number);
    if (is_block && !result)
        result = add(actions, memory->free_event, FREE, number);
    if (is_segment && !result)
        result = add(actions, memory->free_event, SEGMENT_FREE, number);
    return result;
}

static int compare(const void *left, const void *right)
{
    const struct action *a = left, *b = right;

    return 4 * vt_order(a->event, b->event) + 2 * vt_order(a->what, b->what) + vt_order(a->number, b->number);
}

static int collect(struct actions *actions)
{
    const struct vt_report *report = actions->snapshot->report;
    int result = 0;

    for (size_t i = 0; i < actions->snapshot->memory_count && !result; i++)
        result = add_memory(actions, i);
    for (size_t i = 0; i < report->refusal_count && !result; i++)
        if (report->refusals[i].of_framework && report->refusals[i].device_index == actions->device_index)
            result = add(actions, report->refusals[i].event_index, OUT_OF_MEMORY, i);
    if (actions->count)
        qsort(actions->items, actions->count, sizeof *actions->items, compare);
    return result;
}

/* ---- Writing ---- */

static void write_entry(struct actions *actions, const char *action, uint64_t address, uint64_t bytes,
                        uint64_t t_ns, uint32_t stack, const char *about, const char *category)
{
    struct vt_snapshot *snapshot = actions->snapshot;

    vt_pickle_item(&snapshot->pickle, &actions->batch);
    vt_pickle_dict(&snapshot->pickle);
    vt_snapshot_key_text(snapshot, "action", action);
    vt_snapshot_key_number(snapshot, action[0] == 'o' ? "device_free" : "addr", address);
    vt_snapshot_key_number(snapshot, "size", bytes);
    vt_snapshot_key_number(snapshot, "stream", 0);
    vt_snapshot_key_number(snapshot, "time_us", vt_snapshot_time(snapshot, t_ns));
    vt_snapshot_key_text(snapshot, "compile_context", "N/A");
    vt_snapshot_key_text(snapshot, "user_metadata", about);
    vt_snapshot_frames(snapshot, stack);
    if (category)
        vt_snapshot_key_text(snapshot, "category", category);
    vt_pickle_dict_end(&snapshot->pickle);
}

static void write_memory(struct actions *actions, const struct action *action)
{
    static const char *const names[] = {"free_requested", "segment_free", "segment_alloc", "alloc"};
    const struct vt_memory *memory = &actions->snapshot->memory[action->number];
    bool is_free = action->what == FREE || action->what == SEGMENT_FREE,
         is_segment = action->what == SEGMENT_FREE || action->what == SEGMENT_ALLOC;
    const char *name = names[action->what],
               *category = is_segment ? NULL : vt_category_name(memory->category);
    uint64_t t_ns = is_free ? memory->free_t_ns : memory->t_ns,
             bytes = memory->bytes - (is_segment ? 0 : memory->rounding_bytes);
    uint32_t stack = is_free ? memory->free_stack : memory->stack;

    if (memory->role == VT_MEMORY_MAPPED)
        name = is_free ? "segment_unmap" : "segment_map";
    write_entry(actions, name, memory->address, bytes, t_ns, stack, memory->about, category);
    if (action->what == FREE)
        write_entry(actions, "free_completed", memory->address, bytes, t_ns, stack, memory->about, category);
}

static void write_actions(struct actions *actions)
{
    const struct vt_report *report = actions->snapshot->report;

    for (size_t i = 0; i < actions->count; i++) {
        const struct action *action = &actions->items[i];
        const struct vt_refusal *refusal =
            action->what == OUT_OF_MEMORY ? &report->refusals[action->number] : NULL;

        if (refusal)
            write_entry(actions, "oom", refusal->free_bytes, refusal->asked_bytes, refusal->t_ns,
                        refusal->stack_id, "", NULL);
        else
            write_memory(actions, action);
    }
}

/* The last action is this snapshot itself. Its category makes sure that there is one called unknown: without,
 * the viewer in the browser stops with an error. */
static int write_device(struct vt_snapshot *snapshot, const struct vt_device_report *device)
{
    const struct vt_state *state = &device->shown->state;
    struct actions actions = {
        .snapshot = snapshot, .device_index = device->index, .last_event = state->event_index};
    int result = collect(&actions);

    if (!result)
        write_actions(&actions);
    if (!result && actions.count)
        write_entry(&actions, "snapshot", 0, state->segment_bytes, state->t_ns, 0, "",
                    vt_category_name(VT_CATEGORY_UNKNOWN));
    vt_pickle_list_end(&snapshot->pickle, &actions.batch);
    free(actions.items);
    return result;
}

int vt_snapshot_actions(struct vt_snapshot *snapshot, size_t devices)
{
    const struct vt_report *report = snapshot->report;
    struct vt_pickle_batch batch = {0};
    int result = 0;

    vt_pickle_text(&snapshot->pickle, "device_traces");
    vt_pickle_list(&snapshot->pickle);
    for (size_t index = 0; index < devices && !result; index++) {
        const struct vt_device_report *device = NULL;

        for (size_t i = 0; i < report->device_count; i++)
            if ((size_t)report->devices[i].index == index)
                device = &report->devices[i];
        vt_pickle_item(&snapshot->pickle, &batch);
        vt_pickle_list(&snapshot->pickle);
        if (device)
            result = write_device(snapshot, device);
    }
    vt_pickle_list_end(&snapshot->pickle, &batch);
    return result;
}
