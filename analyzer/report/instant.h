/* Instants: the state of one device just after one event, and what was alive then, grouped. */
#ifndef VT_INSTANT_H
#define VT_INSTANT_H

#include <stdbool.h>

#include "base/words.h"
#include "report/places.h"

/* What --by takes: ways to group, then the blocks themselves. */
enum vt_by {
    VT_BY_CATEGORY,
    VT_BY_MODULE,
    VT_BY_KIND, /* modules of one class */
    VT_BY_OWNER,
    VT_BY_LINE,
    VT_BY_STACK,
    VT_BY_OP,
    VT_BY_COUNT, /* ways to group */
    VT_BY_BLOCK = VT_BY_COUNT,
    VT_BY_HOLDER, /* what keeps them: report only */
    VT_BY_CHOICES
};

/* Bytes of one device just after an event. */
struct vt_state {
    bool present;
    uint8_t phase;
    uint32_t event_index, step;
    uint64_t t_ns;         /* since recording began */
    uint64_t used_bytes;   /* of the categories, without the cache and the context */
    uint64_t driver_bytes; /* what the driver gave: segments, pools, direct allocations, context */
    uint64_t unseen_bytes; /* of block_bytes and used_bytes: of blocks that are left out, in no category */
    uint64_t segment_bytes, block_bytes, context_bytes, host_pinned_bytes;
    uint64_t gathered_bytes;                /* of the parameters: whole copies of sharded ones */
    uint64_t half_copy_bytes;               /* of the activations: weights in half precision, for autocast */
    uint64_t rounding_bytes;                /* of the categories' bytes: more than was requested */
    uint64_t categories[VT_CATEGORY_COUNT]; /* with unseen_bytes they sum to driver_bytes, host_pinned
                                               aside */
};

/* Bytes from a time on, until the next one. */
struct vt_level {
    uint64_t t_ns, bytes; /* t_ns: since recording began */
};

/* What is alive and has one name. A block with several owners counts in each group with its share. */
struct vt_group {
    char *name; /* "train.py:88 forward", "layers.3.attn", "aten::addmm", …; "" = not known. Owned */
    uint64_t bytes, blocks;
    uint64_t categories[VT_CATEGORY_COUNT];
    uint32_t stack_id;         /* one stack of it, 0 = none */
    uint32_t forward_stack_id; /* by stack: of the forward operator whose backward it is, 0 = not known */
    /* By line. */
    const struct vt_place *place; /* NULL = not known */
    uint8_t phase;
    /* By owner; all of a group is of one category. NULL = not known. */
    uint8_t category, evidence; /* the weakest of its blocks */
    const char *role, *module, *module_class, *dtype, *shape;
    char *dtype_shape;     /* "float32 1024x256"; owned */
    uint64_t tensor_bytes; /* what its tensors have of the bytes */
    /* By module and by kind. */
    const char *class_name;        /* by module; NULL or "" = not known */
    uint32_t depth;                /* by module: levels of the name */
    uint64_t modules;              /* by kind: those that hold something */
    uint64_t temporary_peak_bytes; /* the most of temporaries at once, at any time */
    /* In the group without a name: memory that Python code allocated outside any module's call. */
    uint64_t outside[VT_CATEGORY_COUNT];
};
struct vt_groups {
    struct vt_group *items; /* largest first */
    size_t count;
};

/* Something alive that counts in a category: a framework's block, or memory used as the driver gave it. */
struct vt_block {
    uint64_t address, bytes;
    uint64_t t_ns; /* made, since recording began */
    /* Ordinal among the framework's allocations on its device, from 1, without those that left no trace; 0 =
     * not the framework's. */
    uint64_t number;
    uint32_t allocation; /* its index in the replay */
    uint32_t alloc_event, free_event, step;
    bool freed;       /* at any time: free_event is set */
    bool has_forward; /* made in backward, by the node of a forward operator that is known */
    uint8_t category, evidence, phase;
    const char *kind;                                    /* "block", "driver", … */
    const char *rule;                                    /* that gave the category, "" = none */
    const char *owner, *holder, *module, *operator_name; /* NULL = not known */
    const struct vt_place *place,
        *forward_place;                 /* of its stack, of the forward operator's; NULL = not known */
    const struct vt_place *shown_place; /* the one of the two to show */
};

/* One moment on one device. */
struct vt_instant {
    struct vt_state state;
    uint64_t evidence[VT_EVIDENCE_COUNT]; /* of the categories' bytes but cached and context */
    struct vt_groups groups[VT_BY_COUNT];
    struct vt_block *blocks; /* largest first; NULL = not requested */
    size_t block_count;
};

/* Why some of the memory alive at a moment has its category. */
struct vt_reason {
    uint8_t category, evidence;
    uint16_t rule;
    uint64_t bytes, blocks;
    /* Of the largest block. */
    uint32_t allocation, stack_id, forward_stack_id; /* 0 = none */
    const char *owner;                               /* NULL = not known */
    const char *stack, *forward_stack;               /* folded; "" = not recorded */
    const char *how;                                 /* "rule", "look" or "kind" */
    /* By rule: as written; "rules.def" is the built-in table. NULL = by another way. */
    const char *rule_name, *rule_file, *rule_text;
    int rule_line;
    /* By inspection: its number, from 1, and what it saw. 0 = by another way. */
    uint32_t inspection;
    uint64_t inspection_t_ns; /* since recording began */
    const char *role, *path;
};
/* Everything that a name matches at a moment. */
struct vt_explanation {
    const char *what; /* as requested; NULL = nothing was */
    const char *way,
        *way_label; /* how it was understood: "category", "a category"; NULL = nothing has that name */
    uint64_t bytes, blocks;
    struct vt_reason *reasons; /* largest first */
    size_t count;
};

#endif
