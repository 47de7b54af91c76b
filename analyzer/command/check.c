/* check: a trace against limits, for a job that must not grow. */
#include "command/load.h"
#include "command/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"
#include "findings/findings.h"
#include "view/ci/ci.h"
#include "view/json/json.h"
#include "view/text/print.h"

static int load_report(const struct vt_arguments *arguments, const char *path, struct vt_loaded *loaded)
{
    const struct vt_report_options options = {
        .device_index = arguments->device, .groups = VT_NO_GROUPS, .timeline_columns = VT_NO_TIMELINE};

    return vt_load_report(arguments, path, &options, arguments->limits.max_leak.given ? VT_FIND_LEAKS : 0,
                          loaded);
}

static void put_breaches(const char *path, const struct vt_checks *checks, FILE *out)
{
    for (size_t i = 0; i < checks->count; i++) {
        if (!checks->items[i].text)
            continue;
        vt_put_clean(path, out);
        fputs(": ", out);
        vt_put_clean(checks->items[i].text, out); /* it may name a line of the trace */
        fputc('\n', out);
    }
}

static int check_one(const struct vt_arguments *arguments, const char *path, const struct vt_report *baseline,
                     struct vt_checks *checks)
{
    struct vt_loaded loaded;
    int result = load_report(arguments, path, &loaded);

    if (result)
        return result;
    vt_check_make(loaded.report, baseline, &arguments->limits, checks);
    vt_unload(&loaded);
    return checks->breaches ? VT_EXIT_CHECK_FAILED : VT_EXIT_GOOD;
}

/* "peak 1.23 GiB of 20.00 GiB": what came nearest to its limit, over all devices. */
static void put_measured(const struct vt_checks *checks, const struct vt_limits *limits, FILE *out)
{
    static const char *const whats[] = {"peak", "unknown", "cached", "leak", "baseline"};
    const char *before = ": ";

    for (size_t i = 0; i < checks->count && *before == ':'; i++)
        if (!strcmp(checks->items[i].what, "leak") && checks->items[i].part) {
            fputs(": leak not judged", out);
            before = ", ";
        }
    for (size_t w = 0; w < sizeof whats / sizeof *whats; w++) {
        const struct vt_checked *most = NULL;

        for (size_t i = 0; i < checks->count; i++) {
            const struct vt_checked *item = &checks->items[i];
            if (!strcmp(item->what, whats[w]) && (!item->part || !strcmp(item->part, "peak")) &&
                (!most || (double)item->bytes * (double)most->limit_bytes >
                              (double)most->bytes * (double)item->limit_bytes))
                most = item;
        }
        if (!most)
            continue;
        fprintf(out, "%s%s %s of %s", before, w == 4 ? "peak" : whats[w], VT_BYTES(most->bytes),
                VT_BYTES(most->limit_bytes));
        if (w == 3 && limits->max_leak.form == VT_AMOUNT_PER_STEP)
            fputs(" per step", out);
        if (w == 4)
            fputs(" allowed by the baseline", out);
        before = ", ";
    }
    if (*before == ':')
        fputs("; no GPU memory was recorded", out);
}

static void say_passed(const struct vt_limits *limits, const char *path, const struct vt_checks *checks)
{
    char *text;
    size_t bytes;
    FILE *out = vt_memory_stream(&text, &bytes);

    put_measured(checks, limits, out);
    fclose(out);
    vt_say("%s%s: all limits are met%s", path, checks->facts.simulated ? " (simulated)" : "", text);
    free(text);
}

static void write_list(const struct vt_check_list *list, int format, FILE *out)
{
    const struct vt_json_style style = {0};

    if (format == VT_CHECK_JSON)
        vt_json_write(&vt_check_document, list, &style, out);
    if (format == VT_CHECK_GITHUB)
        vt_ci_github(list, out);
    if (format == VT_CHECK_JUNIT)
        vt_ci_junit(list, out);
}

/* Checks every trace; the status is the worst. Breaches are printed when found, other formats at the end. */
static int check_all(const struct vt_arguments *arguments, const struct vt_report *baseline,
                     struct vt_output *output)
{
    const size_t count = (size_t)arguments->operand_count;
    struct vt_check_list list = {.items = vt_allocate_zeros(count, sizeof *list.items),
                                 .unread = vt_allocate_zeros(count, sizeof *list.unread)};
    const int format = arguments->json ? VT_CHECK_JSON : arguments->check_format;
    int worst = 0, written;

    for (size_t i = 0; i < count; i++) {
        const char *path = arguments->operands[i];
        struct vt_checks *checks = &list.items[list.count];
        int result = check_one(arguments, path, baseline, checks);

        worst = result > worst ? result : worst;
        if (result > VT_EXIT_CHECK_FAILED) {
            list.unread[list.unread_count++] = path;
            continue;
        }
        list.count++;
        if (format == VT_CHECK_TEXT)
            put_breaches(path, checks, output->stream);
        if (checks->passed && format != VT_CHECK_JSON)
            say_passed(&arguments->limits, path, checks);
    }
    list.passed = !worst;
    write_list(&list, format, output->stream);
    written = vt_written(output, 0);
    for (size_t i = 0; i < list.count; i++)
        vt_check_free(&list.items[i]);
    free(list.items);
    free(list.unread);
    return written > worst ? written : worst;
}

int vt_command_check(struct vt_arguments *arguments, struct vt_output *output)
{
    struct vt_loaded baseline = {0};
    int result = 0;

    if (arguments->baseline)
        result = load_report(arguments, arguments->baseline, &baseline);
    if (!result)
        result = check_all(arguments, baseline.report, output);
    vt_unload(&baseline);
    return result;
}
