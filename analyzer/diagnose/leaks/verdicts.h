/* The verdicts on growth. */
#ifndef VT_LEAK_VERDICTS_H
#define VT_LEAK_VERDICTS_H

/* id, name, whether it is a leak, remedy. Stacks and lifetimes do not show who holds a tensor (a list, an
 * exception's traceback, a closure); then the verdict is the nearest one that is true. */
#define VT_LEAK_VERDICTS(X)                                                                                  \
    X(GRAPH, "retained graph", true,                                                                         \
      "Sum up or store the number, not the tensor: call .item() or .detach() first.")                        \
    X(REUSED_GRAPH, "retained graph", true,                                                                  \
      "Call detach() on what one step passes to the next (a hidden state), and drop retain_graph=True.")     \
    X(CREATE_GRAPH, "gradients with a graph", true,                                                          \
      "Set the gradients to None once they have been used (optimizer.zero_grad()), or use "                  \
      "torch.autograd.grad() "                                                                               \
      "instead of backward(create_graph=True).")                                                             \
    X(EVALUATION, "eval with gradients on", true,                                                            \
      "Run evaluation under torch.no_grad() or torch.inference_mode(), and keep .item() of its results.")    \
    X(TENSOR, "kept tensor", true,                                                                           \
      "Clear or bound what keeps it (a list, a dict, an attribute), or keep copies on the CPU.")             \
    X(HOOK, "hook or closure", true,                                                                         \
      "Remove the hook when it is no longer needed (handle.remove()), or bound what it collects.")           \
    X(EXCEPTION, "held by an exception", true,                                                               \
      "Drop the exception: its traceback holds every variable of the functions it passed through.")          \
    X(CYCLE, "reference cycle", true,                                                                        \
      "Break the cycle (weakref, or del the attribute that closes it), so that no collector is needed.")     \
    X(DRIVER, "driver memory not freed", true,                                                               \
      "Free in each step what the step allocates; no framework frees driver memory.")                        \
    X(HOST_PINNED, "host pinned growth", true,                                                               \
      "Allocate pinned buffers once and reuse them, or drop what holds them.")                               \
    X(GROWING, "growing tensor", false,                                                                      \
      "If nothing ends it (a context, a history), cut it, or move its old part to the CPU.")                 \
    X(FRAGMENTATION, "fragmentation", false,                                                                 \
      "Pad to fewer different sizes, or make what stays before what goes.")                                  \
    X(CACHE, "cache growth", false,                                                                          \
      "Nothing leaks: the cache has the size of the largest need so far. Lower that need if it is too "      \
      "large.")

/* The remedy for memory that a library took from the driver itself. */
#define VT_LEAK_LIBRARY_REMEDY                                                                               \
    "Reuse what this library makes in each step (plans, handles, communicators), or destroy it."

/* The remedy for gradients with a graph if it is not known what holds them. */
#define VT_LEAK_UNSETTLED_GRADIENTS                                                                          \
    "Of gradients made with create_graph=True, keep only .item() or .detach(), and set .grad to None once "  \
    "they have been used."

enum vt_leak_verdict {
#define X(id, name, is_leak, remedy) VT_LEAK_##id,
    VT_LEAK_VERDICTS(X)
#undef X
        VT_LEAK_VERDICT_COUNT
};

#endif
