/* Attribution of a made-up training run, whose stacks look like PyTorch's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attribute/sums.h"
#include "replay/walk.h"
#include "trace/tables.h"
#include "trace_builder.h"

#define KIB UINT64_C(1024)
#define SEGMENT UINT64_C(0x7f0000000000)
#define PARAMETER (64 * KIB)
#define BUFFER (4 * KIB)
#define INPUT (16 * KIB)
#define ACTIVATION (32 * KIB)
#define SCRATCH (8 * KIB)

enum { MAIN = 100, ENGINE = 200 };

/* Stacks of the run, as ids. */
struct run {
    struct builder *builder;
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    uint32_t parameter, buffer, input, forward[2], scratch, loss, loss_gradient, backward[2], gradient, state,
        workspace, step_scratch, main_free, engine_free, evaluate;
    uint64_t next_address, next_symbol, allocated, node;
};

static uint64_t symbol(struct run *run, const char *linkage_name)
{
    run->next_symbol += 16;
    builder_symbol(run->builder, run->next_symbol, 0, linkage_name);
    return run->next_symbol;
}

struct frame {
    uint32_t code;
    int32_t offset;
    uint64_t self;
};

static uint32_t stack(struct run *run, uint32_t thread, uint64_t native, const struct frame *frames,
                      uint16_t count)
{
    struct vt_python_frame python[8];
    for (uint16_t i = 0; i < count; i++)
        python[i] = (struct vt_python_frame){.code_id = frames[i].code,
                                             .instruction_offset = frames[i].offset,
                                             .self_address = frames[i].self};
    return builder_stack(run->builder, thread, &native, native ? 1 : 0, python, count);
}
#define STACK(run, thread, native, ...)                                                                      \
    stack(run, thread, native, (const struct frame[]){__VA_ARGS__},                                          \
          sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame))

static struct run begin(void)
{
    struct run run = {.builder = builder_new(4096), .next_address = SEGMENT, .next_symbol = 0x1000};
    struct builder *b = run.builder;
    uint32_t main = builder_code(b, "/home/someone/train.py", "main", 1);
    uint32_t apply = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._apply", 1);
    uint32_t call = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1);
    uint32_t layer = builder_code(b, "/x/site-packages/torch/nn/modules/linear.py", "Linear.forward", 1);
    uint32_t net = builder_code(b, "/home/someone/train.py", "Net.forward", 1);
    uint32_t grads = builder_code(b, "/x/site-packages/torch/autograd/__init__.py", "_make_grads", 1);
    uint32_t step = builder_code(b, "/x/site-packages/torch/optim/adam.py", "Adam.step", 1);
    uint32_t evaluate = builder_code(b, "/home/someone/train.py", "evaluate", 1);
    uint64_t to = symbol(&run, "_ZN2at4_ops15to_dtype_layout4callEv");
    uint64_t addmm = symbol(&run, "_ZN2at4_ops5addmm4callEv");
    uint64_t addmm_backward = symbol(&run, "_ZN5torch8autograd9generated14AddmmBackward05applyEv");
    uint64_t engine = symbol(&run, "_ZN5torch8autograd6Engine11thread_mainEv");
    uint64_t handle = symbol(&run, "_ZN2at4cuda15getNewWorkspaceEv");
    uint64_t both[] = {addmm_backward, engine}, only[] = {engine};
    run.parameter = STACK(&run, MAIN, to, {apply, 100, 0}, {apply, 20, 0}, {main, 2, 0});
    run.buffer = STACK(&run, MAIN, to, {apply, 300, 0}, {apply, 20, 0}, {main, 2, 0});
    run.input = STACK(&run, MAIN, to, {main, 4, 0});
    for (uint64_t i = 0; i < 2; i++)
        run.forward[i] = STACK(&run, MAIN, addmm, {layer, 2, 0xa00 + i}, {call, 6, 0xa00 + i},
                               {net, (int32_t)i, 0x900}, {call, 6, 0x900}, {main, 6, 0});
    run.scratch = STACK(&run, MAIN, addmm, {net, 8, 0x900}, {call, 6, 0x900}, {main, 6, 0});
    run.evaluate = STACK(&run, MAIN, addmm, {layer, 2, 0xa00}, {call, 6, 0xa00}, {net, 0, 0x900},
                         {call, 6, 0x900}, {evaluate, 1, 0}, {main, 30, 0});
    run.workspace = STACK(&run, MAIN, handle, {layer, 2, 0xa00}, {call, 6, 0xa00}, {net, 0, 0x900},
                          {call, 6, 0x900}, {main, 6, 0});
    run.loss = STACK(&run, MAIN, addmm, {main, 8, 0});
    run.loss_gradient = STACK(&run, MAIN, addmm, {grads, 2, 0}, {main, 10, 0});
    run.backward[0] = builder_stack(b, ENGINE, both, 2, NULL, 0);
    run.gradient = builder_stack(b, ENGINE, both, 2, NULL, 0);
    run.engine_free = builder_stack(b, ENGINE, NULL, 0, NULL, 0);
    run.backward[1] = builder_stack(b, ENGINE, only, 1, NULL, 0);
    run.state = STACK(&run, MAIN, addmm, {step, 2, 0xb00}, {main, 12, 0});
    run.step_scratch = STACK(&run, MAIN, addmm, {step, 4, 0xb00}, {main, 12, 0});
    run.main_free = builder_stack(b, MAIN, NULL, 0, NULL, 0);
    builder_event(
        b, (struct vt_event){
               .kind = VT_EVENT_ALLOC, .layer = VT_LAYER_DRIVER, .address = SEGMENT, .bytes = 64 << 20});
    return run;
}

static uint64_t alloc(struct run *run, uint32_t stack_id, uint64_t bytes, uint64_t sequence)
{
    uint64_t address = run->next_address;
    run->next_address += bytes;
    run->allocated += bytes;
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = address,
                                                  .bytes = bytes,
                                                  .stack_id = stack_id,
                                                  .sequence = sequence,
                                                  .total_bytes = run->allocated,
                                                  .detail = 1});
    return address;
}

static void release(struct run *run, uint64_t address, uint64_t bytes, uint32_t stack_id)
{
    run->allocated -= bytes;
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_FREE,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = address,
                                                  .bytes = bytes,
                                                  .stack_id = stack_id,
                                                  .total_bytes = run->allocated,
                                                  .detail = 1});
}

/* What lives beyond a step. */
struct kept {
    uint64_t input, state, gradients[2];
};

static void forward(struct run *run, struct kept *kept, uint64_t activations[3])
{
    uint64_t old = kept->input;
    kept->input = alloc(run, run->input, INPUT, run->node ? run->node * 2 : 0);
    if (old)
        release(run, old, INPUT, run->main_free);
    for (int i = 0; i < 2; i++)
        activations[i] = alloc(run, run->forward[i], ACTIVATION, run->node++ * 2 + 2);
    release(run, alloc(run, run->scratch, SCRATCH, run->node * 2), SCRATCH, run->main_free);
    activations[2] = alloc(run, run->loss, SCRATCH, run->node++ * 2 + 2);
}

/* Leaves two gradients, unless it stops half way. */
static void backward(struct run *run, struct kept *kept, const uint64_t activations[3], bool stop_half_way)
{
    uint64_t root = alloc(run, run->loss_gradient, 512, run->node * 2);
    for (int i = 1; i >= 0; i--) {
        uint64_t node = run->node - 3 + (uint64_t)i;
        uint64_t temporary = alloc(run, run->backward[0], ACTIVATION, node * 2 + 3);
        kept->gradients[i] = alloc(run, run->gradient, PARAMETER, node * 2 + 3);
        if (stop_half_way && i == 1)
            return;
        release(run, temporary, ACTIVATION, run->engine_free);
        release(run, activations[i], ACTIVATION, run->engine_free);
    }
    release(run, root, 512, run->main_free);
}

static void step(struct run *run, struct kept *kept)
{
    if (!kept->state)
        kept->state = alloc(run, run->state, PARAMETER, run->node * 2);
    release(run, alloc(run, run->step_scratch, PARAMETER, run->node * 2), PARAMETER, run->main_free);
}

static void zero_grad(struct run *run, struct kept *kept)
{
    for (int i = 0; i < 2; i++) {
        release(run, kept->gradients[i], PARAMETER, run->main_free);
        kept->gradients[i] = 0;
    }
}

static void make_model(struct run *run)
{
    alloc(run, run->parameter, PARAMETER, 0);
    alloc(run, run->parameter, PARAMETER, 0);
    alloc(run, run->buffer, BUFFER, 0);
}

static int attribute_with(struct run *run, const char *rules, char *error)
{
    run->trace = builder_open(run->builder);
    run->replay = vt_replay_make(run->trace);
    return vt_attribute(run->trace, run->replay, rules, &run->attribution, error, 512);
}

static void attribute(struct run *run)
{
    char error[512];
    cr_assert_eq(attribute_with(run, NULL, error), 0, "%s", error);
    cr_assert_eq(run->replay->total_mismatches, 0);
    cr_assert_eq(vt_replay_verify(run->replay, 0, error, sizeof error), 0, "%s", error);
    cr_assert_eq(vt_category_verify(run->attribution, 0, &(struct vt_category_check){0}), 0);
}

static void end(struct run *run)
{
    vt_attribution_free(run->attribution);
    vt_replay_free(run->replay);
    vt_trace_close(run->trace);
    builder_free(run->builder);
}

/* All blocks of a stack are of that category. */
static void expect(const struct run *run, uint32_t stack_id, enum vt_category category)
{
    size_t seen = 0;
    for (size_t i = 0; i < run->replay->allocation_count; i++) {
        const struct vt_allocation *block = &run->replay->allocations[i];
        if (block->kind != VT_ALLOCATION_BLOCK || block->stack_id != stack_id)
            continue;
        seen++;
        const struct vt_label *label = &run->attribution->labels[i];
        cr_expect_eq(label->category, category, "stack %u, event %u: %s by rule '%s', not %s", stack_id,
                     block->alloc_event, vt_category_name(label->category),
                     vt_rule_name(run->attribution, label->rule), vt_category_name(category));
    }
    cr_expect_gt(seen, 0, "stack %u made nothing", stack_id);
}

static void expect_training(const struct run *run)
{
    expect(run, run->parameter, VT_CATEGORY_PARAMETER);
    expect(run, run->buffer, VT_CATEGORY_BUFFER);
    expect(run, run->input, VT_CATEGORY_INPUT);
    expect(run, run->forward[0], VT_CATEGORY_ACTIVATION);
    expect(run, run->forward[1], VT_CATEGORY_ACTIVATION);
    expect(run, run->scratch, VT_CATEGORY_TEMPORARY);
    expect(run, run->loss_gradient, VT_CATEGORY_TEMPORARY);
    expect(run, run->backward[0], VT_CATEGORY_TEMPORARY);
    expect(run, run->gradient, VT_CATEGORY_GRADIENT);
}

/* The phases in order, as their first letters, with each step's number once. */
static void spans_text(const struct run *run, char *text)
{
    uint32_t last_step = 0;
    for (size_t i = 0; i < run->attribution->span_count; i++) {
        const struct vt_span *span = &run->attribution->spans[i];
        if (span->step != last_step)
            text += sprintf(text, " %u", span->step);
        last_step = span->step;
        *text++ = vt_phase_name(span->phase)[0];
        cr_expect(i == 0 || span->first_event == span[-1].last_event + 1);
    }
    *text = '\0';
}

Test(attribute, names_a_training_run)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char text[200];
    make_model(&run);
    for (int i = 0; i < 3; i++) {
        forward(&run, &kept, activations);
        if (i == 0)
            alloc(&run, run.workspace, 8 << 20, run.node * 2);
        backward(&run, &kept, activations, false);
        step(&run, &kept);
        zero_grad(&run, &kept);
        release(&run, activations[2], SCRATCH, run.main_free);
    }
    attribute(&run);
    expect_training(&run);
    expect(&run, run.loss, VT_CATEGORY_ACTIVATION);
    expect(&run, run.workspace, VT_CATEGORY_WORKSPACE);
    expect(&run, run.state, VT_CATEGORY_OPTIMIZER_STATE);
    expect(&run, run.step_scratch, VT_CATEGORY_TEMPORARY);
    spans_text(&run, text);
    cr_assert_str_eq(text, "i 1fbo 2dfbo 3dfbo");
    cr_assert_eq(run.attribution->step_count, 3);
    cr_assert_eq(vt_span_at(run.attribution, 0)->phase, VT_PHASE_INIT);
    end(&run);
}

/* A training whose optimizer is no torch.optim's, only a method called step; `early`: which is also called
 * before the first forward. Returns the stack of what it keeps. */
static uint32_t train_with_own_step(struct run *run, bool early)
{
    struct kept kept = {0};
    uint64_t activations[3], addmm = symbol(run, "_ZN2at4_ops5addmm4callEv");
    uint32_t mine = builder_code(run->builder, "/home/someone/train.py", "Mine.step", 1);
    uint32_t helper = builder_code(run->builder, "/home/someone/train.py", "refresh", 1);
    run->state = STACK(run, MAIN, addmm, {helper, 2, 0}, {mine, 2, 0});
    run->step_scratch = STACK(run, MAIN, addmm, {helper, 4, 0}, {mine, 2, 0});
    make_model(run);
    if (early)
        release(run, alloc(run, run->step_scratch, PARAMETER, 0), PARAMETER, run->main_free);
    for (int i = 0; i < 3; i++) {
        forward(run, &kept, activations);
        backward(run, &kept, activations, false);
        step(run, &kept);
        zero_grad(run, &kept);
        release(run, activations[2], SCRATCH, run->main_free);
    }
    attribute(run);
    return run->state;
}

static uint8_t category_of(const struct run *run, uint32_t stack_id)
{
    for (size_t i = 0; i < run->replay->allocation_count; i++)
        if (run->replay->allocations[i].stack_id == stack_id)
            return run->attribution->labels[i].category;
    return VT_CATEGORY_UNKNOWN;
}

/* What is found beside each other, on threads, reads these tables: nothing may be left that the first reader
 * adds. */
Test(attribute, leaves_nothing_to_the_first_reader)
{
    struct run run = begin();
    train_with_own_step(&run, false);
    const struct vt_trace_tables *tables = run.trace->tables;
    const size_t lines = tables->lines.count;
    uint32_t frames = 0;
    for (size_t id = 0; id < run.trace->stack_count; id++)
        for (uint32_t i = 0; i < run.trace->stacks[id].python_count; i++, frames++) {
            const struct vt_python_frame *frame = &run.trace->stacks[id].python[i];
            cr_expect(frame->code_id >= run.trace->code_count || !run.trace->codes[frame->code_id].file ||
                      tables->code_kinds[frame->code_id]);
            vt_trace_python_line(run.trace, frame);
        }
    cr_expect_gt(frames, 10);
    cr_expect_gt(lines, 0);
    cr_expect_eq(tables->lines.count, lines);
    end(&run);
}

Test(attribute, knows_an_optimizer_of_the_scripts_own)
{
    struct run run = begin();
    train_with_own_step(&run, false);
    expect_training(&run);
    expect(&run, run.state, VT_CATEGORY_OPTIMIZER_STATE);
    expect(&run, run.step_scratch, VT_CATEGORY_TEMPORARY);
    end(&run);
    run = begin();
    cr_expect_neq(category_of(&run, train_with_own_step(&run, true)), VT_CATEGORY_OPTIMIZER_STATE,
                  "a step that does not follow a backward is none of an optimizer");
    end(&run);
}

Test(attribute, names_modules_and_operators)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    make_model(&run);
    forward(&run, &kept, activations);
    backward(&run, &kept, activations, false);
    attribute(&run);
    cr_assert_str_eq(vt_operator_of(run.attribution, run.forward[0]), "aten::addmm");
    cr_assert_str_eq(vt_operator_of(run.attribution, run.backward[0]), "AddmmBackward0");
    cr_assert_null(vt_operator_of(run.attribution, run.main_free));
    for (size_t i = 0; i < run.replay->allocation_count; i++) {
        const struct vt_allocation *block = &run.replay->allocations[i];
        const struct vt_label *label = &run.attribution->labels[i];
        if (block->stack_id == run.forward[1])
            cr_assert_str_eq(label->module, "Linear#2");
        if (block->stack_id == run.scratch)
            cr_assert_str_eq(label->module, "Net");
        if (block->stack_id == run.parameter)
            cr_assert_null(label->module);
        if (block->stack_id == run.gradient &&
            label->forward_stack_id) /* of the module whose operator it is from */
            cr_assert_not_null(label->module);
        if (block->stack_id == run.backward[0]) {
            bool second = block->sequence == 1 * 2 + 3;
            cr_assert_eq(label->forward_stack_id, run.forward[second]);
            cr_assert_str_eq(label->module, second ? "Linear#2" : "Linear#1");
        }
    }
    end(&run);
}

static uint64_t sequence(uint64_t thread, uint64_t number, bool runs)
{
    return thread << VT_SEQUENCE_THREAD_SHIFT | (number * 2 + 2 + runs);
}

static void node(struct run *run, uint32_t stack_id, uint64_t made, uint64_t parent)
{
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_NODE,
                                                  .device_index = -1,
                                                  .stack_id = stack_id,
                                                  .sequence = made,
                                                  .detail = parent});
}

/* Each thread counts its nodes for itself; one made in backward belongs to the line of the one that ran then.
 */
Test(attribute, joins_backward_by_node_and_thread)
{
    struct run run = begin();
    make_model(&run);
    alloc(&run, run.forward[0], ACTIVATION, sequence(1, 5, false));
    alloc(&run, run.scratch, SCRATCH, sequence(1, 5, false)); /* made no node */
    node(&run, run.forward[1], sequence(1, 6, false), 0);
    alloc(&run, run.scratch, SCRATCH, sequence(1, 6, false));
    node(&run, run.engine_free, sequence(2, 5, false), sequence(1, 8, true));
    node(&run, run.engine_free, sequence(2, 6, false), sequence(2, 5, true));
    node(&run, run.loss, sequence(1, 8, false), 0); /* a thread tells its last node late */
    const struct {
        uint64_t sequence;
        uint32_t stack_id;
    } runs[] = {{sequence(1, 5, true), run.forward[0]},
                {sequence(1, 6, true), run.forward[1]},
                {sequence(2, 5, true), run.loss},
                {sequence(2, 6, true), run.loss},
                {sequence(2, 7, true), 0},
                {VT_SEQUENCE_NO_NUMBER, 0}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        alloc(&run, run.backward[0], SCRATCH, runs[i].sequence);
    attribute(&run);
    size_t count = sizeof runs / sizeof *runs;
    const struct vt_label *labels = &run.attribution->labels[run.replay->allocation_count - count];
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(labels[i].forward_stack_id, runs[i].stack_id, "block %zu", i);
    end(&run);
}

/* Plain SGD allocates nothing; zero_grad comes between forward and backward. */
Test(attribute, finds_steps_without_an_optimizers_allocations)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char text[200];
    make_model(&run);
    for (int i = 0; i < 3; i++) {
        forward(&run, &kept, activations);
        if (i > 0)
            zero_grad(&run, &kept);
        backward(&run, &kept, activations, false);
        release(&run, activations[2], SCRATCH, run.main_free);
    }
    attribute(&run);
    expect_training(&run);
    spans_text(&run, text);
    cr_assert_str_eq(text, "i 1fb 2dfb 3dfb");
    end(&run);
}

static void mark(struct run *run, const char *name)
{
    builder_event(run->builder,
                  (struct vt_event){.kind = VT_EVENT_MARK, .detail = builder_string(run->builder, name)});
}

/* Two iterations make a step, says the program: nothing else in it tells. */
static void train_with_marks(const char *before, const char *after, bool evaluation, const char *expected)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char text[200];
    make_model(&run);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            mark(&run, before);
        forward(&run, &kept, activations);
        backward(&run, &kept, activations, false);
        zero_grad(&run, &kept);
        release(&run, activations[2], SCRATCH, run.main_free);
        if (i % 2 == 1)
            mark(&run, after);
    }
    if (evaluation)
        release(&run, alloc(&run, run.evaluate, ACTIVATION, run.node * 2), ACTIVATION, run.main_free);
    attribute(&run);
    spans_text(&run, text);
    cr_assert_str_eq(text, expected, "%s", text);
    end(&run);
}

/* A mark itself has the phase before it. */
Test(attribute, counts_steps_by_the_programs_marks)
{
    train_with_marks("x", "x", false, "i 1fbo 2dfbo 3dfbo 4dfbo");
    train_with_marks("x", "vramtrace.steps", false, "i 1fbo 2dfbo 3dfbo 4dfbo");
    train_with_marks("x", "vramtrace.step", false, "i 1fbodfbo 2odfbodfbo");
    train_with_marks("vramtrace.step", "x", false, "i 1ifbodfbo 2odfbodfbo");
    train_with_marks("x", "vramtrace.step", true, "i 1fbodfbo 2odfbodfboe");
}

Test(attribute, counts_accumulation_as_one_step)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char text[200];
    make_model(&run);
    for (int i = 0; i < 4; i++) {
        struct kept micro = kept;
        forward(&run, &micro, activations);
        kept.input = micro.input;
        backward(&run, &micro, activations, false);
        release(&run, activations[2], SCRATCH, run.main_free);
        if (i % 2 == 0) {
            memcpy(kept.gradients, micro.gradients, sizeof kept.gradients);
        } else {
            step(&run, &kept);
            zero_grad(&run, &kept);
            memcpy(kept.gradients, micro.gradients, sizeof kept.gradients);
            zero_grad(&run, &kept);
        }
    }
    attribute(&run);
    expect_training(&run);
    spans_text(&run, text);
    cr_assert_str_eq(text, "i 1fbdfbo 2dfbdfbo");
    end(&run);
}

/* A stage of a pipeline: each pass also makes a gradient of what the stage received, which is sent and
 * dropped. */
Test(attribute, counts_a_pipelines_passes_as_one_step)
{
    enum { PASSES = 5, STEPS = 3 };
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    make_model(&run);
    for (int i = 0; i < STEPS * PASSES; i++) {
        struct kept micro = kept;
        forward(&run, &micro, activations);
        kept.input = micro.input;
        backward(&run, &micro, activations, false);
        for (int k = 0; k < 2 && i % PASSES > 0; k++) /* added to those of the first pass */
            release(&run, micro.gradients[k], PARAMETER, run.engine_free);
        uint64_t sent = alloc(&run, run.backward[0], INPUT, run.node * 2 - 1);
        release(&run, activations[2], SCRATCH, run.main_free);
        release(&run, sent, INPUT, run.main_free);
        if (i % PASSES == 0)
            memcpy(kept.gradients, micro.gradients, sizeof kept.gradients);
        if (i % PASSES == PASSES - 1) {
            step(&run, &kept);
            zero_grad(&run, &kept);
        }
    }
    attribute(&run);
    cr_assert_eq(run.attribution->step_count, STEPS);
    end(&run);
}

/* Killed in the middle of a backward pass, after a whole step or in the first. */
Test(attribute, judges_what_was_cut_short)
{
    for (int whole_steps = 0; whole_steps < 2; whole_steps++) {
        struct run run = begin();
        struct kept kept = {0};
        uint64_t activations[3];
        make_model(&run);
        builder_ring(run.builder, 0);
        for (int i = 0; i < whole_steps; i++) {
            forward(&run, &kept, activations);
            backward(&run, &kept, activations, false);
            step(&run, &kept);
            zero_grad(&run, &kept);
            release(&run, activations[2], SCRATCH, run.main_free);
        }
        forward(&run, &kept, activations);
        backward(&run, &kept, activations, true);
        attribute(&run);
        cr_assert_not(run.trace->complete);
        expect_training(&run);
        end(&run);
    }
}

Test(attribute, knows_inference)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    make_model(&run);
    for (int i = 0; i < 3; i++) {
        forward(&run, &kept, activations);
        for (int k = 0; k < 2; k++)
            release(&run, activations[k], ACTIVATION, run.main_free);
        release(&run, activations[2], SCRATCH, run.main_free);
    }
    attribute(&run);
    expect(&run, run.parameter, VT_CATEGORY_PARAMETER);
    expect(&run, run.input, VT_CATEGORY_INPUT);
    cr_assert_eq(run.attribution->step_count, 3);
    for (size_t i = 0; i < run.replay->allocation_count; i++)
        cr_assert_neq(run.attribution->labels[i].category, VT_CATEGORY_UNKNOWN);
    end(&run);
}

/* Two slices of a model, made for one call each: the second lies where the first lay, as it happens. */
Test(attribute, counts_slices_of_a_model_as_one_pass)
{
    struct run run = begin();
    const char *torch = "/x/site-packages/torch/nn/modules/module.py";
    uint32_t call = builder_code(run.builder, torch, "Module._call_impl", 2);
    uint32_t main = builder_code(run.builder, "/home/someone/serve.py", "main", 1);
    uint32_t parts[2];
    for (uint64_t i = 0; i < 2; i++)
        parts[i] =
            STACK(&run, MAIN, 0, {call, 6, 0xa00 + i * 16}, {call, 8, 0x5000}, {main, 6 + (int32_t)i * 8, 0});
    make_model(&run);
    for (int i = 0; i < 4; i++) {
        uint64_t input = alloc(&run, run.input, INPUT, 0);
        for (int k = 0; k < 2; k++)
            release(&run, alloc(&run, parts[k], ACTIVATION, 0), ACTIVATION, run.main_free);
        release(&run, input, INPUT, run.main_free);
    }
    attribute(&run);
    cr_assert_eq(run.attribution->step_count, 4);
    end(&run);
}

/* A module's results beneath a function of a cache (a warm-up) are none of it. */
Test(attribute, knows_a_cache_from_what_its_code_calls)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3], cached[2] = {0};
    const char *torch = "/x/site-packages/torch/nn/modules/module.py", *script = "/home/someone/serve.py";
    uint32_t call = builder_code(run.builder, torch, "Module._call_impl", 2);
    uint32_t main = builder_code(run.builder, script, "main", 1);
    uint32_t update = builder_code(run.builder, script, "KVCache.update", 10);
    uint32_t initialize = builder_code(run.builder, script, "Runner.initialize_kv_cache", 20);
    uint32_t layer = builder_code(run.builder, script, "Layer.forward", 30);
    uint32_t stored = STACK(&run, MAIN, 0, {update, 4, 0}, {layer, 8, 0}, {call, 8, 0x5000}, {main, 6, 0});
    uint32_t warmed =
        STACK(&run, MAIN, 0, {layer, 12, 0}, {call, 8, 0x5000}, {initialize, 2, 0}, {main, 8, 0});
    make_model(&run);
    for (int i = 0; i < 4; i++) {
        forward(&run, &kept, activations);
        for (int k = 0; k < 2; k++) {
            if (i > 0)
                release(&run, cached[k], ACTIVATION, run.main_free);
            cached[k] = alloc(&run, k ? stored : warmed, ACTIVATION, 0);
            release(&run, activations[k], ACTIVATION, run.main_free);
        }
        release(&run, activations[2], SCRATCH, run.main_free);
    }
    attribute(&run);
    cr_expect_eq(category_of(&run, stored), VT_CATEGORY_KV_CACHE);
    cr_expect_neq(category_of(&run, warmed), VT_CATEGORY_KV_CACHE);
    end(&run);
}

/* Two blocks that a script keeps from call to call: a cache if an inspection finds them under the names of a
 * pair, whose both halves it saw. */
static void expect_pair(const char *one, const char *other, bool is_pair)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3], held[2] = {0};
    const char *names[] = {one, other};
    char text[1024];
    size_t used = 0;
    const char *script = "/home/someone/serve.py";
    uint32_t main = builder_code(run.builder, script, "main", 1);
    uint32_t stored =
        STACK(&run, MAIN, 0, {builder_code(run.builder, script, "fill", 30), 8, 0}, {main, 6, 0});
    make_model(&run);
    for (int i = 0; i < 8; i++) {
        forward(&run, &kept, activations);
        for (int k = 0; k < 2; k++) {
            if (i % 2 == 0) {
                if (i > 0)
                    release(&run, held[k], ACTIVATION, run.main_free);
                held[k] = alloc(&run, stored, ACTIVATION, 0);
            }
            release(&run, activations[k], ACTIVATION, run.main_free);
        }
        release(&run, activations[2], SCRATCH, run.main_free);
    }
    for (int k = 0; k < 2; k++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "H\tattribute\tattribute Layer.%s\tLayer.%s\t%llu\t%llu\t%llu\t%llu\tfloat32\t"
                             "8x1024\t0\t\t\n",
                             names[k], names[k], (unsigned long long)held[k], (unsigned long long)ACTIVATION,
                             (unsigned long long)held[k], (unsigned long long)ACTIVATION);
    builder_inspection_part(run.builder, 1, 0, 1, text);
    builder_event(run.builder,
                  (struct vt_event){.kind = VT_EVENT_INSPECTION, .detail = 1, .device_index = -1});
    attribute(&run);
    for (size_t i = 0; i < run.replay->allocation_count; i++)
        if (run.replay->allocations[i].address == held[0])
            cr_expect_eq(run.attribution->labels[i].category == VT_CATEGORY_KV_CACHE, is_pair, "%s, %s: %s",
                         one, other, vt_category_name(run.attribution->labels[i].category));
    end(&run);
}

Test(attribute, knows_a_cache_by_the_names_of_its_halves)
{
    expect_pair("keys", "values", true);
    expect_pair("k", "v", true);
    expect_pair("keys", "rows", false);
    expect_pair("keys", "v_rows", false);
}

Test(attribute, tells_evaluation_from_training)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char text[200];
    make_model(&run);
    for (int i = 0; i < 2; i++) {
        forward(&run, &kept, activations);
        backward(&run, &kept, activations, false);
        step(&run, &kept);
        zero_grad(&run, &kept);
        release(&run, activations[2], SCRATCH, run.main_free);
        /* the same layers, no nodes */
        for (int k = 0; k < 4; k++)
            release(&run, alloc(&run, k % 2 ? run.forward[1] : run.evaluate, ACTIVATION, run.node * 2),
                    ACTIVATION, run.main_free);
    }
    attribute(&run);
    spans_text(&run, text);
    cr_assert_str_eq(text, "i 1fbo 2efboe", "%s", text);
    end(&run);
}

Test(attribute, leaves_other_programs_unknown)
{
    struct builder *b = builder_new(16);
    struct run run = {.builder = b, .next_symbol = 0x1000};
    uint64_t user = symbol(&run, "main"), library[] = {0x500010, user};
    builder_module(b, 0x500000, 0x600000, "/usr/lib/libnccl.so.2", "\1\2", 2);
    builder_symbol(b, 0x500010, 0x500000, "");
    uint32_t own = builder_stack(b, 1, &user, 1, NULL, 0), nccl = builder_stack(b, 1, library, 2, NULL, 0);
    struct vt_event event = {.kind = VT_EVENT_ALLOC, .layer = VT_LAYER_DRIVER, .bytes = 1 << 20};
    event.address = SEGMENT;
    event.stack_id = own;
    builder_event(b, event);
    event.address = SEGMENT + (2 << 20);
    event.stack_id = nccl;
    builder_event(b, event);
    attribute(&run);
    cr_assert_eq(run.attribution->labels[0].category, VT_CATEGORY_UNKNOWN);
    cr_assert_eq(run.attribution->labels[1].category, VT_CATEGORY_COMMUNICATION);
    cr_assert_eq(vt_span_at(run.attribution, 1)->phase, VT_PHASE_OTHER);
    cr_assert_eq(run.attribution->step_count, 0);
    end(&run);
}

Test(attribute, verifies_that_categories_sum)
{
    struct run run = begin();
    struct vt_category_check check = {0};
    make_model(&run);
    attribute(&run);
    struct vt_label *labels = (struct vt_label *)run.attribution->labels;
    labels[run.replay->allocation_count - 1].category = VT_CATEGORY_HOST_PINNED;
    cr_expect_eq(vt_category_verify(run.attribution, 0, &check), -EINVAL);
    cr_expect_eq(check.breaches, 1);
    cr_expect_eq(check.events, run.trace->event_count);
    end(&run);
}

Test(attribute, takes_an_empty_trace)
{
    struct run run = {.builder = builder_new(16)};
    attribute(&run);
    cr_assert_eq(run.attribution->span_count, 0);
    cr_assert_eq(vt_span_at(run.attribution, 5)->phase, VT_PHASE_OTHER);
    end(&run);
}

Test(rules, of_a_user_come_first)
{
    struct run run = begin();
    struct kept kept = {0};
    uint64_t activations[3];
    char error[512];
    const char *path = builder_rules_file(
        "# mine\ntrait mine\n  python */train.py:Net.forward\n\nrule my-scratch\n\tcommunication weak\n"
        "\ttrait mine module\n\tbytes < 9KiB\n\tbytes >= 8192\n\tnot phase backward\n\tkind block\n");
    make_model(&run);
    forward(&run, &kept, activations);
    backward(&run, &kept, activations, false);
    cr_assert_eq(attribute_with(&run, path, error), 0, "%s", error);
    unlink(path);
    expect(&run, run.scratch, VT_CATEGORY_COMMUNICATION);
    expect(&run, run.forward[0], VT_CATEGORY_ACTIVATION);
    expect(&run, run.loss, VT_CATEGORY_ACTIVATION);
    for (size_t i = 0; i < run.replay->allocation_count; i++)
        if (run.replay->allocations[i].stack_id == run.scratch)
            cr_assert_str_eq(vt_rule_name(run.attribution, run.attribution->labels[i].rule), "my-scratch");
    end(&run);
}
