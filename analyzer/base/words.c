#include "base/words.h"

#include "vramtrace/format.h"

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

/* In a sentence, in a table. */
static const struct {
    const char *many, *label;
} labels[VT_CATEGORY_COUNT] = {
    [VT_CATEGORY_PARAMETER] = {"parameters", "parameter"},
    [VT_CATEGORY_BUFFER] = {"buffers", "buffer"},
    [VT_CATEGORY_CHECKPOINT_COPY] = {"checkpoint copies", "checkpoint copy"},
    [VT_CATEGORY_GRADIENT] = {"gradients", "gradient"},
    [VT_CATEGORY_OPTIMIZER_STATE] = {"optimizer state", "optimizer"},
    [VT_CATEGORY_ACTIVATION] = {"activations", "activation"},
    [VT_CATEGORY_KV_CACHE] = {"KV cache", "KV cache"},
    [VT_CATEGORY_INPUT] = {"inputs", "input"},
    [VT_CATEGORY_TEMPORARY] = {"temporaries", "temporary"},
    [VT_CATEGORY_WORKSPACE] = {"workspaces", "workspace"},
    [VT_CATEGORY_COMMUNICATION] = {"communication buffers", "communication"},
    [VT_CATEGORY_CONTEXT] = {"CUDA context", "context"},
    [VT_CATEGORY_CACHED] = {"cached memory", "cached"},
    [VT_CATEGORY_HOST_PINNED] = {"pinned host memory", "pinned host"},
    [VT_CATEGORY_OTHER] = {"other tensors", "other"},
    [VT_CATEGORY_UNKNOWN] = {"of unknown use", "unknown"},
};

const char *vt_category_label(unsigned category)
{
    return labels[category < VT_CATEGORY_COUNT ? category : VT_CATEGORY_UNKNOWN].label;
}

const char *vt_category_many(unsigned category)
{
    return labels[category < VT_CATEGORY_COUNT ? category : VT_CATEGORY_UNKNOWN].many;
}

const uint8_t vt_stacked_categories[] = {
    VT_CATEGORY_PARAMETER, VT_CATEGORY_BUFFER,    VT_CATEGORY_CHECKPOINT_COPY, VT_CATEGORY_OPTIMIZER_STATE,
    VT_CATEGORY_GRADIENT,  VT_CATEGORY_OTHER,     VT_CATEGORY_INPUT,           VT_CATEGORY_ACTIVATION,
    VT_CATEGORY_KV_CACHE,  VT_CATEGORY_TEMPORARY, VT_CATEGORY_WORKSPACE,       VT_CATEGORY_COMMUNICATION,
    VT_CATEGORY_UNKNOWN,
};
const size_t vt_stacked_category_count = sizeof vt_stacked_categories;

unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT])
{
    unsigned largest = VT_CATEGORY_UNKNOWN;

    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        if (categories[c] > categories[largest])
            largest = c;
    return largest;
}

uint64_t vt_used_bytes(const uint64_t categories[VT_CATEGORY_COUNT])
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < vt_stacked_category_count; i++)
        bytes += categories[vt_stacked_categories[i]];
    return bytes;
}

const char *vt_event_kind_name(unsigned kind)
{
    static const char *const names[] = {
        [VT_EVENT_NONE] = "none",
        [VT_EVENT_ALLOC] = "alloc",
        [VT_EVENT_FREE] = "free",
        [VT_EVENT_FREE_FAILED] = "free_failed",
        [VT_EVENT_HANDLE_CREATE] = "handle_create",
        [VT_EVENT_HANDLE_RETAIN] = "handle_retain",
        [VT_EVENT_HANDLE_RELEASE] = "handle_release",
        [VT_EVENT_MAP] = "map",
        [VT_EVENT_UNMAP] = "unmap",
        [VT_EVENT_RESERVE] = "reserve",
        [VT_EVENT_UNRESERVE] = "unreserve",
        [VT_EVENT_POOL] = "pool",
        [VT_EVENT_POOL_DESTROY] = "pool_destroy",
        [VT_EVENT_MEMORY_INFO] = "memory_info",
        [VT_EVENT_DELTA] = "delta",
        [VT_EVENT_CONTEXT_CREATE] = "context_create",
        [VT_EVENT_CONTEXT_DESTROY] = "context_destroy",
        [VT_EVENT_OOM] = "oom",
        [VT_EVENT_ALLOC_FAILED] = "alloc_failed",
        [VT_EVENT_MARK] = "mark",
        [VT_EVENT_RANGE_PUSH] = "range_push",
        [VT_EVENT_RANGE_POP] = "range_pop",
        [VT_EVENT_INSPECTION] = "look",
        [VT_EVENT_NODE] = "node",
        [VT_EVENT_MULTICAST_CREATE] = "multicast_create",
        [VT_EVENT_BIND] = "bind",
        [VT_EVENT_BIND_ADDRESS] = "bind_address",
        [VT_EVENT_UNBIND] = "unbind",
        [VT_EVENT_CAPTURE] = "capture",
        [VT_EVENT_CAPTURE_END] = "capture_end",
        [VT_EVENT_GRAPH] = "graph",
        [VT_EVENT_GRAPH_LAUNCH] = "graph_launch",
        [VT_EVENT_GRAPH_DESTROY] = "graph_destroy",
        [VT_EVENT_PAUSE] = "pause",
        [VT_EVENT_RESUME] = "resume",
        [VT_EVENT_GAP_BEGIN] = "gap_begin",
        [VT_EVENT_GAP_END] = "gap_end",
        [VT_EVENT_RAN] = "ran",
        [VT_EVENT_CALL] = "call",
        [VT_EVENT_AFTER] = "after",
        [VT_EVENT_ZEROED] = "zeroed",
        [VT_EVENT_MOST] = "most",
        [VT_EVENT_LAST] = "last",
        [VT_EVENT_EXPORT] = "export",
    };

    return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "unknown";
}

const char *vt_layer_name(unsigned layer)
{
    static const char *const names[] = {"none", "driver", "runtime", "framework"};

    return layer < sizeof names / sizeof *names ? names[layer] : "unknown";
}
