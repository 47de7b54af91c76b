/* Reads the loaded libraries' symbol tables.
 *
 * dlopen and dlsym take the loader's main lock, which another thread may hold while it runs constructors
 * that wait for a lock of our caller. Walking the loaded objects takes only the short lock of
 * dl_iterate_phdr, and does not touch dlerror or reference counts.
 *
 * Threads: any. `struct vt_elf` and what it points to are valid only during the visit. */
#ifndef VT_ELF_WALK_H
#define VT_ELF_WALK_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The name of a symbol as a string; the symbol may be a macro. */
#define VT_TEXT_OF(symbol) #symbol
#define VT_SYMBOL_NAME(symbol) VT_TEXT_OF(symbol)

struct vt_elf {
    uintptr_t base;     /* load bias */
    const char *path;   /* as the loader knows it; "" for the executable */
    const char *soname; /* "" if it has none */
    const ElfW(Dyn) * dynamic;
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Versym) * symbol_versions;     /* NULL: the object has no versions */
    const ElfW(Verdef) * version_definitions; /* NULL: it defines none */
    const uint32_t *gnu_hash;
    const uint32_t *system_v_hash;
    uint64_t unloads; /* as in vt_elf_changes, at the time of the walk */
    const ElfW(Phdr) * segments;
    unsigned segment_count;
};

/* Calls `visit` for each loaded object, in load order, until it returns true. Returns whether it did. errno
 * stays. */
bool vt_elf_find(bool (*visit)(const struct vt_elf *object, void *context), void *context);

/* dl_iterate_phdr within the fork gate (fork_gate.h). Returns whether `visit` ended it. errno stays. */
bool vt_elf_iterate(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context), void *context);

/* How many libraries this process has loaded and unloaded so far. While neither number changes, a walk finds
 * the same. Much cheaper than a walk. */
struct vt_elf_changes {
    uint64_t loads, unloads;
};
struct vt_elf_changes vt_elf_changes(void);

/* `loads` of the latest vt_elf_changes call in any thread; the writer makes one ten times a second. Does not
 * take the loader's lock, which would stay locked if a signal handler jumped out of it. */
uint64_t vt_elf_loads_seen(void);

/* The address of the function or variable `name` that `object` defines in `version` (NULL: the default one);
 * NULL if it does not. */
void *vt_elf_symbol(const struct vt_elf *object, const char *name, const char *version);

/* The definition that our export of `name` hides: the first one in a library loaded after ours; NULL if
 * there is none. A library loaded before may be our caller. */
void *vt_elf_next_definition(const char *name);

/* The same for functions that are called often. `next` is zeroed at first. The function is looked up again
 * after any library was unloaded, which may have been the one that had it. */
struct vt_elf_next {
    _Atomic(void *) function;
    _Atomic uint64_t unloads; /* when the function was found */
};
void *vt_elf_next_function(struct vt_elf_next *next, const char *name);
/* Declares `real`, the function that our export of `symbol` hides; NULL if there is none. */
#define VT_ELF_NEXT(symbol)                                                                                  \
    static struct vt_elf_next next;                                                                          \
    __typeof__(symbol) *real = (__typeof__(symbol) *)vt_elf_next_function(&next, VT_SYMBOL_NAME(symbol))

/* What the loaded library with this name defines as `symbol`; NULL if there is no such library, or no such
 * definition in it. */
void *vt_elf_symbol_in(const char *soname, const char *symbol);

/* How many libraries had been unloaded a few milliseconds ago, or later. As cheap as reading a coarse clock.
 */
uint64_t vt_elf_unloads_lately(void);

/* True if the object has a DT_NEEDED with this name. */
bool vt_elf_needs(const struct vt_elf *object, const char *library);

bool vt_elf_defines_version(const struct vt_elf *object, const char *version);

/* True if `address` lies in the object. (dladdr would take the loader's lock.) */
bool vt_elf_contains(const struct vt_elf *object, const void *address);

/* True for libvramtrace.so itself. */
bool vt_elf_is_ours(const struct vt_elf *object);

#endif
