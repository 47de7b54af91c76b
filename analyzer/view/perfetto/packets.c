/* Writes packets, each as a field of a Trace message, which may go on for ever. */
#include "view/perfetto/packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

#define FIRST_OF_SEQUENCE 1u /* what was written before does not count */
#define NEEDS_WHAT_WAS_BEFORE 2u
#define CLOCK_REAL 1u
#define CLOCK_OF_PROFILES 4u /* CLOCK_MONOTONIC_COARSE: profiles can have no other */
#define CLOCK_OF_OLD_READERS 6u
#define KIND_NATIVE 1u
#define KIND_INTERPRETED 3u

/* ---- What goes out with the next packet ---- */

static const struct {
    size_t count_offset, items_offset;
} members[VT_INTERNED_KINDS] = {
#define MEMBER(name)                                                                                         \
    {                                                                                                        \
        offsetof(Perfetto__InternedData, n_##name), offsetof(Perfetto__InternedData, name)                   \
    }
    [VT_INTERNED_CATEGORY] = MEMBER(event_categories),
    [VT_INTERNED_NAME] = MEMBER(event_names),
    [VT_INTERNED_NOTE] = MEMBER(debug_annotation_names),
    [VT_INTERNED_VALUE] = MEMBER(debug_annotation_string_values),
    [VT_INTERNED_FUNCTION] = MEMBER(function_names),
    [VT_INTERNED_OBJECT] = MEMBER(mapping_paths),
    [VT_INTERNED_SOURCE] = MEMBER(source_paths),
    [VT_INTERNED_MAPPING] = MEMBER(mappings),
    [VT_INTERNED_FRAME] = MEMBER(frames),
    [VT_INTERNED_STACK] = MEMBER(callstacks),
#undef MEMBER
};

/* A message that is pending, `initial` at first. */
static void *add_pending(struct vt_packets *packets, enum vt_interned kind, const void *initial, size_t bytes)
{
    struct vt_pending *pending = &packets->pending[kind];
    void *message = vt_arena_take(&packets->arena, bytes);

    VT_APPEND(pending->items, pending->count, pending->capacity, message);
    return memcpy(message, initial, bytes);
}

/* True if anything is pending. */
static bool attach_pending(const struct vt_packets *packets, Perfetto__InternedData *data)
{
    bool any = false;

    for (size_t i = 0; i < VT_INTERNED_KINDS; i++) {
        *(size_t *)((char *)data + members[i].count_offset) = packets->pending[i].count;
        *(void ***)((char *)data + members[i].items_offset) = packets->pending[i].items;
        any = any || packets->pending[i].count;
    }
    return any;
}

void vt_packet_put(struct vt_packets *packets, Perfetto__TracePacket *packet)
{
    Perfetto__InternedData interned = PERFETTO__INTERNED_DATA__INIT;
    Perfetto__Trace trace = PERFETTO__TRACE__INIT;
    size_t bytes;

    packet->has_trusted_packet_sequence_id = packet->has_sequence_flags = true;
    packet->trusted_packet_sequence_id = packets->sequence_id;
    packet->sequence_flags |= NEEDS_WHAT_WAS_BEFORE;
    if (attach_pending(packets, &interned))
        packet->interned_data = &interned;
    trace.packet = &packet;
    trace.n_packet = 1;
    bytes = perfetto__trace__get_packed_size(&trace);
    vt_reserve(&packets->buffer, &packets->buffer_bytes, bytes, 1);
    perfetto__trace__pack(&trace, packets->buffer);
    fwrite(packets->buffer, 1, bytes, packets->out);
    for (size_t i = 0; i < VT_INTERNED_KINDS; i++)
        packets->pending[i].count = 0;
    vt_arena_free(&packets->arena);
}

void vt_packets_begin(struct vt_packets *packets)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TracePacketDefaults defaults = PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
    Perfetto__ClockSnapshot snapshot = PERFETTO__CLOCK_SNAPSHOT__INIT;
    Perfetto__Clock clocks[3], *list[3];
    const uint32_t ids[3] = {CLOCK_REAL, CLOCK_OF_PROFILES, CLOCK_OF_OLD_READERS};

    packets->has_frame =
        vt_allocate_zeros(packets->stacks->frame_count + VT_CATEGORY_COUNT, sizeof *packets->has_frame);
    /* The real time is all that we know: the others stand for it. */
    for (size_t i = 0; i < 3; i++) {
        clocks[i] = (Perfetto__Clock)PERFETTO__CLOCK__INIT;
        clocks[i].has_clock_id = clocks[i].has_timestamp = true;
        clocks[i].clock_id = ids[i];
        clocks[i].timestamp = packets->start_ns;
        list[i] = &clocks[i];
    }
    snapshot.clocks = list;
    snapshot.n_clocks = 3;
    snapshot.has_primary_trace_clock = true;
    snapshot.primary_trace_clock = CLOCK_REAL;
    defaults.has_timestamp_clock_id = true;
    defaults.timestamp_clock_id = CLOCK_REAL;
    packet.clock_snapshot = &snapshot;
    packet.trace_packet_defaults = &defaults;
    packet.sequence_flags = FIRST_OF_SEQUENCE;
    vt_packet_put(packets, &packet);
}

void vt_packets_free(struct vt_packets *packets)
{
    for (size_t i = 0; i < VT_INTERNED_TEXTS; i++)
        vt_strings_free(&packets->texts[i]);
    for (size_t i = 0; i < VT_INTERNED_KINDS; i++)
        free(packets->pending[i].items);
    vt_arena_free(&packets->arena);
    vt_index_free(&packets->stack_iids);
    free(packets->has_frame);
    free(packets->has_mapping);
    free(packets->buffer);
}

/* ---- Texts and stacks ---- */

uint64_t vt_packets_text(struct vt_packets *packets, enum vt_interned kind, const char *text)
{
    struct vt_strings *texts = &packets->texts[kind];
    Perfetto__InternedText *item;
    bool is_new;
    uint32_t number = vt_strings_find(texts, text, &is_new);

    if (is_new) {
        item =
            add_pending(packets, kind, &(Perfetto__InternedText)PERFETTO__INTERNED_TEXT__INIT, sizeof *item);
        item->has_iid = true;
        item->iid = number + UINT64_C(1);
        item->text = (char *)texts->items[number];
    }
    return number + UINT64_C(1);
}

char *vt_packets_clean(struct vt_packets *packets, const char *text)
{
    return (char *)vt_arena_text(&packets->arena, text, strlen(text));
}

/* The object that a frame's code is in; Python's code is in "python". */
static uint64_t mapping_of(struct vt_packets *packets, const char *path)
{
    uint64_t iid = vt_packets_text(packets, VT_INTERNED_OBJECT, path), *path_id;
    size_t known = packets->mapping_capacity;
    Perfetto__Mapping *mapping;

    vt_reserve(&packets->has_mapping, &packets->mapping_capacity, iid + 1, 1);
    memset(packets->has_mapping + known, 0, packets->mapping_capacity - known);
    if (packets->has_mapping[iid])
        return iid;
    packets->has_mapping[iid] = true;
    mapping = add_pending(packets, VT_INTERNED_MAPPING, &(Perfetto__Mapping)PERFETTO__MAPPING__INIT,
                          sizeof *mapping);
    path_id = vt_arena_take(&packets->arena, sizeof *path_id);
    *path_id = iid;
    mapping->has_iid = true;
    mapping->iid = iid;
    mapping->path_string_ids = path_id;
    mapping->n_path_string_ids = 1;
    return iid;
}

static void add_frame(struct vt_packets *packets, uint64_t iid, const struct vt_frame *from)
{
    bool native = from->kind == VT_FRAME_NATIVE;
    Perfetto__Frame *frame =
        add_pending(packets, VT_INTERNED_FRAME, &(Perfetto__Frame)PERFETTO__FRAME__INIT, sizeof *frame);

    frame->has_iid = frame->has_function_name_id = frame->has_mapping_id = frame->has_rel_pc =
        frame->has_kind = true;
    frame->iid = iid;
    frame->function_name_id = vt_packets_text(packets, VT_INTERNED_FUNCTION, from->function);
    /* readers put a slash before it */
    frame->mapping_id = mapping_of(packets, !native ? "python" : from->module + (from->module[0] == '/'));
    /* Readers merge frames with the same object and address: Python's frames get their number as address. */
    frame->rel_pc = native && from->address ? from->address : iid;
    frame->kind = native ? KIND_NATIVE : KIND_INTERPRETED;
    if (from->file[0]) {
        frame->has_source_path_iid = true;
        frame->source_path_iid = vt_packets_text(packets, VT_INTERNED_SOURCE, from->file);
    }
    if (from->line) {
        frame->has_line_number = true;
        frame->line_number = (uint32_t)from->line;
    }
}

/* Behind the stacks' frames, each category is one. */
static uint64_t frame_of(struct vt_packets *packets, size_t frame_id)
{
    size_t count = packets->stacks->frame_count;
    struct vt_frame frame = {.kind = VT_FRAME_PYTHON, .file = "", .module = ""};

    if (!packets->has_frame[frame_id]) {
        packets->has_frame[frame_id] = true;
        frame.function = frame_id < count ? "" : vt_category_name((unsigned)(frame_id - count));
        add_frame(packets, frame_id + 1,
                  frame_id < count ? &packets->stacks->frames[frame_id].frame : &frame);
    }
    return frame_id + 1;
}

uint64_t vt_packets_stack(struct vt_packets *packets, uint32_t stack_id, uint32_t forward_stack_id,
                          unsigned category)
{
    bool plain = category == VT_CATEGORY_COUNT;
    uint64_t key = (uint64_t)stack_id << 32 | forward_stack_id, *frames;
    uint32_t ids[VT_CHAIN_FRAMES], known = vt_index_get(&packets->stack_iids, key);
    size_t count = vt_stack_chain(packets->stacks, stack_id, forward_stack_id, ids), used = 0;
    Perfetto__Callstack *stack;

    if (plain && (known != VT_INDEX_NONE || !count))
        return known != VT_INDEX_NONE ? known : 0;
    frames = vt_arena_take(&packets->arena, (count + 1) * sizeof *frames);
    stack = add_pending(packets, VT_INTERNED_STACK, &(Perfetto__Callstack)PERFETTO__CALLSTACK__INIT,
                        sizeof *stack);
    if (!plain)
        frames[used++] = frame_of(packets, packets->stacks->frame_count + category);
    while (count--)
        frames[used++] = frame_of(packets, ids[count]);
    stack->has_iid = true;
    stack->iid = ++packets->stack_count;
    stack->frame_ids = frames;
    stack->n_frame_ids = used;
    if (plain)
        vt_index_put(&packets->stack_iids, key, (uint32_t)stack->iid);
    return stack->iid;
}

/* ---- Events ---- */

static Perfetto__DebugAnnotation *add_note(struct vt_packets *packets, const char *name)
{
    Perfetto__DebugAnnotation *note = &packets->notes[packets->note_count];

    *note = (Perfetto__DebugAnnotation)PERFETTO__DEBUG_ANNOTATION__INIT;
    note->has_name_iid = true;
    note->name_iid = vt_packets_text(packets, VT_INTERNED_NOTE, name);
    packets->note_list[packets->note_count++] = note;
    return note;
}

void vt_note_number(struct vt_packets *packets, const char *name, uint64_t number)
{
    Perfetto__DebugAnnotation *note = add_note(packets, name);

    note->has_uint_value = true;
    note->uint_value = number;
}

void vt_note_address(struct vt_packets *packets, const char *name, uint64_t address)
{
    Perfetto__DebugAnnotation *note = add_note(packets, name);

    note->has_pointer_value = true;
    note->pointer_value = address;
}

void vt_note_text(struct vt_packets *packets, const char *name, const char *text)
{
    Perfetto__DebugAnnotation *note;

    if (!text || !text[0])
        return;
    note = add_note(packets, name);
    note->has_string_value_iid = true;
    note->string_value_iid = vt_packets_text(packets, VT_INTERNED_VALUE, text);
}

void vt_event_put(struct vt_packets *packets, const struct vt_track_event *from)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
    uint64_t category;

    event.has_type = event.has_track_uuid = true;
    event.type = from->type;
    event.track_uuid = from->track_uuid;
    event.has_counter_value = from->type == VT_EVENT_COUNTER;
    event.counter_value = (int64_t)from->value;
    if (from->name) {
        event.has_name_iid = true;
        event.name_iid = vt_packets_text(packets, VT_INTERNED_NAME, from->name);
    }
    if (from->category) {
        category = vt_packets_text(packets, VT_INTERNED_CATEGORY, from->category);
        event.category_iids = &category;
        event.n_category_iids = 1;
    }
    if (from->stack_iid) {
        event.has_callstack_iid = event.has_callstack_weight = true;
        event.callstack_iid = from->stack_iid;
        event.callstack_weight = (double)from->bytes;
    }
    event.debug_annotations = packets->note_list;
    event.n_debug_annotations = packets->note_count;
    packet.has_timestamp = true;
    packet.timestamp = packets->start_ns + from->t_ns;
    packet.track_event = &event;
    vt_packet_put(packets, &packet);
    packets->note_count = 0;
}
