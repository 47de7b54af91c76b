#include "attribute/stack_kinds.h"

#include <errno.h>
#include <stdlib.h>

#include "attribute/rules.h"
#include "attribute/sites.h"

static uint8_t kind_of(uint64_t traits)
{
    if (traits & VT_TRAIT(BACKWARD))
        return VT_STACK_BACKWARD;
    if (traits & VT_TRAIT(OPTIMIZER))
        return VT_STACK_OPTIMIZER;
    if (traits & VT_TRAIT(MODULE))
        return VT_STACK_FORWARD;
    return traits & (VT_TRAIT(DATA) | VT_TRAIT(SOURCE) | VT_TRAIT(ROWS)) ? VT_STACK_DATA : VT_STACK_OTHER;
}

int vt_stack_kinds_find(const struct vt_trace *trace, uint8_t **kinds)
{
    struct vt_sites sites = {0};
    struct vt_matcher *matcher = NULL;
    struct vt_rules *rules = NULL;
    char error_text[256];
    int error = vt_rules_load(NULL, &rules, error_text, sizeof error_text);
    *kinds = NULL;
    if (!error)
        error = vt_sites_make(trace, rules, &sites, &matcher);
    if (!error)
        *kinds = calloc(trace->stack_count + 1, 1);
    if (!error && !*kinds)
        error = -ENOMEM;
    for (size_t id = 0; id < trace->stack_count && !error; id++)
        (*kinds)[id] = kind_of(sites.items[id].traits);
    vt_matcher_free(matcher);
    vt_sites_free(&sites);
    vt_rules_free(rules);
    return error;
}
