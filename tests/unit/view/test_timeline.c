/* The timeline's axes: what they cover, what is left out, and that no peak is lost. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

#include "fake.h"
#include "report/timeline.h"

#define SECOND UINT64_C(1000000000)

static const struct vt_timeline *make(struct fake *fake, enum vt_axis axis, const char *from, const char *to)
{
    const struct vt_report_options options = {
        .device_index = -1, .groups = VT_NO_GROUPS, .axis = (uint8_t)axis, .from = from, .to = to};

    return &fake_report(fake, &options, 0)->devices[0].timeline;
}

static void refuse(struct fake *fake, enum vt_axis axis, const char *from, const char *to, const char *part)
{
    const struct vt_report_options options = {
        .device_index = -1, .axis = (uint8_t)axis, .from = from, .to = to};
    struct vt_report *report = NULL;
    char error[512];

    cr_assert_eq(vt_report_make(&fake->attribution, &options, &report, error, sizeof error), -EINVAL);
    cr_expect(strstr(error, part), "'%s' does not tell '%s'", error, part);
}

/* 100 s; three steps of 10 ms each, 10 s apart, with a spike of (step) MiB of 1 us in each. Parameters from 1
 * s on. */
static struct fake *bursts(void)
{
    struct fake *fake = fake_make(100);

    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, 10 * MIB); /* 0 */
    for (uint32_t step = 1; step <= 3; step++) { /* events 1 to 12, 13 to 24, 25 to 36 */
        fake_span(fake, step, VT_PHASE_FORWARD);
        for (int i = 0; i < 6; i++) {
            double t = 10.0 * step + i * 0.002;
            struct vt_allocation *block = fake_alloc(fake, t, VT_ALLOCATION_DRIVER, VT_CATEGORY_ACTIVATION,
                                                     i == 3 ? step * MIB : MIB / 2);

            fake_release(fake, t + 0.000001, block);
        }
    }
    return fake;
}

static uint64_t most_activations(const struct vt_timeline *timeline, size_t from, size_t to)
{
    uint64_t most = 0;

    for (size_t i = from; i < to && i < timeline->columns; i++)
        if (timeline->categories[i][VT_CATEGORY_ACTIVATION] > most)
            most = timeline->categories[i][VT_CATEGORY_ACTIVATION];
    return most;
}

Test(timeline, leaves_out_time_without_events)
{
    struct fake *fake = bursts();
    const struct vt_timeline *timeline = make(fake, VT_AXIS_AUTO, NULL, NULL);
    uint64_t shown = 0;

    cr_expect_eq(timeline->axis, VT_AXIS_TIME);
    cr_assert_eq(timeline->stretch_count, 4, "%zu", timeline->stretch_count);
    cr_expect_eq(timeline->stretches[0].t_ns, SECOND);
    for (uint32_t i = 1; i < 4; i++) {
        const struct vt_stretch *stretch = &timeline->stretches[i];

        cr_expect_eq(stretch->t_ns, 10 * i * SECOND);
        cr_expect_geq(stretch->end_ns, stretch->t_ns + 10001000);
        cr_expect_lt(stretch->end_ns, stretch->t_ns + 20000000);
        cr_expect_geq(stretch->end_column - stretch->column, (double)timeline->columns / 4);
        cr_expect_eq(stretch->column, stretch[-1].end_column);
        cr_expect_eq(most_activations(timeline, (size_t)stretch->column, (size_t)stretch->end_column),
                     i * MIB);
    }
    for (size_t i = 0; i < timeline->stretch_count; i++)
        shown += timeline->stretches[i].end_ns - timeline->stretches[i].t_ns;
    cr_expect_eq(timeline->cut_ns, 100 * SECOND - shown);
    for (size_t i = 0; i < timeline->columns; i++) {
        cr_expect_eq(timeline->categories[i][VT_CATEGORY_PARAMETER], 10 * MIB);
        cr_expect(!i || timeline->t_ns[i] >= timeline->t_ns[i - 1]);
    }
    fake_free(fake);
}

Test(timeline, positions_are_those_of_the_columns)
{
    struct fake *fake = bursts();

    for (int axis = 0; axis < VT_AXIS_COUNT; axis++) {
        const struct vt_timeline *timeline = make(fake, (enum vt_axis)axis, NULL, NULL);
        double before = -1;

        for (uint32_t e = 0; e < fake->trace.event_count; e++) {
            double position = vt_timeline_position(timeline, e, fake->events[e].t_ns);

            cr_assert(position >= before && position <= (double)timeline->columns, "axis %d, event %u: %f",
                      axis, e, position);
            before = position;
        }
        for (uint32_t step = 1; step <= 3; step++) { /* the spike's event is the seventh of a step */
            uint32_t e = 12 * (step - 1) + 7;
            size_t column = (size_t)vt_timeline_position(timeline, e, fake->events[e].t_ns);

            cr_expect_eq(timeline->categories[column][VT_CATEGORY_ACTIVATION], step * MIB, "axis %d", axis);
            cr_expect_eq(timeline->step[column], step);
            cr_expect_eq(timeline->event[column], e, "axis %d: %u", axis, timeline->event[column]);
        }
    }
    fake_free(fake);
}

Test(timeline, time_that_is_used_throughout_is_whole)
{
    struct fake *fake = fake_make(10);
    const struct vt_timeline *timeline;

    for (int i = 0; i < 20; i++)
        fake_alloc(fake, i * 0.5, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, MIB);
    timeline = make(fake, VT_AXIS_AUTO, NULL, NULL);
    cr_assert_eq(timeline->stretch_count, 1);
    cr_expect_eq(timeline->cut_ns, 0);
    cr_expect_eq(timeline->stretches[0].end_ns, 10 * SECOND);
    fake_free(fake);
}

Test(timeline, all_events_at_one_time)
{
    struct fake *fake = fake_make(10);
    const struct vt_timeline *timeline;

    fake_alloc(fake, 5, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, MIB);
    fake_alloc(fake, 5, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, MIB);
    timeline = make(fake, VT_AXIS_AUTO, NULL, NULL);
    cr_expect_eq(timeline->stretch_count, 1);
    cr_expect_eq(timeline->categories[timeline->columns / 2][VT_CATEGORY_PARAMETER], 2 * MIB);
    cr_expect_eq(timeline->categories[timeline->columns / 2 - 1][VT_CATEGORY_PARAMETER], 0);
    fake_free(fake);
}

Test(timeline, steps_have_one_width)
{
    struct fake *fake = bursts();
    const struct vt_timeline *timeline = make(fake, VT_AXIS_STEPS, NULL, NULL);

    cr_assert_eq(timeline->stretch_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect_eq(timeline->stretches[i].step, i);
        cr_expect_eq(timeline->stretches[i].column, 250.0 * i);
        cr_expect_eq(timeline->stretches[i].end_column, 250.0 * (i + 1));
        cr_expect_eq(most_activations(timeline, 250 * i, 250 * (i + 1)), i * MIB);
    }
    timeline = make(fake, VT_AXIS_STEPS, "step:2", "step:3");
    cr_assert_eq(timeline->stretch_count, 2);
    cr_expect_eq(timeline->first_event, 13);
    cr_expect_eq(timeline->last_event, 36);
    cr_expect_eq(most_activations(timeline, 0, 500), 2 * MIB);
    fake_free(fake);
}

Test(timeline, covers_what_is_asked_for)
{
    static const struct {
        const char *from, *to;
        uint32_t first_event, last_event;
        uint64_t from_ms, to_ms;
    } cases[] = {{NULL, "step:1", 0, 12, 0, 10010},   {"step:2", NULL, 13, 36, 20000, 100000},
                 {"5s", "15s", 1, 12, 5000, 15000},   {"peak", "end", 31, 36, 30006, 100000},
                 {"0s", "peak", 0, 31, 0, 30006},     {"end", "end", 36, 36, 30010, 100000},
                 {"12s", "13s", 13, 12, 12000, 13000}};
    struct fake *fake = bursts();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct vt_timeline *timeline = make(fake, VT_AXIS_TIME, cases[i].from, cases[i].to);

        cr_expect_eq(timeline->first_event, cases[i].first_event, "case %zu: %u", i, timeline->first_event);
        cr_expect_eq(timeline->last_event, cases[i].last_event, "case %zu: %u", i, timeline->last_event);
        cr_expect_eq(timeline->from_ns / 1000000, cases[i].from_ms, "case %zu", i);
        cr_expect_eq(timeline->to_ns / 1000000, cases[i].to_ms, "case %zu", i);
        cr_expect_eq(timeline->categories[timeline->columns - 1][VT_CATEGORY_PARAMETER], 10 * MIB);
    }
    refuse(fake, VT_AXIS_TIME, "step:2", "step:1", "--from is after --to");
    refuse(fake, VT_AXIS_TIME, NULL, "mark:x", "no marks at all");
    refuse(fake, VT_AXIS_TIME, "peak", "step:1", "the peak of GPU 0 is after --to");
    refuse(fake, VT_AXIS_EVENTS, "12s", "13s", "no event lies between");
    fake_free(fake);
}

Test(timeline, steps_need_steps)
{
    struct fake *fake = fake_make(10);

    fake_alloc(fake, 5, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, MIB);
    refuse(fake, VT_AXIS_STEPS, NULL, NULL, "no training steps were recognised");
    fake_free(fake);
}
