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
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Versym) * symbol_versions;     /* NULL: the object has no versions */
    const ElfW(Verdef) * version_definitions; /* NULL: it defines none */
    const uint32_t *gnu_hash;
    const uint32_t *system_v_hash;
};

/* Calls `visit` for each loaded object, in load order, until it returns true; returns whether it did. */
bool vt_elf_find(bool (*visit)(const struct vt_elf *object, void *context), void *context);

/* The address of the function `name` that `object` defines in `version` (NULL: its default one), or NULL. */
void *vt_elf_symbol(const struct vt_elf *object, const char *name, const char *version);

bool vt_elf_defines_version(const struct vt_elf *object, const char *version);

/* True for libvramtrace.so itself. */
bool vt_elf_is_ours(const struct vt_elf *object);

#endif
