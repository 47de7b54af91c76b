#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "replay/replay.h"
#include "replay/walk.h"
#include "trace_builder.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define SEGMENT UINT64_C(0x7f0000000000)

/* Short names for the fields that most events have. */
#define DRIVER(kind_, ...)                                                                                   \
    ((struct vt_event){.kind = VT_EVENT_##kind_, .layer = VT_LAYER_DRIVER, __VA_ARGS__})
#define BLOCK(kind_, address_, bytes_, total_)                                                               \
    ((struct vt_event){.kind = VT_EVENT_##kind_,                                                             \
                       .layer = VT_LAYER_FRAMEWORK,                                                          \
                       .address = (address_),                                                                \
                       .bytes = (bytes_),                                                                    \
                       .total_bytes = (total_),                                                              \
                       .detail = 1})
#define UNCOUNTED(kind_, address_, bytes_)                                                                   \
    ((struct vt_event){.kind = VT_EVENT_##kind_,                                                             \
                       .layer = VT_LAYER_FRAMEWORK,                                                          \
                       .flags = VT_FLAG_UNCOUNTED,                                                           \
                       .address = (address_),                                                                \
                       .bytes = (bytes_)})

struct fixture {
    struct builder *builder;
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_counts counts[64]; /* of device 0 after each event that touches it */
    uint32_t last;
};

static int keep(void *context, uint32_t event_index, const struct vt_counts *counts)
{
    struct fixture *fixture = context;
    cr_assert_lt(event_index, 64);
    for (uint32_t i = fixture->last; i < event_index; i++) /* those in between do not touch the device */
        fixture->counts[i + 1] = fixture->counts[fixture->last];
    fixture->counts[event_index] = *counts;
    fixture->last = event_index;
    return 0;
}

static struct fixture begin(void)
{
    return (struct fixture){.builder = builder_new(16)};
}

static void replay(struct fixture *fixture)
{
    const struct vt_replay_visitor visitor = {.visit = keep, .context = fixture};
    char error[512];
    fixture->trace = builder_open(fixture->builder);
    fixture->replay = vt_replay_make(fixture->trace);
    cr_assert_eq(vt_replay_walk(fixture->replay, 0, &visitor), 0);
    for (int i = 0; i < fixture->replay->device_count; i++)
        cr_assert_eq(vt_replay_verify(fixture->replay, i, error, sizeof error), 0, "%s", error);
}

static void end(struct fixture *fixture)
{
    vt_replay_free(fixture->replay);
    vt_trace_close(fixture->trace);
    builder_free(fixture->builder);
}

static uint64_t driver(const struct fixture *fixture, int event)
{
    return fixture->counts[event].driver_bytes;
}

static uint64_t cached(const struct fixture *fixture, int event)
{
    return fixture->counts[event].cached_bytes;
}

Test(replay, nests_blocks_in_segments)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, 4 * MIB, 4 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT + 4 * MIB, 1 * MIB, 5 * MIB));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT + 64 * MIB, .bytes = 32 * MIB));
    builder_event(f.builder, BLOCK(FREE, SEGMENT, 4 * MIB, 1 * MIB));
    builder_event(f.builder, BLOCK(FREE, SEGMENT + 4 * MIB, 1 * MIB, 0));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .device_index = -1));
    replay(&f);
    cr_assert_eq(driver(&f, 0), 20 * MIB);
    cr_assert_eq(cached(&f, 0), 20 * MIB); /* told by the blocks that came later */
    cr_assert_eq(cached(&f, 2), 15 * MIB);
    cr_assert_eq(f.counts[2].block_bytes, 5 * MIB);
    cr_assert_eq(driver(&f, 3), 52 * MIB);
    cr_assert_eq(f.counts[3].segment_bytes, 20 * MIB);
    cr_assert_eq(cached(&f, 3), 15 * MIB);
    cr_assert_eq(cached(&f, 4), 19 * MIB);
    cr_assert_eq(driver(&f, 6), 32 * MIB);
    cr_assert_eq(f.replay->allocations[0].kind, VT_ALLOCATION_SEGMENT);
    cr_assert_eq(f.replay->allocations[1].parent, 0);
    cr_assert_eq(f.replay->allocations[3].kind, VT_ALLOCATION_DRIVER);
    cr_assert_eq(f.replay->total_mismatches, 0);
    cr_assert_eq(f.replay->unknown_frees, 0);
    end(&f);
}

Test(replay, counts_what_it_cannot_explain)
{
    struct fixture f = begin();
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, 4 * MIB, 9 * MIB)); /* segment not seen, counter differs */
    builder_event(f.builder, DRIVER(FREE, .address = 0x1234));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT + 64 * MIB, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT + 64 * MIB, .bytes = 3 * MIB));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT + 128 * MIB, .bytes = UINT64_C(1) << 60));
    replay(&f);
    cr_assert_eq(driver(&f, 0), 4 * MIB);
    cr_assert_eq(f.replay->total_mismatches, 1);
    cr_assert_eq(f.replay->unknown_frees, 1);
    cr_assert_eq(f.replay->doubled_allocations, 1);
    cr_assert_eq(f.replay->implausible_events, 1);
    cr_assert_eq(driver(&f, 4), 7 * MIB);
    end(&f);
}

Test(replay, ends_blocks_with_their_segment)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, 4 * MIB, 4 * MIB));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT)); /* the block's free was lost */
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 10 * MIB));
    replay(&f);
    cr_assert_eq(driver(&f, 2), 0);
    cr_assert_eq(f.replay->allocations[1].free_event, 2);
    cr_assert_eq(driver(&f, 3), 10 * MIB);
    end(&f);
}

/* An expandable segment: one block over three mappings of 2 MiB. */
Test(replay, lets_a_block_lie_in_several_mappings)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(RESERVE, .address = SEGMENT, .bytes = 1024 * MIB));
    for (uint64_t i = 0; i < 3; i++) {
        builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100 + i, .bytes = 2 * MIB));
        builder_event(f.builder,
                      DRIVER(MAP, .address = SEGMENT + i * 2 * MIB, .bytes = 2 * MIB, .detail = 0x100 + i));
    }
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT + MIB, 4 * MIB, 4 * MIB)); /* 7 */
    builder_event(f.builder, BLOCK(FREE, SEGMENT + MIB, 4 * MIB, 0));
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT, .bytes = 6 * MIB)); /* 9 */
    for (uint64_t i = 0; i < 3; i++)
        builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100 + i));
    replay(&f);
    cr_assert_eq(driver(&f, 6), 6 * MIB);
    cr_assert_eq(cached(&f, 6), 6 * MIB);
    cr_assert_eq(cached(&f, 7), 2 * MIB);
    cr_assert_eq(driver(&f, 9), 6 * MIB); /* unmapped, not yet released */
    cr_assert_eq(driver(&f, 12), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(f.replay->allocations[i].kind, VT_ALLOCATION_SEGMENT);
        cr_assert_eq(f.replay->allocations[i].address, SEGMENT + (uint64_t)i * 2 * MIB);
    }
    cr_assert_eq(f.replay->allocations[3].parent, 0);
    cr_assert_eq(f.replay->unknown_frees, 0);
    end(&f);
}

Test(replay, keeps_physical_memory_until_released_and_unmapped)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(HANDLE_RETAIN, .address = 0x100));
    builder_event(f.builder, DRIVER(MAP, .address = SEGMENT, .bytes = 2 * MIB, .detail = 0x100));
    builder_event(f.builder,
                  DRIVER(MAP, .address = SEGMENT + 64 * MIB, .bytes = 2 * MIB, .detail = 0x100)); /* alias */
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT, .bytes = 2 * MIB)); /* 6 */
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT + 64 * MIB, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    replay(&f);
    for (int i = 0; i <= 6; i++)
        cr_assert_eq(driver(&f, i), 2 * MIB, "event %d", i);
    cr_assert_eq(driver(&f, 7), 0);
    cr_assert_eq(f.replay->unknown_frees, 1);
    end(&f);
}

Test(replay, keeps_memory_that_is_bound_to_a_multicast_object)
{
    struct fixture f = begin();
    builder_event(f.builder,
                  DRIVER(MULTICAST_CREATE, .address = 0x900, .bytes = 8 * MIB, .device_index = -1));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 2 * MIB));
    builder_event(f.builder,
                  DRIVER(BIND, .address = 0x900, .bytes = 2 * MIB, .detail = 0x100, .device_index = -1));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100)); /* 3 */
    builder_event(f.builder,
                  DRIVER(MAP, .address = SEGMENT, .bytes = 8 * MIB, .detail = 0x900, .device_index = -1));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x200, .bytes = 4 * MIB));
    builder_event(f.builder, DRIVER(MAP, .address = 2 * SEGMENT, .bytes = 4 * MIB, .detail = 0x200));
    builder_event(f.builder, DRIVER(BIND_ADDRESS, .address = 0x900, .bytes = 2 * MIB,
                                    .detail = 2 * SEGMENT + MIB, .total_bytes = 6 * MIB, .device_index = 0));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x200));
    builder_event(f.builder, DRIVER(UNMAP, .address = 2 * SEGMENT, .bytes = 4 * MIB)); /* 9 */
    builder_event(f.builder, DRIVER(UNBIND, .address = 0x900, .bytes = 2 * MIB, .device_index = 0));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x900));            /* 11: mapped */
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT, .bytes = 8 * MIB)); /* 12: the end of all */
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT));
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT, .bytes = 8 * MIB));
    replay(&f);
    for (int i = 1; i <= 4; i++)
        cr_assert_eq(driver(&f, i), 2 * MIB, "event %d", i);
    for (int i = 5; i <= 9; i++)
        cr_assert_eq(driver(&f, i), 6 * MIB, "event %d", i);
    cr_assert_eq(driver(&f, 10), 4 * MIB);
    cr_assert_eq(driver(&f, 11), 4 * MIB);
    cr_assert_eq(driver(&f, 13), 4 * MIB); /* the unmapping before it did not happen */
    cr_assert_eq(driver(&f, 14), 0);
    cr_assert_eq(f.replay->allocation_count, 2);
    cr_assert_eq(f.replay->unknown_frees, 0);
    cr_assert_eq(f.replay->doubled_allocations, 0);
    end(&f);
}

Test(replay, takes_another_process_multicast_object)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x900, .flags = VT_FLAG_FOREIGN));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 2 * MIB));
    builder_event(f.builder,
                  DRIVER(HANDLE_CREATE, .address = 0x100, .flags = VT_FLAG_FOREIGN)); /* it comes back */
    builder_event(f.builder,
                  DRIVER(BIND, .address = 0x900, .bytes = 2 * MIB, .detail = 0x100, .device_index = -1));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100)); /* 5 */
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x900));
    builder_event(f.builder, DRIVER(UNBIND, .address = 0x900, .bytes = 2 * MIB));
    replay(&f);
    cr_assert_eq(driver(&f, 5), 2 * MIB);
    cr_assert_eq(driver(&f, 6), 0);
    cr_assert_eq(f.replay->unknown_frees, 1); /* of what had ended */
    cr_assert_eq(f.replay->doubled_allocations, 0);
    end(&f);
}

/* What no driver does: objects bound to one another, to themselves, over one another, after their end. */
Test(replay, survives_senseless_bindings)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x200, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(BIND, .address = 0x100, .bytes = MIB, .detail = 0x200));
    builder_event(f.builder,
                  DRIVER(BIND, .address = 0x200, .bytes = MIB, .detail = 0x100)); /* is bound itself */
    builder_event(f.builder, DRIVER(BIND, .address = 0x100, .bytes = 2 * MIB, .detail = 0x200)); /* over it */
    builder_event(f.builder,
                  DRIVER(BIND, .address = 0x100, .bytes = MIB, .detail = 0x100, .total_bytes = 4 * MIB));
    builder_event(f.builder, DRIVER(BIND, .address = 0x300, .bytes = MIB, .detail = 0x200));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(BIND, .address = 0x200, .bytes = MIB, .detail = 0x100));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = 0x100));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(BIND, .address = 0x200, .bytes = UINT64_MAX, .total_bytes = UINT64_MAX));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x200));
    replay(&f);
    cr_assert_eq(driver(&f, 10), 2 * MIB);
    cr_assert_eq(driver(&f, 12), 0);
    cr_assert_eq(f.replay->implausible_events, 1);
    end(&f);
}

Test(replay, undoes_failed_frees)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT)); /* 2 */
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, MIB, MIB));         /* so it is still there */
    builder_event(f.builder, BLOCK(FREE, SEGMENT, MIB, 0));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT)); /* 5 */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT)); /* a mistake of the program's */
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 4 * MIB)); /* 8 */
    builder_event(f.builder, DRIVER(MAP, .address = SEGMENT, .bytes = 4 * MIB, .detail = 0x100));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100));
    builder_event(f.builder, DRIVER(UNMAP, .address = SEGMENT, .bytes = 4 * MIB)); /* 11 */
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT));
    replay(&f);
    cr_assert_eq(driver(&f, 2), 2 * MIB);
    cr_assert_eq(f.replay->allocations[1].parent, 0);
    cr_assert_eq(driver(&f, 5), 0);
    cr_assert_eq(driver(&f, 7), 0); /* the first free did happen */
    cr_assert_eq(f.replay->unknown_frees, 0);
    cr_assert_eq(driver(&f, 12), 4 * MIB);
    end(&f);
}

/* Events of two threads at one address: what a failed free takes back is its own thread's. */
Test(replay, tells_failed_frees_by_thread)
{
    struct fixture f = begin();
    const uint32_t one = builder_stack(f.builder, 1, NULL, 0, NULL, 0),
                   two = builder_stack(f.builder, 2, NULL, 0, NULL, 0),
                   three = builder_stack(f.builder, 3, NULL, 0, NULL, 0);
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 2 * MIB, .stack_id = one));
    /* Two that fail, around each other: it lives on. */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = two));          /* 1 */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = three));        /* 2 */
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT, .stack_id = two));   /* 3 */
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT, .stack_id = three)); /* 4 */
    /* One that fails around one that does not: it is gone. */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = two)); /* 5 */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = one));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT, .stack_id = two)); /* 7 */
    /* One that fails while the address is given out and freed again by others. */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = two));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = MIB, .stack_id = three)); /* 9 */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT, .stack_id = three));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = SEGMENT, .stack_id = two)); /* 11 */
    /* The same for references of physical memory, whose retaining is recorded late. */
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 4 * MIB, .stack_id = one));
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100, .stack_id = two)); /* 13: fails */
    builder_event(f.builder, DRIVER(HANDLE_RELEASE, .address = 0x100, .stack_id = one));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = 0x100, .stack_id = two));     /* 15 */
    builder_event(f.builder, DRIVER(HANDLE_RETAIN, .address = 0x100, .stack_id = three)); /* 16 */
    replay(&f);
    cr_assert_eq(driver(&f, 4), 2 * MIB);
    cr_assert_eq(driver(&f, 7), 0);
    cr_assert_eq(driver(&f, 9), MIB);
    cr_assert_eq(driver(&f, 11), 0);
    cr_assert_eq(driver(&f, 15), 4 * MIB); /* it was there all the time */
    cr_assert_eq(f.replay->allocations[2].free_event, VT_NEVER);
    cr_assert_eq(f.replay->unknown_frees, 0);
    cr_assert_eq(f.replay->doubled_allocations, 0);
    end(&f);
}

Test(replay, ends_memory_with_its_context)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(CONTEXT_CREATE, .address = 0x10));
    builder_event(f.builder, DRIVER(CONTEXT_CREATE, .address = 0x20));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = MIB, .detail = 0x10));
    builder_event(f.builder, DRIVER(ALLOC, .address = 2 * SEGMENT, .bytes = 2 * MIB, .detail = 0x20));
    builder_event(f.builder,
                  DRIVER(ALLOC, .address = 3 * SEGMENT, .bytes = 4 * MIB)); /* of which is not known */
    builder_event(f.builder, DRIVER(CONTEXT_DESTROY, .address = 0x20, .device_index = -1)); /* 5 */
    builder_event(f.builder, DRIVER(FREE, .address = 2 * SEGMENT));
    builder_event(f.builder, DRIVER(FREE_FAILED, .address = 2 * SEGMENT));                  /* 7 */
    builder_event(f.builder, DRIVER(CONTEXT_DESTROY, .address = 0x10, .device_index = -1)); /* 8 */
    replay(&f);
    cr_assert_eq(driver(&f, 4), 7 * MIB);
    cr_assert_eq(driver(&f, 7), 5 * MIB);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(f.replay->allocations[i].free_event, i == 1 ? 5 : 8);
    end(&f);
}

Test(replay, counts_graph_memory_apart)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 2 * MIB,
                                    .flags = VT_FLAG_ASYNC | VT_FLAG_CAPTURED));
    builder_event(f.builder, DRIVER(POOL, .address = 1, .total_bytes = 32 * MIB, .flags = VT_FLAG_CAPTURED));
    builder_event(f.builder,
                  DRIVER(FREE, .address = SEGMENT, .flags = VT_FLAG_ASYNC)); /* of what a launch made */
    builder_event(f.builder, DRIVER(POOL, .address = 1, .flags = VT_FLAG_CAPTURED));
    replay(&f);
    cr_assert_eq(driver(&f, 0), 0);
    cr_assert_eq(driver(&f, 2), 32 * MIB);
    cr_assert_eq(cached(&f, 2), 0);
    cr_assert_eq(driver(&f, 3), 0);
    cr_assert_eq(f.replay->allocations[0].kind, VT_ALLOCATION_GRAPH);
    cr_assert_eq(f.replay->unknown_frees, 0);
    end(&f);
}

Test(replay, counts_pools_by_what_they_reserve)
{
    struct fixture f = begin();
    struct vt_event alloc = DRIVER(ALLOC, .address = SEGMENT, .bytes = 3 * MIB, .flags = VT_FLAG_ASYNC);
    struct vt_event second =
        DRIVER(ALLOC, .address = SEGMENT + 8 * MIB, .bytes = 2 * MIB, .flags = VT_FLAG_ASYNC);
    builder_event(f.builder, alloc); /* before the pool tells of itself */
    builder_event(f.builder, DRIVER(POOL, .address = 0x77, .total_bytes = 32 * MIB, .detail = 3 * MIB));
    builder_event(f.builder, second);
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT + 8 * MIB, MIB, MIB)); /* a framework on top of the pool */
    builder_event(f.builder, BLOCK(FREE, SEGMENT + 8 * MIB, MIB, 0));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT + 8 * MIB)); /* 5 */
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT));
    builder_event(f.builder, DRIVER(POOL, .address = 0x77, .total_bytes = 8 * MIB)); /* trimmed */
    builder_event(f.builder, DRIVER(POOL_DESTROY, .address = 0x77));
    replay(&f);
    cr_assert_eq(driver(&f, 0), 3 * MIB);
    cr_assert_eq(driver(&f, 1), 32 * MIB);
    cr_assert_eq(cached(&f, 1), 29 * MIB);
    cr_assert_eq(cached(&f, 3), 28 * MIB);
    cr_assert(f.replay->allocations[3].holds_blocks);
    cr_assert_eq(cached(&f, 5), 29 * MIB);
    cr_assert_eq(driver(&f, 6), 32 * MIB);
    cr_assert_eq(driver(&f, 7), 8 * MIB);
    cr_assert_eq(driver(&f, 8), 0);
    end(&f);
}

Test(replay, measures_the_context)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(CONTEXT_CREATE, .address = 0xc0));
    builder_event(f.builder, DRIVER(MEMORY_INFO, .bytes = 600 * MIB, .total_bytes = 1000 * MIB));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder,
                  DRIVER(MEMORY_INFO, .bytes = 1 * MIB, .total_bytes = 1000 * MIB)); /* others' use */
    builder_event(f.builder, DRIVER(DELTA, .bytes = 8 * MIB));
    builder_event(f.builder, DRIVER(DELTA, .bytes = 0 - 3 * MIB)); /* 5 */
    builder_event(f.builder, DRIVER(ALLOC, .address = 0x5000, .bytes = 7 * MIB, .flags = VT_FLAG_HOST));
    builder_event(f.builder, DRIVER(HANDLE_CREATE, .address = 0x100, .bytes = 2 * MIB));
    builder_event(f.builder, DRIVER(CONTEXT_DESTROY, .address = 0xc0)); /* 8 */
    replay(&f);
    cr_assert_eq(f.counts[1].context_bytes, 400 * MIB);
    cr_assert_eq(driver(&f, 3), 420 * MIB);
    cr_assert_eq(f.counts[4].context_bytes, 408 * MIB);
    cr_assert_eq(f.counts[5].context_bytes, 405 * MIB);
    cr_assert_eq(f.counts[6].host_pinned_bytes, 7 * MIB);
    cr_assert_eq(driver(&f, 6), 425 * MIB);
    cr_assert_eq(driver(&f, 8), 2 * MIB); /* physical memory outlives contexts */
    cr_assert_eq(f.counts[8].host_pinned_bytes, 0);
    end(&f);
}

Test(replay, takes_known_memory_off_a_late_first_inspection)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, DRIVER(MEMORY_INFO, .bytes = 600 * MIB, .total_bytes = 1000 * MIB));
    replay(&f);
    cr_assert_eq(f.counts[1].context_bytes, 380 * MIB);
    end(&f);
}

Test(replay, keeps_memory_until_the_last_context_ends)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(CONTEXT_CREATE, .address = 0xc0));
    builder_event(f.builder, DRIVER(CONTEXT_CREATE, .address = 0xc1));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, DRIVER(CONTEXT_DESTROY, .address = 0xc1));
    builder_event(f.builder, DRIVER(CONTEXT_DESTROY, .address = 0xc0));
    replay(&f);
    cr_assert_eq(driver(&f, 3), 20 * MIB);
    cr_assert_eq(driver(&f, 4), 0);
    end(&f);
}

Test(replay, leaves_out_what_is_not_ours)
{
    struct fixture f = begin();
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB, .flags = VT_FLAG_FOREIGN));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB, .flags = VT_FLAG_FOREIGN));
    builder_event(f.builder, DRIVER(ALLOC, .address = 0x300000, .bytes = 1 * MIB, .flags = VT_FLAG_CAPTURED));
    builder_event(f.builder, DRIVER(ALLOC, .address = 0x5000, .bytes = 7 * MIB, .flags = VT_FLAG_REGISTERED,
                                    .device_index = -1));
    builder_event(f.builder,
                  DRIVER(ALLOC, .address = SEGMENT + 64 * MIB, .bytes = 3 * MIB, .flags = VT_FLAG_MANAGED));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT));
    replay(&f);
    cr_assert_eq(driver(&f, 3), 0);
    cr_assert_eq(f.counts[3].host_pinned_bytes, 7 * MIB);
    cr_assert_eq(driver(&f, 4), 3 * MIB);
    cr_assert_eq(f.replay->unknown_frees, 0);
    cr_assert_eq(f.replay->doubled_allocations, 0);
    cr_assert_eq(f.replay->allocations[0].free_event, 6);
    end(&f);
}

Test(replay, verifies)
{
    struct fixture f = begin();
    char error[512];
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, 4 * MIB, 4 * MIB));
    builder_event(f.builder, BLOCK(FREE, SEGMENT, 4 * MIB, 0));
    builder_event(f.builder, DRIVER(FREE, .address = SEGMENT));
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT + 64 * MIB, .bytes = 20 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT + 64 * MIB, 4 * MIB, 4 * MIB));
    replay(&f);
    struct vt_allocation *blocks[] = {&f.replay->allocations[1], &f.replay->allocations[3]};
    blocks[1]->parent = 0;
    cr_expect_eq(vt_replay_verify(f.replay, 0, error, sizeof error), -EINVAL);
    cr_expect_str_eq(error, "allocation 3 does not lie in its parent's life");
    blocks[1]->parent = 2;
    cr_expect_eq(vt_replay_verify(f.replay, 0, error, sizeof error), 0);
    blocks[0]->free_event = 3;
    cr_expect_eq(vt_replay_verify(f.replay, 0, error, sizeof error), -EINVAL);
    cr_expect_not_null(strstr(error, "event 2: block bytes differ"), "%s", error);
    end(&f);
}

/* RMM over PyTorch's allocator: a buffer that is a whole block of PyTorch's, and two within one that a pool
 * took. PyTorch's own counter says what there is. */
Test(replay, blocks_within_another_frameworks_block_count_once)
{
    struct fixture f = begin();
    const uint64_t pool = SEGMENT + 8 * MIB, other = SEGMENT + 16 * MIB;
    builder_event(f.builder, DRIVER(ALLOC, .address = SEGMENT, .bytes = 20 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, SEGMENT, 4 * MIB, 4 * MIB));
    builder_event(f.builder, UNCOUNTED(ALLOC, SEGMENT, 3 * MIB));
    builder_event(f.builder, BLOCK(ALLOC, pool, 4 * MIB, 8 * MIB));
    builder_event(f.builder, UNCOUNTED(ALLOC, pool, 1 * MIB));
    builder_event(f.builder, UNCOUNTED(ALLOC, pool + 2 * MIB, 1 * MIB));
    builder_event(f.builder, UNCOUNTED(ALLOC, other, 2 * MIB)); /* in memory of its own */
    builder_event(f.builder, UNCOUNTED(FREE, pool, 1 * MIB));
    builder_event(f.builder, UNCOUNTED(FREE, SEGMENT, 3 * MIB));
    builder_event(f.builder, BLOCK(FREE, SEGMENT, 4 * MIB, 4 * MIB));
    builder_event(f.builder, UNCOUNTED(FREE, pool + 2 * MIB, 1 * MIB));
    builder_event(f.builder, UNCOUNTED(FREE, other, 2 * MIB));
    builder_event(f.builder, BLOCK(FREE, pool, 4 * MIB, 0));
    replay(&f);
    cr_expect_eq(f.replay->allocation_count, 4);
    cr_expect_eq(f.replay->total_mismatches, 0);
    cr_expect_eq(f.replay->doubled_allocations, 0);
    cr_expect_eq(f.replay->unknown_frees, 0);
    cr_expect_eq(f.replay->allocations[1].free_event, 9);
    cr_expect_eq(f.replay->allocations[2].free_event, 12);
    cr_expect_eq(f.replay->allocations[3].free_event, 11);
    end(&f);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Nonsense in any order must still add up. */
Test(replay, adds_up_for_random_events)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
        struct builder *builder = builder_new(16);
        for (int i = 0; i < 3000; i++) {
            uint64_t r = next_random(&random);
            builder_event(builder, (struct vt_event){.kind = (uint8_t)(r % (VT_EVENT_UNBIND + 1)),
                                                     .layer = (uint8_t)((r >> 8) % 3 + 1),
                                                     .device_index = (int8_t)((int)((r >> 16) % 3) - 1),
                                                     .flags = (r >> 24) % 4 ? 0 : (uint8_t)(r >> 32),
                                                     .address = ((r >> 40) % 24) * MIB,
                                                     .bytes = (next_random(&random) % 4 + 1) * MIB,
                                                     .detail = (next_random(&random) % 24) * MIB,
                                                     .total_bytes = (next_random(&random) % 64) * MIB});
        }
        struct vt_trace *trace = builder_open(builder);
        struct vt_replay *replayed;
        char error[512];
        replayed = vt_replay_make(trace);
        for (int device = 0; device < replayed->device_count; device++)
            cr_assert_eq(vt_replay_verify(replayed, device, error, sizeof error), 0, "seed %d: %s", (int)seed,
                         error);
        vt_replay_free(replayed);
        vt_trace_close(trace);
        builder_free(builder);
    }
}
