/* Traits of stacks that no pattern tells: they depend on where in a function a call was made, or on which
 * frame is inside which. */
#include <string.h>

#include "attribute/phases.h"

/* Modules convert parameters first and buffers after them, from two places in Module._apply. The innermost
 * call of it tells which by its offset in the code; with one place only there is nothing to tell apart. */
static void find_buffers(const struct vt_trace *trace, struct vt_matcher *matcher)
{
    int32_t first = INT32_MAX, last = -1;
    uint32_t code_id = 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t id = 1; id < trace->stack_count; id++) {
            const struct vt_trace_stack *stack = &trace->stacks[id];
            uint64_t *traits = vt_matcher_traits(matcher, id);
            if (!(*traits >> VT_TRAIT_MODULE_APPLY & 1))
                continue;
            for (uint32_t i = 0; i < stack->python_count; i++) {
                const struct vt_python_frame *frame = &stack->python[i];
                const char *name =
                    frame->code_id < trace->code_count ? trace->codes[frame->code_id].name : NULL;
                size_t bytes = name ? strlen(name) : 0;
                if (bytes < 6 || strcmp(name + bytes - 6, "_apply") != 0)
                    continue;
                int32_t offset = frame->instruction_offset;
                if (round == 0) {
                    first = offset < first ? offset : first;
                    last = offset > last ? offset : last;
                    code_id = frame->code_id;
                } else if (offset == last && last > first && frame->code_id == code_id) {
                    *traits |= UINT64_C(1) << VT_TRAIT_BUFFER;
                }
                break;
            }
        }
    }
}

bool vt_is_optimizer_file(const char *file)
{
    return strstr(file, "/optim/") || strstr(file, "optimizer");
}

/* As far as names tell: a script may have an optimizer of its own. */
static bool is_optimizer_code(const struct vt_trace_code *code)
{
    size_t bytes = strlen(code->name);
    return vt_is_optimizer_file(code->file) || strcmp(code->name, "step") == 0 ||
           (bytes >= 5 && strcmp(code->name + bytes - 5, ".step") == 0);
}

const struct vt_python_frame *vt_optimizer_frame(const struct vt_trace *trace, uint32_t stack_id,
                                                 bool *closure)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    *closure = false;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        const struct vt_trace_code *code =
            frame->code_id < trace->code_count ? &trace->codes[frame->code_id] : NULL;
        if (!code || !code->file)
            continue;
        if (is_optimizer_code(code))
            return frame;
        /* a trainer wraps the script's steps in closures of its own */
        *closure |= !vt_trace_code_is_library(trace, frame->code_id) ||
                    strstr(code->name, "closure") != NULL || strstr(code->name, "Closure") != NULL;
    }
    return NULL;
}

/* A closure that an optimizer's step calls is the script's: what it does is not the optimizer's work. */
static void find_closures(const struct vt_trace *trace, struct vt_matcher *matcher)
{
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        uint64_t *traits = vt_matcher_traits(matcher, id);
        bool closure;
        if (!(*traits >> VT_TRAIT_OPTIMIZER & 1))
            continue;
        vt_optimizer_frame(trace, id, &closure);
        if (closure) {
            *traits &= ~(UINT64_C(1) << VT_TRAIT_OPTIMIZER);
            *traits |= UINT64_C(1) << VT_TRAIT_CLOSURE;
        }
    }
}

void vt_traits_complete(const struct vt_trace *trace, struct vt_matcher *matcher)
{
    find_buffers(trace, matcher);
    find_closures(trace, matcher);
}
