/* Looks at live objects: from their parts to tables. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/compiled_sources.h"
#include "trace/tables.h"
#include "trace_builder.h"

static void add_event(struct builder *builder, uint32_t inspection_id)
{
    builder_event(builder, (struct vt_event){.kind = VT_EVENT_INSPECTION, .detail = inspection_id, .device_index = -1});
}

static void add_inspection(struct builder *builder, uint32_t inspection_id, const char *text)
{
    builder_inspection_part(builder, inspection_id, 0, 1, text);
    add_event(builder, inspection_id);
}

static void end_trace(struct builder *builder, struct vt_trace *trace)
{
    vt_trace_close(trace);
    builder_free(builder);
}

Test(inspection, is_read_from_its_parts)
{
    struct builder *builder = builder_new(64);
    builder_inspection_part(builder, 7, 1, 3,
                      "\tatt\\tn\\\\x\nT\toptimizer_state:exp_"
                      "avg\t5\tw\\n\t1100\t8\t1000\t108\tfloat32\t2\t1\t3\nZ\tnew\n");
    builder_inspection_part(builder, 7, 2, 3, "O\t3\t99\tAdam\toptimizer");
    builder_inspection_part(builder, 7, 0, 3, "R\t5\t4096\tNet\tmodel\nM\t5\t4096\tNet\t\nM\t5\t8192\tAttn");
    add_event(builder, 7);
    struct vt_trace *trace = builder_open(builder);
    cr_assert_eq(trace->inspection_count, 1);
    const struct vt_inspection *inspection = &trace->inspections[0];
    cr_expect_str_eq(inspection->failure, "");
    cr_expect_eq(inspection->event_index, 0);
    cr_expect_eq(inspection->reason, VT_INSPECTION_PEAK);
    cr_expect_eq(inspection->duration_ns, 3000);
    cr_assert_eq(trace->root_count, 1);
    cr_expect_eq(trace->roots[0].address, 4096);
    cr_expect_str_eq(trace->roots[0].holder, "model");
    cr_assert_eq(inspection->module_count, 2);
    cr_expect_str_eq(inspection->modules[0].path, "");
    cr_expect_str_eq(inspection->modules[1].class_name, "Attn");
    cr_expect_str_eq(inspection->modules[1].path, "att\tn\\x");
    cr_assert_eq(inspection->tensor_count, 1);
    const struct vt_inspection_tensor *tensor = &inspection->tensors[0];
    cr_expect_eq(tensor->kind, VT_INSPECTION_OPTIMIZER_STATE);
    cr_expect_str_eq(tensor->role, "exp_avg");
    cr_expect_str_eq(tensor->path, "w\n");
    cr_expect_eq(tensor->root, 0);
    cr_expect_eq(tensor->optimizer, 0);
    cr_expect_str_eq(trace->optimizers[0].class_name, "Adam");
    cr_expect_eq(tensor->data_address, 1100);
    cr_expect_eq(tensor->bytes, 8);
    cr_expect_eq(tensor->storage_address, 1000);
    cr_expect_eq(tensor->storage_bytes, 108);
    cr_expect_str_eq(tensor->dtype, "float32");
    cr_expect_str_eq(tensor->shape, "2");
    cr_expect_eq(tensor->device_index, 1);
    end_trace(builder, trace);
}

/* Of another library than PyTorch: the path is the array's own, and the role may not be known. */
Test(inspection, reads_arrays)
{
    static const struct {
        const char *told, *role;
        uint8_t kind;
    } roles[] = {{"", "array", VT_INSPECTION_TENSOR},
                 {"parameter", "parameter", VT_INSPECTION_PARAMETER},
                 {"optimizer_state:mu", "mu", VT_INSPECTION_OPTIMIZER_STATE},
                 {"optimizer_state", "optimizer_state", VT_INSPECTION_OPTIMIZER_STATE}};
    struct builder *builder = builder_new(64);
    char text[1024] = "";
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "A\t%s\t-1\tx['w']\t1000\t8\t1000\t8\tfloat32\t\t1\t\t4x2\n", roles[i].told);
    add_inspection(builder, 1, text);
    struct vt_trace *trace = builder_open(builder);
    cr_expect_str_eq(trace->inspections[0].failure, "");
    cr_assert_eq(trace->inspections[0].tensor_count, sizeof roles / sizeof *roles);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const struct vt_inspection_tensor *array = &trace->inspections[0].tensors[i];
        cr_expect(array->own_path && array->root == -1 && array->optimizer == -1);
        cr_expect_eq(array->kind, roles[i].kind);
        cr_expect_str_eq(array->role, roles[i].role);
        cr_expect_str_eq(array->path, "x['w']");
        cr_expect_str_eq(array->whole_shape, "4x2");
    }
    end_trace(builder, trace);
}

static void expect_variable(const struct vt_trace *trace, const char *name, const char *value)
{
    size_t found = 0;
    for (size_t i = 0; i < trace->launch_count; i++)
        if (!strcmp(trace->launch[i].name, name)) {
            cr_expect_str_eq(trace->launch[i].value, value);
            found++;
        }
    cr_expect_eq(found, 1, "%s", name);
}

/* What the program set before it used its card, also instead of what it was started with; not what it set later. */
Test(inspection, tells_variables_of_launchers)
{
    static const char started_with[] = "RANK=0\0WORLD_SIZE=2";
    for (int recorded = 0; recorded < 2; recorded++) {
        struct builder *builder = builder_new(64);
        if (recorded)
            builder_raw(builder, VT_RECORD_LAUNCH, started_with, sizeof started_with);
        add_inspection(builder, 1, "V\tRANK\t3\nV\tCUDA_VISIBLE_DEVICES\t\nV\tVRAMTRACE_LABEL\ta\\tb\n");
        add_inspection(builder, 2, "V\tRANK\t4\nV\tCUDA_VISIBLE_DEVICES\t1\n");
        struct vt_trace *trace = builder_open(builder);
        cr_assert_eq(trace->launch_count, recorded ? 4 : 3);
        expect_variable(trace, "RANK", "3");
        expect_variable(trace, "CUDA_VISIBLE_DEVICES", "");
        expect_variable(trace, "VRAMTRACE_LABEL", "a\tb");
        if (recorded)
            expect_variable(trace, "WORLD_SIZE", "2");
        cr_expect_str_eq(trace->inspections[0].failure, "");
        end_trace(builder, trace);
    }
}

/* Whole lines on both sides of a part that was lost are kept. */
Test(inspection, misses_a_part)
{
    struct builder *builder = builder_new(64);
    builder_inspection_part(builder, 1, 0, 4, "M\t0\t1\tA\ta\nM\t0\t2\tB");
    builder_inspection_part(builder, 1, 2, 4, "\tlost\nM\t0\t3\tC\tc\nM\t0\t4");
    add_event(builder, 1);
    struct vt_trace *trace = builder_open(builder);
    cr_assert_eq(trace->inspection_count, 1);
    cr_assert_eq(trace->inspections[0].module_count, 2);
    cr_expect_str_eq(trace->inspections[0].modules[0].path, "a");
    cr_expect_str_eq(trace->inspections[0].modules[1].path, "c");
    cr_expect_str_eq(trace->inspections[0].failure, "a part of it was lost");
    cr_assert_eq(trace->root_count, 1);
    cr_expect_str_eq(trace->roots[0].holder, "");
    end_trace(builder, trace);
}

Test(inspection, leaves_out_what_makes_no_sense)
{
    static const char *const lines[] = {
        "T\tparameter\t0\ta\t1000\t8\t1000\t8\tfloat32\t2\t99\t\n",       /* device */
        "T\tparameter\t0\ta\t1000\t8\t1000\t8\tfloat32\t2\t\t\n",         /* no device */
        "T\tparameter\t0\ta\t900\t8\t1000\t8\tfloat32\t2\t0\t\n",         /* begins before its storage */
        "T\tparameter\t0\ta\t-4\t8\t1000\t8\tfloat32\t2\t0\t\n",          /* sign */
        "T\tparameter\t0\ta\t18446744073709551616\t8\t1\t8\tf\t2\t0\t\n", /* too large */
        "T\tparameter\t0\ta\t1000\t18446744073709551000\t1000\t8\tf\t2\t0\t\n", /* beyond all addresses */
        "T\tparameter\t0\ta\t0\t8\t0\t8\tfloat32\t2\t0\t\n",                    /* nowhere */
        "T\tjunk\t0\ta\t1000\t8\t1000\t8\tfloat32\t2\t0\t\n",
        "T\toptimizer_state\t0\ta\t1000\t8\t1000\t8\tfloat32\t2\t0\t\n", /* whose */
        "T\t\t0\ta\t1000\t8\t1000\t8\tfloat32\t2\t0\t\n",
        "A\toptimizer_states\t-1\ta\t1000\t8\t1000\t8\tfloat32\t2\t0\t\n",
        "T\tparameter\tx\ta\t1000\t8\t1000\t8\tfloat32\t2\t0\t\n",
        "T\tparameter\t0\ta\n",
        "M\t\t1\tA\ta\n",
        "M\t0\t0\tA\ta\n",
        "R\t0\n",
        "O\n",
        "V\tRANK\n",
        "V\t\t1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct builder *builder = builder_new(64);
        char text[512];
        snprintf(text, sizeof text, "%sM\t18446744073709551615\t5\tA\ta\n\n\t\t\nT\n\n", lines[i]);
        add_inspection(builder, 1, text);
        struct vt_trace *trace = builder_open(builder);
        cr_assert_eq(trace->inspection_count, 1);
        cr_expect_eq(trace->inspections[0].tensor_count, 0, "%s", lines[i]);
        cr_expect_eq(trace->inspections[0].module_count, 1, "%s", lines[i]);
        cr_expect_str_eq(trace->inspections[0].failure, "some of its lines make no sense");
        end_trace(builder, trace);
    }
}

Test(inspection, says_what_failed)
{
    struct builder *builder = builder_new(64);
    add_inspection(builder, 1, "M\t0\t5\tA\ta\nE\tRuntimeError: no\\tgood\nE\tmore\n");
    builder_inspection_part(builder, 2, 0, 1, "M\t0\t5\tA\ta\n"); /* no event says when */
    add_event(builder, 3);                                  /* no text */
    add_event(builder, 1);                                  /* a second time */
    struct vt_trace *trace = builder_open(builder);
    cr_assert_eq(trace->inspection_count, 1);
    cr_expect_str_eq(trace->inspections[0].failure, "RuntimeError: no\tgood");
    cr_expect_eq(trace->inspections[0].event_index, 0);
    cr_expect_eq(trace->lost_inspections, 2);
    end_trace(builder, trace);
}

Test(inspection, survives_the_process)
{
    struct builder *builder = builder_new(64);
    builder_ring(builder, 0);
    add_inspection(builder, 1, "M\t0\t5\tA\ta.b\n");
    struct vt_trace *trace = builder_open(builder);
    cr_assert_not(trace->complete);
    cr_assert_eq(trace->inspection_count, 1);
    cr_expect_str_eq(trace->inspections[0].modules[0].path, "a.b");
    end_trace(builder, trace);
}

Test(inspection, lines_of_written_code_are_the_users)
{
    struct builder *builder = builder_new(64);
    add_inspection(builder, 1,
                   "W\t/tmp/w.py\t20\t  File \"/h/net.py\", line 5, in forward\\n    x = b(x)\\n  File \"/h/net.py\", line 9, in "
                   "half\\n    return x\\n\nW\t/tmp/w.py\t30\t\nW\t/tmp/w.py\t10\t  File \"/h/net.py\", line 4, in forward\n");
    struct vt_trace *trace = builder_open(builder);
    cr_expect_str_eq(trace->inspections[0].failure, "");
    cr_expect_null(vt_compiled_source_find(trace, "/tmp/w.py", 9));
    cr_expect_null(vt_compiled_source_find(trace, "/tmp/v.py", 25));
    cr_expect_null(vt_compiled_source_find(trace, "/tmp/w.py", 31), "written for no line");
    const struct vt_compiled_line *line = vt_compiled_source_find(trace, "/tmp/w.py", 29);
    cr_assert_not_null(line);
    cr_expect_str_eq(line->source_file, "/h/net.py");
    cr_expect_str_eq(line->function, "half");
    cr_expect_eq(line->source_line, 9);
    line = vt_compiled_source_find(trace, "/tmp/w.py", 10);
    cr_assert_not_null(line);
    cr_expect_eq(line->source_line, 4);
    end_trace(builder, trace);
}
