/* Groups of what is alive, by line, stack, module and kind; modules folded. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "attribute/attribute.h"
#include "report/explanations.h"
#include "view/text/text.h"

static struct vt_report *make(struct fake *fake, const char *at)
{
    const struct vt_report_options options = {.device_index = -1, .at = at};

    return fake_report(fake, &options, 0);
}

static const struct vt_group *find(const struct vt_groups *groups, const char *name)
{
    for (size_t i = 0; i < groups->count; i++)
        if (!strcmp(groups->items[i].name, name))
            return &groups->items[i];
    return NULL;
}

static struct vt_allocation *in_module(struct fake *fake, double seconds, uint8_t category, uint64_t bytes,
                                       const char *module)
{
    struct vt_allocation *allocation = fake_alloc(fake, seconds, VT_ALLOCATION_BLOCK, category, bytes);

    fake_label(fake, allocation)->module = module;
    return allocation;
}

Test(groups, sum_to_what_is_in_use_and_name_the_forward_line)
{
    struct fake *fake = fake_make(10);
    uint32_t line = fake_stack(fake, "/home/me/work/model.py", 141, "forward");
    struct vt_allocation *allocation;
    const struct vt_instant *end;
    struct vt_report *report;

    fake_alloc(fake, 1, VT_ALLOCATION_CONTEXT, VT_CATEGORY_CONTEXT, 300 * MIB);
    fake_alloc(fake, 1, VT_ALLOCATION_SEGMENT, 0, 100 * MIB);
    fake_span(fake, 1, VT_PHASE_FORWARD);
    allocation = fake_alloc(fake, 2, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 30 * MIB);
    allocation->stack_id = line;
    allocation->sequence = 2 * 7 + 2; /* node 7, forward */
    fake_label(fake, allocation)->module = "layers.0";
    fake_span(fake, 1, VT_PHASE_BACKWARD);
    allocation = fake_alloc(fake, 3, VT_ALLOCATION_BLOCK, VT_CATEGORY_GRADIENT, 20 * MIB);
    allocation->sequence = 2 * 7 + 3; /* node 7, backward: no Python frames of its own */
    fake_label(fake, allocation)->forward_stack_id = line;
    fake_label(fake, allocation)->owner = "layers.0.weight · grad";
    fake_label(fake, allocation)->evidence = VT_EVIDENCE_EXACT;
    allocation = fake_alloc(fake, 4, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 5 * MIB);
    fake_label(fake, allocation)->evidence = VT_EVIDENCE_WEAK;
    report = make(fake, NULL);
    end = &report->devices[0].end;
    for (int by = 0; by < VT_BY_COUNT; by++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < end->groups[by].count; i++) {
            sum += end->groups[by].items[i].bytes;
            cr_expect(!i || end->groups[by].items[i - 1].bytes >= end->groups[by].items[i].bytes);
        }
        cr_expect_eq(sum, 55 * MIB, "by %s", vt_by_name((enum vt_by)by));
    }
    cr_assert_eq(end->groups[VT_BY_LINE].count, 3);
    cr_expect_str_eq(end->groups[VT_BY_LINE].items[0].name, "model.py:141 forward");
    cr_expect_eq(end->groups[VT_BY_LINE].items[0].phase, VT_PHASE_FORWARD);
    cr_expect_str_eq(end->groups[VT_BY_LINE].items[1].name, "model.py:141 forward");
    cr_expect_eq(end->groups[VT_BY_LINE].items[1].phase, VT_PHASE_BACKWARD);
    cr_expect_eq(end->groups[VT_BY_LINE].items[1].categories[VT_CATEGORY_GRADIENT], 20 * MIB);
    cr_assert_not_null(find(&end->groups[VT_BY_OWNER], "layers.0.weight · grad"));
    cr_expect_eq(find(&end->groups[VT_BY_MODULE], "")->bytes, 25 * MIB);
    cr_expect_eq(end->evidence[VT_EVIDENCE_EXACT], 20 * MIB);
    cr_expect_eq(end->evidence[VT_EVIDENCE_STRONG], 30 * MIB);
    cr_expect_eq(end->evidence[VT_EVIDENCE_WEAK], 5 * MIB);
    cr_expect_eq(end->state.context_bytes, 300 * MIB);
    fake_free(fake);
}

Test(groups, nodes_are_told_apart_by_their_forward_operators)
{
    struct fake *fake = fake_make(10);
    uint32_t a = fake_stack(fake, "/home/me/work/a.py", 1, "f"),
             b = fake_stack(fake, "/home/me/work/a.py", 2, "f"), node;
    struct vt_allocation *allocation;
    const struct vt_groups *stacks;
    struct vt_report *report;

    node = fake_stack(fake, "", 0, "");
    fake->frame_counts[node] = 0;
    fake_frame(fake, node, VT_FRAME_NATIVE, "/x/libtorch_cpu.so", 0, "AddmmBackward0");
    for (uint32_t i = 0; i < 3; i++) {
        allocation = fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_TEMPORARY, (i + 1) * MIB);
        allocation->stack_id = node;
        fake_label(fake, allocation)->forward_stack_id = i == 0 ? a : i == 1 ? b : 0;
    }
    report = make(fake, NULL);
    stacks = &report->devices[0].end.groups[VT_BY_STACK];
    cr_assert_eq(stacks->count, 3);
    cr_expect_str_eq(stacks->items[0].name, "AddmmBackward0");
    cr_expect_str_eq(stacks->items[1].name, "AddmmBackward0, backward of a.py:2 f");
    cr_expect_eq(stacks->items[1].forward_stack_id, b);
    cr_expect_str_eq(stacks->items[2].name, "AddmmBackward0, backward of a.py:1 f");
    fake_free(fake);
}

Test(groups, what_no_module_can_hold_is_not_an_unknown_module)
{
    struct fake *fake = fake_make(10);
    uint32_t script = fake_stack(fake, "/home/me/work/a.py", 1, "f");
    const struct vt_group *none;
    struct vt_report *report;

    fake->stacks[script].python_count = 1;
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_OPTIMIZER_STATE, 10 * MIB)->stack_id = script;
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_INPUT, 4 * MIB)->stack_id = script;
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_TEMPORARY, 3 * MIB);
    in_module(fake, 1, VT_CATEGORY_ACTIVATION, 2 * MIB, "Linear");
    in_module(fake, 1, VT_CATEGORY_WORKSPACE, 8 * MIB, "Linear"); /* the first that needed one */
    report = make(fake, NULL);
    cr_expect_eq(find(&report->devices[0].end.groups[VT_BY_MODULE], "Linear")->bytes, 2 * MIB);
    none = find(&report->devices[0].end.groups[VT_BY_MODULE], "");
    cr_expect_eq(none->bytes, 25 * MIB);
    cr_expect_eq(none->outside[VT_CATEGORY_INPUT], 4 * MIB);
    fake_free(fake);
}

/* Two modules, of which the first has 3 then 4 MiB of temporaries at once, the second 5, but both never more
 * than 5. */
static struct fake *with_temporaries(void)
{
    struct fake *fake = fake_make(10);
    struct vt_allocation *a, *b, *c;

    fake_span(fake, 1, VT_PHASE_FORWARD);
    in_module(fake, 1, VT_CATEGORY_ACTIVATION, 7 * MIB, "Block#1 > Linear#1");
    a = in_module(fake, 1, VT_CATEGORY_TEMPORARY, 1 * MIB, "Block#1 > Linear#1");
    b = in_module(fake, 1, VT_CATEGORY_TEMPORARY, 2 * MIB, "Block#1 > Linear#1");
    fake_release(fake, 2, a);
    c = in_module(fake, 2, VT_CATEGORY_WORKSPACE, 2 * MIB, "Block#1 > Linear#1");
    fake_release(fake, 2, c);
    fake_release(fake, 2, b);
    a = in_module(fake, 3, VT_CATEGORY_TEMPORARY, 5 * MIB, "Block#1 > Linear#2");
    fake_release(fake, 3, a);
    in_module(fake, 4, VT_CATEGORY_WORKSPACE, 9 * MIB, "Block#1 > Linear#2"); /* kept: serves all */
    in_module(fake, 5, VT_CATEGORY_ACTIVATION, 1 * MIB, "Block#2 > Linear#1");
    return fake;
}

Test(groups, temporaries_of_modules_at_their_most)
{
    struct fake *fake = with_temporaries();
    struct vt_report *report = make(fake, NULL);
    const struct vt_groups *groups = report->devices[0].end.groups;
    const struct vt_group *linear;

    cr_expect_eq(find(&groups[VT_BY_MODULE], "Block#1 > Linear#1")->temporary_peak_bytes, 4 * MIB);
    cr_expect_eq(find(&groups[VT_BY_MODULE], "Block#1 > Linear#1")->bytes, 7 * MIB);
    cr_expect_str_eq(find(&groups[VT_BY_MODULE], "Block#1 > Linear#1")->class_name, "Linear");
    cr_expect_eq(find(&groups[VT_BY_MODULE], "Block#1 > Linear#2")->temporary_peak_bytes, 5 * MIB);
    cr_expect_eq(find(&groups[VT_BY_MODULE], "Block#1 > Linear#2")->bytes, 0);
    linear = find(&groups[VT_BY_KIND], "Linear");
    cr_assert_not_null(linear);
    cr_expect_eq(linear->temporary_peak_bytes, 5 * MIB, "never at the same time");
    cr_expect_eq(linear->bytes, 8 * MIB);
    cr_expect_eq(linear->modules, 2);
    fake_free(fake);
}

Test(groups, modules_have_their_shares_of_one_buffer)
{
    static const struct vt_owner owners[] = {
        {"a.0.weight", "parameter", "a.0", "float32", "", 3 * MIB, 3 * MIB, 0, VT_EVIDENCE_EXACT},
        {"a.1.weight", "parameter", "a.1", "float16", "2x2", 4 * MIB, 5 * MIB, 0, VT_EVIDENCE_STRONG}};
    struct fake *fake = fake_make(10);
    struct vt_report *report;
    const struct vt_groups *modules, *by_owner;

    in_module(fake, 1, VT_CATEGORY_PARAMETER, 8 * MIB, "a");
    in_module(fake, 2, VT_CATEGORY_ACTIVATION, 1 * MIB, "a");
    in_module(fake, 2, VT_CATEGORY_WORKSPACE, 2 * MIB, "a");
    fake->attribution.owners = owners;
    fake->attribution.owner_count = 2;
    report = make(fake, NULL);
    modules = &report->devices[0].end.groups[VT_BY_MODULE];
    by_owner = &report->devices[0].end.groups[VT_BY_OWNER];
    cr_assert_eq(by_owner->count, 4);
    cr_expect_eq(find(by_owner, "a.1.weight")->bytes, 5 * MIB);
    cr_expect_eq(find(by_owner, "a.1.weight")->tensor_bytes, 4 * MIB);
    cr_expect_eq(find(by_owner, "a.1.weight")->evidence, VT_EVIDENCE_STRONG);
    cr_expect_str_eq(find(by_owner, "a.1.weight")->dtype_shape, "float16 2x2");
    cr_expect_str_eq(find(by_owner, "a.0.weight")->dtype_shape, "float32");
    cr_expect_eq(find(by_owner, "a · activation")->bytes, 1 * MIB);
    cr_expect_eq(find(by_owner, "workspace")->bytes, 2 * MIB, "serves all modules");
    cr_expect_eq(find(modules, "a.0")->bytes, 3 * MIB);
    cr_expect_eq(find(modules, "a.1")->categories[VT_CATEGORY_PARAMETER], 5 * MIB);
    vt_explain(report, "a.1", &report->devices[0]);
    cr_expect_str_eq(report->devices[0].explanation.way, "module");
    cr_expect_eq(report->devices[0].explanation.blocks, 1);
    fake_free(fake);
}

Test(groups, modules_to_a_depth)
{
    struct fake *fake = with_temporaries();
    struct vt_report_options options = {.device_index = -1, .depth = 1};
    struct vt_report *report;
    const struct vt_groups *modules;

    report = fake_report(fake, &options, 0);
    modules = &report->devices[0].end.groups[VT_BY_MODULE];
    cr_assert_eq(modules->count, 3);
    cr_expect_eq(find(modules, "Block#1")->bytes, 7 * MIB);
    cr_expect_eq(find(modules, "Block#1")->temporary_peak_bytes, 5 * MIB);
    cr_expect_str_eq(find(modules, "Block#1")->class_name, "Block");
    cr_expect_eq(find(modules, "Block#2")->bytes, 1 * MIB);
    fake_free(fake);
}

Test(modules, of_different_classes_are_no_repetition)
{
    struct vt_group items[4] = {{.name = (char *)"features.0", .class_name = (char *)"Conv2d", .bytes = 8},
                                {.name = (char *)"features.1", .class_name = (char *)"ReLU", .bytes = 8},
                                {.name = (char *)"features.3", .class_name = (char *)"Conv2d", .bytes = 4},
                                {.name = (char *)"features.6", .class_name = (char *)"Conv2d"}};
    struct vt_groups groups = {items, 4};
    struct vt_module_families families;

    items[3].temporary_peak_bytes = 3;
    vt_fold_modules(&groups, &families);
    cr_assert_eq(families.count, 2);
    cr_expect_str_eq(families.items[0].name, "features.0,3", "what holds nothing is not one of them");
    cr_expect_eq(families.items[0].low_bytes, 4);
    cr_expect_eq(families.items[0].high_bytes, 8);
    cr_expect_eq(families.items[0].temporary_peak_bytes, 3);
    cr_expect_str_eq(families.items[1].name, "features.1");
    vt_module_families_free(&families);
}

Test(groups, stacks_are_told_apart_by_lines_not_by_ids)
{
    struct fake *fake = fake_make(10);
    uint32_t a = fake_stack(fake, "/home/me/work/a.py", 1, "f"),
             b = fake_stack(fake, "/home/me/work/a.py", 1, "f");
    uint32_t c = fake_stack(fake, "/home/me/work/a.py", 2, "f");
    struct vt_report *report;

    fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, MIB)->stack_id = a;
    fake_alloc(fake, 2, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, MIB)->stack_id = b;
    fake_alloc(fake, 3, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, MIB)->stack_id = c;
    report = make(fake, NULL);
    cr_assert_eq(report->devices[0].end.groups[VT_BY_STACK].count, 2);
    cr_expect_eq(report->devices[0].end.groups[VT_BY_STACK].items[0].blocks, 2);
    fake_free(fake);
}

Test(groups, many_names)
{
    struct fake *fake = fake_make(10);
    static char names[3000][24];
    struct vt_report *report;

    for (int i = 0; i < 3000; i++) {
        snprintf(names[i], sizeof names[i], "owner%d", i);
        fake_label(fake, fake_alloc(fake, 1, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, (uint64_t)i + 1))
            ->owner = names[i];
    }
    report = make(fake, NULL);
    cr_assert_eq(report->devices[0].end.groups[VT_BY_OWNER].count, 3000);
    cr_expect_str_eq(report->devices[0].end.groups[VT_BY_OWNER].items[0].name, "owner2999");
    fake_free(fake);
}

Test(modules, fold_by_their_numbers)
{
    static char *const names[] = {"layers.0.mlp",
                                  "layers.1.mlp",
                                  "layers.2.mlp",
                                  "layers.0.moe.experts.5",
                                  "layers.9.moe.experts.6",
                                  "head",
                                  ""};
    struct vt_group items[7] = {0};
    struct vt_groups groups = {items, 7};
    struct vt_module_families families;

    for (int i = 0; i < 7; i++)
        items[i] = (struct vt_group){.name = names[i], .bytes = i < 3 ? 100 : 10u + (uint64_t)i};
    vt_fold_modules(&groups, &families);
    cr_assert_eq(families.count, 3, "the unnamed one is not a module");
    cr_expect_str_eq(families.items[0].name, "layers.0–2.mlp");
    cr_expect_eq(families.items[0].members, 3);
    cr_expect(families.items[0].same);
    cr_expect_str_eq(families.items[1].name, "layers.0,9.moe.experts.5–6");
    cr_expect_not(families.items[1].same);
    cr_expect_str_eq(families.items[2].name, "head");
    vt_module_families_free(&families);
}

Test(modules, fold_classes_but_not_roles)
{
    static const struct {
        char *name;
        uint64_t bytes;
    } modules[] = {{"Encoder > Layer#1", 7},
                   {"Encoder > Layer#2", 6},
                   {"Encoder > Layer#1 > Linear#1", 400},
                   {"Encoder > Layer#2 > Linear#1", 400},
                   {"Encoder > Layer#1 > Linear#2", 100},
                   {"Encoder > Layer#2 > Linear#2", 100},
                   {"Encoder > Layer#1 > Norm#1", 20},
                   {"Encoder > Layer#2 > Norm#1", 20},
                   {"Encoder > Layer#1 > Norm#2", 20},
                   {"Encoder > Layer#2 > Norm#2", 20},
                   {"Linear#1", 2},
                   {"Linear#3", 2}};
    static const struct {
        const char *name;
        uint64_t bytes, members;
        bool same;
    } expected[] = {{"Encoder > Layer#1–2 > Linear#1", 800, 2, true},
                    {"Encoder > Layer#1–2 > Linear#2", 200, 2, true},
                    {"Encoder > Layer#1–2 > Norm#1–2", 80, 4, true},
                    {"Encoder > Layer#1–2", 13, 2, false},
                    {"Linear#1,3", 4, 2, true}};
    struct vt_group items[12] = {0};
    struct vt_groups groups = {items, 12};
    struct vt_module_families families;

    for (int i = 0; i < 12; i++)
        items[i] = (struct vt_group){.name = modules[i].name,
                                     .bytes = modules[i].bytes,
                                     .categories[VT_CATEGORY_ACTIVATION] = i == 1 ? 0 : modules[i].bytes};
    vt_fold_modules(&groups, &families);
    cr_assert_eq(families.count, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_str_eq(families.items[i].name, expected[i].name);
        cr_expect_eq(families.items[i].bytes, expected[i].bytes);
        cr_expect_eq(families.items[i].members, expected[i].members);
        cr_expect_eq(families.items[i].same, expected[i].same);
    }
    vt_module_families_free(&families);
    vt_fold_places(&groups, VT_CATEGORY_ACTIVATION, &families);
    cr_expect_str_eq(families.items[0].name, "Encoder");
    cr_expect_eq(families.items[0].bytes, 1087);
    cr_expect_eq(families.items[0].members, 1);
    cr_expect_str_eq(families.items[1].name, "Encoder > Layer#1–2");
    cr_expect_eq(families.items[1].bytes, 1087);
    cr_expect_str_eq(families.items[2].name, "Encoder > Layer#1–2 > Linear#1–2");
    cr_expect_eq(families.items[2].members, 4);
    vt_module_families_free(&families);
}
