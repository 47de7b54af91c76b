/* The report in memory and its numbers: formatting, instants, groups, timeline, moments, JSON. */
#include <criterion/criterion.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "findings/findings.h"
#include "replay/replay.h"
#include "view/json/json.h"
#include "view/text/chart.h"
#include "view/text/text.h"

static struct vt_report *make(struct fake *fake, const char *at)
{
    const struct vt_report_options options = {.device_index = -1, .at = at};

    return fake_report(fake, &options, VT_FIND_LEAKS | VT_FIND_ADVICE);
}

static void refuse(struct fake *fake, const char *at, const char *part)
{
    struct vt_report_options options = {.device_index = -1, .at = at};
    struct vt_report *report = NULL;
    char error[512];

    cr_assert_eq(vt_report_make(&fake->attribution, &options, &report, error, sizeof error), -EINVAL);
    cr_assert_null(report);
    cr_expect(strstr(error, part), "'%s' does not tell '%s'", error, part);
}

Test(format, bytes_in_the_largest_unit)
{
    char text[24];

    cr_expect_str_eq(vt_format_bytes(0, text), "0 B");
    cr_expect_str_eq(vt_format_bytes(1023, text), "1023 B");
    cr_expect_str_eq(vt_format_bytes(1024, text), "1 KiB");
    cr_expect_str_eq(vt_format_bytes(MIB - 1, text), "1.00 MiB", "never 1024 KiB");
    cr_expect_str_eq(vt_format_bytes(41030000000u, text), "38.2 GiB");
    cr_expect_str_eq(vt_format_bytes(UINT64_MAX, text), "16.0 EiB");
}

Test(format, percent_duration_count)
{
    char text[32];

    cr_expect_str_eq(vt_format_percent(614, 1000, text), "61 %");
    cr_expect_str_eq(vt_format_percent(1, 1000000, text), "<0.1 %");
    cr_expect_str_eq(vt_format_percent(0, 1000, text), "0 %");
    cr_expect_str_eq(vt_format_percent(1, 0, text), "–");
    cr_expect_str_eq(vt_format_duration(0, text), "0 ns");
    cr_expect_str_eq(vt_format_duration(21400000000u, text), "21.4 s");
    cr_expect_str_eq(vt_format_duration(999600000, text), "1.00 s");
    cr_expect_str_eq(vt_format_duration(200000000000u, text), "3 min 20 s");
    cr_expect_str_eq(vt_format_duration(7500000000000u, text), "2 h 5 min");
    cr_expect_str_eq(vt_format_count(5, text), "5");
    cr_expect_str_eq(vt_format_count(1234567, text), "1,234,567");
}

Test(format, shortens_by_columns)
{
    static const struct {
        const char *text;
        int columns;
        enum vt_cut cut;
        const char *expected;
    } cases[] = {{"layers.3.mlp", 12, VT_CUT_END, "layers.3.mlp"},
                 {"layers.3.mlp", 7, VT_CUT_END, "layers…"},
                 {"layers.3.mlp", 7, VT_CUT_MIDDLE, "lay…mlp"},
                 {"layers.3.mlp", 5, VT_CUT_START, "….mlp"},
                 {"Schlüssel", 5, VT_CUT_START, "…ssel"},
                 {"work/model/train.py:7 main", 20, VT_CUT_PARTS, "…/train.py:7 main"},
                 {"Model > EncoderLayer#1–6 > Linear#1", 28, VT_CUT_PARTS, "…EncoderLayer#1–6 > Linear#1"},
                 {"Model > EncoderLayer#1–6 > Linear#1", 24, VT_CUT_PARTS, "…Layer#1–6 > Linear#1"},
                 {"Model > EncoderLayer#1–6 > Linear#1", 14, VT_CUT_PARTS, "…Linear#1"},
                 {"schlüsselbrett", 5, VT_CUT_PARTS, "…rett"},
                 {"日本語", 5, VT_CUT_END, "日本…"},
                 {"a\nb\tc", 9, VT_CUT_END, "a b c"},
                 {"abc", 0, VT_CUT_END, ""}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *cut = vt_shorten(cases[i].text, cases[i].columns, cases[i].cut);
        cr_expect_str_eq(cut, cases[i].expected);
        free(cut);
    }
}

Test(format, every_category_has_a_style_of_its_own)
{
    for (unsigned a = 0; a < VT_CATEGORY_COUNT; a++) {
        cr_assert_not_null(vt_category_many(a));
        for (size_t b = 0; b < vt_stacked_category_count; b++) {
            const struct vt_category_style *other = vt_category_style(vt_stacked_categories[b]);
            if (vt_stacked_categories[b] == a)
                continue;
            cr_expect_str_neq(vt_category_style(a)->fill, other->fill);
            cr_expect_neq(vt_category_style(a)->ascii_fill, other->ascii_fill);
        }
    }
    cr_expect_eq(vt_stacked_category_count, VT_CATEGORY_COUNT - 3, "all but cached, context and pinned host");
}

Test(scale, covers_the_largest_with_round_steps)
{
    for (int rows = 2; rows <= 60; rows++) {
        for (uint64_t max = 1; max < (uint64_t)1 << 45; max = max * 7 / 4 + 1) {
            struct vt_scale scale = vt_scale_for(max, rows);
            double top = scale.step * scale.steps;
            cr_assert(top >= (double)max * (1 - 1e-9), "%d rows, %lu", rows, max);
            cr_assert_leq(scale.steps * scale.rows_per_step, rows);
            cr_assert(scale.steps * scale.rows_per_step >= 1);
            cr_assert(top <= (double)max * 3 || max < 3, "%d rows, %lu: top %g", rows, max, top);
        }
    }
}

Test(report, peak_is_the_first_with_most_blocks)
{
    struct fake *fake = fake_make(10);
    struct vt_allocation *first;
    struct vt_report *report;

    fake_alloc(fake, 1, VT_ALLOCATION_SEGMENT, 0, 100 * MIB);
    first = fake_alloc(fake, 2, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 60 * MIB);
    fake_release(fake, 3, first);
    fake_alloc(fake, 4, VT_ALLOCATION_BLOCK, VT_CATEGORY_GRADIENT, 60 * MIB);
    fake_alloc(fake, 5, VT_ALLOCATION_DRIVER, VT_CATEGORY_WORKSPACE, 900 * MIB);
    report = make(fake, NULL);
    cr_assert_eq(report->device_count, 1);
    cr_expect_eq(report->devices[0].peak.state.event_index, 1);
    cr_expect_eq(report->devices[0].peak.state.t_ns, 2000000000u);
    cr_expect_eq(report->devices[0].peak.state.categories[VT_CATEGORY_ACTIVATION], 60 * MIB);
    cr_expect_eq(report->devices[0].peak.state.categories[VT_CATEGORY_CACHED], 40 * MIB);
    cr_expect_eq(report->devices[0].end.state.categories[VT_CATEGORY_GRADIENT], 60 * MIB);
    cr_expect_eq(report->devices[0].end.state.driver_bytes, 1000 * MIB);
    cr_expect_not(report->devices[0].at.state.present);
    fake_free(fake);
}

Test(report, without_blocks_the_peak_goes_by_the_driver)
{
    struct fake *fake = fake_make(10);
    struct vt_allocation *large;
    struct vt_report *report;

    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 10 * MIB);
    large = fake_alloc(fake, 2, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 30 * MIB);
    fake_release(fake, 3, large);
    report = make(fake, NULL);
    cr_expect_eq(report->devices[0].peak.state.event_index, 1);
    cr_expect_eq(report->devices[0].peak.state.used_bytes, 40 * MIB);
    cr_expect_eq(report->devices[0].end.state.used_bytes, 10 * MIB);
    fake_free(fake);
}

Test(report, nothing_in_an_empty_trace)
{
    struct fake *fake = fake_make(0);
    struct vt_report *report = make(fake, NULL);

    cr_expect_eq(report->device_count, 0);
    cr_expect_eq(report->refusal_count, 0);
    refuse(fake, "oom", "no out-of-memory");
    refuse(fake, "mark:x", "no marks at all");
    fake_free(fake);
}

Test(timeline, no_peak_is_lost_and_no_state_forgotten)
{
    struct fake *fake = fake_make(10);
    struct vt_allocation *spike;
    struct vt_report *report;
    const struct vt_timeline *timeline;

    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, 10 * MIB);
    spike = fake_alloc(fake, 5.0000001, VT_ALLOCATION_DRIVER, VT_CATEGORY_ACTIVATION, 90 * MIB);
    fake_release(fake, 5.0000002, spike);
    report = make(fake, NULL);
    timeline = &report->devices[0].timeline;
    cr_assert_eq(timeline->columns, VT_TIMELINE_COLUMNS);
    cr_expect_eq(timeline->driver_bytes[0], 0);
    cr_expect_eq(timeline->categories[98][VT_CATEGORY_PARAMETER], 0);
    for (size_t i = 100; i < timeline->columns; i++) {
        cr_assert_eq(timeline->categories[i][VT_CATEGORY_PARAMETER], 10 * MIB);
        cr_assert_eq(timeline->categories[i][VT_CATEGORY_ACTIVATION], i == 500 ? 90 * MIB : 0, "column %zu",
                     i);
    }
    fake_free(fake);
}

static struct fake *with_moments(void)
{
    struct fake *fake = fake_make(10);

    fake->strings[1] = "warm";
    fake->strings[2] = "a#2";
    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_PARAMETER, 10 * MIB); /* 0 */
    for (uint32_t step = 1; step <= 2; step++) {
        struct vt_allocation *activation;
        fake_span(fake, step, VT_PHASE_FORWARD);
        activation =
            fake_alloc(fake, step * 2, VT_ALLOCATION_DRIVER, VT_CATEGORY_ACTIVATION, step * MIB); /* 1, 4 */
        fake_release(fake, step * 2 + 0.5, activation);                                           /* 2, 5 */
        fake->events[fake_event(fake, step * 2 + 1, VT_EVENT_MARK, 0, 0)].detail = 1;             /* 3, 6 */
    }
    fake->events[fake_event(fake, 9, VT_EVENT_MARK, 0, 0)].detail = 2; /* 7 */
    return fake;
}

Test(moments, found)
{
    static const struct {
        const char *at;
        uint32_t event_index;
        uint64_t mib;
    } cases[] = {{"peak", 4, 12},        {"end", 7, 10},      {"mark:warm", 3, 10}, {"mark:warm#1", 3, 10},
                 {"mark:warm#2", 6, 10}, {"mark:a#2", 7, 10}, {"step:1", 1, 11},    {"step:2", 4, 12},
                 {"step:0", 0, 10},      {"0.5s", 0, 0},      {"2s", 1, 11},        {"2400ms", 1, 11},
                 {"2.6 s", 2, 10},       {"0.05min", 3, 10},  {"10s", 7, 10}};
    struct fake *fake = with_moments();

    for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
        struct vt_report *report = make(fake, cases[i].at);
        if (!strcmp(cases[i].at, "0.5s")) /* before the first event there is none: the first stands for it */
            continue;
        cr_assert(report->devices[0].at.state.present);
        cr_expect_eq(report->devices[0].at.state.event_index, cases[i].event_index, "%s: %u", cases[i].at,
                     report->devices[0].at.state.event_index);
        cr_expect_eq(report->devices[0].at.state.driver_bytes, cases[i].mib * MIB, "%s", cases[i].at);
    }
    fake_free(fake);
}

Test(moments, refused_with_what_there_is)
{
    struct fake *fake = with_moments();

    refuse(fake, "mark:cold", "it has 'warm', 'a#2'");
    refuse(fake, "mark:warm#3", "only 2 times");
    refuse(fake, "step:7", "steps 1 to 2");
    refuse(fake, "step:x", "step:NUMBER");
    refuse(fake, "11s", "10.0 s long");
    refuse(fake, "3", "mark:NAME");
    refuse(fake, "3 parsec", "3.2s");
    refuse(fake, "", "not a moment");
    refuse(fake, "oom", "no out-of-memory");
    fake_free(fake);
}

Test(refusals, a_framework_speaks_for_itself)
{
    struct fake *fake = fake_make(10);
    struct vt_report *report;
    uint32_t event;

    fake_alloc(fake, 1, VT_ALLOCATION_SEGMENT, 0, 100 * MIB);
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 60 * MIB);
    event = fake_event(fake, 2, VT_EVENT_ALLOC_FAILED, VT_LAYER_DRIVER, 500 * MIB);
    fake->events[event].detail = 2;
    report = make(fake, NULL);
    cr_expect_eq(report->refusal_count, 1, "the framework never allocated again");
    fake_alloc(fake, 2, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, MIB);
    report = make(fake, NULL);
    cr_expect_eq(report->refusal_count, 0, "the allocator freed its cache and tried again");
    event = fake_event(fake, 3, VT_EVENT_MEMORY_INFO, VT_LAYER_DRIVER, 7 * MIB);
    fake->events[event].total_bytes = 200 * MIB;
    fake_event(fake, 3.5, VT_EVENT_OOM, VT_LAYER_FRAMEWORK, 500 * MIB);
    report = make(fake, "oom");
    cr_assert_eq(report->refusal_count, 1);
    cr_expect_eq(report->refusals[0].asked_bytes, 500 * MIB);
    cr_expect(report->refusals[0].free_told);
    cr_expect_eq(report->refusals[0].free_bytes, 7 * MIB);
    cr_expect_eq(report->refusals[0].driver_bytes, 100 * MIB);
    cr_expect_eq(report->refusals[0].categories[VT_CATEGORY_CACHED], 39 * MIB);
    cr_expect_eq(report->devices[0].at.state.categories[VT_CATEGORY_ACTIVATION], 61 * MIB);
    fake_free(fake);
}

Test(refusals, without_a_framework_the_driver_speaks)
{
    struct fake *fake = fake_make(10);
    struct vt_report *report;

    fake->devices[0] = (struct vt_trace_device){.index = 0, .name = "", .total_bytes = 100 * MIB};
    fake->trace.device_count = 1;
    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 60 * MIB);
    fake->events[fake_event(fake, 2, VT_EVENT_ALLOC_FAILED, VT_LAYER_DRIVER, 500 * MIB)].detail = 2;
    fake->events[fake_event(fake, 3, VT_EVENT_ALLOC_FAILED, VT_LAYER_DRIVER, 500 * MIB)].detail =
        1; /* a bad argument */
    report = make(fake, NULL);
    cr_assert_eq(report->refusal_count, 1);
    cr_expect(report->refusals[0].free_known && !report->refusals[0].free_told);
    cr_expect_eq(report->refusals[0].free_bytes, 40 * MIB);
    fake_free(fake);
}

static char *write_json(const struct vt_report *report)
{
    const struct vt_json_style style = {.places = report->places};
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    vt_json_write(&vt_report_document, report, &style, stream);
    fclose(stream);
    return text;
}

Test(json, keeps_its_contract)
{
    struct fake *fake = with_moments();
    struct vt_report *report;
    cJSON *root, *device, *view;
    double sum = 0;
    char *text;

    report = make(fake, "mark:warm");
    text = write_json(report);
    root = cJSON_Parse(text);
    cr_assert_not_null(root);
    cr_expect_str_eq(cJSON_GetObjectItem(root, "format")->valuestring, "vramtrace.report/2");
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "trace"), "complete")));
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(root, "marks")), 3);
    device = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "devices"), 0);
    for (const char *const *name = (const char *const[]){"peak", "end", "at", NULL}; *name; name++) {
        cJSON *category;
        view = cJSON_GetObjectItem(device, *name);
        sum = 0;
        cJSON_ArrayForEach(category, cJSON_GetObjectItem(view, "categories")) sum += category->valuedouble;
        cr_expect_eq(sum, cJSON_GetObjectItem(view, "driver_bytes")->valuedouble);
        for (const char *const *list =
                 (const char *const[]){"modules", "owners", "lines", "stacks", "ops", NULL};
             *list; list++)
            cr_expect(cJSON_IsArray(cJSON_GetObjectItem(view, *list)));
        cr_expect(cJSON_IsString(cJSON_GetObjectItem(view, "phase")));
        cr_expect(cJSON_IsObject(cJSON_GetObjectItem(view, "evidence")));
    }
    view = cJSON_GetObjectItem(device, "timeline");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(view, "t_ns")), VT_TIMELINE_COLUMNS);
    cr_expect_eq(
        cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(view, "categories"), "parameter")),
        VT_TIMELINE_COLUMNS);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(device, "leaks")), 0);
    cJSON_Delete(root);
    free(text);
    fake_free(fake);
}

Test(json, large_integers_are_exact)
{
    static const uint64_t values[] = {((uint64_t)1 << 52) + 1, ((uint64_t)1 << 53) - 1, 1000000000000000u};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct fake *fake = fake_make(10);
        struct vt_report *report;
        char expected[64], *text;

        fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, values[i]);
        report = make(fake, NULL);
        text = write_json(report);
        snprintf(expected, sizeof expected, "\"driver_bytes\":\t%lu,", values[i]);
        cr_expect(strstr(text, expected), "%s", expected);
        snprintf(expected, sizeof expected, "\"unknown\":\t%lu", values[i]);
        cr_expect(strstr(text, expected), "%s", expected);
        free(text);
        fake_free(fake);
    }
}
