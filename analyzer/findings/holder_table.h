/* Who keeps what, at an inspection. */
#ifndef VT_HOLDER_TABLE_MAKER_H
#define VT_HOLDER_TABLE_MAKER_H

#include "report/report.h"

/* Of the inspection nearest to an event that searched for holders to its end. The caller frees it. */
struct vt_holder_table vt_holder_table_make(const struct vt_report *report, int device_index,
                                            uint32_t event_index);

#endif
