/* The verdicts on growth. */
#ifndef VT_LEAK_VERDICTS_H
#define VT_LEAK_VERDICTS_H

/* id, name, whether it is a leak, remedy. Stacks and lifetimes do not show who holds a tensor (a list, an
 * exception's traceback, a closure); then the verdict is the nearest one that is true. */
#define VT_LEAK_VERDICTS(X)                                                                                  \
    X(GRAPH, "retained graph", true, "Store loss.item() or .detach(), not the tensor with its graph.")       \
    X(REUSED_GRAPH, "retained graph", true,                                                                  \
      "Detach values carried across steps (hidden states); remove retain_graph=True.")                       \
    X(CREATE_GRAPH, "gradients with a graph", true,                                                          \
      "Set the gradients to None once they have been used (optimizer.zero_grad()), or use "                  \
      "torch.autograd.grad() "                                                                               \
      "instead of backward(create_graph=True).")                                                             \
    X(EVALUATION, "eval with gradients on", true,                                                            \
      "Run evaluation under torch.no_grad() or torch.inference_mode(), and keep .item() of its results.")    \
    X(TENSOR, "kept tensor", true,                                                                           \
      "Clear or limit whatever keeps it (a list, a dict, an attribute), or store CPU copies.")               \
    X(HOOK, "hook or closure", true, "Remove the hook (handle.remove()) or limit what it stores.")           \
    X(EXCEPTION, "held by an exception", true,                                                               \
      "Drop the exception: its traceback keeps every variable of the functions it passed through alive.")    \
    X(CYCLE, "reference cycle", true,                                                                        \
      "Break the cycle (weakref, del) so the tensors are freed immediately.")                                \
    X(DRIVER, "driver memory not freed", true, "Free it explicitly in each step; the framework will not.")   \
    X(HOST_PINNED, "host pinned growth", true,                                                               \
      "Allocate page-locked buffers once and reuse them, or release what keeps them.")                       \
    X(GROWING, "growing tensor", false,                                                                      \
      "If it is meant to grow (context, history), truncate it or move old parts to the CPU.")                \
    X(FRAGMENTATION, "fragmentation", false,                                                                 \
      "Pad inputs to fewer distinct sizes, or allocate long-lived tensors first.")                           \
    X(CACHE, "cache growth", false,                                                                          \
      "Reserved memory grew because the peak grew. Lower the peak if it is too large.")

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
