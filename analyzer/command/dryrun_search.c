/* Looks for changes that make a program fit, and for the largest value that does. */
#include "command/dryrun_search.h"
#include "command/dryrun_changes.h"
#include "command/dryrun_trials.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/format.h"

/* ---- Advice that is tried ---- */

static bool is_free(const struct vt_trial *run)
{
    return !vt_cost_of_change(run->changes)[0];
}

/* What costs nothing first, then what saves most. */
static int compare_runs(const void *left, const void *right)
{
    const struct vt_trial *a = *(struct vt_trial *const *)left, *b = *(struct vt_trial *const *)right;

    if (is_free(a) != is_free(b))
        return is_free(a) ? -1 : 1;
    return a->needed_bytes < b->needed_bytes ? -1 : a->needed_bytes > b->needed_bytes;
}

static void join(const struct vt_trial *const *chosen, size_t count, const struct vt_trial *without,
                 char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(text);

        if (chosen[i] != without)
            snprintf(text + used, bytes - used, "%s%s", used ? "," : "", chosen[i]->changes);
    }
}

/* Fewer of them, as long as it fits; the last one stays. Fewer than `least` were tried. */
static const struct vt_trial *drop_some(const struct vt_trial **chosen, size_t count, size_t least,
                                        const struct vt_trial *best)
{
    char text[sizeof best->changes];

    for (size_t i = 0; i + 1 < count && count > least;) {
        const struct vt_trial *run;

        join(chosen, count, chosen[i], text, sizeof text);
        run = vt_trial_with(text);
        if (!run || !vt_trial_fits(run)) {
            i++;
            continue;
        }
        best = run;
        memmove(&chosen[i], &chosen[i + 1], (--count - i) * sizeof *chosen);
    }
    return best;
}

/* Smaller batches, with the other changes: of the loader or, if the program makes none, by its argument. */
static const struct vt_trial *try_batches(const struct vt_trial **chosen, size_t count, char **words)
{
    static struct vt_trial batch;
    char text[sizeof batch.changes];
    const struct vt_trial *run;
    bool of_loader = true;

    for (unsigned part = 2; part <= 8; part *= 2) {
        char *argument = of_loader ? NULL : vt_batch_argument(words, part);

        if (!of_loader && !argument)
            return NULL;
        if (argument)
            snprintf(batch.changes, sizeof batch.changes, "%s", argument);
        else
            snprintf(batch.changes, sizeof batch.changes, "batch=/%u", part);
        free(argument);
        chosen[count] = &batch;
        join(chosen, count + 1, NULL, text, sizeof text);
        run = vt_trial_with(text);
        if (!run || vt_trial_fits(run))
            return run ? drop_some(chosen, count + 1, 1, run) : NULL;
        if (of_loader && strstr(run->note, "batch: nothing")) {
            of_loader = false;
            part = 1;
        }
    }
    return NULL;
}

const struct vt_trial *vt_search_advice(const struct vt_trial *first, char **words)
{
    const struct vt_trial *useful[VT_PROPOSALS + 1], *best = NULL, *run;
    char text[sizeof best->changes];
    size_t count = 0, together;

    for (size_t i = 0; i < VT_PROPOSALS && first->outcome.proposals[i][0]; i++) {
        run = vt_trial_with(first->outcome.proposals[i]);
        if (run && vt_trial_saves(run, first))
            useful[count++] = run;
    }
    qsort(useful, count, sizeof *useful, compare_runs);
    for (size_t i = 0; i < count && !vt_trial_fits(first); i++)
        if (vt_trial_fits(useful[i]))
            return useful[i];
    for (together = vt_trial_fits(first) ? count : 2; together <= count && together > 1; together++) {
        join(useful, together, NULL, text, sizeof text);
        best = vt_trial_with(text);
        if (!best || vt_trial_fits(best))
            break;
    }
    if (vt_trial_fits(first))
        return best && vt_trial_fits(best) ? best : NULL;
    if (best && vt_trial_fits(best))
        return drop_some(useful, together, 2, best);
    return try_batches(useful, count, words);
}

/* ---- The largest that fits ---- */

static const struct vt_trial *run_of_size(const char *change, uint64_t size)
{
    char text[128];

    snprintf(text, sizeof text, "%s%llu", change, (unsigned long long)size);
    return vt_trial_with(text);
}

/* Between one that fits and one that does not; a straight line through the two largest that fit says where
 * next. */
static uint64_t next_size(uint64_t smaller, const struct vt_trial *small, uint64_t fitting,
                          const struct vt_trial *fit, uint64_t too_large)
{
    const double slope =
        small && fit ? ((double)fit->needed_bytes - (double)small->needed_bytes) / (double)(fitting - smaller)
                     : 0;
    const double room = fit ? (double)fit->outcome.total_bytes - (double)fit->needed_bytes : 0;
    uint64_t guess = slope > 0 ? fitting + (uint64_t)(room / slope) : fitting * 2;

    if (!too_large)
        return guess > fitting * 8 ? fitting * 8 : guess > fitting ? guess : fitting + 1;
    return guess <= fitting ? fitting + 1 : guess >= too_large ? too_large - 1 : guess;
}

int vt_search_largest(const char *name, char **words, FILE *out)
{
    char **argument = vt_find_argument(words, name);
    const bool is_loader = !argument && (!strcmp(name, "batch") || !strcmp(name, "batch_size"));
    char *change = is_loader ? vt_copy_text("batch=") : vt_print_text("arg:%s=", name), bytes[32];
    const struct vt_trial *smaller = NULL, *best = NULL, *worst = NULL, *run;
    uint64_t small = 0, fitting = 0, too_large = 0, size = 1;

    while ((!too_large || too_large - fitting > 1) && (run = run_of_size(change, size))) {
        if (vt_trial_failed(run) || (is_loader && strstr(run->note, "batch: nothing"))) {
            fprintf(out, "✗ %s: %s\n", run->changes,
                    !vt_trial_failed(run)
                        ? "no DataLoader was made; name an argument of the command: --fit NAME"
                        : vt_trial_failure(run));
            free(change);
            return 1;
        }
        if (vt_trial_fits(run)) {
            smaller = best, small = fitting;
            best = run, fitting = size;
        } else {
            worst = run, too_large = size;
        }
        size = next_size(small, smaller, fitting, best, too_large);
    }
    if (best) {
        fprintf(out, "✓ %s%llu is the largest that fits: ", change, (unsigned long long)fitting);
        fprintf(out, "%s of ", vt_format_bytes(best->needed_bytes, bytes));
        fputs(vt_format_bytes(best->outcome.total_bytes, bytes), out);
        fputc('\n', out);
    } else {
        fprintf(out, "✗ not even %s1 fits\n", change);
    }
    if (worst)
        fprintf(out, "  %s: %s\n", worst->changes, worst->outcome.obstacle);
    free(change);
    return best ? 0 : 1;
}
