/* Every byte of a GPU, as a table. */
#include "base/index.h"
#include "view/text/table.h"
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How a row is labelled: without a name, and before and after its name. */
static const struct {
    const char *kind, *words, *before, *after;
} kinds[] = {
    {"library", "a library", "", ", for itself"},
    {"cached", "cached", "", ""},
    {"modules", "kernels and modules", "kernels and modules of ", ""},
    {"graphs", "CUDA graphs", "", ""},
    {"graph_memory", "memory of CUDA graphs", "", ""},
    {"streams", "streams", "", ""},
    {"settings", "limits and other settings", "", ""},
    {"context", "CUDA context", "another CUDA context, of ", ""},
    {"context_and_processes", "CUDA context and other processes", "", ""},
    {"unlisted", "of no process that NVML lists", "", ""},
    {"unexplained", "unexplained", "", ""},
    {"foreign", "shared by other processes", "", ""},
    {"host", "pinned host memory", "", ""},
    {"reserved", "reserved by the driver for itself", "", ""},
    {"category", "uncategorised", "", ""},
};

/* Why contexts and other processes are one row. */
static const struct {
    const char *processes, *why;
} reasons[] = {
    {VT_PROCESSES_NOT_LISTED, "NVML did not list processes (no permission?)"},
    {VT_PROCESSES_WITHOUT_THIS, "it is not clear which NVML process is this one (a container?)"},
    {VT_PROCESSES_WITHOUT_BYTES, "NVML does not report memory per process here (WSL, vGPU)"},
    {VT_PROCESSES_DO_NOT_FIT, "NVML's figures do not match this process"},
};

static void add_bytes(struct vt_table *table, int64_t bytes)
{
    vt_table_cell(table, "%s%s", bytes < 0 ? "−" : "", VT_BYTES((uint64_t)(bytes < 0 ? -bytes : bytes)));
}

/* As the report's other tables call it. */
static const char *label_of(const char *category)
{
    for (unsigned i = 0; i < VT_CATEGORY_COUNT; i++)
        if (!strcmp(category, vt_category_name(i)))
            return vt_category_label(i);
    return category;
}

static void add_name(struct vt_table *table, const struct vt_gpu_row *row)
{
    size_t i = 0;

    if (row->pid) {
        vt_table_cell(table, "process %" PRIu32 "%s%s", row->pid, row->command ? ": " : "",
                      row->command ? vt_without_folder(row->command) : "");
        return;
    }
    while (i + 1 < sizeof kinds / sizeof *kinds && strcmp(kinds[i].kind, row->kind))
        i++;
    if (row->name)
        vt_table_cell(table, "%s%s%s", kinds[i].before,
                      strcmp(row->kind, "category") ? row->name : label_of(row->name), kinds[i].after);
    else
        vt_table_cells(table, kinds[i].words);
}

/* How far the numbers can be trusted. */
static void say_when(struct vt_print *print, const struct vt_gpu_table *gpu)
{
    const bool after = gpu->measured_ns >= gpu->t_ns;
    const uint64_t apart_ns = vt_distance(gpu->measured_ns, gpu->t_ns);

    fprintf(print->paragraph, VT_DIM "Total measured by %s %s %s that moment",
            strcmp(gpu->source, "nvml") ? "the driver" : "NVML", VT_DURATION(apart_ns),
            after ? "after" : "before");
    if (gpu->moved_bytes)
        fprintf(print->paragraph, "; this process then held %s %s",
                VT_BYTES((uint64_t)llabs(gpu->moved_bytes)), gpu->moved_bytes < 0 ? "more" : "less");
    if (!gpu->steady)
        fputs("; its memory changed meanwhile", print->paragraph);
    fputs(".", print->paragraph);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp(reasons[i].processes, gpu->processes))
            fprintf(print->paragraph, " Other processes cannot be separated from this process's context: %s.",
                    reasons[i].why);
    if (gpu->processes_known && gpu->nested)
        fputs(" NVML may not list processes outside of this container.", print->paragraph);
    fputs(VT_RESET, print->paragraph);
    vt_end_paragraph(print, 2, 2);
}

/* What could be done about these bytes; for unexplained ones, what they may be. */
static void print_advice(struct vt_print *print, const struct vt_advices *advices)
{
    for (size_t i = 0; i < advices->count; i++) {
        const struct vt_advice *advice = &advices->items[i];
        const bool unexplained = !strcmp(advice->kind, "unexplained") || !strcmp(advice->kind, "unlisted");

        vt_print_paragraph(print, 2, 4, VT_BOLD "%s%s" VT_RESET " (%s)  %s", unexplained ? "" : "−",
                           VT_BYTES(advice->bytes), VT_PERCENT(advice->bytes, advices->peak_bytes),
                           advice->what);
        vt_print_paragraph(print, 4, 4, VT_DIM "%s." VT_RESET, advice->why);
    }
}

bool vt_has_gpu_table(const struct vt_print *print, const struct vt_device_report *device)
{
    return device->card.present && !strcmp(device->card.source, "nvml") && !print->style->brief;
}

uint64_t vt_text_context_bytes(const struct vt_device_report *device)
{
    const struct vt_gpu_table *gpu = &device->card;
    int64_t bytes = 0;

    if (!gpu->present || !gpu->processes_known)
        return device->shown->state.categories[VT_CATEGORY_CONTEXT];
    for (size_t i = 0; i < gpu->row_count; i++)
        bytes += strcmp(gpu->rows[i].kind, "context") ? 0 : gpu->rows[i].bytes;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

void vt_text_gpu_table(struct vt_print *print, const struct vt_device_report *device)
{
    static const struct vt_print_column columns[] = {
        {.title = "Whole GPU", .cut = VT_CUT_END, .minimum = 20}, {"", .right = true}, {"", .right = true}};
    const struct vt_gpu_table *gpu = &device->card;
    struct vt_table table;

    if (!vt_has_gpu_table(print, device))
        return;
    vt_table_begin(&table, columns, 3);
    for (size_t i = 0; i < gpu->row_count; i++) {
        add_name(&table, &gpu->rows[i]);
        add_bytes(&table, gpu->rows[i].bytes);
        vt_table_cells(&table, gpu->rows[i].bytes < 0
                                   ? ""
                                   : VT_PERCENT((uint64_t)gpu->rows[i].bytes, gpu->device_bytes));
    }
    vt_table_cells(&table, VT_BOLD "in use" VT_RESET);
    add_bytes(&table, (int64_t)gpu->device_bytes);
    vt_table_cell(&table, VT_DIM "of %s" VT_RESET, VT_BYTES(gpu->total_bytes));
    for (size_t i = 0; i < gpu->told_count; i++) {
        const struct vt_gpu_row *row = &gpu->told[i];

        add_name(&table, row);
        if (row->known)
            add_bytes(&table, row->bytes);
        else
            vt_table_cells(&table, "unknown");
        vt_table_cells(&table, row->pid && row->known ? VT_DIM "perhaps this one" VT_RESET
                               : row->known           ? VT_DIM "not counted" VT_RESET
                                                      : "");
    }
    vt_table_print(&table, print);
    say_when(print, gpu);
    print_advice(print, &gpu->advices);
}

void vt_text_bare_contexts(struct vt_print *print)
{
    const struct vt_report *report = print->report;

    for (size_t i = 0; i < report->bare_context_count && !print->style->brief; i++) {
        const struct vt_empty_context *context = &report->bare_contexts[i];
        FILE *out = print->paragraph;

        fputs(i ? "" : "\n", print->stream);
        fprintf(out, VT_BOLD "GPU %d" VT_RESET ": a CUDA context, but no allocation. It ",
                context->device_index);
        if (context->bytes_known)
            fprintf(out, "takes %s there (NVML) and ", VT_BYTES(context->bytes));
        fprintf(out, "was made at %s", VT_DURATION(context->t_ns));
        if (context->place)
            fprintf(out, " by %s", context->place->name);
        if (context->ended)
            fprintf(out, ", and ended at %s", VT_DURATION(context->end_ns));
        fputs(".", out);
        vt_end_paragraph(print, 0, 2);
        vt_print_paragraph(
            print, 2, 2,
            VT_DIM "Something called CUDA there before the program chose its GPU. Choose the GPU first, or "
                   "restrict CUDA_VISIBLE_DEVICES." VT_RESET);
    }
}
