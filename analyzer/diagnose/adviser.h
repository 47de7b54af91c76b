/* What the finders of advice share. */
#ifndef VT_ADVISER_H
#define VT_ADVISER_H

#include <stdarg.h>

#include "attribute/stack_traits.h"
#include "base/format.h"
#include "base/index.h"
#include "diagnose/whatif.h"
#include "report/report.h"

#define VT_ADVICE_LIMIT 16 /* pieces */

/* Two threads may find advice at one time: each with a copy, in which `advices` and `whatif.changes` are its
 * own. */
struct vt_adviser {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_replay *replay;
    struct vt_whatif whatif;
    struct vt_advices *advices; /* of the kind that is searched for */
    uint32_t *passes;           /* by event: how many backward passes have begun */
};

enum vt_advice_kind {
#define VT_ADVICE(id, name, find) VT_ADVICE_##id,
#include "diagnose/remedies.def"
};
#define VT_ADVICE(id, name, find) void find(struct vt_adviser *adviser);
#define VT_REMEDY(id, text) extern const char vt_remedy_##id[];
#include "diagnose/remedies.def"

void vt_adviser_make(const struct vt_report *report, int device_index, struct vt_adviser *adviser);
void vt_adviser_free(struct vt_adviser *adviser);
/* 1 % of the peak or more. */
bool vt_is_worth_advice(const struct vt_advices *advices, uint64_t bytes);
/* Adds advice, if it is worth it and there is space for it; else NULL. The caller frees the items. */
struct vt_advice *vt_advice_add(struct vt_advices *advices, const char *kind, uint64_t bytes,
                                const char *what, const char *why, va_list arguments)
    __attribute__((format(printf, 5, 0)));
/* Leaks first, then the largest. */
void vt_advices_sort(struct vt_advices *advices);
/* Adds advice that saves this many bytes, if it is worth it. It is about the line of `stack_id`, or if that
 * is 0, about `module`. `why` and the rest say why. */
void vt_advise(struct vt_adviser *adviser, enum vt_advice_kind kind, uint64_t bytes, uint32_t stack_id,
               const char *module, const char *what, const char *why, ...)
    __attribute__((format(printf, 7, 8)));

#endif
