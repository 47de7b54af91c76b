/* Sections of the text report. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include "report/modules.h"
#include "view/text/chart.h"

/* What percentages are of: "of peak", "of use then". */
const char *vt_text_whole(const struct vt_device_report *device);

/* "at step 3, in backward (21.4 s after start)". `text` holds at least 160 bytes. */
char *vt_text_when(const struct vt_report *report, uint64_t t_ns, uint32_t step, uint8_t phase, char *text);
/* Who runs: the command's line, shortened. The caller frees it. */
char *vt_text_command(const struct vt_trace_facts *facts, int columns);
/* "NVIDIA H200 (139.72 GiB)" with "GPU 0" before it. `text` holds at least 160 bytes. */
char *vt_text_device(const struct vt_device_report *device, char *text);

void vt_text_header(struct vt_print *print, const struct vt_report *report, const char *command);
void vt_text_out_of_memory(struct vt_print *print, const struct vt_report *report);
void vt_text_verdict(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device);
void vt_text_card(struct vt_print *print, const struct vt_device_report *device);
void vt_text_advice(struct vt_print *print, const struct vt_device_report *device);
/* A sentence for each of the largest; "No leak in 412 steps." */
void vt_text_leaks(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device);
void vt_text_evidence(struct vt_print *print, const struct vt_report *report,
                      const struct vt_device_report *device);

/* Pieces of tables: the largest category; bytes and their part of the whole; the row of what is not shown,
 * with empty cells before and after its bytes; a title that tells of lost events (`text` holds it then). */
void vt_category_cell(struct vt_table *table, const uint64_t categories[VT_CATEGORY_COUNT]);
void vt_size_cells(struct vt_table *table, uint64_t bytes, uint64_t whole);
void vt_rest_row(struct vt_table *table, size_t rest, uint64_t bytes, uint64_t whole, int before, int after);
/* What a person would call a block: its owner, else where it was made. */
void vt_block_name_cell(struct vt_table *table, const struct vt_block *block);
bool vt_has_names(const struct vt_groups *groups);
const char *vt_lossy_title(const struct vt_report *report, const char *title, char *text, size_t bytes);

/* The report's own tables, or with --by the one asked for. */
void vt_text_tables(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device);
void vt_text_modules(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device, size_t rows);
void vt_text_kinds(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device, size_t rows);

void vt_text_owners(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device, size_t rows);

/* With --explain, instead of tables. */
void vt_text_explanation(struct vt_print *print, const struct vt_report *report,
                         const struct vt_device_report *device);
void vt_text_blocks(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device, size_t rows);

/* "6 × 24.00 MiB", "6 × 20.00–24.00 MiB", or nothing for one. */
void vt_each_cell(struct vt_table *table, const struct vt_module_family *family);

unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT]);

#endif
