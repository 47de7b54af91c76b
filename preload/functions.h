/* All functions that the recorder knows (hooks/hooks.def), by number and by name. Threads: any; everything
 * here is constant. */
#ifndef VT_FUNCTIONS_H
#define VT_FUNCTIONS_H

#include <stdint.h>

enum vt_function {
    VT_FUNCTION_NONE = 0,
#define VT_FUNCTION(kind, symbol) VT_FUNCTION_##symbol,
#include "hooks/hooks.def"
    VT_FUNCTION_COUNT
};

enum vt_function_kind {
    VT_KIND_NONE = 0,
    VT_KIND_WRAPPED,
    VT_KIND_NEEDED,
    VT_KIND_UNHOOKED,
    VT_KIND_RUNTIME,
    VT_KIND_RUNTIME_NEEDED,
};

/* "" for any other number. */
const char *vt_function_name(uint16_t function);
enum vt_function_kind vt_function_kind(uint16_t function);

/* VT_FUNCTION_NONE if there is no function of this exact name. */
enum vt_function vt_function_find(const char *name);

#endif
