/* Matching two instants by names. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "findings/diff.h"
#include "trace/trace.h"

/* One side: a device with groups of one kind. */
struct side {
    struct vt_trace trace;
    struct vt_device_report device;
    struct vt_report report;
    struct vt_group groups[64];
    struct vt_place places[64];
};

static struct side *make_side(enum vt_by by)
{
    struct side *side = calloc(1, sizeof *side);

    side->report = (struct vt_report){.trace = &side->trace, .devices = &side->device, .device_count = 1};
    side->device.peak.state.present = true;
    side->device.shown = &side->device.peak;
    side->device.peak.groups[by].items = side->groups;
    return side;
}

static struct vt_group *add(struct side *side, enum vt_by by, const char *name, enum vt_category category,
                            uint64_t bytes)
{
    struct vt_group *group = &side->groups[side->device.peak.groups[by].count++];

    group->name = (char *)(uintptr_t)name;
    group->bytes = group->categories[category] = bytes;
    group->blocks = 1;
    return group;
}

static void add_line(struct side *side, const char *file, const char *function, int32_t line,
                     enum vt_phase phase, enum vt_category category, uint64_t bytes)
{
    struct vt_group *group = add(side, VT_BY_LINE, file, category, bytes);
    struct vt_place *place = &side->places[group - side->groups];

    place->frame = (struct vt_frame){.file = file, .function = function, .line = line};
    group->place = place;
    group->phase = (uint8_t)phase;
}

static const struct vt_diff_rows *compare(struct side *a, struct side *b, enum vt_by by,
                                          struct vt_diff **diff)
{
    *diff = vt_diff_make(&a->report, &b->report, 1u << by);
    cr_assert_eq((*diff)->device_count, 1);
    return &(*diff)->devices[0].rows[by];
}

static void finish(struct side *a, struct side *b, struct vt_diff *diff)
{
    vt_diff_free(diff);
    free(a);
    free(b);
}

static const struct vt_diff_row *row_of(const struct vt_diff_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->items[i].name, name))
            return &rows->items[i];
    cr_assert_fail("no row %s", name);
    return NULL;
}

Test(diff, names_on_both_sides_are_compared_and_the_largest_change_comes_first)
{
    struct side *a = make_side(VT_BY_OP), *b = make_side(VT_BY_OP);
    const struct vt_diff_rows *rows;
    struct vt_diff *diff;

    add(a, VT_BY_OP, "same", VT_CATEGORY_ACTIVATION, 700);
    add(a, VT_BY_OP, "grows", VT_CATEGORY_ACTIVATION, 100);
    add(a, VT_BY_OP, "shrinks", VT_CATEGORY_ACTIVATION, 100);
    add(a, VT_BY_OP, "goes", VT_CATEGORY_ACTIVATION, 60);
    add(a, VT_BY_OP, "turns", VT_CATEGORY_TEMPORARY, 5);
    add(b, VT_BY_OP, "turns", VT_CATEGORY_ACTIVATION, 5);
    add(b, VT_BY_OP, "comes", VT_CATEGORY_INPUT, 10);
    add(b, VT_BY_OP, "shrinks", VT_CATEGORY_ACTIVATION, 70);
    add(b, VT_BY_OP, "grows", VT_CATEGORY_ACTIVATION, 140);
    add(b, VT_BY_OP, "same", VT_CATEGORY_ACTIVATION, 700);
    rows = compare(a, b, VT_BY_OP, &diff);
    static const struct {
        const char *name;
        enum vt_diff_kind kind;
    } expected[] = {{"goes", VT_DIFF_REMOVED},
                    {"grows", VT_DIFF_GROWN},
                    {"shrinks", VT_DIFF_SHRUNK},
                    {"comes", VT_DIFF_ADDED},
                    {"turns", VT_DIFF_MOVED}};
    cr_assert_eq(rows->count, 5);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_str_eq(rows->items[i].name, expected[i].name);
        cr_expect_eq(rows->items[i].kind, expected[i].kind);
    }
    finish(a, b, diff);
}

Test(diff, what_stands_on_one_side_is_told_by_its_outermost_place)
{
    struct side *a = make_side(VT_BY_MODULE), *b = make_side(VT_BY_MODULE);
    const struct vt_diff_rows *rows;
    const struct vt_diff_row *row;
    struct vt_diff *diff;

    add(a, VT_BY_MODULE, "layers.1.mlp.up", VT_CATEGORY_ACTIVATION, 10);
    add(a, VT_BY_MODULE, "layers-old.0", VT_CATEGORY_ACTIVATION, 3);
    add(b, VT_BY_MODULE, "layers.1.mlp.up", VT_CATEGORY_ACTIVATION, 10);
    add(b, VT_BY_MODULE, "layers.1.mlp.norm", VT_CATEGORY_ACTIVATION, 1);
    add(b, VT_BY_MODULE, "layers.10.mlp.up", VT_CATEGORY_ACTIVATION, 10);
    add(b, VT_BY_MODULE, "layers.10.mlp.down", VT_CATEGORY_PARAMETER, 5);
    add(b, VT_BY_MODULE, "layers.10.attn", VT_CATEGORY_ACTIVATION, 7);
    add(b, VT_BY_MODULE, "head", VT_CATEGORY_ACTIVATION, 2);
    rows = compare(a, b, VT_BY_MODULE, &diff);
    cr_assert_eq(rows->count, 4);
    row = row_of(rows, "layers.10");
    cr_expect_eq(row->members, 3);
    cr_expect_eq(row->b.bytes, 22);
    cr_expect_eq(row->b.categories[VT_CATEGORY_PARAMETER], 5);
    cr_expect_eq(row->kind, VT_DIFF_ADDED);
    cr_expect_eq(row_of(rows, "layers.1.mlp.norm")->members, 1);
    cr_expect_eq(row_of(rows, "head")->b.bytes, 2);
    cr_expect_eq(row_of(rows, "layers-old")->kind, VT_DIFF_REMOVED);
    finish(a, b, diff);
}

Test(diff, owners_of_a_new_place_are_told_by_role)
{
    struct side *a = make_side(VT_BY_OWNER), *b = make_side(VT_BY_OWNER);
    const struct vt_diff_rows *rows;
    struct vt_diff *diff;

    add(a, VT_BY_OWNER, "0.weight", VT_CATEGORY_PARAMETER, 10);
    add(b, VT_BY_OWNER, "0.weight", VT_CATEGORY_PARAMETER, 10);
    add(b, VT_BY_OWNER, "0.weight · grad", VT_CATEGORY_GRADIENT, 10);
    add(b, VT_BY_OWNER, "1.weight", VT_CATEGORY_PARAMETER, 20);
    add(b, VT_BY_OWNER, "1.bias", VT_CATEGORY_PARAMETER, 1);
    add(b, VT_BY_OWNER, "1.weight · grad", VT_CATEGORY_GRADIENT, 20);
    add(b, VT_BY_OWNER, "1.bias · grad", VT_CATEGORY_GRADIENT, 1);
    rows = compare(a, b, VT_BY_OWNER, &diff);
    cr_assert_eq(rows->count, 3);
    cr_expect_eq(row_of(rows, "1.*")->b.bytes, 21);
    cr_expect_eq(row_of(rows, "1.* · grad")->members, 2);
    cr_expect_eq(row_of(rows, "0.weight · grad")->b.bytes, 10);
    finish(a, b, diff);
}

Test(diff, a_class_that_has_got_a_sibling_is_its_first)
{
    struct side *a = make_side(VT_BY_MODULE), *b = make_side(VT_BY_MODULE);
    const struct vt_diff_rows *rows;
    struct vt_diff *diff;

    add(a, VT_BY_MODULE, "Block > Linear#1", VT_CATEGORY_ACTIVATION, 10);
    add(a, VT_BY_MODULE, "Block > Linear#12", VT_CATEGORY_ACTIVATION, 4);
    add(b, VT_BY_MODULE, "Block#1 > Linear#1", VT_CATEGORY_ACTIVATION, 10);
    add(b, VT_BY_MODULE, "Block#1 > Linear#12", VT_CATEGORY_ACTIVATION, 4);
    add(b, VT_BY_MODULE, "Block#2 > Linear#1", VT_CATEGORY_ACTIVATION, 10);
    add(b, VT_BY_MODULE, "Block#2 > Linear#2", VT_CATEGORY_ACTIVATION, 10);
    rows = compare(a, b, VT_BY_MODULE, &diff);
    cr_assert_eq(rows->count, 1);
    cr_expect_eq(row_of(rows, "Block#2")->b.bytes, 20);
    finish(a, b, diff);
}

Test(diff, lines_that_an_edit_moved_are_the_same_lines)
{
    struct vt_trace_code old_code = {.file = "/old/model.py", .name = "forward", .first_line = 100},
                         new_code = {.file = "/new/model.py", .name = "forward", .first_line = 180};
    struct side *a = make_side(VT_BY_LINE), *b = make_side(VT_BY_LINE);
    const struct vt_diff_rows *rows;
    struct vt_diff *diff;

    a->trace.codes = &old_code;
    b->trace.codes = &new_code;
    a->trace.code_count = b->trace.code_count = 1;
    /* 80 lines came above the function, and one in it, behind its second; the third grew */
    add_line(a, "/old/model.py", "forward", 101, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 10);
    add_line(a, "/old/model.py", "forward", 101, VT_PHASE_BACKWARD, VT_CATEGORY_GRADIENT, 11);
    add_line(a, "/old/model.py", "forward", 102, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 20);
    add_line(a, "/old/model.py", "forward", 103, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 30);
    add_line(a, "/old/model.py", "forward", 104, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 40);
    add_line(b, "/new/model.py", "forward", 181, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 10);
    add_line(b, "/new/model.py", "forward", 181, VT_PHASE_BACKWARD, VT_CATEGORY_GRADIENT, 11);
    add_line(b, "/new/model.py", "forward", 182, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 20);
    add_line(b, "/new/model.py", "forward", 183, VT_PHASE_FORWARD, VT_CATEGORY_INPUT, 5);
    add_line(b, "/new/model.py", "forward", 184, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 33);
    add_line(b, "/new/model.py", "forward", 185, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 40);
    rows = compare(a, b, VT_BY_LINE, &diff);
    cr_assert_eq(rows->count, 2);
    cr_expect_eq(rows->items[0].kind, VT_DIFF_ADDED);
    cr_expect_eq(rows->items[0].b.line, 183);
    cr_expect_eq(rows->items[1].kind, VT_DIFF_GROWN);
    cr_expect_eq(rows->items[1].a.line, 103);
    cr_expect_eq(rows->items[1].b.line, 184);
    finish(a, b, diff);
}

Test(diff, lines_of_other_functions_are_others)
{
    struct side *a = make_side(VT_BY_LINE), *b = make_side(VT_BY_LINE);
    const struct vt_diff_rows *rows;
    struct vt_diff *diff;

    add_line(a, "/w/model.py", "A.forward", 10, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 10);
    add_line(a, "/w/x/model.py", "same", 7, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 1);
    add_line(a, "/w/y/model.py", "same", 7, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 2);
    add_line(b, "/w/model.py", "B.forward", 10, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 10);
    add_line(b, "/w/x/model.py", "same", 7, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 1);
    add_line(b, "/w/y/model.py", "same", 7, VT_PHASE_FORWARD, VT_CATEGORY_ACTIVATION, 2);
    add_line(b, "", "", 0, VT_PHASE_FORWARD, VT_CATEGORY_UNKNOWN, 3);
    rows = compare(a, b, VT_BY_LINE, &diff);
    cr_assert_eq(rows->count, 3);
    cr_expect_eq(rows->items[0].kind + rows->items[1].kind, VT_DIFF_ADDED + VT_DIFF_REMOVED);
    cr_expect_eq(rows->items[2].kind, VT_DIFF_ADDED);
    finish(a, b, diff);
}

Test(diff, a_device_of_one_side)
{
    struct side *a = make_side(VT_BY_OP), *b = make_side(VT_BY_OP);
    struct vt_diff *diff;

    b->device.index = 1;
    b->device.peak.state.categories[VT_CATEGORY_CONTEXT] = 300;
    diff = vt_diff_make(&a->report, &b->report, 1u << VT_BY_OP);
    cr_assert_eq(diff->device_count, 2);
    cr_expect_not(diff->devices[0].differs);
    cr_expect(diff->devices[1].differs);
    cr_assert_eq(diff->devices[1].rows[VT_BY_CATEGORY].count, 1);
    cr_expect_eq(diff->devices[1].rows[VT_BY_CATEGORY].items[0].kind, VT_DIFF_ADDED);
    finish(a, b, diff);
}
