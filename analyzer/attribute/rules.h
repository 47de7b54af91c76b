/* The rules that give a category to an allocation: data, from rules.def and from a user's file.
 *
 * A text of blocks. A line that is not indented begins one, `#` begins a comment:
 *
 *     trait NAME                    a name for what a stack shows; more blocks of one name are alternatives
 *     rule NAME                     the first rule that holds gives the category
 *         CATEGORY EVIDENCE         of a rule, its first line: e.g. `workspace strong`
 *
 * and the indented lines after it are conditions, which must all hold. Each is a word and alternatives, of
 * which one must hold; `not` before the word turns it round:
 *
 *     native PATTERN…               some native frame's function, shortened (at::native::addmm)
 *     object PATTERN…               the path of some native frame's library or program
 *     python FILE:FUNCTION…         some Python frame, both as patterns
 *     op PATTERN…                   the operator (vt_operator_of)
 *     innermost user|library|none   whose the innermost Python frame is
 *     trait NAME…                   (defined before)
 *   and for rules, not traits:
 *     phase NAME…                   in which it was made
 *     kind block|driver|pooled      without it: what holds tensors, that is a framework's blocks, or where no
 *                                   framework tells of any, what is taken from the driver
 *     life NAME…                    see VT_LIVES
 *     bytes >=|< NUMBER[KiB|MiB|GiB]
 *
 * In a pattern `*` stands for anything; there are no blanks in one. */
#ifndef VT_RULES_H
#define VT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attribute/attribute.h"

/* What is known of a block's life, as bits. A backward pass ends with its engine's last event. */
#define VT_LIVES(X)                                                                                          \
    X(FREED, "freed") /* before the trace ended */                                                           \
    X(CUT, "cut")     /* alive when the last block was made, before it could show what it is */              \
    X(OUTLIVES_SPAN, "outlives-span") /* the run of one phase in which it was made */                        \
    X(OUTLIVES_STEP, "outlives-step")                                                                        \
    X(OUTLIVES_RECOMPUTE, "outlives-recompute") /* made again in backward, by a checkpoint */                \
    X(AT_NEXT_FORWARD, "at-next-forward")       /* alive when the next module call allocates */              \
    X(AT_NEXT_BACKWARD, "at-next-backward")     /* alive when the next backward pass begins */               \
    X(FREED_IN_BACKWARD, "freed-in-backward")   /* by a later backward pass than the one it was made in */   \
    X(BEFORE_FIRST_BACKWARD, "before-first-backward")                                                        \
    X(PERSISTENT, "persistent")             /* through the last backward pass, or those of three steps */    \
    X(MATCHES_GRADIENT, "matches-gradient") /* there is a gradient for it by size */                         \
    X(MATCHES_PARAMETER,                                                                                     \
      "matches-parameter") /* one of a set that has the parameters' sizes: of gradients of a pass cut */     \
                           /* short, of zeros, copies or what was read from files before the first */        \
    X(HOLDS_GRADIENTS, "holds-gradients") /* a bucket, or zeros, where backward leaves none of its own */    \
    X(ONCE, "once")                       /* its stack made blocks in one step only, of several */           \
    X(GRAD_MODE, "grad-mode")             /* an autograd node was made for it */                             \
    X(BRIEF, "brief")                     /* freed before two more blocks were made */                       \
    X(NO_BACKWARD, "no-backward")         /* there is no backward pass in the trace */

enum vt_life_bit {
#define X(id, name) VT_LIFE_BIT_##id,
    VT_LIVES(X)
#undef X
        VT_LIFE_COUNT
};
enum vt_life {
#define X(id, name) VT_LIFE_##id = 1 << VT_LIFE_BIT_##id,
    VT_LIVES(X)
#undef X
};

/* Traits that the analysis itself asks for; rules.def must define them. */
#define VT_OWN_TRAITS(X)                                                                                     \
    X(BACKWARD, "backward")                                                                                  \
    X(BACKWARD_CALL, "backward-call")                                                                        \
    X(OPTIMIZER, "optimizer")                                                                                \
    X(CLOSURE, "closure") /* given by the analysis alone: in a closure that an optimizer's step called */    \
    X(MODULE, "module")                                                                                      \
    X(MODULE_APPLY, "module-apply")                                                                          \
    X(BUFFER, "buffer")                                                                                      \
    X(INIT_METHOD, "init-method")                                                                            \
    X(DATA, "data")                                                                                          \
    X(RECOMPUTE, "recompute")                                                                                \
    X(SOURCE, "source")                                                                                      \
    X(ZEROS, "zeros")                                                                                        \
    X(LOADED, "loaded")                                                                                      \
    X(BUCKET, "bucket")                                                                                      \
    X(EVALUATION, "evaluation")                                                                              \
    X(WORKSPACE, "workspace")
enum vt_own_trait {
#define X(id, name) VT_TRAIT_##id,
    VT_OWN_TRAITS(X)
#undef X
        VT_OWN_TRAIT_COUNT
};
#define VT_TRAIT_LIMIT 64u

struct vt_rules; /* the parsed table */

/* The built-in table, after that of the file at `path` if it is not NULL. -EINVAL, or -errno of the file,
 * with one line in `error`. */
int vt_rules_load(const char *path, struct vt_rules **rules, char *error, size_t error_bytes);
void vt_rules_free(struct vt_rules *rules);
size_t vt_rules_count(const struct vt_rules *rules);
const char *vt_rules_name(const struct vt_rules *rules, size_t rule); /* "" beyond the last */

void vt_rules_source(const struct vt_rules *rules, size_t rule, struct vt_rule_source *source);

/* What rules see of one allocation beside its stack. */
struct vt_rule_subject {
    uint32_t life;
    uint8_t phase; /* enum vt_phase */
    uint8_t kind;  /* enum vt_allocation_kind */
    bool holds_tensors;
    uint64_t bytes;
};

struct vt_verdict {
    uint16_t rule;
    uint8_t category, evidence;
};

/* Matches the stacks of a trace once, so that judging an allocation touches no text. `operators` (by stack
 * id, NULL = none) must outlive the matcher. */
struct vt_matcher;
int vt_matcher_make(const struct vt_rules *rules, const struct vt_trace *trace, const char *const *operators,
                    struct vt_matcher **matcher);
void vt_matcher_free(struct vt_matcher *matcher);
/* Bits by enum vt_own_trait and beyond; may be added to before the first vt_matcher_judge. */
uint64_t *vt_matcher_traits(struct vt_matcher *matcher, uint32_t stack_id);
/* False if no rule holds. */
bool vt_matcher_judge(struct vt_matcher *matcher, uint32_t stack_id, const struct vt_rule_subject *subject,
                      struct vt_verdict *verdict);

#endif
