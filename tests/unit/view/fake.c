#include "fake.h"

#include "trace/frameworks.h"

#include "findings/leaks/leaks.h"
#include "replay/walk.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct fake *fake_of(const struct vt_trace *trace)
{
    return (const struct fake *)(const void *)trace; /* its first member */
}

struct fake *fake_make(double seconds)
{
    struct fake *fake = calloc(1, sizeof *fake);
    static const char *arguments[] = {"/usr/bin/python3", "train.py"};

    fake->trace = (struct vt_trace){.path = (char *)"train.vrt",
                                    .complete = true,
                                    .command = "/usr/bin/python3 train.py",
                                    .argument_count = 2,
                                    .arguments = arguments,
                                    .working_folder = "/home/me/work",
                                    .executable = "/usr/bin/python3",
                                    .events = fake->events,
                                    .rare_events = fake->rare_events,
                                    .stacks = fake->stacks,
                                    .stack_count = 1,
                                    .devices = fake->devices};
    fake->trace.header = (struct vt_file_header){.format_version = 1,
                                                 .pid = 41233,
                                                 .state = VT_STATE_COMPLETE,
                                                 .start_realtime_ns = 1700000000000000000u,
                                                 .start_monotonic_ns = 1000,
                                                 .end_monotonic_ns = 1000 + (uint64_t)(seconds * 1e9)};
    fake->replay =
        (struct vt_replay){.trace = &fake->trace, .allocations = fake->allocations, .device_count = 1};
    fake->attribution = (struct vt_attribution){
        .trace = &fake->trace, .replay = &fake->replay, .labels = fake->labels, .spans = fake->spans};
    return fake;
}

void fake_free(struct fake *fake)
{
    for (size_t i = 0; i < fake->report_count; i++)
        vt_report_free(fake->reports[i]);
    free(fake);
}

void fake_span(struct fake *fake, uint32_t step, uint8_t phase)
{
    struct vt_span *span = &fake->spans[fake->attribution.span_count++];

    *span = (struct vt_span){.step = step,
                             .phase = phase,
                             .first_event = (uint32_t)fake->trace.event_count,
                             .last_event = (uint32_t)fake->trace.event_count};
    fake->attribution.step_count = step > fake->attribution.step_count ? step : fake->attribution.step_count;
}

uint32_t fake_event(struct fake *fake, double seconds, uint8_t kind, uint8_t layer, uint64_t bytes)
{
    uint32_t index = (uint32_t)fake->trace.event_count++;

    if (!fake->attribution.span_count)
        fake_span(fake, 0, VT_PHASE_INIT), fake->spans[0].first_event = 0;
    fake->spans[fake->attribution.span_count - 1].last_event = index;
    fake->events[index] = (struct vt_event){
        .t_ns = 1000 + (uint64_t)(seconds * 1e9), .kind = kind, .layer = layer, .bytes = bytes};
    if (kind != VT_EVENT_ALLOC && kind != VT_EVENT_FREE && kind != VT_EVENT_NODE)
        fake->rare_events[fake->trace.rare_event_count++] = index;
    return index;
}

struct vt_allocation *fake_alloc(struct fake *fake, double seconds, uint8_t kind, uint8_t category,
                                 uint64_t bytes)
{
    struct vt_allocation *allocation = &fake->allocations[fake->replay.allocation_count++];
    uint8_t layer = kind == VT_ALLOCATION_BLOCK ? VT_LAYER_FRAMEWORK : VT_LAYER_DRIVER;

    *allocation =
        (struct vt_allocation){.bytes = bytes, .kind = kind, .free_event = VT_NEVER, .parent = VT_NEVER};
    allocation->alloc_event = fake_event(fake, seconds, VT_EVENT_ALLOC, layer, bytes);
    *fake_label(fake, allocation) =
        (struct vt_label){.category = category,
                          .evidence = VT_EVIDENCE_STRONG,
                          .phase = fake->spans[fake->attribution.span_count - 1].phase,
                          .step = fake->spans[fake->attribution.span_count - 1].step};
    return allocation;
}

struct vt_label *fake_label(struct fake *fake, const struct vt_allocation *allocation)
{
    return &fake->labels[allocation - fake->allocations];
}

void fake_release(struct fake *fake, double seconds, struct vt_allocation *allocation)
{
    allocation->free_event = fake_event(fake, seconds, VT_EVENT_FREE, VT_LAYER_FRAMEWORK, allocation->bytes);
}

void fake_frame(struct fake *fake, uint32_t stack_id, enum vt_frame_kind kind, const char *file, int32_t line,
                const char *function)
{
    struct vt_frame *frame = &fake->frames[stack_id][fake->frame_counts[stack_id]++];

    *frame = (struct vt_frame){.kind = kind,
                               .function = function,
                               .file = kind == VT_FRAME_PYTHON ? file : "",
                               .module = kind == VT_FRAME_PYTHON ? "" : file,
                               .line = line};
}

uint32_t fake_stack(struct fake *fake, const char *file, int32_t line, const char *function)
{
    uint32_t stack_id = (uint32_t)fake->trace.stack_count++;

    fake_frame(fake, stack_id, VT_FRAME_PYTHON, file, line, function);
    return stack_id;
}

struct vt_report *fake_report(struct fake *fake, const struct vt_report_options *options, unsigned wanted)
{
    struct vt_report *report = NULL;
    char error[512];

    cr_assert_eq(vt_report_make(&fake->attribution, options, &report, error, sizeof error), 0, "%s", error);
    cr_assert_lt(fake->report_count, FAKE_REPORTS);
    fake->reports[fake->report_count++] = report;
    vt_diagnose(report, wanted);
    return report;
}

/* The interfaces. */

const char *vt_trace_string(const struct vt_trace *trace, uint64_t id)
{
    return id < 16 ? fake_of(trace)->strings[id] : NULL;
}

const char *vt_trace_function(const struct vt_trace *trace, uint16_t id)
{
    (void)trace;
    return id == 1 ? "cuMemAlloc_v2" : id == 2 ? "cudaMalloc" : NULL;
}

const struct vt_trace_symbol *vt_trace_symbol(const struct vt_trace *trace, uint64_t address)
{
    (void)trace, (void)address;
    return NULL;
}

size_t vt_trace_frames(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frames,
                       size_t capacity)
{
    const struct fake *fake = fake_of(trace);
    size_t count = stack_id < FAKE_STACKS ? fake->frame_counts[stack_id] : 0;

    for (size_t i = 0; i < count && i < capacity; i++)
        frames[i] = fake->frames[stack_id][i];
    return count;
}

bool vt_trace_is_compiled(const struct vt_trace *trace, uint32_t stack_id)
{
    (void)trace;
    (void)stack_id;
    return false;
}

uint64_t vt_trace_own_line_key(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct fake *fake = fake_of(trace);
    size_t count = stack_id < FAKE_STACKS ? fake->frame_counts[stack_id] : 0;

    for (size_t i = 0; i < count; i++)
        if (fake->frames[stack_id][i].kind == VT_FRAME_PYTHON &&
            !vt_is_library_file(fake->frames[stack_id][i].file))
            return (uint64_t)stack_id << 32 | (uint32_t)fake->frames[stack_id][i].line;
    return 0;
}

bool vt_trace_user_frame(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frame)
{
    const struct fake *fake = fake_of(trace);
    size_t count = stack_id < FAKE_STACKS ? fake->frame_counts[stack_id] : 0;

    for (size_t i = 0; i < count; i++) {
        *frame = fake->frames[stack_id][i];
        if (frame->kind == VT_FRAME_PYTHON && !strstr(frame->file, "site-packages"))
            return true;
    }
    if (count)
        *frame = fake->frames[stack_id][0];
    return count > 0;
}

int32_t vt_trace_python_line(const struct vt_trace *trace, const struct vt_python_frame *frame)
{
    (void)trace;
    return frame->instruction_offset;
}

bool vt_trace_code_is_library(const struct vt_trace *trace, uint32_t code_id)
{
    (void)trace, (void)code_id;
    return false;
}

uint64_t vt_module_code(const struct vt_trace *trace, uint32_t stack_id)
{
    (void)trace, (void)stack_id;
    return 0;
}

const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index)
{
    size_t i = 0;

    while (i + 1 < attribution->span_count && attribution->spans[i + 1].first_event <= event_index)
        i++;
    return &attribution->spans[i];
}

bool vt_made_node(const struct vt_attribution *attribution, uint32_t event_index)
{
    (void)attribution, (void)event_index;
    return false;
}

const struct vt_stack_traits *vt_stack_traits_of(const struct vt_attribution *attribution, uint32_t stack_id)
{
    return &fake_of(attribution->trace)->sites[stack_id];
}

const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id)
{
    return vt_stack_traits_of(attribution, stack_id)->operator_name;
}

bool vt_code_is(const struct vt_attribution *attribution, uint32_t code_id, enum vt_code_class code_class)
{
    (void)attribution, (void)code_id, (void)code_class;
    return false;
}

const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule)
{
    (void)attribution;
    return rule == 1 ? "activation" : "";
}

void vt_rule_text(const struct vt_attribution *attribution, uint16_t rule, struct vt_rule_source *source)
{
    *source = (struct vt_rule_source){vt_rule_name(attribution, rule),
                                      "rule activation\n    # why\n    activation strong\n    phase forward",
                                      "my.rules", 7};
}

const struct vt_owner *vt_owners_of(const struct vt_attribution *attribution, uint32_t allocation,
                                    size_t *count)
{
    size_t first = 0;

    while (first < attribution->owner_count && attribution->owners[first].allocation != allocation)
        first++;
    for (*count = 0; first + *count < attribution->owner_count &&
                     attribution->owners[first + *count].allocation == allocation;)
        ++*count;
    return *count ? &attribution->owners[first] : NULL;
}

const struct vt_inspection_holder *vt_holder_of(const struct vt_attribution *attribution, uint32_t allocation)
{
    (void)attribution;
    (void)allocation;
    return NULL;
}

const struct vt_inspection *vt_inspection_of(const struct vt_attribution *attribution, uint32_t allocation)
{
    (void)attribution, (void)allocation;
    return NULL;
}

/* Of the paths of classes that the tests use, as stacks would show them. */
const char *vt_module_class(const struct vt_attribution *attribution, const char *module)
{
    (void)attribution;
    return strstr(module, " > Linear#") ? "Linear" : strstr(module, "Block#") ? "Block" : NULL;
}

static void add(struct vt_sums *sums, const struct vt_allocation *allocation, uint8_t category,
                uint64_t bytes)
{
    switch (allocation->kind) {
    case VT_ALLOCATION_BLOCK:
        sums->counts.block_bytes += bytes;
        sums->counts.cached_bytes -= bytes;
        sums->categories[category] += bytes;
        break;
    case VT_ALLOCATION_SEGMENT:
        sums->counts.segment_bytes += bytes;
        sums->counts.driver_bytes += bytes;
        sums->counts.cached_bytes += bytes;
        break;
    case VT_ALLOCATION_CONTEXT:
        sums->counts.context_bytes += bytes;
        sums->counts.driver_bytes += bytes;
        sums->categories[VT_CATEGORY_CONTEXT] += bytes;
        break;
    default:
        sums->counts.driver_bytes += bytes;
        sums->categories[category] += bytes;
    }
    sums->categories[VT_CATEGORY_CACHED] = sums->counts.cached_bytes;
}

int vt_category_walk(const struct vt_attribution *attribution, int device_index, vt_category_visit visit,
                     void *context)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_sums sums = {0};

    for (uint32_t i = 0; i < replay->trace->event_count; i++) {
        bool touched = false;
        for (size_t k = 0; k < replay->allocation_count; k++) {
            const struct vt_allocation *allocation = &replay->allocations[k];
            if (allocation->device_index != device_index ||
                (allocation->alloc_event != i && allocation->free_event != i))
                continue;
            add(&sums, allocation, attribution->labels[k].category,
                allocation->alloc_event == i ? allocation->bytes : -allocation->bytes);
            touched = true;
        }
        if (touched && visit(context, i, &sums))
            return 0;
    }
    return 0;
}

int vt_replay_walk(const struct vt_replay *replay, int device_index, const struct vt_replay_visitor *visitor)
{
    for (uint32_t event = 0; event < replay->trace->event_count; event++)
        for (int begins = 0; begins < 2; begins++)
            for (uint32_t i = 0; i < replay->allocation_count; i++) {
                const struct vt_allocation *allocation = &replay->allocations[i];
                if (visitor->change && allocation->device_index == device_index &&
                    (begins ? allocation->alloc_event : allocation->free_event) == event)
                    visitor->change(visitor->context, i, begins);
            }
    return 0;
}

/* ---- findings/leaks/ ---- */

void vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                   struct vt_leaks *leaks)
{
    (void)places, (void)device_index;
    *leaks = (struct vt_leaks){.step_count = attribution->step_count};
}
