/* Pieces of JSON that the report and `info` share. */
#ifndef VT_JSON_H
#define VT_JSON_H

#include <cjson/cJSON.h>

#include "view/view.h"

/* Adds an exact integer. */
bool vt_json_number(cJSON *object, const char *name, uint64_t value);
cJSON *vt_json_frame(const struct vt_frame *frame);
cJSON *vt_json_stack(const struct vt_trace *trace, uint32_t stack_id);
/* The fields of the report's "trace". */
void vt_json_trace(cJSON *object, const struct vt_trace *trace);
/* Prints and a line break; `compact` = on one line. 0 or -errno. */
int vt_json_print(const cJSON *root, bool compact, FILE *out);

#endif
