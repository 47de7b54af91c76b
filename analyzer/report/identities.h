/* What must hold for the blocks of an optimizer, and whether the labels agree with it, in words. */
#ifndef VT_REPORT_IDENTITIES_H
#define VT_REPORT_IDENTITIES_H

#include <stddef.h>
#include <stdint.h>

struct vt_attribution;

struct vt_report_identity {
    const char *optimizer;                /* its class */
    const char *kind;                     /* "states", "gradients" */
    const char *result;                   /* "holds", "restored", "broken" */
    uint32_t states;                      /* for each parameter; 0 = it is not about them */
    uint64_t expected_bytes, found_bytes; /* found: by the first labels */
    uint64_t blocks;                      /* whose label or evidence was changed for it */
    char text[400];                       /* a sentence or two; "" = it holds */
};

/* *count of them, for the caller to free; never NULL. */
struct vt_report_identity *vt_report_identities_make(const struct vt_attribution *attribution, size_t *count);

#endif
