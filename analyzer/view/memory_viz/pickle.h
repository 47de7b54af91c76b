/* A writer of Python's pickle format, version 4: dicts, lists, tuples, whole numbers, truth values and text,
 * with references to what was written before. Only opcodes that Python uses for such data and that
 * PyTorch's viewer in the browser reads: nothing in such a file runs code when it is opened. */
#ifndef VT_PICKLE_H
#define VT_PICKLE_H

#include <stdbool.h>
#include <stdio.h>

#include "view/strings.h"

struct vt_pickle {
    FILE *out;
    uint32_t remembered; /* values that can be referred to */
    struct vt_strings texts;
    uint32_t *text_numbers; /* by number of the text: of the value */
    size_t text_count, text_capacity;
    int error; /* -ENOMEM: the pickle is of no use */
};

/* A container's items come in batches, as Python writes them: a reader may take each batch at once. */
struct vt_pickle_batch {
    uint32_t count;
};

void vt_pickle_begin(struct vt_pickle *pickle, FILE *out);
/* Ends the file and frees the writer. 0 or -ENOMEM; the stream's own errors show in the stream. */
int vt_pickle_end(struct vt_pickle *pickle);

void vt_pickle_number(struct vt_pickle *pickle, uint64_t number);
void vt_pickle_bool(struct vt_pickle *pickle, bool value);
/* Written once, then referred to. Bytes that are no UTF-8, and control characters, become U+FFFD. */
void vt_pickle_text(struct vt_pickle *pickle, const char *text);
/* The tuple of the last two values. */
void vt_pickle_pair(struct vt_pickle *pickle);

/* A dict: its beginning, keys and values in turn, its end. */
void vt_pickle_dict(struct vt_pickle *pickle);
void vt_pickle_dict_end(struct vt_pickle *pickle);
void vt_pickle_list(struct vt_pickle *pickle);
/* Before each item of a list, and after the last. */
void vt_pickle_item(struct vt_pickle *pickle, struct vt_pickle_batch *batch);
void vt_pickle_list_end(struct vt_pickle *pickle, const struct vt_pickle_batch *batch);

/* Remembers the last value, and writes it again. */
uint32_t vt_pickle_remember(struct vt_pickle *pickle);
void vt_pickle_again(struct vt_pickle *pickle, uint32_t number);

#endif
