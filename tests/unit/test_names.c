/* The names that looks at live objects give to blocks and modules of made-up runs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/sums.h"
#include "replay/walk.h"
#include "trace_builder.h"

#define SEGMENT UINT64_C(0x7f0000000000) /* 139637976727552 */
#define KIB UINT64_C(1024)

struct run {
    struct builder *builder;
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    uint32_t plain; /* a stack */
    char text[8192];
    size_t used;
};

static struct run begin(void)
{
    struct run run = {.builder = builder_new(64)};
    uint32_t code = builder_code(run.builder, "/home/someone/train.py", "main", 1);
    struct vt_python_frame frame = {.code_id = code, .instruction_offset = 2};
    run.plain = builder_stack(run.builder, 1, NULL, 0, &frame, 1);
    builder_event(run.builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                                 .layer = VT_LAYER_DRIVER,
                                                 .address = SEGMENT,
                                                 .bytes = 1024 * KIB});
    return run;
}

static void block(struct run *run, uint64_t offset, uint64_t bytes, uint32_t stack_id, uint64_t sequence)
{
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = SEGMENT + offset,
                                                  .bytes = bytes,
                                                  .stack_id = stack_id,
                                                  .sequence = sequence});
}

static void release(struct run *run, uint64_t offset, uint64_t bytes)
{
    builder_event(run->builder, (struct vt_event){.kind = VT_EVENT_FREE,
                                                  .layer = VT_LAYER_FRAMEWORK,
                                                  .address = SEGMENT + offset,
                                                  .bytes = bytes});
}

#define SAY(run, ...)                                                                                        \
    ((run)->used += (size_t)snprintf((run)->text + (run)->used, sizeof(run)->text - (run)->used, __VA_ARGS__))

/* A tensor of `bytes` at `offset`, in a storage that begins at `storage` and has `storage_bytes`. */
static void tensor(struct run *run, const char *role, int root, const char *path, uint64_t offset,
                   uint64_t bytes, uint64_t storage, uint64_t storage_bytes)
{
    SAY(run, "T\t%s\t%d\t%s\t%llu\t%llu\t%llu\t%llu\tfloat32\t4x4\t0\t\n", role, root, path,
        (unsigned long long)(SEGMENT + offset), (unsigned long long)bytes,
        (unsigned long long)(SEGMENT + storage), (unsigned long long)storage_bytes);
}

static void whole(struct run *run, const char *role, int root, const char *path, uint64_t offset,
                  uint64_t bytes)
{
    tensor(run, role, root, path, offset, bytes, offset, bytes);
}

static void inspection(struct run *run, uint32_t inspection_id)
{
    builder_inspection_part(run->builder, inspection_id, 0, 1, run->text);
    builder_event(
        run->builder,
        (struct vt_event){.kind = VT_EVENT_INSPECTION, .detail = inspection_id, .device_index = -1});
    run->used = 0;
    run->text[0] = '\0';
}

static void attribute(struct run *run)
{
    char error[512];
    run->trace = builder_open(run->builder);
    run->replay = vt_replay_make(run->trace);
    cr_assert_eq(vt_attribute(run->trace, run->replay, NULL, &run->attribution, error, sizeof error), 0, "%s",
                 error);
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

/* The n-th block made at an offset, from 0. */
static uint32_t made_at(const struct run *run, uint64_t offset, int n)
{
    for (uint32_t i = 0; i < run->replay->allocation_count; i++)
        if (run->replay->allocations[i].kind == VT_ALLOCATION_BLOCK &&
            run->replay->allocations[i].address == SEGMENT + offset && n-- == 0)
            return i;
    cr_assert_fail("no such block");
    return 0;
}

static const struct vt_label *label_at(const struct run *run, uint64_t offset, int n)
{
    return &run->attribution->labels[made_at(run, offset, n)];
}

static void expect_owner(const struct run *run, uint64_t offset, const char *owner, const char *module,
                         enum vt_category category)
{
    const struct vt_label *label = label_at(run, offset, 0);
    cr_assert_not_null(label->owner, "%s", owner);
    cr_expect_str_eq(label->owner, owner);
    cr_expect_eq(label->category, category, "%s", owner);
    cr_expect_eq(label->evidence, VT_EVIDENCE_EXACT);
    cr_expect(module ? label->module && !strcmp(label->module, module) : !label->module, "%s: %s", owner,
              label->module);
}

Test(names, of_one_model)
{
    struct run run = begin();
    for (uint64_t i = 0; i < 6; i++)
        block(&run, i * 8 * KIB, 4 * KIB, run.plain, 0);
    SAY(&run, "R\t0\t256\tNet\tmodel\nM\t0\t256\tNet\t\nM\t0\t512\tLinear\tlayers.3\n");
    SAY(&run, "R\t1\t768\tLoss\tcriterion\nM\t1\t768\tLoss\t\n"); /* without tensors, it adds no prefix */
    whole(&run, "parameter", 0, "layers.3.weight", 0, 4000);
    whole(&run, "gradient", 0, "layers.3.weight", 8 * KIB, 4 * KIB);
    whole(&run, "buffer", 0, "order", 16 * KIB, 4 * KIB);
    whole(&run, "optimizer_state:exp_avg", 0, "layers.3.weight", 24 * KIB, 4 * KIB);
    whole(&run, "parameter", -1, "scale", 32 * KIB, 4 * KIB);
    inspection(&run, 1);
    attribute(&run);
    expect_owner(&run, 0, "layers.3.weight", "layers.3", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 8 * KIB, "layers.3.weight · grad", "layers.3", VT_CATEGORY_GRADIENT);
    expect_owner(&run, 16 * KIB, "order", "model", VT_CATEGORY_BUFFER);
    expect_owner(&run, 24 * KIB, "layers.3.weight · exp_avg", "layers.3", VT_CATEGORY_OPTIMIZER_STATE);
    expect_owner(&run, 32 * KIB, "scale", NULL, VT_CATEGORY_PARAMETER);
    cr_expect_null(label_at(&run, 40 * KIB, 0)->owner);
    cr_expect_null(vt_inspection_of(run.attribution, made_at(&run, 40 * KIB, 0)));
    cr_expect_eq(vt_inspection_of(run.attribution, made_at(&run, 0, 0)), &run.trace->inspections[0]);
    cr_expect_str_eq(vt_rule_name(run.attribution, label_at(&run, 0, 0)->rule), "seen by an inspection");
    cr_expect_eq(label_at(&run, 0, 0)->rounding_bytes, 96);
    cr_expect_eq(label_at(&run, 8 * KIB, 0)->rounding_bytes, 0);
    cr_expect_str_eq(vt_module_class(run.attribution, "layers.3"), "Linear");
    cr_expect_str_eq(vt_module_class(run.attribution, "model"), "Net");
    cr_expect_str_eq(vt_module_class(run.attribution, "criterion"), "Loss");
    cr_expect_null(vt_module_class(run.attribution, "layers.4"));
    size_t count;
    const struct vt_owner *owner = vt_owners_of(run.attribution, made_at(&run, 0, 0), &count);
    cr_assert_eq(count, 1);
    cr_expect_str_eq(owner->role, "parameter");
    cr_expect_str_eq(owner->dtype, "float32");
    cr_expect_str_eq(owner->shape, "4x4");
    cr_expect_eq(owner->bytes, 4000);
    cr_expect_eq(owner->share_bytes, 4 * KIB);
    cr_expect_null(vt_owners_of(run.attribution, made_at(&run, 40 * KIB, 0), &count));
    cr_expect_eq(count, 0);
    end(&run);
}

Test(names, of_several_models)
{
    struct run run = begin();
    for (uint64_t i = 0; i < 4; i++)
        block(&run, i * 8 * KIB, 4 * KIB, run.plain, 0);
    SAY(&run, "R\t0\t256\tNet\tgenerator\nR\t1\t512\tNet\tnets[1]\nR\t2\t1024\tNet\t\nR\t3\t2048\tNet\t\n");
    whole(&run, "parameter", 0, "0.weight", 0, 4 * KIB);
    whole(&run, "parameter", 1, "weight", 8 * KIB, 4 * KIB);
    whole(&run, "parameter", 2, "weight", 16 * KIB, 4 * KIB);
    whole(&run, "gradient", 3, "fc.weight", 24 * KIB, 4 * KIB);
    inspection(&run, 1);
    attribute(&run);
    expect_owner(&run, 0, "generator.0.weight", "generator.0", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 8 * KIB, "nets[1].weight", "nets[1]", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 16 * KIB, "Net#1.weight", "Net#1", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 24 * KIB, "Net#2.fc.weight · grad", "Net#2.fc", VT_CATEGORY_GRADIENT);
    end(&run);
}

/* All that goes with a tied parameter has both names; an inspection tells of its state by one. */
Test(names, of_tied_weights)
{
    struct run run = begin();
    for (uint64_t i = 0; i < 3; i++)
        block(&run, i * 8 * KIB, 4 * KIB, run.plain, 0);
    SAY(&run, "R\t0\t256\tGpt\tmodel\n");
    for (int i = 0; i < 2; i++) {
        whole(&run, "parameter", 0, i ? "head.weight" : "wte.weight", 0, 4 * KIB);
        whole(&run, "gradient", 0, i ? "head.weight" : "wte.weight", 8 * KIB, 4 * KIB);
    }
    whole(&run, "optimizer_state:exp_avg", 0, "wte.weight", 16 * KIB, 4 * KIB);
    inspection(&run, 1);
    attribute(&run);
    expect_owner(&run, 0, "wte.weight = head.weight", "wte", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 8 * KIB, "wte.weight = head.weight · grad", "wte", VT_CATEGORY_GRADIENT);
    expect_owner(&run, 16 * KIB, "wte.weight = head.weight · exp_avg", "wte", VT_CATEGORY_OPTIMIZER_STATE);
    cr_expect_eq(run.attribution->owner_count, 3);
    end(&run);
}

static void array(struct run *run, const char *path, uint64_t offset)
{
    SAY(run, "A\t\t-1\t%s\t%llu\t4096\t%llu\t4096\tfloat32\t32x32\t0\t\t\n", path,
        (unsigned long long)(SEGMENT + offset), (unsigned long long)(SEGMENT + offset));
}

/* A variable that had the same array as another one has an array of its own later. */
Test(names, of_arrays_are_those_of_the_moment)
{
    struct run run = begin();
    block(&run, 0, 4 * KIB, run.plain, 0);
    array(&run, "params['w']", 0);
    array(&run, "latest", 0);
    inspection(&run, 1);
    block(&run, 8 * KIB, 4 * KIB, run.plain, 0);
    array(&run, "params['w']", 0);
    array(&run, "latest", 8 * KIB);
    inspection(&run, 2);
    attribute(&run);
    cr_expect_str_eq(label_at(&run, 0, 0)->owner, "params['w']");
    cr_expect_str_eq(label_at(&run, 8 * KIB, 0)->owner, "latest");
    end(&run);
}

Test(names, of_tensors_that_share_a_block)
{
    struct run run = begin();
    size_t count;
    block(&run, 0, 64 * KIB, run.plain, 0);
    tensor(&run, "gradient", 0, "layers.1.bias", 8 * KIB, 2 * KIB, 0, 60 * KIB);
    tensor(&run, "gradient", 0, "layers.1.weight", 10 * KIB, 40 * KIB, 0, 60 * KIB);
    tensor(&run, "buffer", 0, "layers.0.seen", 0, 8 * KIB, 0, 60 * KIB);
    inspection(&run, 1);
    attribute(&run);
    const struct vt_owner *owners = vt_owners_of(run.attribution, made_at(&run, 0, 0), &count);
    cr_assert_eq(count, 3);
    cr_expect_str_eq(owners[0].name, "layers.0.seen");
    cr_expect_str_eq(owners[1].name, "layers.1.bias · grad");
    cr_expect_eq(owners[0].share_bytes, 8 * KIB);
    cr_expect_eq(owners[1].share_bytes, 2 * KIB);
    cr_expect_eq(owners[2].share_bytes, 54 * KIB, "what is left is the largest one's");
    expect_owner(&run, 0, "layers.0.seen, layers.1.bias · grad and 1 more", "layers", VT_CATEGORY_GRADIENT);
    cr_expect_eq(label_at(&run, 0, 0)->rounding_bytes, 4 * KIB);
    end(&run);
}

Test(names, are_not_given_to_what_does_not_fit)
{
    struct run run = begin();
    block(&run, 0, 4 * KIB, run.plain, 0);
    block(&run, 8 * KIB, 4 * KIB, run.plain, 0);
    block(&run, 16 * KIB, 4 * KIB, run.plain, 0);
    release(&run, 16 * KIB, 4 * KIB);
    whole(&run, "parameter", 0, "too.large", 0, 5 * KIB);
    whole(&run, "parameter", 0, "gone", 16 * KIB, 4 * KIB);
    whole(&run, "parameter", 0, "empty", 8 * KIB, 0);
    SAY(&run, "T\tparameter\t0\tother\t%llu\t8\t%llu\t8\tf\t2\t1\t\n",
        (unsigned long long)(SEGMENT + 8 * KIB),
        (unsigned long long)(SEGMENT + 8 * KIB)); /* of another device */
    inspection(&run, 1);
    block(&run, 16 * KIB, 4 * KIB, run.plain, 0); /* too late */
    attribute(&run);
    cr_expect_eq(run.attribution->owner_count, 0);
    cr_expect_eq(run.attribution->inspection_counts.tensors, 3);
    cr_expect_eq(run.attribution->inspection_counts.misplaced, 1);
    cr_expect_eq(run.attribution->inspection_counts.homeless, 2);
    end(&run);
}

/* Of two blocks in one place each has the name that was seen in it; of one block the latest inspection tells
 * what it is, and a name in a module is better than a variable's. A view of all elements may claim more bytes
 * than there are. */
Test(names, of_later_inspections)
{
    struct run run = begin();
    block(&run, 0, 4 * KIB, run.plain, 0);
    block(&run, 8 * KIB, 4 * KIB, run.plain, 0);
    whole(&run, "parameter", -1, "weight", 0, 4 * KIB);
    whole(&run, "buffer", 0, "frozen", 8 * KIB, 4 * KIB);
    inspection(&run, 1);
    whole(&run, "parameter", 0, "fc.weight", 0, 4 * KIB);
    whole(&run, "parameter", 0, "frozen", 8 * KIB, 4 * KIB);
    inspection(&run, 2);
    release(&run, 0, 4 * KIB);
    block(&run, 0, 4 * KIB, run.plain, 0);
    whole(&run, "parameter", -1, "optimizer.param_groups.0.params.3", 8 * KIB, 4 * KIB);
    tensor(&run, "buffer", 0, "expanded", 0, 1024 * KIB, 0, 4 * KIB);
    inspection(&run, 3);
    attribute(&run);
    expect_owner(&run, 0, "fc.weight", "fc", VT_CATEGORY_PARAMETER);
    expect_owner(&run, 8 * KIB, "frozen", "module", VT_CATEGORY_PARAMETER);
    cr_expect_str_eq(label_at(&run, 0, 1)->owner, "expanded");
    cr_expect_eq(vt_inspection_of(run.attribution, made_at(&run, 0, 1)), &run.trace->inspections[2]);
    end(&run);
}

/* Whatever a text says, blocks keep their bytes and no memory is touched that is not ours. */
Test(names, of_damaged_inspections)
{
    static const char junk[] = "\t\n\\-019T M:\xff";
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        struct run run = begin();
        for (uint64_t i = 0; i < 4; i++)
            block(&run, i * 8 * KIB, 4 * KIB, run.plain, 0);
        for (uint32_t id = 1; id < 4; id++) {
            SAY(&run, "R\t0\t256\tNet\tmodel\nM\t0\t256\tNet\t\nM\t0\t512\tLinear\tlayers.3\n");
            whole(&run, "parameter", 0, "layers.3.weight", 0, 4000);
            tensor(&run, "gradient", 0, "layers.3.weight", 9 * KIB, KIB, 8 * KIB, 3 * KIB);
            tensor(&run, "buffer", 1, "a", 8 * KIB, 2 * KIB, 8 * KIB, 3 * KIB);
            whole(&run, "optimizer_state:exp_avg", 0, "layers.3.weight", 16 * KIB, 4 * KIB);
            for (int flips = 0; flips < 4; flips++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                run.text[random % run.used] = junk[(random >> 32) % (sizeof junk - 1)];
            }
            inspection(&run, id);
        }
        attribute(&run);
        uint64_t shares = 0;
        for (size_t i = 0; i < run.attribution->owner_count; i++)
            shares += run.attribution->owners[i].share_bytes;
        cr_expect_eq(shares % (4 * KIB), 0);
        end(&run);
    }
}

/* ---- Modules ---- */

static uint32_t called(struct run *run, const uint64_t *selves, uint16_t count)
{
    struct vt_python_frame frames[8];
    for (uint16_t i = 0; i < count; i++)
        frames[i] = (struct vt_python_frame){.code_id = 2, .self_address = selves[i]};
    return builder_stack(run->builder, 1, NULL, 0, frames, count);
}

Test(modules, have_their_names_in_stacks)
{
    struct run run = begin();
    builder_code(run.builder, "/home/someone/net.py", "Block.forward", 1);
    uint32_t known = called(&run, (const uint64_t[]){512, 256}, 2);
    uint32_t child = called(&run, (const uint64_t[]){1024, 512, 256}, 3);
    uint32_t unknown = called(&run, (const uint64_t[]){2048}, 1);
    uint32_t root = called(&run, (const uint64_t[]){256}, 1);
    uint32_t stacks[] = {known, child, unknown, root};
    for (uint64_t i = 0; i < 4; i++)
        block(&run, i * 8 * KIB, 4 * KIB, stacks[i], 2 + 2 * i);
    SAY(&run, "R\t0\t256\tNet\tmodel\nM\t0\t256\tNet\t\nM\t0\t512\tBlock\tlayers.3\n");
    whole(&run, "parameter", 0, "w", 512 * KIB, 4 * KIB);
    inspection(&run, 1);
    block(&run, 64 * KIB, 4 * KIB, known, 20);
    SAY(&run, "R\t0\t256\tNet\tmodel\nM\t0\t256\tNet\t\nM\t0\t512\tOther\tlayers.4\n");
    inspection(&run, 2);
    block(&run, 72 * KIB, 4 * KIB, known, 22);
    attribute(&run);
    cr_expect_str_eq(label_at(&run, 0, 0)->module, "layers.3", "the first inspection after it");
    cr_expect_str_eq(label_at(&run, 8 * KIB, 0)->module, "layers.3 > Block");
    cr_expect_str_eq(label_at(&run, 16 * KIB, 0)->module, "Block#2");
    cr_expect_str_eq(label_at(&run, 24 * KIB, 0)->module, "model");
    cr_expect_str_eq(label_at(&run, 64 * KIB, 0)->module, "layers.3", "the last inspection before it");
    cr_expect_str_eq(label_at(&run, 72 * KIB, 0)->module, "layers.4", "another has its address");
    cr_expect_str_eq(vt_module_class(run.attribution, "layers.4"), "Other");
    cr_expect_str_eq(vt_module_class(run.attribution, "layers.3 > Block"), "Block");
    end(&run);
}

/* A model that is wrapped after a first inspection is one root, not two. */
Test(modules, may_be_wrapped_later)
{
    struct run run = begin();
    block(&run, 0, 4 * KIB, run.plain, 0);
    SAY(&run, "R\t0\t256\tNet\tmodel\nM\t0\t256\tNet\t\nM\t0\t512\tLinear\tfc\n");
    whole(&run, "parameter", 0, "fc.weight", 0, 4 * KIB);
    inspection(&run, 1);
    SAY(&run, "R\t1\t1024\tDistributedDataParallel\tmodel\nM\t1\t1024\tDistributedDataParallel\t\n");
    SAY(&run, "M\t1\t256\tNet\t\nM\t1\t512\tLinear\tfc\n");
    whole(&run, "parameter", 1, "fc.weight", 0, 4 * KIB);
    inspection(&run, 2);
    attribute(&run);
    expect_owner(&run, 0, "fc.weight", "fc", VT_CATEGORY_PARAMETER);
    cr_expect_eq(run.attribution->owner_count, 1);
    end(&run);
}

/* ---- Likeness ---- */

enum { MAIN = 1, ENGINE = 2 };

/* Training of two layers whose gradients have the same size. */
struct training {
    struct run run;
    uint32_t forward[2], loss, deep, backward, main_free;
    uint64_t node;
};

static struct training begin_training(void)
{
    struct training training = {.run = begin(), .node = 10};
    struct builder *b = training.run.builder;
    uint64_t natives[] = {0x1010, 0x1020, 0x1030, 0x1040};
    builder_symbol(b, natives[0], 0, "_ZN5torch8autograd9generated14AddmmBackward05applyEv");
    builder_symbol(b, natives[1], 0, "_ZN5torch8autograd6Engine17evaluate_functionEv");
    builder_symbol(b, natives[2], 0, "_ZN5torch8autograd6Engine11thread_mainEv");
    builder_symbol(b, natives[3], 0, "_ZN5torch8autograd6python8PyEngine11thread_initEv");
    builder_code(b, "/home/someone/net.py", "Layer.forward", 1);
    for (uint64_t i = 0; i < 2; i++)
        training.forward[i] = called(&training.run, (const uint64_t[]){512 * (i + 1), 256}, 2);
    struct vt_python_frame frame = {.code_id = 1, .instruction_offset = 30};
    training.loss = builder_stack(b, MAIN, NULL, 0, &frame, 1);
    training.deep = builder_stack(b, ENGINE, natives, 4, NULL, 0);
    training.backward = builder_stack(b, ENGINE, natives, 2, NULL, 0);
    training.main_free = builder_stack(b, MAIN, NULL, 0, NULL, 0);
    return training;
}

static void forward(struct training *training)
{
    for (uint64_t i = 0; i < 2; i++)
        block(&training->run, (100 + 8 * i) * KIB, 8 * KIB, training->forward[i], (training->node + i) * 2);
}

/* Gradients of layers at 200 KiB and on, in this order; `joined`: with the number of their forward's node. */
static void backward(struct training *training, uint32_t stack_id, const int *layers, int count, bool joined)
{
    struct run *run = &training->run;
    for (int i = 0; i < count; i++)
        block(run, (200 + 8 * (uint64_t)i) * KIB, 4 * KIB, stack_id,
              joined ? (training->node + (uint64_t)layers[i]) * 2 + 1 : 1);
    release(run, 100 * KIB, 8 * KIB);
    release(run, 108 * KIB, 8 * KIB);
    training->node += 10;
}

static void zero_gradients(struct training *training, int count)
{
    for (int i = 0; i < count; i++)
        release(&training->run, (200 + 8 * (uint64_t)i) * KIB, 4 * KIB);
}

static void expect_gradient(const struct training *training, int place, int pass, const char *owner)
{
    const struct vt_label *gradient = label_at(&training->run, (200 + 8 * (uint64_t)place) * KIB, pass);
    cr_expect_eq(gradient->category, VT_CATEGORY_GRADIENT);
    if (owner)
        cr_expect(gradient->owner && strcmp(gradient->owner, owner) == 0, "pass %d: %s, not %s", pass,
                  gradient->owner, owner);
    else
        cr_expect_null(gradient->owner, "pass %d: %s", pass, gradient->owner);
}

Test(repeats, of_gradients_to_those_that_a_inspection_saw)
{
    struct training training = begin_training();
    struct run *run = &training.run;
    const int backwards[] = {1, 0, 0}, forwards[] = {0, 1};
    block(run, 0, 4 * KIB, run->plain, 0);
    block(run, 8 * KIB, 4 * KIB, run->plain, 0);
    forward(&training);
    backward(&training, training.deep, backwards, 2, true);
    SAY(run, "R\t0\t256\tNet\tmodel\n");
    whole(run, "gradient", 0, "b.weight", 200 * KIB, 4 * KIB);
    whole(run, "gradient", 0, "a.weight", 208 * KIB, 4 * KIB);
    inspection(run, 1);
    zero_gradients(&training, 2);
    forward(&training);
    backward(&training, training.backward, forwards, 2, true);
    zero_gradients(&training, 2);
    forward(&training);
    backward(&training, training.backward, backwards, 2, false);
    zero_gradients(&training, 2);
    forward(&training);
    backward(&training, training.backward, backwards, 3, false);
    zero_gradients(&training, 3);
    forward(&training);
    backward(&training, training.backward, backwards, 2, true);
    attribute(run);
    expect_gradient(&training, 0, 0, "b.weight · grad");
    expect_gradient(&training, 1, 0, "a.weight · grad");
    expect_gradient(&training, 0, 1, "a.weight · grad");
    expect_gradient(&training, 1, 1, "b.weight · grad");
    expect_gradient(&training, 0, 2, "b.weight · grad");
    expect_gradient(&training, 1, 2, "a.weight · grad");
    expect_gradient(&training, 0, 3, NULL);
    expect_gradient(&training, 1, 3, NULL);
    expect_gradient(&training, 2, 0, NULL);
    expect_gradient(&training, 0, 4, "b.weight · grad");
    size_t count;
    const struct vt_owner *owner = vt_owners_of(run->attribution, made_at(run, 200 * KIB, 1), &count);
    cr_assert_eq(count, 1);
    cr_expect_eq(owner->evidence, VT_EVIDENCE_STRONG);
    cr_expect_eq(owner->allocation, made_at(run, 200 * KIB, 1));
    cr_expect_eq(label_at(run, 200 * KIB, 1)->evidence, VT_EVIDENCE_STRONG);
    cr_expect_null(vt_inspection_of(run->attribution, made_at(run, 200 * KIB, 1)));
    end(run);
}

/* Two gradients of one name cannot live at once: the second is something else. */
Test(repeats, gives_no_name_twice)
{
    struct training training = begin_training();
    struct run *run = &training.run;
    const int layer[] = {1};
    forward(&training);
    backward(&training, training.backward, layer, 1, true);
    whole(run, "gradient", 0, "b.weight", 200 * KIB, 4 * KIB);
    inspection(run, 1);
    forward(&training);
    block(run, 300 * KIB, 4 * KIB, training.backward, (training.node + 1) * 2 + 1);
    release(run, 100 * KIB, 8 * KIB);
    release(run, 108 * KIB, 8 * KIB);
    forward(&training);
    attribute(run);
    expect_gradient(&training, 0, 0, "b.weight · grad");
    cr_expect_null(label_at(run, 300 * KIB, 0)->owner);
    end(run);
}
