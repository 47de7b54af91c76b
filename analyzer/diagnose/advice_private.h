/* What the files of advice share. */
#ifndef VT_ADVICE_PRIVATE_H
#define VT_ADVICE_PRIVATE_H

#include "attribute/sites.h"
#include "base/format.h"
#include "diagnose/advice.h"
#include "diagnose/whatif.h"
#include "report/parts.h"

struct vt_adviser {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_replay *replay;
    struct vt_whatif whatif;
    struct vt_advices *advices;
    uint32_t *passes; /* by event: how many backward passes have begun */
};

/* Adds a piece that saves so many bytes, for the caller to fill; NULL if that is under 1 % of the peak. */
struct vt_advice *vt_advise(struct vt_adviser *adviser, const char *kind, uint64_t bytes);

/* Each adds what it finds. -ENOMEM. */
int vt_advise_gradients(struct vt_adviser *adviser);
int vt_advise_evaluation(struct vt_adviser *adviser);
int vt_advise_optimizer(struct vt_adviser *adviser);
int vt_advise_in_place(struct vt_adviser *adviser);
int vt_advise_checkpoints(struct vt_adviser *adviser);

#endif
