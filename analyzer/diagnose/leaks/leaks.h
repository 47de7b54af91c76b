/* Leaks: growth that repeats. Bytes that are alive when step after step begins, by the stack that made them.
 *
 * What was made in a step and is alive when the last step begins has been kept. It is a leak if keeping
 * repeats: in at least VT_LEAK_BIRTHS steps, up to the end, and what is alive grows with it. So memory that
 * is taken once, buffers that fill and stop, values that the next step replaces, and sizes that vary are
 * none. The last step itself is left out: a program that ends lets go of what it kept. */
#ifndef VT_LEAKS_H
#define VT_LEAKS_H

#include "attribute/attribute.h"

#define VT_LEAK_BIRTHS 4u
#define VT_LEAK_STEPS 6u /* with fewer there is no telling */
#define VT_LEAK_LINES 3u
#define VT_LEAK_WHY_BYTES 512u

/* id, name, whether it is a leak, remedy. What the trace cannot tell apart by stacks and lifetimes (who holds
 * a tensor: a list, an exception's traceback, a closure) has the nearest verdict that is true. */
#define VT_LEAK_VERDICTS(X)                                                                                  \
    X(GRAPH, "retained graph", true,                                                                         \
      "Keep the number, not the tensor: .item() or .detach() before it is summed up or stored.")             \
    X(REUSED_GRAPH, "retained graph", true,                                                                  \
      "detach() what one step hands to the next (a hidden state), and do without retain_graph=True.")        \
    X(EVALUATION, "eval with gradients on", true,                                                            \
      "Run evaluation under torch.no_grad() or torch.inference_mode(), and keep .item() of its results.")    \
    X(TENSOR, "kept tensor", true,                                                                           \
      "Find what collects it (a list, a dict, an attribute): clear or bound it, or keep .cpu() copies.")     \
    X(HOOK, "hook or closure", true,                                                                         \
      "Remove the hook when it has done its work (handle.remove()), or bound what it collects.")             \
    X(EXCEPTION, "held by an exception", true,                                                               \
      "Let the exception go: its traceback holds all variables of the functions it came through.")           \
    X(CYCLE, "reference cycle", true,                                                                        \
      "Break the cycle (weakref, or del the attribute that closes it), so that no collector is needed.")     \
    X(DRIVER, "driver memory not freed", true,                                                               \
      "Free in each step what is allocated in it; outside of the framework nobody else does.")               \
    X(HOST_PINNED, "host pinned growth", true,                                                               \
      "Make the pinned buffers once and reuse them, or let go of what keeps them.")                          \
    X(FRAGMENTATION, "fragmentation", false,                                                                 \
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or sizes that vary less (padding to a few).")       \
    X(CACHE, "cache growth", false,                                                                          \
      "Nothing is lost: the cache is as large as the largest need so far. Bound the need if it is too "      \
      "much.")
enum vt_leak_verdict {
#define X(id, name, is_leak, remedy) VT_LEAK_##id,
    VT_LEAK_VERDICTS(X)
#undef X
        VT_LEAK_VERDICT_COUNT
};
const char *vt_leak_name(enum vt_leak_verdict verdict);
const char *vt_leak_remedy(enum vt_leak_verdict verdict);
bool vt_leak_is_leak(enum vt_leak_verdict verdict);

/* What each step keeps, by the line that made it. */
struct vt_leak_part {
    uint32_t stack_id;
    uint8_t category;
    uint64_t bytes_per_step, bytes, blocks;
};

struct vt_leak {
    uint8_t verdict;  /* enum vt_leak_verdict */
    uint8_t category; /* of most of its bytes */
    uint64_t bytes,
        blocks; /* alive when the last step begins, or of a cycle: the most that waited for the collector */
    uint64_t bytes_per_step;
    uint32_t first_step, last_step; /* made in: the first and the last that were seen */
    uint32_t forecast_step;     /* in which memory runs out if all leaks of the device go on; 0 = not known */
    uint32_t stack_id;          /* of the block that holds the rest, or the largest; 0 = none */
    bool rebuilt;               /* one tensor, made anew and larger in each step */
    const char *owner, *module; /* of that block, NULL = not known */
    const struct vt_inspection_holder *holder;  /* what a census saw hold the most of it, NULL = none did */
    const char *first_owner, *last_owner; /* of it, where no holder is known: what modules and optimizers call
                                             it; NULL = nothing, or all the same */
    uint64_t owned_blocks;                /* so called */
    struct vt_frame lines[VT_LEAK_LINES]; /* to look at, the likeliest first */
    size_t line_count;
    struct vt_leak_part *parts; /* largest first */
    size_t part_count;
    char why[VT_LEAK_WHY_BYTES]; /* the evidence, in a sentence */
};

struct vt_leaks {
    struct vt_leak *items; /* leaks first, by bytes per step, then what is none */
    size_t count, leak_count;
    uint32_t step_count;     /* of the trace */
    bool judged;             /* false: too few steps */
    uint64_t bytes_per_step; /* of all leaks of device memory */
};

/* Of one device. Page-locked host memory is told with the lowest device that has any memory. -ENOMEM. */
int vt_leaks_find(const struct vt_attribution *attribution, int device_index, struct vt_leaks *leaks);
void vt_leaks_free(struct vt_leaks *leaks);

#endif
