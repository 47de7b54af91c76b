#include "base/words.h"

#include <stddef.h>

#define X(id, name) name,
const char *const vt_category_names[] = {VT_CATEGORIES(X) NULL};
const char *const vt_phase_names[] = {VT_PHASES(X) NULL};
const char *const vt_evidence_names[] = {VT_EVIDENCES(X) NULL};
#undef X

const char *vt_category_name(unsigned category)
{
    return category < VT_CATEGORY_COUNT ? vt_category_names[category] : "unknown";
}

const char *vt_phase_name(unsigned phase)
{
    return phase < VT_PHASE_COUNT ? vt_phase_names[phase] : "other";
}

const char *vt_evidence_name(unsigned evidence)
{
    return evidence < VT_EVIDENCE_COUNT ? vt_evidence_names[evidence] : "?";
}
