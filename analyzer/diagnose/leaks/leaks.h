/* Leaks: growth that repeats. Bytes that are alive when step after step begins, by the stack that made them.
 *
 * What was made in a step and is alive when the last step begins has been kept. It is a leak if keeping
 * repeats: in at least VT_LEAK_BIRTHS steps, up to the end, and what is alive grows with it. So memory that
 * is taken once, buffers that fill and stop, values that the next step replaces, and sizes that vary are
 * none. The last step itself is left out: a program that ends frees what it kept. */
#ifndef VT_LEAKS_H
#define VT_LEAKS_H

#include "attribute/attribute.h"
#include "report/findings.h"

#define VT_LEAK_BIRTHS 4u

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

/* Of one device. Page-locked host memory is reported with the lowest device that has any memory. -ENOMEM. */
int vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                  struct vt_leaks *leaks);

#endif
