/* What allocations have in common, each once: classes, and the stacks, frames and tensors that classes name.
 * Allocations of one class are alike in all but their bytes, address and life. */
#ifndef VT_CLASSES_H
#define VT_CLASSES_H

#include "report/tables.h"
#include "view/html/table.h"

/* Rows of a few words, each kept once and numbered from 0 on. */
struct vt_rows {
    size_t width;    /* words of a row */
    uint64_t *words; /* width * count */
    size_t count, capacity;
    struct vt_index by_content;
};

struct vt_classes {
    struct vt_page_trace *page;
    struct vt_page_table table, tensor_table;
    struct vt_rows read; /* as read: with the addresses of texts */
    uint32_t *numbers;   /* by row of `read`: its class */
    size_t capacity;
    struct vt_rows rows;            /* by class, with the numbers of texts */
    struct vt_rows tensors;         /* each with the list of those after it */
    struct vt_index tensor_lists;   /* a row's tensor_list → number of a list here */
    struct vt_index stacks, frames; /* those that classes name, and that these stacks go through */
};

void vt_classes_begin(struct vt_classes *classes, struct vt_page_trace *page);
void vt_classes_free(struct vt_classes *classes);

/* The class of an allocation. */
uint32_t vt_classes_find(struct vt_classes *classes, const struct vt_allocation_row *row);
/* Adds the tables of all classes and of what they name, after the last of them, and the lines of source
 * around their places: {"model.py":{"141":"    return x","142":…}}. */
void vt_classes_finish(struct vt_classes *classes);

#endif
