#include "trace/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "trace/debug_info.h"
#include "trace/redact.h"
#include "trace/tables.h"

/* From the C++ runtime library (libstdc++ or libc++abi), by the Itanium C++ ABI. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);
#define DEMANGLED_WITHOUT_MEMORY (-1) /* a status that it sets */

/* With back references (S<n>_) a mangled name of a few hundred bytes can demangle to terabytes. A reference
 * is to text that was complete before, so it is no longer than the name had become until its first use. */
#define DEMANGLED_BYTES_LIMIT (4u << 20)

static bool demangling_is_bounded(const char *mangled)
{
    uint64_t sizes[64] = {0}, bytes = 0;
    for (const char *at = mangled; *at; at++, bytes++) {
        if (*at != 'S' && *at != 'T')
            continue;
        unsigned id = 0;
        const char *digit = at + 1;
        for (; (*digit >= '0' && *digit <= '9') || (*digit >= 'A' && *digit <= 'Z'); digit++)
            id = id * 36 + (unsigned)(*digit >= 'A' ? *digit - 'A' + 10 : *digit - '0') + 1;
        if (*digit != '_' || digit - at > 3)
            continue;
        uint64_t *size = &sizes[(id * 2 + (*at == 'T')) % 64];
        if (*size == 0)
            *size = bytes + 8;
        bytes += *size;
        if (bytes > DEMANGLED_BYTES_LIMIT)
            return false;
        at = digit;
    }
    return true;
}

/* Length of the bracketed text at `text`, including both brackets. */
static size_t bracket_bytes(const char *text)
{
    int depth = 0;
    size_t at = 0;
    for (; text[at]; at++) {
        if (strchr("(<[{", text[at]))
            depth++;
        else if (strchr(")>]}", text[at]) && !(at > 0 && text[at] == '>' && text[at - 1] == '-') &&
                 --depth == 0)
            return at + 1;
    }
    return at;
}

/* Bytes of an operator's name at `text` ("operator()", "operator<<", "operator new"), 0 if it is none. */
static size_t operator_bytes(const char *text)
{
    if (strncmp(text, "operator", 8) != 0 || (text[8] && strchr("_", text[8])) ||
        (text[8] >= 'a' && text[8] <= 'z') || (text[8] >= 'A' && text[8] <= 'Z') ||
        (text[8] >= '0' && text[8] <= '9'))
        return 0;
    if (strncmp(text + 8, "()", 2) == 0)
        return 10;
    size_t bytes = 8 + strspn(text + 8, "<>=!+-*/%^&|~[],");
    if (text[8] == ' ') {
        bytes = 9 + strcspn(text + 9, "(<");
    } else if (bytes > 9 && text[bytes] != '(' && text[bytes - 1] == '>') {
        bytes = 9; /* operator<…: these are template arguments, not part of the operator */
    }
    return bytes;
}

void vt_shorten_function(const char *full, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (const char *at = full; *at && used + 1 < out_bytes;) {
        size_t name = operator_bytes(at);
        if (name && (at == full || !strchr("_", at[-1]))) {
            for (size_t i = 0; i < name && used + 1 < out_bytes; i++)
                out[used++] = at[i];
            at += name;
            at += strncmp(at, " <", 2) == 0; /* "operator<< <char>" */
        } else if (strncmp(at, "(anonymous namespace)::", 23) == 0) {
            at += 23;
        } else if (strncmp(at, "{lambda", 7) == 0 && used + 9 < out_bytes) {
            used = (size_t)(stpcpy(out + used, "{lambda}") - out);
            at += bracket_bytes(at);
        } else if (*at == '<') {
            at += bracket_bytes(at);
        } else if (*at == '(' || *at == '[') {
            const char *after = at + bracket_bytes(at);
            if (strncmp(after, " const::", 8) == 0)
                after += 6;
            if (strncmp(after, "::", 2) != 0 && (used < 8 || memcmp(out + used - 8, "decltype", 8) != 0))
                break; /* the function's own arguments, or the mark of a clone or ABI: the name is complete */
            at = after;
        } else if (*at == ' ') {
            used = 0; /* the text before was the return type */
            at++;
        } else {
            out[used++] = *at++;
        }
    }
    out[used] = '\0';
    if (used == 0 && out_bytes > 0)
        snprintf(out, out_bytes, "%s", full);
}

/* For templates that are too long to demangle: the nested name up to its first template argument. */
static bool leading_names(const char *mangled, char *out, size_t out_bytes)
{
    const char *at = strncmp(mangled, "_ZN", 3) == 0 ? mangled + 3 : mangled + 2;
    size_t used = 0;
    at += strspn(at, "KVr");
    while (*at >= '1' && *at <= '9') {
        char *name;
        unsigned long bytes = strtoul(at, &name, 10);
        if (bytes > strlen(name) || used + bytes + 3 > out_bytes)
            break;
        if (bytes >= 10 && strncmp(name, "_GLOBAL__N", 10) == 0) {
            at = name + bytes;
            continue;
        }
        if (used)
            used = (size_t)(stpcpy(out + used, "::") - out);
        memcpy(out + used, name, bytes);
        used += bytes;
        at = name + bytes;
    }
    out[used] = '\0';
    return used > 0;
}

static void name_symbol(struct vt_trace_tables *tables, struct vt_symbol_entry *entry)
{
    struct vt_trace_symbol *symbol = &entry->symbol;
    char shortened[256];
    entry->named = true;
    symbol->name = symbol->short_name = symbol->linkage_name;
    if (strncmp(symbol->linkage_name, "_Z", 2) != 0)
        return;
    int status = 0;
    char *full = demangling_is_bounded(symbol->linkage_name)
                     ? __cxa_demangle(symbol->linkage_name, NULL, NULL, &status)
                     : NULL;
    if (status == DEMANGLED_WITHOUT_MEMORY)
        vt_end_out_of_memory();
    if (full) {
        symbol->name = vt_arena_text(&tables->arena, full, strlen(full));
        vt_shorten_function(full, shortened, sizeof shortened);
        free(full);
    } else if (!leading_names(symbol->linkage_name, shortened, sizeof shortened)) {
        return;
    }
    symbol->short_name = vt_arena_text(&tables->arena, shortened, strlen(shortened));
}

void vt_symbol_add(struct vt_trace *trace, uint64_t address, uint64_t symbol_address, uint64_t module_base,
                   const char *linkage_name)
{
    struct vt_trace_tables *tables = trace->tables;
    struct vt_symbol_entry *entry = vt_arena_take(&tables->arena, sizeof *entry);
    *entry = (struct vt_symbol_entry){.symbol = {.address = address,
                                                 .linkage_name = linkage_name,
                                                 .module = "",
                                                 .symbol_address = symbol_address,
                                                 .module_base = module_base}};
    VT_APPEND(tables->entries, tables->entry_count, tables->entry_capacity, entry);
    vt_index_put(&tables->symbols, address, (uint32_t)tables->entry_count - 1);
}

/* For vt_lower_bound: finds the first module that begins above the address. */
static int compare_start(const void *module, const void *address)
{
    return ((const struct vt_module_entry *)module)->start_address <= *(const uint64_t *)address ? -1 : 1;
}

struct vt_module_entry *vt_module_at(const struct vt_trace *trace, uint64_t address)
{
    const struct vt_trace_tables *tables = trace->tables;
    size_t after = vt_lower_bound(tables->modules, tables->module_count, sizeof *tables->modules, &address,
                                  compare_start);
    /* Where a module was unloaded and others loaded, several may begin below the address. */
    for (size_t i = after; i > 0 && i + 8 > after; i--)
        if (address < tables->modules[i - 1].end_address)
            return &tables->modules[i - 1];
    return NULL;
}

static bool refine_name(const struct vt_trace *trace, struct vt_symbol_entry *entry,
                        struct vt_module_entry *module, bool exported_too)
{
    return vt_debug_name(trace, module, entry->symbol.address, exported_too, &entry->symbol.linkage_name,
                         &entry->symbol.symbol_address);
}

struct vt_symbol_entry *vt_symbol_entry(const struct vt_trace *trace, uint64_t address)
{
    struct vt_trace_tables *tables = trace->tables;
    uint32_t at = vt_index_get(&tables->symbols, address);
    struct vt_module_entry *module = NULL;
    bool recorded = at != VT_INDEX_NONE;
    if (!recorded) { /* the process died before the recorder looked it up */
        module = vt_module_at(trace, address);
        if (!module)
            return NULL;
        vt_symbol_add((struct vt_trace *)trace, address, 0, module->base, "");
        at = vt_index_get(&tables->symbols, address);
    }
    struct vt_symbol_entry *entry = tables->entries[at];
    if (entry->named)
        return entry;
    if (!module)
        module = vt_module_at(trace, address);
    if (module) {
        entry->symbol.module = vt_redact_path(&tables->arena, module->path);
        if (entry->symbol.module_base == 0)
            entry->symbol.module_base = module->base;
        if (!recorded)
            refine_name(trace, entry, module, true);
    }
    name_symbol(tables, entry);
    return entry;
}

/* The recorder used dladdr, which has no names of static functions. Rules use only names from the trace, so
 * that their result does not depend on this machine; what is shown may have names from here. */
void vt_symbol_refine(const struct vt_trace *trace, struct vt_symbol_entry *entry)
{
    if (entry->refined)
        return;
    entry->refined = true;
    entry->file = "";
    struct vt_module_entry *module = vt_module_at(trace, entry->symbol.address);
    if (!module)
        return;
    if (entry->symbol.linkage_name[0] == '\0' && refine_name(trace, entry, module, false))
        name_symbol(trace->tables, entry);
    vt_debug_locate(trace->tables, module, entry->symbol.address, &entry->file, &entry->line);
}

const struct vt_trace_symbol *vt_trace_symbol(const struct vt_trace *trace, uint64_t address)
{
    const struct vt_symbol_entry *entry = vt_symbol_entry(trace, address);
    return entry ? &entry->symbol : NULL;
}
