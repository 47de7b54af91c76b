/* What is still allocated at the end, by line. */
#ifndef VT_FINDINGS_LEAKS_REMAINING_H
#define VT_FINDINGS_LEAKS_REMAINING_H

#include <stdbool.h>

struct vt_attribution;
struct vt_leaks;
struct vt_places;

/* Sets `remaining` of the device's leaks, the most bytes first. A framework's workspaces are
 * left out. `with_host`: page-locked host memory, too. */
void vt_leak_remaining_find(const struct vt_attribution *attribution, struct vt_places *places,
                            int device_index, bool with_host, struct vt_leaks *leaks);

#endif
