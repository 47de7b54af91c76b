/* What the allocations of a trace refer to, each once and by number: texts, frames, stacks, places, tensors
 * and classes. Allocations of one class are alike in all but their bytes, address and life. */
#ifndef VT_DICTIONARY_H
#define VT_DICTIONARY_H

#include "report/tables.h"
#include "view/html/bytes.h"
#include "view/html/intern.h"

struct vt_class {
    const struct vt_place *place; /* to show; NULL = not known */
    uint32_t operator_name;       /* text */
};

struct vt_stack_range { /* in stack_frames */
    size_t first, count;
    uint32_t place_frame; /* of the table of frames, UINT32_MAX = not known */
};

struct vt_dictionary {
    struct vt_texts texts, kinds, rules;
    struct vt_word_rows classes, tensors, tensor_lists;
    struct vt_tables *tables;
    struct vt_index tensor_numbers; /* a row's tensor_list → number of a list here */
    struct vt_class *class_facts;   /* by class */
    size_t class_capacity;
    struct vt_index stack_numbers; /* id of a trace's stack → number, from 1 */
    size_t stack_count, stack_capacity;
    struct vt_stack_range *stacks; /* by number - 1 */
    uint32_t *stack_frames;        /* of the table of frames */
    size_t stack_frame_count, stack_frame_capacity;
    uint32_t *frame_numbers; /* of a frame of the table, + 1; 0 = of no stack here */
    size_t frame_number_count;
    struct vt_word_rows frames, places;
    bool failed; /* no memory; vt_dictionary_finish reports it */
};

void vt_dictionary_begin(struct vt_dictionary *dictionary, struct vt_tables *tables);
void vt_dictionary_free(struct vt_dictionary *dictionary);

/* The number of an allocation's class. */
uint32_t vt_dictionary_class(struct vt_dictionary *dictionary, const struct vt_allocation_row *row);
/* Where allocations of a class lie: 0 = anywhere, 1 + 2 * device = blocks cut from segments, 2 + 2 * device =
 * such segments. */
uint32_t vt_dictionary_place(const struct vt_dictionary *dictionary, uint32_t class_number);
static inline bool vt_is_segment_place(uint32_t place)
{
    return place && !(place & 1);
}
/* Reads the stacks and frames of all classes, after the last of them. 0 or -ENOMEM. */
int vt_dictionary_finish(struct vt_dictionary *dictionary);
/* The document "names". */
void vt_dictionary_write(struct vt_dictionary *dictionary, const struct vt_trace *trace, struct vt_bytes *json);

#endif
