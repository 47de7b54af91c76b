/* Sections of the pages of text. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include "report/modules.h"
#include "report/report.h"
#include "view/text/print.h"

/* ---- What every page has (page.c) ---- */

/* The base of percentages: "of peak", "of use". */
const char *vt_text_whole(const struct vt_device_report *device);

/* "at step 3, in backward (21.4 s after start)". `text` holds VT_WHEN_BYTES. */
#define VT_WHEN_BYTES 160
char *vt_text_when(const struct vt_report *report, uint64_t t_ns, uint32_t step, uint8_t phase, char *text);
#define VT_WHEN(report, state)                                                                               \
    vt_text_when(report, (state)->t_ns, (state)->step, (state)->phase, (char[VT_WHEN_BYTES]){0})

/* In a brief page: the device, steps and time, and what was lost. */
void vt_text_header(struct vt_print *print, const char *command);
/* "GPU 0 NVIDIA H200 (139.72 GiB)" on a line; nothing if it is the only device. */
void vt_text_device(struct vt_print *print, const struct vt_device_report *device);
void vt_text_evidence(struct vt_print *print, const struct vt_device_report *device);

typedef void vt_text_section(struct vt_print *print, const struct vt_device_report *device);
/* A page of a header and a section for each device; `nothing`, if any, is printed instead of sections. */
void vt_text_page(const struct vt_report *report, const struct vt_view_style *style, FILE *out,
                  const char *command, const char *nothing, vt_text_section *section);

/* A section of the report about a device, each paragraph on one line of plain text; NULL: what was checked
 * and found good, and the peaks of all devices. */
void vt_text_paragraphs(const struct vt_report *report, const struct vt_device_report *device,
                        vt_text_section *section, FILE *out);

/* ---- Sections of the report ---- */

/* What leads where nothing goes backward: weights, keys and values, requests, and what more fits. */
void vt_text_inference(struct vt_print *print, const struct vt_device_report *device);
/* The request that failed, why, what to do; and whether a cause of this kind is among them. */
void vt_text_oom_block(struct vt_print *print);
bool vt_text_is_cause(const struct vt_report *report, const char *kind);
/* What leaks, where, what keeps it alive, what to do; at most `count` of them. Or why that cannot be judged.
 */
void vt_text_leaks(struct vt_print *print, const struct vt_device_report *device, size_t count);
void vt_text_gpu(struct vt_print *print, const struct vt_device_report *device);
/* Every byte of the GPU, if NVML reported it; not on a brief page. */
bool vt_has_gpu_table(const struct vt_print *print, const struct vt_device_report *device);
void vt_text_gpu_table(struct vt_print *print, const struct vt_device_report *device);
/* Of this process, where NVML told it from other processes; else what the GPU had in use before its first
 * memory. */
uint64_t vt_text_context_bytes(const struct vt_device_report *device);
/* Devices on which the process has a context and no memory. */
void vt_text_bare_contexts(struct vt_print *print);
/* Page-locked host memory: a line; with --by line and --by stack, a table. Nothing if there never was any. */
void vt_text_host_memory(struct vt_print *print);
void vt_text_graph_pools(struct vt_print *print, const struct vt_device_report *device);
void vt_text_advice(struct vt_print *print, const struct vt_device_report *device);
/* With --explain, instead of tables. */
void vt_text_explanation(struct vt_print *print, const struct vt_device_report *device);

/* ---- Tables ---- */

/* The report's own tables, or with --by the one asked for. */
void vt_text_tables(struct vt_print *print, const struct vt_device_report *device);
/* One table of at most `rows` rows. */
typedef void vt_text_table(struct vt_print *print, const struct vt_device_report *device, size_t rows);
vt_text_table vt_text_modules, vt_text_kinds, vt_text_owners, vt_text_lines, vt_text_stacks, vt_text_holders;

/* Tables of lines and of stacks, for any groups; `categories`: each with what it mostly is. */
void vt_text_lines_of(struct vt_print *print, const struct vt_groups *groups, const char *title,
                      const char *whole_title, uint64_t whole, size_t rows, bool categories);
void vt_text_stacks_of(struct vt_print *print, const struct vt_groups *groups, const char *title,
                       uint64_t whole, size_t rows, bool categories);

/* Rows of a table: --top, else few on the first screen, all of `full` with --full. */
static inline size_t vt_text_rows(const struct vt_print *print, size_t few, size_t full)
{
    const struct vt_view_style *style = print->style;

    return style->top ? (size_t)style->top : style->full || style->brief ? full : few;
}

/* A cell: "6 × 24 MiB", "6 × 20–24 MiB", or nothing for one. */
struct vt_table;
void vt_text_each(struct vt_table *table, const struct vt_module_family *family);

static inline bool vt_has_names(const struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (groups->items[i].name[0])
            return true;
    return false;
}
/* What a person would call a block: its owner, else where it was made. */
const char *vt_text_block(const struct vt_block *block);
/* A title that reports lost events; `text` holds VT_TITLE_BYTES. */
const char *vt_lossy_title(const struct vt_print *print, const char *title, char *text);
#define VT_TITLE_BYTES 64
#define VT_TITLE(print, title) vt_lossy_title(print, title, (char[VT_TITLE_BYTES]){0})

#endif
