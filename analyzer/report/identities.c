#include "report/identities.h"

#include <inttypes.h>
#include <stdio.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/format.h"

static const char *const kinds[] = {[VT_IDENTITY_STATES] = "states", [VT_IDENTITY_GRADIENTS] = "gradients"};
static const char *const results[] = {
    [VT_IDENTITY_HOLDS] = "holds", [VT_IDENTITY_RESTORED] = "restored", [VT_IDENTITY_BROKEN] = "broken"};

static void write_text(const struct vt_identity *identity, struct vt_report_identity *told)
{
    char expected[32], found[32], first[240], second[128];
    vt_format_bytes(identity->expected_bytes, expected);
    vt_format_bytes(identity->found_bytes, found);
    if (identity->kind == VT_IDENTITY_STATES)
        snprintf(first, sizeof first,
                 "%.40s keeps %" PRIu32 " states for each parameter; the rules found %.1f",
                 identity->optimizer, identity->states,
                 (double)identity->states * (double)identity->found_bytes / (double)identity->expected_bytes);
    else
        snprintf(
            first, sizeof first,
            "%.40s made states for %s of parameters, which had gradients then; the rules found %s of these",
            identity->optimizer, expected, found);
    if (identity->result == VT_IDENTITY_BROKEN)
        snprintf(second, sizeof second, "What it is about has weak evidence at most");
    else
        snprintf(second, sizeof second, "%" PRIu64 " block%s got another category, with weak evidence",
                 identity->blocks, identity->blocks == 1 ? "" : "s");
    snprintf(told->text, sizeof told->text, "%s. %s", first, second);
}

struct vt_report_identity *vt_report_identities_make(const struct vt_attribution *attribution, size_t *count)
{
    struct vt_report_identity *made = vt_allocate_zeros(attribution->identity_count + 1, sizeof *made);
    *count = attribution->identity_count;
    for (size_t i = 0; i < *count; i++) {
        const struct vt_identity *identity = &attribution->identities[i];
        made[i] = (struct vt_report_identity){.optimizer = identity->optimizer,
                                              .kind = kinds[identity->kind],
                                              .result = results[identity->result],
                                              .states = identity->states,
                                              .expected_bytes = identity->expected_bytes,
                                              .found_bytes = identity->found_bytes,
                                              .blocks = identity->blocks};
        if (identity->result != VT_IDENTITY_HOLDS)
            write_text(identity, &made[i]);
    }
    return made;
}
