#include "trace/reloads.h"

#include <string.h>

#include "base/allocate.h"
#include "trace/symbols.h"
#include "trace/tables.h"

static uint64_t key_of(const struct vt_module_entry *module)
{
    const uint64_t path = vt_hash_bytes(module->path, strlen(module->path), VT_HASH_START);
    return vt_hash_bytes(module->build_id, module->build_id_bytes, path);
}

/* Sorted by address, so that those without a mark come first. */
static void find_first(const struct vt_trace_tables *tables, struct vt_index *first)
{
    for (uint32_t i = 0; i < tables->module_count; i++)
        if (tables->modules[i].build_id_bytes)
            vt_index_add(first, key_of(&tables->modules[i]), i);
}

/* Another library may lie in between where the first one was. */
static uint64_t first_address(const struct vt_trace *trace, const struct vt_index *first, uint64_t address)
{
    const struct vt_module_entry *module = vt_module_at(trace, address), *at;
    const uint32_t number =
        module && module->build_id_bytes ? vt_index_get(first, key_of(module)) : VT_INDEX_NONE;
    if (number == VT_INDEX_NONE)
        return address;
    const uint64_t moved = trace->tables->modules[number].base + (address - module->base);
    at = vt_module_at(trace, moved);
    return at && at->base == trace->tables->modules[number].base ? moved : address;
}

static void move_symbol(const struct vt_trace *trace, uint64_t from, uint64_t to)
{
    struct vt_trace_tables *tables = trace->tables;
    const uint32_t at = vt_index_get(&tables->symbols, from);
    if (at == VT_INDEX_NONE || vt_index_has(&tables->symbols, to))
        return;
    struct vt_trace_symbol *symbol = &tables->entries[at]->symbol;
    symbol->address = to;
    symbol->symbol_address += symbol->symbol_address ? to - from : 0;
    symbol->module_base += symbol->module_base ? to - from : 0;
    vt_index_put(&tables->symbols, to, at);
}

bool vt_reloads_join(struct vt_trace *trace)
{
    struct vt_index first = {0};
    bool any = false;
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        struct vt_trace_stack *stack = &trace->stacks[id];
        uint64_t *moved = NULL;
        for (uint32_t i = 0; i < stack->native_count; i++) {
            if (stack->native[i] <= VT_ADDRESS_MASK)
                continue;
            if (!any)
                find_first(trace->tables, &first);
            any = true;
            const uint64_t address = first_address(trace, &first, stack->native[i]);
            if (address == stack->native[i])
                continue;
            move_symbol(trace, stack->native[i], address);
            if (!moved) {
                moved = vt_arena_take(&trace->tables->arena, stack->native_count * sizeof *moved);
                memcpy(moved, stack->native, stack->native_count * sizeof *moved);
            }
            moved[i] = address;
        }
        stack->native = moved ? moved : stack->native;
    }
    vt_index_free(&first);
    return any;
}
