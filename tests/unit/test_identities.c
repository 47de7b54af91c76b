/* Identities of optimizers, with a made-up training of two parameters whose stacks look like PyTorch's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "attribute/attribute.h"
#include "trace_builder.h"

#define SEGMENT UINT64_C(0x7f0000000000)
#define SMALL UINT64_C(16384)
#define LARGE (UINT64_C(4) << 20)
#define STEPS 4

enum { MAIN = 100, ENGINE = 200 };
enum stack {
    PARAMETER,
    FORWARD,
    LOSS_GRADIENT,
    GRADIENT,
    FIRST,
    SECOND,
    SCRATCH,
    ENGINE_FREE,
    MAIN_FREE,
    STACKS
};

/* What differs from a training as it should be. */
struct wrong {
    const char *rules; /* NULL = the built-in ones alone */
    bool one_state;    /* the larger parameter has one state only */
    bool later_rest;  /* the second states of large parameters lie in a block of which a rest was not split */
    bool in_backward; /* the optimizer steps in backward, parameter by parameter */
    bool loses_events;
};

struct run {
    struct builder *builder;
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    uint32_t stacks[STACKS];
    uint64_t next_address, allocated, node;
};

static void make_stacks(struct run *run, uint32_t optimizer_thread)
{
    struct builder *b = run->builder;
    uint32_t main = builder_code(b, "/home/someone/train.py", "main", 1);
    uint32_t apply = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._apply", 1);
    uint32_t call = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1);
    uint32_t layer = builder_code(b, "/x/site-packages/torch/nn/modules/linear.py", "Linear.forward", 1);
    uint32_t grads = builder_code(b, "/x/site-packages/torch/autograd/__init__.py", "_make_grads", 1);
    uint32_t wrapper = builder_code(b, "/x/site-packages/torch/optim/optimizer.py",
                                    "Optimizer.profile_hook_step.<locals>.wrapper", 1);
    uint32_t first = builder_code(b, "/x/site-packages/torch/optim/adam.py", "Adam._first", 1);
    uint32_t second = builder_code(b, "/x/site-packages/torch/optim/adam.py", "Adam._second", 1);
    uint32_t update = builder_code(b, "/x/site-packages/torch/optim/adam.py", "Adam.step", 1);
    uint64_t addmm = 0x1010, backward[] = {0x1020, 0x1030};
    builder_symbol(b, addmm, 0, "_ZN2at4_ops5addmm4callEv");
    builder_symbol(b, backward[0], 0, "_ZN5torch8autograd9generated14AddmmBackward05applyEv");
    builder_symbol(b, backward[1], 0, "_ZN5torch8autograd6Engine11thread_mainEv");
    const uint64_t *native = optimizer_thread == ENGINE ? &backward[1] : &addmm;
#define STACK(thread, native, ...)                                                                           \
    builder_stack(b, thread, native, 1, (struct vt_python_frame[]){__VA_ARGS__},                             \
                  sizeof((struct vt_python_frame[]){__VA_ARGS__}) / sizeof(struct vt_python_frame))
    run->stacks[PARAMETER] =
        STACK(MAIN, &addmm, {.code_id = apply, .instruction_offset = 100}, {.code_id = main});
    run->stacks[FORWARD] = STACK(MAIN, &addmm, {.code_id = layer, .self_address = 0xa00},
                                 {.code_id = call, .self_address = 0xa00}, {.code_id = main});
    run->stacks[LOSS_GRADIENT] = STACK(MAIN, &addmm, {.code_id = grads}, {.code_id = main});
    run->stacks[FIRST] =
        STACK(optimizer_thread, native, {.code_id = first}, {.code_id = wrapper}, {.code_id = main});
    run->stacks[SECOND] =
        STACK(optimizer_thread, native, {.code_id = second}, {.code_id = wrapper}, {.code_id = main});
    run->stacks[SCRATCH] =
        STACK(optimizer_thread, native, {.code_id = update}, {.code_id = wrapper}, {.code_id = main});
    run->stacks[GRADIENT] = builder_stack(b, ENGINE, backward, 2, NULL, 0);
    run->stacks[ENGINE_FREE] = builder_stack(b, ENGINE, NULL, 0, NULL, 0);
    run->stacks[MAIN_FREE] = builder_stack(b, MAIN, NULL, 0, NULL, 0);
    builder_event(
        b, (struct vt_event){
               .kind = VT_EVENT_ALLOC, .layer = VT_LAYER_DRIVER, .address = SEGMENT, .bytes = 64 << 20});
}

static uint64_t alloc(struct run *run, enum stack stack, uint64_t bytes, uint64_t sequence)
{
    uint64_t address = run->next_address;
    run->next_address += bytes;
    run->allocated += bytes;
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = address,
                                                  .bytes = bytes,
                                                  .stack_id = run->stacks[stack],
                                                  .sequence = sequence,
                                                  .total_bytes = run->allocated,
                                                  .detail = 1});
    return address;
}

static void release(struct run *run, uint64_t address, uint64_t bytes, enum stack stack)
{
    run->allocated -= bytes;
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_FREE,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = address,
                                                  .bytes = bytes,
                                                  .stack_id = run->stacks[stack],
                                                  .total_bytes = run->allocated,
                                                  .detail = 1});
}

/* The optimizer's work for one parameter. */
static void update(struct run *run, const struct wrong *wrong, uint64_t bytes, int step)
{
    if (step == 0) {
        alloc(run, FIRST, bytes, 2 * run->node);
        if (bytes < LARGE || !wrong->one_state)
            alloc(run, SECOND, bytes + (wrong->later_rest && bytes >= LARGE ? 512 * 1024 : 0), 2 * run->node);
    }
    release(run, alloc(run, SCRATCH, bytes, 2 * run->node), bytes,
            wrong->in_backward ? ENGINE_FREE : MAIN_FREE);
}

static void train_step(struct run *run, const struct wrong *wrong, int step)
{
    const uint64_t sizes[] = {SMALL, LARGE};
    uint64_t activations[2], gradients[2], loss;
    for (int i = 0; i < 2; i++)
        activations[i] = alloc(run, FORWARD, 8192, 2 * ++run->node);
    loss = alloc(run, LOSS_GRADIENT, 512, 2 * run->node);
    for (int i = 1; i >= 0; i--) {
        gradients[i] = alloc(run, GRADIENT, sizes[i], 2 * (run->node - 1 + (uint64_t)i) + 1);
        if (wrong->in_backward) {
            update(run, wrong, sizes[i], step);
            release(run, gradients[i], sizes[i], ENGINE_FREE);
        }
        release(run, activations[i], 8192, ENGINE_FREE);
    }
    release(run, loss, 512, MAIN_FREE);
    for (int i = 0; i < 2 && !wrong->in_backward; i++)
        update(run, wrong, sizes[i], step);
    for (int i = 0; i < 2 && !wrong->in_backward; i++)
        release(run, gradients[i], sizes[i], MAIN_FREE);
}

static struct run train(struct wrong wrong)
{
    struct run run = {.builder = builder_new(4096), .next_address = SEGMENT};
    char error[512];
    const char *rules = wrong.rules ? builder_rules_file(wrong.rules) : NULL;
    make_stacks(&run, wrong.in_backward ? ENGINE : MAIN);
    alloc(&run, PARAMETER, SMALL, 0);
    alloc(&run, PARAMETER, LARGE, 0);
    for (int step = 0; step < STEPS; step++)
        train_step(&run, &wrong, step);
    if (wrong.loses_events)
        builder_header(run.builder)->counters.dropped = 1;
    run.trace = builder_open(run.builder);
    run.replay = vt_replay_make(run.trace);
    cr_assert_eq(vt_attribute(run.trace, run.replay, rules, &run.attribution, error, sizeof error), 0, "%s",
                 error);
    if (rules)
        unlink(rules);
    return run;
}

static void end(struct run *run)
{
    vt_attribution_free(run->attribution);
    vt_replay_free(run->replay);
    vt_trace_close(run->trace);
    builder_free(run->builder);
}

/* All blocks of a stack are of that category and evidence. */
static void expect(const struct run *run, enum stack stack, enum vt_category category,
                   enum vt_evidence evidence)
{
    for (size_t i = 0; i < run->replay->allocation_count; i++) {
        const struct vt_label *label = &run->attribution->labels[i];
        if (run->replay->allocations[i].stack_id == run->stacks[stack])
            cr_expect(label->category == category && label->evidence == evidence,
                      "stack %d: %s, %s by rule '%s', not %s, %s", stack, vt_category_name(label->category),
                      vt_evidence_names[label->evidence], vt_rule_name(run->attribution, label->rule),
                      vt_category_name(category), vt_evidence_names[evidence]);
    }
}

static void expect_identity(const struct run *run, enum vt_identity_kind kind, enum vt_identity_result result,
                            uint64_t expected_bytes, uint64_t found_bytes)
{
    for (size_t i = 0; i < run->attribution->identity_count; i++) {
        const struct vt_identity *identity = &run->attribution->identities[i];
        if (identity->kind != kind)
            continue;
        cr_expect_str_eq(identity->optimizer, "Adam");
        cr_expect_eq(identity->result, result, "%d", identity->result);
        cr_expect_eq(identity->expected_bytes, expected_bytes);
        cr_expect_eq(identity->found_bytes, found_bytes);
        cr_expect_eq(identity->blocks > 0, result != VT_IDENTITY_HOLDS);
        return;
    }
    cr_expect_fail("it was not checked");
}

Test(identities, hold_in_a_training_that_is_labelled_right)
{
    for (int rest = 0; rest < 2; rest++) {
        struct run run = train((struct wrong){.later_rest = rest});
        cr_expect_eq(run.attribution->identity_count, 2);
        uint64_t states = 2 * (SMALL + LARGE) + (rest ? 512 * 1024 : 0);
        expect_identity(&run, VT_IDENTITY_STATES, VT_IDENTITY_HOLDS, states, states);
        expect_identity(&run, VT_IDENTITY_GRADIENTS, VT_IDENTITY_HOLDS, SMALL + LARGE, SMALL + LARGE);
        expect(&run, FIRST, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_STRONG);
        expect(&run, SECOND, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_STRONG);
        end(&run);
    }
}

#define MISLABEL(function)                                                                                   \
    "trait mine\n    python */optim/adam.py:" function "\n"                                                  \
    "rule mine\n    activation strong\n    trait mine\n    life outlives-step\n"

Test(identities, decide_again_what_a_rule_took_for_something_else)
{
    struct run run = train((struct wrong){.rules = MISLABEL("Adam._second")});
    expect_identity(&run, VT_IDENTITY_STATES, VT_IDENTITY_RESTORED, 2 * (SMALL + LARGE), SMALL + LARGE);
    expect(&run, FIRST, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_STRONG);
    expect(&run, SECOND, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_WEAK);
    end(&run);
}

Test(identities, decide_again_where_no_state_was_found)
{
    struct run run = train((struct wrong){.rules = MISLABEL("Adam.*")});
    expect_identity(&run, VT_IDENTITY_STATES, VT_IDENTITY_RESTORED, 2 * (SMALL + LARGE), 0);
    expect(&run, FIRST, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_WEAK);
    end(&run);
}

Test(identities, decide_again_what_a_rule_took_for_a_state)
{
    struct run run = train((struct wrong){.rules = "trait mine\n    python */optim/adam.py:Adam.step\n"
                                                   "rule mine\n    optimizer_state strong\n    trait mine\n"
                                                   "    not life outlives-step\n"});
    /* what the last step would have left is not known */
    expect_identity(&run, VT_IDENTITY_STATES, VT_IDENTITY_RESTORED, 2 * (SMALL + LARGE),
                    (2 + STEPS) * (SMALL + LARGE));
    for (size_t i = 0; i < run.replay->allocation_count; i++) {
        const struct vt_label *label = &run.attribution->labels[i];
        if (run.replay->allocations[i].stack_id == run.stacks[SCRATCH] && label->step < STEPS)
            cr_expect_eq(label->category, VT_CATEGORY_TEMPORARY);
        if (run.replay->allocations[i].stack_id == run.stacks[SCRATCH])
            cr_expect_eq(label->evidence, VT_EVIDENCE_WEAK);
    }
    end(&run);
}

Test(identities, leave_nothing_strong_where_no_choice_restores_them)
{
    struct run run = train((struct wrong){.one_state = true});
    expect_identity(&run, VT_IDENTITY_STATES, VT_IDENTITY_BROKEN, 2 * (SMALL + LARGE), 2 * SMALL + LARGE);
    expect(&run, FIRST, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_WEAK);
    expect(&run, SECOND, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_WEAK);
    expect(&run, SCRATCH, VT_CATEGORY_TEMPORARY, VT_EVIDENCE_STRONG);
    end(&run);
}

Test(identities, find_gradients_that_are_used_up_within_backward)
{
    struct run run = train((struct wrong){.in_backward = true});
    expect_identity(&run, VT_IDENTITY_GRADIENTS, VT_IDENTITY_RESTORED, SMALL + LARGE, 0);
    expect(&run, GRADIENT, VT_CATEGORY_GRADIENT, VT_EVIDENCE_WEAK);
    end(&run);
}

Test(identities, are_not_checked_where_events_are_missing)
{
    struct run run = train((struct wrong){.one_state = true, .loses_events = true});
    cr_expect_eq(run.attribution->identity_count, 0);
    expect(&run, FIRST, VT_CATEGORY_OPTIMIZER_STATE, VT_EVIDENCE_STRONG);
    end(&run);
}
