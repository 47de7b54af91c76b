/* Private to attribution: what stacks say of the operator and the module. */
#ifndef VT_OWNERS_H
#define VT_OWNERS_H

#include "attribute/attribute.h"
#include "trace/arena.h"

/* By stack id, NULL = none: "aten::addmm", "AddmmBackward0". In the arena. */
int vt_operators_find(const struct vt_trace *trace, struct vt_arena *arena, const char **operators);

/* By stack id, NULL = outside of any module: "TransformerEncoderLayer#3 > MultiheadAttention". Instances of
 * one class under one parent are told apart by number, in the order in which they first show; a root that
 * holds everything is left out. */
int vt_modules_find(const struct vt_trace *trace, struct vt_arena *arena, const char **modules);

/* Joins what backward made to the forward operator it belongs to, by autograd's node numbers. */
int vt_join_backward(struct vt_replay *replay, const uint8_t *grad_mode);

#endif
