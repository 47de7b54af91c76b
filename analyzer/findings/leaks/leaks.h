/* Leaks: growth that repeats. */
#ifndef VT_FINDINGS_LEAKS_LEAKS_H
#define VT_FINDINGS_LEAKS_LEAKS_H

struct vt_attribution;
struct vt_leaks;
struct vt_places;

/* Of one device. Page-locked host memory is reported with the lowest device that has any memory. */
void vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                   struct vt_leaks *leaks);

#endif
