/* What stacks and code objects show, found once for each: the operator, traits, classes of code. */
#ifndef VT_STACK_TRAITS_H
#define VT_STACK_TRAITS_H

#include "attribute/attribute.h"
#include "base/strings.h"

/* Traits that the analysis itself uses. rules.def defines and describes them, except for those that code
 * sets; a user's rules may add alternatives. */
#define VT_OWN_TRAITS(X)                                                                                     \
    X(BACKWARD, "backward")                                                                                  \
    X(BACKWARD_CALL, "backward-call")                                                                        \
    X(GRADIENT_CALL, "gradient-call")                                                                        \
    X(ENGINE_THREAD, "engine-thread")                                                                        \
    X(OPTIMIZER, "optimizer")                                                                                \
    X(CLOSURE, "closure")       /* in a closure that an optimizer's step called; stack_traits.c sets it */   \
    X(OWN_UPDATE, "own-update") /* in an optimizer of the script's own; event_phases.c sets it */            \
    X(HOOK, "hook")             /* a hook of the script's that a module called; stack_traits.c sets it */    \
    X(FUNCTION_MODEL,                                                                                        \
      "function-model") /* no module ever runs, but a function that computes a model; functions.c sets it */ \
    X(MODULAR, "modular")                                                                                    \
    X(MODULE, "module")                                                                                      \
    X(MODULE_APPLY, "module-apply")                                                                          \
    X(BUFFER, "buffer")                                                                                      \
    X(INIT_METHOD, "init-method")                                                                            \
    X(CACHE_MAKER, "cache-maker") /* made by a cache's code itself; stack_traits.c sets it */                \
    X(DATA, "data")                                                                                          \
    X(RECOMPUTE, "recompute")                                                                                \
    X(SOURCE, "source")                                                                                      \
    X(UNFILLED, "unfilled")                                                                                  \
    X(ROWS, "rows")                                                                                          \
    X(AUTOCAST, "autocast")                                                                                  \
    X(COPY, "copy")                                                                                          \
    X(ZEROS, "zeros")                                                                                        \
    X(BLANK, "blank")                                                                                        \
    X(LOADED, "loaded")                                                                                      \
    X(BUCKET, "bucket")                                                                                      \
    X(GATHERED, "gathered")                                                                                  \
    X(EVALUATION, "evaluation")                                                                              \
    X(WORKSPACE, "workspace")                                                                                \
    X(BLAS_WORKSPACE, "blas-workspace")                                                                      \
    X(INPUT_OPERATOR, "input-operator")                                                                      \
    X(PRODUCT, "product")                                                                                    \
    X(CONCATENATION, "concatenation")                                                                        \
    X(FOREACH, "foreach")                                                                                    \
    X(IN_PLACE, "in-place")                                                                                  \
    X(ATTENTION_WEIGHTS, "attention-weights")                                                                \
    X(ATTENTION_PRODUCT, "attention-product")                                                                \
    X(ATTENTION_AVERAGE, "attention-average")                                                                \
    X(CLASS_LOSS, "class-loss")                                                                              \
    X(LINEAR, "linear")                                                                                      \
    X(INPUT_FREE, "input-free")                                                                              \
    X(FACTOR, "factor")                                                                                      \
    X(KEEPS_RESULT, "keeps-result")
enum vt_own_trait {
#define X(id, name) VT_TRAIT_BIT_##id,
    VT_OWN_TRAITS(X)
#undef X
        VT_OWN_TRAIT_COUNT
};
#define VT_TRAIT_LIMIT 64u
#define VT_TRAIT(id) (UINT64_C(1) << VT_TRAIT_BIT_##id)

/* Classes of Python functions. rules.def defines and describes them, except for those that code sets. */
#define VT_CODE_CLASSES(X)                                                                                   \
    X(FORWARD, "forward")                                                                                    \
    X(BACKWARD, "backward")                                                                                  \
    X(CHECKPOINT, "checkpoint")                                                                              \
    X(HOOK_CALLER, "hook-caller")                                                                            \
    X(EVALUATION, "evaluation")                                                                              \
    X(REQUEST, "request")                                                                                    \
    X(STEP, "step")                                                                                          \
    X(OPTIMIZER_STEP, "optimizer-step")                                                                      \
    X(OPTIMIZER_FILE, "optimizer-file")                                                                      \
    X(UPDATE, "update")                                                                                      \
    X(PASS, "pass")                                                                                          \
    X(RUNS_PASS,                                                                                             \
      "runs-pass") /* it has a pass beneath it in a step of an optimizer; stack_traits.c sets it */          \
    X(WRAPPER, "wrapper")                                                                                    \
    X(CACHE_MAKER, "cache-maker")                                                                            \
    X(APPLY, "apply")
enum vt_code_class {
#define X(id, name) VT_CODE_##id,
    VT_CODE_CLASSES(X)
#undef X
        VT_CODE_CLASS_COUNT
};

struct vt_stack_traits {
    const char *operator_name; /* "aten::addmm", "AddmmBackward0"; NULL = none */
    uint64_t traits;           /* VT_TRAIT and beyond */
};

/* What a stack shows; nothing if there is no stack with this id. Lives as long as the attribution. */
const struct vt_stack_traits *vt_stack_traits_of(const struct vt_attribution *attribution, uint32_t stack_id);
/* Whether a Python function is of a class; false if there is no code object with this id. */
bool vt_code_is(const struct vt_attribution *attribution, uint32_t code_id, enum vt_code_class code_class);

/* Hash of the Python frames of a stack up to its outermost module: the same wherever that is called from. 0 =
 * in no module.
 */
uint64_t vt_module_code(const struct vt_trace *trace, uint32_t stack_id);

/* ---- Private to attribution ---- */

struct vt_traits_by_stack {
    const struct vt_trace *trace;
    struct vt_strings operators;   /* their names */
    struct vt_stack_traits *items; /* by stack id */
    uint32_t *code_classes;        /* by code id: bits by enum vt_code_class */
    uint32_t
        model_function; /* code id: it computes the model of a program without modules; UINT32_MAX = none */
};

struct vt_rules;
struct vt_matcher;
/* Finds the traits of all stacks. The caller frees the matcher, which then knows the stacks. */
struct vt_matcher *vt_traits_by_stack_make(const struct vt_trace *trace, const struct vt_rules *rules,
                                           struct vt_traits_by_stack *traits);
void vt_traits_by_stack_free(struct vt_traits_by_stack *traits);

bool vt_traits_by_stack_code_is(const struct vt_traits_by_stack *traits, uint32_t code_id,
                                enum vt_code_class code_class);

/* Hash of the Python frames of a stack up to the call of a model: of its outermost module, or of
 * model_function; 0 = in none. *outer: hash of the model and of the frames outside it. */
uint64_t vt_call_code(const struct vt_traits_by_stack *traits, uint32_t stack_id, uint64_t *outer);

/* The innermost frame of an optimizer's own code, NULL if there is no step; *closure: whether a closure that
 * it called runs. */
const struct vt_python_frame *vt_optimizer_frame(const struct vt_traits_by_stack *traits, uint32_t stack_id,
                                                 bool *closure);

#endif
