/* Debug information of native frames, read from the module's own file if it is still the one that ran (same
 * build id). Nothing is opened before a frame in that module is asked for. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/tables.h"

#ifdef VT_HAVE_LIBDW

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>

#define DEBUG_FOLDER "/usr/lib/debug/.build-id"

struct function {
    uint64_t address, bytes;
    const char *name;
};

struct vt_debug_file {
    int file, separate_file;
    Elf *elf, *separate_elf;
    Dwarf *dwarf;
    struct function *functions; /* by address */
    size_t function_count, function_capacity;
    bool functions_read, exported_read;
};

void vt_debug_close(struct vt_debug_file *debug)
{
    if (!debug)
        return;
    if (debug->dwarf)
        dwarf_end(debug->dwarf);
    elf_end(debug->separate_elf);
    elf_end(debug->elf);
    if (debug->separate_file >= 0)
        close(debug->separate_file);
    if (debug->file >= 0)
        close(debug->file);
    free(debug->functions);
    free(debug);
}

/* Opens PATH if it is an ELF file of that build id. */
static Elf *open_same(const char *path, const uint8_t *build_id, size_t build_id_bytes, int *file)
{
    struct stat status;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0)
        return NULL;
    const void *id = NULL;
    Elf *elf = fstat(*file, &status) == 0 && S_ISREG(status.st_mode) ? elf_begin(*file, ELF_C_READ_MMAP, NULL)
                                                                     : NULL;
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);
        if (bytes > 0 && (size_t)bytes == build_id_bytes && memcmp(id, build_id, build_id_bytes) == 0)
            return elf;
    }
    elf_end(elf);
    close(*file);
    *file = -1;
    return NULL;
}

/* Where distributions keep what they stripped off. */
static void open_separate(struct vt_debug_file *debug, const struct vt_module_entry *module)
{
    char path[sizeof DEBUG_FOLDER + 2 * 64 + 16];
    if (module->build_id_bytes < 2 || module->build_id_bytes > 64)
        return;
    char *end = path + sprintf(path, DEBUG_FOLDER "/%02x/", module->build_id[0]);
    for (uint32_t i = 1; i < module->build_id_bytes; i++)
        end += sprintf(end, "%02x", module->build_id[i]);
    strcpy(end, ".debug");
    debug->separate_elf = open_same(path, module->build_id, module->build_id_bytes, &debug->separate_file);
    if (debug->separate_elf)
        debug->dwarf = dwarf_begin_elf(debug->separate_elf, DWARF_C_READ, NULL);
}

static struct vt_debug_file *open_module(struct vt_module_entry *module)
{
    if (module->debug_tried)
        return module->debug;
    module->debug_tried = true;
    if (module->build_id_bytes == 0 || module->path[0] != '/' || elf_version(EV_CURRENT) == EV_NONE)
        return NULL;
    struct vt_debug_file *debug = calloc(1, sizeof *debug);
    if (!debug)
        return NULL;
    debug->separate_file = -1;
    debug->elf = open_same(module->path, module->build_id, module->build_id_bytes, &debug->file);
    if (!debug->elf) {
        vt_debug_close(debug);
        return NULL;
    }
    debug->dwarf = dwarf_begin_elf(debug->elf, DWARF_C_READ, NULL);
    Dwarf_Off next;
    size_t header_bytes;
    if (!debug->dwarf || dwarf_nextcu(debug->dwarf, 0, &next, &header_bytes, NULL, NULL, NULL) != 0) {
        if (debug->dwarf)
            dwarf_end(debug->dwarf);
        debug->dwarf = NULL;
        open_separate(debug, module);
    }
    module->debug = debug;
    return debug;
}

static bool find_unit(Dwarf *dwarf, Dwarf_Addr address, Dwarf_Die *unit)
{
    if (dwarf_addrdie(dwarf, address, unit))
        return true;
    /* compilers that write no .debug_aranges */
    Dwarf_Off offset = 0, next;
    size_t header_bytes;
    while (dwarf_nextcu(dwarf, offset, &next, &header_bytes, NULL, NULL, NULL) == 0) {
        if (dwarf_offdie(dwarf, offset + header_bytes, unit) && dwarf_haspc(unit, address) > 0)
            return true;
        if (next <= offset)
            break;
        offset = next;
    }
    return false;
}

bool vt_debug_locate(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                     const char **file, int32_t *line)
{
    struct vt_debug_file *debug = open_module(module);
    if (!debug || !debug->dwarf)
        return false;
    /* a return address stands behind the call: the call itself is what has the line */
    Dwarf_Addr in_file = address - 1 - module->base;
    Dwarf_Die unit;
    if (!find_unit(debug->dwarf, in_file, &unit))
        return false;
    Dwarf_Line *row = dwarf_getsrc_die(&unit, in_file);
    const char *source = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
    int number = 0;
    if (!source || dwarf_lineno(row, &number) != 0)
        return false;
    const char *copy = vt_arena_text(&tables->arena, source, strlen(source));
    if (!copy)
        return false;
    *file = copy;
    *line = number;
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct function *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

static void read_symbol_table(struct vt_debug_file *debug, Elf *elf, unsigned type)
{
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != type || header.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        size_t count = data ? data->d_size / header.sh_entsize : 0;
        for (size_t i = 0; i < count && i < INT32_MAX; i++) {
            GElf_Sym symbol;
            if (!gelf_getsym(data, (int)i, &symbol) || GELF_ST_TYPE(symbol.st_info) != STT_FUNC ||
                !symbol.st_value)
                continue;
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (!name || vt_reserve(&debug->functions, &debug->function_capacity, debug->function_count + 1,
                                    sizeof *debug->functions))
                continue;
            debug->functions[debug->function_count++] =
                (struct function){.address = symbol.st_value, .bytes = symbol.st_size, .name = name};
        }
    }
}

static void sort_functions(struct vt_debug_file *debug)
{
    if (debug->function_count > 1)
        qsort(debug->functions, debug->function_count, sizeof *debug->functions, by_address);
}

bool vt_debug_name(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address)
{
    struct vt_debug_file *debug = open_module(module);
    if (!debug)
        return false;
    if (!debug->functions_read) {
        debug->functions_read = true;
        read_symbol_table(debug, debug->elf, SHT_SYMTAB);
        if (debug->separate_elf && debug->function_count == 0)
            read_symbol_table(debug, debug->separate_elf, SHT_SYMTAB);
        sort_functions(debug);
    }
    if (exported_too && debug->function_count == 0 && !debug->exported_read) {
        debug->exported_read = true;
        read_symbol_table(debug, debug->elf, SHT_DYNSYM);
        sort_functions(debug);
    }
    uint64_t in_file = address - 1 - module->base;
    size_t low = 0, high = debug->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (debug->functions[middle].address <= in_file)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    const struct function *found = &debug->functions[low - 1];
    if (in_file - found->address >= found->bytes)
        return false;
    const char *copy = vt_arena_text(&tables->arena, found->name, strlen(found->name));
    if (!copy)
        return false;
    *linkage_name = copy;
    *symbol_address = module->base + found->address;
    return true;
}

#else

void vt_debug_close(struct vt_debug_file *debug)
{
    (void)debug;
}

bool vt_debug_locate(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                     const char **file, int32_t *line)
{
    (void)tables, (void)module, (void)address, (void)file, (void)line;
    return false;
}

bool vt_debug_name(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address)
{
    (void)tables, (void)module, (void)address, (void)exported_too, (void)linkage_name, (void)symbol_address;
    return false;
}

#endif
