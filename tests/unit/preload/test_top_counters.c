/* What the writer thread makes of records for `vramtrace top`. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "record/top_counters.h"

static struct vt_top_counters top;
static struct vt_top_ranges known;

static void begin(void)
{
    memset(&top, 0, sizeof top);
    memset(&known, 0, sizeof known);
    vt_top_begin(&top, "12");
}

static void driver(enum vt_event_kind kind, uint64_t address, uint64_t bytes)
{
    const struct vt_event event = {.kind = (uint8_t)kind,
                                   .layer = VT_LAYER_DRIVER,
                                   .device_index = 1,
                                   .address = address,
                                   .bytes = bytes};
    vt_top_event(&top, &known, &event);
}

/* After which the framework holds `reserved`. */
static void block(enum vt_event_kind kind, uint64_t address, uint64_t bytes, uint64_t reserved)
{
    const struct vt_event event = {.kind = (uint8_t)kind,
                                   .layer = VT_LAYER_FRAMEWORK,
                                   .device_index = 1,
                                   .address = address,
                                   .bytes = bytes,
                                   .detail = reserved};
    vt_top_event(&top, &known, &event);
}

static uint64_t segments(void)
{
    return top.devices[1].segment_bytes;
}

/* PyTorch tells what it holds, RMM beside it does not. */
Test(top, segments_beside_a_framework_that_does_not_count, .init = begin)
{
    const struct vt_event other = {.kind = VT_EVENT_ALLOC,
                                   .layer = VT_LAYER_FRAMEWORK,
                                   .flags = VT_FLAG_UNCOUNTED,
                                   .device_index = 1,
                                   .address = 0x9000,
                                   .bytes = 30};
    driver(VT_EVENT_ALLOC, 0x1000, 100);
    driver(VT_EVENT_ALLOC, 0x9000, 50);
    block(VT_EVENT_ALLOC, 0x1010, 20, 100);
    vt_top_event(&top, &known, &other);
    cr_assert_eq(segments(), 100);
    cr_assert_eq(top.block_made_bytes, 50);
    block(VT_EVENT_FREE, 0x1010, 20, 100);
    driver(VT_EVENT_FREE, 0x9000, 0);
    cr_assert_eq(segments(), 100);
}

Test(top, segments_that_are_given_back, .init = begin)
{
    cr_assert_eq(top.kept, 1);
    cr_assert_str_eq(top.rank, "12");
    driver(VT_EVENT_ALLOC, 0x1000, 100);
    driver(VT_EVENT_ALLOC, 0x9000, 50); /* another library's */
    block(VT_EVENT_ALLOC, 0x1010, 20, 100);
    block(VT_EVENT_FREE, 0x1010, 20, 100);
    cr_assert_eq(segments(), 100);
    driver(VT_EVENT_FREE, 0x9000, 0);
    cr_assert_eq(segments(), 100);
    driver(VT_EVENT_FREE, 0x1000, 0);
    cr_assert_eq(segments(), 0);
    cr_assert_eq(top.devices[1].segment_peak_bytes, 100);
    cr_assert_eq(top.driver_made_bytes, 150);
    cr_assert_eq(top.block_made_bytes, 20);
}

Test(top, a_free_that_failed, .init = begin)
{
    driver(VT_EVENT_ALLOC, 0x1000, 100);
    block(VT_EVENT_ALLOC, 0x1000, 100, 100);
    driver(VT_EVENT_FREE, 0x1000, 0);
    driver(VT_EVENT_FREE_FAILED, 0x2000, 0);
    cr_assert_eq(segments(), 0);
    driver(VT_EVENT_FREE_FAILED, 0x1000, 0);
    cr_assert_eq(segments(), 100);
    driver(VT_EVENT_FREE, 0x1000, 0);
    cr_assert_eq(segments(), 0);
}

/* Freed and made anew between two events of the framework, as large as before. */
Test(top, a_segment_in_the_place_of_another, .init = begin)
{
    driver(VT_EVENT_ALLOC, 0x1000, 100);
    block(VT_EVENT_ALLOC, 0x1000, 10, 100);
    driver(VT_EVENT_FREE, 0x1000, 0);
    driver(VT_EVENT_ALLOC, 0x5000, 100);
    block(VT_EVENT_ALLOC, 0x5000, 10, 100);
    driver(VT_EVENT_FREE, 0x5000, 0);
    cr_assert_eq(segments(), 0);
}

Test(top, mappings, .init = begin)
{
    driver(VT_EVENT_MAP, 0x1000, 0x100);
    driver(VT_EVENT_MAP, 0x1100, 0x100);
    driver(VT_EVENT_MAP, 0x1200, 0x100);
    block(VT_EVENT_ALLOC, 0x1080, 0x200, 0x300); /* in all three */
    driver(VT_EVENT_UNMAP, 0x1100, 0x200);
    cr_assert_eq(segments(), 0x100);
    driver(VT_EVENT_UNMAP, 0x1000, 0x100);
    cr_assert_eq(segments(), 0);
}

/* More than is kept: right again with the next block. */
Test(top, too_many, .init = begin)
{
    for (uint64_t i = 1; i <= VT_TOP_RANGES + 10; i++)
        driver(VT_EVENT_ALLOC, i << 20, 8);
    cr_assert_eq(known.table.used, VT_TOP_RANGES);
    block(VT_EVENT_ALLOC, (uint64_t)(VT_TOP_RANGES + 5) << 20, 8, 8);
    driver(VT_EVENT_FREE, (uint64_t)(VT_TOP_RANGES + 5) << 20, 0);
    block(VT_EVENT_FREE, 0, 0, 0);
    cr_assert_eq(segments(), 0);
}

/* Against a plain list. */
Test(top, made_and_freed_at_random, .init = begin)
{
    enum { PLACES = 6000, TURNS = 200000 };
    static uint64_t alive[PLACES];
    uint64_t reserved = 0;
    unsigned count = 0;
    srand(3);
    for (int turn = 0; turn < TURNS; turn++) {
        const unsigned place = (unsigned)rand() % PLACES;
        const uint64_t address = (uint64_t)(place + 1) << 21;
        if (alive[place]) {
            driver(VT_EVENT_FREE, address, 0);
            reserved -= alive[place];
            alive[place] = 0;
            count--;
        } else if (count < VT_TOP_RANGES) {
            alive[place] = 512 + (uint64_t)rand() % 1000000;
            reserved += alive[place];
            count++;
            driver(VT_EVENT_ALLOC, address, alive[place]);
            block(VT_EVENT_ALLOC, address + 256, 256, reserved);
        }
        cr_assert_eq(segments(), reserved);
    }
    cr_assert_gt(count, 2000);
}

Test(top, cards, .init = begin)
{
    struct {
        struct vt_device device;
        char name[100];
    } defined = {.device = {.head = {.kind = VT_RECORD_DEVICE, .bytes = sizeof defined},
                            .device_index = 1,
                            .total_bytes = 1000}};
    const struct vt_event info = {.kind = VT_EVENT_MEMORY_INFO,
                                  .layer = VT_LAYER_DRIVER,
                                  .device_index = 1,
                                  .bytes = 400,
                                  .total_bytes = 1000,
                                  .t_ns = 7};
    memset(defined.name, 'x', sizeof defined.name);
    vt_top_definition(&top, &defined.device.head);
    vt_top_event(&top, &known, &info);
    cr_assert_eq(strlen(top.devices[1].name), sizeof top.devices[1].name - 1);
    cr_assert_eq(top.devices[1].free_bytes, 400);
    cr_assert_eq(top.devices[1].info_ns, 7);
    defined.device.device_index = VT_MAX_DEVICES;
    vt_top_definition(&top, &defined.device.head);
}
