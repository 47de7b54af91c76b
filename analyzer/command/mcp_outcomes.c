/* How the runs of a folder ended, one line each: read once and remembered. */
#include "command/mcp.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "diagnose/diagnose.h"
#include "report/program.h"
#include "view/mcp/mcp.h"
#include "view/text/print.h"

#define COMMAND_COLUMNS 80

static void clear(struct vt_mcp_outcome *outcome)
{
    free(outcome->path);
    free(outcome->command);
    *outcome = (struct vt_mcp_outcome){0};
}

void vt_mcp_outcomes_free(struct vt_mcp_traces *traces)
{
    for (size_t i = 0; i < traces->outcome_count; i++)
        clear(&traces->outcomes[i]);
    free(traces->outcomes);
    traces->outcomes = NULL;
    traces->outcome_count = traces->outcome_capacity = 0;
}

/* The one of this path, or a new one. NULL without memory. */
static struct vt_mcp_outcome *place_for(struct vt_mcp_traces *traces, const char *path)
{
    for (size_t i = 0; i < traces->outcome_count; i++)
        if (traces->outcomes[i].path && !strcmp(traces->outcomes[i].path, path))
            return &traces->outcomes[i];
    if (VT_APPEND(traces->outcomes, traces->outcome_count, traces->outcome_capacity,
                  (struct vt_mcp_outcome){.path = NULL}))
        return NULL;
    return &traces->outcomes[traces->outcome_count - 1];
}

static void describe(const struct vt_report *report, struct vt_mcp_outcome *outcome)
{
    const struct vt_trace_facts *facts = &report->facts;
    bool ended_it = report->refusal_count && report->refusals[report->refusal_count - 1].ends_run;
    struct vt_launch launch;
    char *command = vt_shorten(vt_short_command(facts), COMMAND_COLUMNS, VT_CUT_END);

    outcome->command = command ? vt_mcp_clean(command) : NULL;
    free(command);
    vt_launch_read(report->trace, &launch);
    outcome->rank = launch.rank;
    outcome->refusals = report->refusal_count;
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].peak.state.used_bytes > outcome->peak_bytes)
            outcome->peak_bytes = report->devices[i].peak.state.used_bytes;
    if (!report->refusal_count)
        snprintf(outcome->text, sizeof outcome->text, "%s", facts->outcome);
    else if (ended_it)
        snprintf(outcome->text, sizeof outcome->text, "out of memory");
    else
        snprintf(outcome->text, sizeof outcome->text, "%.60s, ran out of memory but continued",
                 facts->outcome);
}

static bool read_outcome(const char *path, struct vt_mcp_outcome *outcome, bool *over)
{
    const struct vt_report_options options = {
        .device_index = -1, .groups = VT_NO_GROUPS, .timeline_columns = VT_NO_TIMELINE};
    struct vt_loaded loaded;
    struct vt_report *report;
    char error[512];

    if (vt_open(path, NULL, true, &loaded, error, sizeof error))
        return false;
    if (!vt_try_report(&loaded, &options, 0, &report, error, sizeof error)) {
        describe(report, outcome);
        *over = strcmp(report->facts.state, "recording") != 0;
        vt_report_free(report);
    }
    vt_unload(&loaded);
    return outcome->command != NULL;
}

const struct vt_mcp_outcome *vt_mcp_outcome(struct vt_mcp_traces *traces, const struct vt_mcp_listed *listed,
                                            uint64_t *budget)
{
    struct vt_mcp_outcome *outcome = place_for(traces, listed->path);
    struct stat status;
    bool over = false;

    if (!outcome || stat(listed->path, &status) || !S_ISREG(status.st_mode))
        return NULL;
    if (outcome->path && vt_mcp_same_file(&outcome->status, &status))
        return outcome;
    clear(outcome);
    if (listed->bytes > *budget)
        return NULL;
    *budget -= listed->bytes;
    outcome->path = strdup(listed->path);
    if (!outcome->path || !read_outcome(listed->path, outcome, &over)) {
        clear(outcome);
        return NULL;
    }
    if (over) /* the file of a run that goes on changes without a sign */
        outcome->status = status;
    return outcome;
}
