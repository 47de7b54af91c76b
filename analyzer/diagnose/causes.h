/* Why memory ran out. Each finder looks for one thing that filled the GPU. */
#ifndef VT_CAUSES_H
#define VT_CAUSES_H

#include "replay/replay.h"
#include "report/blocks.h"
#include "report/report.h"

/* Id, name, remedy (of a leak, its own), and the function that looks for it. */
#define VT_CAUSE_KINDS(X)                                                                                    \
    X(REQUEST, "request",                                                                                    \
      "Make the tensor in parts, or of fewer rows: no other memory can be freed for it.", find_request)      \
    X(LEAK, "leak", "", find_leaks)                                                                          \
    X(FAILED_TRY, "failed_try",                                                                              \
      "Try again after the except block has ended, or drop the exception first: its traceback holds every "  \
      "variable of the functions that it left.",                                                             \
      find_failed_try)                                                                                       \
    X(GRADIENTS_ON, "gradients_on", "Run evaluation under torch.no_grad() or torch.inference_mode().",       \
      find_gradients_on)                                                                                     \
    X(SECOND_MODEL, "second_model",                                                                          \
      "Delete the earlier model and its optimizer before making the next, or keep its state_dict() on the "  \
      "CPU.",                                                                                                \
      vt_cause_second_model)                                                                                 \
    X(CHECKPOINT_COPY, "checkpoint_copy",                                                                    \
      "Read checkpoints with map_location=\"cpu\", and keep copies of weights there.", find_checkpoint_copy) \
    X(FRAGMENTATION, "fragmentation",                                                                        \
      "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which lets free pieces of many segments serve " \
      "one request; or make the large block before the small ones that stay.",                               \
      find_fragmentation)                                                                                    \
    X(EARLIER_STEPS, "earlier_steps",                                                                        \
      "Drop what earlier steps made (del, .item(), .cpu()); without backward, run under torch.no_grad().",   \
      find_earlier_steps)                                                                                    \
    X(KV_CACHE, "kv_cache",                                                                                  \
      "Answer fewer sequences at once, bound their length, or keep the cache quantized or on the CPU.",      \
      find_kv_cache)                                                                                         \
    X(IDLE_MODEL, "idle_model",                                                                              \
      "Delete it once nothing needs it (del), or move it to the CPU until something does.",                  \
      vt_cause_idle_model)                                                                                   \
    X(UNKNOWN_USE, "unknown_use",                                                                            \
      "Look at the lines that made it: free what nothing needs any more, or make less of it at a time.",     \
      find_unknown_use)                                                                                      \
    X(SIZE, "size",                                                                                          \
      "Use a smaller batch (accumulate gradients over several) or activation checkpointing; of weights and " \
      "their states, lower precision or sharding.",                                                          \
      find_size)
enum vt_cause_kind {
#define X(id, name, remedy, find) VT_CAUSE_##id,
    VT_CAUSE_KINDS(X)
#undef X
};

struct vt_cause_search {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_shortage *shortage;
    const struct vt_oom *refusal;
    uint64_t card_bytes;
};

/* The cause, if it is large enough; NULL if it is not, or if there are enough already. */
struct vt_cause *vt_cause_add(struct vt_cause_search *search, enum vt_cause_kind kind, uint64_t bytes,
                              uint32_t stack_id, const char *what, ...) __attribute__((format(printf, 5, 6)));

/* It is on the GPU when memory runs out. */
static inline bool vt_cause_is_there(const struct vt_cause_search *search, uint32_t allocation)
{
    return vt_is_counted(&search->replay->allocations[allocation], search->refusal->device_index,
                         search->refusal->event_index);
}

/* Why memory ran out. The device's leaks are found before. */
void vt_causes_find(const struct vt_report *report, struct vt_shortage *shortage);

#endif
