/* The words that every stage shares: categories, phases and evidence, with their names. */
#ifndef VT_WORDS_H
#define VT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order that reports show them. */
#define VT_CATEGORIES(X)                                                                                     \
    X(PARAMETER, "parameter")                                                                                \
    X(BUFFER, "buffer")                                                                                      \
    X(CHECKPOINT_COPY, "checkpoint_copy")                                                                    \
    X(GRADIENT, "gradient")                                                                                  \
    X(OPTIMIZER_STATE, "optimizer_state")                                                                    \
    X(ACTIVATION, "activation")                                                                              \
    X(KV_CACHE, "kv_cache") X(INPUT, "input") X(TEMPORARY, "temporary") X(WORKSPACE, "workspace")            \
        X(COMMUNICATION, "communication") X(CONTEXT, "context") X(CACHED, "cached")                          \
            X(HOST_PINNED, "host_pinned") X(OTHER, "other") X(UNKNOWN, "unknown")
enum vt_category {
#define X(id, name) VT_CATEGORY_##id,
    VT_CATEGORIES(X)
#undef X
        VT_CATEGORY_COUNT
};

#define VT_PHASES(X)                                                                                         \
    X(INIT, "init")                                                                                          \
    X(FORWARD, "forward")                                                                                    \
    X(BACKWARD, "backward") X(OPTIMIZER, "optimizer") X(EVAL, "eval") X(DATA, "data") X(OTHER, "other")
enum vt_phase {
#define X(id, name) VT_PHASE_##id,
    VT_PHASES(X)
#undef X
        VT_PHASE_COUNT
};

/* A phase that frames of a framework show. Any program has the others. */
static inline bool vt_phase_is_shown(enum vt_phase phase)
{
    return phase == VT_PHASE_FORWARD || phase == VT_PHASE_BACKWARD || phase == VT_PHASE_OPTIMIZER ||
           phase == VT_PHASE_EVAL;
}

/* From weakest to strongest. */
#define VT_EVIDENCES(X) X(WEAK, "weak") X(STRONG, "strong") X(EXACT, "exact")
enum vt_evidence {
#define X(id, name) VT_EVIDENCE_##id,
    VT_EVIDENCES(X)
#undef X
        VT_EVIDENCE_COUNT
};

/* By value, then NULL. */
extern const char *const vt_category_names[], *const vt_phase_names[], *const vt_evidence_names[];

/* "unknown", "other" and "?" for values out of range. */
const char *vt_category_name(unsigned category);
const char *vt_phase_name(unsigned phase);
const char *vt_evidence_name(unsigned evidence);

/* Names of a category for people: in a table ("optimizer"), in a sentence ("activations"). */
const char *vt_category_label(unsigned category);
const char *vt_category_many(unsigned category);

/* The order in which categories are stacked in a picture, from the bottom; cached, context and pinned host
 * memory are not part of it. */
extern const uint8_t vt_stacked_categories[];
extern const size_t vt_stacked_category_count;

/* The category with the most bytes; UNKNOWN if none has any. */
unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT]);

/* Bytes in use: what a device's categories hold without the cache and the context. */
uint64_t vt_used_bytes(const uint64_t categories[VT_CATEGORY_COUNT]);

/* Of enum vt_event_kind and enum vt_layer (vramtrace/format.h); "unknown" for others. */
const char *vt_event_kind_name(unsigned kind); /* "alloc", … */
const char *vt_layer_name(unsigned layer);     /* "none", "driver", "runtime", "framework" */

#endif
