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

#define MOST_LINES 12u /* of an answer that does not show all */
#define NAME_COLUMNS 32
#define WORTH 0.002 /* of what is needed: less is not a saving */

bool vt_trial_failed(const struct vt_trial *trial)
{
    return !trial->outcome.told || (trial->status && !trial->outcome.ran_out && !trial->outcome.timed_out);
}

const char *vt_trial_failure(const struct vt_trial *trial)
{
    return !trial->status && !trial->outcome.told ? "the program used no GPU memory"
           : trial->outcome.reason[0]             ? trial->outcome.reason
           : trial->last_line[0]                  ? trial->last_line
                                                  : "the program failed";
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
    char name[VT_CHANGES_BYTES + 16], text[32];

    snprintf(name, sizeof name, "%s", trial == first ? "as it is" : trial->changes);
    if (trial->count > 1)
        snprintf(name + strlen(name), 16, " (%u)", trial->count);
    fprintf(out, strlen(name) > NAME_COLUMNS ? "  %s\n  %32s" : "  %-32s", name, "");
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
    fprintf(out, "  %s", vt_trial_failed(trial) ? "failed" : trial->outcome.ran_out ? "✗" : "✓");
    if (trial->outcome.pool_tokens && vt_trial_fits(trial))
        fprintf(out, "%14s", vt_format_count(trial->outcome.pool_tokens, text));
    fputc('\n', out);
}

/* Another one's note says it, too: sets of changes repeat what single ones say. */
static bool is_repeated(const struct vt_trial *trials, size_t count, const bool *shown, size_t which)
{
    const char *note = trials[which].note;

    for (size_t i = 0; i < count; i++)
        if (i != which && (!shown || shown[i]) && strstr(trials[i].note, note) &&
            (i < which || strcmp(trials[i].note, note) != 0))
            return true;
    return !note[0];
}

/* Of those that are shown; NULL = all. */
static void put_notes(const struct vt_trial *trials, size_t count, const bool *shown, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        if (shown && !shown[i])
            continue;
        if (!is_repeated(trials, count, shown, i))
            fprintf(out, "  %s\n", trials[i].note);
        if (i && vt_trial_failed(&trials[i]))
            fprintf(out, "  %s: %s\n", trials[i].changes, vt_trial_failure(&trials[i]));
    }
}

static void put_verdict(const struct vt_trial *first, const struct vt_trial *best,
                        const struct vt_trial *least, FILE *out)
{
    char needed[32], total[32], less[32];

    if (best && best->outcome.pool_tokens) {
        fprintf(out, "✓ %s%s: %s tokens\n",
                best == first          ? "fits, and nothing that was tried has room for more"
                : vt_trial_fits(first) ? "has room for most with "
                                       : "fits with ",
                best->changes, vt_format_count(best->outcome.pool_tokens, total));
        return;
    }
    if (best && best != first)
        fprintf(out, "✓ %s with %s: ", vt_trial_fits(first) ? "needs least" : "fits", best->changes);
    else if (vt_trial_fits(first))
        fputs("✓ fits, and nothing that was tried needs less: ", out);
    else if (least == first)
        fputs("✗ nothing that was tried makes it fit: ", out);
    else
        fprintf(out, "✗ nothing that was tried makes it fit; %s needs least: ", least->changes);
    best = best ? best : least;
    if (!best->need_known) {
        fprintf(out, "it is not known how much it needs\n");
        return;
    }
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

static void put_all(const struct vt_trial *trials, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        put_row(&trials[i], trials, out);
    put_notes(trials, count, NULL, out);
}

/* The one that is answered, single changes that save, sets that save, others. */
static unsigned rank_of(const struct vt_trial *trial, const struct vt_trial *first,
                        const struct vt_trial *answered)
{
    if (trial == answered)
        return 0;
    if (!vt_trial_saves(trial, first))
        return 3;
    return strchr(trial->changes, ',') ? 2 : 1;
}

/* Rows of those that matter most; then the names of the others. */
static void put_most(const struct vt_trial *trials, size_t count, const struct vt_trial *answered, FILE *out)
{
    bool *shown = vt_allocate_zeros(count + 1, sizeof *shown);
    size_t lines = MOST_LINES - 5; /* the verdict, the head, as it is, the others, the costs */
    const char *before = "  others: ", *failure = "";

    for (unsigned rank = 0; rank < 3; rank++)
        for (size_t i = 0; i < count; i++) {
            const size_t wanted = 1 + (strlen(trials[i].changes) + 5 > NAME_COLUMNS) + !!trials[i].note[0];

            if (rank_of(&trials[i], trials, answered) == rank && wanted <= lines) {
                shown[i] = true;
                lines -= wanted;
            }
        }
    shown[0] = true;
    for (size_t i = 0; i < count; i++)
        if (shown[i])
            put_row(&trials[i], trials, out);
    put_notes(trials, count, shown, out);
    for (size_t i = 0; i < count; i++)
        if (!shown[i]) {
            const char *nothing = strstr(trials[i].note, "nothing");

            fprintf(out, "%s%s", before, trials[i].changes);
            if (vt_trial_failed(&trials[i])) {
                const bool is_new = strcmp(failure, vt_trial_failure(&trials[i])) != 0;

                failure = vt_trial_failure(&trials[i]);
                fprintf(out, " (failed%s%.60s)", is_new ? ": " : "", is_new ? failure : "");
            } else if (nothing) {
                fprintf(out, " (%s)", nothing);
            }
            before = " · ";
        }
    if (before[2] != 'o')
        fputc('\n', out);
    free(shown);
}

static const struct vt_trial *least_of(const struct vt_trial *trials, size_t count)
{
    const struct vt_trial *least = trials;

    for (size_t i = 1; i < count; i++)
        if (vt_trial_saves(&trials[i], trials) && trials[i].needed_bytes < least->needed_bytes)
            least = &trials[i];
    return least;
}

void vt_put_trials(const struct vt_trial *trials, size_t count, const struct vt_trial *best, bool all,
                   FILE *out)
{
    const struct vt_trial *least = least_of(trials, count);

    put_verdict(trials, best, least, out);
    fprintf(out, "  %-*s%10s%10s%10s%10s  fits%s\n", NAME_COLUMNS, "", "in use", "saved", "needs", "saved",
            best && best->outcome.pool_tokens ? "  KV tokens" : "");
    if (all)
        put_all(trials, count, out);
    else
        put_most(trials, count, best ? best : least, out);
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
        if (trial->outcome.pool_tokens)
            cJSON_AddItemToObject(row, "kv_pool_tokens", number(true, trial->outcome.pool_tokens));
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
