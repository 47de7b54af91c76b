/* The text report as a terminal shows it: widths, letters, what is said and what is not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "findings/findings.h"
#include "replay/replay.h"
#include "view/text/chart.h"
#include "view/text/views.h"

static char *write_with(struct fake *fake, vt_text_view *view, struct vt_view_style style,
                        struct vt_report_options options)
{
    struct vt_report *report = fake_report(fake, &options, VT_FIND_LEAKS | VT_FIND_ADVICE);
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    view(report, &style, stream);
    fclose(stream);
    return text;
}

static char *write_text(struct fake *fake, vt_text_view *view, struct vt_view_style style, const char *at)
{
    return write_with(fake, view, style, (struct vt_report_options){.device_index = -1, .at = at});
}

/* Three steps of a model of eight layers; with `refused`, out of memory in the third. */
static struct fake *training(bool refused)
{
    static char names[8][40];
    struct fake *fake = fake_make(8);
    uint32_t build = fake_stack(fake, "/home/me/work/train.py", 20, "build");
    uint32_t line = fake_stack(fake, "/home/me/work/model/layers.py", 141, "MLP.forward");

    fake_frame(fake, line, VT_FRAME_PYTHON, "/home/me/work/train.py", 88, "main");
    fake->devices[0] =
        (struct vt_trace_device){.index = 0, .name = "NVIDIA H200", .total_bytes = (uint64_t)143 << 30};
    fake->trace.device_count = 1;
    fake->strings[1] = "warm \033[31m up";
    fake_alloc(fake, 0, VT_ALLOCATION_CONTEXT, VT_CATEGORY_CONTEXT, 500 * MIB);
    fake_alloc(fake, 0.1, VT_ALLOCATION_SEGMENT, 0, 6000 * MIB);
    for (int i = 0; i < 8; i++) {
        struct vt_allocation *parameter =
            fake_alloc(fake, 0.2, VT_ALLOCATION_BLOCK, VT_CATEGORY_PARAMETER, 64 * MIB);
        snprintf(names[i], sizeof names[i], "model.layers.%d.mlp", i);
        fake_label(fake, parameter)->module = names[i];
        parameter->stack_id = build;
        fake_label(fake, parameter)->evidence = VT_EVIDENCE_EXACT;
    }
    for (uint32_t step = 1; step <= 3; step++) {
        struct vt_allocation *activations[8];
        fake_span(fake, step, VT_PHASE_FORWARD);
        for (int i = 0; i < 8; i++) {
            activations[i] =
                fake_alloc(fake, step * 2 + i * 0.1, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 300 * MIB);
            fake_label(fake, activations[i])->module = names[i];
            activations[i]->stack_id = line;
        }
        if (refused && step == 3) {
            fake->events[fake_event(fake, 6.9, VT_EVENT_OOM, VT_LAYER_FRAMEWORK, 2048 * MIB)].stack_id = line;
            return fake;
        }
        fake_span(fake, step, VT_PHASE_BACKWARD);
        for (int i = 7; i >= 0; i--)
            fake_release(fake, step * 2 + 1.8 - i * 0.1, activations[i]);
    }
    return fake;
}

static void check_widths(const char *text, int width, const char *what)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);

        cr_expect(vt_text_columns(line) <= width, "%s at %d: '%s'", what, width, line);
        cr_expect(!length || line[length - 1] != ' ', "%s at %d: blanks at the end of '%s'", what, width,
                  line);
        free(line);
        text += length + (text[length] == '\n');
    }
}

Test(text, fits_the_width)
{
    for (int refused = 0; refused < 2; refused++) {
        for (int width = 60; width <= 220; width += 20) {
            struct fake *fake = training(refused);
            struct vt_view_style style = {.unicode = true, .width = width, .by = -1};
            char *text = write_text(fake, vt_text_report, style, NULL);

            check_widths(text, width, "report");
            free(text);
            text = write_text(fake, vt_text_timeline, style, NULL);
            check_widths(text, width, "timeline");
            free(text);
            for (uint8_t axis = 0; axis < VT_AXIS_COUNT; axis++) {
                const struct vt_report_options options = {
                    .device_index = -1, .axis = axis, .from = width % 40 ? "step:2" : NULL, .to = "step:3"};

                text = write_with(fake, vt_text_timeline, style, options);
                check_widths(text, width, vt_axis_name(axis));
                cr_expect(strstr(text, axis == VT_AXIS_EVENTS  ? "\n  event "
                                       : axis == VT_AXIS_STEPS ? "  x axis: steps"
                                                               : "\n   time "),
                          "%s: %s", vt_axis_name(axis), text);
                cr_expect(strstr(text, "│3"), "%s: %s", vt_axis_name(axis), text);
                free(text);
            }
            for (style.by = 0; style.by < VT_BY_COUNT; style.by++) {
                text = write_text(fake, vt_text_report, style, "step:2");
                check_widths(text, width, vt_by_name((enum vt_by)style.by));
                free(text);
            }
            fake_free(fake);
        }
    }
}

Test(text, of_a_damaged_file_nobody_knows_what_was_lost)
{
    struct fake *fake = training(false);
    char *text;

    fake->trace.truncated = true;
    text =
        write_text(fake, vt_text_report, (struct vt_view_style){.width = 200, .by = -1, .full = true}, NULL);
    cr_expect(strstr(text, "82 % inferred from two independent signals."), "%s", text);
    cr_expect_null(strstr(text, "No events were lost"));
    free(text);
}

Test(text, tells_the_verdict)
{
    struct fake *fake = training(false);
    char *text =
        write_text(fake, vt_text_report,
                   (struct vt_view_style){.unicode = true, .width = 200, .by = -1, .full = true}, NULL);

    cr_expect(strstr(text, "\nPeak 2.84 GiB (2.0 % of the GPU), step 1, forward · "), "%s", text);
    cr_expect(strstr(text, "  activations   2.34 GiB   82 %  █"), "%s", text);
    cr_expect(strstr(text, "model/layers.py:141 MLP.forward"));
    cr_expect(strstr(text, "MLP.forward ← train.py:88 main"));
    cr_expect(strstr(text, "18 % read from live objects, 82 % inferred"), "%s", text);
    cr_expect(strstr(text, "No events were lost."));
    cr_expect_null(strstr(text, "OUT OF MEMORY"));
    cr_expect(strstr(text, "– leaks not judged"), "%s", text);
    cr_expect_null(strchr(text, '\033'));
    free(text);
    fake_free(fake);
}

Test(text, begins_with_out_of_memory)
{
    struct fake *fake = training(true);
    char *text = write_text(fake, vt_text_report,
                            (struct vt_view_style){.unicode = true, .width = 200, .by = -1}, NULL);
    char *refused = strstr(text, "✗ OUT OF MEMORY step 3, forward: 2 GiB requested");

    cr_assert(refused, "%s", text);
    cr_expect(strstr(refused, "\n  by       model/layers.py:141 MLP.forward"), "%s", text);
    cr_expect_lt(refused, strstr(text, "\nPeak"));
    cr_expect(strstr(refused, "  activations   2.34 GiB"), "%s", text);
    free(text);
    fake_free(fake);
}

Test(text, plain_where_the_terminal_is)
{
    struct fake *fake = training(true);
    char *text =
        write_text(fake, vt_text_report, (struct vt_view_style){.width = 80, .by = -1, .full = true}, NULL);

    for (const char *c = text; *c; c++)
        cr_assert((unsigned char)*c < 0x80 && (*c >= ' ' || *c == '\n'));
    cr_expect(strstr(text, "v peak"));
    cr_expect(strstr(text, "#"));
    cr_expect_null(strchr(text, '?'), "a letter has no plain one: %s", text);
    free(text);
    fake_free(fake);
}

Test(text, colours_when_asked_and_nothing_of_the_trace_reaches_the_terminal)
{
    struct fake *fake = training(false);
    char *text;

    fake->events[fake_event(fake, 7.9, VT_EVENT_MARK, 0, 0)].detail = 1;
    fake->labels[5].module = "evil\033]0;title\a\nmodule";
    fake->labels[6].module = "\xc2\x9b"
                             "31m \xe2\x80\xae turned";
    text = write_text(fake, vt_text_report,
                      (struct vt_view_style){.unicode = true, .colour = true, .width = 80, .by = -1}, NULL);
    cr_expect(strstr(text, "\033[38;5;71m"), "activation is green");
    cr_expect_null(strstr(text, "\033]"));
    cr_expect_null(strchr(text, '\a'));
    cr_expect_null(strstr(text, "\xc2\x9b"));
    cr_expect_null(strstr(text, "\xe2\x80\xae"));
    cr_expect(strstr(text, "evil?]0;title?"), "%s", text);
    free(text);
    fake_free(fake);
}

Test(text, says_what_is_missing)
{
    struct fake *fake = training(false);
    struct vt_view_style style = {.unicode = true, .width = 200, .by = -1, .full = true};
    char *text;

    fake->trace.header.counters.dropped = 1234;
    fake->trace.header.state = VT_STATE_RECORDING;
    fake->trace.complete = false;
    fake->trace.ring_events = 12;
    text = write_text(fake, vt_text_report, style, NULL);
    cr_expect(strstr(text, " · killed, or still running · 1,234 EVENTS LOST · pid "), "%s", text);
    cr_expect(strstr(text, "12 of them recovered from its live buffer"));
    cr_expect(strstr(text, "By line (events lost)"));
    cr_expect(strstr(text, "1,234 events were lost."));
    free(text);
    fake_free(fake);
    fake = fake_make(0);
    text = write_text(fake, vt_text_report, style, NULL);
    cr_expect(strstr(text, "The trace is empty"), "%s", text);
    free(text);
    fake_free(fake);
}

static const char *row_of(const char *text, const char *tick)
{
    const char *found = strstr(text, tick);
    return found ? found + strlen(tick) : "";
}

Test(chart, heights_are_exact)
{
    struct fake *fake = fake_make(10);
    struct vt_view_style style = {.unicode = true, .width = 60, .by = -1, .full = true};
    char *text;

    fake_alloc(fake, 0, VT_ALLOCATION_DRIVER, VT_CATEGORY_ACTIVATION, 40 * MIB);
    fake_alloc(fake, 5, VT_ALLOCATION_DRIVER, VT_CATEGORY_ACTIVATION, 40 * MIB);
    text = write_text(fake, vt_text_report, style, NULL);
    /* 80 MiB in four steps of 20, two rows each: 52 columns, the second half of them full to the top */
    cr_expect(strstr(text, "80 ┤"), "%s", text);
    cr_expect_eq(strspn(row_of(text, "80 ┤"), " "), 26, "%s", text);
    cr_expect_eq(strncmp(row_of(text, "80 ┤") + 26, "█", 3), 0);
    cr_expect_eq(strncmp(row_of(text, "40 ┤"), "█", 3), 0);
    cr_expect(strstr(text, "0 ┼"));
    free(text);
    fake_free(fake);
}
