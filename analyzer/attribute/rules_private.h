/* Private to rules.c (parsing) and match.c (matching). */
#ifndef VT_RULES_PRIVATE_H
#define VT_RULES_PRIVATE_H

#include "attribute/rules.h"
#include "base/arena.h"

/* What a pattern is held against. Each distinct pattern is one bit, tested once per symbol or code object. */
enum vt_pattern_kind {
    VT_PATTERN_NATIVE,
    VT_PATTERN_OBJECT,
    VT_PATTERN_PYTHON,
    VT_PATTERN_OP,
    VT_PATTERN_KINDS
};

struct vt_pattern {
    const char *text; /* of a Python pattern: the file's */
    const char *function;
};

struct vt_patterns {
    struct vt_pattern *items;
    size_t count, capacity;
};

enum vt_condition_kind {
    VT_CONDITION_NATIVE = VT_PATTERN_NATIVE,
    VT_CONDITION_OBJECT = VT_PATTERN_OBJECT,
    VT_CONDITION_PYTHON = VT_PATTERN_PYTHON,
    VT_CONDITION_OP = VT_PATTERN_OP,
    VT_CONDITION_INNERMOST,
    VT_CONDITION_TRAIT,
    VT_CONDITION_PHASE,
    VT_CONDITION_KIND,
    VT_CONDITION_LIFE,
    VT_CONDITION_BYTES,
};
#define VT_FIRST_SUBJECT_CONDITION                                                                           \
    VT_CONDITION_PHASE /* these need the allocation, those before it the stack */

struct vt_condition {
    uint8_t kind;
    bool negated;
    uint32_t first, count; /* patterns: into vt_rules.alternatives */
    uint64_t bits;         /* innermost, trait, phase, kind, life: those that will do; bytes: the number */
    bool at_least;         /* bytes */
};

/* A rule, or one alternative of a trait. */
struct vt_clause {
    const char *name;
    const char *text, *file; /* its lines as they stand there */
    int line;
    uint32_t first, count; /* into vt_rules.conditions */
    uint8_t category, evidence;
    uint8_t trait; /* of a trait's alternative: its bit */
    bool has_kind; /* names the kinds of allocation that it is for */
};

struct vt_clauses {
    struct vt_clause *items;
    size_t count, capacity;
};

struct vt_rules {
    struct vt_arena arena;
    struct vt_clauses rules, traits;
    struct vt_condition *conditions;
    size_t condition_count, condition_capacity;
    uint32_t *alternatives; /* indices of patterns */
    size_t alternative_count, alternative_capacity;
    struct vt_patterns patterns[VT_PATTERN_KINDS];
    const char *trait_names[VT_TRAIT_LIMIT];
    size_t trait_count;
};

enum vt_innermost { VT_INNERMOST_USER = 1, VT_INNERMOST_LIBRARY = 2, VT_INNERMOST_NONE = 4 };

#endif
