/* The allocations, changes and phases of a trace as blobs. A change is an event at which something began or
 * ended. */
#ifndef VT_HTML_COLUMNS_H
#define VT_HTML_COLUMNS_H

#include "report/tables.h"
#include "view/html/blobs.h"
#include "view/html/dictionary.h"

#define VT_COLUMN_BLOBS(X)                                                                                   \
    X(CHANGE_EVENT, "change_event")                                                                          \
    X(CHANGE_TIME, "change_time")                                                                            \
    X(BEGIN, "begin")                                                                                        \
    X(CLASS, "class")                                                                                        \
    X(SIZE, "size")                                                                                          \
    X(LIFE, "life")                                                                                          \
    X(ADDRESS, "address")                                                                                    \
    X(PLACE, "place")                                                                                        \
    X(SIZES, "sizes")                                                                                        \
    X(PHASE_FIRST_EVENT, "phase_first_event")                                                                \
    X(PHASE_KIND, "phase_kind") X(PHASE_STEP, "phase_step") X(PHASE_T, "phase_t")
enum vt_column_blob {
#define X(id, name) VT_BLOB_##id,
    VT_COLUMN_BLOBS(X)
#undef X
        VT_COLUMN_BLOB_COUNT
};
extern const char *const vt_column_blob_names[]; /* by enum vt_column_blob */

#define VT_PAGE_NEVER UINT32_MAX

/* What is kept of each allocation while its page is made. */
struct vt_page_allocation {
    uint32_t alloc_event, free_event; /* free_event VT_PAGE_NEVER = alive at the end */
    uint32_t class_number, size;      /* size: number in `sizes`, later its rank */
    uint64_t address;                 /* in units */
};

struct vt_page_columns {
    struct vt_blob blobs[VT_COLUMN_BLOB_COUNT];
    uint64_t allocation_count, change_count, tick_ns;
    uint64_t block_devices; /* bits: devices on which a framework had blocks */
    uint32_t *changes;      /* by event: the last change at or before it, 0 before the first */
    size_t event_count;
    /* private, while they are made */
    const struct vt_report *report;
    uint64_t devices; /* bits: those of the report */
    struct vt_dictionary *dictionary;
    struct vt_page_allocation *items;
    struct vt_word_rows sizes;
};

/* Walks the allocations, gives their classes to the dictionary, and adds the blobs. On failure too, *columns
 * is to be freed. 0 or -ENOMEM. */
int vt_page_columns_make(const struct vt_report *report, struct vt_tables *tables,
                         struct vt_dictionary *dictionary, struct vt_blobs *blobs,
                         struct vt_page_columns *columns);
/* The numbers of the column of addresses (addresses.c). -ENOMEM. */
int vt_page_addresses_make(const struct vt_page_columns *columns, struct vt_bytes *raw);
void vt_page_columns_free(struct vt_page_columns *columns);

#endif
