/* Settings of memory that a program ran with: environment variables, and what it gave its framework's
 * allocator while it ran. */
#ifndef VT_TRACE_SETTINGS_H
#define VT_TRACE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

struct vt_trace;

/* Whether "NAME=VALUE" was in force. Of a variable of an allocator's settings ("NAME=key:value"): whether
 * that key has that value, by whichever variable or call set it last. */
bool vt_setting_in_force(const struct vt_trace *trace, const char *setting);
/* Whether the allocator was given any settings: then it may not follow the rules that it has without. */
bool vt_has_allocator_settings(const struct vt_trace *trace);

/* All settings in force, one after another: *at is 0 at first. *name: the variable; NULL = the program set
 * it. The value; NULL = there are no more. */
const char *vt_setting_next(const struct vt_trace *trace, size_t *at, const char **name);

#endif
