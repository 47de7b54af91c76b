/* Debug information of native frames, from the module's own file if that is still the same (by its build id).
 * A file is opened when its first frame is needed. */
#include "trace/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/open_file.h"
#include "base/sort.h"
#include "trace/redact.h"
#include "trace/tables.h"

#define DEBUG_FOLDER "/usr/lib/debug/.build-id"

struct symbol_table {
    Elf *elf; /* NULL = there is none */
    const Elf64_Sym *symbols;
    size_t count, strings; /* strings: section of the names */
};
enum which_table { OWN, EXPORTED, TABLES };

/* A library has hundreds of thousands of functions, of which few are needed. One pass finds those of all
 * addresses for which the trace has no name. */
struct vt_debug_file {
    int file, separate_file;
    Elf *elf, *separate_elf;
    Dwarf *dwarf;
    uint64_t *wanted; /* addresses in the file, ascending */
    size_t wanted_count;
    const Elf64_Sym **found[TABLES]; /* for each its function, NULL = none; NULL = not searched yet */
    struct symbol_table tables[TABLES];
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
    free(debug->wanted);
    free(debug->found[OWN]);
    free(debug->found[EXPORTED]);
    free(debug);
}

/* Opens PATH if it is an ELF file of that build id. */
static Elf *open_same(const char *path, const uint8_t *build_id, size_t build_id_bytes, int *file)
{
    struct stat status;
    *file = vt_open_regular(path, &status);
    if (*file < 0)
        return NULL;
    const void *id = NULL;
    Elf *elf = elf_begin(*file, ELF_C_READ_MMAP, NULL);
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

/* With libdw's own handler, running out of memory would end the command without any clean-up. */
static void begin_dwarf(struct vt_debug_file *debug, Elf *elf)
{
    debug->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    if (debug->dwarf)
        dwarf_new_oom_handler(debug->dwarf, vt_end_out_of_memory);
}

/* Opens the file in which a distribution keeps debug information that it stripped off. */
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
        begin_dwarf(debug, debug->separate_elf);
}

static struct vt_debug_file *open_module(struct vt_module_entry *module)
{
    if (module->debug_tried)
        return module->debug;
    module->debug_tried = true;
    if (module->build_id_bytes == 0 || module->path[0] != '/' || elf_version(EV_CURRENT) == EV_NONE)
        return NULL;
    struct vt_debug_file *debug = vt_allocate_zeros(1, sizeof *debug);
    debug->separate_file = -1;
    debug->elf = open_same(module->path, module->build_id, module->build_id_bytes, &debug->file);
    if (!debug->elf) {
        vt_debug_close(debug);
        return NULL;
    }
    begin_dwarf(debug, debug->elf);
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
    /* some compilers write no .debug_aranges */
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

/* A relative name is meant from the folder in which the compiler ran: "/src/run.cpp" of "../src/run.cpp" in
 * "/build". The caller frees it. */
static char *from_folder(Dwarf_Die *unit, const char *source)
{
    Dwarf_Attribute attribute;
    const char *folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    if (source[0] == '/' || !folder || folder[0] != '/')
        return vt_copy_text(source);
    size_t used = strlen(folder);
    char *path = vt_print_text("%s/%s", folder, source);
    path[used] = '\0';
    for (const char *part = source; *part;) {
        size_t length = strcspn(part, "/");
        char *slash = strrchr(path, '/');
        if (length == 2 && !strncmp(part, "..", 2))
            *(slash ? slash : path) = '\0';
        else if (length && !(length == 1 && part[0] == '.'))
            sprintf(strchr(path, '\0'), "/%.*s", (int)length, part);
        part += length + (part[length] == '/');
    }
    return path;
}

bool vt_debug_locate(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                     const char **file, int32_t *line)
{
    struct vt_debug_file *debug = open_module(module);
    if (!debug || !debug->dwarf)
        return false;
    /* a return address is behind the call, whose line is meant */
    Dwarf_Addr in_file = address - 1 - module->base;
    Dwarf_Die unit;
    if (!find_unit(debug->dwarf, in_file, &unit))
        return false;
    Dwarf_Line *row = dwarf_getsrc_die(&unit, in_file);
    const char *source = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
    int number = 0;
    if (!source || dwarf_lineno(row, &number) != 0)
        return false;
    char *path = from_folder(&unit, source);
    *file = vt_redact_path(&tables->arena, vt_arena_text(&tables->arena, path, strlen(path)));
    free(path);
    *line = number;
    return true;
}

/* ---- Names ---- */

static bool open_table(struct symbol_table *table, Elf *elf, unsigned type)
{
    GElf_Ehdr file_header;
    if (!elf || !gelf_getehdr(elf, &file_header) || file_header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != type)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        if (!data || !data->d_buf)
            return false;
        *table = (struct symbol_table){elf, data->d_buf, data->d_size / sizeof(Elf64_Sym), header.sh_link};
        return true;
    }
    return false;
}

static uint64_t number_at(const void *number)
{
    return *(const uint64_t *)number;
}

static int compare_numbers(const void *number, const void *key)
{
    return vt_order(number_at(number), number_at(key));
}

/* Sets `wanted` to this address and all others of the module that are in stacks and have no name in the
 * trace. */
static void list_wanted(struct vt_debug_file *debug, const struct vt_trace *trace,
                        const struct vt_module_entry *module, uint64_t address)
{
    const struct vt_trace_tables *tables = trace->tables;
    struct vt_index known = {0};
    size_t capacity = debug->wanted_count;
    vt_index_put(&known, address, 1);
    for (int which = 0; which < TABLES; which++) {
        free(debug->found[which]);
        debug->found[which] = NULL;
    }
    debug->wanted_count = 0;
    VT_APPEND(debug->wanted, debug->wanted_count, capacity, address - 1 - module->base);
    for (size_t id = 0; id < trace->stack_count; id++)
        for (uint32_t i = 0; i < trace->stacks[id].native_count; i++) {
            const uint64_t native = trace->stacks[id].native[i];
            if (native < module->start_address || native >= module->end_address ||
                vt_index_get(&known, native) != VT_INDEX_NONE)
                continue;
            const uint32_t entry = vt_index_get(&tables->symbols, native);
            vt_index_put(&known, native, 1);
            if (entry == VT_INDEX_NONE || !tables->entries[entry]->symbol.linkage_name[0])
                VT_APPEND(debug->wanted, debug->wanted_count, capacity, native - 1 - module->base);
        }
    vt_index_free(&known);
    vt_sort_by_key(debug->wanted, debug->wanted_count, sizeof *debug->wanted, number_at);
}

/* Sets found[i] to the function that wanted[i] lies in: the nearest one below it, if that reaches so far. */
static void find_functions(const struct symbol_table *table, const uint64_t *wanted, size_t count,
                           const Elf64_Sym **found)
{
    enum { BUCKETS = 4096 };
    const uint64_t lowest = wanted[0], highest = wanted[count - 1];
    uint32_t starts[BUCKETS]; /* by address: the first wanted address there or above */
    unsigned shift = 0;
    size_t next = 0;
    while ((highest - lowest) >> shift >= BUCKETS)
        shift++;
    for (uint64_t b = 0; b < BUCKETS; b++) {
        while (next < count && (wanted[next] - lowest) >> shift < b)
            next++;
        starts[b] = (uint32_t)next;
    }
    for (size_t i = 0; i < table->count; i++) {
        const Elf64_Sym *symbol = &table->symbols[i];
        const uint64_t address = symbol->st_value;
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || address == 0 || address > highest)
            continue;
        size_t at = address > lowest ? starts[(address - lowest) >> shift] : 0;
        while (wanted[at] < address)
            at++;
        if (!found[at] || found[at]->st_value < address)
            found[at] = symbol;
    }
    for (size_t i = 1; i < count; i++)
        found[i] = found[i] ? found[i] : found[i - 1];
    for (size_t i = 0; i < count; i++)
        if (found[i] && wanted[i] - found[i]->st_value >= found[i]->st_size)
            found[i] = NULL;
}

static void find_names(struct vt_debug_file *debug, enum which_table which)
{
    struct symbol_table *table = &debug->tables[which];
    if (debug->found[which])
        return;
    debug->found[which] = vt_allocate_zeros(debug->wanted_count, sizeof(const Elf64_Sym *));
    if (!table->elf && !open_table(table, debug->elf, which == OWN ? SHT_SYMTAB : SHT_DYNSYM) && which == OWN)
        open_table(table, debug->separate_elf, SHT_SYMTAB);
    find_functions(table, debug->wanted, debug->wanted_count, debug->found[which]);
}

bool vt_debug_name(const struct vt_trace *trace, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address)
{
    struct vt_debug_file *debug = open_module(module);
    const uint64_t in_file = address - 1 - module->base;
    if (!debug)
        return false;
    size_t at = vt_lower_bound(debug->wanted, debug->wanted_count, sizeof in_file, &in_file, compare_numbers);
    if (at == debug->wanted_count || debug->wanted[at] != in_file) {
        list_wanted(debug, trace, module, address);
        at = vt_lower_bound(debug->wanted, debug->wanted_count, sizeof in_file, &in_file, compare_numbers);
    }
    for (enum which_table which = OWN; which <= (exported_too ? EXPORTED : OWN); which++) {
        find_names(debug, which);
        const Elf64_Sym *symbol = debug->found[which][at];
        const struct symbol_table *table = &debug->tables[which];
        const char *name = symbol ? elf_strptr(table->elf, table->strings, symbol->st_name) : NULL;
        if (!name || !*name)
            continue;
        *linkage_name = vt_arena_text(&trace->tables->arena, name, strlen(name));
        *symbol_address = module->base + symbol->st_value;
        return true;
    }
    return false;
}
