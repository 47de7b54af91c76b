/* The allocations and changes of a trace as tables of the page. A change is an event at which something began
 * or ended. */
#ifndef VT_HTML_ALLOCATIONS_H
#define VT_HTML_ALLOCATIONS_H

#include "view/html/classes.h"

/* What is kept of each allocation while its page is made. */
struct vt_page_allocation {
    uint32_t alloc_event, free_event; /* free_event UINT32_MAX = alive at the end */
    uint32_t class_number;
    uint64_t address, bytes;
};

struct vt_page_allocations {
    size_t count, change_count;
    uint64_t tick_ns;
    uint64_t block_devices; /* bits: devices on which a framework had blocks */
    uint32_t *changes;      /* by event: the last change at or before it, 0 before the first */
    size_t event_count;
    /* private, while they are made */
    struct vt_classes classes;
    uint64_t devices; /* bits: those of the report */
    struct vt_page_allocation *items;
};

/* Adds the tables of changes and allocations, and all that these name. The caller frees
 * *allocations. */
void vt_page_allocations_add(struct vt_page_trace *page, struct vt_page_allocations *allocations);
void vt_page_allocations_free(struct vt_page_allocations *allocations);

#endif
