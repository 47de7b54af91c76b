/* Sections of the text report. */
#ifndef VT_TEXT_H
#define VT_TEXT_H

#include "view/chart.h"

/* The instant that the tables are about: the one of --at, else the peak. */
const struct vt_instant *vt_text_instant(const struct vt_device_report *device);
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
void vt_text_evidence(struct vt_print *print, const struct vt_report *report,
                      const struct vt_device_report *device);

/* The report's own tables, or with --by the one asked for. */
void vt_text_tables(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device);
void vt_text_modules(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device, int rows);

#define VT_MODULE_NUMBERS 4u
#define VT_MODULE_WORDS 4u

struct vt_module_numbers {
    bool any;
    unsigned low, high;
    uint64_t seen[VT_MODULE_WORDS]; /* bits, of the numbers that they hold */
};

/* Modules that differ only in the numbers of their names, as one. The last number of a path of classes is kept
 * apart where nothing lies in it and sizes differ: two Linear of one block are no repetition. */
struct vt_module_family {
    char *name; /* "layers.0–31.mlp", "EncoderLayer#1–6 > Dropout#2" */
    uint64_t bytes, members, first_bytes;
    bool same; /* all members hold the same */
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
void vt_module_families_free(struct vt_module_families *families);

unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT]);

/* The text of a source line if the file is here and older than the trace; else NULL. The caller frees it. */
char *vt_source_line(const struct vt_trace *trace, const char *path, int32_t line);

#endif
