/* What could be done about a GPU's bytes: those of other processes, of code, contexts and limits, and those
 * that nothing explains. Each piece of advice has the bytes of its rows, at least 1 % of the bytes in use. */
#include "findings/gpu_advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "findings/adviser.h"
#include "findings/driver_overhead.h"
#include "report/launch_info.h"
#include "report/report.h"

#define NAMED 3 /* rows that a sentence names */

struct gpu_adviser {
    const struct vt_gpu_table *table;
    const char *loading; /* CUDA_MODULE_LOADING; NULL = it was not set */
    struct vt_advices *advices;
};

/* Rows of one kind of advice, and as what a sentence names them. */
struct rows {
    int64_t bytes;
    size_t count;
    char named[240];
    char first[64]; /* only the largest, without its bytes */
};

/* How much of a row it is about; 0 = it is not. */
typedef int64_t share_of(const struct vt_gpu_row *row);

static int64_t of_process(const struct vt_gpu_row *row)
{
    return strcmp(row->kind, "process") ? 0 : row->bytes;
}

static int64_t of_whole_module(const struct vt_gpu_row *row)
{
    return row->module_bytes;
}

static int64_t of_first_use(const struct vt_gpu_row *row)
{
    return strcmp(row->kind, VT_SILENT_MODULES) ? 0 : row->bytes - row->module_bytes;
}

static int64_t of_further_context(const struct vt_gpu_row *row)
{
    return strcmp(row->kind, VT_SILENT_CONTEXT) || !row->name ? 0 : row->bytes;
}

static int64_t of_setting(const struct vt_gpu_row *row)
{
    return strcmp(row->kind, VT_SILENT_SETTINGS) ? 0 : row->bytes;
}

static int64_t of_unlisted(const struct vt_gpu_row *row)
{
    return strcmp(row->kind, "unlisted") ? 0 : row->bytes;
}

static void name_row(const struct vt_gpu_row *row, char *text, size_t bytes)
{
    if (row->pid && row->command)
        snprintf(text, bytes, "process %" PRIu32 " (%.40s)", row->pid, vt_without_folder(row->command));
    else if (row->pid)
        snprintf(text, bytes, "process %" PRIu32, row->pid);
    else
        snprintf(text, bytes, "%.48s", row->name ? row->name : "the program");
}

/* The rows with a share; the largest are named. */
static struct rows find_rows(const struct vt_gpu_table *table, share_of *share)
{
    const struct vt_gpu_row *largest[NAMED];
    struct rows rows = {0};
    int64_t left;
    char name[96], bytes[24];
    size_t used = 0;

    for (const struct vt_gpu_row *row = table->rows; row < table->rows + table->row_count; row++) {
        size_t at = rows.count < NAMED ? rows.count : NAMED;

        if (share(row) <= 0)
            continue;
        for (; at > 0 && share(largest[at - 1]) < share(row); at--)
            if (at < NAMED)
                largest[at] = largest[at - 1];
        if (at < NAMED)
            largest[at] = row;
        rows.bytes += share(row);
        rows.count++;
    }
    left = rows.bytes;
    for (size_t i = 0; i < NAMED && i < rows.count; i++) {
        name_row(largest[i], name, sizeof name);
        if (!i)
            snprintf(rows.first, sizeof rows.first, "%.60s", name);
        used += (size_t)snprintf(rows.named + used, sizeof rows.named - used, "%s%s %s", i ? ", " : "", name,
                                 vt_format_bytes((uint64_t)share(largest[i]), bytes));
        used = used < sizeof rows.named ? used : sizeof rows.named - 1;
        left -= share(largest[i]);
    }
    if (left > 0)
        snprintf(rows.named + used, sizeof rows.named - used, ", %zu more %s", rows.count - NAMED,
                 vt_format_bytes((uint64_t)left, bytes));
    return rows;
}

static void add_advice(struct gpu_adviser *adviser, const char *kind, int64_t bytes, const char *what,
                       const char *why, ...) __attribute__((format(printf, 5, 6)));
static void add_advice(struct gpu_adviser *adviser, const char *kind, int64_t bytes, const char *what,
                       const char *why, ...)
{
    va_list arguments;

    va_start(arguments, why);
    vt_advice_add(adviser->advices, kind, bytes > 0 ? (uint64_t)bytes : 0, what, why, arguments);
    va_end(arguments);
}

/* ---- Each kind ---- */

static void about_processes(struct gpu_adviser *adviser)
{
    const struct rows rows = find_rows(adviser->table, of_process);
    char what[160];

    if (rows.count == 1)
        snprintf(what, sizeof what, "%s on another card, or at another time", rows.first);
    else
        snprintf(what, sizeof what, "the %zu other processes on other cards, or at another time", rows.count);
    add_advice(adviser, "other_processes", rows.bytes, what, "On this card: %s", rows.named);
}

static void about_modules(struct gpu_adviser *adviser)
{
    const struct rows whole = find_rows(adviser->table, of_whole_module),
                      used = find_rows(adviser->table, of_first_use);
    const bool lazy = adviser->loading && !strcmp(adviser->loading, "LAZY");

    if (lazy)
        add_advice(adviser, "modules", whole.bytes, "fewer modules: libraries that are not needed left out",
                   "Loading of modules took it, with CUDA_MODULE_LOADING=LAZY too: %s", whole.named);
    else
        add_advice(adviser, "modules", whole.bytes, "CUDA_MODULE_LOADING=LAZY, at most",
                   "Code that was loaded with its whole module%s: %s. Loaded lazily, only kernels that run "
                   "take memory",
                   adviser->loading && !strcmp(adviser->loading, "EAGER") ? " (CUDA_MODULE_LOADING=EAGER)"
                                                                          : "",
                   whole.named);
    add_advice(adviser, "kernels", used.bytes,
               "fewer libraries with kernels of their own, and one process on the GPU",
               "Kernels that were loaded at their first use: %s. Each process has its own", used.named);
}

static void about_contexts(struct gpu_adviser *adviser)
{
    const struct rows rows = find_rows(adviser->table, of_further_context);

    add_advice(adviser, "contexts", rows.bytes,
               "the primary context (cuDevicePrimaryCtxRetain) in place of further ones (cuCtxCreate)",
               "Further contexts of this process were made by %s", rows.named);
}

static void about_settings(struct gpu_adviser *adviser)
{
    const struct rows rows = find_rows(adviser->table, of_setting);

    add_advice(adviser, "settings", rows.bytes, "lower limits (cudaDeviceSetLimit, cuCtxSetLimit)",
               "Limits beyond their defaults and the like took it: stacks of threads, the heap of kernels, "
               "the buffer of printf");
}

/* Why others' bytes may be among what nothing explains. */
static const char *why_unexplained(const struct vt_gpu_table *table)
{
    static const struct {
        const char *processes, *why;
    } reasons[] = {
        {VT_PROCESSES_NO_NVML, "without NVML, other processes that came or grew later are not seen"},
        {VT_PROCESSES_NOT_LISTED,
         "NVML listed no processes (no permission?): those that came or grew are not seen"},
        {VT_PROCESSES_WITHOUT_THIS,
         "which of NVML's processes is this one is not known (a container?), so none is told"},
        {VT_PROCESSES_WITHOUT_BYTES,
         "NVML tells no process's bytes here (WSL, virtual GPUs), so none is told"},
        {VT_PROCESSES_DO_NOT_FIT, "what NVML tells of processes does not fit this one, so none is told"},
    };

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp(reasons[i].processes, table->processes))
            return reasons[i].why;
    return "NVML does not tell the bytes of all processes";
}

static void about_unlisted(struct gpu_adviser *adviser)
{
    add_advice(adviser, "unlisted", find_rows(adviser->table, of_unlisted).bytes,
               "not seen: what NVML charges no process with",
               adviser->table->nested ? "NVML may list no processes outside of this container"
                                      : "The driver itself has it, or a process that just ended");
}

static void about_unexplained(struct gpu_adviser *adviser)
{
    const struct vt_gpu_table *table = adviser->table;
    const int64_t bytes = table->rows[table->row_count - 1].bytes; /* the last row */
    const int64_t own = table->processes_known ? table->own_unexplained_bytes : 0;
    char own_text[24];

    if (table->processes_known && own >= bytes)
        add_advice(
            adviser, "unexplained", bytes, "not seen: what this process took by other ways",
            "NVML charges this process with all of it: calls before the recorder was loaded or that it has "
            "no hook for (graphics, video), or memory that the driver took later by itself");
    else if (own > 0)
        add_advice(adviser, "unexplained", bytes,
                   "not seen: what this process took by other ways, and others",
                   "NVML charges this process with %s of it. Of the rest: %s",
                   vt_format_bytes((uint64_t)own, own_text), why_unexplained(table));
    else
        add_advice(adviser, "unexplained", bytes, "not seen: what others took",
                   "None of it is known to be of this process: %s", why_unexplained(table));
}

void vt_gpu_advise(const struct vt_report *report, struct vt_gpu_table *table)
{
    static void (*const kinds[])(struct gpu_adviser *) = {about_processes, about_modules,  about_contexts,
                                                          about_settings,  about_unlisted, about_unexplained};
    struct gpu_adviser adviser = {.table = table,
                                  .loading = vt_launch_variable(report->trace, "CUDA_MODULE_LOADING"),
                                  .advices = &table->advices};

    table->advices.peak_bytes = table->device_bytes;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        kinds[i](&adviser);
    vt_advices_sort(&table->advices);
}
