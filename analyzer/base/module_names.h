/* Names of modules, read level by level. Names of live objects are dotted: "layers.3.mlp". Names that stacks
 * show are of classes: "EncoderLayer#3 > Dropout#2", where the number distinguishes modules of one class
 * under one parent. The second kind may follow the first: "layers.3 > Dropout". A role may follow the last
 * level: "layers.3.mlp · gradient". Bytes are counted without the NUL. */
#ifndef VT_MODULE_NAMES_H
#define VT_MODULE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define VT_MODULE_CLASSES " > " /* between a class and what holds it */
#define VT_MODULE_ROLE " · "    /* between a name and its role */

struct vt_module_level {
    const char *begin;
    size_t bytes;
    size_t digits;   /* at its end: of "3", "layer1", "Dropout#2" */
    bool has_mark;   /* '#' before the digits */
    bool is_class;   /* VT_MODULE_CLASSES stands before it */
    bool ends_class; /* VT_MODULE_CLASSES stands after it */
};

/* The first level of `name` for a zeroed *level, then the next one with each call; false after the last. An
 * empty name has one empty level; a role is none. */
bool vt_module_next(const char *name, struct vt_module_level *level);

unsigned vt_module_levels(const char *name); /* "" has none */
/* Bytes of the first `depth` levels, of all for 0. */
size_t vt_module_prefix(const char *name, unsigned depth);
/* Bytes of the levels that the first `bytes` of `name` share with `other`. */
size_t vt_module_common(const char *name, size_t bytes, const char *other);
/* True for `outer` itself too. */
bool vt_module_is_inside(const char *name, const char *outer);

/* "Block#1 > Linear#2" → "Block > Linear#2": numbers of first siblings say nothing when two runs are
 * compared. The caller frees it. */
char *vt_module_plain_name(const char *name);

/* The first `bytes` of a name with `*` for the number at the end of each level: "layers.*.mlp". False if
 * `pattern_bytes` are too few, or nothing is left. */
bool vt_module_pattern(const char *name, size_t bytes, char *pattern, size_t pattern_bytes);
/* Bytes of whole levels at the start of `name` that a pattern matches, 0 = none. */
size_t vt_module_match(const char *pattern, const char *name);

#endif
