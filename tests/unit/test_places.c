/* Streams of blocks, settings of allocators, and the lines of graphs' memory, in traces built by hand. */
#include <criterion/criterion.h>
#include <string.h>

#include "replay/replay.h"
#include "replay/walk.h"
#include "trace/places.h"
#include "trace/settings.h"
#include "trace_builder.h"
#include "vramtrace/places.h"

#define MIB (UINT64_C(1) << 20)
#define HEAD sizeof(struct vt_record_head)

static void put_place(struct builder *builder, uint32_t id, int32_t device_index, uint64_t stream,
                      const char *settings)
{
    struct {
        struct vt_place_record place;
        char text[64];
    } record = {.place = {.place_id = id, .device_index = device_index, .stream = stream}};
    const size_t length = strlen(settings);
    memcpy(record.text, settings, length);
    builder_raw(builder, VT_RECORD_PLACE, (const char *)&record + HEAD,
                (uint32_t)(sizeof record.place - HEAD + length));
}

static void put_block(struct builder *builder, uint32_t stack_id, uint64_t address)
{
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                             .layer = VT_LAYER_FRAMEWORK,
                                             .stack_id = stack_id,
                                             .address = address,
                                             .bytes = MIB});
}

Test(places, belong_to_events_and_stacks_are_joined)
{
    const uint64_t frames[] = {0xa00, 0xb00}, others[] = {0xa00, 0xc00};
    struct builder *builder = builder_new(16);
    put_place(builder, 7, 0, 0, "");
    put_place(builder, 3, 0, 0x5a10, "");
    put_place(builder, 9, 0, 0x5a30, "");
    uint32_t stacks[] = {builder_stack_at(builder, 11, 7, frames, 2, NULL, 0),
                         builder_stack_at(builder, 11, 3, frames, 2, NULL, 0),
                         builder_stack_at(builder, 11, 9, others, 2, NULL, 0),
                         builder_stack_at(builder, 11, 8, others, 2, NULL, 0) /* a place that was lost */};
    for (uint64_t i = 0; i < 4; i++)
        put_block(builder, stacks[i], (i + 1) * MIB);
    struct vt_trace *trace = builder_open(builder);
    cr_assert_eq(trace->place_count, 4);
    const uint64_t expected[] = {0, 0x5a10, 0x5a30};
    for (uint32_t i = 0; i < 3; i++) {
        const struct vt_trace_place *place = &trace->places[vt_trace_place(trace, i)];
        cr_assert_eq(place->device_index, 0);
        cr_assert_eq(place->stream, expected[i]);
        cr_assert_eq(place->number, i);
    }
    cr_assert_eq(vt_trace_place(trace, 3), 0);
    cr_assert_eq(trace->events[0].stack_id, trace->events[1].stack_id);
    cr_assert_eq(trace->events[2].stack_id, trace->events[3].stack_id);
    cr_assert_neq(trace->events[0].stack_id, trace->events[2].stack_id);
    vt_trace_close(trace);
    builder_free(builder);
}

Test(places, cost_nothing_with_one_stream)
{
    const uint64_t frames[] = {0xa00};
    struct builder *builder = builder_new(16);
    put_place(builder, 1, 0, 0, "");
    put_block(builder, builder_stack_at(builder, 11, 1, frames, 1, NULL, 0), MIB);
    builder_raw(builder, VT_RECORD_PLACE, "too short", 9);
    put_place(builder, 2, 99, 5, ""); /* no such device */
    struct vt_trace *trace = builder_open(builder);
    cr_assert_null(trace->event_places);
    cr_assert_eq(trace->place_count, 2);
    vt_trace_close(trace);
    builder_free(builder);
}

Test(settings, the_last_one_counts)
{
    static const char variables[] = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64, expandable_segments:True\0"
                                    "CUBLAS_WORKSPACE_CONFIG=:16:8";
    static const char *const later[] = {"expandable_segments:False",
                                        "roundup_power2_divisions:[256:1,>:2],expandable_segments:True"};
    for (int i = 0; i < 3; i++) {
        struct builder *builder = builder_new(16);
        builder_raw(builder, VT_RECORD_LAUNCH, variables, sizeof variables);
        for (int k = 0; k < i; k++)
            put_place(builder, 0, 0, 0, later[k]);
        put_block(builder, 0, MIB);
        struct vt_trace *trace = builder_open(builder);
        cr_expect_eq(vt_setting_in_force(trace, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), i != 1,
                     "after %d calls", i);
        cr_expect(vt_setting_in_force(trace, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"));
        cr_expect_not(vt_setting_in_force(trace, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:6"));
        cr_expect(vt_setting_in_force(trace, "CUBLAS_WORKSPACE_CONFIG=:16:8"));
        cr_expect_not(vt_setting_in_force(trace, "CUBLAS_WORKSPACE_CONFIG=:16"));
        cr_expect(vt_has_allocator_settings(trace));
        vt_trace_close(trace);
        builder_free(builder);
    }
}

/* ---- Graphs ---- */

#define DRIVER(kind_, ...)                                                                                   \
    ((struct vt_event){.kind = VT_EVENT_##kind_, .layer = VT_LAYER_DRIVER, __VA_ARGS__})

/* A captured graph and what is launched of it have the addresses GRAPH and GRAPH + 1. */
static void put_capture(struct builder *builder, uint64_t graph, const uint32_t *stacks,
                        const uint64_t *bytes, size_t count)
{
    builder_event(builder, DRIVER(CAPTURE, .address = 0x51, .device_index = -1));
    for (size_t i = 0; i < count; i++)
        builder_event(builder,
                      DRIVER(ALLOC, .address = (graph + i) << 32, .bytes = bytes[i], .stack_id = stacks[i],
                             .flags = VT_FLAG_ASYNC | VT_FLAG_CAPTURED, .thread_id = 11));
    builder_event(builder,
                  DRIVER(CAPTURE_END, .address = 0x51, .detail = graph, .device_index = -1, .thread_id = 11));
    builder_event(builder, DRIVER(GRAPH, .address = graph + 1, .detail = graph, .device_index = -1));
}

static void launch(struct builder *builder, uint64_t graph, uint32_t stack_id, uint64_t bytes)
{
    builder_event(builder, DRIVER(POOL, .address = 1, .total_bytes = bytes, .stack_id = stack_id,
                                  .flags = VT_FLAG_CAPTURED, .thread_id = 11));
    builder_event(builder, DRIVER(GRAPH_LAUNCH, .address = graph + 1, .device_index = -1,
                                  .stack_id = stack_id, .thread_id = 11));
}

static uint64_t bytes_of(const struct vt_replay *replay, uint32_t stack_id)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < replay->allocation_count; i++)
        bytes += replay->allocations[i].stack_id == stack_id ? replay->allocations[i].bytes : 0;
    return bytes;
}

enum { LAUNCH, FIRST, SECOND, STACKS };

static struct builder *begin(uint32_t stacks[STACKS])
{
    const uint64_t frames[] = {0xa00, 0xb00, 0xc00};
    struct builder *builder = builder_new(16);
    for (int i = 0; i < STACKS; i++)
        stacks[i] = builder_stack(builder, 11, &frames[i], 1, NULL, 0);
    return builder;
}

static void expect(struct builder *builder, const uint32_t stacks[STACKS], uint64_t launched, uint64_t first,
                   uint64_t second)
{
    struct vt_trace *trace = builder_open(builder);
    struct vt_replay *replay = vt_replay_make(trace);
    char error[512];
    cr_assert_eq(vt_replay_verify(replay, 0, error, sizeof error), 0, "%s", error);
    cr_expect_eq(bytes_of(replay, stacks[LAUNCH]), launched);
    cr_expect_eq(bytes_of(replay, stacks[FIRST]), first);
    cr_expect_eq(bytes_of(replay, stacks[SECOND]), second);
    vt_replay_free(replay);
    vt_trace_close(trace);
    builder_free(builder);
}

Test(graph_nodes, of_two_lines_split_what_came)
{
    uint32_t stacks[STACKS];
    struct builder *builder = begin(stacks);
    const uint32_t made[] = {stacks[FIRST], stacks[SECOND], stacks[FIRST]};
    put_capture(builder, 0x100, made, (const uint64_t[]){4 * MIB, 10 * MIB, 2 * MIB}, 3);
    launch(builder, 0x100, stacks[LAUNCH], 16 * MIB);
    expect(builder, stacks, 0, 6 * MIB, 10 * MIB);
}

Test(graph_nodes, of_one_line_may_share_memory)
{
    uint32_t stacks[STACKS];
    struct builder *builder = begin(stacks);
    const uint32_t made[] = {stacks[FIRST], stacks[FIRST]};
    put_capture(builder, 0x100, made, (const uint64_t[]){8 * MIB, 8 * MIB}, 2);
    launch(builder, 0x100, stacks[LAUNCH], 8 * MIB);
    expect(builder, stacks, 0, 8 * MIB, 0);
}

/* The second's two nodes share memory, as large as that of the first. */
Test(graph_nodes, are_of_the_graph_that_is_launched)
{
    uint32_t stacks[STACKS];
    struct builder *builder = begin(stacks);
    const uint32_t made[] = {stacks[SECOND], stacks[SECOND]};
    put_capture(builder, 0x100, &stacks[FIRST], (const uint64_t[]){6 * MIB}, 1);
    put_capture(builder, 0x200, made, (const uint64_t[]){6 * MIB, 6 * MIB}, 2);
    launch(builder, 0x200, stacks[LAUNCH], 6 * MIB);
    launch(builder, 0x100, stacks[LAUNCH], 10 * MIB); /* of what the second left it takes 2 MiB */
    expect(builder, stacks, 0, 4 * MIB, 6 * MIB);
}

/* Which of the lines shares with which is not known. */
Test(graph_nodes, that_cannot_be_told_apart_leave_it_at_the_launch)
{
    uint32_t stacks[STACKS];
    struct builder *builder = begin(stacks);
    const uint32_t made[] = {stacks[FIRST], stacks[SECOND]};
    put_capture(builder, 0x100, made, (const uint64_t[]){8 * MIB, 6 * MIB}, 2);
    launch(builder, 0x100, stacks[LAUNCH], 8 * MIB);
    expect(builder, stacks, 8 * MIB, 0, 0);
}
