/* Reading the loaded libraries' own symbol tables.
 *
 * dlopen and dlsym take the loader's big lock, which another thread may hold while it runs constructors that
 * wait for what our caller holds. Walking the loaded objects needs only the short lock of dl_iterate_phdr,
 * and leaves dlerror and reference counts alone.
 *
 * Threads: any. `struct vt_elf` and what it points to are good only during the visit. */
#ifndef VT_ELF_WALK_H
#define VT_ELF_WALK_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

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
    uint64_t unloads; /* as in vt_elf_changes, at this moment */
};

/* Calls `visit` for each loaded object, in load order, until it returns true; returns whether it did. Leaves
 * errno as it was. */
bool vt_elf_find(bool (*visit)(const struct vt_elf *object, void *context), void *context);

/* How many libraries this process has loaded and unloaded so far: while neither changes, a walk finds what it
 * found before. Much cheaper than a walk. */
struct vt_elf_changes {
    uint64_t loads, unloads;
};
struct vt_elf_changes vt_elf_changes(void);

/* The loads as vt_elf_changes said last, in any thread (the writer asks ten times a second); without the loader's lock,
 * which a thread that a signal handler jumps out of would keep. */
uint64_t vt_elf_loads_seen(void);

/* The address of the function `name` that `object` defines in `version` (NULL: its default one), or NULL. */
void *vt_elf_symbol(const struct vt_elf *object, const char *name, const char *version);

/* What stands behind our own export of `name`: the first definition in a library that was loaded after ours,
 * or NULL. One that was loaded before may have called us itself. */
void *vt_elf_next_definition(const char *name);

/* True if the object asks the loader for a library of this name. */
bool vt_elf_needs(const struct vt_elf *object, const char *library);

bool vt_elf_defines_version(const struct vt_elf *object, const char *version);

/* True for libvramtrace.so itself. */
bool vt_elf_is_ours(const struct vt_elf *object);

#endif
