/* Pieces of JSON that the report and `info` share. */
#ifndef VT_JSON_H
#define VT_JSON_H

#include <cjson/cJSON.h>

#include "report/report.h"

/* A document. What could not be added to it, for lack of memory or because it was not made, is remembered
 * until the end: then nothing is printed, and vt_json_end gives -ENOMEM. One document at a time, by one
 * thread. */
cJSON *vt_json_begin(const char *format); /* NULL = without "format" */
void vt_json_fail(void);                  /* something else is missing */
/* Frees `root`. Prints it and a line break, unless `result`, which is then returned. `compact` = on one line.
 * What is printed is valid JSON and UTF-8, and nothing in it moves a terminal's cursor. 0 or -errno. */
int vt_json_end(cJSON *root, int result, bool compact, FILE *out);

cJSON *vt_json_item(void); /* an object, for vt_json_append and vt_json_put, which take it: fill it first */
cJSON *vt_json_list(void);
void vt_json_append(cJSON *array, cJSON *item);
void vt_json_append_text(cJSON *array, const char *text);
void vt_json_put(cJSON *object, const char *name, cJSON *item);
cJSON *vt_json_object(cJSON *object, const char *name);
cJSON *vt_json_array(cJSON *object, const char *name);
void vt_json_text(cJSON *object, const char *name, const char *text); /* NULL is "" */
/* Adds a text, or null for NULL and "". */
void vt_json_name(cJSON *object, const char *name, const char *value);
void vt_json_null(cJSON *object, const char *name);
void vt_json_bool(cJSON *object, const char *name, bool value);
void vt_json_real(cJSON *object, const char *name, double value);
/* Exact integers, written digit by digit: one that went through a double can lose its last digits. */
void vt_json_number(cJSON *object, const char *name, uint64_t value);
void vt_json_integer(cJSON *object, const char *name, int64_t value);
/* Adds `after` less `before`. */
void vt_json_change(cJSON *object, const char *name, uint64_t before, uint64_t after);
/* Adds an array of `count` numbers of `width` bytes (4 or 8), `stride` bytes apart. */
void vt_json_numbers(cJSON *object, const char *name, const void *values, size_t count, size_t stride,
                     size_t width);

/* Adds "file" and "line" of a stack's line, "" and 0 where none is known. Returns its function. */
const char *vt_json_line(cJSON *object, const struct vt_trace *trace, uint32_t stack_id);
/* ... and "function". */
void vt_json_place(cJSON *object, const struct vt_trace *trace, uint32_t stack_id);
cJSON *vt_json_frame(const struct vt_frame *frame);
cJSON *vt_json_stack(const struct vt_trace *trace, uint32_t stack_id);
/* The fields of the report's "trace". */
void vt_json_trace(cJSON *object, const struct vt_trace *trace);
/* Adds a moment: when it was, and its bytes by category. */
void vt_json_moment(cJSON *device, const char *name, const struct vt_instant *instant);
/* Adds a VIEW (see the report's contract); `top` > 0: rows of each list. */
void vt_json_view(cJSON *device, const char *name, const struct vt_report *report,
                  const struct vt_instant *instant, int top);
/* Adds "advice" to a device. */
void vt_json_advice(cJSON *object, const struct vt_report *report, const struct vt_device_report *device);
/* Adds "out_of_memory". */
void vt_json_refusals(cJSON *root, const struct vt_report *report);
/* Adds "blocks" to a view. */
void vt_json_blocks(cJSON *view, const struct vt_report *report, const struct vt_instant *instant, int top);
/* Adds "explanation" to a device. */
void vt_json_explanation(cJSON *device, const struct vt_report *report,
                         const struct vt_explanation *explanation);

#endif
