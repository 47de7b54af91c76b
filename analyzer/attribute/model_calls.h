/* Private to attribution: outermost calls of models, thread by thread. */
#ifndef VT_ATTRIBUTE_MODEL_CALLS_H
#define VT_ATTRIBUTE_MODEL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_finder;

struct vt_model_call {
    uint32_t event;  /* its first */
    uint32_t thread; /* of the finder */
    uint32_t kind;   /* the same for calls of one model from one place */
    bool has_input;  /* its thread got or made values between the call before and this one */
    bool is_pass;    /* a forward pass begins, not a further part of one */
    uint32_t passes; /* if so, how many: of calls that are only counted more than one */
};

struct vt_model_calls {
    struct vt_model_call *items; /* in order */
    size_t count, capacity;
    uint32_t first_event; /* of the first, if others were left out that only prepare graphs; else 0 */
};

void vt_model_calls_find(const struct vt_finder *finder, struct vt_model_calls *calls);
void vt_model_calls_free(struct vt_model_calls *calls);

#endif
