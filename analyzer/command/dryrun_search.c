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

/* What is known so far of the values: 0 = none is known. */
struct bounds {
    uint64_t small, fitting, too_large;
    const struct vt_trial *smaller, *best, *worst;
    unsigned failures; /* in a row */
};

/* A program that refuses a value often names one that it would take: the largest that lies between. */
static uint64_t named_between(const char *reason, const struct bounds *known)
{
    uint64_t found = 0;

    for (const char *at = reason; *at; at += strspn(at, "0123456789")) {
        uint64_t value;

        at += strcspn(at, "0123456789");
        value = strtoull(at, NULL, 10);
        if (value > known->fitting && value < known->too_large && value > found)
            found = value;
    }
    return found;
}

/* A straight line through the two largest that fit says where next; or a server's pool, if the value is the
 * length of its sequences. */
static uint64_t next_size(const struct bounds *known)
{
    const struct vt_trial *fit = known->best, *small = known->smaller;
    const uint64_t fitting = known->fitting, too_large = known->too_large;
    const double slope = small && fit ? ((double)fit->needed_bytes - (double)small->needed_bytes) /
                                            (double)(fitting - known->small)
                                      : 0;
    const double room = (double)(fit ? fit->outcome.total_bytes : 0) - (double)(fit ? fit->needed_bytes : 0);
    uint64_t guess = slope > 0 ? fitting + (uint64_t)(room / slope) : fitting * 8;

    if (!fit)
        return too_large / 2;
    if (fit->outcome.longest == fitting && fit->outcome.pool_tokens > fitting)
        guess = fit->outcome.pool_tokens;
    else if (!too_large)
        guess = guess > fitting * 8 ? fitting * 8 : guess > fitting ? guess : fitting + 1;
    if (too_large && guess >= too_large)
        guess = known->failures > 1 || slope <= 0 || vt_trial_failed(known->worst)
                    ? fitting + (too_large - fitting) / 2
                    : too_large - 1;
    return guess <= fitting ? fitting + 1 : guess;
}

/* Large values need not be exact. */
static bool is_near(const struct bounds *known)
{
    return known->too_large && known->too_large - known->fitting <= 1 + known->fitting / 512;
}

static void print_largest(const struct bounds *known, const char *change, FILE *out)
{
    const struct vt_dry_outcome *best = known->best ? &known->best->outcome : NULL;
    char bytes[32];

    if (best) {
        fprintf(out, "✓ %s%llu %s: ", change, (unsigned long long)known->fitting,
                !is_near(known)                         ? "fits, and the search was not finished"
                : known->too_large - known->fitting > 1 ? "fits, and little more does"
                                                        : "is the largest that fits");
        fprintf(out, "%s of ", vt_format_bytes(known->best->needed_bytes, bytes));
        fprintf(out, "%s\n", vt_format_bytes(best->total_bytes, bytes));
        if (best->pool_tokens)
            fprintf(out, "  KV cache: %s tokens\n", vt_format_count(best->pool_tokens, bytes));
    } else if (known->worst && !vt_trial_failed(known->worst)) {
        fprintf(out, "✗ not even %s%llu fits\n", change, (unsigned long long)known->too_large);
    }
    if (known->worst)
        fprintf(out, "%s %s: %s\n", best || !vt_trial_failed(known->worst) ? " " : "✗", known->worst->changes,
                vt_trial_failed(known->worst) ? vt_trial_failure(known->worst)
                                              : known->worst->outcome.obstacle);
}

/* The value that the command has, else 1. */
static uint64_t first_size(char **argument)
{
    const char *equals = argument ? strchr(*argument, '=') : NULL;
    const char *text = equals ? equals + 1 : argument ? argument[1] : NULL;
    const uint64_t value = text ? strtoull(text, NULL, 10) : 0;

    return value && value < UINT32_MAX ? value : 1;
}

int vt_search_largest(const char *name, char **words, FILE *out)
{
    char **argument = vt_find_argument(words, name);
    const bool is_loader = !argument && (!strcmp(name, "batch") || !strcmp(name, "batch_size"));
    char *change = is_loader ? vt_copy_text("batch=") : vt_print_text("arg:%s=", name);
    struct bounds known = {0};
    const struct vt_trial *run;
    uint64_t size = first_size(argument), named = 0;

    while (!is_near(&known) && (run = run_of_size(change, size))) {
        if (is_loader && !vt_trial_failed(run) && strstr(run->note, "batch: nothing")) {
            fprintf(out, "✗ %s: no DataLoader was made; name an argument of the command: --fit NAME\n",
                    run->changes);
            free(change);
            return 1;
        }
        if (vt_trial_fits(run)) {
            known.smaller = known.best, known.small = known.fitting;
            known.best = run, known.fitting = size;
            known.failures = 0;
            size = size == named ? size + 1 : next_size(&known); /* is the next one too large? */
        } else {
            known.worst = run, known.too_large = size;
            known.failures++;
            named = vt_trial_failed(run) ? named_between(vt_trial_failure(run), &known) : 0;
            size = named ? named : next_size(&known);
            if (vt_trial_failed(run) && !known.best && !named)
                break;
        }
    }
    print_largest(&known, change, out);
    free(change);
    return known.best ? 0 : 1;
}
