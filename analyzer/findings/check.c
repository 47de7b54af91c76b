#include "findings/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/format.h"
#include "findings/leaks/verdicts.h"

#define DEFAULT_TOLERANCE 0.02 /* of a baseline's peak */

static const struct vt_state nothing;

/* Adds what was measured. `format` is the message of a breach. */
static void add_check(struct vt_checks *checks, struct vt_checked checked, bool breached, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));
static void add_check(struct vt_checks *checks, struct vt_checked checked, bool breached, const char *format,
                      ...)
{
    va_list arguments;

    checked.text = NULL;
    checked.of_device = checked.device_index >= 0;
    checked.passed = !breached;
    if (breached) {
        va_start(arguments, format);
        checked.text = vt_print_text_list(format, arguments);
        va_end(arguments);
    }
    checks->items = vt_resize(checks->items, checks->count + 1, sizeof *checks->items);
    checks->items[checks->count++] = checked;
    checks->breaches += breached;
}

static const char *limit_text(const struct vt_amount *amount, uint64_t whole, char *text)
{
    char bytes[24];

    vt_format_bytes(vt_amount_bytes(amount, whole), bytes);
    if (amount->form == VT_AMOUNT_PERCENT)
        snprintf(text, 64, "%s (%g %%)", bytes, amount->part * 100);
    else
        snprintf(text, 64, "%s", bytes);
    return text;
}

static const char *describe_moment(const struct vt_state *state, char *text)
{
    if (state->step)
        snprintf(text, 64, "step %u, %s", state->step, vt_phase_name(state->phase));
    else
        snprintf(text, 64, "before the first step");
    return text;
}

/* One size at the peak against a limit. */
static void check_size(struct vt_checks *checks, const struct vt_device_report *device, const char *what,
                       const struct vt_amount *limit, uint64_t bytes, uint64_t whole, const char *name)
{
    struct vt_checked checked = {.what = what, .device_index = device->index, .bytes = bytes};
    char size[24], most[64], over[24], moment[64];

    if (!limit->given)
        return;
    checked.limit_bytes = vt_amount_bytes(limit, whole);
    add_check(checks, checked, bytes > checked.limit_bytes,
              "GPU %d: %s %s at the peak (%s): %s over --max-%s %s", device->index,
              vt_format_bytes(bytes, size), name, describe_moment(&device->peak.state, moment),
              vt_format_bytes(bytes - checked.limit_bytes, over), what, limit_text(limit, whole, most));
}

/* "kept tensor at train.py:88 main" of the largest leak. */
static void name_leak(const struct vt_leak *leak, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s%s", leak->name, leak->line_count ? " at " : "",
             leak->line_count ? leak->lines[0].name : "");
}

/* Page-locked host memory counts, too. A limit that cannot be judged is exceeded, unless that is allowed. */
static void check_leak(struct vt_checks *checks, const struct vt_device_report *device,
                       const struct vt_limits *limits)
{
    const struct vt_amount *limit = &limits->max_leak;
    const struct vt_leaks *leaks = &device->leaks;
    bool per_step = limit->form == VT_AMOUNT_PER_STEP;
    struct vt_checked checked = {.what = "leak", .device_index = device->index, .limit_bytes = limit->bytes};
    char size[24], most[24], name[300] = "";

    if (!limit->given)
        return;
    if (!leaks->judged) {
        checked.part = "unjudged";
        add_check(checks, checked, !limits->allow_unjudged,
                  "GPU %d: --max-leak (--allow-unjudged accepts this): %s", device->index, leaks->unjudged);
        return;
    }
    for (size_t i = 0; i < leaks->leak_count; i++) {
        const struct vt_leak *leak = &leaks->items[i];

        checked.bytes += per_step ? leak->bytes_per_step : leak->bytes;
        if (!name[0])
            name_leak(leak, name, sizeof name);
    }
    add_check(checks, checked, checked.bytes > limit->bytes,
              "GPU %d: %s leaked%s, most by %s: over --max-leak %s", device->index,
              vt_format_bytes(checked.bytes, size), per_step ? " per step" : "", name,
              vt_format_bytes(limit->bytes, most));
}

static void check_device(struct vt_checks *checks, const struct vt_device_report *device,
                         const struct vt_limits *limits)
{
    const struct vt_state *peak = &device->peak.state;
    uint64_t used = peak->used_bytes, blocks = peak->block_bytes ? peak->block_bytes : used;

    check_size(checks, device, "peak", &limits->max_peak, used, used, "in use");
    check_size(checks, device, "unknown", &limits->max_unknown, peak->categories[VT_CATEGORY_UNKNOWN], blocks,
               "of unknown category");
    check_size(checks, device, "cached", &limits->max_cached, peak->categories[VT_CATEGORY_CACHED],
               peak->driver_bytes - peak->context_bytes, "cached");
    check_leak(checks, device, limits);
}

static void compare_size(struct vt_checks *checks, int device_index, const char *part, const char *label,
                         uint64_t bytes, uint64_t before, uint64_t tolerance)
{
    struct vt_checked checked = {.what = "baseline",
                                 .part = part,
                                 .device_index = device_index,
                                 .bytes = bytes,
                                 .limit_bytes = before + tolerance};
    char size[24], was[24], more[24], allowed[24];

    add_check(checks, checked, bytes > checked.limit_bytes,
              "GPU %d: %s %s at the peak, %s in the baseline: %s more (--tolerance allows %s)", device_index,
              vt_format_bytes(bytes, size), label, vt_format_bytes(before, was),
              vt_format_bytes(bytes - before, more), vt_format_bytes(tolerance, allowed));
}

/* All categories of a device have one tolerance in bytes: a share of each one's own bytes would fail a run
 * for a few bytes of a small category. */
static void compare_device(struct vt_checks *checks, const struct vt_device_report *device,
                           const struct vt_report *baseline, const struct vt_limits *limits)
{
    const struct vt_device_report *other = vt_report_device(baseline, device->index);
    const struct vt_state *peak = &device->peak.state, *before = other ? &other->peak.state : &nothing;
    uint64_t used = peak->used_bytes, used_before = before->used_bytes;
    struct vt_amount usual = {.form = VT_AMOUNT_PERCENT, .part = DEFAULT_TOLERANCE};
    uint64_t tolerance = vt_amount_bytes(limits->tolerance.given ? &limits->tolerance : &usual, used_before);

    compare_size(checks, device->index, "peak", "in use", used, used_before, tolerance);
    for (size_t i = 0; i < vt_stacked_category_count; i++) {
        unsigned c = vt_stacked_categories[i];

        if (peak->categories[c] || before->categories[c])
            compare_size(checks, device->index, vt_category_name(c), vt_category_name(c), peak->categories[c],
                         before->categories[c], tolerance);
    }
}

static void check_losses(struct vt_checks *checks, const struct vt_trace_facts *facts, const char *part,
                         bool allowed)
{
    struct vt_checked checked = {.what = "lost", .part = part, .device_index = -1};
    const struct vt_loss *worst = vt_worst_loss(facts);

    add_check(checks, checked, worst && !allowed,
              "%s%s: the limits are not reliable (--allow-lost checks them anyway)",
              part ? "in the baseline, " : "", worst ? worst->text : "");
}

void vt_check_make(const struct vt_report *report, const struct vt_report *baseline,
                   const struct vt_limits *limits, struct vt_checks *checks)
{
    *checks = (struct vt_checks){.facts = report->facts};
    checks->facts.path = vt_copy_text(report->facts.path);
    checks->facts.command = vt_copy_text(report->facts.command);
    checks->facts.simulated = report->facts.simulated ? vt_copy_text(report->facts.simulated) : NULL;
    checks->facts.arguments = NULL;
    checks->facts.argument_count = 0;
    check_losses(checks, &report->facts, NULL, limits->allow_lost);
    if (baseline)
        check_losses(checks, &baseline->facts, "baseline", limits->allow_lost);
    for (size_t i = 0; i < report->device_count; i++) {
        check_device(checks, &report->devices[i], limits);
        if (baseline)
            compare_device(checks, &report->devices[i], baseline, limits);
    }
    checks->passed = !checks->breaches;
}

void vt_check_free(struct vt_checks *checks)
{
    for (size_t i = 0; i < checks->count; i++)
        free(checks->items[i].text);
    free(checks->items);
    free((char *)(uintptr_t)checks->facts.path);
    free((char *)(uintptr_t)checks->facts.command);
    free((char *)(uintptr_t)checks->facts.simulated);
    *checks = (struct vt_checks){0};
}
