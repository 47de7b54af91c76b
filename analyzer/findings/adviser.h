/* What the finders of advice share. */
#ifndef VT_ADVISER_H
#define VT_ADVISER_H

#include <stdarg.h>

#include "attribute/stack_traits.h"
#include "base/format.h"
#include "base/index.h"
#include "findings/whatif.h"
#include "report/report.h"

#define VT_ADVICE_LIMIT 16   /* pieces */
#define VT_ADVICE_COLUMNS 60 /* of what to do */

/* Two threads may find advice at one time: each with a copy, in which `advices` and `whatif.changes` are its
 * own. */
struct vt_adviser {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_replay *replay;
    struct vt_whatif whatif;
    struct vt_advices *advices; /* of the kind that is searched for */
    uint32_t *passes;           /* by event: how many backward passes have begun */
    uint32_t *lines;            /* by stack: the first stack with its Python frames; itself without any */
    uint64_t *line_traits;      /* by such a stack: what all with its Python frames show */
};

struct vt_remedy {
    const char *what, *how; /* as in findings.def */
};

enum vt_advice_kind {
#define VT_ADVICE(id, name, find, change) VT_ADVICE_##id,
#include "findings/findings.def"
};
#define VT_ADVICE(id, name, find, change) void find(struct vt_adviser *adviser);
#define VT_REMEDY(id, what, how) extern const struct vt_remedy vt_remedy_##id;
#include "findings/findings.def"

void vt_adviser_make(const struct vt_report *report, int device_index, struct vt_adviser *adviser);
void vt_adviser_free(struct vt_adviser *adviser);
/* True for what the peak counts, but for workspaces: a library keeps them, or takes them again, whatever the
 * script does with its tensors. */
bool vt_is_of_script(const struct vt_adviser *adviser, uint32_t allocation);
/* The line (vt_adviser.lines) that an allocation belongs to; in backward, that of its forward operator. A
 * node shows Python frames only. */
uint32_t vt_line_of(const struct vt_adviser *adviser, uint32_t allocation);
/* What the stack of an allocation shows; in backward, what shows at the line of its forward operator. */
uint64_t vt_forward_traits(const struct vt_adviser *adviser, uint32_t allocation);
/* The allocations of a backward pass and of the forward before it, by index. vt_next_backward goes to the
 * next pass; false if there is none. Start with zeros. */
struct vt_backward {
    const struct vt_span *span;
    uint32_t first, begin, end; /* of forward, of backward, and after it */
};
bool vt_next_backward(const struct vt_adviser *adviser, struct vt_backward *backward);
/* 1 % of the peak or more. */
bool vt_is_worth_advice(const struct vt_advices *advices, uint64_t bytes);
/* Adds advice, if it is worth it and there is space for it; else NULL. The caller frees the items. */
struct vt_advice *vt_advice_add(struct vt_advices *advices, const char *kind, uint64_t bytes,
                                const char *what, const char *why, va_list arguments)
    __attribute__((format(printf, 5, 0)));
/* Leaks first, then the largest. */
void vt_advices_sort(struct vt_advices *advices);
/* Adds advice that saves this many bytes, as vt_whatif_saves found last, if it is worth it. It is about the
 * line of `stack_id`, or if that is 0, about `module`. `subject`: for the remedy's sentence; its beginning
 * goes where it is too long. `why` and the rest say why. */
struct vt_advice_subject {
    uint32_t stack_id;
    const char *module, *subject;
};
void vt_advise(struct vt_adviser *adviser, enum vt_advice_kind kind, uint64_t bytes,
               struct vt_advice_subject about, const struct vt_remedy *remedy, const char *why, ...)
    __attribute__((format(printf, 6, 7)));

#endif
