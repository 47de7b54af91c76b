/* The lines to look at for each leak. */
#ifndef VT_FINDINGS_LEAKS_LINES_H
#define VT_FINDINGS_LEAKS_LINES_H

#include <stddef.h>
#include <stdint.h>

struct vt_leak;
struct vt_leak_finder;

/* Adds the user's frames of a stack, the innermost `limit` of them, that the leak's lines do not
 * have yet. */
void vt_leak_add_lines(const struct vt_leak_finder *finder, struct vt_leak *leak, uint32_t stack_id,
                       size_t limit);
/* Finds those of each leak, once holders are known. */
void vt_leak_lines_find(struct vt_leak_finder *finder);

#endif
