/* Makes traces of a wanted size, to see how the analyzer's time grows: grow SHAPE EVENTS OUT.
 *
 * They are made up, and each is the worst case of one part of the analyzer. Stacks look like PyTorch's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chain.h"
#include "trace_builder.h"

#define SEGMENT UINT64_C(0x7f0000000000)
#define SEGMENT_BYTES (UINT64_C(1) << 40)
#define BLOCK 4096u

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "grow.c:%d: %s\n", __LINE__, #condition);                                        \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { MAIN = 100, ENGINE = 200 };

struct run {
    struct builder *builder;
    uint64_t wanted, events;
    uint32_t main_code, call_code, layer_code, net_code, evaluate_code, step_code, apply_code;
    uint32_t parameter, input, forward[2], evaluate, loss, loss_gradient, backward, gradient, state,
        main_free, engine_free;
    uint64_t addmm;
    uint64_t next_address, t_ns, node, allocated;
    uint32_t random, inspection, codes;
};

static void put_event(struct run *run, struct vt_event event)
{
    /* real clocks are no two times the same */
    run->random = run->random * 1664525u + 1013904223u;
    run->t_ns += 500 + run->random % 1000;
    event.t_ns = run->t_ns;
    builder_event(run->builder, event);
    run->events++;
}

static uint64_t alloc(struct run *run, uint32_t stack_id, uint64_t bytes, uint64_t sequence)
{
    uint64_t address = run->next_address;
    run->next_address += (bytes + 511) / 512 * 512;
    REQUIRE(run->next_address < SEGMENT + SEGMENT_BYTES);
    run->allocated += bytes;
    put_event(run, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                     .layer = VT_LAYER_FRAMEWORK,
                                     .address = address,
                                     .bytes = bytes,
                                     .detail = 1,
                                     .total_bytes = run->allocated,
                                     .sequence = sequence,
                                     .stack_id = stack_id});
    return address;
}

static void release(struct run *run, uint32_t stack_id, uint64_t address, uint64_t bytes)
{
    run->allocated -= bytes;
    put_event(run, (struct vt_event){.kind = VT_EVENT_FREE,
                                     .layer = VT_LAYER_FRAMEWORK,
                                     .address = address,
                                     .bytes = bytes,
                                     .detail = 1,
                                     .total_bytes = run->allocated,
                                     .stack_id = stack_id});
}

static uint32_t stack(struct run *run, const uint64_t *native, uint16_t native_count,
                      const struct vt_python_frame *frames, uint16_t count)
{
    return builder_stack(run->builder, MAIN, native, native_count, frames, count);
}
#define FRAMES(...)                                                                                          \
    (const struct vt_python_frame[]){__VA_ARGS__},                                                           \
        sizeof((const struct vt_python_frame[]){__VA_ARGS__}) / sizeof(struct vt_python_frame)

static uint64_t symbol(struct run *run, uint64_t address, const char *linkage_name)
{
    builder_symbol(run->builder, address, 0, linkage_name);
    return address;
}

static void begin(struct run *run)
{
    struct builder *b = run->builder = builder_new(64);
    static const char *const words[] = {"python", "train.py", "/home/someone", "/usr/bin/python3"};
    run->t_ns = builder_header(b)->start_monotonic_ns;
    run->next_address = SEGMENT;
    run->node = 1;
    builder_process(b, words, 2, 4);
    builder_device(b, 0, UINT64_C(1) << 41, "A GPU");
    run->main_code = builder_code(b, "/home/someone/train.py", "main", 1);
    run->apply_code = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._apply", 1);
    run->call_code = builder_code(b, "/x/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1);
    run->layer_code = builder_code(b, "/x/site-packages/torch/nn/modules/linear.py", "Linear.forward", 1);
    run->net_code = builder_code(b, "/home/someone/train.py", "Net.forward", 1);
    uint32_t grads = builder_code(b, "/x/site-packages/torch/autograd/__init__.py", "_make_grads", 1);
    run->step_code = builder_code(b, "/x/site-packages/torch/optim/adam.py", "Adam.step", 1);
    run->evaluate_code = builder_code(b, "/home/someone/train.py", "evaluate", 1);
    run->codes = run->evaluate_code;
    uint64_t to = symbol(run, 0x1010, "_ZN2at4_ops15to_dtype_layout4callEv");
    run->addmm = symbol(run, 0x1020, "_ZN2at4_ops5addmm4callEv");
    uint64_t both[] = {symbol(run, 0x1030, "_ZN5torch8autograd9generated14AddmmBackward05applyEv"),
                       symbol(run, 0x1040, "_ZN5torch8autograd6Engine11thread_mainEv")};
    uint64_t addmm = run->addmm;
    run->parameter = stack(run, &to, 1, FRAMES({run->apply_code, 100, 0}, {run->main_code, 2, 0}));
    run->input = stack(run, &to, 1, FRAMES({run->main_code, 4, 0}));
    for (uint64_t i = 0; i < 2; i++)
        run->forward[i] = stack(run, &addmm, 1,
                                FRAMES({run->layer_code, 2, 0xa00 + i}, {run->call_code, 6, 0xa00 + i},
                                       {run->net_code, (int32_t)i * 2, 0x900}, {run->call_code, 6, 0x900},
                                       {run->main_code, 6, 0}));
    run->evaluate =
        stack(run, &addmm, 1,
              FRAMES({run->layer_code, 2, 0xa00}, {run->call_code, 6, 0xa00}, {run->net_code, 0, 0x900},
                     {run->call_code, 6, 0x900}, {run->main_code, 30, 0}));
    run->loss = stack(run, &addmm, 1, FRAMES({run->main_code, 8, 0}));
    run->loss_gradient = stack(run, &addmm, 1, FRAMES({grads, 2, 0}, {run->main_code, 10, 0}));
    run->backward = builder_stack(b, ENGINE, both, 2, NULL, 0);
    run->gradient = builder_stack(b, ENGINE, both, 2, NULL, 0);
    run->engine_free = builder_stack(b, ENGINE, NULL, 0, NULL, 0);
    run->state = stack(run, &addmm, 1, FRAMES({run->step_code, 2, 0xb00}, {run->main_code, 12, 0}));
    run->main_free = builder_stack(b, MAIN, NULL, 0, NULL, 0);
    put_event(run, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                     .layer = VT_LAYER_DRIVER,
                                     .address = SEGMENT,
                                     .bytes = SEGMENT_BYTES});
    alloc(run, run->parameter, BLOCK, 0);
}

/* A line of the script's own. */
static uint32_t new_code(struct run *run, const char *format, uint32_t number)
{
    char name[64];
    snprintf(name, sizeof name, format, number);
    run->codes++;
    return builder_code(run->builder, "/home/someone/train.py", name, (int32_t)number + 1);
}

/* ---- Parts of a step ---- */

static void forward(struct run *run, uint64_t activations[2])
{
    release(run, run->main_free, alloc(run, run->input, BLOCK, run->node * 2), BLOCK);
    for (int i = 0; i < 2; i++)
        activations[i] = alloc(run, run->forward[i], BLOCK, run->node++ * 2 + 2);
}

/* Leaves one gradient. */
static uint64_t backward(struct run *run, const uint64_t activations[2])
{
    uint64_t root = alloc(run, run->loss_gradient, 512, run->node * 2);
    for (int i = 1; i >= 0; i--) {
        uint64_t node = run->node - 2 + (uint64_t)i;
        release(run, run->engine_free, alloc(run, run->backward, 2 * BLOCK, node * 2 + 3), 2 * BLOCK);
        release(run, run->engine_free, activations[i], BLOCK);
    }
    uint64_t gradient = alloc(run, run->gradient, BLOCK, (run->node - 2) * 2 + 3);
    release(run, run->main_free, root, 512);
    return gradient;
}

static void optimize(struct run *run)
{
    release(run, run->main_free, alloc(run, run->state, BLOCK, run->node * 2), BLOCK);
}

static void train_step(struct run *run)
{
    uint64_t activations[2];
    forward(run, activations);
    uint64_t gradient = backward(run, activations);
    optimize(run);
    release(run, run->main_free, gradient, BLOCK);
}

/* ---- Shapes ---- */

/* Ordinary training, with an evaluation after each step. */
static void evaluations(struct run *run)
{
    while (run->events < run->wanted) {
        train_step(run);
        release(run, run->main_free, alloc(run, run->input, BLOCK, run->node * 2), BLOCK);
        for (int i = 0; i < 8; i++)
            release(run, run->main_free, alloc(run, run->evaluate, BLOCK, run->node * 2), BLOCK);
    }
}

/* One forward that never ends, of operators with nodes; a few are without, at its start. */
static void forwards(struct run *run)
{
    train_step(run);
    release(run, run->main_free, alloc(run, run->forward[1], BLOCK, run->node * 2), BLOCK);
    while (run->events < run->wanted)
        release(run, run->main_free, alloc(run, run->forward[1], BLOCK, run->node++ * 2 + 2), BLOCK);
}

/* Backward passes of a single step: gradients are added up and never used. */
static void passes(struct run *run)
{
    uint64_t activations[2];
    train_step(run);
    train_step(run);
    forward(run, activations);
    backward(run, activations);
    while (run->events < run->wanted) {
        alloc(run, run->loss, BLOCK, run->node * 2);
        forward(run, activations);
        release(run, run->engine_free, backward(run, activations), BLOCK);
    }
}

/* Very many gradients of the first pass, which live through all steps. */
static void gradients(struct run *run)
{
    uint64_t activations[2];
    forward(run, activations);
    for (uint64_t i = 0; i < run->wanted / 2; i++)
        alloc(run, run->gradient, BLOCK + 512 * (i % 1000), run->node * 2 - 1);
    backward(run, activations);
    while (run->events < run->wanted) {
        optimize(run);
        forward(run, activations);
        release(run, run->engine_free, backward(run, activations), BLOCK);
    }
}

/* Each pass makes one more gradient and none goes. */
static void gradients_kept(struct run *run)
{
    uint64_t activations[2];
    while (run->events < run->wanted) {
        forward(run, activations);
        backward(run, activations);
        optimize(run);
    }
}

/* Leaks that each began in a step of their own, and grow five times each up to the end. */
static void groups(struct run *run)
{
    uint32_t count = (uint32_t)(run->wanted / 32), steps = count * 2 + 40, last = steps - 3;
    uint32_t *next_of = calloc(count, sizeof *next_of), *stacks = calloc(count, sizeof *stacks);
    uint32_t *first_at = malloc((steps + 1) * sizeof *first_at);
    uint8_t *born = calloc(count, 1);
    REQUIRE(next_of && stacks && first_at && born);
    memset(first_at, 0xff, (steps + 1) * sizeof *first_at);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t code = new_code(run, "leak_%u", k);
        stacks[k] = stack(run, &run->addmm, 1, FRAMES({code, 2, 0}, {run->main_code, 40, 0}));
        uint32_t first = 2 + k;
        next_of[k] = first_at[first];
        first_at[first] = k;
    }
    for (uint32_t step = 1; step <= steps; step++) {
        for (uint32_t k = first_at[step], next; k != UINT32_MAX; k = next) {
            uint32_t first = 2 + k;
            next = next_of[k];
            alloc(run, stacks[k], BLOCK + 512 * (k % 64), run->node * 2);
            if (++born[k] > 4)
                continue;
            uint32_t then = first + (uint32_t)((uint64_t)(last - first) * born[k] / 4);
            next_of[k] = first_at[then];
            first_at[then] = k;
        }
        train_step(run);
    }
    free(next_of);
    free(stacks);
    free(first_at);
    free(born);
}

/* Text of looks; a record holds no more than 4 MiB. */
#define PART_BYTES ((size_t)1 << 20)

struct text {
    char *data;
    size_t bytes, capacity;
    uint32_t part;
};

static void put_inspection(struct run *run, struct text *text)
{
    uint32_t parts = (uint32_t)(text->bytes / PART_BYTES + 1);
    char *part = malloc(PART_BYTES + 1);
    REQUIRE(part);
    run->inspection++;
    for (uint32_t i = 0; i < parts; i++) {
        size_t left = text->bytes - (size_t)i * PART_BYTES, bytes = left < PART_BYTES ? left : PART_BYTES;
        memcpy(part, text->data + (size_t)i * PART_BYTES, bytes);
        part[bytes] = '\0';
        builder_inspection_part(run->builder, run->inspection, i, parts, part);
        builder_end_chunk(run->builder);
    }
    free(part);
    put_event(run,
              (struct vt_event){.kind = VT_EVENT_INSPECTION, .detail = run->inspection, .device_index = -1});
    text->bytes = 0;
}

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    __builtin_va_list arguments;
    if (text->capacity - text->bytes < 1024) {
        text->capacity = text->capacity * 2 + 4096;
        text->data = realloc(text->data, text->capacity);
        REQUIRE(text->data);
    }
    __builtin_va_start(arguments, format);
    text->bytes += (size_t)vsnprintf(text->data + text->bytes, 1024, format, arguments);
    __builtin_va_end(arguments);
}

/* Blocks that are kept, of several leaks, and looks that tell a holder for each and graphs that hold all. */
static void holders(struct run *run)
{
    enum { LEAKS = 40, PER_STEP = 40, LOOKS = 4 };
    uint32_t stacks[LEAKS], steps = (uint32_t)(run->wanted / (2 * PER_STEP + 20)) + 8;
    size_t count = 0;
    uint64_t *kept = calloc((size_t)steps * PER_STEP, sizeof *kept), first_node = run->node;
    struct text text = {0};
    REQUIRE(kept);
    for (uint32_t i = 0; i < LEAKS; i++) {
        uint32_t code = new_code(run, "kept_%u", i);
        stacks[i] = stack(run, &run->addmm, 1,
                          FRAMES({code, 2, 0xa00}, {run->call_code, 6, 0xa00}, {run->main_code, 50, 0}));
    }
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < PER_STEP; i++) {
            kept[count++] = alloc(run, stacks[i % LEAKS], BLOCK, run->node++ * 2 + 2);
            put_event(run, (struct vt_event){.kind = VT_EVENT_NODE,
                                             .sequence = run->node++ * 2 + 2,
                                             .stack_id = stacks[i % LEAKS]});
        }
        train_step(run);
        if (step % (steps / LOOKS + 1) == steps / LOOKS)
            for (size_t i = count / 2; i < count; i++)
                say(&text,
                    "H\tlocal\tlist 'kept_%zu' in main(), %zu "
                    "items\tkept\t%llu\t%u\t%llu\t%u\tfloat32\t1024\t0\tX\t%llu-%llu\n",
                    i / 7, i, (unsigned long long)kept[i], BLOCK, (unsigned long long)kept[i], BLOCK,
                    (unsigned long long)first_node, (unsigned long long)(first_node + i));
        if (text.bytes)
            put_inspection(run, &text);
    }
    for (size_t i = 0; i < count; i++)
        say(&text,
            "H\tlocal\tlist 'kept_%zu' in main(), %zu "
            "items\tkept\t%llu\t%u\t%llu\t%u\tfloat32\t1024\t0\tX\t%llu-%llu\n",
            i / 7, i, (unsigned long long)kept[i], BLOCK, (unsigned long long)kept[i], BLOCK,
            (unsigned long long)first_node, (unsigned long long)(first_node + i));
    put_inspection(run, &text);
    train_step(run);
    train_step(run);
    free(kept);
    free(text.data);
}

/* Many modules of as many classes, and many tensors with names. */
static void names(struct run *run)
{
    uint32_t count = (uint32_t)(run->wanted / 16);
    struct text text = {0};
    say(&text, "R\t0\t%u\tNet\tmodel\nM\t0\t%u\tNet\t\n", 0x900, 0x900);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address = alloc(run, run->parameter, BLOCK, 0);
        say(&text, "M\t0\t%u\tLinear\tlayers.%u\n", 0x100000 + i * 16, i);
        say(&text, "T\tparameter\t0\tlayers.%u.weight\t%llu\t%u\t%llu\t%u\tfloat32\t1024\t0\t\n", i,
            (unsigned long long)address, BLOCK, (unsigned long long)address, BLOCK);
    }
    put_inspection(run, &text);
    while (run->events < run->wanted)
        train_step(run);
    free(text.data);
}

/* As many modules, each of a class of its own and beside the others, that no look saw. */
static void modules(struct run *run)
{
    uint32_t count = (uint32_t)(run->wanted / 16), at = 0;
    uint32_t *stacks = calloc(count, sizeof *stacks);
    REQUIRE(stacks);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t self = 0x100000 + i * 16;
        uint32_t code = i % 2 ? run->layer_code : new_code(run, "Layer%u.forward", i);
        stacks[i] = stack(run, &run->addmm, 1,
                          FRAMES({code, 2, self}, {run->call_code, 6, self}, {run->net_code, 2, 0x900},
                                 {run->call_code, 6, 0x900}, {run->main_code, 6, 0}));
    }
    uint64_t *held = calloc(count, sizeof *held);
    REQUIRE(held);
    while (run->events < run->wanted) {
        uint64_t node = run->node;
        for (at = 0; at < count; at++)
            held[at] = alloc(run, stacks[at], BLOCK + 512 * (at % 100), run->node++ * 2 + 2);
        alloc(run, run->loss_gradient, 512, run->node * 2);
        for (at = count; at-- > 0;) {
            release(run, run->engine_free, alloc(run, run->backward, BLOCK, (node + at) * 2 + 3), BLOCK);
            release(run, run->engine_free, held[at], BLOCK + 512 * (at % 100));
        }
        optimize(run);
    }
    free(stacks);
    free(held);
}

/* Each block is of a line of its own, and stays; every second segment has one. */
static void stacks(struct run *run)
{
    uint32_t count = (uint32_t)(run->wanted / 8);
    train_step(run);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t code = new_code(run, "line_%u", i);
        uint32_t own = stack(run, &run->addmm, 1, FRAMES({code, 2, 0}, {run->main_code, 70, 0}));
        uint64_t segment = SEGMENT + SEGMENT_BYTES + (UINT64_C(1) << 22) * i;
        put_event(run, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                         .layer = VT_LAYER_DRIVER,
                                         .address = segment,
                                         .bytes = 1 << 21,
                                         .stack_id = own});
        run->allocated += BLOCK;
        put_event(run, (struct vt_event){.kind = VT_EVENT_ALLOC,
                                         .layer = VT_LAYER_FRAMEWORK,
                                         .address = segment,
                                         .bytes = BLOCK,
                                         .detail = 1,
                                         .total_bytes = run->allocated,
                                         .stack_id = own});
    }
    while (run->events < run->wanted)
        train_step(run);
}

/* Memory runs out in backward, over and over. */
static void refusals(struct run *run)
{
    uint64_t activations[2];
    while (run->events < run->wanted / 2) {
        forward(run, activations);
        alloc(run, run->loss_gradient, 512, run->node * 2);
        put_event(run, (struct vt_event){.kind = VT_EVENT_OOM,
                                         .layer = VT_LAYER_FRAMEWORK,
                                         .bytes = UINT64_C(1) << 42,
                                         .sequence = (run->node - 1) * 2 + 3,
                                         .stack_id = run->backward});
        release(run, run->main_free, activations[0], BLOCK);
        release(run, run->main_free, activations[1], BLOCK);
    }
    while (run->events < run->wanted)
        put_event(run, (struct vt_event){.kind = VT_EVENT_OOM,
                                         .layer = VT_LAYER_FRAMEWORK,
                                         .bytes = UINT64_C(1) << 42,
                                         .sequence = run->node * 2 + 2,
                                         .stack_id = run->forward[0]});
}

/* Modules are made anew, of two kinds that take turns at one address, with an inspection at each. */
static void addresses(struct run *run)
{
    struct text text = {0};
    for (uint32_t i = 0; run->events < run->wanted; i++) {
        say(&text, "R\t%u\t%u\tNet\tmodel\nM\t%u\t%u\tNet\t\nM\t%u\t%u\tLinear\tlayer_%u\n", i % 2, 0x900,
            i % 2, 0x900, i % 2, 0xa00, i % 2);
        put_inspection(run, &text);
        train_step(run);
    }
    free(text.data);
}

/* Each step has another flat gradient, in which many named ones lie; an inspection saw the first few. */
static void views(struct run *run)
{
    uint32_t count = (uint32_t)(run->wanted / 256) + 2;
    struct text text = {0};
    uint64_t activations[2];
    for (uint32_t step = 0; run->events < run->wanted; step++) {
        forward(run, activations);
        backward(run, activations);
        uint64_t flat = alloc(run, run->gradient, (uint64_t)512 * count, (run->node - 2) * 2 + 3);
        optimize(run);
        if (step < 2) {
            say(&text, "R\t0\t%u\tNet\tmodel\nM\t0\t%u\tNet\t\n", 0x900, 0x900);
            for (uint32_t i = 0; i < count; i++)
                say(&text, "T\tgradient\t0\tweight_%u\t%llu\t512\t%llu\t%u\tfloat32\t128\t0\t\n", i,
                    (unsigned long long)flat + 512 * i, (unsigned long long)flat, 512 * count);
            put_inspection(run, &text);
        }
        release(run, run->main_free, flat, (uint64_t)512 * count);
    }
    free(text.data);
}

/* Single frees, with marks between them, after which nothing is made for long. */
static void frees(struct run *run)
{
    size_t count = run->wanted / 4;
    uint64_t *kept = calloc(count, sizeof *kept), mark = builder_string(run->builder, "mark");
    REQUIRE(kept);
    for (int i = 0; i < 8; i++)
        train_step(run);
    for (size_t i = 0; i < count; i++)
        kept[i] = alloc(run, run->loss, BLOCK, run->node * 2);
    train_step(run);
    for (size_t i = 0; i + 1 < count; i += 2) {
        release(run, run->main_free, kept[i], BLOCK);
        release(run, run->main_free, kept[i + 1], BLOCK);
        put_event(run, (struct vt_event){.kind = VT_EVENT_MARK, .detail = mark, .device_index = -1});
    }
    for (int i = 0; i < 8; i++)
        train_step(run);
    free(kept);
}

static const struct {
    const char *name;
    void (*make)(struct run *run);
} shapes[] = {{"evaluations", evaluations},
              {"forwards", forwards},
              {"passes", passes},
              {"gradients", gradients},
              {"gradients_kept", gradients_kept},
              {"groups", groups},
              {"holders", holders},
              {"names", names},
              {"modules", modules},
              {"stacks", stacks},
              {"refusals", refusals},
              {"addresses", addresses},
              {"views", views},
              {"frees", frees}};

int main(int argc, char **argv)
{
    struct run run = {0};
    size_t bytes, shape = 0;
    if (argc < 4) {
        fprintf(stderr, "grow SHAPE EVENTS OUT; shapes:");
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            fprintf(stderr, " %s", shapes[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    run.wanted = strtoull(argv[2], NULL, 10);
    while (shape < sizeof shapes / sizeof *shapes && strcmp(shapes[shape].name, argv[1]))
        shape++;
    REQUIRE(shape < sizeof shapes / sizeof *shapes);
    begin(&run);
    shapes[shape].make(&run);
    builder_header(run.builder)->end_monotonic_ns = run.t_ns;
    const uint8_t *image = builder_image(run.builder, &bytes);
    FILE *out = fopen(argv[3], "wb");
    REQUIRE(out && fwrite(image, 1, bytes, out) == bytes && !fclose(out));
    printf("%llu\n", (unsigned long long)run.events);
    builder_free(run.builder);
    return 0;
}
