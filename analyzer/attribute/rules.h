/* The rules that give a category to an allocation: data, from rules.def and from a file of the user's.
 *
 * A text of blocks. A line that is not indented begins a block, `#` begins a comment:
 *
 *     trait NAME                    a name for what a stack shows
 *     code NAME                     a name for what one Python function is: VT_CODE_CLASSES (stack_traits.h)
 *     rule NAME                     the first rule that holds gives the category
 *         CATEGORY EVIDENCE         first line of a rule, e.g. `workspace strong`; weak or strong
 *
 * The other indented lines of a block are conditions, which must all hold. Several blocks of one trait or
 * code class are alternatives. A condition is a word and alternatives, of which one must hold; `not` before
 * the word negates it:
 *
 *     python FILE:FUNCTION…         some Python frame: patterns of its file and of its qualified name
 *     name PATTERN…                 some Python frame's own name, the last part of the qualified one
 *   for rules and traits, not code:
 *     native PATTERN…               some native frame's function, shortened (at::native::addmm)
 *     object PATTERN…               path of the library or program of some native frame
 *     thread PATTERN…               name of the thread
 *     op PATTERN…                   operator (vt_operator_of)
 *     innermost user|library|none   whose code the innermost Python frame is
 *     trait NAME…                   a trait that is defined above
 *   for rules alone:
 *     phase NAME…                   phase in which it was made
 *     kind block|driver|pooled      without this condition: the kind that holds tensors, which is blocks of a
 *                                   framework, or without a framework what is taken from the driver
 *     life NAME…                    VT_LIVES
 *     bytes >=|< NUMBER[KiB|MiB|GiB]
 *
 * A user's rule takes the place of a built-in one with its name; without lines it only removes that.
 *
 * In a pattern `*` matches any text, also none. A pattern has no blanks.
 *
 * A strong rule needs two witnesses that are independent of each other; one is weak (VT_WITNESSES). That no
 * rule before it held is none: what strength rests on is written in the rule. */
#ifndef VT_RULES_H
#define VT_RULES_H

#include "attribute/stack_traits.h"

/* Facts about the life of a block, as bits. A backward pass ends with the last event of its engine. */
#define VT_LIVES(X)                                                                                          \
    X(FREED, "freed") /* before the trace ended */                                                           \
    X(CUT, "cut")     /* alive when the last block was made, before it could show what it is */              \
    X(OUTLIVES_SPAN, "outlives-span") /* the run of one phase that made it */                                \
    X(OUTLIVES_STEP, "outlives-step")                                                                        \
    X(STAYS_ALONE, "stays-alone") /* of what a backward pass left without frames, most is freed */           \
    X(OUTLIVES_RECOMPUTE, "outlives-recompute") /* made again in backward, by a checkpoint */                \
    X(AT_NEXT_FORWARD, "at-next-forward")       /* alive when the next module call allocates */              \
    X(AT_NEXT_BACKWARD, "at-next-backward")     /* alive when the next backward pass begins */               \
    X(BEFORE_FIRST_BACKWARD, "before-first-backward")                                                        \
    X(PERSISTENT, "persistent") /* through the last backward pass, or those of 3 steps; without backward     \
                                   the same of steps */                                                      \
    X(TRAINED, "trained")       /* a gradient has its size, or optimizer state that belongs to no other */   \
    X(MATCHES_PARAMETER,                                                                                     \
      "matches-parameter") /* one of a set with the parameters' sizes: gradients of a pass cut short, */     \
                           /* or zeros, copies or loaded tensors from before the first pass */               \
    X(LIKE_ALL_PARAMETERS, "like-all-parameters") /* one of a set that a line makes at once: a copy or value \
                                                     for each parameter */                                   \
    X(HOLDS_GRADIENTS, "holds-gradients") /* a bucket, or zeros, where backward leaves no gradients */       \
    X(ONCE, "once")                       /* of several steps, its stack made blocks in one only */          \
    X(GRAD_MODE, "grad-mode")             /* an autograd node was made for it, or others in its pass */      \
    X(BRIEF, "brief")                     /* freed before two more blocks were made */                       \
    X(OUTLIVES_CALL, "outlives-call")     /* the call of a model that made it, or a whole one after it */    \
    X(GROWN, "grown")                     /* concatenated anew, larger, in call after call, or its first */  \
    X(NO_BACKWARD, "no-backward")         /* the trace has no backward pass */                               \
    X(NO_PHASES, "no-phases")             /* the trace shows no forward, no backward and no optimizer */

enum vt_life_bit {
#define X(id, name) VT_LIFE_BIT_##id,
    VT_LIVES(X)
#undef X
        VT_LIFE_COUNT
};
#define VT_LIFE(id) (UINT64_C(1) << VT_LIFE_BIT_##id)

/* ---- The parsed table ---- */

/* What a pattern is matched with. Each distinct pattern is one bit of what it is matched with. */
enum vt_pattern_kind {
    VT_PATTERN_PYTHON,
    VT_PATTERN_NAME,
    VT_PATTERN_NATIVE,
    VT_PATTERN_OBJECT,
    VT_PATTERN_THREAD,
    VT_PATTERN_OP,
    VT_PATTERN_KINDS
};

struct vt_pattern {
    const char *text;     /* VT_PATTERN_PYTHON: of the file */
    const char *function; /* VT_PATTERN_PYTHON, else NULL */
};

struct vt_patterns {
    struct vt_pattern *items;
    size_t count, capacity;
};

enum vt_condition_kind {
    VT_CONDITION_INNERMOST = VT_PATTERN_KINDS, /* those before it: enum vt_pattern_kind */
    VT_CONDITION_TRAIT,
    VT_CONDITION_PHASE,
    VT_CONDITION_KIND,
    VT_CONDITION_LIFE,
    VT_CONDITION_BYTES,
};
/* Conditions of a code object come first, then those of a stack, then those of an allocation. */
#define VT_FIRST_STACK_CONDITION VT_PATTERN_NATIVE
#define VT_FIRST_SUBJECT_CONDITION VT_CONDITION_PHASE

struct vt_condition {
    uint8_t kind;
    bool negated;
    uint32_t first, count; /* patterns: into vt_rules.alternatives */
    uint64_t bits;         /* innermost, trait, phase, kind, life: those that are good; bytes: the number */
    bool at_least;         /* bytes: `>=` */
};

/* A block: a rule, or one alternative of a trait or code class. */
struct vt_clause {
    const char *name;
    const char *text, *file; /* its lines as the file has them */
    int line;
    uint32_t first, count;      /* into vt_rules.conditions */
    uint8_t category, evidence; /* of a rule */
    uint8_t bit;                /* of a trait or code class */
    bool has_kind;              /* names the kinds of allocation that it is for */
};

enum vt_clause_kind { VT_CLAUSE_RULE, VT_CLAUSE_TRAIT, VT_CLAUSE_CODE, VT_CLAUSE_KINDS };

struct vt_clauses {
    struct vt_clause *items;
    size_t count, capacity;
};

struct vt_rules {
    struct vt_arena arena;
    struct vt_clauses clauses[VT_CLAUSE_KINDS];
    struct vt_condition *conditions;
    size_t condition_count, condition_capacity;
    uint32_t *alternatives; /* indices of patterns */
    size_t alternative_count, alternative_capacity;
    struct vt_patterns patterns[VT_PATTERN_KINDS];
    const char *trait_names[VT_TRAIT_LIMIT + 1]; /* ends with NULL */
};

/* What the conditions of a rule rest on. A frame that is missing shows nothing (`not trait x`), and neither
 * does what holds in each trace without backward; a life that is not of some kind is known (`not life x`). */
#define VT_WITNESSES(X)                                                                                      \
    X(STACK, "stack")       /* whose code made it, and in which phase */                                     \
    X(LIFE, "life")         /* how long it lives */                                                          \
    X(SIZES, "sizes")       /* a set of blocks has the sizes of another */                                   \
    X(AUTOGRAD, "autograd") /* autograd made a node for it */                                                \
    X(LAYER, "kind")        /* taken from a framework or from the driver */

enum vt_innermost { VT_INNERMOST_USER = 1, VT_INNERMOST_LIBRARY = 2, VT_INNERMOST_NONE = 4 };

/* ---- Use ---- */

/* The built-in table, after that of the file at `path` if it is not NULL. -EINVAL, or -errno of the file,
 * with one line in `error`. */
int vt_rules_load(const char *path, struct vt_rules **rules, char *error, size_t error_bytes);
void vt_rules_free(struct vt_rules *rules);
/* A number beyond all rules: decided again, since an identity was broken (identities.h). */
#define VT_RULE_IDENTITY (UINT16_MAX - 2)
/* All "" where `rule` is beyond the last. */
void vt_rules_source(const struct vt_rules *rules, size_t rule, struct vt_rule_source *source);

/* What rules see of one allocation beside its stack. */
struct vt_rule_subject {
    uint64_t life;
    uint8_t phase; /* enum vt_phase */
    uint8_t kind;  /* enum vt_allocation_kind */
    bool holds_tensors;
    uint64_t bytes;
};

struct vt_verdict {
    uint16_t rule;
    uint8_t category, evidence;
};

#endif
