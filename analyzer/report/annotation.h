/* Memory by source line: what each line holds at the moment that the report shows, the most it ever held,
 * and how often it allocated. An allocation counts once for its own line: the one that the report's tables
 * by line name. It also counts once for every line on its stack. Memory allocated in backward counts with
 * the stack of its forward operator, where that is known. */
#ifndef VT_ANNOTATION_H
#define VT_ANNOTATION_H

#include "report/report.h"

/* What a line or a file used on one device. */
struct vt_line_use {
    uint64_t bytes, blocks;                 /* alive at the moment shown */
    uint64_t categories[VT_CATEGORY_COUNT]; /* of the bytes */
    uint64_t peak_bytes;                    /* the most alive at once, at any time */
    uint64_t phase_peaks[VT_PHASE_COUNT];   /* ... while the run was in each phase */
    uint64_t allocations;                   /* of the whole run */
};

struct vt_annotated_line {
    int32_t line;     /* 0 = not known */
    const char *text; /* NULL = not known */
    struct vt_line_use own, through;
};

struct vt_annotated_file {
    const char *path, *name; /* as recorded; as people call it */
    bool library;            /* an installed package, or the language's own */
    struct vt_line_use own, through;
    /* Only for the requested file. */
    struct vt_annotated_line *lines; /* those that allocations came from or through, by line; owned */
    size_t line_count;
    size_t left_out;          /* lines beyond the `top` */
    const char *const *texts; /* all lines of the file; NULL = not known */
    size_t text_count;
    uint8_t source; /* enum vt_source_state */
};

struct vt_annotated_device {
    const struct vt_device_report *report;
    /* Files with allocations of their own, most bytes first; or the requested one. */
    struct vt_annotated_file *files; /* owned */
    size_t file_count;
    struct vt_line_use nowhere; /* without a file */
    struct vt_line_use all;
    bool has_backward; /* something counts with its forward operator */
};

struct vt_annotation {
    const struct vt_report *report;
    bool has_file; /* one was asked for */
    struct vt_annotated_device *devices;
    size_t device_count;
    struct vt_source_text *source; /* of the requested file; private */
};

/* `file`: all or the end of a file's path ("model.py", "pkg/model.py"), NULL = the table of files. `top`:
 * only so many lines of it, those with the most bytes; 0 = all. The report must outlive the annotation.
 * -EINVAL with a reason in `error` for a file that is not in the trace, or that could be several. */
int vt_annotation_make(const struct vt_report *report, const char *file, size_t top,
                       struct vt_annotation **annotation, char *error, size_t error_bytes);
void vt_annotation_free(struct vt_annotation *annotation);

#endif
