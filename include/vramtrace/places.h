/* A definition record of a trace: where the blocks of a stack lie, and settings of their allocator. */
#ifndef VRAMTRACE_PLACES_H
#define VRAMTRACE_PLACES_H

#include "vramtrace/format.h"

/* VT_RECORD_PLACE. PyTorch's allocator serves each stream from segments of its own. */
struct vt_place_record {
    struct vt_record_head head;
    uint32_t place_id; /* from 1; 0: settings that the program gave the allocator while it ran, and no place */
    int32_t device_index;
    uint64_t stream; /* PyTorch's id of the stream; 0 = the device's default stream */
    uint64_t pool;   /* reserved, 0 */
    /* settings to the end of the record, without a NUL: "expandable_segments:True" */
};

#endif
