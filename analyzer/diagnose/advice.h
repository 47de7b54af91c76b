/* Advice: what would have lowered the peak, by what the trace itself shows.
 *
 * Each piece says which bytes would not have been there, and when; the peak is then found anew over the whole
 * trace, since another moment may become the largest. */
#ifndef VT_ADVICE_H
#define VT_ADVICE_H

#include "attribute/attribute.h"

struct vt_advice {
    const char
        *kind; /* "checkpoint", "zero_grad", "no_grad", "optimizer", "foreach", "in_place", "empty_cache" */
    char what[192], why[400];
    char where[160];   /* a module, "" = see the stack */
    uint32_t stack_id; /* of the line that it is about, 0 = none */
    uint64_t bytes;    /* by which the peak would have been lower; of empty_cache, the driver's bytes then */
};

struct vt_advices {
    struct vt_advice *items; /* largest first */
    size_t count;
    uint64_t peak_bytes;
};

/* None under 1 % of the peak. -ENOMEM. */
int vt_advice_find(const struct vt_attribution *attribution, int device_index, struct vt_advices *advices);
void vt_advice_free(struct vt_advices *advices);

#endif
