/* Pieces of JSON that the report and `info` share. */
#ifndef VT_JSON_H
#define VT_JSON_H

#include <cjson/cJSON.h>

#include "view/view.h"

/* Adds an exact integer. */
bool vt_json_number(cJSON *object, const char *name, uint64_t value);
/* Adds `after` less `before`. */
bool vt_json_change(cJSON *object, const char *name, uint64_t before, uint64_t after);
/* Adds a text, or null for NULL and "". */
void vt_json_name(cJSON *object, const char *name, const char *value);
/* Adds "file" and "line" of a stack's line, "" and 0 where none is known. Returns its function. */
const char *vt_json_line(cJSON *object, const struct vt_trace *trace, uint32_t stack_id);
/* ... and "function". */
void vt_json_place(cJSON *object, const struct vt_trace *trace, uint32_t stack_id);
cJSON *vt_json_frame(const struct vt_frame *frame);
cJSON *vt_json_stack(const struct vt_trace *trace, uint32_t stack_id);
/* The fields of the report's "trace". */
void vt_json_trace(cJSON *object, const struct vt_trace *trace);
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
/* Prints and a line break; `compact` = on one line. 0 or -errno. */
int vt_json_print(const cJSON *root, bool compact, FILE *out);

#endif
