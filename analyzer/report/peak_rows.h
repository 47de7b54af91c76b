/* What was alive at the peak of a device, for tables of many traces: few rows, whatever the trace's length.
 */
#ifndef VT_PEAK_ROWS_H
#define VT_PEAK_ROWS_H

#include "report/report.h"

/* All that is of one category, phase, tensor, module, operator and line; and a row each for the cache and the
 * context. The rows of a device sum to its driver_bytes at the peak. Text belongs to the report; NULL = not
 * known. */
struct vt_peak_row {
    int device_index;
    uint8_t category, phase;
    const char *owner, *role, *module, *module_class, *operator_name;
    const struct vt_place *place;
    uint64_t bytes;       /* of a block with several tensors: this one's share */
    uint64_t exact_bytes; /* of these: an inspection saw what they are */
    uint64_t blocks;
};
struct vt_peak_rows {
    struct vt_peak_row *items; /* largest first; the caller frees them */
    size_t count;
};

struct vt_peak_rows vt_peak_rows_make(const struct vt_report *report, const struct vt_device_report *device);

#endif
