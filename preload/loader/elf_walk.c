#include "loader/elf_walk.h"

#include "clock.h"
#include "loader/fork_gate.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define VERSION_INDEX_MASK 0x7fff
#define VERSION_HIDDEN 0x8000 /* not the name's default version */
#define LATELY_NS UINT64_C(1000000)

/* Start of our own image; the linker defines it. */
extern const char __ehdr_start __attribute__((visibility("hidden")));

/* glibc relocates the pointers in most dynamic sections in place, but not in read-only ones (the vDSO). */
static const void *dynamic_pointer(uintptr_t base, uintptr_t value)
{
    return (const void *)(value < base ? base + value : value);
}

static void read_dynamic(struct vt_elf *object, const ElfW(Dyn) * entry)
{
    uintptr_t soname_offset = 0;
    object->dynamic = entry;
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *pointer = dynamic_pointer(object->base, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_STRTAB:
            object->strings = pointer;
            break;
        case DT_SYMTAB:
            object->symbols = pointer;
            break;
        case DT_GNU_HASH:
            object->gnu_hash = pointer;
            break;
        case DT_HASH:
            object->system_v_hash = pointer;
            break;
        case DT_VERSYM:
            object->symbol_versions = pointer;
            break;
        case DT_VERDEF:
            object->version_definitions = pointer;
            break;
        case DT_SONAME:
            soname_offset = entry->d_un.d_val;
            break;
        }
    }
    if (soname_offset != 0 && object->strings != NULL)
        object->soname = object->strings + soname_offset;
}

struct search {
    bool (*visit)(const struct vt_elf *object, void *context);
    void *context;
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *search_pointer)
{
    const struct search *search = search_pointer;
    (void)size;
    struct vt_elf object = {.base = info->dlpi_addr,
                            .path = info->dlpi_name,
                            .soname = "",
                            .unloads = info->dlpi_subs,
                            .segments = info->dlpi_phdr,
                            .segment_count = info->dlpi_phnum};
    if (object.path == NULL)
        object.path = "";
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_dynamic(&object, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    if (object.strings == NULL || object.symbols == NULL)
        return 0;
    return search->visit(&object, search->context);
}

bool vt_elf_iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context)
{
    int saved_errno = errno; /* waiting for a fork may change it */
    struct vt_gate gate;
    vt_gate_enter(&gate);
    bool stopped = dl_iterate_phdr(visit, context) != 0;
    vt_gate_leave(&gate);
    errno = saved_errno;
    return stopped;
}

bool vt_elf_find(bool (*visit)(const struct vt_elf *object, void *context), void *context)
{
    struct search search = {visit, context};
    return vt_elf_iterate(visit_object, &search);
}

static int read_changes(struct dl_phdr_info *info, size_t size, void *changes_pointer)
{
    struct vt_elf_changes *changes = changes_pointer;
    (void)size;
    *changes = (struct vt_elf_changes){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

static _Atomic uint64_t loads_seen, unloads_seen, seen_ns;

struct vt_elf_changes vt_elf_changes(void)
{
    struct vt_elf_changes changes = {0, 0};
    const uint64_t now = vt_clock_ns(CLOCK_MONOTONIC_COARSE);
    vt_elf_iterate(read_changes, &changes);
    atomic_store_explicit(&loads_seen, changes.loads, memory_order_relaxed);
    atomic_store_explicit(&unloads_seen, changes.unloads, memory_order_relaxed);
    atomic_store_explicit(&seen_ns, now, memory_order_release);
    return changes;
}

uint64_t vt_elf_loads_seen(void)
{
    return atomic_load_explicit(&loads_seen, memory_order_relaxed);
}

uint64_t vt_elf_unloads_lately(void)
{
    const uint64_t seen = atomic_load_explicit(&seen_ns, memory_order_acquire);
    return vt_clock_ns(CLOCK_MONOTONIC_COARSE) - seen < LATELY_NS
               ? atomic_load_explicit(&unloads_seen, memory_order_relaxed)
               : vt_elf_changes().unloads;
}

bool vt_elf_is_ours(const struct vt_elf *object)
{
    return object->base == (uintptr_t)&__ehdr_start;
}

bool vt_elf_contains(const struct vt_elf *object, const void *address)
{
    for (unsigned i = 0; i < object->segment_count; i++) {
        const ElfW(Phdr) *segment = &object->segments[i];
        if (segment->p_type == PT_LOAD &&
            (uintptr_t)address - (object->base + segment->p_vaddr) < segment->p_memsz)
            return true;
    }
    return false;
}

/* The index of version `name` among those that `object` defines; 0 if it does not define it. */
static unsigned version_index(const struct vt_elf *object, const char *name)
{
    const ElfW(Verdef) *definition = object->version_definitions;
    while (definition != NULL) {
        const ElfW(Verdaux) *aux = (const void *)((const char *)definition + definition->vd_aux);
        if (!(definition->vd_flags & VER_FLG_BASE) && strcmp(object->strings + aux->vda_name, name) == 0)
            return definition->vd_ndx & VERSION_INDEX_MASK;
        if (definition->vd_next == 0)
            break;
        definition = (const void *)((const char *)definition + definition->vd_next);
    }
    return 0;
}

bool vt_elf_defines_version(const struct vt_elf *object, const char *version)
{
    return version_index(object, version) != 0;
}

bool vt_elf_needs(const struct vt_elf *object, const char *library)
{
    for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && strcmp(object->strings + entry->d_un.d_val, library) == 0)
            return true;
    return false;
}

static bool symbol_fits(const struct vt_elf *object, uint32_t index, const char *name,
                        unsigned wanted_version)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = symbol->st_info & 0xf;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
        (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) ||
        strcmp(object->strings + symbol->st_name, name) != 0)
        return false;
    unsigned version = object->symbol_versions != NULL ? object->symbol_versions[index] : 1;
    if (wanted_version != 0)
        return (version & VERSION_INDEX_MASK) == wanted_version;
    return !(version & VERSION_HIDDEN);
}

static uint32_t find_gnu(const struct vt_elf *object, const char *name, unsigned wanted_version)
{
    const uint32_t *table = object->gnu_hash;
    uint32_t bucket_count = table[0], first_symbol = table[1], bloom_words = table[2];
    const uint32_t *buckets = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + bucket_count;
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    if (bucket_count == 0)
        return 0;
    uint32_t index = buckets[hash % bucket_count];
    if (index < first_symbol)
        return 0;
    for (;; index++) {
        uint32_t entry = chain[index - first_symbol];
        if ((entry | 1) == (hash | 1) && symbol_fits(object, index, name, wanted_version))
            return index;
        if (entry & 1)
            return 0;
    }
}

static uint32_t find_system_v(const struct vt_elf *object, const char *name, unsigned wanted_version)
{
    const uint32_t *table = object->system_v_hash;
    uint32_t bucket_count = table[0];
    const uint32_t *buckets = table + 2, *chain = buckets + bucket_count;
    uint32_t hash = 0;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
    }
    if (bucket_count == 0)
        return 0;
    uint32_t index = buckets[hash % bucket_count];
    while (index != 0 && !symbol_fits(object, index, name, wanted_version))
        index = chain[index];
    return index;
}

void *vt_elf_symbol(const struct vt_elf *object, const char *name, const char *version)
{
    unsigned wanted_version = 0;
    if (version != NULL) {
        wanted_version = version_index(object, version);
        if (wanted_version == 0)
            return NULL;
    }
    uint32_t index = 0;
    if (object->gnu_hash != NULL)
        index = find_gnu(object, name, wanted_version);
    else if (object->system_v_hash != NULL)
        index = find_system_v(object, name, wanted_version);
    return index != 0 ? (void *)(object->base + object->symbols[index].st_value) : NULL;
}

struct definition {
    const char *name;
    bool after_us;
    void *found;
};

static bool find_after_us(const struct vt_elf *object, void *context)
{
    struct definition *wanted = context;
    if (vt_elf_is_ours(object))
        wanted->after_us = true;
    else if (wanted->after_us)
        wanted->found = vt_elf_symbol(object, wanted->name, NULL);
    return wanted->found != NULL;
}

void *vt_elf_next_definition(const char *name)
{
    struct definition wanted = {.name = name};
    vt_elf_find(find_after_us, &wanted);
    return wanted.found;
}

struct library_search {
    const char *soname, *symbol;
    void *found;
};

static bool find_in_library(const struct vt_elf *object, void *context)
{
    struct library_search *search = context;
    if (strcmp(object->soname, search->soname) != 0)
        return false;
    search->found = vt_elf_symbol(object, search->symbol, NULL);
    return true;
}

void *vt_elf_symbol_in(const char *soname, const char *symbol)
{
    struct library_search search = {soname, symbol, NULL};
    vt_elf_find(find_in_library, &search);
    return search.found;
}

void *vt_elf_next_function(struct vt_elf_next *next, const char *name)
{
    const uint64_t unloads = vt_elf_unloads_lately();
    /* The count is read before the function and stored after it: whoever sees the new count sees the new
     * function. */
    const bool holds = atomic_load_explicit(&next->unloads, memory_order_acquire) == unloads;
    void *function = atomic_load_explicit(&next->function, memory_order_acquire);
    if (!holds || !function) {
        function = vt_elf_next_definition(name);
        atomic_store_explicit(&next->function, function, memory_order_release);
        atomic_store_explicit(&next->unloads, unloads, memory_order_release);
    }
    return function;
}
