#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/checksum.h"
#include "replay/replay.h"
#include "replay/walk.h"
#include "trace_builder.h"

#define GIB (UINT64_C(1) << 30)

static struct vt_event alloc_event(uint64_t address, uint64_t bytes, uint32_t stack_id)
{
    return (struct vt_event){.kind = VT_EVENT_ALLOC,
                             .layer = VT_LAYER_DRIVER,
                             .address = address,
                             .bytes = bytes,
                             .stack_id = stack_id};
}

/* A small trace with a bit of everything. */
static struct builder *small_trace(void)
{
    static const char *const words[] = {"python", "train.py", "--lr=1", "/home/someone",
                                        "/usr/bin/python3.11"};
    struct builder *builder = builder_new(64);
    builder_process(builder, words, 3, 5);
    builder_device(builder, 0, 80 * GIB, "Some GPU");
    builder_thread(builder, 77, "main");
    builder_function(builder, 5, "cuMemAlloc_v2");
    uint64_t mark = builder_string(builder, "after forward");
    uint32_t code = builder_code(builder, "/home/someone/train.py", "main", 10);
    builder_module(builder, 0x10000, 0x20000, "/usr/lib/libsomething.so", "\x01\x02", 2);
    builder_symbol(builder, 0x10010, 0x10000, "_ZN2at4_ops5addmm4callERKNS_6TensorE");
    uint64_t native[] = {0x10010, 0x999};
    struct vt_python_frame python[] = {{.code_id = code, .instruction_offset = -1}};
    uint32_t stack = builder_stack(builder, 77, native, 2, python, 1);
    builder_event(builder, alloc_event(0x7000000000, 2 << 20, stack));
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_MARK, .detail = mark, .device_index = -1});
    builder_end_chunk(builder);
    builder_event(builder, alloc_event(0x7100000000, 3 << 20, stack));
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_FREE,
                                             .layer = VT_LAYER_DRIVER,
                                             .address = 0x7000000000,
                                             .device_index = -1});
    return builder;
}

static int open_error(struct builder *builder, const void *image, size_t bytes, char *error)
{
    struct vt_trace *trace;
    int result = vt_trace_open(builder_write_bytes(builder, image, bytes), NULL, &trace, error, 512);
    cr_assert(result == 0 || trace == NULL);
    vt_trace_close(trace);
    return result;
}

Test(reader, reads_what_was_written)
{
    struct builder *builder = small_trace();
    struct vt_trace *trace = builder_open(builder);
    cr_assert(trace->complete);
    cr_assert_not(trace->truncated);
    cr_assert_eq(trace->event_count, 4);
    cr_assert_eq(trace->events[0].bytes, 2 << 20);
    cr_assert_eq(trace->events[3].address, 0x7000000000);
    cr_assert_eq(trace->events[3].device_index, -1);
    cr_assert_eq(trace->events[3].t_ns - trace->events[0].t_ns, 3 * 1024);
    cr_assert_str_eq(vt_trace_string(trace, trace->events[1].detail), "after forward");
    cr_assert_str_eq(trace->command, "python train.py --lr=1");
    cr_assert_str_eq(trace->arguments[1], "train.py");
    cr_assert_eq(trace->argument_count, 3);
    cr_assert_str_eq(trace->working_folder, "/home/someone");
    cr_assert_str_eq(trace->executable, "/usr/bin/python3.11");
    cr_assert_eq(trace->device_count, 1);
    cr_assert_str_eq(trace->devices[0].name, "Some GPU");
    cr_assert_str_eq(vt_trace_function(trace, 5), "cuMemAlloc_v2");
    cr_assert_null(vt_trace_function(trace, 6));
    cr_assert_str_eq(vt_trace_thread_name(trace, 77), "main");
    vt_trace_close(trace);
    builder_free(builder);
}

Test(reader, frames_have_names)
{
    struct builder *builder = small_trace();
    struct vt_trace *trace = builder_open(builder);
    struct vt_frame frames[3], user;
    cr_assert_eq(vt_trace_frames(trace, trace->events[0].stack_id, frames, 3), 3);
    cr_assert_str_eq(frames[0].function, "at::_ops::addmm::call");
    cr_assert_str_eq(frames[0].full_function, "at::_ops::addmm::call(at::Tensor const&)");
    cr_assert_str_eq(frames[0].module, "/usr/lib/libsomething.so");
    cr_assert_str_eq(frames[1].function, "0x999");
    cr_assert_str_eq(frames[2].function, "main");
    cr_assert_eq(frames[2].line, 10);
    cr_assert(vt_trace_user_frame(trace, trace->events[0].stack_id, &user));
    cr_assert_str_eq(user.file, "/home/someone/train.py");
    cr_assert_eq(vt_trace_frames(trace, 0, frames, 3), 0);
    cr_assert_eq(vt_trace_frames(trace, 12345, frames, 3), 0);
    cr_assert_not(vt_trace_user_frame(trace, 0, &user));
    vt_trace_close(trace);
    builder_free(builder);
}

Test(reader, refuses_what_is_no_trace)
{
    struct builder *builder = small_trace();
    char error[512];
    size_t bytes;
    cr_assert_eq(open_error(builder, "", 0, error), -ENODATA);
    cr_assert(strstr(error, " is empty: "));
    cr_assert_eq(open_error(builder, "notes", 5, error), -EBADMSG);
    cr_assert(strstr(error, "too short"));
    cr_assert_eq(open_error(builder, VT_MAGIC, 8, error), -EBADMSG);
    cr_assert(strstr(error, "cut off"));
    uint8_t *image = calloc(1, VT_HEADER_BYTES);
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -ENODATA);
    image[VT_HEADER_BYTES - 1] = 1;
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -EBADMSG);
    memset(image, 'x', VT_HEADER_BYTES);
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -EBADMSG);
    cr_assert(strstr(error, "not a vramtrace trace"));
    memcpy(image, builder_image(builder, &bytes), VT_HEADER_BYTES);
    struct vt_file_header *header = (struct vt_file_header *)image;
    header->minimum_readable = VT_FORMAT_VERSION + 1;
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -EPROTO);
    header->minimum_readable = VT_FORMAT_MINIMUM_READABLE;
    header->feature_bits |= 4;
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -EPROTO);
    header->feature_bits = VT_FEATURE_EVENT_THREADS | UINT64_C(1) << 40; /* the high half may be ignored */
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), 0);
    header->ring_slots = UINT64_C(1) << 60;
    cr_assert_eq(open_error(builder, image, VT_HEADER_BYTES, error), -EBADMSG);
    cr_assert_null(strchr(error, '\n'));
    struct vt_trace *trace;
    cr_assert_eq(vt_trace_open("/tmp", NULL, &trace, error, sizeof error), -EBADMSG);
    cr_assert_eq(vt_trace_open("/nonexistent/x.vrt", NULL, &trace, error, sizeof error), -ENOENT);
    free(image);
    builder_free(builder);
}

/* Which program wrote it stands there, as far as that is a version. */
Test(reader, says_what_wrote_an_old_format)
{
    struct builder *builder = small_trace();
    struct vt_file_header *header = builder_header(builder);
    char error[512];
    size_t bytes;
    strcpy(header->program_version, "0.0.9\x1b[31m");
    header->format_version = header->minimum_readable = 1;
    const uint8_t *image = builder_image(builder, &bytes);
    cr_assert_eq(open_error(builder, image, bytes, error), -EPROTO);
    cr_assert(strstr(error, "written by vramtrace 0.0.9 in format 1, and this vramtrace reads format 3: read "
                            "it with the version that wrote it"),
              "%s", error);
    header->program_version[0] = 0;
    image = builder_image(builder, &bytes);
    cr_assert_eq(open_error(builder, image, bytes, error), -EPROTO);
    cr_assert(strstr(error, ": written in format 1, and this vramtrace reads format 3: read it with the "
                            "version that wrote it"),
              "%s", error);
    header->format_version = header->minimum_readable = VT_FORMAT_VERSION;
    header->feature_bits = 0;
    image = builder_image(builder, &bytes);
    cr_assert_eq(open_error(builder, image, bytes, error), -EPROTO);
    builder_free(builder);
}

/* What lies behind the loop of autograd's engine is recorded only until the recorder knows it. */
Test(reader, stacks_end_at_the_engines_loop)
{
    static const char *const symbols[] = {"_ZN5torch8autograd9generated14AddmmBackward05applyEv",
                                          "_ZN5torch8autograd6Engine17evaluate_functionEv",
                                          "_ZN5torch8autograd6Engine11thread_mainEv", "start_thread"};
    static const uint64_t native[] = {0x10000, 0x10010, 0x10020, 0x10030};
    static const struct vt_python_frame python = {.code_id = 1, .instruction_offset = 30};
    struct builder *builder = builder_new(64);
    builder_code(builder, "/x/train.py", "main", 1);
    for (size_t i = 0; i < 4; i++)
        builder_symbol(builder, native[i], 0, symbols[i]);
    uint32_t stacks[] = {
        builder_stack(builder, 77, native, 4, NULL, 0),     /* from before */
        builder_stack(builder, 77, native, 2, NULL, 0),     /* the same, once it is known */
        builder_stack(builder, 78, native, 4, NULL, 0),     /* another thread's */
        builder_stack(builder, 77, native, 4, &python, 1),  /* on a thread with Python */
        builder_stack(builder, 77, native + 2, 2, NULL, 0), /* nothing of a node */
    };
    for (uint64_t i = 0; i < 5; i++)
        builder_event(builder, alloc_event(0x7000000000 + i * GIB, 2 << 20, stacks[i]));
    builder_end_chunk(builder);
    struct vt_trace *trace = builder_open(builder);
    cr_expect_eq(trace->events[0].stack_id, trace->events[1].stack_id);
    for (int i = 1; i < 5; i++) {
        cr_expect_eq(trace->stacks[trace->events[i].stack_id].native_count, 2, "%d", i);
        for (int j = 1; j < i; j++)
            cr_expect_neq(trace->events[i].stack_id, trace->events[j].stack_id, "%d, %d", i, j);
    }
    cr_expect_eq(trace->stacks[trace->events[3].stack_id].python_count, 1);
    cr_expect_eq(trace->missing_stacks, 0);
    vt_trace_close(trace);
    builder_free(builder);
}

/* Stacks without Python: a program's own frame, an autograd node, what autograd does beside nodes, an
 * operator's kernel; never the allocator, the dispatcher or what makes empty tensors. */
Test(reader, native_stacks_are_told_by_what_a_person_knows)
{
    static const char *const symbols[] = {
        "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator6mallocEPPvimP11CUstream_st",
        "_ZN2at6detail13empty_genericEv",
        "_ZN2at4_ops5empty4callEv",
        "_ZN2at6native15layer_norm_cudaEv",
        "_ZN5torch8autograd9generated14AddmmBackward05applyEv",
        "_ZN5torch8autograd10accumulateEv",
        "_ZN5torch8autograd6Engine11thread_mainEv",
        "own_function"};
    static const struct {
        uint64_t native[6];
        uint16_t count;
        const char *expected;
    } cases[] = {
        {{0x10000, 0x10010, 0x10020, 0x10040, 0x10060}, 5, "AddmmBackward0"},
        {{0x10000, 0x10010, 0x10020, 0x10050, 0x10060}, 5, "torch::autograd::accumulate"},
        {{0x10000, 0x10010, 0x10020, 0x10030}, 4, "at::native::layer_norm_cuda"},
        {{0x10000, 0x10030, 0x20070}, 3, "own_function"},
        {{0x10000, 0x10010}, 2, "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc"}};
    static const char *const words[] = {"python"};
    struct builder *builder = builder_new(64);
    struct vt_frame user;
    uint32_t stacks[5];
    builder_process(builder, words, 1, 1);
    builder_module(builder, 0x10000, 0x20000, "/x/torch/lib/libtorch_cuda.so", "\x01\x02", 2);
    builder_module(builder, 0x20000, 0x30000, "/x/own.so", "\x01\x03", 2);
    for (uint64_t i = 0; i < 8; i++)
        builder_symbol(builder, (i == 7 ? 0x20000 : 0x10000) + i * 16, i == 7 ? 0x20000 : 0x10000,
                       symbols[i]);
    for (int i = 0; i < 5; i++) {
        stacks[i] = builder_stack(builder, 77, cases[i].native, cases[i].count, NULL, 0);
        builder_event(builder, alloc_event(0x7000000000 + (uint64_t)i * GIB, 2 << 20, stacks[i]));
    }
    builder_end_chunk(builder);
    struct vt_trace *trace = builder_open(builder);
    for (int i = 0; i < 5; i++) {
        cr_assert(vt_trace_user_frame(trace, stacks[i], &user));
        cr_expect_str_eq(user.function, cases[i].expected);
    }
    vt_trace_close(trace);
    builder_free(builder);
}

Test(reader, survives_every_truncation)
{
    struct builder *builder = small_trace();
    builder_ring(builder, 62); /* wraps */
    for (int i = 0; i < 6; i++)
        builder_event(builder, alloc_event(0x7200000000 + (uint64_t)i * GIB, 1 << 20, 1));
    size_t bytes, ring_bytes;
    char error[512];
    const uint8_t *image = builder_image(builder, &bytes);
    uint8_t *copy = malloc(bytes);
    memcpy(copy, image, bytes);
    for (size_t cut = 0; cut <= bytes; cut += cut < VT_HEADER_BYTES ? 64 : 1) {
        int result = open_error(builder, copy, cut, error);
        cr_assert_eq(result,
                     cut >= sizeof(struct vt_file_header) ? 0
                     : cut                                ? -EBADMSG
                                                          : -ENODATA,
                     "cut at %zu: %d", cut, result);
    }
    const uint8_t *ring = builder_ring_image(builder, &ring_bytes);
    for (size_t cut = 0; cut <= ring_bytes; cut += 64) {
        builder_write_ring(builder, ring, cut);
        cr_assert_eq(open_error(builder, copy, bytes, error), 0, "ring cut at %zu", cut);
    }
    free(copy);
    builder_free(builder);
}

/* Everything that can be asked of a trace, for damaged ones. */
static void exercise(struct vt_trace *trace)
{
    struct vt_frame frames[8];
    struct vt_replay *replay;
    char error[512];
    for (uint32_t i = 0; i < trace->stack_count; i++) {
        vt_trace_frames(trace, i, frames, 8);
        vt_trace_user_frame(trace, i, frames);
    }
    replay = vt_replay_make(trace);
    for (int i = 0; i < replay->device_count; i++)
        cr_assert_eq(vt_replay_verify(replay, i, error, sizeof error), 0, "%s", error);
    vt_replay_free(replay);
}

static void open_and_exercise(struct builder *builder, const uint8_t *image, size_t bytes)
{
    struct vt_trace *trace;
    char error[512];
    if (vt_trace_open(builder_write_bytes(builder, image, bytes), NULL, &trace, error, sizeof error))
        return;
    exercise(trace);
    vt_trace_close(trace);
}

Test(reader, survives_every_changed_byte)
{
    struct builder *builder = small_trace();
    builder_ring(builder, 0);
    uint64_t native[] = {0x10010};
    builder_stack(builder, 1, native, 1, NULL, 0);
    builder_code(builder, "file.py", "name", 1);
    builder_event(builder, alloc_event(0x7300000000, 1 << 20, 1));
    size_t bytes, ring_bytes;
    const uint8_t *image = builder_image(builder, &bytes), *ring = builder_ring_image(builder, &ring_bytes);
    uint8_t *copy = malloc(bytes), *ring_copy = malloc(ring_bytes);
    memcpy(copy, image, bytes);
    memcpy(ring_copy, ring, ring_bytes);
    for (size_t at = 0; at < bytes; at++) {
        if (at >= 512 && at < VT_HEADER_BYTES) /* live counters and padding */
            continue;
        for (int bit = 0; bit < 8; bit += 7) {
            copy[at] ^= (uint8_t)(1 << bit);
            open_and_exercise(builder, copy, bytes);
            copy[at] ^= (uint8_t)(1 << bit);
        }
    }
    for (size_t at = 0; at < ring_bytes; at++) {
        if (at >= offsetof(struct vt_ring_header, counters) && at < VT_RING_HEADER_BYTES)
            continue;
        for (int bit = 0; bit < 8; bit += 7) {
            ring_copy[at] ^= (uint8_t)(1 << bit);
            builder_write_ring(builder, ring_copy, ring_bytes);
            open_and_exercise(builder, copy, bytes);
            ring_copy[at] ^= (uint8_t)(1 << bit);
        }
    }
    free(copy);
    free(ring_copy);
    builder_free(builder);
}

Test(reader, steps_over_a_damaged_chunk)
{
    struct builder *builder = small_trace();
    builder_end_chunk(builder);
    builder_end_chain(builder); /* else what follows were lost with the damaged one */
    builder_event(builder, alloc_event(0x7400000000, 5 << 20, 0));
    size_t bytes;
    const uint8_t *image = builder_image(builder, &bytes);
    uint8_t *copy = malloc(bytes);
    memcpy(copy, image, bytes);
    struct vt_chunk_header first;
    size_t at = builder_header(builder)->chunks_offset;
    memcpy(&first, copy + at, sizeof first);
    copy[at + sizeof first + first.stored_bytes + 3] ^= 0xff; /* the second one's magic */
    struct vt_trace *trace;
    char error[512];
    cr_assert_eq(vt_trace_open(builder_write_bytes(builder, copy, bytes), NULL, &trace, error, sizeof error),
                 0);
    cr_assert(trace->truncated);
    cr_assert_not(trace->complete);
    cr_assert_gt(trace->damaged_bytes, 40);
    cr_assert_eq(trace->recorded_events, 5); /* of the chain its digest */
    cr_assert_eq(trace->gap_count, 1);
    cr_assert_eq(trace->events[trace->event_count - 1].bytes, 5 << 20);
    vt_trace_close(trace);
    free(copy);
    builder_free(builder);
}

Test(reader, takes_the_rest_of_the_ring)
{
    struct builder *builder = builder_new(16);
    builder_event(builder, alloc_event(0x1000, 4096, 0));
    builder_ring(builder, 29); /* three slots before the ring's end */
    builder_event(builder, alloc_event(0x2000, 4096, 1));
    builder_unfinished(builder, 1, 1);
    uint64_t native[] = {1, 2, 3, 4, 5, 6, 7, 8};
    builder_stack(builder, 9, native, 8, NULL, 0); /* two slots: a pad, then the ring's start */
    builder_unfinished(builder, 2, 0);
    builder_event(builder, alloc_event(0x3000, 4096, 1));
    builder_event(builder, alloc_event(0x4000, 4096, 7));
    struct vt_trace *trace = builder_open(builder);
    cr_assert_not(trace->complete);
    cr_assert_not(trace->truncated);
    cr_assert_eq(trace->event_count, 4);
    cr_assert_eq(trace->ring_events, 3);
    cr_assert_eq(trace->unfinished_records, 2);
    cr_assert_eq(trace->events[1].stack_id, 1);
    cr_assert_eq(trace->stacks[1].native_count, 8);
    cr_assert_eq(trace->stacks[1].native[7], 8);
    cr_assert_eq(trace->missing_stacks, 1);
    cr_assert_eq(trace->events[3].stack_id, 0);
    vt_trace_close(trace);
    builder_free(builder);
}

Test(reader, takes_no_record_twice)
{
    struct builder *builder = builder_new(16);
    builder_ring(builder, 0);
    builder_event(builder, alloc_event(0x2000, 4096, 0));
    builder_event(builder, alloc_event(0x3000, 4096, 0));
    /* killed after the chunk was appended, before the ring's positions were raised */
    size_t bytes;
    builder_image(builder, &bytes);
    struct builder *same = builder_new(16);
    builder_ring(same, 0);
    builder_event(same, alloc_event(0x2000, 4096, 0));
    builder_event(same, alloc_event(0x3000, 4096, 0));
    builder_end_chunk(same); /* empty, but tells that positions up to 2 are in chunks */
    builder_event(same, alloc_event(0x4000, 4096, 0));
    struct vt_trace *trace = builder_open(same);
    cr_assert_eq(trace->event_count, 1);
    cr_assert_eq(trace->events[0].address, 0x4000);
    vt_trace_close(trace);
    builder_free(same);
    builder_free(builder);
}

Test(reader, cleans_text)
{
    struct builder *builder = builder_new(16);
    uint64_t id = builder_string(builder, "a\x1b[31mb\xff\xc3\xa9");
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_MARK, .detail = id});
    struct vt_trace *trace = builder_open(builder);
    cr_assert_str_eq(vt_trace_string(trace, id), "a\xef\xbf\xbd[31mb\xef\xbf\xbd\xc3\xa9");
    vt_trace_close(trace);
    builder_free(builder);
}

Test(reader, bounds_ids)
{
    struct builder *builder = builder_new(16);
    struct {
        uint32_t stack_id, thread_id;
        uint16_t more[8];
        uint32_t flags[2];
    } body = {.stack_id = 4000000000u};
    builder_raw(builder, VT_RECORD_STACK, &body, 24);
    builder_event(builder, alloc_event(0x1000, 1, 4000000000u));
    struct vt_trace *trace = builder_open(builder);
    cr_assert_lt(trace->stack_count, 100);
    cr_assert_eq(trace->missing_stacks, 1);
    vt_trace_close(trace);
    builder_free(builder);
}

/* A trace with a chunk that says to have so many events more than it has. */
static struct vt_trace *open_with_more_events(uint32_t events, uint32_t more)
{
    struct builder *builder = builder_new(16);
    size_t bytes;
    char error[512];
    struct vt_trace *trace;
    for (uint32_t i = 0; i < events; i++)
        builder_event(builder, (struct vt_event){.kind = VT_EVENT_RANGE_POP});
    const uint8_t *image = builder_image(builder, &bytes);
    uint8_t *copy = malloc(bytes);
    memcpy(copy, image, bytes);
    struct vt_chunk_header *head = (struct vt_chunk_header *)(copy + VT_HEADER_BYTES);
    head->events += more;
    head->checksum = vt_chunk_checksum(head, (const uint8_t *)(head + 1));
    cr_assert_eq(vt_trace_open(builder_write_bytes(builder, copy, bytes), NULL, &trace, error, sizeof error),
                 0, "%s", error);
    free(copy);
    builder_free(builder);
    return trace;
}

Test(reader, bounds_the_events_of_a_chunk)
{
    struct vt_trace *trace = open_with_more_events(VT_CHUNK_EVENTS, 0);
    cr_assert_eq(trace->event_count, VT_CHUNK_EVENTS);
    cr_assert(trace->complete);
    vt_trace_close(trace);
    trace = open_with_more_events(VT_CHUNK_EVENTS, 1);
    cr_assert_eq(trace->event_count, 0);
    cr_assert(trace->truncated);
    vt_trace_close(trace);
}

/* Events take more memory than room in a file, so a small file may not have many. */
Test(reader, bounds_events_by_the_size_of_the_file)
{
    struct vt_trace *trace = open_with_more_events(16, 0);
    cr_assert_eq(trace->event_count, 16);
    vt_trace_close(trace);
    trace = open_with_more_events(16, VT_EVENTS_PER_BYTE * 100);
    cr_assert_eq(trace->event_count, 0);
    cr_assert(trace->truncated);
    vt_trace_close(trace);
}

Test(reader, bounds_arguments)
{
    struct builder *builder = builder_new(16);
    uint32_t bytes = 3 << 20;
    uint32_t *body = calloc(1, bytes); /* as many arguments, all of them empty */
    body[0] = UINT32_MAX;
    builder_raw(builder, VT_RECORD_PROCESS, body, bytes);
    struct vt_trace *trace = builder_open(builder);
    cr_assert_leq(trace->argument_count, (1 << 16) + 2);
    vt_trace_close(trace);
    builder_free(builder);
    free(body);
}

Test(reader, bounds_records)
{
    struct builder *builder = builder_new(16);
    uint32_t bytes = UINT16_MAX * VT_SLOT_BYTES;
    uint32_t *body = calloc(1, bytes);
    body[0] = 7; /* a string's id */
    memset(body + 2, 'a', bytes - 8);
    builder_raw(builder, VT_RECORD_STRING, body, bytes);
    struct vt_trace *trace = builder_open(builder);
    cr_assert_null(vt_trace_string(trace, 7));
    cr_assert(trace->truncated);
    vt_trace_close(trace);
    builder_free(builder);
    free(body);
}
