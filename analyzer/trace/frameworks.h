/* Whose code something is, by the names of libraries, files and functions: lookups in frameworks.def. */
#ifndef VT_FRAMEWORKS_H
#define VT_FRAMEWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"

/* Kinds of native libraries and programs, as bits; 0 = a program's own. */
enum vt_object_kind {
    VT_OBJECT_SYSTEM = 1,    /* never the user's code, and never what called it */
    VT_OBJECT_FRAMEWORK = 2, /* calls the user's code: skipped as long as there is another frame */
    VT_OBJECT_FOLDED = 4,    /* left out where a stack is shown on one line */
    VT_OBJECT_CUDA = 8,      /* the driver and the runtime: their caller requested the memory */
    VT_OBJECT_NODES = 16,    /* its events have the nodes of the graphs that keep results for backward */
};
unsigned vt_object_kinds(const char *path);

/* The name of a library that allocates memory for itself ("cuBLAS"), by its path; NULL = it is none. */
const char *vt_cuda_library(const char *path);

/* Path of the library or program that called CUDA, by a stack; NULL = unknown. */
struct vt_trace;
const char *vt_cuda_caller(const struct vt_trace *trace, uint32_t stack_id);

/* How to release the memory that an allocator caches, by the library that called CUDA; NULL = unknown.
 * Without a native stack: the table's first row if `first`. */
struct vt_cache {
    const char *beginning, *release, *setting, *grows; /* as in frameworks.def */
};
const struct vt_cache *vt_cache_of(const struct vt_trace *trace, uint32_t stack_id, bool first);

/* Code that frees the gradients made on this stack; the table's first row if no library is known. */
const char *vt_clear_of(const struct vt_trace *trace, uint32_t stack_id);

/* The setting by which the innermost framework of a stack limits its own memory; NULL = unknown. */
const char *vt_limit_of(const struct vt_trace *trace, uint32_t stack_id);
/* The same for a loaded library whose failed requests are not recorded; NULL = there is none. */
const char *vt_limit_unreported(const struct vt_trace *trace);

/* What an optimizer makes for each parameter in its step, by the path of its file; NULL = not known. */
struct vt_optimizer_states {
    const char *file, *name; /* as in frameworks.def */
    uint8_t least, most;     /* states for each parameter */
};
const struct vt_optimizer_states *vt_optimizer_states_of(const char *file);

/* Whether a native stack contains a library of this kind (a bit of vt_object_kind). */
bool vt_shows_kind(const struct vt_trace *trace, uint32_t stack_id, unsigned kind);

/* True for Python code that the user did not write: installed packages, the standard library, frozen modules,
 * and code that torch.compile generates. False for "<stdin>", "<string>" and "<ipython-input-…>". */
bool vt_is_library_file(const char *file);

/* Where the path of an installed package's file begins with the package's name; NULL = it is in none. */
const char *vt_path_in_packages(const char *file);

/* Whether a process begins in this Python function: a forked child has its parent's frames beyond it. */
bool vt_is_start(const char *file, const char *function);

/* Whether the file is of an installed package that is no framework: its line says what the memory is for. */
bool vt_is_package_file(const char *file);

/* Native functions, by their short names. */
bool vt_is_plumbing(const char *function);
bool vt_is_autograd(const char *function);
bool vt_is_node(const char *function); /* of backward: "AddmmBackward0" */
/* Whether the name of a variable or attribute, or all steps to one, suggests a cache of keys and values. */
bool vt_is_cache_name(const char *name);
/* The category that the names on the way to a tensor suggest ("key 'w' < dict 'momentum' of train(), 2
 * items"); the name nearest to it counts first. VT_CATEGORY_UNKNOWN = none. */
enum vt_category vt_named_category(const char *way);
/* The same for the names in the first `bytes` of an array's path: "state.opt['m']"; the last name counts
 * first. */
enum vt_category vt_named_path(const char *path, size_t bytes);
/* Bytes of a holder's name without the count, which changes: "list 'history' in __main__, 3 items". */
size_t vt_holder_bytes(const char *holder);
/* "torch::autograd::generated::AddmmBackward0::apply" is of the node "AddmmBackward0", the name that people
 * know from grad_fn. Returns its length, 0 = not of a node. */
size_t vt_node_name(const char *function, const char **name);

#endif
