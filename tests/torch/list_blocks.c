/* list_blocks TRACE [phases | labels [RULES]]: every block of a trace, or every run of a phase, one JSON
 * object a line, for tests that look at more than reports show. labels: only what each block is called, with
 * tabs, by the built-in rules and those in the file RULES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "attribute/attribute.h"

/* Python frames, innermost first, as [file, line, function]. */
static cJSON *python_frames(const struct vt_trace *trace, uint32_t stack_id)
{
    static struct vt_frame frames[2048];
    size_t count = vt_trace_frames(trace, stack_id, frames, 2048);
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < count && i < 2048; i++) {
        if (frames[i].kind != VT_FRAME_PYTHON)
            continue;
        cJSON *frame = cJSON_CreateArray();
        cJSON_AddItemToArray(frame, cJSON_CreateString(frames[i].file));
        cJSON_AddItemToArray(frame, cJSON_CreateNumber(frames[i].line));
        cJSON_AddItemToArray(frame, cJSON_CreateString(frames[i].function));
        cJSON_AddItemToArray(array, frame);
    }
    return array;
}

static void add_text(cJSON *object, const char *name, const char *text)
{
    cJSON_AddStringToObject(object, name, text ? text : "");
}

static void print_block(const struct vt_attribution *attribution, const struct vt_allocation *block,
                        const char *mark)
{
    const struct vt_label *label = vt_label_of(attribution, block);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "address", (double)block->address);
    cJSON_AddNumberToObject(object, "bytes", (double)block->bytes);
    cJSON_AddBoolToObject(object, "in_backward", block->sequence % 2);
    cJSON_AddNumberToObject(object, "alloc_event", block->alloc_event);
    cJSON_AddNumberToObject(object, "free_event", block->free_event);
    cJSON_AddNumberToObject(object, "step", label->step);
    add_text(object, "phase", vt_phase_name(label->phase));
    add_text(object, "category", vt_category_name(label->category));
    add_text(object, "module", label->module);
    add_text(object, "op", vt_operator_of(attribution, block->stack_id));
    add_text(object, "mark", mark);
    cJSON_AddItemToObject(object, "own", python_frames(attribution->trace, block->stack_id));
    cJSON_AddItemToObject(object, "forward", python_frames(attribution->trace, label->forward_stack_id));
    char *text = cJSON_PrintUnformatted(object);
    puts(text);
    free(text);
    cJSON_Delete(object);
}

static void print_phases(const struct vt_attribution *attribution)
{
    for (size_t i = 0; i < attribution->span_count; i++)
        printf("{\"phase\": \"%s\", \"first\": %u, \"last\": %u}\n",
               vt_phase_name(attribution->spans[i].phase), attribution->spans[i].first_event,
               attribution->spans[i].last_event);
}

static void print_labels(const struct vt_attribution *attribution)
{
    const struct vt_replay *replay = attribution->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_label *label = &attribution->labels[i];
        if (replay->allocations[i].kind == VT_ALLOCATION_BLOCK)
            printf("%llu\t%s\t%s\t%s\n", (unsigned long long)replay->allocations[i].bytes,
                   vt_category_name(label->category), vt_evidence_names[label->evidence],
                   vt_rule_name(attribution, label->rule));
    }
}

int main(int argument_count, char **arguments)
{
    char error[512] = "list_blocks TRACE [phases | labels [RULES]]";
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    bool opened = argument_count > 1 && !vt_trace_open(arguments[1], NULL, &trace, error, sizeof error);
    if (opened)
        replay = vt_replay_make(trace);
    if (!opened || vt_attribute(trace, replay, argument_count > 3 ? arguments[3] : NULL, &attribution, error,
                                sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    const char *mark = "";
    size_t event = 0;
    if (argument_count > 2 && !strcmp(arguments[2], "labels"))
        print_labels(attribution);
    else if (argument_count > 2)
        print_phases(attribution);
    for (size_t i = 0; argument_count == 2 && i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        for (; event < block->alloc_event; event++)
            if (trace->events[event].kind == VT_EVENT_MARK)
                mark = vt_trace_string(trace, trace->events[event].detail);
        if (block->kind == VT_ALLOCATION_BLOCK)
            print_block(attribution, block, mark);
    }
    vt_attribution_free(attribution);
    vt_replay_free(replay);
    vt_trace_close(trace);
    return 0;
}
