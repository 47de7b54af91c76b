/* Debug information of native frames, read from the module's own file if it is still the one that ran (same
 * build id). A file is opened when the first frame in it is needed. */
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/tables.h"

#define DEBUG_FOLDER "/usr/lib/debug/.build-id"

/* Functions of a symbol table, sorted into buckets by address: libraries have hundreds of thousands, of which
 * few are needed. */
struct functions {
    Elf *elf;
    const Elf64_Sym *symbols;
    size_t strings; /* section of the names */
    uint64_t lowest;
    unsigned shift;
    uint32_t *starts; /* of each bucket in `order`; one more than there are buckets */
    uint32_t *order;  /* indices of symbols */
};
#define BUCKETS 65536u

struct vt_debug_file {
    int file, separate_file;
    Elf *elf, *separate_elf;
    Dwarf *dwarf;
    struct functions own, exported;
    bool own_read, exported_read;
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
    free(debug->own.starts);
    free(debug->own.order);
    free(debug->exported.starts);
    free(debug->exported.order);
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
    /* a return address is behind the call, which is what has the line */
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

static bool is_function(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value != 0;
}

static uint32_t bucket_of(const struct functions *functions, uint64_t address)
{
    return (uint32_t)((address - functions->lowest) >> functions->shift);
}

static void sort_symbols(struct functions *functions, const Elf64_Sym *symbols, size_t count)
{
    uint64_t highest = 0;
    functions->lowest = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!is_function(&symbols[i]))
            continue;
        functions->lowest = symbols[i].st_value < functions->lowest ? symbols[i].st_value : functions->lowest;
        highest = symbols[i].st_value > highest ? symbols[i].st_value : highest;
    }
    functions->starts = calloc(BUCKETS + 2, sizeof *functions->starts);
    functions->order = malloc((count + 1) * sizeof *functions->order);
    if (highest == 0 || !functions->starts || !functions->order)
        return;
    while (((highest - functions->lowest) >> functions->shift) >= BUCKETS)
        functions->shift++;
    for (size_t i = 0; i < count; i++)
        if (is_function(&symbols[i]))
            functions->starts[bucket_of(functions, symbols[i].st_value) + 2]++;
    for (size_t b = 2; b < BUCKETS + 2; b++)
        functions->starts[b] += functions->starts[b - 1];
    for (uint32_t i = 0; i < count; i++)
        if (is_function(&symbols[i]))
            functions->order[functions->starts[bucket_of(functions, symbols[i].st_value) + 1]++] = i;
    functions->symbols = symbols;
}

static void read_symbol_table(struct functions *functions, Elf *elf, unsigned type)
{
    GElf_Ehdr file_header;
    if (!gelf_getehdr(elf, &file_header) || file_header.e_ident[EI_CLASS] != ELFCLASS64)
        return;
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != type)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        if (!data || !data->d_buf || data->d_size / sizeof(Elf64_Sym) >= UINT32_MAX)
            return;
        functions->elf = elf;
        functions->strings = header.sh_link;
        sort_symbols(functions, data->d_buf, data->d_size / sizeof(Elf64_Sym));
        return;
    }
}

static const Elf64_Sym *find_function(const struct functions *functions, uint64_t address)
{
    if (!functions->symbols || address < functions->lowest)
        return NULL;
    uint64_t bucket = (address - functions->lowest) >> functions->shift;
    const Elf64_Sym *nearest = NULL;
    for (uint64_t b = bucket < BUCKETS ? bucket + 1 : BUCKETS; b-- > 0 && !nearest;) {
        for (uint32_t i = functions->starts[b]; i < functions->starts[b + 1]; i++) {
            const Elf64_Sym *symbol = &functions->symbols[functions->order[i]];
            if (symbol->st_value <= address && (!nearest || symbol->st_value > nearest->st_value))
                nearest = symbol;
        }
    }
    return nearest && address - nearest->st_value < nearest->st_size ? nearest : NULL;
}

static bool name_in(const struct functions *functions, uint64_t address, struct vt_trace_tables *tables,
                    const char **linkage_name, uint64_t *start)
{
    const Elf64_Sym *symbol = find_function(functions, address);
    const char *name = symbol ? elf_strptr(functions->elf, functions->strings, symbol->st_name) : NULL;
    const char *copy = name && *name ? vt_arena_text(&tables->arena, name, strlen(name)) : NULL;
    if (!copy)
        return false;
    *linkage_name = copy;
    *start = symbol->st_value;
    return true;
}

bool vt_debug_name(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address)
{
    struct vt_debug_file *debug = open_module(module);
    uint64_t in_file = address - 1 - module->base, start;
    if (!debug)
        return false;
    if (!debug->own_read) {
        debug->own_read = true;
        read_symbol_table(&debug->own, debug->elf, SHT_SYMTAB);
        if (debug->separate_elf && !debug->own.symbols)
            read_symbol_table(&debug->own, debug->separate_elf, SHT_SYMTAB);
    }
    bool found = name_in(&debug->own, in_file, tables, linkage_name, &start);
    if (!found && exported_too) {
        if (!debug->exported_read)
            read_symbol_table(&debug->exported, debug->elf, SHT_DYNSYM);
        debug->exported_read = true;
        found = name_in(&debug->exported, in_file, tables, linkage_name, &start);
    }
    if (found)
        *symbol_address = module->base + start;
    return found;
}
