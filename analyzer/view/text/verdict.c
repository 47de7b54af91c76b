/* Sentences of the text report: inference, the GPU, advice, explanations. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "generate" of "Model.generate". */
static const char *own_name(const char *function)
{
    const char *dot = strrchr(function, '.');
    return dot ? dot + 1 : function;
}

/* "12 requests (calls of generate()), 701 forward passes on 4 threads, at most 4 at once" */
static void inference_work(struct vt_print *print, const struct vt_inference *inference)
{
    const bool marked = inference->steps != inference->forward_passes;
    const char *join = "";
    FILE *out = print->paragraph;

    if (inference->requests_known) {
        fprintf(out, "%s request%s (calls of %s())", VT_COUNT(inference->requests),
                inference->requests == 1 ? "" : "s", own_name(inference->request_function));
        join = ", ";
    }
    if (inference->forward_passes) {
        fprintf(out, "%s%s forward pass%s", join, VT_COUNT(inference->forward_passes),
                inference->forward_passes == 1 ? "" : "es");
        join = ", ";
    }
    if (marked)
        fprintf(out, "%s%s step%s", join, VT_COUNT(inference->steps), inference->steps == 1 ? "" : "s");
    if (inference->threads > 1)
        fprintf(out, " on %" PRIu32 " threads, at most %" PRIu32 " at once", inference->threads,
                inference->concurrent);
    if (inference->requests_at_once)
        fprintf(out, ", up to %s request%s at once seen", VT_COUNT(inference->requests_at_once),
                inference->requests_at_once == 1 ? "" : "s");
    vt_end_labelled(print, "served");
}

/* Of a request, else of a marked step, else of a forward pass. */
static void inference_each(struct vt_print *print, const struct vt_inference *inference)
{
    const bool by_request = inference->request_bytes > 0,
               marked = inference->steps != inference->forward_passes;

    vt_print_labelled(
        print, "each", "a %s peaks at +%s (largest %s)",
        by_request ? "request"
        : marked   ? "step"
                   : "forward pass",
        VT_BYTES(by_request ? inference->request_bytes : inference->step_bytes),
        VT_BYTES(by_request ? inference->largest_request_bytes : inference->largest_step_bytes));
}

static void inference_cache(struct vt_print *print, const struct vt_inference *inference)
{
    FILE *out = print->paragraph;

    if (inference->pool_bytes) {
        fprintf(out, "a pool of %s", VT_BYTES(inference->pool_bytes));
        if (inference->pool_tokens)
            fprintf(out, ": %s tokens of %s in %s blocks", VT_COUNT(inference->pool_tokens),
                    VT_BYTES(inference->pool_bytes / inference->pool_tokens),
                    VT_COUNT(inference->pool_blocks));
        if (inference->pool_sequences)
            fprintf(out, ", %s sequence%s of %s", VT_COUNT(inference->pool_sequences),
                    inference->pool_sequences == 1 ? "" : "s", VT_COUNT(inference->longest));
        if (inference->pool_used_blocks)
            fprintf(out, ", up to %s blocks seen in use", VT_COUNT(inference->pool_used_blocks));
        vt_end_labelled(print, "KV cache");
        return;
    }
    fprintf(out, "at most %s after a forward pass", VT_BYTES(inference->cache_bytes));
    if (inference->sequence_bytes)
        fprintf(out, ", %s for each of %s sequence%s", VT_BYTES(inference->sequence_bytes),
                VT_COUNT(inference->sequences), inference->sequences == 1 ? "" : "s");
    if (inference->cache_bytes_per_call)
        fprintf(out, ", +%s per forward pass (seen in %s)", VT_BYTES(inference->cache_bytes_per_call),
                VT_COUNT(inference->growth_calls));
    if (inference->token_bytes && inference->sequences > 1)
        fprintf(out, ", %s per token of a sequence", VT_BYTES(inference->token_bytes));
    vt_end_labelled(print, "KV cache");
}

void vt_text_inference(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_inference *inference = &device->inference;

    if (!inference->found)
        return;
    inference_work(print, inference);
    inference_each(print, inference);
    if (inference->cache_bytes)
        inference_cache(print, inference);
    if (inference->graph_bytes)
        vt_print_labelled(print, "graphs", "%s in a pool of their own, of %s CUDA graph%s",
                          VT_BYTES(inference->graph_bytes), VT_COUNT(inference->graphs),
                          inference->graphs == 1 ? "" : "s");
    if (inference->fit) {
        const bool grows = inference->calls_known, said = strcmp(inference->fit, "simulated") != 0;

        vt_print_labelled(print, "room", "%s free: %s%s%s more %s%s", VT_BYTES(inference->room_bytes),
                          said ? inference->fit : "", said ? " " : "",
                          VT_COUNT(grows ? inference->calls_that_fit : inference->caches_that_fit),
                          grows ? "forward passes, allowing for fragmentation"
                                : "caches like that of this moment, ",
                          grows ? "" : VT_BYTES(inference->copied_bytes));
    }
}

void vt_text_gpu(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_state *state = &device->shown->state;
    uint64_t free_bytes = device->card_free_bytes, total_bytes = device->card_total_bytes;
    uint64_t direct = state->used_bytes > state->block_bytes ? state->used_bytes - state->block_bytes : 0;
    const bool told = device->card.present && device->card.processes_known;
    const uint64_t context_bytes = vt_text_context_bytes(device);
    const struct vt_reserved_unused *unused = &device->reserved_unused;
    const char *join = " = ";
    const struct {
        uint64_t bytes;
        const char *name;
    } parts[] = {
        {state->block_bytes, "framework tensors"},
        {direct, state->block_bytes ? "directly from the driver" : "allocations"},
        {state->categories[VT_CATEGORY_CACHED] - device->card.returned_bytes, "reserved but unused"},
        {context_bytes, told ? "CUDA context" : "already in use at start (a CUDA context, other processes)"}};

    fprintf(print->paragraph, VT_BOLD "GPU:" VT_RESET " %s%s",
            VT_BYTES(state->driver_bytes - device->card.returned_bytes -
                     state->categories[VT_CATEGORY_CONTEXT] + context_bytes),
            told ? " of this process" : "");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes)
            continue;
        fprintf(print->paragraph, "%s%s %s", join, VT_BYTES(parts[i].bytes), parts[i].name);
        join = " + ";
    }
    fputc('.', print->paragraph);
    if (state->rounding_bytes)
        fprintf(print->paragraph, " %s of the tensors is allocator rounding.",
                VT_BYTES(state->rounding_bytes));
    if (state->half_copy_bytes)
        fprintf(print->paragraph, " %s of the activations are half-precision copies of weights (autocast).",
                VT_BYTES(state->half_copy_bytes));
    if (unused->bytes && unused->remedy && !device->at.state.present)
        fprintf(print->paragraph,
                " %s would return %s of what is reserved but unused (%.0f %% of the reserved).",
                unused->remedy, VT_BYTES(unused->bytes), 100 * unused->share);
    if (state->gathered_bytes)
        fprintf(print->paragraph, " %s of the parameters are gathered copies of sharded ones.",
                VT_BYTES(state->gathered_bytes));
    if (!vt_has_gpu_table(print, device) && total_bytes > free_bytes &&
        total_bytes - free_bytes > state->driver_bytes)
        fprintf(print->paragraph,
                " The driver reported %s in use on the whole GPU: %s more, used by other processes or not "
                "recorded.",
                VT_BYTES(total_bytes - free_bytes), VT_BYTES(total_bytes - free_bytes - state->driver_bytes));
    vt_end_paragraph(print, 0, 2);
}

#define POOLS_SHOWN 4u

void vt_text_graph_pools(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_graph_pools *pools = &device->graph_pools;

    if (!pools->count)
        return;
    fprintf(print->paragraph,
            VT_BOLD "CUDA graphs:" VT_RESET
                    " %s in %zu private pool%s, %s of it unused and usable only by these graphs.",
            VT_BYTES(pools->bytes), pools->count, pools->count == 1 ? "" : "s", VT_BYTES(pools->free_bytes));
    vt_end_paragraph(print, 0, 2);
    for (size_t i = 0; i < pools->count && i < POOLS_SHOWN; i++) {
        const struct vt_graph_pool *pool = &pools->items[i];

        fprintf(print->paragraph, "%s, first captured at %s: ", VT_BYTES(pool->bytes),
                pool->place ? pool->place->name : "an unknown line");
        if (pool->abandoned)
            fprintf(print->paragraph, "its graph no longer exists; %s would return %s.",
                    device->cache_release ? device->cache_release : "emptying the framework's cache",
                    pool->block_bytes ? "the segments without blocks" : VT_BYTES(pool->free_bytes));
        else if (!pool->graphs)
            fputs("its graph is being captured.", print->paragraph);
        else
            fprintf(print->paragraph, "%" PRIu32 " graph%s, launched %" PRIu64 " time%s.", pool->graphs,
                    pool->graphs == 1 ? "" : "s", pool->launches, pool->launches == 1 ? "" : "s");
        vt_end_paragraph(print, 2, 4);
    }
}

/* "Would help": what would have lowered the peak. */
void vt_text_advice(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_advices *advices = &device->advices;

    if (advices->count)
        fprintf(print->stream,
                VT_BOLD "To lower the peak" VT_RESET VT_DIM "  (savings do not add up)" VT_RESET "\n");
    for (size_t i = 0; i < advices->count; i++) {
        const struct vt_advice *advice = &advices->items[i];
        bool named = advice->module[0] || !advice->where[0]; /* `what` names the module */

        vt_print_paragraph(print, 2, 4, VT_BOLD "−%s" VT_RESET " (%s)  %s", VT_BYTES(advice->bytes),
                           VT_PERCENT(advice->bytes, advices->peak_bytes), advice->what);
        vt_print_paragraph(print, 4, 4, VT_DIM "%s%s%s." VT_RESET, advice->why, named ? "" : ": ",
                           named ? "" : advice->where);
        if (advice->how && advice->how[0])
            vt_print_paragraph(print, 4, 4, VT_DIM "%s" VT_RESET, advice->how);
    }
}

/* ---- Why something has its category ---- */

static void print_rule(struct vt_print *print, const struct vt_reason *reason)
{
    vt_print_paragraph(print, 4, 6, "by rule %s, %s:%d", reason->rule_name, reason->rule_file,
                       reason->rule_line);
    for (const char *line = reason->rule_text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (line[strspn(line, " \t\r")] != '#' && line[strspn(line, " \t\r")] != '\n')
            fprintf(print->stream, "        " VT_DIM "%.*s" VT_RESET "\n", (int)strcspn(line, "\n"), line);
}

static void print_how(struct vt_print *print, const struct vt_reason *reason)
{
    if (reason->rule_name) {
        print_rule(print, reason);
    } else if (reason->inspection) {
        vt_print_paragraph(print, 4, 6,
                           "read from the live object: inspection %" PRIu32 ", %s after start, found %s %s%s",
                           reason->inspection, VT_DURATION(reason->inspection_t_ns), reason->role,
                           reason->path, reason->blocks > 1 ? " in the largest" : "");
    } else if (reason->category == VT_CATEGORY_UNKNOWN) {
        vt_print_paragraph(print, 4, 6, "no rule matched");
    } else {
        vt_print_paragraph(print, 4, 6, "by the kind of allocation alone");
    }
}

static void print_reason(struct vt_print *print, const struct vt_reason *reason, uint64_t whole)
{
    fprintf(print->stream, "%12s  %7s  " VT_LABEL ", %s evidence, %s block%s\n", VT_BYTES(reason->bytes),
            VT_PERCENT(reason->bytes, whole), VT_LABEL_OF(reason->category),
            vt_evidence_name(reason->evidence), VT_COUNT(reason->blocks), reason->blocks == 1 ? "" : "s");
    print_how(print, reason);
    vt_print_paragraph(print, 4, 6, "%s%s%s%s%s%s", reason->owner ? reason->owner : "",
                       reason->owner ? ", made by " : "made by ",
                       reason->stack[0] ? reason->stack : "no recorded stack",
                       reason->forward_stack[0] ? ", backward of " : "", reason->forward_stack,
                       reason->blocks > 1 ? " (the largest)" : "");
}

void vt_text_explanation(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_explanation *explanation = &device->explanation;
    uint64_t whole = device->shown->state.used_bytes;
    const char *moment = print->report->at_label, *when = VT_WHEN(print->report, &device->shown->state);

    if (!explanation->blocks) {
        if (explanation->way)
            vt_print_paragraph(print, 0, 0, "GPU %d has no %s at %s, %s.", device->index, explanation->what,
                               moment, when);
        else
            vt_print_paragraph(
                print, 0, 0,
                "GPU %d has nothing called '%s' at %s, %s: no such category, owner, module or FILE:LINE "
                "(%s lists everything).",
                device->index, explanation->what, moment, when,
                print->style->brief ? "`report` with by=block" : "report --by block");
        return;
    }
    vt_print_paragraph(print, 0, 0,
                       VT_BOLD "%s" VT_RESET " (%s) at %s, %s: " VT_BOLD "%s" VT_RESET
                               " in %s block%s, %s of what was in use.",
                       explanation->what, explanation->way_label, moment, when, VT_BYTES(explanation->bytes),
                       VT_COUNT(explanation->blocks), explanation->blocks == 1 ? "" : "s",
                       VT_PERCENT(explanation->bytes, whole));
    for (size_t i = 0; i < explanation->count; i++) {
        fputc('\n', print->stream);
        print_reason(print, &explanation->reasons[i], whole);
    }
}
