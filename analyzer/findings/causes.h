/* Why memory ran out. Each finder looks for one thing that filled the GPU. */
#ifndef VT_CAUSES_H
#define VT_CAUSES_H

#include "replay/replay.h"
#include "report/blocks.h"
#include "report/report.h"

enum vt_cause_kind {
#define VT_CAUSE(id, name, certain, examined, remedy, find) VT_CAUSE_##id,
#include "findings/findings.def"
};

struct vt_cause_search {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_shortage *shortage;
    const struct vt_oom *refusal;
    struct vt_counted there; /* allocations on the GPU when memory runs out */
    uint64_t gpu_bytes;
    uint32_t found;                      /* causes so far: bits by enum vt_cause_kind */
    enum vt_cause_kind kinds[VT_CAUSES]; /* of these, in the order in which they were found */
};

/* The cause, if it is large enough; NULL if it is not, or if there are enough already. */
struct vt_cause *vt_cause_add(struct vt_cause_search *search, enum vt_cause_kind kind, uint64_t bytes,
                              uint32_t stack_id, const char *what, ...) __attribute__((format(printf, 5, 6)));

/* Made by a step for itself: not what stays by its nature. */
bool vt_cause_is_passing(uint8_t category);

/* What each step makes for itself; and what cannot be made smaller by freeing: the context, others, and the
 * model with its states. */
uint64_t vt_cause_passing_bytes(const struct vt_cause_search *search);
uint64_t vt_cause_resident_bytes(const struct vt_cause_search *search);

/* Why memory ran out. The device's leaks are found before. */
void vt_causes_find(const struct vt_report *report, struct vt_shortage *shortage);

#endif
