/* Sections of the text report. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include "view/text/chart.h"

/* What percentages are of: "of peak", "of use then". */
const char *vt_text_whole(const struct vt_device_report *device);

/* "at step 3, in backward (21.4 s after start)". `text` holds at least 160 bytes. */
char *vt_text_when(const struct vt_report *report, uint64_t t_ns, uint32_t step, uint8_t phase, char *text);
/* Who runs: the command's line, shortened. The caller frees it. */
char *vt_text_command(const struct vt_trace *trace, int columns);
/* "NVIDIA H200 (139.72 GiB)" with "GPU 0" before it. `text` holds at least 160 bytes. */
char *vt_text_device(const struct vt_device_report *device, char *text);

void vt_text_header(struct vt_print *print, const struct vt_report *report, const char *command);
void vt_text_out_of_memory(struct vt_print *print, const struct vt_report *report);
void vt_text_verdict(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device);
void vt_text_card(struct vt_print *print, const struct vt_report *report,
                  const struct vt_device_report *device);
void vt_text_advice(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device);
void vt_text_evidence(struct vt_print *print, const struct vt_report *report,
                      const struct vt_device_report *device);

/* Pieces of tables: the largest category; bytes and their part of the whole; the row of what is not shown,
 * with empty cells before and after its bytes; a title that tells of lost events (`text` holds it then). */
void vt_category_cell(struct vt_table *table, const uint64_t categories[VT_CATEGORY_COUNT]);
void vt_size_cells(struct vt_table *table, uint64_t bytes, uint64_t whole);
void vt_rest_row(struct vt_table *table, size_t rest, uint64_t bytes, uint64_t whole, int before, int after);
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

#define VT_MODULE_NUMBERS 4u
#define VT_MODULE_WORDS 4u

struct vt_module_numbers {
    bool any;
    unsigned low, high;
    uint64_t seen[VT_MODULE_WORDS]; /* bits, of the numbers that they hold */
};

/* Modules that differ only in the numbers of their names, as one. The last number of a path of classes is
 * kept apart where nothing lies in it and sizes differ: two Linear of one block are no repetition. */
struct vt_module_family {
    char *name;             /* "layers.0–31.mlp", "EncoderLayer#1–6 > Dropout#2" */
    const char *class_name; /* "" = not known; the groups' */
    uint64_t bytes, members, low_bytes, high_bytes; /* low and high: of a member */
    bool same;                                      /* all members hold the same */
    uint64_t temporary_peak_bytes;                  /* the largest of a member */
    uint64_t categories[VT_CATEGORY_COUNT];
    /* private to modules.c */
    char *pattern;
    uint64_t merged;
    struct vt_module_numbers numbers[VT_MODULE_NUMBERS];
};
struct vt_module_families {
    struct vt_module_family *items; /* largest first */
    size_t count;
};
int vt_fold_modules(const struct vt_groups *modules, struct vt_module_families *families);
/* Where a category is: its modules and those that they lie in, each with all that is in it, whatever their
 * numbers. Bytes are the category's. */
int vt_fold_places(const struct vt_groups *modules, unsigned category, struct vt_module_families *families);
/* "6 × 24.00 MiB", "6 × 20.00–24.00 MiB", or nothing for one. */
void vt_each_cell(struct vt_table *table, const struct vt_module_family *family);
void vt_module_families_free(struct vt_module_families *families);

unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT]);

/* The text of a source line if the file is here and older than the trace; else NULL. The caller frees it. */
char *vt_source_line(const struct vt_trace *trace, const char *path, int32_t line);

#endif
