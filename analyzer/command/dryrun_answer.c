/* What a dry run says at its end: whether the program fits, at which peak, what holds the memory, what would
 * help. */
#include "command/dryrun_answer.h"
#include "command/dryrun_world.h"
#include "command/load.h"
#include "command/output.h"
#include "command/run_list.h"
#include "command/run_wait.h"

#include "findings/advice.h"
#include "findings/findings.h"
#include "report/launch_info.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/format.h"
#include "base/heap.h"

#define SHOWN_CATEGORIES 4u
/* Of reserved bytes, and of a context: how far they may be from a real GPU's. docs/dryrun.md has the
 * measurements behind them. */
#define RESERVED_PART 0.01
#define CONTEXT_PART 0.25
#define LACKS "not simulated: " /* as in simulate/lacks.h */
#define SAYS "dry run: "        /* a line of the answer */

/* A GPU of a process. */
struct part {
    struct vt_loaded *loaded;
    const struct vt_run_trace *trace;
    const struct vt_device_report *device;
    uint64_t needed_bytes; /* at most, with the context */
    bool ran_out;
};

struct parts {
    struct vt_loaded *loaded;
    struct part *items;
    size_t count, out_count;
    const struct part *worst; /* ran out, else needs most */
};

static void add_part(struct parts *parts, struct part part)
{
    parts->out_count += part.ran_out;
    parts->items[parts->count] = part;
    if (!parts->worst || part.ran_out > parts->worst->ran_out ||
        (part.ran_out == parts->worst->ran_out && part.needed_bytes > parts->worst->needed_bytes))
        parts->worst = &parts->items[parts->count];
    parts->count++;
}

static void add_devices(struct parts *parts, struct vt_loaded *loaded, const struct vt_run_trace *trace)
{
    const struct vt_report *report = loaded->report;
    const struct vt_oom *last = report->refusal_count ? &report->refusals[report->refusal_count - 1] : NULL;

    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];

        if (device->driver_peak_bytes)
            add_part(parts, (struct part){
                                .loaded = loaded,
                                .trace = trace,
                                .device = device,
                                .needed_bytes = device->driver_peak_bytes + device->peak.state.context_bytes,
                                .ran_out = last && last->ends_run && last->device_index == device->index});
    }
}

static void read_traces(struct parts *parts, const struct vt_run_trace *traces, size_t count)
{
    const struct vt_report_options options = {.device_index = -1,
                                              .groups = VT_NO_GROUPS,
                                              .timeline_columns = VT_NO_TIMELINE,
                                              .oom = VT_AT_OOM_IF_IT_ENDED_THE_RUN};
    size_t room = 0;
    char *error;

    parts->loaded = vt_allocate_zeros(count + 1, sizeof *parts->loaded);
    for (size_t i = 0; i < count; i++) {
        struct vt_loaded *loaded = &parts->loaded[i];

        if (vt_open(traces[i].path, loaded, &error) ||
            vt_try_report(loaded, &options, VT_FIND_LEAKS | VT_FIND_ADVICE | VT_FIND_SHORTAGE | VT_FIND_CARD,
                          &loaded->report, &error)) {
            vt_say("%s", error);
            free(error);
            continue;
        }
        room += loaded->report->device_count;
    }
    parts->items = vt_allocate_zeros(room + 1, sizeof *parts->items);
    for (size_t i = 0; i < count; i++)
        if (parts->loaded[i].report)
            add_devices(parts, &parts->loaded[i], &traces[i]);
}

static void put_bytes(FILE *out, uint64_t bytes)
{
    char text[32];

    fputs(vt_format_bytes(bytes, text), out);
}

static void print_moment(const struct vt_state *state, FILE *out)
{
    if (state->step)
        fprintf(out, "step %" PRIu32 ", ", state->step);
    fputs(vt_phase_name(state->phase), out);
}

/* ---- The lines ---- */

static uint64_t uncertain_bytes(const struct part *part)
{
    return (uint64_t)(RESERVED_PART * (double)part->device->driver_peak_bytes +
                      CONTEXT_PART * (double)part->device->peak.state.context_bytes);
}

static void print_refusal(const struct part *part, FILE *out)
{
    const struct vt_report *report = part->loaded->report;
    const struct vt_oom *last = &report->refusals[report->refusal_count - 1];

    put_bytes(out, last->tried_bytes > last->asked_bytes ? last->tried_bytes : last->asked_bytes);
    fputs(" needed in ", out);
    print_moment(&(struct vt_state){.step = last->step, .phase = last->phase}, out);
    if (last->free_known) {
        fputs(", ", out);
        put_bytes(out, last->free_bytes);
        fputs(" free", out);
    }
}

/* The command failed by itself: what was needed until then is not all. Ctrl-C ends a server. */
static bool has_failed(const struct parts *parts, const struct vt_run_end *end)
{
    return !parts->worst->ran_out && !end->timed_out && end->status && end->signal != SIGINT &&
           !(WIFEXITED(end->status) && WEXITSTATUS(end->status) == 128 + SIGINT);
}

/* What the program's Pythons noted (simulate/python/vramtrace_dryrun/ends.py): the first is the cause. */
static void read_reason(char *text, size_t bytes)
{
    static const char head[] = "ended\t-\t";
    FILE *file = fopen(getenv("VRAMTRACE_DRYRUN_NOTES") ? getenv("VRAMTRACE_DRYRUN_NOTES") : "", "re");
    char *line = NULL;
    size_t room = 0;

    while (file && !text[0] && getline(&line, &room, file) > 0)
        if (!strncmp(line, head, strlen(head)))
            snprintf(text, bytes, "%.*s", (int)strcspn(line + strlen(head), "\n"), line + strlen(head));
    free(line);
    if (file)
        fclose(file);
}

static void print_verdict(const struct vt_gpu *gpu, const struct parts *parts, bool failed, FILE *out)
{
    const struct part *worst = parts->worst;
    const struct vt_device_report *device = worst->device;
    const uint64_t free_bytes =
        device->total_bytes > worst->needed_bytes ? device->total_bytes - worst->needed_bytes : 0;

    if (worst->ran_out) {
        fprintf(out, "✗ does not fit on %s: ", gpu->name);
        print_refusal(worst, out);
        fputc('\n', out);
        return;
    }
    fprintf(out, "%s on %s: ",
            failed                                ? "! failed"
            : free_bytes > uncertain_bytes(worst) ? "✓ fits"
                                                  : "! may not fit",
            gpu->name);
    put_bytes(out, worst->needed_bytes);
    fputs(" of ", out);
    put_bytes(out, device->total_bytes);
    fputs(" at most (± ", out);
    put_bytes(out, uncertain_bytes(worst));
    fputs("), ", out);
    put_bytes(out, free_bytes);
    fputs(failed ? " free, until it failed\n" : " free\n", out);
}

static bool on_one_card(const struct part *part, const struct part *other)
{
    const struct vt_trace_device *card = vt_trace_device_of(part->loaded->trace, part->device->index),
                                 *of_other = vt_trace_device_of(other->loaded->trace, other->device->index);

    return card && of_other && card->has_uuid && of_other->has_uuid &&
           !memcmp(card->uuid, of_other->uuid, sizeof card->uuid);
}

static size_t count_cards(const struct parts *parts)
{
    size_t count = 0;

    for (size_t i = 0; i < parts->count; i++) {
        size_t first = 0;

        while (first < i && !on_one_card(&parts->items[first], &parts->items[i]))
            first++;
        count += first == i;
    }
    return count;
}

static void print_peak(const struct parts *parts, FILE *out)
{
    const size_t cards = count_cards(parts);
    const struct vt_device_report *device = parts->worst->device;
    const struct vt_state *peak = &device->peak.state;
    uint64_t least = UINT64_MAX;

    fputs("  peak ", out);
    put_bytes(out, peak->used_bytes);
    fputs(" in use, ", out);
    print_moment(peak, out);
    if (device->reserved_peak_bytes) {
        fputs("; ", out);
        put_bytes(out, device->reserved_peak_bytes);
        fputs(" reserved", out);
    }
    for (size_t i = 0; i < parts->count; i++)
        least = parts->items[i].needed_bytes < least ? parts->items[i].needed_bytes : least;
    if (parts->count > 1) {
        if (vt_world_is_given())
            fprintf(out, "; %zu ranks need ", parts->count);
        else if (cards < parts->count)
            fprintf(out, "; %zu processes on %zu GPU%s need ", parts->count, cards, cards == 1 ? "" : "s");
        else
            fprintf(out, "; %zu GPUs need ", parts->count);
        put_bytes(out, least);
        if (parts->worst->needed_bytes - least > least / 100) {
            fputs(" to ", out);
            put_bytes(out, parts->worst->needed_bytes);
        } else {
            fputs(" each", out);
        }
        if (parts->out_count)
            fprintf(out, ", %zu ran out", parts->out_count);
    }
    fputc('\n', out);
}

/* The largest categories at the moment that is shown. */
static void print_categories(const struct part *part, const char *join, FILE *out)
{
    const struct vt_state *state = &part->device->shown->state;
    uint64_t left[VT_CATEGORY_COUNT];

    memcpy(left, state->categories, sizeof left);
    left[VT_CATEGORY_CACHED] = left[VT_CATEGORY_CONTEXT] = left[VT_CATEGORY_HOST_PINNED] = 0;
    for (size_t k = 0; k < SHOWN_CATEGORIES; k++) {
        size_t most = 0;

        for (size_t i = 1; i < VT_CATEGORY_COUNT; i++)
            most = left[i] > left[most] ? i : most;
        if (!left[most] || (k && left[most] < state->used_bytes / 100))
            break;
        fprintf(out, "%s%s ", join, vt_category_many((unsigned)most));
        put_bytes(out, left[most]);
        left[most] = 0;
        join = " · ";
    }
}

static void note_obstacle(struct vt_dry_outcome *outcome, const struct part *part)
{
    FILE *text = fmemopen(outcome->obstacle, sizeof outcome->obstacle, "w");

    if (!text)
        return;
    print_refusal(part, text);
    print_categories(part, "; ", text);
    fclose(text);
}

static void print_advice(const struct part *part, FILE *out)
{
    const struct vt_advices *advices = &part->device->advices;
    const struct vt_shortage *shortage = &part->loaded->report->shortage;

    if (part->ran_out && shortage->cause_count && shortage->causes[0].remedy)
        fprintf(out, "  try: %s\n", shortage->causes[0].remedy);
    else if (advices->count) {
        fputs("  to lower the peak: −", out);
        put_bytes(out, advices->items[0].bytes);
        fprintf(out, " %s\n", advices->items[0].what);
    }
}

/* What the simulated libraries said that they do not know, each once, with how often if more. */
static void print_lacks(const struct vt_report *report, FILE *out)
{
    const char *join = "  not included: ";
    bool any = false;

    for (size_t i = 0; i < report->mark_count; i++) {
        const char *name = report->marks[i].name;
        size_t before = 0, count = 0;

        if (strncmp(name, LACKS, strlen(LACKS)) != 0)
            continue;
        for (size_t k = 0; k < report->mark_count; k++)
            if (!strcmp(report->marks[k].name, name))
                before += k < i, count++;
        if (before)
            continue;
        fprintf(out, "%s%s", join, name + strlen(LACKS));
        if (count > 1)
            fprintf(out, " × %zu", count);
        join = " · ";
        any = true;
    }
    if (any)
        fputc('\n', out);
}

/* What else the simulation says. */
static void print_said(const struct vt_report *report, FILE *out)
{
    for (size_t i = 0; i < report->mark_count; i++)
        if (!strncmp(report->marks[i].name, SAYS, strlen(SAYS)))
            fprintf(out, "  %s\n", report->marks[i].name + strlen(SAYS));
}

static void print_end(const struct part *part, const struct vt_run_end *end, size_t traces, FILE *out)
{
    const struct vt_report *report = part->loaded->report;

    fputs("  ", out);
    if (end->timed_out)
        fprintf(out, "ended at the time limit of %u s; ", end->limit_s);
    if (report->step_count)
        fprintf(out, "%" PRIu32 " step%s · ", report->step_count, report->step_count == 1 ? "" : "s");
    if (report->facts.simulated)
        fprintf(out, "%s · ", report->facts.simulated);
    fputs("vramtrace report ", out);
    vt_run_put_place(part->trace->path, traces > 1, out);
    fputc('\n', out);
}

/* What a server has for keys and values. */
static void print_pool(const struct vt_inference *inference, FILE *out)
{
    char text[32];

    if (!inference->pool_bytes || !inference->pool_tokens)
        return;
    fprintf(out, "  KV cache: %s tokens of ", vt_format_count(inference->pool_tokens, text));
    put_bytes(out, inference->pool_bytes / inference->pool_tokens);
    if (inference->pool_blocks)
        fprintf(out, " in %s blocks", vt_format_count(inference->pool_blocks, text));
    if (inference->pool_sequences) {
        fprintf(out, ", %s sequence%s", vt_format_count(inference->pool_sequences, text),
                inference->pool_sequences == 1 ? "" : "s");
        fprintf(out, " of %s", vt_format_count(inference->longest, text));
    }
    fputc('\n', out);
}

/* The rank that needs most; -1 = all need the same. */
static int rank_of_worst(const struct parts *parts)
{
    struct vt_trace_row row;

    vt_trace_row_make(parts->worst->loaded->report, &row);
    for (size_t i = 0; i < parts->count; i++)
        if (parts->items[i].needed_bytes != parts->worst->needed_bytes)
            return row.launch.rank;
    return -1;
}

/* ---- What could be tried ---- */

static void propose(struct vt_dry_outcome *outcome, const char *change)
{
    for (size_t i = 0; i < VT_PROPOSALS && change[0]; i++) {
        if (!strcmp(outcome->proposals[i], change))
            return;
        if (!outcome->proposals[i][0]) {
            snprintf(outcome->proposals[i], sizeof outcome->proposals[i], "%s", change);
            return;
        }
    }
}

/* The findings name changes. Where activations are a large part, lower precision is tried, too; where memory
 * is reserved and unused, the allocator's settings. */
static void propose_all(struct vt_dry_outcome *outcome, const struct part *part)
{
    const struct vt_advices *advices = &part->device->advices;
    const struct vt_device_report *device = part->device;

    for (size_t i = 0; i < advices->count; i++)
        propose(outcome, advices->items[i].change);
    if (device->peak.state.categories[VT_CATEGORY_ACTIVATION] > device->peak.state.used_bytes / 5)
        propose(outcome, "bf16");
    if (device->reserved_peak_bytes > device->peak.state.used_bytes + device->peak.state.used_bytes / 20)
        propose(outcome, "alloc:expandable_segments");
}

struct vt_dry_outcome vt_dryrun_answer(const struct vt_gpu *gpu, const struct vt_run_trace *traces,
                                       size_t count, const struct vt_run_end *end, FILE *out)
{
    struct parts parts = {.count = 0};
    struct vt_dry_outcome outcome = {.told = false};
    bool failed = false;

    vt_heap_prepare();
    read_traces(&parts, traces, count);
    if (parts.worst) {
        const struct vt_device_report *device = parts.worst->device;

        outcome = (struct vt_dry_outcome){.told = true,
                                          .ran_out = parts.worst->ran_out,
                                          .timed_out = end->timed_out,
                                          .pool_tokens = device->inference.pool_tokens,
                                          .longest = device->inference.longest,
                                          .used_bytes = device->peak.state.used_bytes,
                                          .needed_bytes = parts.worst->needed_bytes,
                                          .total_bytes = device->total_bytes};
        failed = has_failed(&parts, end);
        if (failed)
            read_reason(outcome.reason, sizeof outcome.reason);
        propose_all(&outcome, parts.worst);
        if (outcome.ran_out)
            note_obstacle(&outcome, parts.worst);
    }
    if (parts.worst && out) {
        print_verdict(gpu, &parts, failed, out);
        if (outcome.reason[0])
            fprintf(out, "  %s\n", outcome.reason);
        print_peak(&parts, out);
        print_categories(parts.worst, "  ", out);
        fputc('\n', out);
        print_pool(&parts.worst->device->inference, out);
        print_advice(parts.worst, out);
        vt_world_say(rank_of_worst(&parts), out);
        print_said(parts.worst->loaded->report, out);
        print_lacks(parts.worst->loaded->report, out);
        print_end(parts.worst, end, count, out);
    } else if (out) {
        vt_say("no GPU memory was allocated");
    }
    for (size_t i = 0; i < count; i++)
        vt_unload(&parts.loaded[i]);
    free(parts.loaded);
    free(parts.items);
    return outcome;
}
