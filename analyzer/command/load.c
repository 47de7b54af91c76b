#include "command/load.h"

#include "base/format.h"
#include "command/output.h"
#include "command/progress.h"
#include "command/traces.h"
#include "findings/findings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What to do about a trace that cannot be read. */
static const char *advice_for(int error)
{
    switch (error) {
    case -ENOENT:
        return " (record one with: vramtrace run COMMAND)";
    case -EACCES:
        return "; only the user who recorded it may read it: chmod +r as that user";
    case -ENODATA:
        return "; run it again and read its last line";
    default:
        return "";
    }
}

/* Of a trace with more events, about so many are read one by one. */
#define BUDGET_EVENTS UINT64_C(1500000)
/* How often a trace is read again for the moments that are asked for: with the events around a moment known,
 * it may turn out to be another one. */
#define MOST_TRIES 2

/* The variable is for tests. */
uint64_t vt_budget_events(void)
{
    const char *budget = getenv("VRAMTRACE_BUDGET_EVENTS");

    return budget && *budget ? strtoull(budget, NULL, 10) : BUDGET_EVENTS;
}

static void close_trace(struct vt_loaded *loaded)
{
    vt_attribution_free(loaded->attribution);
    vt_replay_free(loaded->replay);
    vt_trace_close(loaded->trace);
    loaded->attribution = NULL;
    loaded->replay = NULL;
    loaded->trace = NULL;
}

static int analyze_trace(struct vt_loaded *loaded, const char *path, char *reason, size_t reason_bytes)
{
    const struct vt_reading reading = {loaded->each_event ? UINT64_MAX : vt_budget_events(),
                                       loaded->asked.items, loaded->asked.count, loaded->head_only};
    int result = vt_trace_open(path, &reading, &loaded->trace, reason, reason_bytes);

    if (result)
        return result;
    loaded->replay = vt_replay_make(loaded->trace);
    return vt_attribute(loaded->trace, loaded->replay, loaded->rules, &loaded->attribution, reason,
                        reason_bytes);
}

/* Reads a trace, with the events around the moments that are asked for. */
static int open_trace(struct vt_loaded *loaded, const char *path, char **error)
{
    char reason[PATH_MAX + 512] = "";
    int result = analyze_trace(loaded, path, reason, sizeof reason);
    bool unread;

    if (!result)
        return 0;
    if (result == -ENOMEM) /* to map the file */
        vt_end_out_of_memory();
    unread = !loaded->trace;
    *error = unread ? vt_print_text("%s%s", reason[0] ? reason : strerror(-result), advice_for(result))
                    : vt_print_text("--rules: %s", reason);
    vt_unload(loaded);
    return unread ? VT_EXIT_UNREADABLE : VT_EXIT_WRONG_USE;
}

int vt_open(const char *path, struct vt_loaded *loaded, char **error)
{
    return open_trace(loaded, path, error);
}

/* If there are too many, the oldest go. */
static void add_needs(struct vt_needs *asked, const struct vt_needs *more)
{
    for (size_t i = 0; i < more->count; i++) {
        if (asked->count == VT_NEEDS)
            memmove(asked->items, asked->items + 1, --asked->count * sizeof *asked->items);
        asked->items[asked->count++] = more->items[i];
    }
}

int vt_reach(struct vt_loaded *loaded, const struct vt_report_options *options, char **error)
{
    int status = 0;

    for (int tries = 0; !status && tries < MOST_TRIES && loaded->trace->gap_count; tries++) {
        struct vt_needs needs;
        char *path;

        vt_report_needs(loaded->attribution, options, &needs);
        if (!needs.count)
            break;
        add_needs(&loaded->asked, &needs);
        path = vt_copy_text(loaded->trace->path);
        close_trace(loaded);
        status = open_trace(loaded, path, error) ? VT_EXIT_UNREADABLE : 0;
        free(path);
    }
    return status;
}

int vt_load(const struct vt_arguments *arguments, const char *path, const struct vt_report_options *options,
            struct vt_loaded *loaded)
{
    char *error;
    int result;

    *loaded = (struct vt_loaded){.rules = arguments->rules, .each_event = arguments->each_event};
    if (vt_is_folder(path)) {
        vt_say("%s is a folder; name a trace in it", path);
        return VT_EXIT_UNREADABLE;
    }
    vt_warn_of_newer(arguments, path);
    vt_progress_begin(true);
    result = vt_open(path, loaded, &error);
    if (!result && options)
        result = vt_reach(loaded, options, &error);
    vt_progress_end();
    if (result)
        vt_say_text(error);
    return result;
}

void vt_unload(struct vt_loaded *loaded)
{
    vt_report_free(loaded->report);
    close_trace(loaded);
    *loaded = (struct vt_loaded){0};
}

int vt_try_report(const struct vt_loaded *loaded, const struct vt_report_options *options, unsigned wanted,
                  struct vt_report **report, char **error)
{
    char reason[512];

    if (vt_report_make(loaded->attribution, options, report, reason, sizeof reason)) {
        *report = NULL;
        *error = vt_copy_text(reason);
        return VT_EXIT_WRONG_USE;
    }
    vt_diagnose(*report, wanted);
    return 0;
}

int vt_make_report(const char *path, const struct vt_loaded *loaded, const struct vt_report_options *options,
                   unsigned wanted, struct vt_report **report)
{
    char *error;
    int result;

    vt_progress_begin(false);
    result = vt_try_report(loaded, options, wanted, report, &error);
    vt_progress_end();
    if (!result)
        return 0;
    vt_say("%s: %s", path, error);
    free(error);
    return result;
}

int vt_load_report(const struct vt_arguments *arguments, const char *path,
                   const struct vt_report_options *options, unsigned wanted, struct vt_loaded *loaded)
{
    int result = vt_load(arguments, path, options, loaded);

    if (!result)
        result = vt_make_report(path, loaded, options, wanted, &loaded->report);
    if (result)
        vt_unload(loaded);
    return result;
}
