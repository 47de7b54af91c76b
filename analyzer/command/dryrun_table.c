/* What trials found, as a table and as JSON. */
#include "command/dryrun_changes.h"
#include "command/dryrun_table.h"

#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/format.h"

#define WORTH 0.002 /* of what is needed: less is not a saving */

bool vt_trial_failed(const struct vt_trial *trial)
{
    return !trial->outcome.told || (trial->status && !trial->outcome.ran_out && !trial->outcome.timed_out);
}

bool vt_trial_fits(const struct vt_trial *trial)
{
    return !vt_trial_failed(trial) && !trial->outcome.ran_out;
}

bool vt_trial_saves(const struct vt_trial *trial, const struct vt_trial *first)
{
    return !vt_trial_failed(trial) && trial->need_known && first->need_known &&
           (double)trial->needed_bytes + WORTH * (double)first->needed_bytes < (double)first->needed_bytes;
}

/* A column of 10; the minus sign has three bytes. */
static void put_cell(const char *text, FILE *out)
{
    const int more = !strncmp(text, "−", strlen("−")) || !strcmp(text, "–") ? 2 : 0;

    fprintf(out, "%*s", 10 + more, text);
}

static void put_bytes(bool known, uint64_t bytes, FILE *out)
{
    char text[32] = "–";

    if (known)
        vt_format_bytes(bytes, text);
    put_cell(text, out);
}

static void put_saved(bool known, uint64_t before, uint64_t after, FILE *out)
{
    char text[32] = "–";

    if (known && before != after)
        vt_format_change(after, before, text);
    put_cell(text[0] == '+' ? text + 1 : text, out);
}

static void put_row(const struct vt_trial *trial, const struct vt_trial *first, FILE *out)
{
    const bool known = trial->need_known, compared = known && first->need_known;
    char name[VT_CHANGES_BYTES + 16];

    snprintf(name, sizeof name, "%s", trial == first ? "as it is" : trial->changes);
    if (trial->count > 1)
        snprintf(name + strlen(name), 16, " (%u)", trial->count);
    fprintf(out, strlen(name) > 32 ? "  %s\n  %32s" : "  %-32s", name, "");
    put_bytes(known, trial->used_bytes, out);
    if (trial == first)
        fprintf(out, "%10s", "");
    else
        put_saved(compared, first->used_bytes, trial->used_bytes, out);
    put_bytes(known, trial->needed_bytes, out);
    if (trial == first)
        fprintf(out, "%10s", "");
    else
        put_saved(compared, first->needed_bytes, trial->needed_bytes, out);
    fprintf(out, "  %s\n", vt_trial_failed(trial) ? "failed" : trial->outcome.ran_out ? "✗" : "✓");
}

static void put_notes(const struct vt_trial *trial, const struct vt_trial *first, FILE *out)
{
    if (trial->note[0])
        fprintf(out, "  %s\n", trial->note);
    if (trial != first && vt_trial_failed(trial))
        fprintf(out, "  %s: %s\n", trial->changes,
                trial->last_line[0] ? trial->last_line : "the program failed");
}

static void put_verdict(const struct vt_trial *first, const struct vt_trial *best, FILE *out)
{
    char needed[32], total[32], less[32];

    if (!best || best == first)
        fputs(vt_trial_fits(first) ? "✓ fits, and nothing that was tried needs less: "
                                   : "✗ nothing that was tried makes it fit: ",
              out);
    else
        fprintf(out, "✓ %s with %s: ", vt_trial_fits(first) ? "needs least" : "fits", best->changes);
    best = best ? best : first;
    fprintf(out, "%s of %s", vt_format_bytes(best->needed_bytes, needed),
            vt_format_bytes(best->outcome.total_bytes, total));
    if (vt_trial_saves(best, first))
        fprintf(out, ", %s less", vt_format_bytes(first->needed_bytes - best->needed_bytes, less));
    fputc('\n', out);
}

/* What the changes of the best cost. */
static void put_costs(const struct vt_trial *best, FILE *out)
{
    char *copy = vt_copy_text(best->changes);
    const char *before = "  costs: ";

    for (char *rest = copy, *change; (change = strsep(&rest, ","));)
        if (vt_cost_of_change(change)[0]) {
            fprintf(out, "%s%s: %s", before, change, vt_cost_of_change(change));
            before = "; ";
        }
    if (before[0] == ';')
        fputc('\n', out);
    free(copy);
}

void vt_put_trials(const struct vt_trial *trials, size_t count, const struct vt_trial *best, FILE *out)
{
    put_verdict(trials, best, out);
    fprintf(out, "  %-32s%10s%10s%10s%10s  fits\n", "", "in use", "saved", "needs", "saved");
    for (size_t i = 0; i < count; i++)
        put_row(&trials[i], trials, out);
    for (size_t i = 0; i < count; i++)
        put_notes(&trials[i], trials, out);
    if (best && best != trials)
        put_costs(best, out);
}

/* ---- JSON ---- */

static cJSON *number(bool known, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return known ? cJSON_CreateRaw(text) : cJSON_CreateNull();
}

int vt_put_trials_json(const struct vt_trial *trials, size_t count, const struct vt_trial *best, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(root, "trials");
    char *text;
    int result = 0;

    for (size_t i = 0; i < count; i++) {
        const struct vt_trial *trial = &trials[i];
        cJSON *row = cJSON_CreateObject();

        cJSON_AddStringToObject(row, "changes", trial->changes);
        cJSON_AddBoolToObject(row, "failed", vt_trial_failed(trial));
        cJSON_AddBoolToObject(row, "fits", vt_trial_fits(trial));
        cJSON_AddBoolToObject(row, "best", trial == best);
        cJSON_AddItemToObject(row, "peak_used_bytes", number(trial->need_known, trial->used_bytes));
        cJSON_AddItemToObject(row, "needed_bytes", number(trial->need_known, trial->needed_bytes));
        cJSON_AddItemToObject(row, "total_bytes", number(trial->outcome.told, trial->outcome.total_bytes));
        cJSON_AddItemToObject(row, "changed", number(true, trial->count));
        cJSON_AddStringToObject(row, "note", trial->note);
        cJSON_AddItemToArray(rows, row);
    }
    text = cJSON_Print(root);
    if (!text || fprintf(out, "%s\n", text) < 0)
        result = -errno;
    free(text);
    cJSON_Delete(root);
    return result;
}
